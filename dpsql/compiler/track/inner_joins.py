"""A tree of inner joins as a set: what it joins, on which conditions, and the tree with less in it.

Inner joins commute and a condition may be asked anywhere above its columns, so leaves can be taken
out and put in wherever that leaves the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dpsql.model.algebra import Filter, Join, Relation, Scan, Values
from dpsql.model.tree import Expression, JoinKind
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, conjuncts, refs


@dataclass(frozen=True, slots=True)
class Joined:
    """What an inner join joins, and every condition on it."""

    leaves: tuple[Relation, ...]
    conditions: tuple[Expression, ...]

    @classmethod
    def of(cls, relation: Relation) -> Joined:
        match relation:
            case Filter():
                inner = cls.of(relation.input)
                return cls(inner.leaves, inner.conditions + conjuncts(relation.predicate))
            case Join(kind=JoinKind.INNER | JoinKind.CROSS):
                left, right = cls.of(relation.left), cls.of(relation.right)
                own = conjuncts(relation.condition)
                return cls(left.leaves + right.leaves, left.conditions + right.conditions + own)
            case _:
                return cls((relation,), ())

    def groups(self) -> list[tuple[Relation, ...]]:
        """The leaves in groups that no condition ties to one another."""
        groups: list[tuple[Relation, ...]] = [(leaf,) for leaf in self.leaves]
        for condition in self.conditions:
            tied = [group for group in groups if refs(condition) & columns_of(group)]
            if len(tied) > 1:
                groups = [group for group in groups if group not in tied]
                groups.append(tuple(leaf for group in tied for leaf in group))
        return groups


def columns_of(leaves: Sequence[Relation]) -> frozenset[int]:
    """The columns of these relations."""
    return frozenset(f.id for leaf in leaves for f in leaf.fields)


def rebuilt(
    relation: Relation,
    leaf: Callable[[Relation], Relation | None],
    kept: Callable[[Expression], bool],
) -> Relation | None:
    """The tree with `leaf` of each leaf, None of one that goes, and only the conditions `kept`."""
    match relation:
        case Filter():
            inner = rebuilt(relation.input, leaf, kept)
            return inner if inner is None else filtered(inner, relation.predicate, kept)
        case Join(kind=JoinKind.INNER | JoinKind.CROSS):
            left, right = (rebuilt(side, leaf, kept) for side in (relation.left, relation.right))
            if left is None or right is None:
                alone = left if right is None else right
                return None if alone is None else filtered(alone, relation.condition, kept)
            own = tuple(filter(kept, conjuncts(relation.condition)))
            kind = relation.kind if own else JoinKind.CROSS
            return replace(relation, left=left, right=right, kind=kind, condition=both(own))
        case _:
            return leaf(relation)


def filtered(
    relation: Relation, predicate: Expression | None, kept: Callable[[Expression], bool]
) -> Relation:
    """The rows that meet those conditions of the predicate that are kept."""
    condition = both(tuple(filter(kept, conjuncts(predicate))))
    return relation if condition is None else Filter(relation, condition)


def is_public_table(part: Relation, policy: Policy) -> bool:
    """Whether this is rows of constants or a public table."""
    if isinstance(part, Scan):
        table = policy.table(part.table)
        return table is not None and not table.private
    return isinstance(part, Values)
