"""How often models of private rows are right, and how long they take.

`python -m benchmarks.learning [adult.parquet] [--seeds 20] [--delta 1e-9] [--runs 1000]` fits
logistic models of income on four fifths of UCI Adult, in one pass and by gradients, and counts on
the rest how often they are right, by other four fifths for each seed: of seven columns that were
chosen by hand, and of all 14; beside them, on the same columns and rows, the model of
scikit-learn without noise and that of diffprivlib (pure ε), where these are installed. Then the
seconds of a fit and of its statement, and how many intervals of linear coefficients hold the true
ones on simulated rows, which need no file.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median, stdev
from time import perf_counter
from typing import Any

import duckdb
import numpy as np

from benchmarks.common import PEOPLE, table
from benchmarks.synthetic import declared
from dpsql.accountants.conversion import rho_of
from dpsql.engines import Stop
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import DOUBLE
from dpsql.model.vocabulary import Loss, Receipt, Request
from dpsql.proxy import Proxy
from dpsql.systems.models.fits import least_squares
from dpsql.systems.models.model import CONFIDENT, Model, design
from dpsql.systems.models.model_inputs import NumberInput, input_of
from dpsql.systems.models.models import FindModel
from dpsql.systems.models.moment_layout import SQUARE, Layout, layout_of
from dpsql.systems.models.moments_plan import MomentsWish, planned
from dpsql.systems.models.released_moments import Moments

COLUMNS = {
    "age": "CASE WHEN age < 25 THEN 'to 24' WHEN age < 30 THEN 'to 29' WHEN age < 35 THEN 'to 34'"
    " WHEN age < 45 THEN 'to 44' WHEN age < 60 THEN 'to 59' ELSE 'from 60' END",
    "schooling": "education_num",
    "hours": "LEAST(GREATEST(hours_per_week, 10), 70)",
    "gain": "capital_gain > 5000",
    "loss": "capital_loss > 1800",
    "married": "marital_status = 'Married-civ-spouse'",
    "occupation": "occupation",
}
EVERY = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex"
    " capital_gain capital_loss hours_per_week native_country"
)
FEATURES = {"seven": COLUMNS, "all 14": {name: name for name in EVERY.split()}}
"""Seven columns that were chosen by hand, and all as they are, within declared bounds."""

METHODS = {"one pass": "one_pass", "gradient": "gradient"}
LABEL = "income = '>50K'"
EPSILONS = (Decimal("0.1"), Decimal(1))
"""The least first: what was paid for more is told again for less."""

BUDGET = """
[budgets.b]
epsilon = 1000000
delta = 1e-3
query_epsilon = 1
max_query_epsilon = 100
query_delta = {delta}
[analysts.a]
budget = "b"
"""

SPLIT = "split{seed} = {{ values = [false, true] }}"
WEIGHT = "fnlwgt = { bounds = [12285, 1484705] }"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parquet", nargs="?")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    if given.parquet is not None:
        with tempfile.TemporaryDirectory() as folder:
            adult(Path(folder), given.parquet, given.delta, given.seeds)
    covered(given.delta, given.runs)


# --- Adult -----------------------------------------------------------------------------------


def adult(folder: Path, parquet: str, delta: str, seeds: int) -> None:
    """Of each seed the share of rights on the rows that were left out."""
    with duckdb.connect(str(folder / "people.duckdb")) as owner:
        build(owner, folder, parquet, delta, seeds)
    for title, columns in FEATURES.items():
        rights: dict[str, list[float]] = {}
        seconds: dict[str, list[float]] = {}
        with duckdb.connect(str(folder / "people.duckdb"), read_only=True) as owner:
            truth = [numbers(owner, seed, columns) for seed in range(seeds)]
        with Proxy.open(str(folder / "dpsql.toml")) as proxy:
            for seed in range(seeds):
                seconds.setdefault("statement of one pass", []).append(
                    engine_seconds(proxy, seed, columns)
                )
                features: dict[bool, list[np.ndarray]] = {}
                for who, model, took in fitted(proxy, title, seed):
                    (score,) = model.scores
                    slopes = np.array([term.coefficient for term in score.terms])
                    bends = any(isinstance(c, NumberInput) and c.levels for c in model.columns)
                    if bends not in features:
                        features[bends] = [design(model, truth[seed][n]) for n in (0, 2)]
                    guess = score.intercept.coefficient + features[bends][1] @ slopes > 0
                    right = float(np.mean(guess == truth[seed][3]))
                    rights.setdefault(f"dpsql, {who}", []).append(right)
                    seconds.setdefault(who, []).append(took)
                for who, right in others(features[False], truth[seed], len(columns), seed):
                    rights.setdefault(who, []).append(right)
                for who, right in others(features.get(True, ()), truth[seed], None, seed):
                    rights.setdefault(f"{who}, bends", []).append(right)
        told(f"{title} columns, {seeds} seeds, δ = {delta}", rights, seconds)


def told(
    title: str, rights: Mapping[str, Sequence[float]], seconds: Mapping[str, Sequence[float]]
) -> None:
    """What was counted, as tables."""
    listed = [(who, f"{100 * fmean(r):.2f}", f"{100 * spread(r):.2f}") for who, r in rights.items()]
    table(f"Right on a fifth of Adult, %, {title}", ("model", "mean", "deviation"), listed)
    times = [(who, f"{median(each):.2f}") for who, each in seconds.items()]
    table("Seconds of a fit, in the median", ("what", "seconds"), times)


def fitted(proxy: Proxy, title: str, seed: int) -> Iterator[tuple[str, Model, float]]:
    """The models of one seed's four fifths, and how long they took."""
    for epsilon in EPSILONS:
        for method, option in METHODS.items():
            name = f"m{title[:3]}{option}{seed}_{epsilon}".replace(".", "_").replace(" ", "_")
            text = (
                f"CREATE MODEL {name} OPTIONS(model_type = 'logistic_reg', label = 'rich',"
                f" epsilon = {epsilon}, method = '{option}')"
                f" AS {select(f'split{seed}', FEATURES[title])}"
            )
            start = perf_counter()
            proxy.ask(Request(text, "a"))
            took = perf_counter() - start
            yield f"{method}, ε = {epsilon}", proxy.run(FindModel(name, "a")), took


