"""Asking the proxy: the same for every interface, EXPLAIN PRIVACY included."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsql.engines import Stop
from dpsql.explanation import Explanation
from dpsql.interfaces.plans import plan_text
from dpsql.model import Answer, Request

if TYPE_CHECKING:
    from dpsql.proxy import Proxy


def answered(proxy: Proxy, request: Request, stop: Stop | None = None) -> Answer:
    """The proxy's answer; a plan comes as one text row per line. Raises as `Proxy.ask` does."""
    answer = proxy.ask(request, stop)
    if not isinstance(answer.explanation, Explanation):
        return answer
    rows = tuple((line,) for line in plan_text(answer.explanation).splitlines())
    exact = ((None,),) * len(rows)
    return replace(answer, rows=rows, errors=exact, margins=exact)
