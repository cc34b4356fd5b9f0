"""Comparisons, tests and logic: every result is BOOLEAN."""

from __future__ import annotations

from dpsql.functions import row
from dpsql.functions.type_rules import as_type, common_type, converted
from dpsql.model.comparisons import TRUE_IF
from dpsql.model.intervals import Bound, Facts, Interval
from dpsql.model.tree import BOOLEAN, Expression, Literal, SqlType


def _comparison_type(types: row.Types) -> SqlType | None:
    return BOOLEAN if len(types) == 2 and common_type(types) is not None else None  # noqa: PLR2004


def _logic_type(types: row.Types) -> SqlType | None:
    return BOOLEAN if types and all(t.kind in row.TRUTH for t in types) else None


def _like_type(types: row.Types) -> SqlType | None:
    return row.fixed(BOOLEAN, *(row.TEXT,) * len(types))(types) if len(types) in (2, 3) else None


LONGEST_LIKE = 255
"""Longest constant pattern with `%` or `_`, in characters: DuckDB fails on programs that are too
large, and a text may keep a long one busy."""


def _is_short(args: tuple[Expression, ...]) -> bool:
    pattern = row.value_at(args, 1)
    return (
        not isinstance(pattern, str) or len(pattern) <= LONGEST_LIKE or not {"%", "_"} & {*pattern}
    )


def _well_escaped(args: tuple[Expression, ...]) -> bool:
    """Test for a literal pattern and escape character that DuckDB accepts: TRY does not catch its
    error.

    It raises on an escape of more or less than one character, and on a pattern that ends with one.
    """
    if len(args) < 3 or not _is_short(args):  # noqa: PLR2004
        return _is_short(args)
    pattern, escape = (arg.value if isinstance(arg, Literal) else None for arg in args[1:3])
    if not (isinstance(pattern, str) and isinstance(escape, str) and len(escape) == 1):
        return False
    return not pattern.replace(escape * 2, "").endswith(escape)


def _may_be(truth: bool, arg: Facts) -> bool:  # noqa: FBT001
    return arg.domain is None or truth in arg.domain


def _null_values(args: row.Args, *_: object) -> row.Domain:
    """Return the possible results of IS NULL by the argument's facts."""
    (arg,) = args
    possible = (arg.domain != (), arg.nullable)
    return tuple(truth for truth in (False, True) if possible[truth])


def _and_values(args: row.Args, *_: object) -> row.Domain:
    possible = (any(_may_be(False, arg) for arg in args), all(_may_be(True, arg) for arg in args))
    return tuple(truth for truth in (False, True) if possible[truth])


def _or_values(args: row.Args, *_: object) -> row.Domain:
    possible = (all(_may_be(False, arg) for arg in args), any(_may_be(True, arg) for arg in args))
    return tuple(truth for truth in (False, True) if possible[truth])


def _not_after(a: Bound | None, b: Bound | None) -> bool:
    """Test whether a lower end is at most an upper end."""
    return a is None or b is None or a <= b  # type: ignore[operator]


def _orders(args: row.Args) -> tuple[bool, bool, bool]:
    """Test whether the first of two arguments may be less than, equal to and greater than the
    other.
    """
    common = common_type(tuple(arg.type for arg in args))
    if common is None:
        return (True, True, True)
    a, b = (as_type(arg, common) for arg in args)
    overlap = _not_after(a.lo, b.hi) and _not_after(b.lo, a.hi)
    return (_before(a, b), overlap, _before(b, a))


def _before(a: Interval, b: Interval) -> bool:
    """Test whether some value of `a` may be less than one of `b`."""
    return a.lo is None or b.hi is None or (_not_after(a.lo, b.hi) and a.lo != b.hi)


def _comparison(name: str) -> row.Function:
    def image(args: row.Args, *_: object) -> row.Domain:
        possible = {truth for truth, may in zip(TRUE_IF[name], _orders(args), strict=True) if may}
        return tuple(sorted(possible))

    return row.Function(name, _comparison_type, operands=converted, image=image)


def _membership_values(args: row.Args, *_: object) -> row.Domain:
    """Return the possible results of IN: never true where no option can equal the value."""
    common = common_type(tuple(arg.type for arg in args))
    sides = (args[0].type, *(option.type for option in args[1:]))
    if len({t.kind for t in sides}) > 1 or common is None:
        return (False, True)
    equal = any(_orders((args[0], option))[1] for option in args[1:])
    return (False, True) if equal else (False,)


PREDICATES = (
    *map(_comparison, TRUE_IF),
    row.Function("is_distinct", _comparison_type, operands=converted, nulls=row.never),
    row.Function("is_not_distinct", _comparison_type, operands=converted, nulls=row.never),
    row.Function(
        "in",
        lambda types: BOOLEAN if len(types) > 1 and common_type(types) is not None else None,
        operands=converted,
        image=_membership_values,
    ),
    row.Function(
        "is_null",
        lambda types: BOOLEAN if len(types) == 1 else None,
        nulls=row.never,
        image=_null_values,
    ),
    row.Function("and", _logic_type, image=_and_values),
    row.Function("or", _logic_type, image=_or_values),
    row.Function(
        "not",
        lambda types: _logic_type(types) if len(types) == 1 else None,
        image=lambda args, *_: tuple(
            truth for truth in (False, True) if _may_be(not truth, args[0])
        ),
    ),
    row.Function("like", _like_type, accepts=_well_escaped),
    row.Function(
        "ilike",
        lambda types: _like_type(types) if len(types) == 2 else None,  # noqa: PLR2004
        accepts=_is_short,
    ),
    row.Function("starts_with", row.fixed(BOOLEAN, row.TEXT, row.TEXT), called=(2, 2)),
    row.Function("contains", row.fixed(BOOLEAN, row.TEXT, row.TEXT), called=(2, 2)),
)
