"""joint_plan: statements priced and measured together, with answers that agree.

Common parts are measured once: equal questions, and tables of the same rows (see `from_memory`)
from which all requested cells are derived. The price is divided among tables in one of two ways.
Either each answer is as precise as alone, for the least sum; or a given price buys the least sum of
all relative variances.

Everything is charged in one transaction, before any measurement. Statements that first find bounds
are the exception: their steps follow the others, and their prices must fit before the first charge.

Decisions read texts, policy, plans and the ledger of charges: PRIVACY.md R80.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_UP, Context, Decimal
from fractions import Fraction
from functools import reduce
from math import ceil, isclose
from operator import add

import numpy as np

from dpsql import accountants
from dpsql.answering import from_memory, two_steps
from dpsql.answering.explain import explained, price
from dpsql.answering.from_memory import Target
from dpsql.answering.shared_answers import shared
from dpsql.compiler.plan.prepared import Prepared, WideTable
from dpsql.consistency.joint_shares import JointAnswer, JointShares
from dpsql.consistency.residuals import AskedCells
from dpsql.dialects.statements.commands import Explain
from dpsql.engines import Stop
from dpsql.ledgers import PaidAnswer
from dpsql.mechanisms import standard_deviation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.query_options import Memory
from dpsql.model.vocabulary import ATTO, NANO, Answer, Column, Loss, Mechanism, Receipt, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.explanation import Forecast
from dpsql.preparation.period_plans import common_periods
from dpsql.preparation.private_bounds import payable
from dpsql.preparation.question import Account, Question, account, text_key
from dpsql.vault.measured_cells import MeasuredCells, noise_of, readings
from dpsql.vault.vault import Vault

_MORE = (1.0, 1.001, 1.003, 1.01, 1.03)
"""Factors by which rounding may raise the least prices."""
_SAME = 1e-3
"""Relative difference below which prices buy the same ε."""
_LESS = (1.0, 0.999, 0.99, 0.97, 0.95)
"""Factors by which rounding may lower the best prices."""


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """A statement among several, and its plan at the ε that it would have alone.

    With `steps`, bounds must be found first, those of columns before any plan (`bounds_first`):
    `prepared` has the widest ones. It `shares` its wide table if that adds little work, and also
    uses its population's `tables`. It is `paid` if nothing is lacking.
    """

    query: Question
    prepared: Prepared
    steps: bool = False
    bounds_first: bool = False
    shares: bool = False
    paid: bool = False
    tables: tuple[MeasuredCells, ...] = ()

    @property
    def wide(self) -> WideTable | None:
        """Table that it shares with other statements."""
        return self.prepared.wide if self.shares else None

    @property
    def population(self) -> str:
        """Identity of the rows of shared tables; empty if nothing is shared."""
        return "" if self.wide is None else self.wide.prepared.question

    @property
    def identity(self) -> tuple[object, ...]:
        """Identity of the measurement."""
        if self.steps:
            return text_key(self.query.request)
        if self.wide is None:
            return (self.prepared.question,)
        measured = self.wide.measured
        return self.population, frozenset(measured.keys), frozenset(measured.parts)

    @property
    def measured(self) -> Prepared:
        """Plan of its measurement."""
        return self.prepared if self.wide is None else self.wide.prepared

    def at(self, compiler: Compiler, epsilon: Decimal) -> Beside:
        """Return the same statement at another ε, compiled for it; nothing else changes."""
        query = self.query.at(epsilon)
        prepared = self.prepared if self.bounds_first else compiler.prepared(query)
        return replace(self, query=query, prepared=prepared)


NOTHING = Loss(0)


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """Prices of a statement: `alone` now, and `together` for measurements made for it first.
    `expected` is the half-width at 95 % of each column, or its forecast; None for an exact one.
    """

    sql: str
    columns: tuple[Column, ...] = ()
    alone: Loss = NOTHING
    together: Loss = NOTHING
    expected: tuple[float | Forecast | None, ...] = ()
    refused: Refused | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JointPlan:
    """Prices of several statements together, known before anything is asked.

    `parts` are measured in one transaction. `questions` are the askable statements, at the ε of
    their answers, and `goals` are their targets. The ε of `account` is the worth of the whole
    `price`.
    """

    statements: tuple[PlannedStatement, ...]
    account: Account
    price: Loss
    parts: tuple[Beside, ...]
    questions: tuple[Beside, ...]
    goals: tuple[tuple[Target, ...], ...]

    @property
    def alone(self) -> Loss:
        """Price of the statements one by one."""
        return reduce(add, (statement.alone for statement in self.statements), NOTHING)

    @property
    def refusals(self) -> tuple[tuple[int, Refused], ...]:
        """Numbers (from 1) and refusals of statements that cannot be asked."""
        numbered = enumerate(self.statements, 1)
        return tuple((n, s.refused) for n, s in numbered if s.refused is not None)


# --- before anything is asked ---


def planned(
    compiler: Compiler,
    vault: Vault,
    requests: Sequence[Request],
    stop: Stop,
    epsilon: Decimal | None = None,
) -> JointPlan:
    """Return the joint plan of one analyst's statements, for an `epsilon`, or at the least price
    for which each is as precise as alone.

    Runs nothing and charges nothing. Refusals of single statements are in the plan. Raises
    `Refused` for an ε that does not pay for all measurements.
    """
    questions: list[Beside] = []
    refused = dict[int, Refused]()
    for place, request in enumerate(requests):
        try:
            questions.append(beside(compiler, vault, read(compiler, request, stop)))
        except Refused as error:
            refused[place] = error
    payer = account(compiler.policy, requests[0].analyst, chain=requests[0].chain)
    plan = of_questions(compiler, vault, payer, questions, epsilon)
    priced = iter(plan.statements)
    every = (
        PlannedStatement(request.sql, refused=refused[n]) if n in refused else next(priced)
        for n, request in enumerate(requests)
    )
    return replace(plan, statements=tuple(every))


def read(compiler: Compiler, request: Request, stop: Stop) -> Question:
    """Return a statement as a question that shares its tables with the others.

    Raises `Refused`, also for a statement without a price before it is asked.
    """
    said = compiler.statement(request, stop)
    text = said.inner(request.sql) if isinstance(said, Explain) else request.sql
    query = compiler.read(replace(request, sql=text), stop)
    if text != request.sql:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, construct="EXPLAIN beside other statements")
    if query.precision is not None:
        why = "a relative error has no price before it is asked"
        fix = "Ask for an absolute error, or ask this statement by itself."
        raise Refused(Reason.BAD_OPTION, option="max_error", why=why, fix=fix)
    if query.memory is Memory.OFF:
        why = "what is measured for one statement answers the others"
        raise Refused(Reason.BAD_OPTION, option="memory", why=why)
    payer = query.account
    wide = replace(payer, budget=replace(payer.budget, memory=Memory.WIDE))
    return compiler.in_periods(replace(query, account=wide))


def beside(compiler: Compiler, vault: Vault, query: Question) -> Beside:
    """Return the question with its plan, and the tables that are known. Raises `Refused`."""
    steps = two_steps.steps_of(compiler, vault, query)
    if steps is not None:
        bounds_first = isinstance(steps, two_steps.ColumnSteps)
        prepared = compiler.prepared(steps.last if bounds_first else query)
        return Beside(query, prepared, steps=True, bounds_first=bounds_first)
    prepared = compiler.prepared(query)
    wide = prepared.wide
    if prepared.plan is None:
        return Beside(query, prepared, paid=True)
    if vault.memory.recalled(compiler, query, query.account.epsilon) is not None:
        return Beside(query, prepared, paid=True)
    if wide is None or not from_memory.is_little(compiler, query, prepared, wide):
        return Beside(query, prepared)
    tables = tuple(vault.memory.measurements(compiler, query, wide.prepared.question).values())
    derived = from_memory.derivations(wide, tables)
    paid = from_memory.reaches(derived, from_memory.fresh_targets(prepared))
    return Beside(query, prepared, shares=True, paid=paid, tables=tables)


def of_questions(
    compiler: Compiler,
    vault: Vault,
    payer: Account,
    questions: Sequence[Beside],
    epsilon: Decimal | None = None,
) -> JointPlan:
    """Return the plan of questions of one payer; see `planned`."""
    payer = replace(payer, periods=common_periods(each.prepared for each in questions))
    private = (each for each in questions if each.prepared.plan is not None)
    divided = [each for each in private if not (each.paid and epsilon is None)]
    measured = _calibrated(compiler, payer, divided, epsilon)
    by_identity = {part.identity: part for part in measured}
    answered = tuple(_beside_parts(compiler, each, by_identity) for each in questions)
    goals = tuple(_goals(each, measured, epsilon) for each in answered)
    parts = tuple(
        part for part in measured if epsilon is None or not _is_there(compiler, vault, part)
    )
    prices = {part.identity: _price(compiler, vault, part) for part in parts}
    total = reduce(add, prices.values(), NOTHING)
    statements = []
    for own, each in zip(answered, questions, strict=True):
        of_it = NOTHING if own.prepared.plan is None else prices.pop(own.identity, NOTHING)
        statements.append(
            PlannedStatement(
                each.query.request.sql,
                each.prepared.columns,
                price(compiler, vault, _by_itself(compiler, each)),
                of_it,
                _expected(compiler, vault, own, parts),
            )
        )
    # Each private key had its share of a query's δ: what the conversion needs comes on top.
    delta = Fraction(payer.budget.query_delta) + Fraction(total.delta, ATTO)
    epsilon_of_all = accountants.get(payer.budget.accountant).epsilon(total, delta)
    worth = replace(payer, epsilon=Context(prec=3).plus(Decimal(epsilon_of_all)))
    joint = tuple(part for part in parts if not part.steps)
    return JointPlan(tuple(statements), worth, total, parts=joint, questions=answered, goals=goals)


def _beside_parts(
    compiler: Compiler, each: Beside, parts: Mapping[tuple[object, ...], Beside]
) -> Beside:
    """Return a statement at the ε of its own measurement."""
    part = None if each.wide is not None else parts.get(each.identity)
    return each if part is None else each.at(compiler, part.query.account.epsilon)


def _by_itself(compiler: Compiler, each: Beside) -> Question:
    """Return the question as it would be asked alone."""
    query, policy = each.query, compiler.policy
    own = next((b for b in policy.budgets if b.name == query.account.budget.name), None)
    return query if own is None else replace(query, account=replace(query.account, budget=own))


def _price(compiler: Compiler, vault: Vault, part: Beside) -> Loss:
    if part.steps:
        return price(compiler, vault, part.query)
    plan = part.measured.plan
    assert plan is not None
    return NOTHING if vault.unanswered(part.query, part.measured) else plan.loss


def _goals(each: Beside, measured: Sequence[Beside], epsilon: Decimal | None) -> tuple[Target, ...]:
    """Return the targets of its columns: those of fresh ones, or of the bought precision."""
    if each.wide is None:
        return ()
    fresh = tuple(from_memory.fresh_targets(each.prepared))
    if epsilon is None:
        return fresh
    bought = from_memory.derivations(each.wide, (), _tables(measured, each.population))
    return tuple(
        Target((d.variance if t.by_itself else d.largest) * from_memory.ENOUGH, t.by_itself)
        for t, d in zip(fresh, bought, strict=True)
    )


def _recorded(compiler: Compiler, vault: Vault, each: Beside) -> Mapping[PaidAnswer, MeasuredCells]:
    return vault.memory.measurements(compiler, each.query, each.population)


def _is_there(compiler: Compiler, vault: Vault, part: Beside) -> bool:
    """Test whether a part is measured already, at its ε or a larger one."""
    if part.steps:
        return False
    if part.wide is None:
        epsilon = part.query.account.epsilon
        return vault.memory.recalled(compiler, part.query, epsilon) is not None
    measured = part.wide.measured
    needed = dict(zip(measured.parts, map(standard_deviation, measured.noises), strict=True))
    return any(
        set(table.sizes) == set(measured.keys)
        and not table.along
        and all(
            p in table.noises and standard_deviation(table.noises[p]) <= most
            for p, most in needed.items()
        )
        for table in part.tables
    )


def _expected(
    compiler: Compiler, vault: Vault, each: Beside, parts: Sequence[Beside]
) -> tuple[float | Forecast | None, ...]:
    """Return the half-widths of a statement's columns once `parts` are measured."""
    if each.prepared.plan is None:
        return (None,) * len(each.prepared.columns)
    if each.steps:
        return explained(compiler, vault, each.query).errors
    query, of = each.query, each.prepared.question
    if each.wide is not None:
        planned_tables = _tables(parts, each.population)
        noise = noise_of(tuple(from_memory.derivations(each.wide, each.tables, planned_tables)))
        query = replace(query, derived=noise)
    return compiler.described(query, query.account.epsilon, of).expected


