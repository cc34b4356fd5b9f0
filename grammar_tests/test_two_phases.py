"""Private keys in two phases: what is charged, what neighbours differ by, and the truth inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import exp, prod
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from dpsql import accountants, mechanisms
from dpsql.answering import two_steps
from dpsql.compiler.calibrate.polls import Polls
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ShownKeys
from dpsql.interfaces.plan_text import plan_text
from dpsql.model.algebra import Filter
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Empty, Hidden
from dpsql.model.query_options import KeyAim
from dpsql.model.tree import Kind
from dpsql.model.vocabulary import ATTO, NANO, Mechanism, Noise, Policy
from dpsql.model.walk import relations
from dpsql.preparation import shown_keys
from dpsql.preparation.prepare import KnownSteps, prepare
from dpsql.preparation.question import Account
from dpsql.preparation.shown_keys import phases
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit, world
from grammar_tests.draws import ENTROPY
from grammar_tests.keys_kit import threshold_of
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    integers,
    parsed,
    violation,
    without_unit,
)
from grammar_tests.test_contribution_bounds import charged, crowd, shop
from grammar_tests.test_laws import halved
from grammar_tests.test_prices import WORLDS, prices

BY_PLACE = "SELECT login_id - 24 * (login_id // 24) AS m, {} FROM logins GROUP BY m"
BUYERS = BY_PLACE.format("COUNT(DISTINCT customer_id) AS n")
ROWS = BY_PLACE.format("COUNT(*) AS n")
BOTH = BY_PLACE.format(
    "COUNT(DISTINCT customer_id) AS n, COUNT(*) AS r, SUM(EXTRACT(day FROM day)) AS s"
)
"""Keys of which one person may have any number; nobody lists them."""
FRACTIONS = {
    kind: f"SELECT CAST(login_id - 24 * (login_id // 24) AS {kind}) / 8 AS m,"
    " COUNT(DISTINCT customer_id) AS n"
    " FROM logins GROUP BY m"
    for kind in ("DOUBLE", "DECIMAL(9, 3)")
}


def opened(folder: Path, *changes: tuple[str, str]) -> Proxy:
    """Nine hundred people, most of whom are in many of the 24 groups."""
    proxy = Proxy.open(str(proxy_kit.shop(folder, *changes, tables=crowd(900, most=40))))
    proxy.vault.sampler = partial(mechanisms.sample, entropy=ENTROPY)
    return proxy


# --- the truth inside ----------------------------------------------------------------------------


def held(folder: Path, sql: str, asked: int) -> tuple[float, float]:
    """How often an interval holds the truth, and how many of 24 keys are shown, at an ε of 1."""
    tables, inside, shown = crowd(900, most=40), list[bool](), 0
    plain = PlainEngine(world.build(tables, constraints=False))
    truth: dict[Any, Any] = dict(plain.rows(sql))
    with opened(folder) as proxy:
        for n in range(asked):  # a larger ε each time, so that nothing is remembered
            answer = proxy.ask(proxy_kit.request(sql, str(1 + Decimal(n) / 10_000)))
            shown += len(answer.rows)
            for (key, number), (_, error) in zip(answer.rows, answer.errors, strict=True):
                assert error is not None
                inside.append(abs(number - truth[key]) <= 1.96 * error)
    return sum(inside) / max(1, len(inside)), shown / asked


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin: one release shows keys and measures them."""
    monkeypatch.setattr(shown_keys, "has_two_phases", lambda _prepared: False)


@pytest.mark.full("measures neighbours or further data sets")
def test_intervals_of_people_by_month_hold_the_truth(tmp_path: Path) -> None:
    share, shown = held(tmp_path, BUYERS, 12)
    assert share >= 0.93
    assert shown == 24


