"""Whole ledgers in another place: moved, or kept as a backup. Every entry keeps its hash.

Nobody may charge two copies of one ledger: each would allow the whole budget. So the old place is
closed before the new one exists, and a backup has no mark. SECURITY.md S33.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpsql.ledgers.book import Book
from dpsql.ledgers.chain import START, State
from dpsql.ledgers.codec import canonical
from dpsql.ledgers.ledger_store import LedgerSession, Store
from dpsql.ledgers.ledger_transactions import utc_now
from dpsql.ledgers.mark import mark_of
from dpsql.ledgers.sqlite import StoredLedger
from dpsql.model.errors import LedgerError


def move_ledger(ledger: StoredLedger, to: Store) -> State:
    """Move a ledger into an empty place and return its state; nothing is charged in the old one.

    If it fails in the middle, both places refuse to charge: accept the old one. Raises LedgerError.
    """
    return _transfer(ledger, to, moves=True)


def back_up(ledger: StoredLedger, to: Store) -> State:
    """Copy a ledger into an empty place, which opens only once the owner accepts it."""
    return _transfer(ledger, to, moves=False)


def _transfer(ledger: StoredLedger, to: Store, *, moves: bool) -> State:
    copied, ledger_id = list[State](), ledger.ledger_id()
    with to.failing_closed():
        to.create_place(ledger_id)
        with to.connection() as opened:

            def fill() -> None:
                copied.append(_copy(ledger, to, opened, moves=moves))

            to.prepare_schema(opened, fill, ledger_id=ledger_id)
            if not copied:
                raise LedgerError(f"The place {to.name} has a ledger already. Name another one.")
            if moves:
                with to.marking(opened):
                    to.write_mark(mark_of(copied[0], to.identity(opened)))
    return copied[0]


def _copy(ledger: StoredLedger, to: Store, opened: LedgerSession, *, moves: bool) -> State:
    """Copy all rows under the lock of the old place, verify them, and close that place."""
    with ledger.whole(close=to.name if moves else None) as (source, book):
        for row, recorded in source.rows(book.opened, 0):
            to.insert_row(opened, row, recorded)
        for query_id in source.answered(book.opened):
            payload = book.answer(query_id)
            if payload is not None:
                to.insert_answer(opened, query_id, payload)
        copy = Book(to, opened, utc_now)
        copy.catch_up(START)
        if copy.state != book.state:
            raise LedgerError(f"The copy in {to.name} differs from the ledger. Try again.")
        to.write_head(opened, copy.state)
        return copy.state


def entry_lines(ledger: StoredLedger) -> Iterator[str]:
    """Yield every entry as one line of JSON, in order, with its hash; answers are left out."""
    with ledger.whole() as (source, book):
        for row, recorded in source.rows(book.opened, 0):
            line: dict[str, Any] = {k: v for k, v in row._asdict().items() if v is not None}
            yield canonical({**line, "hash": recorded.hex()})
