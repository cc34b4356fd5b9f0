"""Cubes, wide tables and statements asked together, about people in one period (R103)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dpsql.answering.together import AskTogether, PlanTogether
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.resolve import person_periods
from dpsql.model.errors import Refused
from dpsql.model.periods import ChargedPeriods, PeriodRule, in_blocks
from dpsql.model.query_options import Memory
from dpsql.model.vocabulary import Loss
from dpsql.preparation.question import Account
from dpsql.proxy import Proxy
from dpsql.systems.cubes.cubes import CreateCube
from grammar_tests.laws import BUDGET as PAYS
from grammar_tests.laws import compiled
from grammar_tests.period_worlds import BLOCKS, world
from grammar_tests.proxy_kit import request
from grammar_tests.test_period_budgets import (
    BUDGET,
    JANUARY,
    RULE,
    edited,
    opened,
    until_refused,
)
from grammar_tests.test_period_budgets import folder as folder  # noqa: PLC0414 - a fixture
from grammar_tests.test_period_refresh import BOB, BOTH, FEBRUARY
from grammar_tests.test_person_periods import FEBRUARY as IN_FEBRUARY
from grammar_tests.test_person_periods import moved, one_too_few
from grammar_tests.test_renewals import Clock
from grammar_tests.test_renewals import clock as clock  # noqa: PLC0414 - a fixture

Patch = pytest.MonkeyPatch
WITHIN = JANUARY.partition(" WHERE ")[2]
CELLS = "SELECT kind, COUNT(*) AS n FROM events"
CUBE = f"CREATE DP CUBE january AS {CELLS} WHERE {WITHIN} GROUP BY CUBE (kind)"
DRILLS = (
    f"{CELLS} WHERE {WITHIN} GROUP BY kind",
    f"{CELLS} WHERE {WITHIN} AND kind = 'b' GROUP BY kind",
    JANUARY,
)
SHARED = BUDGET, f"{BUDGET}share_answers = true\n"
WIDE = BUDGET, f'{BUDGET}memory = "wide"\n'


def is_free(proxy: Proxy, text: str, analyst: str = "ana") -> bool:
    receipt = proxy.ask(request(text, None, analyst)).receipt
    assert receipt is not None
    return receipt.remembered


def spent(proxy: Proxy) -> dict[str, int]:
    return {each.window: each.spent.amount for each in proxy.standings()}


def drilled(folder: Path, clock: Clock, *changes: tuple[str, str]) -> list[bool]:
    """Which drill-downs of two analysts are free; a month of its own paid for the cube."""
    edited(folder, BOB, *changes)
    with opened(folder, clock) as proxy:
        price = proxy.run(CreateCube(CUBE, None, "duckdb")).price
        before = spent(proxy)
        assert before == {name: price.amount * (name == "2024-01") for name in BLOCKS}
        free = [is_free(proxy, text, by) for text in DRILLS for by in ("ana", "bob")]
        assert all(free) == (spent(proxy) == before)
        proxy.refresh(["2024-02"])
        free += [is_free(proxy, text) for text in DRILLS]
        proxy.refresh(["2024-01"])
        free += [not is_free(proxy, text) for text in DRILLS[::2]]
        assert proxy.ledger.verify()
    return free


@pytest.mark.full("two proxies")
def test_drill_downs_of_a_closed_month_are_free_of_its_cube(folder: Path, clock: Clock) -> None:
    assert all(drilled(folder, clock, SHARED))


@pytest.mark.full("two proxies")
def test_a_cube_that_outlives_its_data_is_found(
    folder: Path, clock: Clock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(PeriodRule, "versions_of", lambda *_: [])
    assert not all(drilled(folder, clock, SHARED))


@pytest.mark.full("a proxy")
def test_a_cube_is_about_one_period_and_a_table_about_no_later_one(
    folder: Path, clock: Clock
) -> None:
    edited(folder, WIDE)
    wrong = (
        (CUBE.replace("2024-02-01", "2024-03-01"), "a cube"),
        (f"CREATE DP TABLE t AS {CELLS} GROUP BY kind", "rows of later periods"),
    )
    with opened(folder, clock) as proxy:
        for text, construct in wrong:
            with pytest.raises(Refused) as caught:
                proxy.run(CreateCube(text, None, "duckdb"))
            assert construct in str(caught.value.facts["construct"])
        assert proxy.ledger.history() == ()


# --- published tables ---

TWO = "seen >= '2024-01-01' AND seen < '2024-03-01'"
BOARD = f"CREATE DP TABLE board AS {CELLS} WHERE {TWO} GROUP BY kind"
LIMITED = (
    ("[analysts.ana]\n", f"{BOB[1]}epsilon = 0.6\n"),
    ("[privacy_unit]\n", "[privacy_unit]\nepsilon = 1.9\n"),
)


def miscounted(folder: Path, clock: Clock) -> list[str]:
    """What is wrong with the sums of a table of two months that two analysts read."""
    edited(folder, *LIMITED)
    wrong = []
    with opened(folder, clock) as proxy:
        price = proxy.run(CreateCube(BOARD, None, "duckdb")).price
        paid = [price if name in {"2024-01", "2024-02"} else Loss(0) for name in BLOCKS]
        every = ChargedPeriods(proxy.policy.period or RULE, BLOCKS, "")
        for reader, counts in (("ana", price), ("bob", Loss(0))):  # no limit is bob's own
            before = proxy.explain(request("SELECT n FROM board", analyst=reader))
            first = proxy.ask(request("SELECT kind, n FROM board", analyst=reader))
            again = proxy.ask(request("SELECT kind, n FROM board ORDER BY n", analyst=reader))
            assert sorted(first.rows) == sorted(again.rows)
            own = proxy.ledger.spent_in("default", every, frozenset({reader}))
            wrong += [reader] * (list(own) != paid or before.charge != counts)
        wrong += ["pot"] * ([*proxy.ledger.spent_in("default", every)] != paid)
        clock.now += timedelta(days=31)
        kept = proxy.ask(request("SELECT kind, n FROM board"))
        wrong += ["later"] * (kept.rows != first.rows)
        proxy.refresh(["2024-03"])
        proxy.ask(request("SELECT kind, n FROM board"))
        proxy.refresh(["2024-02"])
        with suppress(Refused):
            proxy.ask(request("SELECT kind, n FROM board"))
            wrong.append("old")
        assert proxy.ledger.verify()
    return wrong


@pytest.mark.full("a proxy")
def test_a_published_table_counts_in_its_periods(folder: Path, clock: Clock) -> None:
    assert miscounted(folder, clock) == []


@pytest.mark.full("a proxy")
def test_a_published_table_that_outlives_its_data_is_found(
    folder: Path, clock: Clock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(PeriodRule, "versions_of", lambda *_: [])
    assert miscounted(folder, clock) == ["old"]


@pytest.mark.full("a proxy")
def test_a_published_table_that_is_received_for_nothing_is_found(
    folder: Path, clock: Clock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(Account, "has", lambda *_: True)
    assert {"ana", "bob"} <= {*miscounted(folder, clock)}


# --- statements that are asked together ---


@pytest.mark.full("a proxy")
def test_statements_about_one_period_are_asked_together(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        with pytest.raises(Refused, match="different periods"):
            proxy.run(AskTogether([request(JANUARY), request(FEBRUARY)]))
        with pytest.raises(Refused, match="different periods"):
            proxy.run(PlanTogether([request(JANUARY), request(BOTH)]))
        assert proxy.ledger.history() == ()
        answers, receipt = proxy.run(AskTogether([request(text) for text in (JANUARY, DRILLS[0])]))
        assert len(answers) == 2
        assert receipt.charged.amount > 0
        paid = {name: receipt.charged.amount * (name == "2024-01") for name in BLOCKS}
        assert spent(proxy) == paid
        assert {each.periods for each in proxy.ledger.history()} == {("2024-01",)}
        again = proxy.run(AskTogether([request(text) for text in (JANUARY, DRILLS[0])]))
        assert (again[0][0].rows, again[1].charged) == (answers[0].rows, Loss(0))


@pytest.mark.full("a proxy")
def test_an_empty_period_does_not_stop_statements_about_others(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        until_refused(proxy)
        first = spent(proxy)
        assert proxy.run(AskTogether([request(FEBRUARY)]))[1].charged.amount > 0
        with pytest.raises(Refused, match="budget-exhausted"):
            proxy.run(AskTogether([request(f"{JANUARY} AND minutes < 3"), request(DRILLS[0])]))
        assert spent(proxy)["2024-01"] == first["2024-01"]


# --- wide tables ---

PART = f"SELECT COUNT(*) AS n FROM events WHERE {IN_FEBRUARY} AND kind = 'a'"


REMEMBERS = replace(PAYS, memory=Memory.WIDE)


def wide_of(plan: Prepared) -> Prepared:
    """The measurement for later questions that answers a question too."""
    assert plan.wide is not None
    assert plan.wide.prepared.charged == plan.charged
    return plan.wide.prepared


@pytest.mark.full("opens a proxy")
def test_a_wide_table_is_of_one_period() -> None:
    at = policy, engine = world(0, most=1)
    assert moved(PART, 0, wide_of, at, REMEMBERS) == []
    several = PART.replace("2024-03-01", "2024-04-01")
    assert compiled(several, policy, engine, budget=REMEMBERS).wide is None


def test_a_wide_table_of_other_periods_is_found(monkeypatch: Patch) -> None:
    at, several = world(0, most=1), PART.replace("2024-03-01", "2024-04-01")
    unfiltered = lambda rule, time, kind, _: in_blocks(rule, time, kind, rule.blocks)  # noqa: E731
    one_too_few(monkeypatch)
    assert moved(several, 0, wide_of, at, REMEMBERS) == []  # the filter holds
    monkeypatch.setattr(person_periods, "in_blocks", unfiltered)
    assert "2024-03 is not charged" in moved(several, 0, wide_of, at, REMEMBERS)
