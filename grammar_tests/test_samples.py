"""SAMPLE_AGGREGATE: what it averages, what one unit moves, what two neighbours can be told by."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil, hypot, inf, isfinite, nan, sqrt
from statistics import fmean
from typing import Any

import duckdb
import pytest

from dpsql.compiler.aggregates.sample import blocks_at
from dpsql.compiler.plan.measurement_kinds import BlockAverage
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.track.per_unit import in_any_order
from dpsql.dialects.duckdb import expression_sql
from dpsql.dialects.duckdb.call_sql import FOURTH_POWERS, MOMENTS, OTHERWISE
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.mechanisms import standard_deviation
from dpsql.model.tree import DOUBLE, INTEGER, AggregateCall, Ref, WindowCall
from dpsql.model.vocabulary import Neighbours, Sensitivity
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.faults import only_with
from grammar_tests.laws import (
    BUDGET,
    SAMPLING_KEY,
    PlainEngine,
    compiled,
    integers,
    noiseless,
    violation,
    without_unit,
)
from grammar_tests.test_audit import neighbours, refuted

WHOLE = {
    "KURTOSIS(age)": ("customers", -2, 10),
    "AVG(quantity) / COUNT(*)": ("orders", 0, 20),
    "SUM(amount) / SUM(quantity)": ("orders", 0, 100),
    "MAD(duration)": ("events", 0, 3600),
    "QUANTILE_CONT(age, 0.9) - QUANTILE_DISC(age, 0.1)": ("customers", 0, 120),
    "PERCENTILE_CONT(0.2) WITHIN GROUP (ORDER BY duration DESC)": ("events", 0, 3600),
    "ENTROPY(device)": ("events", 0, 5),
    "CORR(age, income)": ("customers", -1, 1),
    "AVG(age) FILTER (WHERE vip)": ("customers", 0, 120),
    "AVG(age) - 100": ("customers", 0, 120),
}


@pytest.mark.parametrize("expression", WHOLE)
def test_one_block_is_the_clipped_aggregate(expression: str) -> None:
    table, lower, upper = WHOLE[expression]
    policy, engine = shop()
    sql = f"SELECT SAMPLE_AGGREGATE({expression}, {lower}, {upper}, 1) FROM {table}"
    ((ours,),) = noiseless(compiled(sql, policy, engine), engine)[0]
    ((plain,),) = engine.rows(f"SELECT {expression} FROM {table}")
    assert ours == pytest.approx(min(max(plain, lower), upper), abs=1e-6)


def by_blocks(engine: PlainEngine, blocks: int, group: str, lower: float, upper: float) -> Any:
    """The average of SUM(quantity) per group over blocks, computed here from the plain rows."""
    found: dict[Any, dict[int, int]] = {}
    block = f"hash({SAMPLING_KEY}::UBIGINT, 'block', customer_id) % {blocks}"
    for key, place, quantity in engine.rows(f"SELECT {group}, {block}, quantity FROM orders"):
        sums = found.setdefault(key, {})
        sums[place] = sums.get(place, 0) + quantity
    middle = (lower + upper) / 2
    clipped = {
        key: [min(max(sums[n], lower), upper) if n in sums else middle for n in range(blocks)]
        for key, sums in found.items()
    }
    return {key: fmean(values) for key, values in clipped.items()}


@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_the_answer_is_the_average_over_blocks(blocks: int) -> None:
    policy, engine = shop()
    sampled = f"SAMPLE_AGGREGATE(SUM(quantity), 2, 9, {blocks})"
    sql = f"SELECT status, {sampled} FROM orders GROUP BY status"
    ours: dict[Any, Any] = dict(noiseless(compiled(sql, policy, engine), engine)[0])
    assert ours == pytest.approx(by_blocks(engine, blocks, "status", 2, 9), abs=1e-6)


@pytest.mark.parametrize("accountant", ["pure", "zcdp", "approximate"])
def test_the_default_follows_from_the_noise_alone(accountant: str) -> None:
    """A sum that one moves by one has this noise, the average of k blocks noise/k of the width."""
    policy, engine = shop()
    sql = "SELECT SAMPLE_AGGREGATE(AVG(age), 0, {}) FROM customers"
    budget = replace(BUDGET, accountant=accountant)
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        found = []
        for width in (1, 120):
            plan = compiled(sql.format(width), policy, engine, budget=budget, epsilon=epsilon).plan
            assert plan is not None
            (made,) = plan.blocks[0].releases
            assert isinstance(made.query, BlockAverage)
            noise = standard_deviation(made.noise) / made.query.total_upper
            assert made.query.blocks == max(10, ceil(sqrt(1000 * noise)))
            found.append(made.query.blocks)
        assert found[0] == found[1]


def error_of_largest(blocks: float, noise: float, people: int = 1000) -> float:
    """That of the largest of evenly spread people in [0, 1], on average over blocks."""
    return hypot(noise / blocks, 1 / (people / blocks + 1))


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 5.0])
def test_the_default_is_near_the_best_of_all(epsilon: float) -> None:
    noise = sqrt(2) / epsilon
    best = min(error_of_largest(k, noise) for k in range(1, 1000))
    assert error_of_largest(blocks_at(noise), noise) < 1.05 * best
    # So many blocks that the noise is the same at every ε are too many at a small one, or too few.
    assert (error_of_largest(40 / epsilon, noise) > 1.5 * best) is (epsilon != 1)


# --- law 2 ---------------------------------------------------------------------------------------

RATIO = "SELECT SAMPLE_AGGREGATE(SUM(quantity) / COUNT(*), 0, 20, 3) FROM orders"
KEPT = "SELECT device, SAMPLE_AGGREGATE(MAX(duration), 0, 3600, 2) FROM events GROUP BY device"
GROUPS = (
    "SELECT HOUR(placed_at) AS h, SAMPLE_AGGREGATE(COUNT(*) - 3, -3, 3, 2) FROM orders GROUP BY 1"
)
COUNTS = "SELECT SAMPLE_AGGREGATE(COUNT(order_id), 4, 6, 8) FROM orders"


def unclipped(sql: str) -> str:
    """The clip of a block's value forgotten."""
    return re.sub(r"WHEN v ([<>]) ", r"WHEN NULL AND v \1 ", sql)


