"""CASE, COALESCE, NULLIF, LEAST and GREATEST: the result is the value of an argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from dpsql.functions.row import TRUTH, Args, Function, Types, always
from dpsql.functions.type_rules import as_type, common_type, converted
from dpsql.model.intervals import EVERYTHING, Facts, Interval
from dpsql.model.tree import SqlType


def _then_positions(count: int) -> tuple[int, ...]:
    """Return the positions of the values of case(when1, then1, ..., otherwise)."""
    return (*range(1, count, 2), count - 1)


def reached(args: Args) -> Args:
    """Return the arguments of CASE, with empty facts for values that no row reaches.

    A branch is not reached if its condition is never true, or an earlier one always is.
    """
    result, ends = list(args), False
    for condition in range(0, len(args) - 1, 2):
        truths = args[condition].domain
        if ends or (truths is not None and True not in truths):
            result[condition + 1] = _nothing(args[condition + 1])
        ends = ends or (truths == (True,) and not args[condition].nullable)
    if ends:
        result[-1] = _nothing(args[-1])
    return tuple(result)


def _nothing(arg: Facts) -> Facts:
    return replace(arg, nullable=False, domain=())


def _case_type(types: Types) -> SqlType | None:
    conditions = types[:-1:2]
    fits = conditions and len(types) % 2 == 1 and all(t.kind in TRUTH for t in conditions)
    if not fits:
        return None
    return common_type(tuple(types[n] for n in _then_positions(len(types))))


def _case_operands(types: Types) -> tuple[SqlType | None, ...]:
    result = converted(tuple(types[n] for n in _then_positions(len(types))))[0]
    thens = set(_then_positions(len(types)))
    return tuple(result if n in thens else None for n in range(len(types)))


def _of(positions: Callable[[int], tuple[int, ...]], args: Args) -> Args:
    return tuple(args[n] for n in positions(len(args)))


def _everyone(count: int) -> tuple[int, ...]:
    return tuple(range(count))


def _first(_count: int) -> tuple[int, ...]:
    return (0,)


def _union(positions: Callable[[int], tuple[int, ...]]) -> Callable[[Args, SqlType], Interval]:
    def interval(args: Args, kind: SqlType) -> Interval:
        sides = [as_type(arg, kind) for arg in _of(positions, args) if arg.domain != ()]
        return reduce(Interval.union, sides) if sides else EVERYTHING

    return interval


def _least(args: Args, kind: SqlType) -> Interval:
    """Return the interval of LEAST: at most the upper end of each argument that is never NULL."""
    everyone = _union(_everyone)(args, kind)
    for arg in args:
        if not arg.nullable:
            everyone = everyone.intersect(Interval(None, as_type(arg, kind).hi))
    return everyone


def _greatest(args: Args, kind: SqlType) -> Interval:
    """Return the interval of GREATEST: at least the lower end of each argument that is
    never NULL.
    """
    everyone = _union(_everyone)(args, kind)
    for arg in args:
        if not arg.nullable:
            everyone = everyone.intersect(Interval(as_type(arg, kind).lo, None))
    return everyone


def _all_nullable(args: Args) -> bool:
    return all(arg.nullable for arg in args)


def _common(types: Types) -> SqlType | None:
    return common_type(types) if types else None


def _nullif_type(types: Types) -> SqlType | None:
    """Return the first argument's own type, unless the comparison needs another type."""
    common = common_type(types) if len(types) == 2 else None  # noqa: PLR2004
    if common is None or common.kind is not types[0].kind:
        return None
    own = types[0]
    keeps_digits = own.precision - own.scale <= common.precision - common.scale
    return own if keeps_digits else None


CONDITIONALS = (
    Function(
        "case",
        _case_type,
        _union(_then_positions),
        operands=_case_operands,
        nulls=lambda args: any(arg.nullable for arg in _of(_then_positions, args)),
        union=_then_positions,
    ),
    Function(
        "coalesce",
        _common,
        _union(_everyone),
        operands=converted,
        nulls=_all_nullable,
        union=_everyone,
        called=(1, None),
    ),
    Function(
        "nullif",
        _nullif_type,
        _union(_first),
        operands=converted,
        nulls=always,
        nonzero=lambda args: args[1].point == 0 and not args[1].nullable,
        union=_first,
        called=(2, 2),
    ),
    Function(
        "least",
        _common,
        _least,
        operands=converted,
        nulls=_all_nullable,
        union=_everyone,
        called=(1, None),
    ),
    Function(
        "greatest",
        _common,
        _greatest,
        operands=converted,
        nulls=_all_nullable,
        union=_everyone,
        called=(1, None),
    ),
)
