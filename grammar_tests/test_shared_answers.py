"""What one analyst asked, for others of the budget: whose limits pay for it, and when it is free.

A ledger is tried by random charges, cubes and shares against the sums of a list of who has what;
a proxy by analysts with limits of their own, in groups, and without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.ledgers import Ceiling, Stopped, book
from dpsql.ledgers.chain import START, State
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import Loss, Request
from dpsql.proxy import Proxy
from dpsql.vault import answer_cache
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import charge
from grammar_tests.proxy_kit import shop
from grammar_tests.test_from_memory import (
    ALL,
    BY_BOTH,
    BY_SEX,
    OF_P1,
    PEOPLE,
    POLICY,
    ask,
    charged,
    with_memory,
)

# --- the ledger ---

EVERYBODY = ("ana", "bob", "eve")
GROUPS = [frozenset(some) for n in (1, 2, 3) for some in combinations(EVERYBODY, n)]
CEILINGS = [
    Ceiling(f"of {sorted(some)}", Loss(8 * len(some), 10**9), None, some) for some in GROUPS
]


def wrong_sums(path: Path, seed: int) -> int:
    """How many sums of some analysts are not what these have, each query of it once; none of them
    is above a limit.
    """
    dice, has = Random(seed), dict[str, set[str]]()  # noqa: S311
    losses, wrong, tables = dict[str, int](), 0, dict[str, list[str]]()
    with closing(SqliteLedger.open(str(path))) as ledger:
        for number in range(40):
            analyst = dice.choice(EVERYBODY)
            caps = tuple(c for c in CEILINGS if c.covers("default", analyst))
            asked = charge(f"q{number}", analyst=analyst, caps=caps, loss=Loss(dice.randint(1, 4)))
            if number % 10 == 0:  # a cube of several tables, which are received together
                cube = [f"q{number}.{n}" for n in range(3)]
                for query in cube:
                    kit.ask(ledger, query, analyst=f"cube {number}", loss=Loss(1))
                    has[query], losses[query], tables[query] = set(), 1, cube
                continue
            with suppress(Refused):
                if has and dice.random() < 0.6:
                    query = dice.choice(list(has))
                    ledger.share([query], asked)
                    for each in tables.get(query, [query]):
                        has[each].add(analyst)
                else:
                    kit.ask(ledger, asked.query_id, analyst=analyst, caps=caps, loss=asked.loss)
                    has[asked.query_id], losses[asked.query_id] = {analyst}, asked.loss.amount
        for some in GROUPS:
            spent = ledger.spent(None, some).amount
            had = sum(loss for query, loss in losses.items() if has[query] & some)
            wrong += (spent != had) + (had > 8 * len(some))
        assert ledger.spent("default").amount == sum(losses.values())
        with ledger._reading() as whole:
            whole.catch_up(START)
            assert whole.state == ledger._state
    return wrong


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("seed", range(3))
def test_everybody_is_charged_once_for_what_they_have(
    path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 15)
    assert wrong_sums(path, seed) == 0


def each_by_itself(state: State, budget: str | None, analysts: frozenset[str] | None) -> Loss:
    """Wrong: what two of a group have counts twice."""
    return sum((SPENT(state, budget, frozenset({a})) for a in analysts or EVERYBODY), Loss(0))


def what_was_asked(state: State, budget: str | None, analysts: frozenset[str] | None) -> Loss:
    """Wrong: what others asked counts for nobody else."""
    return SPENT(replace(state, shared={}), budget, analysts)


SPENT = State.spent


@pytest.mark.parametrize("spent", [each_by_itself, what_was_asked])
def test_who_is_charged_twice_or_not_at_all_is_found(
    path: Path, monkeypatch: pytest.MonkeyPatch, spent: Callable[..., Loss]
) -> None:
    def instead(state: State, budget: str | None, by: Any = None, _renews: Any = None) -> Loss:
        return SPENT(state, budget) if by is None else spent(state, budget, by)

    monkeypatch.setattr(State, "spent", instead)
    assert wrong_sums(path, 0) > 0


def test_a_ceiling_that_is_thought_to_have_paid_is_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ceiling, "counts", lambda *_: True)
    assert any(wrong_sums(path.with_suffix(f".{seed}"), seed) for seed in range(3))


# --- the proxy ---

CAPPED = """
[analysts.cat]
budget = "default"
epsilon = 2

[analysts.dan]
budget = "default"
epsilon = 0.01

[groups.team]
analysts = ["ana", "bob"]
budget = "default"
epsilon = 250

[ledger]
"""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Ana and Bob share a limit, Cat has one of her own, Dan's pays for nearly nothing."""
    folder = tmp_path_factory.mktemp("shared")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(PEOPLE)
    text = POLICY.replace('memory = "wide"', 'memory = "wide"\nshare_answers = true')
    policy = folder / "dpsql.toml"
    policy.write_text(text.replace("\n[ledger]\n", CAPPED), encoding="utf-8")
    with Proxy.open(str(policy)) as proxy:
        yield proxy


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


