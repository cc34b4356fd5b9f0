"""parse: text → Statement. Bytes and characters are checked here, SQL in `from_sqlglot`."""

from __future__ import annotations

from datetime import datetime

from dpsql.dialects.reading import from_sqlglot
from dpsql.dialects.reading.other_dialects import with_known_quotes
from dpsql.dialects.reading.request_options import OptionedQuery, divided, not_a_query, read_request
from dpsql.dialects.statements.commands import OtherStatement
from dpsql.model.errors import Reason, Refused
from dpsql.model.public_times import now
from dpsql.model.tree import Expression, Parameter, Select, Span, Statement
from dpsql.model.vocabulary import DEFAULT_SPELLING, SPELLINGS

MAX_BYTES = 64 * 1024
"""Longest text, in bytes of UTF-8."""


def parse(
    text: str,
    dialect: str = DEFAULT_SPELLING,
    parameters: tuple[Parameter, ...] = (),
    instant: datetime | None = None,
) -> Statement:
    """Return the one SELECT in `text`, in the spelling of `dialect`, with `parameters` for
    its `?`.

    NOW() is `instant`, by default the present, and CURRENT_DATE its day in UTC.

    Raises `Refused`, and nothing else, for any text, with the place of the error or of syntax that
    the tree cannot express. Raises ValueError for an unknown dialect.

    >>> parse("SELECT COUNT(*) FROM orders").query.source
    TableName(name='orders', alias=None, column_aliases=(), span=Span(start=21, stop=27), schema=())
    """
    said = parse_any(text, dialect, parameters, instant or now())
    if not isinstance(said, Statement):
        raise not_a_query(text)
    return said


def parse_any(
    text: str, dialect: str, parameters: tuple[Parameter, ...], instant: datetime
) -> Statement | OtherStatement:
    """Return the one SELECT in `text`, its EXPLAIN, or its statement of a side system.

    Raises as `parse` does.

    >>> parse_any("DROP MODEL m", "duckdb", (), now())
    Drop(kind='model', name='m')
    """
    if dialect not in SPELLINGS:
        msg = f"unknown dialect {dialect!r}"
        raise ValueError(msg)
    _check_characters(text)
    try:
        request = read_request(with_known_quotes(text, dialect), dialect, text)
        if not isinstance(request, OptionedQuery):
            return request
        return from_sqlglot.statement(request, dialect, parameters, instant)
    except RecursionError:
        raise Refused(Reason.TOO_LARGE, what="nesting levels") from None


def parse_formula(text: str, dialect: str) -> Expression:
    """Return the expression of a formula. Raises `Refused` if it is too large.

    >>> parse_formula("1e0 + a0", "duckdb").function
    'add'
    """
    query = parse(f"SELECT {text} AS value", dialect).query
    assert isinstance(query, Select)
    return query.items[0].expression


def divide(text: str, dialect: str = DEFAULT_SPELLING) -> tuple[Span, ...]:
    r"""Return the span of each statement in a text; semicolons in strings and comments do not
    count.

    Raises `Refused` for a text that is not SQL.

    >>> divide("SELECT ';' AS a; -- b;\n SELECT 2;")
    (Span(start=0, stop=15), Span(start=24, stop=32))
    """
    _check_characters(text)
    return divided(with_known_quotes(text, dialect), dialect)


def _check_characters(text: str) -> None:
    """Raise `Refused` for a text that is too long or that no engine could receive."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        place = Span(error.start, error.end)
        raise Refused(Reason.SYNTAX, place, why="this character is not Unicode text") from None
    if size > MAX_BYTES:
        raise Refused(Reason.TOO_LARGE, what="bytes", limit=MAX_BYTES)
    if (nul := text.find("\0")) >= 0:
        raise Refused(Reason.SYNTAX, Span(nul, nul + 1), why="this character is not SQL")
