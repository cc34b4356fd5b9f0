"""Rows leave the worker as columns where they can: the same values in the same order."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.engines.duckdb.declared_schema import STATEMENTS
from dpsql.engines.duckdb.files import Sources, WorkerSettings
from dpsql.engines.duckdb.hardening import scratch
from dpsql.engines.duckdb.result_columns import exact, rows
from dpsql.engines.duckdb.worker import CHUNK_ROWS, _aggregate, _rows, _Worker

COUNT = CHUNK_ROWS + 1
VALUES = """
    (i % 100 - 50)::TINYINT, i - 100, i::UBIGINT * 300000000000000, i::HUGEINT * 10 ** 25::HUGEINT,
    i / 7, i::FLOAT / 7, i % 2 = 0, 'word ' || i, chr(i % 300 + 1) || chr(0) || 'é',
    i::DECIMAL(12, 2) / 8, (i - 50)::DECIMAL(38, 10), 5::DECIMAL(4, 0), DATE '1960-02-28' + i,
    TIMESTAMP '1969-12-31 23:59:59.999999' + to_microseconds(i * 977),
    '1969-12-31 23:59:59+00'::TIMESTAMPTZ + to_seconds(i), ['a', 'b'][i % 2 + 1]::ENUM ('a', 'b'),
    NULL, CASE i WHEN 1 THEN 'nan'::DOUBLE WHEN 2 THEN '-inf'::DOUBLE ELSE '-0.0'::DOUBLE END
"""
ABSENT = "SELECT CASE WHEN j % 3 > 0 THEN COLUMNS(* EXCLUDE j) END FROM (SELECT i AS j, {})"


def read(sql: str, *, by_columns: bool) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The decoders of a statement and its rows."""
    with scratch("200MB") as instance:
        decoders, *chunks = _rows(instance, sql, by_columns=by_columns)
        assert all(count <= CHUNK_ROWS for count, _ in chunks)
        return decoders, list(rows(chunks, decoders))


def same(one: Any, other: Any) -> bool:
    """Equal, of one type, with one sign; NaN too."""
    return type(one) is type(other) and repr(one) == repr(other)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("count", [0, 1, 2, 120, COUNT])
@pytest.mark.parametrize("nulls", [False, True])
def test_columns_are_the_rows(count: int, nulls: bool) -> None:  # noqa: FBT001
    listed = f"{VALUES} FROM (SELECT range::INTEGER AS i FROM range({count})) ORDER BY hash(i)"
    sql = ABSENT.format(listed) if nulls else f"SELECT {listed}"
    plain, expected = read(sql, by_columns=False)
    decoders, found = read(sql, by_columns=True)
    assert len(found) == count
    assert set(plain) == {"plain", "moment"}
    assert {"date", "decimal", "timestamp", "timestamptz", "integer"} < set(decoders)
    for row, other in zip(found, expected, strict=True):
        assert all(map(same, row, other)), (row, other)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("'infinity'::DATE", date.max),
        ("'-infinity'::TIMESTAMP", datetime.min),  # noqa: DTZ901
        ("DATE '10000-01-01'", "10000-01-01"),
        ("[1, NULL]", [1, None]),
        ("'x'::BLOB", b"x"),
    ],
)
def test_what_no_column_holds_comes_in_rows(value: str, expected: object) -> None:
    sql = f"SELECT {value}, 1.50 UNION ALL BY NAME SELECT NULL, 2.50 ORDER BY 2"
    decoders, found = read(sql, by_columns=True)
    assert set(decoders) == {"plain"}
    assert [row[0] for row in found] == [expected, None]


@pytest.mark.parametrize("count", [0, 1, CHUNK_ROWS, COUNT])
@pytest.mark.parametrize("wide", [0, 2**70])
def test_groups_are_the_same_before_and_after_numpy_is_loaded(count: int, wide: int) -> None:
    sums = f"SELECT i, 'word ' || i, i - 5, CASE i WHEN 0 THEN {wide} ELSE i END::HUGEINT"
    both = []
    for by_columns in (False, True):
        with scratch("200MB") as instance:
            sql = f"{sums} FROM range({count}) AS r(i) ORDER BY i"
            decoders, *chunks = _aggregate(instance, sql, 2, 2, 0, [], by_columns=by_columns)
            both.append(exact(chunks, decoders, 2))
    assert both[0].keys == both[1].keys == [(i, f"word {i}") for i in range(count)]
    for early, late in zip(both[0].parts, both[1].parts, strict=True):
        assert early.dtype == late.dtype
        assert early.tolist() == late.tolist()
    assert both[0].parts[1].tolist() == [wide, *range(1, count)][:count]


def test_what_was_foreseen_is_told_once_and_of_the_files_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is this process that would be bounded: later tests could start no more threads.
    monkeypatch.setattr("dpsql.engines.duckdb.worker.bound_process", lambda _connection: None)
    path = str(tmp_path / "d.duckdb")
    sources = Sources(path, ())
    with duckdb.connect(path) as db:
        db.execute("CREATE TABLE one (x INTEGER)")
    _sources, listed, _constraints = STATEMENTS
    worker = _Worker(WorkerSettings(sources, "200MB", expected=("nonsense", listed)))
    assert [kind for kind, _said in worker.open()] == ["chunk", "done"]
    worker.foresee()
    foreseen, asked = (
        list(worker.answer(0, "rows", (listed,), pinned=False, key="")) for _ in range(2)
    )
    assert foreseen == asked
    assert "one" in repr(foreseen)
    worker.foresee()
    Path(path).touch()
    assert list(worker.answer(0, "rows", (listed,), pinned=False, key="")) == [
        ("unreachable", "changed")
    ]
