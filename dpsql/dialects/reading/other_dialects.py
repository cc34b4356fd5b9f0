"""Texts in T-SQL's or MySQL's spelling: their quotes, and where they put counts of rows.

The reader knows DuckDB's grammar. So quotes are replaced by DuckDB's, one character for one, and
tokens are put where DuckDB has them. Every place stays that of the text. What these dialects mean
by a function or an operator is in `other_meanings`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import Token, TokenType

from dpsql.dialects.reading.token_words import as_token, is_word, span_of
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span
from dpsql.model.vocabulary import DEFAULT_SPELLING

OTHERS = frozenset({"tsql", "mysql"})
"""Dialects that are read through DuckDB's grammar."""

_PIECES = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*(?:'|\Z)|"[^"]*(?:"|\Z)|`[^`]*(?:`|\Z)"""
    r"""|\[[^\[\]]*\]|\#[^\n]*|[Nn](?=')""",
    re.DOTALL,
)
"""Comments, texts and names in quotes."""

_SETS = frozenset({TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT})
_ENDS = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_UNKNOWN = frozenset("// ** ^ :: => || ~ ~* @> <@ &&".split())
"""Operators of DuckDB that mean something else in these dialects, or nothing."""


def grammar_of(dialect: str) -> str:
    """Return the dialect of sqlglot that reads texts of `dialect`.

    >>> grammar_of("mysql"), grammar_of("postgres")
    ('duckdb', 'postgres')
    """
    return DEFAULT_SPELLING if dialect in OTHERS else dialect


def with_known_quotes(text: str, dialect: str) -> str:
    r"""Return a text of the same length with DuckDB's quotes; raises `Refused` where it has none.

    >>> with_known_quotes('SELECT "a" FROM `t`', "mysql")
    'SELECT \'a\' FROM "t"'
    """
    return _PIECES.sub(lambda piece: _requote(piece, dialect), text) if dialect in OTHERS else text


def _requote(piece: re.Match[str], dialect: str) -> str:
    written, place = piece.group(), Span(piece.start(), piece.end())
    if written.startswith("--"):
        if dialect == "mysql" and written[2:3].strip():
            raise _refusal(place, "-- without a space after it")
        return written
    if written[0] in '"`' and (len(written) == 1 or written[-1] != written[0]):
        raise Refused(Reason.SYNTAX, place, why="a quote or a comment is not closed")
    match written[0], dialect:
        case "/", _:
            if written.startswith(("/*!", "/*+")):
                raise _refusal(place, "a hint in a comment")
            return written
        case "'", _:
            return _text(written, place, dialect)
        case '"', "mysql":
            if "'" in written:
                raise _refusal(place, "a ' between double quotes", "Write '' in single quotes.")
            return _text(f"'{written[1:-1]}'", place, dialect)
        case '"', _:
            return written
        case "`", "mysql":
            return _name(written, place)
        case "[", "tsql":
            return _name(written, place)
        case (("N" | "n"), "tsql"):
            return " "
        case _:
            return written


def _text(written: str, place: Span, dialect: str) -> str:
    """Return a text between single quotes; in MySQL a backslash begins a special character."""
    if dialect == "mysql" and "\\" in written:
        raise _refusal(place, r"a \ in a text")
    return written


def _name(written: str, place: Span) -> str:
    if len(written) < len("[a]") or '"' in written:
        raise _refusal(place, "this name in quotes")
    return f'"{written[1:-1]}"'


def _refusal(place: Span, construct: str, fix: str | None = None) -> Refused:
    facts = {} if fix is None else {"fix": fix}
    return Refused(Reason.UNSUPPORTED_SYNTAX, place, construct=construct, **facts)


def with_known_order(tokens: Sequence[Token], dialect: str) -> tuple[Token, ...]:
    """Return the tokens with LIMIT for TOP, CAST for CONVERT, and OFFSET for LIMIT a, b."""
    if dialect not in OTHERS:
        return tuple(tokens)
    for token, following in zip(tokens, (*tokens[1:], None), strict=True):
        if token.text in _UNKNOWN and token.token_type not in (
            TokenType.STRING,
            TokenType.IDENTIFIER,
        ):
            raise _refusal(span_of(token), token.text)
        after = "" if following is None else following.text.upper()
        if is_word(token) and token.text.upper() == "NULLS" and after in ("FIRST", "LAST"):
            raise _refusal(span_of(token), f"NULLS {after}")
    if dialect == "mysql":
        return _with_offsets(_with_sizes(_with_digits(tokens, "10"), None))
    return _with_limits(_with_sizes(_with_digits(_with_casts(tokens), "18"), _SIZE))


