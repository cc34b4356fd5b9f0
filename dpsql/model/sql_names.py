"""Names and types as SQL text."""

from __future__ import annotations

from dpsql.model.tree import Kind, SqlType


def identifier(name: str) -> str:
    """A name, always quoted.

    >>> identifier('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def type_name(kind: SqlType) -> str:
    """A type as the target of a cast; INTEGER is 64 bits wide there.

    >>> type_name(SqlType(Kind.DECIMAL, 12, 2))
    'DECIMAL(12, 2)'
    """
    match kind.kind:
        case Kind.INTEGER:
            return "BIGINT"
        case Kind.TIMESTAMPTZ:
            return "TIMESTAMPTZ"
        case Kind.NULL:
            raise AssertionError(kind)
        case _:
            return str(kind)
