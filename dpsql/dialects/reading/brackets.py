"""Lists of numbers as arguments, [0.25, 0.75] or ARRAY[0.25, 0.75]: read as calls of a name.

Everywhere else brackets are refused, so that no grammar of sqlglot's for them is ever reached.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

NUMBERS = "list of numbers"
"""The name of the call; no unquoted identifier can contain its spaces."""

_OPENING = (TokenType.L_PAREN, TokenType.COMMA)


def number_lists(tokens: Sequence[Token]) -> frozenset[int]:
    """The places of the ARRAY, `[` and `]` around the numbers of lists that are arguments."""
    found: set[int] = set()
    for place, token in enumerate(tokens):
        if token.token_type is not TokenType.L_BRACKET:
            continue
        worded = place > 0 and tokens[place - 1].text.upper() == "ARRAY"
        first = place - worded
        end = _end(tokens, place)
        if end and first > 0 and tokens[first - 1].token_type in _OPENING:
            found |= {first, place, end}
    return frozenset(found)


def _end(tokens: Sequence[Token], place: int) -> int | None:
    """The place of the `]` behind numbers and commas in turn."""
    place += 1
    while place + 1 < len(tokens) and tokens[place].token_type is TokenType.NUMBER:
        if tokens[place + 1].token_type is TokenType.R_BRACKET:
            return place + 1
        if tokens[place + 1].token_type is not TokenType.COMMA:
            return None
        place += 2
    return None


def as_calls(tokens: Sequence[Token], lists: frozenset[int]) -> tuple[Token, ...]:
    """The tokens with parentheses and a name in place of these brackets."""
    read: list[Token] = []
    for place, token in enumerate(tokens):
        if place not in lists:
            read.append(token)
        elif token.token_type is TokenType.L_BRACKET:
            read += [_as(token, TokenType.VAR, NUMBERS), _as(token, TokenType.L_PAREN, "(")]
        elif token.token_type is TokenType.R_BRACKET:
            read.append(_as(token, TokenType.R_PAREN, ")"))
    return tuple(read)


def _as(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)
