"""Text → tokens, checked: what may reach sqlglot's parser at all.

sqlglot is not a validator and its compiled parser has no stack guard, so everything that could
make it wrong, slow or crash is refused on the tokens: odd white space, foreign literals and
operators, deep nesting, nested joins. Two kinds of token are then renamed, which keeps sqlglot
from interpreting them: the name of every ordinary function (it arrives as exp.Anonymous with the
arguments as written), and every `?` (it arrives as a column with the placeholder's number).

sqlglot recurses about 25 Python frames per parenthesis; its compiled build ends the process when
the C stack ends; joins without ON and types within types take exponential time: so nesting is
bounded here, as is all work that nobody pays for (SECURITY.md S20). Lists of numbers in brackets
become calls of a name; every other bracket is refused, so that no grammar of sqlglot's for them is
ever reached.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import Token, TokenType
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span

MAX_NESTING = 25
"""Most parentheses, CASEs, NOTs and signs open at one place: 25 × 25 frames fit in 1000."""

MAX_JOINS = 50
"""Most joins and commas in one FROM: our own tree of joins grows to the left."""

_SIGNS = frozenset({TokenType.DASH, TokenType.PLUS})
_CLOSED_BY = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.CASE: TokenType.END}
_AFTER_NOT = frozenset({TokenType.COMMA, TokenType.AND, TokenType.OR, TokenType.ALIAS})
_ENDING_NOT = frozenset("ELSE FROM HAVING ON QUALIFY SELECT THEN WHEN WHERE".split())


@dataclass(slots=True)
class _Level:
    """One parenthesis or CASE: what ends it, and the prefixes whose operand is still open in it."""

    closing: TokenType | None = None
    nots: int = 0
    signs: int = 0
    betweens: int = 0

    @property
    def depth(self) -> int:
        return (self.closing is not None) + self.nots + self.signs

    def read(self, before: Token | None, token: Token) -> None:
        """Counts a token of this level: a sign is open until its operand, a NOT until its end."""
        kind = token.token_type
        self.signs = self.signs + (not _ends_operand(before)) if kind in _SIGNS else 0
        if kind is TokenType.AND and self.betweens:
            self.betweens -= 1
        elif _ends_not(token):
            self.nots = self.betweens = 0
        else:
            self.nots += kind is TokenType.NOT
            self.betweens += kind is TokenType.BETWEEN


def check_nesting(tokens: Sequence[Token]) -> None:
    """Raises `Refused` (TOO_LARGE) where more than `MAX_NESTING` constructs are open."""
    levels = [_Level()]
    for before, token in zip((None, *tokens), tokens, strict=False):
        kind = token.token_type
        if kind in _CLOSED_BY:
            levels.append(_Level(_CLOSED_BY[kind]))
        elif kind in _CLOSED_BY.values():
            _close(levels, kind)
        else:
            levels[-1].read(before, token)
        if sum(level.depth for level in levels) > MAX_NESTING:
            what = "nesting levels"
            raise Refused(Reason.TOO_LARGE, span_of(token), what=what, limit=MAX_NESTING)


def _close(levels: list[_Level], closing: TokenType) -> None:
    """Leaves what `closing` ends: END only the CASE opened last, `)` also CASEs left open in it.

    END is no keyword to every parser, so it must not seem to end a parenthesis.
    """
    if closing is TokenType.R_PAREN:
        while levels[-1].closing is TokenType.END:
            levels.pop()
    if levels[-1].closing is closing:
        levels.pop()
    levels[-1].signs = 0


def _ends_not(token: Token) -> bool:
    return token.token_type in _AFTER_NOT or (is_word(token) and token.text.upper() in _ENDING_NOT)


_CLAUSES = frozenset(
    """ALL AND AS BETWEEN BY CASE DISTINCT ELSE FROM HAVING ILIKE IN IS JOIN LIKE NOT ON OR QUALIFY
    SELECT THEN USING WHEN WHERE""".split()
)
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
_OPERANDS = frozenset(
    {TokenType.R_PAREN, TokenType.STRING, TokenType.IDENTIFIER, TokenType.STAR, *_NUMBERS}
)


def with_bare_counts(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens with LIMIT (n), OFFSET (n) and FETCH FIRST (n) as LIMIT n and so on."""
    bare: list[Token] = []
    for token in tokens:
        bare.append(token)
        if _is_count(bare[-3:]) and _takes_count(bare[-5:-3]):
            bare[-3:] = [bare[-2]]
    return tuple(bare)


