"""written_selects: the clauses of one SELECT in a text, with their places, for small edits.

>>> select = innermost("SELECT a, COUNT(*) FROM t WHERE x > 1 LIMIT 5", 7)
>>> select.shown("where"), [select.text[item.start : item.stop] for item in select.items]
('x > 1', ['a', 'COUNT(*)'])
>>> select.drop("limit", "where").sql
'SELECT a, COUNT(*) FROM t'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from dpsql.dialects.postgres.words import Word, WordKind, words
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Span

_CLAUSES = tuple("from where group having qualify window order limit offset fetch".split())
_ENDS = frozenset(("union", "intersect", "except", ";"))
_JOIN_WORDS = frozenset("join inner left right full cross natural asof on using where".split())
_AFTER = {clause: _CLAUSES[place + 1 :] for place, clause in enumerate(_CLAUSES)}


@dataclass(frozen=True)
class WrittenSelect:
    """A SELECT in a text: `first` is its word SELECT, `after` the place after its last word.

    `heads` has the index of the word that begins each clause.
    """

    text: str
    words: Sequence[Word]
    first: int
    after: int
    heads: dict[str, int]

    @property
    def sql(self) -> str:
        """The whole text."""
        return self.text

    def place(self, clause: str) -> Span | None:
        """Return the place of a clause with its keyword; None if there is none."""
        head = self.heads.get(clause)
        return None if head is None else Span(self.words[head].start, self._stop(clause))

    def body(self, clause: str) -> Span | None:
        """Return the place of a clause without its keyword."""
        head = self.heads.get(clause)
        if head is None:
            return None
        head += 2 if clause in ("group", "order") else 1
        return Span(self.words[head].start, self._stop(clause))

    def shown(self, clause: str) -> str:
        """Return the text of a clause without its keyword; empty if there is none."""
        body = self.body(clause)
        return "" if body is None else self.text[body.start : body.stop]

    @cached_property
    def items(self) -> tuple[Span, ...]:
        """Places of the items of the SELECT list."""
        at = self.first + 1
        while self.words[at].value in ("distinct", "all"):
            at += 1
        stop = min((head for head in self.heads.values()), default=self.after)
        return tuple(self.parts(at, stop, ","))

    def parts(self, start: int, stop: int, sign: str) -> Iterator[Span]:
        """Yield the places of the parts of a list of words, divided by a sign or a word."""
        depth, since = 0, start
        for at in range(start, stop):
            word = self.words[at]
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word.text, 0)
            if depth == 0 and word.value == sign:
                yield Span(self.words[since].start, self.words[at - 1].stop)
                since = at + 1
        if since < stop:
            yield Span(self.words[since].start, self.words[stop - 1].stop)

    def divided(self, clause: str, sign: str) -> tuple[Span, ...]:
        """Return the places of the parts of a clause."""
        body = self.body(clause)
        if body is None:
            return ()
        inside = [n for n, w in enumerate(self.words) if body.start <= w.start < body.stop]
        return tuple(self.parts(inside[0], inside[-1] + 1, sign)) if inside else ()

    def insertion(self, clause: str) -> int:
        """Return the place where a missing clause belongs: after the clauses before it."""
        before = [c for c in self.heads if clause in _AFTER[c]]
        ends = [self._stop(each) for each in before]
        return max(ends, default=self.words[self.after - 1].stop)

    def grouping(self, key: str) -> tuple[Span, str]:
        """Return the edit that groups by a column, too. Raises `ValueError` for GROUP BY ALL."""
        keys, at = self.shown("group"), self.insertion("group")
        if keys.lower() == "all":
            raise ValueError(keys)
        added = f"{keys}, {key}" if keys else f" GROUP BY {key}"
        return self.body("group") or Span(at, at), added

    def subquery(self, alias: str) -> str:
        """Return the subquery of FROM with an alias, and the alias; empty if there is none."""
        every = self.words[self.first : self.after]
        for at, word in enumerate(every):
            end = at - 2 if every[at - 1].value == "as" else at - 1
            if word.value == alias.lower() and end >= 0 and every[end].text == ")":
                depth, since = 0, end
                for since in range(end, -1, -1):
                    depth += {")": 1, "(": -1}.get(every[since].text, 0)
                    if depth == 0:
                        break
                if every[since + 1].value == "select":
                    return self.text[every[since].start : word.stop]
        return ""

    def sources(self, tables: frozenset[str]) -> list[tuple[str, str]]:
        """Return the names of these tables in FROM with what they are called there."""
        body = self.body("from")
        inside = [w for w in self.words if body and body.start <= w.start < body.stop]
        names = []
        for number, word in enumerate(inside):
            before = inside[number - 1].value if number else ","
            if word.value not in tables or before not in (",", "join", "("):
                continue
            after = inside[number + 1 : number + 3]
            if after and after[0].value == "as":
                after = after[1:]
            aliased = after and after[0].kind is WordKind.NAME and after[0].value not in _JOIN_WORDS
            names.append((after[0].text if aliased else word.text, word.value))
        return names

    def edit(self, *edits: tuple[Span, str]) -> WrittenSelect:
        """Return the text with other words at some places; this SELECT is found again.

        White space before words that are left out goes too.
        """
        text = self.text
        for span, new in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
            before = text[: span.start] if new else text[: span.start].rstrip()
            text = before + new + text[span.stop :]
        return innermost(text, self.words[self.first].start)

    def drop(self, *clauses: str) -> WrittenSelect:
        """Return the text without some clauses."""
        places = [place for clause in clauses if (place := self.place(clause))]
        return self.edit(*((place, "") for place in places))

    def _stop(self, clause: str) -> int:
        later = [head for head in self.heads.values() if head > self.heads[clause]]
        return self.words[min(later, default=self.after) - 1].stop


def innermost(text: str, at: int) -> WrittenSelect:
    """Return the innermost SELECT around a place. Raises `Refused`, or ValueError."""
    every = tuple(words(text))
    level = lowest = 0
    for number in range(len(every) - 1, -1, -1):
        word = every[number]
        if word.start > at:
            continue
        level += {")": 1, "(": -1}.get(word.text, 0)
        lowest = min(level, lowest)
        if level == lowest and word.kind is WordKind.NAME and word.value == "select":
            return _select(text, every, number)
    raise ValueError(at)


def enclosing(text: str, at: int) -> Iterator[WrittenSelect]:
    """Yield the SELECTs around a place, the innermost first. Raises `Refused`."""
    try:
        select = innermost(text, at)
        while True:
            yield select
            opening = select.words[select.first - 1] if select.first else None
            if opening is None or opening.text != "(":
                return
            select = innermost(text, opening.start - 1)
    except ValueError:
        return


def call_around(every: Sequence[Word], at: int) -> tuple[int, int]:
    """Return the indices of the brackets of the call whose name or argument begins at a place."""
    first = min(n for n, word in enumerate(every) if word.start >= at)
    opening = first + 1 if every[first + 1].text == "(" else first - 1
    while every[opening].value in ("distinct", "all"):
        opening -= 1
    depth, close = 0, opening
    for close in range(opening, len(every)):
        depth += {"(": 1, ")": -1}.get(every[close].text, 0)
        if depth == 0:
            break
    return opening, close


def _select(text: str, every: Sequence[Word], first: int) -> WrittenSelect:
    heads: dict[str, int] = {}
    depth, after = 0, len(every)
    for at in range(first + 1, len(every)):
        word = every[at]
        depth += {"(": 1, ")": -1}.get(word.text, 0)
        if depth < 0 or (depth == 0 and word.value in _ENDS and word.kind is not WordKind.QUOTED):
            after = at
            break
        clause = depth == 0 and word.kind is WordKind.NAME and word.value in _CLAUSES
        if clause and _begins(every, at):
            heads.setdefault(word.value, at)
    return WrittenSelect(text, every, first, after, heads)


def _begins(every: Sequence[Word], at: int) -> bool:
    """Test whether a word begins a clause: not FROM of IS DISTINCT FROM, nor GROUP without BY."""
    word = every[at].value
    if word in ("group", "order"):
        return at + 1 < len(every) and every[at + 1].value == "by"
    return not (word == "from" and every[at - 1].value == "distinct")


def without_backticks(text: str) -> str:
    """Return the text with double quotes for backticks; empty if there are none, or if names have
    double quotes. Constants stay as they are.
    """
    ticks = [word.start for word in words(text) if word.text == "`"]
    pairs = zip(ticks[::2], ticks[1::2], strict=True)
    if not ticks or any('"' in text[start:stop] for start, stop in pairs):
        return ""
    letters = list(text)
    for place in ticks:
        letters[place] = '"'
    return "".join(letters)


def without_top(text: str) -> tuple[str, str]:
    """Return the text with LIMIT n for SELECT TOP n, and the LIMIT; as it is with "" for others."""
    every = tuple(words(text))
    for before, top, *after in zip(every, every[1:], every[2:], every[3:], every[4:], strict=False):
        opened = after[0].text == "("
        number = after[1] if opened else after[0]
        if (before.value, top.value, number.kind) == ("select", "top", WordKind.NUMBER):
            stop = after[2].stop if opened else number.stop
            limit, rest = f"LIMIT {number.text}", text[: before.stop] + text[stop:]
            select = innermost(rest, before.start)
            at = select.words[select.after - 1].stop
            return f"{rest[:at]} {limit}{rest[at:]}", limit
    return text, ""


def are_unequal(text: str, ends: tuple[str, str]) -> bool:
    """Test whether a text says that two columns are unequal."""
    orders = (r"\s*(<>|!=|[<>](?!=))\s*".join(map(re.escape, each)) for each in (ends, ends[::-1]))
    return any(re.search(rf"\b{order}\b", text, re.IGNORECASE) for order in orders)
