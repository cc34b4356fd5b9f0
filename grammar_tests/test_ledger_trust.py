"""Edited, rolled back, cloned: what a ledger must notice, and what its checks are worth alone."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from dpsql.ledgers import LedgerPlace, mark, store
from dpsql.ledgers import book as book_module
from dpsql.ledgers import chain as chain_module
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.ledgers.sqlite import SqliteLedger, accept
from dpsql.model.errors import LedgerError
from dpsql.model.vocabulary import (
    Loss,
    Noisy,
)
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import LOSS, ask, charge, recall, used


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


def test_only_the_ledger_of_the_policy_is_opened(path: Path) -> None:
    """After a lost disk the empty folder is refused, and nothing begins there."""
    kit.ask(SqliteLedger.open(str(path)), "q1")
    only = SqliteLedger.open(str(path)).ledger_id()
    place = LedgerPlace(str(path), id=only)
    assert open_ledger(place).spent("default") == LOSS
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(LedgerError, match="which \\[ledger\\] id names"):
        open_ledger(place)
    assert not list(path.parent.iterdir())
    path.touch()
    with pytest.raises(LedgerError, match="which"):
        open_ledger(place)


def test_wrong_twin_a_place_without_an_id_begins_at_zero(path: Path) -> None:
    kit.ask(SqliteLedger.open(str(path)), "q1")
    for file in path.parent.iterdir():
        file.unlink()
    assert open_ledger(LedgerPlace(str(path))).spent("default") == Loss(0)


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
        path, "UPDATE entries SET amount = 0 WHERE sequence = 2"
    ),
    "a column nobody sums was edited": lambda path: kit.edit(
        path, "UPDATE entries SET analyst = 'bob' WHERE sequence = 2"
    ),
    "an entry was deleted": lambda path: kit.edit(path, "DELETE FROM entries WHERE sequence = 2"),
    "entries were swapped": swap,
}


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
    ask(ledger, "q1")
    ledger.charge(charge("q2", question="cd" * 32))
    ledger.remember("q2", (Noisy(((),), ((1,),)),))
    kit.edit(path, f"UPDATE answers SET payload = {edit} WHERE query_id = 'q1'")
    with pytest.raises(LedgerError, match="answer"):
        recall(ledger)
    with pytest.raises(LedgerError, match="answer"):
        ledger.verify()


def test_an_edited_entry_is_never_recalled(path: Path) -> None:
    ledger = SqliteLedger.open(str(path))
    ask(ledger, "q1")
    kit.edit(path, "UPDATE entries SET epsilon = '5' WHERE sequence = 2")
    with pytest.raises(LedgerError, match="entry 2"):
        recall(ledger, epsilon=Decimal(4))
    with pytest.raises(LedgerError, match="entry 2"):
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
    with pytest.raises(LedgerError, match="entry 2"):
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


@pytest.mark.parametrize("step", ["_write_place", "_replace_file"])
def test_the_mark_that_cannot_be_written_stops_the_answer(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    ledger = used(path)
    if step == "_replace_file":  # as after an upgrade: the file has one place
        place = kit.mark_file(path).read_bytes()[: mark._PLACE]
        kit.mark_file(path).write_bytes(place.partition(b"\n")[0])
    monkeypatch.setattr(mark, step, full_disk)
    with pytest.raises(LedgerError, match="No space"):
        ledger.charge(charge("q3"))
    assert ledger.spent("default") == Loss(9, 15)


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "full")


def test_a_torn_mark_is_the_mark_before(path: Path) -> None:
    """Every length of what a crash may leave of the last write, in either place."""
    old, before = mark.Mark("id", 0, "", ""), b""
    for sequence in range(4):
        new = mark.Mark("id", sequence, f"{sequence:064}", "1:2")
        mark.write_mark(str(path), new)
        after = kit.mark_file(path).read_bytes()
        if sequence:
            start = 0 if sequence % 2 else mark._PLACE
            written = after[start : start + mark._PLACE]
            changes = [n for n in range(mark._PLACE) if before[start + n] != written[n]]
            for length in (changes[0] + 1, changes[len(changes) // 2], changes[-1]):
                torn = before[:start] + written[:length] + before[start + length :]
                kit.mark_file(path).write_bytes(torn)
                assert mark.read_mark(str(path)) == old
        kit.mark_file(path).write_bytes(after)
        before, old = after, new


def test_wrong_twin_a_mark_without_a_digest_believes_a_torn_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark, "_digest", lambda _: b"")
    with pytest.raises(AssertionError):
        test_a_torn_mark_is_the_mark_before(path)


def test_a_mark_that_is_read_while_it_is_written_is_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (mark.Mark("id", sequence, "00", "1:2") for sequence in (4, 5))
    readings = [(None, old), (new, old)]
    monkeypatch.setattr(mark, "_read_places", lambda _: readings.pop(0))
    assert mark.read_mark(str(path)) == new


def test_a_mark_that_goes_back_leaves_nothing_of_the_later_one(path: Path) -> None:
    """The owner accepted an older file, or another one: both places are of it."""
    for sequence, identity in ((7, "1:2"), (8, "1:2"), (3, "1:2"), (3, "5:6")):
        new = mark.Mark("id", sequence, "00", identity)
        mark.write_mark(str(path), new)
        assert mark.read_mark(str(path)) == new
    both = kit.mark_file(path).read_bytes()
    assert both[: mark._PLACE] == both[mark._PLACE :]


def test_the_mark_of_an_earlier_version_is_read_and_replaced(path: Path) -> None:
    ledger = used(path)
    text = kit.mark_file(path).read_bytes().partition(b"\n")[0] + b"\n"
    kit.mark_file(path).write_bytes(text)
    ledger.charge(charge("q3"))
    assert len(kit.mark_file(path).read_bytes()) == 2 * mark._PLACE
    SqliteLedger.open(str(path)).verify()


# --- damaged bytes ---------------------------------------------------------------------------


def use_everything(path: Path) -> None:
    """Read and write all that a ledger has; a reader of a damaged one stops early."""
    ledger = SqliteLedger.open(str(path))
    ledger.spent("default")
    recall(ledger)
    ledger.verify()
    for read in (ledger.history, ledger.shares, ledger.acts, ledger.budgets, ledger.confirmed):
        read()
    ask(ledger, "q3")


def outcomes(path: Path, count: int) -> set[str]:
    """What happens to a ledger in which one byte at a time has another value.

    The bytes are a trigger's name, of which SQLite's message is no UTF-8, and random ones.
    """
    used(path)
    whole, mark, found = path.read_bytes(), kit.mark_file(path).read_bytes(), set[str]()
    dice = random.Random(29)  # noqa: S311 - no noise is drawn
    places = [at for at, byte in enumerate(whole) if byte]
    damages = [(dice.choice(places), dice.choice((0xFF, 9, 18, 65))) for _ in range(count)]
    for at, value in [(whole.index(b"entries_never_change"), 0xFF), *damages]:
        for step in (use_everything, lambda path: accept(str(path))):
            path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            kit.mark_file(path).write_bytes(mark)
            try:
                step(path)
                found.add("unharmed")
            except LedgerError:
                found.add("a sentence")
            except Exception as error:  # noqa: BLE001 - whatever it is
                found.add(type(error).__name__)
    return found


@pytest.mark.full("measures neighbours or further data sets")
def test_a_damaged_byte_gives_a_sentence(path: Path) -> None:
    assert outcomes(path, 300) == {"a sentence", "unharmed"}


def test_readers_that_trust_their_bytes_would_be_seen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "UNREADABLE", ())
    assert "UnicodeDecodeError" in outcomes(path, 0)
