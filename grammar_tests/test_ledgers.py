"""One contract for every ledger, the tampering it must notice, and wrong twins of it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from math import nan
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpsql.errors import LedgerError, Reason, Refused
from dpsql.ledgers import Charge, Ledger, Remembered, Spent, store
from dpsql.ledgers import book as book_module
from dpsql.ledgers import chain as chain_module
from dpsql.ledgers.codec import decode_answer, decode_event, encode_answer, encode_event
from dpsql.ledgers.sqlite import SqliteLedger, accept
from dpsql.ledgers.store import Patience
from dpsql.model import (
    Event,
    Fact,
    FactKind,
    Loss,
    Mechanism,
    Neighbours,
    Noise,
    NoiseEvent,
    Noisy,
    SelectionEvent,
    Sensitivity,
    Voucher,
)
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import ANSWER, EVENT, LIMIT, LOSS, charge

Make = Callable[[str], Ledger]
IMPLEMENTATIONS: tuple[Make, ...] = (SqliteLedger.open,)
QUESTION, VERSION, TENTH = kit.PLAIN.question, kit.PLAIN.policy_version, Decimal("0.1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


@pytest.fixture(params=IMPLEMENTATIONS)
def ledger(request: pytest.FixtureRequest, path: Path) -> Ledger:
    opened: Ledger = request.param(str(path))
    return opened


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
    with pytest.raises(Refused) as refused:
        ledger.charge(charge("q5", limit=Loss(1)))
    assert refused.value.facts["left"] == Loss(0)


def writes_nothing(ledger: Ledger, path: Path) -> None:
    ledger.charge(charge("q1"))
    before = kit.contents(path)
    with pytest.raises(Refused):
        ledger.charge(charge("q2", loss=Loss(1000)))
    ledger.recall("ana", QUESTION, VERSION, TENTH)
    ledger.spent("default")
    ledger.history("ana", 5)
    assert kit.contents(path) == before


def test_a_refusal_and_every_reading_write_nothing(ledger: Ledger, path: Path) -> None:
    writes_nothing(ledger, path)


class Notes(SqliteLedger):
    """Wrong: writes refusals down."""

    def charge(self, charge: Charge) -> Spent:
        try:
            return super().charge(charge)
        except Refused:
            self.refresh()
            raise


def test_a_ledger_that_notes_refusals_is_caught(path: Path) -> None:
    with pytest.raises(AssertionError):
        writes_nothing(Notes.open(str(path)), path)


def test_accountants_are_never_mixed(ledger: Ledger, path: Path) -> None:
    ledger.charge(charge("q1"))
    before = kit.contents(path)
    with pytest.raises(LedgerError, match="never mixed"):
        ledger.charge(charge("q2", accountant="pure"))
    assert kit.contents(path) == before
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

    def remember(self, query_id: str, answer: tuple[Noisy, ...]) -> None:
        try:
            super().remember(query_id, answer)
        except TypeError:
            kit.edit(Path(self._path), "DELETE FROM entries WHERE sequence = 1")
            kit.mark_file(Path(self._path)).unlink()
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
        f"{INSERT} VALUES (3, 'refresh', 0, 2, -1, zeroblob(32))",
        f"{INSERT} VALUES (3, 'refresh', 0, 2, 'NaN', zeroblob(32))",
        f"{INSERT} VALUES (3, 'refresh', 0, 2, 0, zeroblob(31))",
        f"{INSERT} VALUES (3, 'charge', 0, 1, 0, zeroblob(32))",
        f"{INSERT} VALUES (4, 'refresh', 0, 2, 0, zeroblob(32))",
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


def asked(ledger: Ledger, query_id: str = "q1", **changes: Any) -> None:
    ledger.charge(charge(query_id, **changes))
    ledger.remember(query_id, ANSWER)


def recalled(ledger: Ledger, **changes: Any) -> Remembered | None:
    same: dict[str, Any] = {
        "analyst": "ana",
        "question": QUESTION,
        "policy_version": VERSION,
        "epsilon": TENTH,
    }
    return ledger.recall(**(same | changes))


def same_question_is_free(ledger: Ledger) -> None:
    asked(ledger)
    assert recalled(ledger) == Remembered("q1", TENTH, ANSWER)
    assert recalled(ledger, epsilon=Decimal("0.05")) is not None


def not_for_another_analyst(ledger: Ledger) -> None:
    asked(ledger)
    assert recalled(ledger, analyst="bob") is None


def not_under_another_policy(ledger: Ledger) -> None:
    asked(ledger)
    assert recalled(ledger, policy_version="v2") is None


def not_for_more_epsilon(ledger: Ledger) -> None:
    asked(ledger)
    assert recalled(ledger, epsilon=Decimal("0.10000001")) is None


def not_after_refresh(ledger: Ledger) -> None:
    asked(ledger)
    assert ledger.refresh() == 2
    assert recalled(ledger) is None


def not_for_an_answer_that_never_came(ledger: Ledger) -> None:
    ledger.charge(charge("q1"))
    assert recalled(ledger) is None


def largest_epsilon_wins(ledger: Ledger) -> None:
    for n, epsilon in enumerate(("0.2", "1E+1", "9", "0.3")):
        asked(ledger, f"q{n}", epsilon=Decimal(epsilon))
    found = recalled(ledger)
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

    def charge(self, charge: Charge) -> Spent:
        self.cache = {charge.question: Remembered(charge.query_id, charge.epsilon, ANSWER)}
        return super().charge(charge)

    def recall(
        self, analyst: str, question: str, policy_version: str, epsilon: Decimal
    ) -> Remembered | None:
        del analyst, policy_version, epsilon
        return self.cache.get(question)


@pytest.mark.parametrize("law", MEMORY_LAWS)
def test_a_cache_keyed_by_text_is_caught(path: Path, law: Callable[[Ledger], None]) -> None:
    with pytest.raises(AssertionError):
        law(KeyedByText.open(str(path)))


def test_an_answer_needs_its_charge_and_is_kept_once(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="never charged"):
        ledger.remember("q1", ANSWER)
    asked(ledger)
    with pytest.raises(LedgerError, match="already"):
        ledger.remember("q1", ANSWER)


def test_history_tells_every_charge_newest_first(path: Path) -> None:
    moment = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    ledger = SqliteLedger.open(str(path), clock=lambda: moment)
    asked(ledger, "q1")
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
    asked(first)
    first.record_facts(frozenset({Fact(FactKind.MAX_ROWS, "t", Voucher.CHECK)}), "f")
    first.close()
    with pytest.raises(LedgerError, match="closed"):
        first.spent("default")
    again = SqliteLedger.open(str(path))
    assert (again.spent("default"), again.data_version()) == (LOSS, 2)
    assert len(again.facts("f")) == 1
    assert recalled(again) is not None


# --- trust -----------------------------------------------------------------------------------


def delete_last(path: Path) -> None:
    kit.edit(path, "DELETE FROM entries WHERE sequence = (SELECT max(sequence) FROM entries)")


def swap(path: Path) -> None:
    numbers = ((1, 100), (3, 1), (100, 3))
    kit.edit(path, *(f"UPDATE entries SET sequence = {b} WHERE sequence = {a}" for a, b in numbers))


def foreign_mark(path: Path) -> None:
    other = path.with_name("other.ledger")
    SqliteLedger.open(str(other))
    shutil.copy(kit.mark_file(other), kit.mark_file(path))


NOTICED_BY_THE_NEXT_CALL: dict[str, Callable[[Path], None]] = {
    "its last entry was deleted": delete_last,
    "an entry was forged": kit.forge,
    "all was rewritten, hashes too": kit.rewrite_chain,
    "it was rolled back": kit.roll_back,
    "it was replaced by a copy": kit.restore,
    "it was emptied": lambda path: kit.overwrite(path, b""),
    "it was overwritten": lambda path: kit.overwrite(path, b"x" * 5000),
    "it was deleted": lambda path: path.unlink(),
    "a trigger was dropped": kit.drop_trigger,
    "its mark was deleted": lambda path: kit.mark_file(path).unlink(),
    "its mark was damaged": lambda path: kit.overwrite(kit.mark_file(path), b"{}"),
    "its mark is another's": foreign_mark,
}
NOTICED_BY_VERIFYING: dict[str, Callable[[Path], None]] = {
    "an amount was edited": lambda path: kit.edit(
        path, "UPDATE entries SET amount = 0 WHERE sequence = 1"
    ),
    "a column nobody sums was edited": lambda path: kit.edit(
        path, "UPDATE entries SET analyst = 'bob' WHERE sequence = 1"
    ),
    "an entry was deleted": lambda path: kit.edit(path, "DELETE FROM entries WHERE sequence = 1"),
    "entries were swapped": swap,
}


def used(path: Path) -> SqliteLedger:
    """A ledger with two answered queries, and a backup from after the first."""
    ledger = SqliteLedger.open(str(path))
    asked(ledger, "q1")
    kit.back_up(path)
    asked(ledger, "q2")
    return ledger


@pytest.mark.parametrize("how", NOTICED_BY_THE_NEXT_CALL | NOTICED_BY_VERIFYING)
def test_opening_fails_closed_when(path: Path, how: str) -> None:
    used(path)
    (NOTICED_BY_THE_NEXT_CALL | NOTICED_BY_VERIFYING)[how](path)
    with pytest.raises(LedgerError, match=r"dpsql\.ledger") as caught:
        SqliteLedger.open(str(path))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("how", NOTICED_BY_THE_NEXT_CALL)
def test_a_running_proxy_fails_closed_when(path: Path, how: str) -> None:
    ledger = used(path)
    NOTICED_BY_THE_NEXT_CALL[how](path)
    with pytest.raises(LedgerError):
        ledger.charge(charge("q3"))
    with pytest.raises(LedgerError):
        ledger.spent("default")


@pytest.mark.parametrize("how", NOTICED_BY_VERIFYING)
def test_a_running_proxy_keeps_its_sums_and_can_verify_when(path: Path, how: str) -> None:
    ledger = used(path)
    NOTICED_BY_VERIFYING[how](path)
    assert ledger.spent("default") == LOSS + LOSS
    with pytest.raises(LedgerError):
        ledger.verify()


def test_an_untouched_ledger_passes_the_same_checks(path: Path) -> None:
    ledger = used(path)
    ledger.verify()
    SqliteLedger.open(str(path)).charge(charge("q3"))
    assert ledger.charge(charge("q4")).before == LOSS + LOSS + LOSS


@pytest.mark.parametrize("how", ["it was rolled back", "all was rewritten, hashes too"])
def test_hashes_without_a_mark_would_not_notice_that(
    path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used(path)
    NOTICED_BY_THE_NEXT_CALL[how](path)
    monkeypatch.setattr(book_module, "check_mark", lambda *_: None)
    SqliteLedger.open(str(path)).verify()


def test_a_mark_without_hashes_would_not_notice_an_edit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_module, "link", lambda *_: bytes(32))
    monkeypatch.setattr(book_module, "link", lambda *_: bytes(32))
    used(path)
    NOTICED_BY_VERIFYING["an amount was edited"](path)
    assert SqliteLedger.open(str(path)).spent("default") == Loss(3, 10)


@pytest.mark.parametrize("name", ["clone.ledger", "elsewhere/dpsql.ledger"])
def test_a_clone_with_its_mark_fails_closed(path: Path, name: str) -> None:
    used(path)
    clone = path.parent / name
    clone.parent.mkdir(exist_ok=True)
    shutil.copy(path, clone)
    shutil.copy(kit.mark_file(path), kit.mark_file(clone))
    with pytest.raises(LedgerError, match="copy"):
        SqliteLedger.open(str(clone))


@pytest.mark.parametrize("edit", ["x'01'", "(SELECT payload FROM answers WHERE query_id = 'q2')"])
def test_an_edited_answer_is_never_given(path: Path, edit: str) -> None:
    ledger = SqliteLedger.open(str(path))
    asked(ledger, "q1")
    ledger.charge(charge("q2", question="cd" * 32))
    ledger.remember("q2", (Noisy(((),), ((1,),)),))
    kit.edit(path, f"UPDATE answers SET payload = {edit} WHERE query_id = 'q1'")
    with pytest.raises(LedgerError, match="answer"):
        recalled(ledger)
    with pytest.raises(LedgerError, match="answer"):
        ledger.verify()


def test_an_edited_entry_is_never_recalled(path: Path) -> None:
    ledger = SqliteLedger.open(str(path))
    asked(ledger, "q1")
    kit.edit(path, "UPDATE entries SET epsilon = '5' WHERE sequence = 1")
    with pytest.raises(LedgerError, match="entry 1"):
        recalled(ledger, epsilon=Decimal(4))
    with pytest.raises(LedgerError, match="entry 1"):
        ledger.history(None, 10)


def test_a_ledger_may_be_ahead_of_its_mark(path: Path) -> None:
    ledger = used(path)
    behind = kit.mark_file(path).read_bytes()
    ledger.charge(charge("q3"))
    ahead = kit.mark_file(path).read_bytes()
    kit.mark_file(path).write_bytes(behind)
    again = SqliteLedger.open(str(path))
    again.charge(charge("q4"))
    assert kit.mark_file(path).read_bytes() not in (behind, ahead)
    ledger.verify()


def test_a_crash_before_the_first_mark_is_harmless(path: Path) -> None:
    SqliteLedger.open(str(path))
    kit.mark_file(path).unlink()
    SqliteLedger.open(str(path)).charge(charge())
    kit.mark_file(path).unlink()
    with pytest.raises(LedgerError, match="lost its mark"):
        SqliteLedger.open(str(path))


def test_the_owner_accepts_a_restored_backup(path: Path) -> None:
    running = used(path)
    kit.roll_back(path)
    accept(str(path))
    again = SqliteLedger.open(str(path))
    assert again.spent("default") == LOSS
    again.charge(charge("q9"))
    again.verify()
    with pytest.raises(LedgerError):  # what was seen before is not forgotten by who saw it
        running.charge(charge("q3"))


@pytest.mark.parametrize("how", ["an amount was edited", "a column nobody sums was edited"])
def test_nobody_can_accept_an_edited_ledger(path: Path, how: str) -> None:
    used(path)
    NOTICED_BY_VERIFYING[how](path)
    with pytest.raises(LedgerError, match="entry 1"):
        accept(str(path))


def test_only_an_existing_ledger_can_be_accepted(path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be opened"):
        accept(str(path))
    assert not path.exists()


def test_two_names_of_one_file_share_its_mark(path: Path) -> None:
    ledger = used(path)
    other = path.with_name("link.ledger")
    other.symlink_to(path)
    SqliteLedger.open(str(other)).charge(charge("q3"))
    assert not kit.mark_file(other).exists()
    assert ledger.spent("default") == Loss(9, 15)


def test_only_the_owner_can_read_it(path: Path) -> None:
    used(path)
    modes = {p.name: p.stat().st_mode & 0o777 for p in (path, kit.mark_file(path))}
    assert modes == dict.fromkeys(modes, 0o600)


def test_another_journal_is_switched_back(path: Path) -> None:
    ledger = used(path)
    with kit.raw(path) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
    ledger.charge(charge("q3"))
    with kit.raw(path) as opened:
        assert opened.execute("PRAGMA journal_mode").fetchone() != ("wal",)


def test_another_journal_would_fail_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = used(path)
    with kit.raw(path) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
    monkeypatch.setattr(store, "_PRAGMAS", ())
    with pytest.raises(LedgerError, match="journal"):
        ledger.charge(charge("q3"))


def test_an_old_sqlite_is_told_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "OLDEST_SQLITE", (99, 0, 0))
    with pytest.raises(LedgerError, match=r"needs SQLite 99\.0\.0"):
        SqliteLedger.open(str(path))


def test_a_missing_folder_is_told_so(path: Path) -> None:
    with pytest.raises(LedgerError, match="No such file"):
        SqliteLedger.open(str(path / "deeper"))


def test_the_mark_that_cannot_be_written_stops_the_answer(path: Path) -> None:
    ledger = used(path)
    Path(f"{kit.mark_file(path)}.new").mkdir()
    with pytest.raises(LedgerError, match="mark"):
        ledger.charge(charge("q3"))
    assert ledger.spent("default") == Loss(9, 15)


# --- sharing ---------------------------------------------------------------------------------


def test_a_lock_is_waited_for(path: Path) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            holder.rollback()

    with kit.raw(path) as holder:
        ledger = SqliteLedger.open(str(path), patience=Patience(10, 0.004, wait))
        holder.execute("BEGIN IMMEDIATE")
        assert ledger.spent("default") == Loss(0)
        assert waits == []
        ledger.charge(charge())
    assert len(waits) == 3
    assert all(0 <= seconds <= 0.004 for seconds in waits)


def test_a_reader_delays_the_commit_and_nothing_else(path: Path) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        holder.rollback()

    with kit.raw(path) as holder:
        ledger = SqliteLedger.open(str(path), patience=Patience(10, 0.004, wait))
        holder.execute("BEGIN")
        holder.execute("SELECT * FROM entries").fetchall()
        ledger.charge(charge())
    assert len(waits) == 1
    assert ledger.spent("default") == LOSS


def test_a_lock_that_never_goes_is_an_error_and_no_charge(path: Path) -> None:
    waits: list[float] = []
    ledger = SqliteLedger.open(str(path), patience=Patience(7, 0.004, waits.append))
    for begin in ("BEGIN IMMEDIATE", "BEGIN"):
        waits.clear()
        with kit.raw(path) as holder:
            holder.execute(begin)
            holder.execute("SELECT * FROM entries").fetchall()
            with pytest.raises(LedgerError, match="locked by another process"):
                ledger.charge(charge())
        assert len(waits) == 7
        assert ledger.spent("default") == Loss(0)


def never_overspent(make: type[SqliteLedger], path: Path) -> None:
    """A second charge arrives in the middle of the first, and only one fits."""
    impatient = Patience(2, 0.0, lambda _: None)
    second = make.open(str(path), patience=impatient)
    arrivals = iter(["q2"])

    def clock() -> datetime:
        for query_id in arrivals:
            with _Tolerated():
                second.charge(charge(query_id, limit=LOSS))
        return datetime(2025, 1, 1, tzinfo=UTC)

    first = make.open(str(path), patience=impatient)
    first._clock = clock
    with _Tolerated():
        first.charge(charge("q1", limit=LOSS))
    assert second.spent("default") == LOSS


class _Tolerated:
    """Being refused or locked out is a good outcome here; what was spent is the verdict."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, LedgerError | Refused)


