"""Rows of a cursor: fetched one by one, several at a time, or as data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from dpsql.interfaces import data_frames
from dpsql.interfaces.dbapi.dbapi_errors import InterfaceError, ProgrammingError, raised_from
from dpsql.model.errors import DpsqlError
from dpsql.model.interval_ends import Halves, Intervals
from dpsql.model.table import OnDemand
from dpsql.model.tree import DOUBLE, Kind
from dpsql.model.vocabulary import Answer, Column

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from polars import DataFrame as PolarsFrame

Row = tuple[Any, ...]
Deviations = Sequence[tuple[float | None, ...]]
Description = tuple[str, str, None, None, int | None, int | None, None]
Result = TypeVar("Result")


class Results:
    """The answers of one execution, in order. They are joined only once."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self.answers = answers
        self.columns = answers[-1].columns if answers else ()

    @property
    def whole(self) -> Answer:
        """All answers as one, with the last receipt."""
        notices = tuple(dict.fromkeys(chain.from_iterable(a.notices for a in self.answers)))
        return replace(
            self.answers[-1],
            rows=self.rows,
            margins=self.margins,
            halves=self.halves,
            notices=notices,
        )

    @cached_property
    def rows(self) -> Sequence[Row]:
        return _joined([answer.rows for answer in self.answers])

    @cached_property
    def errors(self) -> Deviations:
        return _joined([answer.errors for answer in self.answers])

    @cached_property
    def margins(self) -> Deviations:
        return _joined([answer.margins for answer in self.answers])

    @cached_property
    def halves(self) -> tuple[Halves | None, ...]:
        """Empty where all intervals are symmetric."""
        if not any(answer.halves for answer in self.answers):
            return ()
        each = (answer.halves or (None,) * len(answer.rows) for answer in self.answers)
        return tuple(chain.from_iterable(each))

    @cached_property
    def intervals(self) -> tuple[Intervals, ...]:
        return tuple(chain.from_iterable(answer.intervals for answer in self.answers))


def _joined(pieces: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """Return the rows of all answers. A single file of rows stays a file."""
    if len(pieces) == 1 and isinstance(pieces[0], OnDemand):
        return pieces[0]
    return tuple(chain.from_iterable(pieces))


class FetchedRows:
    """The rows of the last statement of a cursor, and the number of rows that were fetched."""

    def __init__(self) -> None:
        self.arraysize = 1
        self._results: Results | None = None
        self._next = 0
        self._closed = False

    @property
    def description(self) -> tuple[Description, ...] | None:
        """Tuple per column: (name, type, None, None, precision, scale, None). Fixed by the text."""
        return tuple(map(_described, self._results.columns)) if self._results else None

    @property
    def rowcount(self) -> int:
        return len(self._results.rows) if self._results else -1

    @property
    def rownumber(self) -> int | None:
        """Number of rows already fetched; None without a result."""
        return self._next if self._results else None

    @property
    def errors(self) -> Deviations:
        return self._results.errors if self._results else ()

    @property
    def margins(self) -> Deviations:
        return self._results.margins if self._results else ()

    @property
    def intervals(self) -> tuple[Intervals, ...]:
        return self._results.intervals if self._results else ()

    def fetchone(self) -> Row | None:
        """Return the next row, or None after the last."""
        rows = self._fetchable().rows
        if self._next == len(rows):
            return None
        self._next += 1
        return rows[self._next - 1]

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Return the next `size` rows (default `arraysize`), or fewer at the end."""
        rows = self._fetchable().rows
        first = self._next
        count = max(0, self.arraysize if size is None else size)
        self._next = min(len(rows), first + count)
        return list(rows[first : self._next])

    def fetchall(self) -> list[Row]:
        """Return all rows not yet fetched."""
        return self.fetchmany(len(self._fetchable().rows))

    def fetchdicts(self) -> list[dict[str, Any]]:
        """Return all rows not yet fetched, each by the names of its columns.

        Raises ProgrammingError where two columns have one name.
        """
        names = [column.name for column in self._fetchable().columns]
        if len({*names}) < len(names):
            raise ProgrammingError("Two columns have one name: give each its own with AS.")
        return [dict(zip(names, row, strict=True)) for row in self.fetchall()]

    def scroll(self, value: int, mode: str = "relative") -> None:
        """Move `value` rows on, or to row `value` with "absolute". Raises IndexError outside the
        rows.
        """
        if mode not in ("relative", "absolute"):
            raise InterfaceError("A cursor scrolls relative or absolute.", sqlstate="22023")
        count = len(self._fetchable().rows)
        target = value + (self._next if mode == "relative" else 0)
        if not 0 <= target <= count:
            message = f"row {target} of {count}"
            raise IndexError(message)
        self._next = target

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    # --- data frames: the rows not yet fetched, and the errors of all rows ---

    def fetchnumpy(self) -> dict[str, np.ma.MaskedArray[Any, Any]]:
        """Return one masked array per column, with NULL masked and DECIMAL as float64."""
        return self._rest_as(data_frames.numpy_arrays)

    def fetch_arrow_table(self) -> pa.Table:
        """Return a pyarrow.Table of the declared types, without rounding. Needs the extra
        `arrow`.
        """
        return self._rest_as(data_frames.arrow)

    def fetchdf(self) -> pd.DataFrame:
        """Return a pandas.DataFrame, with DECIMAL as float64. Needs the extra `pandas`."""
        return self._rest_as(data_frames.pandas)

    def pl(self) -> PolarsFrame:
        """Return a polars.DataFrame of the declared types, without rounding. Needs the extra
        `polars`.
        """
        return self._rest_as(data_frames.polars)

    def errors_df(self) -> pd.DataFrame:
        """Return `errors` in the shape of `fetchdf`: 0 is exact, NaN unknown."""
        return self._deviations(self.errors)

    def margins_df(self) -> pd.DataFrame:
        """Return `margins` in the shape of `fetchdf`: 0 is exact, NaN unknown."""
        return self._deviations(self.margins)

    def _rest_as(self, build: Callable[[Sequence[Column], data_frames.Rows], Result]) -> Result:
        """Return the rows not yet fetched as a frame. They stay unfetched if it cannot be built."""
        results = self._fetchable()
        frame = translated("", partial(build, results.columns, results.rows[self._next :]))
        self._next = len(results.rows)
        return frame

    def _deviations(self, deviations: Deviations) -> pd.DataFrame:
        columns = [Column(column.name, DOUBLE) for column in self._fetchable().columns]
        rows = [tuple(0.0 if cell is None else cell for cell in row) for row in deviations]
        return translated("", partial(data_frames.pandas, columns, rows))

    def _require_open(self) -> None:
        if self._closed:
            raise InterfaceError("The cursor is closed.", sqlstate="24000")

    def _fetchable(self) -> Results:
        self._require_open()
        if self._results is None:
            raise InterfaceError("There is no result: execute a statement first.", sqlstate="24000")
        return self._results


def translated(sql: str, call: Callable[[], Result]) -> Result:
    """Return the result of a call. Translates errors to those of PEP 249, with the place in the
    text.
    """
    try:
        return call()
    except DpsqlError as error:
        raise raised_from(error, sql) from None


def _described(column: Column) -> Description:
    kind = column.type
    is_decimal = kind.kind is Kind.DECIMAL
    precision, scale = (kind.precision, kind.scale) if is_decimal else (None, None)
    return column.name, kind.kind.value, None, None, precision, scale, None
