"""A query ready to run: its plan and its statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from dpsql.compiler.plan.private_plan import BlockPlan, Poll, PrivatePlan, Rewritten
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.notices import Notice
from dpsql.model.origins import MeasuredColumns
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import Column


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query that is ready to run: `plan` is None where it reads public tables alone.

    `question` identifies the query on private data, without its epsilon, and what the policy says
    of what it reads; `earlier` does so without the policy, as versions before 0.2 did. `wider` are
    the same query over more groups, which may have been paid: with noise on every group, where this
    plan would choose groups, or with groups that a condition on their keys excludes. `notices`
    belong to the answer. `data` identifies the data of the plan's proofs (None: any). `context` is
    the rest of the query's identity. `measured` describes columns that are kept for other queries;
    `wide` is the measurement of all groups that conditions exclude. With periods of people, it is
    `charged` to these.
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
    earlier: str = ""
    charged: ChargedPeriods | None = None

    @property
    def blocks(self) -> tuple[BlockPlan, ...]:
        """The blocks that are measured on private data."""
        return () if self.plan is None else self.plan.blocks

    @property
    def polls(self) -> tuple[Poll, ...]:
        """The polls to run first, because bounds on contributions are unknown."""
        return () if self.plan is None else self.plan.polls

    @property
    def of_all_groups(self) -> Prepared:
        """The same, with polls that weigh errors over all groups, even if only some are shown."""
        if self.plan is None:
            return self
        polls = tuple(replace(poll, groups=poll.of_all) for poll in self.polls)
        return replace(self, plan=replace(self.plan, polls=polls))

    @property
    def selects(self) -> bool:
        """True if a step needs its own δ: partition selection, or means released by a test."""
        return any(
            block.domain is None or any(release.stability for release in block.releases)
            for block in self.blocks
        )

    @property
    def cells(self) -> int:
        """Number of values in public subqueries that were evaluated once."""
        return sum(len(s.rows) * len(s.columns) for s in self.rewritten.stages if s.rows)

    @property
    def alternatives(self) -> tuple[Prepared, ...]:
        """The plans that answer the query, the one that is charged first."""
        return (self, *self.wider)

    @property
    def questions(self) -> tuple[str, ...]:
        """The queries that may have been paid instead, the query itself first; empty for public
        tables.
        """
        return () if self.plan is None else tuple(each.question for each in self.alternatives)

    def alternative(self, question: str) -> Prepared:
        """Return the plan of one of `questions`, or the wide measurement for them."""
        wide = [] if self.wide is None else [self.wide.prepared]
        return next(plan for plan in [*self.alternatives, *wide] if plan.question == question)


Positions: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WideTable:
    """The `prepared` measurement of all groups, identified by the query of its population.

    `earlier` has the present digest of each key and measurement by that of versions before 0.2. The
    values of its keys are numbered: `sizes` has their numbers of values. `chosen` has the
    values that conditions keep (None: it is a key of the query; its groups have these `places`).
    Column n of the query is column `columns[n]`.
    """

    prepared: Prepared
    sizes: Positions
    chosen: tuple[Positions | None, ...]
    places: tuple[Positions, ...]
    columns: Positions
    earlier: Mapping[str, str]

    @property
    def measured(self) -> MeasuredColumns:
        """The measured columns, and their noise."""
        measured = self.prepared.measured
        assert measured is not None
        return measured
