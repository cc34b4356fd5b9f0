"""The ledger that a policy names: a file, or a server that several hosts share."""

from __future__ import annotations

import os
from importlib.util import find_spec

from dpsql.ledgers import LedgerPlace
from dpsql.ledgers.ledger_store import Store
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger, accept_store
from dpsql.ledgers.store import Patience, SqliteStore
from dpsql.model.dataclass import replace
from dpsql.model.errors import LedgerError, MissingExtra


def store_at(place: LedgerPlace) -> Store:
    """Return the store at a place. Raises `MissingExtra`."""
    if not place.url:
        return SqliteStore(os.path.realpath(place.path), Patience())
    if find_spec("psycopg") is None:
        raise MissingExtra("A ledger on a server needs psycopg: pip install 'dpsql[postgres]'.")
    from dpsql.ledgers.postgres_store import PostgresStore  # noqa: PLC0415 - an extra

    return PostgresStore(place.url, os.path.realpath(place.path))


def open_ledger(place: LedgerPlace) -> StoredLedger:
    """Open the ledger at a place, created if there is none and the place has no id, and verify it.

    Raises LedgerError or `MissingExtra`.
    """
    if not place.id:
        return (StoredLedger if place.url else SqliteLedger).over(store_at(place))
    ledger = open_ledger(replace(place, id="")) if place.is_begun else None
    if ledger is not None and ledger.ledger_id() == place.id:
        return ledger
    if ledger is not None:
        ledger.close()
    raise LedgerError(
        f"The ledger {place.path} is not {place.id}, which [ledger] id names. Mount its disk, or "
        "restore a backup. To start from nothing, lower the budgets by all that was spent, then "
        "remove the id."
    )


def accept_ledger(place: LedgerPlace) -> None:
    """Record that the owner trusts the ledger at a place as it is now; see `accept_store`."""
    accept_store(store_at(place))
