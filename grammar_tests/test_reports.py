"""Reports of composition beside dp-accounting's independent computations."""

from __future__ import annotations

from dataclasses import astuple
from fractions import Fraction
from importlib import import_module
from math import exp, inf
from typing import Any

import pytest

from dpsql.accountants import reports
from dpsql.mechanisms.calibration import gaussian, laplace
from dpsql.model.vocabulary import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    EventPart,
    NoiseEvent,
    SelectionEvent,
    Sensitivity,
)

DELTA = Fraction(1, 10**6)
ONE = Sensitivity(1, 0, 1)


def queries(part: EventPart, count: int) -> list[Event]:
    return [Event((part,))] * count


def gaussian_query(rho: Fraction) -> NoiseEvent:
    return NoiseEvent(gaussian(1, rho), ONE)


def of_peer(name: str, module: str = "dp_accounting") -> Any:
    """What dp-accounting calls so; it is loaded by who runs these tests, not by all who collect."""
    return getattr(import_module(module), name)


def oracle(event: Any, count: int, order: float) -> float:
    told = isinstance(event, of_peer("RandomizedResponseDpEvent"))
    relations = of_peer("NeighboringRelation")
    relation = relations.REPLACE_ONE if told else relations.ADD_OR_REMOVE_ONE
    ledger = of_peer("RdpAccountant", "dp_accounting.rdp")([order], relation)
    ledger.compose(event, count)
    return float(ledger.get_epsilon(float(DELTA)))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("order", [1.5, 8, 20, 64])
@pytest.mark.parametrize("count", [1, 100])
def test_renyi_of_gaussians_is_the_oracles(count: int, order: float) -> None:
    ours = reports.renyi(queries(gaussian_query(Fraction(1, 200)), count), DELTA, order)
    theirs = oracle(of_peer("GaussianDpEvent")(10), count, order)
    assert ours == pytest.approx(theirs, rel=1e-6)
    twin = reports.renyi(queries(gaussian_query(Fraction(1, 400)), count), DELTA, order)
    assert twin < theirs * (1 - 1e-6)


@pytest.mark.parametrize("order", [1.5, 8, 20])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "3"])
def test_renyi_of_pure_steps_is_that_of_randomised_response(epsilon: str, order: float) -> None:
    step = queries(ApproximateEvent(Fraction(epsilon)), 50)
    # A bit that is replaced by a coin with this probability is told at this ε.
    response = of_peer("RandomizedResponseDpEvent")(2 / (1 + exp(float(epsilon))), 2)
    theirs = oracle(response, 50, order)
    assert reports.renyi(step, DELTA, order) == pytest.approx(theirs, rel=1e-6)
    laplaces = queries(NoiseEvent(laplace(1, Fraction(epsilon)), ONE), 50)
    bound = oracle(of_peer("LaplaceDpEvent")(1 / float(epsilon)), 50, order)
    assert reports.renyi(laplaces, DELTA, order) >= bound * (1 - 1e-9)


@pytest.mark.parametrize("count", [1, 10, 100, 500])
@pytest.mark.parametrize("epsilon", ["0.001", "0.01", "0.1"])
def test_advanced_composition_is_near_the_best_and_never_below(epsilon: str, count: int) -> None:
    each = of_peer("DifferentialPrivacyParameters", "dp_accounting.pld.common")(float(epsilon), 0)
    composed = of_peer("advanced_composition", "dp_accounting.pld.accountant")
    best = composed(each, count, float(DELTA))
    assert best is not None
    ours = reports.advanced(queries(ApproximateEvent(Fraction(epsilon)), count), DELTA)
    assert best <= ours * (1 + 1e-9)
    assert ours <= 1.6 * best + 1e-9
    assert ours <= reports.basic(queries(ApproximateEvent(Fraction(epsilon)), count), DELTA)


def test_each_way_counts_every_kind_of_event() -> None:
    mixed = [
        Event((gaussian_query(Fraction(1, 1000)), SelectionEvent(DELTA / 4))),
        Event((NoiseEvent(laplace(1, Fraction(1, 50)), ONE),)),
        Event((BoundedRangeEvent(Fraction(1, 50), 3), ApproximateEvent(Fraction(1, 50)))),
    ]
    whole = astuple(reports.composition(mixed, DELTA, 30))
    assert all(0 < epsilon < inf for epsilon in whole)
    for n, event in enumerate(mixed):
        without = astuple(reports.composition(mixed[:n] + mixed[n + 1 :], DELTA, 30))
        assert all(less < more for less, more in zip(without, whole, strict=True))
        for place in range(len(event.parts)):
            fewer = Event(event.parts[:place] + event.parts[place + 1 :])
            left = astuple(reports.composition([*mixed[:n], fewer, *mixed[n + 1 :]], DELTA, 30))
            assert all(less < more for less, more in zip(left, whole, strict=True))


def test_what_needs_a_larger_delta_has_no_epsilon() -> None:
    spent = queries(SelectionEvent(DELTA), 2)
    assert astuple(reports.composition(spent, DELTA, 30)) == (inf, inf, inf, inf)
    with pytest.raises(ValueError, match="above 1"):
        reports.renyi([], DELTA, 1)