@pytest.mark.full("measures neighbours or further data sets")
def test_wrong_twin_of_one_release_misses_the_truth(tmp_path: Path, single: None) -> None:  # noqa: ARG001
    share, _ = held(tmp_path, BUYERS, 6)
    assert share < 0.5


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("kind", FRACTIONS)
def test_intervals_of_people_by_fractions_hold_the_truth(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin measures such keys in the release that shows them."""
    share, shown = held(tmp_path / "two", FRACTIONS[kind], 8)
    assert share >= 0.93
    assert shown == 24
    monkeypatch.setattr(shown_keys, "_WRITTEN", frozenset({Kind.INTEGER}))
    share, _ = held(tmp_path / "one", FRACTIONS[kind], 3)
    assert share < 0.5


def error_beside_rare_keys(folder: Path) -> float:
    """Return the error of counts of two keys of everybody, beside 12 that only one person has."""
    places = {unit: (0, 1, *range(20 * unit, 20 * unit + 12)) for unit in range(1, 301)}
    rows = [(place, unit) for unit, all_of_them in places.items() for place in all_of_them]
    logins = [(24_000 * n + at, unit, date(2024, 1, 1)) for n, (at, unit) in enumerate(rows)]
    tables = {**world.empty(), "customers": list(map(world.customer, places)), "logins": logins}
    sql = "SELECT login_id - 24000 * (login_id // 24000) AS m, COUNT(*) AS n FROM logins GROUP BY m"
    with Proxy.open(str(proxy_kit.shop(folder, tables=tables))) as proxy:
        proxy.vault.sampler = partial(mechanisms.sample, entropy=ENTROPY)
        answer = proxy.ask(proxy_kit.request(sql, "1"))
    assert sorted(key for key, _ in answer.rows) == [0, 1]
    return answer.errors[0][1] or 0.0


@pytest.mark.full("measures neighbours or further data sets")
def test_rare_keys_do_not_use_up_what_a_person_may_add(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin leaves out rows of keys that are not shown after the limit."""
    error = error_beside_rare_keys(tmp_path / "before")
    monkeypatch.setattr(shown_keys, "Filter", lambda rows, _: rows)
    assert error_beside_rare_keys(tmp_path / "after") > 2 * error


# --- what is charged -----------------------------------------------------------------------------


@pytest.mark.parametrize("aim", KeyAim)
@pytest.mark.parametrize("kind", ["zcdp", "approximate"])
def test_both_phases_are_within_one_question(kind: str, aim: KeyAim) -> None:
    accountant, budget = accountants.get(kind), replace(BUDGET, accountant=kind)
    paid = phases(Account("ana", budget, Decimal("0.7")), aim.share)

    def amount(account: Account, *, selects: bool) -> tuple[Fraction, Fraction]:
        delta = Fraction(account.budget.query_delta)
        allowed = accountant.allowance(Fraction(account.epsilon), delta, selects_keys=selects)
        return allowed.amount, allowed.selection_delta + allowed.noise_delta

    whole, delta = amount(Account("ana", budget, Decimal("0.7")), selects=True)
    first, rest, alone = (
        amount(paid.first, selects=True),
        amount(paid.rest, selects=False),
        amount(paid.whole, selects=False),
    )
    assert 0.999 * whole < first[0] + rest[0] <= whole
    assert first[1] + rest[1] <= delta
    assert float(first[0] / whole) == pytest.approx(float(aim.share), rel=1e-3)
    assert 0.999 * whole < alone[0] <= whole


LARGE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(keys = 'large')"
QUESTIONS = (BUYERS, ROWS, BOTH, *FRACTIONS.values())


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("accountant", "sql", "worlds"),
    [("zcdp", BOTH, tuple(WORLDS)), ("zcdp", BUYERS, (0, 220)), ("approximate", BOTH, (0, 220))],
)
def test_prices_are_the_same_whatever_is_shown(
    accountant: str, sql: str, worlds: Sequence[int]
) -> None:
    """No key is shown of nobody, some are of many people who have few of them or all."""
    changes = [('accountant = "zcdp"', f'accountant = "{accountant}"')]
    told = [prices(units, [sql], *changes) for units in worlds]
    assert told[1:] == told[:-1]


