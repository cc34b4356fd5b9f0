"""Synthetic rows: one charge, tables that one unit moves no further than claimed, and rows that
have them.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from itertools import product
from math import exp, isnan, log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql import accountants
from dpsql.answering.paid_names import AS_THE_DATA
from dpsql.consistency.drawn_rows import PublicDice, apportioned, drawn
from dpsql.consistency.graphical_model import GraphicalModel, NoisyTable, Tables, fitted
from dpsql.engines import Stop
from dpsql.interfaces.cli import main
from dpsql.interfaces.dbapi import connect
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.tables import table
from dpsql.mechanisms.laws import Law, Softmax
from dpsql.mechanisms.pair_choices import components, pair_choice, score
from dpsql.model.errors import Failed, MissingExtra, Reason, Refused
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import DATE, DOUBLE, INTEGER, VARCHAR, Kind, PlanForm, SqlType
from dpsql.model.vocabulary import Loss, Neighbours, Noise, Noisy, Request, Sensitivity
from dpsql.preparation.compilation import Compiler
from dpsql.proxy import Proxy
from dpsql.systems.synthesis import mbi_fit, released_marginals, synthesis, synthetic_tables
from dpsql.systems.synthesis.closeness import to_rows
from dpsql.systems.synthesis.released_marginals import over_selected
from dpsql.systems.synthesis.synthesis import ExplainSynthesis, Synthesise
from dpsql.systems.synthesis.synthesis_plan import (
    MOST_CLIQUE,
    SynthesisPlan,
    SynthesisWish,
    planned,
)
from dpsql.systems.synthesis.synthetic_columns import ListedColumn, cells, column_of
from grammar_tests import bound, laws, proxy_kit, world
from grammar_tests.session_kit import Client

PEOPLE = "SELECT segment, vip, country, age FROM customers"
FIVE = "SELECT segment, vip, country, age, joined FROM customers"
CITIES = "SELECT city, vip FROM customers"
ORDERS = "SELECT status, quantity, amount FROM orders"


def wish(text: str = PEOPLE, epsilon: str = "1", *keep: tuple[str, str]) -> SynthesisWish:
    return SynthesisWish(Request(text, "ana", epsilon=Decimal(epsilon)), keep)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    path = proxy_kit.shop(tmp_path_factory.mktemp("shop"))
    with Proxy.open(str(path)) as opened:
        yield opened


def spent(proxy: Proxy) -> Loss:
    return proxy.budgets()[0][1]


def exactly(_law: Law, count: int) -> np.ndarray:
    """No noise, and of choices the best."""
    return np.zeros(count, dtype=np.int64)


# --- what one unit moves -------------------------------------------------------------------------


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("text", [PEOPLE, ORDERS, CITIES])
def test_neighbours_differ_by_no_more_than_claimed_in_every_table(text: str) -> None:
    policy, engine = bound.over(world.well_behaved(), constraints=False)
    plan = planned(Compiler(policy, engine.public), wish(text), Stop())
    here = [laws.integers(prepared, engine) for prepared in plan.questions]
    with laws.without_unit(engine.connection, world.deletions(7)):
        there = [laws.integers(prepared, engine) for prepared in plan.questions]
    assert here != there
    for prepared, one, other in zip(plan.questions, here, there, strict=True):
        assert laws.violation(prepared, one, other) is None


@pytest.mark.full("starts processes")
def test_a_replaced_unit_moves_scores_twice_as_far() -> None:
    """One row of one unit: 1 where it comes or goes, 2 where it turns into another's."""
    spreads = []
    for kind in Neighbours:
        policy, engine = bound.over(world.well_behaved(), constraints=True, neighbours=kind)
        compiler = Compiler(policy, engine.public)
        plan = planned(compiler, wish(), Stop())
        assert plan.choice is not None
        spreads.append(plan.choice.epsilon / plan.choice.rate)
    assert spreads == [2, 4]


def neighbours() -> Iterator[tuple[list[np.ndarray], list[np.ndarray], Sensitivity]]:
    """Tables of three pairs, with and without a unit that is in two groups of each twice."""
    sensitivity = Sensitivity(2, 0, 2)
    tables = [np.arange(9).reshape(3, 3) * n for n in (1, 2, 3)]
    for places in product(range(9), repeat=2):
        moved = [counts.copy() for counts in tables]
        for n, counts in enumerate(moved):
            for place in places:
                counts.ravel()[(place + n) % 9] += 2
        yield tables, moved, sensitivity


def scores(tables: Sequence[np.ndarray]) -> list[int]:
    return [score(table, np.full((3, 3), 6)) for table in tables]


def test_one_unit_moves_scores_no_more_than_claimed() -> None:
    most = 0
    for here, there, sensitivity in neighbours():
        moves = [b - a for a, b in zip(scores(here), scores(there), strict=True)]
        assert max(map(abs, moves)) <= sensitivity.l1
        most = max(most, max(moves) - min(moves))
    assert sensitivity.l1 < most <= 2 * sensitivity.l1  # half of the spread would be too little


