"""Other rows than those of a block that an engine may add up, for the same integers."""

from __future__ import annotations

from dpsql.model.algebra import Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression, Ref


@dataclass(frozen=True, slots=True)
class Weighed:
    """The rows of a block without repetitions: each is `weight` of them, or just one if None.

    Sums over them are the same integers; see `compiler.rewrite.weights`. With `groups` each is all
    that its unit has in its group, and that column no less than the unit's number of groups. With
    `place` it is that number, and `place` is the group's in the order of its unit's. Such are the
    groups and place in `turn`, too, each row of which is one of its unit's in its group.
    """

    rows: Relation
    weight: Expression | None
    groups: Ref | None = None
    place: Ref | None = None
    turn: tuple[Ref, Ref] | None = None
