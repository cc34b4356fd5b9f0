"""What private rows are joined to is evaluated once, and measured on those very rows.

Two engines hold the same tables, their rows in opposite orders: what one makes of ties is not what
the other does, as between two runs on several threads. Plans are compiled over the one and run over
the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.track import track
from dpsql.compiler.track.public_queries import PublicQueries
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.errors import Reason, Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation import public_data
from dpsql.preparation.public_data import PublicTables
from dpsql.proxy import Proxy
from dpsql.systems.watch.monitor import Watch
from grammar_tests.laws import PlainEngine, compiled, exact_blocks
from grammar_tests.proxy_kit import request, watched

ZIPS = 40
POLICY = """
[database]
engine = "duckdb"
path = "towns.duckdb"
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {}
city = {}
[tables.places]
access = "public"
[tables.firsts]
access = "public"
[budgets.default]
epsilon = 100.0
delta = 1e-3
query_epsilon = 1.0
max_query_epsilon = 10.0
query_delta = 1e-6
[analysts.ana]
budget = "default"
[ledger]
path = "towns.ledger"
"""
COUNT = "SELECT COUNT(*) AS n FROM people JOIN ({}) AS p ON people.city = p.city"
NUMBERED = (
    "SELECT zip, city FROM (SELECT zip, city, ROW_NUMBER() OVER (PARTITION BY zip ORDER BY size)"
    " AS rn FROM places) AS t WHERE rn = 1"
)
FICKLE = {
    "first": "SELECT zip, FIRST(city) AS city FROM places GROUP BY zip",
    "any_value": "SELECT zip, ANY_VALUE(city) AS city FROM places GROUP BY zip",
    "arg_max": "SELECT zip, ARG_MAX(city, size) AS city FROM places GROUP BY zip",
    "row_number": NUMBERED,
    "distinct on": "SELECT DISTINCT ON (zip) zip, city FROM places ORDER BY zip, size",
    "view": "SELECT zip, city FROM firsts",
    "joined": "SELECT a.zip, b.city FROM places AS a JOIN firsts AS b ON a.zip = b.zip",
    "applied": "SELECT zip, (SELECT b.city FROM places AS b WHERE b.zip = a.zip OR b.size < 0"
    " ORDER BY b.size LIMIT 1) AS city FROM (SELECT DISTINCT zip FROM places) AS a",
    "recursion": "WITH RECURSIVE r AS (SELECT zip, city, 1 AS n FROM firsts UNION ALL"
    " SELECT zip, city, n + 1 FROM r WHERE n < 1) SELECT zip, city FROM r",
    "union": "SELECT zip, city FROM firsts UNION ALL SELECT zip, city FROM firsts",
}
CLAIM_ONE = [name for name in FICKLE if name not in ("joined", "union")]
"""What is clipped in any case cannot move a count by more."""

CONDITIONS = (
    "EXISTS (SELECT 1 FROM ({}) AS p WHERE p.city = people.city)",
    "city IN (SELECT city FROM ({}) AS p)",
)
STEADY = {
    "table": "SELECT zip, city FROM places",
    "distinct": "SELECT DISTINCT zip, city FROM places",
    "grouped": "SELECT city, COUNT(*) AS k, MAX(size) AS s FROM places GROUP BY city",
    "filtered": "SELECT UPPER(city) AS city FROM places WHERE size > 0 ORDER BY zip",
    "both": "SELECT city FROM places UNION SELECT city FROM places",
}


def towns(database: str, *, turned: bool) -> duckdb.DuckDBPyConnection:
    """People of one city, and places: each zip lies in a city of its own and in that one."""
    connection = duckdb.connect(database)
    connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, city VARCHAR NOT NULL)")
    connection.execute("CREATE TABLE places (zip INTEGER, city VARCHAR, size INTEGER)")
    connection.execute("INSERT INTO people VALUES (1, 'x'), (2, 'own 3')")
    rows = [(z, city, 7) for z in range(ZIPS) for city in (f"own {z}", "x")]
    connection.executemany("INSERT INTO places VALUES (?, ?, ?)", rows[::-1] if turned else rows)
    connection.execute(
        "CREATE VIEW firsts AS SELECT zip, FIRST(city) AS city FROM places GROUP BY 1"
    )
    return connection


@pytest.fixture(scope="module")
def engines() -> tuple[PlainEngine, PlainEngine]:
    return tuple(PlainEngine(towns(":memory:", turned=t)) for t in (False, True))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory, engines: tuple[PlainEngine, ...]) -> Policy:
    path = tmp_path_factory.mktemp("towns") / "dpsql.toml"
    path.write_text(POLICY, encoding="utf-8")
    engine = engines[0]
    return bind(load(str(path)), Schema(declared(engine.rows)), PublicTables(engine, DUCKDB).values)


def claimed(prepared: Prepared) -> Fraction:
    """How much one person moves the count at most, as the plan has it."""
    assert prepared.plan is not None
    return Fraction(prepared.plan.blocks[0].releases[0].sensitivity.linf)


def counted(prepared: Prepared, engine: PlainEngine) -> int:
    ((_block, exact),) = exact_blocks(prepared, engine)
    return int(exact.parts[0][0])


def moved(prepared: Prepared, engine: PlainEngine) -> int:
    """How much the first person does move it."""
    everybody = counted(prepared, engine)
    engine.connection.execute("BEGIN")
    engine.connection.execute("DELETE FROM people WHERE id = 1")
    without = counted(prepared, engine)
    engine.connection.execute("ROLLBACK")
    return everybody - without


@pytest.mark.parametrize("name", FICKLE)
def test_the_plan_that_runs_is_the_plan_whose_facts_were_measured(
    name: str, policy: Policy, engines: tuple[PlainEngine, PlainEngine]
) -> None:
    for compiling, running in (engines, engines[::-1]):
        prepared = compiled(COUNT.format(FICKLE[name]), policy, compiling)
        assert moved(prepared, running) <= claimed(prepared)
        assert counted(prepared, running) == counted(prepared, compiling)


@pytest.mark.parametrize("name", CLAIM_ONE)
def test_evaluated_twice_a_person_would_move_more_than_is_claimed(
    name: str,
    policy: Policy,
    engines: tuple[PlainEngine, PlainEngine],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wrong twin: whatever it is, it is taken to be the same when it is read again."""
    monkeypatch.setattr(track, "is_repeatable", lambda _relation, _policy: True)
    plans = [
        (compiled(COUNT.format(FICKLE[name]), policy, one), other)
        for one, other in (engines, engines[::-1])
    ]
    assert any(moved(plan, running) > claimed(plan) for plan, running in plans)


