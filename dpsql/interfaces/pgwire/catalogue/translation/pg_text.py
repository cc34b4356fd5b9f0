"""Parser: text → sqlglot's tree, with the original name of every function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from dpsql.dialects.reading.token_checks import check_nesting
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import refused
from dpsql.model.errors import Reason, Refused

FUNCTION = "function "
"""Prefix of a renamed function. Unquoted identifiers cannot contain its space."""

MAX_TEXT, MAX_TOKENS, MAX_DEPTH = 60_000, 10_000, 60
"""Limits on texts: five times the longest queries of known tools.

`MAX_DEPTH` limits nesting at one place, and repeated words too: ANY ANY ANY is nested.
"""

_SYNTAX = frozenset(
    """ALL AND ANY ARRAY AS BETWEEN BY CASE CAST DISTINCT ELSE EXCEPT EXISTS EXTRACT FILTER FROM
    HAVING ILIKE IN INTERSECT IS JOIN LATERAL LIKE MATERIALIZED NOT ON ONLY OPERATOR OR OVER
    POSITION SELECT SOME SUBSTRING THEN TRIM UNION USING VALUES WHEN WHERE WITH INTERVAL TABLESAMPLE
    ROW LIMIT OFFSET WITHIN""".split()
)
"""Words that may stand before a parenthesis and are not functions."""

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)
_NAMED_TYPES = frozenset("oid name regclass regtype regproc regnamespace regrole xid cid".split())
"""Types with arrays that sqlglot cannot read. PostgreSQL also writes them with an underscore."""

_OPERATOR = ["OPERATOR", "(", "PG_CATALOG", "."]
"""Words before an operator named with its schema, up to the next parenthesis."""


def read(text: str) -> exp.Expression:
    """Parse the only statement in `text`. Raises `Refused`."""
    tokens = _tokens(text)
    try:
        parser = Dialect.get_or_raise("postgres").parser(error_level=ErrorLevel.IMMEDIATE)
        roots = parser.parse(list(_renamed(tokens)), text)
    except RecursionError:
        raise Refused(Reason.TOO_LARGE, what="nesting levels") from None
    except Exception:  # noqa: BLE001 - on odd input it also raises KeyError, TypeError and others
        raise Refused(Reason.SYNTAX) from None
    if len(roots) != 1 or not isinstance(roots[0], exp.Expression):
        raise Refused(Reason.SYNTAX, why="this is not one statement")
    return roots[0]


def _tokens(text: str) -> list[Token]:
    if len(text) > MAX_TEXT:
        raise Refused(Reason.TOO_LARGE)
    try:
        tokens = list(Dialect.get_or_raise("postgres").tokenize(text))
    except SqlglotError:
        raise Refused(Reason.SYNTAX) from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if any(token.token_type is TokenType.SEMICOLON for token in tokens):
        raise Refused(Reason.SYNTAX, why="this is not one statement")
    if len(tokens) > MAX_TOKENS:
        raise Refused(Reason.TOO_LARGE)
    depth, run = 0, 0
    for before, token in zip((None, *tokens), tokens, strict=False):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        run = run + 1 if before and before.token_type is token.token_type else 0
        if depth > MAX_DEPTH or run > MAX_DEPTH:
            raise Refused(Reason.TOO_LARGE)
    check_nesting(tokens, MAX_DEPTH)
    return tokens


def _renamed(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield tokens with functions marked, `oid[]` as `_oid`, `AS select` a name, operators bare."""
    skip, closing = 0, False
    for i, token in enumerate(tokens):
        behind = [t.text.upper() for t in tokens[i : i + 4]]
        behind_as = i > 0 and tokens[i - 1].token_type is TokenType.ALIAS
        if skip:
            skip -= 1
        elif behind == _OPERATOR:
            skip, closing = 3, True
        elif closing and token.token_type is TokenType.R_PAREN:
            closing = False
        elif behind[1:3] == ["[", "]"] and token.text.lower() in _NAMED_TYPES:
            yield _named(token, f"_{token.text.lower()}")
            skip = 2
        elif token.token_type is TokenType.SELECT and behind_as:
            # The name of a column: no query begins directly after AS.
            yield _named(token, token.text.lower())
        elif behind[1:2] == ["("] and _is_call(tokens, i):
            lower = token.token_type is not TokenType.IDENTIFIER
            yield _named(token, FUNCTION + (token.text.lower() if lower else token.text))
        else:
            yield token


def _is_call(tokens: Sequence[Token], i: int) -> bool:
    """Test whether a word before a parenthesis is a function name: not a type, alias or keyword."""
    token, before = tokens[i], tokens[i - 1].token_type if i else None
    if token.token_type in (TokenType.STRING, TokenType.NUMBER) or before in _NO_CALL_BEHIND:
        return False
    qualified = before is TokenType.DOT and i > 2  # noqa: PLR2004 - a schema and what precedes it
    if qualified and tokens[i - 3].token_type in _TYPE_BEHIND:
        return False
    word = token.text.upper()
    return word not in _SYNTAX and " " not in word and (word[:1].isalpha() or word[:1] == "_")


_TYPE_BEHIND = (TokenType.ALIAS, TokenType.DCOLON)
_NO_CALL_BEHIND = (*_TYPE_BEHIND, TokenType.R_PAREN, TokenType.VAR, TokenType.IDENTIFIER)
"""Tokens before a type, or before an alias with columns: FROM f(x) s(r)."""


def _named(token: Token, text: str) -> Token:
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end)


def spelled(name: exp.Expression | None) -> str:
    """Return a name as PostgreSQL stores it: lower-cased unless quoted."""
    if not isinstance(name, exp.Identifier):
        raise refused("a name of this form")
    text = str(name.this).removeprefix(FUNCTION)
    return text if name.quoted else text.lower()


def called(node: exp.Expression) -> tuple[str | None, exp.Anonymous] | None:
    """Return schema and call if `node` is a marked function, else None."""
    schema = None
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
        schema = node.this.name if isinstance(node.this, exp.Identifier) else "?"
        node = node.expression
    return (schema, node) if isinstance(node, exp.Anonymous) else None


def function_name(call: exp.Anonymous) -> str:
    """Return the function's name, lower-cased unless quoted."""
    name = call.name
    return name.removeprefix(FUNCTION) if name.startswith(FUNCTION) else name.lower()
