"""The catalogue behind the Postgres door: what tools ask is answered as PostgreSQL 15 would."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

import dpsql
from dpsql.engines import Stop
from dpsql.interfaces.messages import describe
from dpsql.interfaces.pgwire import catalogue as pgwire_catalogue
from dpsql.interfaces.pgwire.catalogue import Catalogue, _engine
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.resources import Limits
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from grammar_tests import postgres_kit
from grammar_tests.bound import shop
from grammar_tests.catalogue_kit import ddl
from grammar_tests.catalogue_replay import (
    CORPUS,
    NUMBERS,
    Asked,
    comparable,
    real,
    shadow,
    statements,
)
from grammar_tests.proxy_kit import shop as make_shop

FILES = sorted(CORPUS.glob("*.sql"))


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue(shop()[0], "ana", {})


@dataclass(frozen=True, slots=True)
class Oracle:
    connection: psycopg.Connection[Any]
    owner: psycopg.Connection[Any]
    oids: dict[str, int]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with (
        postgres_kit.running() as server,
        psycopg.connect(server.conninfo(), autocommit=True) as owner,
    ):
        for statement in ddl(shop()[0]):
            owner.execute(statement.encode())
        with psycopg.connect(server.conninfo("ana"), autocommit=True) as connection:
            yield Oracle(connection, owner, dict(connection.execute(NUMBERS).fetchall()))


def differences(asked: Asked, catalogue: Catalogue, oracle: Oracle) -> tuple[bool, bool]:
    """Whether columns, and whether rows, differ between the shadow and PostgreSQL."""
    numbers = dict(catalogue.ask(NUMBERS, ()).rows)
    ours = shadow(catalogue, asked, numbers)
    theirs = real(oracle.connection, asked, oracle.oids)
    return ours.columns != theirs.columns, comparable(ours, theirs) != comparable(theirs, ours)


@pytest.mark.full("a client of its own replays its session")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_tools_are_answered_as_postgresql_answers(
    path: Any, catalogue: Catalogue, oracle: Oracle
) -> None:
    asked = list(statements(path))
    assert asked
    found = {a.number: differences(a, catalogue, oracle) for a in asked}
    assert not [n for n, (columns, _) in found.items() if columns]
    # What is marked as different must be: a mark that no longer holds is an error too.
    assert {n for n, (_, rows) in found.items() if rows} == {a.number for a in asked if a.differs}


def test_a_wrong_answer_would_be_seen(catalogue: Catalogue, oracle: Oracle) -> None:
    asked = Asked("twin", 1, "SELECT relname, relkind FROM pg_class WHERE relnamespace = 2200")
    ours = shadow(catalogue, asked, {})
    theirs = real(oracle.connection, asked, {})
    assert comparable(ours, theirs) == comparable(theirs, ours)
    ours.rows.pop()
    assert comparable(ours, theirs) != comparable(theirs, ours)


@pytest.mark.parametrize(
    ("view", "columns"),
    [
        # The names of checks hold the numbers of tables.
        ("table_constraints", "table_name, constraint_type"),
        ("referential_constraints", "*"),
        ("constraint_column_usage", "*"),
    ],
)
def test_constraints_are_told_as_postgresql_tells_owners(
    catalogue: Catalogue, oracle: Oracle, view: str, columns: str
) -> None:
    sql = f"SELECT {columns} FROM information_schema.{view} WHERE constraint_schema = 'public'"
    theirs = oracle.owner.execute(sql.encode()).fetchall()
    assert sorted(rows(catalogue, sql)) == sorted(theirs)
    assert theirs


@pytest.mark.full("opens servers or connects clients")
def test_an_analyst_sees_itself_alone() -> None:
    both = replace(shop()[0], analysts=(("ana", "default"), ("bob", "default")))
    ana, bob = (Catalogue(both, who, {}) for who in ("ana", "bob"))
    for who in (ana, bob):
        mine = rows(who, "SELECT current_user")
        assert rows(who, "SELECT rolname FROM pg_roles WHERE rolcanlogin") == mine
        assert rows(who, "SELECT usename FROM pg_user") == mine
    (number,) = rows(ana, "SELECT oid FROM pg_roles WHERE rolname = 'ana'")
    assert rows(bob, "SELECT pg_get_userbyid($1)", *number) == [(f"unknown (OID={number[0]})",)]
    granted = "SELECT relacl FROM pg_class AS c WHERE relname = 'orders'"
    assert rows(bob, granted)[0][0][1:] == ["bob=r/dpsql"]
    for sql in ("$1::oid::regrole", "$1::oid::regrole::text"):
        assert rows(bob, f"SELECT {sql}", *number) == [(str(number[0]),)]
        assert rows(ana, f"SELECT {sql}", *number) == [("ana",)]
    assert rows(bob, "SELECT $1::text::regrole", "ana") == [(None,)]
    with pytest.raises(Refused):
        rows(bob, "SELECT 'ana'::regrole")
    assert rows(ana, "SELECT 'ana'::regrole::oid, $1::text::regrole", "ana") == [(*number, "ana")]


def rows(catalogue: Catalogue, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    return list(catalogue.ask(sql, parameters).rows)


def test_vectors_are_vectors_and_count_from_zero(catalogue: Catalogue) -> None:
    sql = "SELECT indkey, indclass, indkey[0], indkey[1] FROM pg_index"
    answer = catalogue.ask(f"{sql} WHERE indrelid = 'orders'::regclass", ())
    assert [c.oid for c in answer.columns] == [22, 30, 21, 21]
    assert answer.rows == [([1], [3124], 1, None)]


def test_a_doubled_label_of_jsonb_has_its_last_value(catalogue: Catalogue) -> None:
    listed = "(VALUES ('bb', '1'), ('a', '2'), ('bb', '3')) AS s(name, kind)"
    agg = "SELECT jsonb_object_agg(name, kind{}) FROM " + listed
    assert rows(catalogue, agg.format("")) == [('{"a": "2", "bb": "3"}',)]
    assert rows(catalogue, agg.format(" ORDER BY kind DESC")) == [('{"a": "2", "bb": "1"}',)]


def test_a_lone_values_keeps_its_order(catalogue: Catalogue) -> None:
    listed = "(VALUES ('b', '25'::oid), ('a', '20'::oid), ('c', '16'::oid)) AS s(name, kind)"
    told = rows(catalogue, f"SELECT name, format_type(kind, -1) FROM {listed}")
    assert told == [("b", "text"), ("a", "bigint"), ("c", "boolean")]
    assert rows(catalogue, f"SELECT max(name), pg_my_temp_schema() FROM {listed}") == [("c", 0)]


def test_hidden_and_undeclared_columns_do_not_exist(catalogue: Catalogue) -> None:
    sql = "SELECT attname FROM pg_attribute WHERE attrelid = 'customers'::regclass AND attnum > 0"
    shown = {name for (name,) in rows(catalogue, sql)}
    assert {"customer_id", "age"} <= shown
    assert not {"name", "secret"} & shown
    sql = "SELECT column_name FROM information_schema.columns WHERE table_name = 'customers'"
    assert {name for (name,) in rows(catalogue, sql)} == shown


def test_comments_carry_bounds_and_unit(catalogue: Catalogue) -> None:
    sql = "SELECT col_description('customers'::regclass, $1::int)"
    assert rows(catalogue, sql, 1) == [("the privacy unit",)]
    assert rows(catalogue, sql, 5) == [("bounds 0 to 120; may be NULL",)]


def test_privileges_are_to_read(catalogue: Catalogue) -> None:
    sql = "SELECT has_table_privilege('orders', $1), has_table_privilege('pg_authid', $1)"
    assert rows(catalogue, sql, "SELECT") == [(True, False)]
    assert rows(catalogue, sql, "INSERT") == [(False, False)]
    sql = "SELECT grantee, privilege_type FROM information_schema.table_privileges"
    assert rows(catalogue, f"{sql} WHERE table_name = 'orders'") == [("ana", "SELECT")]


def test_settings_are_the_sessions() -> None:
    settings = {"search_path": "public"}
    catalogue = Catalogue(shop()[0], "ana", settings)
    sql = "SELECT current_setting('search_path'), current_user"
    assert rows(catalogue, sql) == [("public", "ana")]
    settings["search_path"] = "elsewhere"
    assert rows(catalogue, sql) == [("elsewhere", "ana")]
    sql = "SELECT setting FROM pg_settings WHERE name = 'search_path'"
    assert rows(catalogue, sql) == [("elsewhere",)]


@pytest.mark.parametrize(
    ("sql", "claimed"),
    [
        ("SELECT relname FROM pg_class", True),
        ("SELECT table_name FROM information_schema.tables", True),
        ("SELECT version()", True),
        ("SELECT current_user", True),
        ("SELECT 'pg_tables'::pg_catalog.regclass::pg_catalog.oid", True),
        ("SELECT string_agg(word, ',') FROM pg_get_keywords() WHERE word <> ALL ('{a}')", True),
        ("SELECT pg_advisory_unlock_all()", True),
        ("SELECT COUNT(*) FROM pg_class", True),
        ("WITH x AS (SELECT oid FROM pg_type) SELECT * FROM x", True),
        ("SELECT * FROM orders", False),
        ("SELECT * FROM public.orders", False),
        ("SELECT * FROM pg_class, orders", False),
        ("SELECT * FROM pg_class WHERE oid IN (SELECT customer_id FROM orders)", False),
        ("SELECT * FROM tables", False),
        ("SELECT spent FROM dpsql_budget() AS b", True),
        ("SELECT * FROM dpsql_budget(), orders", False),
        ("SELECT 1", False),
        ("SELECT", False),
        ("DELETE FROM pg_class", False),
    ],
)
def test_only_the_catalogue_is_claimed(catalogue: Catalogue, sql: str, claimed: bool) -> None:  # noqa: FBT001
    assert catalogue.claims(sql) is claimed


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT pg_sleep(10) FROM pg_class", Reason.UNKNOWN_FUNCTION),
        ("SELECT pg_read_file('/etc/passwd')", Reason.UNKNOWN_FUNCTION),
        ("SELECT * FROM read_csv('/etc/passwd')", Reason.UNKNOWN_FUNCTION),
        ("SELECT getvariable('analyst') FROM pg_class", Reason.UNKNOWN_FUNCTION),
        ("SELECT nothing FROM pg_class", Reason.UNKNOWN_COLUMN),
        ("SELECT * FROM pg_catalog.pg_nothing", Reason.UNKNOWN_TABLE),
        ("SELECT rolpassword FROM pg_authid", Reason.UNKNOWN_TABLE),
        ("SELECT * FROM duckdb_tables", Reason.UNKNOWN_TABLE),
        ("SELECT 'nothing'::regclass", Reason.UNKNOWN_TABLE),
        ("SELECT * FROM pg_class TABLESAMPLE SYSTEM (1)", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT relname FROM pg_class FOR UPDATE", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT * FROM cat.names", Reason.UNKNOWN_TABLE),
        ("SELECT * FROM cat.read_grants", Reason.UNKNOWN_TABLE),
        ("SELECT * FROM pg_catalog.readable_relations", Reason.UNKNOWN_TABLE),
        ("SELECT pg_encodings() FROM pg_class", Reason.UNKNOWN_FUNCTION),
        ('SELECT "function pg_me"() FROM pg_class', Reason.UNKNOWN_FUNCTION),
        ("SELECT COLUMNS('rel.*') FROM pg_class", Reason.UNKNOWN_FUNCTION),
        ("SELECT * EXCLUDE (relname) FROM pg_class", Reason.SYNTAX),
        ("SELECT relname OPERATOR(pg_catalog.->) 'x' FROM pg_class", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT {'a': 1} FROM pg_class", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT rowid FROM pg_class", Reason.UNKNOWN_COLUMN),
        ("SELECT 1; SELECT 2", Reason.SYNTAX),
        ("SELECT " + "(" * 100 + "1" + ")" * 100, Reason.TOO_LARGE),
        ("SELECT 'x'::int FROM pg_class", Reason.TYPE_MISMATCH),
    ],
)
def test_all_else_is_refused(catalogue: Catalogue, sql: str, reason: Reason) -> None:
    with pytest.raises(Refused) as told:
        catalogue.ask(sql, ())
    assert told.value.reason is reason


FOREVER = (
    "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d"
    " WHERE a.attname || b.attname = c.attname || d.attname"
)


class _Pool:
    """An engine without a process."""


class _Forgetful(dict[Any, Any]):
    """Engines of which none is found again."""

    def get(self, *_: object) -> None:
        return None


def test_sessions_of_one_role_share_their_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a process: sessions of nine agents in turn would start one each."""
    monkeypatch.setattr(pgwire_catalogue, "EnginePool", lambda *_: _Pool())
    monkeypatch.setattr(pgwire_catalogue, "script", lambda _rows: ())
    monkeypatch.setattr(pgwire_catalogue, "objects", lambda *_: {})
    monkeypatch.setattr(pgwire_catalogue, "_names", lambda *_: SimpleNamespace(rows=list))
    policy, _ = shop()
    roles = [replace(policy, analysts=((f"agent {n}", ""),)) for n in range(9)]

    def engines() -> int:
        _engine.cache_clear()
        return len({id(e) for e in [_engine(role, "own") for _ in range(2) for role in roles]})

    assert engines() == 9
    monkeypatch.setattr(pgwire_catalogue, "_IN_USE", _Forgetful())
    assert engines() == 18  # the wrong twin
    _engine.cache_clear()


