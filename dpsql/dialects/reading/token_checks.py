"""Checks on tokens before sqlglot parses them: nesting, clauses and joins.

sqlglot recurses about 25 Python frames per parenthesis. Its compiled build ends the process when
the C stack ends. Joins without ON, and types within types, take exponential time. So nesting is
limited here, like all free work (SECURITY.md S20).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType
from sqlglot.parser import Parser

from dpsql.dialects.reading.token_words import ends_operand, is_word, span_of
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused

MAX_NESTING = 25
"""Limit on parentheses, CASEs, NOTs and signs open at one place: 25 × 25 frames fit in 1000."""

MAX_JOINS = 50
"""Limit on joins and commas in one FROM: our own tree of joins grows to the left."""

_SIGNS = frozenset({TokenType.DASH, TokenType.PLUS})
_CLOSED_BY = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.CASE: TokenType.END}
_AFTER_NOT = frozenset({TokenType.COMMA, TokenType.AND, TokenType.OR, TokenType.ALIAS})
_ENDING_NOT = frozenset("ELSE FROM HAVING ON QUALIFY SELECT THEN WHEN WHERE".split())


@dataclass(slots=True)
class _Level:
    """One parenthesis or CASE: its closing token, and the prefixes that still wait for their
    operand.
    """

    closing: TokenType | None = None
    nots: int = 0
    signs: int = 0
    betweens: int = 0

    @property
    def depth(self) -> int:
        return (self.closing is not None) + self.nots + self.signs

    def read(self, before: Token | None, token: Token) -> None:
        """Count a token of this level: a sign is open until its operand, a NOT until its end."""
        kind = token.token_type
        self.signs = self.signs + (not ends_operand(before)) if kind in _SIGNS else 0
        if kind is TokenType.AND and self.betweens:
            self.betweens -= 1
        elif kind in _AFTER_NOT or (is_word(token) and token.text.upper() in _ENDING_NOT):
            self.nots = self.betweens = 0
        else:
            self.nots += kind is TokenType.NOT
            self.betweens += kind is TokenType.BETWEEN


def check_nesting(tokens: Sequence[Token], most: int = MAX_NESTING) -> None:
    """Raise `Refused` (TOO_LARGE) if more than `most` constructs are open."""
    levels = [_Level()]
    for before, token in zip((None, *tokens), tokens, strict=False):
        kind = token.token_type
        if kind in _CLOSED_BY:
            levels.append(_Level(_CLOSED_BY[kind]))
        elif kind in _CLOSED_BY.values():
            _close(levels, kind)
        else:
            levels[-1].read(before, token)
        if sum(level.depth for level in levels) > most:
            what = "nesting levels"
            raise Refused(Reason.TOO_LARGE, span_of(token), what=what, limit=most)


def _close(levels: list[_Level], closing: TokenType) -> None:
    """Leave the constructs that `closing` ends: END the last CASE, `)` also CASEs that are open in
    it.

    END is not a keyword to every parser, so it must not seem to end a parenthesis.
    """
    if closing is TokenType.R_PAREN:
        while levels[-1].closing is TokenType.END:
            levels.pop()
    if levels[-1].closing is closing:
        levels.pop()
    levels[-1].signs = 0


_NUMBERS = frozenset({TokenType.NUMBER, TokenType.PLACEHOLDER})
_OFFSETS = _NUMBERS | {TokenType.NULL}
_COUNTS = {TokenType.LIMIT: _OFFSETS | {TokenType.ALL}, TokenType.OFFSET: _OFFSETS}
_SET_OPERATIONS = frozenset({TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT})
_AFTER_SET_OPERATION = frozenset(
    {TokenType.SELECT, TokenType.L_PAREN, TokenType.ALL, TokenType.DISTINCT}
)
_BEFORE_SELECT = frozenset(
    {TokenType.L_PAREN, TokenType.R_PAREN, TokenType.ALL, TokenType.DISTINCT, *_SET_OPERATIONS}
)


def check_clauses(tokens: Sequence[Token]) -> None:
    """Raise `Refused` if a clause cannot stand next to its neighbours.

    sqlglot tries such words as names and as types too: again at every level, or without end.
    """
    for i, (token, after) in enumerate(zip(tokens, (*tokens[1:], None), strict=True)):
        before = tokens[i - 1] if i else None
        match token.token_type:
            case TokenType.LIMIT | TokenType.OFFSET:
                if after is None or after.token_type not in _COUNTS[token.token_type]:
                    construct = "LIMIT or OFFSET by an expression"
                    facts = {"construct": construct, "fix": "Write a whole number, or bind one."}
                    raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), **facts)
            case TokenType.FROM:
                _check_from(before, token)
            case TokenType.SELECT:
                _check_top(tokens[i + 1 : i + 4])
                by_name = [each.text.upper() for each in tokens[max(0, i - 2) : i]] == [
                    "BY",
                    "NAME",
                ]
                if not (before is None or by_name or before.token_type in _BEFORE_SELECT):
                    raise Refused(Reason.SYNTAX, span_of(token), why="no SELECT can begin here")
            case TokenType.UNION | TokenType.INTERSECT | TokenType.EXCEPT:
                _check_set_operation(before, token, after)
            case kind if kind in Parser.NESTED_TYPE_TOKENS:
                if after is not None and after.token_type is TokenType.LT:
                    construct = f"{token.text.upper()} <"
                    raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)
            case _:
                pass


def _check_top(after: Sequence[Token]) -> None:
    """Refuse the row limit of other products: `SELECT TOP 5 name`."""
    match after:
        case [top, number, Token(token_type=kind)] if (top.text.upper(), number.token_type) == (
            "TOP",
            TokenType.NUMBER,
        ) and kind not in (TokenType.COMMA, TokenType.FROM):
            fix = f"Write LIMIT {number.text} at the end."
            raise Refused(Reason.SYNTAX, span_of(top), why="TOP is not understood", fix=fix)


def _check_set_operation(before: Token | None, token: Token, after: Token | None) -> None:
    if not ends_operand(before):
        raise Refused(Reason.SYNTAX, span_of(token), why="there is no query on its left")
    by_name = after is not None and after.text.upper() == "BY"
    if after is None or not (by_name or after.token_type in _AFTER_SET_OPERATION):
        construct = f"this {token.text.upper()}"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)


def _check_from(before: Token | None, token: Token) -> None:
    if before is not None and before.token_type is TokenType.SELECT:
        raise Refused(Reason.SYNTAX, span_of(token), why="nothing is selected")
    if before is not None and before.token_type is TokenType.COMMA:
        why, fix = "a comma stands before FROM", "Remove the comma before FROM."
        raise Refused(Reason.SYNTAX, span_of(before), why=why, fix=fix)
    if not ends_operand(before) and not (before and before.token_type is TokenType.DISTINCT):
        construct = "FROM without SELECT"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)


def check_joins(tokens: Sequence[Token]) -> None:
    """Raise `Refused` unless each JOIN has its ON or USING before the next JOIN.

    CROSS JOIN takes none; NATURAL JOIN finds its own condition.
    """
    waiting: list[Token | None] = [None]
    natural = False
    for before, token in zip((None, *tokens), tokens, strict=False):
        match token.token_type:
            case TokenType.L_PAREN:
                waiting.append(None)
            case TokenType.R_PAREN | TokenType.COMMA | TokenType.WHERE | TokenType.SEMICOLON:
                _answered(waiting[-1])
                if token.token_type is TokenType.R_PAREN and len(waiting) > 1:
                    waiting.pop()
            case TokenType.NATURAL:
                natural = True
            case TokenType.JOIN:
                _answered(waiting[-1])
                crossing = before is not None and before.token_type is TokenType.CROSS
                waiting[-1] = None if crossing or natural else token
                natural = False
            case TokenType.ON | TokenType.USING:
                waiting[-1] = None
            case _:
                pass
    _answered(waiting[-1])


def _answered(join: Token | None) -> None:
    if join is not None:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(join), construct="JOIN without ON")
