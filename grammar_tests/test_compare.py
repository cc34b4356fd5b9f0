"""`dpsql budget compare`: the same charges under five accountants, as bars, numbers and curves."""

from __future__ import annotations

import csv
import io
import json
import sys
from contextlib import closing
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpsql.accountants import reports
from dpsql.interfaces.cli import main
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.mechanisms.calibration import gaussian, laplace
from dpsql.model.errors import MissingExtra
from dpsql.model.vocabulary import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    EventPart,
    Loss,
    NoiseEvent,
    SelectionEvent,
    Sensitivity,
)
from dpsql.policy.load import load
from grammar_tests.ledger_kit import charge
from grammar_tests.proxy_kit import policy
from grammar_tests.test_reports import DELTA, of_peer

ONE = Sensitivity(1, 0, 1)
NOISE = NoiseEvent(gaussian(1, Fraction(1, 200)), ONE)
WAYS = ["basic", "advanced", "renyi", "zcdp", "pld"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy whose budget was charged thirty times, ten times by bob."""
    path = policy(tmp_path_factory.mktemp("compare"))
    with closing(SqliteLedger.open(load(str(path)).ledger.path)) as ledger:
        for n in range(30):
            who = "bob" if n % 3 == 0 else "ana"
            asked = charge(f"q{n}", analyst=who, event=Event((NOISE,)), limit=Loss(10**9, 10**18))
            ledger.charge(asked)
    return path


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["budget", "compare", "--policy", str(path), *arguments])


def points(path: Path, *arguments: str) -> list[dict[str, Any]]:
    told = run(path, "--format", "json", *arguments)
    assert told.exit_code == 0, told.output
    (report,) = json.loads(told.stdout)
    found: list[dict[str, Any]] = report["points"]
    return found


@pytest.mark.full("further data sets, and all their neighbours")
def test_the_curves_are_what_the_charges_add_up_to(path: Path) -> None:
    found = points(path, "--delta", "1e-6")
    assert [point["charges"] for point in found][-2:] == [28, 30]
    last = found[-1]
    assert last["zcdp"] == reports.zcdp([Event((NOISE,))] * 30, DELTA)
    assert last["pld"] < last["zcdp"] < last["renyi"] < last["advanced"] <= last["basic"]
    for way in WAYS:
        curve = [point[way] for point in found]
        assert curve == sorted(curve)
    assert [point["charges"] for point in points(path, "--analyst", "bob")][-1] == 10
    lines = list(csv.DictReader(io.StringIO(run(path, "--format", "csv").stdout)))
    assert [line["charges"] for line in lines] == [str(point["charges"]) for point in found]


@pytest.mark.full("starts processes")
def test_a_terminal_shows_bars_and_a_file_the_curves(path: Path, tmp_path: Path) -> None:
    picture = tmp_path / "curves.svg"
    told = run(path, "default", "--plot", str(picture))
    assert told.stdout.startswith("budget default: the ε of 30 charges at δ = 0.001, of ε = 1000")
    bars = [line.count("#") for line in told.stdout.splitlines()[1:]]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] == 32
    assert "<svg" in picture.read_text()
    assert run(path, "default", "--plot", "curves.txt").exit_code == 2
    assert "no-such" in run(path, "no-such").stderr
    assert "nothing was charged" in run(path, "--analyst", "nobody").stdout


@pytest.mark.full("measures neighbours or further data sets")
def test_without_the_extra_four_are_shown_and_the_fifth_names_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    told = run(path, "--format", "json")
    assert "pip install 'dpsql[accounting]'" in told.stderr
    last = json.loads(told.stdout)[0]["points"][-1]
    assert last["pld"] is None
    assert last["zcdp"] > 0
    with pytest.raises(MissingExtra):
        reports.pld([], DELTA)


# --- PLD -------------------------------------------------------------------------------------


@pytest.mark.full("audits of further questions")
def test_pld_of_gaussians_is_what_one_gaussian_has() -> None:
    exact = of_peer("get_epsilon_gaussian")
    ours = reports.pld([Event((NOISE,))] * 30, DELTA)
    assert ours == pytest.approx(exact(10 / sqrt(30), float(DELTA)), rel=1e-3)
    assert ours >= exact(10 / sqrt(30), float(DELTA))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    "part",
    [
        NoiseEvent(laplace(1, Fraction(1, 20)), ONE),
        ApproximateEvent(Fraction(1, 20), Fraction(1, 10**9)),
        BoundedRangeEvent(Fraction(1, 20), 1),
    ],
)
def test_pld_of_steps_is_between_the_best_composition_and_basic(part: EventPart) -> None:
    each = of_peer("DifferentialPrivacyParameters", "dp_accounting.pld.common")(0.05, 0)
    best = of_peer("advanced_composition", "dp_accounting.pld.accountant")
    delta = DELTA - (50 * Fraction(1, 10**9) if isinstance(part, ApproximateEvent) else 0)
    ours = reports.pld([Event((part,))] * 50, DELTA)
    assert ours == pytest.approx(best(each, 50, float(delta)), rel=0.01)
    assert ours < 2.5


@pytest.mark.full("measures neighbours or further data sets")
def test_pld_counts_every_kind_of_event() -> None:
    mixed: list[EventPart] = [
        NOISE,
        NoiseEvent(laplace(1, Fraction(1, 50)), ONE),
        SelectionEvent(DELTA / 4),
    ]
    whole = reports.pld([Event(tuple(mixed))], DELTA)
    for n in range(3):
        assert reports.pld([Event((*mixed[:n], *mixed[n + 1 :]))], DELTA) < whole
    assert reports.pld([Event((SelectionEvent(DELTA),))], DELTA) == float("inf")
    assert reports.pld([], DELTA) == 0
