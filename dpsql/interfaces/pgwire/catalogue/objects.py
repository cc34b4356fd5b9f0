"""The policy's tables as rows of the catalogue, with OIDs from 16384 like user objects.

Hidden or undeclared columns do not appear. Only a table's own key and its links are constraints.
Nothing about storage or data appears.

SECURITY.md S17.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

from dpsql.interfaces.comments import column_comment, table_comment
from dpsql.interfaces.pgwire.catalogue.naming import constraint_name, quote
from dpsql.interfaces.pgwire.catalogue.recorded import rows, sql
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.table_names import FIRST, shown
from dpsql.model.vocabulary import ColumnPolicy, Policy, TablePolicy

OWNER, DATABASE = "dpsql", "dpsql"
HEAP, BTREE = 2, 403
FIRST_OID, PUBLIC_OID = 16384, 2200
FIRST_SYNTHETIC = 15_000_000
"""First OID of synthetic tables, which differ by analyst."""
_TYPE, _CLASS, _CONSTRAINT, _NAMESPACE = 1247, 1259, 2606, 2615
"""Catalogues of objects that depend on each other."""
_SYSTEM_COLUMNS = {
    "tableoid": type_oids.OID,
    "cmax": type_oids.CID,
    "xmax": type_oids.XID,
    "cmin": type_oids.CID,
    "xmin": type_oids.XID,
    "ctid": type_oids.TID,
}
"""Types of the system columns of every table, numbered -6 to -1."""

Row = dict[str, Any]


@cache
def _defaults() -> dict[str, Row]:
    """Return the default values of every row, by relation."""
    defaults: dict[str, Row] = defaultdict(dict)
    for relation, pairs in re.findall(r"(?m)^(\w+) (.*)$", sql("defaults.txt")):
        defaults[relation] |= dict(pair.split("=", 1) for pair in pairs.split())
    return defaults


@cache
def _recorded(relation: str, **values: str) -> dict[str, str]:
    """Return PostgreSQL's own row with these values."""
    return next(row for row in rows(relation) if values.items() <= row.items())


@dataclass(frozen=True, slots=True)
class Shown:
    """A table in the catalogue: its columns, and the OIDs of the table and of its key's index."""

    table: TablePolicy
    columns: tuple[ColumnPolicy, ...]
    oid: int
    index: int | None
    namespace: int

    @property
    def name(self) -> str:
        """Name of the table in its schema."""
        return shown(self.table.name)[1]

    @property
    def whole(self) -> str:
        """Name of the table with its schema, as SQL."""
        return ".".join(map(quote, shown(self.table.name)))

    def number(self, column: str) -> int | None:
        """Return the number of a column, from 1, or None."""
        names = [c.name.lower() for c in self.columns]
        return names.index(column.lower()) + 1 if column.lower() in names else None


@dataclass(slots=True)
class Objects:
    """Rows by relation, and the next free OID."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    oid: int = FIRST_OID

    def next(self) -> int:
        self.oid += 1
        return self.oid - 1

    def add(self, relation: str, **row: Any) -> None:
        self.rows[relation].append(_defaults()[relation] | row)


def policy_objects(policy: Policy, database: str = DATABASE) -> dict[str, list[Row]]:
    """Return all catalogue rows of the policy, by relation. Missing fields are NULL."""
    catalogue = Objects()
    for analyst, _ in policy.analysts:
        catalogue.add("pg_authid", oid=catalogue.next(), rolname=analyst)
    catalogue.add("pg_database", oid=catalogue.next(), datname=database)
    namespaces = {FIRST[0]: PUBLIC_OID}
    for schema in sorted({shown(table.name)[0] for table in policy.tables} - {*namespaces}):
        namespaces[schema] = catalogue.next()
        catalogue.add("pg_namespace", oid=namespaces[schema], nspname=schema)
    tables = [
        _table(policy, table, catalogue, namespaces[shown(table.name)[0]])
        for table in policy.tables
    ]
    for item in tables:
        _link(item, tables, catalogue)
    return dict(catalogue.rows)


def database_of(rows: dict[str, list[Row]]) -> str:
    """Return the name of the database in the rows of `objects`."""
    return next((str(row["datname"]) for row in rows.get("pg_database", ())), DATABASE)


def synthetic_objects(policy: Policy, tables: Sequence[TablePolicy]) -> dict[str, list[Row]]:
    """Return the rows of an analyst's synthetic tables, to add to those of the policy."""
    catalogue = Objects(oid=FIRST_SYNTHETIC)
    for table in tables:
        item = _table(policy, table, catalogue, PUBLIC_OID)
        spelled: Row = {"kind": type_oids.REGCLASS, "oid": item.oid, "spelled": quote(item.name)}
        catalogue.add("names", **spelled, shown=True)
    return dict(catalogue.rows)


