"""PostgreSQL at the start: what is refused, the schema that is believed, and a policy over it."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from click.testing import CliRunner

from dpsql.dialects.postgres.postgres_dialect import POSTGRES
from dpsql.engines import EngineFailed, ScratchTable, reading_engine
from dpsql.engines.broadcast_tables import BroadcastTable, with_broadcast
from dpsql.engines.postgres import postgres_schema, reading_session
from dpsql.engines.postgres.postgres_engine import PostgresEngine
from dpsql.engines.reading_worker import CannotRead
from dpsql.interfaces.cli import main
from dpsql.model.errors import DataChanged, PolicyError, Refused, Unreachable
from dpsql.model.resources import Limits
from dpsql.model.schema import ForeignKey, Schema, SchemaTable
from dpsql.owner import public_findings
from dpsql.owner.check import check_policy
from dpsql.policy.check_constraints import Check, checks
from dpsql.policy.load import load
from dpsql.policy.private_views import unreadable
from dpsql.preparation import public_elsewhere
from dpsql.preparation.engine_kinds import opened
from dpsql.preparation.views import with_views
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.postgres_kit import Postgres
from grammar_tests.proxy_kit import policy, request
from grammar_tests.test_postgres_engine import OF_PEOPLE, READER, session, started
from grammar_tests.test_postgres_engine import engine as engine  # noqa: PLC0414 - a fixture
from grammar_tests.test_postgres_engine import owner as owner  # noqa: PLC0414 - a fixture
from grammar_tests.test_postgres_engine import server as server  # noqa: PLC0414 - a fixture

# --- what is refused at the start ---


BREAKS = {
    "writable": ("GRANT INSERT ON other TO reader", "REVOKE INSERT ON other FROM reader"),
    "logs": (
        "ALTER ROLE reader RESET log_parameter_max_length",
        "ALTER ROLE reader SET log_parameter_max_length = 0",
    ),
    "shadowed": (
        "CREATE FUNCTION public.md5(varchar) RETURNS text LANGUAGE sql AS $$ SELECT '' $$",
        "DROP FUNCTION public.md5(varchar)",
    ),
}


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("why", BREAKS)
def test_a_role_that_may_too_much_is_refused(
    server: Postgres, owner: psycopg.Connection[Any], why: str
) -> None:
    broken, mended = BREAKS[why]
    session(server.conninfo(READER)).close()
    owner.execute(broken)
    try:
        with pytest.raises(CannotRead, match=why):
            session(server.conninfo(READER))
    finally:
        owner.execute(mended)


@pytest.mark.parametrize(
    "broken",
    [
        "GRANT CREATE ON SCHEMA public TO PUBLIC",
        "CREATE OPERATOR public.+ (leftarg = text, rightarg = text, function = pg_catalog.textcat)",
        "ALTER ROLE reader SET pgaudit.log_parameter = on",
        "ALTER ROLE reader SET auto_explain.log_min_duration = 0",
    ],
)
def test_what_extensions_log_and_who_may_create_is_looked_at(
    server: Postgres,
    owner: psycopg.Connection[Any],
    broken: str,
) -> None:
    mended = {
        "GRANT": "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "CREATE": "DROP OPERATOR public.+ (text, text)",
        "ALTER": "ALTER ROLE reader RESET ALL; ALTER ROLE reader SET log_parameter_max_length = 0",
    }
    owner.execute(broken)
    try:
        with pytest.raises(CannotRead, match=r"logs|shadowed"):
            session(server.conninfo(READER))
    finally:
        owner.execute(mended[broken.split(maxsplit=1)[0]])


@pytest.mark.full("opens servers or connects clients")
def test_functions_that_somebody_made_are_not_taken_for_the_servers(
    server: Postgres, owner: psycopg.Connection[Any]
) -> None:
    length = "char_length(md5('a'::varchar)) AS n"
    with closing(started(server)) as one:
        one.schema()
        owner.execute(BREAKS["shadowed"][0])
        try:
            assert one.aggregate(f"SELECT 1, {length}", 1, 1, 0).parts[0].tolist() == [32]
            # What a search among the tables would find.
            assert one.rows(f"SELECT {length}") == [(0,)]
        finally:
            owner.execute(BREAKS["shadowed"][1])


@pytest.mark.full("opens servers or connects clients")
def test_a_superuser_is_refused_in_words_of_ours(server: Postgres) -> None:
    with (
        closing(PostgresEngine(server.conninfo(), "The shop", Limits())) as one,
        pytest.raises(Unreachable, match="The shop would be read as a superuser"),
    ):
        one.schema()


@pytest.mark.parametrize("false", ["md5('dpsql') = ''", "-7 / 2 = -4", "float8 'NaN' < 1", "1 / 0"])
def test_a_server_that_computes_otherwise_is_refused(
    server: Postgres, monkeypatch: pytest.MonkeyPatch, false: str
) -> None:
    tests = [(why, f"{sql} AND {false}") for why, sql in reading_session._TESTS[-1:]]
    monkeypatch.setattr(reading_session, "_TESTS", tests)
    with pytest.raises(CannotRead, match="untrusted"):
        session(server.conninfo(READER))


# --- the schema ---


@pytest.mark.full("opens servers or connects clients")
def test_constraints_count_where_the_server_enforces_them(engine: PostgresEngine) -> None:
    tables = {table.name: table for table in engine.schema().tables}
    assert not {"rowwise", "unread"} & set(tables)
    facts = tables["facts"]
    assert facts.unique_keys == (("b",),)
    assert {key.columns for key in facts.foreign_keys} == {("c",), ("f",)}
    assert tables["untriggered"].foreign_keys == ()
    assert (tables["parent"].unique_keys, _not_null(tables["parent"])) == ((), [])
    assert tables["parted"].primary_key == ("a",)
    assert (tables["people"].primary_key, _not_null(tables["people"])) == (("id",), ["id", "name"])
    assert (tables["seen"].view, tables["seen"].unique_keys) == (True, ())
    assert (tables["saved"].view, tables["saved"].is_derived) == (False, True)
    types = {column.name: str(column.type) for column in facts.columns}
    assert [types[name] for name in "ghij"] == ["None", "None", "DECIMAL(8, 2)", "VARCHAR"]


@pytest.mark.full("opens servers or connects clients")
def test_checks_say_what_the_server_enforces(engine: PostgresEngine) -> None:
    tables = {table.name: table for table in engine.schema().tables}
    proved = checks(tables["checked"])
    assert proved == {
        "a": Check(bounds=("1", "110")),
        "b": Check(bounds=("-5", "9")),
        "c": Check(bounds=("0", "1.5")),
        "d": Check(values=("open", "it's")),
        "e": Check(values=("x", "y")),
        "f": Check(length=7),
        "j": Check(length=2),
        "l": Check(length=20),
    }
    # NOT VALID, and what others call length and <=, prove nothing; nor do foreign parts.
    assert tables["odd"].checks == ()
    assert (tables["afar"].checks, _not_null(tables["afar"])) == ((), [])
    assert [tables[name].view for name in ("afar", "near", "away")] == [True, False, True]


@pytest.mark.full("opens servers or connects clients")
def test_a_view_is_read_by_our_own_statement_or_not_at_all(engine: PostgresEngine) -> None:
    """A value that makes the server's own view fail is NULL in ours: PRIVACY.md R98."""
    schema = with_views(engine.schema(), POSTGRES)
    tables = {table.name: table for table in schema.tables}
    coded = tables["coded"].rows
    assert coded is not None
    assert (tables["coded"].primary_key, tables["seen"].primary_key) == (("k",), ("id",))
    sql = POSTGRES.query(coded, tuple(field.ref for field in coded.fields[:2]))
    assert "coded" not in sql
    assert engine.rows(sql) == [(1, None), (2, 6)]
    with pytest.raises(EngineFailed):
        engine.rows("SELECT k, n FROM public.coded")
    refused = "recent", "ranked", "beyond", "cast_name", "away", "afar"
    assert not any(tables[name].rows for name in refused)
    assert "clock" in unreadable(tables["recent"])
    assert "window" in unreadable(tables["ranked"])
    assert "elsewhere" in unreadable(tables["afar"])
    assert all(unreadable(tables[name]) for name in refused)
    assert "name" in unreadable(tables["cast_name"])
    assert not unreadable(tables["saved"])
    assert (len(tables["near"].checks), _not_null(tables["near"])) == (1, ["a"])


