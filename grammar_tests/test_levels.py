"""Totals that equal their parts across groupings: which do, and the errors that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import hypot
from pathlib import Path

import numpy as np
import pytest

from dpsql.compiler.aggregates.formulas import evaluate
from dpsql.compiler.calibrate import calibrate
from dpsql.compiler.errors.noisy_columns import NoiseOfBlock
from dpsql.compiler.errors.outputs import by_row
from dpsql.compiler.plan.private_plan import PrivatePlan
from dpsql.mechanisms import standard_deviation
from dpsql.model.algebra import Released
from dpsql.model.vocabulary import Loss, Mechanism, Noisy
from dpsql.model.walk import relations
from dpsql.proxy import Proxy
from dpsql.release.consistent_tables import consistent_tables
from dpsql.release.finish import finish
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled, noiseless_blocks
from grammar_tests.proxy_kit import request
from grammar_tests.proxy_kit import shop as make_shop
from grammar_tests.test_finish import RECEIPT, crowd

ROUNDS = 400

AGREE = {
    "a union of levels": (
        "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"
        " UNION ALL SELECT 'all', COUNT(*) FROM customers"
    ),
    "groupings without the finest": (
        "SELECT segment, vip, COUNT(*) AS n FROM customers"
        " GROUP BY GROUPING SETS ((segment), (vip), ())"
    ),
    "means by ROLLUP": (
        "SELECT segment, vip, AVG(age) FROM customers GROUP BY ROLLUP (segment, vip)"
    ),
    "a total beside groups": (
        "SELECT segment, COUNT(*) AS n, (SELECT COUNT(*) FROM customers) AS t"
        " FROM customers GROUP BY segment"
    ),
    "rows of a CTE at two levels": (
        "WITH c AS (SELECT * FROM customers WHERE age > 30 AND vip)"
        " SELECT segment, COUNT(*) AS n FROM c GROUP BY 1 UNION ALL SELECT 'all', COUNT(*) FROM c"
    ),
    "conditions in another order": (
        "SELECT segment, SUM(age) AS n FROM customers WHERE vip AND age > 30 GROUP BY 1"
        " UNION ALL SELECT 'all', SUM(age) FROM customers WHERE age > 30 AND vip"
    ),
}
APART = {
    "other rows": (
        "SELECT segment, COUNT(*) AS n FROM customers WHERE vip GROUP BY segment"
        " UNION ALL SELECT 'all', COUNT(*) FROM customers"
    ),
    "other measurements": (
        "SELECT segment, SUM(age) AS n FROM customers GROUP BY segment"
        " UNION ALL SELECT 'all', SUM(income) FROM customers"
    ),
    "private keys": "SELECT city, COUNT(*) AS n FROM customers GROUP BY ROLLUP (city)",
    "clipped rows": (
        "SELECT status, COUNT(*) AS n FROM orders GROUP BY status"
        " UNION ALL SELECT 'paid', COUNT(*) FROM orders"
    ),
    "one grouping": "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment",
    "a total that rows are compared with": (
        "SELECT segment, COUNT(*) AS n, (SELECT SUM(age) FROM customers) AS s FROM customers"
        " WHERE age > (SELECT SUM(age) / 1000 FROM customers) GROUP BY segment"
    ),
}


@pytest.mark.parametrize("what", AGREE)
def test_tables_of_the_same_rows_agree(what: str) -> None:
    prepared = compiled(AGREE[what], *shop())
    assert prepared.plan is not None
    (levels,) = prepared.plan.levels
    assert len(levels.tables) == len(prepared.plan.blocks) > 1


@pytest.mark.parametrize("what", APART)
def test_tables_without_a_common_total_are_left_alone(what: str) -> None:
    prepared = compiled(APART[what], *shop())
    assert prepared.plan is not None
    assert prepared.plan.levels == ()


SHOWN = {
    "a cell": "a.n",
    "a total": "t.n",
    "a cell of another grouping": "b.n",
    "a share": "1e2 * a.n / t.n",
    "the rest": "t.n - a.n",
    "cells of two groupings": "a.n + b.n",
    "a sum": "a.s",
    "a mean": "a.s / a.n",
    "a difference of means": "a.s / a.n - t.s / t.n",
    "other rows": "o.n",
    "with other rows": "a.n + o.n",
}
SQL = (
    "WITH c AS (SELECT * FROM customers WHERE age > 30),"
    " a AS (SELECT segment, COUNT(*) AS n, SUM(age) AS s FROM c GROUP BY 1),"
    " b AS (SELECT vip, COUNT(*) AS n FROM c GROUP BY 1),"
    " t AS (SELECT COUNT(*) AS n, SUM(age) AS s FROM c),"
    " o AS (SELECT COUNT(*) AS n FROM customers WHERE age <= 30)"
    f" SELECT {', '.join(SHOWN.values())} FROM a, b, t, o WHERE segment = 'consumer' AND vip"
)
CELLS = {0: ("consumer",), 1: (True,), 2: (), 3: ()}
"""The row that the query shows, as cells of its blocks."""


def noised(exact: Sequence[Noisy], plan: PrivatePlan, dice: np.random.Generator) -> list[Noisy]:
    """Noise of the right deviations, the same in every run."""
    found = []
    for block, table in zip(plan.blocks, exact, strict=True):
        shape = len(table.keys), len(block.releases)
        deviations = [standard_deviation(release.noise) for release in block.releases]
        if block.releases[0].noise.mechanism is Mechanism.DISCRETE_LAPLACE:
            noise = dice.laplace(0, 2**-0.5, shape) * deviations
        else:
            noise = dice.normal(0, 1, shape) * deviations
        moved = np.array(table.parts) + np.rint(noise).astype(int)
        found.append(Noisy(table.keys, tuple(map(tuple, moved.tolist()))))
    return found


def outputs(plan: PrivatePlan, noisy: Sequence[Noisy]) -> list[float]:
    """The outputs in the row that is shown, computed from these tables without an engine."""
    values = {}
    for relation in relations(plan.outer):
        if isinstance(relation, Released):
            block, table = plan.blocks[relation.block], noisy[relation.block]
            row = table.parts[table.keys.index(CELLS[relation.block])]
            columns = relation.fields[len(CELLS[relation.block]) :]
            for field, value, release in zip(columns, row, block.releases, strict=True):
                values[field.id] = float((value or 0) * release.query.released.step)
    meaning = by_row(plan.outer)
    return [evaluate(meaning[field.id], values) or 0.0 for field in plan.outer.fields]


@cache
def covered(accountant: str) -> tuple[dict[str, float], dict[str, float]]:
    """The share of rounds in which the interval of each output holds the truth.

    Then the same where the tables are not made to agree.
    """
    policy, engine = crowd(constraints=True)
    delta = Decimal(0) if accountant == "pure" else BUDGET.query_delta
    budget = replace(BUDGET, accountant=accountant, query_delta=delta)
    prepared = compiled(SQL, policy, engine, budget=budget, epsilon=Fraction(1, 4))
    plan, exact = prepared.plan, noiseless_blocks(prepared, engine)
    assert plan is not None
    true, generator = np.array(outputs(plan, exact)), np.random.default_rng(7)
    first = noised(exact, plan, generator)
    answer = finish(plan, prepared.rewritten, first, engine.rows, engine.scratch, RECEIPT)
    shown = [float(value) for value in answer.rows[0]]  # counts perhaps rounded
    assert shown == pytest.approx(outputs(plan, consistent_tables(plan, first)), abs=0.5)
    margins = np.array(answer.margins[0], dtype=float)
    inside = np.zeros((2, len(true)))
    for _ in range(ROUNDS):
        noisy = noised(exact, plan, generator)
        for n, tables in enumerate((consistent_tables(plan, noisy), noisy)):
            inside[n] += np.abs(outputs(plan, tables) - true) <= margins
    with_, without = (dict(zip(SHOWN, row / ROUNDS, strict=True)) for row in inside)
    return with_, without


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_intervals_cover(accountant: str) -> None:
    """Of Laplace's noise more than 95 %: what is an average of several has shorter tails."""
    found, _ = covered(accountant)
    most = 0.97 if accountant == "zcdp" else 0.99
    assert all(0.92 <= share <= 0.985 for share in found.values()), found
    assert 0.93 <= sum(found.values()) / len(found) <= most


