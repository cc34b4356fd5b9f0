"""Kinds of tokens: words, types, ends of operands."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.model.tree import Span

SPACE = " \t\r\n\f\v"
WORD = re.compile(r"[^\W\d][\w$]*(?:[ \t\r\n\f\v]+[^\W\d]\w*)*\Z")

_CLAUSES = frozenset(
    """ALL AND AS BETWEEN BY CASE DISTINCT ELSE FROM HAVING ILIKE IN IS JOIN LIKE NOT ON OR QUALIFY
    SELECT THEN USING WHEN WHERE""".split()
)
_OPERANDS = frozenset(
    {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.STRING, TokenType.IDENTIFIER}
    | {TokenType.STAR, TokenType.NUMBER, TokenType.PLACEHOLDER}
)


Mark = TokenType | str
"""A kind of tokens, or a word in capitals."""


def marks_of(tokens: Sequence[Token]) -> frozenset[Mark]:
    """Return the kinds and the words of tokens: a step runs where one that it reads occurs."""
    return frozenset(mark for t in tokens for mark in (t.token_type, t.text.upper()))


def span_of(token: Token) -> Span:
    """Return the token's characters; sqlglot's `end` is inclusive."""
    return Span(token.start, token.end + 1)


def is_word(token: Token) -> bool:
    """Test whether the token is a bare word: a keyword or an unquoted name."""
    return token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) and (
        WORD.match(token.text) is not None
    )


def ends_operand(token: Token | None) -> bool:
    """Test whether an expression, and so a query, may end with this token."""
    if token is None:
        return False
    return token.token_type in _OPERANDS or (is_word(token) and token.text.upper() not in _CLAUSES)


def names_type(tokens: Sequence[Token], i: int) -> bool:
    """Test whether token `i` is the type of a cast: it follows AS or `::`."""
    return i > 0 and tokens[i - 1].token_type in (TokenType.ALIAS, TokenType.DCOLON)


def as_token(token: Token, kind: TokenType, text: str) -> Token:
    """Return another token at the place of this one."""
    return Token(kind, text, token.line, token.col, token.start, token.end)
