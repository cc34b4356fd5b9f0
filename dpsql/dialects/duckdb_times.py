"""How DuckDB spells the functions of dates and times."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.dialects.duckdb_text import PRODUCT, SUM, Text
from dpsql.tree import TIMESTAMPTZ, SqlType

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
    return Text(f"extract({_word(args[0])} FROM {args[1].sql})", kind)


def _epoch(args: tuple[Text, ...], kind: SqlType) -> Text:
    return Text(f"extract(epoch FROM {args[0].sql})", kind)


def _narrow(arg: Text, width: str) -> str:
    """The number in the width that a function takes, NULL beyond it."""
    value = None if arg.literal is None else arg.literal.value
    if isinstance(value, int) and abs(value) < WIDTHS[width]:
        return arg.sql
    return f"TRY_CAST({arg.sql} AS {width})"


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


def _in_utc(moment: Text) -> str:
    """A TIMESTAMPTZ as TIMESTAMP in UTC, NULL if infinite, without DuckDB's calendar of zones.

    That calendar fails on far times in a way that DuckDB 1.5 takes for a broken database.
    """
    if moment.type != TIMESTAMPTZ:
        return moment.sql
    return f"make_timestamp(epoch_us({moment.sql}))"


def _between(name: str) -> Spelling:
    """DATE_DIFF and DATE_SUB."""

    def text(args: tuple[Text, ...], kind: SqlType) -> Text:
        return Text(f"{name}({args[0].sql}, {_in_utc(args[1])}, {_in_utc(args[2])})", kind)

    return text


TIMES: dict[str, Spelling] = {
    "extract": _extract,
    "epoch": _epoch,
    "date_add": _date_add,
    "add_days": _add_days,
    "date_diff": _between("date_diff"),
    "date_sub": _between("date_sub"),
}
