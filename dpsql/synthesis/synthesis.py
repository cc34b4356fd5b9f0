"""Synthetic rows: charged once, counted, chosen, counted again; the rest is computed of that.

What an adversary sees are the noisy tables, which pairs they are of, and rows that follow from
these and from the number of the query, which is no secret: as many rows as are wished for and as
often, at no cost. Asked again, the tables are those that were paid for.

What it loses: PRIVACY.md R78.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsql import accountants, mechanisms
from dpsql.answering.vault import JointRun, Vault
from dpsql.compiler.plan.prepared import Prepared
from dpsql.consistency.drawn_rows import PublicDice, drawn, spread
from dpsql.consistency.tree_model import NoisyTable, Tables, Tree, fitted, nearest
from dpsql.engines import EngineFailed, Stop
from dpsql.engines.limited import limited
from dpsql.ledgers import Inquiry
from dpsql.mechanisms.pair_choices import Pair, score
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import Column, Event, Exact, Noisy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.release.execution import guarded
from dpsql.synthesis.synthesis_plan import SynthesisPlan, SynthesisWish, planned, release_of
from dpsql.synthesis.synthetic_columns import (
    Codes,
    SyntheticColumn,
    cells,
    members,
    together,
)

FREQUENT = 3
"""Cells whose noisy count is so many deviations of its noise have a code of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedMarginals:
    """What was released: a table by the cells of each column, and by codes one for each edge.

    `deviations` are those of the noise in `singles` and in `pairs`.
    """

    singles: tuple[np.ndarray, ...]
    pairs: Mapping[Pair, np.ndarray]
    deviations: tuple[float, float]

    @property
    def codes(self) -> tuple[Codes, ...]:
        """The code of each cell, of every column."""
        least = FREQUENT * self.deviations[0]
        return tuple(together(counts, least) for counts in self.singles)

    @property
    def total(self) -> float:
        """How many rows there are, by all columns together."""
        weights = np.array([1 / len(counts) for counts in self.singles])
        sums = np.array([counts.sum() for counts in self.singles])
        return max(float(weights @ sums / weights.sum()), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTable:
    """Synthetic rows, by cells of their columns and as values, with what they are made of.

    `source` is the SELECT whose rows they resemble.
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


def synthesised(
    compiler: Compiler, vault: Vault, wish: SynthesisWish, stop: Stop, rows: int | None = None
) -> SyntheticTable:
    """So many rows (None: as many as there are, noisily), of what is paid for now or was before.

    Raises as `Proxy.ask` does.
    """
    if rows is not None and rows < 1:
        raise Refused(Reason.BAD_OPTION, option="rows", value=rows, known=("a positive number",))
    plan = planned(compiler, wish, stop)
    _require_room(compiler, plan, rows)
    table = _remembered(compiler, vault, wish, plan, stop, rows)
    if table is not None:
        return table
    receipt, answer = _paid(compiler, vault, plan, stop)
    return _within(compiler, stop, plan, _of_answer(plan, answer), receipt, rows)


def remembered(
    compiler: Compiler, vault: Vault, wish: SynthesisWish, stop: Stop, rows: int | None = None
) -> SyntheticTable | None:
    """The same of what was paid for; None where it was not, or is no longer remembered."""
    return _remembered(compiler, vault, wish, planned(compiler, wish, stop), stop, rows)


def _remembered(
    compiler: Compiler,
    vault: Vault,
    wish: SynthesisWish,
    plan: SynthesisPlan,
    stop: Stop,
    rows: int | None,
) -> SyntheticTable | None:
    payer, version = plan.source.payer, compiler.policy.version
    recalled = vault.ledger.recall(payer.analyst, plan.cost.question, version, payer.epsilon)
    if recalled is None:
        return None
    then = replace(wish, request=replace(wish.request, epsilon=recalled.epsilon))
    plan = planned(compiler, then, stop)
    receipt = vault.receipt(plan.source.payer, recalled.query_id)
    return _within(compiler, stop, plan, _of_answer(plan, recalled.answer), receipt, rows)


def _require_room(compiler: Compiler, plan: SynthesisPlan, rows: int | None) -> None:
    """Refuse more values than are kept at once."""
    most = compiler.policy.limits.max_result_cells // len(plan.columns)
    if (rows or 0) > most:
        raise Refused(Reason.TOO_LARGE, what="synthetic rows", limit=most)


def _within(
    compiler: Compiler,
    stop: Stop,
    plan: SynthesisPlan,
    marginals: ReleasedMarginals,
    receipt: Receipt,
    rows: int | None,
) -> SyntheticTable:
    """The rows, in the time that a statement may take."""

    def table_of() -> SyntheticTable:
        with limited(stop, compiler.policy.limits.statement_seconds):
            return _table_of(plan, marginals, receipt, rows)

    return guarded(receipt.query_id, table_of, charged=not receipt.remembered)


# --- what is paid for --------------------------------------------------------------------------


def _paid(
    compiler: Compiler, vault: Vault, plan: SynthesisPlan, stop: Stop
) -> tuple[Receipt, tuple[Noisy, ...]]:
    """The tables that are paid for now: whatever happens after the charge, it stays."""
    source = plan.source
    request = source.request
    inquiry = Inquiry(request.door, request.client, plan.text or request.sql)

    def measure(run: JointRun) -> tuple[Noisy, ...]:
        try:
            return _released(compiler, run, plan)
        except (Refused, Failed):  # a text by codes that is refused otherwise than before, or slow
            raise EngineFailed from None

    joint = compiler, source.payer, plan.cost, plan.questions, inquiry, stop
    return vault.joint(*joint, measure)


def _released(compiler: Compiler, run: JointRun, plan: SynthesisPlan) -> tuple[Noisy, ...]:
    """The noisy tables of single columns; the edges; and the noisy tables of these."""
    singles = tuple(run.noisy(prepared, run.integers(prepared)) for prepared in plan.singles)
    first = _of_answer(plan, (*singles, Noisy((), ())))
    counts = {
        pair: _of_codes(compiler, plan, first.codes, pair, run.stop) for pair in _looked_at(plan)
    }
    exact = {pair: run.integers(prepared) for pair, prepared in counts.items()}
    edges = plan.fixed
    if plan.choice is not None:
        scores = {
            pair: score(_table(exact[pair], first, pair), _expected(first, pair)) for pair in exact
        }
        edges = plan.choice.tree(len(plan.columns), scores, plan.fixed, run.sampler)
    _require_paid(plan, [*plan.singles, *(counts[edge] for edge in edges)])
    chosen = Noisy(tuple(edges), ((),) * len(edges))
    return (*singles, chosen, *(run.noisy(counts[edge], exact[edge]) for edge in edges))


def _looked_at(plan: SynthesisPlan) -> Sequence[Pair]:
    """The pairs that may be in the tree."""
    return plan.fixed if plan.choice is None else tuple(plan.pairs)


def _of_codes(
    compiler: Compiler, plan: SynthesisPlan, codes: Sequence[Codes], pair: Pair, stop: Stop
) -> Prepared:
    """The question by a pair of columns, by codes that were released."""
    prepared = plan.source.counted(compiler, {place: codes[place] for place in pair}, stop)
    planned_for = release_of(plan.pairs[pair]).sensitivity
    if release_of(prepared).sensitivity.l1 > planned_for.l1:
        raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR)
    return prepared


def _require_paid(plan: SynthesisPlan, measured: Sequence[Prepared]) -> None:
    """Raises where what is measured loses more than was charged."""
    accountant = accountants.get(plan.source.payer.budget.accountant)
    parts = [part for each in measured if each.plan is not None for part in each.plan.event.parts]
    parts += [] if plan.choice is None else [plan.choice.event]
    if not accountant.loss(Event(tuple(parts))).fits(plan.cost.loss):
        raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR)


def _expected(marginals: ReleasedMarginals, pair: Pair) -> np.ndarray:
    """The table of a pair if the columns were independent, in whole rows."""
    one, other = (
        nearest(_by_code(marginals.singles[n], marginals.codes[n]), marginals.total) for n in pair
    )
    return np.rint(np.outer(one, other) / marginals.total).astype(np.int64)


def _table(counts: Exact, marginals: ReleasedMarginals, pair: Pair) -> np.ndarray:
    """An exact table by codes: it goes no further than to its score."""
    result = np.zeros(_shape(marginals, pair), dtype=np.int64)
    for key, count in zip(counts.keys, counts.parts[0].tolist(), strict=True):
        if None not in key:
            result[key] = count
    return result


def _shape(marginals: ReleasedMarginals, pair: Pair) -> tuple[int, ...]:
    return tuple(len(set(marginals.codes[n])) for n in pair)


def _by_code(counts: np.ndarray, codes: Codes) -> np.ndarray:
    """The sums of cells under each code."""
    return np.bincount(codes, weights=counts)


# --- what follows from it ----------------------------------------------------------------------


def _of_answer(plan: SynthesisPlan, answer: Sequence[Noisy]) -> ReleasedMarginals:
    """The tables of an answer, as they were released or are remembered."""
    singles, edges, pairs = (
        answer[: len(plan.columns)],
        answer[len(plan.columns)].keys,
        answer[len(plan.columns) + 1 :],
    )
    tables = tuple(
        _filled(noisy, (cells(column),))
        for noisy, column in zip(singles, plan.columns, strict=True)
    )
    measured = (next(iter(plan.singles)), next(iter(plan.pairs.values()), plan.singles[0]))
    noises = [mechanisms.standard_deviation(release_of(each).noise) for each in measured]
    first = ReleasedMarginals(tables, {}, (noises[0], noises[1]))
    by_edge = {
        (int(one), int(other)): _filled(noisy, _shape(first, (one, other)))
        for (one, other), noisy in zip(edges, pairs, strict=True)
    }
    return replace(first, pairs=by_edge)


def _filled(noisy: Noisy, shape: tuple[int, ...]) -> np.ndarray:
    """A table of these counts; where the key is of no cell, it is left out."""
    result = np.zeros(shape)
    for key, (count,) in zip(noisy.keys, noisy.parts, strict=True):
        if None not in key:
            result[key] = count
    return result


def _table_of(
    plan: SynthesisPlan, marginals: ReleasedMarginals, receipt: Receipt, rows: int | None
) -> SyntheticTable:
    """The rows that follow from released tables, and from the number of the query alone."""
    tree = Tree.of(len(plan.columns), tuple(marginals.pairs))
    tables = _fitted(tree, marginals)
    count = max(1, round(marginals.total)) if rows is None else rows
    dice = PublicDice(receipt.query_id)
    by_code = drawn(tree, tables, count, dice)
    places = tuple(
        _cells(by_code[n], tables[(n,)], marginals, n, dice) for n in range(len(plan.columns))
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


def _fitted(tree: Tree, marginals: ReleasedMarginals) -> Tables:
    """The tables of all columns and edges by codes, which agree."""
    of_single, of_pair = (deviation**2 for deviation in marginals.deviations)
    measured = []
    for place, (counts, codes) in enumerate(zip(marginals.singles, marginals.codes, strict=True)):
        sizes = _by_code(np.ones(len(codes)), codes)
        measured.append(NoisyTable((place,), _by_code(counts, codes), of_single * sizes))
    measured += [
        NoisyTable(edge, counts, np.full(counts.shape, of_pair))
        for edge, counts in marginals.pairs.items()
    ]
    return fitted(tree, measured, marginals.total)


def _cells(
    codes: np.ndarray, table: np.ndarray, marginals: ReleasedMarginals, place: int, dice: PublicDice
) -> np.ndarray:
    """A cell for each row, by its code: those that have one together share it by their counts."""
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