def probabilities(values: Sequence[int], rate: Fraction) -> list[float]:
    weights = [exp(float(rate * value)) for value in values]
    return [weight / sum(weights) for weight in weights]


def loss_of_a_choice(rate: Fraction) -> float:
    """The most by which a logarithm of odds differs between neighbours."""
    return max(
        abs(log(p / q))
        for here, there, _ in neighbours()
        for p, q in zip(
            probabilities(scores(here), rate), probabilities(scores(there), rate), strict=True
        )
    )


def test_a_choice_loses_no_more_than_is_charged() -> None:
    choice = pair_choice(3, [Sensitivity(2, 0, 2), Sensitivity(1, 0, 1)], Fraction(1, 2))
    assert choice.event.rounds == 3
    assert loss_of_a_choice(choice.rate) <= choice.event.epsilon <= Fraction(1, 2)


def test_a_choice_at_twice_the_rate_is_refuted() -> None:
    """As if a score moved by the rows of one group alone."""
    choice = pair_choice(3, [Sensitivity(1, 0, 2)], Fraction(1, 2))
    assert loss_of_a_choice(2 * choice.rate) > choice.event.epsilon


def test_a_choice_is_drawn_of_all_candidates_best_first() -> None:
    laws_drawn = list[Softmax]()

    def draw(law: Law, count: int) -> np.ndarray:
        assert isinstance(law, Softmax)
        laws_drawn.append(law)
        return np.full(count, len(law.scores) - 1)

    choice = pair_choice(2, [Sensitivity(1, 0, 1)], Fraction(1))
    assert choice.chosen({(0, 1): 9, (0, 2): -5, (1, 2): 7}, draw) == (0, 2)
    assert [law.scores for law in laws_drawn] == [(9, 7, -5)]


