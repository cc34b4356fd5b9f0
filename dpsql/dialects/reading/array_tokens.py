"""Brackets, ANY and ALL as tokens: lists become calls that sqlglot can read.

Lists in brackets, and ANY and ALL after a comparison, become calls with a name that no query can
contain. Of other brackets, only the `[]` of a cast's type reaches sqlglot.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.reading.token_words import as_token, ends_operand, is_word, names_type
from dpsql.model.dataclass import dataclass

LIST = "list of values"
ANY_OF, ALL_OF = "any of", "all of"
"""Names of calls; unquoted identifiers cannot contain spaces."""

_QUANTIFIERS = {"ANY": ANY_OF, "SOME": ANY_OF, "ALL": ALL_OF}
ARRAY_MARKS = frozenset({TokenType.L_BRACKET, *_QUANTIFIERS})
_COMPARISONS = frozenset("= == <> != < <= > >= LIKE ILIKE".split())
_CLOSED_BY = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
}
_MOST_WORDS = 4
"""Words in the longest name of a type: TIMESTAMP WITH TIME ZONE."""


@dataclass(frozen=True, slots=True)
class ArrayPlaces:
    """Places of tokens that become calls: ARRAY, `[` and `]` of lists, ANY and ALL.

    Brackets after the `types` of casts stay.
    """

    lists: frozenset[int]
    quantifiers: frozenset[int]
    types: frozenset[int]


def array_places(tokens: Sequence[Token]) -> ArrayPlaces:
    """Return the places of supported array tokens."""
    places = range(1, len(tokens) - 1)
    types = frozenset(
        place + behind for place in places if _is_suffix(tokens, place) for behind in (0, 1)
    )
    quantifiers = frozenset(place for place in places if _is_quantifier(tokens, place))
    return ArrayPlaces(_lists(tokens, types), quantifiers, types)


def _is_suffix(tokens: Sequence[Token], place: int) -> bool:
    """Test whether a `[]` at this place follows the type of a cast."""
    pair = [token.token_type for token in tokens[place : place + 2]]
    return pair == [TokenType.L_BRACKET, TokenType.R_BRACKET] and _ends_type(tokens, place - 1)


def _ends_type(tokens: Sequence[Token], place: int) -> bool:
    """Test whether the type of a cast ends here: words, possibly with a size."""
    if tokens[place].token_type is TokenType.R_PAREN:
        while place > 0 and tokens[place].token_type is not TokenType.L_PAREN:
            place -= 1
        place -= 1
    for first in range(place, max(0, place - _MOST_WORDS), -1):
        if not is_word(tokens[first]):
            return False
        if names_type(tokens, first):
            return True
    return False


def _is_quantifier(tokens: Sequence[Token], place: int) -> bool:
    """Test whether this is the ANY, SOME or ALL of `x = ANY (…)`."""
    word, before, behind = tokens[place], tokens[place - 1], tokens[place + 1]
    quantifies = is_word(word) and word.text.upper() in _QUANTIFIERS
    in_quotes = before.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    compares = before.text.upper() in _COMPARISONS and not in_quotes
    return quantifies and compares and behind.token_type is TokenType.L_PAREN


def _lists(tokens: Sequence[Token], types: frozenset[int]) -> frozenset[int]:
    """Return the places of ARRAY, `[` and `]` around lists at places where a value may begin.

    Empty if brackets and parentheses do not match.
    """
    places: set[int] = set()
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.token_type in _CLOSED_BY and place not in types:
            opened.append(place)
        elif token.token_type in _CLOSED_BY.values() and place not in types:
            opening = opened.pop() if opened else place
            if _CLOSED_BY.get(tokens[opening].token_type) is not token.token_type:
                return frozenset()
            if token.token_type is TokenType.R_BRACKET and _begins_list(tokens, opening):
                places |= {_first(tokens, opening), opening, place}
    return frozenset(places)


def _first(tokens: Sequence[Token], place: int) -> int:
    """Return the place where a list begins: its bracket, or ARRAY before it."""
    worded = place > 0 and tokens[place - 1].text.upper() == "ARRAY"
    return place - (worded and tokens[place - 1].token_type is not TokenType.IDENTIFIER)


def _begins_list(tokens: Sequence[Token], place: int) -> bool:
    first = _first(tokens, place)
    return first > 0 and not ends_operand(tokens[first - 1])


def as_calls(tokens: Sequence[Token], arrays: ArrayPlaces) -> tuple[Token, ...]:
    """Return the tokens with a name and parentheses instead of brackets, and names for
    quantifiers.
    """
    read: list[Token] = []
    for place, token in enumerate(tokens):
        if place in arrays.quantifiers:
            read.append(as_token(token, TokenType.VAR, _QUANTIFIERS[token.text.upper()]))
        elif place not in arrays.lists:
            read.append(token)
        elif token.token_type is TokenType.L_BRACKET:
            read += [as_token(token, TokenType.VAR, LIST), as_token(token, TokenType.L_PAREN, "(")]
        elif token.token_type is TokenType.R_BRACKET:
            read.append(as_token(token, TokenType.R_PAREN, ")"))
    return tuple(read)
