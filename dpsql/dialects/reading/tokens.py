"""Text → tokens, checked: only these reach sqlglot's parser.

sqlglot is not a validator, and its compiled parser has no stack guard. So everything that could
make it wrong, slow or crash is refused on the tokens: odd white space, foreign literals and
operators, deep nesting, nested joins. Two kinds of token are then renamed, so that sqlglot does not
interpret them. The name of every ordinary function arrives as exp.Anonymous with the arguments as
written. Every `?` arrives as a column with the placeholder's number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from sqlglot import Token, TokenType
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser

from dpsql.dialects.reading.array_tokens import ARRAY_MARKS, array_places, as_calls
from dpsql.dialects.reading.other_dialects import grammar_of, with_known_order
from dpsql.dialects.reading.prefix_operators import PREFIX_MARKS, with_prefixes_called
from dpsql.dialects.reading.token_words import (
    SPACE,
    WORD,
    is_word,
    marks_of,
    names_type,
    span_of,
)
from dpsql.dialects.reading.value_parts import PART_MARKS, as_names, parts_of_values
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span
from dpsql.model.vocabulary import DEFAULT_SPELLING

FUNCTION = "function "
"""Prefix of a renamed function; unquoted identifiers cannot contain its space."""

DURATION = "interval "
"""Prefix of an INTERVAL that became a call, followed by its unit."""

PLACEHOLDER = "placeholder "
"""Prefix of a renamed `?`, followed by its number from 0."""

MAX_TOKENS = 10_000
"""Limit on the words, signs and constants of one text: later steps take time for each."""

_PIECE = re.compile(r"\w+|[^\w\s]")
"""Rough token, counted first: tokenizing 64 KiB takes time of its own."""

_SYMBOLS = frozenset(
    """( ) , . * + - / // % ^ = == <> != < <= > >= => || :: ; ? & | ~ ~* ~~ ~~* ! @ @> <@
    &&""".split()
)
_SYMBOLS_OF = {DEFAULT_SPELLING: frozenset({"**", "^@"}), "postgres": frozenset({"#", "|/", "||/"})}
"""Symbols of one spelling only."""

_BEFORE_PARENTHESIS = frozenset(
    """ALL AND AS ASC BETWEEN BY CASE CAST CUBE DESC DISTINCT ELSE ESCAPE EXCEPT EXCLUDE EXISTS
    EXTRACT FILTER FROM GROUP HAVING ILIKE IN INTERSECT IS JOIN LATERAL LIKE MATERIALIZED NOT NULLS
    ON OR OVER PIVOT POSITION QUALIFY RENAME ROLLUP SELECT SETS SOME SUBSTRING THEN TRIM TRY_CAST
    UNION UNPIVOT USING VALUES WHEN WHERE WITH""".split()
)
"""Words that may stand before a parenthesis without being an ordinary function."""

_REFUSED_WORDS = frozenset(
    {"ANY", "ARRAY", "LATERAL", "PRIOR", "STRAIGHT_JOIN"}
    | {"CONNECT BY", "MATCH_RECOGNIZE", "START WITH"}
)
"""Words with a grammar that is never answered and makes sqlglot slow, recurse or change its
tables.
"""

_KNOWN_PREFIXES = frozenset({"CASE", "MAP"})
"""Words with a grammar of their own in the parser: CASE is ours, MAP needs a bracket."""

_STAR_MODIFIERS = frozenset({"ILIKE", "LIKE"})


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one statement.

    `tokens` go to the parser. `calls` maps the offset of every token before a `(` to the offset
    after the matching `)`. `type_arguments` are the offsets of the numbers in CAST(x AS DECIMAL(10,
    2)). `placeholders` are the places of the `?`.
    """

    tokens: tuple[Token, ...]
    calls: dict[int, int] = field(default_factory=dict)
    type_arguments: frozenset[int] = frozenset()
    placeholders: tuple[Span, ...] = ()


