"""Chart queries as BI tools send them: every class of them gets the outcome that it deserves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.errors import Reason, Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import PlainEngine, compiled, noiseless, same_rows

CORPUS = Path(__file__).parents[2] / "shared" / "corpora" / "bi_queries.sql"
TAG = re.compile(r"^-- @id (\w+) .*@class ([\w-]+)", re.MULTILINE)
SCHEMA = """
CREATE TABLE customers (customer_id BIGINT PRIMARY KEY, name VARCHAR, country VARCHAR NOT NULL,
    segment VARCHAR NOT NULL, age INTEGER NOT NULL, signup_date DATE NOT NULL);
CREATE TABLE orders (order_id BIGINT PRIMARY KEY, customer_id BIGINT NOT NULL REFERENCES customers,
    order_ts TIMESTAMP, status VARCHAR, channel VARCHAR, amount DECIMAL(12, 2), discount DOUBLE,
    is_gift BOOLEAN);
CREATE TABLE events (event_id BIGINT PRIMARY KEY, customer_id BIGINT NOT NULL REFERENCES customers,
    event_ts TIMESTAMPTZ, event_type VARCHAR, device VARCHAR, duration_ms BIGINT);
INSERT INTO customers SELECT i, 'n' || i, ['DE', 'FR', 'IT', 'NO'][1 + i % 4],
    ['business', 'consumer'][1 + i % 2], 18 + i, DATE '2021-01-01' + i::INTEGER FROM range(20) t(i);
INSERT INTO orders SELECT i, i % 17, TIMESTAMP '2024-11-03 05:00:00' + to_hours((i * 53)::INTEGER),
    ['open', 'paid', 'returned'][1 + i % 3], ['phone', 'shop', 'web'][1 + i % 3], i * 3.25,
    (i % 5) / 10, i % 4 = 0 FROM range(90) t(i);
INSERT INTO events SELECT i, i % 13,
    TIMESTAMPTZ '2024-12-28 05:00:00+00' + to_hours((i * 31)::INTEGER),
    ['buy', 'search', 'view'][1 + i % 3], ['desktop', 'phone', NULL][1 + i % 3], i * 100
    FROM range(60) t(i);
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """One statement of the corpus with its class."""

    name: str
    kind: str
    sql: str


def charts() -> list[Chart]:
    """The statements of the corpus; none where it is absent."""
    if not CORPUS.exists():
        return []
    text = CORPUS.read_text(encoding="utf-8")
    found = list(TAG.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return [
        Chart(match[1], match[2], text[match.end() : end].split("\n", 1)[1].strip())
        for match, end in zip(found, ends, strict=True)
    ]


CHARTS = charts()
present = pytest.mark.skipif(not CHARTS, reason="the corpus of BI queries is not here")


@pytest.fixture(scope="module")
def world() -> tuple[Policy, PlainEngine]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(SCHEMA)
    engine = PlainEngine(connection)
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "bi.toml")), schema, PublicTables(engine, DUCKDB).values)
    return policy, engine


@present
@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_chart_has_its_outcome(world: tuple[Policy, PlainEngine], chart: Chart) -> None:
    policy, engine = world
    if chart.kind == "raw":
        with pytest.raises(Refused) as caught:
            compiled(chart.sql, policy, engine, dialect="postgres")
        assert caught.value.reason is Reason.RAW_ROWS
        return
    prepared = compiled(chart.sql, policy, engine, dialect="postgres")
    assert (prepared.plan is None) == (chart.kind == "public")
    ours, errors = noiseless(prepared, engine)
    try:
        plain = engine.rows(chart.sql)
    except duckdb.Error:
        return  # PostgreSQL's functions that DuckDB has not
    assert same_rows(ours, errors, plain)


@present
def test_the_corpus_has_every_class() -> None:
    assert {c.kind for c in CHARTS} == {"agg", "agg-minmax", "values", "raw", "public"}