def _table(policy: Policy, table: TablePolicy, catalogue: Objects, namespace: int) -> Shown:
    columns = tuple(c for c in table.columns if not c.hidden)
    oid = catalogue.next()
    plain = Shown(table, columns, oid, None, namespace)
    keyed = bool(table.key) and all(plain.number(k) for k in table.key)
    item = replace(plain, index=catalogue.next() if keyed else None)
    links = [t.link for t in policy.tables if t.link is not None]
    linked = table.link is not None or any(k.table.lower() == table.name.lower() for k in links)
    _class(
        catalogue,
        oid,
        item.name,
        "r",
        relnamespace=namespace,
        reltype=_row_types(item, catalogue),
        relnatts=len(columns),
        relhasindex=keyed,
        relhastriggers=linked,
        relacl=[f"{OWNER}=arwdDxt/{OWNER}"],
    )
    _depends(catalogue, (_CLASS, oid), (_NAMESPACE, namespace), "n")
    keys = {k.lower() for k in table.key} if keyed else set()
    for number, column in enumerate(columns, 1):
        _column(catalogue, oid, column, number, not_null=column.name.lower() in keys)
        _comment(catalogue, oid, number, column_comment(policy, table, column))
    _comment(catalogue, oid, 0, table_comment(policy, table))
    for number, (name, type_oid) in enumerate(_SYSTEM_COLUMNS.items(), -6):
        attribute(catalogue, oid, name, number, type_oid, attnotnull=True)
    if item.index is not None:
        _key(item, catalogue)
    return item


def _class(catalogue: Objects, oid: int, name: str, kind: str, **more: Any) -> None:
    index = kind == "i"
    catalogue.add(
        "pg_class",
        oid=oid,
        relname=name,
        relam=BTREE if index else HEAP,
        reltuples=0 if index else -1,
        relpages=int(index),
        relkind=kind,
        relreplident="n" if index else "d",
        **more,
    )


def _row_types(item: Shown, catalogue: Objects) -> int:
    """Add the row type of a table and its array type, and return the OID of the row type."""
    name, relation = item.name, item.oid
    row, array = catalogue.next(), catalogue.next()
    record: Row = {"typinput": 2290, "typoutput": 2291, "typreceive": 2402, "typsend": 2403}
    record |= {"oid": row, "typname": name, "typtype": "c", "typcategory": "C", "typanalyze": 0}
    record |= {"typrelid": relation, "typsubscript": 0, "typelem": 0, "typarray": array}
    many: Row = {"typinput": 750, "typoutput": 751, "typreceive": 2400, "typsend": 2401}
    many |= {"oid": array, "typname": f"_{name}", "typtype": "b", "typcategory": "A"}
    many |= {"typrelid": 0, "typsubscript": 6179, "typelem": row, "typarray": 0}
    catalogue.add("pg_type", **record, typnamespace=item.namespace)
    catalogue.add("pg_type", **many, typanalyze=3816, typnamespace=item.namespace)
    _depends(catalogue, (_TYPE, array), (_TYPE, row))
    _depends(catalogue, (_TYPE, row), (_CLASS, relation))
    return row


def _column(
    catalogue: Objects, relation: int, column: ColumnPolicy, number: int, *, not_null: bool
) -> None:
    oid, typmod = _oid_of(column), type_oids.typmod_of(column.type)
    attribute(catalogue, relation, column.name, number, oid, atttypmod=typmod, attnotnull=not_null)


def _oid_of(column: ColumnPolicy) -> int:
    """Return the type of a column, as results report it."""
    return type_oids.oid_of(column.type, wide=column.needs_more_bits)


def attribute(
    catalogue: Objects, relation: int, name: str, number: int, oid: int, **more: Any
) -> None:
    """Add a column of type `oid` to a relation."""
    kind = _recorded("pg_type", oid=str(oid))
    row = {
        "attrelid": relation,
        "attname": name,
        "atttypid": oid,
        "attstattarget": -1 if number > 0 else 0,
        "attnum": number,
        "atttypmod": -1,
        "attlen": kind["typlen"],
        "attbyval": kind["typbyval"],
        "attalign": kind["typalign"],
        "attstorage": kind["typstorage"],
        "attcollation": kind["typcollation"],
    }
    catalogue.add("pg_attribute", **row | more)


def _comment(catalogue: Objects, oid: int, column: int, text: str | None) -> None:
    if text is not None:
        catalogue.add("pg_description", objoid=oid, objsubid=column, description=text)


