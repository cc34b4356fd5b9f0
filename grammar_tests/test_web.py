"""HTTP: every route, every bad request, and the same users, charges, limits and times."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, nullcontext
from io import BytesIO
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpsql.engines import Stop
from dpsql.interfaces import data_frames
from dpsql.interfaces.asking import answered
from dpsql.interfaces.pgwire.pacing import FIRST_STEP
from dpsql.model.errors import Failed, MissingExtra, Unreachable
from dpsql.proxy import Proxy
from dpsql.systems.web import answer_formats, json_api, request_bodies, web_queries
from dpsql.systems.web.answer_formats import ARROW, CSV, EVENTS, FORMATS, JSON, PARQUET
from dpsql.systems.web.api_routes import ALWAYS, ROUTES, SCHEMAS, describe_api
from grammar_tests.proxy_kit import shop
from grammar_tests.test_pacing import Paced
from grammar_tests.waiting import until
from grammar_tests.web_kit import COUNT, WebDoor, WebReply, beside, events_of, web_door
from grammar_tests.wire_kit import PASSWORD, opened

GROUPS = "SELECT country, COUNT(*) AS n FROM customers GROUP BY country"
KEY = "0123456789abcdef"
EVIL = "http://evil.example"
BODIES: dict[str, object] = {
    "Question": {"sql": COUNT},
    "Statements": {"statements": [COUNT, GROUPS]},
    "Cancel": {"id": "none"},
}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDoor]:
    """A server for all tests that leave nothing behind."""
    with web_door(tmp_path_factory.mktemp("web")) as opened:
        yield opened


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[WebDoor]:
    """A server of one test."""
    with web_door(tmp_path) as opened:
        yield opened


# --- routes ---


def fits(value: Any, schema: dict[str, Any], place: str = "") -> None:
    """Check a document against the part of JSON Schema that the description uses."""
    if "$ref" in schema:
        return fits(value, SCHEMAS[schema["$ref"].rpartition("/")[2]], place)
    kinds = schema.get("type", [])
    names: dict[str, Any] = {
        "object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
        "number": (int, float), "null": type(None),
    }  # fmt: skip
    for kind in [kinds] if isinstance(kinds, str) else []:
        assert isinstance(value, names[kind]), (place, value)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        assert set(schema.get("required", ())) <= set(value), place
        assert not properties or set(value) <= set(properties), (place, set(value))
        for name, each in value.items():
            fits(each, properties.get(name, {}), f"{place}.{name}")
    if isinstance(value, list):
        for each in value:
            fits(each, schema.get("items", {}), f"{place}[]")
    return None


@pytest.mark.full("opens a proxy for each item")
def test_every_route_answers_as_it_is_described(web: WebDoor) -> None:
    described = web.send("/v1/openapi.json", user=None).json
    assert described == json.loads(json.dumps(describe_api(described["info"]["version"])))
    for route in ROUTES:
        path = route.path.replace("{table}", "orders")
        operation = described["paths"][route.path][route.method.lower()]
        body = BODIES.get(route.body)
        reply = web.send(path, body, route.method, raw=None if body else b"")
        assert reply.status == 200, reply.body
        content = operation["responses"]["200"]["content"]
        assert set(content) == set(route.formats)
        fits(reply.json, content[JSON]["schema"], route.name)
        assert ("requestBody" in operation) == bool(route.body)


def test_what_is_served_is_what_is_described(web: WebDoor) -> None:
    """Another method or path is a problem that names the description."""
    for route in ROUTES:
        other = "DELETE" if route.method == "GET" else "GET"
        reply = web.send(route.path.replace("{table}", "orders"), method=other)
        assert reply.status == 405
        fits(reply.json, SCHEMAS["Problem"])
    for path in ("/", "/v1", "/v1/querys", "/v2/query", "/v1/tables/a/b", "/metrics"):
        reply = web.send(path)
        assert (reply.status, reply.json["reason"]) == (404, "no-route")


def test_every_number_has_its_interval_or_is_exact(web: WebDoor) -> None:
    answer = web.ask(f"{GROUPS} ORDER BY country", epsilon="10").json  # none is below zero
    assert [row["country"] for row in answer["rows"]] == ["IT", "NO", "SE"]
    for row in answer["rows"]:
        assert row["n"]["low"] < row["n"]["estimate"] < row["n"]["high"]
        fits(row["n"], SCHEMAS["Number"])
    assert answer["receipt"]["epsilon"] == 10
    assert answer["data_version"] == 1
    assert any("country" in notice for notice in answer["notices"])
    public = web.ask("SELECT COUNT(*) AS n FROM countries").json
    assert public["rows"][0]["n"] == {"estimate": 3, "exact": True}
    assert public["receipt"]["charged"] == 0


def test_a_remembered_answer_is_the_same_and_free(web: WebDoor) -> None:
    first, again = web.ask(COUNT).json, web.ask(COUNT).json
    assert first["rows"] == again["rows"]
    assert (again["receipt"]["remembered"], again["receipt"]["charged"]) == (True, 0)


MEAN = "SELECT AVG(age) AS age FROM customers"


@pytest.mark.full("opens a proxy for each item")
def test_options_are_those_of_the_other_interfaces(web: WebDoor) -> None:
    cheap = web.ask("SELECT COUNT(*) AS n FROM logins", epsilon="0.25", confirm=True).json
    assert cheap["receipt"]["epsilon"] == 0.25
    asked = {"parameters": [40, "IT"], "epsilon": 0.5, "nonnegative": True}
    where = "SELECT COUNT(*) AS n FROM customers WHERE age > ? AND country = ?"
    answer = web.ask(where, **asked).json
    assert answer["receipt"]["epsilon"] == 0.5
    assert answer["rows"][0]["n"]["estimate"] >= 0
    precise = web.ask("SELECT COUNT(*) AS n FROM customers WHERE age > 30", within="20").json
    n = precise["rows"][0]["n"]
    assert n["high"] - n["low"] <= 40
    every = web.ask(MEAN).json["rows"][0]["age"]
    short = web.ask(MEAN, digits="interval").json
    assert short["receipt"]["remembered"]
    shown = short["rows"][0]["age"]
    assert len(str(shown["estimate"])) < len(str(every["estimate"]))
    assert (shown["low"], shown["high"]) == pytest.approx((every["low"], every["high"]))
    assert web.ask(MEAN, digits="few").status == 400
    spelled = web.ask("SELECT COUNT(*)::int4 AS n FROM orders", dialect="postgres")
    assert spelled.status == 200, spelled.body


def test_formats_hold_the_same_rows(web: WebDoor) -> None:
    answer = web.ask(GROUPS).json
    expected, notices = answer["rows"], answer["notices"]
    assert notices
    replies = {
        kind: web.send("/v1/query", {"sql": GROUPS}, accept=kind) for kind in (CSV, ARROW, PARQUET)
    }
    for reply in replies.values():
        receipt = json.loads(reply.headers["dpsql-receipt"])
        assert receipt["remembered"] is True
        assert receipt["spent_delta"] == web.ask(GROUPS).json["receipt"]["spent_delta"]
        assert json.loads(reply.headers["dpsql-notices"]) == notices
        assert reply.headers["dpsql-data-version"] == "1"
    tables = [
        pa.ipc.open_stream(replies[ARROW].body).read_all(),
        pq.read_table(BytesIO(replies[PARQUET].body)),
    ]
    for table in tables:
        assert table.column_names == ["country", "n", "n_margin", "n_low", "n_high"]
        assert table["n"].to_pylist() == [row["n"]["estimate"] for row in expected]
        assert table["n_low"].to_pylist() == [row["n"]["low"] for row in expected]
    head, *lines = replies[CSV].body.decode().splitlines()
    assert head == "country,n,n_margin,n_low,n_high"
    assert [line.split(",")[1] for line in lines] == [str(r["n"]["estimate"]) for r in expected]


def test_an_extra_that_is_missing_is_named_before_any_charge(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise MissingExtra("Parquet needs the extra: pip install 'dpsql[parquet]'.")

    monkeypatch.setattr(answer_formats, "require_parquet", missing)
    spent = web.wire.proxy.budgets()
    sql = "SELECT COUNT(*) AS n FROM items"
    reply = web.send("/v1/query", {"sql": sql}, accept=PARQUET)
    assert (reply.status, reply.json["reason"]) == (406, "missing-extra")
    assert "dpsql[parquet]" in reply.json["fix"]
    assert web.wire.proxy.budgets() == spent


def list_for_bob(folder: Path) -> set[str]:
    """Words of what HTTP lists for an analyst whose role grants one column of one table."""
    role = '[roles.few]\nanalysts = ["bob"]\n[roles.few.tables.customers]\ncolumns = ["segment"]\n'
    whole = '[roles.whole]\nanalysts = ["ana"]\ntables = "all"\n'
    with web_door(folder, ("[ledger]", f"{role}{whole}[ledger]")) as opened:
        assert opened.send("/v1/tables/orders", user="ana").status == 200
        paths = "/v1/tables", "/v1/tables/customers", "/v1/tables/orders"
        said = str([opened.send(path, user="bob").body for path in paths])
    return set(re.findall(r"\w+", said))


@pytest.mark.full("measures neighbours or further data sets")
def test_tables_are_listed_as_roles_grant_them(tmp_path: Path) -> None:
    words = list_for_bob(tmp_path)
    assert "segment" in words
    assert not {"amount", "income", "events"} & words


def test_wrong_twin_a_list_that_forgets_roles_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Proxy, "policy_of", lambda self, _analyst: self.policy)
    assert {"amount", "income", "events"} <= list_for_bob(tmp_path)


# --- bad requests ---


def deep(depth: int) -> bytes:
    return b'{"sql": "SELECT 1", "parameters": ' + b"[" * depth + b"]" * depth + b"}"


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"raw": b""}, 400, "bad-body"),
    ({"raw": b"{"}, 400, "bad-body"),
    ({"raw": b"\xff\xfe"}, 400, "bad-body"),
    ({"raw": b"[]"}, 400, "bad-body"),
    ({"raw": b"{}"}, 400, "bad-body"),
    ({"raw": b'{"sql": 1}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "sql": "SELECT 2"}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "epsilon": NaN}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "epsilon": ' + b"9" * 5000 + b"}"}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "epsilon": 1e9999999999999999999}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "epsilon": "many"}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "epsilon": true}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "epsilom": 1}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "confirm": "yes"}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "dialect": "oracle"}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT ?", "parameters": {}}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT ?", "parameters": [{}]}'}, 400, "bad-body"),
    ({"raw": b'{"sql": "SELECT 1", "id": "' + b"a" * 65 + b'"}'}, 400, "bad-body"),
    ({"raw": deep(32)}, 400, "bad-body"),
    ({"raw": b"[" * 500_000}, 400, "bad-body"),
    ({"raw": b" " * (1 << 20) + b"{}"}, 413, "body-size"),
    ({"raw": b"{}", "content_type": "text/plain"}, 415, "content-type"),
    ({"raw": b"{}", "content_type": None}, 415, "content-type"),
    ({"accept": "text/html"}, 406, "accept"),
    ({"accept": "application/json;q=0"}, 406, "accept"),
    ({"idempotency_key": "short"}, 400, "idempotency-key"),
    ({"idempotency_key": "a" * 65}, 400, "idempotency-key"),
    ({"host": "evil.example"}, 421, "host"),
    ({"host": None}, 400, ""),
    ({"origin": EVIL}, 403, "origin"),
    ({"origin": "null"}, 403, "origin"),
    ({"user": None}, 401, "login"),
    ({"authorization": "Basic ???"}, 401, "login"),
    ({"authorization": "Basic " + "A" * 5_000}, 401, "login"),
    ({"authorization": "Bearer " + "A" * 43}, 401, "login"),
    ({"authorization": "Negotiate abc"}, 401, "login"),
    ({"body": {"sql": "SELECT name FROM customers"}}, 422, "hidden-column"),
    ({"body": {"sql": "SELECT ("}}, 422, "syntax-error"),
    ({"body": {"sql": COUNT, "epsilon": -1}}, 422, "bad-option"),
]


@pytest.mark.parametrize(("request_", "status", "reason"), BAD)
def test_a_bad_request_is_a_problem_and_costs_nothing(
    web: WebDoor, request_: dict[str, Any], status: int, reason: str
) -> None:
    spent = web.wire.proxy.budgets()
    sent = {"body": {"sql": "SELECT COUNT(*) AS n FROM events"}, **request_}
    reply = web.send("/v1/query", **sent)
    assert reply.status == status, reply.body
    if reason:
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json["reason"] == reason
        assert reply.json["status"] == status
        assert status in ALWAYS
        fits(reply.json, SCHEMAS["Problem"])
    assert web.wire.proxy.budgets() == spent


@pytest.mark.parametrize("statements", [[], [1], ["SELECT 1"] * 101])
def test_few_statements_are_priced_together(web: WebDoor, statements: list[object]) -> None:
    """A body has room for 60,000, which would keep a thread for half an hour."""
    reply = web.send("/v1/plan", {"statements": statements})
    assert (reply.status, reply.json["reason"]) == (400, "bad-body")


def test_depth_is_counted_outside_of_texts() -> None:
    within = deep(31)
    assert request_bodies.parse_json(within)["sql"] == "SELECT 1"
    texts = json.dumps({"sql": "[" * 100 + '"\\' + "[" * 100}).encode()
    assert len(request_bodies.parse_json(texts)["sql"]) == 202


def test_a_refusal_has_reason_place_why_fix_and_a_statement_that_works(web: WebDoor) -> None:
    refused = web.ask("SELECT country, COUNT(*) AS n FROM customers").json
    assert refused["reason"] == "not-grouped"
    assert refused["place"]["line"] == 1
    assert refused["why"]
    assert refused["charged"] is False
    tried = web.ask(refused["try"]["sql"])
    assert tried.status == 200, tried.body


def test_the_text_of_a_plan_names_no_option_that_http_lacks(web: WebDoor) -> None:
    text = web.send("/v1/explain", {"sql": GROUPS}).json["text"]
    assert "Budget default" in text
    assert "shows every measurement" not in text


def test_a_body_that_never_comes_ends(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "BODY_SECONDS", 0.01)
    connection = web.connection()
    login = web.send("/v1/token", raw=b"").json["token"]
    connection.putrequest("POST", "/v1/query")
    for name, value in (
        ("authorization", f"Bearer {login}"),
        ("content-type", "application/json"),
        ("content-length", "10"),
    ):
        connection.putheader(name, value)
    connection.endheaders(b"{")
    response = connection.getresponse()
    assert response.status == 408
    assert json.loads(response.read())["reason"] == "slow-body"
    connection.close()


def test_no_text_of_the_owners_files_is_sent(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Unreachable("/srv/secret/path.duckdb is gone")

    def break_down(*_: object) -> None:
        raise ValueError("secret of Zoe")

    monkeypatch.setattr(web_queries, "answered", fail)
    never_asked = "SELECT COUNT(*) AS never_asked FROM customers"
    reply = web.ask(never_asked)
    assert (reply.status, reply.json["reason"]) == (503, "unavailable")
    monkeypatch.setattr(web_queries, "answered", break_down)
    broken = web.ask(never_asked)
    assert (broken.status, broken.json["reason"]) == (500, "failed")
    assert b"secret" not in reply.body + broken.body
    assert "Zoe" not in web.lines


# --- progress, cancelling, counts and times ---


def events(web: WebDoor, sql: str) -> list[tuple[str, Any]]:
    reply = web.send("/v1/query", {"sql": sql}, accept=EVENTS)
    assert reply.headers["content-type"].startswith(EVENTS)
    return events_of(reply.body)


@pytest.mark.full("opens servers or connects clients")
def test_progress_says_the_same_for_every_data_set(tmp_path: Path) -> None:
    told = []
    for unit in (None, 3):
        folder = tmp_path / f"without-{unit}"
        folder.mkdir()
        policy = shop(folder / "shop", without=unit)
        with opened(folder, policy) as wire, beside(folder, wire) as web:
            found = events(web, GROUPS)
            told.append([(event, sorted(data)) for event, data in found])
            assert found[2][1]["seconds"] >= FIRST_STEP
            assert found[-1][1]["rows"] == web.ask(GROUPS).json["rows"]
    assert told[0] == told[1]
    assert [event for event, _ in told[0]] == ["queued", "charged", "step", "answer"]


def test_progress_without_a_charge(web: WebDoor) -> None:
    web.ask(COUNT)
    assert [event for event, _ in events(web, COUNT)] == ["queued", "answer"]
    refused = events(web, "SELECT name FROM customers")
    assert [event for event, _ in refused] == ["queued", "problem"]
    fits(refused[1][1], SCHEMAS["Problem"])


@pytest.mark.full("measures neighbours or further data sets")
def test_an_unknown_error_is_the_last_event(
    fresh: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one the request would never end, and would always count."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError(PASSWORD)

    monkeypatch.setattr(json_api, "render_answer", fail)
    name, problem = events(fresh, COUNT)[-1]
    assert (name, problem["reason"]) == ("problem", "failed")
    assert PASSWORD not in str(problem)
    assert problem["query_id"] in fresh.lines


class Held:
    """An answer that waits until it is let go, or stopped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.free = Event(), Event()
        self.replies: list[WebReply] = []
        self._real = answered
        monkeypatch.setattr(web_queries, "answered", self._answered)

    def _answered(self, proxy: Any, request: Any, stop: Stop, door: Any) -> Any:
        self.begun.set()
        while not self.free.wait(0.01):
            if stop.requested:
                raise Failed("cd" * 8, cancelled=True, charged=False)
        return self._real(proxy, request, stop, door)

    def ask(self, web: WebDoor, **fields: Any) -> Thread:
        """Ask in a thread, up to where it is held."""
        thread = Thread(target=lambda: self.replies.append(web.ask(**fields)))
        thread.start()
        assert self.begun.wait(30)
        return thread


