"""A fitted model: coefficients in the units of the columns, errors, and its prediction as SQL.

It is computed from released numbers only, so all readers of the release may see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpsql.dialects.literal_sql import constant
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Notice
from dpsql.model.tree import DOUBLE, VARCHAR, Literal, SqlType, Value, identifier
from dpsql.model.vocabulary import Receipt
from dpsql.systems.models import fits
from dpsql.systems.models.fits import logistic as log_odds
from dpsql.systems.models.model_inputs import Input, ListedInput, NumberInput, PairInput
from dpsql.systems.models.model_labels import label_of, require_columns
from dpsql.systems.models.model_statement import CreateModel, ModelType
from dpsql.systems.models.released_gradients import Gradients
from dpsql.systems.models.released_moments import Moments

CONFIDENT = 1.959964
"""Half width of a 95 % confidence interval, in standard errors."""


@dataclass(frozen=True, slots=True)
class ModelTerm:
    """Coefficient of one cell: per unit of a number, or for a listed value or NULL.

    If the column has bends, `value` is a knot. The contribution is 0 at the first knot and linear
    between knots.
    """

    column: int
    value: Value
    number: bool
    coefficient: float
    error: float

    @property
    def margin(self) -> float:
        """Half width of the 95 % confidence interval."""
        return CONFIDENT * self.error


@dataclass(frozen=True, slots=True)
class Score:
    """A score of a row: `intercept` plus the contributions of the terms. `about` names the
    score.

    For a component, `variance` is that along it, with numbers scaled to -1 to 1. `share` is its
    share of the total variance.
    """

    about: str
    intercept: ModelTerm
    terms: tuple[ModelTerm, ...]
    variance: float | None = None
    share: float | None = None
    share_error: float | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A named model: the columns that it reads, its scores, and its goodness of fit.

    `label` is the explained column. `positive` is its value if the score is log odds. `rows` is the
    noisy number of rows, and `hidden` the number of directions hidden by noise. `explained` is the
    share of variance that the score explains, corrected for noise, or None if unknown. `notices`
    concern the contribution bounds. For gradient descent, `steps` holds the steps taken and the
    steps charged. `wandering` is the largest standard deviation that noise alone gives to the
    contribution of a column.
    """

    name: str
    type: ModelType
    columns: tuple[Input, ...]
    label: str | None
    label_type: SqlType
    label_ends: tuple[float, float] | None
    positive: Value
    scores: tuple[Score, ...]
    rows: int
    rows_error: float
    hidden: int
    explained: float | None
    receipt: Receipt
    steps: tuple[int, int] | None = None
    wandering: float | None = None
    explained_error: float | None = None
    notices: tuple[Notice, ...] = ()

    @property
    def noise_margin(self) -> float | None:
        """Half width of the 95 % interval of the effect of noise alone on one column's
        contribution.
        """
        return None if self.wandering is None else CONFIDENT * self.wandering

    def score(self, part: str | None) -> Score:
        """Return the score by name, or the first one. Raises `Refused` for unknown names."""
        result = [s for s in self.scores if part is None or s.about.lower() == part.lower()]
        if not result:
            names = ", ".join(score.about for score in self.scores)
            raise Refused(Reason.BAD_OPTION, option=f"{self.name}.{part}", known=names)
        return result[0]


def fitted(moments: Moments, wish: CreateModel) -> Model:
    """Fit the model of a statement to moments. Raises `Refused` for an invalid label."""
    require_columns(moments.columns, wish)
    if wish.features:
        names = {name.lower() for name in (*wish.features, wish.label or "")}
        places = [n for n, column in enumerate(moments.columns) if column.name.lower() in names]
        moments = moments.of(places)
    if wish.type is ModelType.PCA:
        return _of_components(moments, wish)
    label, target = label_of(moments.columns, wish)
    fit = fits.least_squares(moments, label, target)
    coefficients, covariance = fit.coefficients, fit.covariance
    if wish.type is ModelType.LOGISTIC:
        coefficients, covariance = log_odds(fit)
    others = [n for n in range(len(moments.columns)) if n != label]
    return _explaining(
        wish,
        moments.columns,
        (label, others),
        fit.cells,
        (coefficients, covariance),
        rows=round(moments.rows),
        rows_error=moments.deviation_of_rows,
        hidden=fit.hidden,
        explained=min(max(fit.explained, 0.0), 1.0),
        explained_error=fit.explained_error,
        receipt=moments.receipt,
    )


