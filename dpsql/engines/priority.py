"""How urgent a worker is: whoever answers from memory waits for nobody who computes."""

from __future__ import annotations

import os

_AUTOGROUP = "/proc/self/autogroup"


def give_way(niceness: int) -> None:
    """Let other processes go before this one, by so many steps more than now.

    Where the system shares out processors by session first, as Linux does at a desk, this holds
    among sessions too: a worker has one of its own.
    """
    now = os.nice(niceness)
    try:
        with open(_AUTOGROUP, "w", encoding="ascii") as file:  # noqa: PTH123 - starts sooner
            file.write(str(now))
    except OSError:
        return  # there are no such groups, or nobody may say
