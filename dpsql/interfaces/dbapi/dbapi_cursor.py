"""Cursor of PEP 249: runs statements, and returns rows, errors, receipts and data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from logging import getLogger
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from dpsql.engines import Stop
from dpsql.interfaces.dbapi.dbapi_errors import (
    ProgrammingError,
    Warning,  # noqa: A004
)
from dpsql.interfaces.dbapi.fetched_rows import FetchedRows, Results, Row, translated
from dpsql.interfaces.dbapi.statement_options import NOTHING_SAID, Amount, Named, StatementOptions
from dpsql.interfaces.doors import DATABASE_API
from dpsql.interfaces.html_tables import answer_html
from dpsql.interfaces.pictures.drawings import Drawing
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.shown_intervals import PLAIN, show_answer
from dpsql.model.notices import marked
from dpsql.model.system_table import load_value
from dpsql.model.tree import Parameter
from dpsql.model.vocabulary import Answer, Receipt, Request
from dpsql.preparation.explanation import Explanation

if TYPE_CHECKING:
    from dpsql.interfaces.dbapi import Connection
    from dpsql.proxy import Proxy

_LOG = getLogger("dpsql")
Parameters: TypeAlias = "Sequence[Parameter | list[Any]]"


class Cursor(FetchedRows):
    """Cursor that runs statements and returns rows. Threads must not share it.

    After `execute`, `receipt` is the charge, zero if no private row was read. `errors` holds the
    standard error of each number, and `margins` the half width of its 95 % interval, in the shape
    of the rows. None means exact, NaN noisy with unknown error. `intervals` has its low and high
    ends, of which one is farther away where a limit clips. `notices` are sentences on clipping and
    hidden data, and `marked` the indices of the columns that they concern.
    """

    lastrowid = None

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self._request: Request | None = None
        self._stop = Stop()

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
        return translated(sql, partial(proxy.explain, request))

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
        said = translated(sql, run)
        if said is not None:
            self._keep((said,) if said.columns else ())
            return self
        errors, digits = self.connection.shown
        plain = [self.connection.request(sql, one, options) for one in seq_of_parameters]
        requests = (replace(request, flowing=flowing and errors == PLAIN) for request in plain)
        with self.connection.stopped_by(stop):
            ask = self.connection.answer
            results = (translated(sql, partial(ask, one, stop)) for one in requests)
            self._keep(tuple(show_answer(r, errors, digits) for r in results))
        self._request = plain[0] if len(plain) == 1 else None
        for answer in self._results.answers if self._results else ():
            _LOG.info("%s", cost_text(answer.receipt))
        return self

    def _keep(self, answers: tuple[Answer, ...]) -> None:
        self._results, self._request = Results(answers) if answers else None, None
        self._next = 0

    # --- what was answered ---

    @property
    def receipt(self) -> Receipt:
        """The charge of the last statement; nothing without one, or if it read no private row."""
        paid = self._results.answers[-1].receipt if self._results else None
        if paid is not None:
            return paid
        proxy, analyst = self.connection.proxy, self.connection.analyst
        return translated("", partial(proxy.nothing_paid, analyst))

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
        return translated("", partial(draw, self.connection.proxy, self._request, count))

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
        self._require_open()
        return self.connection.proxy