def test_wrong_twin_a_check_that_is_not_valid_would_be_believed(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "pg_get_constraintdef(o.oid)"
    everything = postgres_schema._CHECKS.replace("o.convalidated AND", "")
    unmarked = everything.replace(text, f"replace({text}, ' NOT VALID', '')")
    monkeypatch.setattr(postgres_schema, "_CHECKS", unmarked)
    with closing(started(server)) as one:
        (checked,) = (t for t in one.schema().tables if t.name == "checked")
    assert checks(checked)["m"] == Check(bounds=("0", "9"))


def _not_null(table: SchemaTable) -> list[str]:
    return [column.name for column in table.columns if column.not_null]


# --- a policy ---


def on(server: Postgres, folder: Path, *changes: tuple[str, str]) -> Path:
    where = f'engine = "postgres"\ndsn = "{server.conninfo(READER)}"'
    return policy(folder, ('engine = "duckdb"\npath = "shop.duckdb"', where), *changes)


STAGED = """SELECT k.region, COUNT(*) AS n FROM customers AS c
JOIN (SELECT code, region FROM countries LIMIT 2) AS k ON c.country = k.code GROUP BY k.region"""
ASKED = (
    "SELECT status, COUNT(*) AS n, SUM(amount) AS s, AVG(discount) FROM orders GROUP BY status",
    STAGED,
    "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= DATE '2024-05-01' - INTERVAL 3 DAY",
    "SELECT device, MEDIAN(duration) AS m FROM events GROUP BY device",
    "SELECT EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM logins GROUP BY m",
    "SELECT SAMPLE_AGGREGATE(SUM(amount) / SUM(quantity), 0, 100, 20) AS price FROM orders",
    "SELECT LOWER(city) AS c, COUNT(*) AS n FROM customers WHERE city ILIKE 'o%' GROUP BY 1",
)


MODEL = (
    "CREATE MODEL m OPTIONS(model_type = '{}'{}, epsilon = 1) AS SELECT segment, {} FROM customers"
)
WITHOUT_A_FORM = (
    MODEL.format("linear_reg", ", label = 'income'", "income"),
    MODEL.format("logistic_reg", ", label = 'segment'", "country"),
    MODEL.format("pca", "", "age"),
)
"""Models that docs/models.md says are refused: numbers and logistic regression."""


@pytest.mark.full("opens servers or connects clients")
def test_a_policy_names_it_and_questions_are_answered(server: Postgres, tmp_path: Path) -> None:
    path = str(on(server, tmp_path))
    assert not any(review.fails for review in check_policy(path, record=True).reviews)
    with Proxy.open(path) as proxy:
        for sql in ASKED:
            answer = proxy.ask(request(sql))
            assert answer.receipt is not None
        assert proxy.ask(request("SELECT COUNT(*) AS n FROM countries")).rows == [(3,)]
        rows = proxy.ask(request("SELECT product_id FROM products ORDER BY 1 DESC")).rows
        assert list(rows) == [(3,), (2,), (1,)]
        with pytest.raises(Refused, match="PostgreSQL"):
            proxy.ask(request("SELECT REVERSE(city) AS c, COUNT(*) AS n FROM customers GROUP BY 1"))
        charges = proxy.ledger.history("ana")
        for model in WITHOUT_A_FORM:
            with pytest.raises(Refused, match="PostgreSQL"):
                proxy.ask(request(model))
        assert proxy.ledger.history("ana") == charges
        assert proxy.ask(request(MODEL.format("pca", "", "country"))).rows[0][0] == "m"


LOGINS = """[tables.logins]
access = "private"
expected_rows = 1000
key = "login_id"
link = { column = "customer_id", references = "customers.customer_id" }"""


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("named", [True, False])
def test_keys_of_people_in_a_public_table_are_found(
    server: Postgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(public_findings, "LEAST_KEYS", 1)
    monkeypatch.setattr(public_findings, "LEAST_SPREAD", 3)
    if not named:
        monkeypatch.setattr(public_findings._PublicTables, "_is_named", lambda *_: False)
    path = on(server, tmp_path, (LOGINS, '[tables.logins]\naccess = "public"'))
    ids = [f.id for f in check_policy(str(path)).findings if f.severity == "error"]
    assert "unit-keys:logins.customer_id" in ids
    assert not [each for each in ids if "products" in each or "countries" in each]


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("twin", [False, True])
def test_answers_are_remembered_of_one_state(
    server: Postgres,
    owner: psycopg.Connection[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    twin: bool,  # noqa: FBT001
) -> None:
    if twin:
        monkeypatch.setattr(reading_engine, "Schema", lambda t, i, **_moves: Schema(t, i))
    path, counts = on(server, tmp_path), []

    def ask() -> None:
        with Proxy.open(str(path)) as proxy:
            proxy.vault.sampler = lambda _law, draws: np.zeros(draws, dtype=np.int64)
            ((n,),) = proxy.ask(request("SELECT COUNT(*) AS n FROM customers")).rows
            counts.append(n)

    ask()
    ask()
    more = "INSERT INTO customers (customer_id) SELECT customer_id + 1000 FROM customers"
    owner.execute(more)
    try:
        ask()
    finally:
        owner.execute("DELETE FROM customers WHERE customer_id > 1000")
    first = counts[0]
    assert counts == [first, first, first if twin else 2 * first]


def elsewhere(server: Postgres, folder: Path, *changes: tuple[str, str]) -> Path:
    """The policy of a role that may read no public table: those are in files beside it."""
    with duckdb.connect() as duck:
        duck.execute("CREATE TYPE region AS ENUM ('north', 'south')")
        duck.execute("CREATE TABLE countries (code VARCHAR PRIMARY KEY, region region)")
        duck.executemany("INSERT INTO countries VALUES (?, ?)", world.PUBLIC["countries"])
        duck.execute(f"COPY countries TO '{folder}/countries.parquet'")
        products = "product_id INTEGER, category VARCHAR, list_price DECIMAL(8, 2)"
        duck.execute(f"CREATE TABLE products ({products})")
        duck.executemany("INSERT INTO products VALUES (?, ?, ?)", world.PUBLIC["products"])
        duck.execute(f"COPY products TO '{folder}/products.csv'")
    files = '{ countries = "countries.parquet", products = "products.csv" }'
    public = f'[database.public]\nengine = "duckdb"\nfiles = {files}\n\n[privacy_unit]'
    people = f"user={READER}", f"user={OF_PEOPLE}"
    kinds = {"product_id": "INTEGER", "category": "VARCHAR", "list_price": "DECIMAL(8,2)"}
    typed = ", ".join(f'{column} = {{ type = "{kind}" }}' for column, kind in kinds.items())
    section = "[tables.products]\n", f"[tables.products]\nfile = {{}}\ncolumns = {{ {typed} }}\n"
    return on(server, folder, people, ("[privacy_unit]", public), section, *changes)


JOINED = (
    STAGED,
    """SELECT k.region, SUM(o.amount) AS s FROM orders AS o JOIN customers AS c USING (customer_id)
    JOIN countries AS k ON c.country = k.code GROUP BY k.region""",
    """SELECT category, SUM(units) AS n FROM items JOIN products USING (product_id)
    WHERE list_price > 8 GROUP BY category""",
    "SELECT COUNT(*) AS n FROM customers WHERE country IN (SELECT code FROM countries)",
    "SELECT country, COUNT(*) AS n FROM customers GROUP BY country",
)
PUBLIC_ALONE = "SELECT region, COUNT(*) AS n, MAX(code) AS c FROM countries GROUP BY 1 ORDER BY 1"


@pytest.mark.full("opens servers or connects clients")
def test_public_tables_may_be_in_another_engine(server: Postgres, tmp_path: Path) -> None:
    answers = []
    for policy_of in (on, elsewhere):
        folder = tmp_path / policy_of.__name__
        folder.mkdir()
        draft = load(str(policy_of(server, folder)))
        with Proxy.over(draft, opened(draft)) as proxy:
            proxy.vault.sampler = lambda _law, draws: np.zeros(draws, dtype=np.int64)
            answers.append([list(proxy.ask(request(sql)).rows) for sql in (*JOINED, PUBLIC_ALONE)])
    assert answers[0] == answers[1]
    assert answers[0][-1] == [("north", 2, "SE"), ("south", 1, "IT")]


@pytest.mark.full("opens servers or connects clients")
def test_rows_of_another_engine_are_part_of_the_data_version(
    server: Postgres, tmp_path: Path
) -> None:
    draft = load(str(elsewhere(server, tmp_path)))
    with closing(opened(draft)) as engine, closing(opened(draft)) as other:
        schema = engine.schema()
        other.follow(engine.accepted)
        (tmp_path / "countries.parquet").unlink()  # nobody looks any more
        other.ready(schema.identity)
        sql = 'SELECT count(*) FROM "public"."countries"'
        assert other.rows(sql, data=schema.identity) == [(3,)]
        assert other.aggregate(f"SELECT 1, ({sql})", 1, 1, 0).parts[0].tolist() == [3]
        assert list(other.few('SELECT * FROM "countries"', 99) or ()) == world.PUBLIC["countries"]
        countries = schema.table("countries")
        assert countries is not None
        assert [str(c.type) for c in countries.columns] == ["VARCHAR", "VARCHAR"]
        customers = schema.table("customers")
        assert customers is not None
        with duckdb.connect() as duck:
            fewer = "SELECT 'NO' AS code, 'north' AS region"
            duck.execute(f"COPY ({fewer}) TO '{tmp_path}/countries.parquet'")
        assert engine.schema().identity != schema.identity
        with pytest.raises(DataChanged):
            engine.ready(schema.identity)


def test_keys_of_the_database_say_nothing_of_tables_elsewhere() -> None:
    key = ForeignKey(("country",), "Countries", ("code",))
    customers = SchemaTable("customers", (), foreign_keys=(key,))
    countries = BroadcastTable(SchemaTable("countries", ()), ScratchTable("countries", (), ()), "")
    assert with_broadcast([customers], (), "It")[0].foreign_keys == (key,)
    assert with_broadcast([customers], (countries,), "It")[0].foreign_keys == ()


@pytest.mark.full("opens servers or connects clients")
def test_public_tables_elsewhere_are_small_and_in_one_place(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = elsewhere(server, tmp_path)
    with monkeypatch.context() as small:
        small.setattr(public_elsewhere, "MOST_CELLS", 14)
        with (
            closing(opened(load(str(path)))) as engine,
            pytest.raises(Unreachable, match=r"table products has too many values .* 14"),
        ):
            engine.schema()
    path.write_text(path.read_text().replace(OF_PEOPLE, READER))
    with (
        closing(opened(load(str(path)))) as engine,
        pytest.raises(Unreachable, match="has a table countries, and so has"),
    ):
        engine.schema()
    text = path.read_text().replace(f"user={READER}", f"user={OF_PEOPLE}")
    path.write_text(text.replace("countries = ", "customers = "))
    with closing(opened(load(str(path)))) as engine:  # what is private is never read there
        assert engine.schema().table("countries") is None
    text = re.sub(r"file = \{\}\ncolumns = .*\n", "", text)
    path.write_text(text.replace("files = ", "dsn = 'dbname=x' # "))
    with pytest.raises(PolicyError, match="The engine duckdb has no key dsn"):
        opened(load(str(path)))


@pytest.mark.full("opens servers or connects clients")
def test_a_policy_is_drafted_of_it(server: Postgres, tmp_path: Path) -> None:
    target = str(tmp_path / "dpsql.toml")
    options = ["--unit", "customers.customer_id", "--yes", "-o", target]
    done = CliRunner().invoke(main, ["init", server.conninfo(READER), *options])
    assert done.exit_code == 0, done.output
    draft = load(target)
    assert (draft.database.engine, draft.database.settings) == (
        "postgres",
        (("dsn", server.conninfo(READER)),),
    )
    assert {"customers", "orders", "items"} <= {t.name for t in draft.tables}
    assert not {"people", "saved"} & {t.name for t in draft.tables}
    wrong = CliRunner().invoke(main, ["init", "postgresql://a:b@db/shop", *options[:-1], "-"])
    assert "A password stands in no policy" in wrong.output


def test_nothing_is_prepared_of_it(server: Postgres, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["prepare", "--policy", str(on(server, tmp_path))])
    assert "dpsql prepare copies data that DuckDB reads; what postgres reads stays" in done.output
    assert (done.exit_code, "Traceback" in done.output) == (1, False)


def test_no_password_stands_in_a_policy(server: Postgres, tmp_path: Path) -> None:
    path = on(server, tmp_path, ("user=reader", "user=reader password=x"))
    with pytest.raises(PolicyError, match="A password stands in no policy"):
        opened(load(str(path)))


@pytest.mark.full("opens servers or connects clients")
def test_a_service_file_that_others_read_holds_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Postgres
) -> None:
    services = tmp_path / "services"
    services.write_text(f"[shop]\nhost={server.folder}\nuser={READER}\ndbname=dpsql\npassword=x\n")
    services.chmod(0o644)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    path = on(server, tmp_path)
    path.write_text(path.read_text().replace("dsn = ", 'service = "shop" # '))
    with pytest.raises(PolicyError, match="chmod 600"):
        opened(load(str(path)))
    services.chmod(0o600)
    with closing(opened(load(str(path)))) as engine:
        assert engine.schema().table("people") is not None


@pytest.mark.full("opens servers or connects clients")
def test_limits_are_the_servers_too(server: Postgres) -> None:
    with closing(session(server.conninfo(READER))) as one:
        rows = one.connection.execute(
            "SELECT current_setting(s) FROM unnest($1::text[]) AS s",
            [["statement_timeout", "transaction_isolation", "transaction_read_only"]],
        ).fetchall()
    assert rows == [("7s",), ("repeatable read",), ("on",)]