def _is_count(tokens: Sequence[Token]) -> bool:
    """Whether these tokens are a number or a placeholder in parentheses."""
    kinds = [token.token_type for token in tokens]
    parentheses = kinds[:1] + kinds[2:] == [TokenType.L_PAREN, TokenType.R_PAREN]
    return parentheses and kinds[1] in _NUMBERS


def _takes_count(before: Sequence[Token]) -> bool:
    """Whether these two tokens end with LIMIT or OFFSET, or are FETCH FIRST or FETCH NEXT."""
    words = [token.text.upper() for token in before]
    return words[-1:] in (["LIMIT"], ["OFFSET"]) or words in (["FETCH", "FIRST"], ["FETCH", "NEXT"])


def check_clauses(tokens: Sequence[Token]) -> None:
    """Raises `Refused` where a clause cannot stand after or before its neighbours.

    sqlglot tries such words as names and as types too: again at every level, or without end.
    """
    for i, (token, after) in enumerate(zip(tokens, (*tokens[1:], None), strict=True)):
        before = tokens[i - 1] if i else None
        match token.token_type:
            case TokenType.LIMIT | TokenType.OFFSET:
                if after is None or after.token_type not in _COUNTS[token.token_type]:
                    construct = "LIMIT or OFFSET by an expression"
                    raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)
            case TokenType.FROM:
                _check_from(before, token)
            case TokenType.SELECT:
                if not _begins_query(tokens[max(0, i - 2) : i]):
                    raise Refused(Reason.SYNTAX, span_of(token), why="no SELECT can begin here")
            case TokenType.UNION | TokenType.INTERSECT | TokenType.EXCEPT:
                _check_set_operation(before, token, after)
            case kind if kind in Parser.NESTED_TYPE_TOKENS:
                if after is not None and after.token_type is TokenType.LT:
                    construct = f"{token.text.upper()} <"
                    raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)
            case _:
                pass


def _begins_query(before: Sequence[Token]) -> bool:
    """Whether a SELECT may stand behind these tokens, the last two before it."""
    by_name = [token.text.upper() for token in before] == ["BY", "NAME"]
    return not before or by_name or before[-1].token_type in _BEFORE_SELECT


def _check_set_operation(before: Token | None, token: Token, after: Token | None) -> None:
    if not _ends_operand(before):
        raise Refused(Reason.SYNTAX, span_of(token), why="there is no query on its left")
    by_name = after is not None and after.text.upper() == "BY"
    if after is None or not (by_name or after.token_type in _AFTER_SET_OPERATION):
        construct = f"this {token.text.upper()}"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)


def _check_from(before: Token | None, token: Token) -> None:
    if before is not None and before.token_type is TokenType.SELECT:
        raise Refused(Reason.SYNTAX, span_of(token), why="nothing is selected")
    if not _ends_operand(before) and not (before and before.token_type is TokenType.DISTINCT):
        construct = "FROM without SELECT"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct)


def _ends_operand(token: Token | None) -> bool:
    """Whether an expression, and so a query, may end with this token."""
    if token is None:
        return False
    return token.token_type in _OPERANDS or (is_word(token) and token.text.upper() not in _CLAUSES)


