"""Columns of numbers with bends: how long they make a row, and what is said of them at knots."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import pytest

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import BOOLEAN, DOUBLE, INTEGER
from dpsql.systems.models.bends import KNOTS, BendInput, bent, heights, parts_of
from dpsql.systems.models.descent import BENT, Walk, descent, knots_of
from dpsql.systems.models.fits import ModelCell, in_units, least_squares
from dpsql.systems.models.model import Model, ModelTerm, Score, design, prediction_sql
from dpsql.systems.models.model_inputs import STEPS, Input, NumberInput, PairInput
from dpsql.systems.models.model_statement import DescentOptions, ModelType
from grammar_tests.model_kit import RECEIPT, of_text
from grammar_tests.test_model_fits import simulated

LINE = NumberInput("x", DOUBLE, Fraction(10), Fraction(50), nullable=False)
LEVELS = len(KNOTS) - 1


def hats(*, tall: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Every place of a number in steps, and the hats of each level there, as the engine says;
    `tall` ones are a step of theirs higher.
    """
    levels = [BendInput(LINE, level).height("v") for level in range(LEVELS)]
    levels = [text.replace("1.4140625", "1.421875") for text in levels] if tall else levels
    text = f"SELECT v, {', '.join(levels)} FROM range(-{STEPS}, {STEPS + 1}) AS t(v) ORDER BY v"
    rows = np.array(duckdb.execute(text).fetchall(), dtype=np.int64)
    return rows[:, 0], rows[:, 1:]


@pytest.mark.parametrize("levels", range(LEVELS + 1))
def test_no_bend_makes_a_row_longer(levels: int) -> None:
    """Of each place in whole numbers; at knots rows are as long as they can be."""
    places, every = hats()
    squares = places**2 + np.sum(every[:, :levels] ** 2, axis=1)
    assert squares.max() <= STEPS**2
    assert squares[:: 2 * STEPS >> levels].min() > 0.99 * STEPS**2


def test_wrong_twins_of_the_norm_of_bends_are_refuted() -> None:
    """Hats a little higher, hats that are as high as at the level before, and a level that counts
    twice.
    """
    places, every = hats()
    assert np.max(places**2 + np.sum(hats(tall=True)[1] ** 2, axis=1)) > STEPS**2
    same = np.round(every * 2.0 ** (np.arange(LEVELS) / 2)).astype(np.int64)
    assert np.max(places**2 + np.sum(same[:, :2] ** 2, axis=1)) > STEPS**2
    assert np.max(places**2 + np.sum(every**2, axis=1) + every[:, -1] ** 2) > STEPS**2


def test_texts_of_cells_and_heights_are_those_that_models_are_computed_of() -> None:
    places, every = hats()
    numbers = heights(places / STEPS, LEVELS)
    codes = [BendInput(LINE, level).code("v") for level in range(LEVELS)]
    text = f"SELECT {', '.join(codes)} FROM range(-{STEPS}, {STEPS + 1}) AS t(v) ORDER BY v"
    cells = np.array(duckdb.execute(text).fetchall())
    assert numbers.shape[1] == 2**LEVELS
    for level in range(LEVELS):
        own = numbers[:, 2**level : 2 ** (level + 1)]
        assert np.count_nonzero(own, axis=1).max() == 1
        said = own[np.arange(len(own)), cells[:, level]] * STEPS
        assert np.all(np.trunc(said) == every[:, level])


def test_what_bends_is_found_and_said_at_knots() -> None:
    dice, count = np.random.default_rng(3), 40_000
    x, (line,) = dice.uniform(10, 50, count), bent([LINE], 5)
    assert isinstance(line, NumberInput)
    truth = np.array([0.2, -0.3, 0.1, 0.4, -0.5])  # at 10, 20, 30, 40 and 50
    y = np.interp(x, line.knots, truth) + dice.normal(0, 0.1, count)
    target = replace(LINE, name="y", lower=Fraction(-1), upper=Fraction(1))
    cells = heights((x - 30) / 20, 2)
    fit = least_squares(simulated([line, target], np.hstack([cells, y[:, None]]), 5, dice), 1, 0)
    own, coefficients, covariance = in_units([line, target], fit.cells, *_of(fit))
    assert [cell.value for cell in own] == [20, 30, 40, 50]
    off = coefficients - np.array([truth[0], *truth[1:] - truth[0]])
    assert np.abs(off).max() < 0.02
    assert np.all(np.abs(off) < 5 * np.sqrt(np.diag(covariance)))
    plain = simulated([LINE, target], np.stack([cells[:, 0], y], axis=1), 5, dice)
    assert least_squares(plain, 1, 0).left > 2 * fit.left


def _of(fit: object) -> tuple[np.ndarray, np.ndarray]:
    return fit.coefficients, fit.covariance  # type: ignore[attr-defined]


