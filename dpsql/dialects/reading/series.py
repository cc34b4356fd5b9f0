"""Series of constants: RANGE and GENERATE_SERIES of integers, dates and times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from dpsql.dialects.reading.interval_literals import Duration
from dpsql.functions.dates import UNITS, moved, naive
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused

SERIES = frozenset({"generate_series", "range", "unnest"})
"""Functions that return rows of constants."""

MAX_ROWS = 10_000
"""Limit on the rows of constants in one FROM item."""


def series(
    function: str, bounds: tuple[tree.Literal, ...], span: tree.Span, limit: int
) -> list[tree.Literal]:
    """Return the values of `function` from start to stop by step; GENERATE_SERIES includes the
    stop.

    >>> [n.value for n in series("range", (tree.Literal(3, tree.INTEGER),), tree.Span(0, 0), 10)]
    [0, 1, 2]

    Returns at most `limit` + 1 of them, so that the caller can see that there are too many. Raises
    `Refused` for bounds that are not integers and for a step of zero.
    """
    numbers = [bound.value for bound in bounds if type(bound.value) is int]
    if len(numbers) != len(bounds) or not 1 <= len(numbers) <= len(("start", "stop", "step")):
        types = tuple(str(bound.type) for bound in bounds)
        raise Refused(Reason.TYPE_MISMATCH, span, function=function, types=types)
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0:
        raise _without_step(span)
    end = stop if function == "range" else stop + (1 if step > 0 else -1)
    return [tree.Literal(n, tree.INTEGER, span) for n in range(start, end, step)[: limit + 1]]


def moments(
    function: str, bounds: tuple[tree.Literal, ...], step: Duration, dialect: str, span: tree.Span
) -> list[tree.Literal]:
    """Return the timestamps from start to stop by an INTERVAL, each a step after the one before.

    For dates PostgreSQL returns times with a zone, and DuckDB times without one. Raises `Refused`
    as `series` does.
    """
    start, stop = (_moment(bound, function, span) for bound in bounds)
    zoned = tree.TIMESTAMPTZ in (bounds[0].type, bounds[1].type)
    dated = (
        tree.DATE in (bounds[0].type, bounds[1].type)
        or bounds[0].type == bounds[1].type == tree.VARCHAR
    )
    kind = tree.TIMESTAMPTZ if zoned or (dated and dialect == "postgres") else tree.TIMESTAMP
    counts = [(unit, n.value) for unit, n in step.parts if isinstance(n, tree.Literal)]
    if len(counts) < len(step.parts):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="a series by a computed INTERVAL")
    second = _later(start, counts)
    if second is None or second == start:
        raise _without_step(span)
    rises, current = second > start, start
    values: list[tree.Literal] = []
    while (current < stop if rises else current > stop) or (
        current == stop and function != "range"
    ):
        values.append(_constant(current, kind, span))
        following = _later(current, counts)
        if len(values) > MAX_ROWS or following is None:
            break
        current = following
    return values


def _moment(bound: tree.Literal, function: str, span: tree.Span) -> datetime:
    """Return a bound of a series: a constant date or time, or a bare string for one."""
    try:
        value = datetime.fromisoformat(bound.value) if isinstance(bound.value, str) else bound.value
    except ValueError:
        value = None
    if not isinstance(value, date):
        types = (str(bound.type), "INTERVAL")
        raise Refused(Reason.TYPE_MISMATCH, span, function=function, types=types)
    return naive(value)


def _later(moment: datetime, counts: Sequence[tuple[str, object]]) -> datetime | None:
    later: datetime | None = moment
    for unit, count in counts:
        if later is None or not isinstance(count, int):
            return None
        later = moved(later, unit, count)
    return later


def _constant(moment: datetime, kind: tree.SqlType, span: tree.Span) -> tree.Literal:
    return tree.Literal(
        moment.replace(tzinfo=UTC) if kind == tree.TIMESTAMPTZ else moment, kind, span
    )


def _without_step(span: tree.Span) -> Refused:
    return Refused(Reason.SYNTAX, span, why="the step of a series must not be zero")


def folded(value: tree.Expression) -> tree.Expression:
    """Return a constant for a date plus days, or a truncated constant date; else the value."""
    match value:
        case tree.Call(
            "add" | "sub", (tree.Literal(date() as day, type=kind), tree.Literal(int() as days))
        ):
            count = days if value.function == "add" else -days
            moment = moved(day, "day", count) if kind == tree.DATE else None
            return value if moment is None else tree.Literal(moment.date(), tree.DATE, value.span)
        case tree.Call("date_trunc", (tree.Literal(str() as part), inner)) if part in UNITS:
            return _cut(part, folded(inner), value)
        case tree.Cast(arg=inner, type=kind) if kind == tree.DATE:
            constant = folded(inner)
            if isinstance(constant, tree.Literal) and isinstance(constant.value, date):
                return tree.Literal(naive(constant.value).date(), tree.DATE, value.span)
            return value
        case _:
            return value


def _cut(part: str, inner: tree.Expression, whole: tree.Expression) -> tree.Expression:
    if not (isinstance(inner, tree.Literal) and isinstance(inner.value, date)):
        return whole
    first = UNITS[part][0](naive(inner.value))
    kind = tree.TIMESTAMPTZ if inner.type == tree.TIMESTAMPTZ else tree.TIMESTAMP
    return whole if first is None else _constant(first, kind, whole.span)
