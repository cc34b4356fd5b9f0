"""Answers for people: plain text and Markdown tables, with the ± at 95 % for every number.

No value can control a terminal or break a table: SECURITY.md S21.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from textwrap import wrap
from typing import Any

from dpsql.interfaces.amounts import ends_text, number_text
from dpsql.interfaces.doors import Door
from dpsql.interfaces.messages import printable, width
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import footnotes, remarks
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.interval_ends import Half
from dpsql.model.notices import sides
from dpsql.model.tree import VARCHAR, Kind, SqlType
from dpsql.model.vocabulary import Answer, Column

_GAP = "  "
_NARROWEST = 8
MARK = "*"
"""Mark of a column with a footnote."""
UNKNOWN = "± ?: how large the noise is in these numbers is not known (dpsql help answers)"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column as text: its header and one cell per row, without padding."""

    header: str
    cells: tuple[str, ...]
    numeric: bool

    @property
    def width(self) -> int:
        return max((width(text) for text in (self.header, *self.cells)), default=0)


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table as text, and notices on columns left out."""

    text: str
    notices: tuple[str, ...] = ()


def table(answer: Answer, terminal_width: int | None = None) -> TextTable:
    """Return an answer as an aligned table of at most `terminal_width` cells (None: any width).

    Text columns are shortened first, then the last columns are left out, with a notice. Columns
    with notices are marked, and the notices stand below.
    """
    columns = text_columns(answer)
    fitted, notices = (columns, ()) if terminal_width is None else _fit(columns, terminal_width)
    widths = [column.width for column in fitted]
    headers = [_pad(c.header, w, right=c.numeric) for c, w in zip(fitted, widths, strict=True)]
    lines = [_GAP.join(headers), _GAP.join("─" * w for w in widths)]
    for i in range(len(answer.rows)):
        cells = (_pad(c.cells[i], w, right=c.numeric) for c, w in zip(fitted, widths, strict=True))
        lines.append(_GAP.join(cells))
    if not answer.rows:
        lines.append("(no rows)")
    for footnote in footnotes(answer):
        lines += _wrapped(f"{MARK} {footnote}", terminal_width)
    if is_unclear(answer):
        lines += _wrapped(UNKNOWN, terminal_width)
    return TextTable("".join(f"{line.rstrip()}\n" for line in lines), notices)


MOST_SHOWN = 200
"""Maximum number of rows in a notebook or at a prompt."""


def first_rows(answer: Answer, most: int | None) -> Answer:
    """Return the answer with at most `most` rows (None: all)."""
    if most is None or len(answer.rows) <= most:
        return answer
    parts = {name: getattr(answer, name)[:most] for name in ("rows", "margins", "halves")}
    return replace(answer, **parts)


def answer_text(answer: Answer, door: Door) -> str:
    """Return the first rows, notices and cost as text, for a prompt."""
    shown = first_rows(answer, MOST_SHOWN)
    more = len(answer.rows) - len(shown.rows)
    lines = [f"{more:,} more rows"] if more else []
    lines += [*remarks(answer, door), cost_text(answer.receipt)]
    return table(shown).text + "\n".join(map(printable, lines))


def is_unclear(answer: Answer) -> bool:
    """Test whether the error of one of its numbers is unknown."""
    return any(m is not None and isnan(m) for margins in answer.margins for m in margins)


def markdown(answer: Answer) -> str:
    """Return an answer as a Markdown table. Texts cannot start markup."""
    columns = text_columns(answer)
    lines = [
        [_escape(c.header) for c in columns],
        ["---:" if c.numeric else "---" for c in columns],
    ]
    lines += [[_escape(c.cells[i].strip()) for c in columns] for i in range(len(answer.rows))]
    shown = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    below = "".join(f"\n{_escape(f'{MARK} {text}')}\n" for text in footnotes(answer))
    return shown + below


def broken(answer: Answer, room: int | None) -> Answer:
    """Return the answer with the last column, a text, wrapped into further rows."""
    if room is None:
        return answer
    before = sum(column.width + len(_GAP) for column in text_columns(answer)[:-1])
    rows: list[tuple[object, ...]] = []
    for *cells, text in answer.rows:
        first, *others = wrap(str(text), max(room - before, _NARROWEST)) or [""]
        rows += [(*cells, first), *((*[""] * len(cells), line) for line in others)]
    exact = ((None,) * len(answer.columns),) * len(rows)
    return replace(answer, rows=tuple(rows), errors=exact, margins=exact, halves=())


def grid(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of equal length as aligned, indented lines.

    >>> list(grid([("a", "b"), ("long", "c")]))
    ['  a     b', '  long  c']
    """
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (_pad(cell, w, right=False) for cell, w in zip(row, widths, strict=True))
        yield _GAP + _GAP.join(cells).rstrip()


def sheet(headers: Sequence[str], rows: Sequence[Sequence[str]], room: int | None) -> Iterator[str]:
    """Yield a grid with headers. If it is too wide, each row becomes lines of its own.

    >>> list(sheet(["a", "long"], [["1", "2"]], 12))
    ['  a  long', '  1  2']
    >>> list(sheet(["a", "long"], [["1", "2"], ["3", "4"]], 8))
    ['  a     1', '  long  2', '', '  a     3', '  long  4']
    """
    lines = [*grid([headers, *rows])]
    if room is None or not rows or max(map(width, lines)) <= room:
        yield from lines
        return
    for n, row in enumerate(rows):
        yield from [""] if n else []
        yield from grid([*zip(headers, row, strict=True)])


