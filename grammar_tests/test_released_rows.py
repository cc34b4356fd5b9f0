"""Rows behind a release are bounded: by what is kept at once, and by the time of what is free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.engines import Stop, TooMany
from dpsql.engines.limited import present
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import WatchedEngine, request, shop, watched

BESIDE = "SELECT n, a.code FROM (SELECT COUNT(*) AS n FROM customers) t, countries a, countries b"
JOINED = f"{BESIDE} WHERE a.code <= b.code"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[Proxy, WatchedEngine]]:
    proxy, engine = watched(shop(tmp_path), Proxy)
    limits = replace(proxy.policy.limits, max_result_cells=10)
    proxy.adopt(replace(proxy.policy, limits=limits))
    with proxy:
        yield proxy, engine


def larger(proxy: Proxy) -> None:
    limits = replace(proxy.policy.limits, max_result_cells=1000)
    proxy.adopt(replace(proxy.policy, limits=limits))


@pytest.mark.full("opens a proxy for each item")
def test_what_always_has_too_many_rows_costs_nothing(
    opened: tuple[Proxy, WatchedEngine],
) -> None:
    proxy, engine = opened
    with pytest.raises(Refused) as caught:
        proxy.ask(request(BESIDE))
    assert caught.value.reason is Reason.TOO_LARGE
    assert not proxy.ledger.history()
    assert not [kind for kind, _ in engine.calls if kind == "aggregate"]
    larger(proxy)
    assert len(proxy.ask(request(BESIDE)).rows) > 5


@pytest.mark.full("opens a proxy for each item")
def test_what_turns_out_to_have_too_many_is_told_and_can_be_asked_again(
    opened: tuple[Proxy, WatchedEngine],
) -> None:
    proxy, _engine = opened
    for charged in (True, False):
        with pytest.raises(Failed, match="too many values") as caught:
            proxy.ask(request(JOINED))
        assert caught.value.charged is charged
    larger(proxy)
    answer = proxy.ask(request(JOINED))
    assert len(answer.rows) > 5
    assert answer.receipt is not None
    assert answer.receipt.remembered
    assert len(proxy.ledger.history()) == 1


@pytest.mark.full("opens a proxy for each item")
def test_a_remembered_answer_takes_no_longer_than_what_is_free(
    opened: tuple[Proxy, WatchedEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, engine = opened
    larger(proxy)
    proxy.ask(request(JOINED))
    proxy.adopt(proxy.policy)  # forgets finished answers
    scratch, limited = engine.scratch, list[bool]()

    def watching(*arguments: object, **named: object) -> object:
        limited.append(present() is not None)
        return scratch(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "scratch", watching)
    proxy.ask(request(JOINED))
    assert limited == [True]


@pytest.mark.full("opens a proxy for each item")
def test_an_engine_counts_values(opened: tuple[Proxy, WatchedEngine]) -> None:
    proxy, _engine = opened
    sql = "SELECT range, range FROM range(5)"
    assert len(proxy.vault.engine.scratch(sql, (), Stop(), 10)) == 5
    with pytest.raises(TooMany):
        proxy.vault.engine.scratch(sql, (), Stop(), 9)