@pytest.mark.parametrize("name", STEADY)
def test_what_is_the_same_each_time_needs_no_stage(
    name: str, policy: Policy, engines: tuple[PlainEngine, PlainEngine]
) -> None:
    prepared = [compiled(COUNT.format(STEADY[name]), policy, engine) for engine in engines]
    assert [plan.rewritten.stages for plan in prepared] == [(), ()]
    assert prepared[0].question == prepared[1].question
    assert moved(prepared[0], engines[1]) <= claimed(prepared[0])


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("name", FICKLE)
def test_conditions_on_public_rows_read_the_same_rows_again(
    name: str, condition: str, policy: Policy, engines: tuple[PlainEngine, PlainEngine]
) -> None:
    sql = f"SELECT COUNT(*) AS n FROM people WHERE {condition.format(FICKLE[name])}"
    prepared = compiled(sql, policy, engines[0])
    assert counted(prepared, engines[1]) == counted(prepared, engines[0])


def test_the_rows_are_part_of_the_question_and_their_order_is_not(
    policy: Policy, engines: tuple[PlainEngine, PlainEngine]
) -> None:
    def asked(sql: str) -> list[str]:
        return [compiled(COUNT.format(sql), policy, engine).question for engine in engines]

    first, other = asked(FICKLE["first"])
    assert first != other
    windowed = "SELECT zip, city, RANK() OVER (ORDER BY size) AS r FROM places"
    first, other = asked(windowed)
    assert first == other


def test_facts_follow_the_query_that_was_evaluated(
    policy: Policy, engines: tuple[PlainEngine, PlainEngine]
) -> None:
    sized = (
        "SELECT city, size, ROW_NUMBER() OVER (PARTITION BY city ORDER BY zip) AS rn FROM places"
    )
    sql = f"SELECT SUM(p.size) AS s FROM people JOIN ({sized}) AS p ON people.city = p.city"
    prepared = compiled(sql, policy, engines[0])
    assert claimed(prepared) == 7 * ZIPS
    once = sql.replace("people.city = p.city", "people.city = p.city AND p.rn = 1")
    assert claimed(compiled(once, policy, engines[0])) == 7 * ZIPS  # measured on city alone


