"""INTERVAL as tokens: every form becomes a call of a function that no text can name.

sqlglot's own grammar of INTERVAL takes words as units, drops some and recurses. So its parser never
sees the word: `INTERVAL 3 DAY` is `interval day(3)`. Forms that are not listed are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.reading.token_words import as_token, is_word, names_type, span_of
from dpsql.dialects.reading.tokens import DURATION
from dpsql.model.durations import UNITS
from dpsql.model.errors import Reason, Refused

TEXT = "text"
"""Placeholder for the unit if the string itself names units: INTERVAL '1 day 2 hours'."""

_VALUES = frozenset({TokenType.NUMBER, TokenType.PLACEHOLDER, TokenType.IDENTIFIER})


def with_durations(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with every INTERVAL as a call; raises `Refused` for an unknown form."""
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if not (is_word(token) and token.text.upper() == "INTERVAL"):
            result.append(token)
            i += 1
        elif names_type(tokens, i):
            _check_type(tokens, i)
            result.append(tokens[i])
            i += 1
        else:
            stop, unit = _extent(tokens, i)
            end = stop + (unit != TEXT)
            result += _call(tokens[i], unit, with_durations(tokens[i + 1 : stop]), tokens[end - 1])
            i = end
    return tuple(result)


def _check_type(tokens: Sequence[Token], i: int) -> None:
    """Refuse a unit or a precision after the type INTERVAL, which would be dropped."""
    behind = tokens[i + 1] if i + 1 < len(tokens) else None
    if behind is not None and (
        behind.token_type in (TokenType.VAR, TokenType.L_PAREN) or behind.text.lower() in UNITS
    ):
        raise _refusal(tokens[i])


def _extent(tokens: Sequence[Token], i: int) -> tuple[int, str]:
    """Return the place after the value of INTERVAL, and its unit."""
    first = _kind(tokens, i + 1)
    if first is TokenType.STRING:
        bare = tokens[i + 1].text.strip().removeprefix("-").replace(".", "", 1).isdecimal()
        unit = _unit(tokens, i + 2)
        if bare and unit is not None:
            return i + 2, unit
        if not bare and unit is None:
            return i + 2, TEXT
        raise _refusal(tokens[i])
    if first is TokenType.L_PAREN:
        stop = _closing(tokens, i + 1) + 1
    else:
        stop = i + 2 + (first is TokenType.DASH and _kind(tokens, i + 2) is TokenType.NUMBER)
        if first not in _VALUES and stop == i + 2 and first is not TokenType.VAR:
            raise _refusal(tokens[i])
    unit = _unit(tokens, stop)
    if unit is None:
        raise _refusal(tokens[i])
    return stop, unit


def _kind(tokens: Sequence[Token], i: int) -> TokenType | None:
    return tokens[i].token_type if i < len(tokens) else None


def _unit(tokens: Sequence[Token], i: int) -> str | None:
    if i >= len(tokens) or not is_word(tokens[i]) or tokens[i].text.lower() not in UNITS:
        return None
    if i + 1 < len(tokens) and tokens[i + 1].text.upper() == "TO":
        return None
    return tokens[i].text.lower()


def _closing(tokens: Sequence[Token], i: int) -> int:
    """Return the place of the parenthesis that closes the one at `i`."""
    depth = 0
    for n in range(i, len(tokens)):
        depth += (tokens[n].token_type is TokenType.L_PAREN) - (
            tokens[n].token_type is TokenType.R_PAREN
        )
        if depth == 0:
            return n
    raise Refused(Reason.SYNTAX, span_of(tokens[i]), why="this is never closed")


def _call(word: Token, unit: str, value: Sequence[Token], last: Token) -> list[Token]:
    """Return the tokens of the call; its last parenthesis ends at the end of the unit."""
    name = Token(TokenType.VAR, DURATION + unit, word.line, word.col, word.start, word.end)
    first = value[0]
    opening = Token(TokenType.L_PAREN, "(", first.line, first.col, first.start, first.start)
    closing = Token(TokenType.R_PAREN, ")", last.line, last.col, last.end, last.end)
    return [name, opening, *value, closing]


_MADE = ("years", "months", "weeks", "days", "hours", "mins", "secs")
"""Arguments of PostgreSQL's MAKE_INTERVAL, in this order or by name."""


def with_made(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with every MAKE_INTERVAL(days => 1, hours => 2) as a sum of intervals."""
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        kinds = [token.token_type for token in tokens[i + 1 : i + 3]]
        opens = (
            len(kinds) > 1 and kinds[0] is TokenType.L_PAREN and kinds[1] is not TokenType.R_PAREN
        )
        if opens and is_word(tokens[i]) and tokens[i].text.upper() == "MAKE_INTERVAL":
            stop = _closing(tokens, i + 1)
            result += _sum_of(tokens[i], with_made(tokens[i + 2 : stop]), tokens[stop])
            i = stop + 1
        else:
            result.append(tokens[i])
            i += 1
    return tuple(result)


def _sum_of(word: Token, arguments: Sequence[Token], last: Token) -> list[Token]:
    """Return (INTERVAL a years + INTERVAL b months …), each at the place of its argument."""
    total = [as_token(word, TokenType.L_PAREN, "(")]
    depth = start = place = 0
    given: set[str] = set()
    for n, token in enumerate((*arguments, as_token(last, TokenType.COMMA, ","))):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth or token.token_type is not TokenType.COMMA:
            continue
        value = list(arguments[start:n])
        named = len(value) > 1 and value[1].token_type is TokenType.FARROW
        unit = value[0].text.lower() if named else dict(enumerate(_MADE)).get(place)
        value = value[2:] if named else value
        if unit not in _MADE or unit in given or not value:
            raise Refused(
                Reason.SYNTAX, span_of(word), why="MAKE_INTERVAL takes " + ", ".join(_MADE)
            )
        total += _call(arguments[start], unit, value, value[-1])
        total.append(as_token(token, TokenType.PLUS, "+"))
        given.add(unit)
        start, place = n + 1, place + 1
    return [*total[:-1], as_token(last, TokenType.R_PAREN, ")")]


def _refusal(word: Token) -> Refused:
    return Refused(Reason.UNSUPPORTED_SYNTAX, span_of(word), construct="this form of INTERVAL")