def check_joins(tokens: Sequence[Token]) -> None:
    """Raises `Refused` unless each JOIN meets its ON or USING before the next JOIN.

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


NUMBERS = "list of numbers"
"""The name of the call; no unquoted identifier can contain its spaces."""

_OPENING = (TokenType.L_PAREN, TokenType.COMMA)


def number_lists(tokens: Sequence[Token]) -> frozenset[int]:
    """The places of the ARRAY, `[` and `]` around the numbers of lists that are arguments."""
    brackets: set[int] = set()
    for place, token in enumerate(tokens):
        if token.token_type is not TokenType.L_BRACKET:
            continue
        worded = place > 0 and tokens[place - 1].text.upper() == "ARRAY"
        first = place - worded
        end = _end(tokens, place)
        if end and first > 0 and tokens[first - 1].token_type in _OPENING:
            brackets |= {first, place, end}
    return frozenset(brackets)


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


FUNCTION = "function "
"""Prefix of a renamed function name; no unquoted identifier can contain its space."""

DURATION = "interval "
"""Prefix of the name of an INTERVAL that became a call, followed by its unit."""

PLACEHOLDER = "placeholder "
"""Prefix of a renamed `?`, followed by its number from 0."""

MAX_TOKENS = 10_000
"""Most words, signs and constants of one text: what follows takes time for each."""

_PIECE = re.compile(r"\w+|[^\w\s]")
"""Roughly a token: counted first, because to tokenize 64 KiB takes time of its own."""

_SPACE = " \t\r\n\f\v"
_WORD = re.compile(r"[^\W\d][\w$]*(?:[ \t\r\n\f\v]+[^\W\d]\w*)*\Z")
_SYMBOLS = frozenset("( ) , . * + - / // % = == <> != < <= > >= => || :: ; ?".split())

_BEFORE_PARENTHESIS = frozenset(
    """ALL AND AS ASC BETWEEN BY CASE CAST CUBE DESC DISTINCT ELSE ESCAPE EXCEPT EXCLUDE EXISTS
    EXTRACT FILTER FROM GROUP HAVING ILIKE IN INTERSECT IS JOIN LIKE MATERIALIZED NOT ON OR OVER
    POSITION QUALIFY RENAME ROLLUP SELECT SETS SOME SUBSTRING THEN TRIM TRY_CAST UNION USING VALUES
    WHEN WHERE WITH""".split()
)
"""Words that may stand before a parenthesis without being an ordinary function."""

_REFUSED_WORDS = frozenset(
    {"ANY", "ARRAY", "LATERAL", "PRIOR", "STRAIGHT_JOIN"}
    | {"CONNECT BY", "MATCH_RECOGNIZE", "START WITH"}
)
"""Words whose grammar is never answered and makes sqlglot slow, recurse or change its tables."""

_KNOWN_PREFIXES = frozenset({"CASE", "MAP"})
"""Words to which the parser gives a grammar of their own: CASE is ours, MAP needs a bracket."""

_STAR_MODIFIERS = frozenset({"ILIKE", "LIKE"})


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one statement.

    `tokens` go to the parser; `calls` maps the offset of every token before a `(` to the offset
    behind the matching `)`;
    `type_arguments` are the offsets of the numbers in CAST(x AS DECIMAL(10, 2)); `placeholders`
    are the places of the `?`.
    """

    tokens: tuple[Token, ...]
    calls: dict[int, int] = field(default_factory=dict)
    type_arguments: frozenset[int] = frozenset()
    placeholders: tuple[Span, ...] = ()


def span_of(token: Token) -> Span:
    """The token's characters; sqlglot's `end` is inclusive."""
    return Span(token.start, token.end + 1)


def is_word(token: Token) -> bool:
    """Whether the token is written as a bare word: a keyword or an unquoted name."""
    return token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) and (
        _WORD.match(token.text) is not None
    )


def tokenize(text: str, dialect: str) -> tuple[Token, ...]:
    """The text's tokens; raises `Refused` for what the lexical rules of dpsql do not allow."""
    if len(_PIECE.findall(text)) > 3 * MAX_TOKENS:
        raise Refused(Reason.TOO_LARGE, what="tokens", limit=MAX_TOKENS)
    try:
        read = Dialect.get_or_raise(dialect).tokenize(text)
    except SqlglotError:
        raise Refused(
            Reason.SYNTAX, Span(0, len(text)), why="a quote or a comment is not closed"
        ) from None
    if len(read) > MAX_TOKENS:
        raise Refused(Reason.TOO_LARGE, span_of(read[MAX_TOKENS]), what="tokens", limit=MAX_TOKENS)
    tokens = _with_fractions(read)
    offset, lists = 0, number_lists(tokens)
    for place, token in enumerate(tokens):
        _check_gap(text, offset, token.start)
        if place not in lists:
            _check_token(text, token)
        offset = token.end + 1
    _check_gap(text, offset, len(text))
    for left, right in pairwise(tokens):
        _check_neighbours(left, right)
    return as_calls(tokens, lists)


