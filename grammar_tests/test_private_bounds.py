"""Private bounds: found by one private question, used by the next; each law for the pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsql import accountants
from dpsql.answering import two_steps
from dpsql.compiler.plan.prepared import Prepared
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import sentence
from dpsql.model.errors import Reason, Refused
from dpsql.model.public_times import now
from dpsql.model.vocabulary import Answer, BoundsMethod, Mechanism, Noise, Policy
from dpsql.owner.delegate_rights import delegate_rights
from dpsql.policy.load import load
from dpsql.preparation.private_bounds import (
    SHARE,
    ColumnBounds,
    bounds_by_counts,
    question,
    shares,
    wanting,
    with_bounds,
)
from dpsql.preparation.question import ReleasedBounds
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit, world
from grammar_tests.bound import over
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    integers,
    no_noise,
    violation,
    without_unit,
)
from grammar_tests.test_laws import halved

INCOME = ("income = { bounds = [0.0, 200000.0] }", "income = { private_bounds = true }")
AMOUNT = ("amount = { bounds = [0.0, 500.0] }", "amount = { private_bounds = true }")
TOTAL = "SELECT SUM(income) AS s FROM customers"
MEAN = "SELECT AVG(income) AS m, COUNT(*) AS n FROM customers WHERE age > 20"
BOTH = "SELECT status, SUM(amount - quantity) AS p FROM orders GROUP BY status"
COUNT = "SELECT COUNT(*) AS n FROM customers WHERE income > 5"


def crowd(units: int = 200) -> world.Tables:
    """A shop with many customers, of whom the upper half of incomes is in two bins."""
    return {**world.empty(), "customers": [world.customer(n) for n in range(1, units + 1)]}


def opened(folder: Path, *more: tuple[str, str]) -> Proxy:
    return Proxy.open(str(proxy_kit.shop(folder, INCOME, AMOUNT, *more, tables=crowd())))


def charged(answer: Answer) -> int:
    assert answer.receipt is not None
    return answer.receipt.charged.amount


def spent(proxy: Proxy) -> int:
    return proxy.budgets()[0][1].amount


# --- what an analyst sees ------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
def test_both_steps_cost_what_one_question_may(tmp_path: Path) -> None:
    request = proxy_kit.request(TOTAL)
    with opened(tmp_path) as proxy:
        promised = proxy.explain(request)
        answer = proxy.ask(request)
        assert charged(answer) == promised.charge.amount == spent(proxy)
        whole = charged(proxy.ask(proxy_kit.request(COUNT)))  # one step: no bounds are wanted
        assert 0.9 * whole < charged(answer) <= whole
        assert "customers.income were found privately" in sentence(answer.notices[-1], ())
        search, last = proxy.ledger.history(limit=3)[2], proxy.ledger.history(limit=3)[1]
        assert search.loss.amount == pytest.approx(charged(answer) / 5, rel=0.01)
        assert last.loss.amount == pytest.approx(charged(answer) * 4 / 5, rel=0.01)


@pytest.mark.full("measures neighbours or further data sets")
def test_answers_and_bounds_are_remembered(tmp_path: Path) -> None:
    with opened(tmp_path) as proxy:
        first = proxy.ask(proxy_kit.request(TOTAL))
        again = proxy.ask(proxy_kit.request(TOTAL))
        assert (again.rows, charged(again)) == (first.rows, 0)
        other = proxy.ask(proxy_kit.request(MEAN))
        assert other.notices[-1] == first.notices[-1]
        # What is known leaves its share to the answer.
        assert charged(other) == pytest.approx(charged(first), rel=1e-3)
        plan = proxy.explain(proxy_kit.request(TOTAL))
        assert plan.remembered
        assert plan.notices == first.notices
        bob = proxy.ask(proxy_kit.request(TOTAL, None, "bob"))
        assert charged(bob) == charged(first)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("precise_first", [False, True])
def test_a_question_stays_free_when_an_agent_finds_its_bounds_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, precise_first: bool
) -> None:
    """What an agent receives its person has; an agent does not have what its person received."""
    if precise_first:  # the wrong twin takes the most precise bounds, used or not
        monkeypatch.setattr(two_steps, "_is_remembered", lambda *_: False)
    noises = iter([0, 0, 10**6])  # the search of the agent finds every bin full
    with opened(tmp_path) as proxy:
        proxy.vault.sampler = lambda _noise, count: np.full(count, next(noises, 0))
        draft, until = load(str(tmp_path / "dpsql.toml")), now() + timedelta(days=1)
        delegate_rights(draft, proxy.ledger, "ana", "robot", Decimal(100), until, (), "a test")
        first = proxy.ask(proxy_kit.request(TOTAL, "0.5"))
        assert charged(proxy.ask(proxy_kit.request(MEAN, "2", "robot"))) > 0
        again = proxy.ask(proxy_kit.request(TOTAL, "0.5"))
        assert (charged(again) == 0 and again.rows == first.rows) is not precise_first


@pytest.mark.full("measures neighbours or further data sets")
def test_a_plan_of_its_text_asked_alone_is_not_the_plan_of_the_search(tmp_path: Path) -> None:
    """Alone it may spend a δ that the search leaves to the second step."""
    changes = (
        ('accountant = "zcdp"', 'accountant = "approximate"'),
        ("delta = 1e-3", "delta = 1e-2"),
        ("max_groups_per_unit = 3", "max_groups_per_unit = 40"),
    )
    amounts = proxy_kit.request("SELECT SUM(amount) AS s FROM orders", "1")
    with opened(tmp_path, *changes) as proxy:
        (budget,) = proxy.policy.budgets
        small, _ = shares(accountants.get(budget.accountant), budget, Decimal(1), 1, SHARE)
        widest = ReleasedBounds("orders", "amount", Fraction(-1), Fraction(1))
        alone = proxy_kit.request(question(proxy.policy, widest), str(small))
        assert proxy.explain(alone).charge.delta > 0
        assert proxy.explain(amounts).charge.delta == 0


@pytest.mark.full("opens a proxy for each item")
def test_explain_says_that_bounds_come_from_data_and_runs_nothing(tmp_path: Path) -> None:
    proxy, engine = proxy_kit.watched(proxy_kit.shop(tmp_path, INCOME, tables=crowd()), Proxy)
    with proxy:
        plan = proxy.explain(proxy_kit.request(TOTAL))
        assert not engine.private()
        assert spent(proxy) == 0
    assert len(plan.blocks) == 2
    assert plan.expected[0] is not None
    assert math.isnan(plan.expected[0])
    assert "20 % of the charge" in plan_text(plan)


@pytest.mark.full("measures neighbours or further data sets")
def test_without_noise_the_answer_is_the_plain_one(tmp_path: Path) -> None:
    proxy = opened(tmp_path)
    proxy.vault.sampler = no_noise
    with proxy:
        ((total,),) = proxy.ask(proxy_kit.request(TOTAL)).rows
        assert total == sum(1000.5 * n for n in range(1, 201))
        adults = "SELECT SUM(income) AS s, COUNT(*) AS n FROM customers WHERE age > 20"
        incomes = [row[5] for row in crowd()["customers"] if row[4] is not None and row[4] > 20]
        assert proxy.ask(proxy_kit.request(adults)).rows == ((sum(incomes), len(incomes)),)


# --- what is refused, before anything is paid ----------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
def test_a_column_without_private_bounds_is_refused(tmp_path: Path) -> None:
    sql = "SELECT SUM(note_length) AS s, SUM(amount) AS a FROM orders"
    with opened(tmp_path) as proxy:
        with pytest.raises(Refused) as caught:
            proxy.ask(proxy_kit.request(sql))
        assert caught.value.reason is Reason.UNBOUNDED_INPUT
        assert spent(proxy) == 0


@pytest.mark.full("opens a proxy for each item")
def test_what_cannot_be_paid_to_the_end_is_not_begun(tmp_path: Path) -> None:
    path = proxy_kit.shop(tmp_path, INCOME, ("epsilon = 1000.0", "epsilon = 1.0"), tables=crowd())
    proxy, engine = proxy_kit.watched(path, Proxy)
    with proxy:
        budget = proxy.policy.budgets[0]
        limit = accountants.get(budget.accountant).limit(budget).amount
        price = proxy.explain(proxy_kit.request(TOTAL, "2.5")).charge.amount
        assert price / 5 < limit < price, "the first step alone could be paid"
        with pytest.raises(Refused) as caught:
            proxy.ask(proxy_kit.request(TOTAL, "2.5"))
        assert caught.value.reason is Reason.BUDGET_EXHAUSTED
        assert not engine.private()
        assert spent(proxy) == 0


@pytest.mark.full("opens a proxy for each item")
def test_a_relative_error_needs_bounds_before_anything_is_paid(tmp_path: Path) -> None:
    text = TOTAL.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_error = '9%')")
    with opened(tmp_path) as proxy:
        with pytest.raises(Refused) as caught:
            proxy.ask(proxy_kit.request(text))
        assert caught.value.reason is Reason.UNBOUNDED_INPUT
        assert spent(proxy) == 0


@pytest.mark.full("opens a proxy for each item")
def test_an_epsilon_too_small_to_share_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as proxy:
        with pytest.raises(Refused) as caught:
            proxy.ask(proxy_kit.request(TOTAL, "1e-6"))
        assert caught.value.reason is Reason.BAD_OPTION
        assert spent(proxy) == 0


@pytest.mark.parametrize("kind", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("columns", [1, 3])
def test_shares_are_within_one_question(kind: str, columns: int) -> None:
    accountant = accountants.get(kind)
    budget = replace(BUDGET, accountant=kind)
    small, large = shares(accountant, budget, Decimal("0.7"), columns, SHARE)
    delta = Fraction(budget.query_delta)
    ways = (False, True) if accountant.supports_selection else (False,)

    def amount(epsilon: Decimal, *, selects: bool) -> Fraction:
        return accountant.allowance(Fraction(epsilon), delta, selects_keys=selects).amount

    whole = amount(Decimal("0.7"), selects=ways[-1])
    used = columns * amount(small, selects=False) + max(amount(large, selects=w) for w in ways)
    assert 0.99 * whole < used <= whole
    for selects in ways:
        small, large = shares(
            accountant, budget, Decimal("0.7"), columns, SHARE, selecting=(selects,)
        )
        used = columns * amount(small, selects=False) + amount(large, selects=selects)
        assert 0.9999 < used / amount(Decimal("0.7"), selects=selects) <= 1, "nothing is left"


@pytest.mark.parametrize(
    "narrow", [False, pytest.param(True, marks=pytest.mark.full("opens a proxy for each item"))]
)
def test_nothing_is_left_whether_keys_are_private_with_what_is_found(
    tmp_path: Path,
    narrow: bool,  # noqa: FBT001
) -> None:
    """By steps of 1,000 there are few listed groups up to 2^18, and too many up to 2^40."""
    key = f"CAST(income AS INTEGER) // {1000 if narrow else 1}"
    sql = f"SELECT {key} AS k, SUM(income) AS s FROM customers GROUP BY k"
    with opened(tmp_path) as proxy:
        answer = proxy.ask(proxy_kit.request(sql))
        plan = proxy.explain(proxy_kit.request(sql))
        by_note = "SELECT note, COUNT(*) AS n FROM orders GROUP BY note"
        whole = proxy.explain(proxy_kit.request(by_note)).charge.amount
        assert ("private" in plan.blocks[-1].keys) is not narrow
        assert 0.999 * whole < charged(answer) <= 1.001 * whole


# --- which bounds are found ----------------------------------------------------------------------


def searching(
    policy: Policy, *names: str, method: BoundsMethod = BoundsMethod.LOG_HISTOGRAM
) -> Policy:
    """The policy in which these columns have no bounds but those that are found."""
    tables = tuple(
        replace(
            table,
            columns=tuple(
                replace(c, bounds=None, private_bounds=method) if c.name in names else c
                for c in table.columns
            ),
        )
        for table in policy.tables
    )
    return replace(policy, tables=tables)


def refusal_over(
    policy: Policy, engine: PlainEngine, sql: str
) -> Callable[[ColumnBounds], Refused | None]:
    def refusal(bounds: ColumnBounds) -> Refused | None:
        try:
            compiled(sql, with_bounds(policy, bounds), engine)
        except Refused as refused:
            return refused if refused.reason is Reason.UNBOUNDED_INPUT else None
        return None

    return refusal


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (TOTAL, ["income"]),
        (BOTH, ["amount", "quantity"]),
        ("SELECT SUM(amount) FROM orders WHERE quantity > 3", ["amount"]),
        ("SELECT SUM(amount) FROM orders WHERE amount BETWEEN 0 AND 9", []),
        ("SELECT COUNT(*) FROM orders WHERE amount > 3", []),
    ],
)
def test_only_bounds_that_are_wanting_are_looked_for(sql: str, columns: list[str]) -> None:
    policy, engine = over(world.well_behaved(), constraints=True)
    policy = searching(policy, "income", "amount", "quantity")
    widest = wanting(policy, refusal_over(policy, engine, sql))
    assert [b.column for b in widest] == columns


@pytest.mark.parametrize("expression", ["o.amount - a.m", "note_length + o.amount"])
def test_the_refusal_that_bounds_do_not_mend_is_raised(expression: str) -> None:
    policy, engine = over(world.well_behaved(), constraints=True)
    policy = searching(policy, "amount", "quantity")
    sql = f"SELECT SUM({expression}) FROM orders o, (SELECT AVG(amount) m FROM orders) a"
    refusal = refusal_over(policy, engine, sql)
    refused = refusal(())
    assert refused is not None
    assert sql[refused.span.start :].startswith("amount) m")
    with pytest.raises(Refused) as raised:
        wanting(policy, refusal)
    assert sql[raised.value.span.start :].startswith(expression)


def widest_of(policy: Policy, engine: PlainEngine, sql: str) -> ReleasedBounds:
    (bounds,) = wanting(policy, refusal_over(policy, engine, sql))
    return bounds


NOISE = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(2))


@pytest.mark.parametrize(
    ("counts", "lower", "upper"),
    [
        ({}, -1, 1),
        ({0: 500}, -1, 1),
        ({21: 500, 60: 3}, 0, 2),
        ({-23: 400, 30: 500}, -8, 1024),
        ({-60: 400}, -(2**40), 0),
    ],
)
def test_bounds_are_the_outermost_full_bins(counts: dict[int, int], lower: int, upper: int) -> None:
    policy, engine = over(crowd(), constraints=True)
    policy = searching(policy, "income")
    widest = widest_of(policy, engine, TOTAL)
    chosen = bounds_by_counts(policy, widest, counts.items(), NOISE)
    assert (chosen.lower, chosen.upper) == (Fraction(lower), Fraction(upper))


def test_the_bar_is_the_formula_of_the_histogram() -> None:
    """t = -b·ln(2(1 - p^(1/2B))), for the noise of integers to within a step."""
    policy, engine = over(crowd(), constraints=True)
    policy = searching(policy, "income")
    widest = widest_of(policy, engine, TOTAL)
    b = 10.0
    bar = -b * math.log(2 * (1 - (1 - 1e-6) ** (1 / 120)))
    noise = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(10))
    assert bounds_by_counts(policy, widest, [(40, math.ceil(bar) + 1)], noise).upper == 2**20
    assert bounds_by_counts(policy, widest, [(40, math.floor(bar) - 1)], noise).upper == 1


def sizes(policy: Policy, engine: PlainEngine, bounds: ReleasedBounds) -> dict[int, int]:
    (block,) = integers(compiled(question(policy, bounds), policy, engine), engine)
    return {key[0]: parts[-1] for key, parts in block.items() if parts[-1]}


@pytest.mark.full("measures neighbours or further data sets")
def test_the_histogram_counts_every_number_once() -> None:
    """Against logarithms in Python, on values at the ends of bins, and without NULL and NaN."""
    values = [0.0, 1.0, -1.0, 2.0, 2.5, -3.0, 1e300, math.inf, -math.inf, math.nan, None, 2.0**-20]
    values += [2.0**40, -(2.0**40), 1e-9, 0.75]
    rows = [(n, *world.customer(n)[1:5], x, *world.customer(n)[6:]) for n, x in enumerate(values)]
    policy, engine = over({**world.empty(), "customers": rows}, constraints=True)
    policy = searching(policy, "income")
    expected: dict[int, int] = {}
    for x in values:
        if x is None or not abs(x) <= 2**40:
            continue
        size = max(0, math.ceil(math.log2(abs(x))) + 20) if x else 0
        expected[size if x > 0 else -size] = expected.get(size if x > 0 else -size, 0) + 1
    assert sizes(policy, engine, widest_of(policy, engine, TOTAL)) == expected


# --- law 2 and law 3, whatever is found ----------------------------------------------------------

OUTCOMES = [(-1, 1), (0, 1), (0, 2**10), (-(2**40), 0), (-(2**40), 2**40), (-8, 2**20)]


def second_steps(policy: Policy, engine: PlainEngine) -> Iterator[Prepared]:
    for sql in (TOTAL, MEAN, BOTH, "SELECT VAR_POP(quantity) FROM orders"):
        wanted = wanting(policy, refusal_over(policy, engine, sql))
        assert wanted
        for lower, upper in OUTCOMES:
            bounds = tuple(
                replace(b, lower=max(b.lower, Fraction(lower)), upper=min(b.upper, Fraction(upper)))
                for b in wanted
            )
            yield compiled(sql, with_bounds(policy, bounds), engine)
    for sql in (TOTAL, BOTH):
        for column in wanting(policy, refusal_over(policy, engine, sql)):
            yield compiled(question(policy, column), policy, engine)


def broken(damage: Callable[[Prepared], Prepared] = lambda plan: plan) -> Iterator[str]:
    """Claims that neighbours break, in both steps and for each outcome of the first."""
    for tables in (world.adversarial(), world.flood()):
        policy, _ = over(tables, constraints=tables == world.flood())
        policy = searching(policy, "income", "amount", "quantity")
        engine = PlainEngine(world.build(tables, constraints=False))
        plans = [damage(plan) for plan in second_steps(policy, engine)]
        here = [integers(plan, engine) for plan in plans]
        for unit in (1, 2, 4, 7):
            with without_unit(engine.connection, world.deletions(unit)):
                there = [integers(plan, engine) for plan in plans]
            for plan, ours, others in zip(plans, here, there, strict=True):
                if why := violation(plan, ours, others):
                    yield why


@pytest.mark.full("measures neighbours or further data sets")
def test_neighbours_differ_by_no_more_than_claimed_whatever_is_found() -> None:
    assert list(broken()) == []


@pytest.mark.full("all neighbours; the same twin of law 2 is in test_laws.py")
def test_half_of_a_sensitivity_is_caught() -> None:
    assert any(broken(halved))


@pytest.mark.full("measures neighbours or further data sets")
def test_the_first_step_is_the_same_on_every_database() -> None:
    plans = set()
    for tables in (world.empty(), crowd(), world.adversarial()):
        policy, engine = over(tables, constraints=False)
        policy = searching(policy, "income")
        bounds = widest_of(policy, engine, TOTAL)
        plan = compiled(question(policy, bounds), policy, engine)
        assert plan.plan is not None
        plans.add((bounds, plan.question, plan.plan.loss, plan.rewritten.blocks[0].sql))
    assert len(plans) == 1
