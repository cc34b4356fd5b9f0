"""Replicates of a release: its tables with their noise drawn once more (PRIVACY.md R111).

A replicate adds fresh noise of the public distributions to numbers that were released already, and
makes them agree as the release did. Neither the data nor exact integers are read. The spread of a
statistic over the replicates is the spread of its noise; replicates themselves estimate nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import isfinite, nan
from typing import Any, TypeAlias

import numpy as np

from dpsql.answering import from_memory, two_steps
from dpsql.answering.joint_plan import Beside
from dpsql.answering.side_systems import Parts
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.ledgers import PaidAnswer
from dpsql.mechanisms.differences import stretch
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.vocabulary import Answer, Noisy
from dpsql.release.release import Sampler, add_noise
from dpsql.vault.answer_cache import finish_answer
from dpsql.vault.measured_cells import MeasuredCells, scaled

Redrawn: TypeAlias = dict[str, Any]
"""Measurements with fresh noise, by the charge that paid for them."""

MOST_NUMBERS = 100_000
"""Maximum number of noisy numbers of a table with replicates."""
_ALIKE = (0.7, 1.4)
"""Range of the median ratio of the spread of replicates to the standard error."""
_NEVER = (0.4, 2.5)
"""Range of the same ratio for every number."""

DERIVED = "it is computed from earlier answers"
CHOSEN = "its groups or numbers are chosen by noise (private keys, quantiles, modes)"
MOVING = "its groups depend on noise (LIMIT, HAVING, groups of other queries)"
LARGE = f"it has more than {MOST_NUMBERS:,} numbers"
ROUGH = "noise does not pass through smoothly (extremes, shares of few, rounded numbers)"


@dataclass(frozen=True, slots=True, eq=False)
class TableReplicates:
    """Replicates of some `columns` of an answer, and the reason why others have none.

    `numbers` has the shape (replicates, rows, columns).
    """

    columns: tuple[int, ...] = ()
    numbers: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0)))
    why_not: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class PaidMeasurements:
    """Paid measurements of an answer: the `tables` that it is derived from, or its own plan.

    An answer that is measured by itself has the plan `paid`, and the `noisy` tables of query
    `query_id`. Queries `first` found what it needs, such as a limit.
    """

    each: Beside
    answer: Answer
    tables: Mapping[PaidAnswer, MeasuredCells] = field(default_factory=dict)
    paid: Prepared | None = None
    noisy: tuple[Noisy, ...] = ()
    query_id: str = ""
    first: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """True if `ids` are all charges that paid for the answer."""
        exact = self.each.prepared.plan is None
        return exact or bool(self.tables) or self.paid is not None

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the charges that paid for the answer."""
        receipt = self.answer.receipt
        own = {self.query_id} if receipt is None else {self.query_id, receipt.query_id}
        return frozenset(own | self.first | {each.query_id for each in self.tables} - {""})

    @property
    def why_not(self) -> str:
        """Reason why the noise cannot be drawn once more, else an empty text."""
        if self.tables:
            return ""
        if self.paid is None:
            return DERIVED
        return "" if all(map(is_listed, self.paid.blocks)) else CHOSEN


def is_listed(block: BlockPlan) -> bool:
    """Test whether all groups of a block are public, and all its measurements are sums."""
    sums = not (block.choices or block.trees or any(each.stability for each in block.releases))
    return sums and isinstance(block.keys, ListedKeys) and not block.keys.shown


def paid_measurements(
    parts: Parts, each: Beside, answer: Answer, counts: Mapping[str, int]
) -> PaidMeasurements:
    """Return the measurements of an answer, which uses the first `counts` tables of a
    population.
    """
    compiler, memory, unknown = parts.compiler, parts.vault.memory, PaidMeasurements(each, answer)
    if each.prepared.plan is None:
        return unknown
    if each.wide is not None:
        every = memory.measurements(compiler, each.query, each.population)
        return replace(unknown, tables=dict(list(every.items())[: counts[each.population]]))
    last, first = two_steps.last_step(compiler, parts.vault, each.query)
    if last is None:
        return unknown
    recalled = memory.recalled(compiler, last, last.account.epsilon)
    if recalled is None:
        return unknown
    remembered, form = recalled
    paid = compiler.prepared(last.at(remembered.epsilon)).alternative(form)
    noisy, query_id = remembered.answer, remembered.query_id
    return replace(unknown, paid=paid, noisy=noisy, query_id=query_id, first=first)


def draw_replicates(
    parts: Parts, measured: Sequence[PaidMeasurements], sampler: Sampler, count: int
) -> tuple[TableReplicates, ...]:
    """Return `count` replicates of each answer.

    Answers that share a measurement share its fresh noise, so that differences between tables have
    the right spread too.
    """
    noisy = [_noisy_columns(each.answer) for each in measured]
    why_not = [
        (each.why_not or (LARGE if len(each.answer.rows) * len(columns) > MOST_NUMBERS else ""))
        if columns
        else ""
        for each, columns in zip(measured, noisy, strict=True)
    ]
    shapes = [(count, len(m.answer.rows), len(n)) for m, n in zip(measured, noisy, strict=True)]
    numbers = [
        np.full((0, 0, 0) if why else shape, nan)
        for why, shape in zip(why_not, shapes, strict=True)
    ]
    for number in range(count):
        redrawn = Redrawn()
        for place, each in enumerate(measured):
            if why_not[place] or not noisy[place]:
                continue
            rows = order_rows(each.answer, _redraw(parts, each, sampler, redrawn), noisy[place])
            if rows is None:
                why_not[place] = MOVING
            else:
                numbers[place][number] = [[_number(row[n]) for n in noisy[place]] for row in rows]
    every = zip(measured, noisy, numbers, why_not, strict=True)
    return tuple(
        TableReplicates(why_not=why) if why or not columns else smooth_columns(m.answer, columns, n)
        for m, columns, n, why in every
    )


