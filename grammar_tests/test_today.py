"""CURRENT_DATE is a constant for a day: the same question until midnight, another one after it."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from dpsql import kept, proxy
from dpsql.compiler.parse import parse
from dpsql.dialects import from_sqlglot_calls, from_sqlglot_expressions
from dpsql.proxy import Proxy
from dpsql.today import today
from grammar_tests import proxy_kit

JOINED = "SELECT COUNT(*) AS n FROM customers WHERE joined < {}"


def it_is(day: date, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept, proxy, from_sqlglot_calls, from_sqlglot_expressions):
        monkeypatch.setattr(module, "today", lambda: day)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("spelling", ["CURRENT_DATE", "current_date - 30", "today()"])
def test_it_is_read_as_the_date(spelling: str, dialect: str) -> None:
    literal = spelling.lower().replace("current_date", "today()")
    literal = literal.replace("today()", f"DATE '{today()}'")
    said, meant = (parse(JOINED.format(text), dialect) for text in (spelling, literal))
    assert repr(said.query).count(repr(today())) == 1
    assert repr(meant.query).count(repr(today())) == 1


def test_it_is_another_question_the_next_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monday = date(2024, 1, 1)
    asked = proxy_kit.request(JOINED.format("CURRENT_DATE - 7"))
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as shop:
        charges, stamps = [], []
        for day in (monday, monday, monday + timedelta(days=1)):
            it_is(day, monkeypatch)
            receipt = shop.ask(asked).receipt
            assert receipt is not None
            charges.append(receipt.charged.amount > 0)
            stamps.append(shop.stamp(1.0))
    assert charges == [True, False, True]
    assert stamps[1] != stamps[2]
