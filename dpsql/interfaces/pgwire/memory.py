"""A bound on the server's own memory: a mistake ends one statement, and not the machine.

The workers, which run the statements, have bounds of their own.

SECURITY.md S20.
"""

from __future__ import annotations

import re
import resource
from pathlib import Path

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_STATUS = Path("/proc/self/status")


def bound_memory(amount: str) -> None:
    """Let this process have so much more data than it now has; then it meets MemoryError.

    Where the system does not say what it has there is no bound.
    """
    held = re.search(r"^VmData:\s+(\d+) kB$", _status(), re.MULTILINE)
    if held is None:
        return
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = (int(held[1]) << 10) + bytes_of(amount)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    # The soft limit alone: workers are born with it, and set their own.
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _status() -> str:
    return _STATUS.read_text("utf-8") if _STATUS.exists() else ""


def bytes_of(amount: str) -> int:
    """An amount of memory as policies write it.

    >>> bytes_of("1.5KiB"), bytes_of("2 GB")
    (1536, 2000000000)
    """
    found = re.fullmatch(r"([\d.]+)\s*([kmgt]?)(i?)b", amount.lower())
    assert found is not None
    number, unit, binary = found.groups()
    return int(float(number) * (_BINARY if binary else _UNITS)[unit])
