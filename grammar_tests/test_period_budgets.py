"""Budgets of people in periods: the ledger, the policy and the proxy (PRIVACY.md R103)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.budget_sheet import budgets_text
from dpsql.interfaces.messages import describe
from dpsql.interfaces.officer_report import report_sections
from dpsql.interfaces.plan_text import plan_json, plan_text
from dpsql.interfaces.receipts import cost_text
from dpsql.ledgers import Ceiling, Charge, altered, book, debits
from dpsql.ledgers.chain import EntryKind
from dpsql.ledgers.codec import decode_periods
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.model.calendars import Renewal
from dpsql.model.errors import LedgerError, PolicyError, Reason, Refused
from dpsql.model.periods import NO_TIME, ChargedPeriods, PeriodRule
from dpsql.model.vocabulary import Loss
from dpsql.policy.load import load
from dpsql.preparation.question import Cost, account, ceilings
from dpsql.proxy import Proxy
from grammar_tests import ledger_kit as kit
from grammar_tests import period_worlds
from grammar_tests.ledger_kit import charge
from grammar_tests.proxy_kit import request
from grammar_tests.test_renewals import SERVER, Clock
from grammar_tests.test_renewals import clock as clock  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import path as path  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import server as server  # noqa: PLC0414 - a fixture

Patch = pytest.MonkeyPatch
RULE = PeriodRule(Renewal.MONTH, "2026-08", (("events", "seen"),), "2026-11")
OTHER = PeriodRule(Renewal.QUARTER, "2026-Q3", RULE.of, "2026-Q4")
MOST = Loss(6, 10**6)


@pytest.fixture(params=["file", SERVER])
def ledger(
    request: pytest.FixtureRequest, path: Path, clock: Clock, monkeypatch: Patch
) -> Iterator[StoredLedger]:
    """A new ledger of each implementation."""
    if request.param == "file":
        with closing(SqliteLedger.open(str(path), clock=clock)) as opened:
            yield opened
        return
    on_server = kit.on_server(request.getfixturevalue("server"), path)
    monkeypatch.setattr(type(on_server._store), "clock", lambda *_: clock())
    with closing(on_server) as opened:
        yield opened


def of(
    query_id: str, *names: str, loss: int = 2, rule: PeriodRule = RULE, by: str = "ana"
) -> Charge:
    """A charge in some periods."""
    read = ChargedPeriods(rule, names, "seen")
    return charge(query_id, loss=Loss(loss), limit=MOST, periods=read, analyst=by)


def spent(ledger: StoredLedger, *names: str, rule: PeriodRule = RULE) -> list[int]:
    return [each.amount for each in ledger.spent_in("default", ChargedPeriods(rule, names, ""))]


# --- the ledger ---


def overspent(ledger: StoredLedger, seed: int) -> bool:
    """Whether a period was overspent, by the entries alone; what fits is never refused."""
    dice = Random(seed)  # noqa: S311
    for number in range(60):
        names = tuple(dice.sample(RULE.blocks, dice.randint(1, 4)))
        asked = of(f"q{number}", *names, loss=dice.randint(1, 3), by=dice.choice(["ana", "bob"]))
        fits = all(n + asked.loss.amount <= MOST.amount for n in spent(ledger, *names))
        with suppress(Refused):
            ledger.charge(asked)
            continue
        assert not fits
    ledger.verify()
    with ledger._reading() as opened:
        rows = opened.find(EntryKind.CHARGE, "TRUE")
    sums = Counter[str]()
    for row in rows:
        sums.update(dict.fromkeys(decode_periods(row.detail)[1], row.amount or 0))
    return max(sums.values()) > MOST.amount


@pytest.mark.parametrize("seed", range(3))
def test_no_period_is_overspent(ledger: StoredLedger, monkeypatch: Patch, seed: int) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 7)
    assert not overspent(ledger, seed)
    again = StoredLedger.over(ledger._store)
    assert spent(again, *RULE.blocks) == spent(ledger, *RULE.blocks)


def test_an_empty_period_that_is_not_compared_is_overspent(
    ledger: StoredLedger, monkeypatch: Patch
) -> None:
    whole = debits._sums_below
    monkeypatch.setattr(debits, "_sums_below", lambda *of: list(whole(*of))[:1])
    assert overspent(ledger, 0)


def test_all_periods_are_charged_or_none(ledger: StoredLedger) -> None:
    ledger.charge(of("q1", "2026-08", loss=5))
    with pytest.raises(Refused) as caught:
        ledger.charge(of("q2", "2026-09", "2026-08", "2026-10"))
    assert caught.value.reason is Reason.BUDGET_EXHAUSTED
    assert caught.value.facts["period"] == "2026-08"
    assert spent(ledger, *RULE.blocks) == [5, 0, 0, 0, 0, 0]
    ledger.charge(of("q3", "2026-09", "2026-10", NO_TIME))
    assert spent(ledger, *RULE.blocks) == [5, 2, 2, 0, 2, 0]
    assert ledger.spent("default") == Loss(11)
    assert ledger.history()[0].periods == ("2026-09", "2026-10", NO_TIME)
    assert ledger.verify()


def test_a_new_period_has_a_budget_and_an_old_one_stays_spent(
    ledger: StoredLedger, clock: Clock
) -> None:
    ledger.charge(of("q1", "2026-11", loss=6))
    clock.now += timedelta(days=40)
    ledger.charge(of("q2", "2027-01", rule=RULE.at("2027-01")))
    assert ledger.window(RULE.calendar).name == "2027-01"
    ledger.refresh()
    assert spent(ledger, "2026-11", "2027-01") == [6, 2]
    with pytest.raises(Refused):  # a row that comes late renews nothing
        ledger.charge(of("q3", "2026-11", loss=1))


def test_a_late_row_that_renews_is_found(ledger: StoredLedger, monkeypatch: Patch) -> None:
    """The sums of a period do not depend on the data; here they would."""
    from dpsql.ledgers import chain  # noqa: PLC0415

    whole: Any = vars(chain)["period_key"]
    fold = chain._Fold

    def debit(self: chain._Fold, row: chain.EntryRow) -> None:
        version = str(row.data_version)
        monkeypatch.setattr(chain, "period_key", lambda b, r, p: whole(b, r, p + version))
        kept(self, row)

    kept = fold._debit
    monkeypatch.setattr(fold, "_debit", debit)
    ledger.charge(of("q1", "2026-11", loss=6))
    ledger.refresh()
    assert spent(ledger, "2026-11") != [6]


def test_what_was_charged_otherwise_counts_in_every_period(ledger: StoredLedger) -> None:
    ledger.charge(charge("q1", loss=Loss(2), limit=MOST))
    for_periods = of("q2", "2026-08")
    with pytest.raises(Refused) as caught:  # the owner confirms that the limit is for a period
        ledger.charge(for_periods)
    assert caught.value.reason is Reason.LIMIT_CHANGED
    ledger.confirm(for_periods.ceilings[0], "periods")
    ledger.charge(for_periods)
    assert spent(ledger, "2026-08", "2026-09") == [4, 2]
    assert altered(ledger.confirmed(), of("q3", "2026-Q3", rule=OTHER).ceilings)
    ledger.confirm(of("q3", "2026-Q3", rule=OTHER).ceilings[0], "quarters")
    assert spent(ledger, "2026-Q3", "2026-Q4", rule=OTHER) == [4, 4]
    ledger.confirm(Ceiling("budget default", MOST, "default"), "no periods")
    assert ledger.spent("default") == Loss(4)


def test_a_charge_without_periods_is_no_charge_of_a_period(ledger: StoredLedger) -> None:
    limit = Ceiling("each period", MOST, "default", periods=RULE.text)
    with pytest.raises(LedgerError, match="names none"):
        ledger.charge(charge("q2", loss=Loss(1), limit=MOST, caps=(limit,)))
    ledger.charge(of("q1", "2026-08"))
    with pytest.raises(LedgerError, match="names none"):
        ledger.charge(replace(of("q2", "2026-Q3", rule=OTHER), budget="other", caps=(limit,)))
    assert ledger.spent("default") == Loss(2)


# --- the policy ---


def edited(folder: Path, *changes: tuple[str, str]) -> Path:
    text = period_worlds.TOML
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    folder.mkdir(exist_ok=True)
    written = folder / "dpsql.toml"
    written.write_text(text, "utf-8")
    return written


BUDGET = "[budgets.default]\n"
RENEWS = f'{BUDGET}renews = "month"\n'
CAP = 'epsilon = 1.0\nrenews = "month"\nlifetime_epsilon = 9.0\nlifetime_delta = 1e-2\n'
COLUMNS = 'columns = ["events.user_id", "orders.user_id"]'


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('every = "month"', 'every = "day"', "every is 'day'"),
        ('from = "2024-01"', 'from = "2024-13"', "2024-13 is no month"),
        ('from = "2024-01"', 'from = "2024"', "2024 is no month"),
        (', orders = "placed"', "", "orders has no time column"),
        ('orders = "placed"', 'orders = "when"', "orders.when is not listed"),
        ('orders = "placed"', 'orders = "placed", kinds = "label"', "kinds is not a private"),
        (BUDGET, f'{BUDGET}renews = "month"\n', "lifetime"),
        (BUDGET, f"{RENEWS}lifetime_epsilon = 9.0\nlifetime_delta = 1e-2\n", "two kinds"),
        ("[analysts.ana]\n", f"[analysts.ana]\n{CAP}", "analyst ana renews"),
        ('path = "periods.duckdb"', 'path = "p.duckdb"\nprepared = "p.store"', "prepared sums"),
        ("[ledger]", "[limits]\nmax_text_length = 50\n[ledger]", "max_text_length is shorter"),
        (COLUMNS, 'table = "events"\nkey = "event_id"', "needs the person's column"),
        ("place = {}", '"Person and period" = {}', "dpsql adds a column named person and"),
    ],
)  # fmt: skip
def test_policies_that_cannot_keep_periods(tmp_path: Path, old: str, new: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        load(str(edited(tmp_path, (old, new))))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("seen TIMESTAMP", "seen TIMESTAMPTZ", "no date and no time"),
        ("seen TIMESTAMP", "seen TIMESTAMP_NS", "no date and no time"),
        ("user_id INTEGER", "user_id VARCHAR", "neither a whole number nor a UUID"),
    ],
)
def test_columns_that_have_no_periods(tmp_path: Path, old: str, new: str, why: str) -> None:
    import duckdb  # noqa: PLC0415

    with duckdb.connect(str(tmp_path / "periods.duckdb")) as connection:
        for statement in period_worlds.SCHEMA:
            connection.execute(statement.replace(old, new))
    with pytest.raises(PolicyError, match=why):
        Proxy.open(str(edited(tmp_path)))


def test_an_engine_that_has_no_periods(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="spark is not supported with period"):
        Proxy.open(str(edited(tmp_path, ('engine = "duckdb"', 'engine = "spark"'))))


# --- the proxy ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    period_worlds.database(0, str(tmp_path / "periods.duckdb")).close()
    edited(tmp_path)
    return tmp_path


def opened(folder: Path, clock: Clock, day: datetime = datetime(2024, 3, 5, tzinfo=UTC)) -> Proxy:
    """The world in its third month."""
    clock.now = day
    proxy = Proxy.open(str(folder / "dpsql.toml"))
    assert isinstance(proxy.ledger, SqliteLedger)
    proxy.ledger._clock = clock
    return proxy


COUNT = "SELECT COUNT(*) AS n FROM events"
JANUARY = f"{COUNT} WHERE seen >= '2024-01-01' AND seen < '2024-02-01'"


@pytest.mark.full("opens a proxy for each item")
def test_receipts_and_plans_name_the_periods(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        plan = plan_text(proxy.explain(request(f"{COUNT} WHERE seen >= '2024-01-01'")))
        assert "Periods: 2024-01 to 2024-03, elsewhere; each of these 4 is charged." in plan
        assert "For a person with rows in all 4, ε is 4 times as large" in plan
        document = json.loads(plan_json(proxy.explain(request(JANUARY))))
        assert document["periods"] == ["2024-01"]
        assert "Period: 2024-01; other rows are not read." in plan_text(
            proxy.explain(request(JANUARY))
        )
        receipt = cost_text(proxy.ask(request(JANUARY)).receipt)
        assert re.search(r"ε = 0.5 in 2024-01 \(.*budget default in 2024-01: ", receipt)
        again = proxy.ask(request(JANUARY)).receipt
        assert again is not None
        assert again.remembered
        sheet = budgets_text(proxy)
        assert all(f"default in {name}" in sheet for name in period_worlds.BLOCKS)
        sections = report_sections(proxy, clock.now - timedelta(days=1), clock.now, clock.now)
        assert "what one user_id did in one month" in str(sections)
        assert len(proxy.budgets()) == 1


def until_refused(proxy: Proxy) -> Refused:
    """Spend the budget of January, and return the refusal."""
    for number in range(100):
        try:
            proxy.ask(request(f"{JANUARY} AND minutes > {number}"))
        except Refused as refused:
            return refused
    raise AssertionError("January was never empty")


@pytest.mark.full("opens a proxy for each item")
def test_an_empty_period_is_left_out_by_the_offer(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        alone = until_refused(proxy)
        assert "cannot pay for this query in the period 2024-01" in str(describe(alone))
        assert alone.offer is None
        with pytest.raises(Refused) as caught:
            proxy.ask(request(f"{COUNT} WHERE minutes < 0"))
        assert "Leave 2024-01 out" in str(describe(caught.value))
        offer = caught.value.offer
        assert offer is not None
        paid = proxy.ask(request(offer.sql)).receipt
        assert paid is not None
        assert paid.periods is not None
        assert paid.periods.names == ("2024-02", "2024-03", "elsewhere")


@pytest.mark.full("opens a proxy for each item")
def test_a_question_about_people_gets_an_offer_of_one_period(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        with pytest.raises(Refused) as caught:
            proxy.ask(request("SELECT COUNT(DISTINCT user_id) AS n FROM events"))
        assert caught.value.offer is not None
        assert "seen >= DATE '2024-02-01' AND" in caught.value.offer.sql
        assert proxy.explain(request(caught.value.offer.sql)).periods is not None


@pytest.mark.full("opens a proxy for each item")
def test_ledger_time_opens_the_next_period(folder: Path, clock: Clock) -> None:
    late = f"{COUNT} WHERE seen >= '2024-04-01'"
    with opened(folder, clock) as proxy:
        before = proxy.explain(request(late)).periods
        clock.now += timedelta(days=30)
        after = proxy.explain(request(late)).periods
        clock.now -= timedelta(days=60)
        assert before is not None
        assert after is not None
        assert before.names == ("elsewhere",)
        assert after.names == ("2024-04", "elsewhere")
        proxy.ask(request(JANUARY))
        assert proxy.ledger.window(before.rule.calendar).name == "2024-02"


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    "text",
    [
        "CREATE SYNTHETIC TABLE s AS SELECT kind FROM events",
    ],
)
def test_what_has_no_proof_is_refused_by_name(folder: Path, clock: Clock, text: str) -> None:
    with opened(folder, clock) as proxy:
        for step in (proxy.ask, proxy.explain):
            with pytest.raises(Refused) as caught:
                step(request(text))
            assert "over periods of people" in str(caught.value.facts.get("construct"))
        assert proxy.ledger.history() == ()


@pytest.mark.full("opens a proxy for each item")
def test_no_charge_forgets_its_periods(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        payer = account(proxy.policy, "ana")
        plan = proxy.explain(request(JANUARY))
        assert plan.event is not None
        cost = Cost("question", plan.event, plan.charge)
        with pytest.raises(Refused, match="over periods of people"):
            payer.charge("q1", cost, "", kit.PLAIN.inquiry)
        (limit,) = ceilings(proxy.policy)
        assert limit.periods == "month from 2024-01"


@pytest.mark.full("starts processes")
def test_the_owner_confirms_other_periods(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        proxy.ask(request(JANUARY))
    edited(folder, ('from = "2024-01"', 'from = "2023-12"'))
    said = r"\[privacy_unit\] period was month from 2024-01, and is now month from 2023-12"
    with pytest.raises(PolicyError, match=said), opened(folder, clock):
        pass
    policy = ["--policy", str(folder / "dpsql.toml")]
    told = CliRunner().invoke(main, ["budget", "confirm", *policy, "--reason", "older rows"])
    assert told.exit_code == 0, told.output
    with opened(folder, clock) as proxy:
        first = proxy.ask(request(f"{JANUARY} AND minutes > 0")).receipt
        assert first is not None
        assert first.spent.amount > first.charged.amount  # what was charged before counts on


ROLES = """
[roles.analysts]
analysts = ["ana"]
tables.events.rows = "kind = 'a'"
tables.orders.columns = ["order_id", "amount"]

