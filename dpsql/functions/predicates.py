"""Comparisons, tests and logic: every result is BOOLEAN."""

from __future__ import annotations

from dpsql.functions.row import (
    TEXT,
    TRUTH,
    Args,
    Domain,
    Function,
    Types,
    fixed,
    never,
)
from dpsql.functions.types import common_type, converted
from dpsql.intervals import Facts
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


def _may_be(truth: bool, arg: Facts) -> bool:  # noqa: FBT001
    return arg.domain is None or truth in arg.domain


def _null_values(args: Args, *_: object) -> Domain:
    """Whether a value is missing: what its facts leave open."""
    (arg,) = args
    possible = (arg.domain != () or arg.may_be_nan, arg.nullable)
    return tuple(truth for truth in (False, True) if possible[truth])


def _and_values(args: Args, *_: object) -> Domain:
    possible = (any(_may_be(False, arg) for arg in args), all(_may_be(True, arg) for arg in args))
    return tuple(truth for truth in (False, True) if possible[truth])


def _or_values(args: Args, *_: object) -> Domain:
    possible = (all(_may_be(False, arg) for arg in args), any(_may_be(True, arg) for arg in args))
    return tuple(truth for truth in (False, True) if possible[truth])


def _not_values(args: Args, *_: object) -> Domain:
    return tuple(truth for truth in (False, True) if _may_be(not truth, args[0]))


def _comparison(name: str) -> Function:
    return Function(name, _comparison_type, operands=converted)


PREDICATES = (
    *map(_comparison, ("eq", "ne", "lt", "le", "gt", "ge")),
    Function("is_distinct", _comparison_type, operands=converted, nulls=never),
    Function("is_not_distinct", _comparison_type, operands=converted, nulls=never),
    Function("in", _membership_type, operands=converted),
    Function("is_null", _test_type, nulls=never, image=_null_values),
    Function("and", _logic_type, image=_and_values),
    Function("or", _logic_type, image=_or_values),
    Function(
        "not", lambda types: _logic_type(types) if len(types) == 1 else None, image=_not_values
    ),
    Function("like", _like_type, accepts=_well_escaped),
    Function("ilike", lambda types: _like_type(types) if len(types) == 2 else None),  # noqa: PLR2004
    Function("starts_with", fixed(BOOLEAN, TEXT, TEXT)),
    Function("contains", fixed(BOOLEAN, TEXT, TEXT)),
)
