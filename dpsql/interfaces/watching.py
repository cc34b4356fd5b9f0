"""What `dpsql watch --explain` shows: the price of watching, and the noise that it decides by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpsql.interfaces.amounts import loss_text, plain
from dpsql.interfaces.plan_text import budget_lines
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.tables import grid
from dpsql.mechanisms import margin

if TYPE_CHECKING:
    from dpsql.monitoring.monitor import Price
    from dpsql.preparation.streams import QueryStream


def price_text(price: Price) -> str:
    """The whole price as lines of text."""
    return "\n".join(_lines(price)) + "\n"


def _lines(price: Price) -> Iterator[str]:
    accountant = price.budget.accountant
    queries = sum(len(stream.domain) for stream in price.streams)
    yield (
        f"Watching {len(price.streams)} statements, {queries} queries in all, until "
        f"{price.law.alarms} of them are at or above {plain(price.wish.threshold)}."
    )
    if price.remembered:
        yield "Charge: nothing; this was answered before and is remembered."
    else:
        charge = loss_text(price.charge, accountant)
        yield f"Charge: ε = {plain(price.epsilon)} however many are below, {charge} ({accountant})."
    names = price.budget.name, price.wish.analyst, accountant
    yield from budget_lines(*names, price.charge, price.spent, price.limit, price.rest)
    for number, stream in enumerate(price.streams, 1):
        for told in sentences(stream.notices, stream.columns):
            yield f"Statement {number}: {told}"
    yield "The threshold's noise is drawn once, a query's each time; both are within ± at 95 %:"
    heads = ("statement", "queries", "one unit moves", "threshold ±", "query ±")
    rows = [_row(n, stream, price) for n, stream in enumerate(price.streams, 1)]
    yield from grid([heads, *rows])


def _row(number: int, stream: QueryStream, price: Price) -> tuple[str, ...]:
    moves = stream.distance * float(stream.release.query.lattice.step)
    noises = price.law.threshold, price.law.query
    margins = (f"{moves * margin(noise):,.6g}" for noise in noises)
    return (str(number), str(len(stream.domain)), f"{moves:,.6g}", *margins)
