"""Rows held as columns, which cross from the engine to a client with few Python objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

if TYPE_CHECKING:
    import numpy as np  # the command line starts without it

Row: TypeAlias = tuple[Any, ...]


class OnDemand(Sequence[Row]):
    """A sequence of rows that knows its length; its slices are of the same kind."""


class Repeated(OnDemand):
    """The same row, `count` times.

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


Values: TypeAlias = "np.ndarray | list[Any]"
"""A column: an array of int64, double or boolean without NULL, or a list of Python values."""


class Table(Sequence[Row]):
    """A number of rows of these columns; a row is made when it is read, and a slice is a table.

    >>> import numpy as np
    >>> table = Table(2, [np.array([1, 2]), ["a", None]])
    >>> table[1], table[:1] == [(1, "a")]
    ((2, None), True)
    """

    __slots__ = ("_count", "columns")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, count: int, columns: Sequence[Values]) -> None:
        self._count, self.columns = count, tuple(columns)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Row: ...

    @overload
    def __getitem__(self, at: slice) -> Table: ...

    def __getitem__(self, at: int | slice) -> Row | Table:
        if isinstance(at, slice):
            count = len(range(*at.indices(self._count)))
            return Table(count, [column[at] for column in self.columns])
        return tuple(listed(column[at : at + 1 or None])[0] for column in self.columns)

    def __iter__(self) -> Iterator[Row]:
        return zip(*map(listed, self.columns), strict=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)


def listed(column: Values) -> list[Any]:
    """Return the values of a column as Python objects."""
    return column if isinstance(column, list) else column.tolist()


def concatenated(tables: Sequence[Table]) -> Table:
    """Concatenate the rows of several tables of the same columns.

    >>> list(concatenated([Table(1, [[1]]), Table(1, [[2]])]))
    [(1,), (2,)]
    """
    columns = zip(*(table.columns for table in tables), strict=True)
    return Table(sum(map(len, tables)), [_joined(pieces) for pieces in columns])


def _joined(pieces: Sequence[Values]) -> Values:
    if any(isinstance(piece, list) for piece in pieces):
        return [value for piece in pieces for value in listed(piece)]
    import numpy as np  # noqa: PLC0415

    return np.concatenate(pieces)
