"""Misfits in the lines of text files, counted for their owner alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dpsql.model.file_formats import TextCounts
from dpsql.owner.findings import Finding, Severity
from dpsql.policy.draft import Draft


def text_findings(draft: Draft, counts: Iterable[TextCounts]) -> tuple[Finding, ...]:
    """Return findings on lines and fields of text files that do not fit the policy, by table."""
    return tuple(
        finding
        for each in counts
        for finding in (*_of_lines(draft, each), *_of_fields(draft, each), *_of_quotes(draft, each))
    )


def _of_lines(draft: Draft, counts: TextCounts) -> Iterator[Finding]:
    said = (
        ("many", counts.too_many, "header", "have more fields than columns: these are not read."),
        ("few", counts.too_few, "delimiter", "have too few fields: the missing ones are NULL."),
        ("damaged", counts.damaged, "encoding", "hold bytes that are no text: read as \ufffd."),
    )
    for kind, count, key, what in said:
        if count:
            yield Finding(
                line=draft.lines.of(("tables", counts.table, "file", key)),
                table=counts.table,
                column=None,
                message=f"{counts.table}: {count:,} of {counts.lines:,} lines {what}",
                rows=count,
                fix=f"Correct the lines, or {key} in [tables.{counts.table}.file]; or accept that.",
                kind=kind,
                severity=Severity.WARNING,
                total=counts.lines,
            )


def _of_fields(draft: Draft, counts: TextCounts) -> Iterator[Finding]:
    for column, count in counts.unread:
        if count:
            what = f"{count:,} of {counts.lines:,} values of {column} are not of its type"
            yield Finding(
                line=draft.lines.of(("tables", counts.table, "columns", column)),
                table=counts.table,
                column=column,
                message=f"{counts.table}: {what} as the policy writes it: they are NULL.",
                rows=count,
                fix="Change the column's type or format; or accept that.",
                kind="unread",
                severity=Severity.WARNING,
                total=counts.lines,
            )


def _of_quotes(draft: Draft, counts: TextCounts) -> Iterator[Finding]:
    """Yield a finding on unmatched quotes, if quotes may span lines: they swallow other people's
    rows.
    """
    if counts.open_quotes:
        yield Finding(
            line=draft.lines.of(("tables", counts.table, "file", "multiline")),
            table=counts.table,
            column=None,
            message=f"{counts.table}: {counts.open_quotes} files have a quote that is not closed.",
            rows=counts.open_quotes,
            fix="Close it: with multiline, what follows it is one field.",
            kind="quotes",
            severity=Severity.ERROR,
        )
