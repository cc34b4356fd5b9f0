"""CREATE TEMP VIEW: names of a session for query texts.

If a statement names a view, its text is prepended as a common table expression. It is compiled and
charged as if the analyst had written it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpsql.dialects.postgres.words import Piece, Word, WordKind
from dpsql.dialects.reading.request_options import read_explain
from dpsql.dialects.statements.commands import CreateView
from dpsql.interfaces.pgwire.catalogue.listed_views import View, Views
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from dpsql.model.tree import Span, identifier

MOST_VIEWS, MOST_CHARACTERS = 100, 1 << 18
"""Limits on the number and the total length of a session's views."""
_NAMES = (WordKind.NAME, WordKind.QUOTED)
_QUERIES = ("with", "select", "values", "table", "from", "(")


def created(command: CreateView, columns: Sequence[WireColumn], views: Views) -> Views:
    """Return the views with a new one, for a query with these columns. Raises `Fault`."""
    if len(command.columns) > len(columns):
        raise Fault("42601", "CREATE VIEW specifies more column names than columns")
    names = (*command.columns, *(column.name for column in columns[len(command.columns) :]))
    twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
    if twice is not None:
        raise Fault("42701", f'column "{twice}" specified more than once')
    if not _begins(command.query.words):
        raise Fault("42601", "a view is the name of a query")
    before = tuple(view for view in views if view.name != command.name)
    if len(before) < len(views) and not command.replace:
        raise Fault("42P07", f'relation "{command.name}" already exists')
    named = tuple(replace(c, name=name) for c, name in zip(columns, names, strict=True))
    number = max((view.number for view in views), default=0) + 1
    more = (*before, View(command.name, command.query.text, named, number))
    if len(more) > MOST_VIEWS or sum(len(view.text) for view in more) > MOST_CHARACTERS:
        raise Fault("54000", "a session has no room for more views")
    return more


def expanded(piece: Piece, views: Views) -> Piece:
    """Return the statement with the views that it names as common table expressions.

    >>> from dpsql.dialects.postgres.words import pieces
    >>> view = View("v", "SELECT 1 AS a", (WireColumn("a", 20),), 1)
    >>> expanded(*pieces("SELECT a FROM v"), (view,)).text.replace(chr(10), "")
    'WITH "v"("a") AS (SELECT 1 AS a) SELECT a FROM v'
    """
    words = piece.words
    used = [_definition(view) for view in views if _names(words, view.name)]
    explained = read_explain(piece.text) if used else None
    first = 0 if explained is None else explained.start
    start = next((n for n, word in enumerate(words) if word.start >= first), len(words))
    if not used or not _begins(words[start:]):
        return piece
    more = words[start].value == "with"
    start += more
    recursive = more and start < len(words) and words[start].value == "recursive"
    start += recursive
    if start >= len(words):
        return piece
    at, listed = words[start].start, ", ".join(used)
    given = f"{listed}, " if more else f"WITH {listed} "
    text = piece.text[:at] + given + piece.text[at:]
    return Piece(text, piece.offset, piece.remark, Span(at, at + len(given)))


def _definition(view: View) -> str:
    """Return the view as a common table expression."""
    listed = ", ".join(identifier(column.name) for column in view.columns)
    return f"{identifier(view.name)}({listed}) AS ({view.text}\n)"


def _names(words: Sequence[Word], name: str) -> bool:
    """Test whether a statement may name this view, without a schema or its own definition."""
    places = [n for n, w in enumerate(words) if w.kind in _NAMES and w.value == name]
    if any(_defines(words, n) for n in places):
        return False
    return any(n == 0 or words[n - 1].text != "." for n in places)


def _defines(words: Sequence[Word], n: int) -> bool:
    """Test whether a common table expression begins at a word."""
    before = words[n - 1].value if n else ""
    behind = [word.value for word in words[n + 1 : n + 3]]
    listed = behind[:1] == ["("] and before in ("with", "recursive")
    return listed or (behind[:1] == ["as"] and behind[1:] in (["("], ["not"], ["materialized"]))


def _begins(words: Sequence[Word]) -> bool:
    """Test whether words begin a query."""
    return bool(words) and words[0].value in _QUERIES
