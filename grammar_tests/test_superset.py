"""What Apache Superset sends, replayed: its charts are answered, and refreshed for nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg2
import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.policy import demo
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from examples.superset.charts import CHARTS, query, with_interval
from grammar_tests.laws import PlainEngine, compiled, noiseless, same_rows
from grammar_tests.wire_kit import Door, opened

CORPUS = Path(__file__).parent / "superset" / "charts.sql"
REFRESHES = 20


def statements(verdict: str) -> list[str]:
    """The statements of the corpus that shall be answered, or refused."""
    parts = re.split(r"(?m)^-- (answered|refused)\n", CORPUS.read_text(encoding="utf-8"))[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [sql.strip().removesuffix(";") for told, sql in pairs if told == verdict]


ANSWERED, REFUSED = statements("answered"), statements("refused")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("superset")
    with opened(folder, demo.build(folder / "demo")) as found:
        yield found


@pytest.fixture(scope="module")
def cursor(served: Door) -> Iterator[Any]:
    tls = {"sslmode": "verify-full", "sslrootcert": served.certificate}
    client = psycopg2.connect(**served.conninfo(**tls))
    client.autocommit = True
    with client.cursor() as opened:
        opened.execute('set search_path = "public"')
        yield opened
    client.close()


def shown(cursor: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of every chart."""
    found = []
    for sql in ANSWERED:
        cursor.execute(sql)
        found.append(cursor.fetchall())
    return found


@pytest.mark.full("a client of its own replays its session")
def test_charts_are_answered_and_refreshed_at_no_cost(served: Door, cursor: Any) -> None:
    first = shown(cursor)
    paid, ledger = served.proxy.budgets(), served.proxy.ledger.history("ana", 1000)
    assert sum(map(bool, first)) > len(CHARTS)
    assert 0 < len(ledger) <= len(ANSWERED)
    for _ in range(REFRESHES):
        assert shown(cursor) == first
    assert served.proxy.ledger.history("ana", 1000) == ledger
    assert served.proxy.budgets() == paid


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("sql", REFUSED, ids=range(len(REFUSED)))
def test_rows_of_people_are_refused_at_no_cost(served: Door, cursor: Any, sql: str) -> None:
    before = served.proxy.ledger.history("ana", 1000)
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        cursor.execute(sql)
    assert served.proxy.ledger.history("ana", 1000) == before


# --- what they mean ---


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, PlainEngine]:
    policy = demo.build(tmp_path_factory.mktemp("world"))
    generous = re.sub(r"(max_\w+_per_\w+) = \d+", r"\1 = 200", policy.read_text("utf-8"))
    policy.write_text(generous, "utf-8")  # so that nothing is left out
    connection = duckdb.connect(str(policy.with_name("shop.duckdb")))
    connection.execute("CREATE SCHEMA public")
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f"CREATE VIEW public.{table} AS FROM main.{table}")
    engine = PlainEngine(connection)
    schema = Schema(declared(engine.rows), "here")
    return bind(load(str(policy)), schema, PublicTables(engine, DUCKDB).values), engine


OF_THE_ENGINE = [sql for sql in ANSWERED if "DP_INTERVAL" not in sql]
"""What another engine answers too: it has no intervals."""


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(sql, id=str(n), marks=pytest.mark.full("more charts") if n % 3 else ())
        for n, sql in enumerate(OF_THE_ENGINE)
    ],
)
def test_without_noise_charts_show_what_the_plain_engine_says(
    world: tuple[Policy, PlainEngine], sql: str
) -> None:
    policy, engine = world
    prepared = compiled(sql, policy, engine, dialect="postgres")
    ours, errors = noiseless(prepared, engine)
    # DuckDB's own spelling of the one function that it has not.
    plain = engine.rows(re.sub(r"TO_TIMESTAMP\(('[^']+'), '[^']+'\)", r"TIMESTAMP \1", sql))
    assert same_rows(ours, errors, plain)


@pytest.mark.full("opens servers or connects clients")
def test_a_band_is_the_interval_of_its_line(cursor: Any) -> None:
    (sql,) = set(ANSWERED) - set(OF_THE_ENGINE)
    cursor.execute(sql)
    assert [column.name for column in cursor.description][1:] == [
        each["label"] for each in with_interval("SUM", "amount")
    ]
    rows = cursor.fetchall()
    assert rows
    # A sum of amounts that noise makes negative is shown below its interval, which ends at 0.
    assert all(low <= max(number, 0) <= high and low < high for _, number, low, high in rows)


def test_the_examples_charts_are_in_the_corpus() -> None:
    for chart in CHARTS:
        asked = query(chart.form)
        labels = [name if isinstance(name, str) else name["label"] for name in asked["columns"]]
        assert any(all(f"AS {label}" in sql for label in labels) for sql in ANSWERED), chart.title
