"""Queries to the proxy, for all interfaces, including EXPLAIN PRIVACY."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.engines import Stop
from dpsql.interfaces.doors import Door
from dpsql.interfaces.plan_text import plan_text
from dpsql.model.table import Repeated
from dpsql.model.tree import PlanForm
from dpsql.model.vocabulary import Answer, Request
from dpsql.preparation.explanation import Explanation

if TYPE_CHECKING:
    from dpsql.proxy import Proxy


def answered(
    proxy: Proxy, request: Request, stop: Stop | None = None, door: Door | None = None
) -> Answer:
    """Return the proxy's answer. A plan becomes one text row per line, or one row of JSON.

    Raises as `Proxy.ask` does.
    """
    answer = proxy.ask(request, stop)
    if not isinstance(answer.explanation, Explanation):
        return answer
    text = plan_text(answer.explanation, door=door)
    whole = answer.explanation.form is PlanForm.JSON
    rows = tuple((line,) for line in ([text] if whole else text.splitlines()))
    exact = ((None,),) * len(rows)
    return replace(answer, rows=rows, errors=exact, margins=exact, halves=())


def stored(answer: Answer) -> Answer:
    """Return the answer with the rows of a stream stored in a temporary file. They are exact.

    Raises `Refused` if there is not enough room.
    """
    if answer.flow is None:
        return answer
    rows = answer.flow.stored()
    exact = Repeated((None,) * len(answer.columns), len(rows))
    return replace(answer, rows=rows, errors=exact, margins=exact, halves=(), flow=None)
