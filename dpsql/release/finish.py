"""finish: Noisy → Answer. Measurements of the same rows are made to agree; then the outer query
over the released tables, and the error of every number.

All of it is post-processing of a shape that the text fixes: PRIVACY.md R66, SECURITY.md S6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from math import isnan
from statistics import NormalDist
from typing import Any

from dpsql.compiler.plan.private_plan import PrivatePlan, ReleasedTable, Rewritten
from dpsql.engines import ScratchTable
from dpsql.mechanisms import widest
from dpsql.model.notices import Empty, Hidden, Notice, Unclear
from dpsql.model.table import Table, Values, listed
from dpsql.model.table_names import STAGE
from dpsql.model.tree import INTERVAL
from dpsql.model.vocabulary import Answer, Column, Noisy, Receipt
from dpsql.release.consistent_tables import consistent_tables, each_consistent
from dpsql.release.release import in_units

Rows = Sequence[tuple[Any, ...]]
NORMAL = NormalDist().inv_cdf(0.975)
"""Half a 95 % interval over the standard error, where all that errs is many people's reports."""


def finish(
    plan: PrivatePlan,
    rewritten: Rewritten,
    noisy: Sequence[Noisy],
    public: Callable[[str], Rows],
    scratch: Callable[[str, Sequence[ScratchTable]], Rows],
    receipt: Receipt,
    notices: tuple[Notice, ...] = (),
) -> Answer:
    """Run the outer query where nothing private is, and split off the error columns.

    `public` reads public tables exactly; `scratch` runs the outer query over the given tables.
    `notices` are those of the plan.
    """
    tables = _tables(plan, rewritten.tables, consistent_tables(plan, noisy), public)
    rows = scratch(rewritten.outer_sql, tables)
    values, errors, margins = _split(rewritten, rows, margin_factor(plan))
    columns = tuple(Column(f.name, f.type) for f in rewritten.output)
    more = _unclear(values, margins) if values else (_empty(notices),)
    return Answer(
        columns=columns,
        rows=values,
        errors=errors,
        margins=margins,
        receipt=receipt,
        notices=(*notices, *more),
    )


Errors = tuple[tuple[float | None, ...], ...]


def _split(rewritten: Rewritten, rows: Rows, factor: float) -> tuple[Rows, Errors, Errors]:
    """The values, their errors and their margins."""
    width, units = len(rewritten.output), _units(rewritten)
    values = presented(rewritten, tuple(row[:width] for row in rows))
    errors = tuple(_in_units(row[width:], units) for row in rows)
    margins = tuple(tuple(None if e is None else e * factor for e in row) for row in errors)
    return values, errors, margins


def presented(rewritten: Rewritten, rows: Rows) -> Rows:
    """The rows that an engine gives as they are told: lengths of time are no numbers any more."""
    lengths = _of_lengths(rewritten)
    if not lengths:
        return rows
    if isinstance(rows, Table):
        return presented_table(rewritten, rows)
    return tuple(
        tuple(_length(x) if n in lengths else x for n, x in enumerate(row)) for row in rows
    )


def presented_table(rewritten: Rewritten, table: Table) -> Table:
    """The same of a table."""
    lengths = _of_lengths(rewritten)
    columns = (_lengths(c) if n in lengths else c for n, c in enumerate(table.columns))
    return Table(len(table), list(columns)) if lengths else table


def _of_lengths(rewritten: Rewritten) -> frozenset[int]:
    return frozenset(n for n, f in enumerate(rewritten.output) if f.type == INTERVAL)


def _lengths(column: Values) -> list[timedelta | None]:
    return [_length(value) for value in listed(column)]


def _length(microseconds: int | None) -> timedelta | None:
    return None if microseconds is None else timedelta(microseconds=microseconds)


def _units(rewritten: Rewritten) -> tuple[float, ...]:
    """In which units errors are told: those of a length of time in seconds."""
    return tuple(1e6 if f.type == INTERVAL else 1.0 for f in rewritten.output)


def _in_units(errors: Sequence[float | None], units: Sequence[float]) -> tuple[float | None, ...]:
    return tuple(None if e is None else e / u for e, u in zip(errors, units, strict=True))


_FEW = 10
"""Up to one in so many numbers may be no larger than its margin, and nothing is said."""


def _unclear(values: Rows, margins: Sequence[tuple[float | None, ...]]) -> Iterator[Unclear]:
    """The columns in which more than few numbers say no more than that they are small.

    Computed from what was released alone. Of an unknown margin nothing is said.
    """
    for place in range(len(margins[0])):
        halves = [row[place] for row in margins]
        pairs = zip((row[place] for row in values), halves, strict=True)
        unclear = sum(1 for value, half in pairs if half and _is_unclear(value, half))
        numbers = sum(1 for half in halves if half and not isnan(half))
        if unclear * _FEW > numbers:
            yield Unclear(place, unclear, numbers)


def _is_unclear(value: Any, margin: float) -> bool:
    """Whether a number is none, or no larger than its margin; of anything else there is no size."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, int | float | Decimal):
        return abs(float(value)) <= margin
    return value is None and not isnan(margin)


def _empty(notices: tuple[Notice, ...]) -> Empty:
    """Why there are no rows: of several tables of private keys the least threshold is told."""
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
    """The rows of a stage, from the blocks before it, as a table for the blocks behind it."""
    sql = rewritten.stages[number]
    if sql.rows is not None:
        return evaluated(rewritten, number)
    rows = scratch(sql.sql, _tables(plan, sql.tables, each_consistent(plan, noisy), public))
    return ScratchTable(f"{STAGE}{number}", sql.columns, rows)


def evaluated(rewritten: Rewritten, number: int) -> ScratchTable:
    """A stage that was evaluated when the query was compiled."""
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
            _natural(plan, table.block, noisy)
            if table.block is not None
            else public(table.public_sql or ""),
        )
        for table in tables
    ]


def unnoised(rewritten: Rewritten, rows: Sequence[tuple[Any, ...]]) -> Answer:
    """The answer of a query over public tables alone: exact, but for estimates of reports."""
    columns = tuple(Column(f.name, f.type) for f in rewritten.output)
    if not rewritten.expected:
        nothing: tuple[tuple[None, ...], ...] = ((None,) * len(columns),) * len(rows)
        return Answer(columns, rows, nothing, nothing)
    values, errors, margins = _split(rewritten, rows, NORMAL)
    notices = tuple(_unclear(values, margins)) if values else ()
    return Answer(columns, values, errors, margins, notices=notices)


def _natural(plan: PrivatePlan, block: int, noisy: Sequence[Noisy]) -> Rows:
    """Keys and noisy values of one block, in the units of their columns."""
    lattices = [column.lattice for column in plan.blocks[block].columns]
    return [
        (*key, *(in_units(v, lattice) for v, lattice in zip(parts, lattices, strict=True)))
        for key, parts in zip(noisy[block].keys, noisy[block].parts, strict=True)
    ]


def expected_margins(plan: PrivatePlan | None, rewritten: Rewritten) -> tuple[float | None, ...]:
    """The half-width at 95 % of each output before it is released: see `Rewritten.expected`."""
    factor = NORMAL if plan is None else margin_factor(plan)
    if not rewritten.expected:
        return ()
    errors = _in_units(rewritten.expected, _units(rewritten))
    return tuple(None if e is None else e * factor for e in errors)


def margin_factor(plan: PrivatePlan, confidence: float = 0.95) -> float:
    """Half-width at a confidence over standard error: the largest among the measurements."""
    return widest((noise for block in plan.blocks for noise in block.noises), confidence)
