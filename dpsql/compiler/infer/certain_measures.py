"""Measures of blocks that a query need not measure: what it does not read, and equal counts.

A count of a column without NULL is the count of all rows, so their difference is 0. A measure that
no output, condition or order reads is left out.

Proof (PRIVACY.md R38). It depends on the text, the policy, its facts and public data alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from dpsql.compiler.infer.certain_rows import CertainRows
from dpsql.compiler.plan.private_plan import PrivateBlock
from dpsql.model import algebra, tree, walk
from dpsql.model.algebra import Relation
from dpsql.model.comparisons import TRUE_IF
from dpsql.model.row_notices import ByFact, CertainFact, NoRows

Columns: TypeAlias = frozenset[int]
_PLAIN = algebra.Released | algebra.Project | algebra.Filter | algebra.Sort | algebra.Limit
"""Relations that make no NULL of a released number."""


def read_columns(relation: Relation, outputs: Columns) -> Columns:
    """Return the columns of released tables on which `outputs` of a relation depend, or
    its rows.
    """
    match relation:
        case algebra.Released():
            return outputs & {f.id for f in relation.fields}
        case algebra.Project(items=items):
            read = _read_by(item.expression for item in items if item.field.id in outputs)
            return read_columns(relation.input, read)
        case algebra.Filter() | algebra.Sort() | algebra.Limit():
            return read_columns(relation.input, outputs | _read_by(walk.expressions(relation)))
        case algebra.Aggregate(keys=keys, measures=measures):
            calls = (m.call for m in measures if m.field.id in outputs)
            read = _read_by((*(key.expression for key in keys), *calls))
            return read_columns(relation.input, read)
        case _:
            every = _read_by(walk.expressions(relation)) | {f.id for f in relation.fields}
            below = (
                read_columns(each, every | {f.id for f in each.fields})
                for each in walk.inputs(relation)
            )
            return frozenset[int]().union(*below)


def _read_by(read: Iterable[tree.Expression]) -> Columns:
    return frozenset[int]().union(*map(walk.refs, read))


class EqualCounts:
    """The counts of blocks that are equal by facts, and what follows for expressions over them."""

    def __init__(self, blocks: Sequence[PrivateBlock], outer: Relation, judge: CertainRows) -> None:
        self.reasons: dict[NoRows, None] = {}
        self._of = dict[int, tuple[int, tree.AggregateCall]]()
        parts = list(walk.relations(outer))
        counts = [
            (field.id, released.block, block.measures[place].call)
            for released in parts
            if isinstance(released, algebra.Released) and (block := blocks[released.block])
            for field, place in zip(
                released.fields[len(block.keys) :], released.measures, strict=True
            )
            if block.measures[place].call.function == "count"
        ]
        if len(counts) > 1 and all(isinstance(part, _PLAIN) for part in parts):
            for field, number, call in counts:
                self._of[field] = number, _whole(call, blocks[number], judge)

    def folded(self, relation: Relation) -> Relation:
        """Return the relation with constants for what equal counts decide."""
        if not self._of:
            return relation
        return walk.map_expressions(walk.map_inputs(relation, self.folded), self._decided)

    def _decided(self, expression: tree.Expression) -> tree.Expression:
        match expression:
            case tree.Call(function=name, args=(tree.Ref(id=a), tree.Ref(id=b))) if (
                a != b and a in self._of and self._of[a] == self._of.get(b)
            ):
                value = 0 if name == "sub" else TRUE_IF[name][1] if name in TRUE_IF else None
                if value is not None:
                    self.reasons[ByFact(CertainFact.EQUAL, "")] = None
                    return tree.Literal(value, expression.type)
        return walk.map_children(expression, self._decided)


def _whole(call: tree.AggregateCall, block: PrivateBlock, judge: CertainRows) -> tree.AggregateCall:
    """Return a count of a column without NULL as the count of rows."""
    match call.args:
        case (tree.Ref(id=column),) if not call.distinct and judge.why_present(block.rows, column):
            call = replace(call, args=(tree.Star(),))
        case (tree.Star(),):
            call = replace(call, args=(tree.Star(),))
    return replace(call, span=tree.NOWHERE)
