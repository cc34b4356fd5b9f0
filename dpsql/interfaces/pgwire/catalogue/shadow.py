"""The shadow: a locked in-memory DuckDB with PostgreSQL 15's catalogue and no data.

It runs in separate processes that can be killed.

It knows only the policy: SECURITY.md S17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from dpsql.interfaces.pgwire.catalogue import recorded
from dpsql.interfaces.pgwire.catalogue.naming import keywords
from dpsql.interfaces.pgwire.catalogue.objects import Row, database_of
from dpsql.interfaces.pgwire.catalogue.translation import oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import PgColumn
from dpsql.model.tree import identifier

Statement: TypeAlias = tuple[str, list[Any]]
"""SQL with its parameters."""

SHADOWS = {"pg_catalog": "cat", "information_schema": "info"}
"""Names of PostgreSQL's schemas in the shadow, since DuckDB has schemas of these names itself."""

_NULL, _BACKSLASH, _TAB, _LINE = "\\N", "\x01", "\x02", "\x03"
_HIDDEN = {ord("\\"): _BACKSLASH, ord("\t"): _TAB, ord("\n"): _LINE, ord("\r"): " "}
EXTRA: dict[str, tuple[PgColumn, ...]] = {
    "pg_get_keywords": tuple(PgColumn(n, oid) for n, oid in recorded.KEYWORDS),
    "definitions": tuple(PgColumn(n, oid) for n, oid in recorded.DEFINITIONS),
    "pg_settings_recorded": recorded.relations()["pg_catalog", "pg_settings"],
    "names": (
        PgColumn("kind", 26),
        PgColumn("oid", 26),
        PgColumn("spelled", 25),
        PgColumn("shown", 16),
    ),
}
"""Additional tables of the shadow, filled as the others are."""

_VIEWS = dict(
    re.findall(r"CREATE VIEW ([\w.]+) AS\n(.*?);\n", recorded.sql("views.sql"), re.DOTALL)
)
"""Text of each view: PostgreSQL's, and those in `cat` that these read."""


def script(rows: dict[str, list[Row]]) -> Iterator[Statement]:
    """Yield the statements that build a shadow from PostgreSQL's own rows and `rows`."""
    for schema in SHADOWS.values():
        yield f"CREATE SCHEMA {schema}", []
    for (schema, relation), columns in recorded.relations().items():
        if f"{schema}.{relation}" not in _VIEWS:
            yield _create(SHADOWS[schema], relation, columns)
            yield from _fill(SHADOWS[schema], relation, columns, rows.get(relation, []))
    for relation, columns in EXTRA.items():
        yield _create("cat", relation, columns)
        yield from _fill("cat", relation, columns, rows.get(relation, []))
    words = ", ".join(f"'{word}'" for word in sorted(keywords()))
    macros = recorded.sql("macros.sql").replace("{KEYWORDS}", words)
    macros = macros.replace("{DATABASE}", database_of(rows))  # has no quote
    named = [*recorded.rows("pg_namespace"), *rows.get("pg_namespace", [])]
    schemas = ", ".join("'" + str(row["nspname"]).replace("'", "''") + "'" for row in named)
    macros = macros.replace("{SCHEMAS}", schemas)
    yield from ((macro, []) for macro in macros.split(";\n") if macro)
    yield from (_view(name, sql) for name, sql in _VIEWS.items())


def _create(schema: str, relation: str, columns: tuple[PgColumn, ...]) -> Statement:
    listed = ", ".join(f"{identifier(c.name)} {oids.shadow_type(c.oid)}" for c in columns)
    return f"CREATE TABLE {schema}.{identifier(relation)} ({listed})", []


def _view(name: str, sql: str) -> Statement:
    """Return a view. PostgreSQL's views have the recorded column names and types, in order.

    Columns missing in the text are NULL.
    """
    schema, relation = name.split(".")
    columns = recorded.relations().get((schema, relation))
    if columns is None:
        return f"CREATE VIEW {name} AS {sql}", []
    none = ", ".join(f"NULL AS {identifier(c.name)}" for c in columns)
    whole = f"SELECT * FROM ({sql}) UNION ALL BY NAME SELECT {none} WHERE FALSE"
    listed = ", ".join(
        f"CAST({identifier(c.name)} AS {oids.shadow_type(c.oid)}) AS {identifier(c.name)}"
        for c in columns
    )
    target = f"{SHADOWS[schema]}.{identifier(relation)}"
    return f"CREATE VIEW {target} AS SELECT {listed} FROM ({whole})", []


def _fill(
    schema: str, relation: str, columns: tuple[PgColumn, ...], rows: list[Row]
) -> Iterator[Statement]:
    """Yield the insert of PostgreSQL's own rows and `rows`, in the format of COPY."""
    text = recorded.body(relation) + _written(columns, rows)
    if text:
        yield _inserted(schema, relation, columns, text)


def _inserted(schema: str, relation: str, columns: tuple[PgColumn, ...], text: str) -> Statement:
    fields = ", ".join(_read(c.oid, f"nullif(f[{i}], '{_NULL}')") for i, c in enumerate(columns, 1))
    lines_of = "SELECT unnest(string_split($1, chr(10))) AS line"
    source = f"SELECT string_split(line, chr(9)) AS f FROM ({lines_of}) WHERE line <> ''"
    target = f"{schema}.{identifier(relation)}"
    return f"INSERT INTO {target} SELECT {fields} FROM ({source})", [text]


def _written(columns: tuple[PgColumn, ...], rows: list[Row]) -> str:
    lines = ("\t".join(_field(row.get(c.name)) for c in columns) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def added(rows: Mapping[str, list[Row]]) -> Iterator[Statement]:
    """Yield the statements that add a session's own rows, in a transaction without COMMIT."""
    yield "BEGIN", []
    relations = {name: columns for (_, name), columns in recorded.relations().items()} | EXTRA
    for name, own in rows.items():
        yield _inserted("cat", name, relations[name], _written(relations[name], own))


def _field(value: Any) -> str:
    """Return a value in the format of COPY, with escapes by characters that no name contains."""
    match value:
        case None:
            return _NULL
        case bool():
            return "t" if value else "f"
        case list():
            return "{" + ",".join(map(str, value)) + "}"
    return str(value).translate(_HIDDEN)


def _read(oid: int, field: str) -> str:
    """Return the DuckDB expression that reads a field of COPY as type `oid`."""
    kind = oids.shadow_type(oid)
    if oid in (oids.INT2VECTOR, oids.OIDVECTOR):
        parts = f"string_split(replace(trim({field}, '{{}}'), ',', ' '), ' ')"
    elif oid in oids.ELEMENTS:
        parts = f"string_split(({field})[2:-2], ',')"
        parts = f"list_transform({parts}, lambda e: trim(e, '\"'))"
    else:
        hidden = f"replace(replace({field}, chr(1), '\\'), chr(2), chr(9))"
        text = f"replace({hidden}, chr(3), chr(10))"
        return f"CAST({text if kind == 'VARCHAR' else field} AS {kind})"
    return f"CASE WHEN {field} IN ('', '{{}}') THEN [] ELSE CAST({parts} AS {kind}) END"
