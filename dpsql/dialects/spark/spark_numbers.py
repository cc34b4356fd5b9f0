"""Arithmetic and conversions on Spark that cannot raise or overflow in any reordering.

Exact numbers are DECIMALs, declared as wide as needed, with at most 38 digits. A term that might
have more is refused, so that ANSI mode never matters. DOUBLEs are IEEE's. A quotient by zero, which
would raise, never has zero as denominator.

SECURITY.md S8, S28.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpsql.dialects.expression_printer import DIGITS, STORED_DIGITS
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.spark.spark_constants import constant, double, lacking, type_sql
from dpsql.dialects.sql_text import ATOM, LOOSE, MINUS, OTHER, PRODUCT, SUM
from dpsql.model.tree import NOWHERE, Kind, Literal, Span, SqlType

SHORT = 18
"""Digits of a DECIMAL that results from two equally short ones, regardless of its type. Every
integer of this length fits 64 bits.
"""
_LEAST, _PAST = "-9223372036854775808.0D", "9223372036854775808.0D"
_INFINITY = double(float("inf"))
_FIRST_DAY, _LAST_DAY = "DATE '0001-01-01'", "DATE '9999-12-31'"


def digits_of(text: Sized) -> int:
    """Return the digits of an exact number's integer part."""
    return DIGITS if text.digits is None else text.digits


def as_decimal(text: Sized) -> str:
    """Return SQL for an exact number as a sufficiently wide DECIMAL. Raises `Refused` beyond 38
    digits.
    """
    digits = digits_of(text) + text.type.scale
    if digits > DIGITS:
        raise lacking("arithmetic with so many digits")
    return f"CAST({text.sql} AS DECIMAL({digits},{text.type.scale}))"


def as_double(text: Sized) -> Sized:
    """Return a number as DOUBLE."""
    if text.type.kind is Kind.DOUBLE:
        return text
    kind = SqlType(Kind.DOUBLE)
    if text.literal is not None:
        literal = Literal(text.literal.value, kind)
        return Sized(constant(literal), kind, MINUS, literal=literal)
    return Sized(f"CAST({text.sql} AS DOUBLE)", kind)


def in_one_type(args: Sequence[Sized], kinds: Sequence[SqlType | None]) -> tuple[Sized, ...]:
    """Return exact numbers of different types in one type with room for all; NULL for longer
    ones.

    An engine takes the type of one of them, or casts to a common one, and fails if it is too
    narrow.
    """
    exact_ones = [
        arg for arg, kind in zip(args, kinds, strict=True) if kind and kind.kind is Kind.DECIMAL
    ]
    if len({arg.type for arg in exact_ones}) <= 1:
        return tuple(args)
    whole = max(map(digits_of, exact_ones))

    def converted_one(arg: Sized, kind: SqlType | None) -> Sized:
        if arg not in exact_ones or kind is None or arg.type.kind is Kind.NULL:
            return arg
        if whole + kind.scale > DIGITS:
            return Sized(in_type(arg.sql, kind), kind, digits=kind.precision - kind.scale)
        sql = f"CAST({arg.sql} AS DECIMAL({whole + kind.scale},{kind.scale}))"
        return Sized(sql, kind, digits=digits_of(arg))

    return tuple(converted_one(arg, kind) for arg, kind in zip(args, kinds, strict=True))


def one_value(x: str, kind: SqlType) -> str:
    """Return the same bits for equal values: one zero, one NaN."""
    if kind.kind is not Kind.DOUBLE:
        return x
    nan = double(float("nan"))
    return f"CASE WHEN {x} = 0D THEN 0D WHEN isnan({x}) THEN {nan} ELSE {x} END"


def exact(sql: str, kind: SqlType, digits: int, precision: int = DIGITS) -> Sized:
    """Return SQL of an exact number with up to `digits` before the point, as its type.

    A value that is too large for the type is NULL.
    """
    if digits + kind.scale > DIGITS:
        raise lacking("arithmetic with so many digits")
    sql = f"CAST({sql} AS DECIMAL({digits + kind.scale},{kind.scale}))"
    most = DIGITS if kind.kind is Kind.INTEGER else min(kind.precision, precision) - kind.scale
    if digits > most:
        sql = f"CASE WHEN abs({sql}) < {10**most}BD THEN {sql} END"
    return Sized(sql, kind, ATOM if digits <= most else LOOSE, digits=min(digits, most))


def _precision(args: tuple[Sized, ...], kind: SqlType) -> int:
    """Return the total number of digits that the result may have."""
    short = all(a.type.kind is Kind.DECIMAL and digits_of(a) + a.type.scale <= SHORT for a in args)
    return SHORT if short and kind.scale < SHORT else DIGITS