def tokenize(text: str, dialect: str) -> tuple[Token, ...]:
    """Return the text's tokens; raises `Refused` if the text breaks the lexical rules of dpsql."""
    if len(_PIECE.findall(text)) > 3 * MAX_TOKENS:
        raise Refused(Reason.TOO_LARGE, what="tokens", limit=MAX_TOKENS)
    try:
        read = Dialect.get_or_raise(grammar_of(dialect)).tokenize(text)
    except SqlglotError:
        raise Refused(
            Reason.SYNTAX, Span(0, len(text)), why="a quote or a comment is not closed"
        ) from None
    if len(read) > MAX_TOKENS:
        raise Refused(Reason.TOO_LARGE, span_of(read[MAX_TOKENS]), what="tokens", limit=MAX_TOKENS)
    marks, tokens = marks_of(read), tuple(read)
    for mark, change in _WRITTEN_TOGETHER:
        tokens = change(tokens) if mark in marks else tokens
    exempt = _read_apart(tokens) if marks & _APART else frozenset[int]()
    offset = 0
    for place, token in enumerate(tokens):
        _check_gap(text, offset, token.start)
        if place not in exempt:
            _check_token(text, token, dialect)
        offset = token.end + 1
    _check_gap(text, offset, len(text))
    for left, right in pairwise(tokens):
        touching = left.end + 1 == right.start
        values = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
        begins = right.token_type in values or is_word(right)
        split = touching and (left.token_type is TokenType.NUMBER or is_word(left)) and begins
        joined = left.token_type is TokenType.STRING and right.token_type is TokenType.STRING
        # `0x1F` and `x'ab'` would fall apart into two tokens; adjacent strings would be joined.
        if split or joined:
            raise Refused(Reason.SYNTAX, span_of(right), why="a separator is missing here")
    if marks & _APART:
        named = tuple(as_names(tokens, parts_of_values(tokens)))
        tokens = as_calls(named, array_places(named))
    if marks & PREFIX_MARKS:
        tokens = with_prefixes_called(tokens, dialect)
    return with_known_order(tokens, dialect)


def _with_casts(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with `?::` as its two signs."""
    signs: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.QDCOLON:
            place, start = (token.line, token.col), token.start
            signs.append(Token(TokenType.PLACEHOLDER, "?", *place, start, start))
            signs.append(Token(TokenType.DCOLON, "::", *place, start + 1, token.end))
        else:
            signs.append(token)
    return tuple(signs)


def _read_apart(tokens: Sequence[Token]) -> frozenset[int]:
    """Return the places that are checked elsewhere: of lists, of parts of values, of LATERAL."""
    arrays, parts = array_places(tokens), parts_of_values(tokens)
    read_as_part = (n for first, (end, _called) in parts.items() for n in range(first + 1, end))
    laterals = (place for place in range(len(tokens)) if _is_lateral(tokens, place))
    return arrays.lists | arrays.quantifiers | arrays.types | {*read_as_part, *laterals}


def _is_lateral(tokens: Sequence[Token], place: int) -> bool:
    """Test for LATERAL in `JOIN LATERAL (SELECT …)`, or after a comma."""
    before, after = tokens[max(0, place - 1)], tokens[place + 1 : place + 3]
    return (
        tokens[place].token_type is TokenType.LATERAL
        and before.token_type in (TokenType.JOIN, TokenType.COMMA)
        and [token.token_type for token in after] == [TokenType.L_PAREN, TokenType.SELECT]
    )


def _with_fractions(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with `.5` as one number; after a name or a number the point differs."""
    merged: list[Token] = []
    for token in tokens:
        point = merged[-1] if merged else None
        if (
            point is not None
            and point.token_type is TokenType.DOT
            and token.token_type is TokenType.NUMBER
            and point.end + 1 == token.start
            and (len(merged) == 1 or merged[-2].end + 1 < point.start)
        ):
            number = f"0.{token.text}"
            token = Token(token.token_type, number, token.line, token.col, point.start, token.end)  # noqa: PLW2901
            merged.pop()
        merged.append(token)
    return tuple(merged)


_WRITTEN_TOGETHER = ((TokenType.QDCOLON, _with_casts), (TokenType.DOT, _with_fractions))
_APART = ARRAY_MARKS | PART_MARKS | {TokenType.LATERAL}


def skip_gap(text: str, start: int, stop: int) -> int:
    """Return the first offset from `start` outside of ASCII white space and SQL comments."""
    while start < stop:
        if text[start] in SPACE:
            start += 1
        elif text.startswith("--", start):
            end = text.find("\n", start)
            start = stop if end < 0 else end + 1
        elif text.startswith("/*", start):
            start = _after_comment(text, start)
        else:
            break
    return start


def _check_gap(text: str, start: int, stop: int) -> None:
    """Refuse anything but white space and comments, as engines read them, between tokens."""
    start = skip_gap(text, start, stop)
    if start < stop:
        raise Refused(Reason.SYNTAX, Span(start, start + 1), why="this character is not SQL")


def _after_comment(text: str, start: int) -> int:
    """Return the place after the block comment at `start`; nested ones are refused, as engines
    disagree.
    """
    end = text.find("*/", start + 2)
    if end < 0 or text.find("/*", start + 2, end) >= 0:
        raise Refused(Reason.SYNTAX, Span(start, start + 2), why="comments do not nest")
    return end + 2


def _check_token(text: str, token: Token, dialect: str) -> None:
    written = text[token.start : token.end + 1]
    span = span_of(token)
    match token.token_type:
        case TokenType.STRING if written.startswith("'"):
            return
        case TokenType.IDENTIFIER if written.startswith('"') and len(written) > len('""'):
            return
        case TokenType.NUMBER if written[:1].isdigit() or written[:1] == ".":
            return
    if any(not (c.isprintable() or c in SPACE) for c in written):
        raise Refused(Reason.SYNTAX, span, why="this character is not SQL")
    if written == "`":
        name, closed, _rest = text[token.end + 1 :].partition("`")
        fix = f'Names are quoted "{name}".' if closed else "Names stand in double quotes."
        raise Refused(Reason.SYNTAX, span, why="a name stands in backquotes", fix=fix)
    if not (WORD.match(written) or written in _SYMBOLS or written in _SYMBOLS_OF.get(dialect, ())):
        construct = written if len(written) <= len("!~~*") else "this kind of literal"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=construct)
    word = " ".join(written.upper().split())
    if word in _REFUSED_WORDS:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=word)


