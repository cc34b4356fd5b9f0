"""A statement in Spark's form (SECURITY.md S28).

Files and public rows are named queries before it, so that nothing is created. Names are in Spark's
quotes, and the key is a parameter.

>>> from dpsql.model.tree import INTEGER
>>> table = ScratchTable("t", (("n", INTEGER),), [(1,), (None,)])
>>> statement('SELECT "n" FROM "t"', {}, [table])[0].partition(" SELECT `n`")[0]
"WITH `t` AS (SELECT CAST(a0 AS BIGINT) AS `n` FROM (VALUES ('1'), (NULL)) AS e(a0))"
>>> statement('SELECT "n" FROM "a`b"', {"a`b": "/d/a.parquet"})[0]
'WITH `a``b` AS (SELECT * FROM parquet.`/d/a.parquet`) SELECT `n` FROM `a``b`'
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from dpsql.engines import ScratchTable
from dpsql.model.tree import Kind, SqlType, Value

KEY = "sampling_key"
_WORD = re.compile(r"""'[^']*'|"((?:[^"]|"")*)"|\$sampling_key\b""")
_PLAIN = re.compile(r"[A-Za-z0-9 _.,%+()=/@:-]*")
_INT64 = 2**63
_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMPTZ: "TIMESTAMP",
    Kind.INTERVAL: "BIGINT",
}
"""Spark's types for ours; values of other types stay texts."""


def statement(
    sql: str,
    files: Mapping[str, str],
    tables: Sequence[ScratchTable] = (),
    sampling_key: int | None = None,
) -> tuple[str, dict[str, str]]:
    """Return the statement over these files, by table, and these rows, with its parameters."""
    named = {match[1].replace('""', '"') for match in _WORD.finditer(sql) if match[1] is not None}
    queries = {table.name: _rows(table) for table in tables}
    queries |= {t: f"SELECT * FROM parquet.{in_backticks(files[t])}" for t in files if t in named}
    text = _WORD.sub(_spelled, sql)
    parameters = {} if f":{KEY}" not in text else {KEY: str(sampling_key or 0)}
    if queries:
        listed = ", ".join(
            f"{in_backticks(table)} AS ({query})" for table, query in queries.items()
        )
        inner = f"SELECT * FROM ({text}) AS q" if text.startswith("WITH ") else text
        text = f"WITH {listed} {inner}"
    return text, parameters


def _spelled(word: re.Match[str]) -> str:
    if word[1] is not None:
        return in_backticks(word[1].replace('""', '"'))
    return f":{KEY}" if word[0].startswith("$") else word[0]


def in_backticks(name: str) -> str:
    """Return a name in Spark's own quotes."""
    return "`" + name.replace("`", "``") + "`"


def _rows(table: ScratchTable) -> str:
    """Return a SELECT of the rows; every value is the exact text that its type reads."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    items = ", ".join(
        f"{_read(f'a{n}', kind, values)} AS {in_backticks(name)}"
        for n, ((name, kind), values) in enumerate(zip(table.columns, columns, strict=True))
    )
    kinds = [kind for _name, kind in table.columns]
    rows = table.rows or [(None,) * len(kinds)]
    values = ", ".join(f"({', '.join(map(_text, row))})" for row in rows)
    names = ", ".join(f"a{n}" for n in range(len(kinds)))
    none = "" if table.rows else " WHERE FALSE"
    return f"SELECT {items} FROM (VALUES {values}) AS e({names}){none}"


def _read(text: str, kind: SqlType, values: Sequence[Value]) -> str:
    wide = any(isinstance(v, int) and not -_INT64 <= v < _INT64 for v in values)
    target = "DECIMAL(38,0)" if kind.kind is Kind.INTEGER and wide else _TYPES.get(kind.kind)
    if kind.kind is Kind.DECIMAL:
        target = f"DECIMAL({kind.precision},{kind.scale})"
    return f"CAST({text} AS {target or 'STRING'})"


def _text(value: Value) -> str:
    """Return a constant: plain characters as they are, all others byte by byte."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        value = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        shown = value.isoformat(" ")
    else:
        shown = f"{value:f}" if isinstance(value, Decimal) else str(value)
    if _PLAIN.fullmatch(shown):
        return f"'{shown}'"
    return f"CAST(X'{shown.encode().hex()}' AS STRING)"
