"""CURRENT_DATE and NOW() are constants for a while: the same question until the next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from dpsql.dialects.reading.parse import parse
from dpsql.interfaces.pgwire.answers import answer_stamp
from dpsql.interfaces.sentences import sentences
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.notices import RoundedTimes
from dpsql.model.public_times import Resolution, now, word
from dpsql.model.vocabulary import Answer
from dpsql.proxy import Proxy
from dpsql.vault import vault
from grammar_tests import proxy_kit

JOINED = "SELECT COUNT(*) AS n FROM customers WHERE joined < {}"


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("spelling", ["CURRENT_DATE", "current_date - 30", "today()"])
def test_it_is_read_as_the_date(spelling: str, dialect: str) -> None:
    today = now().date()
    literal = spelling.lower().replace("current_date", "today()")
    literal = literal.replace("today()", f"DATE '{today}'")
    said, meant = (parse(JOINED.format(text), dialect) for text in (spelling, literal))
    assert repr(said.query).count(repr(today)) == 1
    assert repr(meant.query).count(repr(today)) == 1


@pytest.mark.full("opens a proxy for each item")
def test_a_question_keeps_the_day_on_which_it_was_asked(tmp_path: Path) -> None:
    """However late it is read, compiled or answered: nothing of one day is kept for the next."""
    monday = datetime(2024, 1, 1, tzinfo=UTC)
    asked = proxy_kit.request(JOINED.format("CURRENT_DATE - 7"))
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as shop:
        charges = []
        for day in (monday, monday, monday + timedelta(days=1)):
            receipt = shop.ask(replace(asked, at=day)).receipt
            assert receipt is not None
            charges.append(receipt.charged.amount > 0)
    assert charges == [True, False, True]
    parsed = repr(parse(JOINED.format("CURRENT_DATE"), instant=monday))
    assert repr(monday.date()) in parsed
    assert repr(now().date()) not in parsed


@pytest.mark.full("opens a proxy for each item")
def test_batches_are_not_repeated_the_next_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as shop:
        before = answer_stamp(shop, 1.0)
        assert answer_stamp(shop, 1.0) == before
        monkeypatch.setattr(vault, "now", lambda: datetime(2024, 1, 1, tzinfo=UTC))
        assert answer_stamp(shop, 1.0) != before


AT = datetime(2025, 6, 7, 13, 14, 15, 16, tzinfo=UTC)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(proxy_kit.shop(tmp_path_factory.mktemp("days")))) as opened:
        yield opened


def opened(folder: Path, *lines: str) -> Proxy:
    """A shop with these limits, besides its own."""
    own = "[limits]\n"
    return Proxy.open(str(proxy_kit.shop(folder, (own, own + "\n".join(lines) + "\n"))))


def asked_at(proxy: Proxy, sql: str, at: datetime, dialect: str = "duckdb") -> Answer:
    return proxy.ask(replace(proxy_kit.request(sql), at=at, dialect=dialect))


def sentence(answer: Answer) -> str:
    told = [n for n in answer.notices if isinstance(n, RoundedTimes)]
    return " ".join(sentences(told, answer.columns))


MIDNIGHT = datetime(2025, 6, 7, tzinfo=UTC)
CONSTANTS: dict[str, object] = {
    "NOW()": MIDNIGHT,
    "CURRENT_TIMESTAMP": MIDNIGHT,
    "current_timestamp(3)": MIDNIGHT,
    "transaction_timestamp()": MIDNIGHT,
    "LOCALTIMESTAMP": MIDNIGHT.replace(tzinfo=None),
    "TIMESTAMP 'now'": MIDNIGHT.replace(tzinfo=None),
    "CAST(' Yesterday ' AS DATE)": date(2025, 6, 6),
    "'tomorrow'::timestamp": datetime(2025, 6, 8),
    "'today'::timestamptz": MIDNIGHT,
    "CURRENT_DATE": date(2025, 6, 7),
    "now() - INTERVAL '36 hours'": MIDNIGHT - timedelta(hours=36),
    "now() AT TIME ZONE 'Europe/Oslo'": datetime(2025, 6, 7, 2),
    "date_trunc('month', now())": datetime(2025, 6, 1, tzinfo=UTC),
    "'now'": "now",
}


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("spelling", CONSTANTS)
def test_the_time_without_tables_is_just_answered(shop: Proxy, spelling: str, dialect: str) -> None:
    answer = asked_at(shop, f"SELECT {spelling} AS t", AT, dialect)
    assert list(answer.rows) == [(CONSTANTS[spelling],)]
    assert answer.receipt is None


@pytest.mark.parametrize(
    "now", ["CLOCK_TIMESTAMP()", "RANDOM()", "NOW(1)", "CURRENT_TIME", "CURRENT_TIMESTAMP(x)"]
)
def test_what_changes_within_a_step_stays_refused(shop: Proxy, now: str) -> None:
    with pytest.raises(Refused):
        asked_at(shop, f"SELECT COUNT(*) FROM orders WHERE placed_at < {now}", AT)


SINCE = "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= {} AND placed_at < {}"
SPANS = {
    "now() - INTERVAL '7 days'": "now()",
    "CURRENT_TIMESTAMP - INTERVAL 7 DAY": "'now'",
    "LOCALTIMESTAMP - INTERVAL '1 week'": "CURRENT_TIMESTAMP",
}


@pytest.mark.full("opens a proxy for each item")
def test_a_range_that_ends_now_is_free_within_the_grid(tmp_path: Path) -> None:
    with opened(tmp_path, 'time_resolution = "hour"') as proxy:
        charges = [
            asked_at(proxy, SINCE.format(start, end), at).receipt
            for at in (AT, AT.replace(minute=59, second=59), AT + timedelta(hours=1))
            for start, end in SPANS.items()
        ]
        told = sentence(asked_at(proxy, SINCE.format("'2025-01-01'", "now()"), AT))
    paid = [receipt is not None and receipt.charged.amount > 0 for receipt in charges]
    assert paid == [True, False, False, False, False, False, True, False, False]
    assert told == "NOW() is 2025-06-07 13:00 UTC: the same question until the next hour"


def test_only_times_are_told_of(shop: Proxy) -> None:
    texts = (
        "SELECT COUNT(*) FROM orders WHERE status = 'now'",
        "SELECT COUNT(*) FROM orders WHERE placed_at < CURRENT_DATE",
        "SELECT COUNT(*) FROM orders WHERE placed_at < TIMESTAMP '2025-06-07 00:00:00'",
    )
    assert [sentence(asked_at(shop, sql, AT)) for sql in texts] == ["", "", ""]
    assert sentence(asked_at(shop, "SELECT code, NOW() AS t FROM countries", AT))
    assert sentence(asked_at(shop, "SELECT COUNT(*) FROM orders WHERE placed_at < 'now'", AT))


def test_time_zones_of_both_sides_are_heeded(shop: Proxy) -> None:
    """A TIMESTAMP column is compared in UTC, whatever stands beside it."""
    texts = (
        "SELECT COUNT(*) FROM orders WHERE placed_at < {}",
        "SELECT COUNT(*) FROM orders WHERE date_diff('day', placed_at, {}) > 30",
    )
    for text in texts:
        plans = {
            asked_at(shop, text.format(now), AT).receipt.query_id  # type: ignore[union-attr]
            for now in ("now()", "LOCALTIMESTAMP", "TIMESTAMP '2025-06-07 00:00:00'")
        }
        assert len(plans) == 1


RANGE = "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= {} AND placed_at < {}"


@pytest.mark.full("opens a proxy for each item")
def test_recent_times_of_tools_are_rounded_so_that_ranges_tile(tmp_path: Path) -> None:
    with opened(tmp_path, "round_recent_times = true") as proxy:
        start, middle, end = "2025-06-01 13:14:15.016", "2025-06-04 01:02:03", "2025-06-07 13:14:15"
        grid = ("2025-06-01 00:00:00", "2025-06-04 00:00:00", "2025-06-07 00:00:00")
        for (a, b), (c, d) in zip(pairwise((start, middle, end)), pairwise(grid), strict=True):
            rounded = asked_at(proxy, RANGE.format(f"'{a}'", f"TIMESTAMP '{b}'"), AT)
            full = asked_at(proxy, RANGE.format(f"'{c}'", f"TIMESTAMP '{d}'"), AT)
            assert rounded.receipt is not None and full.receipt is not None  # noqa: PT018
            assert full.receipt.charged.amount == 0
            assert "times of the last days are those of the full day" in sentence(rounded)
            assert not sentence(full)
        tool = "to_timestamp('2025-06-07 11:12:13.000000', 'YYYY-MM-DD HH24:MI:SS.US')"
        again = asked_at(proxy, RANGE.format("'2025-06-04'", tool), AT, "postgres")
        assert again.receipt is not None
        assert again.receipt.charged.amount == 0
        sql = "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= ? AND placed_at < ?"
        values = datetime(2025, 6, 4, 5, 6), datetime(2025, 6, 7, 8, 9)
        request = replace(proxy_kit.request(sql), at=AT, parameters=values)
        receipt = proxy.ask(request).receipt
        assert receipt is not None
        assert receipt.charged.amount == 0
        old = asked_at(proxy, RANGE.format("'2025-01-01 12:30:00'", "'2025-02-01 12:30:00'"), AT)
        assert not sentence(old)


def test_constants_are_as_written_where_the_policy_does_not_say(shop: Proxy) -> None:
    queries = {
        asked_at(shop, RANGE.format("'2025-06-01'", f"'2025-06-07 13:{n}:00'"), AT).receipt.query_id  # type: ignore[union-attr]
        for n in (10, 11)
    }
    assert len(queries) == 2


@pytest.mark.parametrize("resolution", list(Resolution))
def test_the_grid_keeps_the_order_of_times(resolution: Resolution) -> None:
    moments = [AT + timedelta(minutes=37 * n) for n in range(-60, 60)]
    steps = [resolution.floor(moment) for moment in moments]
    assert steps == sorted(steps)
    assert all(resolution.floor(s) == s <= m for s, m in zip(steps, moments, strict=True))
    assert word("now", steps[0]) == steps[0]


@pytest.mark.full("opens a proxy for each item")
def test_a_policy_says_the_grid_in_known_words(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="time_resolution"):
        opened(tmp_path, 'time_resolution = "week"')
