"""The one way to read a sqlglot node: every argument is taken by name, or the node is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import Token, TokenType, exp

from dpsql.dialects.from_sqlglot_tokens import FUNCTION, PLACEHOLDER, Tokens, span_of
from dpsql.errors import Reason, Refused
from dpsql.tree import NOWHERE, Span, Value

MAX_DEPTH = 64
"""Most levels of a tree, chains of AND and of OR counted once: our own passes recurse over it."""

_UNIT_WORDS = frozenset(
    """BOTH BY CURRENT EXCLUDE FIRST FOLLOWING FOR IN KEY LAST LEADING MATERIALIZED NEXT NO NOT
    NULLS ONLY OTHERS PERCENT PRECEDING RANGE ROW ROWS SETS TIES TIME TRAILING UNBOUNDED UNKNOWN
    WITHOUT ZONE""".split()
)
"""Bare words that sqlglot reads as syntax without giving any node their position."""

_ARGUMENTS = {
    "all": "GROUP BY ALL",
    "by_name": "UNION BY NAME",
    "except_": "* EXCLUDE",
    "except": "* EXCLUDE",
    "exclude": "WINDOW frame with EXCLUDE",
    "hint": "a hint",
    "into": "SELECT INTO",
    "joins": "a join in parentheses",
    "laterals": "LATERAL",
    "limit_options": "this kind of LIMIT",
    "locks": "FOR UPDATE",
    "on": "DISTINCT ON",
    "pivots": "PIVOT",
    "recursive": "WITH RECURSIVE",
    "rename": "* RENAME",
    "replace": "* REPLACE",
    "sample": "TABLESAMPLE",
    "symmetric": "BETWEEN SYMMETRIC",
    "windows": "WINDOW",
    "zone": "a time zone",
}
"""What people call the arguments that are refused; others go by sqlglot's name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tree comes from: dialect, bound parameters, and the span of every node by id."""

    dialect: str
    parameters: tuple[Value, ...]
    spans: Mapping[int, Span]

    def span(self, node: exp.Expression) -> Span:
        """The characters the node was written with, or NOWHERE."""
        return self.spans.get(id(node), NOWHERE)

    def take(self, node: exp.Expression, *names: str) -> tuple[Any, ...]:
        """The node's arguments of these names (None if absent); refuses if it has any other.

        This is what keeps an attribute that no rule reads (FILTER, IGNORE NULLS, a sample, a join
        kind) from being dropped: nothing else in the importer may look into `node.args`.
        """
        for name, value in node.args.items():
            if name not in names and not _is_absent(value):
                raise self._argument_refusal(node, name, value)
        return tuple(node.args.get(name) for name in names)

    def refusal(self, node: exp.Expression, construct: str | None = None) -> Refused:
        """The refusal of the node's syntax, at its place; to be raised by the caller."""
        name = construct or spoken(node)
        return Refused(Reason.UNSUPPORTED_SYNTAX, self.span(node), construct=name)

    def _argument_refusal(self, node: exp.Expression, name: str, value: object) -> Refused:
        first = value[0] if isinstance(value, list) else value
        place = self.span(first) if isinstance(first, exp.Expression) else NOWHERE
        return Refused(
            Reason.UNSUPPORTED_SYNTAX,
            self.span(node) if place == NOWHERE else place,
            construct=_ARGUMENTS.get(name, f"{spoken(node)} with {name.strip('_')}"),
        )


def _is_absent(value: object) -> bool:
    return value is None or value is False or (isinstance(value, list) and not value)


def spoken(node: exp.Expression) -> str:
    """The class of the node in words: WithinGroup is WITHIN GROUP."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def nodes_of(root: exp.Expression) -> list[exp.Expression]:
    """Every node of the tree."""
    return [node for node in root.walk() if isinstance(node, exp.Expression)]


def name_of(identifier: exp.Expression, origin: Origin) -> str:
    """The name as written, whether a plain identifier or one renamed before a parenthesis."""
    if not isinstance(identifier, exp.Identifier):
        raise origin.refusal(identifier)
    name, quoted = origin.take(identifier, "this", "quoted")
    if quoted:
        return str(name)
    if str(name).startswith(PLACEHOLDER):
        raise Refused(Reason.SYNTAX, origin.span(identifier), why="a name cannot be a parameter")
    return str(name).removeprefix(FUNCTION)


def placeholder_of(identifier: exp.Expression) -> int | None:
    """The number of the `?` that was renamed to this identifier."""
    if isinstance(identifier, exp.Identifier) and not identifier.quoted:
        name = str(identifier.this)
        if name.startswith(PLACEHOLDER):
            return int(name.removeprefix(PLACEHOLDER))
    return None


def spans_of(root: exp.Expression, tokens: Tokens) -> dict[int, Span]:
    """Every node's span by id: its own, or from its first to its last descendant with one."""
    placed = [(_own_span(node, tokens), node) for node in nodes_of(root)]
    known = sorted(((s, n) for s, n in placed if s != NOWHERE), key=lambda pair: pair[0].start)
    starts: dict[int, int] = {}
    stops: dict[int, int] = {}
    # From the left, the first visitor of an ancestor is its leftmost; from the right, likewise.
    for span, node in known:
        _climb(node, starts, span.start, lambda old, new: new < old)
    for span, node in sorted(known, key=lambda pair: -pair[0].stop):
        _climb(node, stops, span.stop, lambda old, new: new > old)
    return {key: Span(start, stops[key]) for key, start in starts.items()}


def _climb(node: exp.Expression, known: dict[int, int], offset: int, better: Any) -> None:
    """Gives `offset` to the node and its ancestors until one has a better one."""
    current: Any = node
    while current is not None:
        old = known.get(id(current))
        if old is not None and not better(old, offset):
            return
        known[id(current)] = offset
        current = current.parent


def _own_span(node: exp.Expression, tokens: Tokens) -> Span:
    start, end = node.meta.get("start"), node.meta.get("end")
    if start is None or end is None:
        return NOWHERE
    if isinstance(node, exp.Anonymous):
        return Span(start, tokens.calls.get(start, end + 1))
    return Span(start, end + 1)


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
    for token in tokens.tokens:
        if _must_be_read(token, tokens) and token.start not in read:
            raise Refused(
                Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=token.text.split(" ")[-1]
            )
    selects = sum(t.token_type is TokenType.SELECT for t in tokens.tokens)
    if selects != sum(isinstance(node, exp.Select) for node in nodes_of(root)):
        raise Refused(
            Reason.UNSUPPORTED_SYNTAX, _first_from(tokens), construct="FROM without SELECT"
        )


def _must_be_read(token: Token, tokens: Tokens) -> bool:
    match token.token_type:
        case TokenType.STRING | TokenType.IDENTIFIER:
            return True
        case TokenType.NUMBER:
            return token.start not in tokens.type_arguments
        case TokenType.VAR:
            return token.text.upper() not in _UNIT_WORDS
        case _:
            return False


def _first_from(tokens: Tokens) -> Span:
    return next((span_of(t) for t in tokens.tokens if t.token_type is TokenType.FROM), NOWHERE)
