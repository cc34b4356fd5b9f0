"""Tables of any schema: named in up to three parts, planned alike, found if misspelled."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.dialects.reading.parse import parse
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.interfaces.messages import describe
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.owner.check import check_policy
from dpsql.owner.tuning import questions
from dpsql.policy.bind import bind
from dpsql.policy.init import Decisions, draft
from dpsql.policy.load import load
from dpsql.policy.unit_paths import paths, unit_called
from dpsql.preparation.engine_kinds import of_sources
from dpsql.preparation.prepare import prepare
from dpsql.preparation.public_data import PublicTables
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.bound import CATALOGS, shop
from grammar_tests.casefile import Case, all_cases
from grammar_tests.laws import BUDGET, PlainEngine
from grammar_tests.proxy_kit import request
from grammar_tests.session_kit import Client, asked

HERE = "analytics"
NAMES = "|".join(world.COLUMNS)
EVERY = 36
"""One in so many cases is planned twice, in the first schema and in another."""


def in_another_schema(policy: str) -> str:
    """The text of a policy, its tables in the schema `HERE`."""
    policy = re.sub(rf"\[tables\.({NAMES})(?=[].])", rf'[tables."{HERE}.\1"', policy)
    policy = re.sub(rf'(table = ")({NAMES})"', rf'\1{HERE}.\2"', policy)
    return re.sub(rf'((?:references|values_from) = ")({NAMES})\.', rf"\1{HERE}.\2.", policy)


@cache
def moved() -> tuple[Policy, PlainEngine]:
    """The shop as it is, all of it in another schema."""
    connection = duckdb.connect()
    connection.execute(f"CREATE SCHEMA {HERE}; SET schema = '{HERE}'")
    world.fill(connection, world.well_behaved(), constraints=True)
    connection.execute("SET schema = 'main'")
    engine = PlainEngine(connection)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dpsql.toml"
        path.write_text(in_another_schema((CATALOGS / "shop.toml").read_text("utf-8")), "utf-8")
        loaded = load(str(path))
    schema = Schema(declared(engine.rows), "here")
    return bind(loaded, schema, PublicTables(engine, DUCKDB).values), engine


def planned(
    case: Case, world: tuple[Policy, PlainEngine], path: tuple[str, ...]
) -> Prepared | tuple[object, ...]:
    policy, engine = world
    budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
    try:
        statement = parse(case.sql, case.setting("dialect", "duckdb"))
        statement = replace(statement, search_path=path)
        public = engine.public
        return prepare(statement, policy, budget, Fraction(1), public, public.evaluate)
    except Refused as refused:
        return refused.reason, refused.span


def without_schema(value: object) -> object:
    """What a value is made of, the schema left out of every text, and identities of questions."""
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return "a question"
    if isinstance(value, str):
        value = re.sub(r"\b(totals|norms)_[0-9a-f]{64}\b", r"\1", value)
        return value.replace(f'"{HERE}".', "").replace(f"{HERE}.", "")
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f for f in fields(value) if f.compare and f.name != "question")
        return type(value), *(without_schema(getattr(value, part.name)) for part in parts)
    if isinstance(value, dict):
        return {without_schema(k): without_schema(v) for k, v in value.items()}
    if isinstance(value, frozenset | set):
        return frozenset(map(without_schema, value))
    return tuple(map(without_schema, value)) if isinstance(value, tuple | list) else value


SCHEMA = re.compile(r'\b(public|main|dpsql|analytics)"?\.')
CLOCK = re.compile(
    r"\b(now|current_\w+|localtime\w*|today)\b|'(yesterday|tomorrow)'", re.IGNORECASE
)
WITHOUT = [c for c in all_cases() if not SCHEMA.search(c.sql) and not CLOCK.search(c.sql)]
"""Cases that name no schema, and whose constants are the same a moment later."""


@pytest.mark.parametrize("case", WITHOUT[::EVERY], ids=lambda case: case.id)
def test_a_question_is_the_same_in_another_schema(case: Case) -> None:
    """Law 1 and neighbours hold there, for the plan and the statements are the same."""
    here, there = planned(case, shop(), ("public",)), planned(case, moved(), (HERE,))
    assert without_schema(here) == without_schema(there)
    if isinstance(here, Prepared) and isinstance(there, Prepared) and here.blocks:
        assert here.question != there.question


def test_another_plan_would_be_seen() -> None:
    plan, other = (
        planned(replace(all_cases()[0], sql=sql), shop(), ("public",))
        for sql in ("SELECT COUNT(*) FROM orders", "SELECT COUNT(*) FROM items")
    )
    assert without_schema(plan) != without_schema(other)


DATA = """
CREATE SCHEMA analytics; CREATE SCHEMA "Odd one";
CREATE TABLE analytics.users (user_id INTEGER PRIMARY KEY, age INTEGER, secret VARCHAR);
CREATE TABLE analytics.orders (id INTEGER PRIMARY KEY, sales_value INTEGER,
    user_id INTEGER NOT NULL REFERENCES analytics.users (user_id));
CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER, amount INTEGER);
CREATE TABLE "Odd one"."a.b" (code VARCHAR, size INTEGER);
CREATE TABLE "c.d" (x INTEGER);
INSERT INTO analytics.users SELECT range, 20 + range % 50, 'x' FROM range(300);
INSERT INTO analytics.orders SELECT range, range % 7, range % 300 FROM range(600);
INSERT INTO orders SELECT range, range % 300, 1 FROM range(900);
INSERT INTO "Odd one"."a.b" VALUES ('x', 1), ('y', 2);
INSERT INTO "c.d" VALUES (1);
"""
POLICY = """
[database]
engine = "duckdb"
path = "data.duckdb"
[privacy_unit]
table = "analytics.users"
key = "user_id"
[tables."analytics.users"]
access = "private"
key = "user_id"
[tables."analytics.users".columns]
user_id = {}
age = { bounds = [0, 100] }
secret = { hidden = true }
[tables."analytics.orders"]
access = "private"
link = { column = "user_id", references = "analytics.users.user_id" }
max_rows_per_unit = 5
[tables."analytics.orders".columns]
user_id = {}
sales_value = { bounds = [0, 10] }
[tables.orders]
access = "private"
link = { column = "user_id", references = "analytics.users.user_id" }
max_rows_per_unit = 5
[tables.orders.columns]
user_id = {}
amount = { bounds = [0, 10] }
[tables.'Odd one."a.b"']
access = "public"
[tables.'"c.d"']
access = "public"
[budgets.default]
epsilon = 100000.0
delta = 1e-3
query_epsilon = 1000.0
max_query_epsilon = 1000.0
[analysts.ana]
budget = "default"
"""


def written(folder: Path, *changes: tuple[str, str]) -> Path:
    """The policy beside its data, changed."""
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        connection.execute(DATA)
    text = POLICY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "dpsql.toml").write_text(text, "utf-8")
    return folder / "dpsql.toml"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(written(tmp_path_factory.mktemp("schemas")))) as opened:
        yield opened


NAMED = {
    "SELECT COUNT(*) FROM analytics.users": 300,
    "SELECT COUNT(*) FROM Analytics.USERS": 300,
    "SELECT COUNT(*) FROM dpsql.analytics.users AS u": 300,
    'SELECT COUNT(*) FROM "dpsql"."analytics"."users"': 300,
    "SELECT COUNT(*) FROM orders": 900,
    'SELECT COUNT(*) FROM "dpsql"."public"."orders"': 900,
    "SELECT COUNT(*) FROM main.orders": 900,
    "SELECT COUNT(*) FROM dpsql.orders": 900,
    "SELECT COUNT(*) FROM analytics.orders": 600,
    "SELECT COUNT(*) FROM analytics.orders WHERE analytics.orders.sales_value = 1": 86,
    "SELECT COUNT(*) FROM analytics.orders WHERE dpsql.analytics.orders.sales_value = 1": 86,
    "SELECT COUNT(*) FROM analytics.users u JOIN public.orders o ON o.user_id = u.user_id": 900,
    "SELECT COUNT(*) FROM analytics.users JOIN analytics.orders USING (user_id)": 600,
    'SELECT SUM(size) FROM "Odd one"."a.b"': 3,
    'SELECT x FROM "c.d"': 1,
    "WITH users AS (SELECT 1 AS x) SELECT COUNT(*) FROM analytics.users": 300,
    "WITH orders AS (SELECT 1 AS x) SELECT x FROM orders": 1,
    "SELECT COUNT(*) FROM analytics.orders JOIN public.orders ON analytics.orders.user_id"
    " = public.orders.user_id WHERE analytics.orders.sales_value < 9": 1800,
    "SELECT analytics.orders.sales_value > 3 AS many, COUNT(*) FROM analytics.orders WHERE EXISTS"
    " (SELECT 1 FROM orders WHERE orders.user_id = analytics.orders.user_id) GROUP BY 1"
    " ORDER BY 1 LIMIT 1": False,
}


@pytest.mark.parametrize("sql", NAMED)
def test_a_table_has_one_two_or_three_parts(proxy: Proxy, sql: str) -> None:
    ((number, *_),) = proxy.ask(request(sql)).rows
    assert abs(number - NAMED[sql]) <= 2


REFUSED = {
    "SELECT COUNT(*) FROM users": ("There is no table users.", "Did you mean analytics.users?"),
    "SELECT COUNT(*) FROM public.users": (
        "There is no table public.users.",
        "Did you mean analytics.users?",
    ),
    "SELECT COUNT(*) FROM oders": ("There is no table oders.", "Did you mean orders?"),
    "SELECT COUNT(*) FROM shop.orders": ("There is no table shop.orders.", "Did you mean orders?"),
    "SELECT COUNT(*) FROM shop.public.orders": (
        "There is no table shop.public.orders.",
        "Did you mean orders?",
    ),
    "SELECT SUM(sales) FROM analytics.orders": (
        "There is no column sales.",
        "Did you mean sales_value?",
    ),
    "SELECT SUM(analytics.orders.amount) FROM analytics.orders o": (
        "analytics.orders is called o here.",
        "Write o before the column.",
    ),
    "SELECT SUM(x.amount) FROM orders": ("x is not in FROM.", "FROM has: orders."),
    "SELECT SUM(public.orders.amount) FROM analytics.orders": (
        "public.orders is not in FROM.",
        "Did you mean orders?",
    ),
    "SELECT CUONT(amount) FROM orders": ("There is no function cuont.", "Did you mean count?"),
    "SELECT SUM(rond(amount)) FROM orders": ("There is no function rond.", "Did you mean round?"),
    "SELECT COUNT(secre) FROM analytics.users": ("There is no column secre.", "Columns of users: "),
    "SELECT COUNT(i) FROM orders": ("There is no column i.", "Columns of orders: "),
    "SELECT orders.user_id FROM analytics.orders, public.orders": (
        "user_id could be more than one column.",
        "",
    ),
    "SELECT 1 FROM orders, public.orders": ("orders could be more than one column.", ""),
}
"""Headline, and how the fix begins."""


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_misspelled_is_told_by_what_exists(proxy: Proxy, sql: str) -> None:
    with pytest.raises(Refused) as caught:
        proxy.ask(request(sql))
    message = describe(caught.value, sql)
    headline, fix = REFUSED[sql]
    assert message.headline == headline
    assert message.fix.startswith(fix)


def test_nothing_hidden_is_suggested(proxy: Proxy) -> None:
    for name in ("secret_", "secre", "id", "di"):
        with pytest.raises(Refused) as caught:
            proxy.ask(request(f"SELECT COUNT({name}) FROM analytics.users"))
        assert not re.search(r"secret\b|\bid\b", f"{caught.value.facts.get('near')}")
        assert "secret" not in f"{caught.value.facts['known']}"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[tables.orders]", '[tables."main.orders"]', "main.orders has a shorter name"),
        ("[tables.orders]", '[tables."a.b.c"]', "a.b.c is no name of a table"),
        ("[tables.orders]", '[tables."analytics.odrers"]', "has no table analytics.odrers"),
        ('"analytics.users.user_id"', '"users.user_id"', "users is not a private table"),
    ],
)
def test_a_wrong_name_in_the_policy_is_told(tmp_path: Path, old: str, new: str, says: str) -> None:
    changes = [(old, new)]
    if old == "[tables.orders]":
        changes.append(("[tables.orders.columns]", f"{new[:-1]}.columns]"))
    with (
        pytest.raises(PolicyError, match=re.escape(says)),
        Proxy.open(str(written(tmp_path, *changes))),
    ):
        pass


def test_the_schema_public_of_the_database_and_the_first_are_not_mixed(tmp_path: Path) -> None:
    also = '[tables."public.orders"]\naccess = "public"\n[budgets.default]'
    path = written(tmp_path, ("[budgets.default]", also))
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        connection.execute("CREATE SCHEMA public; CREATE TABLE public.orders (x INTEGER)")
    with pytest.raises(PolicyError, match="have one name for analysts"):
        load(str(path))


@pytest.mark.full("opens servers or connects clients")
def test_files_are_tables_of_schemas(tmp_path: Path) -> None:
    csv = tmp_path / "users.csv"
    csv.write_text("user_id,age\n1,20\n2,30\n", "utf-8")
    policy = re.sub(r"\[tables\.orders\].*?(?=\[budgets)", "", POLICY, flags=re.DOTALL)
    policy = re.sub(r'\[tables."analytics.orders"\].*?(?=\[budgets)', "", policy, flags=re.DOTALL)
    policy = policy.replace("secret = { hidden = true }\n", "")
    files = '[database.files]\n"analytics.users" = "users.csv"'
    section = '[tables."analytics.users"]\n'
    policy = policy.replace(section, f"{section}file = {{}}\n")
    policy = policy.replace("age = { bounds", 'age = { type = "INTEGER", bounds')
    policy = policy.replace('path = "data.duckdb"', files)
    (tmp_path / "dpsql.toml").write_text(policy, "utf-8")
    with Proxy.open(str(tmp_path / "dpsql.toml")) as opened:
        ((number,),) = opened.ask(request("SELECT COUNT(*) FROM analytics.users")).rows
    assert abs(number - 2) <= 1


@pytest.mark.full("opens servers or connects clients")
def test_init_drafts_every_schema(tmp_path: Path) -> None:
    path = written(tmp_path)
    database, engine = of_sources([str(tmp_path / "data.duckdb")])
    with closing(engine):
        schema = engine.schema()
    unit, names = unit_called(schema, "analytics.users.user_id"), {t.name for t in schema.tables}
    assert unit is not None
    public = frozenset(names) - paths(schema, unit).keys()
    text = draft(schema, database, Decisions(unit, public))
    tables = tomllib.loads(text)["tables"]
    assert {"orders", "analytics.users", "analytics.orders", 'Odd one."a.b"', '"c.d"'} == set(
        tables
    )
    link = tables["analytics.orders"]["link"]
    assert link == {"column": "user_id", "references": "analytics.users.user_id"}
    assert check_policy(str(path)) is not None


@pytest.fixture
def client(proxy: Proxy) -> Client:
    return Client(proxy)


def said(client: Client, sql: str) -> list[tuple[str | None, ...]]:
    """The rows of the last statement of a text that has no fault."""
    client.query(sql)
    assert b"E" not in {kind for kind, _ in client.said}, client.error
    return client.rows


@pytest.mark.full("opens servers or connects clients")
def test_the_wire_has_a_search_path(client: Client) -> None:
    assert said(client, "SHOW search_path") == [('"$user", public',)]
    assert said(client, "SELECT current_schema(), current_schemas(false)") == [
        ("public", "{public}")
    ]
    assert client.query("SELECT COUNT(*) FROM users") == "EZ"
    assert said(client, "SET search_path TO analytics, nowhere, public") == []
    assert said(client, "SHOW search_path") == [("analytics, nowhere, public",)]
    assert said(client, "SELECT current_schemas(false)") == [("{analytics,public}",)]
    ((count,),) = said(client, "SELECT COUNT(*) FROM users")
    assert abs(int(count or 0) - 300) <= 2
    ((count,),) = said(client, "SELECT COUNT(*) FROM orders")
    assert abs(int(count or 0) - 600) <= 2
    client.send(*asked("SELECT COUNT(sales_value) FROM orders"))
    assert b"E" not in {kind for kind, _ in client.said}
    said(client, "SET search_path = public")
    ((count,),) = said(client, "SELECT COUNT(*) FROM orders")
    assert abs(int(count or 0) - 900) <= 2
    assert client.query("SELECT COUNT(*) FROM users") == "EZ"
    assert client.error["M"].startswith("There is no table users")


@pytest.mark.full("measures neighbours or further data sets")
def test_the_catalogue_shows_schemas(client: Client) -> None:
    tables = said(
        client,
        "SELECT table_catalog, table_schema, table_name FROM information_schema.tables"
        " WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 2, 3",
    )
    assert tables == [
        ("dpsql", "Odd one", "a.b"),
        ("dpsql", "analytics", "orders"),
        ("dpsql", "analytics", "users"),
        ("dpsql", "public", "c.d"),
        ("dpsql", "public", "orders"),
    ]
    columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = "
    assert said(client, f"{columns}'analytics' AND table_name = 'users' ORDER BY 1") == [
        ("age",),
        ("user_id",),
    ]
    named = "SELECT 'analytics.users'::regclass, '\"dpsql\".analytics.users'::regclass::text"
    assert said(client, named) == [("analytics.users", "analytics.users")]
    assert client.query("SELECT 'users'::regclass") == "EZ"
    visible = "SELECT relname FROM pg_class WHERE pg_table_is_visible(oid) AND relkind = 'r'"
    visible += " AND relnamespace <> 11 AND relnamespace <> 13207 ORDER BY 1"
    assert said(client, visible) == [("c.d",), ("orders",)]
    said(client, "SET search_path = analytics")
    assert said(client, visible) == [("orders",), ("users",)]
    assert said(client, "SELECT 'users'::regclass::oid = 'analytics.users'::regclass::oid") == [
        ("t",)
    ]
    keys = (
        "SELECT n.nspname, pg_get_constraintdef(c.oid) FROM pg_constraint c"
        " JOIN pg_namespace n ON n.oid = c.connamespace WHERE c.contype = 'f'"
        " AND n.nspname = 'analytics'"
    )
    assert said(client, keys) == [
        ("analytics", "FOREIGN KEY (user_id) REFERENCES analytics.users(user_id)")
    ]


@pytest.mark.full("opens a proxy")
def test_the_first_schema_is_shown_as_ever(client: Client) -> None:
    said(client, "SET search_path = public")
    assert said(client, "SELECT 'orders'::regclass, 'public.orders'::regclass") == [
        ("orders", "orders")
    ]


@pytest.mark.full("opens servers or connects clients")
def test_sqlalchemy_reflects_schemas(tmp_path: Path) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"dpsql:///{written(tmp_path)}?analyst=ana")
    with engine.connect() as connection:
        inspector = sqlalchemy.inspect(connection)
        assert inspector.get_schema_names() == ["Odd one", "analytics", "public"]
        assert inspector.get_table_names() == ["orders", "c.d"]
        assert inspector.get_table_names("analytics") == ["users", "orders"]
        assert [c["name"] for c in inspector.get_columns("users", "analytics")] == [
            "user_id",
            "age",
        ]
        (key,) = inspector.get_foreign_keys("orders", "analytics")
        assert (key["referred_schema"], key["referred_table"]) == ("analytics", "users")
        users = sqlalchemy.Table("users", sqlalchemy.MetaData(), schema="analytics",
                                 autoload_with=connection)  # fmt: skip
        count = sqlalchemy.select(sqlalchemy.func.count()).select_from(users)
        assert abs(connection.execute(count).scalar() - 300) <= 2
    engine.dispose()


@pytest.mark.full("opens a proxy for each item")
def test_tune_knows_the_same_names(proxy: Proxy) -> None:
    names = ("analytics.orders", "orders", "public.orders")
    found = [questions(proxy.policy, name, []) for name in names]
    assert found[1] == found[2] != found[0]
    with pytest.raises(Refused) as caught:
        questions(proxy.policy, "analytics.odres", [])
    assert caught.value.facts["near"] == "analytics.orders"
