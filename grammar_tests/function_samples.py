"""Columns of boundary values, and every call over them that the function registry types."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import product
from typing import TypeAlias

from dpsql import functions
from dpsql.functions.date_making import SPECIFIERS
from dpsql.functions.dates import LENGTHS, MONTHS, PARTS, STEPS, UNITS
from dpsql.functions.elapsed import AGE_PARTS
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    Call,
    Cast,
    Expression,
    Literal,
    Ref,
    SqlType,
    decimal,
)

Typed: TypeAlias = "Literal | Ref | Call | Cast"


def type_of(e: Expression) -> SqlType:
    """The type of an expression of these tests."""
    assert isinstance(e, Literal | Ref | Call | Cast)
    return e.type


WIDTHS = {
    "TINYINT": [-128, -1, 0, 1, 7, 127],
    "INTEGER": [-(2**31), -1, 0, 1, 100, 2**31 - 1],
    "BIGINT": [-(2**63), -1, 0, 3, 2**53 + 1, 2**63 - 1],
    "HUGEINT": [-(2**127), -7, -1, 0, 2**64, 10**37, 2**127 - 1],
}
DECIMALS = {
    "DECIMAL(5, 2)": ["-999.99", "-0.01", "0", "0.5", "2.50", "999.99"],
    "DECIMAL(18, 4)": ["-99999999999999.9999", "0", "0.0001", "7", "99999999999999.9999"],
    "DECIMAL(38, 10)": ["-" + "9" * 28, "-2.5", "0", "1e-10", "1", "9" * 28 + "." + "9" * 10],
    "DECIMAL(38, 30)": ["-99999999.5", "0", "1e-30", "99999999.999"],
}
DOUBLES = "-inf -1e308 -1e19 -2.5 -1 -0.0 0 5e-324 0.1 0.5 2.5 3 123456.789 9.3e18 1e308 inf"
TEXTS = [
    *["", "a", "abc", "ñ𝄞x", "%", "a$", "12", " 7 ", "2024-02-29", "nan", "1e400", "true", "\\'"],
    "𝄞" * 80,
]
DAYS = [
    *["-infinity", "5877642-06-25 (BC)", "0001-01-01", "1969-12-31", "2020-02-29", "2024-02-29"],
    *["2024-12-30", "2025-01-01", "9999-12-31", "5881580-07-10", "infinity"],
]
MOMENTS = [
    *["-infinity", "290309-12-22 (BC) 00:00:00", "0001-01-01 00:00:00", "2020-02-29 12:34:56.789"],
    *["2024-12-31 23:59:59.999999", "2025-01-01 00:00:00", "9999-12-31 23:59:59.999999"],
    *["294247-01-10 04:00:54.775806", "infinity"],
]
ZONED = tuple(m if m.endswith("infinity") else f"{m}+00" for m in MOMENTS)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of boundary values as SQL texts; NULL is among them everywhere."""

    name: str
    sql_type: str
    type: SqlType
    values: tuple[str, ...]


def _columns() -> Iterator[Column]:
    for name, numbers in WIDTHS.items():
        yield Column(name.lower(), name, INTEGER, tuple(map(str, numbers)))
    for name, texts in DECIMALS.items():
        precision, scale = map(int, name[8:-1].split(","))
        label = f"decimal_{precision}_{scale}"
        yield Column(label, name, decimal(precision, scale), tuple(texts))
    yield Column("double", "DOUBLE", DOUBLE, tuple(DOUBLES.split()))
    yield Column("text", "VARCHAR", VARCHAR, tuple(TEXTS))
    yield Column("truth", "BOOLEAN", BOOLEAN, ("true", "false"))
    yield Column("day", "DATE", DATE, tuple(DAYS))
    yield Column("moment", "TIMESTAMP", TIMESTAMP, tuple(MOMENTS))
    yield Column("zoned", "TIMESTAMPTZ", TIMESTAMPTZ, ZONED)
    yield Column("length", "BIGINT", INTERVAL, tuple(map(str, WIDTHS["BIGINT"])))
    yield Column("clock", "TIME", TIME, ("00:00:00", "12:34:56.789", "23:59:59.999999", "24:00:00"))
    yield Column(
        "uuid", "UUID", UUID, tuple(str(uuid.UUID(int=n)) for n in (0, 2**127, 2**128 - 1))
    )


