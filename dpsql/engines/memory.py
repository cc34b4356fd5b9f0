"""A bound on the server's own memory: a mistake ends one statement, and not the machine.

The workers, which run the statements, have bounds of their own.

SECURITY.md S20.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpsql.model.errors import Unreachable
from dpsql.model.resources import bytes_of

_STATUS = Path("/proc/self/status")


def process_limits() -> Any:
    """The system's limits on processes. Raises `Unreachable` where it has none, as Windows."""
    if find_spec("resource") is None:
        raise Unreachable(
            "dpsql runs on Linux and macOS: this system cannot bound what a query takes of it; use "
            "WSL or a container, or ask a server of dpsql over the wire."
        )
    return import_module("resource")


def bound_memory(amount: str) -> None:
    """Let this process have so much more data than it now has; then it meets MemoryError.

    Where the system does not say what it has there is no bound.
    """
    taken = re.search(r"^VmData:\s+(\d+) kB$", _status(), re.MULTILINE)
    if taken is None:
        return
    resource = process_limits()
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = (int(taken[1]) << 10) + bytes_of(amount)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    # The soft limit alone: workers are born with it, and set their own.
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _status() -> str:
    return _STATUS.read_text("utf-8") if _STATUS.exists() else ""
