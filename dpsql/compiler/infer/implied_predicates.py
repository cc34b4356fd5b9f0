"""What holds in every row of a relation, and of which column or expression it speaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from dpsql.model.algebra import Filter, Join, Relation
from dpsql.model.tree import BOOLEAN, Call, Cast, Expression, JoinKind, Literal, Ref
from dpsql.model.walk import both, conjuncts, implied, map_children, refs, relations, walk

SUBJECT = -1
"""The id of the column that stands for an expression."""

STATEMENTS = frozenset("eq ne lt le gt ge in is_null".split())


@dataclass(frozen=True, slots=True)
class Held:
    """A predicate that holds in every row; with `of`, it says so of these columns only."""

    predicate: Expression
    of: frozenset[int] | None = None


def predicates(rows: Relation) -> Iterable[Held]:
    """What holds of the rows: filters and join conditions, the latter of the side they filter."""
    for relation in relations(rows):
        match relation:
            case Filter():
                yield from map(Held, implied(relation.predicate))
            case Join():
                outer = relation.kind is JoinKind.LEFT
                of = frozenset(f.id for f in relation.right.fields) if outer else None
                yield from (Held(part, of) for part in implied(relation.condition))
            case _:
                continue


def about(predicate: Expression, number: int) -> Expression | None:
    """What the predicate says of this column alone: of an OR, each branch must say something."""
    if refs(predicate) == {number}:
        return predicate
    if not (isinstance(predicate, Call) and predicate.function == "or"):
        return None
    branches = []
    for branch in predicate.args:
        mine = both(tuple(part for part in conjuncts(branch) if refs(part) == {number}))
        if mine is None:
            return None
        branches.append(mine)
    return Call("or", tuple(branches), BOOLEAN)


def equated(predicate: Expression, number: int) -> int | None:
    """The column that the predicate equates with column `number`, if it does just that."""
    if not (isinstance(predicate, Call) and predicate.function == "eq"):
        return None
    a, b = predicate.args
    if not (isinstance(a, Ref) and isinstance(b, Ref)) or a.id == b.id:
        return None
    return b.id if a.id == number else a.id if b.id == number else None


def statements(held: Iterable[Held]) -> dict[Expression, tuple[Expression, ...]]:
    """What the predicates say of expressions that they compare with constants.

    Each predicate stands under the expression as if that were the column `SUBJECT`.
    """
    found: dict[Expression, list[Expression]] = defaultdict(list)
    for each in held:
        for subject in _subjects(each.predicate):
            if each.of is not None and not refs(subject) <= each.of:
                continue
            stand_in = Ref(SUBJECT, subject.type)
            said = about(_replaced(each.predicate, subject, stand_in), SUBJECT)
            if said is not None:
                found[subject].append(said)
    return {subject: tuple(said) for subject, said in found.items()}


def _subjects(predicate: Expression) -> set[Call | Cast]:
    """The expressions that the predicate, or a part of it, compares with constants."""
    return {
        arg
        for node in walk(predicate)
        if isinstance(node, Call) and node.function in STATEMENTS
        for arg in node.args
        if isinstance(arg, Call | Cast)
        and refs(arg)
        and all(isinstance(other, Literal) for other in node.args if other is not arg)
    }


def _replaced(expression: Expression, old: Expression, new: Expression) -> Expression:
    if expression == old:
        return new
    return map_children(expression, lambda child: _replaced(child, old, new))