def descended(gradients: Gradients, wish: CreateModel) -> Model:
    """Return the model of a statement from released gradients. Its standard errors are unknown."""
    plan = gradients.plan
    cells, coefficients = fits.against_first(plan.layout.columns, gradients.weights)
    label, others = plan.columns[plan.label], list(range(1, len(plan.layout.columns) + 1))
    return _explaining(
        wish,
        (label, *plan.layout.columns),
        (0, others),
        tuple(replace(cell, column=cell.column + 1) for cell in cells),
        (coefficients, np.full((len(coefficients),) * 2, np.nan)),
        rows=round(gradients.rows),
        rows_error=gradients.plan.deviation_of_rows(gradients.steps),
        hidden=0,
        explained=None,
        receipt=gradients.receipt,
        steps=(gradients.steps, plan.descent.steps),
        wandering=_apart(label, wish) * gradients.wandering,
    )


def _apart(label: Input, wish: CreateModel) -> float:
    """Return a bound on the difference of two values' contributions, per unit of a weight.

    Weights apply to numbers from -1 to 1, so the bound is 2; in units of a numeric label it is 2 ·
    `half`.
    """
    if wish.type is ModelType.LINEAR and isinstance(label, NumberInput):
        return 2.0 * label.half
    return 2.0


def _explaining(
    wish: CreateModel,
    columns: Sequence[Input],
    places: tuple[int, Sequence[int]],
    cells: tuple[fits.ModelCell, ...],
    fit: tuple[np.ndarray, np.ndarray],
    **facts: Any,
) -> Model:
    """Return the model of one column by others. `places` holds the indices of both.

    `fit` holds coefficients for numbers from -1 to 1, and their covariance.
    """
    label, others = places
    column = columns[label]
    coefficients, covariance = fit
    cells, coefficients, covariance = fits.in_units(columns, cells, coefficients, covariance)
    if wish.type is ModelType.LINEAR and isinstance(column, NumberInput):
        coefficients, covariance = coefficients * column.half, covariance * column.half**2
        coefficients[0] += column.middle
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    intercept, *terms = _terms(columns, cells, others, coefficients, errors)
    return Model(
        name=wish.name,
        type=wish.type,
        columns=tuple(columns[n] for n in others),
        label=column.name,
        label_type=column.type,
        label_ends=(float(column.lower), float(column.upper))
        if isinstance(column, NumberInput)
        else None,
        positive=column.cells[0] if wish.type is ModelType.LOGISTIC else None,
        scores=(Score(column.name, intercept, tuple(terms)),),
        **facts,
    )


def _of_components(moments: Moments, wish: CreateModel) -> Model:
    cells = sum(len(column.cells) for column in moments.columns)
    result = fits.components(moments, min(wish.components, cells))
    return Model(
        name=wish.name,
        type=wish.type,
        columns=moments.columns,
        label=None,
        label_type=VARCHAR,
        label_ends=None,
        positive=None,
        scores=tuple(_component(moments, result, n) for n in range(len(result.variances))),
        rows=round(moments.rows),
        rows_error=moments.deviation_of_rows,
        hidden=0,
        explained=None,
        receipt=moments.receipt,
    )


def _component(moments: Moments, result: fits.Components, place: int) -> Score:
    direction = result.directions[place]
    start = np.concatenate([[-float(direction @ result.mean)], direction])
    nothing = np.zeros((len(start), len(start)))
    cells, coefficients, _ = fits.in_units(moments.columns, result.cells, start, nothing)
    others = list(range(len(moments.columns)))
    unknown = np.full(len(start), np.nan)
    intercept, *terms = _terms(moments.columns, cells, others, coefficients, unknown)
    return Score(
        f"pc{place + 1}",
        intercept,
        tuple(terms),
        variance=float(result.variances[place]),
        share=float(result.shares[place]),
        share_error=float(result.errors[place]),
    )


def _terms(
    columns: Sequence[Input],
    cells: Sequence[fits.ModelCell],
    others: Sequence[int],
    coefficients: np.ndarray,
    errors: np.ndarray,
) -> list[ModelTerm]:
    """Return the intercept and the terms. Terms have the index of their column among `others`."""
    result = [
        ModelTerm(
            -1, None, number=False, coefficient=float(coefficients[0]), error=float(errors[0])
        )
    ]
    for place, cell in enumerate(cells, 1):
        column = columns[cell.column]
        number = isinstance(column, NumberInput) and not column.levels and cell.value is not None
        result.append(
            ModelTerm(
                others.index(cell.column),
                None if number else cell.value,
                number=number,
                coefficient=float(coefficients[place]),
                error=float(errors[place]),
            )
        )
    return result


