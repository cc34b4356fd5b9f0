"""Tables without declared limits: whatever noisy counts a search returns, the rest is planned.

A fault there comes after the search was charged. Counts are made up, and no engine is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from dpsql.compiler.calibrate.poll_queries import places
from dpsql.compiler.plan.measurement_kinds import Vote
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm, Poll
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Budget, Mechanism, Noise
from dpsql.preparation import contribution_bounds
from dpsql.preparation.prepare import KnownSteps, prepare
from grammar_tests.bound import unlimited
from grammar_tests.casefile import Case
from grammar_tests.laws import BUDGET, parsed
from grammar_tests.test_laws import ACCEPTED

NOISE = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5))
PURE = Budget("pure", Decimal(1000), Decimal(0), accountant="pure")
STEPS = 3
"""Most searches of one question, one after another."""

Counts = Callable[[int, int], int]
"""Noisy count of a place, of so many places."""
COUNTS: dict[str, Counts] = {
    "nothing": lambda _place, _places: 0,
    "below nothing": lambda _place, _places: -7,
    "the first": lambda place, _places: 1000 * (place == 0),
    "the last": lambda place, places: 1000 * (place == places - 1),
    "the middle": lambda place, places: 500 * (place in (places // 2, places // 2 + 1)),
}

STATEMENTS = (
    "SELECT MODE(status) FROM orders",
    "SELECT MIN(quantity), MODE(quantity) FROM orders",
    "SELECT HOUR(placed_at) AS h, MODE(status) FILTER (WHERE quantity > 2) FROM orders GROUP BY h",
    "SELECT AVG(0) FROM orders",
    (
        "SELECT status, AVG(quantity), VAR_POP(quantity) FROM orders WHERE quantity = 0"
        " GROUP BY status"
    ),
    "SELECT AVG(CASE WHEN quantity > 3 THEN 0 END) FROM orders",
    "SELECT CORR(0, quantity), SUM(amount) / COUNT(*) FROM orders",
    "SELECT MEDIAN(quantity), MAX(status), COUNT(DISTINCT note) FROM orders",
    "SELECT status FROM orders GROUP BY status ORDER BY SUM(amount) DESC LIMIT 1",
)


def searches(sql: str, budget: Budget, counts: Counts, dialect: str = "duckdb") -> int:
    """Plan a question through all of its searches; return how many there were."""
    policy, engine = unlimited()
    known = dict[str, FoundNorm]()
    for step in range(STEPS + 1):
        public = engine.public
        plan = prepare(
            parsed(sql, dialect),
            policy,
            budget,
            Fraction(1),
            public,
            public.evaluate,
            KnownSteps(known),
        )
        if not plan.polls:
            return step
        norms = contribution_bounds.norms_of(plan, [_held(poll, counts) for poll in plan.polls])
        known |= {norm.key: norm for norm in norms}
    raise AssertionError(known)


def _held(poll: Poll, counts: Counts) -> Any:
    """A search whose answer has these counts."""
    names = places(poll)
    rows = [(0, name, counts(place, len(names))) for place, name in enumerate(names)]
    paid = SimpleNamespace(blocks=[SimpleNamespace(releases=[SimpleNamespace(noise=NOISE)])])
    return (poll.key,), paid, SimpleNamespace(rows=rows)


SLOW = pytest.mark.full("many searches, one after another")
"""What these ask for is asked for by the others too."""


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(sql, marks=SLOW if "VAR_POP" in sql or "CORR" in sql else ())
        for sql in STATEMENTS
    ],
)
def test_what_was_searched_for_is_planned(sql: str) -> None:
    for budget in (BUDGET, PURE):
        assert all(searches(sql, budget, counts) for counts in COUNTS.values())


def test_wrong_twin_only_quantiles_have_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search of a mode was paid for, and then the question failed."""
    law = contribution_bounds._law

    def of_quantiles(widest: Prepared, poll: Poll, vote: Vote) -> Any:
        choices = (choice for block in widest.blocks for choice in block.choices)
        if poll.column is None and all(choice.expected is None for choice in choices):
            raise LookupError(poll)
        return law(widest, poll, vote)

    monkeypatch.setattr(contribution_bounds, "_law", of_quantiles)
    with pytest.raises(LookupError):
        searches(STATEMENTS[0], BUDGET, COUNTS["nothing"])


def parts(count: int) -> list[Any]:
    """Parts of the cases: one in the full tier, all of them in a campaign."""
    first = pytest.param(0, marks=pytest.mark.full("hundreds of statements"))
    return [first, *(pytest.param(n, marks=pytest.mark.campaign) for n in range(1, count))]


@pytest.mark.parametrize("part", parts(40))
def test_every_case_is_planned_through_its_searches(part: int) -> None:
    searched = 0
    for case in ACCEPTED[part::40]:
        searched += case.catalog == "shop" and _searches_of(case)
    assert searched > len(COUNTS)


def _searches_of(case: Case) -> int:
    try:
        dialect = dict(case.settings).get("dialect", "duckdb")
        return sum(searches(case.sql, BUDGET, counts, dialect) for counts in COUNTS.values())
    except Refused:
        return 0
