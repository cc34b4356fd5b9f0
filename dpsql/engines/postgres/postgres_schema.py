"""The schema from PostgreSQL's catalogue: declarations only; no row is read.

A constraint counts only if the server enforces it for every row that a query sees. It does not
count if it is NOT VALID, deferrable or NOT ENFORCED, or if its triggers are off. It does not count
for a table with heirs or foreign partitions, because it says nothing of their rows. A foreign
table, like a view, may have different rows at each reading. Texts that may be equal although they
differ have no type.

Proof (PRIVACY.md R101). A fact is about values as they are read. NaN is read as NULL, so no number
that may be NaN is NOT NULL. UNIQUE stays: the server takes all NaN for one value, and 0.0 for -0.0.
A foreign key compares by the server's equality. It is ours between integers, between texts of one
deterministic collation, and else between columns of one type; for CHARACTER it is not.

SECURITY.md S25.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpsql.engines.postgres.enforced_checks import proved
from dpsql.model import tree
from dpsql.model.schema import LONGEST_READ, ForeignKey, SchemaColumn, SchemaTable
from dpsql.model.table_names import full_name

Equality = dict[tuple[str, str], tuple[str, int]]
"""Kind of equality by table and column; columns that identify nothing have none."""
Ask = Callable[[str], Sequence[tuple[Any, ...]]]

BITS = {"smallint": 16, "integer": 32, "bigint": 64}
_TYPES = {
    **dict.fromkeys(BITS, tree.INTEGER),
    "boolean": tree.BOOLEAN,
    "real": tree.DOUBLE,
    "double precision": tree.DOUBLE,
    "text": tree.VARCHAR,
    "character varying": tree.VARCHAR,
    "character": tree.VARCHAR,
    "date": tree.DATE,
    "timestamp without time zone": tree.TIMESTAMP,
    "timestamp with time zone": tree.TIMESTAMPTZ,
    "time without time zone": tree.TIME,
    "uuid": tree.UUID,
}
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_MOST_DIGITS = 38
MOST_BYTES = 4
"""Bytes of the longest character in UTF-8."""

_OURS = (
    "n.nspname NOT IN ('information_schema', 'main') AND n.nspname !~ '^pg_'"
    " AND NOT row_security_active(c.oid)"
)
"""Filter of the schemas. A schema called main would be taken for the first one, and tables with
hidden rows are left out.
"""
_FOREIGN = (
    "EXISTS (WITH RECURSIVE h(o) AS (SELECT c.oid UNION SELECT i.inhrelid FROM h"
    " JOIN pg_inherits i ON i.inhparent = h.o)"
    " SELECT FROM h JOIN pg_class l ON l.oid = h.o WHERE l.relkind = 'f')"
)
"""Condition for tables with rows of other servers or files, which are in no snapshot."""
_OWN_ROWS = (
    "(c.relkind = 'p' OR c.relkind = 'r'"
    " AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid))"
    f" AND NOT {_FOREIGN}"
)
"""Condition for tables with constraints that hold for all rows: no heirs or foreign partitions."""
_DERIVED = (
    f"SELECT n.nspname, c.relname, CASE WHEN {_FOREIGN} THEN 'f' ELSE c.relkind::text END,"
    " CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END"
    f" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OURS}"
    f" AND (c.relkind IN ('v', 'm') OR {_FOREIGN})"
)
"""Views, each with its SELECT if it is evaluated when read, and foreign tables."""
_COLUMNS = (
    "SELECT n.nspname, c.relname, a.attgenerated::text = 'v', a.attname,"
    " format_type(a.atttypid, a.atttypmod),"
    " CASE WHEN coalesce(l.collisdeterministic, true) THEN a.attcollation::bigint END,"
    f" {_OWN_ROWS}, a.attnotnull"
    " AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'n'"
    " AND NOT k.convalidated AND k.conkey = ARRAY[a.attnum])"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " JOIN pg_attribute a ON a.attrelid = c.oid"
    " LEFT JOIN pg_collation l ON l.oid = a.attcollation"
    " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped"
    f" AND has_column_privilege(c.oid, a.attnum, 'SELECT') AND {_OURS} ORDER BY c.oid, a.attnum"
)
_NAMES = (
    "ARRAY(SELECT a.attname::text FROM unnest({keys}) WITH ORDINALITY AS k(n, place)"
    " JOIN pg_attribute a ON a.attrelid = {table} AND a.attnum = k.n ORDER BY k.place)"
)
_ENFORCED = (
    "o.convalidated AND coalesce((to_jsonb(o) ->> 'conenforced')::boolean, true)"
    f" AND {_OWN_ROWS} AND {_OURS}"
)
_CHECKS = (
    "SELECT n.nspname, c.relname, pg_get_constraintdef(o.oid)"
    " FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace"
    f" WHERE o.contype = 'c' AND {_ENFORCED} ORDER BY o.oid"
)
_CONSTRAINTS = (
    "SELECT n.nspname, c.relname, o.contype::text, "
    f"{_NAMES.format(keys='o.conkey', table='o.conrelid')}, m.nspname, f.relname, "
    f"{_NAMES.format(keys='o.confkey', table='o.confrelid')}"
    " FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_class f ON f.oid = o.confrelid"
    " LEFT JOIN pg_namespace m ON m.oid = f.relnamespace"
    " WHERE o.contype IN ('p', 'u', 'f') AND NOT o.condeferrable"
    " AND NOT coalesce((to_jsonb(o) ->> 'conperiod')::boolean, false)"
    " AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgconstraint = o.oid AND t.tgenabled <> 'O')"
    " AND (o.contype = 'f' OR EXISTS (SELECT FROM pg_index x WHERE x.indexrelid = o.conindid"
    " AND x.indisvalid AND x.indisunique AND x.indimmediate AND x.indpred IS NULL))"
    f" AND {_ENFORCED} ORDER BY o.oid"
)


def tables(ask: Ask) -> tuple[SchemaTable, ...]:
    """Return all tables and views that the role may read, in the order of their creation."""
    columns: dict[str, list[SchemaColumn]] = defaultdict(list)
    enforced: dict[str, dict[str, str]] = defaultdict(dict)
    equality: Equality = {}
    for schema, name, computed, column, declared, collation, own_rows, not_null in ask(_COLUMNS):
        table = _name(schema, name)
        added = _column(column, declared, collation, never_null=own_rows and not_null)
        columns[table].append(replace(added, computed=computed))
        if added.type is not None and added.identifies:
            equality[table, column] = _equality(declared, collation)
        enforced[table] |= {column: declared} if own_rows and added.type else {}
    unique = defaultdict[str, list[tuple[str, ...]]](list)
    primary: dict[str, tuple[str, ...]] = {}
    foreign: dict[str, list[ForeignKey]] = defaultdict(list)
    for schema, name, kind, own, their_schema, their_name, theirs in ask(_CONSTRAINTS):
        table = _name(schema, name)
        if kind == "f":
            key = ForeignKey(tuple(own), _name(their_schema, their_name), tuple(theirs))
            foreign[table].append(replace(key, exact=_is_exact(table, key, equality)))
        elif all((table, column) in equality for column in own):
            unique[table].append(tuple(own))
            primary |= {table: tuple(own)} if kind == "p" else {}
    checks = _checks(ask, enforced)
    listed_tables = (
        SchemaTable(
            name=name,
            columns=tuple(listed),
            checks=checks[name],
            unique_keys=tuple(unique[name]),
            primary_key=primary.get(name, ()),
            foreign_keys=tuple(foreign[name]),
        )
        for name, listed in columns.items()
    )
    derived = {_name(schema, name): how for schema, name, how in _derived(ask)}
    return tuple(replace(table, **derived.get(table.name, {})) for table in listed_tables)


def _derived(ask: Ask) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield schema and name of each view and foreign table, and how its rows are derived."""
    for schema, name, kind, query in ask(_DERIVED):
        match kind:
            case "m":
                yield schema, name, {"materialized": True}
            case "v":
                yield schema, name, {"view": True, "query": query, "spelling": "postgres"}
            case _:
                yield schema, name, {"view": True, "foreign": True}


