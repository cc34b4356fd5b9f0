"""DuckDB's types in our terms, and the parts of nested types."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpsql.engines.duckdb.exact_values import base_type
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    SqlType,
    StoredAs,
    decimal,
)

BITS = {
    "TINYINT": 8,
    "UTINYINT": 9,
    "SMALLINT": 16,
    "USMALLINT": 17,
    "INTEGER": 32,
    "UINTEGER": 33,
    "BIGINT": 64,
    "UBIGINT": 65,
    "HUGEINT": 128,
}
"""Bits of a signed integer that holds every integer of a type."""

_TYPES = {
    **dict.fromkeys(BITS, INTEGER),
    "BOOLEAN": BOOLEAN,
    "FLOAT": DOUBLE,
    "DOUBLE": DOUBLE,
    "VARCHAR": VARCHAR,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "TIME": TIME,
    "UUID": UUID,
}
_READ_AS = {
    "ENUM": VARCHAR,
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), TIMESTAMP),
}
"""Types that are read as others: ENUM as texts, in their order; times in microseconds."""

_FIELD = re.compile(r'(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>\S+)) (?P<type>.+)', re.DOTALL)
_SIGNS = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|[(),]""")
_LIST = re.compile(r"\[\d*\]\Z")
_UNTOLD = re.compile(r"""[."'\[\]]""")
"""Characters that a name in a path cannot contain, because paths are written with them."""


def sql_type(type_name: str) -> SqlType | None:
    """Return DuckDB's type in our terms; None if we have no such type.

    >>> sql_type("DECIMAL(12,2)")
    SqlType(kind=<Kind.DECIMAL: 'DECIMAL'>, precision=12, scale=2)
    >>> sql_type("BLOB") is None
    True
    """
    if match := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", type_name):
        return decimal(int(match[1]), int(match[2]))
    if _LIST.search(type_name):
        return None
    name = base_type(type_name)
    return _TYPES.get(name) or _READ_AS.get(name)


def reading(column: str, type_name: str) -> StoredAs | None:
    """Return how to read a column of JSON, or of a type that is read as another; else None."""
    if type_name == "JSON":
        return StoredAs(column, json=True)
    return StoredAs(column) if base_type(type_name) in _READ_AS else None


def parts(column: str, type_name: str) -> Iterator[tuple[str, str, StoredAs]]:
    """Yield each part of a column: its name, DuckDB's name of its type, and how it is read.

    The part of a list is the one at place 0, which stands for any.

    >>> [called for called, _, _ in parts("p", "STRUCT(a INTEGER, b STRUCT(c DATE)[])")]
    ['p.a', 'p.b[].c']
    """
    pending: list[tuple[str, str, StoredAs]] = [(column, type_name, StoredAs(column))]
    while pending:
        name, kind, way = pending.pop(0)
        if match := _LIST.search(kind):
            below = [(f"{name}[]", kind[: match.start()], StoredAs(column, (*way.path, 0)))]
        elif kind.startswith("STRUCT("):
            below = [
                (f"{name}.{field}", inner, StoredAs(column, (*way.path, field)))
                for field, inner in _fields(kind)
                if not _UNTOLD.search(field)
            ]
        else:
            below = []
            if way.path and sql_type(kind) is not None:
                yield name, kind, way
        pending += below


def _fields(struct: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a STRUCT and DuckDB's names of their types."""
    inner = struct.removeprefix("STRUCT(").removesuffix(")")
    depth, start = 0, 0
    ends = []
    for sign in _SIGNS.finditer(inner):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if sign[0] == "," and depth == 0:
            ends.append((start, sign.start()))
            start = sign.end()
    for first, last in [*ends, (start, len(inner))]:
        field = _FIELD.fullmatch(inner[first:last].strip())
        if field is not None:
            name = field["plain"] or (field["quoted"] or "").replace('""', '"')
            yield name, field["type"]
