"""Rows of public tables that another engine holds than the private ones.

They are read as that engine's dialect reads them. From then on they are constants of the data
version: statements over private tables get them like stages.

Proof (PRIVACY.md R21). Every statement of a data version, those that measure how often a public
value occurs and those that join with it, reads these very rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.engines import Engine, ScratchTable
from dpsql.engines.broadcast_tables import BroadcastTable, BroadcastTables
from dpsql.model.algebra import Field, Scan
from dpsql.model.dataclass import replace
from dpsql.model.errors import Unreachable
from dpsql.model.schema import SchemaColumn, SchemaTable
from dpsql.model.table_names import parts
from dpsql.preparation.public_data import MOST_CELLS

_WIDTH = 64
"""Bits of the widest integer that every engine computes exactly."""


def broadcast(engine: Engine, dialect: Dialect, names: Sequence[str]) -> BroadcastTables:
    """Return the named tables that the engine has, in its first schema, with their rows.

    Raises `Unreachable` if they have too many values, and the engine's errors.
    """
    schema, left = engine.schema(), MOST_CELLS
    tables = list[BroadcastTable]()
    for name in names:
        source = schema.table(name)
        schema_name, _ = parts(name) or (None, name)
        if source is None or schema_name is not None:
            continue
        table = _as_broadcast(source, name)
        if all(column.type is None for column in table.columns):
            continue
        fields = tuple(
            Field(n, c.name, c.type) for n, c in enumerate(table.columns) if c.type is not None
        )
        readings = tuple((c.name, c.reading) for c in source.columns if c.reading is not None)
        scan = Scan(source.name, fields, readings=readings)
        rows = engine.few(dialect.query(scan, tuple(f.ref for f in fields)), left)
        if rows is None:
            why = f"The public table {name} has too many values to be held in memory"
            fix = f"all of [database.public] may have {MOST_CELLS:,}"
            raise Unreachable(f"{why}: {fix}. Put it beside the private tables.")
        left -= len(rows) * len(fields)
        listed = list(rows)
        given = ScratchTable(name, tuple((f.name, f.type) for f in fields), listed)
        tables.append(BroadcastTable(table, given, _digest(given)))
    return tuple(tables)


def _as_broadcast(table: SchemaTable, name: str) -> SchemaTable:
    """Return the table as its rows are given, without foreign keys or a view's definition.

    Unique keys of columns that are read as another type are dropped.
    """
    columns = tuple(_whole(c) for c in table.columns if c.reading is None or not c.reading.path)
    plain = {c.name.lower() for c in table.columns if c.reading is None}
    unique = tuple(k for k in table.unique_keys if {name.lower() for name in k} <= plain)
    return SchemaTable(
        name, columns, unique, table.primary_key if table.primary_key in unique else ()
    )


def _whole(column: SchemaColumn) -> SchemaColumn:
    """Return the column as its values are given; wider integers than 64 bits have no type."""
    if column.bits > _WIDTH or (column.reading is not None and column.reading.json):
        return replace(column, type=None, reading=None)
    return replace(column, reading=None, may_be_long=False)


def _digest(table: ScratchTable) -> str:
    """Return the sha256 (hex) of rows in any order, of their table, and of its columns' types."""
    columns = ",".join(f"{name} {kind}" for name, kind in table.columns)
    rows = sorted(map(repr, table.rows))
    return sha256("\n".join([table.name, columns, *rows]).encode()).hexdigest()
