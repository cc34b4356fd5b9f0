"""stated: errors as columns. DP_STDDEV(alias), DP_INTERVAL_LOW(alias), DP_INTERVAL_HIGH(alias).

Each stands alone in the outermost SELECT list and names another item of it. It is taken out before
the query is compiled and filled in from the answer, so it measures and costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """A column that states the error of another: which function, and both positions."""

    function: str
    position: int
    target: int
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
    if any(isinstance(item.expression, Star) for item in select.items):
        raise _misplaced(found[0][1].span, "beside *")
    stated = tuple(
        Stated(call.function, n, _target(select.items, call), call.span) for n, call in found
    )
    items = list(select.items)
    for n, call in found:
        nothing = Cast(Literal(None, NULL, call.span), DOUBLE, span=call.span)
        items[n] = SelectItem(nothing, items[n].alias or call.function)
    _require_unused(select, items, stated)
    return replace(statement, query=replace(select, items=tuple(items))), stated


def _target(items: Sequence[SelectItem], call: Call) -> int:
    """The position of the item that the call names."""
    (name,) = call.args
    assert isinstance(name, Name)
    places = [n for n, item in enumerate(items) if _name_of(item) == name.name.lower()]
    if not places:
        raise Refused(Reason.UNKNOWN_COLUMN, name.span, column=name.name)
    if len(places) > 1:
        raise Refused(Reason.AMBIGUOUS_COLUMN, name.span, column=name.name)
    return places[0]


def _name_of(item: SelectItem) -> str | None:
    if item.alias is not None:
        return item.alias.lower()
    return item.expression.name.lower() if isinstance(item.expression, Name) else None


def _require_unused(select: Select, items: Sequence[SelectItem], stated: Sequence[Stated]) -> None:
    """The engine sees NULL in these columns, so nothing may be computed from them."""
    names = {(items[s.position].alias or "").lower() for s in stated}
    ordinals = {s.position + 1 for s in stated}
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


def require_numbers(stated: Sequence[Stated], columns: Sequence[Column]) -> None:
    """Only numbers have errors. Raises `Refused`."""
    for one in stated:
        kind = columns[one.target].type
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
    for row, errors, margins in zip(rows, answer.errors, answer.margins, strict=True):
        for one in stated:
            value, error, margin = row[one.target], errors[one.target], margins[one.target]
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
