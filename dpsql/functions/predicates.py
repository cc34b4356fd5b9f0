"""Comparisons, tests and logic: every result is BOOLEAN."""

from __future__ import annotations

from dpsql.functions.row import (
    TEXT,
    TRUTH,
    Function,
    Types,
    fixed,
    never,
)
from dpsql.functions.types import common_type, converted
from dpsql.tree import BOOLEAN, Expression, Literal, SqlType


def _comparison_type(types: Types) -> SqlType | None:
    return BOOLEAN if len(types) == 2 and common_type(types) is not None else None  # noqa: PLR2004


def _membership_type(types: Types) -> SqlType | None:
    return BOOLEAN if len(types) > 1 and common_type(types) is not None else None


def _logic_type(types: Types) -> SqlType | None:
    return BOOLEAN if types and all(t.kind in TRUTH for t in types) else None


def _test_type(types: Types) -> SqlType | None:
    return BOOLEAN if len(types) == 1 else None


def _like_type(types: Types) -> SqlType | None:
    return fixed(BOOLEAN, *(TEXT,) * len(types))(types) if len(types) in (2, 3) else None


def _well_escaped(args: tuple[Expression, ...]) -> bool:
    """Pattern and escape character are literals that DuckDB reads: TRY does not catch its error.

    It raises on an escape of other than one character, and on a pattern that ends with one.
    """
    if len(args) < 3:  # noqa: PLR2004
        return True
    pattern, escape = (arg.value if isinstance(arg, Literal) else None for arg in args[1:3])
    if not (isinstance(pattern, str) and isinstance(escape, str) and len(escape) == 1):
        return False
    return not pattern.replace(escape * 2, "").endswith(escape)


def _comparison(name: str) -> Function:
    return Function(name, _comparison_type, operands=converted)


PREDICATES = (
    *map(_comparison, ("eq", "ne", "lt", "le", "gt", "ge")),
    Function("is_distinct", _comparison_type, operands=converted, nulls=never),
    Function("is_not_distinct", _comparison_type, operands=converted, nulls=never),
    Function("in", _membership_type, operands=converted),
    Function("is_null", _test_type, nulls=never),
    Function("and", _logic_type),
    Function("or", _logic_type),
    Function("not", lambda types: _logic_type(types) if len(types) == 1 else None),
    Function("like", _like_type, accepts=_well_escaped),
    Function("ilike", lambda types: _like_type(types) if len(types) == 2 else None),  # noqa: PLR2004
    Function("starts_with", fixed(BOOLEAN, TEXT, TEXT)),
    Function("contains", fixed(BOOLEAN, TEXT, TEXT)),
)
