"""Reader of the words of one statement from left to right."""

from __future__ import annotations

from typing import NoReturn

from dpsql.dialects.postgres.words import Piece, Word, WordKind
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span


class WordReader:
    """The words of a statement without semicolons, and the number of words already read."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._words = tuple(word for word in piece.words if word.text != ";")
        self._at = 0

    @property
    def next(self) -> Word | None:
        """The next word, or None at the end."""
        return self._words[self._at] if self._at < len(self._words) else None

    def take(self, *keywords: str) -> bool:
        """Read these keywords or signs if they come next. Return whether they did."""
        following = self._words[self._at : self._at + len(keywords)]
        plain = (WordKind.NAME, WordKind.SIGN)
        texts = [word.text.upper() if word.kind in plain else None for word in following]
        if texts != list(keywords):
            return False
        self._at += len(keywords)
        return True

    def take_any(self, *keywords: str) -> str | None:
        """Read one of these keywords if it comes next, and return it; else None."""
        return next((keyword for keyword in keywords if self.take(keyword)), None)

    def expect(self, *keywords: str) -> None:
        """Read these keywords. Raises `Refused`."""
        if not self.take(*keywords):
            self.fail(f"expected {' '.join(keywords)}")

    def word(self, *kinds: WordKind) -> Word:
        """Read the next word, of one of these kinds. Raises `Refused`."""
        word = self.next
        if word is None or word.kind not in kinds:
            self.fail("this is not what stands here")
        self._at += 1
        return word

    def name(self) -> str:
        """Read a name. Raises `Refused`."""
        return self.word(WordKind.NAME, WordKind.QUOTED).value

    def dotted(self) -> str:
        """Read a name that may have parts, as in dpsql.epsilon. Raises `Refused`."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return ".".join(parts)

    def relation(self) -> Piece:
        """Read a dotted name, and return it as a piece of its own. Raises `Refused`."""
        start = self._at
        self.dotted()
        stop, self._at = self._at, start
        name = self._slice(stop)
        self._at = stop
        return name

    def whole(self) -> int | None:
        """Read a whole number, maybe signed; None if none comes next."""
        before = self._at
        sign = -1 if self.take("-") else 1
        _ = sign > 0 and self.take("+")
        word = self.next
        if word is None or word.kind is not WordKind.NUMBER or not word.text.isdigit():
            self._at = before
            return None
        self._at += 1
        return sign * int(word.text)

    def constant(self) -> str | None:
        """Read a string, number or word as text; NULL is None. Raises `Refused`."""
        sign = "-" if self.take("-") else ""
        word = self.word(
            WordKind.NAME, WordKind.QUOTED, WordKind.STRING, WordKind.DOLLAR, WordKind.NUMBER
        )
        if word.kind is WordKind.NAME and word.value == "null":
            return None
        return sign + word.value

    def end(self) -> None:
        """Raise `Refused` unless the statement ends here."""
        if self.next is not None:
            self.fail("this is too much")

    def rest(self) -> Piece:
        """Read the rest, and return it as a piece of its own."""
        rest = self._slice(len(self._words))
        self._at = len(self._words)
        return rest

    def remaining(self) -> tuple[str, list[Word]]:
        """Read the remaining words, and return them with the text in which they have places."""
        words = list(self._words[self._at :])
        self._at = len(self._words)
        return self._piece.text, words

    def parenthesised(self) -> Piece:
        """Read the next parentheses, and return the text inside. Raises `Refused`."""
        self.expect("(")
        depth, stop = 1, self._at
        while depth:
            if stop == len(self._words):
                self.fail("this is never closed")
            depth += {"(": 1, ")": -1}.get(self._words[stop].text, 0)
            stop += 1
        inner = self._slice(stop - 1)
        self._at = stop
        return inner

    def _slice(self, stop: int) -> Piece:
        inner = self._words[self._at : stop]
        if not inner:
            self.fail("a query is missing here")
        first, last = inner[0].start, inner[-1].stop
        return Piece(self._piece.text[first:last], self._piece.offset + first)

    def fail(self, why: str) -> NoReturn:
        """Raise `Refused` (SYNTAX) at the next word, or at the end."""
        end = len(self._piece.text)
        span = self.next.span if self.next else Span(max(0, end - 1), end)
        raise Refused(Reason.SYNTAX, span, why=why)
