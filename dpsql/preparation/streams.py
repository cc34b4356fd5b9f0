"""streams: a compiled statement as queries for sparse vector, one per public key; nothing is
run.

A stream has one additive measurement. Each key is a query of its own, and sparse vector uses only
how far one unit moves one query. The number of groups of a unit does not matter, so none are
sampled.

Proof (PRIVACY.md R52). A unit's clipped total moves one query by the farther end of its clip, or
from end to end if it is replaced. Totals that are not negative move all queries one way.
"""

from __future__ import annotations

from typing import assert_never

from dpsql.compiler.aggregates.recipe import unlimited
from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql, Release
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.engines import ScratchTable
from dpsql.model.algebra import Evaluated, Project, Relation, Released
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Assumed, Clipped, FewValues, Listed, Notice
from dpsql.model.tree import NOWHERE, Cast, Expression, Ref, Span, Value
from dpsql.model.vocabulary import Column, Neighbours
from dpsql.release.finish import evaluated

_SHAPE = "Ask SELECT keys, one COUNT or SUM, FROM … GROUP BY keys, without more around it."


@dataclass(frozen=True, slots=True)
class QueryStream:
    """The queries of one statement, one per key of `domain`; `keys` are the names of its
    columns.

    `sql` measures them all. `question` identifies the question (`earlier`: as versions before 0.2
    did), `data` its data version (None: any). The SQL reads `tables`, which were evaluated before.
    `notices` are about the `columns` of the statement.
    """

    keys: tuple[str, ...]
    domain: tuple[tuple[Value, ...], ...]
    release: Release
    sql: BlockSql
    question: str
    data: str | None = None
    tables: tuple[ScratchTable, ...] = ()
    notices: tuple[Notice, ...] = ()
    columns: tuple[Column, ...] = ()
    earlier: str = ""

    @property
    def distance(self) -> int:
        """Largest change of one query by one unit, in lattice steps.

        A unit that is added or removed moves it by its own total, in either direction, so the
        farther end of the clipping bounds limits it. A unit that is replaced may move it from end
        to end. Both may be zero with an analyst's own bounds; the result is at least 1.
        """
        clip = self.release.sensitivity
        match clip.neighbours:
            case Neighbours.ADD_REMOVE:
                return max(1, clip.linf)
            case Neighbours.REPLACE:
                return max(1, max(0, clip.upper) - min(0, clip.lower))
            case _:
                assert_never(clip.neighbours)

    @property
    def one_way(self) -> bool:
        """True if adding a unit increases every query, and units cannot be replaced.

        That holds for sums over units of totals >= 0, and for counts of distinct values, because a
        unit adds to a set. A unit's contribution depends on its own rows alone.
        """
        added = self.release.sensitivity.neighbours is Neighbours.ADD_REMOVE
        return added and self.release.query.total_lower >= 0


def stream(prepared: Prepared, dialect: Dialect) -> QueryStream:
    """Return the stream of a statement, in the SQL of the owner's database.

    Raises `Refused` if it is not a stream.
    """
    plan = prepared.plan
    if plan is None:
        raise _refusal(
            "watching public tables", fix="Ask it as a query: public tables cost nothing."
        )
    if len(plan.blocks) != 1 or any(not isinstance(s, Evaluated) for s in plan.stages):
        raise _refusal("watching a query in several steps")
    (block,) = plan.blocks
    if plan.polls:
        raise unlimited(block.block.span, block.block.declared)
    if not isinstance(block.keys, ListedKeys):
        raise _refusal(
            "watching private group keys",
            block.block.keys[0].expression.span,
            fix="Group by columns with declared values.",
        )
    alone = [_is_total(query) for query in block.queries] == [True] and not block.histograms
    if not (alone and _is_plain(plan.outer, block)):
        raise _refusal("watching anything but one COUNT or SUM", block.block.span, fix=_SHAPE)
    measured = dialect.block(replace(block, enforce_l0=False))
    return QueryStream(
        keys=tuple(key.field.name for key in block.block.keys),
        domain=block.keys.domain,
        release=block.releases[0],
        sql=measured,
        question=prepared.question,
        earlier=prepared.earlier,
        data=prepared.data,
        tables=tuple(evaluated(prepared.rewritten, number) for number in measured.stages),
        notices=tuple(
            n for n in prepared.notices if isinstance(n, Clipped | FewValues | Listed | Assumed)
        ),
        columns=prepared.columns,
    )


def _refusal(construct: str, span: Span = NOWHERE, **facts: str) -> Refused:
    return Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, span, construct=construct, **facts)


def _is_total(query: kinds.Measurement) -> bool:
    """Test whether it is a total that each unit moves by at most its clipping bound."""
    match query:
        case (
            kinds.RowCount()
            | kinds.UnitCount()
            | kinds.ClippedSum()
            | kinds.DistinctCount()
            | kinds.DistinctSum()
        ):
            return True
        case kinds.ScaledTotal() | kinds.BlockAverage() | kinds.RowTest() | kinds.StableMean():
            return False
        case _:
            assert_never(query)


def _is_plain(outer: Relation, block: BlockPlan) -> bool:
    """Test whether the outputs are the group's keys and its one measurement, as released."""
    keys = {key.field.id for key in block.block.keys}
    columns = [_released(outer, field.id) for field in outer.fields]
    return [c for c in columns if c not in keys] == [column.id for column in block.columns]


def _released(relation: Relation, column: int) -> int | None:
    """Return the released column or key that a column repeats; None if it is computed."""
    match relation:
        case Project():
            (item,) = (item for item in relation.items if item.field.id == column)
            below = _repeated(item.expression)
            return None if below is None else _released(relation.input, below)
        case Released():
            return next(n for n, field in relation.reads.items() if field.id == column)
        case _:
            return None


def _repeated(expression: Expression) -> int | None:
    """Return the column that an expression repeats, perhaps in another type; else None."""
    match expression:
        case Ref(id=column):
            return column
        case Cast(arg=Ref(id=column)):
            return column
        case _:
            return None
