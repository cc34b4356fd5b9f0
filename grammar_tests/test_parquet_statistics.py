"""Statistics of Parquet that other writers state otherwise lose and add nobody (R99, R100)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from random import Random
from struct import pack
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.engines.duckdb import parquet_statistics, parquet_values
from dpsql.engines.duckdb.files import CannotOpen, Sources
from dpsql.engines.duckdb.hardening import private
from dpsql.engines.spark.spark_engine import SparkEngine
from dpsql.model.errors import Unreachable
from dpsql.model.resources import Database, Limits
from grammar_tests.parquet_footers import (
    LEAST,
    MOST,
    NULLS,
    OLD_LEAST,
    OLD_MOST,
    Struct,
    with_page_ends,
    with_statistics,
)
from grammar_tests.spark_kit import running

VALUES: tuple[tuple[pa.DataType, list[Any]], ...] = (
    (pa.string(), ["", "a", "\u00e91", "\u00e92", "zed", r"\xC3", "z" * 70]),
    (pa.int32(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    (pa.uint32(), [0, 1, 2**31 - 1, 2**31, 2**32 - 1]),
    (pa.decimal128(20, 2), [Decimal(n) for n in (-999, 0, 5, 999)]),
    (pa.float64(), [-inf, -1.0, -0.0, 0.0, 2.5, inf, nan]),
    (pa.timestamp("ms"), [-(10**12), 0, 10**12]),
    (pa.date32(), [-(2**31), -(2**31) + 1, 0, 2**31 - 1]),
)
"""Values of each type; the bytes of some are in another order."""
INFINITE = [pack("<d", end) for end in (inf, -inf)]
"""Ends that DuckDB does not display: alone they are not compared."""
SIGNS = ("=", "<", "<=", ">", ">=", "<>")
WRONG = ("old", "ends", "cut", "nulls")
"""How statistics are changed: by signed bytes as old writers do, other ends, a cut one, NULLs."""


def other(dice: Random, how: str, ends: list[bytes]) -> Callable[[list[str], Struct], None]:
    def change(steps: list[str], stated: Struct) -> None:
        if steps[-1] != "x" or not {MOST, LEAST} <= set(stated):
            return
        match how:
            case "old":
                least, most = sorted((stated[LEAST][1], stated[MOST][1]), key=_signed)
                nulls = stated[NULLS]
                stated.clear()
                stated |= {OLD_LEAST: (8, least), OLD_MOST: (8, most), NULLS: nulls}
            case "ends":
                stated[dice.choice((MOST, LEAST))] = 8, dice.choice(ends)
            case "cut":
                stated[MOST] = 8, stated[MOST][1][:1].ljust(len(stated[MOST][1]) // 8 * 8, b"\0")
            case _:
                shown = {stated[MOST][1], stated[LEAST][1]}.isdisjoint(INFINITE)
                stated[NULLS] = 6, dice.choice((0, 1, 4) if shown else (0, 1))

    return change


def _signed(value: bytes) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in value]


def written(path: Path, seed: int) -> str:
    """A file of x, or of s.x, with statistics of another writer; the column's expression."""
    dice = Random(seed)  # noqa: S311
    kind, values = dice.choice(VALUES)
    column = pa.array(dice.choices([*values, None], k=12), kind)
    nested = dice.random() < 0.3
    parts = {"s": pa.StructArray.from_arrays([column], ["x"])} if nested else {"x": column}
    pq.write_table(pa.table(parts), path, row_group_size=dice.choice((4, 5)))
    path.with_suffix(".true").write_bytes(path.read_bytes())
    ends = list[bytes]()
    with_statistics(path, lambda _, s: ends.extend(v for _, v in s.values() if type(v) is bytes))
    ends = [end for end in ends if end not in INFINITE]
    with_statistics(path, other(dice, dice.choice(WRONG), ends or [b"\0" * 8]))
    return "s.x" if nested else "x"


def differing(path: Path, seed: int) -> str | None:
    """The first condition that counts other rows than the plain values have, or "" if none does.

    None if the file is refused.
    """
    x = written(path, seed)
    try:
        connection = private(Sources(None, (("t", str(path)),)), "500MB").connection
    except CannotOpen:
        return None
    with closing(connection), duckdb.connect() as plain:
        plain.execute(f"CREATE TABLE t AS FROM read_parquet('{path.with_suffix('.true')}')")
        listed = f"SELECT DISTINCT ({x})::VARCHAR, typeof({x}) FROM t WHERE {x} IS NOT NULL"
        literals = [f"CAST('{text}' AS {kind})" for text, kind in plain.execute(listed).fetchall()]
        tests = [
            f"{x} {sign} {value}" for sign in SIGNS for value in literals if "nan" not in value
        ]
        for test in (*tests, f"{x} IS NULL", f"{x} IS NOT NULL"):
            one = f" AND NOT isnan({x})" if "DOUBLE" in test and " = " not in test else ""
            sql = f"SELECT COUNT(*) FROM t WHERE {test}{one}"
            if answered(connection, sql) != answered(plain, sql):
                return sql
    return ""


