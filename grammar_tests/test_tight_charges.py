"""Charges under the tight accountant: ledger and proxy compare all filters (PRIVACY.md R109)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import fsum
from pathlib import Path

import pytest

from dpsql import accountants
from dpsql.accountants import list_filters, tight
from dpsql.accountants.tight import Tight, renyi_divergence
from dpsql.interfaces.cli.budget_sheet import budgets_json, budgets_text
from dpsql.ledgers import Ceiling, book
from dpsql.ledgers.chain import State, checkpointed
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.model.calendars import Calendar, Renewal
from dpsql.model.dataclass import replace
from dpsql.model.delegation import Delegation
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.vocabulary import (
    UNBOUNDED,
    ApproximateEvent,
    BoundedRangeEvent,
    Budget,
    EventPart,
    Loss,
    Mechanism,
    Noise,
    NoiseEvent,
    Request,
    Sensitivity,
)
from dpsql.proxy import Proxy
from grammar_tests import ledger_kit as kit
from grammar_tests import postgres_kit, proxy_kit
from grammar_tests.ledger_kit import charge
from grammar_tests.postgres_kit import Postgres
from grammar_tests.test_tight import ONE, bell, loss_of

# --- the ledger --------------------------------------------------------------------------------

MOST = Loss(100, 10**6, (50, 80))
PAID = partial(charge, accountant="tight-32", limit=MOST)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres_kit.running(fsync="on") as started:
        yield started


SERVER = pytest.param("server", marks=pytest.mark.full("a database server is started"))


@pytest.fixture(params=["file", SERVER])
def ledger(request: pytest.FixtureRequest, path: Path) -> Iterator[StoredLedger]:
    """A new ledger of each implementation."""
    if request.param == "file":
        opened: StoredLedger = SqliteLedger.open(str(path))
    else:
        opened = kit.on_server(request.getfixturevalue("server"), path)
    with closing(opened):
        yield opened


def test_a_charge_is_admitted_while_one_filter_holds(ledger: StoredLedger) -> None:
    for number in range(8):
        ledger.charge(PAID(f"q{number}", loss=Loss(30, 1, (9, 10))))
    assert ledger.spent("default") == Loss(240, 8, (72, 80))
    with pytest.raises(Refused) as refused:
        ledger.charge(PAID("q8", loss=Loss(1, 1, (1, 1))))
    assert refused.value.reason is Reason.BUDGET_EXHAUSTED
    assert refused.value.facts["left"] == Loss(0, 10**6 - 8)
    with pytest.raises(Refused):
        ledger.charge(PAID("q8", loss=Loss(0, 10**6)))
    ledger.charge(PAID("q8", loss=Loss(0, 5)))
    entries = ledger.history(None, 20)
    assert entries[1].loss == Loss(30, 1, (9, 10))
    ledger.verify()


def test_every_limit_compares_all_filters(ledger: StoredLedger) -> None:
    cap = Ceiling("analyst ana", Loss(40, 10**6, (30, 0)), "default", frozenset({"ana"}))
    ledger.charge(PAID("q1", loss=Loss(60, 1, (20, 10)), caps=(cap,)))
    ledger.charge(PAID("q2", analyst="bob", loss=Loss(60, 1, (UNBOUNDED, 10))))
    with pytest.raises(Refused) as refused:
        ledger.charge(PAID("q3", loss=Loss(1, 1, (11, 1)), caps=(cap,)))
    assert refused.value.facts["cap"] == "analyst ana"
    assert ledger.confirmed()["analyst ana"] == cap
    assert ledger.spent("default", frozenset({"bob"})).further == (UNBOUNDED, 10)


def test_noise_of_an_earlier_window_still_counts_in_no_later_one(
    path: Path,
) -> None:
    """Sums without a bound are exact: their difference says which filter a window fits."""
    moment = [datetime(2026, 11, 27, 12, tzinfo=UTC)]
    ever = Ceiling("lifetime of budget default", Loss(500, 10**6, (60, 90)), "default")
    daily = partial(PAID, renews=Calendar(Renewal.DAY), caps=(ever,))
    with closing(SqliteLedger.open(str(path), clock=lambda: moment[0])) as ledger:
        ledger.charge(daily("q1", loss=Loss(100, 1, (UNBOUNDED, 85))))
        with pytest.raises(Refused):
            ledger.charge(daily("q2", loss=Loss(1, 1, (1, 1))))
        moment[0] += timedelta(days=1)
        ledger.charge(daily("q2", loss=Loss(150, 1, (50, 85))))
        with pytest.raises(Refused):
            ledger.charge(daily("q3", loss=Loss(1, 1, (UNBOUNDED, 1))))
        today = ledger.spent("default", renews=Calendar(Renewal.DAY))
        assert today == Loss(150, 1, (50, 85))
        assert ledger.spent("default").further == (UNBOUNDED + 50, 170)
        ledger.verify()


def noise_of_the_second_day(path: Path) -> int:
    """The pure coordinate of a day with noise, after a day with noise."""
    moment = [datetime(2026, 11, 27, 12, tzinfo=UTC)]
    days = Calendar(Renewal.DAY)
    with closing(SqliteLedger.open(str(path), clock=lambda: moment[0])) as ledger:
        for number in range(2):
            moment[0] += timedelta(days=number)
            ledger.charge(PAID(f"q{number}", loss=Loss(90, 1, (UNBOUNDED, 85)), renews=days))
        return ledger.spent("default", renews=days).further[0]


def test_noise_of_a_second_window_is_seen(path: Path) -> None:
    assert noise_of_the_second_day(path) == UNBOUNDED


def test_wrong_twin_a_sum_that_stops_at_its_largest_number(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saturated, the noise of a second window would be no noise: the difference is 0."""
    exactly = Loss.__add__

    def saturated(one: Loss, other: Loss) -> Loss:
        whole = exactly(one, other)
        return replace(whole, further=tuple(min(UNBOUNDED, x) for x in whole.further))

    monkeypatch.setattr(Loss, "__add__", saturated)
    assert noise_of_the_second_day(path) == 0


