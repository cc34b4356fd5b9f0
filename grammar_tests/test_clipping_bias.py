"""Both ends of intervals where a limit clips: they hold, cost nothing and reach interfaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import isclose, isnan
from pathlib import Path

import numpy as np
import pytest

import dpsql
from dpsql import mechanisms
from dpsql.compiler.plan.measurement_kinds import Vote
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm, Poll
from dpsql.interfaces import records
from dpsql.interfaces.tables import table
from dpsql.mechanisms import clipping_bias
from dpsql.mechanisms.clipping_bias import ClippedAnswer, ClippingBias, best_bound
from dpsql.model.notices import CutSide, Scaled
from dpsql.model.vocabulary import Answer
from dpsql.preparation import contribution_bounds
from dpsql.preparation.contribution_bounds import norms_of
from dpsql.preparation.prepare import KnownSteps, prepare
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit
from grammar_tests.draws import ENTROPY
from grammar_tests.interval_worlds import (
    SIZES,
    Drawn,
    Held,
    World,
    by_interval,
    by_noise_alone,
    held,
    world,
)
from grammar_tests.laws import BUDGET, integers, parsed
from grammar_tests.proxy_kit import request
from grammar_tests.test_contribution_bounds import crowd, opened, shop

BY_MONTH = "SELECT EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM logins GROUP BY m ORDER BY m"
SIGNED = (
    "SELECT EXTRACT(month FROM day) AS m, SUM(EXTRACT(day FROM day) - 15) AS s"
    " FROM logins GROUP BY m"
)
INSIDE, LOW = 0.93, 0.965
"""Intervals and low ends hold in 95 % and 97.5 %; so few draws say no more."""

POPULATIONS, DRAWS = 3, 8


def each_held(order: int, groups: int, draw: Callable[..., Drawn]) -> dict[str, list[Held]]:
    """How often intervals hold over fresh populations, and their width over the best one's."""
    rng, found = np.random.default_rng(7), {}
    for kind in SIZES:
        worlds = [world(kind, order, groups, 2000, rng) for _ in range(POPULATIONS)]
        each = [(w, held(w, DRAWS, rng, draw)) for w in worlds]
        found[kind] = [replace(h, width=h.width / w.best_width()) for w, h in each]
    return found


def average(found: dict[str, list[Held]], of: str) -> float:
    return float(np.mean([getattr(h, of) for each in found.values() for h in each]))


def width(found: dict[str, list[Held]]) -> float:
    return float(np.median([h.width for each in found.values() for h in each]))


MORE = pytest.mark.full("further populations")


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("order", [1, pytest.param(2, marks=MORE)])
@pytest.mark.parametrize("groups", [12, pytest.param(50, marks=MORE)])
def test_intervals_hold_over_kinds_of_populations(order: int, groups: int) -> None:
    found = each_held(order, groups, by_interval)
    assert average(found, "inside") >= 0.94
    assert average(found, "low") >= LOW
    kinds = [np.mean([h.inside for h in each]) for each in found.values()]
    assert sum(kind >= INSIDE for kind in kinds) >= len(kinds) - 2
    assert width(found) <= MOST_WIDTH


MOST_WIDTH = 2.0
"""The median width of intervals over that of the best fixed bound."""


def straight(_: object) -> tuple[float, float]:
    """No bend, whatever the histogram shows."""
    return 1.0, 1.0


def bent_by_three(histogram: clipping_bias._Histogram) -> tuple[float, float]:
    """The bend of the last three octaves, also where norms begin in one of them."""
    counts, last = histogram.counts, histogram.last
    lowest, middle, top = np.maximum(counts[last - 2 : last + 1], 1.0)
    return min(1.0, top * lowest / middle**2), 0.02


def of_one_group(kind: str) -> tuple[float, float]:
    """The share of intervals that hold over fresh populations, and their width over the best."""
    rng = np.random.default_rng(13)
    worlds = [world(kind, 1, 1, 2000, rng) for _ in range(40)]
    each = [held(w, 6, rng) for w in worlds]
    widths = [h.width / w.best_width() for h, w in zip(each, worlds, strict=True)]
    return float(np.mean([h.inside for h in each])), float(np.median(widths))


