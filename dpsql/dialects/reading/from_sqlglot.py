"""Text → Statement through sqlglot: what our tree cannot say is refused, by construction."""

from __future__ import annotations

import logging
from datetime import date

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError

from dpsql.dialects.reading.durations import with_durations
from dpsql.dialects.reading.nesting_limits import (
    check_clauses,
    check_joins,
    check_nesting,
    with_bare_counts,
)
from dpsql.dialects.reading.nodes import Origin
from dpsql.dialects.reading.queries import query
from dpsql.dialects.reading.request_options import read_request
from dpsql.dialects.reading.spans import spans_of
from dpsql.dialects.reading.tokens import Tokens, prepare, span_of
from dpsql.dialects.reading.tree_checks import check_depth, check_nothing_dropped
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Span, Statement, Value

# sqlglot logs the text it does not understand at WARNING: analyst text belongs in no log.
logging.getLogger("sqlglot").disabled = True


def statement(text: str, dialect: str, parameters: tuple[Value, ...], day: date) -> Statement:
    """The one query in `text`, with `parameters` in the places of its `?`, as asked on `day`.

    Raises `Refused` with the place of whatever our tree cannot say.
    """
    request = read_request(text, dialect)
    check_nesting(request.tokens)
    check_joins(request.tokens)
    counted = with_bare_counts(request.tokens)
    check_clauses(counted)
    tokens = prepare(with_durations(counted), dialect)
    if len(tokens.placeholders) != len(parameters):
        missing = tokens.placeholders[len(parameters) :]
        place = missing[0] if missing else NOWHERE
        expected = len(tokens.placeholders)
        raise Refused(Reason.BAD_PARAMETER, place, expected=expected, given=len(parameters))
    root = _parsed(tokens, request.text, dialect)
    check_depth(root)
    origin = Origin(
        dialect, parameters, day, spans_of(root, tokens), _strings(tokens), query, request.named
    )
    result = query(root, origin)
    check_nothing_dropped(root, tokens)
    if left := request.named.keys() - origin.heard:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, Span(min(left), min(left) + 1), construct="=>")
    return Statement(
        result,
        request.epsilon,
        request.explain,
        request.min_units,
        request.max_error,
        request.confidence,
        request.nonnegative,
        request.mechanism,
        any(named.epsilon is not None for named in request.named.values()),
    )


def _strings(tokens: Tokens) -> frozenset[int]:
    return frozenset(t.start for t in tokens.tokens if t.token_type is TokenType.STRING)


def _parsed(tokens: Tokens, text: str, dialect: str) -> exp.Expression:
    """The tree of exactly one statement; its messages quote the text and are dropped."""
    try:
        parser = Dialect.get_or_raise(dialect).parser(error_level=ErrorLevel.IMMEDIATE)
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
    """The token that sqlglot stumbled over, or the end of the text."""
    first = error.errors[0] if error.errors else {}
    where = first.get("line"), first.get("col")
    end = len(text.rstrip())
    found = (span_of(t) for t in tokens if (t.line, t.col) == where)
    return next(found, Span(max(0, end - 1), end))