@pytest.mark.full("opens a proxy for each item")
def test_only_the_analyst_can_cancel_a_query(
    fresh: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    thread = held.ask(fresh, id="mine")
    assert fresh.send("/v1/cancel", {"id": "mine"}, user="bob").json == {"cancelled": 0}
    assert fresh.send("/v1/cancel", {"id": "other"}).json == {"cancelled": 0}
    assert fresh.send("/v1/cancel", {"id": "mine"}).json == {"cancelled": 1}
    thread.join(30)
    (reply,) = held.replies
    assert (reply.status, reply.json["reason"]) == (409, "cancelled")


@pytest.mark.full("opens servers or connects clients")
def test_requests_and_connections_count_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_door(tmp_path, max_connections_per_analyst=1) as web:
        held = Held(monkeypatch)
        thread = held.ask(web)
        many = web.send("/v1/budget")
        assert (many.status, many.json["reason"]) == (429, "too-many-requests")
        with pytest.raises(psycopg.OperationalError, match="too many connections"):
            psycopg.connect(**web.wire.conninfo())
        assert web.send("/v1/budget", user="bob").status == 200
        held.free.set()
        thread.join(30)
        assert held.replies[0].status == 200
        with psycopg.connect(**web.wire.conninfo()):
            assert web.send("/v1/budget").status == 429
        until(lambda: web.send("/v1/budget").status == 200)


def is_counted_after_its_client_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a query counts whose client left its stream of events."""
    with web_door(folder, max_connections_per_analyst=1) as web, closing(web.connection()) as gone:
        held, body = Held(monkeypatch), json.dumps({"sql": COUNT})
        login = f"Basic {b64encode(f'ana:{PASSWORD}'.encode()).decode()}"
        headers = {"Authorization": login, "Content-Type": JSON, "Accept": EVENTS}
        gone.request("POST", "/v1/query", body, headers)
        gone.getresponse()
        assert held.begun.wait(30)
        gone.close()
        left = web.web._serving.server_state.connections
        until(lambda: not left)
        status = web.send("/v1/budget").status
        held.free.set()
        until(lambda: web.send("/v1/budget").status == 200)
        return status == 429


@pytest.mark.full("measures neighbours or further data sets")
def test_a_query_whose_client_left_counts_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_counted_after_its_client_left(tmp_path, monkeypatch)


def test_wrong_twin_a_query_that_its_client_leaves_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_api, "CancelScope", lambda **_: nullcontext())
    assert not is_counted_after_its_client_left(tmp_path, monkeypatch)


@pytest.mark.full("opens servers or connects clients")
def test_answers_keep_the_grid(fresh: WebDoor) -> None:
    """A new answer waits for its step, in the clock of the test; others wait for nothing."""
    paced = Paced()
    fresh.wire.server._pacer = paced.pacer()
    assert fresh.ask(COUNT).status == 200
    (wait,) = paced.time.waits
    assert paced.time.now == 1000.0 + wait
    assert wait in (6.4, FIRST_STEP)
    assert paced.log[0]["step"] == wait
    fresh.ask(COUNT)
    fresh.ask("SELECT COUNT(*) FROM countries")
    fresh.send("/v1/explain", {"sql": GROUPS})
    assert len(paced.time.waits) == 1


def test_wrong_twin_a_query_without_a_pace_waits_for_nothing(
    fresh: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced = Paced()
    fresh.wire.server._pacer = paced.pacer()
    monkeypatch.setattr(web_queries, "ProgressPace", lambda *_: None)
    assert fresh.ask(COUNT).status == 200
    assert paced.time.waits == []


@pytest.mark.full("opens servers or connects clients")
def test_the_log_says_who_asked_and_no_text(fresh: WebDoor) -> None:
    fresh.ask("SELECT COUNT(*) AS n FROM customers WHERE country = 'IT'")
    fresh.ask("SELECT secret FROM customers")
    lines = [json.loads(line) for line in fresh.wire.lines]
    asked = [line for line in lines if line["event"] == "statement"]
    assert [(line["door"], line["analyst"], line["answer"]) for line in asked] == [
        ("http", "ana", "fresh"),
        ("http", "ana", "refused"),
    ]
    assert not re.search("SELECT|secret|country", fresh.lines)


@pytest.mark.full("opens a proxy for each item")
def test_texts_are_logged_where_the_owner_says_so(tmp_path: Path) -> None:
    with web_door(tmp_path, log_statements=True) as web:
        web.ask("SELECT COUNT(*) AS n FROM customers WHERE country = 'IT'")
        assert "WHERE country = ?" in web.lines
        assert "'IT'" not in web.lines


@pytest.mark.full("opens servers or connects clients")
def test_http_and_the_wire_spend_one_budget(fresh: WebDoor) -> None:
    first = fresh.ask(COUNT).json
    with psycopg.connect(**fresh.wire.conninfo()) as client:
        row = client.execute(COUNT).fetchone()
    assert row == (first["rows"][0]["n"]["estimate"],)
    assert len(fresh.send("/v1/history").json["rows"]) == 1


@pytest.mark.full("opens servers or connects clients")
def test_formats_are_named_by_the_module_that_lacks() -> None:
    with pytest.raises(MissingExtra, match=r"dpsql\[none\]"):
        data_frames.module("no_such_module", "none", "It")
    assert FORMATS[0] == JSON


@pytest.mark.full("opens servers or connects clients")
def test_the_port_is_closed_at_the_end(tmp_path: Path) -> None:
    with web_door(tmp_path) as web:
        with beside(tmp_path, web.wire) as second:
            assert second.send("/v1/budget").status == 200
        with pytest.raises(OSError, match="refused"):
            second.send("/v1/budget")
        assert web.send("/v1/budget").status == 200
