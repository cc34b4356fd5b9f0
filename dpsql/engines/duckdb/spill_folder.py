"""The owner's folder for spilled data: each worker has its own folder in it.

A worker holds a lock, which ends with its process for any reason. Unlocked folders are removed by
the next worker that starts, or when a worker's end is noticed. SECURITY.md S30.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from dpsql.engines.duckdb.files import CannotOpen

_PREFIX = "dpsql-spill-"
_OTHERS = 0o077


def claimed(folder: str) -> str:
    """Create an empty folder in `folder`, reserved for this process until it ends.

    Creates `folder` if it does not exist. Raises `CannotOpen` if others than the owner can access
    it, or if it cannot be locked.
    """
    own = os.path.join(folder, f"{_PREFIX}{os.urandom(8).hex()}")  # noqa: PTH118
    try:
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)  # noqa: PTH102
        with _locked(folder):
            _sweep(folder)
            os.mkdir(own, 0o700)  # noqa: PTH102
            # Never closed: the lock ends with the process.
            _lock(os.open(own, os.O_RDONLY))
    except OSError:
        raise CannotOpen("spill") from None
    return own


def emptied(folder: str) -> None:
    """Remove the folders of processes that have ended, as far as possible."""
    with suppress(OSError, CannotOpen), _locked(folder):
        _sweep(folder)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Lock the folder against other processes. Raises `CannotOpen` if other users have access."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        about = os.fstat(opened)
        if about.st_uid != os.geteuid() or about.st_mode & _OTHERS:
            raise CannotOpen("spill")
        _lock(opened)
        yield
    finally:
        _lock(opened, "LOCK_UN")  # a child that was forked meanwhile has the file open too
        os.close(opened)


def _sweep(folder: str) -> None:
    """Remove our folders that belong to no living process."""
    left = [name for name in os.listdir(folder) if name.startswith(_PREFIX)]  # noqa: PTH208
    for path in [os.path.join(folder, name) for name in left]:  # noqa: PTH118
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _lock(opened, "LOCK_EX", "LOCK_NB")
        except BlockingIOError:
            continue
        finally:
            os.close(opened)
        from shutil import rmtree  # noqa: PLC0415 - the child starts sooner without it

        rmtree(path, ignore_errors=True)


def _lock(opened: int, *flags: str) -> None:
    """Lock an open file, or do what these flags of `flock` say."""
    import fcntl  # noqa: PLC0415 - not on Windows, where nothing can be asked

    fcntl.flock(opened, sum(getattr(fcntl, flag) for flag in flags or ("LOCK_EX",)))