def text_columns(answer: Answer) -> tuple[TextColumn, ...]:
    """Return the columns as text, with marks on those with notices."""
    places, nothing = sides(answer.notices), (None,) * len(answer.columns)
    both = [halves or nothing for halves in answer.halves or [None] * len(answer.rows)]
    return tuple(
        _column(
            f"{column.name} {places[i]}" if i in places else column.name,
            column.type,
            tuple(
                number_and_interval(row[i], margins[i], halves[i], _scale(column.type))
                for row, margins, halves in zip(answer.rows, answer.margins, both, strict=True)
            ),
        )
        for i, column in enumerate(answer.columns)
    )


def with_text_numbers(answer: Answer) -> Answer:
    """Return the answer with its numbers as text, each with its ± or both ends; NULL stays NULL."""
    places = [n for n, column in enumerate(answer.columns) if column.type.is_measured]
    cells = {n: column.cells for n, column in enumerate(text_columns(answer))}
    rows = tuple(
        tuple(
            cells[n][k] if n in places and value is not None else value
            for n, value in enumerate(row)
        )
        for k, row in enumerate(answer.rows)
    )
    exact = ((None,) * len(answer.columns),) * len(rows)
    return replace(
        answer,
        columns=text_numbers(answer.columns),
        rows=rows,
        errors=exact,
        margins=exact,
        halves=(),
    )


def text_numbers(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of `with_text_numbers`."""
    return tuple(replace(c, type=VARCHAR) if c.type.is_measured else c for c in columns)


def number_and_interval(
    value: Any, margin: float | None, half: Half, scale: int | None
) -> tuple[str, str]:
    """Return a number, and its ±; or both ends, `(low … high)`, if the two sides differ.

    `margin` is the half-width of both sides, `half` the widths below and above the number.
    """
    shown, around = number_text(value, margin, scale)
    if half is None or not around or around == "?":
        return shown, f"± {around}" if around else ""
    if len({number_text(value, each, scale)[1] for each in half}) == 1:
        return shown, f"± {around}"
    return shown, f"({' … '.join(ends_text(value, half, scale))})"


def _scale(kind: SqlType) -> int | None:
    """Return the number of decimal places of a type; None if unlimited."""
    return kind.scale if kind.kind in (Kind.DECIMAL, Kind.INTEGER) else None


def _column(name: str, kind: SqlType, pairs: tuple[tuple[str, str], ...]) -> TextColumn:
    """Return a column with values and margins aligned at the ± signs, or values and both ends."""
    values = [printable(value) for value, _ in pairs]
    margins = [margin for _, margin in pairs]
    left, right = (max((width(t) for t in texts), default=0) for texts in (values, margins))
    noisy = right > 0
    cells = tuple(
        _pad(value, left, right=True)
        + (f" {_behind(margin, right)}" if margin else " " * (1 + right))
        if noisy
        else value
        for value, margin in zip(values, margins, strict=True)
    )
    return TextColumn(printable(name), cells, noisy or kind.is_numeric)


def _behind(text: str, cells: int) -> str:
    """A margin, aligned at its last digit behind the sign; or both ends."""
    sign, space, digits = text.partition(" ")
    return (
        f"± {_pad(digits, cells - 2, right=True)}"
        if sign == "±" and space
        else _pad(text, cells, right=True)
    )


def _fit(
    columns: tuple[TextColumn, ...], room: int
) -> tuple[tuple[TextColumn, ...], tuple[str, ...]]:
    """Shorten text columns, widest first, then leave out columns from the right."""
    limits = [column.width for column in columns]
    texts = [i for i, column in enumerate(columns) if not column.numeric]
    while texts and _total(limits) > room:
        widest = max(texts, key=lambda i: limits[i])
        if limits[widest] <= _NARROWEST:
            break
        limits[widest] -= 1
    shown = len(columns)
    while shown > 1 and _total(limits[:shown]) > room:
        shown -= 1
    fitted = tuple(_shorten(c, limit) for c, limit in zip(columns[:shown], limits, strict=False))
    notices = []
    if any(c != f for c, f in zip(columns, fitted, strict=False)):
        notices.append("Some texts are shortened to fit the terminal; --format csv shows all.")
    if shown < len(columns):
        left_out = ", ".join(column.header for column in columns[shown:])
        notices.append(f"Columns left out to fit the terminal: {left_out}; --format csv shows all.")
    return fitted, tuple(notices)


def _wrapped(text: str, room: int | None) -> list[str]:
    """Return a sentence in lines of at most `room` cells."""
    if room is None:
        return [text]
    return wrap(text, max(room, _NARROWEST), subsequent_indent=_GAP)


def _total(widths: list[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _shorten(column: TextColumn, limit: int) -> TextColumn:
    if column.numeric or column.width <= limit:
        return column
    cells = tuple(shortened(cell, limit) for cell in column.cells)
    return replace(column, header=shortened(column.header, limit), cells=cells)


def shortened(text: str, limit: int) -> str:
    """Return a text cut to at most `limit` cells, with … for the rest.

    >>> shortened("Springfield", 6)
    'Sprin…'
    """
    if width(text) <= limit:
        return text
    while width(text) > limit - 1:
        text = text[:-1]
    return text + "…"


def _pad(text: str, cells: int, *, right: bool) -> str:
    blank = " " * (cells - width(text))
    return blank + text if right else text + blank


def _escape(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*[]<>|" else c for c in text)
