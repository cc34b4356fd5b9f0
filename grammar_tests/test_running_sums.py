"""Running sums measured by combinations: their loss, stated errors, and the queries with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product
from math import exp

import numpy as np
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Payment, Unpaid
from dpsql.mechanisms import sample, standard_deviation
from dpsql.mechanisms.matrix_noise import MatrixNoise, Strategy
from dpsql.model.vocabulary import Exact, Mechanism, Neighbours, Noise, Sensitivity
from dpsql.release.finish import finish
from dpsql.release.release import release
from grammar_tests.bound import shop
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import BUDGET, compiled
from grammar_tests.model_kit import RECEIPT

GAUSSIAN, LAPLACE = Mechanism.DISCRETE_GAUSSIAN, Mechanism.DISCRETE_LAPLACE
STRATEGIES = [Strategy(5), Strategy(6, 2), Strategy(6, 3), Strategy(5, 4)]
BY_MINUTE = "SELECT MINUTE(placed_at) AS m, {} AS r FROM orders GROUP BY m"
SO_FAR = "SUM(COUNT(*)) OVER (ORDER BY MINUTE(placed_at))"
BACKWARDS = "SUM(COUNT(*)) OVER (ORDER BY MINUTE(placed_at) DESC)"
ONE = Sensitivity(1, 0, 1)
MINUTES = 60


def of_one_run(strategy: Strategy, own: Noise) -> MatrixNoise:
    return MatrixNoise(own, strategy, (tuple(range(strategy.size)),))


def units(size: int, cells: int) -> Iterator[np.ndarray]:
    """What one unit may add: at most 1, of either sign, in so many cells."""
    for places in combinations(range(size), cells):
        for signs in product((-1, 1), repeat=cells):
            unit = np.zeros(size, dtype=np.int64)
            unit[list(places)] = signs
            yield unit


# --- what one unit changes ---------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cells", [1, 2, 3])
def test_no_unit_moves_combinations_farther_than_claimed(strategy: Strategy, cells: int) -> None:
    moves = [strategy.combine(unit) for unit in units(strategy.size, cells)]
    squared = max(int((move**2).sum()) for move in moves)
    absolute = max(int(np.abs(move).sum()) for move in moves)
    for mechanism, farthest in ((GAUSSIAN, squared), (LAPLACE, absolute)):
        noise = of_one_run(strategy, Noise(mechanism, Fraction(9)))
        claimed = noise.combined(Sensitivity(cells, 0, 1))
        assert farthest <= (claimed.l2_squared if mechanism is GAUSSIAN else claimed.l1)
        if cells == 1:
            assert farthest == claimed.l0, "not less than a unit of one cell moves"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_wrong_twin_of_one_column_or_of_one_cell_claims_too_little(strategy: Strategy) -> None:
    """The length of the first column, and a bound without the cells of a unit."""
    first = int((strategy.matrix[:, 0] ** 2).sum())
    moves = max(int((strategy.combine(u) ** 2).sum()) for u in units(strategy.size, 3))
    assert moves > 3 * first, "K times one column"
    assert moves > strategy.distance(1, GAUSSIAN), "K ignored"


def test_replaced_units_of_both_signs_have_no_bound() -> None:
    noise = of_one_run(Strategy(5), Noise(GAUSSIAN, Fraction(9)))
    replaced = Sensitivity(2, 0, 1, Neighbours.REPLACE)
    claimed = noise.combined(replaced)
    changes = (
        one - other for one in units(5, 2) for other in units(5, 2) if (one + other).min() >= 0
    )
    positive = [c for c in changes if np.abs(c).max() <= 1]
    assert max(int((noise.strategy.combine(c) ** 2).sum()) for c in positive) <= claimed.l2_squared
    with pytest.raises(ValueError, match="no bound"):
        noise.combined(replace(replaced, lower=-1))


# --- the exact transcript ------------------------------------------------------------------------


def worst_ratio(scale: int) -> float:
    """The largest ratio of the probabilities of released groups with a unit and without it.

    All measurements in a box count, each by what is computed of it.
    """
    noise = of_one_run(Strategy(3, 2), Noise(LAPLACE, Fraction(scale)))
    unit = noise.strategy.combine(np.array([0, 1, 0]))
    chances: dict[tuple[int, ...], list[float]] = {}
    box = np.array(list(product(range(-1, 3), repeat=len(unit))), dtype=object).T
    for y, sums in zip(box.T, noise.strategy.running(box).T, strict=True):
        both = chances.setdefault(tuple(sums), [0.0, 0.0])
        for n, exact in enumerate((0 * unit, unit)):
            both[n] += exp(-int(np.abs(y - exact).sum()) / scale)
    return max(max(p / q, q / p) for p, q in chances.values())


def test_no_transcript_loses_more_than_epsilon() -> None:
    """At ε = 1, where one draw pays for a group and one for the sum that it is in."""
    distance = of_one_run(Strategy(3, 2), Noise(LAPLACE, Fraction(1))).combined(ONE).l1
    assert 1.5 < worst_ratio(distance) <= exp(1) * (1 + 1e-9)
    assert worst_ratio(distance - 1) > exp(1) * 1.05, "the twin: noise for one level of two"


# --- what is stated ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [Strategy(16), pytest.param(Strategy(40, 6), marks=pytest.mark.full("400,000 draws"))],
)
def test_stated_variances_are_those_of_ten_thousand_releases(strategy: Strategy) -> None:
    mechanism = LAPLACE if strategy.branching else GAUSSIAN
    scale = Fraction(9 << (4 if strategy.branching else 28))
    runs = tuple(map(tuple, np.arange(10_000 * strategy.size).reshape(10_000, -1).tolist()))
    noise = MatrixNoise(Noise(mechanism, scale), strategy, runs)
    groups = np.arange(10_000 * strategy.size)
    released = noise.add(groups, partial(sample, entropy=ENTROPY))
    errors = np.cumsum((released - groups).astype(float).reshape(10_000, -1), axis=1)
    stated = noise.variances[: strategy.size]
    ratio = errors.var(axis=0) / stated
    assert ratio.mean() == pytest.approx(1, abs=0.01)
    assert np.abs(ratio - 1).max() < 0.06
    assert np.abs(errors.mean(axis=0)).max() < 0.05 * stated.max() ** 0.5
    own = standard_deviation(noise.own) ** 2
    assert ratio.mean() * stated.mean() != pytest.approx(own, rel=0.2), "the twin: one draw"


def test_combinations_of_large_numbers_do_not_overflow() -> None:
    groups = np.array([2**61] * 8, dtype=object)
    assert Strategy(8, 2).combine(groups)[-1] == 4 * 2**61


def test_sums_without_noise_are_exact() -> None:
    groups = np.array([3, 10**25, -7, 0, 5], dtype=object)
    for strategy in (Strategy(5), Strategy(5, 2)):
        noise = of_one_run(strategy, Noise(GAUSSIAN, Fraction(9)))
        assert noise.add(groups, lambda _law, n: np.zeros(n, dtype=np.int64)).tolist() == list(
            groups
        )


# --- where it is taken -------------------------------------------------------------------------


@cache
def planned(sql: str, accountant: str = "zcdp", most: int = 1) -> Prepared:
    policy, engine = shop()
    tables = (
        replace(table, max_groups_per_unit=most, max_rows_per_unit=1000) for table in policy.tables
    )
    return compiled(
        sql,
        replace(policy, tables=tuple(tables)),
        engine,
        budget=replace(BUDGET, accountant=accountant),
    )


def payments(prepared: Prepared) -> list[Payment]:
    return [payment for block in prepared.blocks for payment in block.payments]


def combined(sql: str, accountant: str = "zcdp", most: int = 1) -> list[MatrixNoise]:
    noises = [payment.noise for payment in payments(planned(sql, accountant, most))]
    return [noise for noise in noises if isinstance(noise, MatrixNoise)]


@pytest.mark.parametrize(
    ("accountant", "part"), [("zcdp", 0.39), ("tight", 0.39), ("pure", 0.75), ("approximate", 0.75)]
)
def test_running_sums_err_less_for_no_more(accountant: str, part: float) -> None:
    prepared = planned(BY_MINUTE.format(SO_FAR), accountant)
    (payment,) = payments(prepared)
    noise, independent = payment.noise, payment.runner_up
    assert isinstance(noise, MatrixNoise)
    assert independent is not None
    today = standard_deviation(independent) * ((MINUTES + 1) / 2) ** 0.5
    assert noise.variances.mean() ** 0.5 < part * today
    plain = planned(BY_MINUTE.format("COUNT(*)"), accountant)
    assert prepared.plan is not None
    assert plain.plan is not None
    assert 0.999 * plain.plan.loss.amount <= prepared.plan.loss.amount <= plain.plan.loss.amount


@pytest.mark.parametrize(
    "column",
    [
        SO_FAR,
        BACKWARDS,
        "SUM(SUM(quantity)) OVER (ORDER BY MINUTE(placed_at) ROWS UNBOUNDED PRECEDING)",
        "2 * SUM(SUM(quantity - 9)) OVER (ORDER BY MINUTE(placed_at))",
    ],
)
def test_running_sums_alone_are_measured_together(column: str) -> None:
    assert len(combined(BY_MINUTE.format(column))) == 1


@pytest.mark.parametrize(
    "sql",
    [
        BY_MINUTE.format(f"COUNT(*) AS n, {SO_FAR}"),
        BY_MINUTE.format("SUM(COUNT(*)) OVER ()"),
        BY_MINUTE.format(f"{SO_FAR} / SUM(COUNT(*)) OVER ()"),
        BY_MINUTE.format("SUM(COUNT(*)) OVER (ORDER BY MINUTE(placed_at) ROWS 6 PRECEDING)"),
        BY_MINUTE.format("AVG(COUNT(*)) OVER (ORDER BY MINUTE(placed_at))"),
        BY_MINUTE.format(
            "SUM(COUNT(*)) OVER (ORDER BY MINUTE(placed_at)"
            " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)"
        ),
        f"SELECT m, r FROM ({BY_MINUTE.format(SO_FAR)} HAVING COUNT(*) > 3) AS t",
        f"SELECT SUM(r) AS r FROM ({BY_MINUTE.format(SO_FAR)}) AS t",
        BY_MINUTE.format(f"{SO_FAR} + {BACKWARDS}"),
        "SELECT city, SUM(COUNT(*)) OVER (ORDER BY city) AS r FROM customers GROUP BY city",
    ],
    ids="cell whole share moving average others filter added both private".split(),
)
def test_what_reads_groups_otherwise_has_independent_noise(sql: str) -> None:
    assert combined(sql) == []


def test_units_in_many_groups_have_independent_noise() -> None:
    sql = BY_MINUTE.format(SO_FAR)
    assert combined(sql, most=3)
    assert combined(sql, most=30) == []
    assert combined(sql, "pure", most=30), "the tree errs less however many groups there are"


def test_runs_of_each_other_key_have_the_strategy() -> None:
    (noise,) = combined(
        "SELECT status, MINUTE(placed_at) AS m, SUM(COUNT(*)) OVER (PARTITION BY status"
        " ORDER BY MINUTE(placed_at)) AS r FROM orders GROUP BY ALL"
    )
    assert noise.strategy == Strategy(MINUTES)
    assert len(noise.runs) > 1


def answered(sql: str) -> tuple[list[tuple[int, int, float]], MatrixNoise]:
    """The running sum and its stated error by minute, where every minute has two orders."""
    prepared = planned(sql)
    plan, rewritten, (block,) = prepared.plan, prepared.rewritten, prepared.blocks
    assert plan is not None
    (payment,) = block.payments
    assert isinstance(payment.noise, MatrixNoise)
    noisy = release(
        Exact(list(block.domain or ()), [np.full(MINUTES, 2)]),
        block,
        lambda _law, count: np.zeros(count, dtype=np.int64),
    )
    _, engine = shop()
    answer = finish(plan, rewritten, [noisy], engine.rows, engine.scratch, RECEIPT)
    rows = zip(answer.rows, answer.errors, strict=True)
    return sorted((row[0], row[1], errors[1] or 0.0) for row, errors in rows), payment.noise


@pytest.mark.parametrize(("direction", "steps"), [("", 1), (" DESC", -1)])
def test_each_row_states_the_error_of_its_sum(direction: str, steps: int) -> None:
    sql = f"SUM(COUNT(*)) OVER (ORDER BY MINUTE(placed_at){direction})"
    rows, noise = answered(BY_MINUTE.format(sql))
    sums, errors = [row[1] for row in rows][::steps], [row[2] for row in rows]
    assert sums == [2 * (n + 1) for n in range(MINUTES)]
    assert errors == pytest.approx(np.sqrt(noise.variances).tolist())
    independent = [standard_deviation(noise.own) * (n + 1) ** 0.5 for n in range(MINUTES)]
    assert errors != pytest.approx(independent[::steps], rel=0.1), "the twin: groups apart"


def test_another_order_is_another_question() -> None:
    one = planned(BY_MINUTE.format(SO_FAR))
    assert planned(BY_MINUTE.format(f"3 * {SO_FAR}")).question == one.question
    for other in ("COUNT(*)", BACKWARDS):
        assert planned(BY_MINUTE.format(other)).question != one.question


def test_a_payment_of_other_groups_is_refused() -> None:
    (block,) = planned(BY_MINUTE.format(SO_FAR)).blocks
    (payment,) = block.payments
    noise = payment.noise
    assert isinstance(noise, MatrixNoise)
    with pytest.raises(Unpaid):
        replace(payment, sensitivity=Sensitivity(1, -1, 1, Neighbours.REPLACE))
    fewer = replace(noise, strategy=Strategy(59), runs=(tuple(range(59)),))
    (only,) = block.releases
    with pytest.raises(Unpaid):
        replace(block, releases=(replace(only, payment=replace(payment, noise=fewer)),))
    with pytest.raises(ValueError, match="one run"):
        replace(noise, runs=((0,) * MINUTES,))