@pytest.mark.full("starts processes")
def test_pairs_make_a_tree_first_and_no_clique_is_too_large(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more pairs are chosen and measured than are charged."""
    drawn_of, honest = list[Law](), proxy.vault.sampler

    def counting(law: Law, count: int) -> np.ndarray:
        drawn_of.append(law)
        return honest(law, count)

    monkeypatch.setattr(proxy.vault, "sampler", counting)
    plan = proxy.run(ExplainSynthesis(wish(FIVE)))
    assert plan.choice is not None
    assert plan.edges == plan.choice.rounds == 6
    table = proxy.run(Synthesise(wish(FIVE)))
    pairs = list(table.marginals.pairs)
    assert len(pairs) == 6
    assert len(set(components(5, pairs[:4]))) == 1
    assert [isinstance(law, Softmax) for law in drawn_of] == [False] * 5 + [True, False] * 6
    sizes = table.marginals.sizes
    assert GraphicalModel.of(sizes, pairs).largest <= MOST_CLIQUE
    kept = proxy.run(ExplainSynthesis(wish(FIVE, "1", ("vip", "age"), ("vip", "country"))))
    assert (kept.edges, len(kept.fixed)) == (6, 2)


# --- what is charged -----------------------------------------------------------------------------


@pytest.mark.full("starts processes")
def test_all_of_it_is_one_charge_that_one_question_may_cost(proxy: Proxy) -> None:
    before, entries = spent(proxy), len(proxy.ledger.history(limit=100))
    plan = proxy.run(ExplainSynthesis(wish()))
    assert spent(proxy) == before
    table = proxy.run(Synthesise(wish()))
    budget = proxy.policy.budgets[0]
    accountant = accountants.get(budget.accountant)
    whole = accountant.allowance(Fraction(1), Fraction(budget.query_delta), selects_keys=False)
    assert (
        spent(proxy).amount - before.amount == plan.cost.loss.amount == table.receipt.charged.amount
    )
    assert 0.99 < plan.cost.loss.amount / 1e9 / float(whole.amount) <= 1
    (newest, *_), now = proxy.ledger.history(), proxy.ledger.history(limit=100)
    assert len(now) == entries + 1
    assert newest.remembered
    assert newest.inquiry.sql == PEOPLE
    again = proxy.run(Synthesise(wish(PEOPLE, "0.5")))
    assert again.receipt.remembered
    assert again.rows == table.rows
    more = proxy.run(Synthesise(wish(), 5))
    assert (len(more.rows), more.receipt.charged) == (5, Loss(0))
    assert len(proxy.ledger.history(limit=100)) == entries + 1
    assert proxy.run(Synthesise(wish(PEOPLE, "1", ("age", "vip")))).receipt.charged > Loss(0)


def test_a_dearer_table_than_was_charged_is_not_shown(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were a table by codes to lose more than the table by cells."""
    honest = planned

    def cheaper(*options: Any) -> SynthesisPlan:
        plan = honest(*options)
        return replace(plan, cost=replace(plan.cost, loss=Loss(plan.cost.loss.amount - 10**5)))

    monkeypatch.setattr(synthesis, "planned", cheaper)
    drawn = list[Law]()

    def counting(law: Law, count: int) -> np.ndarray:
        drawn.append(law)
        return np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(proxy.vault, "sampler", counting)
    before = spent(proxy)
    with pytest.raises(Failed):
        proxy.run(Synthesise(wish("SELECT vip, country, segment FROM customers")))
    assert spent(proxy) > before
    assert not [law for law in drawn[3:] if isinstance(law, Noise)]


def test_what_fails_after_the_charge_stays_charged(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = proxy_kit.WatchedEngine(proxy.vault.engine)
    engine.instead = proxy_kit.QUOTING
    monkeypatch.setattr(proxy.vault, "engine", engine)
    before = spent(proxy)
    with pytest.raises(Failed) as failed:
        proxy.run(Synthesise(wish("SELECT vip, age FROM customers")))
    assert "secret" not in str(failed.value)
    assert spent(proxy) > before
    assert not proxy.ledger.history()[0].remembered


UNFIT = [
    ("SELECT name, age FROM customers", Reason.HIDDEN_COLUMN),
    ("SELECT customer_id, age FROM customers", Reason.UNBOUNDED_INPUT),
    ("SELECT * FROM countries", Reason.UNSUPPORTED_PRIVATE_OPERATOR),
    (
        "SELECT country, AVG(age) AS age FROM customers GROUP BY country",
        Reason.UNSUPPORTED_PRIVATE_OPERATOR,
    ),
    (
        "SELECT age FROM customers UNION ALL SELECT age FROM customers",
        Reason.UNSUPPORTED_PRIVATE_OPERATOR,
    ),
    ("SELECT age, age FROM customers", Reason.AMBIGUOUS_COLUMN),
    ("SELECT day FROM logins", Reason.UNBOUNDED_CONTRIBUTION),
    ("SELECT nothing FROM customers", Reason.UNKNOWN_COLUMN),
    ("DELETE FROM customers", Reason.UNSUPPORTED_STATEMENT),
]


@pytest.mark.parametrize(("text", "reason"), UNFIT)
def test_what_cannot_be_counted_is_refused_free_of_charge(
    proxy: Proxy, text: str, reason: Reason
) -> None:
    before = spent(proxy)
    with pytest.raises(Refused) as refused:
        proxy.run(Synthesise(wish(text)))
    assert refused.value.reason is reason
    assert spent(proxy) == before


@pytest.mark.parametrize(
    ("asked", "rows", "reason"),
    [
        (wish(PEOPLE, "11"), None, Reason.EPSILON_TOO_LARGE),
        (wish(PEOPLE, "1", ("age", "nothing")), None, Reason.UNKNOWN_COLUMN),
        (wish(PEOPLE, "1", ("age", "age")), None, Reason.BAD_OPTION),
        (
            wish(PEOPLE, "1", ("age", "vip"), ("vip", "age")),
            None,
            Reason.BAD_OPTION,
        ),
        (wish(), 0, Reason.BAD_OPTION),
        (
            SynthesisWish(Request(PEOPLE, "ana", parameters=(1,))),
            None,
            Reason.BAD_PARAMETER,
        ),
    ],
)
def test_bad_wishes_are_refused(
    proxy: Proxy, asked: SynthesisWish, rows: int | None, reason: Reason
) -> None:
    with pytest.raises(Refused) as refused:
        proxy.run(Synthesise(asked, rows))
    assert refused.value.reason is reason


# --- texts that nobody listed --------------------------------------------------------------------


def test_texts_that_nobody_listed_are_selected_before_they_are_counted(proxy: Proxy) -> None:
    plan, before = proxy.run(ExplainSynthesis(wish(CITIES, "10"))), spent(proxy)
    assert "values of city are selected privately first" in plan.summary
    table = proxy.run(Synthesise(wish(CITIES, "10")))
    budget = proxy.policy.budgets[0]
    accountant = accountants.get(budget.accountant)
    whole = accountant.allowance(Fraction(10), Fraction(budget.query_delta), selects_keys=True)
    loss = Loss(spent(proxy).amount - before.amount, spent(proxy).delta - before.delta)
    assert loss == plan.cost.loss
    assert 0.99 < loss.amount / 1e9 / float(whole.amount) <= 1
    assert 0 < loss.delta / 1e18 <= whole.selection_delta
    (cities, _) = table.columns
    assert isinstance(cities, ListedColumn)
    there = {row[3] for row in world.well_behaved()["customers"]}
    assert set(cities.values) <= there
    assert {row[0] for row in table.rows} <= {*cities.values, None}
    again = proxy.run(Synthesise(wish(CITIES, "9")))
    assert again.receipt.remembered
    assert again.rows == table.rows


def test_of_too_many_selected_values_the_most_frequent_are_kept_and_null_is_none() -> None:
    keys = (("a",), ("b",), (None,), ("c",), ("d",))
    answer = [Noisy(keys, ((5,), (9,), (50,), (7,), (7,)))]
    plan: Any = SimpleNamespace(
        keys={0: None}, columns=[SimpleNamespace(valued=2)], over=lambda _, values, __: values
    )
    compiler: Any = None
    few: Any = over_selected(compiler, plan, answer, Stop())
    assert few == [("b", "c")]
    plan.columns[0].valued = 9
    every: Any = over_selected(compiler, plan, answer, Stop())
    assert every == [("a", "b", "c", "d")]


@pytest.mark.full("starts processes")
def test_a_text_of_one_person_is_null(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.vault, "sampler", exactly)
    alone = "SELECT CASE WHEN age = 30 THEN city || '!' ELSE 'many' END AS who, vip FROM customers"
    table = proxy.run(Synthesise(wish(alone, "10")))
    (who, _) = table.columns
    assert isinstance(who, ListedColumn)
    assert who.values == ("many",)
    assert who.cell("Rome!") == who.cell(None) == who.valued


@pytest.mark.full("starts processes")
def test_a_selection_that_nobody_charged_for_is_followed_by_nothing(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = planned

    def forgetful(*options: Any) -> SynthesisPlan:
        plan = honest(*options)
        return replace(plan, cost=replace(plan.cost, loss=Loss(plan.cost.loss.amount, 0)))

    monkeypatch.setattr(synthesis, "planned", forgetful)
    drawn_of = list[Law]()

    def counting(law: Law, count: int) -> np.ndarray:
        drawn_of.append(law)
        return np.zeros(count, dtype=np.int64)

    monkeypatch.setattr(proxy.vault, "sampler", counting)
    with pytest.raises(Failed):
        proxy.run(Synthesise(wish("SELECT vip, city FROM customers")))
    assert len(drawn_of) == len(proxy.run(ExplainSynthesis(wish(CITIES))).keys)


def test_no_more_rows_are_made_than_there_is_room_for(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "_most_rows", lambda *_: 1)
    assert len(proxy.run(Synthesise(wish())).rows) == 1
    with pytest.raises(Refused, match="too-large"):
        proxy.run(Synthesise(wish(), 2))


def test_a_table_is_all_of_its_columns_but_keys_and_links(proxy: Proxy) -> None:
    left_out = "order_id, customer_id, amount, discount, note, note_length"
    plan = proxy.run(ExplainSynthesis(wish(f"SELECT * EXCLUDE ({left_out}) FROM orders")))
    with pytest.raises(Refused, match="note"):
        proxy.run(ExplainSynthesis(wish("orders")))
    names = ["quantity", "placed_at", "status"]
    assert [column.name for column in plan.columns] == names


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.full("starts processes")
def test_without_noise_the_rows_have_the_true_tables(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy.vault, "sampler", exactly)
    text = "SELECT country, segment, vip FROM customers"
    monkeypatch.setattr(released_marginals, "FREQUENT", 0)
    table = proxy.run(Synthesise(wish(text, "10")))
    truth = [
        (country, segment, vip)
        for _, country, segment, _, _, _, vip, *_ in world.well_behaved()["customers"]
    ]
    assert len(table.rows) == len(truth)
    names = [column.name for column in table.columns]
    edges = {tuple(names[n] for n in edge) for edge in table.marginals.pairs}
    near = {each.columns: each.variation * len(truth) for each in to_rows(table, truth)}
    assert all(near[(name,)] <= 1 for name in names)
    assert all(near[edge] <= 2 for edge in edges)
    assert len(edges) == 3


PAIRS = [[(1, 0), (1, 2)], [(0, 1), (1, 2), (0, 2)], [(0, 1), (1, 2), (2, 3), (3, 0)]]


@pytest.mark.parametrize("edges", PAIRS, ids=["tree", "triangle", "circle"])
def test_a_model_has_the_tables_that_it_is_fitted_to(edges: list[tuple[int, int]]) -> None:
    """Without noise the fit is exact, and so are the rows to within rounding."""
    sizes = (2, 3, 4, 2)
    true = np.arange(48).reshape(sizes) * 7 % 11 + 1.0

    def table(axes: tuple[int, ...]) -> np.ndarray:
        first: np.ndarray = true.sum(axis=tuple({0, 1, 2, 3} - {*axes}))
        return first if axes == tuple(sorted(axes)) else first.T

    measured = [
        NoisyTable(axes, table(axes), np.ones(table(axes).shape))
        for axes in [*((n,) for n in range(4)), *edges]
    ]
    fit = fitted(GraphicalModel.of(sizes, edges), measured, true.sum())
    rows = drawn(fit, 1000, PublicDice("rows"))
    for axes in edges:
        assert np.allclose(fit.table(axes), table(axes), atol=0.1)
        for place, axis in enumerate(axes):
            assert np.allclose(fit.table(axes).sum(axis=1 - place), fit.table((axis,)))
        shape = fit.model.shape(axes)
        own = np.bincount(np.ravel_multi_index([rows[n] for n in axes], shape))
        assert np.abs(own - 1000 * fit.table(axes).ravel() / true.sum()).max() <= 2


def test_what_depends_on_one_another_is_one_distribution() -> None:
    """Tables of a model are those of the product of its factors, of all columns at once."""
    sizes, edges = (2, 3, 2, 3), [(0, 1), (1, 2), (2, 3), (0, 3)]
    potentials: Tables = {}
    for one, other in edges:
        shape = sizes[one], sizes[other]
        potentials[one, other] = np.sin(np.arange(shape[0] * shape[1])).reshape(shape)
    whole = np.zeros(sizes)
    for axes, own in potentials.items():
        whole += own.reshape([sizes[n] if n in axes else 1 for n in range(4)])
    whole = np.exp(whole) / np.exp(whole).sum()
    model = GraphicalModel.of(sizes, edges)
    tables = model.tables(potentials, 5.0)
    for edge in edges:
        apart = tuple({0, 1, 2, 3} - {*edge})
        assert np.allclose(model.table(tables, edge), 5 * whole.sum(axis=apart))


def test_weighted_least_squares_are_reached() -> None:
    """Two columns that nothing hinders: the totals are the means weighted by precision."""
    counts = np.array([[40.0, 20.0], [30.0, 10.0]])
    single = np.array([70.0, 30.0])
    measured = [
        NoisyTable((0,), single, np.full(2, 4.0)),
        NoisyTable((1,), counts.sum(axis=0), np.full(2, 1e9)),
        NoisyTable((0, 1), counts, np.full((2, 2), 1.0)),
    ]
    fit = fitted(GraphicalModel.of((2, 2), [(0, 1)]), measured, 100)
    # Of the row's total: 60 with variance 2, and 70 with variance 4.
    assert np.allclose(fit.table((0,)), [190 / 3, 110 / 3], atol=0.05)


@pytest.mark.skipif(find_spec("mbi") is None, reason="the extra synth is not installed")
@pytest.mark.filterwarnings("ignore")  # of jax about itself
def test_mbi_finds_the_distribution_that_we_find() -> None:
    sizes, edges = (2, 3, 4), [(0, 1), (1, 2), (0, 2)]
    true = np.arange(24).reshape(sizes) * 7 % 11 * 10.0
    measured = []
    for axes in [(0,), (1,), (2,), *edges]:
        counts = true.sum(axis=tuple({0, 1, 2} - {*axes}))
        noise = np.sin(np.arange(counts.size)).reshape(counts.shape) * 20
        measured.append(NoisyTable(axes, counts + noise, np.full(counts.shape, 1.0 + len(axes))))
    given = GraphicalModel.of(sizes, edges), measured, true.sum()
    own, theirs = fitted(*given), mbi_fit.fitted_by_mbi(*given)
    for axes in edges:
        assert np.abs(own.table(axes) - theirs.table(axes)).max() < 0.02 * true.sum()


def test_a_fit_by_a_package_that_is_not_there_is_refused_free_of_charge(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbi_fit, "find_spec", lambda _name: None)
    before = spent(proxy)
    with pytest.raises(MissingExtra, match="synth"):
        proxy.run(Synthesise(wish("SELECT joined, vip FROM customers"), mbi=True))
    assert spent(proxy) == before
    options = ("--policy", str(proxy_kit.shop(tmp_path / "shop")), "--analyst", "ana")
    done = CliRunner().invoke(main, ["synth", PEOPLE, "--fit", "mbi", *options])
    assert done.exit_code != 0
    assert isinstance(done.exception, MissingExtra) or "dpsql[synth]" in done.output


def test_shares_are_whole_and_no_total_drifts() -> None:
    table = np.array([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]] * 30)
    sizes = np.arange(90) % 4
    whole = apportioned(table, sizes)
    assert (whole.sum(axis=1) == sizes).all()
    assert (whole >= 0).all()
    assert (whole[table == 0] == 0).all()
    assert np.abs(whole.sum(axis=0) - (table * sizes[:, None]).sum(axis=0)).max() <= 2


def test_shares_are_even_by_every_key_that_numbers_lines() -> None:
    around = (12, 15)
    table = np.arange(12 * 15 * 5).reshape(180, 5) * 7919 % 101 + 1.0
    sizes = np.arange(180) * 31 % 7
    due = table / table.sum(axis=1, keepdims=True) * sizes[:, None]

    def farthest(whole: np.ndarray) -> float:
        apart = (whole - due).reshape(*around, 5)
        return max(float(np.abs(apart.sum(axis=axis)).max()) for axis in (0, 1))

    assert farthest(apportioned(table, sizes, around)) <= 1.5
    assert farthest(apportioned(table, sizes)) > 1.5  # as if lines were of one key


DECIMAL = SqlType(Kind.DECIMAL, 10, 2)
BOUNDED: list[tuple[SqlType, Any, Any, list[Any]]] = [
    (INTEGER, Fraction(-5), Fraction(20_000), [-5, 0, 1, 7, 20_000]),
    (DECIMAL, Fraction(0), Fraction(500), [Decimal("0.00"), Decimal("0.01"), Decimal("500.00")]),
    (DOUBLE, Fraction(-1), Fraction(1), [-1.0, -0.5, 0.0, 1e-9, 1.0]),
    (DATE, date(2020, 1, 1), date(2025, 12, 31), [date(2020, 1, 1), date(2025, 12, 31)]),
    (
        SqlType(Kind.TIMESTAMP),
        datetime(2024, 1, 1),
        datetime(2025, 1, 1),
        [datetime(2024, 1, 1), datetime(2024, 7, 1, 12), datetime(2025, 1, 1)],
    ),
]


@pytest.mark.parametrize(("kind", "lo", "hi", "values"), BOUNDED, ids=lambda v: str(v)[:9])
def test_values_come_back_within_their_bins(kind: SqlType, lo: Any, hi: Any, values: Any) -> None:
    column = column_of("x", Facts(kind, Interval(lo, hi), nullable=True))
    places = [column.cell(value) for value in values]
    assert None not in places
    for share in (0.0, 0.5, 1 - 2**-53):
        filled = column.filled(np.array([*places, column.valued]), np.full(len(places) + 1, share))
        assert filled[-1] is None
        assert [column.cell(value) for value in filled[:-1]] == places
        assert all(type(one) is type(other) for one, other in zip(filled, values, strict=False))
    if kind.is_numeric and lo <= 0:
        zero = column.cell(0.0 if kind.kind is Kind.DOUBLE else 0)
        assert zero is not None
        assert column.filled(np.array([zero]), np.array([0.9]))[0] in (0, 2.0**-1022 * 0.9)
    assert cells(column) <= 35


def test_few_values_are_listed_and_many_texts_refused() -> None:
    few = column_of("x", Facts(VARCHAR, domain=("a", "b"), nullable=False))
    assert (few.valued, cells(few), few.cell("b"), few.cell("c")) == (2, 2, 1, None)
    many = Facts(VARCHAR, domain=tuple(map(str, range(101))))
    with pytest.raises(Refused, match="unbounded-input"):
        column_of("x", many)


# --- other accountants, and the command line -----------------------------------------------------


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("accountant", ["pure", "approximate"])
def test_every_accountant_pays_for_all_of_it_within_one_question(accountant: str) -> None:
    policy, engine = bound.shop()
    budget = replace(policy.budgets[0], accountant=accountant)
    compiler = Compiler(replace(policy, budgets=(budget,)), engine.public)
    plan = planned(compiler, wish(ORDERS), Stop())
    assert 0.99e9 < plan.cost.loss.amount <= 1e9
    assert plan.cost.loss.delta == 0


@pytest.mark.full("starts processes")
@pytest.mark.skipif(find_spec("matplotlib") is None, reason="the extra plot is not installed")
def test_the_command_writes_rows_and_tells_how_near_they_are(tmp_path: Path) -> None:
    path, target = proxy_kit.shop(tmp_path / "shop"), tmp_path / "people.csv"

    def command(*words: str) -> Any:
        options = ("--policy", str(path), "--analyst", "ana")
        done = CliRunner().invoke(main, ["synth", *words, *options])
        assert done.exit_code == 0, done.stderr
        return done

    words = (PEOPLE, "--epsilon", "1", "--rows", "50", "-o", str(target))
    told = command(*words, "--truth", "--plot", str(tmp_path / "near.png")).stderr
    assert (tmp_path / "near.png").read_bytes().startswith(b"\x89PNG")
    with target.open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["segment", "vip", "country", "age"]
    assert len(rows) == 50
    assert {row[0] for row in rows} <= {"consumer", "business"}
    assert "50 synthetic rows: none is anybody's" in told
    assert "by 3: mean " in told
    assert "cost: ε = 1 (ρ" in told
    free = command(*words[:5], "--format", "jsonl")
    assert free.stdout.count("\n") == 50
    assert "cost: nothing" in free.stderr


# --- tables by name ------------------------------------------------------------------------------

CREATE = "CREATE SYNTHETIC TABLE people AS SELECT segment, age FROM customers OPTIONS(epsilon = 2)"
OF_PEOPLE = "SELECT segment, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY segment"


@pytest.mark.full("starts processes")
def test_a_synthetic_table_is_asked_for_nothing_by_whom_the_charge_binds(proxy: Proxy) -> None:
    created = proxy.ask(Request(CREATE, "ana"))
    assert created.rows[0][0] == "people"
    assert created.receipt is not None
    assert created.receipt.charged > Loss(0)
    before, answer = spent(proxy), proxy.ask(Request(OF_PEOPLE, "ana"))
    assert sum(row[1] for row in answer.rows) == created.rows[0][1]
    assert answer.receipt is not None
    assert answer.receipt.query_id == created.receipt.query_id
    assert answer.receipt.remembered
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        assert isinstance(row[0], str)
        assert [margin is not None and isnan(margin) for margin in margins] == [False, True, True]
    assert sentences(answer.notices, answer.columns)[-1].startswith("people is synthetic")
    *lines, what_it_means = table(answer, None).text.splitlines()
    assert "\n".join(lines).count("± ?") == 2 * len(answer.rows)
    assert what_it_means.startswith("± ?: ")
    with pytest.raises(Refused, match="unknown-table"):
        proxy.ask(Request(OF_PEOPLE, "bob"))
    mine, others = (connect(proxy=proxy, analyst=who) for who in ("ana", "bob"))
    (last,) = mine.tables().fetchall()[-1:]
    assert last[:2] == ("people", 2)
    assert last[2].startswith("synthetic: ")
    assert mine.columns("People").fetchall() == [
        ("segment", "VARCHAR", "synthetic"), ("age", "INTEGER", "synthetic")
    ]  # fmt: skip
    assert "people" not in {row[0] for row in others.tables().fetchall()}
    plan = proxy.explain(Request(OF_PEOPLE, "ana"))
    assert plan_text(plan).startswith("Synthetic tables only: at no cost.")
    assert spent(proxy) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT COUNT(*) FROM people JOIN customers USING (age)",
         Reason.UNSUPPORTED_PRIVATE_OPERATOR),
        ("CREATE SYNTHETIC TABLE people AS SELECT vip FROM customers", Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE orders AS SELECT vip FROM customers", Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE s AS SELECT vip FROM customers OPTIONS(delta = 1)",
         Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE s AS SELECT vip FROM customers OPTIONS(epsilon = 11)",
         Reason.EPSILON_TOO_LARGE),
        ("CREATE SYNTHETIC TABLE s AS SELECT vip FROM customers OPTIONS(rows = 1.5)",
         Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE s SELECT vip FROM customers", Reason.SYNTAX),
        ("CREATE SYNTHETIC TABLE s AS OPTIONS(epsilon = 1)", Reason.SYNTAX),
        ("CREATE SYNTHETIC VIEW s AS SELECT 1", Reason.UNSUPPORTED_STATEMENT),
        ("SELECT synthetic FROM nothing", Reason.UNKNOWN_TABLE),
    ],
)  # fmt: skip
def test_what_is_no_synthetic_table_is_refused_free_of_charge(
    proxy: Proxy, text: str, reason: Reason
) -> None:
    proxy.ask(Request(CREATE, "ana"))
    before = spent(proxy)
    with pytest.raises(Refused) as refused:
        proxy.ask(Request(text, "ana"))
    assert refused.value.reason is reason
    assert spent(proxy) == before


