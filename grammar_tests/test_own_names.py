"""Names of the owner's database that our statements use, too: SECURITY.md S14."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from dpsql.engines.duckdb import hardening
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.files import CannotOpen, Sources
from dpsql.model.errors import Unreachable
from dpsql.model.resources import Database, Limits
from dpsql.model.table_names import STAGE, WITHIN
from dpsql.proxy import Proxy
from grammar_tests.casefile import all_cases
from grammar_tests.proxy_kit import request

REPLACED = (
    "CREATE MACRO floor(x) AS 42",
    "CREATE MACRO Sum(x) AS 77",
    "CREATE MACRO isnan(x) AS true",
    "CREATE MACRO hash(a, b) AS 1",
    'CREATE MACRO "+"(a, b) AS 9',
    'CREATE MACRO "~~"(a, b) AS true',
    "CREATE MACRO range(n) AS TABLE SELECT 1 AS x",
    "CREATE MACRO duckdb_functions() AS TABLE SELECT 'x' AS function_name, true AS internal",
    f"CREATE TABLE {STAGE}0 (a INTEGER)",
)
LIMITS = Limits(memory="500MB", statement_seconds=20)


def database(folder: Path, *statements: str) -> str:
    path = str(folder / "data.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, x DOUBLE NOT NULL)")
        connection.execute("INSERT INTO people SELECT range, 0.5 FROM range(50)")
        for statement in statements:
            connection.execute(statement)
    return path


@pytest.mark.parametrize("statement", REPLACED)
def test_what_replaces_a_name_of_ours_is_refused_at_the_start(
    statement: str, tmp_path: Path
) -> None:
    path = database(tmp_path, statement)
    engine = DuckDBEngine(Database("duckdb", path), LIMITS)
    with engine, pytest.raises(Unreachable) as caught:
        engine.schema()
    name = statement.split()[2].split("(", maxsplit=1)[0].strip('"')
    assert f": {name}. Rename" in str(caught.value)


@pytest.mark.full("starts processes")
def test_every_name_of_the_engine_is_guarded(tmp_path: Path) -> None:
    """Law: whichever of its functions a database replaces, it is not opened."""
    with duckdb.connect() as connection:
        names = {
            name
            for (name,) in connection.execute(
                "SELECT function_name FROM duckdb_functions() WHERE function_type <> 'pragma'"
            ).fetchall()
        }
    opened = list[str]()
    for name in sorted(names)[::60]:
        folder = tmp_path / str(len(opened))
        folder.mkdir(exist_ok=True)
        quoted = name.replace('"', '""')
        path = database(folder, f'CREATE OR REPLACE MACRO "{quoted}"(a) AS 1')
        with pytest.raises(CannotOpen):
            hardening.private(Sources(path, ()), "500MB")
        opened.append(name)
        Path(path).unlink()
    assert len(opened) > 10


@pytest.mark.full("measures neighbours or further data sets")
def test_a_name_of_the_owners_own_is_no_matter(tmp_path: Path) -> None:
    path = database(tmp_path, "CREATE MACRO my_floor(x) AS 42", "CREATE TYPE mood AS ENUM ('a')")
    with DuckDBEngine(Database("duckdb", path), LIMITS) as engine:
        assert engine.schema().table("people") is not None
        assert engine.rows("SELECT SUM(floor(x)) FROM people") == [(0,)]


def test_without_the_guard_the_macro_would_be_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin: what a proof says of floor() is not true of this one."""
    path = database(tmp_path, "CREATE MACRO floor(x) AS 42")
    monkeypatch.setattr(hardening, "require_own_names", lambda _connection: None)
    connection = hardening.private(Sources(path, ()), "500MB").connection
    assert connection.execute("SELECT SUM(floor(x)) FROM people").fetchall() == [(42 * 50,)]


# --- tables that are called as parts of our statements are ----------------------------------------

POLICY = """
[database]
engine = "duckdb"
path = "data.duckdb"
[privacy_unit]
table = "rows"
key = "id"
[tables.rows]
access = "private"
key = "id"
[tables.rows.columns]
id = {}
k = { bounds = [0, 9] }
[tables.totals]
access = "private"
link = { column = "rid", references = "rows.id" }
[tables.totals.columns]
rid = {}
v = { bounds = [0, 9] }
[tables.stage_0]
access = "public"
[tables.norms]
access = "public"
[budgets.default]
epsilon = 100000.0
delta = 1e-3
query_epsilon = 1000.0
max_query_epsilon = 1000.0
[analysts.ana]
budget = "default"
"""
QUESTIONS = {
    "SELECT COUNT(*) FROM rows": 50,
    "SELECT SUM(k) FROM rows WHERE id < 10": 45,
    "SELECT SUM(t.v) FROM totals AS t JOIN rows AS r ON r.id = t.rid WHERE r.k > 4": 100,
    "SELECT COUNT(*) FROM rows WHERE EXISTS (SELECT 1 FROM totals WHERE totals.rid = rows.id)": 50,
    "SELECT COUNT(*) FROM rows JOIN stage_0 ON stage_0.k = rows.k": 5,
    "SELECT COUNT(*) FROM rows JOIN norms ON norms.k = rows.k CROSS JOIN"
    " (SELECT AVG(v) AS m FROM totals) AS a WHERE rows.k < a.m + 100": 5,
    "SELECT COUNT(*) FROM stage_0": 1,
}


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("spelling", ["duckdb", "postgres"])
def test_tables_may_have_the_names_of_our_parts(spelling: str, tmp_path: Path) -> None:
    path = tmp_path / "data.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, k INTEGER NOT NULL)")
        connection.execute("INSERT INTO rows SELECT range, range % 10 FROM range(50)")
        connection.execute("CREATE TABLE totals (rid INTEGER NOT NULL, v INTEGER NOT NULL)")
        connection.execute("INSERT INTO totals SELECT range % 50, 2 FROM range(100)")
        for name in ("stage_0", "norms"):
            connection.execute(f"CREATE TABLE {name} AS SELECT 3 AS k")
    policy = tmp_path / "dpsql.toml"
    policy.write_text(POLICY, encoding="utf-8")
    with Proxy.open(str(policy)) as proxy:
        for sql, expected in QUESTIONS.items():
            answer = proxy.ask(replace(request(sql), dialect=spelling))
            assert abs(answer.rows[0][0] - expected) < 1, sql


PART = re.compile(r"(?m)^\W*(?:WITH )?([a-z_]+) AS (?:NOT )?(?:MATERIALIZED )?\(")


def test_every_part_of_a_pinned_statement_is_listed() -> None:
    """Law: no statement of the cases gives a part a name that a table of the owner's could have."""
    parts = {name for case in all_cases() for name in PART.findall(case.rewrite or "")}
    assert parts - {"rows"} <= WITHIN
    assert "totals" in parts
