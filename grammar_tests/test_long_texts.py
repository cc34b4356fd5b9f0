"""Long texts are read by workers: nobody's takes the interpreter of the server from the others."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event, Thread
from typing import Any

import pytest

from dpsql.dialects.postgres import words
from dpsql.dialects.postgres.words import MAX_STATEMENTS, pieces
from dpsql.engines import Stop
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.pgwire.catalogue.translation import pg_text
from dpsql.interfaces.pgwire.frontend import Message, Parse, Query, Sync
from dpsql.interfaces.pgwire.outcomes import normalised
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.preparation import long_texts
from dpsql.preparation.long_texts import LONG
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop
from grammar_tests.session_kit import COUNTRIES, Client

PADDING = " " * LONG
TEXTS = (
    COUNTRIES,
    "SELECT relname FROM pg_class WHERE relname = 'customers'",
    "SELECT budget FROM dpsql.budget()",
    "PREPARE one AS SELECT code FROM countries; EXECUTE one",
    f"COPY ({COUNTRIES}) TO STDOUT",
    "SELECT code FROM nowhere",
    "SELECT 'never closed",
    "FETCH 5",
)
"""Questions of every kind, and errors with a place."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    policy = shop(tmp_path_factory.mktemp("long"))
    with CommandSettings().open_server(str(policy)) as found:
        yield found


@pytest.fixture
def _own_process_reads_nothing_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What divides and parses texts refuses long ones, in this process alone."""

    def guarded(read: Any) -> Any:
        def reading(text: str) -> Any:
            assert len(text) <= LONG
            return read(text)

        return reading

    monkeypatch.setattr(words, "words", guarded(words.words))
    monkeypatch.setattr(pg_text, "_tokens", guarded(pg_text._tokens))


def said(client: Client, *messages: Message) -> list[tuple[bytes, bytes]]:
    """What a session says, without numbers that are drawn."""
    client.send(*messages)
    return [(kind, re.sub(rb"[0-9a-f]{16}", b"", body)) for kind, body in client.said]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.usefixtures("_own_process_reads_nothing_long")
@pytest.mark.parametrize("sql", TEXTS)
def test_long_texts_are_answered_as_short_ones_are(proxy: Proxy, sql: str) -> None:
    for make in (lambda text: (Query(text),), lambda text: (Parse("", text, ()), Sync())):
        short = said(Client(proxy), *make(sql))
        assert said(Client(proxy), *make(sql + PADDING)) == short


@pytest.mark.usefixtures("_own_process_reads_nothing_long")
@pytest.mark.parametrize("sql", TEXTS[:2])
def test_a_process_that_reads_long_texts_would_be_seen(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.setattr(long_texts, "LONG", 1 << 30)
    client = Client(proxy)
    client.send(Query(f"{PADDING}{sql}"))
    assert client.error["C"] == "XX000"


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(
    "make",
    [lambda text: (Query(text),), lambda text: (Parse("", text, ()), Sync())],
    ids=["simple", "extended"],
)
def test_who_waits_for_a_reader_holds_up_nobody_and_can_leave(proxy: Proxy, make: Any) -> None:
    pool: Any = proxy.compiler
    client, other, answered = Client(proxy), Client(proxy), Event()
    other.query(COUNTRIES)

    def ask() -> None:
        client.send(*make(f"{COUNTRIES}{PADDING}{'-- another'}"))
        answered.set()

    with ExitStack() as stack:
        for _ in range(pool._most):
            stack.enter_context(pool._work.workers.taken())
        thread = Thread(target=ask)
        thread.start()
        assert not answered.wait(0.3)
        other.query(COUNTRIES)
        assert other.rows
        client.session.cancel()
        thread.join()
    assert client.error["C"] == "57014"
    assert "nothing was charged" in client.error["M"]
    client.send(*make(COUNTRIES + PADDING))
    assert b"E" not in dict(client.said)


def test_what_is_cancelled_beforehand_is_not_read(proxy: Proxy) -> None:
    with pytest.raises(Failed) as caught:
        long_texts.read(proxy.compiler.apart, LONG + 1, Stop(requested=True), pieces, PADDING + "x")
    assert caught.value.cancelled
    assert not caught.value.charged


def test_the_log_has_the_text_even_where_nobody_reads(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_given: object) -> None:
        raise Failed("0" * 16, charged=False)

    client, (piece,) = Client(proxy), pieces(f"SELECT missing,{PADDING}'x'")
    client.session._texts, client.session._piece = True, piece
    assert client.session._text() == normalised(piece)
    monkeypatch.setattr(proxy.compiler, "apart", failing)
    assert client.session._text() == normalised(piece)


# --- what crosses over ---


@pytest.mark.full("opens a proxy")
def test_words_stay_behind() -> None:
    (piece,) = pieces("SELECT 1")
    size = len(pickle.dumps(piece))
    assert len(piece.words) == 2
    assert len(pickle.dumps(piece)) == size
    assert pickle.loads(pickle.dumps(piece)).words == piece.words  # noqa: S301 - of our own


@pytest.mark.full("measures neighbours or further data sets")
def test_no_message_has_more_statements_than_it_may() -> None:
    assert len(pieces("x;" * MAX_STATEMENTS)) == MAX_STATEMENTS
    with pytest.raises(Refused) as caught:
        pieces("x;" * (MAX_STATEMENTS + 1))
    assert caught.value.reason is Reason.TOO_LARGE
