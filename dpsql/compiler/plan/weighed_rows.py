"""Alternative rows of a block, which an engine adds up to the same integers."""

from __future__ import annotations

from dpsql.model.algebra import Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression, Ref


@dataclass(frozen=True, slots=True)
class Weighed:
    """The rows of a block without repetitions: each counts `weight` times, or once if None.

    Sums over them are the same integers; see `compiler.rewrite.weights`. With `groups` each row has
    all of its unit's rows in its group, and the column `groups` is at least the unit's number of
    groups. With `place` it is exactly that number, and `place` is the rank of the group among the
    unit's. The same columns in `turn` belong to single rows of a unit in its group.
    """

    rows: Relation
    weight: Expression | None
    groups: Ref | None = None
    place: Ref | None = None
    turn: tuple[Ref, Ref] | None = None
