"""Resolved expressions as people read them: in the names of columns, without conversions.

What is shown so is told, and never runs.

    >>> from dpsql.model.tree import DOUBLE, INTEGER, Call, Cast, Literal, Ref
    >>> amount = Cast(Ref(1, INTEGER), DOUBLE)
    >>> product = Call("mul", (Call("sub", (amount, Literal(2.5, DOUBLE))), amount))
    >>> term(product, {1: "amount"})
    '(amount - 2.5) * amount'
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import assert_never

from dpsql.dialects.duckdb.call_sql import INFIX, spelled
from dpsql.dialects.duckdb.literal_sql import constant
from dpsql.dialects.duckdb.sql_text import ATOM, MINUS, TEST, Text
from dpsql.model.algebra import Relation
from dpsql.model.tree import (
    BOOLEAN,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Membership,
    Name,
    Ref,
    ScalarQuery,
    Star,
    WindowCall,
)
from dpsql.model.walk import both, conjuncts, relations

_LONGEST = 120
_OPERATORS = frozenset({*INFIX, *"and or not neg is_null in like case concat".split()})
"""Calls that are written as SQL writes them; others as name(arguments)."""


def term(expression: Expression, names: Mapping[int, str]) -> str:
    """The expression, in which `names` are those of columns; what is very long is cut short."""
    text = _text(expression, names).sql
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def labels(rows: Relation) -> dict[int, str]:
    """The names of all columns that are read on the way to these rows."""
    return {field.id: field.name for below in relations(rows) for field in below.fields}


def where(
    condition: Expression | None, argument: Expression | None, names: Mapping[int, str]
) -> str:
    """Which rows count. That an argument is there goes without saying.

    >>> from dpsql.model.tree import BOOLEAN, INTEGER, Call, Ref
    >>> age = Ref(1, INTEGER)
    >>> known = Call("not", (Call("is_null", (age,), BOOLEAN),), BOOLEAN)
    >>> where(known, age, {1: "age"}), where(known, None, {1: "age"})
    ('', ' where age IS NOT NULL')
    """
    absent = Call("is_null", () if argument is None else (argument,), BOOLEAN)
    there = Call("not", (absent,), BOOLEAN)
    kept = both(tuple(part for part in conjuncts(condition) if part != there))
    return "" if kept is None else f" where {term(kept, names)}"


def _text(e: Expression, names: Mapping[int, str]) -> Text:
    match e:
        case Literal():
            text = _constant(e)
            return Text(text, e.type, MINUS if text.startswith("-") else ATOM)
        case Ref():
            return Text(names.get(e.id, "…"), e.type)
        case Star():
            return Text("*", BOOLEAN)
        case Cast():
            return _cast(e, names)
        case Call(function="not", args=(Call(function="is_null", args=(arg,)),)):
            return Text(f"{_text(arg, names).operand(TEST)} IS NOT NULL", e.type, TEST)
        case Call(function=function) if function in _OPERATORS:
            return spelled(
                function, tuple(_text(arg, names) for arg in e.args), e.type, total=False
            )
        case Call() | AggregateCall() | WindowCall():
            return _named(e, names)
        case Name() | ScalarQuery() | Membership():
            raise AssertionError(e)
        case _:
            assert_never(e)


def _constant(literal: Literal) -> str:
    match literal.value:
        case bool() | str() | None:
            return constant(literal)
        case int() | float() | Decimal():
            return f"{literal.value:.15g}"
        case _:
            return constant(literal)


def _cast(cast: Cast, names: Mapping[int, str]) -> Text:
    """A conversion among numbers says nothing that people ask for."""
    arg = _text(cast.arg, names)
    if cast.type.is_numeric and (arg.type.is_numeric or isinstance(cast.arg, Literal)):
        return Text(arg.sql, cast.type, arg.level)
    return Text(f"CAST({arg.sql} AS {cast.type})", cast.type)


def _named(call: Call | AggregateCall | WindowCall, names: Mapping[int, str]) -> Text:
    listed = ", ".join(_text(arg, names).sql for arg in call.args)
    if isinstance(call, Call):
        return Text(f"{call.function}({listed})", call.type)
    distinct = "DISTINCT " if call.distinct else ""
    kept = "" if call.filter is None else f" FILTER (WHERE {_text(call.filter, names).sql})"
    over = " OVER (…)" if isinstance(call, WindowCall) else ""
    return Text(f"{call.function.upper()}({distinct}{listed}){kept}{over}", call.type)
