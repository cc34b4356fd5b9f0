"""Intervals and facts: knowledge of an expression's values before any data is read.

An end of None is unbounded and includes the infinities of DOUBLE, DATE and TIMESTAMP. NULL is in no
interval and no domain; `Facts.nullable` covers it. There is no NaN (PRIVACY.md R99).

    >>> Interval(Fraction(-1), Fraction(2)) * Interval(Fraction(3), None)
    Interval(lo=None, hi=None)
    >>> Interval(Fraction(1), Fraction(2)) * Interval(Fraction(3), None)
    Interval(lo=Fraction(3, 1), hi=None)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, isfinite, isnan, nextafter
from typing import TypeAlias, TypeGuard, cast
from uuid import UUID

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Kind, SqlType, Value

Bound: TypeAlias = "Fraction | date | datetime"
"""A finite end: exact for numbers; a date for DATE, a naive datetime for TIMESTAMP, in UTC for
TIMESTAMPTZ.
"""

_Extended: TypeAlias = "Fraction | float"
"""A Fraction, or one of the two float infinities, which compare exactly with it."""

MAX_DOUBLE = Fraction(sys.float_info.max)
EXACT_IN_DOUBLE = 2**sys.float_info.mant_dig
"""Largest number up to which every integer is a DOUBLE."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The closed range [lo, hi]; both ends of one type. Arithmetic is exact and for numbers."""

    lo: Bound | None = None
    hi: Bound | None = None

    @property
    def is_bounded(self) -> bool:
        return self.lo is not None and self.hi is not None

    @property
    def is_nonnegative(self) -> bool:
        return isinstance(self.lo, Fraction) and self.lo >= 0

    def contains(self, value: Bound) -> bool:
        """Test whether a value of the ends' type lies inside.

        >>> Interval(None, Fraction(3)).contains(Fraction(4))
        False
        """
        above = self.lo is None or not _before(value, self.lo)
        return above and (self.hi is None or not _before(self.hi, value))

    def within(self, lo: int, hi: int) -> bool:
        """Test whether every number inside lies in [lo, hi]."""
        bottom, top = _ends(self)
        return lo <= bottom and top <= hi

    def admits(self, value: Value) -> bool:
        """Test whether a value lies inside; values without an end, such as NULL, do."""
        place = bound_of(value)
        return place is None or self.contains(place)

    def __neg__(self) -> Interval:
        bottom, top = _ends(self)
        return _interval(-top, -bottom)

    def __add__(self, other: Interval) -> Interval:
        (a, b), (c, d) = _ends(self), _ends(other)
        return _interval(_plus(a, c), _plus(b, d))

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        corners = [_times(a, b) for a in _ends(self) for b in _ends(other)]
        return _interval(min(corners), max(corners))

    def __truediv__(self, other: Interval) -> Interval:
        """Return the interval of quotients; unbounded where the divisor can be zero."""
        bottom, top = _ends(other)
        if bottom <= 0 <= top:
            return EVERYTHING
        return self * _interval(_reciprocal(top), _reciprocal(bottom))

    def __abs__(self) -> Interval:
        bottom, top = _ends(self)
        if bottom <= 0 <= top:
            return _interval(Fraction(0), max(-bottom, top))
        return self if bottom > 0 else -self

    def union(self, other: Interval) -> Interval:
        """Return the smallest interval that holds both."""
        return Interval(
            None if self.lo is None or other.lo is None else _least(self.lo, other.lo),
            None if self.hi is None or other.hi is None else _greatest(self.hi, other.hi),
        )

    def intersect(self, other: Interval) -> Interval:
        """Return the values in both. If there are none, the result is the point at the larger lower
        end.
        """
        lo, hi = self.lo, self.hi
        if other.lo is not None:
            lo = other.lo if lo is None else _greatest(lo, other.lo)
        if other.hi is not None:
            hi = other.hi if hi is None else _least(hi, other.hi)
        if lo is not None and hi is not None and _before(hi, lo):
            return Interval(lo, lo)
        return Interval(lo, hi)

    def map(self, increasing: Callable[[Bound], Bound | None]) -> Interval:
        """Return the image under an increasing function; a result of None is an unbounded end."""
        return Interval(
            None if self.lo is None else increasing(self.lo),
            None if self.hi is None else increasing(self.hi),
        )

    def outward(self, kind: SqlType, ulps: int = 0) -> Interval:
        """Move the ends outward to doubles and then by `ulps` more, for DOUBLE; else change
        nothing.

        A correctly rounded operation whose exact result lies inside stays inside.

        >>> Interval(Fraction(1, 3), Fraction(10) ** 400).outward(SqlType(Kind.DOUBLE)).hi is None
        True
        """
        if kind.kind is not Kind.DOUBLE:
            return self
        return Interval(
            None if self.lo is None else _double(cast("Fraction", self.lo), -inf, ulps),
            None if self.hi is None else _double(cast("Fraction", self.hi), inf, ulps),
        )

    def inward(self, kind: SqlType) -> Interval:
        """Move the ends inward to values that INTEGER or DECIMAL(p, s) can take.

        >>> Interval(Fraction(61, 2), None).inward(SqlType(Kind.INTEGER)).lo
        Fraction(31, 1)
        """
        if kind.kind not in (Kind.INTEGER, Kind.DECIMAL):
            return self
        step = Fraction(1, 10**kind.scale)
        lo, hi = cast("Fraction | None", self.lo), cast("Fraction | None", self.hi)
        return Interval(
            None if lo is None else ceil(lo / step) * step,
            None if hi is None else floor(hi / step) * step,
        )


