"""Functions of text. Lengths and positions count code points, from 1."""

from __future__ import annotations

from fractions import Fraction

from dpsql.functions.row import (
    LONGEST_REPLACEMENT,
    TEXT,
    WHOLE,
    Args,
    Function,
    Types,
    any_nullable,
    constant,
    fixed,
    value_at,
)
from dpsql.functions.type_rules import INT64
from dpsql.model.intervals import Interval
from dpsql.model.tree import INTEGER, VARCHAR, Expression, SqlType

FARTHEST = 2**32 - 1
COUNT = constant(Interval(Fraction(0), None))


def _concatenated(types: Types) -> SqlType | None:
    return VARCHAR if types and all(t.kind in TEXT for t in types) else None


def _one_or_two(types: Types) -> SqlType | None:
    return _concatenated(types) if len(types) in (1, 2) else None


def _substring(types: Types) -> SqlType | None:
    numbers = types[1:]
    fits = len(numbers) in (1, 2) and all(t == INTEGER for t in numbers)
    return VARCHAR if fits and types[0].kind in TEXT else None


def _too_far(args: Args, _kind: SqlType) -> bool:
    """DuckDB raises on offsets and lengths beyond 32 bits."""
    return not all(arg.interval.within(-FARTHEST, FARTHEST) for arg in args[1:])


def _uncounted(args: Args) -> bool:
    """A number of more than 64 bits is none."""
    return any_nullable(args) or not args[1].interval.within(-INT64, INT64)


def _is_short(args: tuple[Expression, ...]) -> bool:
    """Literals, of which the second does not make the text much longer than the first."""
    sought, replacement = value_at(args, 1), value_at(args, 2)
    if not (isinstance(sought, str) and isinstance(replacement, str)):
        return False
    return len(replacement) <= max(LONGEST_REPLACEMENT, len(sought))


MOST_COPIES = 64
"""How often a text that rows decide may be repeated."""


def _is_repetition(args: tuple[Expression, ...]) -> bool:
    """Of a literal as often as rows say, or of any text a few times."""
    count = value_at(args, 1)
    if isinstance(value_at(args, 0), str):
        return True
    return type(count) is int and 0 <= count <= MOST_COPIES


STRINGS = (
    Function("length_grapheme", fixed(INTEGER, TEXT), COUNT),
    Function("left_grapheme", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far),
    Function("right_grapheme", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far),
    Function("substring_grapheme", _substring, raises=_too_far),
    Function("repeat", fixed(VARCHAR, TEXT, WHOLE), nulls=_uncounted, accepts=_is_repetition),
    Function("length", fixed(INTEGER, TEXT), COUNT),
    Function("strpos", fixed(INTEGER, TEXT, TEXT), COUNT),
    Function("lower", fixed(VARCHAR, TEXT)),
    Function("upper", fixed(VARCHAR, TEXT)),
    Function("substring", _substring, raises=_too_far),
    Function("left", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far),
    Function("right", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far),
    Function("trim", _one_or_two),
    Function("ltrim", _one_or_two),
    Function("rtrim", _one_or_two),
    # NULL if any part is NULL, as `||`; cut at LONGEST_TEXT, as `replace`.
    Function("concat", _concatenated),
    Function("replace", fixed(VARCHAR, TEXT, TEXT, TEXT), accepts=_is_short),
)
