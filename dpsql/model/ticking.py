"""Ticks of long computations, so that their caller can end them.

A thread is never ended from outside, because it may hold locks. The caller sets `CHECK`, which
raises an error to end the work. Without it a tick does nothing.

>>> tick()
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

CHECK: ContextVar[Callable[[], None] | None] = ContextVar("CHECK", default=None)
"""The function that checks whether the work of this context should go on."""

_present = CHECK.get


def tick() -> None:
    """Report that the work goes on; raises the errors of `CHECK`."""
    check = _present()
    if check is not None:
        check()
