"""The outer query as a person reads it: without errors, and printed only for a reader."""

from __future__ import annotations

from dpsql.model.algebra import Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression


@dataclass(frozen=True, slots=True)
class ShownQuery:
    """The outputs of a relation over released tables; new columns have ids from `following` on."""

    relation: Relation
    outputs: tuple[Expression, ...]
    following: int
