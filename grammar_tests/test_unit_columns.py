"""The unit is a column: people without a table, named by values that several tables hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.algebra import Filter
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.schema import Schema
from dpsql.model.tree import Call
from dpsql.model.vocabulary import FactKind, Policy
from dpsql.model.walk import relations
from dpsql.owner.check import check_policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.bound import CATALOGS
from grammar_tests.casefile import Case, all_cases
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
    without_unit,
)
from grammar_tests.proxy_kit import request
from grammar_tests.test_laws import comparable, halved

HELD = ("orders", "events", "logins")
COLUMNS = ", ".join(f'"{table}.customer_id"' for table in HELD)


def without_people(policy: str, unit: str = f"columns = [{COLUMNS}]") -> str:
    """The shop's policy with no table of customers."""
    policy = re.sub(r"\[tables\.customers\].*?(?=\[tables\.orders\])", "", policy, flags=re.DOTALL)
    policy = re.sub(r"link = \{ column = \"customer_id\".*\n", "", policy)
    return policy.replace('table = "customers"\nkey = "customer_id"', unit)


def people() -> world.Tables:
    """Rows of people who are in one table alone, in several, and of nobody; nobody is beside."""
    tables = {**world.adversarial(), "customers": []}
    tables["events"].append((9100, None, "phone", 5))
    tables["logins"] += [(9200, None, None), (9201, 77, None)]
    return tables


@cache
def over(made: Callable[[], world.Tables]) -> tuple[Policy, PlainEngine]:
    engine = PlainEngine(world.build(made(), constraints=False))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dpsql.toml"
        path.write_text(without_people((CATALOGS / "shop.toml").read_text("utf-8")), "utf-8")
        draft = load(str(path))
    schema = Schema(declared(engine.rows), "here")
    return bind(draft, schema, PublicTables(engine, DUCKDB).values), engine


def planned(case: Case, made: Callable[[], world.Tables]) -> Prepared | None:
    policy, engine = over(made)
    budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
    try:
        plan = compiled(
            case.sql, policy, engine, dialect=case.setting("dialect", "duckdb"), budget=budget
        )
    except Refused:
        return None
    blocks = () if plan.plan is None else plan.plan.blocks
    return plan if any(block.queries or block.choices for block in blocks) else None


CASES = [c for c in all_cases() if c.accepted and "customers" not in c.sql and c.holds_here]
SOME = CASES[::4]


def everybody(engine: PlainEngine) -> list[int]:
    union = " UNION ".join(f"SELECT customer_id FROM {table}" for table in HELD)
    return sorted(row[0] for row in engine.rows(union) if row[0] is not None)


def violations(
    engine: PlainEngine, plans: list[Prepared], damage: Callable[[Prepared], Prepared] = lambda p: p
) -> Iterator[str | None]:
    whole = PlainEngine(engine.connection.cursor())
    for unit in everybody(engine):
        with without_unit(engine.connection, world.deletions(unit)):
            for plan in map(damage, plans):
                released = noiseless_blocks(plan, whole)
                here, there = (integers(plan, e, released) for e in (whole, engine))
                yield violation(plan, here, there)


@pytest.mark.full("further data sets, and all their neighbours")
def test_neighbours_differ_by_no_more_than_claimed() -> None:
    """Law 2: a unit is removed with every row that holds its value, and with what leads to them."""
    plans = [plan for case in SOME if (plan := planned(case, people)) is not None]
    assert len(plans) > 60
    engine = PlainEngine(world.build(people(), constraints=False))
    assert [why for why in violations(engine, plans[::12]) if why] == []
    assert [why for why in violations(engine, plans[:6], halved) if why]


@pytest.mark.parametrize("case", [c for c in CASES[::18] if comparable(c)], ids=lambda c: c.id)
def test_without_noise_the_answer_is_the_plain_one(case: Case) -> None:
    """Law 1, where every row is somebody's."""
    plan = planned(case, world.well_behaved)
    if plan is not None:
        engine = over(world.well_behaved)[1]
        assert same_rows(*noiseless(plan, engine), engine.rows(case.sql))


def exact(sql: str) -> Any:
    """The one integer of a question over people without a table."""
    policy, engine = over(people)
    ((counted,),) = [integers(compiled(sql, policy, engine), engine)]
    return next(iter(counted.values()))[0]


def test_rows_without_a_value_belong_to_nobody() -> None:
    """A value is somebody wherever it is."""
    engine = over(people)[1]
    for table in HELD:
        ((units,),) = engine.rows(f"SELECT COUNT(DISTINCT customer_id) FROM {table}")
        assert exact(f"SELECT COUNT(DISTINCT customer_id) FROM {table}") == units
    tree = compiled("SELECT COUNT(*) FROM logins", *over(people)).plan
    assert tree is not None
    (block,) = tree.blocks
    present = [r.predicate for r in relations(block.block.rows) if isinstance(r, Filter)]
    assert any("is_null" in repr(condition) for condition in present)
    assert not any(isinstance(c, Call) and c.function == "exists" for c in present)


