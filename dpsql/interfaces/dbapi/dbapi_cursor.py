"""Cursor of PEP 249: runs statements, and returns rows, errors, receipts and data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from logging import getLogger
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from dpsql.engines import Stop
from dpsql.interfaces import data_frames
from dpsql.interfaces.dbapi.dbapi_errors import (
    InterfaceError,
    ProgrammingError,
    Warning,  # noqa: A004
    raised_from,
)
from dpsql.interfaces.dbapi.statement_options import NOTHING_SAID, Amount, Named, StatementOptions
from dpsql.interfaces.doors import DATABASE_API
from dpsql.interfaces.html_tables import answer_html
from dpsql.interfaces.pictures.drawings import Drawing
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.shown_intervals import PLAIN, show_answer
from dpsql.model.errors import DpsqlError
from dpsql.model.interval_ends import Halves, Intervals
from dpsql.model.notices import marked
from dpsql.model.system_table import load_value
from dpsql.model.table import OnDemand
from dpsql.model.tree import DOUBLE, Kind, Parameter
from dpsql.model.vocabulary import Answer, Column, Receipt, Request
from dpsql.preparation.explanation import Explanation

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from polars import DataFrame as PolarsFrame

    from dpsql.interfaces.dbapi import Connection
    from dpsql.proxy import Proxy

_LOG = getLogger("dpsql")
Row = tuple[Any, ...]
Deviations = Sequence[tuple[float | None, ...]]
Parameters: TypeAlias = "Sequence[Parameter | list[Any]]"
Description = tuple[str, str, None, None, int | None, int | None, None]
Result = TypeVar("Result")


class _Results:
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


class Cursor:
    """Cursor that runs statements and returns rows. Threads must not share it.

    After `execute`, `receipt` is the charge, zero if no private row was read. `errors` holds the
    standard error of each number, and `margins` the half width of its 95 % interval, in the shape
    of the rows. None means exact, NaN noisy with unknown error. `intervals` has its low and high
    ends, of which one is farther away where a limit clips. `notices` are sentences on clipping and
    hidden data, and `marked` the indices of the columns that they concern.
    """

    lastrowid = None

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._results: _Results | None = None
        self._request: Request | None = None
        self._next = 0
        self._stop = Stop()
        self._closed = False

    # --- asking ---

    def execute(
        self,
        sql: str,
        parameters: Parameters | Named = (),
        *,
        epsilon: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
    ) -> Self:
        """Answer one SELECT. Each ? takes one parameter, or each :name one value of a mapping.

        `epsilon` is the price (default: the connection's). Instead, `within` is the error that
        determines the price, as 100 or "5%", at this `confidence`. Large public results are kept in
        a temporary file, not in memory. Returns the cursor.
        """
        options = StatementOptions(epsilon, within, confidence)
        return self._run(sql, (parameters,), options, flowing=True)

    def only_answer(
        self, sql: str, parameters: Parameters | Named, options: StatementOptions
    ) -> Answer:
        """Return the whole answer to one SELECT; see `Connection.sql`."""
        self._run(sql, (parameters,), options)
        return self._results.answers[0] if self._results else Answer((), (), (), ())

    def executemany(self, sql: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        """Answer a SELECT once per parameters, each with its own charge. Keeps all rows in
        order.
        """
        return self._run(sql, seq_of_parameters)

    def explain(
        self,
        sql: str,
        parameters: Parameters | Named = (),
        *,
        epsilon: Amount | None = None,
        within: Amount | None = None,
        confidence: Amount | None = None,
    ) -> Explanation:
        """Return the plan, price and expected error of a SELECT; free. See `dpsql.plan_text`."""
        proxy, options = self._proxy(), StatementOptions(epsilon, within, confidence)
        request = self.connection.request(sql, parameters, options)
        return _translated(sql, partial(proxy.explain, request))

    def cancel(self) -> None:
        """Stop the statement of this cursor in another thread, and no other. Its charge remains."""
        self._stop.requested = True

    def take(self, answer: Answer) -> Self:
        """Set the answer to return, from another source."""
        self._keep((answer,))
        return self

    def _run(
        self,
        sql: str,
        seq_of_parameters: Iterable[Parameters | Named],
        options: StatementOptions = NOTHING_SAID,
        *,
        flowing: bool = False,
    ) -> Self:
        _, stop = self._proxy(), Stop()
        if not isinstance(seq_of_parameters, Iterable):
            raise ProgrammingError("Many parameters are a sequence of lists or tuples.")
        self._keep(())
        self._stop = stop
        run = partial(self.connection.run_of_session, sql, seq_of_parameters)
        said = _translated(sql, run)
        if said is not None:
            self._keep((said,) if said.columns else ())
            return self
        errors, digits = self.connection.shown
        plain = [self.connection.request(sql, one, options) for one in seq_of_parameters]
        requests = (replace(request, flowing=flowing and errors == PLAIN) for request in plain)
        with self.connection.stopped_by(stop):
            ask = self.connection.answer
            results = (_translated(sql, partial(ask, one, stop)) for one in requests)
            self._keep(tuple(show_answer(r, errors, digits) for r in results))
        self._request = plain[0] if len(plain) == 1 else None
        for answer in self._results.answers if self._results else ():
            _LOG.info("%s", cost_text(answer.receipt))
        return self

    def _keep(self, answers: tuple[Answer, ...]) -> None:
        self._results, self._request = _Results(answers) if answers else None, None
        self._next = 0

    # --- what was answered ---

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
    def receipt(self) -> Receipt:
        """The charge of the last statement; nothing without one, or if it read no private row."""
        paid = self._results.answers[-1].receipt if self._results else None
        if paid is not None:
            return paid
        proxy, analyst = self.connection.proxy, self.connection.analyst
        return _translated("", partial(proxy.nothing_paid, analyst))

    @property
    def errors(self) -> Deviations:
        return self._results.errors if self._results else ()

    @property
    def margins(self) -> Deviations:
        return self._results.margins if self._results else ()

    @property
    def intervals(self) -> tuple[Intervals, ...]:
        return self._results.intervals if self._results else ()

    @property
    def notices(self) -> tuple[str, ...]:
        answers = self._results.answers if self._results else ()
        texts = (sentences(a.notices, a.columns, DATABASE_API) for a in answers)
        return tuple(dict.fromkeys(chain.from_iterable(texts)))

    @property
    def marked(self) -> frozenset[int]:
        """Indices of the columns that notices concern."""
        answers = self._results.answers if self._results else ()
        return frozenset().union(*(marked(answer.notices) for answer in answers))

    @property
    def messages(self) -> list[tuple[type[Warning], Warning]]:
        """The notices in the form of PEP 249."""
        return [(Warning, Warning(notice)) for notice in self.notices]

    def _repr_html_(self) -> str | None:
        """Return the rows, notices and cost as HTML, for notebooks; None before `execute` and after
        `close`.
        """
        if self._closed or self._results is None:
            return None
        return answer_html(self._results.whole, DATABASE_API)

    def plot(self) -> Drawing:
        """Return a drawing of all numbers with errors, shown in a notebook or printed."""
        return Drawing(self._fetchable().whole)

    def replicates(self, count: int = 100) -> list[list[Row]]:
        """Return 50 to 1,000 copies of the rows, each with its noise drawn once more; free.

        The standard deviation of a smooth statistic over the copies, times 1.96, is the half-width
        of its 95 % interval around the statistic of the rows. Numbers for which this does not hold
        are None. Raises NotSupportedError if it holds for none, and ProgrammingError if the answer
        is no longer remembered.
        """
        self._fetchable()
        draw: Callable[..., list[list[Row]]] = load_value("cursor.replicates")
        return _translated("", partial(draw, self.connection.proxy, self._request, count))

    # --- fetching ---

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
        frame = _translated("", partial(build, results.columns, results.rows[self._next :]))
        self._next = len(results.rows)
        return frame

    def _deviations(self, deviations: Deviations) -> pd.DataFrame:
        columns = [Column(column.name, DOUBLE) for column in self._fetchable().columns]
        rows = [tuple(0.0 if cell is None else cell for cell in row) for row in deviations]
        return _translated("", partial(data_frames.pandas, columns, rows))

    # --- the rest of PEP 249 ---

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Close the cursor. A second call does nothing."""
        self._keep(())
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _proxy(self) -> Proxy:
        if self._closed:
            raise InterfaceError("The cursor is closed.", sqlstate="24000")
        return self.connection.proxy

    def _fetchable(self) -> _Results:
        self._proxy()
        if self._results is None:
            raise InterfaceError("There is no result: execute a statement first.", sqlstate="24000")
        return self._results


def _translated(sql: str, call: Callable[[], Result]) -> Result:
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
