"""Budgets that renew: windows of a calendar below a limit over all of them (PRIVACY.md R110)."""

from __future__ import annotations

import zoneinfo
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, pairwise
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpsql.ledgers import Ceiling, Charge, Ledger, Stopped, book, removed, windows
from dpsql.ledgers.chain import BrokenChain, EntryKind
from dpsql.ledgers.codec import decode_windows
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.ledgers.windows import OpenWindow
from dpsql.model.calendars import Calendar, Renewal
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.vocabulary import NANO, Loss
from grammar_tests import ledger_kit as kit
from grammar_tests import postgres_kit
from grammar_tests.ledger_kit import charge, exit_code, forked
from grammar_tests.postgres_kit import Postgres

DAYS, MONTHS = Calendar(Renewal.DAY), Calendar(Renewal.MONTH, "Europe/Berlin")
START = datetime(2026, 11, 27, 12, tzinfo=UTC)
A_DAY = timedelta(days=1)
PER_DAY, EVER = Loss(6, 10**6), Loss(20, 10**6)
LIFETIME = Ceiling("lifetime of budget default", EVER, "default")
ANA = Ceiling("analyst ana", Loss(9, 10**6), "default", frozenset({"ana"}), MONTHS)
ALL = Ceiling("all budgets", Loss(26, 10**6))


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres_kit.running(fsync="on") as started:
        yield started


SERVER = pytest.param("server", marks=pytest.mark.full("a database server is started"))


@pytest.fixture(params=["file", SERVER])
def ledger(
    request: pytest.FixtureRequest, path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoredLedger]:
    """A new ledger of each implementation; a server has this clock too."""
    if request.param == "file":
        with closing(SqliteLedger.open(str(path), clock=clock)) as opened:
            yield opened
        return
    on_server = kit.on_server(request.getfixturevalue("server"), path)
    monkeypatch.setattr(type(on_server._store), "clock", lambda *_: clock())
    with closing(on_server) as opened:
        yield opened


def daily(query_id: str, loss: int = 3, **changes: Any) -> Charge:
    """A charge of a budget that renews each day, below a limit over all days."""
    same: dict[str, Any] = {"limit": PER_DAY, "renews": DAYS, "caps": (LIFETIME,)}
    return charge(query_id, **same | {"loss": Loss(loss)} | changes)


def turns(ledger: StoredLedger) -> list[tuple[str, str, str]]:
    """Every window that opened or was corrected: calendar, name, and how."""
    with ledger._reading() as opened:
        rows = opened.find(EntryKind.WINDOW, "TRUE")[::-1]
    return [(str(row.budget), str(row.question), str(row.event)) for row in rows]


# --- the limits ---


def drawn(number: int, dice: Random) -> Charge:
    """A charge of anybody to one of two budgets, one of which renews."""
    analyst, loss = dice.choice(["ana", "bob"]), dice.randint(1, 4)
    caps = [ALL] if analyst == "bob" else [ALL, ANA]
    if dice.random() < 0.3:
        return charge(f"q{number}", analyst=analyst, budget="old", loss=Loss(loss), caps=(ALL,))
    return daily(f"q{number}", loss, analyst=analyst, caps=(LIFETIME, *caps))


def amounts_by_window(ledger: Ledger) -> tuple[Counter[Any], Counter[Any]]:
    """Losses of the renewing budget by day and of ana by month, from the entries alone."""
    with ledger._reading() as opened:  # type: ignore[attr-defined]
        rows = opened.find(EntryKind.CHARGE, "budget = 'default'")
    days, months = Counter[Any](), Counter[Any]()
    for row in rows:
        named = decode_windows(row.detail)
        days[named["day UTC"]] += row.amount or 0
        if row.analyst == "ana":
            months[named["month Europe/Berlin"]] += row.amount or 0
    return days, months