def test_nothing_is_looked_up_of_people() -> None:
    """Their values are the units: no join shows that they exist."""
    policy, engine = over(people)
    plan = compiled("SELECT COUNT(*) FROM events", policy, engine)
    assert "JOIN" not in plan.rewritten.blocks[0].sql
    kinds = {fact.table for fact in policy.facts if fact.kind is FactKind.LINK_RESOLVES}
    assert kinds >= set(HELD)
    joined = "SELECT COUNT(*) FROM orders JOIN events USING (customer_id)"
    assert compiled(joined, policy, engine).plan is not None


DATA = """
CREATE TABLE events (user_id INTEGER, kind VARCHAR, seconds INTEGER);
CREATE TABLE clicks (uid INTEGER, event_id INTEGER);
CREATE TABLE odd (user_id DOUBLE);
CREATE TABLE far (user_id VARCHAR);
INSERT INTO events SELECT range % 200, 'a', range % 60 FROM range(600);
INSERT INTO events SELECT NULL, 'b', 1 FROM range(50);
INSERT INTO clicks SELECT 100 + range % 300, range FROM range(900);
INSERT INTO clicks SELECT NULL, 1 FROM range(7);
"""
POLICY = """
[database]
engine = "duckdb"
path = "data.duckdb"
[privacy_unit]
column = "events.user_id"
[tables.events]
access = "private"
max_rows_per_unit = 10
[tables.events.columns]
user_id = { nullable = true }
kind = { values = ["a", "b"] }
seconds = { bounds = [0, 60] }
[tables.clicks]
access = "private"
link = { column = "uid", references = "events.user_id" }
max_rows_per_unit = 10
[tables.clicks.columns]
uid = { nullable = true }
[budgets.default]
epsilon = 100000.0
delta = 1e-3
query_epsilon = 1000.0
max_query_epsilon = 1000.0
[analysts.ana]
budget = "default"
"""


def written(folder: Path, *changes: tuple[str, str]) -> str:
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        connection.execute(DATA)
    text = POLICY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "dpsql.toml").write_text(text, "utf-8")
    return str(folder / "dpsql.toml")


ASKED = {
    "SELECT COUNT(*) FROM events": 600,
    "SELECT COUNT(DISTINCT user_id) FROM events": 200,
    "SELECT COUNT(*) FROM events WHERE kind = 'b'": 0,
    "SELECT COUNT(*) FROM clicks": 900,
    "SELECT COUNT(DISTINCT uid) FROM clicks": 300,
    "SELECT COUNT(*) FROM clicks WHERE uid IN (SELECT user_id FROM events)": 300,
    "SELECT AVG(n) FROM (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id)": 3,
    "SELECT COUNT(*) FROM events JOIN clicks ON user_id = uid": 900,
}


@pytest.mark.full("opens a proxy for each item")
def test_people_without_a_table_are_asked_about(tmp_path: Path) -> None:
    with Proxy.open(written(tmp_path)) as proxy:
        for sql, meant in ASKED.items():
            answer = proxy.ask(request(sql))
            (((number,),), ((margin,),)) = answer.rows, answer.margins
            assert margin is not None
            assert abs(number - meant) <= 1e-6 + 3 * margin, sql
        with pytest.raises(Refused):
            proxy.ask(request("SELECT user_id, COUNT(*) FROM events GROUP BY user_id"))
        assert "events.user_id" in repr(proxy.explain(request("SELECT COUNT(*) FROM events")))


@pytest.mark.full("opens a proxy for each item")
def test_check_counts_rows_of_nobody(tmp_path: Path) -> None:
    told = {finding.message for finding in check_policy(written(tmp_path)).findings}
    assert {message for message in told if "belong to nobody" in message} == {
        "events: 50 of 650 rows have no user_id: they belong to nobody and enter no answer.",
        "clicks: 7 of 907 rows have no uid: they belong to nobody and enter no answer.",
    }


LINK = 'link = { column = "uid", references = "events.user_id" }'


def beside(table: str) -> str:
    """One more table that holds the unit."""
    link = 'link = { column = "user_id", references = "events.user_id" }'
    columns = f"[tables.{table}.columns]\nuser_id = {{}}"
    return f'[tables.{table}]\naccess = "private"\n{link}\n{columns}\n[budgets.default]'


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('column = "events.user_id"', 'column = "user_id"', "names no column"),
        ('column = "events.user_id"', 'column = ["events.user_id"]', "names no column"),
        ('column = "events.user_id"', "columns = []", "names no column"),
        ('column = "events.user_id"', 'columns = "events.user_id"\nkey = "x"', "has no use"),
        ('column = "events.user_id"', 'column = "events.user_id"\ntable = "events"', "There are"),
        ('column = "events.user_id"', 'column = "visits.user_id"', "visits is not a private table"),
        ('column = "events.user_id"', 'column = "events.nobody"', "events.nobody is not listed"),
        ("uid = {", "uidd = {", "clicks.uid is not listed"),
        ('references = "events.user_id"', 'references = "events.kind"', "not the declared key"),
        ("[budgets.default]", beside("odd"), "has type DOUBLE"),
        ("[budgets.default]", beside("far"), "has type VARCHAR"),
        (LINK, f"links = [{LINK[7:]}, {LINK[7:].replace('uid', 'event_id')}]", "a table of people"),
    ],
)
def test_what_is_no_unit_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(says)):
        Proxy.open(written(tmp_path, (old, new))).close()
