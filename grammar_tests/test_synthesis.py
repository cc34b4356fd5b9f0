"""Synthetic rows: one charge, tables that one unit moves no further than claimed, and rows that
have them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from itertools import product
from math import exp, log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql import accountants
from dpsql.consistency.graphical_model import GraphicalModel
from dpsql.engines import Stop
from dpsql.interfaces.cli import main
from dpsql.mechanisms.laws import Law, Softmax
from dpsql.mechanisms.pair_choices import components, pair_choice, score
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import Loss, Neighbours, Noise, Noisy, Request, Sensitivity
from dpsql.preparation.compilation import Compiler
from dpsql.proxy import Proxy
from dpsql.systems.synthesis import synthesis
from dpsql.systems.synthesis.released_marginals import over_selected
from dpsql.systems.synthesis.synthesis import ExplainSynthesis, Synthesise
from dpsql.systems.synthesis.synthesis_plan import (
    MOST_CLIQUE,
    SynthesisPlan,
    SynthesisWish,
    planned,
)
from dpsql.systems.synthesis.synthetic_columns import ListedColumn
from grammar_tests import bound, laws, proxy_kit, world

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


@pytest.mark.full("opens a proxy for each item")
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


@pytest.mark.full("opens a proxy for each item")
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


@pytest.mark.full("opens a proxy")
def test_of_too_many_statemented_values_the_most_frequent_are_kept_and_null_is_none() -> None:
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


@pytest.mark.full("opens a proxy for each item")
def test_no_more_rows_are_made_than_there_is_room_for(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "_most_rows", lambda *_: 1)
    assert len(proxy.run(Synthesise(wish())).rows) == 1
    with pytest.raises(Refused, match="too-large"):
        proxy.run(Synthesise(wish(), 2))


@pytest.mark.full("opens a proxy for each item")
def test_a_table_is_all_of_its_columns_but_keys_and_links(proxy: Proxy) -> None:
    left_out = "order_id, customer_id, amount, discount, note, note_length"
    plan = proxy.run(ExplainSynthesis(wish(f"SELECT * EXCLUDE ({left_out}) FROM orders")))
    with pytest.raises(Refused, match="note"):
        proxy.run(ExplainSynthesis(wish("orders")))
    names = ["quantity", "placed_at", "status"]
    assert [column.name for column in plan.columns] == names


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
@pytest.mark.skipif(find_spec("resvg_py") is None, reason="the extra png is not installed")
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