def _with_fractions(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The tokens with `.5` as one number; after a name or a number the point is another thing."""
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


def skip_gap(text: str, start: int, stop: int) -> int:
    """The first offset from `start` that is neither ASCII white space nor in an SQL comment."""
    while start < stop:
        if text[start] in _SPACE:
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
    """Between tokens stand white space and comments as the engines read them, nothing else."""
    start = skip_gap(text, start, stop)
    if start < stop:
        raise Refused(Reason.SYNTAX, Span(start, start + 1), why="this character is not SQL")


def _after_comment(text: str, start: int) -> int:
    """Behind the block comment at `start`; comments inside are refused, as engines disagree."""
    end = text.find("*/", start + 2)
    if end < 0 or text.find("/*", start + 2, end) >= 0:
        raise Refused(Reason.SYNTAX, Span(start, start + 2), why="comments do not nest")
    return end + 2


def _check_token(text: str, token: Token) -> None:
    written = text[token.start : token.end + 1]
    span = span_of(token)
    match token.token_type:
        case TokenType.STRING if written.startswith("'"):
            return
        case TokenType.IDENTIFIER if written.startswith('"') and len(written) > len('""'):
            return
        case TokenType.NUMBER if written[:1].isdigit() or written[:1] == ".":
            return
    if any(not (c.isprintable() or c in _SPACE) for c in written):
        raise Refused(Reason.SYNTAX, span, why="this character is not SQL")
    if not (_WORD.match(written) or written in _SYMBOLS):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=_shown(written))
    word = " ".join(written.upper().split())
    if word in _REFUSED_WORDS:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=word)


def _shown(written: str) -> str:
    return written if len(written) <= len("!~~*") else "this kind of literal"


def _check_neighbours(left: Token, right: Token) -> None:
    """`0x1F` and `x'ab'` must not fall apart into two tokens; strings do not concatenate."""
    touching = left.end + 1 == right.start
    split = touching and (left.token_type is TokenType.NUMBER or is_word(left)) and _is_value(right)
    joined = left.token_type is TokenType.STRING and right.token_type is TokenType.STRING
    if split or joined:
        raise Refused(Reason.SYNTAX, span_of(right), why="a separator is missing here")


def _is_value(token: Token) -> bool:
    values = (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
    return token.token_type in values or is_word(token)


def prepare(tokens: Sequence[Token], dialect: str) -> Tokens:
    """Renames functions and placeholders, and pairs parentheses. Raises `Refused`."""
    renamed: list[Token] = []
    parser = Dialect.get_or_raise(dialect).parser_class
    prefixes = parser.NO_PAREN_FUNCTION_PARSERS.keys() - _KNOWN_PREFIXES
    placeholders: list[Span] = []
    for i, token in enumerate(tokens):
        _check_star(tokens, i)
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
    """Whether token `i` is a name before `(`, and neither syntax nor the type of a cast."""
    token = tokens[i]
    if i + 1 == len(tokens) or tokens[i + 1].token_type is not TokenType.L_PAREN:
        return False
    if token.token_type is TokenType.IDENTIFIER:
        return not names_type(tokens, i)
    if not is_word(token):
        return False
    if any(c in _SPACE for c in token.text) and token.token_type not in Parser.TYPE_TOKENS:
        return False
    if token.text.upper() == "REPLACE" and _modifies_star(tokens, i):
        return False
    return token.text.upper() not in _BEFORE_PARENTHESIS and not names_type(tokens, i)


def _modifies_star(tokens: Sequence[Token], i: int) -> bool:
    """Whether the REPLACE at `i` is that of `* REPLACE (…)`, maybe behind `* EXCLUDE …`."""
    ends = (TokenType.R_PAREN, TokenType.VAR, TokenType.IDENTIFIER)
    return _is_star(tokens, i - 1) or (i > 0 and tokens[i - 1].token_type in ends)


def _is_star(tokens: Sequence[Token], i: int) -> bool:
    """Whether token `i` is the `*` that means all columns."""
    before = (TokenType.SELECT, TokenType.COMMA, TokenType.DOT, TokenType.DISTINCT, TokenType.ALL)
    if i < 1 or tokens[i].token_type is not TokenType.STAR:
        return False
    return tokens[i - 1].token_type in before


def _check_star(tokens: Sequence[Token], i: int) -> None:
    """Refuses `* LIKE …` after the `*` that means all columns."""
    word = tokens[i].text.upper()
    if word in _STAR_MODIFIERS and _is_star(tokens, i - 1):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(tokens[i]), construct=f"* {word}")


def names_type(tokens: Sequence[Token], i: int) -> bool:
    """Whether token `i` is the type of a cast: it stands behind AS or `::`."""
    return i > 0 and tokens[i - 1].token_type in (TokenType.ALIAS, TokenType.DCOLON)


def _renamed(token: Token, text: str) -> Token:
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end)


def _parentheses(tokens: Sequence[Token]) -> tuple[dict[int, int], set[int]]:
    """`Tokens.calls` and `Tokens.type_arguments`; refuses unbalanced parentheses."""
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
    """Whether the parenthesis at `i` holds the arguments of a cast's type."""
    return i > 0 and names_type(tokens, i - 1)
