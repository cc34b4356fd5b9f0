"""Rows that are not in memory, but made or read as they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

Row: TypeAlias = tuple[Any, ...]


class OnDemand(Sequence[Row]):
    """A sequence of rows that knows how many there are; its slices are of the same kind."""


class Repeated(OnDemand):
    """The same row so many times.

    >>> Repeated((None,), 3)[1:][1]
    (None,)
    """

    def __init__(self, row: Row, count: int) -> None:
        self._row, self._places = row, range(count)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> Repeated: ...

    def __getitem__(self, at: int | slice) -> Row | Repeated:
        if isinstance(at, slice):
            return Repeated(self._row, len(self._places[at]))
        self._places[at]  # raises IndexError
        return self._row
