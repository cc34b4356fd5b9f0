"""Synthetic rows: one charge, then marginals, a selection, pair marginals, and sampling.

An adversary sees the noisy tables, the selected pairs, and rows. The rows follow from these and
from the query id, which is public. Any number of rows can be drawn for free. If the query is
repeated, its tables are reused.

Privacy loss: PRIVACY.md R78.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsql.answering.side_systems import Parts
from dpsql.consistency.drawn_rows import PublicDice, drawn, spread
from dpsql.consistency.graphical_model import fitted, nearest
from dpsql.engines import EngineFailed, Stop
from dpsql.engines.limited import limited
from dpsql.ledgers import Inquiry
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import Column, Noisy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.release.execution import guarded
from dpsql.systems.synthesis.mbi_fit import fitted_by_mbi, require_mbi
from dpsql.systems.synthesis.released_marginals import (
    ReleasedMarginals,
    marginals_of,
    measured_in,
    over_selected,
    released,
)
from dpsql.systems.synthesis.synthesis_plan import SynthesisPlan, SynthesisWish, planned
from dpsql.systems.synthesis.synthetic_columns import ListedColumn, SyntheticColumn, members
from dpsql.vault.joint_run import JointRun
from dpsql.vault.vault import Vault


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTable:
    """Synthetic rows, as cells of their columns and as values, with their marginals.

    `source` is the SELECT of the private rows.
    """

    source: str
    columns: tuple[SyntheticColumn, ...]
    cells: tuple[np.ndarray, ...]
    rows: Sequence[tuple[Any, ...]]
    marginals: ReleasedMarginals
    receipt: Receipt

    @property
    def shown(self) -> tuple[Column, ...]:
        """Names and types of the columns."""
        return tuple(Column(column.name, column.type) for column in self.columns)

    @property
    def selected(self) -> tuple[str, ...]:
        """Columns with privately selected values. Other values are NULL in them."""
        return tuple(c.name for c in self.columns if isinstance(c, ListedColumn) and c.selected)


@dataclass(frozen=True, slots=True)
class RowsWish:
    """Options for rows: the number (None: the noisy number, within limits), and the fit by
    `mbi`.
    """

    count: int | None = None
    mbi: bool = False


@dataclass(frozen=True, slots=True)
class _Paid:
    """The released tables of a plan, with their receipt."""

    plan: SynthesisPlan
    answer: Sequence[Noisy]
    receipt: Receipt


def synthesised(
    compiler: Compiler, vault: Vault, wish: SynthesisWish, stop: Stop, rows: RowsWish
) -> SyntheticTable:
    """Make synthetic rows, from tables that are charged now or remembered.

    Raises as `Proxy.ask` does, and MissingExtra.
    """
    if rows.count is not None and rows.count < 1:
        facts = {"value": rows.count, "known": ("a positive number",)}
        raise Refused(Reason.BAD_OPTION, option="rows", **facts)
    if rows.mbi:
        require_mbi()
    plan = planned(compiler, wish, stop)
    most = _most_rows(compiler, plan)
    if (rows.count or 0) > most:
        raise Refused(Reason.TOO_LARGE, what="synthetic rows", limit=most)
    with vault.in_flight.paying(compiler, plan.source.payer, plan.cost.question, stop):
        paid = _recalled(compiler, vault, wish, plan, stop) or _paid(compiler, vault, plan, stop)
    return _within(compiler, stop, paid, rows)


def remembered(
    compiler: Compiler, vault: Vault, wish: SynthesisWish, stop: Stop, rows: RowsWish
) -> SyntheticTable | None:
    """Make synthetic rows from remembered tables; None if there are none."""
    paid = _recalled(compiler, vault, wish, planned(compiler, wish, stop), stop)
    return None if paid is None else _within(compiler, stop, paid, rows)


def _recalled(
    compiler: Compiler, vault: Vault, wish: SynthesisWish, plan: SynthesisPlan, stop: Stop
) -> _Paid | None:
    recalled = vault.memory.recall_cost(compiler, plan.source.payer, plan.cost)
    if recalled is None:
        return None
    then = replace(wish, request=replace(wish.request, epsilon=recalled.epsilon))
    plan = planned(compiler, then, stop)
    receipt = vault.till.receipt(plan.source.payer, recalled.query_id)
    return _Paid(plan, recalled.answer, receipt)


def _most_rows(compiler: Compiler, plan: SynthesisPlan) -> int:
    """Return the maximum number of rows."""
    return compiler.policy.limits.max_result_cells // len(plan.columns)


def _within(compiler: Compiler, stop: Stop, paid: _Paid, rows: RowsWish) -> SyntheticTable:
    """Sample the rows of an answer within the time limit of a statement."""
    answer, receipt = paid.answer, paid.receipt

    def table_of() -> SyntheticTable:
        with limited(stop, compiler.policy.limits.statement_seconds):
            over = over_selected(compiler, paid.plan, answer, stop)
            most = _most_rows(compiler, paid.plan)
            return _table_of(over, marginals_of(over, answer), receipt, rows, most)

    return guarded(receipt.query_id, table_of, charged=not receipt.remembered)


def _paid(compiler: Compiler, vault: Vault, plan: SynthesisPlan, stop: Stop) -> _Paid:
    """Measure and charge the tables of a plan. The charge remains if the measurement fails."""
    source = plan.source
    request = source.request
    inquiry = Inquiry(request.door, request.client, plan.text or request.sql)

    def measure(run: JointRun) -> tuple[Noisy, ...]:
        try:
            return released(compiler, run, plan)
        except (Refused, Failed):  # a text by codes that is refused otherwise than before, or slow
            raise EngineFailed from None

    receipt, answer = vault.joint(
        compiler, source.payer, plan.cost, plan.questions, inquiry, stop, measure
    )
    return _Paid(plan, answer, receipt)


def _table_of(
    plan: SynthesisPlan, marginals: ReleasedMarginals, receipt: Receipt, rows: RowsWish, most: int
) -> SyntheticTable:
    """Sample rows from released tables. They depend only on these and on the query id."""
    fit_of = fitted_by_mbi if rows.mbi else fitted
    fit = fit_of(*measured_in(marginals), marginals.total)
    count = rows.count or max(1, min(round(marginals.total), most))
    dice = PublicDice(receipt.query_id)
    by_code = drawn(fit, count, dice)
    places = tuple(
        _cells(by_code[n], fit.table((n,)), marginals, n, dice) for n in range(len(plan.columns))
    )
    columns = [
        column.filled(own, dice.shares(count))
        for column, own in zip(plan.columns, places, strict=True)
    ]
    return SyntheticTable(
        source=plan.source.rows,
        columns=plan.columns,
        cells=places,
        rows=list(zip(*columns, strict=True)),
        marginals=marginals,
        receipt=receipt,
    )


def _cells(
    codes: np.ndarray, table: np.ndarray, marginals: ReleasedMarginals, place: int, dice: PublicDice
) -> np.ndarray:
    """Return a cell for each row. Cells with the same code are chosen in proportion to their
    counts.
    """
    parts = members(marginals.codes[place])
    counts = marginals.singles[place]
    weights = {code: nearest(counts[list(own)], float(table[code])) for code, own in parts.items()}
    numbers = spread(codes, weights, dice)
    width = max(map(len, parts.values()))
    cells_of = np.zeros((len(parts), width), dtype=np.int64)
    for code, own in parts.items():
        cells_of[code, : len(own)] = own
    result: np.ndarray = cells_of[codes, numbers]
    return result


@dataclass(frozen=True, slots=True)
class Synthesise:
    """Creation of synthetic rows from noisy marginals, which are charged once."""

    wish: SynthesisWish
    rows: int | None = None
    mbi: bool = False

    def run(self, parts: Parts) -> SyntheticTable:
        """Return the rows. Raises as `Proxy.ask` does, and MissingExtra."""
        rows = RowsWish(self.rows, self.mbi)
        return synthesised(parts.compiler, parts.vault, self.wish, parts.stop, rows)


@dataclass(frozen=True, slots=True)
class ExplainSynthesis:
    """Plan of `Synthesise`, with its charge: runs nothing, charges nothing."""

    wish: SynthesisWish

    def run(self, parts: Parts) -> SynthesisPlan:
        """Return the plan."""
        return planned(parts.compiler, self.wish, parts.stop)