def doubled(times: int) -> str:
    """A question whose one text doubles again and again."""
    steps = "".join(f", t{n} AS (SELECT concat(s, s) AS s FROM t{n - 1})" for n in range(1, times))
    return f"WITH t0 AS (SELECT 'text' AS s){steps} SELECT length(s) FROM t{times - 1}, pg_class"


@pytest.mark.full("opens servers or connects clients")
def test_a_question_burdens_no_memory_but_its_own(catalogue: Catalogue) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nested = "relname::text"
    for _ in range(12):
        nested = f"replace({nested}, 'a', '{'a' * 60}')"
    assert rows(catalogue, f"SELECT max(length({nested})) FROM pg_class") == [(8192,)]
    for sql in (doubled(40), "SELECT a.attname FROM pg_attribute a, pg_attribute b"):
        with pytest.raises(Refused):
            catalogue.ask(sql, ())
    assert rows(catalogue, "SELECT current_user") == [("ana",)]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # kB


@pytest.mark.full("opens servers or connects clients")
def test_a_question_can_be_stopped(catalogue: Catalogue) -> None:
    stop = Stop()
    timer = Timer(0.2, lambda: setattr(stop, "requested", True))
    timer.start()
    with pytest.raises(Failed, match="cancelled; nothing was charged"):
        catalogue.ask(FOREVER, (), (), stop)
    timer.join()
    assert rows(catalogue, "SELECT current_user") == [("ana",)]


