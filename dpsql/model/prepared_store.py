"""The store of `dpsql prepare`: copies of the owner's private tables, and sums of them by unit.

A store is for one state of the data and one policy, and records both. For others it is not used.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpsql.model.dataclass import dataclass
from dpsql.model.table_names import full_name, parts

SCHEMA = "dpsql_store"
"""Schema name of the store in an engine, next to the schemas of the owner's database."""

BEFORE = "dpsql_before"
"""Schema name of the previous store while a new one is made."""

ABOUT = "dpsql.about"
"""Schema and table in which the store describes itself."""

FORMAT = 4


@dataclass(frozen=True, slots=True)
class Rollup:
    """A rollup: one row for each unit and group of `table` by the columns `keys`, in the table
    `name`.

    It has the unit, the keys, and the number of rows in `ROWS`. `GROUPS` is the number of groups of
    the unit. `PLACE` is the rank of this group in the order in which queries keep some. For each of
    `sums`, by its canonical text, it has the sum and the number of rows that add to it. If there
    are keys, the rows of `table` have their own columns for groups and place.
    """

    table: str
    name: str
    keys: tuple[str, ...]
    sums: tuple[str, ...] = ()


ROWS, GROUPS, PLACE, UNIT = "rows", "groups", "place", "unit"
"""Columns of a rollup. A column of the table with the same name is renamed."""


def key_column(place: int) -> str:
    """Return the name of a rollup's key column."""
    return f"k{place}"


def turn_columns(rollup: str) -> tuple[str, str]:
    """Return the names of a rollup's `GROUPS` and `PLACE` columns in the rows of its table.

    >>> turn_columns("orders by day")
    ('orders by day: groups', 'orders by day: place')
    """
    return f"{rollup}: {GROUPS}", f"{rollup}: {PLACE}"


def sum_columns(place: int) -> tuple[str, str]:
    """Return the names of a rollup's sum column, and of the number of rows that add to it."""
    return f"s{place}", f"n{place}"


@dataclass(frozen=True, slots=True)
class PreparedStore:
    """The tables and rollups of a store, which `id` identifies.

    It was made from data with the identity `data`, under the policy of this `version`.
    """

    id: str
    data: str
    version: str
    tables: tuple[str, ...]
    rollups: tuple[Rollup, ...] = ()

    @property
    def text(self) -> str:
        """The description as JSON, as the store keeps it."""
        import json  # noqa: PLC0415 - an engine's first answer waits for what it imports

        return json.dumps({"format": FORMAT, **asdict(self)})


def opened(data: str | None, store: PreparedStore | None) -> str | None:
    """Return the identity of the data together with the store, for plans that read both.

    >>> opened("data", None)
    'data'
    """
    return data if store is None else f"{data} {store.id}"


def beside(table: str, column: str) -> str:
    """Return the name of a column of a table on the way to the unit, stored with the rows that link
    to it.

    >>> beside("Orders", "customer_id")
    'orders.customer_id'
    """
    return f"{table}.{column}".lower()


def table_in_store(name: str, store: str = SCHEMA) -> str:
    """Return the name of a store's table in relations.

    >>> table_in_store("orders"), table_in_store("analytics.users")
    ('dpsql_store.orders', 'dpsql_store."analytics.users"')
    """
    return full_name(store, name)


def name_in_store(table: str) -> str | None:
    """Return the name in the store of a table in relations; None for any other table.

    >>> name_in_store("dpsql_store.orders"), name_in_store("orders")
    ('orders', None)
    """
    named = parts(table)
    return named[1] if named is not None and named[0] == SCHEMA else None


def parsed(text: str) -> PreparedStore | None:
    """Parse a store's description; None if another version of dpsql wrote it.

    >>> store = PreparedStore("a", "b", "c", ("orders",), (Rollup("orders", "by day", ("day",)),))
    >>> parsed(store.text) == store, parsed("{}")
    (True, None)
    """
    if not text:
        return None
    import json  # noqa: PLC0415 - an engine's first answer waits for what it imports

    try:
        said: dict[str, Any] = json.loads(text)
        if said.pop("format") != FORMAT:
            return None
        rollups = (
            Rollup(r["table"], r["name"], tuple(r["keys"]), tuple(r["sums"]))
            for r in said.pop("rollups")
        )
        tables = tuple(said.pop("tables"))
        return PreparedStore(**said, tables=tables, rollups=tuple(rollups))
    except (ValueError, KeyError, TypeError):
        return None