def _checks(
    ask: Ask, enforced: Mapping[str, Mapping[str, str]]
) -> defaultdict[str, tuple[str, ...]]:
    """Return the facts about each table's columns, from their types and CHECK constraints."""
    definitions: dict[str, list[str]] = defaultdict(list)
    for schema, name, definition in ask(_CHECKS):
        definitions[_name(schema, name)].append(definition)
    checks = ((name, proved(definitions[name], types)) for name, types in enforced.items())
    return defaultdict(tuple, checks)


def _column(name: str, declared: str, collation: int | None, *, never_null: bool) -> SchemaColumn:
    """Return a column with its type in our terms; `collation` is None if it is not
    deterministic.
    """
    binary = collation is not None
    kind = sql_type(declared) if binary else None
    return SchemaColumn(
        name,
        kind,
        declared,
        not_null=never_null and not _may_be_nan(kind),
        bits=BITS.get(declared, 64),
        identifies=binary and re.match(r"character(\(|$)|.*citext$", declared) is None,
        may_be_long=kind == tree.VARCHAR and _may_be_long(declared),
    )


def _may_be_nan(kind: tree.SqlType | None) -> bool:
    """Test whether a value may be NaN, which is read as NULL."""
    return kind is not None and kind.kind in (tree.Kind.DECIMAL, tree.Kind.DOUBLE)


def _may_be_long(declared: str) -> bool:
    """Test whether a text type admits texts of more bytes than a key that is read.

    >>> names = [f"character varying{n}" for n in ("", "(16384)", "(16385)")]
    >>> [_may_be_long(name) for name in names]
    [True, False, True]
    """
    size = re.search(r"\((\d+)\)$", declared)
    return size is None or int(size[1]) > LONGEST_READ // MOST_BYTES


def _equality(declared: str, collation: int) -> tuple[str, int]:
    """Return a label: the server's equality of columns with one label is equality here.

    >>> _equality("integer", 0) == _equality("bigint", 0)
    True
    >>> _equality("text", 100) == _equality("character varying(9)", 100)
    True
    """
    bare = re.sub(r"\(.*\)", "", declared)
    return "integer" if bare in BITS else "text" if bare == "character varying" else bare, collation


def _is_exact(table: str, key: ForeignKey, equality: Equality) -> bool:
    """Test whether both sides of each pair of a foreign key of `table` have one kind of equality,
    so that equal on the server means equal in dpsql.
    """
    theirs = (equality.get((key.table, column)) for column in key.referenced)
    return all(
        here is not None and here == there
        for here, there in zip((equality.get((table, c)) for c in key.columns), theirs, strict=True)
    )


def _name(schema: str, table: str) -> str:
    return full_name(None if schema == "public" else schema, table)


def sql_type(declared: str) -> tree.SqlType | None:
    """Return PostgreSQL's type in our terms; None if we have no such type.

    >>> str(sql_type("numeric(12,2)")), str(sql_type("character varying(20)"))
    ('DECIMAL(12, 2)', 'VARCHAR')
    >>> sql_type("numeric") is sql_type("bytea") is None
    True
    """
    if match := _NUMERIC.fullmatch(declared):
        precision, scale = int(match[1]), int(match[2])
        return tree.decimal(precision, scale) if 0 <= scale <= precision <= _MOST_DIGITS else None
    return _TYPES.get(re.sub(r"\(\d+\)", "", declared))
