"""New data of some periods of people: what is asked again, and what stays free (R103, R69)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.interfaces.messages import describe
from dpsql.ledgers import book
from dpsql.ledgers.chain import BrokenChain, EntryKind
from dpsql.ledgers.codec import encode_versions
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.model.dataclass import replace
from dpsql.model.errors import Refused
from dpsql.model.periods import ELSEWHERE, PeriodRule
from dpsql.preparation import period_plans
from dpsql.preparation.period_plans import plan_of_periods
from dpsql.proxy import Proxy
from grammar_tests.laws import PlainEngine, compiled
from grammar_tests.period_worlds import LAST, TOML, bound, database, world
from grammar_tests.proxy_kit import request
from grammar_tests.test_period_budgets import JANUARY, OTHER, RULE, edited, of, opened
from grammar_tests.test_period_budgets import folder as folder  # noqa: PLC0414 - a fixture
from grammar_tests.test_period_budgets import ledger as ledger  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import Clock
from grammar_tests.test_renewals import clock as clock  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import path as path  # noqa: PLC0414 - a fixture
from grammar_tests.test_renewals import server as server  # noqa: PLC0414 - a fixture

Patch = pytest.MonkeyPatch
FEBRUARY = JANUARY.replace("-02-01", "-03-01").replace("-01-01", "-02-01")
BOTH = JANUARY.replace("-02-01", "-03-01")


# --- the ledger ---


def test_versions_of_periods_are_entries(ledger: StoredLedger, monkeypatch: Patch) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 3)
    first = ledger.data_version()
    for periods in (["2026-08"], ["2026-08", ELSEWHERE]):
        ledger.refresh_periods(RULE.text, periods)
        ledger.charge(of(f"q{len(periods)}", "2026-08"))
    assert ledger.data_version() == first
    again = StoredLedger.over(ledger._store)
    assert again.period_versions(RULE.text) == (("2026-08", 3), (ELSEWHERE, 2))
    assert [act.about for act in again.acts(9) if act.what == "refresh"] == [
        f"2026-08, {ELSEWHERE}",
        "2026-08",
    ]
    assert again.period_versions(OTHER.text) == (("", 3),)  # counts in each of its periods
    assert OTHER.at("2026-Q4", (("", 3),)).versions_of(["2026-Q3"])
    assert again.verify()


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_version_that_does_not_follow_is_no_entry(ledger: StoredLedger, number: int) -> None:
    ledger.refresh_periods(RULE.text, ["2026-08"])

    def append_version() -> None:
        with ledger._writing() as writing:
            detail = encode_versions(RULE.text, {"2026-08": number})
            writing.append(EntryKind.REFRESH, detail=detail)

    with pytest.raises(BrokenChain):
        append_version()


# --- the digest of a question ---


def asked_again() -> dict[str, bool]:
    """Which of three questions has another digest after a refresh of January."""
    policy, engine = world(0)
    assert policy.period is not None
    later = replace(policy, period=policy.period.at(LAST, (("2024-01", 2),)))
    return {
        text: compiled(text, policy, engine).question != compiled(text, later, engine).question
        for text in (JANUARY, FEBRUARY, BOTH)
    }


AGAIN = {JANUARY: True, FEBRUARY: False, BOTH: True}


@pytest.mark.full("opens a proxy")
def test_the_digest_has_the_version_of_each_period() -> None:
    assert asked_again() == AGAIN


@pytest.mark.parametrize("blocks", [(), ("2024-01",)], ids=["keeps all", "forgets all"])
def test_a_digest_with_no_version_or_with_all_is_found(
    monkeypatch: Patch, blocks: tuple[str, ...]
) -> None:
    whole = PeriodRule.versions_of
    monkeypatch.setattr(PeriodRule, "versions_of", lambda rule, _: whole(rule, blocks))
    assert asked_again() != AGAIN


JOINED = (
    "SELECT COUNT(*) AS n FROM events JOIN kinds ON kinds.kind = events.kind WHERE label = 'first'"
)
SWAPPED = "UPDATE kinds SET label = CASE label WHEN 'first' THEN 'second' ELSE 'first' END"
"""Changes answers, but no number of rows and no list of values."""


def about_changed_public_rows() -> dict[str, bool]:
    """Which of two questions has another digest after a change of a public table."""
    engine = PlainEngine(database(0))
    policy, texts = bound(engine, TOML), (JANUARY, JOINED)
    before = [compiled(text, policy, engine).question for text in texts]
    engine.connection.execute(SWAPPED)
    engine.public.forget()
    after = [compiled(text, policy, engine).question for text in texts]
    return {text: b != a for text, b, a in zip(texts, before, after, strict=True)}


@pytest.mark.full("opens a proxy")
def test_the_digest_has_the_public_rows_that_are_read(monkeypatch: Patch) -> None:
    """Otherwise a refresh of other periods would keep an answer over rows that are gone."""
    assert about_changed_public_rows() == {JANUARY: False, JOINED: True}
    monkeypatch.setattr("dpsql.preparation.period_plans.public_contents", lambda *_: [])
    assert about_changed_public_rows() == {JANUARY: False, JOINED: False}


# --- plans that are kept ---

FROM_MARCH = "SELECT COUNT(*) AS n FROM events WHERE seen >= '2024-03-01'"
KEPT = {JANUARY: True, FEBRUARY: False, BOTH: False, FROM_MARCH: False}


def kept_plans() -> dict[str, bool]:
    """Which plans are kept in the next month, after a refresh; they are those of its policy."""
    policy, engine = world(0)
    assert policy.period is not None
    rule = policy.period.at("2024-04", (("2024-02", 2),))
    later, kept = replace(policy, period=rule, data="new files"), dict[str, bool]()
    for text in KEPT:
        plan = plan_of_periods(compiled(text, policy, engine), policy, later)
        kept[text] = plan is not None
        assert plan is None or plan == compiled(text, later, engine)
    return kept


def test_plans_of_other_periods_are_kept_and_are_those_of_the_new_data() -> None:
    assert kept_plans() == KEPT


def test_a_plan_that_outlives_its_data_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(PeriodRule, "versions_of", lambda *_: [])
    assert kept_plans() != KEPT


def test_a_plan_of_later_times_that_is_kept_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(period_plans, "ELSEWHERE", "")
    with pytest.raises(AssertionError):
        kept_plans()


# --- the proxy ---


def add_row(folder: Path, at: str) -> None:
    """Put a file with one more row of somebody in the place of the data, as an owner does."""
    present, new = folder / "periods.duckdb", folder / "new.duckdb"
    new.write_bytes(present.read_bytes())
    with duckdb.connect(str(new)) as data:
        (number,) = data.execute("SELECT max(event_id) + 1 FROM events").fetchone() or (0,)
        data.execute("INSERT INTO events VALUES (?, 1, ?, 'a', 'x', 1)", [number, at])
    new.replace(present)


def refreshed(folder: Path, clock: Clock, refresh: Callable[[Proxy], object]) -> dict[str, bool]:
    """Which of three questions stays free after a late row of January and its refresh."""
    with opened(folder, clock) as proxy:
        for text in (JANUARY, FEBRUARY, BOTH):
            proxy.ask(request(text))
    add_row(folder, "2024-01-20")
    with opened(folder, clock) as proxy:
        proxy.ask(request(FEBRUARY))  # the period of ledger time is open
        refresh(proxy)
        receipts = {text: proxy.ask(request(text)).receipt for text in (JANUARY, FEBRUARY, BOTH)}
        assert proxy.ledger.verify()
    return {text: receipt is not None and receipt.remembered for text, receipt in receipts.items()}


ASKED_AGAIN = {JANUARY: False, FEBRUARY: True, BOTH: False}


@pytest.mark.full("two proxies")
def test_answers_about_other_periods_stay_free(folder: Path, clock: Clock) -> None:
    assert refreshed(folder, clock, lambda proxy: proxy.refresh(["2024-01"])) == ASKED_AGAIN


@pytest.mark.full("the wrong twins of the test above, each with two proxies")
def test_a_refresh_that_keeps_or_forgets_all_is_found(
    folder: Path, clock: Clock, monkeypatch: Patch
) -> None:
    forgetting = refreshed(folder, clock, lambda proxy: proxy.refresh())
    assert not any(forgetting.values())
    monkeypatch.setattr(PeriodRule, "versions_of", lambda *_: [])
    keeping = refreshed(folder, clock, lambda proxy: proxy.refresh(["2024-01"]))
    assert all(keeping.values())


SHARED = "[budgets.default]\n", "[budgets.default]\nshare_answers = true\n"
BOB = "[analysts.ana]\n", '[analysts.bob]\nbudget = "default"\n[analysts.ana]\n'


def bobs_bill(folder: Path, clock: Clock) -> tuple[list[bool], list[bool]]:
    """Whether each question is free for bob, and whether any period paid, after ana asked one."""
    with opened(folder, clock) as proxy:
        first = proxy.ask(request(JANUARY))
        free, paid = [], []
        for text in (JANUARY, FEBRUARY):
            before = [each.spent for each in proxy.standings()]
            answer = proxy.ask(request(text, None, "bob"))
            free.append(answer.receipt is not None and answer.receipt.remembered)
            paid.append(before != [each.spent for each in proxy.standings()])
            assert (answer.rows == first.rows) >= free[-1]
        proxy.refresh(["2024-01"])
        again = proxy.ask(request(JANUARY, None, "bob")).receipt
        assert again is not None
        assert not again.remembered
        assert proxy.ledger.verify()
    return free, paid


@pytest.mark.full("two proxies")
def test_a_shared_answer_is_free_of_the_same_period_and_data(folder: Path, clock: Clock) -> None:
    edited(folder, BOB)
    assert bobs_bill(folder, clock) == ([False, False], [True, True])  # not shared
    (folder / "periods.ledger").unlink()
    (folder / "periods.ledger.mark").unlink()
    edited(folder, BOB, SHARED)
    assert bobs_bill(folder, clock) == ([True, False], [False, True])


@pytest.mark.full("several proxies")
def test_a_late_row_that_is_not_named_changes_no_paid_answer(folder: Path, clock: Clock) -> None:
    """Its period keeps what it spent, and a new question reads the row."""
    kept = refreshed(folder, clock, lambda proxy: proxy.refresh(["2024-02"]))
    assert kept == {JANUARY: True, FEBRUARY: False, BOTH: False}


@pytest.mark.full("several proxies")
def test_a_refresh_reaches_other_proxies(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as other:
        before = other.recorded()
        for text in (JANUARY, FEBRUARY):
            other.ask(request(text))
        add_row(folder, "2024-01-20")
        with opened(folder, clock) as proxy:
            proxy.refresh(["2024-01"])
        assert other.recorded() != before  # a server reloads
        receipts = [other.ask(request(text)).receipt for text in (JANUARY, FEBRUARY)]
        assert [r is not None and r.remembered for r in receipts] == [False, True]


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("2024-04", "'2024-04' is no month from 2024-01 to 2024-03"),
        ("2023-12", "'2023-12' is no month"),
        ("2024-01..2024-03", "'2024-01..2024-03' is no month"),
        ("2024-01-20", "'2024-01-20' is no month"),
        ("2024-Q1", "name each one"),
        ("", "'' is no month"),
        ("2024-01,2024-01", "named twice"),
    ],
)
def test_what_is_no_period_is_not_refreshed(
    folder: Path, clock: Clock, names: str, why: str
) -> None:
    with opened(folder, clock) as proxy, pytest.raises(Refused) as caught:
        proxy.refresh(names.split(","))
    assert why in str(describe(caught.value))
    with closing(SqliteLedger.open(str(folder / "periods.ledger"))) as ledger:
        assert ledger.period_versions("month from 2024-01") == ()


@pytest.mark.full("opens a proxy for each item")
def test_rows_that_others_write_are_refreshed_as_a_whole(folder: Path, clock: Clock) -> None:
    with opened(folder, clock) as proxy:
        proxy.adopt(replace(proxy.policy, moves=True))
        with pytest.raises(Refused, match="bad-option") as caught:
            proxy.refresh(["2024-01"])
        assert "run dpsql refresh" in str(describe(caught.value))
        proxy.adopt(replace(proxy.policy, moves=False, period=None))
        with pytest.raises(Refused, match="bad-option") as caught:
            proxy.refresh(["2024-01"])
        assert "no period" in str(describe(caught.value))


@pytest.mark.full("opens several proxies")
def test_the_command_refreshes_periods(folder: Path) -> None:
    """By the machine's clock, with and without facts."""
    command = ["refresh", "--policy", str(edited(folder)), "--periods"]
    first = CliRunner().invoke(main, [*command, "2024-01, 2024-02"])
    assert "new data of 2024-01, 2024-02" in first.output, first.output
    again = CliRunner().invoke(main, [*command, "no time", "--record"])
    assert "facts that it confirms are recorded" in again.output, again.output
    wrong = CliRunner().invoke(main, [*command, "2024-1"])
    assert wrong.exit_code == 1
    with closing(SqliteLedger.open(str(folder / "periods.ledger"))) as ledger:
        versions = (("2024-01", 2), ("2024-02", 2), ("no time", 2))
        assert ledger.period_versions("month from 2024-01") == versions
        assert ledger.data_version() == 1


# --- the digest of public rows ---


@pytest.mark.parametrize(
    ("some", "others"),
    [
        ([("ab", "c")], [("a", "bc")]),
        ([("a\x1f1 b", "c")], [("a", "b\x1f1 c")]),
        ([(None, "a")], [("-", "a")]),
        ([("1 a", None)], [("a", None)]),
        ([("a", "b"), ("c", "d")], [("a", "d"), ("c", "b")]),
        ([("a", "b")], [("a", "b"), ("a", "b")]),
    ],
)
def test_other_public_rows_have_another_digest(some: list[Any], others: list[Any]) -> None:
    assert len({digest_of(some), digest_of(others)}) == 2
    assert digest_of([*some, *others]) == digest_of([*others, *some])


def digest_of(rows: list[Any]) -> str:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE places (name VARCHAR, region VARCHAR)")
        connection.executemany("INSERT INTO places VALUES (?, ?)", rows)
        engine = PlainEngine(connection)
        return engine.public.contents("places", ["name", "region"])
