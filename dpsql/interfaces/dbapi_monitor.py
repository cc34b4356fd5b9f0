"""A connection's monitor: the errors of PEP 249 around `dpsql.monitoring.monitor.Monitor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from dpsql.interfaces.dbapi_errors import raised_from
from dpsql.model.errors import DpsqlError
from dpsql.model.tree import Value
from dpsql.model.vocabulary import Receipt

if TYPE_CHECKING:
    from dpsql.monitoring.monitor import Monitor, Verdict


class ConnectionMonitor:
    """One bit per query of a stream; see `Connection.watch`. Threads may share it."""

    def __init__(self, monitor: Monitor, dialect: str) -> None:
        self._monitor, self._dialect = monitor, dialect

    @property
    def left(self) -> int:
        """The alarms that are left; with none the monitor has ended."""
        return self._monitor.left

    @property
    def receipt(self) -> Receipt:
        """What was charged when it was opened."""
        return self._monitor.receipt

    def ask(self, sql: str, parameters: Sequence[Value] = ()) -> Verdict:
        """Whether one COUNT or SUM, or that of each public group, is above the threshold.

        Asked again, a question has the answer it had. Raises as `Cursor.execute` does, and
        OperationalError once the alarms are used up.
        """
        try:
            return self._monitor.ask(sql, parameters, self._dialect)
        except DpsqlError as error:
            raise raised_from(error, sql) from None

    def close(self) -> None:
        """End the monitor, whatever alarms are left; a second time it does nothing."""
        try:
            self._monitor.close()
        except DpsqlError as error:
            raise raised_from(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