@pytest.mark.full("draws random questions or values")
def test_errors_are_those_of_what_agrees() -> None:
    prepared = compiled(SQL, *shop())
    expected = dict(zip(SHOWN, prepared.rewritten.expected, strict=True))
    one, other, both = (expected[what] for what in ("a cell", "other rows", "with other rows"))
    assert one is not None
    assert other is not None
    assert both == pytest.approx(hypot(one, other))
    together, apart = covered("zcdp")
    for what in ("a cell", "a total"):
        assert apart[what] < min(0.93, together[what] - 0.02)


BESIDE = (
    "SELECT {0} AS k, COUNT(*) AS n, (SELECT COUNT(*) FROM customers) AS t"
    " FROM customers GROUP BY k"
)


def shares_and_errors(key: str, accountant: str) -> tuple[list[float], list[float]]:
    """What groups and their total get of the budget, and what is expected of their errors."""
    delta = Decimal(0) if accountant == "pure" else BUDGET.query_delta
    budget = replace(BUDGET, accountant=accountant, query_delta=delta)
    prepared = compiled(BESIDE.format(key), *shop(), budget=budget)
    assert prepared.plan is not None
    assert sum(prepared.plan.shares) <= 1
    expected = [error for error in prepared.rewritten.expected if error is not None]
    return [float(share) for share in prepared.plan.shares], expected