[ledger]"""


@pytest.mark.full("takes half a second and more")
def test_roles_and_bounds_that_are_found_keep_periods(folder: Path, clock: Clock) -> None:
    limits = "max_rows_per_unit = 20\nmax_groups_per_unit = 1\nmax_rows_per_group = 20\n"
    edited(folder, (limits, ""), ("[ledger]", ROLES))
    people = "SELECT COUNT(DISTINCT user_id) AS n FROM events"
    with opened(folder, clock) as proxy:
        proxy.ask(request(COUNT))
        proxy.ask(request(f"{people} WHERE seen >= '2024-01-01' AND seen < '2024-02-01'"))
        charges = proxy.ledger.history()
        assert [each.periods for each in charges] == [("2024-01",)] + [period_worlds.BLOCKS] * 2
        with pytest.raises(Refused, match="several periods"):
            proxy.ask(request(people))
        with pytest.raises(Refused) as caught:  # not granted, in any number of periods
            proxy.ask(request("SELECT COUNT(DISTINCT user_id) AS n FROM orders"))
        assert caught.value.reason is Reason.UNKNOWN_COLUMN


@pytest.mark.full("a month of dashboards")
def test_charts_over_closed_months_charge_nothing_again(folder: Path, clock: Clock) -> None:
    """Thirty days: charts of closed months are paid once, also when the next month begins."""
    closed = [JANUARY, f"{COUNT} WHERE seen >= '2024-02-01' AND seen < '2024-03-01'"]
    daily = "SELECT COUNT(*) AS n FROM events WHERE seen >= '2024-03-{:02}' AND seen < '2024-04-01'"
    with opened(folder, clock, datetime(2024, 3, 10, 12, tzinfo=UTC)) as proxy:
        refusals = 0
        for day in range(1, 31):
            for text in closed:
                receipt = proxy.ask(request(text)).receipt
                assert receipt is not None
                assert receipt.remembered == (day > 1)
            try:
                proxy.ask(request(daily.format(day), "1"))
            except Refused as refused:
                assert refused.facts["period"] == "2024-03"  # noqa: PT017
                refusals += 1
            clock.now += timedelta(days=1)
        every = ChargedPeriods(proxy.policy.period or RULE, period_worlds.BLOCKS, "")
        sums = proxy.ledger.spent_in("default", every)
        assert sums[0] == sums[1] < sums[2]
        assert sums[3] == Loss(0)
        assert 0 < refusals < 30
