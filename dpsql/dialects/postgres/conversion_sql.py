"""Conversions on PostgreSQL that cannot raise: NULL if the other type has no such value."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.dialects.expression_printer import STORED_DIGITS
from dpsql.dialects.postgres import number_sql
from dpsql.dialects.postgres.constant_sql import COLLATE, type_sql
from dpsql.dialects.postgres.lacking import lacking
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.sql_text import ATOM, CAST, LOOSE
from dpsql.model.bound_parameters import endless_moment
from dpsql.model.tree import NOWHERE, TIMESTAMP, Kind, Span, SqlType

_SAFE_DIGITS = 18
"""Digits of an integer that always fits 64 bits."""
_LEAST, _PAST = "float8 '-9223372036854775808'", "float8 '9223372036854775808'"
_WHOLE = f"{-(2**63)} AND {2**63 - 1}"
_LAST_TIMESTAMP = "date '294276-12-30'"


def converted(arg: Sized, kind: SqlType, span: Span = NOWHERE) -> Sized:
    """Return the value in another type. Raises `Refused` for an unsupported conversion."""
    if arg.type.kind is Kind.NULL:
        return Sized(f"CAST(NULL AS {type_sql(kind)})", kind)
    if arg.type.kind is kind.kind and kind.kind not in (Kind.DECIMAL, Kind.INTEGER):
        return arg
    if arg.literal is not None and endless_moment(arg.literal, kind) is not None:
        return _plain(Sized(f"'{arg.literal.value}'", arg.type, ATOM), kind)
    rule = _RULES.get((arg.type.kind, kind.kind))
    if rule is None:
        raise lacking(f"a conversion of {arg.type} to {kind}", span)
    return rule(arg, kind)


def _narrowed(arg: Sized, kind: SqlType) -> Sized:
    """Return an integer as BIGINT; NULL if it does not fit 64 bits."""
    digits = number_sql.COMPUTED_DIGITS if arg.digits is None else arg.digits
    stored = digits == STORED_DIGITS and not arg.numeric
    if stored or (digits <= _SAFE_DIGITS and not arg.numeric):
        return arg
    cut = f"CASE WHEN {arg.operand(ATOM)} BETWEEN {_WHOLE} THEN {arg.operand(ATOM)}::bigint END"
    return Sized(cut, kind, LOOSE, digits=STORED_DIGITS)


def _rounded(arg: Sized, kind: SqlType) -> Sized:
    """Return a DECIMAL as the nearest integer, halves away from zero."""
    digits = number_sql.COMPUTED_DIGITS if arg.digits is None else arg.digits
    whole = Sized(f"round({arg.sql})", kind, digits=digits + 1, numeric=True)
    return _narrowed(whole, kind)


def _to_decimal(arg: Sized, kind: SqlType) -> Sized:
    digits = number_sql.COMPUTED_DIGITS if arg.digits is None else arg.digits
    same, fewer = arg.type.scale == kind.scale, arg.type.scale > kind.scale
    sql = number_sql.in_scale(number_sql.numeric(arg), arg.type.scale, kind)
    return number_sql.exact(sql, kind, CAST if same else ATOM, digits + fewer)


def _from_double(arg: Sized, kind: SqlType) -> Sized:
    """Return a DOUBLE as the nearest integer, halves to even; NULL if it does not fit 64 bits."""
    x = arg.operand(ATOM)
    fits = f"{x} >= {_LEAST} AND {x} < {_PAST}"
    return Sized(f"CASE WHEN {fits} THEN {x}::bigint END", kind, LOOSE, digits=STORED_DIGITS)


def _midnight(arg: Sized, kind: SqlType) -> Sized:
    """Return the timestamp at which a day begins; NULL for days beyond the last TIMESTAMP."""
    x = arg.operand(ATOM)
    target = type_sql(kind)
    if arg.literal is not None:
        return Sized(f"{x}::{target}", kind, CAST)
    fits = f"{x} <= {_LAST_TIMESTAMP} OR {x} = 'infinity'"
    return Sized(f"CASE WHEN {fits} THEN {x}::{target} END", kind, LOOSE)


def _plain(arg: Sized, kind: SqlType) -> Sized:
    return Sized(f"{arg.operand(ATOM)}::{type_sql(kind)}", kind, CAST)


def _in_utc(arg: Sized, kind: SqlType) -> Sized:
    """Return a timestamp with a zone as one without, or the other way round."""
    moment = arg if arg.type.kind is not Kind.DATE else _midnight(arg, TIMESTAMP)
    return Sized(f"{moment.operand(ATOM)} AT TIME ZONE 'UTC'", kind, LOOSE)


_Rule = Callable[[Sized, SqlType], Sized]

_RULES: dict[tuple[Kind, Kind], _Rule] = {
    (Kind.INTEGER, Kind.INTEGER): _narrowed,
    (Kind.DECIMAL, Kind.INTEGER): _rounded,
    (Kind.DOUBLE, Kind.INTEGER): _from_double,
    (Kind.BOOLEAN, Kind.INTEGER): lambda arg, kind: Sized(
        f"{arg.operand(ATOM)}::int", kind, CAST, digits=1
    ),
    (Kind.INTEGER, Kind.DECIMAL): _to_decimal,
    (Kind.DECIMAL, Kind.DECIMAL): _to_decimal,
    (Kind.INTEGER, Kind.DOUBLE): lambda arg, _kind: number_sql.double(arg),
    (Kind.DECIMAL, Kind.DOUBLE): lambda arg, _kind: number_sql.double(arg),
    (Kind.DATE, Kind.TIMESTAMP): _midnight,
    (Kind.TIMESTAMP, Kind.DATE): _plain,
    (Kind.TIMESTAMP, Kind.TIME): _plain,
    (Kind.TIMESTAMP, Kind.TIMESTAMPTZ): _in_utc,
    (Kind.DATE, Kind.TIMESTAMPTZ): _in_utc,
    (Kind.TIMESTAMPTZ, Kind.TIMESTAMP): _in_utc,
    (Kind.TIMESTAMPTZ, Kind.DATE): lambda arg, kind: Sized(
        f"({arg.operand(ATOM)} AT TIME ZONE 'UTC')::date", kind, CAST
    ),
    **dict.fromkeys(
        ((kind, Kind.VARCHAR) for kind in (Kind.INTEGER, Kind.BOOLEAN, Kind.UUID)),
        lambda arg, kind: Sized(f"({arg.operand(ATOM)}::text {COLLATE})", kind),
    ),
}
"""Conversions by source and target type; each is valid for every value."""