def _noisy_columns(answer: Answer) -> tuple[int, ...]:
    """Return the places of the columns that have an error."""
    return tuple(
        n for n in range(len(answer.columns)) if any(row[n] is not None for row in answer.margins)
    )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float | Decimal) else nan


def _redraw(parts: Parts, each: PaidMeasurements, sampler: Sampler, redrawn: Redrawn) -> Answer:
    """Return an answer with fresh noise, which is kept in `redrawn` for the other answers."""
    compiler, vault, query, receipt = (
        parts.compiler,
        parts.vault,
        each.each.query,
        each.answer.receipt,
    )
    assert receipt is not None
    if each.paid is None:
        assert each.each.wide is not None
        for paid, table in each.tables.items():
            if paid.query_id not in redrawn:
                redrawn[paid.query_id] = redraw_cells(table, sampler)
        tables = [redrawn[paid.query_id] for paid in each.tables]
        return from_memory.derived_answer(compiler, vault, query, each.each.wide, tables, receipt)
    if each.query_id not in redrawn:
        blocks = zip(each.paid.blocks, each.noisy, strict=True)
        redrawn[each.query_id] = [redraw_table(block, noisy, sampler) for block, noisy in blocks]
    most = compiler.policy.limits.max_result_cells
    noisy = redrawn[each.query_id]
    return finish_answer(each.paid, noisy, receipt, vault.engine, most, query.stop)


def redraw_table(block: BlockPlan, noisy: Noisy, sampler: Sampler) -> Noisy:
    """Return a released table of listed groups with fresh noise added to each measurement."""
    columns = [np.array(column) for column in zip(*noisy.parts, strict=True)]
    for place, release in enumerate(block.releases[: len(columns)]):
        columns[place] = add_noise(columns[place], release.payment.noise, sampler)
    rows = tuple(zip(*(column.tolist() for column in columns), strict=True))
    return replace(noisy, parts=rows or noisy.parts)


def redraw_cells(table: MeasuredCells, sampler: Sampler) -> MeasuredCells:
    """Return measured cells with fresh noise added to each measurement."""
    times = stretch([size for key, size in table.sizes.items() if key in table.along])
    parts = {}
    for name, cells in table.parts.items():
        drawn = sampler(scaled(table.noises[name], times**2), cells.size)
        parts[name] = cells + drawn.astype(float).reshape(cells.shape) / times
    return replace(table, parts=parts)


def order_rows(answer: Answer, draw: Answer, noisy: Sequence[int]) -> list[tuple[Any, ...]] | None:
    """Return the rows of a replicate in the order of the answer's groups.

    Returns None if the replicate has other groups, or a group twice. `noisy` are the places of the
    columns that are no keys.
    """

    def key(row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(value for n, value in enumerate(row) if n not in noisy)

    rows = {key(row): row for row in draw.rows}
    keys = [key(row) for row in answer.rows]
    if len(draw.rows) != len(rows) or len(keys) != len(set(keys)) or rows.keys() != set(keys):
        return None
    return [rows[each] for each in keys]


def smooth_columns(answer: Answer, columns: Sequence[int], numbers: np.ndarray) -> TableReplicates:
    """Return the replicates of the columns whose spread agrees with their standard errors.

    It does for counts, sums, and ratios whose noise is small beside them. It does not where noise
    passes a corner, as in an extreme or a share of few.
    """
    smooth = [n for n, column in enumerate(columns) if _is_smooth(answer, column, numbers[:, :, n])]
    rough = [answer.columns[c].name for n, c in enumerate(columns) if n not in smooth]
    why_not = f"{', '.join(rough)}: {ROUGH}" if rough else ""
    if not smooth:
        return TableReplicates(why_not=why_not)
    return TableReplicates(tuple(columns[n] for n in smooth), numbers[:, :, smooth], why_not)


def _is_smooth(answer: Answer, column: int, numbers: np.ndarray) -> bool:
    errors = [row[column] for row in answer.errors]
    positive = all(error is None or (isfinite(error) and error > 0) for error in errors)
    if not positive or not np.isfinite(numbers).all():
        return False
    noisy = [n for n, error in enumerate(errors) if error is not None]
    spreads = np.std(numbers[:, noisy], axis=0, ddof=1)
    ratios = spreads / np.array([errors[n] for n in noisy], dtype=float)
    alike = _ALIKE[0] <= float(np.median(ratios)) <= _ALIKE[1]
    return alike and bool(_NEVER[0] <= ratios.min() and ratios.max() <= _NEVER[1])
