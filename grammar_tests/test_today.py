"""CURRENT_DATE is a constant for a day: the same question until midnight, another one after it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from dpsql.answering import vault
from dpsql.dialects.reading.parse import parse
from dpsql.model.query_options import today
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit

JOINED = "SELECT COUNT(*) AS n FROM customers WHERE joined < {}"


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("spelling", ["CURRENT_DATE", "current_date - 30", "today()"])
def test_it_is_read_as_the_date(spelling: str, dialect: str) -> None:
    literal = spelling.lower().replace("current_date", "today()")
    literal = literal.replace("today()", f"DATE '{today()}'")
    said, meant = (parse(JOINED.format(text), dialect) for text in (spelling, literal))
    assert repr(said.query).count(repr(today())) == 1
    assert repr(meant.query).count(repr(today())) == 1


def test_a_question_keeps_the_day_on_which_it_was_asked(tmp_path: Path) -> None:
    """However late it is read, compiled or answered: nothing of one day is kept for the next."""
    monday = date(2024, 1, 1)
    asked = proxy_kit.request(JOINED.format("CURRENT_DATE - 7"))
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as shop:
        charges = []
        for day in (monday, monday, monday + timedelta(days=1)):
            receipt = shop.ask(replace(asked, day=day)).receipt
            assert receipt is not None
            charges.append(receipt.charged.amount > 0)
    assert charges == [True, False, True]
    parsed = repr(parse(JOINED.format("CURRENT_DATE"), day=monday))
    assert repr(monday) in parsed
    assert repr(today()) not in parsed


def test_batches_are_not_repeated_the_next_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as shop:
        before = shop.stamp(1.0)
        assert shop.stamp(1.0) == before
        monkeypatch.setattr(vault, "today", lambda: date(2024, 1, 1))
        assert shop.stamp(1.0) != before
