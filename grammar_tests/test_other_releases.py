"""Releases made elsewhere: `dpsql budget` and the officer's page add them to all budgets."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.model.errors import PolicyError
from dpsql.policy.load import load
from dpsql.policy.other_releases import total_guarantee
from grammar_tests.proxy_kit import shop

CENSUS = '[releases.census]\nepsilon = 2.5\ndelta = 1e-7\nabout = "Tables of 2024"\n\n[ledger]'


def as_document(folder: Path, ledger: str = "[ledger]") -> Any:
    shop(folder, ("[ledger]", ledger))
    options = ["budget", "--policy", str(folder / "dpsql.toml"), "--format", "json"]
    return json.loads(CliRunner().invoke(main, options).stdout)


@pytest.mark.full("starts processes")
def test_other_releases_are_listed_and_added(tmp_path: Path) -> None:
    alone, more = as_document(tmp_path), as_document(tmp_path, CENSUS)
    assert alone["releases"] == []
    assert more["releases"] == [
        {"name": "census", "epsilon": 2.5, "delta": 1e-7, "about": "Tables of 2024"}
    ]
    assert more["together"]["epsilon"] == alone["together"]["epsilon"] + 2.5
    assert more["together"]["delta"] == pytest.approx(alone["together"]["delta"] + 1e-7)
    told = CliRunner().invoke(main, ["budget", "--policy", str(tmp_path / "dpsql.toml")]).stdout
    assert "All of this together: at most ε = " in told


@pytest.mark.parametrize(
    "text", ["epsilon = 0", "delta = 1e-6", "epsilon = 1\nunknown = 2", "epsilon = 1\nabout = 3"]
)
def test_a_release_without_a_guarantee_is_refused(tmp_path: Path, text: str) -> None:
    path = shop(tmp_path, ("[ledger]", f"[releases.census]\n{text}\n\n[ledger]"))
    with pytest.raises(PolicyError):
        load(str(path))


MONTHLY = 'renews = "month"\ntime_zone = "UTC"\n'
LIFETIME = MONTHLY + "lifetime_epsilon = 4000\nlifetime_delta = 1e-2"
TRUSTED = '[ledger]\nclock = "trusted"\n'


def total(folder: Path, budget: str = "", unit: str = "", clock: str = "") -> Any:
    """The sum over the shop's budget, with more keys in its tables and one other release."""
    changes = [
        ("[budgets.default]", f"[budgets.default]\n{budget}"),
        ("[privacy_unit]", f"[privacy_unit]\n{unit}"),
        ("[ledger]", CENSUS.replace("[ledger]", clock or "[ledger]")),
    ]
    return total_guarantee(load(str(shop(folder, *changes))))


def test_what_everything_promises_together(tmp_path: Path) -> None:
    pot = total(tmp_path)[0] - Decimal("2.5")
    assert total(tmp_path, unit="epsilon = 1.5\ndelta = 1e-8")[0] == Decimal(4)
    assert total(tmp_path, LIFETIME)[0] == Decimal("4002.5") != pot + Decimal("2.5")
    assert total(tmp_path, MONTHLY + 'lifetime = "unbounded"', clock=TRUSTED) is None
