"""The attacks of examples/attacks: each succeeds without noise, and through dpsql as ε allows.

A run is right about a number of targets. By (ε, 0) it is more than `most_right` in one of a million
runs at most, whatever the attack; the seeds are those of the worlds, and never of dpsql's noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import exp
from pathlib import Path

import numpy as np
import pytest

from examples.attacks.scene import (
    Outcome,
    Published,
    Scene,
    allowed,
    at_least,
    main,
    most_right,
    scene,
)
from grammar_tests import clopper_pearson

ROOT = Path(__file__).parent.parent
SHARED = {"scene"}
NAMES = sorted(p.stem for p in (ROOT / "examples" / "attacks").glob("*.py") if p.stem not in SHARED)
EPSILON = 0.5
EPSILONS = {"promised": EPSILON, "loud": 1e6}
"""The budgets: as it is promised, and one that leaves next to no noise."""
WORLDS = {"membership": (36, 36, "add_remove")}
TARGETS = {"linkage": 100, "averaging": 40, "differencing": 40, "reconstruction": 50}
"""How many of the world's targets an attack is after: what it needs to succeed beyond doubt."""


Stages = Callable[[str], Scene]


@pytest.fixture(scope="module")
def stages() -> Iterator[Stages]:
    """The world of an attack; those of one size share it, each with budgets of its own."""
    budgets = {f"{name}_{kind}": e for name in NAMES for kind, e in EPSILONS.items()}
    with ExitStack() as open_:

        @cache
        def world(patients: int, targets: int, neighbours: str) -> Scene:
            there = scene(patients, targets, EPSILON, seed=1, neighbours=neighbours, others=budgets)
            return open_.enter_context(there)

        yield lambda name: world(*WORLDS.get(name, (2_000, 100, "replace")))


def outcomes(name: str, kind: str, stage: Scene) -> dict[Published, Outcome]:
    """What an attack achieves, where dpsql has the budget of this kind."""
    rng = np.random.default_rng(1)
    secrets, epsilon = stage.secrets[: TARGETS.get(name)], EPSILONS[kind]
    paid = replace(stage, analyst=f"{name}_{kind}", epsilon=epsilon)
    stage = replace(paid, secrets=secrets, rng=rng)
    results = import_module(f"examples.attacks.{name}").attack(stage)
    return {outcome.published: outcome for outcome in results}


def within(outcome: Outcome) -> bool:
    """Whether an attacker is right no more often than the promise explains."""
    return outcome.right <= most_right(outcome.targets, EPSILON)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("name", NAMES)
def test_only_dpsql_withstands(name: str, stages: Stages) -> None:
    """Its wrong twin is dpsql with next to no noise, which must not pass for the promised ε."""
    by, loud = (outcomes(name, kind, stages(name)) for kind in EPSILONS)
    assert by.keys() >= {Published.PLAIN, Published.K_ANONYMOUS, Published.DPSQL}
    assert within(by[Published.DPSQL])
    assert not within(loud[Published.DPSQL])
    for published, outcome in by.items():
        # The regression's coefficients tell less than the moments, in a world of 30.
        if published not in (Published.DPSQL, Published.COEFFICIENTS):
            assert not within(outcome), outcome


def test_what_is_allowed_follows_from_the_promise() -> None:
    assert allowed(0) == 1 / 2
    assert allowed(EPSILON) == pytest.approx(exp(EPSILON) / (1 + exp(EPSILON)))
    assert allowed(0, 1e-6) == pytest.approx(1 / 2 + 1e-6 / 2)
    for targets in (1, 40, 100):
        most, share = most_right(targets, EPSILON), allowed(EPSILON)
        assert at_least(most + 1, targets, share) < 1e-6
        assert most == targets or at_least(most, targets, share) >= 1e-6
        assert at_least(most, targets, share) == pytest.approx(
            clopper_pearson.at_least(most, targets, share)
        )


@pytest.mark.parametrize("name", NAMES)
def test_attacks_have_a_line(name: str) -> None:
    assert f"`examples.attacks.{name}`" in (ROOT / "examples" / "README.md").read_text("utf-8")


@pytest.mark.full("processes are started and killed")
@pytest.mark.skipif(find_spec("matplotlib") is None, reason="the extra plot is not installed")
def test_an_attack_is_a_program_that_prints_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def attack(stage: Scene) -> list[Outcome]:
        no = ~stage.secrets
        return [stage.outcome(Published.PLAIN, ~no), stage.outcome(Published.DPSQL, no)]

    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", ["attack", "-o", str(picture), "--epsilon", "1"])
    main("attack", attack, patients=30, targets=20)
    import_module("matplotlib.pyplot").close("all")
    plain, through, _ = capsys.readouterr().out.splitlines()
    assert plain == "plain SQL: 20 of 20 right (100 %)"
    assert through.startswith("dpsql: 0 of 20 right (0 %); ε = 1 allows 73 % on average, and more")
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
