"""Two checks of a whole parsed tree: that it is not too deep, and that nothing was dropped."""

from __future__ import annotations

from sqlglot import Token, TokenType, exp

from dpsql.dialects.reading.nodes import is_bare_values, nodes_of
from dpsql.dialects.reading.tokens import Tokens, span_of
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Span

MAX_DEPTH = 64
"""Most levels of a tree, chains of AND and of OR counted once: our own passes recurse over it."""

_SILENT_WORDS = frozenset(
    """BOTH BY CAST CURRENT EXCLUDE EXTRACT FIRST FOLLOWING GROUP GROUPS IGNORE LAST LEADING
    MATERIALIZED NAME NEXT NO NULLS ONLY OTHERS POSITION PRECEDING RENAME RESPECT ROWS SUBSTRING
    SYMMETRIC TIES TRAILING TRIM TRY_CAST UNBOUNDED UNKNOWN WITHIN ZONE""".split()
)
"""Bare words that sqlglot reads as syntax without giving any node their position."""


def check_depth(root: exp.Expression, limit: int = MAX_DEPTH) -> None:
    """Raises `Refused` (TOO_LARGE) for a tree of more than `limit` levels; does not recurse.

    Chains of one connective count as one level, because the importer flattens them.
    """
    pending = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > limit:
            raise Refused(Reason.TOO_LARGE, what="levels", limit=limit)
        for child in node.iter_expressions():
            assert isinstance(child, exp.Expression)
            same = isinstance(node, exp.And | exp.Or) and type(child) is type(node)
            pending.append((child, depth if same else depth + 1))


def check_nothing_dropped(root: exp.Expression, tokens: Tokens) -> None:
    """Raises `Refused` at the first name, number, string or SELECT that is in no node.

    A second wall behind `Origin.take`: sqlglot may swallow syntax without a trace in its tree,
    and writes a SELECT * of its own for a query that begins with FROM.
    """
    read = {node.meta["start"] for node in nodes_of(root) if "start" in node.meta}
    for i, token in enumerate(tokens.tokens):
        if _must_be_read(i, tokens) and token.start not in read:
            raise Refused(
                Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=token.text.split(" ")[-1]
            )
    selects = sum(t.token_type is TokenType.SELECT for t in tokens.tokens)
    read_selects = [n for n in nodes_of(root) if isinstance(n, exp.Select)]
    if selects != sum(not is_bare_values(node) for node in read_selects):
        raise Refused(
            Reason.UNSUPPORTED_SYNTAX, _first_from(tokens), construct="FROM without SELECT"
        )


def _must_be_read(i: int, tokens: Tokens) -> bool:
    token = tokens.tokens[i]
    if _is_part(tokens.tokens[max(0, i - 2) : i]) or _begins_zone(tokens.tokens[i : i + 3]):
        return False
    match token.token_type:
        case TokenType.STRING | TokenType.IDENTIFIER:
            return True
        case TokenType.NUMBER:
            return token.start not in tokens.type_arguments
        case TokenType.VAR:
            return token.text.upper() not in _SILENT_WORDS
        case _:
            return False


def _is_part(before: tuple[Token, ...]) -> bool:
    """Whether these two tokens are EXTRACT and its parenthesis: the part has no position."""
    return (
        len(before) > 1
        and before[0].text.upper() == "EXTRACT"
        and before[1].token_type is TokenType.L_PAREN
    )


def _begins_zone(words: tuple[Token, ...]) -> bool:
    """Whether these tokens are AT TIME ZONE, behind which its constant is read."""
    return [word.text.upper() for word in words] == ["AT", "TIME", "ZONE"]


def _first_from(tokens: Tokens) -> Span:
    return next((span_of(t) for t in tokens.tokens if t.token_type is TokenType.FROM), NOWHERE)
