"""Comparisons, and what each says with its sides swapped: the only such table.

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
"""Whether each comparison holds where the left side is less, equal and greater."""

MIRRORED = {
    name: next(other for other, truth in TRUE_IF.items() if truth == here[::-1])
    for name, here in TRUE_IF.items()
}
"""`a name b` says of b and a what this comparison says: less and greater change places."""


def against_constant(predicate: Expression) -> tuple[str, Expression, Literal] | None:
    """A comparison, what is compared and the constant, as if that stood on the right.

    None where the predicate compares nothing, or nothing with a constant.

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
