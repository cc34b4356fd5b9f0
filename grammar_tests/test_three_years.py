"""Budgets under a board that is refreshed every day: periods, windows, neither (R103, R110)."""

from __future__ import annotations

import pytest

from benchmarks.three_years import Scale, over_periods, over_windows, summary
from dpsql.ledgers import debits

Patch = pytest.MonkeyPatch


def be_silent(_text: str) -> None:
    """Print nothing."""


def check_periods(scale: Scale) -> None:
    lasted = over_periods(scale, be_silent)
    print(*summary(lasted))  # noqa: T201 - for the report
    assert lasted.whole == scale.days
    assert lasted.worst <= 1.1
    assert not lasted.overspent
    assert lasted.seen["closed months: free"] > 0
    assert lasted.seen["closed months: charged"] == 0
    assert lasted.seen["present month: charged"] == scale.days * scale.charts
    assert lasted.seen["present month: free"] == 0  # its data is new every day
    assert lasted.seen["drill-downs: free"] > 0
    assert lasted.seen["drill-downs: charged"] == lasted.seen["drill-downs: refused"] == 0
    assert lasted.seen["other drill-downs: charged"] > 0


@pytest.mark.full("a month of boards")
@pytest.mark.parametrize("charts", [1, pytest.param(2, marks=pytest.mark.campaign)])
def test_a_divided_month_lasts_and_closed_months_are_free(charts: int) -> None:
    check_periods(Scale(30, charts=charts, months=1, drills=4, analysts=2))


@pytest.mark.campaign
def test_a_lifetime_ends_a_board_that_renews() -> None:
    lasted = over_windows(Scale(22, charts=1), "0.4", "0.15", "0.45")
    assert 10 < lasted.whole < 20
    assert not lasted.overspent


@pytest.mark.campaign
def test_a_lifetime_that_is_not_compared_is_overspent(monkeypatch: Patch) -> None:
    whole = debits._require_fits

    def fits(state: object, charge: object, ceiling: object) -> None:
        if getattr(ceiling, "renews", None) is not None:
            whole(state, charge, ceiling)  # type: ignore[arg-type]

    monkeypatch.setattr(debits, "_require_fits", fits)
    assert over_windows(Scale(22, charts=1), "0.4", "0.15", "0.45").overspent


@pytest.mark.campaign
def test_ten_charts_without_periods_last_twelve_days() -> None:
    assert over_windows(Scale(20, charts=10), "1.0", "0.1").whole == 12


@pytest.mark.campaign
def test_three_years_of_boards() -> None:
    check_periods(Scale(1095, charts=5, months=24, drills=5, analysts=3, every=30))
    lasted = over_windows(Scale(1095, charts=5), "1.0", "0.1", "12.0")
    assert lasted.whole < 1095
    assert not lasted.overspent
