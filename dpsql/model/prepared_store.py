"""What `dpsql prepare` made of the owner's private tables: copies, and sums of them by unit.

A store is about one state of the data and one policy, and says which: of others it is not used.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpsql.model.dataclass import dataclass
from dpsql.model.table_names import full_name, parts

SCHEMA = "dpsql_store"
"""What an engine calls the store, beside the schemas of the owner's database."""

BEFORE = "dpsql_before"
"""What is called so beside a store that is made: the one that is in its place."""

ABOUT = "dpsql.about"
"""The schema and table in which the store says what it is."""

FORMAT = 4


@dataclass(frozen=True, slots=True)
class Rollup:
    """One row for each unit and group of `table` by the columns `keys`, in the table `name`.

    Beside unit and keys it has the rows in `ROWS`, in `GROUPS` in how many of these groups the
    unit is, in `PLACE` which of them this is in the order in which questions keep some, and of each
    of `sums`, by its canonical text, the sum and how many rows add to it. The rows of `table` have
    groups and place of theirs beside them, if there are keys.
    """

    table: str
    name: str
    keys: tuple[str, ...]
    sums: tuple[str, ...] = ()


ROWS, GROUPS, PLACE, UNIT = "rows", "groups", "place", "unit"
"""Columns of a rollup; a column of the table that is called so has another name before it."""


def key_column(place: int) -> str:
    """The column of a rollup's key."""
    return f"k{place}"


def turn_columns(rollup: str) -> tuple[str, str]:
    """What `GROUPS` and `PLACE` of a rollup are called beside the rows that it is of.

    >>> turn_columns("orders by day")
    ('orders by day: groups', 'orders by day: place')
    """
    return f"{rollup}: {GROUPS}", f"{rollup}: {PLACE}"


def sum_columns(place: int) -> tuple[str, str]:
    """The columns of a rollup's sum, and of how many rows add to it."""
    return f"s{place}", f"n{place}"


@dataclass(frozen=True, slots=True)
class PreparedStore:
    """The tables and rollups of a store; `id` tells it from all others.

    It was made of the data with the identity `data`, under the policy of this `version`.
    """

    id: str
    data: str
    version: str
    tables: tuple[str, ...]
    rollups: tuple[Rollup, ...] = ()

    @property
    def text(self) -> str:
        """The same as JSON, as the store keeps it."""
        import json  # noqa: PLC0415 - an engine's first answer waits for what it imports

        return json.dumps({"format": FORMAT, **asdict(self)})


def opened(data: str | None, store: PreparedStore | None) -> str | None:
    """What identifies the data together with what was prepared of it, for plans that read both.

    >>> opened("data", None)
    'data'
    """
    return data if store is None else f"{data} {store.id}"


def beside(table: str, column: str) -> str:
    """What a column of a table towards the unit is called beside the rows that lead there.

    >>> beside("Orders", "customer_id")
    'orders.customer_id'
    """
    return f"{table}.{column}".lower()


def table_in_store(name: str, store: str = SCHEMA) -> str:
    """What a table of a store is called in relations.

    >>> table_in_store("orders"), table_in_store("analytics.users")
    ('dpsql_store.orders', 'dpsql_store."analytics.users"')
    """
    return full_name(store, name)


def name_in_store(table: str) -> str | None:
    """What a table in relations is called in the store; None for any other table.

    >>> name_in_store("dpsql_store.orders"), name_in_store("orders")
    ('orders', None)
    """
    named = parts(table)
    return named[1] if named is not None and named[0] == SCHEMA else None


def parsed(text: str) -> PreparedStore | None:
    """The store that says this of itself; None where another version of dpsql wrote it.

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
