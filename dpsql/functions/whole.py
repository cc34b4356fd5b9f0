"""Integers and tests of numbers: divisors, bits, buckets, NaN and infinities."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import factorial

from dpsql.functions.numeric import POSITIVE
from dpsql.functions.row import (
    NUMBERS,
    WHOLE,
    Args,
    Function,
    Types,
    constant,
    fixed,
    never,
    raising,
    unlisted,
)
from dpsql.functions.type_rules import as_double
from dpsql.model.intervals import EVERYTHING, Bound, Interval
from dpsql.model.tree import BOOLEAN, DOUBLE, INTEGER, Expression, Kind, Literal, SqlType

FLOATING = frozenset({Kind.DOUBLE})
MOST_BUCKETS = 1_000_000
FARTHEST_BOUND = 10.0**15


def _even(args: Args, _kind: SqlType) -> Interval:
    """EVEN(x) is the next even number away from zero: at most two further."""
    room = Interval(Fraction(-2), Fraction(2))
    return (as_double(args[0]) + room).outward(DOUBLE, 4)


def _length(source: Interval) -> int:
    """How many bits the largest number of a bounded interval has."""
    assert isinstance(source.hi, Fraction)
    return int(source.hi).bit_length()


def _exclusive(args: Args, _kind: SqlType) -> Interval:
    """XOR sets no bit beyond those of the larger side; signs are left to the engine."""
    if not all(arg.interval.within(0, 2**127 - 1) for arg in args):
        return EVERYTHING
    return Interval(Fraction(0), Fraction(2 ** max(_length(arg.interval) for arg in args) - 1))


def _bucket_type(types: Types) -> SqlType | None:
    fits = len(types) == 4 and all(t.is_numeric for t in types)  # noqa: PLR2004
    return INTEGER if fits and types[3] == INTEGER else None


def _buckets(args: Args, _kind: SqlType) -> Interval:
    count = args[3].point
    most = count + 1 if isinstance(count, int) else MOST_BUCKETS + 1
    return Interval(Fraction(0), Fraction(most))


def _true_buckets(args: tuple[Expression, ...]) -> bool:
    """Literal bounds in order, and a literal number of buckets."""
    values = [arg.value if isinstance(arg, Literal) else None for arg in args[1:]]
    if len(values) != 3 or not all(isinstance(v, int | float | Decimal) for v in values):  # noqa: PLR2004
        return False
    low, high, count = values
    assert isinstance(low, int | float | Decimal)
    assert isinstance(high, int | float | Decimal)
    finite = all(abs(float(v)) < FARTHEST_BOUND for v in (low, high))
    return finite and low < high and type(count) is int and 0 < count <= MOST_BUCKETS


MOST_FACTORS = 33
"""34! has more than 128 bits."""


def _factorial(args: Args, _kind: SqlType) -> Interval:
    """It grows; outside of 0 to 33 there is none."""
    within = args[0].interval.intersect(Interval(Fraction(0), Fraction(MOST_FACTORS)))
    return within.map(lambda end: Fraction(factorial(_clamped(end))))


def _clamped(end: Bound) -> int:
    assert isinstance(end, Fraction)
    return min(max(int(end), 0), MOST_FACTORS)


INTEGERS = (
    Function("factorial", fixed(INTEGER, WHOLE), _factorial, raises=raising, image=unlisted),
    Function("gcd", fixed(INTEGER, WHOLE, WHOLE), constant(POSITIVE), raises=raising),
    Function("lcm", fixed(INTEGER, WHOLE, WHOLE), constant(POSITIVE), raises=raising),
    Function("xor", fixed(INTEGER, WHOLE, WHOLE), _exclusive),
    Function("even", fixed(DOUBLE, NUMBERS), _even),
    Function("isnan", fixed(BOOLEAN, FLOATING), nan=never),
    Function("isinf", fixed(BOOLEAN, FLOATING), nan=never),
    Function("isfinite", fixed(BOOLEAN, FLOATING), nan=never),
    Function("signbit", fixed(BOOLEAN, FLOATING), nan=never),
    Function("width_bucket", _bucket_type, _buckets, accepts=_true_buckets),
)
