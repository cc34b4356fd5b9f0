"""How deep a text may nest: checked on tokens, before a parser that has no stack guard runs.

sqlglot recurses about 25 Python frames per parenthesis; its compiled build ends the process when
the C stack ends; joins without ON and types within types take exponential time.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.from_sqlglot_tokens import span_of
from dpsql.errors import Reason, Refused

MAX_NESTING = 25
"""Most parentheses, CASEs, NOTs and signs open at one place: 25 × 25 frames fit in 1000."""

_PREFIXES = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS})


def check_nesting(tokens: Sequence[Token]) -> None:
    """Raises `Refused` (TOO_LARGE) where more than `MAX_NESTING` constructs are open."""
    opened: list[int] = []
    depth = run = 0
    for token in tokens:
        if token.token_type in _PREFIXES:
            run += 1
        elif token.token_type in (TokenType.L_PAREN, TokenType.CASE):
            opened.append(1 + run)
            depth, run = depth + 1 + run, 0
        else:
            run = 0
            if token.token_type in (TokenType.R_PAREN, TokenType.END) and opened:
                depth -= opened.pop()
        if depth + run > MAX_NESTING:
            raise Refused(
                Reason.TOO_LARGE, span_of(token), what="nesting levels", limit=MAX_NESTING
            )


def check_joins(tokens: Sequence[Token]) -> None:
    """Raises `Refused` unless each JOIN meets its ON or USING before the next JOIN.

    CROSS JOIN takes none; NATURAL JOIN finds its own condition and is refused.
    """
    waiting: list[Token | None] = [None]
    for before, token in zip((None, *tokens), tokens, strict=False):
        match token.token_type:
            case TokenType.L_PAREN:
                waiting.append(None)
            case TokenType.R_PAREN | TokenType.COMMA | TokenType.WHERE | TokenType.SEMICOLON:
                _answered(waiting[-1])
                if token.token_type is TokenType.R_PAREN and len(waiting) > 1:
                    waiting.pop()
            case TokenType.NATURAL:
                raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct="NATURAL JOIN")
            case TokenType.JOIN:
                _answered(waiting[-1])
                crossing = before is not None and before.token_type is TokenType.CROSS
                waiting[-1] = None if crossing else token
            case TokenType.ON | TokenType.USING:
                waiting[-1] = None
            case _:
                pass
    _answered(waiting[-1])


def _answered(join: Token | None) -> None:
    if join is not None:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(join), construct="JOIN without ON")
