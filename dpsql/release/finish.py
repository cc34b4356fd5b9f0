"""finish: Noisy → Answer. Measurements of the same rows are made to agree. Then the outer query
runs over the released tables, with the error of every number.

It is post-processing of a shape that the text fixes: PRIVACY.md R66, SECURITY.md S6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from math import isnan, nan
from statistics import NormalDist
from typing import Any

from dpsql.compiler.plan.private_plan import PrivatePlan, ReleasedTable, Rewritten
from dpsql.compiler.plan.summed_columns import variance_increments
from dpsql.engines import ScratchTable
from dpsql.mechanisms import widest
from dpsql.model.interval_ends import Halves
from dpsql.model.notices import Empty, Hidden, Notice, Unclear
from dpsql.model.table import Table, listed
from dpsql.model.table_names import STAGE
from dpsql.model.tree import INTERVAL
from dpsql.model.vocabulary import Answer, Column, Noisy, Receipt
from dpsql.release.biases import biases
from dpsql.release.certain_ends import certain_ends, within_ranges
from dpsql.release.consistent_tables import consistent_tables, each_consistent
from dpsql.release.release import in_units

Rows = Sequence[tuple[Any, ...]]
NORMAL = NormalDist().inv_cdf(0.975)
"""The 95 % half-width in standard errors, for estimates from many people's reports alone."""


def finish(
    plan: PrivatePlan,
    rewritten: Rewritten,
    noisy: Sequence[Noisy],
    public: Callable[[str], Rows],
    scratch: Callable[[str, Sequence[ScratchTable]], Rows],
    receipt: Receipt,
    notices: tuple[Notice, ...] = (),
) -> Answer:
    """Run the outer query over released tables, and split off the error columns.

    `public` reads public tables exactly; `scratch` runs the outer query over the given tables.
    `notices` are those of the plan.
    """
    tables = _tables(plan, rewritten.tables, consistent_tables(plan, noisy), public)
    rows = scratch(rewritten.outer_sql, tables)
    values, errors, margins, halves = _split(rewritten, rows, margin_factor(plan))
    columns = tuple(Column(f.name, f.type) for f in rewritten.output)
    more = _unclear(values, margins) if values else (_empty(notices),)
    return Answer(
        columns=columns,
        rows=values,
        errors=errors,
        margins=margins,
        receipt=receipt,
        notices=(*notices, *more),
        halves=halves,
    )


Errors = tuple[tuple[float | None, ...], ...]


def _split(
    rewritten: Rewritten, rows: Rows, factor: float
) -> tuple[Rows, Errors, Errors, tuple[Halves, ...]]:
    """Split rows into values, standard errors, 95 % half-widths, and both halves of intervals."""
    width, units = len(rewritten.output), _units(rewritten)
    values: Rows = tuple(row[:width] for row in rows)
    if any(unit != 1.0 for unit in units):
        values = presented(rewritten, values)
    errors = tuple(_in_units(row[width : 2 * width], units) for row in rows)
    margins = tuple(tuple(None if e is None else e * factor for e in row) for row in errors)
    halves: tuple[Halves, ...] = ()
    if rewritten.halved:
        halves = tuple(_halves(rewritten, row[2 * width :], units) for row in rows)
        pairs = zip(margins, halves, strict=True)
        margins = tuple(tuple(map(_larger, *each)) for each in pairs)
    ranges = certain_ends(rewritten)
    if not ranges:
        return values, errors, margins, halves
    values, margins, halves = within_ranges(values, margins, halves, ranges)
    return values, errors, margins, halves


def _halves(rewritten: Rewritten, ends: Sequence[float | None], units: Sequence[float]) -> Halves:
    """Return the distances from the numbers of a row to both ends of their intervals."""
    halves: list[tuple[float, float] | None] = [None] * len(units)
    for n, place in enumerate(rewritten.halved):
        below, above = (
            nan if end is None else end / units[place] for end in ends[2 * n : 2 * n + 2]
        )
        halves[place] = below, above
    return tuple(halves)


def _larger(margin: float | None, halves: tuple[float, float] | None) -> float | None:
    """The half-width of a symmetric interval that holds both halves."""
    return margin if margin is None or halves is None else max(halves) if sum(halves) >= 0 else nan


def presented(rewritten: Rewritten, rows: Rows) -> Rows:
    """Convert the engine's rows for output: intervals in microseconds become `timedelta`."""
    lengths = _of_lengths(rewritten)
    if not lengths:
        return rows
    if isinstance(rows, Table):
        return presented_table(rewritten, rows)
    return tuple(
        tuple(_length(x) if n in lengths else x for n, x in enumerate(row)) for row in rows
    )


def presented_table(rewritten: Rewritten, table: Table) -> Table:
    """Convert intervals in a table as `presented` does in rows."""
    lengths = _of_lengths(rewritten)
    columns = (
        [_length(value) for value in listed(c)] if n in lengths else c
        for n, c in enumerate(table.columns)
    )
    return Table(len(table), list(columns)) if lengths else table


def _of_lengths(rewritten: Rewritten) -> frozenset[int]:
    return frozenset(n for n, f in enumerate(rewritten.output) if f.type == INTERVAL)


