"""Rewrites of tokens that the parser reads too slowly or not at all.

Constant row counts are LIMIT (1 + 1), OFFSET 2::INT and FETCH FIRST CAST(3 AS INT). sqlglot reads
a LIMIT of more than one token in time that nesting multiplies, so the count is folded before.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.reading.token_words import ends_operand

MOST_DIGITS = 18
_ZONE_WORDS = ["WITHOUT", "TIME", "ZONE"]
_NOT_CONSTANT = ValueError()
_TYPES = frozenset("INT INTEGER BIGINT SMALLINT INT2 INT4 INT8".split())
_OPERATORS = frozenset(
    (TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DIV, TokenType.MOD)
) | {TokenType.DCOLON, TokenType.CARET, TokenType.DOT, TokenType.L_PAREN, TokenType.L_BRACKET}
"""Tokens that continue an expression: a count before them is not constant."""


def with_bare_counts(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with each constant behind LIMIT, OFFSET and FETCH FIRST as one token.

    Other counts stay as they are, and are refused later.
    """
    bare: list[Token] = []
    at = 0
    while at < len(tokens):
        bare.append(tokens[at])
        at += 1
        words = [token.text.upper() for token in bare[-2:]]
        if words[-1:] in (["LIMIT"], ["OFFSET"]) or words in (
            ["FETCH", "FIRST"],
            ["FETCH", "NEXT"],
        ):
            reader = _CountReader(tokens, at)
            count = reader.read()
            if count is not None:
                bare.append(count)
                at = reader.at
    return tuple(bare)


def without_zone_words(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with TIMESTAMP WITHOUT TIME ZONE as TIMESTAMP, which means the same."""
    short: list[Token] = []
    for token in tokens:
        short.append(token)
        if [t.text.upper() for t in short[-3:]] == _ZONE_WORDS and any(
            token.text.upper() in ("TIMESTAMP", "TIME") for token in short[-4:-3]
        ):
            del short[-3:]
    return tuple(short)


def with_leading_zeros(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with .25 as one number, where no name or value stands before the point."""
    joined: list[Token] = []
    for token in tokens:
        *_, before, point = (None, None, *joined)
        if (
            token.token_type is TokenType.NUMBER
            and token.text[:1].isdigit()
            and point is not None
            and point.token_type is TokenType.DOT
            and point.end + 1 == token.start
            and (before is None or before.token_type is TokenType.STAR or not ends_operand(before))
        ):
            text = f".{token.text}"
            joined[-1] = Token(
                TokenType.NUMBER, text, point.line, point.col, point.start, token.end
            )
        else:
            joined.append(token)
    return tuple(joined)


class _CountReader:
    """Reader of one constant expression of whole numbers, or one placeholder, from `at` on."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self._tokens, self.at = tokens, at

    def read(self) -> Token | None:
        """Return the count as one token, or None if it is not constant."""
        first = self.at
        try:
            value = self._sum()
        except ValueError:
            return None
        if self._take(*_OPERATORS) is not None:
            return None
        if isinstance(value, Token):
            return value
        if value < 0:
            return None
        start, end = self._tokens[first], self._tokens[self.at - 1]
        return Token(TokenType.NUMBER, str(value), start.line, start.col, start.start, end.end)

    def _sum(self) -> int | Token:
        value = self._operand()
        while (sign := self._take(TokenType.PLUS, TokenType.DASH)) is not None:
            other = self._operand()
            value = _number(value) + (1 if sign is TokenType.PLUS else -1) * _number(other)
        return value

    def _operand(self) -> int | Token:
        token = self._next()
        match token.token_type:
            case TokenType.PLACEHOLDER:
                value: int | Token = token
            case TokenType.NUMBER if token.text.isdigit() and len(token.text) <= MOST_DIGITS:
                value = int(token.text)
            case TokenType.L_PAREN:
                value = self._sum()
                self._expect(TokenType.R_PAREN)
            case _ if token.text.upper() == "CAST":
                self._expect(TokenType.L_PAREN)
                value = self._sum()
                self._expect(TokenType.ALIAS)
                self._type()
                self._expect(TokenType.R_PAREN)
            case _:
                raise _NOT_CONSTANT
        while self._take(TokenType.DCOLON) is not None:
            self._type()
        return value

    def _type(self) -> None:
        if self._next().text.upper() not in _TYPES:
            raise _NOT_CONSTANT

    def _next(self) -> Token:
        if self.at >= len(self._tokens):
            raise _NOT_CONSTANT
        self.at += 1
        return self._tokens[self.at - 1]

    def _take(self, *kinds: TokenType) -> TokenType | None:
        kind = self._tokens[self.at].token_type if self.at < len(self._tokens) else None
        self.at += kind in kinds
        return kind if kind in kinds else None

    def _expect(self, kind: TokenType) -> None:
        if self._take(kind) is None:
            raise _NOT_CONSTANT


def _number(value: int | Token) -> int:
    if isinstance(value, int):
        return value
    raise _NOT_CONSTANT
