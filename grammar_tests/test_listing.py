"""What exists, told alike through every door, and from the policy alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

import dpsql
from dpsql.dialects.statements.commands import Listing
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.listing import listed
from dpsql.interfaces.messages import width
from dpsql.interfaces.tables import broken, table
from dpsql.model.vocabulary import Loss, Policy
from dpsql.proxy import Proxy
from grammar_tests import bound, proxy_kit
from grammar_tests.session_kit import Client, asked

HIDDEN = "name"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(proxy_kit.shop(tmp_path_factory.mktemp("listing")))) as proxy:
        yield proxy


@pytest.fixture
def connection(proxy: Proxy) -> dpsql.Connection:
    return dpsql.connect(proxy=proxy, analyst="ana")


def told(proxy: Proxy, *args: str) -> Result:
    """What a command says, which leaves the proxy open."""
    opened: Any = nullcontext(proxy)
    settings = CommandSettings(analyst="ana", open=lambda _path: opened)
    return CliRunner().invoke(main, args, obj=settings)


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "-- what is there?\nshow all tables;",
        "DESCRIBE orders",
        "desc table public.Orders;",
        'SHOW COLUMNS FROM "dpsql"."public"."orders"',
    ],
)
def test_every_door_lists_the_same_and_nothing_is_charged(
    proxy: Proxy, connection: dpsql.Connection, sql: str
) -> None:
    before = len(proxy.ledger.history(limit=10))
    cursor = connection.execute(sql)
    rows = [tuple(map(str, row)) for row in cursor.fetchall()]
    names = [column[0] for column in cursor.description or ()]
    assert len(rows) > 4
    wire = Client(proxy)
    wire.query(sql)
    assert wire.rows == rows
    wire.send(*asked(sql))
    assert wire.rows == rows
    head, *body = csv.reader(told(proxy, "query", "--format", "csv", "--", sql).stdout.splitlines())
    assert [name for name in head if not name.endswith(("_margin", "_low", "_high"))] == names
    assert [row[-1] for row in body] == [row[-1] for row in rows]
    assert len(proxy.ledger.history(limit=10)) == before


def test_the_commands_say_the_same(proxy: Proxy, connection: dpsql.Connection) -> None:
    tables = json.loads(told(proxy, "tables", "--format", "json").stdout)
    assert [tuple(row.values()) for row in tables] == connection.execute("SHOW TABLES").fetchall()
    columns = json.loads(told(proxy, "describe", "Orders", "--format", "json").stdout)
    described = connection.execute("DESCRIBE orders").fetchall()
    assert [tuple(row.values()) for row in columns] == described
    assert "values open, paid, returned" in told(proxy, "describe", "orders").stdout


def test_who_misspells_a_table_is_told_the_one_that_is_there(
    proxy: Proxy, connection: dpsql.Connection
) -> None:
    with pytest.raises(dpsql.ProgrammingError, match=r"Did you mean orders\?"):
        connection.execute("DESCRIBE ordes")
    wire = Client(proxy)
    assert wire.query("DESCRIBE ordes") == "EZ"
    assert "orders" in wire.error["H"]
    result = told(proxy, "describe", "ordes")
    assert result.exit_code == 1
    assert "Did you mean orders?" in result.stderr
    assert told(proxy, "describe", "orders; DROP").exit_code == 2
    assert "no analyst eve" in told(proxy, "--analyst", "eve", "tables").stderr


def described(policy: Policy) -> list[str]:
    return [row[0] for row in listed(Listing(("customers",)), policy).rows]


@pytest.mark.full("opens servers or connects clients")
def test_what_is_hidden_does_not_exist(connection: dpsql.Connection) -> None:
    policy = bound.shop()[0]
    catalogued = "SELECT column_name FROM information_schema.columns WHERE table_name = ?"
    rows = connection.execute(catalogued, ["customers"]).fetchall()
    assert sorted(described(policy)) == sorted(name for (name,) in rows)
    assert HIDDEN not in described(policy)


def test_wrong_twin_a_shown_column_would_be_seen() -> None:
    policy = bound.shop()[0]
    bare = [
        replace(t, columns=tuple(replace(c, hidden=False) for c in t.columns))
        for t in policy.tables
    ]
    assert HIDDEN in described(replace(policy, tables=tuple(bare)))


@pytest.mark.full("opens servers or connects clients")
def test_python_asks_the_catalogue_and_what_it_spent(connection: dpsql.Connection) -> None:
    cursor = connection.execute("SELECT budget, questions_left FROM dpsql_budget()")
    assert [column[0] for column in cursor.description or ()] == ["budget", "questions_left"]
    ((budget, left),) = cursor.fetchall()
    assert (budget, left > 0, cursor.receipt.charged) == ("default", True, Loss(0))
    named = connection.execute("SELECT COUNT(*) AS n FROM countries WHERE region <> 'pg_class'")
    assert [column[0] for column in named.description or ()] == ["n"]


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW dpsql.epsilon",
        "SHOW 'tables'",
        "SHOW TABLES; SELECT 1",
        "DESCRIBE SELECT 1",
        "DESCRIBE orders.",
        "DESCRIBE 'orders'",
        'DESCRIBE "orders',
        "SELECT 'SHOW TABLES'",
        "SHOW TABLES" + " " * 1_000,
        "",
    ],
)
def test_other_texts_list_nothing(sql: str) -> None:
    assert read_listing(sql) is None


def test_a_listing_fits_the_screen_and_keeps_every_word() -> None:
    policy = bound.shop()[0]
    whole = listed(Listing(("customers",)), policy)
    drawn = table(broken(whole, 48), 48)
    assert max(map(width, drawn.text.splitlines())) <= 48
    assert not drawn.notices
    words = drawn.text.split()
    assert all(word in words for row in whole.rows for word in row[-1].split())


@pytest.mark.full("opens a proxy for each item")
def test_tables_are_completed(tmp_path: Any) -> None:
    path = str(proxy_kit.policy(tmp_path))
    complete = BashComplete(main, {}, "dpsql", "_DPSQL_COMPLETE")
    offered = complete.get_completions(["--policy", path, "describe"], "o")
    assert [item.value for item in offered] == ["orders"]
    assert complete.get_completions(["--policy", f"{path}x", "describe"], "o") == []
