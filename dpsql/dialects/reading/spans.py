"""Where each sqlglot node was written: sqlglot knows it of names, literals and calls only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import TokenType, exp

from dpsql.dialects.reading.nodes import is_bare_values, nodes_of
from dpsql.dialects.reading.tokens import Tokens
from dpsql.model.tree import NOWHERE, Span


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
    spans = {key: Span(start, stops[key]) for key, start in starts.items()}
    for kind, word in _KEYWORDS.items():
        _widen(
            spans, [n for _, n in placed if type(n) is kind and not is_bare_values(n)], word, tokens
        )
    return spans


_KEYWORDS: Mapping[type[exp.Expression], str] = {
    exp.Select: "SELECT",
    exp.Case: "CASE",
    exp.Extract: "EXTRACT",
    exp.Trim: "TRIM",
    exp.Substring: "SUBSTRING",
    exp.StrPosition: "POSITION",
}
"""Nodes that begin with a keyword to which sqlglot gives no position."""


def _widen(spans: dict[int, Span], nodes: list[exp.Expression], word: str, tokens: Tokens) -> None:
    """Lets nodes begin at their keywords: the first in the text at the first keyword, and so on.

    `nodes` come with parents before children, and the sort keeps that order among equals.
    """
    words = [
        t
        for t in tokens.tokens
        if t.text.upper() == word and t.token_type is not TokenType.IDENTIFIER
    ]
    if len(words) != len(nodes):
        return
    for node, token in zip(sorted(nodes, key=lambda n: _first(n, spans)), words, strict=True):
        stop = tokens.calls.get(token.start, token.end + 1)
        old = spans.get(id(node), Span(token.start, stop))
        spans[id(node)] = Span(token.start, max(old.stop, stop))


def _first(node: exp.Expression, spans: Mapping[int, Span]) -> int:
    """Where the node's own contents begin: a SELECT's WITH stands before its keyword."""
    parts = node.expressions if isinstance(node, exp.Select) else [node]
    return min((spans[id(part)].start for part in parts if id(part) in spans), default=0)


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
