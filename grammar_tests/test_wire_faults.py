"""What a client is told when its statement ends early: never a path, and whether it was charged."""

from __future__ import annotations

from typing import Any

import pytest

from dpsql.dialects.postgres.words import Piece
from dpsql.interfaces.pgwire.faults import fault_of
from dpsql.interfaces.pgwire.statement_runner import Runner
from dpsql.model.errors import (
    DpsqlError,
    LedgerError,
    MissingExtra,
    PolicyError,
    Unreachable,
    WrongVersion,
)
from dpsql.proxy import Proxy
from grammar_tests.session_kit import COUNT, COUNTRIES, Client

PATH = "/srv/secret/shop"
OWNERS: tuple[DpsqlError, ...] = (
    LedgerError(f"The ledger {PATH}.ledger is damaged. Restore it from a backup."),
    Unreachable(f"{PATH}.duckdb has changed."),
    PolicyError(f"{PATH}/dpsql.toml", 7, "It cannot be read.", f"Look at {PATH}."),
    MissingExtra(f"pip install {PATH}"),
    WrongVersion(f"{PATH}/duckdb 1.5.5 is installed."),
    DpsqlError(PATH),
)


@pytest.mark.parametrize("error", OWNERS, ids=lambda error: type(error).__name__)
def test_what_is_the_owners_crosses_no_wire(error: DpsqlError) -> None:
    fault = fault_of(error, Piece("SELECT 1", 0))
    assert PATH not in " ".join([str(fault), *fault.fields.values()])
    assert PATH in fault.log


@pytest.mark.full("opens servers or connects clients")
def test_a_damaged_ledger_is_told_to_the_owner_alone(
    proxy: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_arguments: Any, **_named: Any) -> None:
        raise OWNERS[0]

    for method in ("charge", "stamp", "recall", "spent", "history"):
        monkeypatch.setattr(proxy.ledger, method, damaged)
    statements = (
        "SELECT COUNT(*) AS n FROM orders WHERE quantity = 7",
        "EXPLAIN PRIVACY SELECT COUNT(*) AS n FROM orders WHERE quantity = 7",
        "SELECT * FROM dpsql_budget()",
        "SELECT * FROM dpsql_history()",
    )
    for statement in statements:
        client.query(statement)
        assert client.error["C"] == "58030"
        assert PATH not in " ".join(client.error.values())
        assert PATH in client.errors[-1][1]


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize(
    ("statements", "charged"),
    [
        ([f"EXPLAIN PRIVACY {COUNT}"], False),
        ([COUNTRIES], False),
        (["SHOW ALL"], False),
        (["COPY (SELECT code FROM countries) TO STDOUT"], False),
        (["SELECT COUNT(*) AS told_once FROM events"], True),
        (["SELECT COUNT(*) AS told_once FROM orders"] * 2, False),
        (["BEGIN", "DECLARE c CURSOR FOR SELECT COUNT(*) AS n FROM items", "FETCH c"], True),
        (["BEGIN", f"DECLARE c CURSOR FOR {COUNTRIES}", "FETCH c"], False),
    ],
)
def test_who_cancels_late_is_told_whether_it_was_charged(
    client: Client, statements: list[str], monkeypatch: pytest.MonkeyPatch, *, charged: bool
) -> None:
    *before, last = statements
    for statement in before:
        client.query(statement)
    run = Runner.run

    def late(runner: Runner, command: Any, values: Any, stop: Any, **named: Any) -> Any:
        """The client gives up before the rows are sent."""
        result = run(runner, command, values, stop, **named)
        stop.requested = True
        return result

    monkeypatch.setattr(Runner, "run", late)
    client.query(last)
    assert client.error["C"] == "57014"
    told = "its charge stays" if charged else "nothing was charged"
    assert client.error["M"] == f"The statement was cancelled; {told}."
