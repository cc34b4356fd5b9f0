"""RANGE and GENERATE_SERIES over constants: the rows they give, computed here.

>>> from dpsql.model.tree import NOWHERE
>>> [n.value for n in series("range", (Literal(3, INTEGER),), NOWHERE, 10)]
[0, 1, 2]
"""

from __future__ import annotations

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import INTEGER, Literal, Span


def series(function: str, bounds: tuple[Literal, ...], span: Span, limit: int) -> list[Literal]:
    """The values of `function` from start to stop by step; GENERATE_SERIES includes the stop.

    At most `limit` + 1 of them are made, so that the caller can tell that there are too many.
    Raises `Refused` for bounds that are not whole numbers and for a step of zero.
    """
    numbers = [bound.value for bound in bounds if type(bound.value) is int]
    if len(numbers) != len(bounds) or not 1 <= len(numbers) <= len(("start", "stop", "step")):
        types = tuple(str(bound.type) for bound in bounds)
        raise Refused(Reason.TYPE_MISMATCH, span, function=function, types=types)
    start, stop, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if step == 0:
        raise Refused(Reason.SYNTAX, span, why="the step of a series is not zero")
    end = stop if function == "range" else stop + (1 if step > 0 else -1)
    return [Literal(n, INTEGER, span) for n in range(start, end, step)[: limit + 1]]
