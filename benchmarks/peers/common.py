"""What every peer's script shares: questions on stdin, answers and their CPU on stdout.

Runs in the peer's own environment: standard library only.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.peers.questions import QUESTIONS, Question

Rows = Sequence[Sequence[Any]]
"""A row for each group: its key, where it has one, and the numbers."""


def main(answer: Callable[[Question], Callable[[], Rows]]) -> None:
    """One line for each line: the number of a question; the CPU seconds of its rows.

    What is made of a question before it is asked is not measured.
    """
    asked = dict[int, Callable[[], Rows]]()
    for line in sys.stdin:
        number = int(line)
        if number not in asked:
            asked[number] = answer(QUESTIONS[number])
        before = _seconds()
        rows = asked[number]()
        print(json.dumps([_seconds() - before, [list(map(float, row)) for row in rows]]))
        sys.stdout.flush()


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
