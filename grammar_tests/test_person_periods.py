"""People in periods: what queries read, and the laws for their units (PRIVACY.md R103)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import duckdb
import psycopg
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.resolve import person_periods
from dpsql.compiler.track.table_scans import private_scan
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.model.algebra import Scan
from dpsql.model.calendars import Renewal
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import (
    MOST_PERIODS,
    NO_TIME,
    PeriodRule,
    condition_within,
    condition_without,
    in_blocks,
)
from dpsql.model.tree import TIMESTAMP, VARCHAR, Literal, Ref
from dpsql.model.vocabulary import Budget, Policy
from dpsql.preparation import period_plans
from grammar_tests import period_worlds, postgres_kit
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
from grammar_tests.period_worlds import BLOCKS, CONDITIONS, deletions, world
from grammar_tests.postgres_world import World
from grammar_tests.test_laws import halved

Patch = pytest.MonkeyPatch
COUNT = "SELECT COUNT(*) AS n FROM events WHERE "
FEBRUARY = "seen >= '2024-02-01' AND seen < '2024-03-01'"
ORDERED = "placed >= '2024-02-01' AND placed < '2024-03-01'"
JOINED = "events e JOIN orders o ON e.user_id = o.user_id"
OUTER = "events e LEFT JOIN orders o ON e.user_id = o.user_id"
THERE = "EXISTS (FROM orders o WHERE o.user_id = e.user_id"
TIMES, JANUARY = "t < '2024-02-01' AND t >= '2024-01-01'", ("2024-01",)
DISTINCT = "SELECT DISTINCT user_id, seen FROM events"
SEEN = "events e"
EACH = "SELECT user_id, COUNT(*) AS n FROM events"
RANKED = """SELECT user_id, seen,
ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY seen) AS rn FROM events"""


def planned(sql: str, seed: int = 0) -> Prepared:
    policy, engine = world(seed)
    return compiled(sql, policy, engine)


def charged(sql: str) -> tuple[str, ...]:
    read = planned(sql).charged
    assert read is not None
    return read.names


# --- the rows of blocks ---


def kept(*conditions: str) -> list[set[int]]:
    """Moments around the ends of all periods, by number, for which each condition is true."""
    rows = f"(SELECT n, v::TIMESTAMP AS t FROM (VALUES {MOMENTS}) AS m(n, v))"
    listed = ", ".join(f"list(n) FILTER (WHERE {each})" for each in conditions)
    found = duckdb.connect().execute(f"SELECT {listed} FROM {rows}").fetchone()
    assert found is not None
    return [set(each or ()) for each in found]


DAYS = [f"2024-{month:02}-{day}" for month in range(1, 7) for day in ("01", "17")]
ENDS = ("1970-01-01", "2023-12-31 23:59:59.999999", "2024-03-31 23:59:59.999999", "9999-12-31")
MOMENTS = ", ".join(f"({n}, '{each}')" for n, each in enumerate((*DAYS, *ENDS))) + ", (99, NULL)"


def test_each_set_of_blocks_keeps_the_rows_of_its_blocks() -> None:
    policy, _ = world(0)
    rule, time = policy.period, Ref(1, TIMESTAMP)
    assert rule is not None
    in_plain_sql = [f"{period_worlds.block_sql('t')} = '{name}'" for name in BLOCKS]
    of_block = dict(zip(BLOCKS, kept(*in_plain_sql), strict=True))
    chosen = [each for size in range(1, 6) for each in combinations(BLOCKS, size)]
    wanted = [set[int]().union(*map(of_block.__getitem__, names)) for names in chosen]
    conditions = (in_blocks(rule, time, TIMESTAMP, names) for names in chosen)
    assert kept(*(expression(each, lambda _: "t") for each in conditions)) == wanted
    texts = (condition_within(rule, "t", names) for names in chosen)
    assert kept(*texts) == wanted
    timed = set[int]().union(*of_block.values()) - of_block[NO_TIME]
    offered = kept(*(condition_without(rule, "t", name) for name in BLOCKS))
    assert offered == [timed - of_block[name] for name in BLOCKS]


# --- which periods are charged ---


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (FEBRUARY, ("2024-02",)),
        ("date_trunc('month', seen) = DATE '2024-02-01'", ("2024-02",)),
        ("seen::DATE IN (DATE '2024-03-31', '2024-03-01')", ("2024-03",)),
        ("DATE '2024-02-29' < seen", ("2024-02", "2024-03", "elsewhere")),
        ("seen IS NULL", (NO_TIME,)),
        ("seen IS NOT NULL", BLOCKS[:3] + BLOCKS[4:]),
        ("seen < '2024-01-15'", ("2024-01", "elsewhere")),
        ("seen >= '2024-01-01' AND seen < '2024-04-01'", BLOCKS[:3]),
        ("extract(year FROM seen) = 2024", BLOCKS[:3] + BLOCKS[4:]),
        ("strftime(seen, '%Y') = '2024'", BLOCKS),
        ("kind = 'a'", BLOCKS),
        (f"({FEBRUARY}) OR kind = 'a'", BLOCKS),
        (f"({FEBRUARY}) OR (seen >= '2024-03-01' AND seen < '2024-04-01')", BLOCKS[1:3]),
        ("(seen >= '2024-03-01' OR seen IS NULL) AND seen < '2024-04-01'", ("2024-03",)),
    ],
)
def test_the_conditions_decide_which_periods_are_charged(
    condition: str, names: tuple[str, ...]
) -> None:
    assert charged(COUNT + condition) == names


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT COUNT(*) AS n FROM events", BLOCKS),
        (f"WITH e AS (SELECT seen AS t FROM events) SELECT COUNT(*) FROM e WHERE {TIMES}", JANUARY),
        (f"SELECT COUNT(*) FROM {JOINED} WHERE {FEBRUARY} AND {ORDERED}", ("2024-02",)),
        (f"SELECT COUNT(*) FROM {OUTER} AND {ORDERED} WHERE {FEBRUARY}", ("2024-02",)),
        (f"SELECT COUNT(*) FROM {SEEN} WHERE {THERE} AND {ORDERED}) AND {FEBRUARY}", ("2024-02",)),
        (f"SELECT AVG(n) FROM ({EACH} WHERE {FEBRUARY} GROUP BY user_id) x", ("2024-02",)),
        (f"SELECT COUNT(*) FROM ({DISTINCT}) x WHERE {FEBRUARY}", ("2024-02",)),
    ],
)  # fmt: skip
def test_conditions_are_followed_through_a_query(sql: str, names: tuple[str, ...]) -> None:
    assert charged(sql) == names


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM {OUTER} WHERE {FEBRUARY} AND {ORDERED}",
        f"SELECT COUNT(*) FROM events e WHERE {FEBRUARY} AND {THERE})",
        f"SELECT COUNT(*) FROM events WHERE {FEBRUARY} AND user_id IN (SELECT user_id FROM orders)",
        f"SELECT COUNT(*) FROM ({RANKED}) e WHERE rn = 1 AND {FEBRUARY}",
    ],
)  # fmt: skip
def test_rows_of_other_periods_that_matter_are_charged_and_then_refused(sql: str) -> None:
    with pytest.raises(Refused, match="several periods"):
        planned(sql)


# --- law 1 ---


def differs(sql: str, seed: int) -> bool:
    policy, engine = world(seed)
    made = compiled(sql, policy, engine)
    ours, errors = noiseless(made, engine)
    return not same_rows(ours, errors, engine.rows(sql))


def texts(seed: int) -> Iterator[str]:
    """Counts and sums under conditions; events have one group a person, so no groups here."""
    dice = Random(seed)  # noqa: S311
    for condition in (*CONDITIONS, *(period_worlds.random_condition(dice) for _ in range(8))):
        yield f"SELECT COUNT(*) AS n, SUM(minutes) AS m FROM events WHERE {condition}"
        other = condition.replace("seen", "placed").replace("minutes", "amount")
        yield f"SELECT COUNT(*) AS n, SUM(amount) AS m FROM orders WHERE {other}"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full("further data"))])
def test_answers_are_those_of_the_plain_engine(seed: int) -> None:
    assert [sql for sql in texts(seed) if differs(sql, seed)] == []


def one_too_few(patch: Patch) -> None:
    """A planner that forgets the last period that the conditions leave."""
    whole: Any = vars(period_plans)["charged_blocks"]
    patch.setattr(period_plans, "charged_blocks", lambda *of: whole(*of)[:-1] or ("2024-01",))


def test_a_period_charged_too_few_changes_the_answer(monkeypatch: Patch) -> None:
    one_too_few(monkeypatch)
    assert any(differs(sql, 0) for sql in texts(0))


# --- law 2 ---


LAW_2 = (
    "SELECT COUNT(*) AS n, SUM(minutes) AS m FROM events",
    "SELECT kind, COUNT(*) AS n, SUM(minutes) AS m, AVG(minutes) AS a FROM events GROUP BY kind",
    "SELECT kind, SUM(amount) AS m FROM orders WHERE placed >= '2024-02-01' GROUP BY kind",
    f"SELECT kind, COUNT(*) AS n FROM events WHERE {FEBRUARY} GROUP BY kind",
    f"SELECT COUNT(DISTINCT user_id) AS n FROM events WHERE {FEBRUARY}",
    f"SELECT SUM(amount) AS n FROM {JOINED} AND event_id = order_id WHERE {FEBRUARY} AND {ORDERED}",
    "SELECT label, COUNT(*) AS n FROM events JOIN kinds USING (kind) GROUP BY label",
    "SELECT kind, MEDIAN(minutes) AS n FROM events WHERE seen IS NOT NULL GROUP BY kind",
    f"SELECT place, COUNT(*) AS n FROM events WHERE {FEBRUARY} GROUP BY place",
    "SELECT AVG(n) AS n FROM (SELECT basket, COUNT(*) AS n FROM orders GROUP BY 1) x",
    f"SELECT AVG(n) AS n FROM ({EACH} WHERE {FEBRUARY} GROUP BY user_id) x",
    f"{COUNT}{FEBRUARY} AND minutes > (SELECT AVG(minutes) FROM events WHERE seen < '2024-02-01')",
)  # fmt: skip


def moved(
    sql: str,
    seed: int,
    damage: Any = lambda plan: plan,
    at: tuple[Policy, PlainEngine] | None = None,
    budget: Budget = BUDGET,
) -> list[str]:
    """What breaks a claim when one person in one period goes: all, in periods not charged."""
    policy, engine = at or world(seed, most=2)
    plan = damage(compiled(sql, policy, engine, budget=budget))
    whole = PlainEngine(engine.connection.cursor())
    broken = []
    for person in range(6):
        for block in BLOCKS:
            with without_unit(engine.connection, deletions(person, block)):
                released = noiseless_blocks(plan, whole)
                here, there = (integers(plan, e, released) for e in (whole, engine))
                assert plan.charged is not None
                why = violation(plan, here, there)
                if block not in plan.charged.names and here != there:
                    why = f"{block} is not charged"
                broken += [why] if why else []
    return broken


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", LAW_2)
def test_a_person_in_a_period_changes_no_more_than_claimed(sql: str) -> None:
    assert moved(sql, 0) == []


def test_half_of_a_sensitivity_is_caught() -> None:
    assert moved(LAW_2[4], 0, halved)


def test_a_scan_without_its_period_is_caught(monkeypatch: Patch) -> None:
    one_too_few(monkeypatch)
    assert moved(LAW_2[0], 0) == []  # the filter holds whatever the conditions say
    unfiltered = lambda rule, time, kind, _: in_blocks(rule, time, kind, rule.blocks)  # noqa: E731
    monkeypatch.setattr(person_periods, "in_blocks", unfiltered)
    assert "elsewhere is not charged" in moved(LAW_2[0], 0)


def test_a_unit_met_by_the_person_alone_is_caught(monkeypatch: Patch) -> None:
    monkeypatch.setattr(person_periods, "label_of", lambda *_: Literal("", VARCHAR))
    assert moved(LAW_2[1], 0)


# --- what needs one period ---

TWO_MONTHS = """SELECT place, COUNT(*) FROM events
WHERE seen >= '2024-02-01' AND seen < '2024-04-01' GROUP BY place"""


def test_a_rule_has_as_many_periods_as_it_says() -> None:
    rule = PeriodRule(Renewal.MONTH, "1970-01", (), "2024-01")
    assert len(rule.names) == MOST_PERIODS
    assert rule.names[-1] == "2019-12"


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT COUNT(DISTINCT user_id) FROM events", "the person's column user_id"),
        (f"SELECT COUNT(*) FROM {JOINED}", "the person's"),
        ("SELECT COUNT(*) FROM events e JOIN orders o ON e.event_id = o.order_id", "a join of"),
        (f"SELECT AVG(n) FROM ({EACH} GROUP BY 1) x", "the person's"),
        (f"SELECT AVG(n) FROM ({EACH.replace('user_id', 'event_id')} GROUP BY 1) x", "a group or"),
        ("SELECT MAX(n) FROM (SELECT basket, COUNT(*) AS n FROM orders GROUP BY 1) x", ""),
        (f"SELECT SUM(rn) FROM ({RANKED}) x", "the person's"),
        ("SELECT place, COUNT(*) FROM events GROUP BY place", "private group keys"),
        (TWO_MONTHS, "private group keys"),
    ],
)  # fmt: skip
def test_questions_about_people_need_one_period(sql: str, construct: str) -> None:
    with pytest.raises(Refused) as caught:
        planned(sql)
    assert caught.value.reason is not Reason.SYNTAX
    assert construct in str(caught.value.facts.get("construct", ""))


def test_a_key_of_one_person_in_all_months_would_be_shown(monkeypatch: Patch) -> None:
    """Counted by people in periods, a key of one person has as many as the person has periods."""
    engine = PlainEngine(period_worlds.database(0))
    engine.connection.execute("DELETE FROM events")
    for month in (1, 2, 3):
        row = f"({month}, 7, TIMESTAMP '2024-0{month}-05', 'a', 'home of 7', 1)"
        engine.connection.execute(f"INSERT INTO events VALUES {row}")
    policy = period_worlds.bound(engine)
    sql = "SELECT place, COUNT(*) AS n FROM events WHERE seen IS NOT NULL GROUP BY place"
    with pytest.raises(Refused, match="private group keys over several periods"):
        compiled(sql, policy, engine)
    monkeypatch.setattr(period_plans, "several_periods", lambda *_: None)
    monkeypatch.setattr(period_plans, "with_charged_blocks", lambda plan, _: plan)
    from dpsql.preparation import prepare  # noqa: PLC0415

    monkeypatch.setattr(prepare, "with_charged_blocks", lambda plan, _: plan)
    (counted,) = integers(compiled(sql, policy, engine), engine)
    assert counted["home of 7",][0] == 3


def test_people_are_never_read_without_periods() -> None:
    policy, _ = world(0)
    table = policy.table("events")
    assert table is not None
    scan = Scan("events", ())
    with pytest.raises(AssertionError, match="R103"):
        private_scan(scan, table, policy, None)  # type: ignore[arg-type]


@pytest.mark.full("a database server is started")
def test_postgres_reads_the_same_periods() -> None:
    policy, engine = world(0, most=2)
    sections = period_worlds.TOML.split("[privacy_unit]")[1].split("[budgets.default]")[0]
    with (
        postgres_kit.running() as server,
        psycopg.connect(server.conninfo(), cursor_factory=psycopg.RawCursor) as pg,
    ):
        for statement in period_worlds.SCHEMA:
            pg.execute(statement)
        for table in ("events", "orders"):
            for row in engine.rows(f"SELECT * FROM {table}"):
                places = ", ".join(f"${n + 1}" for n in range(len(row)))
                pg.execute(f"INSERT INTO {table} VALUES ({places})", row)
        there = World(pg, f"[privacy_unit]{sections}".replace("= 20", "= 2"))
        assert there.policy.period is not None
        there.policy = replace(there.policy, period=policy.period)
        for sql in (LAW_2[0], LAW_2[2], LAW_2[4], LAW_2[5], LAW_2[9]):  # no choice of groups
            ours, theirs = compiled(sql, policy, engine), there.plan(sql)
            assert ours.charged is not None
            assert theirs.charged is not None
            assert ours.charged.names == theirs.charged.names
            assert integers(ours, engine) == there.counted(theirs), sql
