"""claims: locks on queries that a process will pay for, so that identical ones wait for the
answer.

A claim is a lock on one byte of a file next to the ledger, at a place that is a hash of its text.
The system releases it when the process ends, for any reason. So no claim outlives its owner, and
none needs a cleanup. Claims do not decide on charges: if two processes hold one claim, both pay,
each within the ledger's limits.

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
"""Bytes of a hash: as many places as every system can lock in an empty file."""


def claims_path(ledger: str) -> str:
    """Return the path of the claims for a ledger.

    >>> claims_path("dpsql.ledger")
    'dpsql.ledger.claims'
    """
    return f"{ledger}.claims"


class Claims:
    """Claims of one process on one ledger: thread-safe.

    Threads of one process share its claims: they have to separate themselves.
    """

    def __init__(self, ledger: str) -> None:
        self._path, self._lock = claims_path(ledger), Lock()
        # One descriptor for all claims: closing any would release all locks of this process.
        self._file: finalize[[int], Claims] | None = None
        self._descriptor = -1

    @contextmanager
    def claimed(self, text: str) -> Iterator[bool]:
        """Claim a text until the exit; yield False if another process has the claim.

        Does not wait. Raises OSError if the file cannot be used.
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
        """Release all claims."""
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
