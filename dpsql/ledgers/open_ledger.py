"""The ledger that a policy names: a file, or a server that several hosts share."""

from __future__ import annotations

import os
from importlib.util import find_spec

from dpsql.ledgers import LedgerPlace
from dpsql.ledgers.ledger_store import Store
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger, accept_store
from dpsql.ledgers.store import Patience, SqliteStore
from dpsql.model.errors import MissingExtra


def store_at(place: LedgerPlace) -> Store:
    """Return the store at a place. Raises `MissingExtra`."""
    if not place.url:
        return SqliteStore(os.path.realpath(place.path), Patience())
    if find_spec("psycopg") is None:
        raise MissingExtra("A ledger on a server needs psycopg: pip install 'dpsql[postgres]'.")
    from dpsql.ledgers.postgres_store import PostgresStore  # noqa: PLC0415 - an extra

    return PostgresStore(place.url, os.path.realpath(place.path))


def open_ledger(place: LedgerPlace) -> StoredLedger:
    """Open the ledger at a place, created if there is none, and verify it.

    Raises LedgerError or `MissingExtra`.
    """
    return (StoredLedger if place.url else SqliteLedger).over(store_at(place))


def accept_ledger(place: LedgerPlace) -> None:
    """Record that the owner trusts the ledger at a place as it is now; see `accept_store`."""
    accept_store(store_at(place))
