"""from_memory: answers a question from earlier measurements, and measures only the rest.

A question with a wide form (see `dpsql.compiler.plan.wide_tables`) measures its population's whole
table, by its keys and the columns of its conditions; unrequested cells are kept unseen. Later
questions about such tables are free. If their precision is lower than that of a fresh answer, the
difference is paid, where ρ adds up to precision. The same table is measured at just that ε, or its
differences along keys with well-known totals. Otherwise the whole table is measured.

Decisions read variances, text, policy and ledger, never a released number: PRIVACY.md R79.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction
from functools import partial, reduce
from math import ceil
from operator import add

from dpsql import accountants
from dpsql.answering.shared_answers import shared, told_again
from dpsql.compiler.errors.outputs import is_by_row
from dpsql.compiler.plan.prepared import Prepared, WideTable
from dpsql.compiler.plan.wide_tables import differing
from dpsql.consistency.residuals import AskedCells
from dpsql.ledgers import PaidAnswer, Remembered
from dpsql.mechanisms import standard_deviation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.origins import DerivedColumns
from dpsql.model.query_options import Memory
from dpsql.model.vocabulary import NANO, Answer, Budget, Loss, Noisy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Question
from dpsql.preparation.workload import is_little_more
from dpsql.vault.measured_cells import (
    CellReading,
    Derivation,
    MeasuredCells,
    derivation,
    noise_of,
    reading_of,
    readings,
)
from dpsql.vault.vault import Vault

ENOUGH = 1 + 1e-6
"""Tolerance within which variances count as equal."""

_HALVINGS = 24
_PART = 0.99
"""Share from which a part of a table is measured as the whole."""

_FOUR = Context(prec=4, rounding=ROUND_UP)


@dataclass(frozen=True, slots=True)
class Target:
    """Variance that a derived column must reach: that of a fresh one.

    If each number is shown `by_itself`, the variance of cells counts, else the largest variance of
    any combination of cells.
    """

    variance: float
    by_itself: bool

    def is_reached(self, derived: Derivation) -> bool:
        """Test whether derived numbers are as precise as fresh ones."""
        return (derived.variance if self.by_itself else derived.largest) <= self.variance


@dataclass(frozen=True, slots=True, eq=False)
class Recollection:
    """A way to answer a question: from `tables`, the last of them by query `last`, and a `wide` one
    measured first at `epsilon` (None: nothing is measured).

    `lent` are tables of other analysts that this analyst's limits have not paid for. `price` is
    that of everything, `recalled` the saved percentage of a fresh answer's price; `derived` is the
    noise of the columns.
    """

    wide: WideTable
    last: str
    tables: tuple[MeasuredCells, ...]
    lent: tuple[PaidAnswer, ...]
    derived: DerivedColumns
    epsilon: Decimal | None
    price: Loss
    recalled: int


def answered(compiler: Compiler, vault: Vault, query: Question) -> Answer:
    """Return the answer to one question, from memory as far as possible. Raises as `Proxy.ask`
    does.
    """
    if not compiler.questions(query):
        return vault.answered(compiler, query)
    if query.memory is Memory.OFF:
        return vault.charged(compiler, query, compiler.prepared(query))
    with vault.in_flight.alone(compiler, query):
        return _remembered_or_paid(compiler, vault, query)


def _remembered_or_paid(compiler: Compiler, vault: Vault, query: Question) -> Answer:
    remembered = None
    if query.memory.repeats:
        lent = query.account.is_lent_answers
        remembered = (
            told_again(compiler, vault, query) if lent else vault.remembered(compiler, query)
        )
    if remembered is not None:
        return remembered
    memory, prepared = recollection(compiler, vault, query), compiler.prepared(query)
    if memory is None:
        remembered = vault.remembered(compiler, query)
        return remembered or vault.charged(compiler, query, prepared)
    answering = compiler.prepared(replace(query, derived=memory.derived))
    answering = replace(answering, columns=prepared.columns)
    query.require_room_for(prepared.columns)
    query_id, tables = memory.last, memory.tables
    if memory.price.amount:
        query.require_useful(prepared.notices, memory.price)
    question = memory.wide.prepared.question
    charged = shared(vault, query, question, memory.lent) if memory.lent else Loss(0)
    if memory.epsilon is not None:
        paying, wide = _paying(query, memory.epsilon), memory.wide.prepared
        earlier = vault.unanswered(paying, wide)
        query_id, measured = vault.measure(compiler, paying, wide, answering)
        charged = charged if query_id == earlier else memory.price
        tables = (*tables, measured)
    noisy = _noisy(answering, memory.wide, derivations(memory.wide, tables))
    payer = query.account
    if charged.amount and any(each.cube for each in memory.lent):
        delta = Fraction(payer.budget.query_delta)
        worth = accountants.get(payer.budget.accountant).epsilon(charged, delta)
        payer = replace(payer, epsilon=_FOUR.plus(Decimal(worth)))
    receipt = vault.till.receipt(payer, query_id, charged if charged.amount else None)
    paid = replace(receipt, recalled=memory.recalled)
    return vault.derived(compiler, query, answering, noisy, paid)


def _paying(query: Question, epsilon: Decimal) -> Question:
    """Return the question at a rest of its epsilon, with the requested epsilon if that was
    larger.
    """
    whole = query.account.epsilon
    return replace(query.at(epsilon), requested=whole if epsilon < whole else None)


def derived_answer(
    compiler: Compiler,
    vault: Vault,
    query: Question,
    wide: WideTable,
    tables: Sequence[MeasuredCells],
    paid: Receipt,
) -> Answer:
    """Return an answer that is computed from paid tables, free of charge, with their precision.

    The ε that the query asks for does not matter.
    """
    derived = tuple(derivations(wide, tables))
    answering = compiler.prepared(replace(query, derived=noise_of(derived)))
    answering = replace(answering, columns=compiler.prepared(query).columns)
    noisy = _noisy(answering, wide, derived)
    return vault.derived(compiler, query, answering, noisy, paid)


def repeated(compiler: Compiler, vault: Vault, query: Question) -> tuple[Remembered, str] | None:
    """Return the noisy answer that `answered` would repeat, and its form of the question."""
    if query.memory is Memory.OFF:
        return None
    if not query.memory.repeats and recollection(compiler, vault, query) is not None:
        return None
    return vault.memory.recalled(compiler, query, query.account.epsilon)


def recollection(compiler: Compiler, vault: Vault, query: Question) -> Recollection | None:
    """Return the way to answer a question from memory; None if a fresh answer is as cheap."""
    prepared = compiler.prepared(query)
    wide, plan = prepared.wide, prepared.plan
    if wide is None or plan is None or not query.memory.measures_wide:
        return None
    targets, history = fresh_targets(prepared), _Measured.of(vault, compiler, query, wide)
    enough = history.enough(wide, targets, plan.loss, keeps=query.memory.repeats)
    if enough is not None:
        derived = noise_of(tuple(derivations(wide, enough.tables)))
        recalled = _recalled(enough.price, plan.loss)
        return Recollection(
            wide,
            enough.last,
            enough.tables,
            enough.lent,
            derived=derived,
            epsilon=None,
            price=enough.price,
            recalled=recalled,
        )
    little = is_little(compiler, query, prepared, wide)
    return _topped_up(compiler, query, wide, history.free, targets) if little else None


def is_little(compiler: Compiler, query: Question, prepared: Prepared, wide: WideTable) -> bool:
    """Test whether the wide table adds little work to the question."""
    sizes = compiler.policy, compiler.public.size
    step = partial(is_little_more, prepared, wide.prepared, *sizes)
    return compiler.freely(step, query.stop)


def first(wide: WideTable, tables: Sequence[MeasuredCells], targets: Sequence[Target]) -> int:
    """Return how many of the first tables suffice, so that the same question keeps its answer."""

    def is_enough(count: int) -> bool:
        return reaches(derivations(wide, tables[:count]), targets)

    return bisect_left(range(len(tables)), x=True, key=is_enough)


def _topped_up(
    compiler: Compiler,
    query: Question,
    wide: WideTable,
    free: _Measured,
    targets: Sequence[Target],
) -> Recollection | None:
    """Return the free tables with a wide one added; None if that does not suffice."""
    fresh = wide.prepared.plan
    if fresh is None or not reaches(derivations(wide, free.tables, [wide]), targets):
        return None
    wide, epsilon = _cheapest(compiler, query, wide, free.tables, targets)
    measured = wide.prepared.plan
    assert measured is not None
    return Recollection(
        wide,
        "",
        free.tables,
        free.lent,
        derived=noise_of(tuple(derivations(wide, free.tables, [wide]))),
        epsilon=epsilon,
        price=measured.loss,
        recalled=_recalled(measured.loss, fresh.loss),
    )


def _recalled(price: Loss, fresh: Loss) -> int:
    """Return the saved percentage of a fresh answer's price."""
    return max(0, 100 - ceil(100 * price.amount / fresh.amount))


