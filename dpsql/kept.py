"""kept: what a proxy remembers in memory: a bounded number of things, the oldest forgotten first.

>>> kept = Kept(2, lambda _: 1)
>>> for n in range(3): kept.put(n, n)
>>> kept.get(0), kept.get(2)
(None, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeVar

from dpsql.errors import Reason, Refused
from dpsql.model import Answer, Request

T = TypeVar("T")
MOST_CELLS = 1_000_000
"""Values of all finished answers that are kept."""


class Kept(Generic[T]):
    """A thread-safe dictionary whose values together weigh at most `most`."""

    def __init__(self, most: int, weight: Callable[[T], int]) -> None:
        self._most, self._weight = most, weight
        self._values: dict[Any, T] = {}
        self._total = 0
        self._lock = Lock()

    def get(self, key: Any) -> T | None:
        """The value, None if it was never put or is forgotten."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: Any, value: T) -> None:
        """Keep a value, in place of others where there is no room; one too heavy is not kept."""
        weight = self._weight(value)
        if weight > self._most:
            return
        with self._lock:
            self._forget(key)
            while self._total + weight > self._most:
                self._forget(next(iter(self._values)))
            self._values[key] = value
            self._total += weight

    def _forget(self, key: Any) -> None:
        if key in self._values:
            self._total -= self._weight(self._values.pop(key))


@dataclass(frozen=True, slots=True)
class Finished:
    """A remembered answer, finished: good as it is while the ledger's stamp is still the same."""

    stamp: object
    answer: Answer


def answers_of(cells: int = MOST_CELLS) -> Kept[Finished]:
    """Finished answers of at most this many cells in all."""
    return Kept(cells, lambda kept: 1 + len(kept.answer.rows) * len(kept.answer.columns))


def text_key(request: Request) -> tuple[Any, ...]:
    """What a statement is parsed from, the date included, which CURRENT_DATE is read as.

    Equal parameters of different types are different.

    Raises `Refused` for parameters that cannot be values.
    """
    try:
        hash(request.parameters)
    except TypeError:
        raise Refused(Reason.BAD_PARAMETER, why="one of them is not a value") from None
    types = tuple(type(value) for value in request.parameters)
    spelling = request.sql, request.dialect, request.parameters, types
    return *spelling, request.nonnegative, request.day