def _with_offsets(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return MySQL's LIMIT offset, count as LIMIT count OFFSET offset."""
    order = list(tokens)
    for i in range(len(order) - 3):
        limit, offset, comma, count = order[i : i + 4]
        if limit.token_type is TokenType.LIMIT and comma.token_type is TokenType.COMMA:
            order[i : i + 4] = limit, count, as_token(comma, TokenType.OFFSET, "OFFSET"), offset
    return tuple(order)


def _with_casts(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return T-SQL's CONVERT(type, x) as CAST(x AS type). Raises `Refused` for a style."""
    order = list(tokens)
    for i in reversed(range(len(order) - 1)):
        if not _says(order[i], "CONVERT") or order[i + 1].token_type is not TokenType.L_PAREN:
            continue
        commas, end = _arguments(order, i + 1)
        if len(commas) != 1:
            raise _refusal(span_of(order[i]), "CONVERT with a style")
        kind, value = order[i + 2 : commas[0]], order[commas[0] + 1 : end]
        cast = as_token(order[i], TokenType.VAR, "CAST")
        between = as_token(order[commas[0]], TokenType.ALIAS, "AS")
        order[i:end] = [cast, order[i + 1], *value, between, *kind]
    return tuple(order)


_TEXTS = frozenset({"CHAR", "NCHAR", "VARCHAR", "NVARCHAR"})
_SIZE = "30"
"""Size of a text in T-SQL's casts that say none."""


def _with_sizes(tokens: Sequence[Token], size: str | None) -> tuple[Token, ...]:
    """Return CAST(x AS VARCHAR(n)) as LEFT(CAST(x AS VARCHAR), n); DuckDB ignores the size."""
    order = list(tokens)
    for i in reversed(range(len(order) - 1)):
        written = _says(order[i], "CAST") or _says(order[i], "TRY_CAST")
        if not written or order[i + 1].token_type is not TokenType.L_PAREN:
            continue
        end = _arguments(order, i + 1)[1]
        begin = max(n for n in range(i + 1, end) if n == i + 1 or _says(order[n], "AS"))
        kind = order[begin + 1 : end]
        if not (kind and any(_says(kind[0], name) for name in _TEXTS)):
            continue
        said = kind[2].text.upper() if len(kind) == len("V(n)") else size or "MAX"
        text = as_token(kind[0], TokenType.VARCHAR, "VARCHAR")
        if said == "MAX":
            order[begin + 1 : end] = [text]
            continue
        if not said.isdigit():
            raise _refusal(span_of(kind[0]), "this size of a text")
        opening, closing = order[i + 1], order[end]
        number = as_token(kind[min(2, len(kind) - 1)], TokenType.NUMBER, said)
        comma = as_token(closing, TokenType.COMMA, ",")
        cast = [*order[i : begin + 1], text, closing]
        left = as_token(order[i], TokenType.VAR, "LEFT")
        order[i : end + 1] = [left, opening, *cast, comma, number, closing]
    return tuple(order)


def _with_digits(tokens: Sequence[Token], digits: str) -> tuple[Token, ...]:
    """Return AS DECIMAL) as AS DECIMAL(digits, 0)): DuckDB gives three places after the point."""
    order = list(tokens)
    for i in reversed(range(1, len(order) - 1)):
        named = any(_says(order[i], name) for name in ("DECIMAL", "NUMERIC", "DEC"))
        closing = order[i + 1]
        if named and _says(order[i - 1], "AS") and closing.token_type is TokenType.R_PAREN:
            written = (
                (TokenType.L_PAREN, "("),
                (TokenType.NUMBER, digits),
                (TokenType.COMMA, ","),
                (TokenType.NUMBER, "0"),
                (TokenType.R_PAREN, ")"),
            )
            order[i + 1 : i + 1] = [as_token(closing, kind, text) for kind, text in written]
    return tuple(order)


def _arguments(tokens: Sequence[Token], opening: int) -> tuple[list[int], int]:
    """Return the places of the commas between a call's arguments, and of its end."""
    depth, commas = 0, list[int]()
    for place in range(opening, len(tokens)):
        depth += _ENDS.get(tokens[place].token_type, 0)
        if depth == 0:
            return commas, place
        if depth == 1 and tokens[place].token_type is TokenType.COMMA:
            commas.append(place)
    raise Refused(Reason.SYNTAX, span_of(tokens[opening]), why="this is never closed")


def _with_limits(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return T-SQL's SELECT TOP (n) as a SELECT that ends with LIMIT n."""
    order, start = list(tokens), len(tokens)
    while (start := start - 1) >= 0:
        if order[start].token_type is not TokenType.SELECT:
            continue
        at = start + 1
        while at < len(order) and order[at].text.upper() in ("DISTINCT", "ALL"):
            at += 1
        end = _end_of_count(order, at)
        if end is None:
            continue
        after = order[end].text.upper() if end < len(order) else ""
        if after in ("PERCENT", "WITH"):
            raise _refusal(span_of(order[at]), f"TOP … {after}")
        stop = _end_of_select(order, start, end)
        limit = as_token(order[at], TokenType.LIMIT, "LIMIT")
        order[at:stop] = [*order[end:stop], limit, *order[at + 1 : end]]
    return tuple(order)


def _end_of_count(tokens: Sequence[Token], at: int) -> int | None:
    """Return the place after TOP (n) or TOP n, which begins at a place; None for other words."""
    if at + 1 >= len(tokens) or not _says(tokens[at], "TOP"):
        return None
    kind = tokens[at + 1].token_type
    if kind is TokenType.L_PAREN:
        return _arguments(tokens, at + 1)[1] + 1
    return at + 2 if kind in (TokenType.NUMBER, TokenType.PLACEHOLDER) else None


def _end_of_select(tokens: Sequence[Token], start: int, at: int) -> int:
    """Return the place after a SELECT. Raises `Refused` where TOP counts one side of UNION."""
    before = tokens[start - 1].token_type if start else None
    behind_all = start > 1 and _says(tokens[start - 1], "ALL")
    joined = before in _SETS or (behind_all and tokens[start - 2].token_type in _SETS)
    depth, stop = 0, at
    while stop < len(tokens):
        depth += _ENDS.get(tokens[stop].token_type, 0)
        if depth < 0:
            break
        joined |= depth == 0 and tokens[stop].token_type in _SETS
        stop += 1
    if joined:
        raise _refusal(span_of(tokens[start]), "TOP beside UNION, INTERSECT or EXCEPT")
    return stop


def _says(token: Token, word: str) -> bool:
    return token.token_type is not TokenType.STRING and (
        token.token_type is not TokenType.IDENTIFIER and token.text.upper() == word
    )