@dataclass(frozen=True, slots=True)
class _Measured:
    """Measurements of a population, in their order of use; `new` maps those that the analyst lacks
    to their price.
    """

    measured: tuple[tuple[PaidAnswer, MeasuredCells], ...]
    new: Mapping[PaidAnswer, Loss]

    @classmethod
    def of(cls, vault: Vault, compiler: Compiler, query: Question, wide: WideTable) -> _Measured:
        """Return the analyst's tables, then those of sharing analysts: free ones first, priced
        cubes last.
        """
        payer = query.account
        tables = vault.memory.tables(compiler, query, wide.prepared.question)
        new = {r: payer.price_of(r) for r in tables if not payer.has(r)}
        cost = {r: new.get(r, Loss(0)).amount > 0 for r in tables}
        order = sorted(tables, key=lambda r: (r in new, cost[r], cost[r] and bool(r.cube)))
        return cls(tuple((released, tables[released]) for released in order), new)

    @property
    def tables(self) -> tuple[MeasuredCells, ...]:
        return tuple(table for _, table in self.measured)

    @property
    def lent(self) -> tuple[PaidAnswer, ...]:
        """Measured answers that are new to the analyst."""
        return tuple(released for released, _ in self.measured if released in self.new)

    @property
    def price(self) -> Loss:
        """Price of the answers in `lent`; each cube counts once."""
        return reduce(add, {r.lent: self.new[r] for r in self.lent}.values(), Loss(0))

    @property
    def by_colleagues(self) -> Loss:
        """Price of the answers in `lent` without cubes."""
        return reduce(add, (self.new[r] for r in self.lent if not r.cube), Loss(0))

    @property
    def last(self) -> str:
        """Query of the last measurement."""
        return self.measured[-1][0].query_id

    @property
    def free(self) -> _Measured:
        """Measurements that are free."""
        return self._until(sum(not self.new.get(r, Loss(0)).amount for r, _ in self.measured))

    def _until(self, count: int) -> _Measured:
        return replace(self, measured=self.measured[:count])

    def enough(
        self, wide: WideTable, targets: Sequence[Target], fresh: Loss, *, keeps: bool
    ) -> _Measured | None:
        """Return the measurements to use, or None.

        All free ones if they match a fresh answer, else the first that suffice, if their price
        without cubes is at most that of a fresh answer. A question that `keeps` its answer uses the
        first that sufficed.
        """
        if not reaches(derivations(wide, self.tables), targets):
            return None
        count = first(wide, self.tables, targets)
        most = len(self.free.measured)
        enough = self._until(count if keeps or count > most else most)
        return enough if enough.by_colleagues.is_within(fresh) else None


