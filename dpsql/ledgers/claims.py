"""claims: what a process is about to pay for, so that others that ask the same wait to be told.

A claim is a lock on one byte of a file beside the ledger, at a place that its text is hashed to.
The system lets it go when the process ends, however it ends: no claim outlives its owner, and none
has to be cleaned up. It decides about nothing that is spent: where two have the same claim both
pay, each within the ledger's limits.

SECURITY.md S29.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Lock
from weakref import finalize

_PLACES = 7
"""Bytes of a hash: as many places as any system lets be locked in a file that is empty."""


def claims_path(ledger: str) -> str:
    """Where the claims of the ledger at this path are.

    >>> claims_path("dpsql.ledger")
    'dpsql.ledger.claims'
    """
    return f"{ledger}.claims"


class Claims:
    """The claims of one ledger's processes: thread-safe.

    Threads of one process have the same claims: they have to keep apart by themselves.
    """

    def __init__(self, ledger: str) -> None:
        self._path, self._lock = claims_path(ledger), Lock()
        # One descriptor for all claims: closing any would let go of all that this process has.
        self._file: finalize[[int], Claims] | None = None
        self._descriptor = -1

    @contextmanager
    def claimed(self, text: str) -> Iterator[bool]:
        """Whether this process has the claim until the end; if not, another process has it.

        It does not wait. Raises OSError where the file cannot be used.
        """
        import fcntl  # noqa: PLC0415 - not on Windows, where nothing can be asked

        descriptor = self._opened()
        place = int.from_bytes(sha256(text.encode()).digest()[:_PLACES])
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EAGAIN}:
                raise
            yield False
            return
        try:
            yield True
        finally:
            with suppress(OSError):  # closed meanwhile
                fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)

    def close(self) -> None:
        """Let go of all claims."""
        with self._lock:
            if self._file is not None:
                self._file()
            self._file = None

    def _opened(self) -> int:
        with self._lock:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
                self._file = finalize(self, os.close, self._descriptor)
            return self._descriptor
