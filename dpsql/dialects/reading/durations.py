"""INTERVAL on the tokens: every form becomes the call of a function that nobody else can write.

sqlglot's own grammar of INTERVAL takes words as units, drops some and recurses, so its parser never
sees the word: `INTERVAL 3 DAY` arrives as `interval day(3)`. Forms that are not listed are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.reading.tokens import DURATION, is_word, names_type, span_of
from dpsql.model.errors import Reason, Refused

UNITS = {
    name: unit
    for names, unit in (
        ("microsecond microseconds us usec usecs", ("microseconds", 1)),
        ("millisecond milliseconds ms msec msecs", ("microseconds", 1_000)),
        ("second seconds s sec secs", ("microseconds", 1_000_000)),
        ("minute minutes min mins", ("microseconds", 60_000_000)),
        ("hour hours h hr hrs", ("microseconds", 3_600_000_000)),
        ("day days d", ("day", 1)),
        ("week weeks w", ("day", 7)),
        ("month months mon mons", ("month", 1)),
        ("quarter quarters", ("month", 3)),
        ("year years y yr yrs", ("month", 12)),
        ("decade decades", ("month", 120)),
        ("century centuries", ("month", 1200)),
    )
    for name in names.split()
}
"""Units of an interval: which of its three parts they count, and how many of it they are."""

TEXT = "text"
"""Stands for the unit where the string itself names units: INTERVAL '1 day 2 hours'."""

_VALUES = frozenset({TokenType.NUMBER, TokenType.PLACEHOLDER, TokenType.IDENTIFIER})


def with_durations(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens with every INTERVAL as a call; raises `Refused` for a form that is not known."""
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        if not _is_interval(tokens[i]):
            result.append(tokens[i])
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


def _is_interval(token: Token) -> bool:
    return is_word(token) and token.text.upper() == "INTERVAL"


def _check_type(tokens: Sequence[Token], i: int) -> None:
    """A unit or a precision behind the type INTERVAL would be dropped."""
    behind = tokens[i + 1] if i + 1 < len(tokens) else None
    if behind is not None and (
        behind.token_type in (TokenType.VAR, TokenType.L_PAREN) or behind.text.lower() in UNITS
    ):
        raise _refusal(tokens[i])


def _extent(tokens: Sequence[Token], i: int) -> tuple[int, str]:
    """Where the value behind INTERVAL ends, and its unit."""
    first = _kind(tokens, i + 1)
    if first is TokenType.STRING:
        bare = _is_number(tokens[i + 1].text)
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
        if first not in _VALUES and stop == i + 2 and not _is_name(tokens, i + 1):
            raise _refusal(tokens[i])
    unit = _unit(tokens, stop)
    if unit is None:
        raise _refusal(tokens[i])
    return stop, unit


def _kind(tokens: Sequence[Token], i: int) -> TokenType | None:
    return tokens[i].token_type if i < len(tokens) else None


def _is_name(tokens: Sequence[Token], i: int) -> bool:
    return i < len(tokens) and tokens[i].token_type is TokenType.VAR


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").replace(".", "", 1).isdecimal()


def _unit(tokens: Sequence[Token], i: int) -> str | None:
    if i >= len(tokens) or not is_word(tokens[i]) or tokens[i].text.lower() not in UNITS:
        return None
    if i + 1 < len(tokens) and tokens[i + 1].text.upper() == "TO":
        return None
    return tokens[i].text.lower()


def _closing(tokens: Sequence[Token], i: int) -> int:
    """The parenthesis that closes the one at `i`."""
    depth = 0
    for n in range(i, len(tokens)):
        depth += (tokens[n].token_type is TokenType.L_PAREN) - (
            tokens[n].token_type is TokenType.R_PAREN
        )
        if depth == 0:
            return n
    raise Refused(Reason.SYNTAX, span_of(tokens[i]), why="this is never closed")


def _call(word: Token, unit: str, value: Sequence[Token], last: Token) -> list[Token]:
    """The tokens of the call; its last parenthesis ends where the unit does."""
    name = Token(TokenType.VAR, DURATION + unit, word.line, word.col, word.start, word.end)
    first = value[0]
    opening = Token(TokenType.L_PAREN, "(", first.line, first.col, first.start, first.start)
    closing = Token(TokenType.R_PAREN, ")", last.line, last.col, last.end, last.end)
    return [name, opening, *value, closing]


def _refusal(word: Token) -> Refused:
    return Refused(Reason.UNSUPPORTED_SYNTAX, span_of(word), construct="this form of INTERVAL")
