"""The demonstrations of the local model: they run, and their statistics are right."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from dpsql.mechanisms.randomized_response import two_coins
from examples.local import collect
from examples.local.ab_test import Rate, difference, main, needed

ROOT = Path(__file__).parent.parent
NAMES = sorted(p.stem for p in (ROOT / "examples" / "local").glob("*.py") if p.stem != "scene")


def printed(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_module(f"examples.local.{name}", run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_demonstrations_have_a_line(name: str) -> None:
    assert f"`examples.local.{name}`" in (ROOT / "examples" / "README.md").read_text("utf-8")


@pytest.mark.full("starts processes")
def test_the_occupation_errs_as_the_formulas_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed("occupation", monkeypatch, capsys)
    assert re.findall(r"nobody has +([\d.]+)", text) == ["105.80", "135.34", "156.27"]
    stated = [float(number) for number in re.findall(r"stated +([\d.]+)", text)]
    assert stated == pytest.approx([121.3, 143.0, 156.3, 0.53], rel=0.01)


@pytest.mark.full("starts processes")
def test_two_coins_and_visits_say_what_they_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    coins = printed("two_coins", monkeypatch, capsys)
    assert "one standard error is 0.6" in coins
    grid = printed("visits", monkeypatch, capsys).splitlines()
    assert grid[0].split() == ["truth", "local", "central"]
    films = printed("recommend", monkeypatch, capsys)
    assert len(re.findall(r"ε = [\d.]+: .* of 12", films)) == 2
    assert "central 0.7" in grid[-1] or "central 0.6" in grid[-1]


@pytest.mark.full("starts processes")
def test_the_ab_test_prints_both_models(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    text = capsys.readouterr().out
    assert re.search(r"local +difference [\d.-]+% ± 2\.5\d%   p = ", text)
    assert re.search(r"central +difference [\d.-]+% ± 0\.8\d%   p = ", text)
    assert "local 14,853, central 1,788, without privacy 1,772" in text


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.tools
def test_what_is_collected_is_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    """What takes long is the disk: 400 posts, one after the other."""
    collect.main()
    text = capsys.readouterr().out
    assert "400 posts of 200 people were acknowledged" in text
    assert text.count("100 reports are sealed") == 2
    assert re.search(r"\d+ of them paid a bribe, ± 2\d; it was 160", text)


def drawn(rates: tuple[float, float], people: int, repeats: int) -> list[list[Rate]]:
    """Surveys of fresh people by two coins, with the error that reports make."""
    random, law = np.random.default_rng(5), two_coins(2)
    arms = []
    for rate in rates:
        clicked = random.binomial(people, rate, repeats)
        said = random.binomial(clicked, 0.75) + random.binomial(people - clicked, 0.25)
        share = (said / people - 0.25) / 0.5
        arms.append([Rate(r, people, law.deviation(people) / people) for r in share.tolist()])
    return [list(pair) for pair in zip(*arms, strict=True)]


@pytest.mark.full("thousands of releases are sampled")
def test_intervals_hold_the_difference_in_95_of_100_and_the_sample_finds_it_in_80() -> None:
    people = needed(sum((0.25 + r / 2) * (0.75 - r / 2) * 4 for r in (0.3, 0.4)), 0.1)
    told = [difference(*pair) for pair in drawn((0.3, 0.4), people, 4_000)]
    covered = np.mean([abs(apart - 0.1) <= half for apart, half, _ in told])
    assert 0.94 <= covered <= 0.96
    assert np.mean([p < 0.05 for *_, p in told]) == pytest.approx(0.8, abs=0.03)
    nothing = [difference(*pair)[2] for pair in drawn((0.3, 0.3), people, 4_000)]
    assert np.mean(np.array(nothing) < 0.05) == pytest.approx(0.05, abs=0.015)


def test_wrong_twin_an_interval_of_the_sample_alone_does_not_hold_it() -> None:
    pairs = drawn((0.3, 0.4), 2_000, 1_000)
    alone = [[Rate(rate.rate, rate.people, 0.0) for rate in pair] for pair in pairs]
    held = [abs(d[0] - 0.1) <= d[1] for d in (difference(*pair) for pair in alone)]
    assert np.mean(held) < 0.75
