"""Public rows for one statement, as parameters (SECURITY.md S25).

A read-only transaction creates no table. So each column is an array of texts, which the statement
unnests.

>>> from dpsql.model.tree import INTEGER
>>> table = ScratchTable("t", (("n", INTEGER),), [(1,), (None,)])
>>> sql, parameters = staged("SELECT n FROM t", [table])
>>> sql.startswith('WITH "t" AS (SELECT a0::bigint AS "n" FROM unnest($1::text[]) AS e(a0))')
True
>>> parameters
[['1', None]]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from decimal import Decimal
from typing import Any

from dpsql.engines import ScratchTable
from dpsql.model.tree import Kind, SqlType, identifier

_TYPES = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "bigint",
    Kind.DOUBLE: "float8",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMPTZ: "timestamptz",
    Kind.INTERVAL: "bigint",
    Kind.TIME: "time",
    Kind.UUID: "uuid",
}
"""PostgreSQL's types for ours; values of other types stay texts."""
_INT64 = 2**63
_WORD = re.compile(
    r"""'(?:[^']|'')*'|(?P<first>"public"\.)?(?P<name>"(?:[^"]|"")*")|\$sampling_key\b"""
)


def staged(
    sql: str, tables: Sequence[ScratchTable], sampling_key: int | None = None
) -> tuple[str, list[Any]]:
    """Return a statement that reads scratch tables from parameters, and the parameters.

    Each column is one parameter, an array of texts. The sampling key is the last one, if the
    statement reads it.
    """
    parameters: list[Any] = []
    named = []
    for table in tables:
        columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
        given, listed = [], []
        for n, ((name, kind), values) in enumerate(zip(table.columns, columns, strict=True)):
            parameters.append([None if v is None else _text(kind, v) for v in values])
            given.append(f"${len(parameters)}::text[]")
            listed.append(f"{_read(f'a{n}', kind, values)} AS {identifier(name)}")
        names = ", ".join(f"a{n}" for n in range(len(table.columns)))
        source = f"unnest({', '.join(given)}) AS e({names})"
        named.append(f"{identifier(table.name)} AS (SELECT {', '.join(listed)} FROM {source})")
    key, given_rows = f"${len(parameters) + 1}::text", {identifier(t.name) for t in tables}
    spelled = _WORD.sub(lambda word: _spelled(word, key, given_rows), sql)
    if any(word[0][0] == "$" for word in _WORD.finditer(sql)):
        parameters.append(str(sampling_key or 0))
    if named:
        spelled = f"WITH {', '.join(named)} SELECT * FROM ({spelled}\n) AS q"
    return spelled, parameters


def _spelled(word: re.Match[str], key: str, given: AbstractSet[str]) -> str:
    """Return a word of a statement: the key as a parameter, given rows without their schema."""
    if word[0][0] == "$":
        return key
    return word["name"] if word["name"] in given else word[0]


def _read(text: str, kind: SqlType, values: Sequence[Any]) -> str:
    if kind.kind is Kind.VARCHAR:
        return f'({text} COLLATE "C")'
    if kind.kind is Kind.DECIMAL:
        return f"round({text}::numeric, {kind.scale})"
    wide = any(isinstance(v, int) and not -_INT64 <= v < _INT64 for v in values)
    target = "numeric" if kind.kind is Kind.INTEGER and wide else _TYPES.get(kind.kind)
    return text if target is None else f"{text}::{target}"


def _text(kind: SqlType, value: Any) -> str:
    """Return a value as the exact text that its type reads."""
    if kind.kind is Kind.DOUBLE:
        return repr(float(value))
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
