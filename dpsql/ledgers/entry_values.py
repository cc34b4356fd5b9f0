"""Entries of a ledger as the values that people read: charges, shared answers, acts."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal

from dpsql.ledgers import CUBES, Entry, OwnerAct, SharedAnswer, codec
from dpsql.ledgers.book import EPOCH
from dpsql.ledgers.chain import EntryKind, EntryRow, limit_in, loss_in
from dpsql.ledgers.debits import query_of

OWNER_ACTS = {
    EntryKind.LIMIT: "limit",
    EntryKind.STOPPED: "stop",
    EntryKind.RESUMED: "resume",
    EntryKind.REFRESH: "refresh",
    EntryKind.FACTS: "facts",
    EntryKind.ACCEPTED: "accept",
    EntryKind.WINDOW: "clock",
}


def read_act(row: EntryRow) -> OwnerAct:
    """Return the act of the owner in an entry."""
    kind = EntryKind(row.kind)
    about = row.analyst or row.budget or ""
    if kind is EntryKind.WINDOW:
        about = f"{row.budget}: {row.question}"
    if kind is EntryKind.REFRESH and row.detail is not None:
        about = ", ".join(codec.decode_versions(row.detail)[1])
    reasoned = kind in {
        EntryKind.LIMIT,
        EntryKind.STOPPED,
        EntryKind.RESUMED,
        EntryKind.WINDOW,
    }
    reason = str(row.detail or "") if reasoned else ""
    most = None if row.amount is None else limit_in(row).most
    what = OWNER_ACTS[kind]
    if kind is EntryKind.LIMIT and row.analyst is not None:
        about = f"{row.question or row.budget} → {row.analyst}" if most else row.analyst
        what = "revoke" if most is None else "delegate"
    elif kind is EntryKind.LIMIT and most is None:
        what = "lift"
    elif kind is EntryKind.ACCEPTED and row.analyst is not None:
        what, about = "login", f"{row.analyst}: {row.detail}"
    elif kind is EntryKind.ACCEPTED and row.event is not None:
        what, reason = "roles", row.event or "no roles: each analyst may use all"
    elif kind is EntryKind.ACCEPTED and row.question is not None:
        said = json.loads(row.question)
        what, about = "guarantee", "; ".join(f"{key} = {text}" for key, text in said.items())
        reason = str(row.detail or "")
    return OwnerAct(EPOCH + timedelta(microseconds=row.time), what, about, reason, most)


def read_charge(row: EntryRow, *, remembered: bool) -> Entry:
    """Return the charge in an entry."""
    assert row.amount is not None
    assert row.delta is not None
    return Entry(
        query_id=str(row.query_id),
        time=EPOCH + timedelta(microseconds=row.time),
        analyst=str(row.analyst),
        budget=str(row.budget),
        accountant=str(row.accountant),
        epsilon=Decimal(str(row.epsilon)),
        loss=loss_in(row),
        event=codec.decode_event(str(row.event)),
        question=str(row.question),
        remembered=remembered,
        policy_version=str(row.policy_version),
        data_version=row.data_version,
        inquiry=codec.decode_inquiry(row.detail),
        periods=codec.decode_periods(row.detail)[1],
    )


def read_share(row: EntryRow) -> SharedAnswer:
    """Return the shared answer in an entry."""
    return SharedAnswer(
        query_id=query_of(row),
        time=EPOCH + timedelta(microseconds=row.time),
        analyst=str(row.analyst),
        budget=str(row.budget),
        accountant=str(row.accountant),
        epsilon=Decimal(str(row.epsilon)),
        loss=loss_in(row),
        before=tuple(sorted(codec.decode_holders(str(row.event))[0])),
        cube=str(row.question).removeprefix(CUBES) if str(row.question).startswith(CUBES) else "",
    )
