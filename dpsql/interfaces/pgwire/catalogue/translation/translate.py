"""The translation of one statement, and whether a statement is the catalogue's to answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from dpsql.interfaces.pgwire.catalogue.translation import oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_functions import CONSTANTS, SCHEMAS, is_known
from dpsql.interfaces.pgwire.catalogue.translation.pg_queries import query
from dpsql.interfaces.pgwire.catalogue.translation.pg_scopes import PgScope, Reading
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import Names, PgColumn
from dpsql.interfaces.pgwire.catalogue.translation.pg_text import FUNCTION, read, spelled
from dpsql.model.errors import Refused


@dataclass(frozen=True, slots=True)
class Translation:
    """DuckDB SQL over the shadow, the columns it returns, and the types of its parameters."""

    sql: str
    columns: tuple[PgColumn, ...]
    parameters: tuple[int, ...]


def translate(text: str, names: Names, values: tuple[Any, ...] | None, count: int) -> Translation:
    """Translate one statement; without `values` its `count` parameters stand as NULL.

    Raises `Refused`.
    """
    reading = Reading(names, values, query)
    root = read(text)
    printed = query(root, PgScope(reading))
    types = tuple(reading.types.get(n, oids.TEXT) for n in range(1, count + 1))
    told = (replace(c, oid=oids.TEXT) if c.oid == oids.UNKNOWN else c for c in printed.columns)
    return Translation(printed.sql, tuple(told), types)


def concerns(text: str, names: Names) -> bool:
    """Whether a statement reads nothing but the catalogue; one that cannot be read does not."""
    try:
        root = read(text)
    except Refused:
        return False
    if not isinstance(root, exp.Query):
        return False
    tables = [t for t in root.find_all(exp.Table) if isinstance(t.this, exp.Identifier)]
    if not tables:
        return _asks_nothing_else(root, names)
    ctes = {spelled(c.args["alias"].this) for c in root.find_all(exp.CTE)}
    return all(_of_catalogue(t, ctes, names) for t in tables)


def _of_catalogue(table: exp.Table, ctes: set[str], names: Names) -> bool:
    name = spelled(table.this)
    if table.args.get("db"):
        return spelled(table.args["db"]) in SCHEMAS
    return name in ctes or names.relation(None, name) is not None


def _asks_nothing_else(root: exp.Expression, names: Names) -> bool:
    """Whether a statement without tables calls only what we know, and calls or names something."""
    calls = [c.name.removeprefix(FUNCTION) for c in root.find_all(exp.Anonymous)]
    words = any(isinstance(node, tuple(CONSTANTS)) for node in root.walk())
    named = words or any(map(_casts, root.find_all(exp.Cast)))
    known = (is_known(name) or names.function(name) is not None for name in calls)
    return (bool(calls) or named) and all(known)


def _casts(node: exp.Cast) -> bool:
    """Whether a cast is to a type that only the catalogue has."""
    target = node.args["to"]
    return isinstance(target, exp.ObjectIdentifier) or bool(target.args.get("kind"))