def test_a_fact_about_a_view_is_not_one_about_its_next_evaluation(
    policy: Policy, engines: tuple[PlainEngine, PlainEngine]
) -> None:
    (view,) = (table for table in policy.tables if table.name == "firsts")
    assert view.view
    prepared = compiled(COUNT.format(FICKLE["view"]), policy, engines[1])
    assert claimed(prepared) == ZIPS


def test_very_many_rows_are_refused(
    policy: Policy, engines: tuple[PlainEngine, PlainEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_data, "MOST_CELLS", 2 * ZIPS - 2)
    engines[0].public.forget()
    with pytest.raises(Refused) as caught:
        compiled(COUNT.format(FICKLE["first"]), policy, engines[0])
    assert caught.value.reason is Reason.TOO_LARGE


VALUE = "SELECT COUNT(*) AS n FROM people WHERE 7 = (SELECT p.size FROM places AS p WHERE {})"
OF_EACH, OF_ALL = "p.city = people.city", "p.city = 'x'"


@pytest.mark.parametrize("condition", [OF_EACH, OF_ALL])
def test_a_value_of_several_rows_is_seen_before_a_charge(
    condition: str, policy: Policy, engines: tuple[PlainEngine, PlainEngine]
) -> None:
    with pytest.raises(Refused) as caught:
        compiled(VALUE.format(condition), policy, engines[0])
    assert caught.value.reason is Reason.UNSUPPORTED_SYNTAX
    once = compiled(VALUE.format(f"{condition} AND p.zip = 3"), policy, engines[0])
    assert counted(once, engines[1]) == 2


def test_an_untried_value_would_count_a_person_several_times(
    policy: Policy, engines: tuple[PlainEngine, PlainEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PublicQueries, "tried", lambda _self, relation: relation.input)
    untried = compiled(VALUE.format(OF_EACH), policy, engines[0])
    assert counted(untried, engines[1]) > 2
    assert moved(untried, engines[1]) <= claimed(untried)  # the proof leans on none of it


def test_a_recursion_is_tried_before_a_charge(
    policy: Policy, engines: tuple[PlainEngine, PlainEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = (
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {})"
        " SELECT i, (SELECT COUNT(*) FROM people) AS people FROM n"
    )
    monkeypatch.setattr(public_data, "MOST_CELLS", 100)
    assert compiled(numbers.format(100), policy, engines[0]).plan is not None
    with pytest.raises(Refused) as caught:
        compiled(numbers.format(101), policy, engines[0])
    assert caught.value.reason is Reason.TOO_LARGE
    monkeypatch.setattr(PublicQueries, "tried", lambda _self, relation: relation)
    assert compiled(numbers.format(101), policy, engines[0]).plan is not None


# --- with the real engine ------------------------------------------------------------------------


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Proxy, Any]]:
    towns(str(tmp_path / "towns.duckdb"), turned=False).close()
    path = tmp_path / "dpsql.toml"
    path.write_text(POLICY, encoding="utf-8")
    proxy, engine = watched(path, Proxy)
    with proxy:
        yield proxy, engine


def evaluations(engine: Any) -> int:
    return sum(kind == "rows" and "any_value" in sql for kind, sql in engine.calls)


@pytest.mark.full("measures neighbours or further data sets")
def test_explaining_again_does_not_try_again(opened: tuple[Proxy, Any]) -> None:
    proxy, engine = opened
    sql = COUNT.format(FICKLE["any_value"])
    for epsilon in ("1", "0.5", "0.25"):
        assert "dpsql_stage_0" in proxy.explain(request(sql, epsilon)).blocks[0].sql
    proxy.ask(request(sql))
    assert evaluations(engine) == 1
    proxy.refresh()
    proxy.ask(request(sql))
    assert evaluations(engine) == 2


@pytest.mark.full("measures neighbours or further data sets")
def test_such_a_join_is_watched(opened: tuple[Proxy, Any]) -> None:
    proxy, _engine = opened
    with proxy.run(Watch("ana", Decimal(-1000), 1)) as monitor:
        assert monitor.ask(COUNT.format(FICKLE["row_number"])).above
