"""What is computed of noisy second moments: coefficients, their intervals, components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from dpsql.engines import Stop
from dpsql.mechanisms import standard_deviation
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from dpsql.systems.models.fits import components, least_squares, logistic
from dpsql.systems.models.model import CONFIDENT, as_sklearn, design
from dpsql.systems.models.model_inputs import Input, input_of
from dpsql.systems.models.models import FindModel
from dpsql.systems.models.moment_layout import SQUARE, layout_of
from dpsql.systems.models.moments_plan import planned
from dpsql.systems.models.released_moments import Moments
from grammar_tests.model_kit import FLAG, MIXED, NUMBER, PEOPLE, RECEIPT, wish


def simulated(
    columns: Sequence[Input],
    rows: np.ndarray,
    deviation: float,
    dice: np.random.Generator,
    most_rows: int = 1,
) -> Moments:
    """The moments of rows of cells behind a 1, with noise of this deviation on squares."""
    layout = layout_of(columns)
    every = np.hstack([np.ones((len(rows), 1)), rows])
    sums = np.zeros(layout.entries)
    there = layout.places >= 0
    sums[layout.places[there]] = (every.T @ every)[there]
    variances = (deviation * SQUARE / layout.weights) ** 2
    noisy = sums + dice.normal(0, np.sqrt(variances))
    return Moments(layout, noisy, variances, RECEIPT, most_rows)


TRUE = np.array([0.1, 0.3, -0.4, 0.1])


def linear_rows(count: int, dice: np.random.Generator) -> np.ndarray:
    x = dice.uniform(-1, 1, (count, 3))
    y = TRUE[0] + x @ TRUE[1:] + dice.normal(0, 0.1, count)
    return np.hstack([x, np.clip(y, -1, 1)[:, None]])


@pytest.mark.full("draws random questions or values")
def test_intervals_of_linear_coefficients_cover_as_often_as_they_say() -> None:
    columns = [input_of(name, NUMBER) for name in "abcy"]
    dice, held, blind = np.random.default_rng(7), 0, 0
    runs, count = 400, 3_000
    for _ in range(runs):
        moments = simulated(columns, linear_rows(count, dice), 12.0, dice)
        fit = least_squares(moments, 3, 0)
        off = np.abs(fit.coefficients - TRUE)
        held += int(np.sum(off <= CONFIDENT * np.sqrt(np.diag(fit.covariance))))
        silent = least_squares(replace(moments, variances=moments.variances * 1e-9), 3, 0)
        blind += int(np.sum(off <= CONFIDENT * np.sqrt(np.diag(silent.covariance))))
    assert 0.93 <= held / (4 * runs) <= 0.97
    assert blind / (4 * runs) < 0.8  # the twin that knows of the rows alone


@pytest.mark.full("draws random questions or values")
def test_intervals_hold_where_rows_of_one_person_err_together() -> None:
    columns, most = [input_of(name, NUMBER) for name in "xy"], 6
    dice, held, alone, runs = np.random.default_rng(4), 0, 0, 300
    for _ in range(runs):
        own = dice.integers(1, most + 1, 600)
        x, off = dice.uniform(-1, 1, 600), dice.normal(0, 0.1, 600)
        rows = np.repeat(np.stack([x, 0.2 + 0.4 * x + off], 1), own, axis=0)
        moments = simulated(columns, np.clip(rows, -1, 1), 1.0, dice, most)
        fit = least_squares(moments, 1, 0)
        apart = np.abs(fit.coefficients - np.array([0.2, 0.4]))
        held += int(np.sum(apart <= CONFIDENT * np.sqrt(np.diag(fit.covariance))))
        single = least_squares(replace(moments, most_rows=1), 1, 0)
        alone += int(np.sum(apart <= CONFIDENT * np.sqrt(np.diag(single.covariance))))
    assert held / (2 * runs) >= 0.93
    assert alone / (2 * runs) < 0.8  # the twin that takes rows of a person for independent


def test_without_noise_the_errors_of_coefficients_are_those_of_the_rows() -> None:
    columns, dice = [input_of(name, NUMBER) for name in "abcy"], np.random.default_rng(5)
    rows = linear_rows(2_000, dice)
    moments = simulated(columns, rows, 1e-6, dice)
    fit = least_squares(moments, 3, 0)
    x = np.hstack([np.ones((len(rows), 1)), rows[:, :3]])
    inverse = np.linalg.inv(x.T @ x)
    left = rows[:, 3] - x @ inverse @ x.T @ rows[:, 3]
    classic = inverse * (left @ left) / (len(rows) - 4)
    ratios = np.sqrt(np.diag(fit.covariance) / np.diag(classic))
    assert np.allclose(ratios, 1, atol=0.05)


def test_the_noise_of_a_product_of_the_matrix_is_what_it_varies_by() -> None:
    dice, layout = np.random.default_rng(3), layout_of(MIXED)
    variances = dice.uniform(1, 3, layout.entries)
    gamma = dice.normal(size=len(layout.places))
    own = Moments(layout, np.zeros(layout.entries), variances, RECEIPT, 1)
    draws = []
    for _ in range(4_000):
        noisy = Moments(layout, dice.normal(0, np.sqrt(variances)), variances, RECEIPT, 1)
        draws.append(noisy.matrix @ gamma)
    measured, stated = np.cov(np.array(draws).T), own.noise_of(gamma)
    assert np.allclose(measured, stated, atol=0.1 * np.abs(stated).max())
    squares = np.array([draw @ gamma for draw in draws])
    assert np.std(squares) == pytest.approx(own.deviation_of(gamma), rel=0.1)


def test_moments_of_fewer_columns_are_those_that_they_would_have_alone() -> None:
    dice = np.random.default_rng(9)
    columns = [input_of(name, NUMBER) for name in "abcy"]
    rows = linear_rows(100, dice)
    whole = simulated(columns, rows, 0.0, dice)
    fewer = simulated([columns[2], columns[3]], rows[:, 2:], 0.0, dice)
    assert np.allclose(whole.of([2, 3]).matrix, fewer.matrix)
    slope = least_squares(whole.of([2, 3]), 1, 0).coefficients[1]
    assert slope == pytest.approx(np.polyfit(rows[:, 2], rows[:, 3], 1)[0])


def test_log_odds_are_those_of_two_normal_classes() -> None:
    """Of normal classes with one covariance the log odds are linear, with known coefficients."""
    dice, count = np.random.default_rng(5), 60_000
    rich = dice.random(count) < 0.3
    centre = np.where(rich, 0.2, -0.1)
    x = np.clip(centre + dice.normal(0, 0.2, count), -1, 1)
    columns = [input_of("x", NUMBER), input_of("rich", FLAG)]
    moments = simulated(columns, np.stack([x, np.where(rich, 1, -1)], 1), 1.0, dice)
    (start, slope), _ = logistic(least_squares(moments, 1, 0))
    assert slope == pytest.approx(0.3 / 0.2**2, rel=0.03)
    assert start == pytest.approx(np.log(0.3 / 0.7) - (0.2**2 - 0.1**2) / (2 * 0.2**2), rel=0.05)


def test_components_are_the_directions_of_the_largest_variance() -> None:
    dice = np.random.default_rng(6)
    long, short = dice.normal(0, 0.3, 20_000), dice.normal(0, 0.05, 20_000)
    rows = np.clip(np.stack([long + short, long - short], 1) / sqrt(2) + 0.1, -1, 1)
    found = components(simulated([input_of(n, NUMBER) for n in "ab"], rows, 5.0, dice), 2)
    assert found.directions[0] == pytest.approx([sqrt(0.5)] * 2, abs=0.02)
    assert found.variances == pytest.approx([0.09, 0.0025], rel=0.05)
    assert 0 < found.errors[0] < 0.01


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("noise", [1.0, 60.0, 250.0])
def test_shares_are_of_the_rows_and_their_intervals_cover(noise: float) -> None:
    dice, columns = np.random.default_rng(9), [input_of(f"c{n}", NUMBER) for n in range(10)]
    scales = np.linspace(1, 1.2, 10) if noise > 1 else np.full(10, 1.0)
    rows = dice.uniform(-0.7, 0.7, (3_000, 10)) * scales
    rows[:, 8] = np.clip(rows[:, 0] + 0.4 * rows[:, 8], -1, 1)
    spread = np.cov(rows.T, bias=True)
    runs, held, raw_held, fit_held, gain, off = 200, 0, 0, 0, 0.0, 0.0
    for _ in range(runs):
        moments = simulated(columns, rows, noise, dice)
        found = components(moments, 2)
        true = np.diag(found.directions @ spread @ found.directions.T) / np.trace(spread)
        held += int(np.sum(np.abs(found.shares - true) <= CONFIDENT * found.errors))
        matrix = moments.matrix[1:, 1:] / moments.rows
        raw = np.linalg.eigvalsh(matrix)[::-1][:2] / np.trace(matrix)
        raw_held += int(np.sum(np.abs(raw - true) <= CONFIDENT * found.errors))
        fit = least_squares(moments, 9, 0)  # nothing explains the last column
        off_by = rows[:, 9] - fit.coefficients[0] - rows[:, :9] @ fit.coefficients[1:]
        truth = 1 - float(np.mean(off_by**2)) / float(np.var(rows[:, 9]))
        fit_held += abs(fit.explained - truth) <= CONFIDENT * fit.explained_error
        gain += 1 - fit.left / fit.whole - truth
        off += fit.explained - truth
    assert held / (2 * runs) >= 0.93
    assert fit_held / runs >= 0.93
    if noise > 1:  # the twin that takes what noise adds for variance
        assert raw_held / (2 * runs) < 0.8
        assert gain / runs > 4 * abs(off / runs)


def test_a_direction_that_noise_hides_gets_no_coefficient_of_its_own() -> None:
    dice = np.random.default_rng(8)
    columns = [input_of(name, NUMBER) for name in "abcy"]
    moments = simulated(columns, linear_rows(50, dice), 1e4, dice)
    fit = least_squares(moments, 3, 0)
    assert fit.hidden >= 2
    assert np.abs(fit.coefficients).max() < 2


@pytest.mark.full("needs the extra test-all")
@pytest.mark.parametrize("options", ["linear_reg', label = 'age", "pca",
                                     "logistic_reg', knots = 5, label = 'vip"])  # fmt: skip
def test_scikit_learn_says_the_same(proxy: Proxy, options: str) -> None:
    pytest.importorskip("sklearn", reason="the extra learn is not installed")
    name = f"sk_{options[:3]}"
    text = f"CREATE MODEL {name} OPTIONS(model_type = '{options}') AS {PEOPLE}"
    proxy.ask(Request(text, "ana"))
    model = proxy.run(FindModel(name, "ana"))
    row = {"segment": "business", "vip": True, "country": "SE", "age": 40}
    values = [row[column.name] for column in model.columns]
    listed = ", ".join(repr(value) for value in values)
    (said,) = proxy.ask(Request(f"SELECT PREDICT({name}, {listed}) AS x", "ana")).rows
    pipeline, rows = as_sklearn(model), np.array([values], dtype=object)
    if options.startswith("logistic"):
        theirs = pipeline.predict_proba(rows)[0, 1]
    else:
        theirs = (pipeline.transform(rows)[0] if options == "pca" else pipeline.predict(rows))[0]
    assert theirs == pytest.approx(said[0], rel=1e-6, abs=1e-9)
    assert design(model, [values]).shape == (1, len(model.scores[0].terms))
    assert standard_deviation(planned(proxy.compiler, wish(), Stop()).noise) > 0
