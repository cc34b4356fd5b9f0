"""Columns that may identify people and are not links, for questions of a check."""

from __future__ import annotations

from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.preparation.table_rows import rows_of


def look_alikes(table: TablePolicy, policy: Policy) -> list[str]:
    """Return columns that look like the unit key but are neither links nor keys."""
    unit = policy.table(policy.unit.table)
    if unit is None or not table.private:
        return []
    key = unit.column(policy.unit.key)
    assert key is not None
    links = (table.link, *table.several, *table.unprotected, *table.same_unit)
    linked = {name.lower() for link in links if link is not None for name in link.columns}
    linked |= {name.lower() for name in (*table.key, *table.second_keys)}
    words = _words(policy)
    return [
        column.name
        for column in table.columns
        if column.type == key.type and column.name.lower() not in linked
        if any(word in column.name.lower() for word in words)
    ]


def _words(policy: Policy) -> set[str]:
    """Return words in the names of columns for a unit: its key, without "id", or its table in
    singular.

    Short words would be in many names.
    """
    key, table = policy.unit.key.lower(), policy.unit.table.lower()
    stem = key.removesuffix("id").removesuffix("key").strip("_")
    one = table.removesuffix("s")
    return {word for word in (key, stem, one) if len(word) > 2}  # noqa: PLR2004


def all_among_units(table: TablePolicy, column: str, policy: Policy) -> str:
    """Return a SELECT of 1 if a column has values and each is a unit's key; else of 0."""
    name, unit = identifier(column), policy.unit
    other = (
        f"NOT EXISTS (SELECT 1 FROM {rows_of(unit.table, policy)} AS p"
        f" WHERE p.{identifier(unit.key)} = t.{name})"
    )
    return (
        f"SELECT CASE WHEN COUNT(t.{name}) > 0 AND COUNT(t.{name}) FILTER (WHERE {other}) = 0"
        f" THEN 1 ELSE 0 END FROM {rows_of(table.name, policy)} AS t"
    )
