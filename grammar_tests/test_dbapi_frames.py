"""Frames and tables of a cursor: types as declared, every value, empty results, missing extras."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from math import isnan, nan
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpsql
from dpsql.interfaces.dbapi import Cursor, connect
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    decimal,
)
from dpsql.model.vocabulary import Answer, Column
from grammar_tests.fakes import FakeProxy

NOON = datetime(2024, 2, 29, 12, 30)
KINDS = (BOOLEAN, INTEGER, decimal(12, 2), DOUBLE, VARCHAR, DATE, TIMESTAMP, TIMESTAMPTZ)
FULL = (True, 5, Decimal("1.10"), 0.5, "a", NOON.date(), NOON, NOON.replace(tzinfo=UTC))
EMPTY = (None,) * len(KINDS)
NAMES = "flag n amount mean text day at zoned".split()


def cursor(*rows: Any, kinds: Any = KINDS, names: Any = NAMES, errors: Any = None) -> Cursor:
    columns = tuple(map(Column, names, kinds))
    errors = errors or ((None,) * len(columns),) * len(rows)
    doubled = tuple(tuple(e and 2 * e for e in row) for row in errors)
    proxy: Any = FakeProxy(answer=Answer(columns, rows, errors, doubled))
    return connect(proxy=proxy).execute("x")


ARROW = [
    pa.bool_(),
    pa.int64(),
    pa.decimal128(38, 2),
    pa.float64(),
    pa.string(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", tz="UTC"),
]


@pytest.mark.parametrize("rows", [(), (FULL,), (EMPTY,), (FULL, EMPTY)])
def test_arrow_has_the_declared_types_and_every_value(rows: Any) -> None:
    table = cursor(*rows).fetch_arrow_table()
    assert table.schema.types == ARROW
    assert table.schema.names == NAMES
    assert [tuple(row.values()) for row in table.to_pylist()] == list(rows)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("rows", [(), (FULL,), (EMPTY,), (FULL, EMPTY)])
def test_polars_has_the_declared_types_and_every_value(rows: Any) -> None:
    frame, pl = cursor(*rows).pl(), import_module("polars")
    plain = [pl.Boolean, pl.Int64, pl.Decimal(38, 2), pl.Float64, pl.String, pl.Date]
    moments = [pl.Datetime("us"), pl.Datetime("us", "UTC")]
    assert frame.schema == dict(zip(NAMES, plain + moments, strict=True))
    assert frame.rows() == list(rows)


PANDAS = "bool int64 float64 float64 datetime64[s] datetime64[us]".split()


@pytest.mark.parametrize("rows", [(), (FULL,)])
def test_pandas_has_plain_types_where_nothing_is_missing(rows: Any) -> None:
    frame = cursor(*rows).fetchdf()
    assert list(frame) == NAMES
    assert len(frame) == len(rows)
    plain = [frame[name].dtype for name in "flag n amount mean day at".split()]
    assert plain == PANDAS
    assert str(frame["zoned"].dtype) == "datetime64[us, UTC]"


def test_pandas_has_its_own_missing_values() -> None:
    frame = cursor(FULL, EMPTY).fetchdf()
    assert frame.isna().to_numpy().tolist() == [[False] * 8, [True] * 8]
    assert [str(frame[name].dtype) for name in ("flag", "n")] == ["boolean", "Int64"]
    assert frame.loc[0, "amount"] == 1.1
    assert frame.loc[0, "day"] == pd.Timestamp("2024-02-29")
    assert frame.loc[0, "zoned"] == pd.Timestamp("2024-02-29 12:30", tz="UTC")


def test_numpy_masks_what_is_missing() -> None:
    arrays = cursor(FULL, EMPTY).fetchnumpy()
    assert list(arrays) == NAMES
    assert [a.mask.tolist() for a in arrays.values()] == [[False, True]] * 8
    assert [a.dtype.str for a in arrays.values()] == (
        ["|b1", "<i8", "<f8", "<f8", "|O", "<M8[D]", "<M8[us]", "<M8[us]"]
    )
    assert arrays["day"][0] == np.datetime64("2024-02-29")
    assert [a.dtype for a in cursor().fetchnumpy().values()] == [a.dtype for a in arrays.values()]


def test_times_are_converted_to_utc() -> None:
    moment = datetime.fromisoformat("2024-01-01T02:00:00+02:00")
    asked = cursor((moment,), kinds=[TIMESTAMPTZ], names=["t"])
    assert asked.fetchnumpy()["t"][0] == np.datetime64("2024-01-01")


@pytest.mark.full("opens a proxy")
def test_numbers_beyond_64_bits_keep_their_digits() -> None:
    def wide() -> Cursor:
        return cursor((2**70,), (None,), kinds=[INTEGER], names=["n"])

    assert wide().fetch_arrow_table()["n"].to_pylist() == [Decimal(2**70), None]
    assert wide().pl()["n"].to_list() == [2**70, None]
    assert wide().fetchnumpy()["n"].tolist() == [2**70, None]
    assert wide().fetchdf()["n"].tolist() == [2**70, None]


def test_repeated_names_get_numbers() -> None:
    asked = cursor((1, 2), kinds=[INTEGER, INTEGER], names=["n", "n"])
    assert asked.fetchdf().to_dict("list") == {"n": [1], "n_2": [2]}


def test_a_column_without_a_type() -> None:
    def nothing() -> Cursor:
        return cursor((None,), kinds=[NULL], names=["nothing"])

    assert nothing().fetch_arrow_table().schema.types == [pa.null()]
    assert nothing().pl()["nothing"].to_list() == [None]
    assert nothing().fetchdf()["nothing"].tolist() == [None]


def test_a_frame_takes_the_rows_that_are_left() -> None:
    asked = cursor(FULL, EMPTY, FULL)
    assert asked.fetchone() == FULL
    assert asked.fetch_arrow_table().num_rows == 2
    assert asked.fetchone() is None
    assert len(asked.fetchdf()) == 0


def test_errors_and_margins_stand_beside_the_rows() -> None:
    rows = (("a", 5, 1.5), ("b", 6, 2.5))
    errors = ((None, 2.0, nan), (None, 3.0, 0.5))
    asked = cursor(*rows, kinds=[VARCHAR, INTEGER, DOUBLE], names="k n x".split(), errors=errors)
    values = asked.fetchdf()
    deviations, margins = asked.errors_df(), asked.margins_df()
    assert deviations["n"].tolist() == [2.0, 3.0]
    assert isnan(deviations["x"][0])
    assert deviations["k"].tolist() == [0.0, 0.0]
    assert (values["n"] - margins["n"]).tolist() == [1.0, 0.0]


def test_errors_before_asking() -> None:
    proxy: Any = FakeProxy()
    for name in ("errors_df", "margins_df", "fetchdf", "fetchnumpy", "pl", "fetch_arrow_table"):
        with pytest.raises(dpsql.InterfaceError):
            getattr(connect(proxy=proxy).cursor(), name)()


@pytest.mark.parametrize(
    ("method", "library", "extra"),
    [
        ("fetch_arrow_table", "pyarrow", "arrow"),
        ("fetchdf", "pandas", "pandas"),
        ("errors_df", "pandas", "pandas"),
        ("pl", "polars", "polars"),
    ],
)
def test_a_missing_extra_is_named_and_takes_no_row(
    method: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = cursor(FULL)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(dpsql.NotSupportedError, match=rf"pip install 'dpsql\[{extra}\]'"):
        getattr(asked, method)()
    assert asked.fetchall() == [FULL]


def test_rows_of_executemany_are_one_table() -> None:
    proxy: Any = FakeProxy(answer=replace(FakeProxy().answer, notices=()))
    asked = connect(proxy=proxy).cursor().executemany("?", [(1,), (2,)])
    assert asked.fetch_arrow_table().num_rows == 4
    assert asked.rowcount == 4