@pytest.mark.full("opens servers or connects clients")
def test_a_question_has_its_time(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    for member in catalogue._engine._all:  # type: ignore[attr-defined]
        monkeypatch.setattr(member, "_limits", Limits(statement_seconds=1))
    with pytest.raises(Refused) as told:
        catalogue.ask(FOREVER, ())
    assert told.value.reason is Reason.TOO_LARGE


def test_the_servers_process_runs_no_sql() -> None:
    """DuckDB is spoken to by what runs in a worker, and imported nowhere else but by the commands
    that make the demo and what is prepared.
    """
    root = Path(dpsql.__file__).parent
    users = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"^\s*(import|from) _?duckdb\b", path.read_text("utf-8"), re.MULTILINE)
    }
    names = (
        "hardening worker conformance_worker cut_texts file_views parquet_statistics parquet_values"
    ).split()
    workers = {f"engines/duckdb/{name}.py" for name in names}
    assert users == {*workers, "engines/duckdb/store_writer.py", "policy/demo.py"}


@pytest.mark.full("starts processes")
def test_the_servers_process_does_not_load_duckdb() -> None:
    loads = "import sys, dpsql.proxy, {}; sys.exit('_duckdb' in sys.modules)"
    for module, loaded in (("duckdb_engine", 0), ("file_views", 1)):
        command = loads.format(f"dpsql.engines.duckdb.{module}")
        done = subprocess.run([sys.executable, "-c", command], check=False)  # noqa: S603
        assert done.returncode == loaded, module


