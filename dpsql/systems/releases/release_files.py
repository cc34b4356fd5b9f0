"""Files of a release: tables with estimate, interval and flag, replicates, and a dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import ceil, floor, inf, isfinite, isnan
from typing import Any

from dpsql.interfaces.data_frames import unique
from dpsql.interfaces.records import csv, parquet, record_columns
from dpsql.model.dataclass import replace
from dpsql.model.interval_ends import Half
from dpsql.model.notices import LIMITS
from dpsql.model.tree import DOUBLE, INTEGER, VARCHAR
from dpsql.model.vocabulary import Answer, Column
from dpsql.systems.releases.published_tables import PublishedTable

FLAGS = {
    "exact": "no noise: public data, or a number that is certain",
    "unknown": "the error is unknown",
    "from": "the low end holds; the high end is unknown",
    "limited": "limits per unit may leave something out, and the interval does not cover it",
}
"""Flags of numbers, and their meaning. A number without a flag lies in its interval at 95 %."""
_MEANINGS = {
    "_margin": "half of the interval's width, or its larger half",
    "_low": "low end of the 95 % interval",
    "_high": "high end of the 95 % interval",
    "_flag": "; ".join(f"{name}: {meaning}" for name, meaning in FLAGS.items()),
}


def table_files(table: PublishedTable, step: int | None) -> dict[str, bytes]:
    """Return the files of a table. With a `step`, displayed numbers are multiples of it.

    Replicates are never rounded: they begin with the released numbers, as replicate 0.
    """
    shown = flagged(table.answer if step is None else round_answer(table.answer, step))
    files = {
        f"tables/{table.name}.csv": csv(shown).encode(),
        f"tables/{table.name}.parquet": parquet(shown),
    }
    if table.replicates.columns:
        files[f"replicates/{table.name}.parquet"] = parquet(_replicates(table), margins=False)
    return files


def round_answer(answer: Answer, step: int) -> Answer:
    """Return an answer with its noisy whole numbers rounded to multiples of `step`.

    Both ends of an interval are rounded outwards, so that it still holds.
    """
    rows, margins, halves = [], [], []
    every = answer.halves or (None,) * len(answer.rows)
    for row, margin, ends, of_row in zip(
        answer.rows, answer.margins, answer.intervals, every, strict=True
    ):
        halved = of_row or (None,) * len(row)
        numbers = zip(row, margin, ends, halved, strict=True)
        cells = [_round(value, m, end, half, step) for value, m, end, half in numbers]
        rows.append(tuple(value for value, _ in cells))
        halves.append(tuple(half for _, half in cells))
        pairs = zip(margin, halves[-1], strict=True)
        margins.append(tuple(m if half is None else max(half) for m, half in pairs))
    return replace(answer, rows=tuple(rows), margins=tuple(margins), halves=tuple(halves))


def _round(value: Any, margin: float | None, ends: Any, half: Half, step: int) -> tuple[Any, Half]:
    """Return a rounded number, and the distances to the rounded ends of its interval."""
    if margin is None or not isinstance(value, int):
        return value, half
    rounded = step * round(Decimal(value) / step)
    if ends is None or not any(map(isfinite, ends)):
        return rounded, half
    low, high = ends
    below = float(rounded - step * floor(low / step)) if isfinite(low) else inf
    above = float(step * ceil(high / step) - rounded) if isfinite(high) else inf
    return rounded, (below, above)


def flagged(answer: Answer) -> Answer:
    """Return an answer with a column of flags next to each number."""
    limited = {
        place for notice in answer.notices if isinstance(notice, LIMITS) for place in notice.places
    }
    taken = {column.name for column in record_columns(answer)}
    measured = [n for n, column in enumerate(answer.columns) if column.type.is_measured]
    flags = [
        tuple(_flag(margins[n], ends[n], limited=n in limited) for n in measured)
        for margins, ends in zip(answer.margins, answer.intervals, strict=True)
    ]
    names = [Column(unique(f"{answer.columns[n].name}_flag", taken), VARCHAR) for n in measured]
    none = (None,) * len(measured)

    def wider(rows: Sequence[Any], more: Sequence[Any]) -> tuple[Any, ...]:
        return tuple((*row, *flag) for row, flag in zip(rows, more, strict=True))

    return replace(
        answer,
        columns=(*answer.columns, *names),
        rows=wider(answer.rows, flags),
        margins=wider(answer.margins, [none] * len(flags)),
        errors=wider(answer.errors, [none] * len(flags)),
        halves=tuple(None if half is None else (*half, *none) for half in answer.halves),
    )


def _flag(margin: float | None, ends: Any, *, limited: bool) -> str:
    if margin is None:
        return "exact"
    if isnan(margin):
        return "unknown"
    if ends is not None and not isfinite(ends[1]):
        return "from"
    return "limited" if limited else ""


def _replicates(table: PublishedTable) -> Answer:
    """Return the released numbers as replicate 0, and then the replicates, with their groups."""
    answer, noisy = table.answer, table.replicates.columns
    keys = [n for n in range(len(answer.columns)) if all(row[n] is None for row in answer.margins)]
    taken: set[str] = set()
    columns = (
        Column(unique("replicate", taken), INTEGER),
        *(Column(unique(answer.columns[n].name, taken), answer.columns[n].type) for n in keys),
        *(Column(unique(answer.columns[n].name, taken), DOUBLE) for n in noisy),
    )
    rows = [(0, *(row[n] for n in keys), *(float(row[n]) for n in noisy)) for row in answer.rows]
    for number, drawn in enumerate(table.replicates.numbers.tolist(), 1):
        rows += [
            (number, *(row[n] for n in keys), *values)
            for row, values in zip(answer.rows, drawn, strict=True)
        ]
    exact = ((None,) * len(columns),) * len(rows)
    return Answer(columns, rows, exact, exact)


def dictionary_file(tables: Sequence[PublishedTable]) -> bytes:
    """Return the data dictionary: table, column, type and meaning, as CSV."""
    columns = tuple(Column(name, VARCHAR) for name in ("table", "column", "type", "meaning"))
    rows = [each for table in tables for each in _dictionary_rows(table)]
    exact = ((None,) * len(columns),) * len(rows)
    return csv(Answer(columns, rows, exact, exact)).encode()


def _dictionary_rows(table: PublishedTable) -> Iterator[tuple[str, str, str, str]]:
    for column in record_columns(flagged(table.answer)):
        noisy = any(row[column.source] is not None for row in flagged(table.answer).margins)
        meaning = "estimate" if noisy else "group or exact value"
        if column.beside:
            meaning = _MEANINGS[column.beside]
        elif column.name.endswith("_flag"):
            meaning = _MEANINGS["_flag"]
        yield table.name, column.name, str(column.type), meaning
