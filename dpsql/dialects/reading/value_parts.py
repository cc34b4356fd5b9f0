"""Parts of values as names: `tags[1]`, `payload['city']`, `payload -> 'address' ->> 'city'`.

Each is a column that the policy declares under its path (`payload.address.city`). Nothing else can
be read of such values. So a part is one name before any grammar sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import Token, TokenType

_WORD = re.compile(r"[^\W\d]\w*\Z")
_NO_VALUES = frozenset(
    """ALL AND ANY ARRAY AS BETWEEN BY CASE DISTINCT ELSE FROM HAVING ILIKE IN IS LIKE LIMIT MAP NOT
    OFFSET ON OR SELECT SIMILAR SOME STRUCT THEN VALUES WHEN WHERE""".split()
)
"""Words after which a bracket begins a new value."""

PART_MARKS = frozenset({TokenType.L_BRACKET, TokenType.ARROW, TokenType.DARROW})
"""Tokens of which one begins the parts of a value."""

_STEP = re.compile(r'\.(?:"(?P<quoted>[^"\\]+)"|(?P<plain>[^.\[\]"*]+))|\[(?P<place>\d{1,9})\]')


def parts_of_values(tokens: Sequence[Token]) -> Mapping[int, tuple[int, str]]:
    """Return the places of names that are followed by parts: the place after each, and its name.

    A JSON value that is not a text, as `->` returns it, is not a part.
    """
    parts: dict[int, tuple[int, str]] = {}
    place = 0
    while place < len(tokens):
        end, called = _part(tokens, place) if _is_name(tokens[place]) else (place + 1, "")
        if end > place + 1:
            parts[place] = end, tokens[place].text + called
        place = max(end, place + 1)
    return parts


def as_names(tokens: Sequence[Token], parts: Mapping[int, tuple[int, str]]) -> Iterator[Token]:
    """Yield the tokens with one name in place of each part."""
    place = 0
    while place < len(tokens):
        first = tokens[place]
        end, called = parts.get(place, (place + 1, ""))
        if called:
            last = tokens[end - 1].end
            first = Token(TokenType.IDENTIFIER, called, first.line, first.col, first.start, last)
        yield first
        place = end


def steps_of(path: str) -> str | None:
    """Return a JSON path as the continuation of a name, with places from 1; None if it is not
    plain.

    >>> steps_of("$.address.lines[0]"), steps_of("city"), steps_of("$.*")
    ('.address.lines[1]', '.city', None)
    """
    if not path.startswith(("$", "/")):
        return f".{path}" if path else None
    steps = list(_STEP.finditer(path, 1))
    if path[0] != "$" or "".join(step[0] for step in steps) != path[1:] or not steps:
        return None
    return "".join(
        f"[{int(step['place']) + 1}]" if step["place"] else f".{step['quoted'] or step['plain']}"
        for step in steps
    )


def _is_name(token: Token) -> bool:
    if token.token_type is TokenType.IDENTIFIER:
        return True
    return _WORD.match(token.text) is not None and (
        token.token_type is not TokenType.STRING and token.text.upper() not in _NO_VALUES
    )


def _part(tokens: Sequence[Token], place: int) -> tuple[int, str]:
    """Return the place after the parts of the value at a place, and their names."""
    end, called = place + 1, ""
    at, name, through_json = end, "", False
    while (step := _step(tokens, at, within=bool(name))) is not None:
        at, name = at + step[0], name + step[1]
        through_json = step[2]
        if not through_json:
            end, called = at, name
    return end, called


def _step(tokens: Sequence[Token], at: int, *, within: bool) -> tuple[int, str, bool] | None:
    """Return the number of a step's tokens, its name, and true if the result is JSON; None if no
    step.
    """
    kinds = [token.token_type for token in tokens[at : at + 3]]
    match kinds:
        case [TokenType.L_BRACKET, TokenType.NUMBER, TokenType.R_BRACKET]:
            number = tokens[at + 1].text
            return (3, f"[{number}]", False) if number.isdecimal() else None
        case [TokenType.L_BRACKET, TokenType.STRING, TokenType.R_BRACKET]:
            return 3, f".{tokens[at + 1].text}", False
        case [TokenType.DOT, _, *_] if within and _is_name(tokens[at + 1]):
            return 2, f".{tokens[at + 1].text}", False
        case [TokenType.ARROW | TokenType.DARROW as arrow, TokenType.STRING, *_]:
            steps = steps_of(tokens[at + 1].text)
            return None if steps is None else (2, steps, arrow is TokenType.ARROW)
        case [TokenType.ARROW | TokenType.DARROW as arrow, TokenType.NUMBER, *_]:
            number = tokens[at + 1].text
            return (
                (2, f"[{int(number) + 1}]", arrow is TokenType.ARROW)
                if number.isdecimal()
                else None
            )
        case _:
            return None
