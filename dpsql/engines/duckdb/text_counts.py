"""Counts of lines and fields of text files that do not fit the policy, for the owner alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpsql.engines.duckdb.files import FINDINGS, CannotOpen, Sources, name
from dpsql.engines.duckdb.text_lines import count_sign
from dpsql.engines.duckdb.text_rows import DAMAGED, TOO_FEW, TOO_MANY
from dpsql.model.file_formats import FileFormat, TextCounts, is_text

Rows = Callable[[str], Sequence[tuple[Any, ...]]]


def text_counts(sources: Sources, rows: Rows) -> Iterator[TextCounts]:
    """Yield the counts of misfits in the text files of each table."""
    for table, f in sources.formats:
        if is_text(dict(sources.files)[table]):
            yield _counts(sources, table, f, rows)


def _counts(sources: Sources, table: str, f: FileFormat, rows: Rows) -> TextCounts:
    view = f"{name(FINDINGS)}.{name(table)}"
    there = {c.lower() for (c,) in rows(f"SELECT column_name FROM (DESCRIBE {view})")}
    typed = [c.name for c in f.columns if f"of {c.name}".lower() in there]
    flags = [TOO_MANY, TOO_FEW, DAMAGED, *(f"of {column}" for column in typed)]
    counted = ", ".join(f"COUNT(*) FILTER (WHERE {name(flag)})" for flag in flags)
    total, many, few, damaged, *unread = rows(f"SELECT COUNT(*), {counted} FROM {view}")[0]
    return TextCounts(
        table=table,
        lines=total,
        too_many=many,
        too_few=few,
        damaged=damaged,
        unread=tuple(zip(typed, unread, strict=True)),
        open_quotes=_open_quotes(sources, table, f) if f.multiline else 0,
    )


def _open_quotes(sources: Sources, table: str, f: FileFormat) -> int:
    """Return the number of files with a quote that is not closed."""
    try:
        paths = sources.matches()[table]
        return sum(count_sign(path, f.encoding, f.quote) % 2 for path in paths)
    except CannotOpen:
        return 0
