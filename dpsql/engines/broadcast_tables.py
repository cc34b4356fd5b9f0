"""Public tables that another engine holds.

They are small. They are read once for each data version and given to every statement that reads
them, like the small side of a broadcast join. They are a part of the data version: PRIVACY.md R21.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import TypeAlias

from dpsql.engines import ScratchTable
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Unreachable
from dpsql.model.schema import SchemaTable

_NAME = re.compile(r"""'(?:[^']|'')*'|"((?:[^"]|"")*)\"""")
_WHOLE_ROWS = re.compile(r"""\*\s+FROM\s+"|\.\*""")


@dataclass(frozen=True, slots=True)
class BroadcastTable:
    """A public table and its rows; `digest` identifies the rows."""

    schema: SchemaTable
    rows: ScratchTable
    digest: str


BroadcastTables: TypeAlias = tuple[BroadcastTable, ...]


def mentioned(sql: str, broadcast: BroadcastTables) -> list[ScratchTable]:
    r"""Return the tables that a statement names in quotes, each with the columns that it names.

    >>> from dpsql.model.tree import INTEGER
    >>> rows = ScratchTable("days", (("day", INTEGER), ("week", INTEGER)), [(8, 2)])
    >>> days = BroadcastTable(SchemaTable("days", ()), rows, "")
    >>> [(t.columns[0][0], t.rows) for t in mentioned('SELECT "week" FROM "days"', (days,))]
    [('week', [(2,)])]
    >>> mentioned("SELECT '\"days\"'", (days,))
    []
    """
    if not broadcast:
        return []
    named = {match[1].replace('""', '"') for match in _NAME.finditer(sql) if match[1] is not None}
    tables = [table.rows for table in broadcast if table.rows.name in named]
    return tables if _WHOLE_ROWS.search(sql) else [narrowed(table, named) for table in tables]


def narrowed(table: ScratchTable, names: AbstractSet[str]) -> ScratchTable:
    """Keep the columns with these names, or the first column if none is named."""
    places = [n for n, (name, _) in enumerate(table.columns) if name in names] or [0]
    columns = tuple(table.columns[n] for n in places)
    return ScratchTable(table.name, columns, [tuple(row[n] for n in places) for row in table.rows])


def with_broadcast(
    declared: Sequence[SchemaTable], broadcast: BroadcastTables, shown: str
) -> tuple[SchemaTable, ...]:
    """Return the database's tables followed by the broadcast tables.

    Raises `Unreachable` if both have a table of one name. Foreign keys to such a name are dropped:
    they reference a table of the database.
    """
    names, here = {t.schema.name.lower() for t in broadcast}, list[SchemaTable]()
    for table in declared:
        if table.name.lower() in names:
            why = f"{shown} has a table {table.name}, and so has [database.public]"
            raise Unreachable(f"{why}. Leave one of them out.")
        own = tuple(key for key in table.foreign_keys if key.table.lower() not in names)
        here.append(replace(table, foreign_keys=own))
    return (*here, *(table.schema for table in broadcast))


def identity_with(identity: str, broadcast: BroadcastTables) -> str:
    """Return the identity of data that includes these tables."""
    if not broadcast:
        return identity
    return sha256(
        "\n".join([identity, *(table.digest for table in broadcast)]).encode()
    ).hexdigest()
