"""Asking the proxy: the same for every interface, EXPLAIN PRIVACY included."""

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
    """The proxy's answer; a plan comes as one text row per line, or as one of JSON.

    Raises as `Proxy.ask` does.
    """
    answer = proxy.ask(request, stop)
    if not isinstance(answer.explanation, Explanation):
        return answer
    text = plan_text(answer.explanation, door=door)
    whole = answer.explanation.form is PlanForm.JSON
    rows = tuple((line,) for line in ([text] if whole else text.splitlines()))
    exact = ((None,),) * len(rows)
    return replace(answer, rows=rows, errors=exact, margins=exact)


def stored(answer: Answer) -> Answer:
    """The answer; the rows of one that flows are in a temporary file, and all are exact.

    Raises `Refused` where there is no room for it.
    """
    if answer.flow is None:
        return answer
    rows = answer.flow.stored()
    exact = Repeated((None,) * len(answer.columns), len(rows))
    return replace(answer, rows=rows, errors=exact, margins=exact, flow=None)