def scattered(sql: str) -> str:
    """A unit whose rows are in several blocks."""
    return sql.replace("'block', u)", "'block', u, x0)")


def any_groups(sql: str) -> str:
    """Rows of groups that a unit has not kept."""
    return re.sub(r" SEMI JOIN bounded ON [^)]*", "", sql)


def moved(sql: str, damage: Callable[[str], str]) -> list[str]:
    """What breaks the claim where one unit is removed from a world of extremes."""
    policy, _ = over(world.flood(), constraints=False)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    plan = damaged(compiled(sql, policy, engine), damage)
    here = integers(plan, engine)
    found = []
    for unit in world.units(world.flood()):
        with without_unit(engine.connection, world.deletions(unit)):
            why = violation(plan, here, integers(plan, engine))
        found += [why] if why else []
    return found


def damaged(plan: Prepared, damage: Callable[[str], str]) -> Prepared:
    blocks = tuple(replace(block, sql=damage(block.sql)) for block in plan.rewritten.blocks)
    return replace(plan, rewritten=replace(plan.rewritten, blocks=blocks))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", [RATIO, KEPT, GROUPS, COUNTS])
def test_a_unit_moves_one_block_of_its_groups(sql: str) -> None:
    assert moved(sql, lambda text: text) == []


@pytest.mark.parametrize(
    ("sql", "damage"), [(RATIO, unclipped), (COUNTS, scattered), (KEPT, any_groups)]
)
def test_a_wrong_bound_is_caught(sql: str, damage: Callable[[str], str]) -> None:
    assert moved(sql, damage)


def test_a_replaced_unit_moves_two_blocks() -> None:
    policy, engine = shop()
    policy = replace(policy, unit=replace(policy.unit, neighbours=Neighbours.REPLACE))
    plan = compiled(RATIO, policy, engine).plan
    assert plan is not None
    (release,) = plan.blocks[0].releases
    assert isinstance(release.query, BlockAverage)
    width = release.query.upper - release.query.lower
    assert release.sensitivity == Sensitivity(1, -width, width, Neighbours.REPLACE, alone=True)
    assert release.sensitivity.l1 == 2 * width
    assert release.sensitivity.l2_squared == (2 * width) ** 2


@pytest.mark.full("measures neighbours or further data sets")
def test_no_value_is_as_good_as_the_middle() -> None:
    """NaN, infinities and empty blocks: in a world of them, each block is within its bounds."""
    policy, engine = over(world.flood(), constraints=False)
    for inner in ("AVG(discount)", "MAX(discount)", "SUM(discount) / 0", "LN(0 * COUNT(*))"):
        sql = f"SELECT SAMPLE_AGGREGATE({inner}, 0, 1, 5) FROM orders"
        ((value,),) = noiseless(compiled(sql, policy, engine), engine)[0]
        assert isfinite(value)
        assert 0 <= value <= 1


