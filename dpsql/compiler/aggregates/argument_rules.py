"""Rules for the types and the constant arguments of aggregates.

>>> from dpsql.model.tree import VARCHAR
>>> double((INTEGER,)) == DOUBLE, double((VARCHAR,))
(True, None)
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from dpsql.model.tree import DOUBLE, INTEGER, TIMESTAMP, Expression, Kind, Literal, SqlType, decimal

Types = tuple[SqlType, ...]

MOST_ROWS = 2**31
"""Positions in a window are below it."""


def total(types: Types) -> SqlType | None:
    """The type of a sum: DECIMAL keeps its scale, integers are as wide as needed."""
    if len(types) != 1 or not types[0].is_numeric:
        return None
    (kind,) = types
    return decimal(38, kind.scale) if kind.kind is Kind.DECIMAL else kind


def double(types: Types) -> SqlType | None:
    """DOUBLE over numbers."""
    return DOUBLE if types and all(t.is_numeric or t.kind is Kind.NULL for t in types) else None


def pairs(types: Types) -> SqlType | None:
    """The number of pairs of numbers."""
    return None if double(types) is None else INTEGER


def same(types: Types) -> SqlType | None:
    """The type of the first argument."""
    return types[0] if types else None


def fixed(kind: SqlType) -> Callable[[Types], SqlType | None]:
    """`kind` whatever the arguments."""
    return lambda _types: kind


def of(argument: Kind, kind: SqlType) -> Callable[[Types], SqlType | None]:
    """`kind` where the first argument is of the kind `argument`."""
    return lambda types: kind if types and types[0].kind in (argument, Kind.NULL) else None


def quantile(types: Types) -> SqlType | None:
    """Between two values: DECIMAL keeps its scale, a date becomes a timestamp."""
    match types[0].kind if types else None:
        case Kind.INTEGER | Kind.DOUBLE:
            return DOUBLE
        case Kind.DECIMAL | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return types[0]
        case Kind.DATE:
            return TIMESTAMP
        case _:
            return None


def fraction(arg: Expression) -> bool:
    """A constant between 0 and 1."""
    if not isinstance(arg, Literal) or isinstance(arg.value, bool):
        return False
    return isinstance(arg.value, int | float | Decimal) and 0 <= arg.value <= 1


def separator(arg: Expression) -> bool:
    """A constant text."""
    return isinstance(arg, Literal) and isinstance(arg.value, str)


def number_of_rows(arg: Expression) -> bool:
    """A constant whole number, also a negative one."""
    if not isinstance(arg, Literal) or arg.type != INTEGER:
        return False
    return isinstance(arg.value, int) and abs(arg.value) < MOST_ROWS


def positive(arg: Expression) -> bool:
    """A constant whole number from 1 on."""
    return number_of_rows(arg) and isinstance(arg, Literal) and _at_least_one(arg)


def _at_least_one(arg: Literal) -> bool:
    return isinstance(arg.value, int) and arg.value >= 1
