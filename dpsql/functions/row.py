"""The type of a scalar function: a row of the table, and rules that rows share.

Every row has a form that cannot raise: SECURITY.md S8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from dpsql.model import tree
from dpsql.model.dataclass import dataclass
from dpsql.model.intervals import EVERYTHING, Facts, Interval, lattice
from dpsql.model.tree import SqlType, Value

Types: TypeAlias = "tuple[SqlType, ...]"
Args: TypeAlias = "tuple[Facts, ...]"
Domain: TypeAlias = "tuple[Value, ...] | None"

LONGEST_TEXT = 4096
"""Longest text that a function returns; longer ones are cut. Doubling a text thirty times would
exhaust memory if and only if some row holds it, and a failure is a bit about that row.
"""

LONGEST_REPLACEMENT = 64
"""Longest replacement of each part of a text, for the same reason."""


def any_nullable(args: Args) -> bool:
    """Test whether any argument may be NULL: then most functions are NULL."""
    return any(arg.nullable for arg in args)


@dataclass(frozen=True, slots=True)
class Function:
    """A scalar function or operator.

    `result_type` is None where the types do not fit. `interval` bounds the result's values, given
    true facts of the arguments. `operands` are the types to which the engine converts the arguments
    (None: unchanged).

    `nulls` tests whether the result can be NULL, by the arguments' facts. `raises` tests whether
    the plain form can raise on such arguments; its total form is NULL there. `nan` tests whether a
    DOUBLE can be NaN although no argument is; it is NULL there too. `nonzero` tests that no result
    is zero.

    `union` returns, for a number of arguments, the positions of the values that the result can
    have. Without it the result is a function of the arguments' values, and `image` lists the
    results from the arguments' facts and the interval.

    `accepts` checks the arguments as written: some must be literals. `called` gives the fewest and
    the most arguments (None: any number) for calls by this name, in this order. Without it, SQL
    text writes the function in another way (see `dialects.reading`).
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
    accepts: Callable[[tuple[tree.Expression, ...]], bool] = lambda _args: True
    called: tuple[int, int | None] | None = None


def always(_args: Args) -> bool:
    """Rule: the result may be NULL, or NaN, for any arguments."""
    return True


def never(_args: Args) -> bool:
    """Rule: the result is never NULL, or NaN."""
    return False


def fixed(
    result: SqlType, *kinds: frozenset[tree.Kind], least: int | None = None
) -> Callable[[Types], SqlType | None]:
    """Return a rule: this result type if all arguments, or at least `least`, have these kinds."""
    fewest = len(kinds) if least is None else least

    def result_type(types: Types) -> SqlType | None:
        fits = fewest <= len(types) <= len(kinds) and all(
            t.kind in allowed for t, allowed in zip(types, kinds, strict=False)
        )
        return result if fits else None

    return result_type


def constant(interval: Interval) -> Callable[[Args, SqlType], Interval]:
    """Return a rule: this interval for any arguments."""
    return lambda _args, _type: interval


def value_at(args: tuple[tree.Expression, ...], position: int) -> Value:
    """Return the constant at a position; None if it is missing or no literal."""
    arg = args[position] if position < len(args) else None
    return arg.value if isinstance(arg, tree.Literal) else None


def type_at(args: tuple[tree.Expression, ...], position: int) -> SqlType | None:
    """Return the type of the argument at a position; None where it has no type of its own."""
    match args[position]:
        case (
            tree.Literal(type=kind)
            | tree.Ref(type=kind)
            | tree.Call(type=kind)
            | tree.Cast(type=kind)
        ):
            return kind
        case tree.AggregateCall(type=kind) | tree.WindowCall(type=kind):
            return kind
        case _:
            return None


def unlisted(_args: Args, _kind: SqlType, _interval: Interval, _limit: int) -> Domain:
    """Rule: list no values from the interval. Evaluating listed arguments gives more."""
    return None


def raising(_args: Args, _kind: SqlType) -> bool:
    """Rule: the function can raise for any arguments."""
    return True


def literal_at(*positions: int) -> Callable[[tuple[tree.Expression, ...]], bool]:
    """Return a test that arguments at these positions, if given, are literals other than NULL."""

    def accepts(args: tuple[tree.Expression, ...]) -> bool:
        return all(
            isinstance(arg, tree.Literal) and arg.value is not None
            for position, arg in enumerate(args)
            if position in positions
        )

    return accepts


NUMBERS = frozenset({tree.Kind.INTEGER, tree.Kind.DECIMAL, tree.Kind.DOUBLE})
WHOLE = frozenset({tree.Kind.INTEGER})
TEXT = frozenset({tree.Kind.VARCHAR})
TEMPORAL = frozenset({tree.Kind.DATE, tree.Kind.TIMESTAMP, tree.Kind.TIMESTAMPTZ})
TRUTH = frozenset({tree.Kind.BOOLEAN, tree.Kind.NULL})
