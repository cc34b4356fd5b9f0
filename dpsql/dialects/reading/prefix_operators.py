"""Prefix operators as calls, on the tokens: `@ x` is ABS(x), `|/ x` is SQRT(x).

Both engines apply such an operator to everything that binds tighter: `@ a - b` is ABS(a - b).
sqlglot reads one of them in one dialect, and with another precedence.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.reading.token_words import as_token, ends_operand, span_of
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import DEFAULT_SPELLING

_CALLED = {
    DEFAULT_SPELLING: {"@": "abs"},
    "postgres": {"@": "abs", "|/": "sqrt", "||/": "cbrt"},
}
"""Function of each operator, by dialect."""

PREFIX_MARKS = frozenset(operator for names in _CALLED.values() for operator in names)
_TIGHTER = frozenset("+ - * / // % ^ ** :: .".split())
MOST = 100
"""Limit on such operators in one text: each needs a search for its operand, and moves later
tokens.
"""

_ENDING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.STAR})
_TEXTS = frozenset({TokenType.STRING, TokenType.IDENTIFIER})


def with_prefixes_called(tokens: Sequence[Token], dialect: str) -> tuple[Token, ...]:
    """Return the tokens with a call in place of each prefix operator. Raises `Refused`."""
    names, read = _CALLED.get(dialect, {}), list(tokens)
    places = [n for n, t in enumerate(tokens) if t.text in names and t.token_type not in _TEXTS]
    if len(places) > MOST:
        what = "operators before a value"
        raise Refused(Reason.TOO_LARGE, span_of(tokens[places[MOST]]), what=what, limit=MOST)
    # From the right, so that an operand that begins with such an operator is a call already.
    for place in reversed(places):
        token = tokens[place]
        end = _end_of_operand(read, place + 1)
        if end is None or ends_operand(tokens[place - 1] if place else None):
            facts = {"construct": token.text, "fix": f"Write {names[token.text].upper()}(x)."}
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), **facts)
        call = as_token(token, TokenType.VAR, names[token.text])
        opening = as_token(token, TokenType.L_PAREN, "(")
        closing = as_token(read[end - 1], TokenType.R_PAREN, ")")
        read[place:end] = [call, opening, *read[place + 1 : end], closing]
    return tuple(read)


def _end_of_operand(tokens: Sequence[Token], place: int) -> int | None:
    """Return the place after the operand that begins here; None if none does."""
    complete = False
    while place < len(tokens):
        token = tokens[place]
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            place, complete = _behind(tokens, place), True
        elif complete and (kind in _TEXTS or token.text not in _TIGHTER):
            break
        elif complete:
            complete, place = False, place + 1
        elif kind not in _TEXTS and token.text in ("+", "-"):
            place += 1
        elif ends_operand(token) and kind not in _ENDING:
            complete, place = True, place + 1
        else:
            return None
    return place if complete else None


def _behind(tokens: Sequence[Token], place: int) -> int:
    """Return the place after a closing parenthesis."""
    depth = 0
    for end in range(place, len(tokens)):
        depth += tokens[end].token_type is TokenType.L_PAREN
        depth -= tokens[end].token_type is TokenType.R_PAREN
        if not depth:
            return end + 1
    return len(tokens)
