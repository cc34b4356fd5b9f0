"""CAST as a function of one argument per target type. A failing conversion is NULL in the total
form.

INTEGER is BIGINT as a target: 64 bits. DOUBLE to INTEGER rounds halves to even, DECIMAL away from
zero; intervals cover both.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from fractions import Fraction
from typing import cast as assume

from dpsql.functions.dates import naive
from dpsql.functions.row import Args, Domain, Function, Types
from dpsql.functions.type_rules import INT64, as_type, fits_decimal
from dpsql.model.intervals import EVERYTHING, Bound, Interval, distinct, lattice
from dpsql.model.tree import DATE, INTEGER, TIMESTAMP, TIMESTAMPTZ, Kind, SqlType

NUMERIC = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.VARCHAR})
SOURCES = {
    Kind.BOOLEAN: NUMERIC,
    Kind.INTEGER: NUMERIC,
    Kind.DECIMAL: NUMERIC,
    Kind.DOUBLE: NUMERIC,
    Kind.VARCHAR: frozenset(Kind) - {Kind.NULL, Kind.TIMESTAMPTZ, Kind.INTERVAL},
    Kind.LIST: frozenset({Kind.VARCHAR}),
    Kind.DATE: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.VARCHAR}),
    Kind.TIMESTAMP: frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.VARCHAR}),
    Kind.TIMESTAMPTZ: frozenset({Kind.TIMESTAMPTZ, Kind.VARCHAR}),
    Kind.TIME: frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.VARCHAR}),
    Kind.UUID: frozenset({Kind.UUID, Kind.VARCHAR}),
}
"""The source kinds and the kinds to which each can be cast. Times with a zone are in UTC."""


def _rounded(interval: Interval, scale: int) -> Interval:
    """Round the ends outward to `scale` digits, which holds for any rule for halves."""
    step, half = 10**scale, Fraction(1, 2)

    def down(end: Bound) -> Fraction:
        return Fraction(math.ceil(assume("Fraction", end) * step - half), step)

    def up(end: Bound) -> Fraction:
        return Fraction(math.floor(assume("Fraction", end) * step + half), step)

    return Interval(interval.map(down).lo, interval.map(up).hi)


def _day(moment: Bound) -> date:
    assert isinstance(moment, datetime)
    return moment.date()


def _interval(args: Args, target: SqlType) -> Interval:
    source = args[0]
    match (source.type.kind, target.kind):
        case (Kind.BOOLEAN, Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE):
            return Interval(Fraction(0), Fraction(1))
        case (Kind.DOUBLE, Kind.DECIMAL):
            # DuckDB scales in double arithmetic before it rounds.
            return _rounded(source.interval.outward(source.type, 4), target.scale)
        case (Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE, Kind.INTEGER | Kind.DECIMAL):
            return _rounded(source.interval, target.scale)
        case (Kind.TIMESTAMP | Kind.TIMESTAMPTZ, Kind.DATE):
            return source.interval.map(_day)
        case (Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ, _) if target.is_temporal:
            return as_type(source, target)
        case (a, b) if a is b or b is Kind.DOUBLE:
            return EVERYTHING if a is Kind.VARCHAR else as_type(source, target)
        case _:
            return EVERYTHING


def _raises(args: Args, target: SqlType) -> bool:
    """Test whether a conversion can fail: text that is no value, large numbers, far dates."""
    source = args[0]
    match (source.type.kind, target.kind):
        case (Kind.NULL, _) | (_, Kind.VARCHAR | Kind.LIST):
            return False
        case (Kind.VARCHAR, _):
            return True
        case (Kind.BOOLEAN, Kind.DECIMAL):
            return target.precision == target.scale
        case (Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE, Kind.INTEGER):
            return not source.interval.within(-INT64, INT64 - 1024)
        case (Kind.INTEGER | Kind.DECIMAL | Kind.DOUBLE, Kind.DECIMAL):
            digits_lost = source.type.scale > target.scale
            fits = fits_decimal(source.interval, INTEGER if digits_lost else source.type, target)
            return not fits
        case (Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ, _) if source.type != target:
            return not source.interval.is_bounded
        case _:
            return False


def _image(args: Args, target: SqlType, interval: Interval, limit: int) -> Domain:
    """Return the days of known times; for other arguments the grid of the interval."""
    times = args[0].domain
    if times is None or target != DATE or args[0].type not in (TIMESTAMP, TIMESTAMPTZ):
        return lattice(target, interval, limit)
    return distinct(naive(time).date() for time in times if isinstance(time, datetime))


def cast_to(target: SqlType) -> Function:
    """Return CAST to a type, as a function of one argument.

    >>> from dpsql.model.tree import DATE, VARCHAR
    >>> str(cast_to(DATE).result_type((VARCHAR,))), cast_to(DATE).result_type((INTEGER,))
    ('DATE', None)
    """

    def result_type(types: Types) -> SqlType | None:
        allowed = SOURCES.get(target.kind, frozenset()) | {Kind.NULL}
        return target if len(types) == 1 and types[0].kind in allowed else None

    return Function(
        "cast",
        result_type,
        _interval,
        raises=_raises,
        nan=lambda args: args[0].type.kind is Kind.VARCHAR,
        image=_image,
    )
