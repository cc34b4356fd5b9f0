"""Scratch tables as SQL: one CREATE TABLE with each column as one JSON parameter.

Python values are passed as their exact text. On some versions DuckDB takes half a minute for a list
parameter of 100,000 values, and guesses a common type that may round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, assert_never

from dpsql.engines import Beforehand, Load, ScratchTable, Variable
from dpsql.model.tree import Kind, SqlType, identifier, type_name

_INT64 = 2**63
_AS_THEY_ARE = frozenset({Kind.INTEGER, Kind.VARCHAR, Kind.DATE})


def loaded(given: Load) -> tuple[str, list[Any]]:
    """Return a statement and its parameters, which create a table, set a variable, or are given."""
    match given:
        case ScratchTable():
            return load(given)
        case Variable():
            return variable(given)
        case Beforehand(sql=sql, parameters=parameters):
            return sql, list(parameters)
        case _:
            assert_never(given)


def variable(given: Variable) -> tuple[str, list[Any]]:
    """Return the statement that sets a variable, and its parameters.

    >>> variable(Variable("analyst", "ana"))
    ('SET VARIABLE "analyst" = $1', ['ana'])
    """
    if isinstance(given.value, str):
        return f"SET VARIABLE {identifier(given.name)} = $1", [given.value]
    pairs = [list(given.value), list(given.value.values())]
    return f"SET VARIABLE {identifier(given.name)} = map($1, $2)", pairs


def load(table: ScratchTable) -> tuple[str, list[str]]:
    r"""Return the statement that creates and fills `table`, and its parameters, one per column.

    An INTEGER column becomes BIGINT, or HUGEINT if a value needs it. A column that holds only NULL
    becomes INTEGER.

    >>> from dpsql.model.tree import INTEGER
    >>> sql, columns = load(ScratchTable("t", (("n", INTEGER),), [(1,), (None,)]))
    >>> sql
    'CREATE TEMP TABLE "t" AS SELECT unnest(from_json(?, \'["VARCHAR"]\'))::BIGINT AS "n"'
    >>> columns
    ['["1", null]']
    """
    if not table.rows:
        typed = (f"{identifier(name)} {_target(kind, ())}" for name, kind in table.columns)
        return f"CREATE TEMP TABLE {identifier(table.name)} ({', '.join(typed)})", []
    columns = list(zip(*table.rows, strict=True))
    listed = [
        f"unnest(from_json(?, '[\"VARCHAR\"]'))::{_target(kind, values)} AS {identifier(name)}"
        for (name, kind), values in zip(table.columns, columns, strict=True)
    ]
    sql = f"CREATE TEMP TABLE {identifier(table.name)} AS SELECT {', '.join(listed)}"
    texts = [
        json.dumps([None if v is None else text(v) for v in values])
        for text, values in zip(
            (_text_of(kind) for _name, kind in table.columns), columns, strict=True
        )
    ]
    return sql, texts


def _target(kind: SqlType, values: Sequence[Any]) -> str:
    if kind.kind is Kind.NULL:
        return "INTEGER"
    if kind.kind is Kind.INTEGER and any(
        v is not None and not -_INT64 <= v < _INT64 for v in values
    ):
        return "HUGEINT"
    return type_name(kind)


def _text_of(kind: SqlType) -> Callable[[Any], str]:
    """Return a function that writes a value of this type exactly."""
    if kind.kind is Kind.DOUBLE:
        return lambda value: repr(float(value))
    return str if kind.kind in _AS_THEY_ARE else _text


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
