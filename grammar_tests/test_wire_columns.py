"""Rows that come as columns go over the wire as if they had come one by one."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.data_rows import data_rows
from dpsql.interfaces.pgwire.values.wire_encoding import OutOfRange, encoder
from dpsql.model.table import Table

COLUMNS: tuple[tuple[int, Any], ...] = (
    (type_oids.INT8, np.array([2**63 - 1, -(2**63), 0])),
    (type_oids.INT4, np.array([2**31 - 1, -(2**31), 0])),
    (type_oids.INT2, np.array([1, -1, 0])),
    (type_oids.FLOAT8, np.array([0.1, -0.0, 1e-4])),
    (type_oids.FLOAT8, np.array([1e15, np.nan, 1e-5])),
    (type_oids.FLOAT8, np.array([100.0, 999999999999999.9, 10.05])),
    (type_oids.NUMERIC, np.array([1, 2, 3])),
    (type_oids.NUMERIC, [Decimal("-1.50"), Decimal(0), Decimal(10) ** 30]),
    (type_oids.NUMERIC, [Decimal("1E+3"), Decimal("0E-9"), Decimal("1.0")]),
    (type_oids.BOOL, np.array([True, False, True])),
    (type_oids.INT8, [None, 5, -7]),
    (type_oids.TEXT, ["é", "", None]),
    (type_oids.TEXT, ["a", "b, c", "0.0"]),
)


@pytest.mark.parametrize("form", [0, 1])
def test_columns_are_written_as_their_values_are(form: int) -> None:
    for oid, column in COLUMNS:
        formats = [(oid, form), (type_oids.TEXT, form)]
        table = Table(3, [column, ["x", "yy", "zzz"]])
        data = data_rows(table, formats, UTC)
        assert data == data_rows(list(table), formats, UTC)
        assert data == b"".join(data_rows(table[n : n + 1], formats, UTC) for n in range(3))
        write = encoder(oid, form)
        for value, _ in table:
            if value is not None:
                raw = write(value)
                assert len(raw).to_bytes(4, "big") + raw in data, (oid, value)


@pytest.mark.parametrize("form", [0, 1])
@pytest.mark.parametrize(
    ("oid", "value"), [(type_oids.INT4, 2**31), (type_oids.INT2, -(2**15) - 1)]
)
def test_a_number_that_is_too_wide_is_told(oid: int, value: int, form: int) -> None:
    for column in (np.array([1, value]), [1, value]):
        with pytest.raises(OutOfRange):
            data_rows(Table(2, [column]), [(oid, form)], UTC)


def test_a_table_is_a_sequence_of_its_rows() -> None:
    table = Table(3, [np.array([1.5, 2.5, 3.5]), ["a", None, "c"]])
    rows = [(1.5, "a"), (2.5, None), (3.5, "c")]
    assert table == rows
    assert table != rows[:2]
    assert list(table) == rows
    assert [table[n] for n in (0, 1, -1)] == rows
    assert all(type(value) is float for value, _ in table)
    for piece in (slice(1, None), slice(0, 2), slice(5, 9), slice(None, None, -1)):
        assert table[piece] == rows[piece]
        assert len(table[piece]) == len(rows[piece])
    with pytest.raises(IndexError):
        table[3]
