"""ARG_MAX of private rows: its scores are a distance, one person moves them by two, audits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import duckdb
import numpy as np
import pytest

from dpsql.compiler.aggregates.candidates import place_on
from dpsql.compiler.plan.lattices import WHOLE, Grid, Lattice
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.mechanisms.scores import HistogramCounts, Peak, candidates, distances
from dpsql.model.tree import (
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    Cast,
    Expression,
    Ref,
    SqlType,
    decimal,
    type_name,
)
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled
from grammar_tests.test_choices import refuted, replaced

COUNTRY = "SELECT ARG_MAX(country, age) FROM customers"
STATUS = "SELECT ARG_MIN(status, quantity) FROM orders"
VIP = "SELECT ARG_MAX(vip, CAST(income AS INTEGER)) FROM customers"
SEGMENT = "SELECT ARG_MIN(segment, age) FROM customers"
ALL = [COUNTRY, STATUS, VIP]
MOST = 3
"""Rows at a level, in what is computed for all tables."""


def is_peak(counts: np.ndarray, option: int, rows: int) -> bool:
    """Whether so many rows of this option reach a level above which no other has as many."""
    others = np.delete(counts, option, axis=0)
    return any(
        counts[option, level:].sum() >= rows and (others[:, level + 1 :].sum(axis=1) < rows).all()
        for level in range(counts.shape[1])
    )


def tables(options: int, levels: int) -> list[np.ndarray]:
    cells = options * levels
    listed = product(range(MOST + 1), repeat=cells)
    return [np.array(counts).reshape(options, levels) for counts in listed]


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(
    ("options", "levels", "rows"), [(2, 2, 1), (2, 2, 2), (2, 3, 1), (3, 1, 2)]
)
def test_scores_are_how_many_rows_must_come_or_go(options: int, levels: int, rows: int) -> None:
    """Against every table that has few rows."""
    every = tables(options, levels)
    peaks = [np.stack([t for t in every if is_peak(t, option, rows)]) for option in range(options)]
    for counts in Random(3).sample(every, 40):  # noqa: S311
        nearest = [int(np.abs(found - counts).sum(axis=(1, 2)).min()) for found in peaks]
        assert distances(counts, rows).tolist() == nearest


def behind_best(counts: np.ndarray) -> list[int]:
    """The naive score: how many rows are above the highest of an option."""
    highest = [max(np.flatnonzero(line), default=-1) for line in counts]
    return [int(counts[:, level + 1 :].sum()) for level in highest]


def most_moved(score: object) -> int:
    """The most by which one row changes the difference of two scores, over many tables."""
    assert callable(score)
    widest, chance = 0, Random(5)  # noqa: S311
    for _ in range(400):
        counts = np.array([[chance.randrange(4) for _ in range(4)] for _ in range(3)])
        more = counts.copy()
        more[chance.randrange(3), chance.randrange(4)] += 1
        moved = np.array(score(more)) - np.array(score(counts))
        widest = max(widest, int(moved.max() - moved.min()))
    return widest


@pytest.mark.parametrize("rows", [2, 5])
def test_one_row_moves_differences_by_two_and_no_more(rows: int) -> None:
    assert most_moved(lambda counts: distances(counts, rows)) == Peak(3, lowest=False).spread
    assert most_moved(behind_best) > Peak(3, lowest=False).spread


def test_levels_without_rows_change_nothing() -> None:
    counts = np.array([[0, 4, 0, 0, 2], [0, 0, 0, 3, 0], [0, 0, 0, 0, 0]])
    for rows in (1, 2, 3, 9):
        dense = distances(counts[:, counts.any(axis=0)], rows)
        assert dense.tolist() == distances(counts, rows).tolist()


def test_options_of_each_group_without_rows_are_alike() -> None:
    places, counts = np.array([1, 5, 12 + 4]), np.array([3, 2, 7])
    listed = candidates(HistogramCounts(3, 12, places, counts), Peak(3, lowest=False, rows=2))
    assert (listed.lists, listed.size) == (3, 3)
    assert listed.behind.reshape(3, 3).tolist() == [[2, 1, 0], [2, 0, 2], [0, 0, 0]]


@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_so_many_people_are_asked_for_as_tell_them_from_none(accountant: str) -> None:
    policy, engine = shop()
    plan = compiled(COUNTRY, policy, engine, budget=replace(BUDGET, accountant=accountant)).plan
    assert plan is not None
    (choice,) = plan.blocks[0].choices
    assert isinstance(choice.aim, Peak)
    # One of no rows is so far behind one of enough that it passes once in twenty, for all options.
    assert 3 * np.exp(-float(choice.rate) * choice.aim.rows) <= 0.05
    assert 3 * np.exp(-float(choice.rate) * (choice.aim.rows - 1)) > 0.05


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("sql", ALL)
def test_a_replaced_unit_sways_no_more_than_claimed(sql: str) -> None:
    assert all(replaced(sql, *pair) for pair in ((1, 7), (2, 7), (1, 2)))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("sql", "accountant"), [(COUNTRY, "pure"), (STATUS, "zcdp"), (SEGMENT, "zcdp")]
)
def test_the_claim_stands(sql: str, accountant: str) -> None:
    assert not refuted(sql, accountant)


@pytest.mark.parametrize("accountant", ["pure", "zcdp"])
def test_too_steep_a_choice_is_refuted(accountant: str) -> None:
    assert refuted(COUNTRY, accountant, faster=4)


# --- levels of y ---------------------------------------------------------------------------------

DAYS = [f"DATE '{day}'" for day in ("-infinity", "0145-03-15", "2020-01-01", "2020-01-02")]
TIMES = [
    f"TIMESTAMP '{time}'"
    for time in ("-infinity", "2019-12-31 23:59:59.999999", "2020-01-01 00:00:00.000001")
]
LEVELS = [
    (Grid(DOUBLE, Lattice(2, 29), -(2**29), 2**29), ["'-inf'", "-1e-9", "1e-8", "0.5", "'inf'"]),
    (
        Grid(decimal(38, 2), Lattice(10, 2), -200, 10**17),
        ["-9e30", "-1.99", "0.01", "0.02", "9e30"],
    ),
    (Grid(DATE, WHOLE, -(7 * 10**5 + 5000), 10**5), DAYS),
    (Grid(TIMESTAMP, WHOLE, 0, 10**16), TIMES),
    (Grid(INTEGER, WHOLE, -5, 5), ["-9223372036854775808", "-4", "0", "9223372036854775807"]),
]


def levels(expression: Expression, kind: SqlType, values: list[str]) -> list[int | None]:
    """What an expression of column 1 is, in DuckDB, for each of these values."""
    sql = Printer(lambda _relation: None).text(expression, {1: "x"})
    rows = ", ".join(f"({n}, CAST({value} AS {type_name(kind)}))" for n, value in enumerate(values))
    asked = f"SELECT {sql} FROM (VALUES {rows}) AS t(n, x) ORDER BY n"
    return [place for (place,) in duckdb.connect().execute(asked).fetchall()]


@pytest.mark.parametrize(("grid", "rising"), LEVELS, ids=lambda v: getattr(v, "kind", ""))
def test_levels_rise_with_the_values_and_stay_within_the_grid(
    grid: Grid, rising: list[str]
) -> None:
    x = Ref(1, grid.kind)
    *found, nothing = levels(place_on(grid, x), grid.kind, [*rising, "NULL"])
    places = [place for place in found if place is not None]
    assert nothing is None
    assert len(places) == len(rising)
    assert places == sorted(set(places))
    assert (places[0] - grid.lower, places[-1] <= grid.upper) == (0, True)


def test_levels_of_rounded_numbers_would_be_seen() -> None:
    grid, rising = LEVELS[1]
    rounded = levels(Cast(Ref(1, grid.kind), INTEGER), grid.kind, rising[1:-1])
    assert len(set(rounded)) < len(rounded)
