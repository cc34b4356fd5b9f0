"""How DuckDB spells the functions of dates and times."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.dialects.literal_sql import constant
from dpsql.dialects.sql_text import PRODUCT, SUM, Text
from dpsql.functions.date_making import bucket_origin
from dpsql.functions.dates import EPOCH, LENGTHS, MICROSECOND
from dpsql.model.tree import TIMESTAMP, TIMESTAMPTZ, Literal, SqlType, Value, type_name

Spelling = Callable[[tuple[Text, ...], SqlType], Text]

INTERVALS = {
    "month": ("to_months", "INTEGER"),
    "day": ("to_days", "INTEGER"),
    "microseconds": ("to_microseconds", "BIGINT"),
}
"""What makes an INTERVAL of a unit without ever failing, and the type of its argument."""

WIDTHS = {"INTEGER": 2**31, "BIGINT": 2**63}


def _word(arg: Text) -> str:
    """A part that `accepts` let through: a plain word in quotes."""
    return arg.sql.strip("'")


def _extract(args: tuple[Text, ...], kind: SqlType) -> Text:
    # Of a constant NULL the engine makes a DOUBLE.
    return Text(f"CAST(extract({_word(args[0])} FROM {args[1].sql}) AS {type_name(kind)})", kind)


def _epoch(args: tuple[Text, ...], kind: SqlType) -> Text:
    return Text(f"extract(epoch FROM {args[0].sql})", kind)


def _narrow(arg: Text, width: str) -> str:
    """The number in the width that a function takes, NULL beyond it."""
    value = None if arg.literal is None else arg.literal.value
    if isinstance(value, int) and abs(value) < WIDTHS[width]:
        return arg.sql
    return f"TRY_CAST({arg.sql} AS {width})"


def _as_bigint(arg: Text) -> str:
    return f"TRY_CAST({arg.sql} AS BIGINT)"


def interval(unit: Text, count: Text) -> str:
    """An INTERVAL of so many units; NULL where it holds no such number."""
    make, width = INTERVALS[_word(unit)]
    return f"{make}({_narrow(count, width)})"


def _date_add(args: tuple[Text, ...], kind: SqlType) -> Text:
    unit, count, moment = args
    return Text(f"{moment.operand(SUM)} + {interval(unit, count)}", kind, SUM)


def _add_days(args: tuple[Text, ...], kind: SqlType) -> Text:
    day, count = args
    number = Text(_narrow(count, "INTEGER"), count.type, count.level)
    return Text(f"{day.operand(SUM)} + {number.operand(PRODUCT)}", kind, SUM)


def _after_1970(microseconds: str) -> str:
    """So many microseconds after 1970, checked: MAKE_TIMESTAMP gives times that break DuckDB."""
    return f"TIMESTAMP '1970-01-01' + to_microseconds(TRY_CAST({microseconds} AS BIGINT))"


def _in_utc(moment: Text) -> str:
    """A TIMESTAMPTZ as TIMESTAMP in UTC, NULL if infinite, without DuckDB's calendar of zones.

    That calendar fails on far times in a way that DuckDB 1.5 takes for a broken database.
    """
    if moment.type != TIMESTAMPTZ:
        return moment.sql
    return f"TRY({_after_1970(f'epoch_us({moment.sql})')})"


def _between(name: str) -> Spelling:
    """DATE_DIFF and DATE_SUB."""

    def text(args: tuple[Text, ...], kind: SqlType) -> Text:
        return Text(f"{name}({args[0].sql}, {_in_utc(args[1])}, {_in_utc(args[2])})", kind)

    return text


def _make_date(args: tuple[Text, ...], kind: SqlType) -> Text:
    return Text(f"make_date({', '.join(map(_as_bigint, args))})", kind)


def _make_timestamp(args: tuple[Text, ...], kind: SqlType) -> Text:
    *whole, seconds = args
    return Text(f"make_timestamp({', '.join([*map(_as_bigint, whole), seconds.sql])})", kind)


def _to_timestamp(args: tuple[Text, ...], kind: SqlType) -> Text:
    seconds = f"TRY_CAST({args[0].sql} AS DOUBLE)"
    moment = _after_1970(f"{seconds} * 1e6")
    return Text(f"CAST(TRY({moment}) AS {type_name(kind)})", kind)


def _epoch_ms(args: tuple[Text, ...], kind: SqlType) -> Text:
    if kind != TIMESTAMP:
        return Text(f"epoch_ms({args[0].sql})", kind)
    return Text(_after_1970(f"{_as_bigint(args[0])}::HUGEINT * 1000"), kind, SUM)


def _time_bucket(args: tuple[Text, ...], kind: SqlType) -> Text:
    """The start of the bucket in whole numbers: DuckDB's own TIME_BUCKET breaks on far moments.

    `+ shift` makes the number positive, so that `//` rounds down; it is a multiple of the width.
    """
    unit, count, moment, *given = args
    name, width = _word(unit), _number(count)
    origin = bucket_origin(name, None if not given else _value(given[0]))
    if name == "month":
        start = Text(constant(Literal(origin, TIMESTAMP)), TIMESTAMP)
        position = f"TRY(date_diff('month', {start.sql}, {_in_utc(moment)}))"
        months = _rounded_down(position, width)
        found = f"{start.sql} + to_months(TRY_CAST({months} AS INTEGER))"
    else:
        width *= LENGTHS[name] // MICROSECOND
        offset = (origin - EPOCH) // MICROSECOND
        position = f"TRY(epoch_us({moment.sql}))"
        micros = _rounded_down(position, width, offset)
        found = _after_1970(micros)
    if kind == TIMESTAMP:
        return Text(found, kind, SUM)
    return Text(f"CAST(TRY({found}) AS {type_name(kind)})", kind)


def _rounded_down(position: str, width: int, offset: int = 0) -> str:
    """The greatest `offset + n · width` up to the position, as HUGEINT."""
    shift = (2**64 // width + 1) * width - offset
    whole = f"(({position}::HUGEINT + {shift}::HUGEINT) // {width}::HUGEINT)"
    return f"{whole} * {width}::HUGEINT - {shift}::HUGEINT"


def _value(arg: Text) -> Value:
    return None if arg.literal is None else arg.literal.value


def _number(arg: Text) -> int:
    """A number that `accepts` let through."""
    value = _value(arg)
    assert isinstance(value, int)
    return value


TIMES: dict[str, Spelling] = {
    "extract": _extract,
    "epoch": _epoch,
    "date_add": _date_add,
    "add_days": _add_days,
    "date_diff": _between("date_diff"),
    "date_sub": _between("date_sub"),
    "make_date": _make_date,
    "make_timestamp": _make_timestamp,
    "to_timestamp": _to_timestamp,
    "epoch_ms": _epoch_ms,
    "time_bucket": _time_bucket,
}
