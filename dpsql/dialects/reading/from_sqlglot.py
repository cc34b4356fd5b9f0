"""Text → Statement through sqlglot: syntax that our tree cannot express is refused by
construction.

sqlglot knows positions only of names, literals and calls, and may drop syntax that it does not
understand. This module finds the positions, and checks that nothing was dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from operator import attrgetter, gt, lt
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError

from dpsql.dialects.reading.interval_tokens import with_durations
from dpsql.dialects.reading.joined_tokens import (
    with_bare_counts,
    with_leading_zeros,
    without_zone_words,
)
from dpsql.dialects.reading.nodes import Origin, is_bare_values, nodes_of
from dpsql.dialects.reading.other_dialects import grammar_of
from dpsql.dialects.reading.queries import is_union_all, query
from dpsql.dialects.reading.request_options import OptionedQuery
from dpsql.dialects.reading.token_checks import (
    check_clauses,
    check_joins,
    check_nesting,
)
from dpsql.dialects.reading.token_order import (
    PATTERNS,
    grouped_apart,
    select_first,
    with_known_spelling,
)
from dpsql.dialects.reading.token_words import Mark, marks_of, span_of
from dpsql.dialects.reading.tokens import Tokens, prepare
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Parameter, Query, Span, Statement

# sqlglot logs texts that it does not understand at WARNING: analysts' texts belong in no log.
logging.getLogger("sqlglot").disabled = True


_STEPS: tuple[tuple[frozenset[Mark], Callable[[tuple[Token, ...]], tuple[Token, ...]]], ...] = (
    (frozenset({TokenType.TABLE, "!", *PATTERNS}), with_known_spelling),
    (frozenset({TokenType.FROM, TokenType.TABLE}), select_first),
    (frozenset({TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS}), grouped_apart),
    (frozenset({TokenType.DOT}), with_leading_zeros),
    (frozenset({"ZONE"}), without_zone_words),
    (frozenset({"LIMIT", "OFFSET", "FETCH"}), with_bare_counts),
)
"""Changes of the tokens, in their order, with the marks that each of them reads."""


def statement(
    request: OptionedQuery, dialect: str, parameters: tuple[Parameter, ...], instant: datetime
) -> Statement:
    """Return the query of a request, with `parameters` for its `?`, as asked at an instant.

    Raises `Refused` with the place of any syntax that our tree cannot express.
    """
    check_nesting(request.tokens)
    ordered, marks = request.tokens, marks_of(request.tokens)
    for read, change in _STEPS:
        ordered = change(ordered) if marks & read else ordered
    if TokenType.JOIN in marks:
        check_joins(ordered)
    check_clauses(ordered)
    tokens = prepare(with_durations(ordered) if "INTERVAL" in marks else ordered, dialect)
    if len(tokens.placeholders) != len(parameters):
        missing = tokens.placeholders[len(parameters) :]
        place, given = missing[0] if missing else NOWHERE, len(parameters)
        raise Refused(Reason.BAD_PARAMETER, place, expected=len(tokens.placeholders), given=given)
    root = _parsed(tokens, request.text, dialect)
    check_depth(root)
    origin = Origin(
        dialect=dialect,
        parameters=parameters,
        instant=instant,
        spans=spans_of(root, tokens),
        strings=frozenset(t.start for t in tokens.tokens if t.token_type is TokenType.STRING),
        read_query=query,
        named=request.named,
        calls=frozenset(
            name.text.lower()
            for name, opening in pairwise(request.tokens)
            if opening.token_type is TokenType.L_PAREN
        ),
    )
    result = query(root, origin)
    check_nothing_dropped(root, tokens)
    if left := request.named.keys() - origin.heard:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, Span(min(left), min(left) + 1), construct="=>")
    return _statement(request, result, origin)


def _statement(request: OptionedQuery, result: Query, origin: Origin) -> Statement:
    return Statement(
        query=result,
        epsilon=request.epsilon,
        min_units=request.min_units,
        max_error=request.max_error,
        confidence=request.confidence,
        nonnegative=request.nonnegative,
        mechanism=request.mechanism,
        memory=request.memory,
        keys=request.keys,
        divided=any(named.epsilon is not None for named in request.named.values()),
        instant=origin.instant,
        reads_clock=bool(origin.clock),
        says_now=bool(origin.nows),
        calls=origin.calls,
    )


def _parsed(tokens: Tokens, text: str, dialect: str) -> exp.Expression:
    """Return the tree of exactly one statement; sqlglot's messages quote the text and are
    dropped.
    """
    try:
        parser = Dialect.get_or_raise(grammar_of(dialect)).parser(error_level=ErrorLevel.IMMEDIATE)
        roots = parser.parse(list(tokens.tokens), text)
    except ParseError as error:
        raise Refused(Reason.SYNTAX, _place(error, tokens.tokens, text)) from None
    except RecursionError:
        raise
    except Exception:  # noqa: BLE001 - on odd input it also raises KeyError, TypeError and others
        raise Refused(Reason.SYNTAX, Span(0, len(text))) from None
    if len(roots) != 1 or not isinstance(roots[0], exp.Expression):
        raise Refused(Reason.SYNTAX, Span(0, len(text)), why="this is not one statement")
    return roots[0]


def _place(error: ParseError, tokens: tuple[Token, ...], text: str) -> Span:
    """Return the token at which sqlglot failed, or the end of the text."""
    first = error.errors[0] if error.errors else {}
    where = first.get("line"), first.get("col")
    end = len(text.rstrip())
    spans = (span_of(t) for t in tokens if (t.line, t.col) == where)
    return next(spans, Span(max(0, end - 1), end))


def spans_of(root: exp.Expression, tokens: Tokens) -> dict[int, Span]:
    """Return every node's span by id: its own, or from its first to its last descendant with one.

    A node of `_KEYWORDS` begins at its keyword, as at CASE.
    """
    placed = [(_own_span(node, tokens), node) for node in nodes_of(root)]
    sorted_spans = sorted(
        ((s, n) for s, n in placed if s != NOWHERE), key=lambda pair: pair[0].start
    )
    starts: dict[int, int] = {}
    stops: dict[int, int] = {}
    # From the left, the first visitor of an ancestor is its leftmost; from the right, likewise.
    for span, node in sorted_spans:
        _climb(node, starts, span.start, gt)
    for span, node in sorted(sorted_spans, key=lambda pair: -pair[0].stop):
        _climb(node, stops, span.stop, lt)
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
"""Nodes that begin with a keyword without a position in sqlglot."""


def _widen(spans: dict[int, Span], nodes: list[exp.Expression], word: str, tokens: Tokens) -> None:
    """Extend nodes to their keywords: the first node in the text gets the first keyword, and
    so on.

    `nodes` lists parents before children, and the sort keeps that order among equals.
    """
    words = sorted(
        (
            t
            for t in tokens.tokens
            if t.text.upper() == word and t.token_type is not TokenType.IDENTIFIER
        ),
        key=attrgetter("start"),
    )
    if len(words) != len(nodes):
        return
    for node, token in zip(sorted(nodes, key=lambda n: _first(n, spans)), words, strict=True):
        stop = tokens.calls.get(token.start, token.end + 1)
        old = spans.get(id(node), Span(token.start, stop))
        spans[id(node)] = Span(token.start, max(old.stop, stop))


def _first(node: exp.Expression, spans: Mapping[int, Span]) -> int:
    """Return the offset where a node's own contents begin: a SELECT's WITH stands before its
    keyword.
    """
    parts = node.expressions if isinstance(node, exp.Select) else [node]
    return min((spans[id(part)].start for part in parts if id(part) in spans), default=0)


def _climb(node: exp.Expression, offsets: dict[int, int], offset: int, better: Any) -> None:
    """Set `offset` for the node and its ancestors until one has a better offset."""
    current: Any = node
    while current is not None:
        old = offsets.get(id(current))
        if old is not None and not better(old, offset):
            return
        offsets[id(current)] = offset
        current = current.parent


def _own_span(node: exp.Expression, tokens: Tokens) -> Span:
    start, end = node.meta.get("start"), node.meta.get("end")
    if start is None or end is None:
        return NOWHERE
    if isinstance(node, exp.Anonymous):
        return Span(start, tokens.calls.get(start, end + 1))
    return Span(start, end + 1)


MAX_DEPTH = 64
"""Limit on the depth of a tree, with chains of AND, OR and UNION ALL as one level: our passes
recurse over it.
"""

_SILENT_WORDS = frozenset(
    """BOTH BY CAST CURRENT EXCLUDE EXTRACT FIRST FOLLOWING GROUP GROUPS IGNORE INCLUDE LAST LEADING
    MATERIALIZED NAME NEXT NO NULLS ONLY OTHERS POSITION PRECEDING RENAME RESPECT ROWS SUBSTRING
    SYMMETRIC TIES TRAILING TRIM TRY_CAST UNBOUNDED UNKNOWN VALUE WITHIN ZONE""".split()
)
"""Bare words that sqlglot reads as syntax without giving any node their position."""


def check_depth(root: exp.Expression) -> None:
    """Raise `Refused` (TOO_LARGE) for a tree of more than `MAX_DEPTH` levels; does not recurse.

    Chains of one connective count as one level, because the importer flattens them.
    """
    pending = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise Refused(Reason.TOO_LARGE, what="levels", limit=MAX_DEPTH)
        for child in node.iter_expressions():
            assert isinstance(child, exp.Expression)
            same = isinstance(node, exp.And | exp.Or) and type(child) is type(node)
            same |= child is node.this and is_union_all(node) and is_union_all(child)
            pending.append((child, depth if same else depth + 1))


def check_nothing_dropped(root: exp.Expression, tokens: Tokens) -> None:
    """Raise `Refused` at the first name, number, string or SELECT that is in no node.

    This is a second wall behind `Origin.take`. sqlglot may swallow syntax without a trace in its
    tree, and writes a SELECT * of its own for a query that begins with FROM.
    """
    nodes = nodes_of(root)
    read = {node.meta["start"] for node in nodes if "start" in node.meta}
    for i, token in enumerate(tokens.tokens):
        if _must_be_read(i, tokens) and token.start not in read:
            raise Refused(
                Reason.UNSUPPORTED_SYNTAX, span_of(token), construct=token.text.split(" ")[-1]
            )
    selects = sum(t.token_type is TokenType.SELECT for t in tokens.tokens)
    read_selects = [n for n in nodes if isinstance(n, exp.Select)]
    if selects != sum(not is_bare_values(node) for node in read_selects):
        raise Refused(
            Reason.UNSUPPORTED_SYNTAX,
            next((span_of(t) for t in tokens.tokens if t.token_type is TokenType.FROM), NOWHERE),
            construct="FROM without SELECT",
        )


def _must_be_read(i: int, tokens: Tokens) -> bool:
    token = tokens.tokens[i]
    ahead = [word.text.upper() for word in tokens.tokens[i : i + 3]]
    # After AT TIME ZONE its constant is read.
    if _is_part(tokens.tokens[max(0, i - 2) : i]) or ahead == ["AT", "TIME", "ZONE"]:
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
    """Test whether these two tokens are EXTRACT and its parenthesis: the part has no position."""
    return (
        len(before) > 1
        and before[0].text.upper() == "EXTRACT"
        and before[1].token_type is TokenType.L_PAREN
    )
