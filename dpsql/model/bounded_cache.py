"""A cache of bounded size that drops the oldest entries first.

>>> cache = BoundedCache(2)
>>> for n in range(3): cache.put(n, n)
>>> cache.get(0), cache.get(2)
(None, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_MISSING = None, 0


class BoundedCache(Generic[T]):
    """A thread-safe dictionary of values with a total weight of at most `most`.

    Each value weighs 1, unless a `weight` is given.
    """

    def __init__(self, most: int, weight: Callable[[T], int] | None = None) -> None:
        self._most, self._weight = most, weight
        self._values: dict[Any, tuple[T, int]] = {}
        self._total = 0
        self._lock = Lock()

    def get(self, key: Any) -> T | None:
        """Return the value; None if it is missing or was dropped."""
        with self._lock:
            return self._values.get(key, _MISSING)[0]

    def put(self, key: Any, value: T) -> None:
        """Store a value and drop the oldest ones if needed; a value that is too heavy is not
        stored.
        """
        weight = 1 if self._weight is None else self._weight(value)
        with self._lock:
            self._forget(key)
            if weight > self._most:
                return
            while self._total + weight > self._most:
                self._forget(next(iter(self._values)))
            self._values[key] = value, weight
            self._total += weight

    def list_entries(self) -> list[tuple[Any, T]]:
        """Return all keys with their values, the oldest first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._values.items()]

    def _forget(self, key: Any) -> None:
        if key in self._values:
            self._total -= self._values.pop(key)[1]