COLUMNS = tuple(_columns())
LITERALS: tuple[Literal, ...] = (
    *(Literal(n, INTEGER) for n in (0, 1, -1, 7, 127, 2**31, -(2**63), 2**63, 2**127 - 1)),
    Literal(Decimal("0.50"), decimal(3, 2)),
    Literal(Decimal(-5), decimal(1, 0)),
    *(Literal(x, DOUBLE) for x in (0.1, -3.0, 1e300, float("inf"))),
    *(Literal(text, VARCHAR) for text in ("", "a%", "it's\0\\")),
    Literal(date(2024, 2, 29), DATE),
    Literal(datetime(2024, 2, 28, 1, 2, 3, 4), TIMESTAMP),
    Literal(datetime(2024, 2, 28, 1, 2, 3, 4, UTC), TIMESTAMPTZ),
    Literal(3 * 86_400_000_000, INTERVAL),
    Literal(True, BOOLEAN),
    Literal(time(9, 30, 0, 5), TIME),
    Literal(uuid.UUID(int=7), UUID),
    Literal(None, NULL),
    Literal(None, DOUBLE),
)
PATTERNS = [
    Literal(p, VARCHAR)
    for p in ("", "a", r"(\d)\d*", "^(a|b)+?c?$", r"[^\w.]", "\\.", r"[a-z\-]{2,}", r"\d{1,3}?")
]
FLAGS = [Literal(f, VARCHAR) for f in ("", "i", "cms")]
TRIED_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Asia/Manila")
TEXT_FORMATS = {
    "printf": ("%d", "%+09d", "<%s> %%", "%-9s", "%.2f", "%9.3e", "%s: %,.1f"),
    "format": ("{}", "{:,}", "{:>9d}", "{:.2f}", "{:^9s}", "{:,.1e}", "{{{}}} {:,.1f}"),
}
THIRD = {
    "concat_ws": ("text",),
    "case": ("bigint", "decimal_38_10", "double", "day", "moment", "text"),
    "substring": ("bigint",),
    "in": ("decimal_5_2", "moment", "text"),
    "coalesce": ("hugeint", "double", "day"),
    "least": ("double", "tinyint"),
    "greatest": ("double", "decimal_38_30"),
    "and": ("truth",),
    "or": ("truth",),
    "concat": ("text",),
}
"""Functions of three arguments or more, with the columns of the third."""


def refs(position: int) -> list[Expression]:
    """One reference per column; an id says the column and the position."""
    return [Ref(100 * position + n, column.type) for n, column in enumerate(COLUMNS)]


def column_of(ref: Ref) -> Column:
    return COLUMNS[ref.id % 100]


def _counts(*numbers: int) -> list[Literal]:
    return [Literal(n, INTEGER) for n in numbers]


def argument_lists(name: str) -> Iterator[tuple[Expression, ...]]:
    """The argument lists to try a function with; most do not fit its types."""
    first, second = refs(0), refs(1)
    match name:
        case _ if name in TIMED:
            yield from time_arguments(name)
        case "lpad" | "rpad":
            yield from product(first, _counts(0, 2, 4096), [Literal("xy", VARCHAR)])
        case "split_part":
            yield from product(first, [*second, Literal("b", VARCHAR)], _counts(1, 2, -1))
        case "width_bucket":
            bounds = [(Literal(0, INTEGER), Literal(10, INTEGER))]
            bounds += [(Literal(-0.5, DOUBLE), Literal(Decimal("2.5"), decimal(2, 1)))]
            for (low, high), count in product(bounds, (1, 5)):
                yield from product(first, [low], [high], [Literal(count, INTEGER)])
        case "regexp_matches" | "regexp_full_match":
            yield from product(first, PATTERNS)
            yield from product(first, PATTERNS, FLAGS)
        case "regexp_extract":
            yield from product(first, PATTERNS)
            yield from product(first, PATTERNS, _counts(0, 1))
            yield from product(first, PATTERNS, [Literal(0, INTEGER)], FLAGS)
        case "regexp_replace":
            yield from product(first, PATTERNS, [Literal(r"<\0>", VARCHAR)])
            yield from product(first, PATTERNS, [Literal("", VARCHAR)], [Literal("g", VARCHAR)])
        case "replace" | "translate":
            yield from product(first, LITERALS, [Literal("bb", VARCHAR)])
        case "like":
            yield from product(first, [*second, *LITERALS])
            patterns = [Literal(p, VARCHAR) for p in ("", "a$%", "$$", "a$$$", "%$_$$")]
            yield from product(first, [*second, *patterns], [Literal("$", VARCHAR)])
        case "printf" | "format":
            yield from product([Literal(text, VARCHAR) for text in TEXT_FORMATS[name]], first)
            yield from product([Literal(TEXT_FORMATS[name][-1], VARCHAR)], first, second)
        case "repeat":
            yield from product(first, _counts(0, 1, 9))
            yield from product([Literal(t, VARCHAR) for t in ("", "ab")], second)
        case "to_base":
            yield from product(first, _counts(2, 36))
            yield from product(first, [Literal(16, INTEGER)], [Literal(8, INTEGER)])
        case "round" | "trunc":
            yield from product(first)
            yield from product(first, _counts(-15, -2, 0, 1, 15))
        case _:
            yield from product(first)
            yield from product(first, [*second, *LITERALS])
            yield from product(LITERALS, second)
    third = [refs(2)[n] for n, c in enumerate(COLUMNS) if c.name in THIRD.get(name, ())]
    few = ("truth", "bigint", "double", "decimal_5_2", "day", "text")
    pick = [n for n, c in enumerate(COLUMNS) if c.name in few]
    yield from product([first[n] for n in pick], [second[n] for n in pick], third)


