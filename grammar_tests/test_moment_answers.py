"""CORR, REGR_* and COVAR_* of the moments of a model: free where they are those of the question."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from dpsql.engines import Stop
from dpsql.interfaces.plan_text import plan_text
from dpsql.mechanisms.laws import Law
from dpsql.model.vocabulary import Loss, Request
from dpsql.proxy import Proxy
from dpsql.systems.models.models import ListModels, Models
from dpsql.systems.models.moment_answers import MomentSums

K = "CASE WHEN vip THEN 7 WHEN age < 30 THEN 2 ELSE 3 END"
ROWS = f"SELECT vip, age, {K} AS k FROM customers WHERE age IS NOT NULL"
MODEL = "CREATE MODEL {} OPTIONS(model_type = 'linear_reg', label = 'k', epsilon = 8) AS {}"
QUESTION = f"""SELECT CORR(age, {K}) AS r, REGR_SLOPE({K}, age) AS s, COVAR_POP(age, {K}) AS c,
REGR_INTERCEPT({K}, age) AS i, REGR_R2(age, {K}) AS r2, COUNT(*) AS n
FROM customers WHERE NOT age IS NULL"""

OFF = "WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'off')"


def exactly(_law: Law, count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


def spent(proxy: Proxy) -> Loss:
    return proxy.budgets()[0][1]


def sums(proxy: Proxy, text: str, epsilon: str = "0.5", analyst: str = "ana") -> MomentSums | None:
    request = Request(text, analyst, epsilon=Decimal(epsilon))
    query = proxy.compiler.read(request, Stop())
    models: Models = proxy.systems.open("models")
    return models.sums(proxy.compiler, proxy.vault, query)


@pytest.mark.full("measures neighbours or further data sets")
def test_what_moments_tell_is_what_would_be_measured_and_free(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, rows = f"{QUESTION} AND age > 5", f"{ROWS} AND age > 5"
    with monkeypatch.context() as silent:
        silent.setattr(proxy.vault, "sampler", exactly)
        fresh = proxy.ask(Request(text, "bob", epsilon=Decimal(10)))
        proxy.ask(Request(MODEL.format("told", rows), "ana"))
    before, request = spent(proxy), Request(text, "ana", epsilon=Decimal("0.5"))
    explanation = proxy.explain(request)
    assert explanation.charge == Loss(0)
    assert "From the second moments of the model told" in plan_text(explanation)
    answer = proxy.ask(request)
    assert spent(proxy) == before
    assert answer.receipt is not None
    assert answer.receipt.recalled == 100
    for own, other in zip(answer.rows[0], fresh.rows[0], strict=True):
        assert own == pytest.approx(other, rel=1e-4)
    errors = answer.errors[0]
    assert errors[-1] is not None
    assert 0 < errors[-1] < 20
    shown = proxy.ask(replace(request, sql=f"EXPLAIN {text}"))
    assert shown.explanation is not None


@pytest.mark.parametrize(
    ("text", "epsilon", "analyst"),
    [
        (QUESTION.replace("NOT age IS NULL", "age > 20"), "0.5", "ana"),
        *(
            pytest.param(text, "0.5", "ana", marks=pytest.mark.full("opens a proxy for each item"))
            for text in (
                QUESTION.replace("(age, ", "(age + 1, "),
                QUESTION.replace("COUNT(*)", "COUNT(*) FILTER (age > 20)"),
                QUESTION.replace("SELECT", "SELECT country,") + " GROUP BY country",
                QUESTION.replace("customers", "customers JOIN orders USING (customer_id)"),
            )
        ),
        (QUESTION, "8", "ana"),
        (QUESTION, "0.5", "bob"),
        (QUESTION.replace("SELECT", f"SELECT {OFF}"), "0.5", "ana"),
    ],
)
def test_other_questions_and_what_would_err_more_are_measured(
    proxy: Proxy, text: str, epsilon: str, analyst: str
) -> None:
    proxy.ask(Request(MODEL.format("known", ROWS), "ana"))
    assert sums(proxy, text, epsilon, analyst) is None


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    "rows",
    [
        ROWS.replace("SELECT vip", "SELECT country"),
        ROWS.replace(" WHERE age IS NOT NULL", ""),
        ROWS.replace(" age,", " CAST(age AS DOUBLE) AS age,"),
    ],
)
def test_moments_that_may_be_of_other_rows_or_values_tell_nothing(proxy: Proxy, rows: str) -> None:
    for model in proxy.run(ListModels("ana")):
        proxy.ask(Request(f"DROP MODEL {model.name}", "ana"))
    proxy.ask(Request(MODEL.format("other", rows), "ana"))
    assert sums(proxy, QUESTION) is None


@pytest.mark.full("draws random questions or values")
def test_errors_of_sums_that_share_moments_are_no_less_than_they_are() -> None:
    """Of any weighted sum of them; the twin that takes them for independent says less."""
    dice = np.random.default_rng(2)
    own = np.array([[1.0, 0.0], [-1.0, 1.0], [0.5, 2.0]])
    shared = np.count_nonzero(own, axis=0)
    for _ in range(200):
        weights, variances = dice.normal(size=3), dice.uniform(0, 2, 2)
        true = (weights @ own) ** 2 @ variances
        assert true <= weights**2 @ (own**2 @ (shared * variances)) * (1 + 1e-9)
    alike = np.array([1.0, -1.0, 0.5])
    assert (alike @ own) ** 2 @ np.ones(2) > alike**2 @ (own**2 @ np.ones(2))
