"""Replicates of a remembered answer, for a cursor: see `Cursor.replicates` (PRIVACY.md R111)."""

from __future__ import annotations

from typing import Any

from dpsql.answering.joint_plan import answered, count_tables, planned
from dpsql.answering.side_systems import Parts
from dpsql.interfaces.dbapi.dbapi_errors import NotSupportedError, ProgrammingError, raised_from
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import DpsqlError, Reason
from dpsql.model.vocabulary import Answer, Loss, Request
from dpsql.proxy import Proxy
from dpsql.release.release import Sampler
from dpsql.systems.releases.replicates import TableReplicates, draw_replicates, paid_measurements

_FEWEST, _MOST = 50, 1000
"""Numbers of replicates: fewer do not tell a smooth column from another."""

Rows = list[tuple[Any, ...]]


def draw_rows(proxy: object, request: Request | None, count: int) -> list[Rows]:
    """Return `count` copies of an answer's rows. Raises as `Cursor.replicates` does."""
    if not isinstance(proxy, Proxy):
        raise NotSupportedError("Replicates are drawn beside the data: connect with the policy.")
    if request is None:
        raise ProgrammingError("Replicates belong to one SELECT: execute it first.")
    if not _FEWEST <= count <= _MOST:
        raise ProgrammingError(f"The number of replicates is between {_FEWEST} and {_MOST:,}.")
    try:
        whole = replace(request, chain=proxy.chain(request.analyst))
        answer, drawn = proxy.run(ReplicateAnswer(whole, count))
    except DpsqlError as error:
        raise raised_from(error, request.sql) from None
    if not drawn.columns:
        why = drawn.why_not or "it has no noise"
        raise NotSupportedError(f"This answer has no replicates: {why}.")
    return [copy_rows(answer, drawn, number) for number in range(count)]


def copy_rows(answer: Answer, drawn: TableReplicates, number: int) -> Rows:
    """Return the rows of one replicate. Noisy columns without replicates are None."""
    noisy = {n for row in answer.margins for n, margin in enumerate(row) if margin is not None}
    rows = []
    for place, row in enumerate(answer.rows):
        cells = [None if n in noisy else value for n, value in enumerate(row)]
        for index, column in enumerate(drawn.columns):
            cells[column] = float(drawn.numbers[number, place, index])
        rows.append(tuple(cells))
    return rows


@dataclass(frozen=True, slots=True)
class ReplicateAnswer:
    """Statement of a program: draw `count` replicates of an answer that is remembered, for free."""

    request: Request
    count: int
    sampler: Sampler | None = field(default=None, repr=False)

    def run(self, parts: Parts) -> tuple[Answer, TableReplicates]:
        """Return the answer and its replicates. Raises ProgrammingError if it would be charged."""
        compiler, vault = parts.compiler, parts.vault
        plan = planned(compiler, vault, [self.request], parts.stop)
        for _, refused in plan.refusals:
            if refused.reason in (Reason.BAD_OPTION, Reason.UNSUPPORTED_SYNTAX):
                why = "It asks for a relative error, for no memory, or for a plan."
                raise NotSupportedError(f"This answer has no replicates. {why}")
            raise refused
        if plan.price != Loss(0):
            raise ProgrammingError("The answer is no longer remembered: execute the query again.")
        (answer,), _ = answered(compiler, vault, plan)
        (question,) = plan.questions
        measured = paid_measurements(parts, question, answer, count_tables(compiler, vault, plan))
        (drawn,) = draw_replicates(parts, [measured], self.sampler or vault.sampler, self.count)
        return answer, drawn