def test_what_a_table_would_cost_is_explained_for_nothing(proxy: Proxy) -> None:
    text = CREATE.replace("segment, age", "vip, segment, age")
    before, plan = spent(proxy), proxy.explain(Request(text, "ana"))
    assert plan.charge > Loss(0)
    assert spent(proxy) == before
    lines = plan_text(plan).splitlines()
    assert lines[0].startswith("Charge: ε = 2 as one query")
    assert "Tables of 3 columns, and of 3 pairs of them out of 3" in " ".join(lines)
    receipt = proxy.ask(Request(text.replace("people", "three"), "ana")).receipt
    assert receipt is not None
    assert receipt.charged == plan.charge
    assert proxy.explain(Request(text, "ana")).remembered
    assert plan_text(plan, PlanForm.JSON)


def test_a_session_makes_a_table_and_asks_it(proxy: Proxy) -> None:
    session = Client(proxy)
    assert session.query(CREATE).endswith("CZ")
    assert session.rows[0][0] == "people"
    session.query("CREATE SYNTHETIC TABLE s AS SELECT customer_id FROM customers")
    assert session.error["C"] == "42501"
    assert "P" not in session.error  # no place of a text that nobody wrote
    session.query(f"{OF_PEOPLE} ORDER BY segment")
    assert {row[0] for row in session.rows} <= {"business", "consumer"}
    assert any(b"synthetic" in notice for notice in session.of(b"N"))


