"""dpsql_budget() and dpsql_history() as tables, and SHOW ALL."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from dpsql.interfaces.pgwire import oids
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.portals import Columns, Result, Row
from dpsql.interfaces.pgwire.shapes import WireColumn
from dpsql.model import Loss

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

LATEST = 1000
"""Most rows of dpsql_history()."""

_AMOUNTS = ("spent", "total", "remaining", "delta_spent", "delta_total")
BUDGET: Columns = (
    WireColumn("budget", oids.TEXT),
    WireColumn("accountant", oids.TEXT),
    *(WireColumn(name, oids.NUMERIC) for name in _AMOUNTS),
)
HISTORY: Columns = (
    WireColumn("query_id", oids.TEXT),
    WireColumn("time", oids.TIMESTAMPTZ_OID),
    WireColumn("budget", oids.TEXT),
    WireColumn("epsilon", oids.NUMERIC),
    WireColumn("charge", oids.NUMERIC),
    WireColumn("delta", oids.NUMERIC),
    WireColumn("answered", oids.BOOL),
)
_COLUMNS = {"dpsql_budget": BUDGET, "dpsql_history": HISTORY}


def columns_of(function: str, wanted: Sequence[str]) -> Columns:
    """The named columns of a report, all if none is named. Raises `Fault`."""
    known = {column.name: column for column in _COLUMNS[function]}
    for name in wanted:
        if name not in known:
            raise Fault("42703", f'column "{name}" does not exist')
    return tuple(known[name] for name in wanted) or _COLUMNS[function]


def report(proxy: Proxy, analyst: str, function: str, wanted: Sequence[str]) -> Result:
    """The report about one analyst. Amounts are ρ under zcdp and ε under the others."""
    rows = _budget(proxy, analyst) if function == "dpsql_budget" else _history(proxy, analyst)
    names = [column.name for column in _COLUMNS[function]]
    columns = columns_of(function, wanted)
    places = [names.index(column.name) for column in columns]
    return Result(columns, [tuple(row[n] for n in places) for row in rows], "SELECT", counted=True)


def _budget(proxy: Proxy, analyst: str) -> list[Row]:
    own = proxy.policy.budget_of(analyst)
    found = [(b, spent, limit) for b, spent, limit in proxy.budgets() if b == own]
    return [
        (
            budget.name,
            budget.accountant,
            _amount(spent),
            _amount(limit),
            _amount(limit) - _amount(spent),
            _delta(spent),
            _delta(limit),
        )
        for budget, spent, limit in found
    ]


def _history(proxy: Proxy, analyst: str) -> list[Row]:
    return [
        (e.query_id, e.time, e.budget, e.epsilon, _amount(e.loss), _delta(e.loss), e.remembered)
        for e in proxy.history(analyst, LATEST)
    ]


def _amount(loss: Loss) -> Decimal:
    return Decimal(loss.amount).scaleb(-9)


def _delta(loss: Loss) -> Decimal:
    return Decimal(loss.delta).scaleb(-18)
