"""Forecasts: the ± that an answer is expected to have, before anything is asked.

Every step of a question is taken as if its data were as public sizes say, evenly in one case and
unevenly in another: polls, bounds, private keys and the outer query. Nothing private is read, and
nothing is charged. Remembered polls of the question are used in place of expected ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from math import isfinite, isnan
from statistics import median
from typing import Any, TypeAlias

from dpsql.answering.two_steps import ColumnSteps, KeySteps, NormSteps, Steps, steps_of
from dpsql.compiler.calibrate.poll_queries import places
from dpsql.compiler.plan.measurement_kinds import ClippedSum, ScaledTotal, ValueTotal
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.engines import EngineFailed, TimedOut
from dpsql.mechanisms import margin, standard_deviation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import DpsqlError
from dpsql.model.notices import Ranked
from dpsql.model.vocabulary import Answer, Loss, Receipt
from dpsql.preparation import shown_keys
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.expected_data import (
    ExpectedCase,
    expected_release,
    expected_units,
    expected_votes,
)
from dpsql.preparation.explanation import Forecast, ForecastKind
from dpsql.preparation.question import Question
from dpsql.release.finish import finish
from dpsql.vault.vault import Vault

EVEN = ExpectedCase(
    rows=4.0, spread=0.0, selectivity=0.7, evenness=1.0, sizes=0.0, deviation=0.2, keys=12
)
UNEVEN = ExpectedCase(
    rows=12.0, spread=1.3, selectivity=1.8, evenness=0.65, sizes=0.5, deviation=0.8, keys=32
)
_SAME = 0.02
"""Relative change of an error that is none."""
_OCTAVES = 10
"""Place of the bounds that are expected for a column without any; errors are relative to them."""


class _Unknown(Exception):
    """The public sizes say nothing about a step."""


def forecasts(compiler: Compiler, vault: Vault, query: Question) -> tuple[Forecast | None, ...]:
    """Return the expected half-width (95 %) of each column of a question; None if none is known.

    An error that depends on the size of values is relative to the number.
    """
    try:
        even, uneven = (_expect(compiler, vault, query, case) for case in (EVEN, UNEVEN))
        larger = even
        measures = [m for block in even.prepared.blocks for m in block.block.measures]
        if any(m.call.function.startswith(("corr", "covar", "regr")) for m in measures):
            return ()  # how columns go together does not follow from sizes
        if any(_reads_values(block) for block in even.prepared.blocks):
            larger = _expect(compiler, vault, query, replace(EVEN, value=EVEN.value / 2))
    except (_Unknown, DpsqlError, EngineFailed, TimedOut):
        return ()
    margins = zip(even.margins, uneven.margins, larger.margins, strict=True)
    return tuple(
        _of_ranks(even.rank(n), uneven.rank(n)) if even.is_unknown(n) else _forecast(a, b, c)
        for n, (a, b, c) in enumerate(margins)
    )


_Margin: TypeAlias = tuple[float, float] | None
"""Half-width and number."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """The expected answer of a question, with its last plan and the rows of a group."""

    prepared: Prepared
    answer: Answer
    rows: float

    @property
    def margins(self) -> list[_Margin]:
        """The half-width and the number of a typical group, for each column."""
        return [_typical(self.answer, place) for place in range(len(self.answer.columns))]

    def is_unknown(self, place: int) -> bool:
        """Test whether a column is read from ranks, so that its error in values is unknown."""
        errors = (row[place] for row in self.answer.margins)
        return any(error is not None and isnan(error) for error in errors)

    def rank(self, place: int) -> float:
        """Return the rank error of a column as a share of the rows of a group; 0 if unknown."""
        ranked = (n for n in self.prepared.notices if isinstance(n, Ranked))
        rows = [float(n.rows) for n in ranked if place in n.outputs]
        if not rows:
            trees = (tree for block in self.prepared.blocks for tree in block.trees)
            rows = [t.error * margin(t.noise) / standard_deviation(t.noise) for t in trees]
        return max(rows, default=0.0) / max(self.rows, 1.0)


def _reads_values(block: BlockPlan) -> bool:
    """Test whether the sizes of values matter to the errors of a block."""
    totals = (each.total if isinstance(each, ScaledTotal) else each for each in block.queries)
    return any(isinstance(each, ClippedSum | ValueTotal) for each in totals)


def _of_ranks(even: float, uneven: float) -> Forecast | None:
    ends = even, uneven
    return Forecast(min(ends), max(ends), ForecastKind.RANK) if all(ends) else None


def _forecast(even: _Margin, uneven: _Margin, larger: _Margin) -> Forecast | None:
    """Return the range of a half-width, relative to the number if it changes with the values."""
    if even is None or uneven is None or larger is None:
        return None
    relative = abs(larger[0] - even[0]) > _SAME * even[0]
    ends = [even[0], uneven[0]]
    if relative:
        ends = [margin / abs(value) if value else 0.0 for margin, value in (even, uneven)]
    kind = ForecastKind.RELATIVE if relative else ForecastKind.ABSOLUTE
    return Forecast(min(ends), max(ends), kind) if all(ends) else None


def _expect(compiler: Compiler, vault: Vault, query: Question, case: ExpectedCase) -> _Expected:
    """Return the expected answer in one case, through all steps of a question."""
    last, steps = query, steps_of(compiler, vault, query)
    while steps is not None:
        last = _then(compiler, vault, steps, case)
        steps = steps_of(compiler, vault, last)
    return _answer(compiler, vault, last, case)


def _then(compiler: Compiler, vault: Vault, steps: Steps, case: ExpectedCase) -> Question:
    """Return the question that follows from the expected answers of first steps."""
    if not steps.to_pay:
        return steps.then(compiler, vault, [a for a in steps.remembered if a is not None])
    match steps:
        case KeySteps(query=query, last=last):
            keys = shown_keys.placeholder(compiler.prepared(query), case.keys)
            return replace(last, shown=keys)
        case ColumnSteps():
            answers = [
                remembered or _bins(compiler, search)
                for search, remembered in zip(steps.searches, steps.remembered, strict=True)
            ]
        case NormSteps(query=query):
            answers = [
                remembered or _votes(compiler, query, search, case)
                for search, remembered in zip(steps.searches, steps.remembered, strict=True)
            ]
        case _:
            raise _Unknown
    return steps.then(compiler, vault, answers)


def _bins(compiler: Compiler, search: Question) -> Answer:
    """Return the expected answer of a search for a column's bounds."""
    ends = compiler.prepared(search).columns[0].name == "lowest"
    return _answered(search, ((0, _OCTAVES),) if ends else ((_OCTAVES, 10**9),))


