"""Long texts are read one at a time: one analyst's never take the interpreter from the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event, Thread

import pytest

from dpsql.engines import Stop
from dpsql.interfaces.pgwire import text_turns
from dpsql.interfaces.pgwire.frontend import Parse, Query, Sync
from dpsql.interfaces.pgwire.text_turns import LONG, TextTurns
from dpsql.model.errors import Failed
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop
from grammar_tests.session_kit import COUNTRIES, Client

PADDED = COUNTRIES + " " * LONG + "-- and more"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("turns")))) as found:
        yield found


def test_a_long_text_waits_and_a_short_one_does_not() -> None:
    turns, long, begun = TextTurns(), "x" * (LONG + 1), Event()

    def read() -> None:
        with turns.reading(long, Stop(owner="bob")):
            begun.set()

    with turns.reading(long, Stop(owner="ana")):
        with turns.reading("x" * LONG, Stop(owner="bob")):
            pass
        thread = Thread(target=read)
        thread.start()
        assert not begun.wait(0.1)
    thread.join()
    assert begun.is_set()


def test_waiting_ends_when_it_is_cancelled_and_costs_nothing() -> None:
    turns, long = TextTurns(), "x" * (LONG + 1)
    stack = ExitStack()
    stack.enter_context(turns.reading(long, Stop()))
    with pytest.raises(Failed) as caught, turns.reading(long, Stop(requested=True)):
        raise AssertionError("two are read at once")
    stack.close()
    assert caught.value.cancelled
    assert not caught.value.charged
    with turns.reading(long, Stop()):  # nobody who left is waited for
        pass


@pytest.mark.parametrize(
    "messages", [(Query(PADDED),), (Parse("", PADDED, ()), Sync())], ids=["simple", "extended"]
)
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "the twin without turns"])
def test_a_session_waits_for_its_turn(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, messages: tuple[Query | Parse | Sync, ...],
    *, waits: bool
) -> None:  # fmt: skip
    client, answered = Client(proxy), Event()

    def ask() -> None:
        client.send(*messages)
        answered.set()

    turns = client.session._runner.answers.turns
    with turns.reading("x" * (LONG + 1), Stop()):
        if not waits:
            monkeypatch.setattr(text_turns, "LONG", 1 << 30)
        thread = Thread(target=ask)
        thread.start()
        assert answered.wait(0.3 if waits else 60) is not waits
        other = Client(proxy)
        other.session._runner.answers.turns = turns
        other.send(Query(COUNTRIES))
        assert other.rows
    thread.join()
    assert answered.is_set()
