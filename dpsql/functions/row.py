"""What is known of a scalar function: a row of the table, and the rules that rows share.

Every row has a form that cannot raise: SECURITY.md S8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.intervals import EVERYTHING, Facts, Interval, lattice
from dpsql.model.tree import (
    AggregateCall,
    Call,
    Cast,
    Expression,
    Kind,
    Literal,
    Ref,
    SqlType,
    Value,
    WindowCall,
)

Types: TypeAlias = "tuple[SqlType, ...]"
Args: TypeAlias = "tuple[Facts, ...]"
Domain: TypeAlias = "tuple[Value, ...] | None"

LONGEST_TEXT = 4096
"""Text that a function makes longer is cut here: doubling a text thirty times would otherwise
exhaust memory if and only if some row holds it, and a failure is a bit about that row."""

LONGEST_REPLACEMENT = 64
"""The longest text that may take the place of each of a text's parts, for the same reason."""


def any_nullable(args: Args) -> bool:
    """NULL if any argument is NULL: most functions."""
    return any(arg.nullable for arg in args)


@dataclass(frozen=True, slots=True)
class Function:
    """One scalar function or operator.

    `result_type` is None where the types do not fit. `interval` bounds the result's values given
    facts that are true of the arguments. `operands` are the types to which the engine converts
    the arguments (None: as they are). `nulls` says whether the result can be NULL given the
    arguments' facts; `raises`, whether the plain form can raise on arguments of these facts
    (its total form is NULL there); `nan`, whether a DOUBLE can be NaN although no argument is (so
    too there); `nonzero`, whether no result is zero. `union` gives, for a number of arguments,
    those whose values are the result's; without it the result is a function of the arguments'
    values alone, and `image` lists them from their facts and the interval.
    `accepts` looks at the arguments as written: some must be literals. `called` are the fewest and
    the most arguments (None: any number) with which a text may call it by this name, in this order;
    without it it is written in other words alone (see `dialects.reading`).
    """

    name: str
    result_type: Callable[[Types], SqlType | None]
    interval: Callable[[Args, SqlType], Interval] = lambda _args, _type: EVERYTHING
    operands: Callable[[Types], tuple[SqlType | None, ...]] = lambda types: (None,) * len(types)
    nulls: Callable[[Args], bool] = any_nullable
    raises: Callable[[Args, SqlType], bool] = lambda _args, _type: False
    nan: Callable[[Args], bool] = lambda _args: False
    nonzero: Callable[[Args], bool] = lambda _args: False
    union: Callable[[int], Iterable[int]] | None = None
    image: Callable[[Args, SqlType, Interval, int], Domain] = lambda _args, kind, interval, limit: (
        lattice(kind, interval, limit)
    )
    accepts: Callable[[tuple[Expression, ...]], bool] = lambda _args: True
    called: tuple[int, int | None] | None = None


def always(_args: Args) -> bool:
    """Can be NULL, or NaN, whatever the arguments."""
    return True


def never(_args: Args) -> bool:
    """Cannot be NULL, or NaN, whatever the arguments."""
    return False


def fixed(
    result: SqlType, *kinds: frozenset[Kind], least: int | None = None
) -> Callable[[Types], SqlType | None]:
    """The result type of a function with these kinds of arguments, all or at least `least`."""
    fewest = len(kinds) if least is None else least

    def result_type(types: Types) -> SqlType | None:
        fits = fewest <= len(types) <= len(kinds) and all(
            t.kind in allowed for t, allowed in zip(types, kinds, strict=False)
        )
        return result if fits else None

    return result_type


def constant(interval: Interval) -> Callable[[Args, SqlType], Interval]:
    """An interval that holds whatever the arguments."""
    return lambda _args, _type: interval


def value_at(args: tuple[Expression, ...], position: int) -> Value:
    """The constant at a position, None where there is none."""
    arg = args[position] if position < len(args) else None
    return arg.value if isinstance(arg, Literal) else None


def type_at(args: tuple[Expression, ...], position: int) -> SqlType | None:
    """The type of the argument at a position, None where it has none of its own."""
    match args[position]:
        case Literal(type=kind) | Ref(type=kind) | Call(type=kind) | Cast(type=kind):
            return kind
        case AggregateCall(type=kind) | WindowCall(type=kind):
            return kind
        case _:
            return None


def unlisted(_args: Args, _kind: SqlType, _interval: Interval, _limit: int) -> Domain:
    """No list of values from the interval: evaluating listed arguments says more."""
    return None


def raising(_args: Args, _kind: SqlType) -> bool:
    """Can raise whatever the arguments."""
    return True


def literal_at(*positions: int) -> Callable[[tuple[Expression, ...]], bool]:
    """Accepts only literals other than NULL at these positions, where they are given."""

    def accepts(args: tuple[Expression, ...]) -> bool:
        return all(
            isinstance(arg, Literal) and arg.value is not None
            for position, arg in enumerate(args)
            if position in positions
        )

    return accepts


NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})
WHOLE = frozenset({Kind.INTEGER})
TEXT = frozenset({Kind.VARCHAR})
TEMPORAL = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
TRUTH = frozenset({Kind.BOOLEAN, Kind.NULL})