def _cheapest(
    compiler: Compiler,
    query: Question,
    wide: WideTable,
    tables: Sequence[MeasuredCells],
    targets: Sequence[Target],
) -> tuple[WideTable, Decimal]:
    """Return the wide table at the least ε that suffices together with known tables.

    Only if noise variance falls as the charge grows, so that paying in parts loses nothing.
    """
    budget, most = query.account.budget, query.account.epsilon
    if accountants.get(budget.accountant).order > 1:
        return wide, most
    cheapest = accountants.cheapest_epsilon(budget)
    floor = _amount(budget, cheapest) / _amount(budget, most)
    measured = _least(wide, tables, targets, float(floor))
    if measured is None:
        return wide, most
    part, along = measured
    for epsilon in _epsilons(budget, most, part):
        cheaper = compiler.prepared(query.at(epsilon)).wide
        table = None if cheaper is None else differing(cheaper, along)
        if table is not None and reaches(derivations(table, tables, [table]), targets):
            return table, epsilon
    return wide, most


def _least(
    wide: WideTable, tables: Sequence[MeasuredCells], targets: Sequence[Target], floor: float
) -> tuple[float, tuple[int, ...]] | None:
    """Return the approximate least share of its loss that suffices for a wide table, and its keys
    of differences.

    The share is at least the `floor`. None if it is nearly the whole. Keys are added one by one,
    the most saving first: known means are not paid for again.
    """
    part = max(floor, _enough(wide, tables, targets, 1.0) or 1.0)
    along, better = tuple[int, ...](), True
    while better and part > floor:
        better, fewer = False, along
        for place in range(len(wide.sizes)):
            table = differing(wide, (*fewer, place)) if place not in fewer else None
            less = None if table is None else _enough(table, tables, targets, part * _PART)
            if less is not None:
                part, along, better = max(floor, less), (*fewer, place), True
    return (part, along) if part < _PART else None


