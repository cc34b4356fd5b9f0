"""What DP_STDDEV(x) and its kin name: a column of their own SELECT list before one of FROM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dpsql.model.algebra import Relation
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import STATED, AggregateCall, Call, Expression, Name, SelectItem
from dpsql.model.walk import expressions, map_children, walk


def is_stated(expression: Expression) -> bool:
    """Whether this is the error of something.

    >>> is_stated(Call("dp_stddev", (Name("n"),))), is_stated(Name("n"))
    (True, False)
    """
    return isinstance(expression, Call) and expression.function in STATED


@dataclass(frozen=True, slots=True)
class Outputs:
    """The items of a SELECT list; `unfolded` writes out the aliases in what aggregates read."""

    items: tuple[SelectItem, ...]
    unfolded: Callable[[Expression], Expression]

    def named(self) -> tuple[SelectItem, ...]:
        """The items, each error in them over the item whose error it is.

        Raises `Refused` for a name of several different items and for the error of an error.
        """
        return tuple(
            SelectItem(self.meant(item.expression, place), item.alias)
            for place, item in enumerate(self.items)
        )

    def meant(self, expression: Expression, own: int | None = None) -> Expression:
        """An expression of the same SELECT (its item number `own`), each error as in `named`."""
        if isinstance(expression, AggregateCall):
            return expression  # reads columns of FROM
        if is_stated(expression):
            return map_children(expression, lambda arg: self._replaced(arg, own))
        return map_children(expression, lambda child: self.meant(child, own))

    def _replaced(self, expression: Expression, own: int | None) -> Expression:
        if isinstance(expression, AggregateCall):
            return self.unfolded(expression)
        if not isinstance(expression, Name) or expression.table is not None:
            return map_children(expression, lambda child: self._replaced(child, own))
        name = expression.name
        found = {
            item.expression
            for place, item in enumerate(self.items)
            if place != own and (item.alias or "").lower() == name.lower()
        }
        if len(found) > 1:
            raise Refused(Reason.AMBIGUOUS_COLUMN, expression.span, column=name)
        (meaning,) = found or {expression}
        if any(map(is_stated, walk(meaning))):
            construct = f"the error of {name}, which is made of an error"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, expression.span, construct=construct)
        return meaning


def stated_in(relation: Relation) -> Iterator[Call]:
    """The errors that a relation itself states, those of its inputs left out."""
    for expression in expressions(relation):
        for node in walk(expression):
            if isinstance(node, Call) and is_stated(node):
                yield node


def require_none(relation: Relation, where: str) -> None:
    """Refuse the errors that a relation itself states, `where` nothing is noisy yet."""
    for call in stated_in(relation):
        construct = f"{call.function.upper()} {where}"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, call.span, construct=construct)
