"""Models of people in one period: charged to it, and lost with its data (PRIVACY.md R103)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpsql.compiler.resolve import person_periods
from dpsql.engines import Stop
from dpsql.interfaces.plan_text import plan_text
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import in_blocks
from dpsql.systems.models import models, moments_plan
from dpsql.systems.models.models import ListModels
from grammar_tests.model_kit import wish
from grammar_tests.period_worlds import BLOCKS, world
from grammar_tests.proxy_kit import request
from grammar_tests.test_period_budgets import COUNT, opened
from grammar_tests.test_period_budgets import folder as folder  # noqa: PLC0414 - a fixture
from grammar_tests.test_period_cubes import spent
from grammar_tests.test_person_periods import FEBRUARY, moved, one_too_few
from grammar_tests.test_renewals import Clock
from grammar_tests.test_renewals import clock as clock  # noqa: PLC0414 - a fixture

Patch = pytest.MonkeyPatch
ROWS = f"SELECT minutes, kind FROM events WHERE {FEBRUARY}"
LINEAR = "CREATE MODEL m OPTIONS(model_type = 'linear_reg', label = 'minutes') AS "
LOGISTIC = (
    "CREATE MODEL g OPTIONS(model_type = 'logistic_reg', label = 'b', method = 'gradient',"
    " steps = 3) AS "
)
ABOUT_B = f"SELECT kind = 'b' AS b, minutes FROM events WHERE {FEBRUARY}"
PREDICTED = "SELECT AVG(PREDICT(m, kind)) AS p FROM events WHERE seen < '2024-02-01'"


def lasting(folder: Path, clock: Clock) -> list[str]:
    """What is wrong with the charges of a model of February, and with how long it lasts."""
    wrong = []
    with opened(folder, clock) as proxy:
        price = proxy.explain(request(LINEAR + ROWS)).charge.amount
        for _ in range(2):
            proxy.ask(request(LINEAR + ROWS))
            paid = {name: price * (name == "2024-02") for name in BLOCKS}
            wrong += ["charge"] * (spent(proxy) != paid)
        plan = plan_text(proxy.explain(request(PREDICTED)))
        wrong += ["prediction"] * ("Periods: 2024-01, elsewhere" not in plan)
        proxy.refresh(["2024-03"])
        wrong += ["kept"] * ([each.name for each in proxy.run(ListModels("ana"))] != ["m"])
        proxy.refresh(["2024-02"])
        wrong += ["old"] * (proxy.run(ListModels("ana")) != [])
        proxy.ask(request(LINEAR + ROWS))
        wrong += ["again"] * (spent(proxy)["2024-02"] != 2 * price)
        proxy.ask(request("DROP MODEL m"))
        wrong += ["dropped"] * (proxy.run(ListModels("ana")) != [])
        assert proxy.ledger.verify()
    return wrong


@pytest.mark.full("a proxy, and models")
def test_a_model_of_a_period_is_charged_to_it_and_ends_with_its_data(
    folder: Path, clock: Clock
) -> None:
    assert lasting(folder, clock) == []


@pytest.mark.full("a proxy, and models")
def test_a_model_that_outlives_its_data_is_found(
    folder: Path, clock: Clock, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(models, "data_of", lambda _: None)
    assert "old" in lasting(folder, clock)


@pytest.mark.full("a proxy, and models")
def test_a_model_of_several_periods_is_refused(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        for text in (LINEAR + ROWS.partition(" WHERE ")[0], f"{LINEAR}SELECT minutes FROM events"):
            for step in (proxy.ask, proxy.explain):
                with pytest.raises(Refused, match="over several periods") as caught:
                    step(request(text))
                assert caught.value.reason is Reason.UNSUPPORTED_PRIVATE_OPERATOR
        assert proxy.ledger.history() == ()
        proxy.ask(request(LOGISTIC + ABOUT_B))
        assert [entry.periods for entry in proxy.ledger.history()] == [("2024-02",)]
        proxy.ask(request(COUNT))


@pytest.mark.full("a proxy, and models")
def test_rows_of_other_periods_do_not_change_a_model(
    folder: Path, clock: Clock, monkeypatch: Patch
) -> None:
    with opened(folder, clock) as proxy:
        assert proxy.standings()  # at ledger time
        plan = moments_plan.planned(proxy.compiler, wish(ROWS, "0.5"), Stop())
    assert plan.payer.periods is not None
    assert plan.payer.periods.names == ("2024-02",)
    sums = moments_plan._text(plan.layout, plan.rows)
    assert moved(sums, 0) == []
    unfiltered = lambda rule, time, kind, _: in_blocks(rule, time, kind, rule.blocks)  # noqa: E731
    one_too_few(monkeypatch)
    assert moved(sums, 0, at=world(1, most=2)) == []  # the filter holds
    monkeypatch.setattr(person_periods, "in_blocks", unfiltered)
    assert "2024-02 is not charged" in moved(sums, 0)
