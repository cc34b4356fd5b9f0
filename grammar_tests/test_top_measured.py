"""The top keys with their aggregates: chosen first, then measured alone, where both err less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import log
from pathlib import Path

import numpy as np
import pytest

from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.top_keys import error_of_noise
from dpsql.model.vocabulary import Exact, Loss
from dpsql.proxy import Proxy
from dpsql.release.release import release
from grammar_tests.bound import shop
from grammar_tests.draws import pooled
from grammar_tests.keys_kit import chooses, top_keys
from grammar_tests.laws import BUDGET, compiled, no_noise, noised, noiseless
from grammar_tests.proxy_kit import request
from grammar_tests.proxy_kit import shop as shop_on_disk
from grammar_tests.test_audit import RELEASES, _loss, excess, neighbours, real
from grammar_tests.test_audit import Neighbours as Audited
from grammar_tests.test_top import odds, plan_of

HOURS = "SELECT HOUR(placed_at) AS h, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY n DESC LIMIT {}"
STATUS = "SELECT status, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY n DESC LIMIT 1"
BY_STATUS = "(SELECT status, SUM(amount) AS n FROM orders GROUP BY 1) AS t"
BY_HOUR = "(SELECT HOUR(placed_at) AS h, COUNT(*) AS n FROM orders GROUP BY 1) AS t"
COUNTRY = "SELECT country, COUNT(*) AS n FROM customers GROUP BY 1 ORDER BY n DESC LIMIT 1"


# --- the planner and the charge ------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
def test_it_is_taken_where_both_errors_are_smaller(accountant: str) -> None:
    block, every = (plan_of(HOURS.format(k), accountant) for k in (1, 20))
    assert chooses(block)
    assert not chooses(every)
    (one,), (other,) = block.releases, every.releases
    assert standard_deviation(one.noise) < standard_deviation(other.noise)
    assert one.payment.runner_up == other.noise
    keys = top_keys(block)
    assert keys.top.error < error_of_noise(other.noise, 24) == keys.otherwise


def test_one_group_of_each_person_is_measured_at_once() -> None:
    """Every group costs what one does: choosing first would be paid for by the measurement."""
    assert not chooses(plan_of(COUNTRY))


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
def test_choice_and_measurement_share_the_charge(accountant: str) -> None:
    policy, engine = shop()
    budget = replace(BUDGET, accountant=accountant)
    plan, whole = (
        compiled(sql, policy, engine, budget=budget).plan
        for sql in (HOURS.format(1), "SELECT COUNT(*) FROM orders")
    )
    assert plan is not None
    assert whole is not None
    assert len(plan.event.parts) == 2
    assert plan.loss.fits(Loss(whole.loss.amount + 2, whole.loss.delta + 2))
    assert plan.loss.amount > 0.98 * whole.loss.amount


def test_of_the_chosen_groups_a_unit_changes_no_more_than_there_are() -> None:
    sql = "SELECT DAYOFYEAR(placed_at) AS d, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY 1"
    policy, engine = shop()
    tables = tuple(replace(t, max_groups_per_unit=20) for t in policy.tables)
    for count in (1, 2, 3):
        text = f"{sql} ORDER BY n DESC LIMIT {count}"
        plan = compiled(text, replace(policy, tables=tables), engine).plan
        assert plan is not None
        assert chooses(plan.blocks[0])
        assert [r.sensitivity.l0 for r in plan.blocks[0].releases] == [count, count]


@pytest.mark.full("measures neighbours or further data sets")
def test_explain_and_answer(tmp_path: Path) -> None:
    with Proxy.open(str(shop_on_disk(tmp_path / "shop"))) as proxy:
        explained = proxy.explain(request(HOURS.format(1))).blocks[0]
        answer = proxy.ask(request(HOURS.format(1)))
    assert "chosen one after another" in explained.keys
    assert ", and then measured;" in explained.keys
    assert explained.releases[0].otherwise.startswith("discrete Gaussian, error")
    assert len(answer.rows) == 1
    assert answer.errors[0][1] == pytest.approx(explained.releases[0].error, rel=1e-6)


# --- ARG_MAX -------------------------------------------------------------------------------------


@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
@pytest.mark.parametrize(("name", "lowest"), [("ARG_MAX", False), ("MIN_BY", True)])
def test_the_key_of_an_end_is_chosen(name: str, accountant: str, *, lowest: bool) -> None:
    block = plan_of(f"SELECT {name}(status, n) AS s FROM {BY_STATUS}", accountant)
    top = top_keys(block).top
    assert (top.count, top.lowest, block.releases) == (1, lowest, ())
    assert top.flips is (accountant == "pure")


def test_the_end_itself_is_measured() -> None:
    block = plan_of(f"SELECT ARG_MAX(status, n) AS s, MAX(n) AS most FROM {BY_STATUS}")
    assert chooses(block)
    assert [r.sensitivity.l0 for r in block.releases] == [1]


@pytest.mark.parametrize(
    "selected",
    [
        "ARG_MAX(status, n), MIN(n)",
        "ARG_MAX(status, n), ARG_MIN(status, n)",
        "ARG_MAX(UPPER(status), n)",
        "ARG_MAX(status, n + 1)",
        "ARG_MAX(status, n) FILTER (WHERE n > 0)",
        "ARG_MAX(status, n), COUNT(*)",
        "MAX(n)",
    ],
)
def test_what_needs_other_groups_gets_them(selected: str) -> None:
    block = plan_of(f"SELECT {selected} FROM {BY_STATUS}")
    assert not chooses(block)
    assert len(block.releases) == 1


def test_a_key_that_may_be_null_is_passed_over_as_the_engine_does() -> None:
    """ARG_MAX of nothing but NULL is NULL: of a key that is NULL another is wanted."""
    sql = "SELECT ARG_MAX(k, n) FROM (SELECT NULLIF(status, 'open') AS k, COUNT(*) AS n"
    block = plan_of(f"{sql} FROM orders GROUP BY 1) AS t")
    assert block.domain is not None
    assert (None,) in block.domain
    assert not chooses(block)


@pytest.mark.parametrize("end", ["ARG_MAX", "ARG_MIN"])
def test_without_noise_it_is_the_engines(end: str) -> None:
    policy, engine = shop()
    value = end.removeprefix("ARG_")
    for sql in (
        f"SELECT {end}(h, n) FROM {BY_HOUR}",
        f"SELECT {end}(h, n) AS h, {value}(n) AS v FROM {BY_HOUR}",
    ):
        prepared = compiled(sql, policy, engine)
        assert prepared.plan is not None
        assert chooses(prepared.plan.blocks[0])
        assert noiseless(prepared, engine)[0] == engine.rows(sql)


def test_the_chosen_are_measured_and_no_others() -> None:
    plan = plan_of(HOURS.format(1))
    counts = np.array([4, 9, 7], dtype=object)
    noisy = release(Exact([(3,), (5,), (8,)], [counts, counts]), plan, no_noise)
    assert dict(zip(noisy.keys, noisy.parts, strict=True)) == {(5,): (9,)}


# --- two neighbours, many releases ---------------------------------------------------------------


def losses(case: Audited, *, here: bool) -> np.ndarray:
    """ln(likelihood here / likelihood there) of each of many choices with their measurements."""
    chosen, domain = top_keys(case.plan).top, top_keys(case.plan).domain
    (noise,) = (measured.noise for measured in case.plan.releases)
    law, sides = (noise.mechanism, float(noise.scale)), []
    for exact in (case.here, case.there):
        found = dict(zip(exact.keys, map(int, exact.parts[0]), strict=True))
        sides.append([found.get(key, 0) for key in domain])
    assert sides[0] != sides[1], "the unit changes nothing: such an audit is empty"
    exact, draw, result = case.here if here else case.there, pooled(real), np.empty(RELEASES)
    told = [log(odds(chosen, sides[0], [n]) / odds(chosen, sides[1], [n])) for n in range(3)]
    for n in range(RELEASES):
        noisy = release(exact, case.plan, draw)
        place = domain.index(noisy.keys[0])
        ours, theirs = (side[place] for side in sides)
        result[n] = told[place] + _loss(law, noisy.parts[0][0], ours, theirs)
    return result


def refuted(case: Audited) -> bool:
    ours, theirs = (losses(case, here=side) for side in (True, False))
    return excess(ours, theirs, case.delta) > 0 or excess(-theirs, -ours, case.delta) > 0


def same(case: Audited) -> Audited:
    return case


def paid_twice(case: Audited) -> Audited:
    """A measurement that spends the whole budget again, and more than that."""
    (one,) = case.plan.releases
    noise = replace(one.noise, scale=one.noise.scale * Fraction(1, 4))
    return replace(case, plan=replace(case.plan, releases=(noised(one, noise),)))


@pytest.mark.parametrize(
    ("accountant", "damage", "caught"),
    [
        *(
            pytest.param(name, same, False, marks=pytest.mark.full("audits a true claim"))
            for name in ("pure", "zcdp")
        ),
        pytest.param(
            "pure", paid_twice, True, marks=pytest.mark.full("its like in test_top.py is quicker")
        ),
    ],
)
def test_the_claim_stands_and_a_wrong_one_falls(
    accountant: str, damage: Callable[[Audited], Audited], *, caught: bool
) -> None:
    assert refuted(damage(neighbours(STATUS, accountant))) is caught