def added(sign: str, args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return a sum or a difference."""
    if kind.kind is Kind.DOUBLE:
        a, b = map(as_double, args)
        return Sized(f"{a.operand(SUM)} {sign} {b.operand(PRODUCT)}", kind, OTHER)
    digits = max(map(digits_of, args)) + 1
    sql = f"{as_decimal(args[0])} {sign} {as_decimal(args[1])}"
    return exact(sql, kind, digits, _precision(args, kind))


def multiplied(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return a product."""
    if kind.kind is Kind.DOUBLE:
        a, b = map(as_double, args)
        return Sized(f"{a.operand(PRODUCT)} * {b.operand(PRODUCT)}", kind, OTHER)
    digits = sum(map(digits_of, args))
    # The engine keeps one digit more than both have, and drops the last ones for it.
    if kind.scale and digits + kind.scale + 1 > DIGITS:
        raise lacking("arithmetic with so many digits")
    return exact(" * ".join(map(as_decimal, args)), kind, digits, _precision(args, kind))


def divided(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return a quotient in DOUBLE, infinite or NaN by zero."""
    a, b = map(as_double, args)
    if b.literal is not None and b.literal.value not in (None, 0):
        return Sized(f"{a.operand(PRODUCT)} / {b.operand(ATOM)}", kind, OTHER)
    a_, b_ = a.operand(ATOM), b.operand(ATOM)
    sign = f"({a_} > 0D) = (CAST({b_} AS STRING) <> '-0.0')"
    steps = [
        f"WHEN {b_} = 0D AND ({a_} = 0D OR isnan({a_})) THEN {double(float('nan'))}",
        f"WHEN {b_} = 0D AND {sign} THEN {_INFINITY}",
        f"WHEN {b_} = 0D AND {a_} IS NOT NULL THEN -{_INFINITY}",
    ]
    # Sail computes this for all rows, and its NULLIF distinguishes -0.0 from 0.0.
    return Sized(f"CASE {' '.join(steps)} ELSE {a_} / NULLIF({b_} + 0D, 0D) END", kind)


def converted(arg: Sized, kind: SqlType, span: Span = NOWHERE) -> Sized:
    """Return the value in another type. Raises `Refused` for an unsupported conversion."""
    if arg.type.kind is Kind.NULL:
        return Sized(f"CAST(NULL AS {type_sql(kind)})", kind)
    if arg.type.kind is kind.kind and kind.kind not in (Kind.DECIMAL, Kind.INTEGER):
        return arg
    rule = _RULES.get((arg.type.kind, kind.kind))
    if rule is None:
        raise lacking(f"a conversion of {arg.type} to {kind}", span)
    return rule(arg, kind)


def _rounded(arg: Sized, kind: SqlType) -> Sized:
    """Return a DECIMAL as the nearest integer, halves away from zero."""
    digits = min(digits_of(arg) + 1, STORED_DIGITS)
    return Sized(f"try_cast(round({arg.sql}) AS BIGINT)", kind, digits=digits)


def in_type(sql: str, kind: SqlType) -> str:
    """Return SQL for an exact number in the digits of a DECIMAL, halves away from zero; NULL if it
    has more.

    It is rounded before it is cast: an engine may compare a cast value by its earlier digits.
    """
    return f"try_cast(round({sql}, {kind.scale}) AS {type_sql(kind)})"


def _to_decimal(arg: Sized, kind: SqlType) -> Sized:
    digits = kind.precision - kind.scale
    return Sized(in_type(arg.sql, kind), kind, digits=digits)


def _from_double(arg: Sized, kind: SqlType) -> Sized:
    """Return a DOUBLE as the nearest integer, halves to even; NULL if it does not fit 64 bits."""
    x = arg.operand(ATOM)
    fits = f"{x} >= {_LEAST} AND {x} < {_PAST}"
    cut = f"CASE WHEN {fits} THEN try_cast(bround({x}) AS BIGINT) END"
    return Sized(cut, kind, digits=STORED_DIGITS)


def within_years(x: str, then: str) -> str:
    """Return `then` for dates in years 1 to 9999, else NULL; no engine shows others as a key."""
    return f"CASE WHEN CAST({x} AS DATE) BETWEEN {_FIRST_DAY} AND {_LAST_DAY} THEN {then} END"


def _plain(arg: Sized, kind: SqlType) -> Sized:
    return Sized(f"CAST({arg.sql} AS {type_sql(kind)})", kind)


_Rule = Callable[[Sized, SqlType], Sized]

_RULES: dict[tuple[Kind, Kind], _Rule] = {
    (Kind.INTEGER, Kind.INTEGER): lambda arg, kind: Sized(
        f"try_cast({arg.sql} AS BIGINT)", kind, digits=min(digits_of(arg), STORED_DIGITS)
    ),
    (Kind.DECIMAL, Kind.INTEGER): _rounded,
    (Kind.DOUBLE, Kind.INTEGER): _from_double,
    (Kind.BOOLEAN, Kind.INTEGER): lambda arg, kind: Sized(
        f"CAST({arg.sql} AS INT)", kind, digits=1
    ),
    (Kind.INTEGER, Kind.DECIMAL): _to_decimal,
    (Kind.DECIMAL, Kind.DECIMAL): _to_decimal,
    (Kind.INTEGER, Kind.DOUBLE): lambda arg, _kind: as_double(arg),
    (Kind.DECIMAL, Kind.DOUBLE): lambda arg, _kind: as_double(arg),
    (Kind.DATE, Kind.TIMESTAMP): lambda arg, kind: Sized(
        within_years(arg.sql, f"CAST({arg.sql} AS {type_sql(kind)})"), kind
    ),
    (Kind.TIMESTAMP, Kind.DATE): _plain,
    (Kind.INTEGER, Kind.VARCHAR): _plain,
    (Kind.BOOLEAN, Kind.VARCHAR): _plain,
}
"""Conversions by source and target type; each is valid for every value."""
