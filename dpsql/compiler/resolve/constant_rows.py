"""VALUES as a relation: every value in the type of its column."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

from dpsql.compiler.resolve.scopes import Identities
from dpsql.functions import common_type
from dpsql.model.algebra import Values
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import INTEGER, NULL, Kind, Literal, SqlType, ValuesList


def constants(listed: ValuesList, identities: Identities) -> Values:
    """Return the rows with every value in the type of its column.

    Raises `Refused` where the values of a column have no common type.
    """
    kinds = [_column_type(column, listed) for column in zip(*listed.rows, strict=True)]
    fields = tuple(map(identities.field, listed.names, kinds))
    rows = tuple(
        tuple(_as(cell, kind) for cell, kind in zip(row, kinds, strict=True)) for row in listed.rows
    )
    return Values(fields, rows, listed.span)


def _column_type(cells: tuple[Literal, ...], listed: ValuesList) -> SqlType:
    """Return the common type; INTEGER for a column of NULLs only, as in DuckDB."""
    types = tuple(cell.type for cell in cells)
    kind = common_type(types)
    if kind is None:
        names = tuple(sorted({str(t) for t in types}))
        raise Refused(Reason.TYPE_MISMATCH, listed.span, function="VALUES", types=names)
    return INTEGER if kind == NULL else kind


def _as(cell: Literal, kind: SqlType) -> Literal:
    value = cell.value
    if kind.kind is Kind.DECIMAL and isinstance(value, int):
        value = Decimal(value)
    elif kind.kind is Kind.DOUBLE and isinstance(value, int | Decimal):
        value = float(value)
    elif kind.kind is Kind.TIMESTAMP and type(value) is date:
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001
    return replace(cell, value=value, type=kind)