def prepare(tokens: Sequence[Token], dialect: str) -> Tokens:
    """Rename functions and placeholders, and match parentheses. Raises `Refused`."""
    renamed: list[Token] = []
    parser = Dialect.get_or_raise(grammar_of(dialect)).parser_class
    prefixes = parser.NO_PAREN_FUNCTION_PARSERS.keys() - _KNOWN_PREFIXES
    placeholders: list[Span] = []
    for i, token in enumerate(tokens):
        word = token.text.upper()
        if word in _STAR_MODIFIERS and _is_star(tokens, i - 1):
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=f"* {word}")
        if token.token_type is TokenType.PLACEHOLDER:
            renamed.append(_renamed(token, f"{PLACEHOLDER}{len(placeholders)}"))
            placeholders.append(span_of(token))
        elif token.text.startswith(DURATION) and token.token_type is TokenType.VAR:
            renamed.append(token)
        elif token.token_type in parser.NO_PAREN_FUNCTIONS or _is_function_name(tokens, i):
            renamed.append(_renamed(token, FUNCTION + token.text))
        elif is_word(token) and token.text.upper() in prefixes:
            construct = f"{token.text.upper()} without parentheses"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)
        else:
            renamed.append(token)
    calls, arguments = _parentheses(tokens)
    return Tokens(tuple(renamed), calls, frozenset(arguments), tuple(placeholders))


def _is_function_name(tokens: Sequence[Token], i: int) -> bool:
    """Test whether token `i` is a name before `(`, and neither syntax nor the type of a cast."""
    token = tokens[i]
    if i + 1 == len(tokens) or tokens[i + 1].token_type is not TokenType.L_PAREN:
        return False
    if token.token_type is TokenType.IDENTIFIER:
        return not names_type(tokens, i)
    if not is_word(token):
        return False
    if any(c in SPACE for c in token.text) and token.token_type not in Parser.TYPE_TOKENS:
        return False
    if token.text.upper() == "REPLACE":  # that of `* REPLACE (…)`, maybe behind `* EXCLUDE …`?
        ends = (TokenType.R_PAREN, TokenType.VAR, TokenType.IDENTIFIER)
        if _is_star(tokens, i - 1) or (i > 0 and tokens[i - 1].token_type in ends):
            return False
    return token.text.upper() not in _BEFORE_PARENTHESIS and not names_type(tokens, i)


def _is_star(tokens: Sequence[Token], i: int) -> bool:
    """Test whether token `i` is the `*` that means all columns."""
    before = (TokenType.SELECT, TokenType.COMMA, TokenType.DOT, TokenType.DISTINCT, TokenType.ALL)
    if i < 1 or tokens[i].token_type is not TokenType.STAR:
        return False
    return tokens[i - 1].token_type in before


def _renamed(token: Token, text: str) -> Token:
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end)


def _parentheses(tokens: Sequence[Token]) -> tuple[dict[int, int], set[int]]:
    """Return `Tokens.calls` and `Tokens.type_arguments`; refuses unbalanced parentheses."""
    calls: dict[int, int] = {}
    arguments: set[int] = set()
    opened: list[int] = []
    for i, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(i)
        elif token.token_type is TokenType.R_PAREN:
            if not opened:
                raise Refused(Reason.SYNTAX, span_of(token), why="nothing is open here")
            calls[tokens[max(opened.pop() - 1, 0)].start] = token.end + 1
        elif token.token_type is TokenType.NUMBER and opened and _types(tokens, opened[-1]):
            arguments.add(token.start)
    if opened:
        raise Refused(Reason.SYNTAX, span_of(tokens[opened[-1]]), why="this is never closed")
    return calls, arguments


def _types(tokens: Sequence[Token], i: int) -> bool:
    """Test whether the parenthesis at `i` holds the arguments of a cast's type."""
    return i > 0 and names_type(tokens, i - 1)