EXTREMES = [
    [1e200, -1e200, 1.0, 2.0, 3.0],
    [1e75, -1e75, 1e-75, 2.0, 5.0],
    [1e60, 1e60, 1e60, 1e60, 1.0],
    [1e-100, 2e-100, 3e-100, 9e-100],
    [5e-324, 1e-323, 2e-323, 0.0, -0.0],
    [nan, 1.0, 2.0, 3.0],
    [inf, 1.0, 2.0, 3.0],
    [0.1] * 7,
]


def of_extremes(text: str) -> None:
    _, engine = shop()
    for values in EXTREMES:
        listed = ", ".join(f"'{value}'::DOUBLE" for value in values)
        engine.rows(f"SELECT {text} FROM (SELECT unnest([{listed}]) AS x)")


@pytest.mark.parametrize("function", ["skewness", "kurtosis", "kurtosis_pop", "mad", "entropy"])
def test_moments_of_anything_do_not_fail(function: str) -> None:
    call = AggregateCall(function, (Ref(1, DOUBLE),), type=DOUBLE)
    of_extremes(Printer(lambda _relation: None).text(in_any_order(call), {1: "x"}))


SIZES = (0.0, -0.0, 1.0, 5e-324, 2.3e-308, 1e-160, 1e-80, 9e-61, 1e-60, 1.1e-60, 1e60, 1e140, 1e200)


def some_value(generator: random.Random) -> float:
    """A number of any size, one of the edges, or one beside another."""
    size = generator.choice(SIZES)
    drawn = (
        size,
        10 ** generator.uniform(-323, 200),
        size * (1 + generator.choice((0, 1e-16, 2.3e-16, -2e-16, 1e-8))),
        generator.uniform(0, 100),
    )
    return generator.choice((1, -1)) * generator.choice(drawn)


@pytest.fixture(scope="module")
def groups() -> Iterator[duckdb.DuckDBPyConnection]:
    """Groups of one to nine pairs of such numbers, many of them twice."""
    generator = random.Random("moments")  # noqa: S311
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (g INTEGER, x DOUBLE, y DOUBLE)")
        rows = []
        for group in range(1500):
            few = [some_value(generator) for _ in range(generator.choice((1, 2, 2, 4, 9)))]
            rows += [
                (group, generator.choice(few), generator.choice(few))
                for _ in range(generator.choice((1, 2, 3, 4, 9)))
            ]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        yield connection


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    "scope",
    [" GROUP BY g", pytest.param("", marks=pytest.mark.campaign)],
    ids=["grouped", "window"],
)
@pytest.mark.parametrize("function", sorted(MOMENTS - set(OTHERWISE.values())))
def test_moments_of_random_values_do_not_fail(
    function: str, scope: str, groups: duckdb.DuckDBPyConnection
) -> None:
    count = 2 if function.startswith(("corr", "covar", "regr")) else 1
    args = tuple(Ref(n, DOUBLE) for n in range(1, count + 1))
    call: AggregateCall | WindowCall = AggregateCall(function, args, type=DOUBLE)
    if not scope:
        call = WindowCall(function, args, (Ref(0, INTEGER),), type=DOUBLE)
    text = expression(call, lambda ref: "gxy"[ref.id])
    groups.execute(f"SELECT {text} FROM t{scope}").fetchall()


@only_with("small")
@pytest.mark.parametrize("function", FOURTH_POWERS)
def test_moments_of_small_numbers_would_fail(
    function: str, groups: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expression_sql, "least", lambda _function: "")
    with pytest.raises(duckdb.Error):
        test_moments_of_random_values_do_not_fail(function, " GROUP BY g", groups)


@pytest.mark.parametrize("function", ["skewness", "kurtosis"])
def test_a_moment_without_its_guard_would_fail(function: str) -> None:
    with pytest.raises(duckdb.Error):
        of_extremes(f"{function}(x)")


# --- two neighbours, many releases ---------------------------------------------------------------

AUDITED = "SELECT SAMPLE_AGGREGATE(SUM(quantity), 0, 20, 2) FROM orders"
KEYS = "SELECT status, SAMPLE_AGGREGATE(MAX(quantity), 5, 20, 2) FROM orders GROUP BY status"


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize(
    ("sql", "accountant"), [(AUDITED, "pure"), (AUDITED, "zcdp"), (COUNTS, "zcdp"), (KEYS, "zcdp")]
)
def test_the_claim_stands(sql: str, accountant: str) -> None:
    assert not refuted(neighbours(sql, accountant))


@pytest.mark.parametrize(("sql", "damage"), [(AUDITED, unclipped), (COUNTS, scattered)])
def test_a_unit_that_moves_more_is_refuted(sql: str, damage: Callable[[str], str]) -> None:
    assert refuted(neighbours(sql, "zcdp", damage))
