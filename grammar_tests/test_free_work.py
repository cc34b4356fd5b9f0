"""What nobody pays for is bounded: compiling ends when it is cancelled or takes too long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

import pytest

from dpsql.answering.any_statement import ColumnsOf
from dpsql.engines import Interrupted, Stop, TimedOut
from dpsql.engines.limited import WorkLimit, limited, present
from dpsql.model.errors import Failed
from dpsql.model.table import Table
from dpsql.model.ticking import CHECK, tick
from dpsql.proxy import Proxy
from grammar_tests.bound import shop as bound_shop
from grammar_tests.laws import compiled, parsed
from grammar_tests.proxy_kit import request, shop
from grammar_tests.session_kit import Client, asked
from grammar_tests.test_compile_growth import MANY, SHAPES

LONGEST = 0.25
"""Share of a compilation's calls that may lie between two ticks; parsing comes before the first."""
BUSY = SHAPES["sums"](MANY)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("free")))) as found:
        yield found


class After(Stop):
    """A stop that is wanted once it was looked at so many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    @property
    def requested(self) -> bool:
        self.looks -= 1
        return self.looks < 0

    @requested.setter
    def requested(self, _value: bool) -> None:
        """As it was."""


WAYS: dict[str, Callable[[Proxy, Stop, str], object]] = {
    "ask": lambda proxy, stop, sql: proxy.ask(request(sql), stop),
    "explain": lambda proxy, stop, sql: proxy.explain(request(sql), stop),
    "explain as SQL": lambda proxy, stop, sql: proxy.ask(request(f"EXPLAIN PRIVACY {sql}"), stop),
    "signature": lambda proxy, stop, sql: proxy.run(ColumnsOf(request(sql)), stop),
}


@pytest.mark.parametrize("looks", [0, 1, 30])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_compiling_ends_when_it_is_cancelled(
    proxy: Proxy, way: Callable[[Proxy, Stop, str], object], looks: int
) -> None:
    with pytest.raises(Failed) as caught:
        way(proxy, After(looks), f"{BUSY} WHERE age > {looks}")
    assert caught.value.cancelled
    assert not caught.value.charged
    assert proxy.ledger.history() == ()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_compiling_ends_when_its_time_is_over(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, way: Callable[[Proxy, Stop, str], object]
) -> None:
    limits = replace(proxy.policy.limits, free_seconds=1e-9)
    monkeypatch.setattr(proxy.compiler, "policy", replace(proxy.policy, limits=limits))
    with pytest.raises(Failed) as caught:
        way(proxy, Stop(), f"{BUSY} WHERE age > 90")
    assert caught.value.timed_out
    assert not caught.value.charged


@pytest.mark.full("opens a proxy for each item")
def test_what_was_stopped_can_be_asked_again(proxy: Proxy) -> None:
    sql = f"{BUSY} WHERE age > 91"
    for looks in (3, 300):
        with pytest.raises(Failed):
            proxy.explain(request(sql), After(looks))
    assert proxy.explain(request(sql)).charge


@pytest.mark.full("opens servers or connects clients")
def test_a_session_cancels_what_is_being_described(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(proxy)
    monkeypatch.setattr(client.session, "_begin_statement", lambda: After(5))
    client.send(*asked(BUSY))
    assert client.error["C"] == "57014"


def test_public_rows_are_free_work(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(_sql: str, _cells: int, stop: Stop | None = None) -> Table:
        limit = present()
        assert limit is not None
        assert limit.stop is stop
        return Table(1, [[1]])

    monkeypatch.setattr(proxy.vault.engine, "few", few)
    assert proxy.ask(request("SELECT COUNT(*) AS n FROM countries")).rows == [(1,)]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("shape", SHAPES)
def test_compiling_ticks_all_the_time(shape: str) -> None:
    assert longest(SHAPES[shape](MANY)) < LONGEST


@pytest.mark.parametrize("spared", [None, "dpsql.dialects.reading.expressions"])
def test_a_step_without_ticks_would_be_seen(
    monkeypatch: pytest.MonkeyPatch, spared: str | None
) -> None:
    """Whether nothing ticks, or nothing after the statement was read."""
    sql = SHAPES["sums"](MANY)
    assert longest(sql) < LONGEST  # and now whatever ticks is imported
    ours = {name: module for name, module in sys.modules.items() if name.startswith("dpsql.")}
    silent = [m for name, m in ours.items() if vars(m).get("tick") is tick and name != spared]
    for module in silent:
        monkeypatch.setattr(module, "tick", lambda: None)
    assert longest(sql) > LONGEST


def longest(sql: str) -> float:
    """The longest way between two ticks, as a share of all calls of a compilation."""
    policy, engine = bound_shop()
    parsed.cache_clear()
    count, stretch, ticks = 0, 0, list[int]()

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    def check() -> None:
        nonlocal stretch
        stretch = max(stretch, count - ticks[-1] if ticks else 0)
        ticks.append(count)

    token = CHECK.set(check)
    sys.setprofile(counted)
    try:
        compiled(sql, policy, engine)
        if not ticks:
            return 1.0
        check()
    finally:
        sys.setprofile(None)
        CHECK.reset(token)
    return stretch / count


# --- limits ---


def test_a_limit_within_another_never_lasts_longer() -> None:
    clock = iter(range(100)).__next__
    with limited(Stop(), 50, lambda: float(clock())):
        outer = present()
        with limited(Stop(), 1000):
            inner = present()
            assert isinstance(inner, WorkLimit)
            assert isinstance(outer, WorkLimit)
            assert inner.left < 50
        assert present() is outer
    assert present() is None


@pytest.mark.full("measures neighbours or further data sets")
def test_a_tick_says_why_the_work_ends() -> None:
    tick()
    stop = Stop()
    with limited(stop, 5, iter([0.0, 4.0, 5.0, 5.1]).__next__):
        tick()
        tick()
        with pytest.raises(TimedOut):
            tick()
        stop.requested = True
        with pytest.raises(Interrupted):
            tick()
