"""Queries that their text alone makes empty: WHERE 1 = 0 and LIMIT 0, asked to learn columns."""

from __future__ import annotations

from dpsql.model.algebra import (
    Filter,
    Item,
    Limit,
    Match,
    OneRow,
    Project,
    Relation,
    Resolved,
    Sort,
    Window,
)
from dpsql.model.tree import BOOLEAN, NULL, Call, Cast, Expression, Literal

NOTHING = Literal(None, NULL)
NEVER = Literal(value=False, type=BOOLEAN)


def without_rows(resolved: Resolved) -> Resolved:
    """The same columns over no table at all, where no data could give a row; else as it is.

    What is left reads nothing, so that its answer says nothing about data.
    """
    relation = resolved.relation
    if not is_empty(relation):
        return resolved
    items = tuple(
        Item(f, NOTHING if f.type == NULL else Cast(NOTHING, f.type)) for f in relation.fields
    )
    return Resolved(Filter(Project(OneRow(), items), NEVER))


def is_empty(relation: Relation) -> bool:
    """Whether the text alone shows that this has no rows.

    An aggregate has: one of totals, or one for each public key.

    >>> is_empty(Filter(OneRow(), NEVER)), is_empty(OneRow())
    (True, False)
    """
    match relation:
        case Limit(limit=0):
            return True
        case Filter(input=source, predicate=predicate):
            return _never(predicate) or is_empty(source)
        case Project() | Sort() | Window() | Match() | Limit():
            return is_empty(relation.input)
        case _:
            return False


def _never(predicate: Expression) -> bool:
    """Whether a condition is the constant FALSE or compares constants that differ, or are one."""
    match predicate:
        case Literal(value=False, type=kind):
            return kind == BOOLEAN
        case Call(function="and", args=args):
            return any(map(_never, args))
        case Call(
            function="eq" | "ne" as function, args=(Literal(int() as a), Literal(int() as b))
        ):
            return (a == b) is (function == "ne")
        case _:
            return False
