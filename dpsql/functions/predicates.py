"""Comparisons, tests and logic: every result is BOOLEAN."""

from __future__ import annotations

from dpsql.functions.row import (
    TEXT,
    TRUTH,
    Args,
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


def _one_character(args: tuple[Expression, ...]) -> bool:
    """The escape character is a literal of length one: DuckDB raises on any other."""
    return len(args) < 3 or (  # noqa: PLR2004
        isinstance(args[2], Literal) and isinstance(args[2].value, str) and len(args[2].value) == 1
    )


def _escapes(args: Args, _kind: SqlType) -> bool:
    """A pattern that ends with its escape character raises."""
    return len(args) > 2  # noqa: PLR2004


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
    Function("like", _like_type, raises=_escapes, accepts=_one_character),
    Function("ilike", lambda types: _like_type(types) if len(types) == 2 else None),  # noqa: PLR2004
    Function("starts_with", fixed(BOOLEAN, TEXT, TEXT)),
    Function("contains", fixed(BOOLEAN, TEXT, TEXT)),
)
