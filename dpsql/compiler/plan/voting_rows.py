"""Votes of units for rows that wait for an earlier release: over more rows, which do not wait.

`cost > (SELECT AVG(cost) FROM encounters)` compares rows with a number that is released first. No
unit can vote for the bound of its rows there before that number is there. So it votes for a bound
of all rows that it has without the comparison. It has at least the rows of the query, and at least
as much of a count, and of a sum of sizes (absolute values). Hence at most as many units exceed the
bound in the query as with all rows.

Proof (PRIVACY.md R71).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.compiler.plan.measurement_kinds import (
    ClippedSum,
    DistinctCount,
    MeanVote,
    RangeVote,
    RatioVote,
    RowCount,
    UnitCount,
    UnitVote,
    Vote,
)
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.walk import both, conjuncts, refs, relations

_SAME = ("eq", "is_not_distinct")
_KEPT = (tree.JoinKind.INNER, tree.JoinKind.CROSS, tree.JoinKind.LEFT)


@dataclass(frozen=True, slots=True)
class VotingRows:
    """The rows of a block without its conditions on earlier releases, whose columns are `waiting`.

    With `one_row`, a unit has at most one row.
    """

    rows: algebra.Relation
    waiting: frozenset[int]
    one_row: bool

    def vote(self, vote: UnitVote) -> UnitVote | None:
        """Return a vote over these rows in place of one over the block's; None if there is none."""
        match vote:
            case Vote():
                total = self._total(vote.total)
                keys = tuple(key for key in vote.keys if not self._waits(key.expression))
                return None if total is None else replace(vote, total=total, keys=keys)
            case MeanVote(total=total):
                larger = self._sum(total) if self.one_row else None
                if larger is None or larger.argument != total.argument:
                    return None
                return replace(vote, total=larger)
            case RangeVote():
                larger = self._sum(vote.total)
                return None if larger is None else replace(vote, total=larger)
            case RatioVote():
                return None

    def _total(
        self, total: RowCount | UnitCount | DistinctCount | ClippedSum
    ) -> RowCount | UnitCount | DistinctCount | ClippedSum | None:
        match total:
            case RowCount() | UnitCount():
                return replace(total, condition=self._without(total.condition))
            case DistinctCount(argument=argument):
                waits = self._waits(argument)
                return None if waits else replace(total, condition=self._without(total.condition))
            case ClippedSum():
                return self._sum(total)

    def _sum(self, total: ClippedSum) -> ClippedSum | None:
        """Return the sum of values that are at least as far from zero, without waiting columns."""
        match total.argument:
            case argument if not self._waits(argument):
                pass
            case tree.Call("case", (_, argument, tree.Literal(value=None | 0))):
                if total.centre or self._waits(argument):
                    return None
            case _:
                return None
        larger = replace(total, argument=argument, condition=self._without(total.condition))
        signed = total.total_lower < 0 < total.total_upper
        return _sum_of_sizes(larger) if signed and not self.one_row else larger

    def _without(self, condition: tree.Expression | None) -> tree.Expression | None:
        return both(tuple(part for part in conjuncts(condition) if not self._waits(part)))

    def _waits(self, expression: tree.Expression) -> bool:
        return not refs(expression).isdisjoint(self.waiting)


def _sum_of_sizes(total: ClippedSum) -> ClippedSum | None:
    """Return the sum of absolute values, which cancel in no sum of more rows."""
    argument = total.argument
    if total.centre or not isinstance(argument, tree.Ref | tree.Call | tree.Cast):
        return None
    size = tree.Call("abs", (argument,), argument.type)
    return replace(
        total,
        argument=size,
        lower=0,
        upper=max(-total.lower, total.upper),
        total_lower=0,
        total_upper=max(-total.total_lower, total.total_upper),
    )


def voting_rows(
    rows: algebra.Relation,
    max_rows: int | None,
    stages: Sequence[algebra.Relation],
    block_keys: Sequence[int],
) -> VotingRows | None:
    """Return the rows that vote for those that wait for a stage; None if there are none.

    `block_keys` are the numbers of keys of the blocks.
    """
    if not any(map(_is_awaited, relations(rows))):
        return None
    builder = _Builder(stages, block_keys, set())
    voting = builder.without_stages(rows)
    return None if voting is None else VotingRows(voting, frozenset(builder.waiting), max_rows == 1)


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builder of relations without stages, whose columns it collects in `waiting`."""

    stages: Sequence[algebra.Relation]
    block_keys: Sequence[int]
    waiting: set[int]

    def without_stages(self, relation: algebra.Relation) -> algebra.Relation | None:
        """Return at least the rows of a relation; None where there may be fewer."""
        match relation:
            case algebra.Join(right=algebra.Staged(source=None) as staged):
                if relation.kind not in _KEPT or not self._is_single(relation.condition, staged):
                    return None
                self.waiting.update(field.id for field in staged.fields)
                return self.without_stages(relation.left)
            case algebra.Match(other=algebra.Staged(source=None)):
                self.waiting.add(relation.mark.id)
                return self.without_stages(relation.input)
            case algebra.Join():
                return self._joined(relation)
            case algebra.Filter():
                below = self.without_stages(relation.input)
                left = self._without(relation.predicate)
                if below is None or left is None:
                    return below
                return replace(relation, input=below, predicate=left)
            case algebra.Project():
                below = self.without_stages(relation.input)
                self.waiting.update(i.field.id for i in relation.items if self._waits(i.expression))
                items = tuple(i for i in relation.items if i.field.id not in self.waiting)
                return None if below is None else replace(relation, input=below, items=items)
            case _:
                return None if any(map(_is_awaited, relations(relation))) else relation

    def _joined(self, join: algebra.Join) -> algebra.Relation | None:
        left, right = self.without_stages(join.left), self.without_stages(join.right)
        condition = self._without(join.condition)
        inner = join.kind in (tree.JoinKind.INNER, tree.JoinKind.CROSS)
        if left is None or right is None or not (inner or condition == join.condition):
            return None
        kind = join.kind if condition is not None else tree.JoinKind.CROSS
        return replace(join, left=left, right=right, kind=kind, condition=condition)

    def _is_single(self, condition: tree.Expression | None, staged: algebra.Staged) -> bool:
        """Test whether a row meets at most one row of a stage: all keys of its groups are equal."""
        equal = [
            p for p in conjuncts(condition) if isinstance(p, tree.Call) and p.function in _SAME
        ]
        keys = {arg.id for part in equal for arg in part.args if isinstance(arg, tree.Ref)}
        stage = self.stages[staged.stage]
        same = {
            there.id
            for here, there in zip(staged.fields, stage.fields, strict=True)
            if here.id in keys
        }
        while isinstance(stage, algebra.Project | algebra.Filter):
            if isinstance(stage, algebra.Project):
                read = {
                    i.expression.id
                    for i in stage.items
                    if i.field.id in same and isinstance(i.expression, tree.Ref)
                }
                same |= read
            stage = stage.input
        if not isinstance(stage, algebra.Released):
            return False
        return same >= {field.id for field in stage.fields[: self.block_keys[stage.block]]}

    def _without(self, condition: tree.Expression | None) -> tree.Expression | None:
        return both(tuple(part for part in conjuncts(condition) if not self._waits(part)))

    def _waits(self, expression: tree.Expression) -> bool:
        return not refs(expression).isdisjoint(self.waiting)


def _is_awaited(relation: algebra.Relation) -> bool:
    return isinstance(relation, algebra.Staged) and relation.source is None