def test_in_units_of_columns_a_model_says_what_it_said_of_cells() -> None:
    """Of rows with NULL too, whose cell stands alone."""
    dice = np.random.default_rng(4)
    numbers = [replace(LINE, nullable=True), *bent([replace(LINE, nullable=True)], 9)]
    pair = PairInput("p", BOOLEAN, (False, True), nullable=True)
    columns: list[Input] = [*numbers, pair]
    cells = [ModelCell(n, value) for n, part in parts_of(columns) for value in part.cells]
    fit = dice.normal(size=len(cells) + 1)
    own, coefficients, _ = in_units(columns, cells, fit, np.zeros((len(fit),) * 2))
    kinds = [n == 0 and cell.value is not None for cell in own for n in [cell.column]]
    each = zip(own, kinds, coefficients[1:], strict=True)
    terms = [ModelTerm(c.column, None if k else c.value, number=k, coefficient=float(b), error=0.0)
             for c, k, b in each]  # fmt: skip
    start = ModelTerm(-1, None, number=False, coefficient=float(coefficients[0]), error=0.0)
    model = Model("m", ModelType.LINEAR, tuple(columns), "y", DOUBLE, None, None,
                  (Score("y", start, tuple(terms)),), 1, 0.0, 0, None, RECEIPT)  # fmt: skip
    rows = [(11.0, 47.0, True), (None, 10.0, False), (50.0, None, None), (30.5, 31.25, None)]
    for row in rows:
        coded = [1.0]
        for n, part in parts_of(columns):
            value, there = row[n], row[n] is not None
            place = ((value or 0.0) - 30) / 20 if there and n < 2 else 0.0
            match part:
                case NumberInput():
                    coded += [place, float(not there)]
                case BendInput(level=level):
                    hat = heights(np.array([place]), 3)[0, 2**level : 2 ** (level + 1)]
                    coded += list(hat * there)
                case _:
                    coded += [0.0 if value is None else 2.0 * value - 1, float(not there)]
        said = coefficients[0] + design(model, [row])[0] @ coefficients[1:]
        assert said == pytest.approx(np.array(coded) @ fit)
        texts = ["NULL" if value is None else str(value) for value in row]
        ((sql,),) = duckdb.execute(f"SELECT {prediction_sql(model, None, texts)}").fetchall()
        assert sql == pytest.approx(said, abs=1e-9)


@pytest.mark.full("draws random questions or values")
def test_bends_that_noise_hides_do_not_wander() -> None:
    """They are measured with what is linear, which has the same noise with and without them."""
    way, dice, ends = descent(DescentOptions(), 2.0, 0.0), np.random.default_rng(5), []
    for _ in range(100):
        walk = Walk(way, np.array([False, True]), 1.0, 3.0)
        for _ in range(way.steps):
            walk.go(np.append(dice.normal(0, 3.0, 2), 1_000.0))
        ends.append(walk.reached)
    alone = way.wandering(3.0 / 1_000)
    assert alone > 1
    wandered = alone, alone / (1 + alone**2)
    assert np.std(ends, axis=0) == pytest.approx(wandered, rel=0.3)


@pytest.mark.parametrize(
    "curvature",
    [0.001, *(pytest.param(c, marks=pytest.mark.full("further losses")) for c in (0.02, 0.2))],
)
def test_noise_moves_no_weight_farther_than_is_told(curvature: float) -> None:
    """Wherever the loss bends; it comes near to that where it hardly does."""
    way, dice, ends = descent(DescentOptions(), 2.0, 0.0), np.random.default_rng(6), []
    for _ in range(150):
        walk = Walk(way, np.array([False]), 1.0, 1.0)
        for _ in range(way.steps):
            slope = 1_000.0 * curvature * walk.weights[0]
            walk.go(np.array([slope + dice.normal(), 1_000.0]))
        ends.append(walk.reached[0])
    most = way.wandering(1.0 / 1_000)
    assert np.std(ends) < 1.2 * most
    assert curvature > 0.001 or np.std(ends) > 0.4 * most


def test_knots_are_chosen_by_noise_and_no_more_than_there_are_whole_numbers() -> None:
    assert knots_of(ModelType.LOGISTIC, 2.0, 1.0) == BENT
    assert knots_of(ModelType.LOGISTIC, 2.0, 100.0) == knots_of(ModelType.LINEAR, 2.0, 1.0) == 2
    few = replace(LINE, type=INTEGER, upper=Fraction(13))
    (column,) = bent([few], 17)
    assert isinstance(column, NumberInput)
    assert column.levels == 1


@pytest.mark.parametrize(
    "options",
    ["label = 'y', model_type = 'linear_reg', knots = 4", "model_type = 'pca', knots = 3"],
)
def test_knots_that_are_none_are_refused(options: str) -> None:
    with pytest.raises(Refused) as refused:
        of_text(f"CREATE MODEL m OPTIONS({options}) AS SELECT x, y FROM t")
    assert refused.value.reason is Reason.BAD_OPTION
    assert refused.value.facts["option"] == "knots"
