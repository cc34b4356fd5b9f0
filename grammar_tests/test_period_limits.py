"""Limits of analysts, groups, all budgets and agents, for each period of people (R103, R112)."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpsql.answering.together import AskTogether
from dpsql.interfaces.cli.budget_sheet import budgets_text
from dpsql.ledgers import Ceiling, book, debits
from dpsql.ledgers.chain import START, State
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.ledgers.store import SqliteStore
from dpsql.ledgers.windows import LossSums
from dpsql.model.errors import LedgerError, Refused
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import Loss
from dpsql.owner.delegate_rights import delegate_rights
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import charge
from grammar_tests.proxy_kit import request
from grammar_tests.test_delegation import LATER, to
from grammar_tests.test_period_budgets import (
    BUDGET,
    COUNT,
    JANUARY,
    OTHER,
    RULE,
    edited,
    opened,
)
from grammar_tests.test_period_budgets import folder as folder  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import Clock
from grammar_tests.test_renewals import clock as clock  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import path as path  # noqa: PLC0414 - a fixture

Patch = pytest.MonkeyPatch
ABOVE = {"ana": {"ana"}, "bob": {"bob"}, "agent": {"agent", "bob"}}
"""Who receives what each of them asks: an agent asks for bob."""
POTS = ("default", "second")


def limit(title: str, most: int, budget: str | None, *analysts: str) -> Ceiling:
    covered = frozenset(analysts) or None
    return Ceiling(title, Loss(most, 10**9), budget, covered, periods=RULE.text)


LIMITS = (
    *(limit(f"budget {pot}", 9, pot) for pot in POTS),
    limit("analyst ana", 5, "default", "ana"),
    limit("group of both", 10, None, "ana", "bob"),
    limit("all budgets", 12, None),
    limit("delegation to agent", 4, "default", "agent"),
)


def caps_of(analyst: str, budget: str) -> tuple[Ceiling, ...]:
    names = ABOVE[analyst]
    return tuple(c for c in LIMITS[2:] if any(c.covers(budget, name) for name in names))


def wrong_sums(path: Path, seed: int) -> int:
    """How many sums of a limit in a period are not those of the answers that its analysts have,
    each once; none is above the limit.
    """
    dice, has = Random(seed), dict[str, set[str]]()  # noqa: S311
    paid, wrong = dict[str, tuple[str, tuple[str, ...], int]](), 0
    every = ChargedPeriods(RULE, RULE.blocks, "")
    with closing(SqliteLedger.open(str(path))) as ledger:
        ledger.delegate(to("agent", "bob"), LIMITS[-1].most, "why", RULE.text)
        for number in range(60):
            who, query = dice.choice([*ABOVE]), f"q{number}"
            pot = "default" if who == "agent" else dice.choice(POTS)
            names, loss = (
                tuple(dice.sample(RULE.blocks[:4], dice.randint(1, 2))),
                dice.randint(1, 3),
            )
            asked = charge(
                query,
                analyst=who,
                budget=pot,
                caps=caps_of(who, pot),
                loss=Loss(loss),
                limit=Loss(9, 10**9),
                periods=replace(every, names=names),
            )
            old = [q for q, (of, *_) in paid.items() if of == pot]
            with suppress(Refused):
                if old and dice.random() < 0.5:
                    query = dice.choice(old)
                    ledger.share([query], asked)
                else:
                    ledger.charge(asked)
                    ledger.remember(query, kit.ANSWER)
                    paid[query] = pot, names, loss
                has[query] = has.get(query, set()) | ABOVE[who]
        for each in LIMITS:
            sums = ledger.spent_in(each.budget, every, each.analysts)
            for name, spent in zip(RULE.blocks, sums, strict=True):
                had = sum(
                    loss
                    for query, (pot, names, loss) in paid.items()
                    if name in names
                    and each.budget in {None, pot}
                    and (each.analysts is None or has[query] & each.analysts)
                )
                wrong += (spent.amount != had) + (had > each.most.amount)
        with ledger._reading() as whole:
            whole.catch_up(START)
            assert whole.state == ledger._state
    return wrong


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.full("s")) for n in (1, 2))]
)
def test_each_limit_counts_each_answer_once_in_its_periods(
    path: Path, monkeypatch: Patch, seed: int
) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 15)
    assert wrong_sums(path, seed) == 0


SPENT_IN, WHOLE = State.spent_in, LossSums.spent_in


def of_all(state: State, budget: Any, rule: str, periods: Any, _analysts: Any = None) -> Any:
    """Wrong: a limit of an analyst counts what all ask."""
    return SPENT_IN(state, budget, rule, periods)


def what_was_asked(state: State, *of: Any) -> Any:
    """Wrong: what others asked counts for nobody else."""
    return SPENT_IN(replace(state, shared={}), *of)


def of_one_budget(state: State, budget: Any, *of: Any) -> Any:
    """Wrong: a limit of all budgets counts one."""
    return SPENT_IN(state, budget or "default", *of)


def without_agents(state: State, budget: Any, rule: str, periods: Any, by: Any = None) -> Any:
    """Wrong: what an agent asks does not count for its person."""
    return (
        WHOLE(state.sums, budget, rule, periods, by)
        if budget
        else SPENT_IN(replace(state, delegations={}), budget, rule, periods, by)
    )


@pytest.mark.parametrize("wrong", [of_all, what_was_asked, of_one_budget, without_agents])
def test_limits_that_count_too_little_or_too_much_are_found(
    path: Path, monkeypatch: Patch, wrong: Any
) -> None:
    monkeypatch.setattr(State, "spent_in", wrong)
    assert wrong_sums(path, 0) > 0


def test_a_share_that_forgets_its_periods_is_found(path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(debits, "_paid_periods", lambda asked, _paid: asked.periods)
    assert wrong_sums(path, 0) > 0


def test_an_answer_of_another_rule_is_not_shared(path: Path) -> None:
    with closing(SqliteLedger.open(str(path))) as ledger:
        kit.ask(ledger, "q1", periods=ChargedPeriods(RULE, ("2026-08",), ""))
        for periods in (None, ChargedPeriods(OTHER, ("2026-Q3",), "")):
            with pytest.raises(LedgerError, match="other periods"):
                ledger.share(["q1"], charge("q2", analyst="bob", periods=periods))


def overlooked(path: Path) -> list[str]:
    """What a ledger overlooks: a charge or a refresh of another process, an old file."""
    read = ChargedPeriods(RULE, ("2026-08",), "")
    with ExitStack() as stack:
        opened_twice = [SqliteLedger.open(str(path)) for _ in range(2)]
        own, other = (stack.enter_context(closing(each)) for each in opened_twice)
        before = own.spent_in("default", read)
        kit.back_up(path)
        other.charge(charge("q1", periods=read))
        wrong = ["charge"] * (own.spent_in("default", read) == before)
        assert own.period_versions(RULE.text) == ()
        other.refresh_periods(RULE.text, ["2026-08"])
        wrong += ["refresh"] * (own.period_versions(RULE.text) == ())
        kit.roll_back(path)
        with suppress(LedgerError):
            own.spent_in("default", read)
            wrong.append("rollback")
    return wrong


def test_what_others_charged_or_rolled_back_is_seen(path: Path) -> None:
    assert overlooked(path) == []


def test_wrong_twin_a_ledger_that_looks_once(path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(SqliteStore, "stamp", lambda _: "the same")
    assert overlooked(path) == ["charge", "refresh", "rollback"]


# --- the proxy ---

FEBRUARY = f"{COUNT} WHERE seen >= '2024-02-01' AND seen < '2024-03-01'"
CAPPED = (
    (BUDGET, f"{BUDGET}share_answers = true\n"),
    ("[analysts.ana]\n", '[analysts.bob]\nbudget = "default"\n[analysts.ana]\nepsilon = 0.8\n'),
    ("[privacy_unit]\n", "[privacy_unit]\nepsilon = 1.5\n"),
)
"""Ana has a limit in each month, and so have all together."""


def spend(proxy: Proxy, text: str, analyst: str) -> Refused:
    """Ask until a limit refuses."""
    for number in range(30):
        try:
            proxy.ask(request(f"{text} AND minutes > {number}", analyst=analyst))
        except Refused as refused:
            return refused
    raise AssertionError("no limit refused")


@pytest.mark.full("opens a proxy for each item")
def test_a_limit_of_an_analyst_is_for_each_period(folder: Path, clock: Clock) -> None:
    edited(folder, *CAPPED)
    with opened(folder, clock) as proxy:
        refused = spend(proxy, JANUARY, "ana")
        assert (refused.facts["cap"], refused.facts["period"]) == ("analyst ana", "2024-01")
        with pytest.raises(Refused) as caught:
            proxy.ask(request(f"{COUNT} WHERE minutes < 0"))
        assert caught.value.facts["period"] == "2024-01"
        assert caught.value.offer is not None
        first = proxy.ask(request(FEBRUARY)).receipt
        assert first is not None
        assert (first.cap, first.window) == ("analyst ana", "2024-02")
        refused = spend(proxy, FEBRUARY, "bob")
        assert (refused.facts["cap"], refused.facts["period"]) == ("all budgets", "2024-02")
        free = proxy.ask(request(f"{JANUARY} AND minutes > 0", analyst="bob")).receipt
        assert free is not None
        assert free.remembered
        refused = spend(proxy, FEBRUARY, "ana")  # an answer of bob counts as if she asked
        assert refused.facts["cap"] == "analyst ana"
        assert "analyst ana" in budgets_text(proxy)
        assert proxy.ledger.verify()


@pytest.mark.full("opens a proxy for each item")
def test_an_agent_pays_in_each_period_below_its_limit(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        draft = load(str(folder / "dpsql.toml"))
        delegate_rights(draft, proxy.ledger, "ana", "agent", Decimal("0.8"), LATER, (), "a month")
        refused = spend(proxy, JANUARY, "agent")
        assert refused.facts["cap"] == "delegation to agent"
        assert refused.facts["period"] == "2024-01"
        proxy.ask(request(FEBRUARY, analyst="agent"))
        known = proxy.ask(request(FEBRUARY)).receipt
        assert known is not None
        assert known.remembered
        (entry, *_) = proxy.ledger.history()
        assert (entry.analyst, entry.periods) == ("agent", ("2024-02",))
        assert [each.window for each in proxy.standings() if each.cap] == ["2024-01"]
        march = f"{COUNT} WHERE seen >= '2024-03-01' AND seen < '2024-04-01'"
        answers, _ = proxy.run(AskTogether([request(march, analyst="agent")]))
        assert len(answers) == 1