TIMED = frozenset(
    """extract date_trunc date_add date_diff date_sub make_date make_timestamp time_bucket strftime
    strptime timezone age_part""".split()
)
FORMATS = (
    "".join(SPECIFIERS),
    "%Y-%m-%d",
    "%Y-%m",
    "%Y",
    "%Y-%m-%d %H:%M:%S.%f",
    "%G-W%V",
    "%b %Y",
    "%H:%M",
    "%I %p",
    "%A",
    "q",
    "%S.%g",
)
WIDTHS_OF = {"month": (1, 5, 12), "day": (1, 7, 400), "microseconds": (1, 900_000_000)}


def time_arguments(name: str) -> Iterator[tuple[Expression, ...]]:
    """A part of time, then moments and numbers of every kind."""
    first, second = refs(1), refs(2)
    whole = [r for r in refs(0) if type_of(r) == INTEGER]
    match name:
        case "extract" | "date_trunc":
            yield from product(_parts(PARTS if name == "extract" else UNITS), first)
        case "age_part":
            yield from product(_parts(["year", *AGE_PARTS]), first, [*second, *LITERALS])
        case "timezone":
            yield from product(_parts(TRIED_ZONES), [*first, *LITERALS])
        case "date_add":
            yield from product(_parts(STEPS), [*first, *LITERALS], second)
            yield from product(_parts(STEPS), first, LITERALS)
        case "make_date":
            small = [Literal(n, INTEGER) for n in (1, 12, 31, 2**40)]
            yield from product([*whole, *_years()], small, small)
            yield from product(_years(), whole, small)
        case "make_timestamp":
            rest = [Literal(n, INTEGER) for n in (12, 31, 23, 59)]
            seconds = [Literal(x, DOUBLE) for x in (0.0, 59.9999999, 60.0, 1e300, -1.0)]
            doubles = [r for r in refs(0) if type_of(r) == DOUBLE]
            yield from ((y, *rest, s) for y in [*whole, *_years()] for s in [*seconds, *doubles])
        case "time_bucket":
            for unit, widths in WIDTHS_OF.items():
                counts = [Literal(n, INTEGER) for n in widths]
                yield from product(_parts([unit]), counts, first)
                yield from product(_parts([unit]), counts, first, LITERALS)
        case "strftime" | "strptime":
            yield from product(refs(0), [Literal(form, VARCHAR) for form in FORMATS])
        case _:
            yield from product(_parts(LENGTHS | MONTHS), first, [*second, *LITERALS])


def _years() -> list[Expression]:
    return [Literal(year, INTEGER) for year in (1, 2024, 9999)]


def _parts(table: Iterable[str]) -> list[Expression]:
    return [Literal(part, VARCHAR) for part in table]


def calls(name: str) -> Iterator[Call]:
    """Every call of a function over the samples that has a type."""
    function = functions.lookup(name)
    assert function is not None
    for args in argument_lists(name):
        kind = function.result_type(tuple(map(type_of, args)))
        if kind is not None and function.accepts(args):
            yield Call(name, args, kind)


TARGETS = (
    *(BOOLEAN, INTEGER, decimal(5, 2), decimal(3, 3), decimal(38, 10), DOUBLE, VARCHAR, DATE),
    *(TIMESTAMP, TIMESTAMPTZ, TIME, UUID),
)


def casts() -> Iterator[Cast]:
    """Every cast that `resolve` accepts, of columns and of literals."""
    for arg, target in product([*refs(0), *LITERALS], TARGETS):
        if functions.cast_to(target).result_type((type_of(arg),)) is not None:
            yield Cast(arg, target)
