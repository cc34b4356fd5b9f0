"""Columns as they are read: which texts are cut, and which facts about stored values stay.

Proof (PRIVACY.md R101). Facts are about values as they are read.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpsql.model.dataclass import replace
from dpsql.model.schema import SchemaColumn, SchemaTable
from dpsql.model.tree import VARCHAR, StoredAs, Value
from dpsql.policy.check_constraints import Check, checks
from dpsql.policy.draft import DraftColumn, DraftTable


def reading_of(
    table: DraftTable, column: DraftColumn, stored: SchemaColumn, most: int
) -> StoredAs | None:
    """Return how a column is read; a text that may be longer is cut to `most` characters.

    Keys and links are not cut, because different units would have one key; listed values need no
    cut. Where these may be long, long ones are NULL. So is a long JSON, whatever is read of it.
    """
    reading = stored.reading
    if reading is not None and reading.json:
        return replace(reading, most=most)
    if stored.type != VARCHAR:
        return reading
    if reading is not None:
        return replace(reading, most=most if reading.path else 0)
    cuts = stored.may_be_long and not _is_listed(column) and not _identifies(table, stored)
    return StoredAs(stored.name, most=most) if cuts else None


def is_read_never_null(
    table: DraftTable, column: DraftColumn, stored: SchemaColumn, *, enforced: bool
) -> bool:
    """Test whether read values are never NULL.

    A long text that is not cut is NULL. Keys, links and listed columns are not cut. A
    written list that the engine has `enforced` has no long texts.
    """
    short = enforced and column.values is not None
    whole = _identifies(table, stored) or (_is_listed(column) and not short)
    return stored.is_never_null and stored.reading is None and not (stored.may_be_long and whole)


def _is_listed(column: DraftColumn) -> bool:
    return column.values is not None or column.values_from is not None


def _identifies(table: DraftTable, column: SchemaColumn) -> bool:
    """Test whether a column is a key or a link, or facts compare its values."""
    links = (*table.named_links, *table.same_unit)
    names = {*table.key, *(name for name, _ in table.alike)}
    names |= {n for link in links for n in link.columns}
    return column.name.lower() in {name.lower() for name in names}


def is_enforced(
    column: DraftColumn,
    schema_column: SchemaColumn,
    schema_table: SchemaTable,
    bounds: tuple[Any, Any] | None,
    values: tuple[Value, ...] | None,
) -> bool:
    """Test whether a CHECK, an ENUM or a foreign key keeps every value within its domain."""
    check = checks(schema_table).get(schema_column.name.lower(), Check())
    if bounds is not None:
        ends = None if check.bounds is None else tuple(map(Fraction, check.bounds))
        return ends is not None and bounds[0] <= ends[0] and ends[1] <= bounds[1]
    if column.values_from is not None:
        source = column.values_from[0].lower(), [column.values_from[1].lower()]
        return any(
            key.exact
            and [name.lower() for name in key.columns] == [schema_column.name.lower()]
            and (key.table.lower(), [name.lower() for name in key.referenced]) == source
            for key in schema_table.foreign_keys
        )
    enforced = schema_column.enum_values or check.values
    return bool(enforced) and values is not None and set(enforced) <= set(values)