@pytest.mark.full("further populations")
def test_a_tail_bends_as_its_octaves_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin sees a bend where all norms begin."""
    (sharp, _), (bent, narrow) = map(of_one_group, ("Pareto 3", "exponential"))
    assert min(sharp, bent) >= INSIDE
    monkeypatch.setattr(clipping_bias, "_bend", straight)
    assert narrow < 0.8 * of_one_group("exponential")[1]
    monkeypatch.setattr(clipping_bias, "_bend", bent_by_three)
    assert of_one_group("Pareto 3")[0] < 0.9


def doubled(world: World, rng: np.random.Generator) -> Drawn:
    noisy, low, high = by_interval(world, rng)
    return noisy, noisy - 2 * (noisy - low), noisy + 2 * (high - noisy)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("order", [1, pytest.param(2, marks=MORE)])
def test_wrong_twins_of_intervals_are_seen(order: int) -> None:
    """Intervals of noise alone do not hold; intervals of twice the width are too wide."""
    alone = each_held(order, 12, by_noise_alone)
    kinds = [np.mean([h.inside for h in each]) for each in alone.values()]
    assert average(alone, "inside") < 0.94
    assert sum(kind >= INSIDE for kind in kinds) < len(kinds) - 2
    assert width(each_held(order, 12, doubled)) > MOST_WIDTH


def share_of_heavy_tails(groups: int) -> float:
    """How often intervals of groups hold, over fresh populations with heavy tails."""
    rng, kinds = np.random.default_rng(11), ("lognormal 2", "Pareto 2")
    worlds = (world(kind, 1, groups, 2000, rng) for kind in kinds for _ in range(40))
    return float(np.mean([held(each, 3, rng).inside for each in worlds]))


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("groups", [1, pytest.param(3, marks=MORE)])
def test_few_groups_need_more_confidence_than_many(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin takes of few groups the confidence that is enough for many."""
    assert share_of_heavy_tails(groups) >= INSIDE
    monkeypatch.setattr(clipping_bias, "ALONE", clipping_bias.TOGETHER)
    assert share_of_heavy_tails(groups) < INSIDE


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("order", [1, 2])
def test_a_bias_is_at_least_what_is_clipped(order: int) -> None:
    """The histogram says by itself how much a bound removes: in 95 of 100 draws no more."""
    rng = np.random.default_rng(3)
    w = world("lognormal 1.5", order, 1, 20_000, rng)
    held_ = []
    for _ in range(60):
        noisy = np.rint(w.counts + w.noise(w.counts.size, rng, votes=True)).astype(int).tolist()
        answer = ClippedAnswer(w.deviation, order == 1, 1, 1.0, signs=False)
        best = best_bound(w.octaves, w.octaves.most, noisy, w.votes, answer)
        removed = float((w.truth - w.clipped(best.bound))[0])
        held_.append(removed <= best.bias.common + 0.5 * best.bound * w.deviation)
    assert np.mean(held_) >= INSIDE


def test_no_bound_is_above_what_is_declared_and_there_nothing_is_clipped() -> None:
    w = world("equal", 1, 1, 20_000, np.random.default_rng(3))
    answer = ClippedAnswer(w.deviation, gaussian=True, groups=1, weight=1.0, signs=False)
    best = best_bound(w.octaves, 7000, w.counts.tolist(), w.votes, answer)
    assert best.bound <= 7000
    assert best.bound < 7000 or best.bias.common < 1e-9


# --- it costs nothing (R97) ----------------------------------------------------------------------


RELEASED = {1: 40, 2: 300, 3: 90, 4: 12, 5: -3}
"""A released histogram: noisy counts of octaves, none of all others."""


def found_of(people: int, *, exact: bool) -> tuple[FoundNorm, ...]:
    """What is found where so many people are stored, by what was released or by `exact` counts."""
    policy, engine = shop(crowd(people))
    public = engine.public
    asked = parsed(BY_MONTH, "duckdb"), policy, BUDGET, Fraction(1), public, public.evaluate
    widest = prepare(*asked)
    (poll,) = widest.polls
    paid = prepare(*asked, KnownSteps(polls=(poll.key,)))
    counts = RELEASED
    if exact:
        (stored,) = integers(paid, engine)
        counts = {octave: parts[0] for (octave,), parts in stored.items()}
    assert isinstance(poll.block.vote, Vote)
    rows = tuple((0, n, counts.get(n, 0)) for n in poll.block.vote.bins.places)
    return norms_of(widest, [((poll.key,), paid, Answer((), rows, (), ()))])


@pytest.mark.full("measures neighbours or further data sets")
def test_bound_and_bias_follow_from_what_was_released() -> None:
    one, other = (found_of(people, exact=False) for people in (8, 9))
    assert one == other
    assert one[0].bias is not None


