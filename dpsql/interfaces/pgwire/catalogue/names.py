"""Objects by name and by OID, for regclass and similar types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy

from dpsql.interfaces.pgwire.catalogue import recorded
from dpsql.interfaces.pgwire.catalogue.naming import parts, quote
from dpsql.interfaces.pgwire.catalogue.objects import Row, database_of
from dpsql.interfaces.pgwire.catalogue.shadow import EXTRA, SHADOWS
from dpsql.interfaces.pgwire.catalogue.spending import REPORTS
from dpsql.interfaces.pgwire.catalogue.translation import oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import PgColumn, Relation
from dpsql.interfaces.pgwire.values.type_oids import oid_of
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import identifier

SEARCH_PATH = ("pg_catalog", "public")
NAMESPACES = {"11": "pg_catalog", "99": "pg_toast", "2200": "public", "13207": "information_schema"}
_SPELLED = {
    "bit": "bit",
    "bool": "boolean",
    "bpchar": "character",
    "char": '"char"',
    "float4": "real",
    "float8": "double precision",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "interval": "interval",
    "numeric": "numeric",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "timetz": "time with time zone",
    "varbit": "bit varying",
    "varchar": "character varying",
}
"""SQL names of types that differ from pg_type."""

_ALSO = {
    "int": "int4",
    "decimal": "numeric",
    "dec": "numeric",
    "float": "float8",
    "char varying": "varchar",
    "timestamp": "timestamp",
    "time": "time",
    "character": "bpchar",
}
"""Further SQL names of types. `char` alone means bpchar; "char" in quotes is its own type."""

_KINDS = {
    oids.REGCLASS: ("pg_class", "relname", "relnamespace"),
    oids.REGPROC: ("pg_proc", "proname", "pronamespace"),
    oids.REGTYPE: ("pg_type", "typname", "typnamespace"),
    oids.REGNAMESPACE: ("pg_namespace", "nspname", None),
    oids.REGROLE: ("pg_authid", "rolname", None),
}


@dataclass(frozen=True, slots=True)
class _Named:
    kind: int
    oid: int
    schema: str | None
    name: str


class ShadowNames:
    """Names of one shadow; see `dpsql.interfaces.pgwire.catalogue.translation.pg_terms.Names`."""

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self._named, self._database = list(_all(rows)), database_of(rows)
        self._numbers: dict[tuple[int, str | None, str], int] = {}
        for item in self._named:
            self._numbers.setdefault((item.kind, item.schema, item.name), item.oid)
        self._texts = {(n.kind, n.oid): self._written(n) for n in self._named}
        self._analysts = {str(r["rolname"]): int(r["oid"]) for r in rows.get("pg_authid", [])}
        # REGPROCEDURE and similar types are written only as numbers of other types.
        self._columns = recorded.relations()
        self._path: tuple[str, ...] = SEARCH_PATH
        self._analyst: _Named | None = None

    def along(self, path: tuple[str, ...], analyst: str) -> ShadowNames:
        """Return these names with a search path for names without a schema.

        This analyst is the only visible one.
        """
        same = copy(self)
        same._path = ("pg_catalog", *path)  # noqa: SLF001 - one of us
        own = _Named(oids.REGROLE, self._analysts[analyst], None, analyst)
        same._analyst = own  # noqa: SLF001 - one of us
        return same

    def relation(self, schema: str | None, name: str) -> Relation | None:
        """Return the catalogue relation of a name. Without a schema it is in pg_catalog."""
        key = (schema or "pg_catalog", name)
        if key not in recorded.readable():
            return None
        number = self._numbers.get((oids.REGCLASS, *key))
        shadow = "classes" if name == "pg_class" else name
        return Relation(f"{SHADOWS[key[0]]}.{identifier(shadow)}", self._columns[key], number)

    def function(self, name: str) -> Relation | None:
        if name == "pg_get_keywords":
            return Relation("cat.pg_get_keywords", EXTRA[name])
        if name == "pg_show_all_settings":
            return self.relation("pg_catalog", "pg_settings")
        if name not in REPORTS:
            return None
        return Relation(f"temp.{name}", tuple(PgColumn(n, oid_of(t)) for n, t in REPORTS[name]))

    def base(self, schema: str, name: str) -> int | None:
        """Return the base type of a domain of information_schema."""
        oid = self._numbers.get((oids.REGTYPE, schema, name))
        domains = (
            r for r in recorded.rows("pg_type") if r["oid"] == str(oid) and r["typtype"] == "d"
        )
        return next((int(r["typbasetype"]) for r in domains), None)

    def number(self, kind: int, text: str) -> int | None:
        """Return the OID of the object named in `text`, parsed as PostgreSQL does."""
        if kind == oids.REGTYPE:
            return self._type(" ".join(text.split()))
        if kind == oids.REGPROCEDURE:  # `array_in(cstring,oid,integer)`
            kind, text = oids.REGPROC, text.partition("(")[0]
        named = parts(text)
        if named is not None and len(named) == 3 and named[0] == self._database:  # noqa: PLR2004
            del named[0]
        if named is None or len(named) > 2:  # noqa: PLR2004 - schema and name
            return None
        return self._look_up(kind, named)

    def _look_up(self, kind: int, named: list[str]) -> int | None:
        *schema, name = named
        own = self._analyst
        if own is not None and (kind, schema, name) == (own.kind, [], own.name):
            return own.oid
        schemas: tuple[str | None, ...] = tuple(schema) or (None, *self._path)
        numbers = (self._numbers.get((kind, s, name)) for s in schemas)
        return next((oid for oid in numbers if oid is not None), None)

    def _type(self, text: str) -> int | None:
        if text.endswith("[]"):
            element = self._type(text[:-2])
            types = (r for r in recorded.rows("pg_type") if r["oid"] == str(element))
            return next((int(r["typarray"]) or None for r in types), None)
        word = text.lower()
        written = {s: t for t, s in _SPELLED.items()} | _ALSO
        if word == "char":
            return oids.BPCHAR
        if word in written:
            return self._look_up(oids.REGTYPE, ["pg_catalog", written[word]])
        named = parts(text)
        return self._look_up(oids.REGTYPE, named) if named else None

    def text(self, kind: int, number: int | None) -> str | None:
        """Return the text of a reg-type value: a name, or its number if unknown."""
        if number is None:
            return None
        own = self._analyst
        if own is not None and (kind, number) == (own.kind, own.oid):
            return self._written(own)
        return "-" if number == 0 else self._texts.get((kind, number), str(number))

    def rows(self) -> list[Row]:
        """Return every spelling of objects, for lookups of the shadow's macros."""
        spellings: list[Row] = []
        for item in self._named:
            shown = self._texts[item.kind, item.oid]
            plain = {f"{item.schema}.{item.name}"} if item.schema else {item.name}
            plain |= {item.name} if item.schema in (None, *SEARCH_PATH) else set()
            base = {"kind": item.kind, "oid": item.oid}
            spellings.append({**base, "spelled": shown, "shown": True})
            spellings += [{**base, "spelled": p, "shown": False} for p in sorted(plain - {shown})]
        return spellings

    def _written(self, item: _Named) -> str:
        if item.kind == oids.REGTYPE and item.schema == "pg_catalog":
            array = item.name.startswith("_") and item.name[1:] in _ELEMENTS
            name = item.name[1:] if array else item.name
            return _SPELLED.get(name, quote(name)) + ("[]" if array else "")
        if item.kind == oids.REGTYPE and item.name.startswith("_"):
            return self._written(_Named(item.kind, item.oid, item.schema, item.name[1:])) + "[]"
        if item.schema in (None, *SEARCH_PATH):
            return quote(item.name)
        return f"{quote(str(item.schema))}.{quote(item.name)}"


_ELEMENTS = frozenset(r["typname"] for r in recorded.rows("pg_type") if r["typarray"] != "0")


def _all(rows: dict[str, list[Row]]) -> Iterator[_Named]:
    own_schemas = {str(r["oid"]): str(r["nspname"]) for r in rows.get("pg_namespace", [])}
    for kind, (relation, name, schema) in _KINDS.items():
        own: Iterable[Row] = rows.get(relation, []) if kind != oids.REGROLE else []
        for row in (*recorded.rows(relation), *own):
            space = (NAMESPACES | own_schemas).get(str(row[schema])) if schema else None
            yield _Named(kind, int(row["oid"]), space, str(row[name]))