@pytest.mark.full("measures neighbours or further data sets")
def test_prices_of_nobody_are_those_of_many_people() -> None:
    assert prices(0, [ROWS]) == prices(220, [ROWS])


@pytest.mark.full("thousands of releases are sampled")
def test_wrong_twin_a_share_by_the_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlockPlan, "lists_shown", property(lambda _: False))
    assert prices(0, [ROWS]) != prices(220, [ROWS])


@pytest.mark.full("measures neighbours or further data sets")
def test_equal_keys_of_another_query_are_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the same keys are shown again depends on the data: it must not make an answer free.

    The second question pays a larger share for its keys, so that it shows them anew. In the wrong
    twin a query is not told from another one that showed the same keys.
    """
    texts = [BUYERS.replace("SELECT", LARGE), BUYERS]
    told = prices(0, texts)
    monkeypatch.setattr(two_steps, "ShownKeys", lambda _query, keys: ShownKeys("", keys))
    assert prices(0, texts) != told


@pytest.mark.full("opens a proxy for each item")
def test_a_question_costs_what_was_announced_and_again_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as proxy:
        request = proxy_kit.request(BUYERS, "1")
        plan = proxy.explain(request)
        answer = proxy.ask(request)
        assert charged(answer) == plan.charge.amount == proxy.budgets()[0][1].amount
        first, last = sorted(entry.loss.amount for entry in proxy.ledger.history(limit=2))
        assert first / (first + last) == pytest.approx(0.45, rel=1e-3)
        again = proxy.ask(request)
        assert (again.rows, charged(again)) == (answer.rows, 0)
        ordered = proxy.ask(proxy_kit.request(f"{BUYERS} ORDER BY n DESC LIMIT 3", "1"))
        assert (charged(ordered), len(ordered.rows)) == (0, 3)
        # The keys are known: all of the next charge measures.
        other = proxy.ask(proxy_kit.request(ROWS, "1"))
        assert charged(other) == charged(answer)
        assert len(list(proxy.ledger.history(limit=9))) == 4


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("precise_first", [False, True])
def test_a_question_stays_free_when_another_finds_its_keys_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, precise_first: bool
) -> None:
    if precise_first:  # the wrong twin takes the most precise keys, measured or not
        monkeypatch.setattr(two_steps, "_is_remembered", lambda *_: False)
    with opened(tmp_path) as proxy:
        first = proxy.ask(proxy_kit.request(BUYERS, "0.5"))
        assert charged(proxy.ask(proxy_kit.request(ROWS, "2"))) > 0
        again = proxy.ask(proxy_kit.request(BUYERS, "0.5"))
        assert proxy.explain(proxy_kit.request(BUYERS, "0.5")).charge.amount == 0
        assert (charged(again) == 0 and again.rows == first.rows) is not precise_first


@pytest.mark.full("opens a proxy for each item")
def test_nothing_is_begun_that_cannot_be_paid_to_the_end(tmp_path: Path) -> None:
    with opened(tmp_path, ("epsilon = 1000.0", "epsilon = 1.0")) as proxy:
        (budget,) = proxy.policy.budgets
        limit = accountants.get(budget.accountant).limit(budget).amount
        price = proxy.explain(proxy_kit.request(BUYERS, "2")).charge.amount
        assert 0.45 * price < limit < price, "the first phase alone could be paid"
        with pytest.raises(Refused) as caught:
            proxy.ask(proxy_kit.request(BUYERS, "2"))
        assert caught.value.reason is Reason.BUDGET_EXHAUSTED
        assert proxy.budgets()[0][1].amount == 0


NAMED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)"


def asked(proxy: Proxy, sql: str, epsilon: str | None) -> tuple[list[Any], list[int]]:
    """What is announced and what is asked: a price or a refusal; and what is charged in all."""
    told = list[Any]()
    for ask in (proxy.explain, proxy.ask):
        try:
            answer: Any = ask(proxy_kit.request(sql, epsilon))
            told.append(answer.charge.amount if ask == proxy.explain else charged(answer))
        except Refused as refused:
            told.append(refused.reason)
    return told, [entry.loss.amount for entry in proxy.ledger.history(limit=9)]


@pytest.mark.full("opens a proxy for each item")
def test_votes_of_the_second_phase_are_announced_and_refused_before_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named epsilon that is too large beside votes, and a least charge of each step."""
    named = BY_PLACE.format("COUNT(*, epsilon => 0.6) AS n, SUM(EXTRACT(day FROM day)) AS s")
    named = named.replace("SELECT", NAMED, 1)
    least = ("query_delta = 1e-6", "query_delta = 1e-6\nmin_query_charge = 0.01")
    for held in (True, False):
        if not held:  # the wrong twin knows nothing of votes before the keys are shown
            monkeypatch.setattr(two_steps.KeySteps, "before_last", lambda *_: None)
        with opened(tmp_path / f"{held}") as proxy:
            told, paid = asked(proxy, named, None)
            assert (told == [Reason.BAD_OPTION] * 2 and not paid) is held
        with opened(tmp_path / f"{held} least", least) as proxy:
            told, paid = asked(proxy, ROWS, "0.7")
            assert len(paid) == 3
            assert (told == [sum(paid)] * 2) is held