def test_wrong_twin_a_bound_by_exact_counts_is_seen() -> None:
    one, other = (found_of(people, exact=True) for people in (8, 9))
    assert one != other


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("common", [0.0, 1e6])
def test_whatever_bias_is_claimed_nothing_else_is_measured_or_charged(common: float) -> None:
    policy, engine = shop(crowd(8))
    public = engine.public
    asked = parsed(BY_MONTH, "duckdb"), policy, BUDGET, Fraction(1), public, public.evaluate
    (poll,) = prepare(*asked).polls
    plain = FoundNorm(poll.key, 700, 0, visible=True)
    biased = replace(plain, bias=ClippingBias(common, 0.0, 12, guess=False))
    plans = [prepare(*asked, KnownSteps({poll.key: norm})) for norm in (plain, biased)]
    one, other = (plan.plan for plan in plans)
    assert one is not None
    assert other is not None
    assert (one.loss, one.event) == (other.loss, other.event)
    assert plans[0].rewritten.blocks == plans[1].rewritten.blocks
    assert [b.biased for b in one.blocks] == [()]
    assert [len(b.biased) for b in other.blocks] == [1]


# --- both ends reach whoever asks ----------------------------------------------------------------


@pytest.fixture(name="asked")
def _asked(tmp_path: Path) -> Iterator[Proxy]:
    with opened(tmp_path) as proxy:
        yield proxy


def halves_of(answer: Answer, place: int) -> list[tuple[float, float]]:
    found = [halves and halves[place] for halves in answer.halves]
    assert found
    assert all(found)
    return [half for half in found if half]


@pytest.mark.full("opens a proxy for each item")
def test_counts_reach_farther_up_than_down(asked: Proxy) -> None:
    answer = asked.ask(request(BY_MONTH, "4"))
    for (below, above), margins, errors, row, ends in zip(
        halves_of(answer, 1), answer.margins, answer.errors, answer.rows, answer.intervals,
        strict=True,
    ):  # fmt: skip
        assert errors[1] is not None
        assert isclose(below, 1.96 * errors[1], rel_tol=0.02)
        assert below < above == margins[1]
        assert ends == (None, (row[1] - below, row[1] + above))
    (scaled,) = (notice for notice in answer.notices if isinstance(notice, Scaled))
    assert scaled.side is CutSide.ABOVE


@pytest.mark.full("opens a proxy for each item")
def test_numbers_of_either_sign_reach_as_far_on_both_sides(asked: Proxy) -> None:
    answer = asked.ask(request(SIGNED, "4"))
    for (below, above), errors in zip(halves_of(answer, 1), answer.errors, strict=True):
        assert errors[1] is not None
        assert below == above > 1.6 * errors[1]


FURTHER = pytest.mark.full("opens a proxy for each item")
FURTHER_OUTER = [
    ("SELECT 2 * n + 1 AS x FROM ({}) AS t", True, False),
    ("SELECT SUM(n) AS x FROM ({}) AS t", True, False),
    ("SELECT MAX(n) AS x FROM ({}) AS t", True, False),
    ("SELECT n * n AS x FROM ({}) AS t", True, False),
    ("SELECT SUM(n) OVER (ORDER BY m) AS x FROM ({}) AS t", True, False),
    ("SELECT LAG(n) OVER (ORDER BY m) AS x FROM ({}) AS t WHERE m > 1", True, False),
    ("SELECT a.n - b.n AS x FROM ({0}) AS a JOIN ({0}) AS b ON a.m = b.m + 1", True, True),
    ("SELECT n AS x FROM ({}) AS t WHERE n > 1 ORDER BY n LIMIT 3", True, False),
]


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    ("sql", "up", "down"),
    [
        ("SELECT -n AS x FROM ({}) AS t", False, True),
        ("SELECT AVG(n) AS x FROM ({}) AS t", True, False),
        ("SELECT n AS x FROM ({0}) AS t UNION ALL SELECT n FROM ({0}) AS u", True, False),
        ("SELECT n / SUM(n) OVER () AS x FROM ({}) AS t", True, True),
        *(pytest.param(*outer, marks=FURTHER) for outer in FURTHER_OUTER),
    ],
)
def test_ends_are_carried_through_the_outer_query(
    asked: Proxy,
    sql: str,
    up: bool,  # noqa: FBT001
    down: bool,  # noqa: FBT001
) -> None:
    answer = asked.ask(request(sql.format(BY_MONTH.removesuffix(" ORDER BY m")), "4"))
    factor, widened = 2.0, {"below": 0, "above": 0}
    for (below, above), errors in zip(halves_of(answer, 0), answer.errors, strict=True):
        error = errors[0]
        if error is None or isnan(error):
            continue
        factor = min(factor, below / error, above / error)
        widened["below"] += below > above * (1 + 1e-9)
        widened["above"] += above > below * (1 + 1e-9)
    assert factor > 1.6
    assert (widened["above"] > 0, widened["below"] > 0) == (up, down) or (up and down)