def _tables(parts: Sequence[Beside], population: str) -> list[WideTable]:
    """Return the wide tables of a population."""
    return [part.wide for part in parts if part.wide and part.population == population]


def _sizes(tables: Sequence[WideTable]) -> dict[str, int]:
    """Return the number of values of each key of some tables."""
    return {
        key: size
        for table in tables
        for key, size in zip(table.measured.keys, table.sizes, strict=True)
    }


# --- calibration ---


def _calibrated(
    compiler: Compiler, payer: Account, questions: Sequence[Beside], epsilon: Decimal | None
) -> tuple[Beside, ...]:
    """Return the measurements, each at its ε."""
    ordered = sorted(questions, key=lambda each: each.query.account.epsilon)
    dearest = {each.identity: each for each in ordered}
    measures = tuple(dearest[i] for i in dict.fromkeys(each.identity for each in questions))
    if not measures:
        return ()
    shares = _shares(payer, questions, measures, knows=epsilon is None)
    least = accountants.least_charge(payer.budget).amount / NANO
    if epsilon is None:
        prices = _pruned(shares, least)
        assert prices is not None
        return _as_exact(compiler, payer, questions, measures, prices)
    allowed = _allowed(payer, epsilon, selects=False)
    prices = _pruned(shares, least, allowed)
    for less in () if prices is None else _LESS:
        assert prices is not None
        parts = _at(compiler, payer, measures, prices * less, ROUND_DOWN)
        losses = [p.measured.plan.loss for p in parts if p.measured.plan is not None]
        if sum(loss.amount for loss in losses) <= ceil(allowed * NANO):
            return parts
    why = f"each of {len(measures)} measurements is charged at least the least charge"
    raise Refused(Reason.BAD_OPTION, option="epsilon", value=epsilon, why=why)