# --- what neighbours differ by, whatever is shown ------------------------------------------------


def of_step(sql: str, policy: Policy, engine: PlainEngine, steps: KnownSteps) -> Prepared:
    public = engine.public
    return prepare(
        parsed(sql, "duckdb"), policy, BUDGET, Fraction(1), public, public.evaluate, steps
    )


def plans(policy: Policy, engine: PlainEngine) -> Iterator[Prepared]:
    for sql in QUESTIONS:
        yield of_step(sql, policy, engine, KnownSteps(shows_keys=True))
        for keys in ((), (0,), (None,), (None, 3), (0, 1, 2), tuple(range(30))):
            shown = ShownKeys("q", tuple((key,) for key in keys))
            yield of_step(sql, policy, engine, KnownSteps(shown=shown))


def violated(damage: Callable[[Prepared], Prepared] = lambda plan: plan) -> list[str]:
    """Claims of either phase that a person breaks, for several sets of keys that were shown."""
    policy, engine = shop(crowd(8))
    made, found = [damage(plan) for plan in plans(policy, engine)], list[str]()
    here = [integers(plan, engine) for plan in made]
    for unit in range(1, 9):
        with without_unit(engine.connection, world.deletions(unit)):
            there = [integers(plan, engine) for plan in made]
        broken = (violation(*each) for each in zip(made, here, there, strict=True))
        found += [why for why in broken if why is not None]
    return found


@pytest.mark.full("measures neighbours or further data sets")
def test_neighbours_differ_by_no_more_than_claimed_whatever_is_shown() -> None:
    assert violated() == []


@pytest.mark.full("measures neighbours or further data sets")
def test_keys_of_many_values_are_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, engine = shop(crowd(8))
    shown = KnownSteps(shown=ShownKeys("q", ((0,), (1,), (2,))))
    (filtered,) = of_step(ROWS, policy, engine, shown).blocks
    monkeypatch.setattr(shown_keys, "_LONGEST", 2)
    (whole,) = of_step(ROWS, policy, engine, shown).blocks
    filters = [
        sum(isinstance(each, Filter) for each in relations(block.block.rows))
        for block in (filtered, whole)
    ]
    assert filters[0] == filters[1] + 1
    assert violated() == []


@pytest.mark.full("measures neighbours or further data sets")
def test_wrong_twin_of_half_a_sensitivity_is_caught() -> None:
    assert violated(halved)


# --- the transcript of both phases, exactly ------------------------------------------------------


Pair: TypeAlias = tuple[float, float]
KEYS = (0, 1, 2)
LAPLACE = BUYERS.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism='laplace')")