def overspent(ledger: StoredLedger, clock: Clock, seed: int) -> bool:
    """Whether a window or a lifetime was passed; what fits below all is never refused."""
    dice = Random(seed)  # noqa: S311
    for number in range(60):
        clock.now += timedelta(hours=dice.choice([-30, 0, 1, 5, 11, 20, 24]))
        asked = drawn(number, dice)
        spent = [(c, ledger.spent(c.budget, c.analysts, c.renews)) for c in asked.ceilings]
        fits = all((before + asked.loss).fits(c.most) for c, before in spent)
        with suppress(Refused):
            ledger.charge(asked)
            continue
        assert not fits
    ledger.verify()
    days, months = amounts_by_window(ledger)
    return (
        max(days.values()) > PER_DAY.amount
        or max(months.values()) > ANA.most.amount
        or sum(days.values()) > EVER.amount
        or not ledger.spent(None).fits(ALL.most)
    )


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("seed", range(4))
def test_no_window_and_no_lifetime_is_overspent(
    ledger: StoredLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 7)
    assert not overspent(ledger, clock, seed)
    again = StoredLedger.over(ledger._store, clock)
    assert again.spent("default").fits(EVER)
    assert again.spent("default", None, DAYS) == ledger.spent("default", None, DAYS)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_window_charge_without_its_lifetime_overspends(
    ledger: StoredLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: Any = vars(Charge)["ceilings"]
    kept = property(lambda self: tuple(c for c in whole.fget(self) if c.renews is not None))
    monkeypatch.setattr(Charge, "ceilings", kept)
    assert overspent(ledger, clock, 0)


def test_a_sum_that_forgets_the_window_is_found(
    ledger: StoredLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenWindow, "before", property(lambda _: windows.LossSums()), raising=False)
    ledger.charge(daily("q1", 6))
    clock.now += A_DAY
    with pytest.raises(Refused):
        ledger.charge(daily("q2", 6))


def test_both_limits_are_charged_or_neither(ledger: StoredLedger, clock: Clock) -> None:
    for day in range(3):
        ledger.charge(daily(f"a{day}"), daily(f"b{day}"))
        clock.now += A_DAY
    with pytest.raises(Refused) as refused:
        ledger.charge(daily("c", 2), daily("d", 2))
    assert refused.value.facts["cap"] == LIFETIME.title
    assert ledger.spent("default", None, DAYS) == Loss(0)
    assert ledger.spent("default") == Loss(18)
    assert [name for _, name, _ in turns(ledger)] == ["2026-11-27", "2026-11-28", "2026-11-29"]


def race_of_days(ledger: StoredLedger, clock: Clock, days: int) -> list[int]:
    """The ends of three processes that open each day at once and charge until they are refused."""
    together = get_context("fork").Barrier(3)

    def body(process: int) -> None:
        for day in range(days):
            clock.now = START + day * A_DAY
            together.wait(60)
            with suppress(Refused):
                for number in count():
                    ledger.charge(daily(f"{process}.{day}.{number}", 1, analyst="bob"))

    return [exit_code(child) for child in [forked(partial(body, n)) for n in range(3)]]


@pytest.mark.full("processes are started")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_processes_that_open_a_window_at_once_open_it_once(
    ledger: StoredLedger, clock: Clock
) -> None:
    ledger.charge(daily("first", 1, analyst="bob"))
    assert race_of_days(ledger, clock, 3) == [0] * 3
    ledger.verify()
    assert set(amounts_by_window(ledger)[0].values()) == {PER_DAY.amount}
    assert turns(ledger) == [("day UTC", f"2026-11-{27 + n}", "next") for n in range(3)]


def test_a_refusal_names_the_next_window(ledger: StoredLedger) -> None:
    ledger.charge(daily("q1", 6))
    with pytest.raises(Refused) as refused:
        ledger.charge(daily("q2", 1))
    assert refused.value.facts["window"] == "2026-11-27"
    assert refused.value.facts["renewal"] == "2026-11-28 (UTC)"
    assert "cap" not in refused.value.facts


def test_the_first_window_counts_what_was_spent_before(ledger: StoredLedger, clock: Clock) -> None:
    """So a change of the calendar renews nothing."""
    ledger.charge(charge("q1", loss=Loss(5), limit=PER_DAY))
    for each in (daily("q2").ceilings[0], LIFETIME):
        ledger.confirm(each, "from now on by days")
    with pytest.raises(Refused):
        ledger.charge(daily("q2"))
    tokyo = Calendar(Renewal.DAY, "Asia/Tokyo")
    assert ledger.spent("default", None, tokyo) == Loss(5)
    clock.now += A_DAY
    ledger.charge(daily("q2", 1))  # the first window of these days, so that nothing was renewed
    clock.now += A_DAY
    ledger.charge(daily("q3", 6))


# --- time ---


def test_time_never_goes_back(ledger: StoredLedger, clock: Clock) -> None:
    ledger.charge(daily("q1", 6))
    clock.now += A_DAY
    ledger.charge(daily("q2", 5))
    clock.now -= A_DAY
    with pytest.raises(Refused):
        ledger.charge(daily("q3", 2))
    assert ledger.window(DAYS).waits
    clock.now += A_DAY
    with pytest.raises(Refused):
        ledger.charge(daily("q3", 2))


def always_opening(
    open_window: OpenWindow | None, calendar: Calendar, moment: datetime, sums: windows.LossSums
) -> OpenWindow:
    """Wrong: another name opens a window, also an earlier one."""
    name = calendar.window_at(moment)
    if open_window is None or open_window.name == name:
        return open_window or OpenWindow(name)
    return open_window.follow(calendar, name, sums)


def test_a_window_that_is_renewed_twice_is_found(
    ledger: StoredLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain refuses what a wrong clock rule would write."""
    monkeypatch.setattr(book, "window_now", always_opening)
    ledger.charge(daily("q1", 6))
    clock.now += A_DAY
    ledger.charge(daily("q2", 6))
    clock.now -= A_DAY
    with pytest.raises(BrokenChain):
        ledger.charge(daily("q3", 6))


def windows_of_leaps(ledger: StoredLedger, clock: Clock) -> int:
    """Charge a whole window after each of four steps of a year; return the windows opened."""
    for number in range(5):
        with suppress(Refused):
            ledger.charge(daily(f"q{number}", 6, caps=()))
        clock.now += timedelta(days=365)
    return len(turns(ledger))


def test_a_clock_that_is_stepped_by_a_year_opens_one_window(
    ledger: StoredLedger, clock: Clock
) -> None:
    assert windows_of_leaps(ledger, clock) == 2
    assert ledger.window(DAYS).waits
    with pytest.raises(Refused) as refused:
        ledger.charge(daily("late", 1, caps=()))
    assert refused.value.facts["leap"] == "2027-11-27"
    assert [w.name for w in ledger.confirm_clock("the host slept")] == ["2031-11-26"]
    ledger.charge(daily("now", 6, caps=()))
    assert not ledger.window(DAYS).waits
    assert turns(ledger)[-1] == ("day UTC", "2031-11-26", "confirmed")
    assert [(act.what, act.reason) for act in ledger.acts(1)] == [("clock", "the host slept")]
    ledger.verify()


def test_a_clock_stepped_by_a_year_would_renew_without_the_owner(
    ledger: StoredLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Calendar, "next_window", lambda self, _: self.window_at(clock.now))
    assert windows_of_leaps(ledger, clock) == 5


def test_a_clock_that_ran_ahead_is_corrected_and_renews_nothing(
    ledger: StoredLedger, clock: Clock
) -> None:
    ledger.charge(daily("q1", 4))
    clock.now += timedelta(days=400)
    ledger.charge(daily("q2", 2))
    clock.now -= timedelta(days=400)
    ledger.confirm_clock("its battery was empty")
    assert turns(ledger)[-1] == ("day UTC", "2026-11-27", "corrected")
    assert ledger.spent("default", None, DAYS) == Loss(6)  # both of this day
    clock.now += A_DAY
    assert ledger.spent("default", None, DAYS) == Loss(0)
    ledger.charge(daily("q3", 6))
    ledger.verify()


def test_a_correction_to_an_unknown_window_counts_everything(
    ledger: StoredLedger, clock: Clock
) -> None:
    for number in range(3):
        ledger.charge(daily(f"q{number}", 2))
        clock.now += A_DAY
    clock.now -= 5 * A_DAY
    ledger.confirm_clock("two days ahead from the start")
    assert ledger.spent("default", None, DAYS) == Loss(6)


def test_a_correction_that_renews_is_found(
    ledger: StoredLedger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.charge(daily("q1", 4))
    clock.now += timedelta(days=400)
    ledger.charge(daily("q2", 2))
    clock.now -= timedelta(days=400)
    monkeypatch.setattr(OpenWindow, "correct", lambda self, _, name: replace(self, name=name))
    ledger.confirm_clock("its battery was empty")
    assert ledger.spent("default", None, DAYS) == Loss(2)


# --- answers, late answers, shares ---


def test_an_answer_stays_free_and_counts_in_the_window_of_its_charge(
    ledger: StoredLedger, clock: Clock
) -> None:
    ledger.charge(daily("q1"))
    clock.now += A_DAY
    ledger.remember("q1", kit.ANSWER)
    assert kit.recall(ledger) is not None
    assert ledger.spent("default", None, DAYS) == Loss(0)
    assert ledger.spent("default") == Loss(3)


def test_late_answers_do_not_renew(ledger: StoredLedger, clock: Clock) -> None:
    ledger.charge(daily("q1"))
    ledger.record_late("ana", "q1")
    clock.now += A_DAY
    ledger.charge(daily("q2"))
    assert ledger.late("ana") == 1


def test_a_stop_does_not_end_with_its_window(ledger: StoredLedger, clock: Clock) -> None:
    ledger.charge(daily("q1"))
    ledger.stop(Stopped("default", None), "audit")
    clock.now += A_DAY
    with pytest.raises(Refused) as refused:
        ledger.charge(daily("q2"))
    assert refused.value.reason is Reason.STOPPED_BY_OWNER


def test_a_shared_answer_counts_in_the_window_of_its_receiver(
    ledger: StoredLedger, clock: Clock
) -> None:
    own = {who: replace(ANA, title=who, analysts=frozenset({who})) for who in ("ana", "bob")}
    kit.ask(ledger, **vars_of(daily("q1", caps=(own["ana"],))))
    clock.now += timedelta(days=30)
    asked = daily("q2", analyst="bob", caps=(own["bob"],))
    assert ledger.share(["q1"], asked) == Loss(3)
    assert ledger.spent("default", frozenset({"bob"}), MONTHS) == Loss(3)
    assert ledger.spent("default", frozenset({"ana"}), MONTHS) == Loss(0)
    assert ledger.spent("default", None, DAYS) == Loss(0)
    assert ledger.shares()[0].before == ("ana",)
    ledger.verify()


def vars_of(asked: Charge) -> dict[str, Any]:
    """The fields of a charge that `ledger_kit.ask` takes."""
    names = "loss limit renews caps query_id".split()
    return {name: getattr(asked, name) for name in names}


# --- thirty days ---


def days_answered(ledger: StoredLedger, clock: Clock, per_day: Loss | None) -> tuple[int, int]:
    """Refresh ten charts of 0.1 each on thirty days; return the days with answers, and answers.

    `per_day` is the limit of one day below a lifetime of 12; None: today's budget of 12.
    """
    whole = Ceiling("lifetime of budget default", Loss(12 * NANO), "default")
    days = answers = 0
    for day in range(30):
        charts = [charge(f"{day}.{n}", loss=Loss(NANO // 10), limit=whole.most) for n in range(10)]
        if per_day is not None:
            renewing: dict[str, Any] = {"limit": per_day, "renews": DAYS, "caps": (whole,)}
            charts = [replace(chart, **renewing) for chart in charts]
        before = answers
        for chart in charts:
            with suppress(Refused):
                ledger.charge(chart)
                answers += 1
        days += answers > before
        assert ledger.spent("default").fits(whole.most)
        clock.now += A_DAY
    return days, answers


@pytest.mark.full("opens a proxy for each item")
def test_a_board_lasts_thirty_days_below_the_lifetime_that_a_plain_budget_spends_in_twelve(
    tmp_path: Path, clock: Clock
) -> None:
    with closing(SqliteLedger.open(str(tmp_path / "plain.ledger"), clock=clock)) as plain:
        assert days_answered(plain, clock, None) == (12, 120)
    clock.now = START
    with closing(SqliteLedger.open(str(tmp_path / "renewing.ledger"), clock=clock)) as renewing:
        assert days_answered(renewing, clock, Loss(4 * NANO // 10)) == (30, 120)
        assert renewing.spent("default") == Loss(12 * NANO)


# --- changes of the policy ---


CHANGES: dict[str, dict[str, Any]] = {
    "no renewal": {"renews": None},
    "another calendar": {"renews": MONTHS},
    "more": {"limit": Loss(60, 10**6)},
    "no lifetime": {"caps": ()},
    "a larger lifetime": {"caps": (replace(LIFETIME, most=Loss(50, 10**6)),)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_holds_only_when_it_is_confirmed(ledger: StoredLedger, change: str) -> None:
    ledger.charge(daily("q1"))
    changed = daily("q2", 1, **CHANGES[change])
    with pytest.raises(Refused) as refused:
        ledger.charge(changed)
    assert refused.value.reason is Reason.LIMIT_CHANGED
    for each in changed.ceilings:
        ledger.confirm(each, "the board")
    for title in removed(ledger.confirmed(), changed.ceilings):
        ledger.lift(title, "the board")
    ledger.charge(changed)
    ledger.verify()


def test_a_lifetime_that_is_gone_is_removed_and_a_budget_is_not() -> None:
    confirmed = {c.title: c for c in daily("q1").ceilings}
    assert removed(confirmed, daily("q1", caps=()).ceilings) == [LIFETIME.title]
    assert removed(confirmed, ()) == [LIFETIME.title]


# --- calendars ---


def names(calendar: Calendar, first: datetime, hours: int) -> list[str]:
    """The windows of so many hours, in order, each once."""
    return list(dict.fromkeys(calendar.window_at(first + timedelta(hours=h)) for h in range(hours)))


@pytest.mark.parametrize(
    "zone",
    [
        *("Europe/Berlin", "Africa/Casablanca"),
        *(
            pytest.param(zone, marks=pytest.mark.full("further zones"))
            for zone in ("America/New_York", "UTC")
        ),
    ],
)
@pytest.mark.parametrize("renews", Renewal)
def test_windows_of_three_years_follow_one_another(zone: str, renews: Renewal) -> None:
    """Over two changes a year, two leap days, and the turns of ISO years."""
    calendar = Calendar(renews, zone)
    found = names(calendar, datetime(2026, 1, 1, 12, tzinfo=UTC), 3 * 366 * 24)
    assert all(calendar.next_window(a) == b for a, b in pairwise(found))
    assert len(found) == len(set(found))
    first_days = [calendar.first_day(name) for name in found]
    assert first_days == sorted(first_days)


def test_leap_days_and_weeks_over_the_turn_of_the_year() -> None:
    assert DAYS.next_window("2028-02-29") == "2028-03-01"
    assert DAYS.next_window("2100-02-28") == "2100-03-01"
    weeks = Calendar(Renewal.WEEK)
    assert weeks.window_at(datetime(2027, 1, 3, tzinfo=UTC)) == "2026-W53"
    assert weeks.next_window("2026-W53") == "2027-W01"
    assert weeks.next_window("2027-W52") == "2028-W01"
    with pytest.raises(ValueError, match="Invalid"):
        weeks.first_day("2027-W53")


@pytest.fixture
def zone_files(tmp_path: Path) -> Iterator[Path]:
    """An empty folder of time zones, which replaces the machine's."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath([str(tmp_path / "zones")])
    zoneinfo.ZoneInfo.clear_cache()
    (tmp_path / "zones").mkdir()
    yield tmp_path / "zones"
    zoneinfo.reset_tzpath(before)
    zoneinfo.ZoneInfo.clear_cache()


def write_zone(folder: Path, hours: int) -> None:
    """Write the zone Here, so many hours east of UTC (RFC 8536, version 1)."""
    head = b"TZif" + bytes(16) + b"".join(n.to_bytes(4) for n in (0, 0, 0, 0, 1, 4))
    body = (hours * 3600).to_bytes(4, signed=True) + bytes(2) + b"HER\0"
    (folder / "Here").write_bytes(head + body)
    zoneinfo.ZoneInfo.clear_cache()


def test_a_changed_zone_file_renews_no_window_twice(
    ledger: StoredLedger, clock: Clock, zone_files: Path
) -> None:
    here = Calendar(Renewal.DAY, "Here")
    clock.now = START.replace(hour=23)
    write_zone(zone_files, 0)
    ledger.charge(daily("q1", 6, renews=here))
    write_zone(zone_files, 2)
    ledger.charge(daily("q2", 6, renews=here))  # it is the next day here now
    write_zone(zone_files, 0)
    with pytest.raises(Refused):
        ledger.charge(daily("q3", 1, renews=here))
    clock.now += timedelta(hours=2)
    with pytest.raises(Refused):
        ledger.charge(daily("q3", 1, renews=here))
    (zone_files / "Here").unlink()
    zoneinfo.ZoneInfo.clear_cache()
    with pytest.raises(LedgerError, match="does not know the time zone Here"):
        ledger.charge(daily("q3", 1, renews=here))
    ledger.charge(charge("q4", budget="other", loss=Loss(1)))  # no limit of it renews
    ledger.charge(daily("q5", 1, budget="daily", caps=()))
    clock.now += 3 * A_DAY
    assert [each.renews for each in ledger.confirm_clock("a holiday")] == [DAYS]
    ledger.verify()
