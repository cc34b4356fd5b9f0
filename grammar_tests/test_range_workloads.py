"""Ranges of one value as one workload: what it loses, how it errs, and which way is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from math import sqrt

import numpy as np
import pytest

from dpsql import accountants
from dpsql.compiler.calibrate.range_workloads import End, Run, best_levels, decomposed, variance
from dpsql.compiler.plan.measurement_kinds import RowCount
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.model.tree import BOOLEAN, Expression, scalar
from dpsql.model.vocabulary import Budget, Event, Mechanism, Neighbours, NoiseEvent
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.laws import BUDGET, PlainEngine, compiled, noiseless, same_rows
from grammar_tests.test_agreement import answered

Range = tuple[int | None, int | None]

NESTED: tuple[tuple[int, int], ...] = tuple(
    (low, high) for low in range(0, 60, 6) for high in range(low + 5, 60, 6)
)
"""All ranges over ten cells of six years, which under ρ err less by a tree."""
SLIDING: tuple[tuple[int, int], ...] = tuple((low, low + 59) for low in range(0, 60, 2))
"""Ranges of thirty cells of two years each, which under ε do too."""
IN_TREES = {"zcdp": NESTED, "pure": SLIDING}
FEW: tuple[Range, ...] = ((0, 17), (18, 39), (40, 64), (18, 64), (65, None))


def listed(ranges: Sequence[Range]) -> str:
    pairs = ", ".join(f"[{'NULL' if a is None else a}, {'NULL' if b is None else b}]"
                      for a, b in ranges)  # fmt: skip
    return f"SELECT WITHIN_RANGES(age, [{pairs}]) FROM customers"


def written_out(ranges: Sequence[Range]) -> str:
    """The same as people write it."""
    conditions = (
        f"age <= {b}" if a is None else f"age >= {a}" if b is None else f"age BETWEEN {a} AND {b}"
        for a, b in ranges
    )
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {c}) AS n{n}" for n, c in enumerate(conditions))
    return f"SELECT {counts} FROM customers"


@cache
def planned(sql: str, accountant: str = "zcdp") -> Prepared:
    return compiled(sql, *shop(), budget=budget(accountant))


def budget(accountant: str) -> Budget:
    delta = Decimal(0) if accountant == "pure" else BUDGET.query_delta
    return replace(BUDGET, accountant=accountant, query_delta=delta)


def block_of(prepared: Prepared) -> BlockPlan:
    assert prepared.plan is not None
    (block,) = prepared.plan.blocks
    return block


def charges(prepared: Prepared) -> list[int]:
    return [len(payment.columns) for payment in block_of(prepared).payments]


# --- which way -----------------------------------------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
def test_disjoint_ranges_are_cells_and_many_that_overlap_a_tree() -> None:
    disjoint = listed([(0, 17), (18, 64), (65, 120)])
    assert charges(planned(disjoint)) == charges(planned(disjoint, "pure")) == [3]
    assert charges(planned(listed(FEW), "pure")) == [4]
    assert charges(planned(listed(((0, 30), (10, 50))))) == [1, 1]
    (strategy,) = block_of(planned(listed(NESTED))).ranges
    assert charges(planned(listed(NESTED))) == list(strategy.nodes)
    assert len(strategy.nodes) > 1
    taken, by_cells, alone = strategy.errors
    assert taken < by_cells < alone


def test_the_way_with_the_least_summed_variance_is_taken() -> None:
    """Against all levels that could be: every tree over few cells, and the other two ways."""
    generator = np.random.default_rng(5)
    for order in (1, 2):
        for _ in range(6):
            ends = np.sort(generator.integers(0, 13, (9, 2)), axis=1)
            runs = [(int(a), int(b)) for a, b in ends if a < b]
            levels, (taken, by_cells, alone) = best_levels(runs, 12, order)
            assert by_cells == pytest.approx(sqrt(np.mean([b - a for a, b in runs])))
            assert alone == pytest.approx(sqrt(len(runs) ** order))
            trees = [tree for width in (2, 3, 4, 5, 6) for tree in _all_levels(width)]
            best = min(sqrt(variance(tree, runs, order) / len(runs)) for tree in trees)
            assert taken <= min(best, by_cells, alone) * (1 + 1e-9)
            if len(levels) > 1:
                assert taken == pytest.approx(sqrt(variance(levels, runs, order) / len(runs)))


def _all_levels(branching: int) -> list[tuple[tuple[Run, ...], ...]]:
    """Two levels over twelve cells, the upper one of this width."""
    cells = tuple((n, n + 1) for n in range(12))
    upper = tuple((n, min(n + branching, 12)) for n in range(0, 12, branching))
    return [(cells,), (tuple(node for node in upper if node not in cells), cells)]


@pytest.mark.full("opens a proxy for each item")
def test_what_is_known_beforehand_decides_and_no_row() -> None:
    nobody = compiled(listed(NESTED), *over(world.empty(), constraints=True))
    assert nobody.question == planned(listed(NESTED)).question
    assert charges(nobody) == charges(planned(listed(NESTED)))


@pytest.mark.full("opens a proxy for each item")
def test_a_list_is_what_it_stands_for() -> None:
    for ranges in (FEW, NESTED):
        short, long = planned(listed(ranges)), planned(written_out(ranges))
        assert short.question == long.question
        ours, errors = noiseless(long, shop()[1])
        assert same_rows(ours, errors, shop()[1].rows(written_out(ranges)))
    names = [column.name for column in planned(listed(FEW)).columns]
    assert names == ["age_0_17", "age_18_39", "age_40_64", "age_18_64", "age_from_65"]


def test_a_run_is_the_fewest_nodes() -> None:
    levels = (
        ((0, 4), (4, 8)),
        ((0, 2), (2, 4), (4, 6), (6, 8)),
        tuple((n, n + 1) for n in range(8)),
    )
    assert decomposed((1, 8), levels) == ((1, 2), (2, 4), (4, 8))
    assert decomposed((0, 8), levels) == ((0, 4), (4, 8))


# --- how it errs ---------------------------------------------------------------------------------


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_what_is_stated_is_how_ranges_vary_and_unions_are_sums(accountant: str) -> None:
    """Over 2,000 draws at once; the squares of 55 errors that depend on one another."""
    ranges = IN_TREES[accountant]
    _, prepared, answer = answered(written_out(ranges), accountant)
    (strategy,) = block_of(prepared).ranges
    values = np.array(answer.rows, dtype=float)
    stated = np.array(answer.errors[0], dtype=float)
    ratios = values.var(axis=0, ddof=1) / stated**2
    deviation = sqrt(2 / (len(values) - 1))
    assert np.abs(ratios - 1).max() < 5 * deviation + 0.01  # whole steps add a little
    assert sqrt(np.mean(stated**2)) == pytest.approx(strategy.errors[0], rel=0.02)
    assert not np.abs(values.var(axis=0) / (stated / 1.2) ** 2 - 1).max() < 5 * deviation + 0.01
    by = {pair: values[:, n] for n, pair in enumerate(ranges)}
    if ranges is NESTED:
        for (low, high), whole in by.items():
            for middle in range(low + 5, high, 6):
                assert (whole == by[low, middle] + by[middle + 1, high]).all()


# --- what it loses -------------------------------------------------------------------------------


@cache
def someone() -> PlainEngine:
    """A world of one customer, whose age changes."""
    engine = PlainEngine(world.build(world.empty(), constraints=False))
    engine.connection.execute(
        "INSERT INTO customers SELECT 1, 'NO', 'consumer', 'Oslo', 0, 1.0, TRUE,"
        " DATE '2021-01-01', '', ''"
    )
    return engine


def counted(block: BlockPlan, ages: Sequence[int | None]) -> np.ndarray:
    """What a person of each age adds to each measurement."""
    engine, sql, rows = someone(), DUCKDB.block(block), []
    for age in ages:
        engine.connection.execute("UPDATE customers SET age = ?", [age])
        exact = engine.aggregate(sql.sql, 0, sql.parts, 1)
        rows.append([int(part[0]) for part in exact.parts])
    return np.array(rows)


AGES = (0, 1, 2, 3, 5, 6, 11, 12, 29, 30, 31, 53, 54, 59, 60, 90, 119, None)


def lost(block: BlockPlan, neighbours: Neighbours) -> float:
    """The most ρ, or ε, that the draws lose on any two neighbours, by brute force."""
    moved = counted(block, AGES)
    if neighbours is Neighbours.REPLACE:
        moved = (moved[:, None] - moved[None, :]).reshape(-1, moved.shape[1])
    scales = np.array([float(release.noise.scale) for release in block.releases])
    gaussian = block.releases[0].noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
    losses = moved**2 / (2 * scales) if gaussian else np.abs(moved) / scales
    return float(losses.sum(axis=1).max())


def charged(block: BlockPlan, accountant: str, payments: int | None = None) -> float:
    """What is charged for so many of the payments."""
    parts = tuple(NoiseEvent(p.alone, p.sensitivity) for p in block.payments[:payments])
    return accountants.get(accountant).loss(Event(parts)).amount / 1e9


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_neighbours_lose_no_more_than_is_charged(accountant: str, neighbours: Neighbours) -> None:
    """With both wrong twins: a row in two cells of a level, and a level that nobody paid for."""
    policy, engine = over(world.empty(), constraints=True, neighbours=neighbours)
    sql = listed(IN_TREES[accountant])
    prepared = compiled(sql, policy, engine, budget=budget(accountant))
    block = block_of(prepared)
    assert prepared.plan is not None
    assert len(block.payments) > 1
    whole = charged(block, accountant)
    assert whole * 1e9 <= prepared.plan.loss.amount
    assert lost(block, neighbours) <= whole + 1e-9
    assert lost(block, neighbours) > charged(block, accountant, payments=len(block.payments) - 1)
    assert lost(twice(block), neighbours) > whole + 1e-6


def twice(block: BlockPlan) -> BlockPlan:
    """A wrong twin: of the level of cells the first also counts the rows of the second."""
    cells = max((payment.columns for payment in block.payments), key=len)
    first, second = (n for n, r in enumerate(block.releases) if r.field.id in cells[:2])
    releases = list(block.releases)
    query = releases[first].query
    assert isinstance(query, RowCount)
    wider = query.condition | releases[second].query.condition  # type: ignore[operator]
    releases[first] = replace(releases[first], query=RowCount(wider, query.total_upper))
    return replace(block, releases=tuple(releases))


ENDS = {
    "income": ("customers", [f"{n}e1" for n in range(11)]),
    "amount": ("orders", [f"{10 * n}.25" for n in range(11)]),
    "placed_at": ("orders", [f"TIMESTAMP '2024-03-{n + 1:02} 12:30:00'" for n in range(11)]),
}
"""Columns whose ends are told apart from what lies between them, each with ends of ranges."""


def at_the_ends(column: str, first: str, last: str) -> bool:
    """Whether ranges with these signs count, without noise, the rows that lie on their ends."""
    table, ends = ENDS[column]
    tables = {**world.empty(), "customers": [world.customer(n) for n in range(1, 12)]}
    tables["orders"] = [world.order(n, n, 0) for n in range(1, 12)]
    policy, engine = over(tables, constraints=True)
    for n, end in enumerate(ends, 1):
        own = f"UPDATE {table} SET {column} = {end} WHERE customer_id = {n}"
        engine.connection.execute(own)
    conditions = (
        f"{column} {first} {low} AND {column} {last} {high}"
        for n, low in enumerate(ends)
        for high in ends[n + 1 :]
    )
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {c}) AS n{n}" for n, c in enumerate(conditions))
    one = "(FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id) = 1)"
    sql = f"SELECT {counts} FROM {table if table == 'customers' else one} AS t"
    prepared = compiled(sql, policy, engine)
    assert any(block.ranges for block in prepared.blocks)
    return same_rows(*noiseless(prepared, engine), engine.rows(sql))


MORE = pytest.mark.full("further ends")


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("column", ENDS)
@pytest.mark.parametrize(
    ("first", "last"),
    [
        (">=", "<"),
        *(pytest.param(*ends, marks=MORE) for ends in [(">=", "<="), (">", "<"), (">", "<=")]),
    ],
)
def test_rows_on_the_ends_of_ranges_are_in_those_that_hold_them(
    column: str, first: str, last: str
) -> None:
    assert at_the_ends(column, first, last)


@pytest.mark.parametrize("column", ENDS)
def test_ends_that_belong_to_no_cell_are_seen(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def below(end: End, side: Expression) -> Expression:
        return scalar("lt", side, end.literal, kind=BOOLEAN)

    monkeypatch.setattr(End, "below", below)
    assert not at_the_ends(column, ">=", "<=")