def _as_exact(
    compiler: Compiler,
    payer: Account,
    questions: Sequence[Beside],
    measures: tuple[Beside, ...],
    prices: np.ndarray,
) -> tuple[Beside, ...]:
    """Return measurements that make every statement as precise as alone.

    They have these prices if their sum is less than that of each statement's own.
    """
    own = sum(_amount(each) for each in measures)
    for more in _MORE if prices.sum() < own else ():
        parts = _at(compiler, payer, measures, prices * more, ROUND_UP)
        if all(_suffice(each, parts) for each in questions):
            return parts
    return measures


def _suffice(each: Beside, parts: Sequence[Beside]) -> bool:
    """Test whether these parts make a statement as precise as alone."""
    if each.wide is not None:
        derived = from_memory.derivations(each.wide, each.tables, _tables(parts, each.population))
        return from_memory.reaches(derived, from_memory.fresh_targets(each.prepared))
    least = each.query.account.epsilon
    return any(p.identity == each.identity and p.query.account.epsilon >= least for p in parts)


def _at(
    compiler: Compiler,
    payer: Account,
    measures: Sequence[Beside],
    prices: np.ndarray,
    rounding: str,
) -> tuple[Beside, ...]:
    """Return the paid measurements, each at the ε that its price is worth."""
    budget = payer.budget
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)
    digits, parts = Context(prec=4, rounding=rounding), []
    for each, amount in zip(measures, prices.tolist(), strict=True):
        if isclose(amount, _amount(each), rel_tol=_SAME):
            parts.append(each)
        elif amount > 0:
            worth = digits.plus(Decimal(accountant.epsilon(Loss(ceil(amount * NANO)), delta)))
            least = accountants.cheapest_epsilon(budget)
            parts.append(each.at(compiler, min(max(worth, least), budget.max_query_epsilon)))
    return tuple(parts)