@pytest.mark.parametrize(
    ("key", "cells"), [("segment", 2), ("country", 3), ("EXTRACT(dow FROM joined)", 7)]
)
def test_a_total_of_few_cells_is_left_to_them_where_amounts_are_epsilons(
    key: str, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By public numbers of cells: all errs less than where each has half, which is the twin."""
    (_, share), errors = shares_and_errors(key, "pure")
    assert (share < 0.01) is (cells < 6)
    halves, _ = shares_and_errors(key, "zcdp")
    assert halves == [0.5, 0.5]
    monkeypatch.setattr(calibrate, "with_levels", lambda shares, *_: list(shares))
    even, before = shares_and_errors(key, "pure")
    assert even == [0.5, 0.5]
    ratios = [one / other for one, other in zip(errors, before, strict=True)]
    assert max(ratios) < (1 if cells < 6 else 1.001)
    assert (min(ratios) < 0.65) is (cells < 6)


MEANS = "SELECT segment, AVG(age) AS age FROM customers GROUP BY ROLLUP (segment)"


def means_covered(accountant: str, draws: int = 200) -> float:
    """Share of the means at two levels whose interval holds the plain mean."""
    policy, engine = crowd(constraints=True)
    delta = Decimal(0) if accountant == "pure" else BUDGET.query_delta
    budget = replace(BUDGET, accountant=accountant, query_delta=delta)
    prepared = compiled(MEANS, policy, engine, budget=budget, epsilon=Fraction(1, 4))
    plan, exact = prepared.plan, noiseless_blocks(prepared, engine)
    assert plan is not None
    plain = dict(engine.connection.execute(MEANS).fetchall())
    dice, inside = np.random.default_rng(11), []
    for _ in range(draws):
        noisy = noised(exact, plan, dice)
        answer = finish(plan, prepared.rewritten, noisy, engine.rows, engine.scratch, RECEIPT)
        for (segment, mean), (_, margin) in zip(answer.rows, answer.margins, strict=True):
            inside.append(bool(abs(mean - plain[segment]) <= (margin or 0)))
    return sum(inside) / len(inside)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(
    "accountant",
    ["zcdp", *(pytest.param(each, marks=pytest.mark.campaign) for each in ("pure", "approximate"))],
)
def test_means_at_two_levels_hold_the_plain_means(accountant: str) -> None:
    assert means_covered(accountant) >= 0.93


def test_means_drawn_by_the_noise_before_agreement_would_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NoiseOfBlock, "shown_deviations", property(lambda self: self.deviations))
    assert means_covered("pure", draws=40) < 0.8


UNION = AGREE["a union of levels"]


@pytest.mark.full("draws random questions or values")
def test_a_remembered_answer_agrees_as_it_was_told(tmp_path: Path) -> None:
    path = make_shop(tmp_path)
    with Proxy.open(str(path)) as proxy:
        told = proxy.ask(request(UNION))
        *parts, (_, total) = [(row[0], row[1]) for row in told.rows]
        assert sum(n for _, n in parts) == total
    with Proxy.open(str(path)) as proxy:
        again = proxy.ask(request(UNION))
        assert (again.rows, again.errors) == (told.rows, told.errors)
        assert again.receipt is not None
        assert again.receipt.charged == Loss(0)
        one = proxy.ask(request("SELECT 'all', COUNT(*) FROM customers"))  # a question of its own
        assert one.receipt is not None
        assert one.receipt.charged.amount > 0


@pytest.mark.full("draws random questions or values")
def test_explain_says_what_agrees_and_what_cannot(tmp_path: Path) -> None:
    with Proxy.open(str(make_shop(tmp_path))) as proxy:
        (note,) = proxy.explain(request(UNION)).notes
        assert note.startswith("release_0, release_1 measure the same rows")
        (note,) = proxy.explain(request(APART["private keys"])).notes
        assert note.startswith("release_0 shows private keys")
        assert proxy.explain(request(APART["one grouping"])).notes == ()
        assert proxy.explain(request(APART["other rows"])).notes == ()
