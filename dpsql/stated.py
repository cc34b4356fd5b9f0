"""stated: errors as columns. DP_STDDEV(alias), DP_INTERVAL_LOW(alias), DP_INTERVAL_HIGH(alias).

Each stands alone in the outermost SELECT list and names another item of it. It is taken out before
the query is compiled and filled in from the answer, so it measures and costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from dpsql.errors import Reason, Refused
from dpsql.model import Answer, Column
from dpsql.tree import (
    DOUBLE,
    NULL,
    STATED,
    Call,
    Cast,
    Expression,
    Literal,
    Name,
    Select,
    SelectItem,
    Span,
    Star,
    Statement,
)
from dpsql.walk import walk


@dataclass(frozen=True, slots=True)
class Stated:
    """A column that states the error of another: which function, where, and the other's name.

    Behind a star `position` counts from the end, as the star's columns are not known yet.
    """

    function: str
    position: int
    target: Name
    span: Span


def lifted(statement: Statement) -> tuple[Statement, tuple[Stated, ...]]:
    """The statement with NULL in the place of each stated error, and what belongs there.

    Raises `Refused` for an alias that is not there, and where the error is used any further.
    """
    select = statement.query
    if not isinstance(select, Select):
        return statement, ()
    found = [
        (n, item.expression)
        for n, item in enumerate(select.items)
        if isinstance(item.expression, Call) and item.expression.function in STATED
    ]
    if not found:
        return statement, ()
    items = list(select.items)
    for n, call in found:
        nothing = Cast(Literal(None, NULL, call.span), DOUBLE, span=call.span)
        items[n] = SelectItem(nothing, items[n].alias or call.function)
    _require_unused(select, items, [n for n, _call in found])
    stated = tuple(_stated(items, n, call) for n, call in found)
    return replace(statement, query=replace(select, items=tuple(items))), stated


def _stated(items: Sequence[SelectItem], place: int, call: Call) -> Stated:
    (name,) = call.args
    assert isinstance(name, Name)
    stars = [n for n, item in enumerate(items) if isinstance(item.expression, Star)]
    if stars and stars[0] < place < stars[-1]:
        raise _misplaced(call.span, "between two *")
    behind = bool(stars) and stars[-1] < place
    return Stated(call.function, place - len(items) if behind else place, name, call.span)


def _require_unused(select: Select, items: Sequence[SelectItem], places: Sequence[int]) -> None:
    """The engine sees NULL in these columns, so nothing may be computed from them.

    A star moves what is behind it: from there on any ordinal could be theirs.
    """
    names = {(items[n].alias or "").lower() for n in places}
    stars = [n for n, item in enumerate(items) if isinstance(item.expression, Star)]
    ordinals: Collection[int] = {n + 1 for n in places}
    if stars:
        ordinals = range(min(stars[0], *places) + 1, 1 << 16)
    clauses = (select.where, select.having, select.qualify, *select.group_by, *select.distinct_on)
    for expression in (*clauses, *(key.expression for key in select.order_by)):
        if isinstance(expression, Literal) and expression.value in ordinals:
            raise _misplaced(expression.span, "in another clause")
        _require_without(expression, names)
    for item in items:
        _require_without(item.expression, names)


def _require_without(expression: Expression | None, names: set[str]) -> None:
    for part in () if expression is None else walk(expression):
        if isinstance(part, Name) and part.table is None and part.name.lower() in names:
            raise _misplaced(part.span, "in another expression")
        if isinstance(part, Call) and part.function in STATED:
            raise _misplaced(part.span, "in another expression")


def _misplaced(span: Span, where: str) -> Refused:
    return Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=f"the error of a column {where}")


def target_of(stated: Stated, columns: Sequence[Column]) -> int:
    """The position of the column whose error is stated. Raises `Refused`."""
    name = stated.target.name
    places = [n for n, column in enumerate(columns) if column.name.lower() == name.lower()]
    if not places:
        raise Refused(Reason.UNKNOWN_COLUMN, stated.target.span, column=name)
    if len(places) > 1:
        raise Refused(Reason.AMBIGUOUS_COLUMN, stated.target.span, column=name)
    return places[0]


def require_numbers(stated: Sequence[Stated], columns: Sequence[Column]) -> None:
    """Only numbers have errors. Raises `Refused`."""
    for one in stated:
        kind = columns[target_of(one, columns)].type
        if not kind.is_numeric:
            types = (str(kind),)
            raise Refused(Reason.TYPE_MISMATCH, one.span, function=one.function, types=types)


def filled(answer: Answer, stated: Sequence[Stated]) -> Answer:
    """The answer with its stated errors: 0 for an exact number, NULL where the error is unknown.

    An interval covers at 95 %. What is stated is itself exact.
    """
    if not stated:
        return answer
    rows = [list(row) for row in answer.rows]
    targets = [(one, target_of(one, answer.columns)) for one in stated]
    for row, errors, margins in zip(rows, answer.errors, answer.margins, strict=True):
        for one, target in targets:
            value, error, margin = row[target], errors[target], margins[target]
            row[one.position] = _value(one.function, value, error or 0.0, margin or 0.0)
    return replace(answer, rows=tuple(map(tuple, rows)))


def _value(function: str, value: Any, error: float, margin: float) -> float | None:
    if value is None or isnan(error) or isnan(margin):
        return None
    match function:
        case "dp_stddev":
            return error
        case "dp_interval_low":
            return float(value) - margin
        case "dp_interval_high":
            return float(value) + margin
        case _:
            raise AssertionError(function)