def spread(rights: Sequence[float]) -> float:
    return stdev(rights) if len(rights) > 1 else 0.0


def build(
    owner: duckdb.DuckDBPyConnection, folder: Path, parquet: str, delta: str, seeds: int
) -> None:
    """The people with the four fifths of each seed as a column, and their policy."""
    parts = ", ".join(f"hash(person_id, {seed}) % 5 > 0 AS split{seed}" for seed in range(seeds))
    owner.execute(f"CREATE TABLE people AS SELECT *, {parts} FROM read_parquet(?)", [parquet])
    owner.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
    names = [row[0] for row in owner.execute("DESCRIBE people").fetchall()]
    described = [n for n in names if n not in {"person_id", "fnlwgt"} and not n.startswith("split")]
    lines = [f"{name} = {{ {declared(owner, name)} }}" for name in described]
    lines += [WEIGHT, *(SPLIT.format(seed=seed) for seed in range(seeds))]
    text = "\n".join((PEOPLE, *lines, BUDGET.format(delta=delta)))
    (folder / "dpsql.toml").write_text(text, encoding="utf-8")


def select(where: str, columns: Mapping[str, str]) -> str:
    listed = ", ".join(f"{text} AS {name}" for name, text in columns.items())
    return f"SELECT {listed}, {LABEL} AS rich FROM people WHERE {where}"


def numbers(
    owner: duckdb.DuckDBPyConnection, seed: int, columns: Mapping[str, str]
) -> tuple[Any, ...]:
    """Rows and labels that a model is of, and those that were left out."""
    result = list[Any]()
    for where in (f"split{seed}", f"NOT split{seed}"):
        rows = owner.execute(select(where, columns)).fetchall()
        result += [[row[:-1] for row in rows], np.array([row[-1] for row in rows])]
    return tuple(result)


