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
_NUMBERS = ("BIGINT", "DOUBLE")
_KINDS = (*_NUMBERS, "TIMESTAMP", "UUID")
_TEXT = '"=text"'
"""Column of the different texts of a column."""
_FEW_TEXTS = 1_000_000
"""Different texts of a column that a table in memory holds: each of them is tried once."""
_CODE = "[+-]?0[0-9]+"
"""Digits that are a code and no number: 01234 and 1234 are different."""
_MOSTLY = 0.9
"""Share of a column's texts that must fit the proposed type."""


def look_at_rows(
    rows: Rows, table: str, by_line: FileFormat, seen: Callable[[float], None]
) -> FileFormat:
    """Return the format and the types that a table's texts suggest.

    `seen` is called after each read of the rows, with the share that is read, from 0 to 1.
    """
    names = [column.name for column in by_line.columns]
    words, few = _words_in(rows, table, names)
    plain = replace(by_line, null_words=("", *words))
    comma = replace(plain, decimal=",", thousands=".")
    fits = list[tuple[dict[str, float], dict[str, float]]]()
    for number, column in enumerate(names, 1):
        seen(number / (len(names) + 1))
        texts = f"SELECT {name(column)} AS {_TEXT}, COUNT(*) AS n FROM {address(table)} GROUP BY 1"
        if column not in few:
            texts = f"SELECT {name(column)} AS {_TEXT}, 1 AS n FROM {address(table)}"
        fits.append(_fits(rows, texts, plain, comma))
    numbers = [sum(each[n].get("DOUBLE", 0) for each in fits) for n in range(2)]
    best = int(numbers[1] > numbers[0])
    chosen = [each[best] for each in fits]
    needed = {day for each in chosen for day in _needed({d: each.get(d, 0) for d in _DATES})}
    dates = tuple(day for day in _DATES if day in needed)
    columns = tuple(map(FileColumn, names, map(_kind, chosen)))
    seen(1.0)
    return replace((plain, comma)[best], columns=columns, dates=dates or by_line.dates)


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


def _words_in(rows: Rows, table: str, names: list[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the words for NULL that some field consists of, and the columns with few texts."""
    fields = ", ".join(map(name, names))
    nulls = [f"COUNT(*) FILTER (WHERE {text(word)} IN ({fields}))" for word in _WORDS]
    texts = [f"approx_count_distinct({name(column)})" for column in names]
    counts = rows(f"SELECT {', '.join(nulls + texts)} FROM {address(table)}")[0]
    different = zip(names, counts[len(nulls) :], strict=True)
    words = tuple(word for word, count in zip(_WORDS, counts, strict=False) if count)
    return words, frozenset(column for column, n in different if n <= _FEW_TEXTS)


def _fits(
    rows: Rows, texts: str, plain: FileFormat, comma: FileFormat
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the share of a column's texts that fit each type and each form of dates, in a format
    with a decimal point, and in one with a decimal comma.

    `texts` is a SELECT of texts, and of the number of rows of each.
    """
    words = ", ".join(map(text, plain.null_words))
    tried = [
        _TEXT,
        f"CASE WHEN regexp_full_match(trim({_TEXT}), {text(_CODE)}) THEN 1 END",
        *(converted(_TEXT, FileColumn("", kind), plain) for kind in _KINDS),
        *(converted(_TEXT, FileColumn("", "DATE", (day,)), plain) for day in _DATES),
        *(converted(_TEXT, FileColumn("", kind), comma) for kind in _NUMBERS),
    ]
    counts = ", ".join(f"SUM(n) FILTER (WHERE {each} IS NOT NULL)::BIGINT" for each in tried)
    filled = f"trim({_TEXT}) NOT IN ({words})"
    total, codes, *others = (
        n or 0 for n in rows(f"SELECT {counts} FROM ({texts}) WHERE {filled}")[0]
    )
    shares = [n / (total or 1) for n in others]
    keys = (*_KINDS, *_DATES)
    by_plain = dict(zip(keys, shares[: len(keys)], strict=True))
    by_comma = by_plain | dict(zip(_NUMBERS, shares[len(keys) :], strict=True))
    impossible = _NUMBERS if codes else ()
    return _likely(by_plain, impossible), _likely(by_comma, impossible)


def _likely(shares: dict[str, float], impossible: tuple[str, ...]) -> dict[str, float]:
    likely = {k: share for k, share in shares.items() if share >= _MOSTLY or k in _DATES}
    return {k: share for k, share in likely.items() if k not in impossible}


def _kind(fits: dict[str, float]) -> str:
    if "BIGINT" in fits:
        return "BIGINT"
    for kind in ("DOUBLE", "UUID"):
        if kind in fits:
            return kind
    if sum(fits.get(day, 0) for day in _DATES) >= _MOSTLY:
        return "DATE"
    return "TIMESTAMP" if "TIMESTAMP" in fits else "VARCHAR"