def _votes(compiler: Compiler, query: Question, search: Question, case: ExpectedCase) -> Answer:
    """Return the expected answer of polls."""
    prepared = compiler.prepared(query)
    by_key = {poll.key: poll for poll in prepared.polls}
    rows = list[tuple[Any, ...]]()
    for number, key in enumerate(search.polls):
        poll = by_key[key]
        polled = (b for b in prepared.blocks if b.block.rows == poll.block.rows)
        units = expected_units(next(polled, prepared.blocks[0]), compiler.policy, case)
        if units is None:
            raise _Unknown
        votes = zip(places(poll), expected_votes(poll, units), strict=True)
        rows += [(number, place, count) for place, count in votes]
    return _answered(search, rows)


def _answered(search: Question, rows: Sequence[tuple[Any, ...]]) -> Answer:
    return Answer((), tuple(rows), (), (), _receipt(search))


def _receipt(query: Question) -> Receipt:
    """Return the receipt of a step that is not asked."""
    nothing = Loss(0)
    return Receipt(
        query_id="",
        analyst=query.account.analyst,
        budget=query.account.budget.name,
        accountant=query.account.budget.accountant,
        epsilon=query.account.epsilon,
        charged=nothing,
        spent=nothing,
        limit=nothing,
    )


def _answer(compiler: Compiler, vault: Vault, last: Question, case: ExpectedCase) -> _Expected:
    """Return the expected answer of a last step."""
    prepared, engine = compiler.prepared(last), vault.engine
    if prepared.plan is None:
        raise _Unknown
    units = [expected_units(block, compiler.policy, case) for block in prepared.blocks]
    present = [each for each in units if each is not None]
    if len(present) < len(units):
        raise _Unknown
    noisy = [expected_release(b, each) for b, each in zip(prepared.blocks, present, strict=True)]
    rows = min(
        float(each.rows @ each.numbers) / max(1, len(table.keys))
        for each, table in zip(present, noisy, strict=True)
    )
    most = compiler.policy.limits.max_result_cells
    answer = finish(
        prepared.plan,
        prepared.rewritten,
        noisy,
        partial(engine.rows, stop=last.stop, data=prepared.data),
        partial(engine.scratch, stop=last.stop, cells=most),
        _receipt(last),
    )
    return _Expected(prepared, answer, rows)


def _typical(answer: Answer, place: int) -> _Margin:
    """Return the median half-width of a column and the median number; None if it is unknown."""
    cells = zip(answer.margins, answer.rows, strict=True)
    pairs = [(margins[place], _number(row[place])) for margins, row in cells]
    finite = [(m, n) for m, n in pairs if m is not None and n is not None and isfinite(m)]
    if 2 * len(finite) <= len(pairs):
        return None
    return median(m for m, _ in finite), median(n for _, n in finite)


def _number(value: Any) -> float | None:
    match value:
        case timedelta():
            return value.total_seconds()
        case int() | float() | Decimal():
            return float(value)
        case _:
            return None