def test_a_checkpoint_and_a_shared_answer_keep_every_filter(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 3)
    with closing(SqliteLedger.open(str(path))) as ledger:
        for number in range(4):
            ledger.charge(PAID(f"q{number}", loss=Loss(9, 1, (UNBOUNDED, 7))))
            ledger.remember(f"q{number}", kit.ANSWER)
        cap = Ceiling("analyst bob", MOST, "default", frozenset({"bob"}))
        shared = PAID("", analyst="bob", loss=Loss(9, 1, (UNBOUNDED, 7)), caps=(cap,))
        assert ledger.share(["q1"], shared) == Loss(9, 1, (UNBOUNDED, 7))
        assert ledger.shares()[0].loss == Loss(9, 1, (UNBOUNDED, 7))
        assert ledger.spent("default", frozenset({"bob"})) == Loss(9, 1, (UNBOUNDED, 7))
        whole = ledger.spent("default")
        ledger.verify()
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert ledger.spent("default") == whole == Loss(36, 4, (4 * UNBOUNDED, 28))
        with ledger._reading() as opened:
            last = ledger._store.last_checkpoint(opened.opened)
        assert last is not None
        state: State = checkpointed(*last)
        assert state.losses["default", "ana"].further[0] >= 2 * UNBOUNDED
        assert state.limits["budget default"].most == MOST


def test_a_delegation_is_compared_in_every_filter(ledger: StoredLedger) -> None:
    most, until = Loss(10, 10**6, (20, 0)), datetime(9998, 1, 1, tzinfo=UTC)
    agent = Delegation("bot", "ana", "default", Decimal(1), Decimal("1e-6"), until)
    ledger.delegate(agent, most, "")
    cap = Ceiling(agent.title, most, "default", frozenset({"bot"}))
    paid = partial(PAID, analyst="bot", caps=(cap,))
    ledger.charge(paid("q1", loss=Loss(15, 1, (20, 9))))
    with pytest.raises(Refused) as refused:
        ledger.charge(paid("q2", loss=Loss(1, 1, (1, 1))))
    assert refused.value.reason is Reason.BUDGET_EXHAUSTED
    ledger.verify()


def test_a_ledger_adds_divergences_of_one_order(ledger: StoredLedger) -> None:
    ledger.charge(PAID("q1", loss=Loss(1, 1, (1, 1))))
    with pytest.raises(LedgerError, match="tight-32 before"):
        ledger.charge(PAID("q2", accountant="tight-24", loss=Loss(1, 1, (1, 1))))