def engine_seconds(proxy: Proxy, seed: int, columns: Mapping[str, str]) -> float:
    """What the statement of one pass takes by itself."""
    request = Request(select(f"split{seed}", columns), "a", epsilon=EPSILONS[0])
    plan = planned(proxy.compiler, MomentsWish(request, ("rich",)), Stop())
    (sql,) = plan.prepared.rewritten.blocks
    start = perf_counter()
    proxy.vault.engine.aggregate(sql.sql, len(sql.keys), sql.parts, 1, (), Stop())
    return perf_counter() - start


def others(
    features: Sequence[np.ndarray], truth: Sequence[Any], columns: int | None, seed: int
) -> Iterator[tuple[str, float]]:
    """How often the models of others are right, of numbers that are from -1 to 1; of so many
    columns one with noise too.
    """
    if find_spec("sklearn") is None or not features:
        return
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    labels, held = truth[1], truth[3]
    least, most = features[0].min(axis=0), features[0].max(axis=0)
    # Numbers are from -1 to 1, and what says that a value is there is 0 or 1: a row is no longer
    # than the root of the number of columns.
    wide = most - least > 1
    width = np.where(wide, most - least, 1)
    inside, outside = (np.where(wide, 2 * (f - least) / width - 1, f) for f in features)
    plain = LogisticRegression(max_iter=1000).fit(inside, labels)
    yield "scikit-learn, no noise", float(plain.score(outside, held))
    if find_spec("diffprivlib") is None or columns is None:
        return
    from diffprivlib.models import LogisticRegression as Private  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epsilon in EPSILONS:
            norm = float(np.sqrt(columns))
            model = Private(epsilon=float(epsilon), data_norm=norm, random_state=seed)
            yield (
                f"diffprivlib, ε = {epsilon}",
                float(model.fit(inside, labels).score(outside, held)),
            )


# --- simulated rows --------------------------------------------------------------------------

TRUE = np.array([0.1, 0.3, -0.4, 0.1, 0.0])
"""An intercept, and what four numbers from -1 to 1 add."""

NUMBER = Facts(DOUBLE, Interval(Fraction(-1), Fraction(1)), nullable=False)


def covered(delta: str, runs: int, rows: int = 20_000) -> None:
    """Of how many coefficients the interval holds the true one, in linear models of rows that are
    made up: with the noise of ε = 1, and of a tenth.
    """
    columns = [input_of(name, NUMBER) for name in ("x1", "x2", "x3", "x4", "y")]
    layout, dice = layout_of(columns), np.random.default_rng(1)
    listed = list[tuple[object, ...]]()
    for epsilon in EPSILONS:
        rho = float(rho_of(Fraction(epsilon), Fraction(delta)))
        size = len(layout.sizes) / np.sqrt(2 * rho)
        held = np.zeros(len(TRUE))
        for _ in range(runs):
            fit = least_squares(simulated(layout, rows, size, dice), len(columns) - 1, 0)
            errors = np.sqrt(np.diag(fit.covariance))
            held += np.abs(fit.coefficients - TRUE) <= CONFIDENT * errors
        listed.append((f"ε = {epsilon}", *(f"{100 * share:.1f}" for share in held / runs)))
    names = ("noise", "intercept", *(column.name for column in columns[:-1]))
    table(f"Intervals that hold the true coefficient, % of {runs}, {rows:,} rows", names, listed)


def simulated(layout: Layout, rows: int, size: float, dice: np.random.Generator) -> Moments:
    """The moments of made-up rows, with noise of this deviation on squares."""
    x = np.hstack([np.ones((rows, 1)), dice.uniform(-1, 1, (rows, 4))])
    y = np.clip(x @ TRUE + dice.normal(0, 0.1, rows), -1, 1)
    every = np.hstack([x, y[:, None]])
    matrix, places = every.T @ every, layout.places
    sums = np.zeros(layout.entries)
    sums[places] = matrix
    variances = (size * SQUARE / layout.weights) ** 2
    receipt = Receipt("", "", "", "", Decimal(1), Loss(0), Loss(0), Loss(0))
    noisy = sums + dice.normal(0, np.sqrt(variances))
    return Moments(layout, noisy, variances, receipt, most_rows=1)


if __name__ == "__main__":
    main()
