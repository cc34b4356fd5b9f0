"""HTTP: a question with a key is charged once, and its kept reply is repeated only for it."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, patch
from weakref import WeakValueDictionary

import pytest

from dpsql.model.errors import Failed
from dpsql.systems.web import answer_formats, json_api, web_queries
from dpsql.systems.web.answer_formats import CSV, JSON, HttpReply
from dpsql.systems.web.idempotency import KEPT_SECONDS, KeptReplies
from dpsql.systems.web.json_api import JsonApi
from dpsql.systems.web.repeated_replies import RepeatedReplies
from dpsql.systems.web.request_bodies import read_question
from dpsql.systems.web.web_queries import QueryRunner
from grammar_tests.proxy_kit import shop
from grammar_tests.test_web import GROUPS, KEY
from grammar_tests.test_web import fresh as fresh  # noqa: PLC0414 - a fixture
from grammar_tests.test_web import web as web  # noqa: PLC0414 - a fixture
from grammar_tests.web_kit import COUNT, WebDoor, WebReply, beside, web_door
from grammar_tests.wire_kit import opened

# --- idempotency ---


def keyed(web: WebDoor, sql: str = COUNT, key: str = KEY, **more: Any) -> WebReply:
    return web.send("/v1/query", {"sql": sql}, idempotency_key=key, **more)


@pytest.mark.full("opens servers or connects clients")
def test_a_retry_is_charged_once_even_for_new_data(fresh: WebDoor) -> None:
    first = keyed(fresh)
    fresh.wire.proxy.refresh()
    again = keyed(fresh)
    assert again.body == first.body
    assert again.json["data_version"] == 1
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    other = keyed(fresh, key="f" * 16).json
    assert (other["data_version"], other["receipt"]["remembered"]) == (2, False)


def retried_without_a_right(folder: Path, rights: str = "customers]") -> WebReply:
    """The reply to a repetition by an analyst whose role has only these rights since."""
    policy = shop(folder / "shop")
    with opened(folder, policy) as wire, beside(folder, wire) as web:
        assert keyed(web).status == keyed(web).status == 200
    role = f'[roles.few]\nanalysts = ["ana", "bob"]\n[roles.few.tables.{rights}\n\n[ledger]'
    policy.write_text(policy.read_text(encoding="utf-8").replace("[ledger]", role))
    with opened(folder, policy) as wire, beside(folder, wire) as web:
        return keyed(web)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_retry_under_fewer_rows_is_refused(tmp_path: Path) -> None:
    """The kept reply counts rows that the analyst may not use any more."""
    reply = retried_without_a_right(tmp_path, "orders]\nrows = \"status = 'paid'\"")
    assert (reply.status, reply.json["reason"]) == (422, "idempotency-key")


@pytest.mark.full("measures neighbours or further data sets")
def test_a_retry_without_a_right_is_refused(tmp_path: Path) -> None:
    reply = retried_without_a_right(tmp_path)
    assert (reply.status, reply.json["reason"]) == (422, "unknown-table")


def test_wrong_twin_a_reply_that_is_repeated_unasked_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unasked(*_: object) -> None: ...

    monkeypatch.setattr(web_queries.QueryRunner, "explain", unasked)
    assert retried_without_a_right(tmp_path).status == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"sql": GROUPS, "within": 100},
        {"sql": f"EXPLAIN PRIVACY {GROUPS}"},
        {"sql": "SELECT COUNT(*) AS n FROM countries"},
        {"sql": "SELECT COUNT(*) AS n FROM customers WHERE country = ?", "parameters": ["SE"]},
    ],
)
def test_every_kind_of_question_is_repeated(web: WebDoor, fields: dict[str, Any]) -> None:
    key = sha256(repr(fields).encode()).hexdigest()
    first, again = (web.send("/v1/query", fields, idempotency_key=key) for _ in range(2))
    assert (first.status, again.status) == (200, 200), first.body
    assert first.body == again.body


def test_wrong_twin_a_server_that_keeps_no_reply_charges_twice(
    fresh: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeptReplies, "keep", lambda *_: None)
    keyed(fresh)
    fresh.wire.proxy.refresh()
    assert keyed(fresh).json["receipt"]["remembered"] is False


def asked_for_two_at_once(folder: Path, turns: Any) -> int:
    """How often a question is asked for a request and for the same one that comes meanwhile."""
    asked = list[str]()

    async def ask(*_: object) -> HttpReply:
        asked.append("once")
        for _step in range(100):
            await asyncio.to_thread(int)
        return HttpReply(200, JSON, b"{}")

    async def both() -> None:
        nothing: Any = SimpleNamespace(explain=AsyncMock())
        policy = SimpleNamespace(roles=())
        proxy = SimpleNamespace(policy=policy, chain=lambda _analyst: ())
        caller: Any = SimpleNamespace(
            analyst="ana", client="", present=SimpleNamespace(proxy=proxy)
        )
        api = JsonApi(nothing, nothing, KeptReplies(str(folder / "replies")), turns=turns)
        question, events = read_question({"sql": COUNT}), json_api._Events()
        with patch.object(JsonApi, "_ask", ask):
            one, two = (api._answer(caller, question, KEY, JSON, events) for _ in range(2))
            first, second = await asyncio.gather(one, two)
        assert first.body == second.body

    asyncio.run(both())
    return len(asked)


def test_a_retry_waits_for_the_request_that_is_asked(tmp_path: Path) -> None:
    """Where no answer is remembered, both would be charged."""
    assert asked_for_two_at_once(tmp_path, WeakValueDictionary()) == 1


def test_wrong_twin_a_retry_that_does_not_wait_asks_twice(tmp_path: Path) -> None:
    forgetful = SimpleNamespace(setdefault=lambda _key, lock: lock)
    assert asked_for_two_at_once(tmp_path, forgetful) == 2


@pytest.mark.full("measures neighbours or further data sets")
def test_a_key_belongs_to_one_question_and_one_analyst(fresh: WebDoor) -> None:
    first = keyed(fresh)
    for other in (keyed(fresh, GROUPS), keyed(fresh, accept=CSV)):
        assert (other.status, other.json["reason"]) == (422, "idempotency-key")
    named = fresh.send("/v1/query", {"id": "mine", "sql": COUNT}, idempotency_key=KEY)
    assert named.body == first.body
    bobs = keyed(fresh, GROUPS, user="bob")
    assert bobs.status == 200, bobs.body


@pytest.mark.full("measures neighbours or further data sets")
def test_a_refusal_keeps_no_key_and_a_charged_failure_does(
    fresh: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keyed(fresh, "SELECT name FROM customers").status == 422
    body = {"sql": COUNT, "within": "-5"}
    assert fresh.send("/v1/query", body, idempotency_key=KEY).json["reason"] == "bad-option"
    assert keyed(fresh, GROUPS).status == 200

    def fail(*_: object) -> None:
        raise Failed("ab" * 8, charged=True)

    with monkeypatch.context() as patch:
        patch.setattr(web_queries, "answered", fail)
        failed = keyed(fresh, key="e" * 16)
    again = keyed(fresh, key="e" * 16)
    assert (failed.status, again.status) == (500, 500)
    assert again.json == failed.json
    assert again.json["charged"] is True


def test_keys_last_a_day_and_survive_a_restart(tmp_path: Path) -> None:
    now, reply = [1e9], answer_formats.HttpReply(200, JSON, b"{}")
    path = str(tmp_path / "replies")
    kept = KeptReplies(path, lambda: now[0])
    assert kept.find("ana", KEY, "a") is None
    kept.keep("ana", KEY, "a", reply)
    now[0] += KEPT_SECONDS
    found = KeptReplies(path, lambda: now[0]).find("ana", KEY, "a")
    assert found is not None
    assert found.body == b"{}"
    now[0] += 1
    assert kept.find("ana", KEY, "b") is None
    assert (tmp_path / "replies").stat().st_mode & 0o077 == 0
    assert KEY.encode() not in (tmp_path / "replies").read_bytes()


@pytest.mark.parametrize("other", [False, True])
def test_a_reply_belongs_to_its_question_whatever_a_second_request_did(
    tmp_path: Path, *, other: bool
) -> None:
    """The second one was refused while the first one ran; then its key may name another."""
    kept = KeptReplies(str(tmp_path / "replies"))
    assert kept.find("ana", KEY, "a") is kept.find("ana", KEY, "a") is None
    kept.drop("ana", KEY, "a")
    if other:
        assert kept.find("ana", KEY, "b") is None
    kept.keep("ana", KEY, "a", answer_formats.HttpReply(200, JSON, b"of a"))
    found = kept.find("ana", KEY, "b" if other else "a")
    assert (None if found is None else found.body) == (None if other else b"of a")


@pytest.mark.full("opens servers or connects clients")
def test_an_analyst_has_a_bounded_number_of_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.systems.web.idempotency.MOST_KEYS", 2)
    kept = KeptReplies(str(tmp_path / "replies"))
    for name, charged in (("a", True), ("b", False)):
        kept.find("ana", name * 16, "")
        kept.keep("ana", name * 16, "", answer_formats.HttpReply(200, JSON, b"{}", {}, charged))
    assert kept.find("ana", "c" * 16, "") is None  # in the place of the free one
    assert kept.find("ana", "a" * 16, "") is not None
    with pytest.raises(Exception, match="keys of charged queries"):
        kept.find("ana", "b" * 16, "")
    assert kept.find("bob", "c" * 16, "") is None


@pytest.mark.full("measures neighbours or further data sets")
def test_the_size_of_what_an_analyst_has_kept_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsql.systems.web.idempotency.MOST_BYTES_OF_ANALYST", 5)
    kept = KeptReplies(str(tmp_path / "replies"))
    for name in ("a", "b"):
        assert kept.find("ana", name * 16, "") is None
        kept.keep("ana", name * 16, "", answer_formats.HttpReply(200, JSON, b"123"))
    assert kept.find("ana", "a" * 16, "") is not None
    assert kept.find("ana", "b" * 16, "") is None


# --- repeated answers without a key ---


def stale_replies(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> tuple[int, bool]:
    """How many of six requests were asked, and whether one after a refresh is about old data.

    Three of one analyst are the same, of which the first is charged. The next is EXPLAIN, twice.
    The last is another analyst's.
    """
    asked, ask = [], QueryRunner.ask

    async def count(runner: QueryRunner, *rest: Any, **named: Any) -> Any:
        asked.append(rest)
        return await ask(runner, *rest, **named)

    monkeypatch.setattr(QueryRunner, "ask", count)
    replies = [web.send("/v1/query", {"sql": COUNT}).json for _ in range(3)]
    assert replies[1] == replies[2]
    assert [each["receipt"]["remembered"] for each in replies] == [False, True, True]
    for _ in range(2):
        web.send("/v1/query", {"sql": f"EXPLAIN {COUNT}"})
    assert not web.send("/v1/query", {"sql": COUNT}, user="bob").json["receipt"]["remembered"]
    number = len(asked)
    web.wire.server.present.proxy.refresh()
    later = web.send("/v1/query", {"sql": COUNT}).json
    return number, later["data_version"] == replies[0]["data_version"]


@pytest.mark.full("opens servers or connects clients")
def test_a_repeated_answer_is_sent_again_while_nothing_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_door(tmp_path) as web:
        assert stale_replies(web, monkeypatch) == (5, False)
        assert web.lines.count('"door": "http"') >= 6


@pytest.mark.full("opens servers or connects clients")
def test_wrong_twin_replies_that_forget_the_stamp_are_about_old_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RepeatedReplies, "get", lambda each, _, key: each._replies.get(key))
    with web_door(tmp_path) as web:
        assert stale_replies(web, monkeypatch)[1]
