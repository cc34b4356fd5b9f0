"""A release: named statements that are answered and charged together, with their whole loss.

Its replicates cost nothing: PRIVACY.md R111.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from dpsql import accountants
from dpsql.answering.joint_plan import answered, count_tables, planned
from dpsql.answering.side_systems import Parts
from dpsql.ledgers import Entry
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.vocabulary import Answer, Loss, Receipt, Request
from dpsql.release.release import Sampler
from dpsql.systems.releases.release_file import NamedStatement
from dpsql.systems.releases.replicates import (
    TableReplicates,
    draw_replicates,
    paid_measurements,
)

_MOST_ENTRIES = 10_000_000
RELEASE = "publish"
"""Client of a release in the ledger."""


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table of a release: its statement, its answer and its replicates."""

    name: str
    sql: str
    answer: Answer
    replicates: TableReplicates = field(default_factory=TableReplicates)


@dataclass(frozen=True, slots=True)
class PublishedRelease:
    """All tables of a release, the receipt, and the `loss` of everything that is published.

    `loss` counts every charge whose answer is used, also those that were paid earlier. The release
    is (`epsilon`, `delta`)-DP.
    """

    tables: tuple[PublishedTable, ...]
    receipt: Receipt
    loss: Loss
    accountant: str
    epsilon: float
    delta: Decimal


@dataclass(frozen=True, slots=True)
class PublishTables:
    """Statement of a program: answer named statements of one analyst together, with replicates.

    Charges as `AskTogether` does; an answer that is remembered is free.
    """

    statements: tuple[NamedStatement, ...]
    request: Request
    epsilon: Decimal | None = None
    count: int = 100
    sampler: Sampler | None = field(default=None, repr=False)

    def requests(self) -> tuple[Request, ...]:
        """Return one request for each statement, which resumes an interrupted release."""
        request = replace(self.request, client=RELEASE, resumes=True)
        return tuple(replace(request, sql=each.sql) for each in self.statements)

    def run(self, parts: Parts) -> PublishedRelease:
        """Return the release. Raises as `AskTogether` does."""
        compiler, vault = parts.compiler, parts.vault
        plan = planned(compiler, vault, self.requests(), parts.stop, self.epsilon)
        answers, receipt = answered(compiler, vault, plan)
        counts = count_tables(compiler, vault, plan)
        pairs = zip(plan.questions, answers, strict=True)
        measured = [paid_measurements(parts, each, answer, counts) for each, answer in pairs]
        drawn = draw_replicates(parts, measured, self.sampler or vault.sampler, self.count)
        tables = tuple(
            PublishedTable(each.name, each.sql, answer, replicates)
            for each, answer, replicates in zip(self.statements, answers, drawn, strict=True)
        )
        budget = plan.account.budget
        entries = vault.ledger.history(None, _MOST_ENTRIES)
        if all(each.is_known for each in measured):
            ids = frozenset[str]().union(*(each.ids for each in measured))
        else:  # an answer of unknown parts may be of any
            ids = frozenset(each.query_id for each in entries)
        losses = total_losses(ids, entries)
        return PublishedRelease(
            tables,
            receipt,
            losses.get(budget.accountant, Loss(0)),
            accountant=budget.accountant,
            epsilon=sum(
                accountants.get(name).epsilon(loss, Fraction(budget.delta))
                for name, loss in losses.items()
            ),
            delta=budget.delta * max(1, len(losses)),
        )


def total_losses(ids: frozenset[str], entries: Sequence[Entry]) -> dict[str, Loss]:
    """Return the loss of these charges and of all others of the same texts, by accountant.

    A limit that is found first has a charge of its own, under the text of its query.
    """
    texts = {(each.budget, each.inquiry.sql) for each in entries if each.query_id in ids}
    losses = dict[str, Loss]()
    for each in entries:
        if each.query_id in ids or (each.budget, each.inquiry.sql) in texts:
            losses[each.accountant] = losses.get(each.accountant, Loss(0)) + each.loss
    return losses