class BothPhases:
    """What both phases draw, as their plans say, where noise is Laplace's and ε and δ add up."""

    def __init__(self, aim: KeyAim = KeyAim.BALANCED) -> None:
        self.policy, self.engine = shop(crowd(8))
        budget = replace(BUDGET, accountant="approximate")
        self._paid = phases(Account("ana", budget, Decimal(1)), aim.share)
        self._measuring = dict[tuple[int, ...], Prepared]()
        self.showing = self._plan(KnownSteps(shows_keys=True), self._paid.first)

    def measuring(self, shown: tuple[int, ...]) -> Prepared:
        """The plan of the second phase, where these keys were shown."""
        if shown not in self._measuring:
            listed = KnownSteps(shown=ShownKeys("q", tuple((key,) for key in shown)))
            self._measuring[shown] = self._plan(listed, self._paid.rest)
        return self._measuring[shown]

    @property
    def charged(self) -> tuple[float, float, float]:
        """The ε of either phase, and the δ of both."""
        first, rest = (
            accountants.get("approximate").loss(plan.plan.event)
            for plan in (self.showing, self.measuring(KEYS))
            if plan.plan is not None
        )
        return first.amount / NANO, rest.amount / NANO, (first.delta + rest.delta) / ATTO

    def _plan(self, steps: KnownSteps, account: Account) -> Prepared:
        public, text = self.engine.public, parsed(LAPLACE, "duckdb")
        paid = account.budget, Fraction(account.epsilon)
        return prepare(text, self.policy, *paid, public, public.evaluate, steps)


def transcripts(made: BothPhases, mine: int, others: Sequence[int]) -> Iterator[Pair]:
    """Each transcript's probability with a person who has the first keys, and without.

    It is the set of keys that is shown, and of each of these whether the second count lies where
    the person makes it likelier: nothing else of it tells the two databases apart. A key that
    nobody has is not shown.
    """
    threshold = threshold_of(made.showing.blocks[0])
    counts = [threshold.counted.unit * n for n in others]
    added = threshold.counted.added(mine)

    def lifted(steps: int) -> float:
        """The probability that noise lifts so many steps to the threshold."""
        return at_least(threshold.noise, threshold.value - steps) if steps else 0.0

    sides = [([n + added * (key < mine) for key, n in enumerate(counts)]), counts]
    chances = [[lifted(steps) for steps in side] for side in sides]
    for size in range(len(KEYS) + 1):
        for shown in combinations(KEYS, size):
            p, q = (
                prod(c if key in shown else 1 - c for key, c in enumerate(chance))
                for chance in chances
            )
            (release,) = made.measuring(shown).blocks[0].releases
            above = at_least(release.noise, 0)
            for each in product((above, 1 - above), repeat=sum(key < mine for key in shown)):
                yield p * prod(each), q * prod(1 - side for side in each)


def at_least(noise: Noise, t: int) -> float:
    """P(Z >= t) of discrete Laplace noise."""
    assert noise.mechanism is Mechanism.DISCRETE_LAPLACE
    if t < 0:
        return 1 - at_least(noise, 1 - t)
    ratio = exp(-1 / noise.scale)
    return exp(-t / noise.scale) / (1 + ratio)


def delta_at(made: BothPhases, epsilon: float) -> float:
    """The least δ with which no person of one to three keys can be told from nobody."""
    threshold, found = threshold_of(made.showing.blocks[0]), list[float]()
    for mine in (1, 2, 3):
        common = (threshold.value - threshold.counted.added(mine)) // threshold.counted.unit
        for others in product((0, 3, common), repeat=3):
            pairs = list(transcripts(made, mine, others))
            found += [sum(max(0.0, p - exp(epsilon) * q) for p, q in pairs)]
            found += [sum(max(0.0, q - exp(epsilon) * p) for p, q in pairs)]
    return max(found)


@pytest.mark.full("measures neighbours or further data sets")
def test_no_transcript_of_both_phases_loses_more_than_is_charged() -> None:
    made = BothPhases()
    first, rest, delta = made.charged
    assert 0.99 < first + rest <= 1
    assert 0 < delta_at(made, first + rest) <= delta