@pytest.mark.full("starts processes")
def test_the_catalogue_has_the_tables_of_the_analyst_alone(proxy: Proxy) -> None:
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    columns = (
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_name = 'first' ORDER BY ordinal_position"
    )
    about = "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname = 'second'"
    session, own = Client(proxy), {("first",), ("second",)}
    session.query(tables)
    before = set(session.rows)
    for name in ("first", "second"):  # the second is free: the ledger does not change
        session.query(CREATE.replace("people", name))
        session.query(tables)
        before |= {(name,)}
        assert set(session.rows) == before
    session.query(columns)
    assert session.rows == [("segment", "text"), ("age", "bigint")]
    session.query(about)
    assert str(session.rows[0][0]).startswith("synthetic: ")
    mine, others = (connect(proxy=proxy, analyst=who).cursor() for who in ("ana", "bob"))
    assert set(mine.execute(tables).fetchall()) == before
    assert not own & set(others.execute(tables).fetchall())


@pytest.mark.full("starts processes")
def test_the_name_that_was_paid_for_lasts_as_long_as_the_data(tmp_path: Path) -> None:
    path = proxy_kit.shop(tmp_path)
    with Proxy.open(str(path)) as first:
        created = first.ask(Request(CREATE, "ana"))
        again = first.ask(Request(CREATE.replace("people", "others"), "ana"))
        assert created.rows[0][2] == again.rows[0][2] == AS_THE_DATA
        answer = first.ask(Request(OF_PEOPLE, "ana"))
    with Proxy.open(str(path)) as later:
        of_others = Request(OF_PEOPLE.replace("people", "others"), "ana")
        assert Counter(later.ask(of_others).rows) == Counter(answer.rows)  # in any order
        assert list(later.ask(Request("DROP SYNTHETIC TABLE others", "ana")).rows) == [("others",)]
        for gone in (of_others, Request("DROP SYNTHETIC TABLE others", "ana")):
            with pytest.raises(Refused, match="unknown"):
                later.ask(gone)
        assert later.ask(Request(CREATE, "ana")).rows[0][2] == AS_THE_DATA
        before = spent(later)
        assert list(later.ask(Request(OF_PEOPLE, "ana")).rows) == list(answer.rows)
        assert spent(later) == before
        later.refresh()
        with pytest.raises(Refused, match="unknown-table"):
            later.ask(Request(OF_PEOPLE, "ana"))
        assert later.own_tables("ana") == ()
        another = CREATE.replace("segment, ", "")
        assert later.ask(Request(another, "ana")).rows[0][2] == AS_THE_DATA