def test_what_a_budget_says_of_its_filters() -> None:
    of = accountants.get("tight-32")
    limit = of.limit(Budget("b", Decimal(1), Decimal("1e-6"), of.name))
    gaussian, pure, renyi = list_filters(of.name, loss_of(bell(25), order=32), limit)
    assert (gaussian.holds, pure.holds, renyi.holds) == (True, False, False)
    assert pure.spent is None
    names = ["Gaussian DP", "pure ε", "Rényi DP of order 32"]
    assert [each.name for each in (gaussian, pure, renyi)] == names
    assert list_filters("zcdp", Loss(1), Loss(2)) == ()


def test_the_divergence_of_every_part_is_that_of_the_reports() -> None:
    half = Fraction(1, 2)
    parts: list[EventPart] = [BoundedRangeEvent(half), ApproximateEvent(half), bell(9)]
    for order in (4, 32):
        whole = loss_of(*parts, order=order).further[1] / 1e9
        exact = fsum(renyi_divergence(part, order) for part in parts)
        assert exact <= whole <= exact + 1e-8
    assert isinstance(accountants.get("tight"), Tight)
    assert tight.NAME == "tight"


@pytest.mark.parametrize("order", [2, 32, 512])
@pytest.mark.parametrize(
    "part",
    [
        bell(1),
        bell(9),
        bell(10**8, Sensitivity(5, 0, 900)),
        BoundedRangeEvent(Fraction(1, 10), 7),
        BoundedRangeEvent(Fraction(4)),
        ApproximateEvent(Fraction(1, 100)),
        ApproximateEvent(Fraction(3), rounds=2),
        NoiseEvent(Noise(Mechanism.DISCRETE_LAPLACE, Fraction(3)), ONE),
    ],
)
def test_a_promise_covers_every_filter(part: EventPart, order: int) -> None:
    """What is charged for found bounds is the same for all findings, in every filter."""
    loss, of = loss_of(part, order=order), accountants.get(f"tight-{order}")
    whole = accountants.fill_filters(Loss(loss.amount), of)
    assert loss.is_within(whole)
    assert whole.further[1] <= order * loss.amount / 2 + 3
    assert accountants.fill_filters(Loss(5), accountants.get("zcdp")) == Loss(5)


# --- the proxy ---------------------------------------------------------------------------------

ASKED = (
    "SELECT status, COUNT(*) AS n FROM orders GROUP BY status",
    "SELECT note, COUNT(*) AS n FROM orders GROUP BY note",
    "SELECT MEDIAN(age) AS m FROM customers",
    "SELECT SUM(note_length) AS n FROM orders",
)


@pytest.mark.full("opens a proxy for each item")
def test_questions_of_every_kind_are_charged_in_all_filters(tmp_path: Path) -> None:
    bounds = ("note_length = {}", "note_length = { private_bounds = true }")
    named = ('accountant = "zcdp"', 'accountant = "tight"')
    with Proxy.open(str(proxy_kit.shop(tmp_path, bounds, named))) as proxy:
        budget = proxy.policy.budgets[0]
        assert budget.accountant.startswith("tight-")
        spent = Loss(0)
        for sql in ASKED:
            plan = proxy.explain(Request(sql, "ana"))
            answer = proxy.ask(Request(sql, "ana"))
            assert answer.receipt is not None
            assert plan.charge == answer.receipt.charged
            before, spent = spent, proxy.budgets()[0][1]
            assert (spent - before).further[1] < UNBOUNDED
            assert spent.fits(accountants.get(budget.accountant).limit(budget))
        pure = list_filters(budget.accountant, spent, proxy.budgets()[0][2])[1]
        assert pure.spent is None
        (pot, *_) = json.loads(budgets_json(proxy))["budgets"]
        assert [use["holds"] for use in pot["filters"]] == [True, False, True]
        assert "one filter has to hold. Gaussian DP holds" in budgets_text(proxy)
        again = proxy.ask(Request(ASKED[0], "ana"))
        assert again.receipt is not None
        assert again.receipt.remembered


def test_no_filter_is_charged_less_than_its_share_of_the_least_charge() -> None:
    budget = Budget("b", Decimal(1), Decimal("1e-6"), "tight-32")
    limit, least = accountants.get("tight-32").limit(budget), accountants.least_charge(budget)
    paid = accountants.price(loss_of(ApproximateEvent(Fraction(1, 10**6)), order=32), budget)
    assert paid.amount == least.amount
    for spent, most in zip(paid.further, limit.further, strict=True):
        assert spent / most == pytest.approx(least.amount / limit.amount, rel=1e-3)
