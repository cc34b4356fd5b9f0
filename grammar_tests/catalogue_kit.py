"""The policy's tables made in a real PostgreSQL 15, empty, for the analysts to look at."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.interfaces.comments import column_comment, table_comment
from dpsql.model.tree import Kind, SqlType
from dpsql.model.vocabulary import Policy, TablePolicy

_SPELLED = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "bigint",
    Kind.DOUBLE: "double precision",
    Kind.VARCHAR: "text",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp without time zone",
    Kind.TIMESTAMPTZ: "timestamp with time zone",
}


def ddl(policy: Policy) -> Iterator[str]:
    """The statements that make a server's database show what the policy declares."""
    for analyst, _ in policy.analysts:
        yield f'CREATE ROLE "{analyst}" LOGIN'
    for table in policy.tables:
        yield from _table(policy, table)
    for table in policy.tables:
        if table.link is not None:
            link = table.link
            yield (
                f'ALTER TABLE "{table.name}" ADD FOREIGN KEY ("{link.column}")'
                f' REFERENCES "{link.table}" ("{link.key}")'
            )


def _table(policy: Policy, table: TablePolicy) -> Iterator[str]:
    shown = [c for c in table.columns if not c.hidden]
    columns = [f'"{c.name}" {_spelling(c.type)}' for c in shown]
    if table.key:
        columns.append("PRIMARY KEY (" + ", ".join(f'"{k}"' for k in table.key) + ")")
    yield f'CREATE TABLE "{table.name}" ({", ".join(columns)})'
    yield f"COMMENT ON TABLE \"{table.name}\" IS '{table_comment(policy, table)}'"
    for column in shown:
        comment = column_comment(policy, table, column)
        if comment is not None:
            told = comment.replace("'", "''")
            yield f'COMMENT ON COLUMN "{table.name}"."{column.name}" IS \'{told}\''
    for analyst, _ in policy.analysts:
        yield f'GRANT SELECT ON "{table.name}" TO "{analyst}"'


def _spelling(kind: SqlType) -> str:
    if kind.kind is Kind.DECIMAL:
        return f"numeric({kind.precision},{kind.scale})"
    return _SPELLED[kind.kind]
