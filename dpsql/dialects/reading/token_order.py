"""Tokens in the order and spelling that the parser reads, with their places in the text.

`FROM t SELECT a` becomes `SELECT a FROM t`. `FROM t` and `TABLE t` become `SELECT * FROM t`, and `a
!~ b` becomes `a NOT ~ b`. Operators that bind closer than LIKE, and are read as LIKE, stand before
a constant alone. Elements of ROLLUP, CUBE and GROUPING SETS get parentheses, in which the parser
accepts conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.reading.token_words import as_token, is_word, span_of
from dpsql.model.errors import Reason, Refused

_SETS = frozenset({TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT})
_CLAUSES = _SETS | {
    *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.WINDOW),
    *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.SEMICOLON),
}
"""Tokens that end FROM and the SELECT list."""

PATTERNS = frozenset({"~~", "~~*", "^@"})
"""Operators for LIKE, ILIKE and STARTS_WITH, which the parser reads as LIKE, after `||`."""
_OPPOSED = PATTERNS - {"^@"} | {"~", "~*"}
_GROUPINGS = frozenset({TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS})
_ENDS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


def select_first(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with every query in the order SELECT … FROM …, if some begins with FROM."""
    begin = [
        token.token_type is TokenType.FROM and _may_begin(tokens, i)
        for i, token in enumerate(tokens)
    ]
    return tuple(_ordered(tokens, begin, 0, len(tokens)) if any(begin) else tokens)


def with_known_spelling(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with FROM for the TABLE that begins a query, and NOT for `!`."""
    spelled: list[Token] = []
    for i, (token, after) in enumerate(zip(tokens, (*tokens[1:], None), strict=True)):
        if _begins_table(tokens, i):
            spelled.append(as_token(token, TokenType.FROM, "FROM"))
        elif token.text in PATTERNS and not _is_before_constant(tokens, i):
            fix = "Write LIKE, ILIKE or STARTS_WITH."
            construct = f"{token.text} before anything but a constant"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=construct, fix=fix)
        elif token.text == "!" and after is not None and after.text in _OPPOSED:
            spelled.append(as_token(token, TokenType.NOT, "NOT"))
        else:
            spelled.append(token)
    return tuple(spelled)


def _is_before_constant(tokens: Sequence[Token], i: int) -> bool:
    """Test whether a text constant alone follows token `i`, which no operator takes up."""
    value, *rest = tokens[i + 1 : i + 3] or (tokens[i],)
    ends = all(t.text in ("", ")", ",", ";") or is_word(t) for t in rest)
    names = {"ESCAPE", "COLLATE"}.isdisjoint(token.text.upper() for token in rest)
    return value.token_type is TokenType.STRING and ends and names


def _begins_table(tokens: Sequence[Token], i: int) -> bool:
    """Test whether token `i` is the TABLE of `TABLE t`, which is a query."""
    return (
        tokens[i].token_type is TokenType.TABLE
        and i + 1 < len(tokens)
        and (tokens[i + 1].token_type is TokenType.IDENTIFIER or is_word(tokens[i + 1]))
        and _may_begin(tokens, i)
    )


def _may_begin(tokens: Sequence[Token], i: int) -> bool:
    """Test whether a query may begin at token `i`: at the start, after `(`, UNION and the like, or
    WITH.
    """
    before = tokens[i - 1] if i else None
    if before is None or _ends_with_set_operation(tokens, i):
        return True
    if before.token_type is TokenType.L_PAREN:
        return i == 1 or tokens[i - 2].text.upper() not in ("EXTRACT", "TRIM", "SUBSTRING")
    return before.token_type is TokenType.R_PAREN and _ends_with_list(tokens, i - 1)


def _ends_with_set_operation(tokens: Sequence[Token], i: int) -> bool:
    """Test whether UNION, UNION ALL, UNION ALL BY NAME or the like ends before token `i`."""
    if [token.text.upper() for token in tokens[max(0, i - 2) : i]] == ["BY", "NAME"]:
        i -= 2
    if i and tokens[i - 1].text.upper() in ("ALL", "DISTINCT"):
        i -= 1
    return i > 0 and tokens[i - 1].token_type in _SETS


def _ends_with_list(tokens: Sequence[Token], i: int) -> bool:
    """Test whether the parenthesis that closes at `i` encloses a query of WITH, after AS."""
    depth = 0
    for place in range(i, -1, -1):
        depth -= _ENDS.get(tokens[place].token_type, 0)
        if depth == 0:
            words = [token.text.upper() for token in tokens[max(0, place - 3) : place]]
            while words and words[-1] in ("MATERIALIZED", "NOT"):
                words.pop()
            return words[-1:] == ["AS"]
    return False


def _ordered(
    tokens: Sequence[Token], begin: Sequence[bool], start: int, stop: int
) -> Iterator[Token]:
    i = start
    while i < stop:
        if not begin[i]:
            yield tokens[i]
            i += 1
            continue
        select = _end(tokens, i + 1, stop, _CLAUSES | {TokenType.SELECT})
        end = select
        if select < stop and tokens[select].token_type is TokenType.SELECT:
            end = _end(tokens, select + 1, stop, _CLAUSES)
            yield from _ordered(tokens, begin, select, end)
        else:
            yield as_token(tokens[i], TokenType.SELECT, "SELECT")
            yield as_token(tokens[i], TokenType.STAR, "*")
        yield tokens[i]
        yield from _ordered(tokens, begin, i + 1, select)
        i = end


def _end(tokens: Sequence[Token], start: int, stop: int, ends: frozenset[TokenType]) -> int:
    """Return the first place from `start` with a token of `ends` outside of parentheses, or the
    end.
    """
    depth = 0
    for place in range(start, stop):
        depth += _ENDS.get(tokens[place].token_type, 0)
        if depth < 0 or (depth == 0 and tokens[place].token_type in ends):
            return place
    return stop


def grouped_apart(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens with the elements of groupings in parentheses, if they are not already."""
    opened: dict[int, Token] = {}
    closed: dict[int, Token] = {}
    for i, token in enumerate(tokens[:-1]):
        if token.token_type in _GROUPINGS and tokens[i + 1].token_type is TokenType.L_PAREN:
            for start, stop in _elements(tokens, i + 2):
                if _is_condition(tokens, start, stop):
                    opened[start], closed[stop - 1] = tokens[start], tokens[stop - 1]
    written: list[Token] = []
    for i, token in enumerate(tokens):
        written += [as_token(token, TokenType.L_PAREN, "(")] if i in opened else []
        written.append(token)
        written += [as_token(token, TokenType.R_PAREN, ")")] if i in closed else []
    return tuple(written)


def _elements(tokens: Sequence[Token], start: int) -> Iterator[tuple[int, int]]:
    """Yield the first place of each element of a list in parentheses, and the place after it."""
    ends = frozenset({TokenType.COMMA})
    while start < len(tokens):
        stop = _end(tokens, start, len(tokens), ends)
        if stop > start:
            yield start, stop
        if stop == len(tokens) or tokens[stop].token_type is TokenType.R_PAREN:
            return
        start = stop + 1


def _is_condition(tokens: Sequence[Token], start: int, stop: int) -> bool:
    """Test whether an element of a grouping needs parentheses: it is no single token, not yet in
    parentheses as a whole, and no grouping.
    """
    first = tokens[start].token_type
    if first in _GROUPINGS or stop == start + 1:
        return False
    whole = first is TokenType.L_PAREN and _end(tokens, start + 1, stop, frozenset()) == stop - 1
    return not whole