def _key(item: Shown, catalogue: Objects) -> None:
    """Add the index and the constraint of a table's own key."""
    table, index, constraint = item.table, item.index, catalogue.next()
    assert index is not None
    name, space = constraint_name(item.name, (), "pkey"), item.namespace
    numbers = [n for n in map(item.number, table.key) if n is not None]
    columns = [item.columns[n - 1] for n in numbers]
    types = [str(_oid_of(c)) for c in columns]
    _class(catalogue, index, name, "i", reltype=0, relnatts=len(numbers), relhasindex=False,
           relhastriggers=False, relnamespace=space)  # fmt: skip
    for number, column in enumerate(columns, 1):
        _column(catalogue, index, column, number, not_null=False)
    operators = {"opcmethod": str(BTREE), "opcdefault": "t"}
    catalogue.add(
        "pg_index",
        indexrelid=index,
        indrelid=item.oid,
        indnatts=len(numbers),
        indnkeyatts=len(numbers),
        indkey=numbers,
        indcollation=[_recorded("pg_type", oid=t)["typcollation"] for t in types],
        indclass=[_recorded("pg_opclass", **operators, opcintype=t)["oid"] for t in types],
        indoption=[0] * len(numbers),
    )
    listed = ", ".join(quote(c.name) for c in columns)
    more: Row = {"conrelid": item.oid, "conindid": index, "conkey": numbers}
    _constraint(catalogue, constraint, name, "p", connamespace=space, **more)
    for number in numbers:
        _depends(catalogue, (_CONSTRAINT, constraint), (_CLASS, item.oid, number), "a")
    _depends(catalogue, (_CLASS, index), (_CONSTRAINT, constraint))
    _define(catalogue, "constraint", constraint, f"PRIMARY KEY ({listed})")
    statement = f"CREATE UNIQUE INDEX {quote(name)} ON {item.whole} USING btree ({listed})"
    _define(catalogue, "index", index, statement)


def _constraint(catalogue: Objects, oid: int, name: str, kind: str, **more: Any) -> None:
    foreign = kind == "f"
    catalogue.add(
        "pg_constraint",
        oid=oid,
        conname=name,
        contype=kind,
        confupdtype="a" if foreign else " ",
        confdeltype="a" if foreign else " ",
        confmatchtype="s" if foreign else " ",
        **more,
    )


def _link(item: Shown, tables: list[Shown], catalogue: Objects) -> None:
    """Add the foreign key of a link if all of its columns are shown."""
    link = item.table.link
    if link is None:
        return
    target = next((s for s in tables if s.table.name.lower() == link.table.lower()), None)
    if target is None:
        return
    here = [n for n in map(item.number, link.columns) if n is not None]
    there = [n for n in map(target.number, link.keys) if n is not None]
    if not len(here) == len(there) == len(link.columns):
        return
    columns, keys = [item.columns[n - 1] for n in here], [target.columns[n - 1] for n in there]
    name = constraint_name(item.name, tuple(column.name for column in columns), "fkey")
    kinds = [str(_oid_of(key)) for key in keys]
    equals = [
        _recorded("pg_operator", oprname="=", oprleft=kind, oprright=kind)["oid"] for kind in kinds
    ]
    more: Row = {"conrelid": item.oid, "conindid": target.index or 0, "confrelid": target.oid}
    more |= {"conkey": here, "confkey": there, "connamespace": item.namespace}
    more |= dict.fromkeys(("conpfeqop", "conppeqop", "conffeqop"), equals)
    oid = catalogue.next()
    _constraint(catalogue, oid, name, "f", **more)
    for own, key in zip(here, there, strict=True):
        _depends(catalogue, (_CONSTRAINT, oid), (_CLASS, item.oid, own), "a")
        _depends(catalogue, (_CONSTRAINT, oid), (_CLASS, target.oid, key), "n")
    if target.index is not None:
        _depends(catalogue, (_CONSTRAINT, oid), (_CLASS, target.index), "n")
    here_too = target.namespace == PUBLIC_OID
    from_, to = (", ".join(quote(c.name) for c in side) for side in (columns, keys))
    references = f"{quote(target.name) if here_too else target.whole}({to})"
    text = f"FOREIGN KEY ({from_}) REFERENCES {references}"
    _define(catalogue, "constraint", oid, text)


def _depends(
    catalogue: Objects, on: tuple[int, ...], what: tuple[int, ...], kind: str = "i"
) -> None:
    """Add a dependency between two objects: (catalogue, OID) and maybe a column."""
    (classid, objid), (refclassid, refobjid, *column) = on, what
    refobjsubid = column[0] if column else 0
    catalogue.add("pg_depend", classid=classid, objid=objid, refclassid=refclassid,
                  refobjid=refobjid, refobjsubid=refobjsubid, deptype=kind)  # fmt: skip


def _define(catalogue: Objects, kind: str, oid: int, text: str) -> None:
    catalogue.add("definitions", kind=kind, oid=oid, definition=text)
