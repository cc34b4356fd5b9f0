"""from_memory: a question answered from what was measured before, and from what it still lacks.

A question with a wide form (see `dpsql.compiler.plan.wide_tables`) measures its population's whole
table by its keys and by the columns of its conditions; what is not asked is kept unseen. Whatever
all such tables tell of a later question is free. What they lack of the precision that a fresh
answer would have is paid where ρ adds up to precision, by the same table at the ε that buys just
that; otherwise the whole table is measured.

Decisions read variances, text, policy and ledger, never a released number: PRIVACY.md R79.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction
from functools import partial
from math import ceil

from dpsql import accountants
from dpsql.answering.measured_cells import (
    CellReading,
    Derivation,
    MeasuredCells,
    derivation,
    noise_of,
    readings,
    scaled,
)
from dpsql.answering.vault import Vault
from dpsql.compiler.errors.outputs import is_by_row
from dpsql.compiler.plan.prepared import Prepared, WideTable
from dpsql.consistency.residuals import AskedCells
from dpsql.ledgers import Remembered
from dpsql.mechanisms import standard_deviation
from dpsql.model.origins import DerivedColumns
from dpsql.model.query_options import Memory
from dpsql.model.vocabulary import NANO, Answer, Budget, Loss, Noisy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Question
from dpsql.preparation.workload import is_little_more

ENOUGH = 1 + 1e-6
"""A variance that is larger by less is no other one."""

_HALVINGS = 24
_PART = 0.99
"""What is nearly a whole table is measured as one."""

_FOUR = Context(prec=4, rounding=ROUND_UP)


@dataclass(frozen=True, slots=True)
class Target:
    """The variance of a fresh column, each number of which is shown `by_itself`; or else what is
    made of several must err no more than of fresh ones, whatever it is.
    """

    variance: float
    by_itself: bool

    def is_reached(self, derived: Derivation) -> bool:
        """Whether numbers that are derived so are as good as fresh ones."""
        return (derived.variance if self.by_itself else derived.largest) <= self.variance


@dataclass(frozen=True, slots=True, eq=False)
class Recollection:
    """How a question is answered: of `tables`, the last of them from query `last`, and of a `wide`
    one that is measured first, at this `epsilon` and `price`; nothing is where there is no ε.

    `derived` is the noise of its columns then; so many percent of its price are `recalled`.
    """

    wide: WideTable
    last: str
    tables: tuple[MeasuredCells, ...]
    derived: DerivedColumns
    epsilon: Decimal | None
    price: Loss
    recalled: int


def answered(compiler: Compiler, vault: Vault, query: Question) -> Answer:
    """The answer to one question, from memory as far as that goes. Raises as `Proxy.ask` does."""
    if not compiler.questions(query):
        return vault.answered(compiler, query)
    if query.memory is Memory.OFF:
        return vault.charged(compiler, query, compiler.prepared(query))
    remembered = vault.remembered(compiler, query) if query.memory.repeats else None
    if remembered is not None:
        return remembered
    memory = recollection(compiler, vault, query)
    if memory is None:
        return vault.answered(compiler, query)
    prepared = compiler.prepared(query)
    answering = compiler.prepared(replace(query, derived=memory.derived))
    answering = replace(answering, columns=prepared.columns)
    query.require_room_for(prepared.columns)
    query_id, tables, charged = memory.last, memory.tables, None
    if memory.epsilon is not None:
        query.require_useful(prepared.notices, memory.price)
        paying, wide = query.at(memory.epsilon), memory.wide.prepared
        query_id, measured = vault.measure(compiler, paying, wide, answering)
        tables, charged = (*tables, measured), memory.price
    noisy = _noisy(answering, memory.wide, derivations(memory.wide, tables))
    receipt = vault.receipt(query.account, query_id, charged)
    paid = replace(receipt, recalled=memory.recalled)
    return vault.derived(compiler, query, answering, noisy, paid)


def derived_answer(
    compiler: Compiler,
    vault: Vault,
    query: Question,
    wide: WideTable,
    tables: Sequence[MeasuredCells],
    paid: Receipt,
) -> Answer:
    """What tables that are paid for tell of a question, however much that is."""
    derived = tuple(derivations(wide, tables))
    answering = compiler.prepared(replace(query, derived=noise_of(derived)))
    answering = replace(answering, columns=compiler.prepared(query).columns)
    noisy = _noisy(answering, wide, derived)
    return vault.derived(compiler, query, answering, noisy, paid)


def repeated(compiler: Compiler, vault: Vault, query: Question) -> tuple[Remembered, str] | None:
    """The noisy answer that `answered` would tell again, and to which question."""
    if query.memory is Memory.OFF:
        return None
    if not query.memory.repeats and recollection(compiler, vault, query) is not None:
        return None
    return vault.recalled(compiler, query, query.account.epsilon)


def recollection(compiler: Compiler, vault: Vault, query: Question) -> Recollection | None:
    """How a question is answered now; None where a fresh answer alone is what it costs."""
    prepared = compiler.prepared(query)
    wide, plan = prepared.wide, prepared.plan
    if wide is None or plan is None or not query.memory.measures_wide:
        return None
    recorded = vault.measurements(compiler, query, wide.prepared.question)
    tables, targets = tuple(recorded.values()), fresh_targets(prepared)
    if reaches(derivations(wide, tables), targets):
        count = first(wide, tables, targets) if query.memory.repeats else len(tables)
        tables, last = tables[:count], list(recorded)[count - 1]
        derived = noise_of(tuple(derivations(wide, tables)))
        return Recollection(wide, last, tables, derived, epsilon=None, price=Loss(0), recalled=100)
    little = is_little(compiler, query, prepared, wide)
    if not little or not reaches(derivations(wide, tables, [wide]), targets):
        return None
    wide, epsilon = _cheapest(compiler, query, wide, tables, targets)
    measured = wide.prepared.plan
    assert measured is not None
    recalled = max(0, 100 - ceil(100 * measured.loss.amount / plan.loss.amount))
    derived = noise_of(tuple(derivations(wide, tables, [wide])))
    price = measured.loss
    return Recollection(wide, "", tables, derived, epsilon=epsilon, price=price, recalled=recalled)


def is_little(compiler: Compiler, query: Question, prepared: Prepared, wide: WideTable) -> bool:
    """Whether the wide table is little more work than what is asked."""
    sizes = compiler.policy, compiler.public.size
    step = partial(is_little_more, prepared, wide.prepared, *sizes)
    return compiler.freely(step, query.stop)


def first(wide: WideTable, tables: Sequence[MeasuredCells], targets: Sequence[Target]) -> int:
    """How many of the first tables were enough, so that the same question keeps its answer."""

    def is_enough(count: int) -> bool:
        return reaches(derivations(wide, tables[:count]), targets)

    return bisect_left(range(len(tables)), x=True, key=is_enough)


def _cheapest(
    compiler: Compiler,
    query: Question,
    wide: WideTable,
    tables: Sequence[MeasuredCells],
    targets: Sequence[Target],
) -> tuple[WideTable, Decimal]:
    """The wide table at the least ε that is enough beside what is known.

    Only where the variance of noise falls as the charge grows, so that nothing is lost by paying
    in parts.
    """
    budget, most = query.account.budget, query.account.epsilon
    if accountants.get(budget.accountant).order > 1:
        return wide, most
    little, enough = 0.0, 1.0
    for _ in range(_HALVINGS):
        part = (little + enough) / 2
        if reaches(derivations(wide, tables, [wide], 1 / part), targets):
            enough = part
        else:
            little = part
    for epsilon in _epsilons(budget, most, enough) if enough < _PART else ():
        cheaper = compiler.prepared(query.at(epsilon)).wide
        if cheaper is not None and reaches(derivations(cheaper, tables, [cheaper]), targets):
            return cheaper, epsilon
    return wide, most


def _epsilons(budget: Budget, most: Decimal, part: float) -> Iterator[Decimal]:
    """Those below `most` that buy about this part of it, none cheaper than a question is."""
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)
    whole = accountant.allowance(Fraction(most), delta, selects_keys=False).amount
    amount = Loss(ceil(whole * Fraction(part) * NANO))
    epsilon = _FOUR.plus(Decimal(accountant.epsilon(amount, delta)))
    for _ in range(3):
        least = max(epsilon, accountants.cheapest_epsilon(budget))
        if least < most:
            yield least
        epsilon = _FOUR.multiply(epsilon, Decimal("1.001"))


def derivations(
    wide: WideTable,
    tables: Sequence[MeasuredCells],
    planned: Sequence[WideTable] = (),
    times: float = 1.0,
) -> Iterator[Derivation]:
    """How each column of the question is derived of tables of its rows; with those that are
    `planned` as if they were there too, with so many times the variance.
    """
    measured = wide.measured
    sizes = dict[str, int]()
    for each in (wide, *planned):
        sizes |= dict(zip(each.measured.keys, each.sizes, strict=True))
    for table in tables:
        sizes |= table.sizes
    cells = AskedCells(measured.keys, wide.chosen, sizes)
    for column in wide.columns:
        part = measured.parts[column]
        every = readings(tables, part)
        for each in planned:
            every += planned_readings(each, part, times)
        yield derivation(cells, every)


def planned_readings(table: WideTable, part: str, times: float = 1.0) -> Iterator[CellReading]:
    """What a table will tell of a part, with so many times the variance."""
    measured = table.measured
    for name, noise in zip(measured.parts, measured.noises, strict=True):
        if name == part:
            yield CellReading(measured.keys, scaled(noise, times))


def reaches(derived: Iterable[Derivation], targets: Sequence[Target]) -> bool:
    """Whether every column errs no more than it may."""
    return all(target.is_reached(d) for d, target in zip(derived, targets, strict=True))


def fresh_targets(prepared: Prepared) -> list[Target]:
    """How much fresh columns would err."""
    assert prepared.plan is not None
    variances = (standard_deviation(r.noise) ** 2 for r in prepared.blocks[0].releases)
    shown = is_by_row(prepared.plan.outer)
    return [Target(variance * ENOUGH, by_itself=shown) for variance in variances]


def _noisy(prepared: Prepared, wide: WideTable, derived: Iterable[Derivation]) -> Noisy:
    """The question's table, with the noise that its numbers have."""
    listed, (block,) = tuple(derived), prepared.blocks
    columns = [each.cells() for each in listed]
    parts = tuple(tuple(int(cells[place]) for cells in columns) for place in wide.places)
    return Noisy(block.domain or (), parts)
