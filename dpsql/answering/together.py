"""Statements of programs about several queries together, for `Proxy.run`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dpsql.answering.joint_plan import JointPlan, answered, planned
from dpsql.answering.side_systems import OTHER, InPeriods, Parts
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Answer, Receipt, Request


@dataclass(frozen=True, slots=True)
class PlanTogether(InPeriods):
    """The joint price of one analyst's statements, and their precision.

    It is for an `epsilon`, or the least price for which each is as precise as alone. Runs nothing,
    charges nothing.
    """

    requests: Sequence[Request]
    epsilon: Decimal | None = None

    @property
    def door(self) -> str:
        return next((request.door for request in self.requests), OTHER)

    def run(self, parts: Parts) -> JointPlan:
        """Return the plan, with refusals of single statements. Raises as `Proxy.explain` does."""
        requests = [parts.with_chain(request) for request in self.requests]
        return planned(parts.compiler, parts.vault, requests, parts.stop, self.epsilon)


@dataclass(frozen=True, slots=True)
class AskTogether(InPeriods):
    """One analyst's statements, measured and charged together, with answers that agree.

    The price is that of `PlanTogether`.
    """

    requests: Sequence[Request]
    epsilon: Decimal | None = None

    @property
    def door(self) -> str:
        return PlanTogether(self.requests).door

    def run(self, parts: Parts) -> tuple[tuple[Answer, ...], Receipt]:
        """Return the answers.

        Raises as `Proxy.ask` does, for the first statement that cannot be asked.
        """
        plan = PlanTogether(self.requests, self.epsilon).run(parts)
        return answered(parts.compiler, parts.vault, plan)
