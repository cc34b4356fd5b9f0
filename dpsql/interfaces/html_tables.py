"""An answer as an HTML table, for notebooks and pages. Every text is escaped: SECURITY.md S21."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from dpsql.interfaces import tables
from dpsql.interfaces.doors import Door
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import footnotes, remarks
from dpsql.model.vocabulary import Answer


def table_html(answer: Answer, most: int | None = None) -> str:
    """Return the rows as an HTML table, at most `most`, with footnotes below."""
    rows = len(answer.rows)
    answer = tables.first_rows(answer, most)
    columns = tables.text_columns(answer)
    head = "".join(_cell("th", column, column.header) for column in columns)
    lines = [
        "<tr>" + "".join(_cell("td", column, column.cells[n]) for column in columns) + "</tr>"
        for n, _ in enumerate(answer.rows)
    ]
    below = [f"{tables.MARK} {text}" for text in footnotes(answer)]
    below += [tables.UNKNOWN] if tables.is_unclear(answer) else []
    below += [f"{rows - most:,} more rows"] if most is not None and rows > most else []
    below += [] if rows else ["(no rows)"]
    table = f"<table><thead><tr>{head}</tr></thead><tbody>"
    return "\n".join([table, *lines, "</tbody></table>", *notes_html(below)])


def answer_html(answer: Answer, door: Door) -> str:
    """Return the first rows, notices and cost as HTML, for notebooks."""
    below = [*remarks(answer, door)]
    below += [] if answer.receipt is None else [cost_text(answer.receipt)]
    return "\n".join([table_html(answer, tables.MOST_SHOWN), *notes_html(below)])


def notes_html(texts: Sequence[str]) -> Iterator[str]:
    """Yield each sentence as an HTML paragraph."""
    for text in texts:
        yield f'<p class="note">{escape(printable(text))}</p>'


def _cell(kind: str, column: tables.TextColumn, text: str) -> str:
    aligned = "text-align:right;white-space:pre" if column.numeric else "text-align:left"
    return f'<{kind} style="{aligned}">{escape(text)}</{kind}>'