def answered(connection: Any, sql: str) -> Any:
    """The rows of an answer, or that there is none."""
    try:
        return connection.execute(sql).fetchall()
    except duckdb.Error:
        return "failed"


def outcomes(folder: Path, seeds: range) -> list[str | None]:
    return [differing(folder / "t.parquet", seed) for seed in seeds]


PARTS = [range(24), pytest.param(range(24, 2000), marks=pytest.mark.campaign)]


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("seeds", PARTS)
def test_statistics_that_are_accepted_lose_and_add_no_row(seeds: range, tmp_path: Path) -> None:
    told = outcomes(tmp_path, seeds)
    assert [sql for sql in told if sql] == []
    assert None in told
    assert "" in told


@pytest.mark.full("draws random questions or values")
def test_wrong_twin_statistics_that_are_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_values, "require_true_statistics", lambda *_all: None)
    assert any(outcomes(tmp_path, range(24)))


def test_texts_in_the_order_of_signed_bytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One person's first letter decides which names are counted."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": ["abc", "\u00e9t\u00e9", "zed"]}), path)
    with_statistics(path, other(Random(0), "old", []))  # noqa: S311
    sources = Sources(None, (("t", str(path)),))
    with pytest.raises(CannotOpen, match="statistics"):
        private(sources, "500MB")
    monkeypatch.setattr(parquet_values, "require_true_statistics", lambda *_all: None)
    with closing(private(sources, "500MB").connection) as twin:
        assert twin.execute("SELECT COUNT(*) FROM t WHERE x >= '\u00e9'").fetchone() != (1,)


@pytest.mark.full("opens servers or connects clients")
def test_a_spark_server_reads_no_such_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"x": ["abc", "\u00e9t\u00e9", "zed"]}), path)
    asked = 'SELECT COUNT(*) FROM "people" WHERE "x" >= \'\u00e9\''
    with running(workers=0) as sail:
        database = Database("spark", files=(("people", str(path)),), settings=(("url", sail.url),))
        with closing(SparkEngine(database, Limits(memory="2GB"))) as true:
            assert true.schema().table("people") is not None
            assert true.rows(asked) == [(1,)]
        with_statistics(path, other(Random(0), "old", []))  # noqa: S311
        with closing(SparkEngine(database, Limits(memory="2GB"))) as wrong:
            with pytest.raises(Unreachable, match="statistics"):
                wrong.schema()
            monkeypatch.setattr(SparkEngine, "verify", lambda _engine: None)
            assert wrong.schema().table("people") is not None
            assert wrong.rows(asked) == [(0,)]  # one person's name decides whether it counts


def test_statistics_of_pages_are_not_read(tmp_path: Path) -> None:
    """They are beside those of row groups, in an index: here each page is said to be the first."""
    path = tmp_path / "t.parquet"
    table = pa.table({"x": range(20_000), "s": [f"v{n:05}" for n in range(20_000)]})
    pq.write_table(table, path, write_page_index=True, data_page_size=2000, use_dictionary=False)
    with_page_ends(path, lambda ends: ends[:1] * len(ends))
    with closing(private(Sources(None, (("t", str(path)),)), "500MB").connection) as connection:
        for condition, rows in {"x = 15000": 1, "s > 'v19990'": 9, "x > 19990": 9}.items():
            asked = f"SELECT COUNT(*) FROM t WHERE {condition}"
            assert connection.cursor().execute(asked).fetchall() == [(rows,)]
    with duckdb.connect() as twin:
        named = "SELECT COUNT(*) FROM duckdb_settings() WHERE name = 'parquet_use_page_index'"
        if twin.execute(named).fetchall() == [(1,)]:
            lost = f"SELECT COUNT(*) FROM read_parquet('{path}') WHERE x = 15000"
            assert twin.execute(lost).fetchall() == [(0,)]


@pytest.mark.parametrize(("kind", "values"), VALUES)
def test_true_statistics_of_any_value_are_accepted(
    kind: pa.DataType, values: list[Any], tmp_path: Path
) -> None:
    """Each value has a file of its own: nothing else widens what is stated."""
    files = []
    for n, each in enumerate([*([value] for value in values), [*values, None], [None]]):
        path = tmp_path / f"{n}.parquet"
        pq.write_table(pa.table({"x": pa.array(each, kind)}), path)
        files.append((f"t{n}", str(path)))
    private(Sources(None, tuple(files)), "500MB").connection.close()


@pytest.mark.parametrize("sizes", [[4, 4, 3], [3, 4], [1, 0, 2, 2], [5]])
def test_rows_are_compared_with_the_statistics_of_their_own_group(sizes: list[int]) -> None:
    groups = [group for group, size in enumerate(sizes) for _ in range(size)]
    sql = parquet_statistics._group_of(sizes)
    with duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT {sql} FROM range({sum(sizes)}) AS t(file_row_number)"
        ).fetchall()
    assert [group for (group,) in rows] == groups
