"""Models: one charge for second moments, which one unit moves no further than claimed, and what
is computed of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from itertools import product
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql.answering.paid_names import AS_THE_DATA, AS_THE_PROCESS
from dpsql.answering.side_systems import SideSystems
from dpsql.engines import EngineFailed, Stop
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.messages import describe
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import sentences
from dpsql.ledgers import Stopped
from dpsql.mechanisms.laws import Law
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.notices import Clipped, Modelled
from dpsql.model.tree import DOUBLE, VARCHAR
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
from dpsql.systems.models import gradient_plan, moment_layout, moments_plan
from dpsql.systems.models.joint_sums import UnitRows
from dpsql.systems.models.model import design
from dpsql.systems.models.model import test_sql as of_holdout
from dpsql.systems.models.model_inputs import STEPS, Input, ListedInput, NumberInput
from dpsql.systems.models.models import FindModel, ListModels
from dpsql.systems.models.moment_layout import PRODUCT, SQUARE, Layout, layout_of
from dpsql.systems.models.moments_plan import ONE, planned, sensitivities, vectors_of
from dpsql.systems.models.released_moments import measured
from dpsql.vault.joint_run import JointRun
from grammar_tests import bound, laws, proxy_kit, world
from grammar_tests.model_kit import MIXED, PEOPLE, wish
from grammar_tests.session_kit import Client

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


def test_more_columns_of_one_unit_are_clipped_by_no_limit_of_groups() -> None:
    """No entry is left out or clipped though the policy limits groups: the proof is of each row."""
    policy, engine = bound.over(world.well_behaved(), constraints=True)
    plan = planned(Compiler(policy, engine.public), wish(FIRST_ORDERS), Stop())
    assert "kept" not in plan.prepared.rewritten.blocks[0].sql
    (counts,) = laws.integers(plan.prepared, engine)
    first = engine.rows(f"SELECT COUNT(*) FROM ({FIRST_ORDERS})")[0][0]
    assert counts[(0,)] == (first * SQUARE * ONE,)


# --- what is paid --------------------------------------------------------------------------------


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
        ("SELECT PREDICT(a, )", Reason.SYNTAX),
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


# --- predictions ---------------------------------------------------------------------------------


@pytest.mark.full("processes are started and killed")
def test_a_prediction_is_free_of_released_rows_and_an_expression_of_private_ones(
    proxy: Proxy,
) -> None:
    proxy.ask(Request(LINEAR, "ana"))
    proxy.ask(Request(LOGISTIC, "ana"))
    before = spent(proxy)
    text = "SELECT code, PREDICT(aged, 'consumer', TRUE, code) AS x FROM countries ORDER BY code"
    answer = proxy.ask(Request(text, "ana"))
    assert answer.receipt is None
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        assert isinstance(row[1], float)
        assert margins[0] is None
        assert margins[1] is not None
        assert isnan(margins[1])
    assert sentences(answer.notices, answer.columns)[-1].startswith("aged is a model")
    assert plan_text(proxy.explain(Request(text, "ana"))).startswith("Public tables only: at no")
    assert spent(proxy) == before
    score = proxy.run(FindModel("aged", "ana")).scores[0]
    (se,) = (t.coefficient for t in score.terms if t.value == "SE")
    rows = dict(answer.rows)
    assert rows["SE"] - rows["IT"] == pytest.approx(se, rel=1e-9)
    private = "SELECT AVG(PREDICT(vips, segment, country, age)) AS p FROM customers"
    paid = proxy.ask(Request(private, "ana"))
    assert paid.receipt is not None
    assert paid.receipt.charged > Loss(0)
    assert 0 <= paid.rows[0][0] <= 1
    assert proxy.ledger.history("ana", 1)[0].inquiry.sql == private
    same = proxy.ask(Request("SELECT AVG(PREDICT(vips)) AS p FROM customers", "ana"))
    assert list(same.rows) == list(paid.rows)
    assert not isnan(paid.margins[0][0] or 0.0)
    counted = "(SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) AS t"
    text = f"SELECT n, n * PREDICT(aged, segment, TRUE, 'NO') AS x FROM {counted}"
    released = proxy.ask(Request(text, "ana"))
    for n, x in released.margins:
        assert n is not None
        assert x is not None
        assert n > 0
        assert isnan(x)
    expected = proxy.explain(Request(text, "ana")).expected
    assert [e is not None and isnan(e) for e in expected] == [False, True]


def test_predictions_over_synthetic_rows_say_both(proxy: Proxy) -> None:
    proxy.ask(Request(LINEAR, "ana"))
    proxy.ask(Request("CREATE SYNTHETIC TABLE some AS SELECT segment, vip FROM customers", "ana"))
    before = spent(proxy)
    text = "SELECT segment, AVG(PREDICT(aged, segment, vip, 'NO')) AS x FROM some GROUP BY segment"
    answer = proxy.ask(Request(text, "ana"))
    said = " ".join(sentences(answer.notices, answer.columns))
    assert "synthetic" in said
    assert "aged is a model" in said
    assert spent(proxy) == before


NESTED = "'NO'"
for _ in range(30):
    NESTED = f"CAST(PREDICT(aged, 'a', TRUE, {NESTED}) AS VARCHAR)"
NESTED = f"SELECT {NESTED}"


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("SELECT PREDICT(aged) FROM customers", Reason.RAW_ROWS, "customers"),
        ("SELECT nix, PREDICT(aged, 'a', TRUE, 'NO')", Reason.UNKNOWN_COLUMN, "nix"),
        ("SELECT PREDICT(aged, 'a', TRUE, 'NO'), nix", Reason.UNKNOWN_COLUMN, "nix"),
        ("SELECT PREDICT(aged, 'a', nix, 'NO')", Reason.UNKNOWN_COLUMN,
         "PREDICT(aged, 'a', nix, 'NO')"),
        ("SELECT PREDICT(aged, 'a', 'NO')", Reason.BAD_OPTION, "PREDICT(aged, 'a', 'NO')"),
        ("SELECT PREDICT(aged.pc1)", Reason.BAD_OPTION, ""),
        (NESTED, Reason.TOO_LARGE, ""),
    ],
)  # fmt: skip
def test_what_is_refused_of_a_prediction_is_shown_at_its_place(
    proxy: Proxy, text: str, reason: Reason, place: str
) -> None:
    proxy.ask(Request(LINEAR, "ana"))
    with pytest.raises(Refused) as refused:
        proxy.ask(Request(text, "ana"))
    assert refused.value.reason is reason
    if reason is not Reason.TOO_LARGE:
        assert text[refused.value.span.start : refused.value.span.stop] == place


@pytest.mark.full("processes are started and killed")
def test_models_are_of_whom_the_charge_binds_and_last_as_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = proxy_kit.shop(tmp_path)
    with Proxy.open(str(path)) as own:
        own.ask(Request(LINEAR, "ana"))
        model = own.run(FindModel("aged", "ana"))
        with pytest.raises(Refused, match="unknown-name"):
            own.ask(Request("SELECT PREDICT(aged, 'consumer', TRUE, 'NO')", "bob"))
        again = own.ask(Request(LINEAR.replace("aged", "other"), "ana"))
        assert again.rows[0][2] == AS_THE_DATA
        with pytest.raises(Refused, match="there is a model aged"):
            own.ask(Request(LINEAR.replace("country, ", ""), "ana"))
        before = spent(own)
        own.systems = SideSystems()  # as another process has it
        assert own.run(FindModel("aged", "ana")).scores == model.scores
        assert [model.name for model in own.run(ListModels("ana"))] == ["aged", "other"]
        assert list(own.ask(Request("DROP MODEL aged", "ana")).rows) == [("aged",)]
        told = [(each["text"], each["epsilon"], each["requested"]) for each in history(own)]
        other = LINEAR.replace("aged", "other"), None, None
        assert told[:3] == [("DROP MODEL aged", None, None), other, (LINEAR, 1, 1)]
        own.systems = SideSystems()
        assert [model.name for model in own.run(ListModels("ana"))] == ["other"]
        stamp = own.stamp(1)
        monkeypatch.setattr("dpsql.answering.paid_names.MOST_FREE", 1)
        assert own.ask(Request(LINEAR, "ana")).rows[0][2] == AS_THE_PROCESS  # remembered still
        assert own.stamp(1) != stamp  # though the ledger says nothing of it
        assert spent(own) == before
        own.refresh()
        with pytest.raises(Refused, match="unknown-name"):
            own.run(FindModel("aged", "ana"))
        fewer = LINEAR.replace("country, ", "").replace("aged", "other")
        assert own.ask(Request(fewer, "ana")).rows[0][2] == AS_THE_DATA
        own.vault.ledger.stop(Stopped("default", None), "")
        for text in (LINEAR, "CREATE SYNTHETIC TABLE s AS SELECT age FROM customers"):
            assert "stopped" in own.explain(Request(text, "ana")).notes[0]
        assert "stopped" not in own.explain(Request(fewer, "ana")).notes[0]  # remembered


@pytest.mark.full("opens a proxy for each item")
def test_a_name_is_of_what_was_paid_for_it_and_not_of_a_default_epsilon(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as own:
        own.ask(Request(LINEAR, "ana", epsilon=Decimal("0.5")))
        own.systems = SideSystems()
        assert [model.name for model in own.run(ListModels("ana"))] == ["aged"]


@pytest.mark.full("opens a proxy for each item")
def test_a_model_whose_text_is_read_otherwise_now_is_lost_until_it_is_made_again(
    tmp_path: Path,
) -> None:
    halves = LINEAR.replace("age FROM", "age / 2 AS age FROM")
    made = Request(halves, "ana", "postgres", door="Python")
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as own:
        own.ask(made)
        before = spent(own)
        own.systems = SideSystems()
        with pytest.raises(Refused) as refused:
            own.run(FindModel("Aged", "ana"))
        told = describe(refused.value)
        assert told.headline == "The model aged cannot be made again from remembered answers."
        assert told.fix.startswith("Create aged again")
        own.ask(made)
        assert own.run(FindModel("aged", "ana")).name == "aged"
        assert spent(own) == before


@pytest.mark.full("opens a proxy for each item")
def test_who_asks_a_model_never_pays_for_it_though_its_data_change_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as own:
        own.ask(Request(LINEAR, "ana"))
        before, ledger = spent(own), own.vault.ledger
        recall = ledger.recall

        def then_changed(*asked: Any) -> object:
            try:
                return recall(*asked)
            finally:
                ledger.refresh()

        own.systems = SideSystems()
        monkeypatch.setattr(ledger, "recall", then_changed)
        own.run(FindModel("aged", "ana"))
        with pytest.raises(Refused, match="unknown-name"):
            own.run(FindModel("aged", "ana"))
        assert spent(own) == before


def test_a_session_makes_a_model_and_asks_it(proxy: Proxy) -> None:
    session = Client(proxy)
    session.query(LINEAR)
    assert session.rows[0][0] == "aged"
    session.query("SELECT PREDICT(aged, 'consumer', TRUE, 'NO') AS x")
    assert float(str(session.rows[0][0])) != 0
    assert any(b"aged is a model" in notice for notice in session.of(b"N"))
    session.query("SELECT PREDICT(nobody) AS x")
    assert session.error["C"] == "22023"


def test_the_commands_fit_show_list_and_drop(proxy: Proxy) -> None:
    opened: Any = lambda _path: nullcontext(proxy)  # noqa: E731
    settings = CommandSettings(open=opened)

    def command(*words: str) -> Any:
        done = CliRunner().invoke(main, [*words, "--analyst", "bob"], obj=settings)
        assert done.exit_code == 0, done.stderr
        return done

    fit = ("fit", "aged", PEOPLE, "--type", "linear_reg", "--label", "age", "--epsilon", "2")
    told = command(*fit)
    assert "intercept" in told.stdout
    assert "standard error" in told.stdout
    assert "cost: ε = 2" in told.stderr
    shown = json.loads(command("model", "show", "aged", "--format", "json").stdout)
    assert re.search(r"; explains [\d.]+ ± [\d.]+ %", told.stderr)
    assert shown["explained_error"] > 0
    assert [column["name"] for column in shown["columns"]] == ["segment", "vip", "country"]
    tested = command("model", "test", "aged", f"{PEOPLE} WHERE income > 0", "--epsilon", "2")
    assert tested.stdout.strip().startswith("off_by")
    assert "± ?" not in tested.stdout
    assert "cost: ε = 2" in tested.stderr
    assert "forgotten" in command("model", "drop", "aged").stderr
    assert "aged" not in command("model", "list").stdout


@pytest.mark.full("opens a proxy for each item")
def test_a_holdout_is_asked_how_often_a_model_is_right(proxy: Proxy) -> None:
    """As a question of its own, whose answer is what the rows and the released numbers say."""
    proxy.ask(Request(LOGISTIC, "ana"))
    model, before = proxy.run(FindModel("vips", "ana")), spent(proxy)
    rows = "SELECT vip, segment, country, age FROM customers WHERE income > 100"
    request = Request(of_holdout(model, rows), "ana")
    proxy.ask(request)
    assert spent(proxy) > before
    written = proxy.systems.open("models").written_out(proxy.compiler, proxy.vault, request, Stop())
    assert written is not None
    ((share,),) = proxy.vault.engine.rows(written.sql)
    truth = proxy.vault.engine.rows(rows)
    slopes = np.array([term.coefficient for term in model.scores[0].terms])
    numbers = design(model, [row[1:] for row in truth])
    guess = model.scores[0].intercept.coefficient + numbers @ slopes >= 0
    assert share == pytest.approx(np.mean(guess == [row[0] for row in truth]))


def test_what_another_process_makes_of_a_model_is_seen(tmp_path: Path) -> None:
    path, of_rows = str(proxy_kit.shop(tmp_path)), "SELECT PREDICT(aged, 'consumer', TRUE) AS x"
    create = (
        "CREATE MODEL aged OPTIONS(model_type = 'linear_reg', label = 'y', epsilon = 5) AS SELECT"
    )
    with Proxy.open(path) as server, Proxy.open(path) as other:
        server.ask(Request(f"{create} segment, vip, age AS y FROM customers", "ana"))
        ((age,),) = server.ask(Request(of_rows, "ana")).rows
        other.ask(Request("DROP MODEL aged", "ana"))
        other.ask(Request(f"{create} segment, vip, income AS y FROM customers", "ana"))
        ((income,),) = other.ask(Request(of_rows, "ana")).rows
        assert list(server.ask(Request(of_rows, "ana")).rows) == [(income,)]
        assert income != age
        other.ask(Request("DROP MODEL aged", "ana"))
        with pytest.raises(Refused, match="unknown-name"):
            server.ask(Request(of_rows, "ana"))


@pytest.mark.parametrize("method", ["one_pass", "gradient"])
def test_a_model_that_would_fill_the_memory_is_refused_before_it_is_paid(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.setattr(moments_plan, "MOST_CELLS", 4)
    monkeypatch.setattr(gradient_plan, "MOST_SUMS", 4)
    before = spent(proxy)
    wide = f"OPTIONS(model_type = 'linear_reg', label = 'age', method = '{method}')"
    with pytest.raises(Refused) as refused:
        proxy.ask(Request(f"CREATE MODEL wide {wide} AS {PEOPLE}", "ana"))
    assert refused.value.reason is Reason.TOO_LARGE
    assert refused.value.facts["limit"] == 4
    assert spent(proxy) == before


def test_the_largest_model_has_matrices_that_fit() -> None:
    cells = moment_layout.MOST_CELLS
    numbers = tuple(ListedInput(f"c{n}", VARCHAR, ("a", "b"), nullable=False) for n in range(9))
    layout = Layout(numbers)
    assert layout.places.nbytes == 8 * sum(layout.sizes) ** 2
    assert 8 * cells**2 <= 32 << 20


RICH = "SELECT amount, quantity FROM orders"
SPENDING = "model_type = 'linear_reg', label = 'amount', epsilon = 2"
SPENDING = "model_type = 'linear_reg', label = 'amount', epsilon = 2"
MADE = {
    "one_pass": f"CREATE MODEL m1 OPTIONS({SPENDING}, method = 'one_pass') AS {RICH}",
    "gradient": f"CREATE MODEL m2 OPTIONS({SPENDING}, method = 'gradient', steps = 2) AS {RICH}",
    "synthetic": "CREATE SYNTHETIC TABLE m3 AS SELECT status FROM orders OPTIONS(epsilon = 2)",
}


@pytest.mark.parametrize("how", MADE)
def test_what_limits_the_rows_of_a_model_is_told_as_of_a_count(proxy: Proxy, how: str) -> None:
    count = proxy.ask(Request("SELECT COUNT(*) AS n FROM orders", "ana"))
    limits = {n.rows for n in count.notices if isinstance(n, Clipped)}
    assert limits
    plan = proxy.explain(Request(MADE[how], "ana"))
    answer = proxy.ask(Request(MADE[how], "ana"))
    for notices in (plan.notices, answer.notices):
        clipped = [notice for notice in notices if isinstance(notice, Clipped)]
        assert {notice.rows for notice in clipped} == limits
        assert {notice.columns for notice in clipped} == {(1,)}
    assert sentences(answer.notices, answer.columns)


@pytest.mark.parametrize("how", ["one_pass", "gradient"])
def test_limits_of_rows_are_told_with_a_model_and_its_predictions(proxy: Proxy, how: str) -> None:
    created = proxy.ask(Request(MADE[how], "ana"))
    name = created.rows[0][0]
    assert proxy.run(FindModel(name, "ana")).notices == created.notices
    proxy.systems = SideSystems()  # made again, as by a process that starts
    assert proxy.run(FindModel(name, "ana")).notices == created.notices
    text = f"SELECT PREDICT({name}, PREDICT({name}, 3)) AS at_3"
    for notices in (
        p.notices for p in (proxy.ask(Request(text, "ana")), proxy.explain(Request(text, "ana")))
    ):
        (told,) = [notice for notice in notices if isinstance(notice, Modelled)]
        assert told.limited == (name,)
    opened: Any = lambda _path: nullcontext(proxy)  # noqa: E731
    settings = CommandSettings(open=opened)
    shown = CliRunner().invoke(main, ["model", "show", name, "--analyst", "ana"], obj=settings)
    for sentence in sentences(created.notices, created.columns):
        assert sentence in shown.stderr


def test_rows_that_nothing_limits_are_told_nothing_of(proxy: Proxy) -> None:
    one = proxy.ask(Request(LINEAR.replace("aged", "unlimited"), "ana"))
    assert one.notices == ()
    assert proxy.run(FindModel("unlimited", "ana")).notices == ()
