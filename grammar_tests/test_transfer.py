"""Moving, backing up and exporting a ledger: sums stay, and one place alone may be charged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpsql.interfaces.cli import main
from dpsql.ledgers import LedgerPlace
from dpsql.ledgers.open_ledger import accept_ledger, open_ledger, store_at
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.ledgers.store import SqliteStore
from dpsql.ledgers.transfer import back_up, move_ledger
from dpsql.model.errors import LedgerError, PolicyError
from dpsql.model.vocabulary import Loss
from dpsql.policy.load import load
from grammar_tests import postgres_kit
from grammar_tests.ledger_kit import LIMIT, LOSS, ask, charge, mark_file, recall
from grammar_tests.proxy_kit import policy

FILE, SERVER = "file", "server"
WAYS = [
    (FILE, FILE),
    pytest.param((FILE, SERVER), marks=pytest.mark.full("a database server is started")),
    pytest.param((SERVER, FILE), marks=pytest.mark.full("a database server is started")),
]


@pytest.fixture(params=WAYS, ids=" to ".join)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[LedgerPlace]]:
    """An old place and an empty new one; a server's mark is beside the old file."""
    path = str(tmp_path / "dpsql.ledger")
    if SERVER not in request.param:
        yield [LedgerPlace(path), LedgerPlace(str(tmp_path / "new.ledger"))]
        return
    with postgres_kit.running(fsync="on") as server:
        url = f"postgresql:///{postgres_kit.DATABASE}?host={server.folder}&user=dpsql"
        kinds = {FILE: LedgerPlace(path), SERVER: LedgerPlace(path, url)}
        if request.param == (SERVER, FILE):
            kinds[FILE] = LedgerPlace(str(tmp_path / "new.ledger"))
        yield [kinds[kind] for kind in request.param]


def moved(places: list[LedgerPlace]) -> None:
    old, new = places
    with closing(open_ledger(old)) as ledger:
        ask(ledger, "q1")
        ask(ledger, "q2", budget="other", question="cd" * 32)
        move_ledger(ledger, store_at(new))


def test_a_moved_ledger_keeps_every_entry_and_answer(places: list[LedgerPlace]) -> None:
    moved(places)
    with closing(open_ledger(places[1])) as ledger:
        ledger.verify()
        assert (ledger.spent("default"), ledger.spent("other")) == (LOSS, LOSS)
        assert recall(ledger) is not None
        ledger.charge(charge("q3"))
        assert [entry.query_id for entry in ledger.history()] == ["q3", "q2", "q1"]


def test_the_old_place_charges_nothing_until_the_owner_accepts_it(
    places: list[LedgerPlace],
) -> None:
    moved(places)
    old = places[0]
    with pytest.raises(LedgerError, match=r"moved to|copy"):
        open_ledger(old)
    accept_ledger(old)
    with closing(open_ledger(old)) as again:
        assert again.charge(charge("q3")).after == LOSS + LOSS


def test_a_move_closes_a_place_whose_mark_is_behind(tmp_path: Path) -> None:
    """As after a crash between a commit and its mark, or while a server moves the mark."""
    old, new = LedgerPlace(str(tmp_path / "a.ledger")), LedgerPlace(str(tmp_path / "b.ledger"))
    with closing(open_ledger(old)) as ledger:
        ledger.charge(charge("q1"))
        behind = mark_file(tmp_path / "a.ledger").read_bytes()
        ledger.charge(charge("q2"))
        mark_file(tmp_path / "a.ledger").write_bytes(behind)
        move_ledger(ledger, store_at(new))
        with pytest.raises(LedgerError, match="moved to"):
            ledger.charge(charge("q3"))
    with closing(open_ledger(new)) as moved_to:
        assert moved_to.charge(charge("q3")).before == LOSS + LOSS


def test_wrong_twin_a_move_that_leaves_the_old_place_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "retire", lambda *_: None)
    places = [LedgerPlace(str(tmp_path / "a.ledger")), LedgerPlace(str(tmp_path / "b.ledger"))]
    moved(places)
    for place in places:
        open_ledger(place).charge(charge("q3", loss=Loss(60, 5)))
    spent = sum(open_ledger(place).spent("default").amount for place in places)
    assert spent - LOSS.amount > LIMIT.amount


def test_a_place_with_a_ledger_is_never_overwritten(tmp_path: Path) -> None:
    used, other = str(tmp_path / "a.ledger"), str(tmp_path / "b.ledger")
    ledger = SqliteLedger.open(used)
    SqliteLedger.open(other)
    with pytest.raises(LedgerError, match="has a ledger already"):
        move_ledger(ledger, store_at(LedgerPlace(other)))
    assert ledger.charge(charge("q1")).after == LOSS


def test_a_backup_opens_once_it_is_accepted_and_the_ledger_goes_on(tmp_path: Path) -> None:
    ledger = SqliteLedger.open(str(tmp_path / "dpsql.ledger"))
    ask(ledger, "q1")
    copy = LedgerPlace(str(tmp_path / "backup.ledger"))
    back_up(ledger, store_at(copy))
    ledger.charge(charge("q2"))
    with pytest.raises(LedgerError, match="lost its mark"):
        open_ledger(copy)
    accept_ledger(copy)
    assert open_ledger(copy).spent("default") == LOSS


# --- the command line ------------------------------------------------------------------------


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["ledger", *arguments, "--policy", str(path)])


@pytest.fixture
def used(tmp_path: Path) -> Path:
    path = policy(tmp_path)
    with closing(open_ledger(load(str(path)).ledger)) as ledger:
        ask(ledger, "q1")
    return path


def test_verify_and_export_tell_what_is_recorded(used: Path) -> None:
    shown = run(used, "verify").output
    assert "whole up to entry 3" in shown
    assert "default: " in shown
    own_id = re.search("Its id is ([0-9a-f]{32})", shown)
    assert own_id
    text = used.read_text()
    used.write_text(text.replace("[ledger]", f'[ledger]\nid = "{own_id[1]}"'))
    assert run(used, "verify").output == shown
    entries = [json.loads(line) for line in run(used, "export").output.splitlines()]
    assert [entry["kind"] for entry in entries] == ["opened", "limit", "charge", "answer"]
    assert entries[-1]["hash"] in shown


def test_copy_and_backup_name_what_to_do_next(used: Path, tmp_path: Path) -> None:
    assert "whole up to entry 3" in run(used, "backup", str(tmp_path / "backup.ledger")).output
    new = tmp_path / "new.ledger"
    told = run(used, "copy", str(new))
    assert f'[ledger] path = "{new}"' in told.output
    assert "was moved to" in run(used, "verify").output
    text = used.read_text()
    used.write_text(text.replace('path = "shop.ledger"', f'path = "{new}"'))
    assert "whole up to entry 3" in run(used, "verify").output


@pytest.mark.parametrize(
    "url",
    ["postgresql://ana:secret@db/ledger", "mysql://db/ledger", "postgresql://db/l?password=x"],
)
def test_another_address_or_a_password_stands_in_no_policy(tmp_path: Path, url: str) -> None:
    path = policy(tmp_path, ('path = "shop.ledger"', f'url = "{url}"'))
    with pytest.raises(PolicyError) as refused:
        load(str(path))
    assert "secret" not in str(refused.value)
