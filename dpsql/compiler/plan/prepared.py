"""A query ready to run: its plan and its statements."""

from __future__ import annotations

from typing import TypeAlias

from dpsql.compiler.plan.private_plan import BlockPlan, Poll, PrivatePlan, Rewritten
from dpsql.model.dataclass import dataclass
from dpsql.model.notices import Notice
from dpsql.model.origins import MeasuredColumns
from dpsql.model.vocabulary import Column


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query ready to run: `plan` is None where it reads public tables alone.

    `question` identifies what is asked of private data, whatever the epsilon. `wider` are the same
    query over more groups, which may have been paid: over noise on every group, where it would
    rather choose groups, and over those that a condition on their keys leaves out.
    `notices` are what is told with the answer.
    `data` identifies the data that the plan's proofs are about (None: any). `context` is what else
    tells questions apart. What is `measured` is kept for others; what would be where groups are
    measured that conditions leave out is `wide`.
    """

    columns: tuple[Column, ...]
    plan: PrivatePlan | None
    rewritten: Rewritten
    question: str
    notices: tuple[Notice, ...] = ()
    wider: tuple[Prepared, ...] = ()
    data: str | None = None
    context: tuple[str, ...] = ()
    measured: MeasuredColumns | None = None
    wide: WideTable | None = None

    @property
    def blocks(self) -> tuple[BlockPlan, ...]:
        """What is measured of private data."""
        return () if self.plan is None else self.plan.blocks

    @property
    def polls(self) -> tuple[Poll, ...]:
        """What is to be asked before, since bounds of what people add are not known."""
        return () if self.plan is None else self.plan.polls

    @property
    def selects(self) -> bool:
        """Whether a step needs a δ of its own: keys are selected, or means shown by a test."""
        return any(
            block.domain is None or any(release.stability for release in block.releases)
            for block in self.blocks
        )

    @property
    def cells(self) -> int:
        """How many values it holds of public subqueries that were evaluated once."""
        return sum(len(s.rows) * len(s.columns) for s in self.rewritten.stages if s.rows)

    @property
    def alternatives(self) -> tuple[Prepared, ...]:
        """The plans that answer the query, the one that is paid for first."""
        return (self, *self.wider)

    @property
    def questions(self) -> tuple[str, ...]:
        """What may have been paid for instead, the question itself first; none of public tables."""
        return () if self.plan is None else tuple(each.question for each in self.alternatives)

    def alternative(self, question: str) -> Prepared:
        """The plan of one of `questions`, or of what is measured wide for them."""
        wide = [] if self.wide is None else [self.wide.prepared]
        return next(plan for plan in [*self.alternatives, *wide] if plan.question == question)


Positions: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WideTable:
    """The `prepared` measurement of all groups, by a question that is its population's.

    Of its keys, in their order, the values are numbered: `sizes` says how many there are, `chosen`
    which of them conditions leave (None: it is a key of the question, whose groups are at these
    `places` of such keys). Column n of the question is column `columns[n]`.
    """

    prepared: Prepared
    sizes: Positions
    chosen: tuple[Positions | None, ...]
    places: tuple[Positions, ...]
    columns: Positions

    @property
    def measured(self) -> MeasuredColumns:
        """What it measures, with which noise."""
        measured = self.prepared.measured
        assert measured is not None
        return measured
