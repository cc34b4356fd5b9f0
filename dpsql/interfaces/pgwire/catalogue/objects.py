"""The policy's tables as rows of the catalogue, numbered from 16384 as users' objects are.

A column that is hidden or not declared is in none of them. Only the table's own key and the links
are constraints; nothing is known of storage or data.

SECURITY.md S17.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from dpsql.interfaces.comments import column_comment, table_comment
from dpsql.interfaces.pgwire.catalogue.kinds import PgType, pg_type
from dpsql.interfaces.pgwire.catalogue.naming import constraint_name, quote
from dpsql.interfaces.pgwire.catalogue.recorded import rows
from dpsql.interfaces.pgwire.values.type_oids import typmod_of
from dpsql.model.vocabulary import ColumnPolicy, Policy, TablePolicy

OWNER, OWNER_OID, DATABASE = "dpsql", 10, "dpsql"
PUBLIC, PG_CLASS, HEAP, BTREE = 2200, 1259, 2, 403
FIRST_OID = 16384
_SYSTEM_COLUMNS = {
    "tableoid": (26, 4, "i"),
    "cmax": (29, 4, "i"),
    "xmax": (28, 4, "i"),
    "cmin": (29, 4, "i"),
    "xmin": (28, 4, "i"),
    "ctid": (27, 6, "s"),
}
"""What every table has beside its columns, numbered -6 to -1: type, length, alignment."""

Row = dict[str, Any]


@cache
def _operator_class(oid: int) -> int:
    """The b-tree operator class of a type."""
    wanted = {"opcmethod": str(BTREE), "opcdefault": "t", "opcintype": str(oid)}
    return next(int(r["oid"]) for r in rows("pg_opclass") if wanted.items() <= r.items())


@cache
def _equals(oid: int) -> int:
    """The operator that says whether two values of a type are equal."""
    wanted = {"oprname": "=", "oprleft": str(oid), "oprright": str(oid)}
    return next(int(r["oid"]) for r in rows("pg_operator") if wanted.items() <= r.items())


@dataclass(frozen=True, slots=True)
class Shown:
    """A table as it is shown: its columns, and the numbers of the table and of its key's index."""

    table: TablePolicy
    columns: tuple[ColumnPolicy, ...]
    oid: int
    index: int | None

    def number(self, column: str) -> int | None:
        """The number of a column, from 1."""
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
        self.rows[relation].append(row)


def objects(policy: Policy) -> dict[str, list[Row]]:
    """Every row of the catalogue that comes from the policy, by relation; NULL where absent."""
    made = Objects()
    _roles(policy, made)
    shown = [_table(policy, table, made) for table in policy.tables]
    for item in shown:
        _link(item, shown, made)
    return dict(made.rows)


def _roles(policy: Policy, made: Objects) -> None:
    for analyst, _ in policy.analysts:
        made.add(
            "pg_authid",
            **dict.fromkeys("rolsuper rolcreaterole rolcreatedb".split(), False),
            **dict.fromkeys("rolreplication rolbypassrls".split(), False),
            oid=made.next(),
            rolname=analyst,
            rolinherit=True,
            rolcanlogin=True,
            rolconnlimit=-1,
        )
    made.add(
        "pg_database",
        oid=made.next(),
        datname=DATABASE,
        datdba=OWNER_OID,
        encoding=6,
        datlocprovider="c",
        datistemplate=False,
        datallowconn=True,
        datconnlimit=-1,
        datfrozenxid=0,
        datminmxid=1,
        dattablespace=1663,
        datcollate="C",
        datctype="C",
    )