def _amount(each: Beside) -> float:
    """Return the price of a statement at its own ε, in the accountant's unit."""
    return _allowed(each.query.account, each.query.account.epsilon, selects=each.prepared.selects)


def _allowed(payer: Account, epsilon: Decimal, *, selects: bool) -> float:
    accountant, delta = accountants.get(payer.budget.accountant), payer.budget.query_delta
    allowance = accountant.allowance(Fraction(epsilon), Fraction(delta), selects_keys=selects)
    return float(allowance.amount)


def _pruned(shares: JointShares, least: float, total: float | None = None) -> np.ndarray | None:
    """Return prices of at least `least`; None if they would exceed the total.

    Measurements that are not worth it get 0, unless something could not be answered without
    them.
    """
    left, places = shares, np.arange(len(shares.precisions))
    while True:
        prices = left.least() if total is None else left.best(total)
        for place in np.argsort(prices):
            fewer = left.without(int(place)) if prices[place] < least / 2 else None
            if fewer is not None:
                left, places = fewer, np.delete(places, place)
                break
        else:
            break
    raised = prices < least
    if total is not None:
        rest = total - least * raised.sum()
        if rest < 0 or (rest == 0 and not raised.all()):
            return None
        prices = prices * (rest / max(prices[~raised].sum(), least))
    result = np.zeros(len(shares.precisions))
    result[places] = np.where(raised, least, np.maximum(prices, least))
    return result


