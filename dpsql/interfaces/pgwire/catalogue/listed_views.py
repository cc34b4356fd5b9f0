"""Views of a session as rows of the catalogue, in a schema that other sessions do not see."""

from __future__ import annotations

from typing import TypeAlias

from dpsql.interfaces.pgwire.catalogue.naming import quote
from dpsql.interfaces.pgwire.catalogue.objects import Objects, Row, attribute
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from dpsql.model.dataclass import dataclass

SCHEMA, SCHEMA_OID, FIRST_VIEW = "pg_temp_1", 16_000_000, 16_000_000
"""Schema of a session's own objects, and numbers that no object of a policy has."""


@dataclass(frozen=True, slots=True)
class View:
    """A name for a text without references to other views. `number` is unique, from 1."""

    name: str
    text: str
    columns: tuple[WireColumn, ...]
    number: int

    @property
    def oid(self) -> int:
        """OID of the view in the catalogue."""
        return FIRST_VIEW + self.number


Views: TypeAlias = tuple[View, ...]


def rows_of(views: Views) -> dict[str, list[Row]]:
    """Return the catalogue rows of these views, by relation; empty without views."""
    catalogue = Objects()
    if views:
        catalogue.add("pg_namespace", oid=SCHEMA_OID, nspname=SCHEMA, nspacl=None)
    for view in views:
        size = len(view.columns)
        storage: Row = {"relam": 0, "reltuples": -1, "relpages": 0, "relreplident": "n"}
        storage |= {"reltype": 0, "relhasindex": False, "relhastriggers": False}
        storage |= {"relnamespace": SCHEMA_OID, "relpersistence": "t", "relhasrules": True}
        catalogue.add(
            "pg_class", oid=view.oid, relname=view.name, relkind="v", relnatts=size, **storage
        )
        for number, column in enumerate(view.columns, 1):
            attribute(catalogue, view.oid, column.name, number, column.oid, atttypmod=column.typmod,
                      attnotnull=False)  # fmt: skip
        catalogue.add("definitions", kind="view", oid=view.oid, definition=f" {view.text};")
        spelled: Row = {"kind": type_oids.REGCLASS, "oid": view.oid}
        catalogue.add("names", **spelled, spelled=quote(view.name), shown=True)
    return dict(catalogue.rows)
