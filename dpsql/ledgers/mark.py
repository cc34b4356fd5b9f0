"""The high-water mark: a small file next to the ledger that records its furthest known entry.

The ledger may be ahead of its mark, after a crash between the two writes. It is never behind it,
never different at the marked entry, and never in another file than the marked one.

The file has two places, each with a mark and its digest. A newer mark is written over the older of
the two, which takes one write to disk. If that write is torn, the other place has the mark before.

Rollback and copies are found: SECURITY.md S16.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter

from dpsql.ledgers.chain import State
from dpsql.ledgers.codec import canonical
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import LedgerError

ACCEPT = (
    "Find out why. Spending that is lost from the file is real all the same: lower the budgets by "
    "it, then run `dpsql budget --accept-ledger` and `dpsql budget confirm --reason WHY`."
)


MOVED = "moved to "
"""Prefix of the identity in the mark of a ledger that was moved to another place."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The ledger's id, its last known entry, that entry's hash (hex), and the identity of its
    file.

    `identity` is "device:inode". Both count: a copied volume can repeat inode numbers. If device
    numbers change at every mount, the owner accepts the ledger after a reboot.
    """

    ledger: str
    sequence: int
    hash: str
    identity: str


def mark_path(ledger: str) -> str:
    """Return the path of the mark for a ledger.

    >>> mark_path("dpsql.ledger")
    'dpsql.ledger.mark'
    """
    return f"{ledger}.mark"


def identity_of(ledger: str) -> str:
    """Return device and inode of a file, which differ for a copy or a restored backup."""
    status = os.stat(ledger)  # noqa: PTH116
    return f"{status.st_dev}:{status.st_ino}"


def mark_of(state: State, identity: str) -> Mark:
    """Return the mark of a ledger with this identity when it ends in this state."""
    return Mark(state.ledger, state.sequence, state.hash.hex(), identity)


def read_mark(ledger: str) -> Mark | None:
    """Return the mark of the ledger at this path; None if there is none.

    Raises LedgerError if the file is not a mark, OSError if it cannot be read.
    """
    marks = _read_places(mark_path(ledger))
    if None in marks:  # another process may be writing there: its mark must not be missed
        marks = _read_places(mark_path(ledger))
    newest = max(filter(None, marks), key=attrgetter("sequence"), default=None)
    if marks and newest is None:
        raise LedgerError(f"The ledger's mark {mark_path(ledger)} was damaged. {ACCEPT}")
    return newest


_PLACE = 4096
"""Bytes of one place: no disk writes less than this, and a torn write harms no other place."""


def _read_places(path: str) -> tuple[Mark | None, ...]:
    """Return the mark in each place, None where it is damaged; () without a file.

    A file of version 0.1.0 is one short line without a digest.
    """
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            read = file.read(2 * _PLACE + 1)
    except FileNotFoundError:
        return ()
    places = (read[:_PLACE], read[_PLACE:]) if len(read) == 2 * _PLACE else (read,)
    return tuple(_mark(place, signed=len(places) > 1) for place in places)


@lru_cache(8)
def _mark(place: bytes, *, signed: bool) -> Mark | None:
    text, _, digest = place.rstrip().partition(b"\n")
    try:
        match json.loads(text) if digest == (_digest(text) if signed else b"") else None:
            case {
                "ledger": str(ledger),
                "sequence": int(at),
                "hash": str(hash_of),
                "identity": str(identity),
            }:
                return Mark(ledger, at, hash_of, identity)
    except ValueError:
        pass
    return None


def _digest(text: bytes) -> bytes:
    return sha256(text).hexdigest().encode()


def write_mark(ledger: str, mark: Mark) -> None:
    """Replace the mark atomically and durably; only under the ledger's write lock.

    A later mark of the same file is written in place. For any other, both places are new.
    Raises OSError.
    """
    path = mark_path(ledger)
    text = canonical(asdict(mark)).encode("ascii")
    place = b"\n".join((text, _digest(text))).ljust(_PLACE)
    before = _read_places(path)
    newest = max(filter(None, before), key=attrgetter("sequence"), default=None)
    same = newest and (newest.ledger, newest.identity) == (mark.ledger, mark.identity)
    if len(place) > _PLACE:
        raise OSError("a mark is longer than its place")
    if newest and same and len(before) > 1 and newest.sequence < mark.sequence:
        _write_place(path, int(before[1] != newest == before[0]), place)
    else:
        _replace_file(path, place * 2)


def _write_place(path: str, number: int, place: bytes) -> None:
    """Write one place of an existing file to disk: its size and its name stay."""
    with open(path, "rb+", buffering=0) as file:  # noqa: PTH123
        file.seek(number * _PLACE)
        file.write(place)
        getattr(os, "fdatasync", os.fsync)(file.fileno())


def _replace_file(path: str, text: bytes) -> None:
    """Replace a file. The next writer overwrites what a crash left of the unfinished one."""
    unfinished = f"{path}.new"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.replace(unfinished, path)  # noqa: PTH105
    sync_folder(path)


def sync_folder(path: str) -> None:
    """Make a new name in the folder of `path` durable, if the system can."""
    if os.name == "nt":
        return
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # noqa: PTH120
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def check_mark(
    mark: Mark | None, state: State, marked: str | None, ledger: str, identity: str
) -> None:
    """Raise LedgerError unless the ledger with this name and identity is the marked one, possibly
    with more entries.

    `state` is the ledger's own; `marked` is its hash (hex) at the marked entry, or None.
    """
    what = _difference(mark, state, marked, identity)
    if what is not None:
        raise LedgerError(f"The ledger {ledger} {what} {ACCEPT}")


def _difference(mark: Mark | None, state: State, marked: str | None, identity: str) -> str | None:
    if mark is None:
        # Nothing was charged before the first mark was written: only `opened` is there.
        return (
            None
            if state.sequence == 0
            else "has lost its mark, or this host is new: it may be an old copy."
        )
    if mark.ledger != state.ledger:
        return "is another ledger than the one its mark belongs to."
    if mark.identity.startswith(MOVED):
        return f"was moved to {mark.identity.removeprefix(MOVED)}. Name that one in the policy."
    if mark.identity != identity:
        return "is a copy, or a restored backup, of the file its mark belongs to."
    if mark.sequence > state.sequence:
        return (
            f"ends at entry {state.sequence}, but entry {mark.sequence} was there before: it was "
            "rolled back."
        )
    if mark.hash != marked:
        return f"was rewritten: entry {mark.sequence} is not the one that was there before."
    return None
