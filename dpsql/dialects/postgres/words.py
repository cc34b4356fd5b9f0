r"""Text → words, as PostgreSQL's scanner divides it: enough to recognise kinds of statements.

>>> [word.text for word in words("FETCH 5 FROM c -- all\n;")]
['FETCH', '5', 'FROM', 'c', ';']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from itertools import chain

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Span

MAX_CHARACTERS = 1 << 20
"""Longest text of one message; a single query may have much less."""
MAX_STATEMENTS = 1000
"""Largest number of statements in one message."""


class WordKind(StrEnum):
    """Kind of a word, recognised by its beginning."""

    NAME = "name"
    QUOTED = "quoted"
    STRING = "string"
    DOLLAR = "dollar"
    NUMBER = "number"
    PARAMETER = "parameter"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, and its place in the text."""

    kind: WordKind
    text: str
    start: int

    @property
    def stop(self) -> int:
        return self.start + len(self.text)

    @property
    def span(self) -> Span:
        return Span(self.start, self.stop)

    @property
    def value(self) -> str:
        """Meaning of the word: a name in lower case, a string without its quotes."""
        match self.kind:
            case WordKind.NAME:
                return self.text.lower()
            case WordKind.QUOTED:
                return self.text[1:-1].replace('""', '"')
            case WordKind.STRING:
                return self.text[self.text.index("'") + 1 : -1].replace("''", "'")
            case WordKind.DOLLAR:
                quote = self.text.index("$", 1) + 1
                return self.text[quote:-quote]
            case WordKind.NUMBER | WordKind.PARAMETER | WordKind.SIGN:
                return self.text


_WORD = re.compile(
    r"""
    (?P<gap>\s+ | --[^\n]*)
    | (?P<comment>/\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*' | (?:[nNbBxX]|[uU]&)?'(?:[^']|'')*')
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")
    | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
    | (?P<parameter>\$\d+)
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)?)
    | (?P<name>[^\W\d][\w$]*)
    | (?P<sign>::|:=|<=|>=|<>|!=|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {kind.value: kind for kind in WordKind} | {"tag": WordKind.DOLLAR}
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def words(text: str) -> Iterator[Word]:
    """Yield the words of a text, without comments and white space.

    Raises `Refused` (SYNTAX) if a quote or a comment is not closed, and (TOO_LARGE).
    """
    if len(text) > MAX_CHARACTERS:
        raise Refused(Reason.TOO_LARGE, what="characters", limit=MAX_CHARACTERS)
    at = 0
    while at < len(text):
        match = _WORD.match(text, at)
        assert match is not None
        kind = match.lastgroup or ""
        if kind == "comment":
            at = _after_comment(text, at)
            continue
        at = match.end()
        if kind == "gap":
            continue
        if kind == "sign" and match.group() in ("'", '"'):
            raise Refused(Reason.SYNTAX, Span(at - 1, at), why="a quote is not closed")
        yield Word(_KINDS[kind], match.group(), match.start())


def _after_comment(text: str, start: int) -> int:
    """Return the place after the block comment at `start`; they nest, as in PostgreSQL."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise Refused(Reason.SYNTAX, Span(start, start + 2), why="a comment is not closed")


@dataclass(frozen=True)
class Piece:
    """One statement of a text: its own text, and its offset; `remark` is the comment before it.

    `inserted` is the span of text that was added to the statement. Words are found on demand, and
    are not pickled.
    """

    text: str
    offset: int
    remark: str = ""
    inserted: Span = NOWHERE

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Words, with places in the statement's own text."""
        return tuple(words(self.text))

    @property
    def size(self) -> int:
        """Approximate size in bytes, with the words that were found so far."""
        return 4 * (len(self.text) + len(self.remark)) + 200 * len(vars(self).get("words", ()))

    def position(self, start: int) -> int | None:
        """Return the position in the whole text, from 1, of a place in this one; None if
        inserted.

        >>> [Piece("SELECT 1", 5).position(7), Piece("a(x)b", 0, "", Span(1, 4)).position(4)]
        [13, 2]
        """
        if self.inserted == NOWHERE or start < self.inserted.start:
            return max(1, self.offset + start + 1)
        if start < self.inserted.stop:
            return None
        return self.offset + start - (self.inserted.stop - self.inserted.start) + 1

    def __reduce__(self) -> tuple[type[Piece], tuple[str, int, str, Span]]:
        return Piece, (self.text, self.offset, self.remark, self.inserted)


def pieces(text: str) -> tuple[Piece, ...]:
    """Return the statements of a text, which semicolons divide, without empty ones.

    Raises `Refused` as `words` does, and (TOO_LARGE) if there are more than `MAX_STATEMENTS`.

    >>> [piece.text for piece in pieces("BEGIN; SELECT ';' ;; ")]
    ['BEGIN', "SELECT ';'"]
    """
    parts: list[Piece] = []
    since, start, stop = 0, -1, 0
    for word in chain(words(text), [Word(WordKind.SIGN, ";", len(text))]):
        if word.text != ";":
            start, stop = (word.start if start < 0 else start), word.stop
            continue
        if start >= 0:
            parts.append(Piece(text[start:stop], start, text[since:start].strip()))
        since, start = word.stop, -1
        if len(parts) > MAX_STATEMENTS:
            raise Refused(Reason.TOO_LARGE, what="statements", limit=MAX_STATEMENTS)
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A text with `?` in place of each `$n`: the numbers, and their places."""

    text: str
    numbers: tuple[int, ...]
    places: tuple[Span, ...]


def numbered(piece: Piece) -> Numbered:
    """Return the text with `?` for every `$n`, padded to the same length so that places stay
    valid.

    >>> numbered(pieces("SELECT $2::int, '$1', $10")[0])
    Numbered(text="SELECT ? ::int, '$1', ?  ", numbers=(2, 10), places=(Span(start=7, stop=8), \
Span(start=22, stop=23)))
    """
    parts, at = [], 0
    parameters = [word for word in piece.words if word.kind is WordKind.PARAMETER]
    for word in parameters:
        parts += [piece.text[at : word.start], "?".ljust(len(word.text))]
        at = word.stop
    places = tuple(Span(word.start, word.start + 1) for word in parameters)
    numbers = tuple(int(word.text[1:]) for word in parameters)
    return Numbered("".join([*parts, piece.text[at:]]), numbers, places)
