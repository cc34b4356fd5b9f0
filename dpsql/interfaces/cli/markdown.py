"""Markdown for a terminal: only the constructs that the pages in `dpsql/docs` use.

These are headings, paragraphs, lists, tables and fenced blocks; inside them code, bold words and
links. Lines have at most `room` cells. Fenced blocks stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import click

from dpsql.interfaces.messages import width
from dpsql.model.dataclass import dataclass

_INLINE = re.compile(r"`([^`]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\(([^)]+)\)")
_ITEM = re.compile(r"(\*|\d+\.) +")
_LINK = re.compile(r"(\w+)\.md")
_BAR = re.compile(r"(?<!\\)\|")
_GAP = "  "
_INDENT = "    "
_NARROWEST = 24
"""Minimum width of a last column; narrower ones are written below the others."""

_SHORT = 8


@dataclass(frozen=True, slots=True)
class Page:
    """Formatter with a line width, and with styles or plain signs for code and headings."""

    room: int
    styled: bool

    def lines(self, text: str) -> Iterator[str]:
        """Yield the lines of a page."""
        for n, block in enumerate(_blocks(text)):
            if n:
                yield ""
            yield from self._block(block)

    def _block(self, block: list[str]) -> Iterator[str]:
        first = block[0]
        if first.startswith("```"):
            yield from (f"{_INDENT}{line}".rstrip() for line in block[1:-1])
        elif first.startswith("#"):
            sign, title = first.split(" ", 1)
            lines = [*self._wrapped(f"**{title}**")]
            yield from lines
            if not self.styled:
                yield ("=" if sign == "#" else "-") * max(map(width, lines))
        elif first.startswith("|"):
            yield from self._table([_cells(line) for line in block if not line.startswith("|-")])
        elif _ITEM.match(first):
            for item in _items(block):
                bullet = _ITEM.match(item)
                assert bullet is not None
                mark = f"{bullet[1]} "
                yield from self._wrapped(item[bullet.end() :], mark, " " * len(mark))
        else:
            yield from self._wrapped(" ".join(block))

    def _table(self, rows: list[list[str]]) -> Iterator[str]:
        """Yield a table with aligned columns and a wrapped last one, or with stacked rows."""
        widths = [max(_seen(self._words(cell)) for cell in column) for column in zip(*rows)]  # noqa: B905
        before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
        if widths[-1] > self.room - before and self.room - before < _NARROWEST:
            yield from self._stacked(rows, widths)
            return
        for n, row in enumerate(rows):
            padded = (
                self._padded(cell, w) + _GAP for cell, w in zip(row, widths[:-1], strict=False)
            )
            yield from self._wrapped(row[-1], "".join(padded), " " * before)
            if n == 0:
                last = min(widths[-1], self.room - before)
                yield _GAP.join("─" * w for w in (*widths[:-1], last))

    def _stacked(self, rows: list[list[str]], widths: list[int]) -> Iterator[str]:
        """Yield rows as a line with the short cells, and a line per longer cell."""
        header, *others = rows
        short = [n for n, cells in enumerate(widths) if n and cells <= _SHORT]
        long = [n for n in range(1, len(header)) if n not in short]
        for row in others:
            cells_text = ", ".join(f"{header[n]} {row[n]}" for n in short)
            yield from self._wrapped(f"{row[0]} ({cells_text})" if cells_text else row[0])
            for n in long:
                cells_text = row[n] if len(header) == 2 else f"{header[n]}: {row[n]}"  # noqa: PLR2004
                yield from self._wrapped(cells_text, _GAP, _GAP * 2)

    def _padded(self, text: str, cells: int) -> str:
        words = self._words(text)
        return " ".join(words) + " " * (cells - _seen(words))

    def _wrapped(self, text: str, first: str = "", later: str = "") -> Iterator[str]:
        """Yield a text in lines of at most `room` cells. A longer word has its own line."""
        line, empty = first, True
        for word in self._words(text):
            if not empty and _seen([line, word]) > self.room:
                yield line
                line, empty = later, True
            line, empty = (f"{line}{word}" if empty else f"{line} {word}"), False
        yield line.rstrip()

    def _words(self, text: str) -> list[str]:
        """Return the words of a line of Markdown, each with its style."""
        return _INLINE.sub(self._inline, text.replace("\\|", "|")).split()

    def _inline(self, match: re.Match[str]) -> str:
        code, bold, label, target = match.groups()
        if code is not None:
            # Each word has its own style, since lines may break between them.
            return (
                " ".join(click.style(w, fg="cyan") for w in code.split())
                if self.styled
                else match[0]
            )
        if bold is not None:
            bold = _INLINE.sub(lambda inner: inner[1] or inner[0], bold)
            return (
                " ".join(click.style(w, bold=True) for w in bold.split()) if self.styled else bold
            )
        page = _LINK.fullmatch(target)
        return f"{label} (dpsql help {page[1]})" if page else f"{label} <{target}>"


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield blocks of lines: a fenced block, a heading, or lines up to a blank line."""
    block: list[str] = []
    for line in text.splitlines():
        if block and block[0].startswith("```"):
            block.append(line)
            if line == "```":
                yield block
                block = []
        elif line.startswith(("```", "#")) or not line:
            if block:
                yield block
            block = [line] if line.startswith("```") else []
            if line.startswith("#"):
                yield [line]
        else:
            block.append(line)
    if block:
        yield block


def _items(block: list[str]) -> Iterator[str]:
    """Yield each item of a list as one line."""
    item = ""
    for line in block:
        if _ITEM.match(line) and item:
            yield item
            item = ""
        item = f"{item} {line.strip()}" if item else line
    yield item


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in _BAR.split(line.strip().strip("|"))]


def _seen(words: Sequence[str]) -> int:
    """Return the number of cells of words on a line."""
    return width(click.unstyle(" ".join(words)))