def _shares(
    payer: Account, questions: Sequence[Beside], measures: Sequence[Beside], *, knows: bool
) -> JointShares:
    """Return the precision of each statement by the prices of all measurements, given known
    tables.
    """
    order = accountants.get(payer.budget.accountant).order
    places = {each.identity: n for n, each in enumerate(measures)}
    answers: list[JointAnswer] = []
    for each in questions:
        if each.wide is not None:
            answers += _columns(each, each.wide, measures, order, knows=knows)
            continue
        precision = np.zeros((len(measures), 1))
        precision[places[each.identity]] = 1.0
        answers.append(JointAnswer(np.array([_amount(each) ** order]), precision, np.zeros(1)))
    laws = {noise.mechanism for m in measures if m.wide for noise in m.wide.measured.noises}
    return JointShares.of(answers, order, combined=laws <= {Mechanism.DISCRETE_GAUSSIAN})


def _columns(
    question: Beside, wide: WideTable, measures: Sequence[Beside], order: int, *, knows: bool
) -> Iterator[JointAnswer]:
    """Yield the columns of a statement, as sums of residuals of all tables of its rows."""
    others = [
        (n, each.wide, _amount(each) ** order)
        for n, each in enumerate(measures)
        if each.wide is not None and each.population == wide.prepared.question
    ]
    tables = question.tables if knows else ()
    sizes = _sizes([wide, *(table for _, table, _ in others)])
    for measured in tables:
        sizes |= measured.sizes
    cells = AskedCells(wide.measured.keys, wide.chosen, sizes)
    targets = from_memory.fresh_targets(question.prepared)
    for column, target in zip(wide.columns, targets, strict=True):
        part = wide.measured.parts[column]
        shares = cells.shares(largest=not target.by_itself) / target.variance
        precisions = np.zeros((len(measures), *shares.shape))
        for n, table, amount in others:
            for reading in from_memory.planned_readings(table, part):
                precisions[n] = (
                    cells.precision(reading.axes, reading.variance, reading.along) / amount
                )
        base = np.zeros(shares.shape)
        for reading in readings(tables, part):
            base = base + cells.precision(reading.axes, reading.variance, reading.along)
        yield JointAnswer(shares, precisions, base, 1 / len(wide.columns))


