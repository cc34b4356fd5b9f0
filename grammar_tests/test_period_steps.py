"""Questions of several statements about people in periods: where each is charged (R103)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dpsql.preparation import private_bounds
from grammar_tests.period_worlds import BLOCKS
from grammar_tests.proxy_kit import request
from grammar_tests.test_period_budgets import edited, opened
from grammar_tests.test_period_budgets import folder as folder  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import Clock
from grammar_tests.test_renewals import clock as clock  # noqa: PLC0414 - a fixture

Patch = pytest.MonkeyPatch
IN_JANUARY = "seen >= '2024-01-01' AND seen < '2024-02-01'"
IN_MARCH = "seen >= '2024-03-01' AND seen < '2024-04-01'"
MEAN = "SELECT AVG(minutes) FROM events"
ABOVE = f"SELECT COUNT(*) AS n FROM events WHERE {IN_JANUARY} AND minutes > ({MEAN} WHERE"
PRIVATE = "{ bounds = [-60, 60] }", "{ private_bounds = true }"
NO_LIMITS = "max_rows_per_unit = 20\nmax_groups_per_unit = 1\nmax_rows_per_group = 20\n", ""
JANUARY, MARCH, KNOWN = ("2024-01",), ("2024-03",), (*BLOCKS[:3], BLOCKS[4])


def steps(folder: Path, clock: Clock, sql: str, *changes: tuple[str, str]) -> list[Sequence[str]]:
    """The periods of each charge of a question: their sums are those of its receipt and plan."""
    edited(folder, *changes)
    with opened(folder, clock) as proxy:
        plan = proxy.explain(request(sql))
        assert plan.periods is not None
        receipt = proxy.ask(request(sql)).receipt
        assert receipt is not None
        price = receipt.charged.amount
        assert price == plan.charge.amount
        for each in proxy.standings():
            assert each.spent.amount == price * (each.window in plan.periods.names)
        again = proxy.ask(request(sql)).receipt
        assert again is not None
        assert again.remembered
        assert proxy.ledger.verify()
        return [entry.periods for entry in proxy.ledger.history()]


SUM = "SELECT SUM(minutes) AS n FROM events"


@pytest.mark.full("a proxy for each item")
@pytest.mark.parametrize(
    ("sql", "changes", "periods"),
    [
        (f"{SUM} WHERE {IN_JANUARY}", (PRIVATE,), [JANUARY] * 2),
        (f"{SUM} WHERE seen IS NOT NULL", (PRIVATE,), [KNOWN] * 2),
        (SUM, (PRIVATE,), [BLOCKS] * 2),
        (f"{SUM} WHERE {IN_MARCH}", (NO_LIMITS,), [MARCH] * 2),
        (f"SELECT place, COUNT(*) AS n FROM events WHERE {IN_JANUARY} GROUP BY place",
         (NO_LIMITS,), [JANUARY] * 3),
        (f"{ABOVE} {IN_JANUARY})", (), [JANUARY]),
        (f"{ABOVE} {IN_MARCH})", (), [(*JANUARY, *MARCH)]),
    ],
)  # fmt: skip
def test_each_step_is_charged_to_the_periods_of_its_question(
    folder: Path,
    clock: Clock,
    sql: str,
    changes: Sequence[tuple[str, str]],
    periods: list[Sequence[str]],
) -> None:
    assert steps(folder, clock, sql, *changes) == periods


@pytest.mark.full("a proxy")
def test_a_search_of_bounds_in_all_periods_is_found(
    folder: Path, clock: Clock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(private_bounds, "_within", lambda *_: "")
    with pytest.raises(AssertionError):
        steps(folder, clock, f"{SUM} WHERE seen IS NOT NULL", PRIVATE)
