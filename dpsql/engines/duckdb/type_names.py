"""DuckDB's types in our terms, and the parts of nested types."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dpsql.engines.duckdb.exact_values import base_type
from dpsql.model import tree

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
    **dict.fromkeys(BITS, tree.INTEGER),
    "BOOLEAN": tree.BOOLEAN,
    "FLOAT": tree.DOUBLE,
    "DOUBLE": tree.DOUBLE,
    "VARCHAR": tree.VARCHAR,
    "DATE": tree.DATE,
    "TIMESTAMP": tree.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": tree.TIMESTAMPTZ,
    "TIME": tree.TIME,
    "UUID": tree.UUID,
}
_READ_AS = {
    "ENUM": tree.VARCHAR,
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), tree.TIMESTAMP),
}
"""Types that are read as others: ENUM as texts, in their order; times in microseconds."""

_FIELD = re.compile(r'(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>\S+)) (?P<type>.+)', re.DOTALL)
_SIGNS = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|[(),]""")
_LIST = re.compile(r"\[\d*\]\Z")
_UNTOLD = re.compile(r"""[."'\[\]]""")
"""Characters that a name in a path cannot contain, because paths are written with them."""


def sql_type(type_name: str) -> tree.SqlType | None:
    """Return DuckDB's type in our terms; None if we have no such type.

    >>> sql_type("DECIMAL(12,2)")
    SqlType(kind=<Kind.DECIMAL: 'DECIMAL'>, precision=12, scale=2)
    >>> sql_type("BLOB") is None
    True
    """
    if match := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", type_name):
        return tree.decimal(int(match[1]), int(match[2]))
    if _LIST.search(type_name):
        return None
    name = base_type(type_name)
    return _TYPES.get(name) or _READ_AS.get(name)


def reading(column: str, type_name: str) -> tree.StoredAs | None:
    """Return how to read a column of JSON, or of a type that is read as another; else None."""
    if type_name == "JSON":
        return tree.StoredAs(column, json=True)
    return tree.StoredAs(column) if base_type(type_name) in _READ_AS else None


def parts(column: str, type_name: str) -> Iterator[tuple[str, str, tree.StoredAs]]:
    """Yield each part of a column: its name, DuckDB's name of its type, and how it is read.

    The part of a list is the one at place 0, which stands for any.

    >>> [called for called, _, _ in parts("p", "STRUCT(a INTEGER, b STRUCT(c DATE)[])")]
    ['p.a', 'p.b[].c']
    """
    pending: list[tuple[str, str, tree.StoredAs]] = [(column, type_name, tree.StoredAs(column))]
    while pending:
        name, kind, way = pending.pop(0)
        if match := _LIST.search(kind):
            below = [(f"{name}[]", kind[: match.start()], tree.StoredAs(column, (*way.path, 0)))]
        elif kind.startswith("STRUCT("):
            below = [
                (f"{name}.{field}", inner, tree.StoredAs(column, (*way.path, field)))
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