def test_parameters_have_the_types_that_their_places_want(catalogue: Catalogue) -> None:
    sql = (
        "SELECT relname FROM pg_class WHERE oid = ANY($1::oid[]) AND relname = $2 AND relnatts > $3"
    )
    assert catalogue.parameter_types(sql, 3) == (1028, 19, 21)
    assert rows(catalogue, sql, [1259], "pg_class", 5) == [("pg_class",)]
    assert rows(catalogue, sql, None, "it's \\ odd", 5) == []


def test_the_policys_types_are_those_that_answers_have(catalogue: Catalogue) -> None:
    policy = shop()[0]
    sql = "SELECT attname, atttypid FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0"
    for table in policy.tables:
        columns = [c for c in table.columns if not c.hidden]
        types = {c.name: type_oids.oid_of(c.type) for c in columns}
        assert dict(rows(catalogue, sql, table.name)) == types


SCANS = {
    'SELECT "public"."customers"."city" AS "city" FROM "public"."customers" LIMIT 9': "raw-rows",
    'SELECT SUBSTRING("orders"."note", 1, 1234) AS "s" FROM "public"."orders" LIMIT 9': "raw-rows",
    'SELECT "source"."s" AS "s" FROM (SELECT SUBSTRING("public"."orders"."note", 1, 1234) AS "s"'
    ' FROM "public"."orders") AS "source" LIMIT 10000': "raw-rows",
    'SELECT DISTINCT "customer_id" FROM "public"."customers" LIMIT 1000': "unit-key-exposed",
    "SELECT * FROM public.orders LIMIT 200": "raw-rows",
    "SELECT * FROM public.orders TABLESAMPLE SYSTEM (1)": "unsupported-syntax",
    "SELECT ctid, * FROM public.orders LIMIT 1": "unknown-column",
}
"""What Metabase's fingerprints, a data editor's first page and samplers send."""


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(("sql", "reason"), SCANS.items())
def test_scans_for_samples_are_refused_and_cost_nothing(
    catalogue: Catalogue, tmp_path: Path, sql: str, reason: str
) -> None:
    assert not catalogue.claims(sql)
    with Proxy.open(str(make_shop(tmp_path / "shop"))) as proxy:
        before = proxy.budgets()
        told = []
        for _ in range(2):
            with pytest.raises(Refused) as refused:
                proxy.ask(Request(sql, "ana", "postgres"))
            told.append((refused.value.reason.value, describe(refused.value, sql)))
        assert told[0] == told[1]
        assert told[0][0] == reason
        assert proxy.budgets() == before
        assert proxy.ledger.history() == ()


FREE = {
    'SELECT TRUE AS "_" FROM "public"."orders" WHERE 1 <> 1 LIMIT 0': 0,
    'SELECT "public"."customers"."segment" AS "segment" FROM "public"."customers"'
    ' GROUP BY "public"."customers"."segment" LIMIT 1000': 2,
}
"""How Metabase asks whether a table may be read, and for the values of a column."""


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(("sql", "rows_shown"), FREE.items())
def test_probes_and_scans_for_listed_values_are_free(
    tmp_path: Path, sql: str, rows_shown: int
) -> None:
    with Proxy.open(str(make_shop(tmp_path / "shop"))) as proxy:
        before = proxy.budgets()
        assert len(proxy.ask(Request(sql, "ana", "postgres")).rows) == rows_shown
        assert proxy.budgets() == before