@pytest.mark.full("draws random questions or values")
def test_ratios_and_averages_are_wider_than_their_noise(asked: Proxy) -> None:
    ratio = "SUM(EXTRACT(day FROM day)) / COUNT(*)"
    sql = f"SELECT AVG(EXTRACT(day FROM day)) AS a, {ratio} AS r FROM logins"
    answer = asked.ask(request(sql, "4"))
    for place in range(2):
        ((below, above),) = halves_of(answer, place)
        error = answer.errors[0][place]
        assert error is not None
        assert max(below, above) >= 1.95 * error


@pytest.mark.full("opens a proxy for each item")
def test_stated_ends_are_those_of_the_answer(asked: Proxy) -> None:
    sql = f"SELECT n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM ({BY_MONTH}) AS t"
    answer = asked.ask(request(sql, "4"))
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        assert ends[0] is not None
        assert row[1:] == pytest.approx(ends[0])


@pytest.mark.full("opens a proxy for each item")
def test_machine_formats_have_both_ends(asked: Proxy) -> None:
    answer = asked.ask(request(BY_MONTH, "4"))
    for row, ends in zip(json.loads(records.json_array(answer)), answer.intervals, strict=True):
        assert (row["n_low"], row["n_high"]) == ends[1]
        assert row["m_low"] is None
    shown = table(answer).text.splitlines()[2]
    assert " … " in shown
    assert "±" not in shown


@pytest.mark.full("opens a proxy for each item")
def test_unknown_ends_are_null_and_never_nan(asked: Proxy) -> None:
    answer = asked.ask(request("SELECT DISTINCT COUNT(*) AS n FROM logins", "4"))
    (row,) = json.loads(records.json_array(answer))
    assert (row["n_low"], row["n_high"]) == (None, None)


@pytest.mark.full("opens servers or connects clients")
def test_cursors_have_intervals_beside_margins(tmp_path: Path) -> None:
    path = proxy_kit.shop(tmp_path, tables=crowd(400, most=8))
    with dpsql.connect(str(path), analyst="ana") as connection:
        connection.proxy.vault.sampler = partial(mechanisms.sample, entropy=ENTROPY)
        cursor = connection.execute(BY_MONTH)
        for row, margins, ends in zip(
            cursor.fetchall(), cursor.margins, cursor.intervals, strict=True
        ):
            assert ends[1] is not None
            low, high = ends[1]
            assert low < row[1] < high
            assert high - row[1] == pytest.approx(margins[1])


@pytest.mark.full("draws random questions or values")
def test_a_remembered_answer_has_the_same_ends(asked: Proxy) -> None:
    first, again = (asked.ask(request(BY_MONTH, "4")) for _ in range(2))
    assert again.receipt is not None
    assert again.receipt.remembered
    assert (first.rows, first.halves) == (again.rows, again.halves)


@pytest.mark.full("opens a proxy for each item")
def test_the_largest_groups_of_a_paid_question_are_free(
    asked: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone they would have another limit, which the wrong twin asks for."""

    def by_groups(poll: Poll, *_of: object) -> tuple[FoundNorm, float]:
        return FoundNorm(poll.key, 64 * poll.groups, 0, visible=True), 1.0

    monkeypatch.setattr(contribution_bounds, "_of_total", by_groups)
    by_month = BY_MONTH.removesuffix(" ORDER BY m")
    largest = request(f"{by_month} ORDER BY n DESC LIMIT 1", "1")
    rows = asked.ask(request(BY_MONTH, "1")).rows
    with monkeypatch.context() as twin:
        twin.setattr(Prepared, "of_all_groups", property(lambda plan: plan))
        assert asked.explain(largest).charge.amount > 0
    assert asked.explain(largest).charge.amount == 0
    answer = asked.ask(largest)
    assert answer.receipt is not None
    assert answer.receipt.charged.amount == 0
    assert answer.rows == (max(rows, key=lambda row: row[1]),)


@pytest.mark.full("opens a proxy for each item")
def test_a_large_bias_is_called_a_guess(asked: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    best = clipping_bias.best_bound

    def guessed(*arguments: object) -> object:
        found = best(*arguments)  # type: ignore[arg-type]
        return replace(found, bias=replace(found.bias, guess=True))

    monkeypatch.setattr(contribution_bounds, "best_bound", guessed)
    text = table(asked.ask(request(BY_MONTH, "4"))).text
    assert "The low end holds; the high end is a guess" in text
    assert "The owner may declare max_per_unit." in text
