"""What a query is charged is what all that it releases costs: nothing is left out, nothing unused.

The events are put together again from the plan, and their loss is what the query may spend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpsql import accountants
from dpsql.compiler.plan.private_plan import BlockPlan, Payment, PrivatePlan, Release, Unpaid
from dpsql.compiler.plan.published_keys import (
    ListedKeys,
    ThresholdKeys,
    TopKeys,
    TrialKeys,
)
from dpsql.mechanisms.matrix_noise import MatrixNoise
from dpsql.model.algebra import Released
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import (
    ATTO,
    NANO,
    ApproximateEvent,
    BoundedRangeEvent,
    EventPart,
    Mechanism,
    Noise,
    NoiseEvent,
    SelectionEvent,
    Sensitivity,
)
from dpsql.model.walk import relations
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, charges, compiled

PRIVATE = "SELECT city, COUNT(*) AS n FROM customers GROUP BY city"
RANKED = (
    "SELECT amount, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id) AS r FROM orders"
)
NINE = ", ".join(f"QUANTILE_DISC(age, {n / 10})" for n in range(1, 10))
ASKED = {
    "one count": "SELECT COUNT(*) FROM customers",
    "several sums": "SELECT SUM(age), SUM(income), COUNT(*), SUM(vip::INTEGER) FROM customers",
    "moments": "SELECT AVG(income), VAR_POP(age), CORR(age, income) FROM customers",
    "moments of several rows": f"SELECT AVG(amount) FROM ({RANKED}) AS t WHERE r <= 3",
    "disjoint rows": (
        "SELECT COUNT(*) FILTER (WHERE segment = 'consumer'), SUM(age),"
        " COUNT(*) FILTER (WHERE segment = 'business') FROM customers"
    ),
    "private keys": PRIVATE,
    "private keys and sums": "SELECT city, SUM(age), AVG(income) FROM customers GROUP BY city",
    "two blocks of private keys": (
        f"{PRIVATE} UNION ALL SELECT device, COUNT(*) FROM events GROUP BY device"
    ),
    "private keys beside public ones": (
        f"SELECT n FROM ({PRIVATE}) AS t UNION ALL SELECT COUNT(*) FROM orders GROUP BY status"
    ),
    "keys alone": "SELECT DISTINCT device FROM events",
    "quantiles": f"SELECT {NINE} FROM customers",
    "choices": ("SELECT status, MODE(quantity), MEDIAN(quantity), COUNT(*) FROM orders GROUP BY 1"),
    "the first keys": (
        "SELECT HOUR(placed_at) AS h FROM orders GROUP BY h ORDER BY COUNT(*) DESC, h LIMIT 2"
    ),
    "the first keys, measured": (
        "SELECT HOUR(placed_at) AS h, COUNT(*) AS n FROM orders"
        " GROUP BY h ORDER BY n DESC, h LIMIT 1"
    ),
    "means that are tested": "SELECT segment, PTR_MEAN(income, 3) FROM customers GROUP BY segment",
    "extremes by sparse vector": (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'sparse-vector')"
        " status, MIN(quantity), MAX(quantity) FROM orders GROUP BY 1"
    ),
    "groups that share noise": "SELECT status, COUNT(*), SUM(quantity) FROM orders GROUP BY 1",
    "running sums": "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) FROM customers GROUP BY age",
    "a stage": "SELECT COUNT(*) FROM customers WHERE age > (SELECT AVG(age) FROM customers)",
}


NEED_DELTA = {what for what, sql in ASKED.items() if "city" in sql or "PTR" in sql} | {"keys alone"}


def of_noise(payment: Payment) -> Iterator[EventPart]:
    """What noise costs: of groups that share some, in those of a unit, in others, and once."""
    noise, sensitivity = payment.noise, payment.sensitivity
    if isinstance(noise, Noise):
        yield NoiseEvent(noise, sensitivity)
        return
    if isinstance(noise, MatrixNoise):
        matrix = noise.strategy.matrix
        if noise.own.mechanism is Mechanism.DISCRETE_LAPLACE:
            moved = int(np.abs(matrix).sum(axis=0).max())
        else:
            gram = -np.sort(-np.abs(matrix.T.astype(object) @ matrix), axis=1)
            moved = max(sum(row[: sensitivity.l0]) for row in gram.tolist())
        yield NoiseEvent(noise.own, replace(sensitivity, l0=sensitivity.l0 * moved, alone=False))
        return
    groups, l0 = noise.reached.groups, min(noise.reached.groups, sensitivity.l0)
    yield NoiseEvent(noise.own, Sensitivity(l0, 0, sensitivity.linf * noise.parts - noise.offset))
    if groups > l0:
        yield NoiseEvent(noise.own, Sensitivity(groups - l0, -noise.offset, 0))
    yield NoiseEvent(noise.common, Sensitivity(1, 0, noise.offset))


def losses(block: BlockPlan) -> Iterator[EventPart]:
    """What a block costs, written down once more."""
    before = len(block.keys.judged)
    for charge in charges(block):
        if charge[0] >= before:
            first = block.releases[charge[0] - before]
            yield from of_noise(first.payment)
    for tree in block.trees:
        yield NoiseEvent(tree.noise, tree.sensitivity)
    for choice in block.choices:
        rounds = choice.rounds
        if choice.scan is not None:
            yield ApproximateEvent(choice.epsilon, rounds=rounds)
        elif choice.flips:
            yield ApproximateEvent(choice.epsilon * rounds)
        else:
            yield BoundedRangeEvent(choice.epsilon, rounds)
    for made in block.releases:
        if made.stability is not None:
            yield SelectionEvent(made.stability.delta)
    match block.keys:
        case TopKeys(top=top):
            kind = ApproximateEvent if top.flips else BoundedRangeEvent
            yield kind(top.epsilon, rounds=top.count)
        case TrialKeys(trials=trials):
            yield ApproximateEvent(trials.epsilon, trials.delta, trials.keys)
        case ThresholdKeys(threshold=threshold):
            yield SelectionEvent(threshold.delta)
        case ListedKeys():
            pass


def plan_of(what: str, accountant: str) -> PrivatePlan:
    plan = compiled(ASKED[what], *shop(), budget=replace(BUDGET, accountant=accountant)).plan
    assert plan is not None
    return plan


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("what", ASKED)
def test_a_query_spends_what_it_may_on_all_that_it_releases(what: str, accountant: str) -> None:
    law = accountants.get(accountant)
    if what in NEED_DELTA and not law.supports_selection:
        with pytest.raises(Refused):
            plan_of(what, accountant)
        return
    plan = plan_of(what, accountant)
    again = [part for block in plan.blocks for part in losses(block)]
    assert sorted(map(repr, plan.event.parts)) == sorted(map(repr, again))
    assert law.loss(plan.event) == plan.loss
    steps = sum(
        (block.domain is None) + sum(r.stability is not None for r in block.releases)
        for block in plan.blocks
    )
    delta = Fraction(BUDGET.query_delta)
    may = law.allowance(plan.epsilon, delta, selects_keys=steps > 0)
    amount = Fraction(plan.loss.amount, NANO)
    assert may.amount * 97 / 100 <= amount <= may.amount
    spent = Fraction(plan.loss.delta, ATTO)
    assert may.selection_delta * 97 / 100 <= spent <= may.selection_delta + may.noise_delta


# --- no column without what pays for it ----------------------------------------------------------


def broken(block: BlockPlan) -> Iterator[tuple[Release, ...]]:
    """The releases of a block without one of them, or with one that is paid for otherwise."""

    def paid_by(payment: Payment, place: int) -> tuple[Release, ...]:
        one = replace(block.releases[place], payment=payment)
        return (*block.releases[:place], one, *block.releases[place + 1 :])

    payments = block.payments
    for place, release in enumerate(block.releases):
        own = release.payment
        if len(own.columns) > 1:
            yield (*block.releases[:place], *block.releases[place + 1 :])
        yield (*block.releases, release)
        yield paid_by(replace(own, columns=()), place)
        yield paid_by(replace(own, columns=(*own.columns, -1)), place)
        yield paid_by(replace(own, columns=own.columns * 2), place)
        for other in payments:
            if other != own:
                yield paid_by(other, place)
                yield paid_by(replace(own, columns=own.columns + other.columns), place)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("what", ["moments", "moments of several rows", "disjoint rows"])
def test_no_column_is_without_what_pays_for_it(what: str) -> None:
    """The first of those that share a payment is no more than the others: none can be left out."""
    plan = plan_of(what, "approximate")
    (block,) = plan.blocks
    assert len(block.releases) > len(block.payments)
    tried = 0
    for releases in broken(block):
        with pytest.raises(Unpaid):
            replace(block, releases=releases)
        tried += 1
    assert tried > len(block.releases)
    assert replace(block, releases=block.releases) == block
    for gone in block.payments:
        left = tuple(release for release in block.releases if release.payment != gone)
        with pytest.raises(Unpaid):
            replace(plan, blocks=(replace(block, releases=left),))


# --- every column by an id of its own ------------------------------------------------------------

NOWHERE = -1
"""The id of no column."""


def of_nothing(block: BlockPlan) -> Iterator[Callable[[], BlockPlan]]:
    """The block, looking at a column that it does not release."""
    if isinstance(block.keys, ThresholdKeys):
        keys = replace(block.keys, counted=(NOWHERE,))
        yield partial(replace, block, keys=keys)
    for n, release in enumerate(block.releases):
        if release.stability is not None:
            wrong = replace(release, stability=replace(release.stability, count=NOWHERE))
            releases = (*block.releases[:n], wrong, *block.releases[n + 1 :])
            yield partial(replace, block, releases=releases)
    if block.agreements:
        places = {column: NOWHERE for agreed in block.agreements for column in agreed.places}
        agreements = tuple(agreed.renumbered(places) for agreed in block.agreements)
        yield partial(replace, block, agreements=agreements)


@pytest.mark.parametrize("what", ["private keys", "means that are tested", "agreeing"])
def test_what_is_looked_at_is_released(what: str) -> None:
    sql = AGREEING if what == "agreeing" else ASKED[what]
    plan = compiled(sql, *shop()).plan
    assert plan is not None
    (block,) = plan.blocks
    wrong = list(of_nothing(block))
    assert wrong
    for twin in wrong:
        with pytest.raises(Unpaid):
            twin()


AGREEING = """
SELECT COUNT(*), COUNT(*) FILTER (WHERE vip), COUNT(*) FILTER (WHERE NOT vip) FROM customers
"""


def test_no_two_columns_have_one_id() -> None:
    (block,) = plan_of("choices", "zcdp").blocks
    first, *others = block.choices
    twin = replace(first, field=block.releases[0].field)
    with pytest.raises(Unpaid):
        replace(block, choices=(twin, *others))


def test_a_table_is_read_by_the_ids_of_its_columns() -> None:
    """What is read in another order is another column, of the same type or not."""
    plan = plan_of("several sums", "zcdp")
    (table,) = (r for r in relations(plan.outer) if isinstance(r, Released))
    assert table.columns == plan.blocks[0].ids
    assert list(table.reads.values()) == list(table.fields)
    for columns in (table.columns[::-1], table.columns[1:], (*table.columns, NOWHERE)):
        with pytest.raises(Unpaid):
            replace(plan, outer=replace(table, columns=columns))