# --- as SQL ----------------------------------------------------------------------------------


def prediction_sql(model: Model, part: str | None, arguments: Sequence[str]) -> str:
    """Return the prediction for a row as SQL over the texts of the columns.

    It is arithmetic with public numbers. It is NULL for a value that is not listed, or for an
    unexpected NULL.
    """
    score = model.score(part)
    parts = [_double(score.intercept.coefficient)]
    for place, (column, text) in enumerate(zip(model.columns, arguments, strict=True)):
        terms = [term for term in score.terms if term.column == place]
        parts.append(_added(column, terms, f"({text})"))
    total = f"({' + '.join(parts)})"
    if model.type is ModelType.LOGISTIC:
        return f"(1e0 / (1e0 + EXP(-{total})))"
    return total


def _added(column: Input, terms: Sequence[ModelTerm], text: str) -> str:
    """Return SQL for the contribution of one column."""
    branches = list[str]()
    match column:
        case NumberInput(levels=0):
            (slope,) = (term.coefficient for term in terms if term.number)
            inside = _between(text, float(column.lower), float(column.upper))
            branches.append(f"WHEN {text} IS NOT NULL THEN {_double(slope)} * {inside}")
        case NumberInput():
            branches += _segments(
                column, [t.coefficient for t in terms if t.value is not None], text
            )
        case ListedInput() | PairInput():
            by_value = {term.value: term.coefficient for term in terms}
            for value in column.values:
                listed = constant(Literal(value, column.type))
                branches.append(f"WHEN {text} = {listed} THEN {_double(by_value.get(value, 0.0))}")
    missing = [t.coefficient for t in terms if t.value is None and not t.number]
    branches += [f"WHEN {text} IS NULL THEN {_double(each)}" for each in missing]
    return f"CASE {' '.join(branches)} END"


def _segments(column: NumberInput, added: Sequence[float], text: str) -> Iterator[str]:
    """Yield SQL branches for the contribution of a column with bends, one per segment.

    The contribution at the first knot is 0.
    """
    ends = list(zip(column.knots, (0.0, *added), strict=True))
    last = len(ends) - 2
    for n, ((lower, start), (upper, end)) in enumerate(pairwise(ends)):
        slope = (end - start) / (upper - lower)
        within = f"{text} < {_double(upper)}" if n < last else f"{text} IS NOT NULL"
        inside = f"({_between(text, lower, upper)} - {_double(lower)})"
        yield f"WHEN {within} THEN {_double(start)} + {_double(slope)} * {inside}"


def _between(text: str, lower: float, upper: float) -> str:
    return f"LEAST(GREATEST(CAST({text} AS DOUBLE), {_double(lower)}), {_double(upper)})"


def _double(number: float) -> str:
    return constant(Literal(float(f"{number:.12g}"), DOUBLE))


def test_sql(model: Model, rows: str) -> str:
    """Return the query for the share of correct predictions, or for the mean error.

    Raises `Refused` for components, which predict nothing.
    """
    if model.label is None:
        why = f"{model.name} predicts no column"
        raise Refused(Reason.BAD_OPTION, option="model", why=why)
    name, prediction = identifier(model.label), f"PREDICT({identifier(model.name)})"
    if model.type is ModelType.LINEAR:
        measure = f"AVG(ABS({name} - {_clipped(model, prediction)})) AS off_by"
    else:
        positive = constant(Literal(model.positive, model.label_type))
        right = f"({prediction} >= 0.5) = ({name} = {positive})"
        measure = f"AVG(CASE WHEN {right} THEN 1.0 ELSE 0.0 END) AS accuracy"
    return f"SELECT {measure} FROM (\n{rows}\n) AS held_out WHERE {name} IS NOT NULL"


def _clipped(model: Model, prediction: str) -> str:
    """Return a prediction clipped to the bounds of the label."""
    if model.label_ends is None:
        return prediction
    lower, upper = map(_double, model.label_ends)
    return f"LEAST(GREATEST({prediction}, {lower}), {upper})"


# --- as JSON and numbers ---------------------------------------------------------------------


