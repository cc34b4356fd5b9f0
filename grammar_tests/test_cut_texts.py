"""Long texts are cut where they are read, before any other function, and no key is cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb import hardening, text_lines
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.files import CannotOpen, Sources
from dpsql.model.errors import PolicyError
from dpsql.model.resources import LONGEST_TEXT, Database, Limits
from dpsql.model.schema import Schema
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.views import with_views
from grammar_tests import bound, world
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import PlainEngine, compiled, integers
from grammar_tests.world import Tables

MOST, SHORT = 1000, 400
LIMITS = Limits(memory="500MB", max_text_length=MOST)
PADDING = "paid" + "é" * 2 * MOST
ASKED = (
    "SELECT SUM(GREATEST(0, LEAST(LENGTH(note), 9999))) FROM orders",
    "SELECT COUNT(DISTINCT note) FROM orders",
    "SELECT COUNT(*) FROM orders WHERE note LIKE '%z'",
    "SELECT COUNT(*) FROM orders WHERE RIGHT(note, 1) = 'z'",
    """SELECT COUNT(*) FROM orders AS a JOIN orders AS b
    ON a.customer_id = b.customer_id AND a.note = b.note""",
    """SELECT COUNT(*) FROM (SELECT customer_id, MAX(UPPER(note)) AS most FROM orders
    GROUP BY customer_id) AS t WHERE most LIKE 'PAIDÉ%' AND most NOT LIKE '%Z'""",
    "SELECT note, COUNT(*) FROM orders GROUP BY note",
)


def with_long_texts(cut: int | None = None) -> Tables:
    """Orders whose texts differ beyond the longest length alone, whole or cut."""
    tables = world.well_behaved()
    orders = [
        (*row[:7], (PADDING + "z" * (n % 3))[:cut], *row[8:]) if n % 4 == 0 else row
        for n, row in enumerate(tables["orders"])
    ]
    return tables | {"orders": orders}


def database(folder: Path, tables: Tables) -> str:
    path = str(folder / "shop.duckdb")
    source = world.build(tables, constraints=True)
    source.execute(f"ATTACH '{path}' AS there")
    source.execute("COPY FROM DATABASE memory TO there")
    source.execute("CREATE SCHEMA there.more")
    source.execute("CREATE TABLE there.more.notes AS SELECT order_id, note FROM orders")
    source.execute("DETACH there")
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDBEngine]:
    path = database(tmp_path, with_long_texts())
    with DuckDBEngine(Database("duckdb", path), LIMITS) as opened:
        yield opened


def unlike(engine: DuckDBEngine) -> list[str]:
    """The questions with other integers than over cut texts in a plain engine."""
    plain = PlainEngine(world.build(with_long_texts(MOST), constraints=True))
    draft = load(str(CATALOGS / "shop.toml"))
    policy = bind(draft, engine.schema(), PublicTables(plain, DUCKDB).values)
    plans = {sql: compiled(sql, policy, plain) for sql in ASKED}
    worker: Any = engine
    return [sql for sql, plan in plans.items() if integers(plan, worker) != integers(plan, plain)]


@pytest.mark.full("measures neighbours or further data sets")
def test_answers_are_those_over_cut_texts(engine: DuckDBEngine) -> None:
    assert unlike(engine) == []
    for table in ("more.notes", "main.orders", "orders"):
        longest = engine.rows(f"SELECT MAX(LENGTH(note)) FROM {table}")
        assert list(longest) == [(MOST,)]


def test_wrong_twin_texts_that_are_not_cut(engine: DuckDBEngine) -> None:
    with DuckDBEngine(Database("duckdb", engine._sources.path), Limits(memory="500MB")) as whole:
        assert len(unlike(whole)) > len(ASKED) / 2


@pytest.mark.full("measures neighbours or further data sets")
def test_a_long_text_changes_no_declaration(engine: DuckDBEngine, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with DuckDBEngine(Database("duckdb", database(other, with_long_texts(SHORT))), LIMITS) as short:
        plain, cut = short.schema(), engine.schema()
    found = [(t.name, c.name) for t in cut.tables for c in t.columns if c.cut]
    assert found == [("orders", "note"), ("more.notes", "note")]
    assert not any(column.cut for table in plain.tables for column in table.columns)
    assert repr(cut.tables).replace("cut=True", "cut=False") == repr(plain.tables)


def is_expanded(folder: Path, label: str) -> bool:
    """Whether a view is expanded that joins people to labels, unique as they are stored."""
    path = str(folder / "labels.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE people (pid INTEGER PRIMARY KEY, label VARCHAR)")
        connection.execute("CREATE TABLE labels (label VARCHAR UNIQUE, kind VARCHAR)")
        connection.execute("INSERT INTO people VALUES (1, ?)", [label + "a"])
        connection.executemany("INSERT INTO labels VALUES (?, 'k')", [[label + x] for x in "ab"])
        connection.execute(
            "CREATE VIEW labelled AS SELECT p.pid, k.kind FROM people AS p "
            "JOIN labels AS k ON k.label = p.label"
        )
    with DuckDBEngine(Database("duckdb", path), LIMITS) as opened:
        (view,) = [t for t in with_views(opened.schema(), DUCKDB).tables if t.name == "labelled"]
    return view.rows is not None


@pytest.mark.full("measures neighbours or further data sets")
def test_texts_that_are_cut_are_no_unique_key_of_a_view(tmp_path: Path) -> None:
    """Both labels of a person are equal once they are cut: the join multiplies their rows."""
    for name in ("short", "long"):
        (tmp_path / name).mkdir()
    assert is_expanded(tmp_path / "short", "x" * SHORT)
    assert not is_expanded(tmp_path / "long", "x" * MOST)


def test_a_long_key_is_refused() -> None:
    """Whether a database has a constraint or not: two long keys would be one person."""
    policy = bound.shop()[0]
    draft = load(str(CATALOGS / "shop.toml"))
    tables = declared(bound.shop()[1].rows)
    assert bind(draft, Schema(tables, ""), lambda *_named: []).unit == policy.unit
    cut = [replace(t, columns=tuple(replace(c, cut=True) for c in t.columns)) for t in tables]
    with pytest.raises(PolicyError, match="no key is cut"):
        bind(draft, Schema(tuple(cut), ""), lambda *_named: [])


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_texts_of_files_are_cut(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    long = "x" * (LONGEST_TEXT + 7)
    rows = f"SELECT 1 AS id, '{long}' AS note, 'k' AS code UNION ALL SELECT 2, 'y', 'l'"
    duckdb.execute(f"COPY ({rows}) TO '{path}'")
    data = Database("duckdb", files=(("t", str(path)),))
    with DuckDBEngine(data, Limits(memory="500MB")) as opened:
        (table,) = opened.schema().tables
        assert [column.name for column in table.columns if column.cut] == ["note"]
        lengths = opened.rows("SELECT LENGTH(note), code FROM t ORDER BY code")
        assert list(lengths) == [(LONGEST_TEXT, "k"), (1, "l")]


HEAVY = {
    "note": "repeat('x', 8000000) || i",
    "note.a": "{'a': repeat('x', 8000000) || i}",
    "note[1]": "range(1000000 + i)",
    "note->>'a'": "('\"' || repeat('x', 8000000) || i || '\"')::JSON",
}


def opened_with(folder: Path, value: str, ending: str, *memories: str) -> duckdb.DuckDBPyConnection:
    """Eight rows of 8 MB, opened with each of these memories, and then with 60 MB."""
    path = str(folder / f"t.{ending}")
    rows = f"SELECT i, {value} AS note FROM range(8) AS r(i)"
    with duckdb.connect(path if ending == "duckdb" else ":memory:") as connection:
        made = f"CREATE TABLE t AS {rows}" if ending == "duckdb" else f"COPY ({rows}) TO '{path}'"
        connection.execute(made)
    files = () if ending == "duckdb" else (("t", path),)
    sources = Sources(None if files else path, files)
    for memory in memories:
        hardening.private(sources, memory).connection.close()
    return hardening.private(sources, "60MB").connection  # type: ignore[no-any-return]


@pytest.mark.full("reads long files")
@pytest.mark.parametrize("read", HEAVY)
def test_values_that_fill_the_memory_are_refused_before_a_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    """Or a question fails after its charge, where somebody has one more."""
    for ending in ("duckdb", "parquet"):
        with pytest.raises(CannotOpen, match="memory"):
            opened_with(tmp_path, HEAVY[read], ending, "500MB").close()
    (tmp_path / "t.duckdb").unlink()
    monkeypatch.setattr(hardening, "check_stored_values", lambda *_: None)  # the wrong twin
    monkeypatch.setattr(hardening, "long_texts_of", lambda *_: [])
    with closing(opened_with(tmp_path, HEAVY[read], "duckdb")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM t").fetchone() == (8,)
        with pytest.raises(duckdb.OutOfMemoryException):
            connection.execute(f"SELECT COUNT(DISTINCT {read}) FROM t").fetchone()


def test_nothing_is_spilled_while_data_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[object]()

    def tell(opened: duckdb.DuckDBPyConnection, _sources: Sources) -> list[object]:
        told.append(opened.execute("SELECT current_setting('temp_directory')").fetchall())
        return []

    monkeypatch.setattr(hardening, "long_texts_of", tell)
    path = database(tmp_path, with_long_texts(SHORT))
    hardening.private(Sources(path, ()), "500MB").connection.close()
    assert told == [[("",)]]


def test_lines_are_short_if_none_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "BLOCK", 16)
    for length in range(12):
        for body in (b"", b"ab\n" * 6, b"abcdefg\n" * 4):
            stream = BytesIO(body + b"x" * length + b"\ny\n")
            blocks = text_lines._Blocks(stream, 7)
            assert list(iter(blocks.read, b""))
            assert blocks.short is (length <= 7)


@pytest.mark.full("measures neighbours or further data sets")
def test_no_store_of_whole_texts_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(hardening, "_attach_store", lambda *given: asked.append(given))
    for tables, attached in ((with_long_texts(), False), (with_long_texts(SHORT), True)):
        asked.clear()
        folder = tmp_path / str(attached)
        folder.mkdir()
        sources = Sources(database(folder, tables), (), longest=MOST)
        hardening.private(sources, "500MB").connection.close()
        assert bool(asked) is attached