def _table(policy: Policy, table: TablePolicy, made: Objects) -> Shown:
    columns = tuple(c for c in table.columns if not c.hidden)
    oid = made.next()
    plain = Shown(table, columns, oid, None)
    keyed = bool(table.key) and all(plain.number(k) for k in table.key)
    shown = Shown(table, columns, oid, made.next() if keyed else None)
    links = [t.link for t in policy.tables if t.link is not None]
    linked = table.link is not None or any(k.table.lower() == table.name.lower() for k in links)
    readers = [f"{quote(analyst)}=r/{OWNER}" for analyst, _ in policy.analysts]
    _class(
        made,
        oid,
        table.name,
        "r",
        reltype=_row_types(table.name, oid, made),
        relnatts=len(columns),
        relhasindex=keyed,
        relhastriggers=linked,
        relacl=[f"{OWNER}=arwdDxt/{OWNER}", *readers],
    )
    keys = {k.lower() for k in table.key} if keyed else set()
    for number, column in enumerate(columns, 1):
        kind = pg_type(column.type)
        not_null = column.name.lower() in keys
        _attribute(made, oid, column.name, number, kind, typmod_of(column.type), not_null=not_null)
        _comment(made, oid, number, column_comment(policy, table, column))
    _comment(made, oid, 0, table_comment(policy, table))
    for number, (name, (type_oid, length, align)) in enumerate(_SYSTEM_COLUMNS.items(), -6):
        kind = PgType(type_oid, "", length, type_oid != _SYSTEM_COLUMNS["ctid"][0], align, "p")
        _attribute(made, oid, name, number, kind, -1, not_null=True)
    if shown.index is not None:
        _key(shown, made)
    return shown


def _class(made: Objects, oid: int, name: str, kind: str, **more: Any) -> None:
    index = kind == "i"
    no = "relchecks relallvisible reloftype relrewrite reltoastrelid reltablespace"
    made.add(
        "pg_class",
        **dict.fromkeys(no.split(), 0),
        **dict.fromkeys("relisshared relhasrules relhassubclass relrowsecurity".split(), False),
        **dict.fromkeys("relforcerowsecurity relispartition".split(), False),
        **dict.fromkeys("relfilenode relfrozenxid relminmxid".split(), 0),
        oid=oid,
        relname=name,
        relnamespace=PUBLIC,
        relowner=OWNER_OID,
        relam=BTREE if index else HEAP,
        reltuples=0 if index else -1,
        relpages=int(index),
        relpersistence="p",
        relkind=kind,
        relispopulated=True,
        relreplident="n" if index else "d",
        **more,
    )


def _row_types(name: str, relation: int, made: Objects) -> int:
    """The type of a table's rows and the type of their arrays, as every table has them."""
    row, array = made.next(), made.next()
    both: Row = {"typnamespace": PUBLIC, "typowner": OWNER_OID, "typlen": -1, "typbyval": False}
    both |= {"typispreferred": False, "typisdefined": True, "typdelim": ",", "typalign": "d"}
    both |= {"typstorage": "x", "typnotnull": False, "typbasetype": 0, "typtypmod": -1}
    both |= {"typndims": 0, "typcollation": 0, "typmodin": 0, "typmodout": 0}
    record: Row = {"typinput": 2290, "typoutput": 2291, "typreceive": 2402, "typsend": 2403}
    record |= {"oid": row, "typname": name, "typtype": "c", "typcategory": "C", "typanalyze": 0}
    record |= {"typrelid": relation, "typsubscript": 0, "typelem": 0, "typarray": array}
    many: Row = {"typinput": 750, "typoutput": 751, "typreceive": 2400, "typsend": 2401}
    many |= {"oid": array, "typname": f"_{name}", "typtype": "b", "typcategory": "A"}
    many |= {"typrelid": 0, "typsubscript": 6179, "typelem": row, "typarray": 0}
    made.add("pg_type", **both, **record)
    made.add("pg_type", **both, **many, typanalyze=3816)
    return row


def _attribute(
    made: Objects, relation: int, name: str, number: int, kind: PgType, mod: int, *, not_null: bool
) -> None:
    no = "atthasdef atthasmissing attisdropped"
    made.add(
        "pg_attribute",
        **dict.fromkeys(no.split(), False),
        **dict.fromkeys("attcompression attidentity attgenerated".split(), ""),
        attrelid=relation,
        attname=name,
        atttypid=kind.oid,
        attstattarget=-1 if number > 0 else 0,
        attlen=kind.length,
        attnum=number,
        attndims=0,
        attcacheoff=-1,
        atttypmod=mod,
        attbyval=kind.by_value,
        attalign=kind.align,
        attstorage=kind.storage,
        attnotnull=not_null,
        attislocal=True,
        attinhcount=0,
        attcollation=kind.collation,
    )


