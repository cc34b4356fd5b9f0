"""Ticking: long work of ours says often that it goes on, so that whoever bounds it can end it.

A thread is never ended from outside: it may hold locks. Whoever starts the work sets `CHECK` for
it, which raises where the work should end; without one a tick does nothing.

>>> tick()
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

CHECK: ContextVar[Callable[[], None] | None] = ContextVar("CHECK", default=None)
"""What looks whether the work of this context should go on."""

_present = CHECK.get


def tick() -> None:
    """Say that the work goes on; raises what `CHECK` raises."""
    check = _present()
    if check is not None:
        check()