EVERYTHING = Interval()


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of an expression: its values other than NULL lie in `interval`.

    `domain` lists all values where they are finitely many. `nullable` allows NULL besides. A text
    has at most `longest` characters. With `nonzero` it is never zero, even if the interval contains
    it.
    """

    type: SqlType
    interval: Interval = EVERYTHING
    nullable: bool = True
    domain: tuple[Value, ...] | None = None
    longest: int | None = None
    nonzero: bool = False

    @property
    def point(self) -> Value:
        """The only possible value; None if there are none or several."""
        return self.domain[0] if self.domain is not None and len(self.domain) == 1 else None


def bound_of(value: Value) -> Bound | None:
    """Convert a value to an end; None for NULL, booleans, NaN, infinities, and types without ends.

    >>> bound_of(Decimal("0.5"))
    Fraction(1, 2)
    """
    match value:
        case None | bool() | str() | time() | UUID():
            return None
        case float():
            return Fraction(value) if isfinite(value) else None
        case int() | Decimal():
            return Fraction(value)
        case datetime():
            return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        case date():
            return value


def hull(values: Iterable[Value]) -> Interval:
    """Return the smallest interval that holds all values; unbounded if one of them has no end.

    >>> hull([3, 1, 2])
    Interval(lo=Fraction(1, 1), hi=Fraction(3, 1))
    """
    listed = list(values)
    numbers = [value for value in listed if _is_plain(value)]
    if numbers and len(numbers) == len(listed):
        return Interval(Fraction(min(numbers)), Fraction(max(numbers)))
    bounds = [end for end in map(bound_of, listed) if end is not None]
    if not bounds or len(bounds) < len(listed) or len({type(end) for end in bounds}) > 1:
        return EVERYTHING
    result = Interval(bounds[0], bounds[0])
    for end in bounds[1:]:
        result = result.union(Interval(end, end))
    return result


def _is_plain(value: Value) -> TypeGuard[int | float]:
    return type(value) is int or (type(value) is float and isfinite(value))


def lattice(kind: SqlType, interval: Interval, limit: int) -> tuple[Value, ...] | None:
    """List all values of a type in an interval, in order; None beyond `limit` or without a grid.

    >>> lattice(SqlType(Kind.DECIMAL, 3, 1), Interval(Fraction(0), Fraction(1, 5)), 10)
    (Decimal('0.0'), Decimal('0.1'), Decimal('0.2'))
    """
    if kind.kind is Kind.BOOLEAN:
        return (False, True)
    lo, hi = interval.lo, interval.hi
    if kind.kind is Kind.DATE and isinstance(lo, date) and isinstance(hi, date):
        days = (hi - lo).days
        return None if days >= limit else tuple(lo + timedelta(n) for n in range(days + 1))
    if not (isinstance(lo, Fraction) and isinstance(hi, Fraction)):
        return None
    if kind.kind not in (Kind.INTEGER, Kind.DECIMAL):
        return None
    first, last = ceil(lo * 10**kind.scale), floor(hi * 10**kind.scale)
    if last - first >= limit:
        return None
    steps = range(first, last + 1)
    if kind.kind is Kind.INTEGER:
        return tuple(steps)
    return tuple(Decimal(f"{n}E-{kind.scale}") for n in steps)


def distinct(values: Iterable[Value]) -> tuple[Value, ...]:
    """Return the distinct values other than NULL and NaN, sorted."""
    values_by_key = {
        value
        for value in values
        if value is not None and not (isinstance(value, float) and isnan(value))
    }
    return tuple(sorted(values_by_key, key=_sortable))


def _sortable(value: Value) -> Decimal | float | str | date | time | UUID:
    """Return the value as its sort key: Python compares numbers of all types exactly."""
    assert value is not None
    return value


def _ends(interval: Interval) -> tuple[_Extended, _Extended]:
    lo, hi = cast("Fraction | None", interval.lo), cast("Fraction | None", interval.hi)
    return (-inf if lo is None else lo, inf if hi is None else hi)


def _interval(bottom: _Extended, top: _Extended) -> Interval:
    return Interval(
        bottom if isinstance(bottom, Fraction) else None, top if isinstance(top, Fraction) else None
    )


def _plus(a: _Extended, b: _Extended) -> _Extended:
    """Add two lower or two upper ends, which are never infinities of opposite signs."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    return b if isinstance(a, Fraction) else a


def _times(a: _Extended, b: _Extended) -> _Extended:
    """Multiply two ends; zero times an unbounded end is zero, because no value is NaN."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    if a == 0 or b == 0:
        return Fraction(0)
    return inf if (a > 0) == (b > 0) else -inf


def _reciprocal(end: _Extended) -> Fraction:
    return 1 / end if isinstance(end, Fraction) else Fraction(0)


def _before(a: Bound, b: Bound) -> bool:
    match a, b:
        case (Fraction(), Fraction()):
            return a < b
        case (datetime(), datetime()):
            return a < b
        case (date(), date()):
            return a < b
        case _:
            raise TypeError


def _least(a: Bound, b: Bound) -> Bound:
    return b if _before(b, a) else a


def _greatest(a: Bound, b: Bound) -> Bound:
    return b if _before(a, b) else a


def _double(end: Fraction, direction: float, ulps: int) -> Fraction | None:
    """Return the nearest double at or beyond `end` in `direction`, then `ulps` further; None:
    infinite.
    """
    if not ulps and end.denominator == 1 and abs(end.numerator) <= EXACT_IN_DOUBLE:
        return end
    if abs(end) > MAX_DOUBLE:
        double = direction if (end > 0) == (direction > 0) else float(MAX_DOUBLE) * (1, -1)[end < 0]
    else:
        double = float(end)
        if (Fraction(double) - end) * (1 if direction > 0 else -1) < 0:
            double = nextafter(double, direction)
    for _ in range(ulps if double else 0):
        double = nextafter(double, direction)
    return Fraction(double) if isfinite(double) else None
