"""`epsilon => …` of single aggregates: it buys them what it says, and the query costs no more."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql.compiler.plan.private_plan import PrivatePlan
from dpsql.mechanisms import standard_deviation
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import NANO
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled

POLICY, ENGINE = shop()


def planned(aggregates: str, accountant: str = "pure") -> PrivatePlan:
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY {aggregates} FROM customers"
    budget = replace(BUDGET, accountant=accountant)
    plan = compiled(sql, POLICY, ENGINE, budget=budget).plan
    assert plan is not None
    return plan


def errors(plan: PrivatePlan) -> list[float]:
    return [standard_deviation(release.noise) for release in plan.blocks[0].releases]


def spent(plan: PrivatePlan) -> Fraction:
    return Fraction(plan.loss.amount, NANO)


@pytest.mark.parametrize("accountant", ["pure", "zcdp", "approximate"])
def test_an_aggregate_gets_what_a_query_of_its_epsilon_gets(accountant: str) -> None:
    alone = planned("COUNT(*, epsilon => 0.25) AS n", accountant)
    beside = planned("COUNT(*, epsilon => 0.25) AS n, SUM(income) AS s", accountant)
    assert errors(beside)[0] == pytest.approx(errors(alone)[0], rel=1e-6)
    assert spent(alone) < spent(beside) / 2


def test_what_nobody_wants_is_not_spent() -> None:
    assert spent(planned("COUNT(*, epsilon => 0.25) AS n")) == pytest.approx(0.25, abs=1e-6)
    beside = planned("COUNT(*, epsilon => 0.25) AS n, SUM(income, epsilon => 0.5) AS s")
    assert spent(beside) == pytest.approx(0.75, abs=1e-6)


def test_aggregates_that_measure_the_same_pool_what_they_may_spend() -> None:
    count = "COUNT(income, epsilon => 0.25) AS n"
    both = f"{count}, AVG(income, epsilon => 0.5) AS a"
    assert spent(planned(both)) == pytest.approx(0.75, abs=1e-6)
    assert errors(planned(both, "zcdp"))[0] < errors(planned(count, "zcdp"))[0]


@pytest.mark.parametrize("listed", ["0.5", "[0.2, 0.5, 0.9]"])
def test_a_list_of_quantiles_spends_once_what_it_may(listed: str) -> None:
    quantiles = f"QUANTILE_DISC(age, {listed}, epsilon => 0.25) AS q"
    assert spent(planned(quantiles)) == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("first", ["0.001", "0.3", "0.999999"])
@pytest.mark.parametrize("accountant", ["pure", "zcdp", "approximate"])
def test_a_query_never_costs_more_than_its_epsilon(first: str, accountant: str) -> None:
    claimed = planned(f"COUNT(*, epsilon => {first}) AS n, SUM(income) AS s", accountant)
    plain = planned("COUNT(*) AS n, SUM(income) AS s", accountant)
    assert claimed.loss.amount <= plain.loss.amount * (1 + 1e-6)


@pytest.mark.parametrize(
    "aggregates",
    [
        "COUNT(*, epsilon => 1.25) AS n",
        "COUNT(*, epsilon => 1) AS n, SUM(income) AS s",
        "COUNT(*, epsilon => 0.75) AS n, MEDIAN(income, epsilon => 0.75) AS m",
    ],
)
def test_more_than_the_query_has_is_refused(aggregates: str) -> None:
    with pytest.raises(Refused) as refused:
        planned(aggregates)
    assert refused.value.reason is Reason.BAD_OPTION
    assert "left" in str(refused.value)