def _enough(
    wide: WideTable, tables: Sequence[MeasuredCells], targets: Sequence[Target], most: float
) -> float | None:
    """Return the least share of its loss, at most `most`, at which a wide table suffices; None if
    none does.
    """

    def is_enough(part: float) -> bool:
        return reaches(derivations(wide, tables, [wide], 1 / part), targets)

    if not is_enough(most):
        return None
    little, enough = 0.0, most
    for _ in range(_HALVINGS):
        part = (little + enough) / 2
        little, enough = (little, part) if is_enough(part) else (part, enough)
    return enough


def _amount(budget: Budget, epsilon: Decimal) -> Fraction:
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)
    return Fraction(accountant.allowance(Fraction(epsilon), delta, selects_keys=False).amount)


def _epsilons(budget: Budget, most: Decimal, part: float) -> Iterator[Decimal]:
    """Yield epsilons below `most` that buy about this share of it, none below the least charge."""
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)
    amount = Loss(ceil(_amount(budget, most) * Fraction(part) * NANO))
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
    """Yield the derivation of each column of the question from tables of its rows.

    Tables that are `planned` count as if they were measured, with `times` the variance.
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
    """Yield the readings of a planned table for a measurement, with `times` the variance."""
    measured = table.measured
    for name, noise in zip(measured.parts, measured.noises, strict=True):
        if name == part:
            yield reading_of(measured, table.sizes, noise, times)


def reaches(derived: Iterable[Derivation], targets: Sequence[Target]) -> bool:
    """Test whether every column is as precise as its target."""
    return all(target.is_reached(d) for d, target in zip(derived, targets, strict=True))


def fresh_targets(prepared: Prepared) -> list[Target]:
    """Return the targets of fresh columns."""
    assert prepared.plan is not None
    variances = (standard_deviation(r.noise) ** 2 for r in prepared.blocks[0].releases)
    shown = is_by_row(prepared.plan.outer)
    return [Target(variance * ENOUGH, by_itself=shown) for variance in variances]


def _noisy(prepared: Prepared, wide: WideTable, derived: Iterable[Derivation]) -> Noisy:
    """Return the question's table of integers from the derived cells."""
    listed, (block,) = tuple(derived), prepared.blocks
    columns = [each.cells() for each in listed]
    parts = tuple(tuple(int(cells[place]) for cells in columns) for place in wide.places)
    return Noisy(block.domain or (), parts)
