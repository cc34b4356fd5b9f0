"""SHOW TABLES and DESCRIBE: declared tables and columns, as rows for every interface.

Only the policy is read. Hidden or undeclared names do not exist (SECURITY.md S17).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpsql.dialects.statements.commands import Listing
from dpsql.interfaces.comments import column_comment, table_comment
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import SEARCH_PATH, nearest
from dpsql.model.tree import INTEGER, VARCHAR
from dpsql.model.value_texts import exact_text
from dpsql.model.vocabulary import Answer, Column, ColumnPolicy, Policy, TablePolicy

TABLES = (Column("table", VARCHAR), Column("columns", INTEGER), Column("about", VARCHAR))
COLUMNS = (Column("column", VARCHAR), Column("type", VARCHAR), Column("about", VARCHAR))


def columns_of(wish: Listing) -> tuple[Column, ...]:
    """Return the columns of a listing's rows."""
    return COLUMNS if wish.table else TABLES


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
        rows += [(table.name, len(table.columns), table.about) for table in synthetic]
        return _answer(TABLES, rows)
    table, name = policy.named(wish.table, path), ".".join(wish.table)
    if table is None:
        named = (t for t in synthetic if t.name.lower() == name.lower())
        if (drawn := next(named, None)) is not None:
            about, _, _ = drawn.about.partition(":")
            return _answer(COLUMNS, [(c.name, str(c.type), about) for c in drawn.columns])
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
