"""A monitor of a DB-API connection: see `Connection.watch`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Self

from dpsql.interfaces.dbapi import Connection
from dpsql.interfaces.dbapi.dbapi_errors import ProgrammingError, raised_from
from dpsql.interfaces.dbapi.statement_options import exact_amount
from dpsql.model.errors import DpsqlError
from dpsql.model.tree import Parameter
from dpsql.model.vocabulary import Receipt
from dpsql.systems.watch.monitor import Monitor, Verdict, Watch


def watch(
    connection: Connection,
    threshold: Decimal | str | int,
    *,
    alarms: int,
    epsilon: Decimal | str | None,
    both_ways: bool,
    measure: Decimal | str | None,
) -> ConnectionMonitor:
    """Open a monitor for a connection. Raises as `Connection.watch` does."""
    wish = Watch(
        connection.analyst,
        _level(threshold),
        alarms,
        epsilon=exact_amount("epsilon", epsilon) or connection.epsilon,
        both_ways=both_ways,
        measure=exact_amount("measure", measure),
    )
    try:
        return ConnectionMonitor(connection.proxy.run(wish), connection.dialect)
    except DpsqlError as error:
        raise raised_from(error) from None


def _level(threshold: Decimal | str | int) -> Decimal:
    try:
        return Decimal(threshold)
    except (ArithmeticError, TypeError, ValueError):
        raise ProgrammingError("The threshold is a number such as 1000 or '0.5'.") from None


class ConnectionMonitor:
    """One bit per query of a stream; see `Connection.watch`. Threads may share it."""

    def __init__(self, monitor: Monitor, dialect: str) -> None:
        self._monitor, self._dialect = monitor, dialect

    @property
    def left(self) -> int:
        """Number of alarms that remain. At zero the monitor has ended."""
        return self._monitor.left

    @property
    def receipt(self) -> Receipt:
        """Receipt of the charge at the opening."""
        return self._monitor.receipt

    def ask(self, sql: str, parameters: Sequence[Parameter | list[Any]] = ()) -> Verdict:
        """Return whether one COUNT or SUM, or that of each public group, is above the threshold.

        A repeated query gets the same answer. Raises as `Cursor.execute` does, and
        OperationalError after the last alarm.
        """
        try:
            return self._monitor.ask(sql, parameters, self._dialect)
        except DpsqlError as error:
            raise raised_from(error, sql) from None

    def close(self) -> None:
        """End the monitor, even with alarms left. A second call does nothing."""
        try:
            self._monitor.close()
        except DpsqlError as error:
            raise raised_from(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