def as_json(model: Model) -> dict[str, Any]:
    """Return a model as a JSON object."""
    return {
        "model": model.name,
        "model_type": str(model.type),
        "label": model.label,
        "positive": _plain(model.positive),
        "rows": model.rows,
        "hidden": model.hidden,
        "explained": model.explained,
        "explained_error": model.explained_error,
        "steps": None if model.steps is None else model.steps[0],
        "wandering": model.wandering,
        "columns": [_column_json(column) for column in model.columns],
        "scores": [_score_json(model, score) for score in model.scores],
        "epsilon": str(model.receipt.epsilon),
        "query": model.receipt.query_id,
    }


def _column_json(column: Input) -> dict[str, Any]:
    own: Mapping[str, Any]
    match column:
        case NumberInput():
            own = {"lower": float(column.lower), "upper": float(column.upper)}
            own |= {"knots": list(column.knots)} if column.levels else {}
        case ListedInput() | PairInput():
            own = {"values": [_plain(value) for value in column.values]}
    return {"name": column.name, "type": str(column.type), **own, "nullable": column.nullable}


def _score_json(model: Model, score: Score) -> dict[str, Any]:
    return {
        "score": score.about,
        "share": score.share,
        "share_error": score.share_error,
        "intercept": _numbers(score.intercept),
        "terms": [
            {
                "column": model.columns[term.column].name,
                **({} if term.number else {"value": _plain(term.value)}),
                **_numbers(term),
            }
            for term in score.terms
        ],
    }


def _numbers(term: ModelTerm) -> dict[str, float | None]:
    if np.isnan(term.error):
        return {"coefficient": term.coefficient}
    return {
        "coefficient": term.coefficient,
        "error": term.error,
        "lower": term.coefficient - term.margin,
        "upper": term.coefficient + term.margin,
    }


def _plain(value: Value) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def design(model: Model, rows: Sequence[Sequence[Any]]) -> np.ndarray:
    """Return a matrix with a row per data row and a column per term, for `as_sklearn`.

    An entry is the clipped number, the weight of a knot in linear interpolation, or 1 if the row
    has the value.
    """
    result = np.zeros((len(rows), len(model.scores[0].terms)))
    for place, term in enumerate(model.scores[0].terms):
        column = model.columns[term.column]
        own = [row[term.column] for row in rows]
        if not isinstance(column, NumberInput) or (term.value is None and not term.number):
            result[:, place] = [value == term.value for value in own]
            continue
        there = [n for n, value in enumerate(own) if value is not None]
        numbers = np.array([float(own[n]) for n in there])
        if term.number:
            result[there, place] = np.clip(numbers, float(column.lower), float(column.upper))
        else:
            tip = [float(knot == term.value) for knot in column.knots]
            result[there, place] = np.interp(numbers, column.knots, tip)
    return result


def as_sklearn(model: Model) -> Any:
    """Return the model as a fitted scikit-learn pipeline over rows of the columns, in their
    order.

    Raises ModuleNotFoundError if scikit-learn is not installed.
    """
    from functools import partial  # noqa: PLC0415

    from sklearn.decomposition import PCA  # noqa: PLC0415
    from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import Pipeline  # noqa: PLC0415
    from sklearn.preprocessing import FunctionTransformer  # noqa: PLC0415

    slopes = np.array([[t.coefficient for t in score.terms] for score in model.scores])
    intercepts = np.array([score.intercept.coefficient for score in model.scores])
    estimator: Any
    match model.type:
        case ModelType.LINEAR:
            estimator = LinearRegression()
            estimator.coef_, estimator.intercept_ = slopes[0], float(intercepts[0])
        case ModelType.LOGISTIC:
            estimator = LogisticRegression()
            estimator.coef_, estimator.intercept_ = slopes, intercepts
            estimator.classes_ = np.array([False, True])
        case ModelType.PCA:
            estimator = PCA(n_components=len(slopes))
            estimator.components_ = slopes
            # Scores use the units of the columns. The mean is the point where all scores are zero.
            estimator.mean_ = -np.linalg.pinv(slopes) @ intercepts
            estimator.explained_variance_ = np.array([s.variance for s in model.scores])
            estimator.explained_variance_ratio_ = np.array([s.share for s in model.scores])
            estimator.n_components_ = len(slopes)
            estimator.whiten = False
    estimator.n_features_in_ = slopes.shape[1]
    features = FunctionTransformer(partial(design, model))
    return Pipeline([("features", features), ("model", estimator)])
