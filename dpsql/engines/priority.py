"""How urgent a worker is: whoever answers from memory waits for nobody who computes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

NICENESS = 5
"""How much less urgent a server's workers are than the server."""
_SLICE_SECONDS = 0.02
_AUTOGROUP = "/proc/self/autogroup"
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""The number of Linux's call by machine: the C library has no name for it yet."""


def give_way(niceness: int) -> None:
    """Let other processes go before this one, by so many steps more than now; not where that is 0.

    Threads that are started from now on do so too. Where the system shares out processors by
    session first, as Linux does at a desk, this holds among sessions too: a worker has one of its
    own. Being less urgent makes a share smaller, not how long others wait until it pauses; for that
    it works for long at a time, unless somebody comes who works for shorter.
    """
    if not niceness:
        return
    now = os.nice(niceness)
    # Where there are no such groups, or nobody may say, nothing changes.
    with suppress(OSError), open(_AUTOGROUP, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(now))
    if sys.platform == "linux":
        _work_for_long(now)


def _work_for_long(niceness: int) -> None:
    """Ask for long slices of time, which end when somebody wakes whose slices are short.

    Linux does so from 6.12 on; others, and where nobody may ask, nothing changes.
    """
    import ctypes  # noqa: PLC0415 - a worker of one analyst does without
    import struct  # noqa: PLC0415

    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is not None:
        # sched_attr: size, policy, flags, niceness, priority, runtime, deadline, period
        slice_ = int(_SLICE_SECONDS * 1e9)
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, niceness, 0, slice_, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)
