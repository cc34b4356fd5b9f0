"""Several statements at one price, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from dpsql.engines import Stop
from dpsql.interfaces.dbapi.dbapi_errors import raised_from
from dpsql.interfaces.joint_prices import price_text, prices
from dpsql.model.errors import DpsqlError
from dpsql.model.vocabulary import Request

if TYPE_CHECKING:
    from dpsql.answering.joint_plan import JointPlan
    from dpsql.interfaces.dbapi import Connection
    from dpsql.interfaces.dbapi.dbapi_cursor import Cursor


class StatementPlan:
    """Joint price of several statements. A notebook shows it. See `Connection.plan`."""

    def __init__(
        self, connection: Connection, requests: Sequence[Request], epsilon: Decimal | None
    ) -> None:
        from dpsql.answering.together import PlanTogether  # noqa: PLC0415

        self._connection, self._requests, self._epsilon = connection, requests, epsilon
        try:
            self._plan: JointPlan = connection.proxy.run(PlanTogether(requests, epsilon))
        except DpsqlError as error:
            raise raised_from(error) from None

    @property
    def prices(self) -> Cursor:
        """A row for each statement: its price alone and together, and its expected error."""
        return self._connection.cursor().take(prices(self._plan))

    @property
    def epsilon(self) -> Decimal:
        """Total ε of all statements; 0 if they are free."""
        return self._plan.account.epsilon

    def ask(self) -> tuple[Cursor, ...]:
        """Return a cursor for each statement. All are charged together, or none is.

        Raises as `Cursor.execute` does, for the first statement that is refused.
        """
        from dpsql.answering.together import AskTogether  # noqa: PLC0415

        stop, connection = Stop(), self._connection
        refused = next(iter(self._plan.refusals), None)
        if refused is not None:
            raise raised_from(refused[1], self._requests[refused[0] - 1].sql) from None
        requests = [replace(each, confirmed=True) for each in self._requests]
        try:
            with connection.stopped_by(stop):
                ask = AskTogether(requests, self._epsilon)
                answers, _receipt = connection.proxy.run(ask, stop)
        except DpsqlError as error:
            raise raised_from(error) from None
        return tuple(connection.cursor().take(answer) for answer in answers)

    def __repr__(self) -> str:
        return price_text(self._plan)

    def _repr_html_(self) -> str | None:
        return self.prices._repr_html_()