SWAPPED = "CREATE SYNTHETIC TABLE t AS SELECT age AS {}, income AS {} FROM customers"


def swapped(proxy: Proxy) -> list[tuple[Any, ...]]:
    """The largest values of t, before and after it is made anew with its names the other way."""
    largest = list[tuple[Any, ...]]()
    for names in ("ab", "ba"):
        proxy.ask(Request(SWAPPED.format(*names), "ana"))
        largest += proxy.ask(Request("SELECT MAX(a) AS a, MAX(b) AS b FROM t", "ana")).rows
        proxy.ask(Request("DROP SYNTHETIC TABLE t", "ana"))
    return largest


def test_another_table_of_the_same_name_has_its_own_columns(proxy: Proxy) -> None:
    (age, income), (first, second) = swapped(proxy)
    assert age < 200 < income
    assert second < 200 < first


def test_wrong_twin_a_table_is_known_by_its_name_alone(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic_tables._Named, "identity", property(lambda _: ("t",)))
    before, after = swapped(proxy)
    assert before == after


@pytest.mark.parametrize("broken", [False, True])
def test_what_another_process_makes_of_a_name_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, broken: bool
) -> None:
    """The wrong twin's ledger never says that it changed."""
    path = str(proxy_kit.shop(tmp_path))
    with Proxy.open(path) as server, Proxy.open(path) as other:
        server.ask(Request(CREATE, "ana"))
        answer = server.ask(Request(OF_PEOPLE, "ana"))
        if broken:
            monkeypatch.setattr(type(server.vault.ledger), "stamp", lambda *_: 1)
            server.ask(Request(OF_PEOPLE, "ana"))
        assert other.ask(Request(OF_PEOPLE, "ana")).columns == answer.columns
        other.ask(Request("DROP SYNTHETIC TABLE people", "ana"))
        if broken:
            assert server.ask(Request(OF_PEOPLE, "ana")).rows
            return
        with pytest.raises(Refused, match="unknown-table"):
            server.ask(Request(OF_PEOPLE, "ana"))
        other.ask(Request(CREATE.replace("segment, age", "vip, age"), "ana"))
        columns = server.own_tables("ana")[0].columns
        assert [column.name for column in columns] == ["vip", "age"]
        assert server.ask(Request("SELECT COUNT(vip) AS n FROM people", "ana")).rows