def spent(proxy: Proxy, *analysts: str) -> int:
    return proxy.ledger.spent("default", frozenset(analysts) if analysts else None).amount


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("memory", ["slice", "wide"])
def test_what_a_colleague_asked_costs_those_limits_that_it_did_not(
    proxy: Proxy, memory: str
) -> None:
    proxy.refresh()
    first, then = (with_memory(sql, memory) for sql in (BY_BOTH, OF_P1))
    asked = first if memory == "slice" else then
    whole = charged(ask(proxy, first))
    pot, team, cat = spent(proxy), spent(proxy, "ana", "bob"), spent(proxy, "cat")
    for analyst, price in (("bob", 0), ("cat", whole), ("cat", 0), ("bob", 0)):
        before = proxy.explain(Request(asked, analyst))
        answer = ask(proxy, asked, analyst)
        assert before.charge.amount == charged(answer) == price
        assert answer.receipt is not None
        assert answer.receipt.remembered == (price == 0)
        if memory == "slice":
            assert answer.rows == ask(proxy, first).rows
    now = spent(proxy), spent(proxy, "ana", "bob"), spent(proxy, "cat")
    assert now == (pot, team, cat + whole)
    assert charged(ask(proxy, first, "kim")) == whole  # of another budget


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("memory", ["slice", "wide"])
def test_nobody_pays_more_than_for_an_answer_of_their_own(proxy: Proxy, memory: str) -> None:
    proxy.refresh()
    asked = with_memory(BY_SEX, memory)
    dear = ask(proxy, asked, epsilon="0.5")
    cheap = ask(proxy, asked, "cat")
    assert charged(cheap) == charged(ask(proxy, with_memory(BY_SEX, "off"), "pat"))
    assert cheap.rows != dear.rows
    assert charged(ask(proxy, asked, "bob", epsilon="0.2")) == 0
    with pytest.raises(Refused) as refused:
        ask(proxy, asked, "dan")
    assert refused.value.reason is Reason.BUDGET_EXHAUSTED
    assert charged(ask(proxy, asked, "cat", epsilon="0.5")) == charged(dear)


@pytest.mark.full("opens a proxy for each item")
def test_what_is_lacking_is_paid_beside_what_others_have(proxy: Proxy) -> None:
    proxy.refresh()
    whole = charged(ask(proxy, BY_BOTH))
    asked = proxy.explain(Request(BY_SEX, "bob"))
    assert 0 < asked.charge.amount < 0.9 * whole
    assert any("shared by other analysts" in note for note in asked.notes)
    pot = spent(proxy)
    part = ask(proxy, BY_SEX, "bob")
    assert charged(part) == asked.charge.amount == spent(proxy) - pot
    (first,), (paid,) = proxy.ledger.history("ana", 1), proxy.ledger.history("bob", 1)
    assert paid.epsilon < Decimal(paid.inquiry.requested) == first.epsilon
    (share,) = proxy.ledger.shares("bob", 1)
    assert (share.query_id, share.loss) == (first.query_id, first.loss)
    assert (share.analyst, share.before) == ("bob", ("ana",))
    assert share not in proxy.ledger.shares(until=share.time)
    assert charged(ask(proxy, BY_SEX, "bob")) == 0
    assert ask(proxy, BY_SEX, "bob").rows == part.rows
    assert charged(ask(proxy, BY_SEX)) == 0


@pytest.mark.full("opens a proxy for each item")
def test_what_is_stopped_gets_nothing_new(proxy: Proxy) -> None:
    proxy.refresh()
    ask(proxy, ALL)
    proxy.ledger.stop(Stopped(None, "bob"), "a reason")
    with pytest.raises(Refused) as refused:
        ask(proxy, ALL, "bob")
    assert refused.value.reason is Reason.STOPPED_BY_OWNER
    proxy.ledger.resume(Stopped(None, "bob"), "another")
    assert charged(ask(proxy, ALL, "bob")) == 0


# --- roles ---

BY_VIP = "SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip"
BY_SEGMENT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"
FEWER = """[roles.whole]
analysts = ["ana"]
tables = "all"

[roles.fewer]
analysts = ["bob"]
[roles.fewer.tables.customers]
columns = ["country", "segment"]

[ledger]"""
ALIKE = FEWER.replace('"segment"]', '"segment", "vip"]').replace('"all"', '["customers"]')
ALIKE = ALIKE.replace("[roles.fewer.tables.customers]\ncolumns", "# ").replace(
    '["bob"]', '["bob"]\ntables = ["customers"]'
)
LENDS = "query_delta = 1e-6", 'query_delta = 1e-6\nmemory = "wide"\nshare_answers = true'


def told(folder: Path, roles: str) -> bool:
    """Whether one analyst's answer is made of a table that another one measured."""
    with Proxy.open(str(shop(folder, ("[ledger]", roles), LENDS))) as proxy:
        proxy.ask(Request(BY_VIP, "ana", epsilon=Decimal(2)))
        receipt = proxy.ask(Request(BY_SEGMENT, "bob", epsilon=Decimal(1))).receipt
        assert receipt is not None
        return not receipt.charged.amount


@pytest.mark.full("opens a proxy for each item")
def test_no_table_with_columns_that_a_role_lacks_is_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PRIVACY.md R105: its noise would tell that there is a column, and how many values it has."""
    assert not told(tmp_path / "fewer", FEWER)
    assert told(tmp_path / "alike", ALIKE)
    assert told(tmp_path / "none", "[ledger]")
    monkeypatch.setattr(answer_cache, "is_granted_as_much", lambda *_all: True)  # the twin
    assert told(tmp_path / "twin", FEWER)