def _length(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def _units(rewritten: Rewritten) -> tuple[float, ...]:
    """Return the units of errors: seconds for an interval, 1 otherwise."""
    return tuple(1e6 if f.type == INTERVAL else 1.0 for f in rewritten.output)


def _in_units(errors: Sequence[float | None], units: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(None if e is None else e / u for e, u in zip(errors, units, strict=True))


_FEW = 10
"""Divisor of the count of numbers: one in ten may be smaller than its half-width without a
notice.
"""


def _unclear(values: Rows, margins: Sequence[tuple[float | None, ...]]) -> Iterator[Unclear]:
    """Yield a notice for each column with too many numbers that are smaller than their half-width.

    It uses released values alone. Numbers with an unknown half-width are not counted.
    """
    for place in range(len(margins[0])):
        halves = [row[place] for row in margins]
        pairs = zip((row[place] for row in values), halves, strict=True)
        unclear = sum(1 for value, half in pairs if half and _is_unclear(value, half))
        numbers = sum(1 for half in halves if half and not isnan(half))
        if unclear * _FEW > numbers:
            yield Unclear(place, unclear, numbers)


def _is_unclear(value: Any, margin: float) -> bool:
    """Test whether a number is NULL or at most its half-width. Values of other types are never
    unclear.
    """
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, int | float | Decimal):
        return abs(float(value)) <= margin
    return value is None and not isnan(margin)


def _empty(notices: tuple[Notice, ...]) -> Empty:
    """Return the notice of an empty answer, with the least threshold among tables of
    private keys.
    """
    hidden = [notice for notice in notices if isinstance(notice, Hidden)]
    return Empty(min(hidden, key=lambda notice: notice.least, default=None))


def stage(
    plan: PrivatePlan,
    rewritten: Rewritten,
    number: int,
    noisy: Sequence[Noisy],
    public: Callable[[str], Rows],
    scratch: Callable[[str, Sequence[ScratchTable]], Rows],
) -> ScratchTable:
    """Return the rows of a stage, computed from earlier blocks, as a table for later blocks."""
    sql = rewritten.stages[number]
    if sql.rows is not None:
        return evaluated(rewritten, number)
    rows = scratch(sql.sql, _tables(plan, sql.tables, each_consistent(plan, noisy), public))
    return ScratchTable(f"{STAGE}{number}", sql.columns, rows)


def evaluated(rewritten: Rewritten, number: int) -> ScratchTable:
    """Return a stage that was evaluated when the query was compiled."""
    sql = rewritten.stages[number]
    assert sql.rows is not None
    return ScratchTable(f"{STAGE}{number}", sql.columns, sql.rows)


def _tables(
    plan: PrivatePlan,
    tables: Sequence[ReleasedTable],
    noisy: Sequence[Noisy],
    public: Callable[[str], Rows],
) -> list[ScratchTable]:
    return [
        ScratchTable(
            table.name,
            table.columns,
            _natural(plan, table, noisy)
            if table.block is not None
            else public(table.public_sql or ""),
        )
        for table in tables
    ]


def unnoised(rewritten: Rewritten, rows: Sequence[tuple[Any, ...]]) -> Answer:
    """Return the answer of a query over public tables alone: exact, except estimates from
    reports.
    """
    columns = tuple(Column(f.name, f.type) for f in rewritten.output)
    if not rewritten.expected:
        nothing: tuple[tuple[None, ...], ...] = ((None,) * len(columns),) * len(rows)
        return Answer(columns, rows, nothing, nothing)
    values, errors, margins, _ = _split(rewritten, rows, NORMAL)
    notices = tuple(_unclear(values, margins)) if values else ()
    return Answer(columns, values, errors, margins, notices=notices)


def _natural(plan: PrivatePlan, table: ReleasedTable, noisy: Sequence[Noisy]) -> Rows:
    """List keys, noisy values in the units of their columns, and, if the query reads them, biases
    and variances of running sums.
    """
    assert table.block is not None
    block, released = plan.blocks[table.block], noisy[table.block]
    lattices = [column.lattice for column in block.columns]
    rows = [
        (*key, *(in_units(v, lattice) for v, lattice in zip(parts, lattices, strict=True)))
        for key, parts in zip(released.keys, released.parts, strict=True)
    ]
    if len(table.columns) == len(block.ids):
        return rows
    if block.biased:
        rows = [(*row, *more) for row, more in zip(rows, biases(block, released), strict=True)]
    if (increments := variance_increments(block)) and block.domain is not None:
        own = zip(*increments.values(), strict=True)
        by_key = dict(zip(block.domain, own, strict=True))
        rows = [(*row, *by_key[key]) for row, key in zip(rows, released.keys, strict=True)]
    return rows


def expected_margins(
    plan: PrivatePlan | None, rewritten: Rewritten, confidence: float = 0.95
) -> tuple[float | None, ...]:
    """Return the expected half-width of each output before release: see `Rewritten.expected`."""
    factor = NORMAL if plan is None else margin_factor(plan, confidence)
    if not rewritten.expected:
        return ()
    errors = _in_units(rewritten.expected, _units(rewritten))
    return tuple(None if e is None else e * factor for e in errors)


def margin_factor(plan: PrivatePlan, confidence: float = 0.95) -> float:
    """Return half-width over standard error at a confidence: the largest among the measurements."""
    return widest((noise for block in plan.blocks for noise in block.noises), confidence)
