"""Priority of workers: an answer from the cache does not wait for computing processes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

NICENESS = 5
"""Steps by which a server's workers have lower priority than the server."""
_SLICE_SECONDS = 0.02
_AUTOGROUP = "/proc/self/autogroup"
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Number of the system call on Linux, by machine: the C library has no name for it yet."""


def give_way(niceness: int) -> None:
    """Lower the priority of this process and of its later threads by some steps; 0 changes
    nothing.

    Linux on a desktop shares out processors by session first. There the session's priority is
    lowered too, because a worker has a session of its own. Lower priority makes a share smaller,
    but does not shorten the wait of others until this process pauses. Therefore it asks for long
    time slices, which end when a process with shorter ones wakes.
    """
    if not niceness:
        return
    now = os.nice(niceness)
    # Without such groups, or without permission, nothing changes.
    with suppress(OSError), open(_AUTOGROUP, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(now))
    if sys.platform == "linux":
        _work_for_long(now)


def _work_for_long(niceness: int) -> None:
    """Ask for long time slices, which end when a process with short slices wakes.

    Linux does so from 6.12 on. On other systems, or without permission, nothing changes.
    """
    import ctypes  # noqa: PLC0415 - a worker of one analyst does without
    import struct  # noqa: PLC0415

    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is not None:
        # sched_attr: size, policy, flags, niceness, priority, runtime, deadline, period
        slice_ = int(_SLICE_SECONDS * 1e9)
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, niceness, 0, slice_, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)