def test_wrong_twin_a_second_phase_that_is_not_charged() -> None:
    made = BothPhases()
    first, _, delta = made.charged
    assert delta_at(made, first) > 100 * delta


def test_wrong_twin_a_first_phase_of_a_larger_share_than_is_charged() -> None:
    made = BothPhases()
    first, rest, delta = made.charged
    made.showing = BothPhases(KeyAim.MORE).showing
    assert delta_at(made, first + rest) > 100 * delta


# --- what is told --------------------------------------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
def test_how_large_a_key_must_be_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as proxy:
        plan = proxy.explain(proxy_kit.request(ROWS, "1"))
        answer = proxy.ask(proxy_kit.request(ROWS, "1"))
        nobody = f"{ROWS}".replace("GROUP BY", "WHERE login_id < 0 GROUP BY")
        none = proxy.ask(proxy_kit.request(nobody, "1"))
    assert "45 % of the charge first finds which values are shown" in plan_text(plan)
    (hidden,) = (notice for notice in answer.notices if isinstance(notice, Hidden))
    assert hidden in plan.notices
    assert hidden.columns == (0,)
    assert not none.rows
    assert Empty(replace(hidden, least=hidden.least)) in none.notices


@pytest.mark.full("opens a proxy for each item")
def test_a_larger_share_shows_smaller_keys(tmp_path: Path) -> None:
    needed = []
    with opened(tmp_path) as proxy:
        for aim in ("large", "balanced", "more"):
            option = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(keys = '{aim}')"
            plan = proxy.explain(proxy_kit.request(BUYERS.replace("SELECT", option), "1"))
            needed += [notice.least for notice in plan.notices if isinstance(notice, Hidden)]
    assert needed == sorted(needed, reverse=True)
    assert len(set(needed)) == 3


@pytest.mark.full("opens a proxy for each item")
def test_keys_of_one_value_for_each_person_have_one_phase(tmp_path: Path) -> None:
    sql = "SELECT city, COUNT(*) AS n FROM customers GROUP BY city"
    with opened(tmp_path) as proxy:
        plan = proxy.explain(proxy_kit.request(sql, "1"))
    assert len(plan.blocks) == 1


BY_CITY = "SELECT city, COUNT(*) AS n FROM logins JOIN customers USING (customer_id) GROUP BY city"
"""Private keys of which each person has one."""


def share_inside(folder: Path, sql: str, most: int) -> float:
    """Return how often the number of a key lies in its interval."""
    tables, inside = crowd(900, most=most), list[bool]()
    truth = {key: n for key, n, *_ in PlainEngine(world.build(tables, constraints=False)).rows(sql)}
    with Proxy.open(str(proxy_kit.shop(folder, tables=tables))) as proxy:
        proxy.vault.sampler = partial(mechanisms.sample, entropy=ENTROPY)
        for n in range(12):  # a larger ε each time, so that nothing is remembered
            answer = proxy.ask(proxy_kit.request(sql, str(1 + Decimal(n) / 10_000)))
            halves: Any = answer.halves or answer.margins
            for (key, number, *_), (_, half, *_) in zip(answer.rows, halves, strict=True):
                below, above = half if isinstance(half, tuple) else (half, half)
                inside.append(number - below <= truth[key] <= number + above)
    assert len(inside) >= 36
    return sum(inside) / len(inside)


OF_ALL = ", (SELECT COUNT(*) FROM customers) AS everybody"
"""A column of a second block, with which private keys have one phase."""


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize(
    ("sql", "most"),
    [
        (BY_CITY, 4),
        (BY_CITY, 40),
        (BY_PLACE.format(f"COUNT(DISTINCT customer_id) AS n{OF_ALL}"), 40),
    ],
)
def test_intervals_of_private_keys_in_one_phase_hold(
    tmp_path: Path, sql: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most people have one row, or many. The wrong twin forgets what limits clip."""
    assert share_inside(tmp_path / "told", sql, most) >= 0.93
    monkeypatch.setattr(Polls, "biased", lambda *_: ())
    assert share_inside(tmp_path / "twin", sql, most) < 0.8
