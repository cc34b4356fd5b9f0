"""A limit on the server's own memory: a mistake ends one statement, not the machine.

Workers, which run the statements, have limits of their own.

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
    """Return the system's module for limits. Raises `Unreachable` on systems without, as
    Windows.
    """
    if find_spec("resource") is None:
        raise Unreachable(
            "dpsql runs on Linux and macOS: this system cannot bound what a query takes of it; use "
            "WSL or a container, or ask a server of dpsql over the wire."
        )
    return import_module("resource")


def bound_memory(*amounts: str) -> None:
    """Limit this process to its present data and these `amounts` more; beyond, it gets MemoryError.

    Sets no limit if the system does not report the present data.
    """
    status = _STATUS.read_text("utf-8") if _STATUS.exists() else ""
    taken = re.search(r"^VmData:\s+(\d+) kB$", status, re.MULTILINE)
    if taken is None:
        return
    resource = process_limits()
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = (int(taken[1]) << 10) + sum(map(bytes_of, amounts))
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    # The soft limit alone: workers inherit it and set their own.
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
