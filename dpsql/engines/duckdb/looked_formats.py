"""Formats of text files by their rows, for `dpsql init --look`.

The formats become public: the draft says so on each line. No other command reads formats from rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpsql.engines.duckdb.files import name, text
from dpsql.engines.duckdb.text_rows import converted
from dpsql.model.dataclass import replace
from dpsql.model.file_formats import FileColumn, FileFormat
from dpsql.model.table_names import address

Rows = Callable[[str], Sequence[tuple[Any, ...]]]

_WORDS = ("NA", "N/A", "NULL", "null", "NaN", "nan", "None", "-", "\\N")
_DATES = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y%m%d")
_KINDS = ("BIGINT", "DOUBLE", "TIMESTAMP", "UUID")
_MOSTLY = 0.9
"""Share of a column's texts that must fit the proposed type."""


def look_at_rows(rows: Rows, table: str, by_line: FileFormat) -> FileFormat:
    """Return the format and the types that a table's texts suggest."""
    names = [column.name for column in by_line.columns]
    words = tuple(word for word in _WORDS if _holds(rows, table, names, word))
    plain = replace(by_line, null_words=("", *words))
    comma = replace(plain, decimal=",", thousands=".")
    fits = [_fits(rows, table, names, each) for each in (plain, comma)]
    numbers = [sum(each.get("DOUBLE", 0) for each in columns) for columns in fits]
    best, chosen = (comma, fits[1]) if numbers[1] > numbers[0] else (plain, fits[0])
    needed = {day for each in chosen for day in _needed({d: each.get(d, 0) for d in _DATES})}
    dates = tuple(day for day in _DATES if day in needed)
    columns = tuple(map(FileColumn, names, map(_kind, chosen)))
    return replace(best, columns=columns, dates=dates or best.dates)


def _needed(shares: dict[str, float]) -> Iterator[str]:
    """Yield the forms of dates that texts need, most frequent first, until all are read.

    >>> list(_needed({"%Y-%m-%d": 0.0, "%d/%m/%Y": 1.0, "%m/%d/%Y": 0.4}))
    ['%d/%m/%Y']
    """
    read = 0.0
    for day in sorted(shares, key=lambda day: -shares[day]):
        if shares[day] and read < 1:
            read += shares[day]
            yield day


def _holds(rows: Rows, table: str, names: list[str], word: str) -> bool:
    anywhere = " OR ".join(f"{name(column)} = {text(word)}" for column in names)
    sql = f"SELECT COUNT(*) FROM (SELECT 1 FROM {address(table)} WHERE {anywhere} LIMIT 1) AS t"
    return bool(rows(sql)[0][0])


def _fits(rows: Rows, table: str, names: list[str], f: FileFormat) -> list[dict[str, float]]:
    """Return the share of each column's texts that fit each type and each form of dates."""
    listed = ", ".join(
        f"COUNT({expression})" for column in names for expression in _tried(column, f)
    )
    row = list(rows(f"SELECT {listed} FROM {address(table)}")[0])
    keys, each = ("", *_KINDS, *_DATES), []
    for start in range(0, len(row), len(keys)):
        counts = dict(zip(keys, row[start : start + len(keys)], strict=True))
        total = counts.pop("") or 1
        shares = {kind: count / total for kind, count in counts.items()}
        each.append({k: n for k, n in shares.items() if n >= _MOSTLY or k in _DATES})
    return each


def _tried(column: str, f: FileFormat) -> Iterator[str]:
    words = ", ".join(map(text, f.null_words))
    value = f"CASE WHEN trim({name(column)}) NOT IN ({words}) THEN {name(column)} END"
    yield value
    yield from (converted(value, FileColumn(column, kind), f) for kind in _KINDS)
    yield from (converted(value, FileColumn(column, "DATE", (day,)), f) for day in _DATES)


def _kind(fits: dict[str, float]) -> str:
    if "BIGINT" in fits:
        return "BIGINT"
    for kind in ("DOUBLE", "UUID"):
        if kind in fits:
            return kind
    if sum(fits.get(day, 0) for day in _DATES) >= _MOSTLY:
        return "DATE"
    return "TIMESTAMP" if "TIMESTAMP" in fits else "VARCHAR"
