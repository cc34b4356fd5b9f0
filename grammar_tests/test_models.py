"""Models: one charge for second moments, which one unit moves no further than claimed, and what
is computed of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql.answering.paid_names import AS_THE_DATA
from dpsql.engines import EngineFailed, Stop
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.plan_text import plan_text
from dpsql.mechanisms.laws import Law
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.tree import DOUBLE
from dpsql.model.vocabulary import (
    Fact,
    FactKind,
    Loss,
    Mechanism,
    Neighbours,
    NoiseEvent,
    Request,
    Sensitivity,
    Voucher,
)
from dpsql.preparation.compilation import Compiler
from dpsql.proxy import Proxy
from dpsql.systems.models.joint_sums import UnitRows
from dpsql.systems.models.model_inputs import STEPS, Input, NumberInput
from dpsql.systems.models.models import FindModel, ListModels
from dpsql.systems.models.moment_layout import PRODUCT, SQUARE, Layout, layout_of
from dpsql.systems.models.moments_plan import ONE, planned, sensitivities, vectors_of
from dpsql.systems.models.released_moments import measured
from dpsql.vault.joint_run import JointRun
from grammar_tests import bound, laws, world
from grammar_tests.model_kit import MIXED, PEOPLE, wish

FIRST_ORDERS = """SELECT status, quantity, amount FROM orders
QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id, quantity, amount) <= 2"""
LINEAR = f"CREATE MODEL aged OPTIONS(model_type = 'linear_reg', label = 'age') AS {PEOPLE}"
LOGISTIC = f"CREATE MODEL vips AS {PEOPLE} OPTIONS(model_type = 'logistic_reg', label = 'vip')"


def spent(proxy: Proxy) -> Loss:
    return proxy.budgets()[0][1]


def history(proxy: Proxy) -> list[dict[str, Any]]:
    opened: Any = lambda _path: nullcontext(proxy)  # noqa: E731
    settings = CommandSettings(open=opened)
    done = CliRunner().invoke(main, ["history", "--format", "json"], obj=settings)
    return list(json.loads(done.stdout))


def exactly(_law: Law, count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


# --- what one unit moves -------------------------------------------------------------------------


def extremes(columns: Sequence[Input]) -> Iterator[np.ndarray]:
    """Rows of all cells, in steps, of which one in each column is not zero."""
    own = []
    for column in columns:
        size = len(column.cells)
        signs = (1,) if column.number is None else (1, -1)
        unit = np.eye(size, dtype=np.int64) * STEPS
        own.append([*unit, *(-unit[:1] if -1 in signs else ())])
    for cells in product(*own):
        yield np.concatenate([[STEPS], *cells])


def contribution(layout: Layout, row: np.ndarray, weights: tuple[int, int]) -> np.ndarray:
    """What a row adds to all entries, as the statement computes it."""
    result = np.zeros(layout.entries)
    for pair in layout.pairs:
        weight = weights[pair.one != pair.other]
        for a, b in product(range(layout.sizes[pair.one]), range(layout.sizes[pair.other])):
            if pair.one == pair.other and a != b:
                continue
            values = row[layout.starts[pair.one] + a], row[layout.starts[pair.other] + b]
            result[pair.base + pair.width * a + b] = weight * values[0] * values[1]
    return result


def farthest(weights: tuple[int, int], rows: int = 1) -> tuple[float, float, float, float]:
    """The most that a unit of so many equal rows moves entries by: added in L2 and L1, replaced in
    L2 and L1.
    """
    layout = layout_of(MIXED)
    every = rows * np.array([contribution(layout, row, weights) for row in extremes(MIXED)])
    apart = every[:, None] - every[None]
    return (
        float(np.linalg.norm(every, axis=1).max()),
        float(np.abs(every).sum(axis=1).max()),
        float(np.linalg.norm(apart, axis=2).max()),
        float(np.abs(apart).sum(axis=2).max()),
    )


def claims(rows: int, neighbours: Neighbours) -> tuple[Sensitivity, ...]:
    return sensitivities(vectors_of(layout_of(MIXED), UnitRows(rows, proved=True)), neighbours)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_unit_moves_the_joint_vector_no_farther_than_claimed(rows: int) -> None:
    added, added_l1, replaced, replaced_l1 = farthest((SQUARE, PRODUCT), rows)
    for claim in claims(rows, Neighbours.ADD_REMOVE):
        assert added**2 <= claim.l2_squared
        assert added_l1 <= claim.l1
    for claim in claims(rows, Neighbours.REPLACE):
        assert replaced**2 <= claim.l2_squared
        assert replaced_l1 <= claim.l1


def test_wrong_twins_of_the_joint_sensitivity_are_refuted() -> None:
    """Products counted like noise of the same variance as squares, a norm of one column fewer, and
    a replaced unit that counts once: the claims are nearly reached, and each is then exceeded.
    """
    together, apart = claims(1, Neighbours.ADD_REMOVE)
    assert farthest((SQUARE, 2 * SQUARE))[0] ** 2 > max(together.l2_squared, apart.l2_squared)
    added, _, replaced, _ = farthest((SQUARE, PRODUCT))
    fewer = SQUARE * (len(MIXED)) * ONE
    assert added > fewer
    assert replaced**2 > together.l2_squared
    assert PRODUCT**2 <= 2 * SQUARE**2 < (PRODUCT + 1) ** 2


@pytest.mark.full("opens a proxy for each item")
def test_all_numbers_of_a_row_are_within_its_norm_whatever_is_stored(proxy: Proxy) -> None:
    """The text clips: what is beyond the bounds, NaN and NULL are no more than 1 in size."""
    (number,) = (c for c in planned(proxy.compiler, wish(), Stop()).layout.columns[3:])
    assert isinstance(number, NumberInput)
    text = str(replace(number, type=DOUBLE).number).replace('"age"', "v")
    values = "(1e300), (-1e300), ('nan'::DOUBLE), ('inf'::DOUBLE), (NULL), (60), (0.01)"
    rows = proxy.vault.engine.rows(f"SELECT {text} AS n FROM (VALUES {values}) AS t(v)")
    assert sorted(n for (n,) in rows) == [-4096, -4095, 0, 4096, 4096, 4096, 4096]
    whole = str(number.number).replace('"age"', "v")
    rows = proxy.vault.engine.rows(f"SELECT {whole} AS n FROM (VALUES (-1), (0), (1), (120)) t(v)")
    assert sorted(n for (n,) in rows) == [-4080, -4080, -4012, 4080]  # 120 times 34, exactly


ONE_ROW = frozenset({Fact(FactKind.UNIQUE_KEY, "customers", Voucher.CHECK)})


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize(
    ("text", "facts", "rows", "knots"),
    [
        (PEOPLE, ONE_ROW, 1, 5),
        (FIRST_ORDERS, frozenset(), 2, 2),
        ("SELECT status, quantity, amount FROM orders", frozenset(), 10, 2),
    ],
)
def test_neighbours_differ_by_no_more_than_claimed(
    text: str, facts: frozenset[Fact], rows: int, knots: int
) -> None:
    tables = world.well_behaved() if facts else world.adversarial()
    policy, engine = bound.over(tables, constraints=False)
    compiler = Compiler(replace(policy, facts=facts), engine.public)
    plan = planned(compiler, replace(wish(text), knots=knots), Stop())
    assert plan.vectors.rows.most == rows
    (here,) = laws.integers(plan.prepared, engine)
    for unit in (1, 2, 7):
        with laws.without_unit(engine.connection, world.deletions(unit)):
            (there,) = laws.integers(plan.prepared, engine)
        keys = here.keys() | there.keys()
        moved = [here.get(key, (0,))[0] - there.get(key, (0,))[0] for key in keys]
        (part,) = plan.cost.event.parts
        assert isinstance(part, NoiseEvent)
        assert 0 < sum(m**2 for m in moved) <= part.sensitivity.l2_squared
        assert sum(map(abs, moved)) <= part.sensitivity.l1


@pytest.mark.full("measures neighbours or further data sets")
def test_more_columns_of_one_unit_are_clipped_by_no_limit_of_groups() -> None:
    """No entry is left out or clipped though the policy limits groups: the proof is of each row."""
    policy, engine = bound.over(world.well_behaved(), constraints=True)
    plan = planned(Compiler(policy, engine.public), wish(FIRST_ORDERS), Stop())
    assert "kept" not in plan.prepared.rewritten.blocks[0].sql
    (counts,) = laws.integers(plan.prepared, engine)
    first = engine.rows(f"SELECT COUNT(*) FROM ({FIRST_ORDERS})")[0][0]
    assert counts[(0,)] == (first * SQUARE * ONE,)


# --- what is paid --------------------------------------------------------------------------------


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("accountant", "neighbours"),
    [("zcdp", Neighbours.REPLACE), ("pure", Neighbours.ADD_REMOVE)],
)
def test_every_accountant_pays_for_all_entries_within_one_question(
    accountant: str, neighbours: Neighbours
) -> None:
    policy, engine = bound.shop()
    budget = replace(policy.budgets[0], accountant=accountant)
    unit = replace(policy.unit, neighbours=neighbours)
    compiler = Compiler(replace(policy, budgets=(budget,), unit=unit), engine.public)
    plan = planned(compiler, wish(), Stop())
    (part,) = plan.cost.event.parts
    assert isinstance(part, NoiseEvent)
    assert part.noise == plan.noise
    assert part.sensitivity.neighbours is neighbours
    if accountant == "pure":
        assert plan.noise.mechanism is Mechanism.DISCRETE_LAPLACE
        assert plan.noise.scale == part.sensitivity.l1
        assert plan.cost.loss == Loss(10**9)


@pytest.mark.full("processes are started and killed")
def test_another_label_components_and_correlations_cost_nothing(proxy: Proxy) -> None:
    text = "SELECT segment, vip, country, age FROM customers WHERE age IS NOT NULL"
    first = f"CREATE MODEL a OPTIONS(model_type = 'linear_reg', label = 'age') AS {text}"
    answer = proxy.ask(Request(first, "bob"))
    assert answer.receipt is not None
    assert answer.receipt.charged > Loss(0)
    assert answer.rows[0][2] == AS_THE_DATA
    before = spent(proxy)
    for name, options in (
        ("b", "model_type = 'logistic_reg', label = 'vip'"),
        ("c", "model_type = 'pca', components = 3"),
        ("a", "model_type = 'linear_reg', label = 'age', epsilon = 0.5"),
        ("d", "model_type = 'linear_reg', label = 'age', features = 'vip'"),
    ):
        again = proxy.ask(Request(f"CREATE MODEL {name} OPTIONS({options}) AS {text}", "bob"))
        assert again.receipt is not None
        assert again.receipt.query_id == answer.receipt.query_id
    assert spent(proxy) == before
    explanation = proxy.explain(Request(f"{first.replace(' a ', ' e ')}", "bob"))
    assert explanation.remembered
    assert "as one vector of" in " ".join(plan_text(explanation).split())
    assert [model.name for model in proxy.run(ListModels("bob"))] == [*"abcd"]
    assert [column.name for column in proxy.run(FindModel("d", "bob")).columns] == ["vip"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (LINEAR.replace("label = 'age'", "label = 'vip'"), Reason.BAD_OPTION),
        (LOGISTIC.replace("label = 'vip'", "label = 'country'"), Reason.BAD_OPTION),
        (LINEAR.replace("'age'", "'nothing'"), Reason.UNKNOWN_COLUMN),
        (LINEAR.replace(", label = 'age'", ""), Reason.BAD_OPTION),
        (LINEAR.replace("linear_reg", "forest"), Reason.BAD_OPTION),
        (LINEAR.replace("model_type = 'linear_reg', ", ""), Reason.BAD_OPTION),
        (LINEAR.replace("linear_reg", "pca"), Reason.BAD_OPTION),
        (LINEAR.replace("label =", "components = 2, label ="), Reason.BAD_OPTION),
        (LINEAR.replace("linear_reg', label = 'age'", "pca', components = 21"), Reason.BAD_OPTION),
        (LINEAR.replace("label =", "features = 'age', label ="), Reason.BAD_OPTION),
        (LINEAR.replace("label =", "features = 'city', label ="), Reason.UNKNOWN_COLUMN),
        (LINEAR.replace("label =", "epsilon = 11, label ="), Reason.EPSILON_TOO_LARGE),
        (LINEAR.replace("country,", "city,"), Reason.UNBOUNDED_INPUT),
        (LINEAR.replace("segment, vip, country, ", ""), Reason.BAD_OPTION),
        (LINEAR.replace(PEOPLE, "SELECT day > '2024-05-05' AS b, CASE WHEN day > '2024-03-01'"
                                " THEN 1 ELSE 0 END AS age FROM logins"),
         Reason.UNBOUNDED_CONTRIBUTION),
        (LINEAR.replace(PEOPLE, "SELECT code, region AS age FROM countries"),
         Reason.UNSUPPORTED_PRIVATE_OPERATOR),
        (LINEAR.replace(PEOPLE, "SELECT segment, COUNT(*) AS age FROM customers GROUP BY 1"),
         Reason.UNSUPPORTED_PRIVATE_OPERATOR),
        (LINEAR.replace(" AS SELECT", " SELECT"), Reason.SYNTAX),
        ("DROP MODEL nobody", Reason.UNKNOWN_NAME),
        ("DROP MODEL a b", Reason.SYNTAX),
        ("SELECT PREDICT(nobody, 1) AS x", Reason.UNKNOWN_NAME),
        ("SELECT PREDICT(1)", Reason.SYNTAX),
        ("SELECT PREDICT(a, )", Reason.UNKNOWN_NAME),  # other calls ignore such a comma too
        ("SELECT PREDICT(a, (1)", Reason.SYNTAX),
    ],
)  # fmt: skip
def test_what_is_no_model_is_refused_free_of_charge(
    proxy: Proxy, text: str, reason: Reason
) -> None:
    before = spent(proxy)
    with pytest.raises(Refused) as refused:
        proxy.ask(Request(text, "ana"))
    assert refused.value.reason is reason
    assert spent(proxy) == before


@pytest.mark.full("opens a proxy for each item")
def test_the_charge_comes_first_and_stays_where_the_statement_fails(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = spent(proxy), list[Loss]()

    def fails(_run: JointRun, _prepared: object) -> None:
        seen.append(spent(proxy))
        raise EngineFailed

    monkeypatch.setattr(JointRun, "integers", fails)
    with pytest.raises(Failed) as failed:
        proxy.ask(Request(LINEAR.replace("aged", "ordered").replace("country, ", ""), "ana"))
    assert failed.value.charged
    assert seen == [spent(proxy)]
    assert spent(proxy) > before
    assert "ordered" not in [model.name for model in proxy.run(ListModels("ana"))]


# --- what is measured ----------------------------------------------------------------------------


@pytest.mark.full("draws random questions or values")
def test_without_noise_moments_are_those_of_the_rows(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text and layout against the rows themselves: each column in cells, and all their products."""
    monkeypatch.setattr(proxy.vault, "sampler", exactly)
    of, stop = wish("SELECT segment, vip, country, age FROM customers WHERE income > 0"), Stop()
    plan = planned(proxy.compiler, of, stop)
    moments = measured(proxy.compiler, proxy.vault, of, plan, stop)
    listed = []
    for segment, vip, country, age in proxy.vault.engine.rows(plan.rows):
        place = 0.0 if age is None else (age - 60) * 68 / STEPS
        countries = [float(country == code) for code in plan.layout.columns[2].cells]
        numbers = 1 if segment == "consumer" else -1, 1 if vip else -1, *countries
        listed.append([1.0, *numbers, place, float(age is None)])
    rows = np.array(listed)
    assert moments.matrix == pytest.approx(rows.T @ rows, abs=1e-9)
    assert moments.rows == len(rows)
