"""One contract for every ledger: spending, remembering, and wrong twins of both."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpsql.ledgers import Charge, Inquiry, Ledger, Remembered, Spent, Stopped
from dpsql.ledgers import chain as chain_module
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.vocabulary import (
    Event,
    Fact,
    FactKind,
    Loss,
    Noisy,
    Voucher,
)
from grammar_tests import ledger_kit as kit
from grammar_tests import postgres_kit
from grammar_tests.ledger_kit import ANSWER, EVENT, LIMIT, LOSS, ask, charge, recall
from grammar_tests.postgres_kit import Postgres

QUESTION, VERSION, TENTH = kit.PLAIN.question, kit.PLAIN.policy_version, Decimal("0.1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres_kit.running(fsync="on") as started:
        yield started


SERVER = pytest.param("server", marks=pytest.mark.full("a database server is started"))


@pytest.fixture(params=["file", SERVER])
def ledger(request: pytest.FixtureRequest, path: Path) -> StoredLedger:
    """A new ledger of each implementation."""
    if request.param == "file":
        return SqliteLedger.open(str(path))
    return kit.on_server(request.getfixturevalue("server"), path)


# --- spending --------------------------------------------------------------------------------


def test_charges_add_up_exactly(ledger: Ledger) -> None:
    assert ledger.spent("default") == Loss(0)
    assert ledger.charge(charge("q1")) == Spent(Loss(0), LOSS)
    assert ledger.charge(charge("q2")) == Spent(LOSS, LOSS + LOSS)
    assert ledger.charge(charge("q3", budget="other")) == Spent(Loss(0), LOSS)
    assert ledger.spent("default") == Loss(6, 10)


@pytest.mark.parametrize("loss", [Loss(96, 0), Loss(0, 10**6 - 2)])
def test_an_exhausted_budget_says_what_is_left(ledger: Ledger, loss: Loss) -> None:
    ledger.charge(charge("q1"))
    ledger.charge(charge("q2", loss=Loss(1)))
    with pytest.raises(Refused) as refused:
        ledger.charge(charge("q3", loss=Loss(1) + loss))
    assert refused.value.reason is Reason.BUDGET_EXHAUSTED
    left = Loss(96, 10**6 - 5)
    assert refused.value.facts == {
        "budget": "default",
        "accountant": "zcdp",
        "needed": Loss(1) + loss,
        "left": left,
        "limit": LIMIT,
    }
    ledger.charge(charge("q4", loss=left))
    smaller = charge("q5", limit=Loss(1))
    with pytest.raises(Refused) as refused:
        ledger.charge(smaller)
    assert refused.value.reason is Reason.LIMIT_CHANGED
    ledger.confirm(smaller.ceilings[0], "less from now on")
    with pytest.raises(Refused) as refused:
        ledger.charge(smaller)
    assert refused.value.facts["left"] == Loss(0)


def writes_nothing(ledger: StoredLedger) -> None:
    ledger.charge(charge("q1"))
    before = kit.kept(ledger)
    with pytest.raises(Refused):
        ledger.charge(charge("q2", loss=Loss(1000)))
    ledger.recall("ana", QUESTION, VERSION, TENTH)
    ledger.spent("default")
    ledger.history("ana", 5)
    assert kit.kept(ledger) == before


def test_a_refusal_and_every_reading_write_nothing(ledger: StoredLedger) -> None:
    writes_nothing(ledger)


class Notes(SqliteLedger):
    """Wrong: writes refusals down."""

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        try:
            return super().charge(charge, *more)
        except Refused:
            self.refresh()
            raise


def test_a_ledger_that_notes_refusals_is_caught(path: Path) -> None:
    with pytest.raises(AssertionError):
        writes_nothing(Notes.open(str(path)))


def charged_of_three(ledger: Ledger) -> Loss:
    """What is spent after three charges at once, of which the budget cannot pay the last."""
    with pytest.raises(Refused):
        ledger.charge(charge("q1"), charge("q2"), charge("q3", loss=Loss(10**9)))
    return ledger.spent("default")


def test_several_charges_are_made_together_or_not_at_all(ledger: Ledger) -> None:
    assert charged_of_three(ledger) == Loss(0)
    assert ledger.charge(charge("q1"), charge("q2")) == Spent(Loss(0), LOSS + LOSS)
    assert len(ledger.history()) == 2


class OneByOne(SqliteLedger):
    """Wrong: makes charges in transactions of their own."""

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        return [super(OneByOne, self).charge(each) for each in (charge, *more)][-1]


def test_a_ledger_that_charges_one_by_one_is_caught(path: Path) -> None:
    assert charged_of_three(OneByOne.open(str(path))) != Loss(0)


def test_accountants_are_never_mixed(ledger: StoredLedger) -> None:
    ledger.charge(charge("q1"))
    before = kit.kept(ledger)
    with pytest.raises(LedgerError, match="never mixed"):
        ledger.charge(charge("q2", accountant="pure"))
    assert kit.kept(ledger) == before
    ledger.charge(charge("q3", accountant="pure", budget="other"))


def test_a_query_is_charged_once(ledger: Ledger) -> None:
    ledger.charge(charge("q1"))
    with pytest.raises(LedgerError, match="already"):
        ledger.charge(charge("q1"))
    assert ledger.spent("default") == LOSS


@pytest.mark.parametrize("epsilon", ["NaN", "Infinity", "-1", "0"])
def test_a_charge_has_a_finite_positive_epsilon(epsilon: str) -> None:
    with pytest.raises(ValueError, match="finite and positive"):
        charge(epsilon=Decimal(epsilon))


def test_amounts_beyond_the_counter_are_not_written(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="count"):
        ledger.charge(charge(loss=Loss(2**63), limit=Loss(2**70)))
    assert ledger.spent("default") == Loss(0)


def stays_charged(ledger: Ledger) -> None:
    """A failure between the charge and the answer changes nothing."""
    ledger.charge(charge("q1"))
    with pytest.raises(TypeError):
        ledger.remember("q1", (Noisy(((object(),),), ((1,),)),))
    assert ledger.spent("default") == LOSS
    ledger.verify()


def test_a_failure_after_the_charge_stays_charged(ledger: Ledger) -> None:
    stays_charged(ledger)


class Refunds(SqliteLedger):
    """Wrong: takes the last charge back when its query fails."""

    def remember(
        self, query_id: str, answer: tuple[Noisy, ...], *more: tuple[str, tuple[Noisy, ...]]
    ) -> None:
        try:
            super().remember(query_id, answer, *more)
        except TypeError:
            kit.edit(Path(self._store.name), "DELETE FROM entries WHERE sequence > 0")
            kit.mark_file(Path(self._store.name)).unlink()
            self._state = chain_module.START
            raise


def test_a_refund_is_caught(path: Path) -> None:
    with pytest.raises(AssertionError):
        stays_charged(Refunds.open(str(path)))


INSERT = "INSERT INTO entries (sequence, kind, time, data_version, amount, hash)"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET amount = 0",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE sequence = 1",
        "REPLACE INTO answers VALUES ('q1', x'00')",
        "UPDATE answers SET payload = x'00'",
        "DELETE FROM answers",
        f"{INSERT} VALUES (4, 'refresh', 0, 2, -1, zeroblob(32))",
        f"{INSERT} VALUES (4, 'refresh', 0, 2, 'NaN', zeroblob(32))",
        f"{INSERT} VALUES (4, 'refresh', 0, 2, 0, zeroblob(31))",
        f"{INSERT} VALUES (4, 'charge', 0, 1, 0, zeroblob(32))",
        f"{INSERT} VALUES (5, 'refresh', 0, 2, 0, zeroblob(32))",
    ],
)
def test_the_file_itself_resists_change(path: Path, statement: str) -> None:
    ledger = SqliteLedger.open(str(path))
    ledger.charge(charge("q1"))
    ledger.remember("q1", ANSWER)
    with kit.raw(path) as opened, pytest.raises(sqlite3.IntegrityError):
        opened.execute(statement)
    ledger.verify()


# --- remembering -----------------------------------------------------------------------------


def same_question_is_free(ledger: Ledger) -> None:
    ask(ledger)
    assert recall(ledger) == Remembered("q1", TENTH, ANSWER)
    assert recall(ledger, epsilon=Decimal("0.05")) is not None


def not_for_another_analyst(ledger: Ledger) -> None:
    ask(ledger)
    assert recall(ledger, analyst="bob") is None


def not_under_another_policy(ledger: Ledger) -> None:
    ask(ledger)
    assert recall(ledger, policy_version="v2") is None


def not_for_more_epsilon(ledger: Ledger) -> None:
    ask(ledger)
    assert recall(ledger, epsilon=Decimal("0.10000001")) is None


def not_after_refresh(ledger: Ledger) -> None:
    ask(ledger)
    assert ledger.refresh() == 2
    assert recall(ledger) is None


def not_for_an_answer_that_never_came(ledger: Ledger) -> None:
    ledger.charge(charge("q1"))
    assert recall(ledger) is None


def largest_epsilon_wins(ledger: Ledger) -> None:
    for n, epsilon in enumerate(("0.2", "1E+1", "9", "0.3")):
        ask(ledger, f"q{n}", epsilon=Decimal(epsilon))
    found = recall(ledger)
    assert found is not None
    assert found.query_id == "q1"


MEMORY_LAWS = (
    not_for_another_analyst,
    not_under_another_policy,
    not_for_more_epsilon,
    not_after_refresh,
    not_for_an_answer_that_never_came,
    largest_epsilon_wins,
)


@pytest.mark.parametrize("law", [same_question_is_free, *MEMORY_LAWS])
def test_memory(ledger: Ledger, law: Callable[[Ledger], None]) -> None:
    law(ledger)
    ledger.verify()


class KeyedByText(SqliteLedger):
    """Wrong: a cache keyed by the question alone, filled when it is charged."""

    cache: dict[str, Remembered]

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        self.cache = {charge.question: Remembered(charge.query_id, charge.epsilon, ANSWER)}
        return super().charge(charge, *more)

    def recall(
        self,
        analyst: str,
        question: str,
        policy_version: str,
        epsilon: Decimal,
        without: frozenset[str] = frozenset(),
    ) -> Remembered | None:
        del analyst, policy_version, epsilon, without
        return self.cache.get(question)


@pytest.mark.parametrize("law", MEMORY_LAWS)
def test_a_cache_keyed_by_text_is_caught(path: Path, law: Callable[[Ledger], None]) -> None:
    with pytest.raises(AssertionError):
        law(KeyedByText.open(str(path)))


def knows_unanswered_charges(ledger: Ledger) -> None:
    """A charge without an answer is that of the same analyst, text, price, question and data."""
    ledger.charge(charge("q1"))
    assert ledger.unanswered(charge("")) == "q1"
    others: list[dict[str, Any]] = [
        *({"analyst": "bob"}, {"budget": "other"}, {"epsilon": 2 * TENTH}, {"loss": LOSS + LOSS}),
        *({"question": "cd" * 32}, {"policy_version": "v2"}, {"inquiry": Inquiry("psql")}),
        {"event": Event(EVENT.parts * 2)},
    ]
    for change in others:
        assert ledger.unanswered(charge("", **change)) == "", change
    ledger.charge(charge("q2"))
    ledger.remember("q2", ANSWER)
    assert ledger.unanswered(charge("")) == "q1"
    ledger.remember("q1", ANSWER)
    assert ledger.unanswered(charge("")) == ""
    ledger.charge(charge("q3"))
    ledger.stop(Stopped("default", None), "why")
    with pytest.raises(Refused):
        ledger.unanswered(charge(""))
    ledger.resume(Stopped("default", None))
    ledger.refresh()
    assert ledger.unanswered(charge("")) == ""


def test_a_charge_without_an_answer_is_told_by_all_that_it_says(ledger: Ledger) -> None:
    knows_unanswered_charges(ledger)


class TakesAnyCharge(SqliteLedger):
    """Wrong: looks at the question alone."""

    def unanswered(self, charge: Charge) -> str:
        entries = [e for e in self.history(None, 10) if e.question == charge.question]
        return next((e.query_id for e in entries if not e.remembered), "")


def test_a_ledger_that_takes_any_charge_of_a_question_is_caught(path: Path) -> None:
    with pytest.raises(AssertionError, match="bob"):
        knows_unanswered_charges(TakesAnyCharge.open(str(path)))


def test_several_answers_are_kept_together_or_not_at_all(ledger: Ledger) -> None:
    ledger.charge(charge("q1"))
    with pytest.raises(LedgerError, match="never charged"):
        ledger.remember("q1", ANSWER, ("q2", ANSWER))
    assert recall(ledger) is None
    ledger.charge(charge("q2"))
    ledger.remember("q1", ANSWER, ("q2", ANSWER))
    assert [each.remembered for each in ledger.history(None, 2)] == [True, True]


def test_each_paid_answer_is_recalled_the_most_precise_first(ledger: Ledger) -> None:
    for query_id, epsilon in (("q1", TENTH), ("q2", 3 * TENTH), ("q3", 2 * TENTH)):
        ask(ledger, query_id, epsilon=epsilon)
    others = frozenset[str]()
    for query_id in ("q2", "q3", "q1"):
        answer = recall(ledger, epsilon=TENTH, without=others)
        assert answer is not None
        assert answer.query_id == query_id
        others |= {query_id}
    assert recall(ledger, epsilon=TENTH, without=others) is None


def test_an_answer_needs_its_charge_and_is_kept_once(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="never charged"):
        ledger.remember("q1", ANSWER)
    ask(ledger)
    with pytest.raises(LedgerError, match="already"):
        ledger.remember("q1", ANSWER)


def test_history_tells_every_charge_newest_first(path: Path) -> None:
    moment = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    ledger = SqliteLedger.open(str(path), clock=lambda: moment)
    ask(ledger, "q1")
    ledger.charge(charge("q2", analyst="bob", epsilon=Decimal("0.20")))
    newest, oldest = ledger.history(None, 10)
    assert (newest.query_id, newest.remembered) == ("q2", False)
    assert (oldest.query_id, oldest.remembered) == ("q1", True)
    assert (newest.time, newest.time.tzinfo) == (moment, UTC)
    assert (newest.analyst, newest.budget, newest.accountant) == ("bob", "default", "zcdp")
    assert (newest.loss, newest.event, newest.question) == (LOSS, EVENT, QUESTION)
    assert str(newest.epsilon) == "0.20"
    assert [entry.query_id for entry in ledger.history("ana", 10)] == ["q1"]
    assert [entry.query_id for entry in ledger.history(None, 1)] == ["q2"]


def test_facts_hold_for_their_files_and_data_version_only(ledger: Ledger) -> None:
    facts = frozenset(
        {
            Fact(FactKind.UNIQUE_KEY, "orders", Voucher.CHECK),
            Fact(FactKind.LINK_RESOLVES, "items", Voucher.CHECK),
        }
    )
    assert ledger.facts("shop") == frozenset()
    ledger.record_facts(facts, "shop")
    assert ledger.facts("shop") == facts
    assert {fact.voucher for fact in ledger.facts("shop")} == {Voucher.CHECK}
    assert ledger.facts("copy") == frozenset()
    ledger.record_facts(frozenset(), "shop")
    assert ledger.facts("shop") == frozenset()
    ledger.record_facts(facts, "shop")
    assert (ledger.refresh(), ledger.data_version()) == (2, 2)
    assert ledger.facts("shop") == frozenset()


def test_everything_survives_reopening(path: Path) -> None:
    first = SqliteLedger.open(str(path))
    first.refresh()
    ask(first)
    first.record_facts(frozenset({Fact(FactKind.MAX_ROWS, "t", Voucher.CHECK)}), "f")
    first.close()
    with pytest.raises(LedgerError, match="closed"):
        first.spent("default")
    again = SqliteLedger.open(str(path))
    assert (again.spent("default"), again.data_version()) == (LOSS, 2)
    assert len(again.facts("f")) == 1
    assert recall(again) is not None