def test_two_charges_at_once_never_overspend(path: Path) -> None:
    never_overspent(SqliteLedger, path)


class ChecksFirst(SqliteLedger):
    """Wrong: looks at the budget, and charges in another transaction."""

    def charge(self, charge: Charge) -> Spent:
        if not (self.spent(charge.budget) + charge.loss).fits(charge.limit):
            raise Refused(Reason.BUDGET_EXHAUSTED)
        self._clock()
        return super().charge(kit.charge(charge.query_id, limit=LIMIT))


def test_checking_before_the_transaction_is_caught(path: Path) -> None:
    with pytest.raises(AssertionError):
        never_overspent(ChecksFirst, path)


def test_threads_share_one_ledger(path: Path) -> None:
    ledger = SqliteLedger.open(str(path))
    granted: list[str] = []

    def spend(name: str) -> None:
        for n in range(10):
            with _Tolerated():
                ledger.charge(charge(f"{name}-{n}", limit=Loss(80, 1000)))
                granted.append(name)

    threads = [Thread(target=spend, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 80 // LOSS.amount
    assert ledger.spent("default").amount == len(granted) * LOSS.amount
    ledger.verify()


# --- records ---------------------------------------------------------------------------------

RATIOS = st.fractions(min_value=0, max_value=10**30)
EVENTS = st.builds(
    Event,
    st.lists(
        st.one_of(
            st.builds(
                NoiseEvent,
                st.builds(Noise, st.sampled_from(Mechanism), RATIOS, RATIOS),
                st.builds(
                    Sensitivity,
                    st.integers(1, 2**40),
                    st.integers(-(2**80), 0),
                    st.integers(0, 2**80),
                    st.sampled_from(Neighbours),
                ),
            ),
            st.builds(SelectionEvent, RATIOS),
        ),
        max_size=4,
    ).map(tuple),
)


@given(EVENTS)
@example(EVENT)
def test_events_come_back_exactly(event: Event) -> None:
    text = encode_event(event)
    assert decode_event(text) == event
    assert encode_event(decode_event(text)) == text


def test_an_unknown_event_is_never_guessed() -> None:
    for text in ('[{"part":"magic"}]', '[{"part":"selection"}]', "[7]"):
        with pytest.raises((ValueError, KeyError, TypeError)):
            decode_event(text)


OFFSETS = st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.decimals(),
    st.floats(),
    st.text(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=OFFSETS),
)
ROWS = st.lists(st.lists(KEYS, max_size=3).map(tuple), max_size=4).map(tuple)
PARTS = st.lists(st.lists(st.integers(), max_size=3).map(tuple), max_size=4).map(tuple)
ANSWERS = st.lists(st.builds(Noisy, ROWS, PARTS), max_size=3).map(tuple)


def exactly(value: Any) -> Any:
    """A value as text that no other value, of no other type, has."""
    match value:
        case Noisy():
            return exactly((value.keys, value.parts))
        case tuple():
            return tuple(map(exactly, value))
        case datetime():
            return (value.isoformat(), value.utcoffset())
        case _:
            return (type(value).__name__, repr(value))


def comes_back(
    answer: tuple[Noisy, ...],
    encode: Callable[[tuple[Noisy, ...]], Any] = encode_answer,
    decode: Callable[[Any], Any] = decode_answer,
) -> None:
    assert exactly(decode(encode(answer))) == exactly(answer)


@given(ANSWERS)
@example(ANSWER)
@example((Noisy(((-0.0, nan, Decimal("-0E+3"), Decimal("sNaN12"), "\ud800\0", True),), ((1,),)),))
def test_answers_come_back_exactly(answer: tuple[Noisy, ...]) -> None:
    comes_back(answer)


@pytest.mark.parametrize(
    "key", [Decimal(1), date(2025, 1, 1), nan, datetime(2025, 1, 1, tzinfo=UTC)]
)
def test_untyped_records_would_be_caught(key: Any) -> None:
    def encode(answer: tuple[Noisy, ...]) -> str:
        return json.dumps([[block.keys, block.parts] for block in answer], default=str)

    def decode(text: str) -> tuple[Noisy, ...]:
        return tuple(
            Noisy(tuple(map(tuple, keys)), tuple(map(tuple, parts)))
            for keys, parts in json.loads(text.replace("NaN", "null"))
        )

    comes_back((Noisy((("a",),), ((1,),)),), encode, decode)
    with pytest.raises(AssertionError):
        comes_back((Noisy(((key,),), ((1,),)),), encode, decode)


def test_other_keys_and_other_formats_are_refused() -> None:
    with pytest.raises(TypeError, match="Fraction"):
        encode_answer((Noisy(((Fraction(1),),), ((1,),)),))
    with pytest.raises(ValueError, match="format"):
        decode_answer(b"\x02" + encode_answer(ANSWER)[1:])


def test_nothing_is_left_open(path: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        pytest.skip("needs /proc")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    used(path)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