def _comment(made: Objects, oid: int, column: int, text: str | None) -> None:
    if text is not None:
        row = {"objoid": oid, "classoid": PG_CLASS, "objsubid": column, "description": text}
        made.add("pg_description", **row)


def _key(shown: Shown, made: Objects) -> None:
    """The index and the constraint of a table's own key."""
    table, index, constraint = shown.table, shown.index, made.next()
    assert index is not None
    name = constraint_name(table.name, (), "pkey")
    numbers = [n for n in map(shown.number, table.key) if n is not None]
    columns = [shown.columns[n - 1] for n in numbers]
    kinds = [pg_type(c.type) for c in columns]
    _class(made, index, name, "i", reltype=0, relnatts=len(numbers), relhasindex=False,
           relhastriggers=False)  # fmt: skip
    for number, (column, kind) in enumerate(zip(columns, kinds, strict=True), 1):
        _attribute(made, index, column.name, number, kind, typmod_of(column.type), not_null=False)
    made.add(
        "pg_index",
        **dict.fromkeys("indisunique indisprimary indimmediate".split(), True),
        **dict.fromkeys("indisvalid indisready indislive".split(), True),
        **dict.fromkeys("indnullsnotdistinct indisexclusion indisclustered".split(), False),
        **dict.fromkeys("indcheckxmin indisreplident".split(), False),
        indexrelid=index,
        indrelid=shown.oid,
        indnatts=len(numbers),
        indnkeyatts=len(numbers),
        indkey=numbers,
        indcollation=[k.collation for k in kinds],
        indclass=[_operator_class(k.oid) for k in kinds],
        indoption=[0] * len(numbers),
    )
    listed = ", ".join(quote(c.name) for c in columns)
    _constraint(made, constraint, name, "p", shown.oid, index, conkey=numbers)
    _define(made, "constraint", constraint, f"PRIMARY KEY ({listed})")
    where = f"{quote('public')}.{quote(table.name)}"
    made_by = f"CREATE UNIQUE INDEX {quote(name)} ON {where} USING btree ({listed})"
    _define(made, "index", index, made_by)


def _constraint(
    made: Objects, oid: int, name: str, kind: str, relation: int, index: int, **more: Any
) -> None:
    foreign = kind == "f"
    made.add(
        "pg_constraint",
        **dict.fromkeys("condeferrable condeferred".split(), False),
        **{"confrelid": 0, **more},
        oid=oid,
        conname=name,
        connamespace=PUBLIC,
        contype=kind,
        convalidated=True,
        conrelid=relation,
        contypid=0,
        conindid=index,
        conparentid=0,
        confupdtype="a" if foreign else " ",
        confdeltype="a" if foreign else " ",
        confmatchtype="s" if foreign else " ",
        conislocal=True,
        coninhcount=0,
        connoinherit=True,
    )


def _link(item: Shown, shown: list[Shown], made: Objects) -> None:
    """The foreign key that a link declares, where both of its columns are shown."""
    link = item.table.link
    if link is None:
        return
    target = next((s for s in shown if s.table.name.lower() == link.table.lower()), None)
    here = item.number(link.column)
    there = target.number(link.key) if target is not None else None
    if target is None or here is None or there is None:
        return
    column, key = item.columns[here - 1], target.columns[there - 1]
    name = constraint_name(item.table.name, (column.name,), "fkey")
    equals = [_equals(pg_type(key.type).oid)]
    more = {"confrelid": target.oid, "conkey": [here], "confkey": [there]}
    more |= {"conpfeqop": equals, "conppeqop": equals, "conffeqop": equals}
    oid = made.next()
    _constraint(made, oid, name, "f", item.oid, target.index or 0, **more)
    references = f"{quote(target.table.name)}({quote(key.name)})"
    _define(made, "constraint", oid, f"FOREIGN KEY ({quote(column.name)}) REFERENCES {references}")


def _define(made: Objects, kind: str, oid: int, text: str) -> None:
    made.add("definitions", kind=kind, oid=oid, definition=text)