# --- asking ---


def answered(
    compiler: Compiler, vault: Vault, plan: JointPlan
) -> tuple[tuple[Answer, ...], Receipt]:
    """Return the answers to all statements, charged together. Raises as `Proxy.ask` does, for the
    first statement that cannot be asked.
    """
    for _, refused in plan.refusals:
        raise refused
    for each in plan.questions:
        each.query.require_room_for(each.prepared.columns)
        if not each.bounds_first:  # with the widest bounds, more seems useless than is
            each.query.require_useful(each.prepared.notices, plan.price)
    paid = measure(compiler, vault, plan)
    counts = count_tables(compiler, vault, plan)
    for each in {e.population: e for e in plan.questions if e.wide is not None}.values():
        lent = list(_recorded(compiler, vault, each))[: counts[each.population]]
        if not all(map(each.query.account.has, lent)):
            shared(vault, each.query, each.population, lent)
    answers = tuple(_answer(compiler, vault, each, counts, paid) for each in plan.questions)
    receipts = [each.receipt for each in answers if each.receipt is not None]
    query_id = paid or (receipts[0].query_id if receipts else "")
    if plan.price == NOTHING:
        worth = max((each.epsilon for each in receipts), default=plan.account.epsilon)
        return answers, vault.till.receipt(replace(plan.account, epsilon=worth), query_id)
    return answers, vault.till.receipt(plan.account, query_id, plan.price)


def count_tables(compiler: Compiler, vault: Vault, plan: JointPlan) -> Mapping[str, int]:
    """Return the number of measured tables that answers use, by their population."""
    counts = dict[str, int]()
    for each, goals in zip(plan.questions, plan.goals, strict=True):
        if each.wide is not None:
            tables = tuple(_recorded(compiler, vault, each).values())
            enough = from_memory.first(each.wide, tables, goals)
            counts[each.population] = max(counts.get(each.population, 0), enough)
    return counts


def measure(compiler: Compiler, vault: Vault, plan: JointPlan) -> str:
    """Charge and run a plan's measurements; return the id of the first, "" if all exist. Raises as
    `Proxy.ask` does.
    """
    for standing in vault.till.standings(plan.account):
        try:
            payable(standing, plan.price)
        except Refused as refused:
            raise plan.account.in_epsilon(refused, standing) from None
    if not plan.parts:
        return ""
    measured = [(part.query, part.measured) for part in plan.parts]
    answering = [(each.query, each.prepared) for each in plan.questions if each.prepared.plan]
    return vault.measure_all(compiler, measured, answering)


def _answer(
    compiler: Compiler, vault: Vault, each: Beside, counts: Mapping[str, int], paid: str
) -> Answer:
    """Return the answer to a statement, from paid measurements or in its steps."""
    if each.steps or each.prepared.plan is None:
        return two_steps.answered(compiler, vault, each.query)
    if each.wide is None:
        answer = vault.remembered(compiler, each.query)
        if answer is None:  # the data were changed in between
            raise Failed(paid, charged=bool(paid))
        return answer
    recorded = _recorded(compiler, vault, each)
    count = counts[each.population]
    if not count:
        raise Failed(paid, charged=bool(paid))
    tables, last = tuple(recorded.values())[:count], list(recorded)[count - 1]
    receipt = replace(vault.till.receipt(each.query.account, last.query_id), recalled=100)
    return from_memory.derived_answer(compiler, vault, each.query, each.wide, tables, receipt)
