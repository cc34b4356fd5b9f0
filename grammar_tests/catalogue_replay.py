"""Statements that tools send, asked of the shadow and of a real PostgreSQL 15, answers compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn

CORPUS = Path(__file__).parent / "catalogue"
VECTORS = (22, 30)
JSON = 114
NUMBERED = (20, 23, 24, 25, 26, 2205, 2206)
"""Types in which an OID may be told."""

FIRST_USER_OID = 16384
PROSE = ("description", "remarks", "comment")
SIZES = ("size",)
ATTRIBUTE_VERSION = "{pg_attver="
"""What PostgreSQL 15.20 keeps in attoptions, for itself."""
NEWER = {"binary_upgrade_set_next_attribute_versions"}
"""Objects that minor releases have added since the shadow's rows were recorded."""
_DIFFERS = re.compile(r"(?:-- differs: ([^\n]*)\n)?(.*)", re.DOTALL)
_NAMED = re.compile(r"\{([A-Za-z_][\w: ]*)\}")


@dataclass(frozen=True, slots=True)
class Asked:
    """One statement of a file, its parameters as text, and why its rows differ if they do."""

    file: str
    number: int
    sql: str
    parameters: tuple[str | None, ...] = ()
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """An answer as a client reads it: names and type OIDs, and rows of PostgreSQL's own text."""

    columns: tuple[tuple[str, int], ...]
    rows: list[tuple[str | None, ...]] = field(default_factory=list)


def statements(path: Path) -> Iterator[Asked]:
    """The statements of a file: each begins with `-- ask` and its parameters, if it has any."""
    parts = re.split(r"(?m)^-- ask(?:: (.*))?$", path.read_text(encoding="utf-8"))[1:]
    for number, (given, body) in enumerate(zip(parts[::2], parts[1::2], strict=True), 1):
        found = re.findall(r"'((?:[^']|'')*)'|(NULL)", given or "")
        values = tuple(None if null else text.replace("''", "'") for text, null in found)
        differs, sql = _DIFFERS.match(body.lstrip()).groups()  # type: ignore[union-attr]
        sql = sql.strip().removesuffix(";").strip()
        yield Asked(path.name, number, sql, values, differs or "")


def filled(text: str, oids: Mapping[str, int]) -> str:
    """`text` with the numbers that this server gives to the objects named in braces."""
    return _NAMED.sub(lambda m: str(oids[m[1]]) if m[1] in oids else m[0], text)


NUMBERS = (
    "SELECT relname::text, oid FROM pg_class WHERE relnamespace = 2200"
    " UNION ALL SELECT conname, oid FROM pg_constraint WHERE connamespace = 2200"
    " UNION ALL SELECT 'type:' || typname, oid FROM pg_type WHERE typnamespace = 2200"
    " UNION ALL SELECT 'role:' || rolname, oid FROM pg_roles"
    " UNION ALL SELECT 'database:' || datname, oid FROM pg_database"
)


def shadow(catalogue: Catalogue, asked: Asked, oids: Mapping[str, int]) -> Told:
    """What the shadow answers, written as the server would write it."""
    sql = filled(asked.sql, oids)
    values = tuple(None if v is None else filled(v, oids) for v in asked.parameters)
    described = catalogue.describe(sql, len(values))
    result = catalogue.ask(sql, values)
    assert described == result.columns
    rows = [tuple(text(v, c) for v, c in zip(r, result.columns, strict=True)) for r in result.rows]
    return Told(tuple((c.name, c.oid) for c in result.columns), rows)


def real(connection: psycopg.Connection[Any], asked: Asked, oids: Mapping[str, int]) -> Told:
    """What PostgreSQL answers: its text, byte for byte."""
    sql = filled(asked.sql, oids).encode()
    values = [None if v is None else filled(v, oids).encode() for v in asked.parameters]
    result = connection.pgconn.exec_params(sql, values)
    assert result.status in (2, 3), f"{asked.file}:{asked.number} {result.error_message!r}"
    columns = range(result.nfields)
    names = tuple(((result.fname(i) or b"").decode(), result.ftype(i)) for i in columns)
    rows = []
    for r in range(result.ntuples):
        cells = [result.get_value(r, i) for i in columns]
        rows.append(tuple(None if c is None else c.decode() for c in cells))
    return Told(names, rows)


def text(value: Any, column: WireColumn) -> str | None:
    """A value as PostgreSQL's text of its type."""
    match value:
        case None:
            return None
        case bool():
            return "t" if value else "f"
        case list() if column.oid in VECTORS:
            return " ".join(map(str, value))
        case list():
            return "{" + ",".join(_element(v) for v in value) + "}"
        case dict():
            return f"({','.join(str(v) for v in value.values())})"
        case float():
            return f"{value:.15g}"
    return str(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "t" if value else "f"
    plain = str(value)
    if plain == "" or plain.upper() == "NULL" or re.search(r'[{},"\\\s]', plain):
        return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return plain


def comparable(told: Told, other: Told) -> list[tuple[str | None, ...]]:
    """Rows in one order, without what differs between any two servers.

    That is the OIDs of users' objects, sizes, what PostgreSQL stores beside a table with text, and
    the prose that describes PostgreSQL's own objects, of which the shadow has none.
    """
    silent = {
        i
        for i, (name, _) in enumerate(told.columns)
        if name.lower() in PROSE and {row[i] for row in (*told.rows, *other.rows)} & {None}
    }
    rows = []
    for row in told.rows:
        if any(c is not None and (c.startswith("pg_toast_") or c in NEWER) for c in row):
            continue
        cells: list[str | None] = []
        for i, ((name, oid), cell) in enumerate(zip(told.columns, row, strict=True)):
            if name.lower() in SIZES or i in silent:
                cells.append("<volatile>")
            elif cell is not None and cell.startswith(ATTRIBUTE_VERSION):
                cells.append(None)
            elif oid in NUMBERED and cell is not None and _of_user(cell):
                cells.append("<an object of the user>")
            else:
                cells.append(cell)
        rows.append(tuple(cells))
    return sorted(rows, key=repr)


def _of_user(cell: str) -> bool:
    return cell.isdigit() and int(cell) >= FIRST_USER_OID
