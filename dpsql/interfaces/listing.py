"""SHOW TABLES and DESCRIBE: declared tables and columns, as rows for every interface.

Only the policy is read. Hidden or undeclared names do not exist (SECURITY.md S17).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.dialects.postgres.words import Word, WordKind, words
from dpsql.interfaces.amounts import exact_text
from dpsql.interfaces.comments import SYNTHETIC, column_comment, table_comment
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import SEARCH_PATH, nearest
from dpsql.model.tree import INTEGER, NOWHERE, VARCHAR, Span
from dpsql.model.vocabulary import Answer, Column, ColumnPolicy, Policy, TablePolicy

TABLES = (Column("table", VARCHAR), Column("columns", INTEGER), Column("about", VARCHAR))
COLUMNS = (Column("column", VARCHAR), Column("type", VARCHAR), Column("about", VARCHAR))
_FIRST = frozenset({"show", "describe", "desc"})
_LONGEST = 1_000
"""Maximum length of a text that is read as a listing."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A request to list the tables, or the columns of `table`, which is named at `span`."""

    table: tuple[str, ...] = ()
    span: Span = NOWHERE

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the rows."""
        return COLUMNS if self.table else TABLES


def listing(sql: str) -> Listing | None:
    """Parse a text as a listing; None for other texts.

    >>> listing("SHOW TABLES;"), listing("SELECT 1")
    (Listing(table=(), span=Span(start=0, stop=0)), None)
    >>> listing("DESCRIBE analytics.Users").table
    ('analytics', 'Users')
    """
    if len(sql) > _LONGEST:
        return None
    try:
        rest = words(sql)
        first = next(rest, None)
        if first is None or first.kind is not WordKind.NAME or first.value not in _FIRST:
            return None
        read = [first, *rest]
    except Refused:
        return None
    while read and read[-1].text == ";":
        read.pop()
    match [word.text.upper() for word in read]:
        case ["SHOW", "TABLES"] | ["SHOW", "ALL", "TABLES"] | ["DESCRIBE" | "DESC"]:
            return Listing()
        case ["SHOW", "COLUMNS", "FROM" | "IN", *_]:
            return _of_table(read[3:])
        case ["DESCRIBE" | "DESC", "TABLE", _, *_]:
            return _of_table(read[2:])
        case ["DESCRIBE" | "DESC", *_]:
            return _of_table(read[1:])
        case _:
            return None


def _of_table(name: Sequence[Word]) -> Listing | None:
    """Return the listing of a table from the dotted words of its name, or None."""
    parts, dots = name[::2], name[1::2]
    named = all(word.kind in (WordKind.NAME, WordKind.QUOTED) for word in parts)
    if not parts or len(parts) == len(dots) or not named or any(d.text != "." for d in dots):
        return None
    written = (w.value if w.kind is WordKind.QUOTED else w.text for w in parts)
    return Listing(tuple(written), Span(parts[0].start, parts[-1].stop))


def listed(
    wish: Listing,
    policy: Policy,
    path: tuple[str, ...] = SEARCH_PATH,
    synthetic: Sequence[TablePolicy] = (),
) -> Answer:
    """Return the rows, exact and free. The analyst's `synthetic` tables come last.

    Raises `Refused` for an unknown table.
    """
    if not wish.table:
        rows: list[tuple[Any, ...]] = [
            (table.name, len(visible(table)), table_comment(policy, table))
            for table in policy.tables
        ]
        rows += [(table.name, len(table.columns), SYNTHETIC) for table in synthetic]
        return _answer(TABLES, rows)
    table, name = policy.named(wish.table, path), ".".join(wish.table)
    if table is None:
        named = (t for t in synthetic if t.name.lower() == name.lower())
        if (drawn := next(named, None)) is not None:
            return _answer(COLUMNS, [(c.name, str(c.type), "synthetic") for c in drawn.columns])
        names = tuple(t.name for t in (*policy.tables, *synthetic))
        facts = {"table": name, "near": nearest(name, names), "known": names}
        raise Refused(Reason.UNKNOWN_TABLE, wish.span, **facts)
    described = [
        (column.name, str(column.type), column_comment(policy, table, column) or "")
        for column in visible(table)
    ]
    return _answer(COLUMNS, described)


def visible(table: TablePolicy) -> tuple[ColumnPolicy, ...]:
    """Return the columns that analysts may see."""
    return tuple(column for column in table.columns if not column.hidden)


def listed_values(policy: Policy) -> Iterator[tuple[str, str, str]]:
    """Yield table, column and SQL literal of every value that a policy lists."""
    for table in policy.tables:
        for column in visible(table):
            for value in column.values or ():
                literal = exact_text(value)
                if not (value is None or isinstance(value, int | float)):
                    literal = "'" + literal.replace("'", "''") + "'"
                yield table.name, column.name, literal


def _answer(columns: tuple[Column, ...], rows: Sequence[tuple[Any, ...]]) -> Answer:
    exact = ((None,) * len(columns),) * len(rows)
    return Answer(columns, tuple(rows), exact, exact)
