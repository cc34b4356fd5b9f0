"""Comparisons, and the comparison that each becomes when its sides are swapped.

>>> MIRRORED["le"], MIRRORED["ne"]
('ge', 'ne')
"""

from __future__ import annotations

from dpsql.model.tree import Call, Expression, Literal

TRUE_IF = {
    "lt": (True, False, False),
    "le": (True, True, False),
    "eq": (False, True, False),
    "ne": (True, False, True),
    "ge": (False, True, True),
    "gt": (False, False, True),
}
"""Truth of each comparison where the left side is less, equal and greater."""

MIRRORED = {
    name: next(other for other, truth in TRUE_IF.items() if truth == here[::-1])
    for name, here in TRUE_IF.items()
}
"""The comparison `other` for which `a name b` is `b other a`."""


def against_constant(predicate: Expression) -> tuple[str, Expression, Literal] | None:
    """Return a comparison with a constant as (name, expression, constant), with the constant on the
    right.

    Returns None where the predicate is no comparison with a constant.

    >>> from dpsql.model.tree import INTEGER, Ref
    >>> one, rank = Literal(1, INTEGER), Ref(7, INTEGER)
    >>> against_constant(Call("le", (one, rank))) == ("ge", rank, one)
    True
    """
    match predicate:
        case Call(function=name, args=(side, Literal() as constant)) if name in MIRRORED:
            return name, side, constant
        case Call(function=name, args=(Literal() as constant, side)) if name in MIRRORED:
            return MIRRORED[name], side, constant
        case _:
            return None
