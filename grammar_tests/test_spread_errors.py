"""Errors of variances, slopes and covariances of noisy numbers: intervals hold the true ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpsql.compiler.aggregates.formulas import evaluate
from dpsql.compiler.errors.spread_errors import ALONG, SPREADS, error_along, error_of_spread
from dpsql.model.tree import DOUBLE, AggregateCall, Expression, Ref, operand
from dpsql.model.walk import refs

DRAWS = 200
VALUE, ALONG_IT, ERROR = Ref(1, DOUBLE), Ref(2, DOUBLE), Ref(3, DOUBLE)
WIDTHS = {"normal": 1.95, "laplace": 2.118}
"""Half a 95 % interval over the deviation of a noise; that of whole numbers is a little shorter."""
TOTALS: dict[str, Callable[[np.ndarray], float]] = {
    "count": len,
    "sum": np.sum,
    "avg": np.mean,
    "max": np.max,
    "var_pop": np.var,
}


def named(rows: dict[int, Any]) -> Callable[[str, Expression], Expression]:
    """A function that computes an aggregate of an expression over these rows."""

    def total(function: str, arg: Expression) -> Expression:
        values: Any = evaluate(arg, rows)
        return operand(float(TOTALS[function](values)))

    return total


def noise(law: str, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Noise of deviation 1, the same in every run."""
    generator = np.random.default_rng(list(f"{law} {name}".encode()))
    if law == "normal":
        return generator.normal(size=shape)
    return generator.laplace(scale=0.5**0.5, size=shape)


def held(function: str, law: str, spread: float, count: int, *, linear: bool = False) -> float:
    """The share of intervals of a statistic of so many numbers that hold the true one.

    The true numbers have this summed squared distance from their mean. `linear` is the error of
    the first order, as if noise were small.
    """
    true = np.arange(count) - (count - 1) / 2
    true *= spread / np.sqrt(np.sum(true**2))
    less, power = SPREADS[function]
    inside = 0
    for drawn in noise(law, f"{spread} {count}", (DRAWS, count)):
        noisy = true + drawn
        rows = {1: noisy, 3: np.ones(count)}
        error = evaluate(error_of_spread(function, VALUE, ERROR, named(rows)), {})
        value = (np.var(noisy) * count / (count - less)) ** power
        if linear:
            error = (count - less) ** -0.5
        assert error is not None
        truth = (spread**2 / (count - less)) ** power
        inside += abs(value - truth) <= WIDTHS[law] * error
    return inside / DRAWS


@pytest.mark.parametrize("law", WIDTHS)
@pytest.mark.parametrize(("spread", "count"), [(0, 3), (4, 3), (0, 12), (8, 12), (100, 12)])
def test_deviations_hold_where_numbers_are_alike_and_where_not(
    law: str, spread: float, count: int
) -> None:
    assert held("stddev", law, spread, count) >= 0.93


def test_each_function_of_a_variance_holds() -> None:
    for function in SPREADS:
        assert held(function, "normal", 3, 5) >= 0.93


def test_wrong_twin_the_error_of_the_first_order_misses_numbers_that_are_alike() -> None:
    assert held("stddev", "normal", 100, 12, linear=True) >= 0.9
    assert held("stddev", "normal", 0, 12, linear=True) < 0.1


WEIGHTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "covar_pop": lambda x: (x - x.mean()) / len(x),
    "covar_samp": lambda x: (x - x.mean()) / (len(x) - 1),
    "regr_slope": lambda x: (x - x.mean()) / np.sum((x - x.mean()) ** 2),
    "regr_intercept": lambda x: np.linalg.pinv(np.stack([np.ones_like(x), x], axis=1))[0],
}
"""How much each number adds to a statistic of pairs, by what it is paired with."""


@pytest.mark.parametrize("function", sorted(ALONG))
def test_statistics_of_pairs_err_as_their_weights_say(function: str) -> None:
    along, errors = np.array([1.0, 2, 4, 7, 31]), np.array([1.0, 3, 2, 1, 5])
    rows = {1: np.zeros(5), 2: along, 3: errors}
    call = AggregateCall(function, (VALUE, ALONG_IT), type=DOUBLE)
    error = error_along(call, ERROR, named(rows))
    assert not refs(error)
    weighted = float(np.sqrt(np.sum((WEIGHTS[function](along) * errors) ** 2)))
    assert evaluate(error, {}) == pytest.approx(weighted)
