"""Hostile calls over HTTP and MCP against data with canaries: none comes out, and none is logged.

SECURITY.md S5, S19, S31 and S32. A canary is a text or a number of one person that nobody guesses.
The calls are drawn from texts that make engines quote values, and none of them has a canary.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from starlette.routing import Route

from dpsql.interfaces.asking import answered
from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.policy.draft import ServerSettings as Limits
from dpsql.proxy import Proxy
from dpsql.systems.web import web_queries
from dpsql.systems.web.guarded_app import guarded_app
from dpsql.systems.web.idempotency import KeptReplies
from dpsql.systems.web.json_api import JsonApi
from dpsql.systems.web.mcp_endpoint import PATH, McpEndpoint
from dpsql.systems.web.mcp_tools import McpTools
from dpsql.systems.web.problems import Problem
from dpsql.systems.web.web_queries import QueryRunner
from dpsql.systems.web.web_users import WebUsers
from grammar_tests import world
from grammar_tests.proxy_kit import shop
from grammar_tests.wire_kit import PASSWORD, unpaced, users

STEM = "qzxvw"
"""What every text of a person contains."""
QUOTED = "qzxvwquoted"
"""What an engine quotes that fails."""
POLICY = (
    ("epsilon = 1000.0\ndelta = 1e-3", "epsilon = 1e6\ndelta = 1e-3"),
    ("query_delta = 1e-6", "query_delta = 1e-15"),  # no key of one person is shown, whatever comes
)


# --- data ---


def digits(*of: object) -> int:
    """A number of nine digits that only these values have."""
    return 10**8 + int(sha256(repr(of).encode()).hexdigest(), 16) % (9 * 10**8)


def planted() -> tuple[world.Tables, frozenset[str]]:
    """The shop with a canary in every private column that has room, and the canaries."""
    tables, canaries = world.well_behaved(), {STEM}
    ids = {row[0]: digits("id", row[0]) for row in tables["customers"]}
    people, orders = [], []
    for unit, country, segment, _, age, _, vip, joined, *_ in tables["customers"]:
        income = digits("income", unit) / 10**4  # below 100,000, with four places
        texts = [f"{STEM}{kind}{unit}" for kind in ("city", "name", "secret")]
        rest = (age, income, vip, joined, *texts[1:])
        people.append((ids[unit], country, segment, texts[0], *rest))
        canaries |= {str(ids[unit]), f"{income:.4f}", f"{income:.4f}"[:9]}
    for number, unit, _, _, discount, day, status, _, _ in tables["orders"]:
        quantity, length = digits("quantity", number), digits("length", number)
        micros = digits("moment", number) % 10**6
        placed = day + timedelta(microseconds=micros, seconds=number % 60)
        amount = digits("amount", number) % 10**7 + Decimal("0.37")
        note = f"{STEM}note{number}"
        orders.append((number, ids[unit], amount, quantity, discount, placed, status, note, length))
        canaries |= {str(quantity), str(length), f"{amount:.2f}", f"{placed:%M:%S.%f}"}
    for name in ("events", "logins"):
        tables[name] = [(row[0], ids[row[1]], *row[2:]) for row in tables[name]]
    return {**tables, "customers": people, "orders": orders}, frozenset(canaries)


# --- calls ---

TABLES = (
    "customers", "orders", "items", "events", "logins", "countries",
    "orders JOIN customers USING (customer_id)",
    "orders o LEFT JOIN customers c ON o.note = c.name", "(SELECT * FROM customers)",
    "information_schema.columns", "dpsql_history", "duckdb_settings()", "read_csv('/etc/passwd')",
    "'shop.duckdb'", "pg_catalog.pg_stats", "customers TABLESAMPLE 1 ROWS",
)  # fmt: skip
TERMS = (
    "*", "name", "city", "secret", "note", "income", "amount", "quantity", "placed_at",
    "customer_id", "note_length", "CAST(city AS INTEGER)", "CAST(note AS DATE)", "note::INTERVAL",
    "city::UUID", "1 / (age - age)", "quantity * 9223372036854775807", "amount ** 1000",
    "LN(-income)", "SQRT(0 - amount)", "EXP(quantity)", "error(name)", "error('x' || city)",
    "STRPTIME(note, '%Y')", "REGEXP_MATCHES(city, note)", "REGEXP_EXTRACT(note, '(', 1)",
    "CHR(quantity)", "note LIKE city", "placed_at + quantity * INTERVAL 1 YEAR",
    "DATE_TRUNC(city, placed_at)", "SUBSTR(city, 1, 3)", "LENGTH(note)", "ASCII(city)",
    "HASH(city)", "MD5(note)", "CONCAT(city, note)", "UPPER(city)", "LIST(city)",
    "STRING_AGG(note, ',')", "ANY_VALUE(city)", "ARG_MAX(city, income)", "MODE(city)",
    "FIRST(note)", "HISTOGRAM(city)", "JSON_OBJECT('a', city)", "ROW(city, note)", "[city]",
    "CASE WHEN income > 50000 THEN 1 / 0 ELSE 1 END", "CAST(amount AS DECIMAL(3, 2))",
    "-quantity", "(SELECT name FROM customers LIMIT 1)", "getenv('PATH')",
    "current_setting('data_directory')", "APPROX_QUANTILE(income, 0.5)", "COUNT(*)", "1", "NULL",
)  # fmt: skip
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "COUNT DISTINCT", "STDDEV", "LIST", "")
SHAPES = (
    "SELECT {e} FROM {t}",
    "SELECT {a}({e}) AS x FROM {t}",
    "SELECT {a}({e}) AS x, COUNT(*) FROM {t} WHERE {f} IS NOT NULL",
    "SELECT {f}, {a}({e}) FROM {t} GROUP BY {f}",
    "SELECT {f}, COUNT(*) AS n FROM {t} GROUP BY 1 HAVING {a}({e}) > 0 ORDER BY {g} LIMIT 3",
    "SELECT COUNT(*) FROM {t} WHERE {e} = {f}",
    "SELECT {a}({e}) OVER (PARTITION BY {f} ORDER BY {g}) FROM {t}",
    "WITH w AS (SELECT {f} AS k, {a}({e}) AS x FROM {t} GROUP BY 1) SELECT MAX(x) FROM w",
    "SELECT {a}({e}) FROM {t} UNION ALL SELECT {f} FROM {t}",
    "EXPLAIN PRIVACY VERBOSE SELECT {a}({e}) FROM {t}",
    "SELECT COUNT(*) FROM {t} WHERE EXISTS (SELECT {e} FROM customers WHERE {f} = {g})",
    "SELECT {f}, QUANTILE_CONT(income, [0.1, {e}]) FROM {t} GROUP BY {f}",
    "COPY (SELECT {e} FROM {t}) TO '/tmp/x'",
    "SELECT {a}({e}) FROM {t} WHERE CAST({f} AS INTEGER) = ?",
)
VALUES: tuple[Any, ...] = (
    1,
    -1,
    10**30,
    "x",
    None,
    True,
    [1],
    0.5,
    "2024-01-01",
    "%",
    [[]],
    "a" * 99,
)
FORMATS = (*["application/json", "text/csv", "text/event-stream", "*/*"] * 3, "text/html")
TOOLS = (*["query"] * 6, *"list_tables describe_table price plan history budget none".split())


KEYS = {
    "customers": (
        "city", "UPPER(city)", "SUBSTR(city, 1, 9)", "income", "customer_id", "country", "age",
        "joined",
    ),
    "orders": (
        "note", "note_length", "amount", "quantity", "placed_at", "customer_id", "order_id",
        "status", "DATE_TRUNC('second', placed_at)", "CAST(amount AS VARCHAR)", "note || status",
    ),
}  # fmt: skip
NUMBERS = {
    "customers": (
        "income", "age", "customer_id", "LENGTH(city)", "100 / (age - 30)", "LN(income - 40000)",
        "CAST(city AS INTEGER)", "CAST(SUBSTR(city, 1, 1) AS INTEGER)", "income * 1e300",
        "ASCII(city)",
    ),
    "orders": (
        "amount", "quantity", "note_length", "discount", "amount * quantity",
        "1 / (quantity - 5)", "CAST(note AS INTEGER)", "EXTRACT(microsecond FROM placed_at)",
        "EPOCH(placed_at)",
    ),
}  # fmt: skip
CONDITIONS = {
    "customers": (
        "TRUE", "city LIKE '%7'", "income > 50000", "city < name",
        "CAST(city AS DATE) > '2020-01-01'", "income > (SELECT AVG(income) FROM customers)",
        "customer_id % 7 = 3", "city IN ('Oslo', 'x')", "age = 30 AND country = 'NO'",
        "LENGTH(city) = 11",
    ),
    "orders": (
        "TRUE", "note LIKE 'q%'", "amount > 73519", "note_length > 500000000", "1 / quantity > 0",
        "placed_at > '2024-05-01'", "CAST(note AS DOUBLE) > 0", "status = 'paid'",
        "order_id = 71",
        "customer_id IN (SELECT customer_id FROM customers WHERE income > 60000)",
    ),
}  # fmt: skip
SINGLE = ("SUM", "AVG", "MIN", "MAX", "MEDIAN", "STDDEV", "COUNT")
PLAIN = (
    "SELECT {k}, COUNT(*) AS n, {a}({e}) AS x FROM {t} WHERE {c} GROUP BY {k}",
    "SELECT {a}({e}) AS x, {b}({e}) AS y FROM {t} WHERE {c}",
    "SELECT {k}, COUNT(*) AS n FROM {t} WHERE {c} GROUP BY 1 HAVING COUNT(*) < 2 ORDER BY n",
    "SELECT COUNT(DISTINCT {k}) AS n, {a}({e}) AS x FROM {t}",
    "SELECT {a}({e}) / {b}({e}) AS x FROM {t} WHERE {c}",
    "SELECT MAX(n), MIN(x) FROM (SELECT {k}, COUNT(*) AS n, {a}({e}) AS x FROM {t} GROUP BY 1)",
    "SELECT status, {a}(amount) FROM orders JOIN customers USING (customer_id) GROUP BY status",
    "SELECT country, {a}(income) AS x, COUNT(*) AS n FROM customers GROUP BY country",
)


def draw_sql(dice: Random) -> str:
    """A statement that tries to get at a value, sometimes damaged."""
    if dice.random() < 0.6:
        table = dice.choice(["customers", "orders"])
        sql = dice.choice(PLAIN).format(
            t=table,
            k=dice.choice(KEYS[table]),
            e=dice.choice(NUMBERS[table]),
            c=dice.choice(CONDITIONS[table]),
            a=dice.choice(SINGLE),
            b=dice.choice(SINGLE),
        )
    else:
        term = partial(dice.choice, TERMS)
        aggregate, *distinct = dice.choice(AGGREGATES).split(" ") or [""]
        expression = f"DISTINCT {term()}" if distinct else term()
        sql = dice.choice(SHAPES).format(
            e=expression, f=term(), g=term(), a=aggregate, t=dice.choice(TABLES)
        )
    words = sql.split(" ")
    if dice.random() < 0.1:
        at = dice.randrange(len(words))
        words[at : at + 1] = dice.choice([[], [words[at]] * 2, ["("], ["'"], [";"], ["\0"], ["--"]])
    return " ".join(words)


Call = tuple[str, str, bytes | None, dict[str, str]]
"""Method, path, body and headers."""


def draw_call(dice: Random) -> Call:
    """One call of an analyst who means no good."""
    sql, headers = draw_sql(dice), {"accept": dice.choice(FORMATS)}
    options = {
        "epsilon": dice.choice(["10", "0.1", "x", -1, 10]),
        "within": dice.choice(["5%", 100, "0"]),
        "dialect": dice.choice(["duckdb", "postgres", "oracle"]),
    }
    chosen = {name: value for name, value in options.items() if dice.random() < 0.1}
    if "?" in sql or dice.random() < 0.05:
        chosen["parameters"] = [dice.choice(VALUES) for _ in range(dice.randrange(3))]
    text = json.dumps({"sql": sql, "confirm": True, **chosen}).encode()
    match dice.randrange(20):
        case 0:
            path = dice.choice(["/v1/tables", "/v1/budget", "/v1/history", "/v1/openapi.json"])
            return "GET", path, None, headers
        case 1:
            table = dice.choice([*TABLES, *TERMS]).replace("/", "%2F").replace("?", "%3F")
            return "GET", f"/v1/tables/{table}", None, headers
        case 2:
            return "POST", "/v1/query", text[: dice.randrange(len(text))], headers
        case 3 | 4:
            return "POST", "/v1/explain", text, {}
        case 5:
            texts = [sql, *(draw_sql(dice) for _ in range(2))]
            return "POST", "/v1/plan", json.dumps({"statements": texts}).encode(), {}
        case 6 | 7 | 8 | 9 | 10:
            return "POST", PATH, json.dumps(draw_tool(dice, sql)).encode(), {}
        case _:
            if dice.random() < 0.2:
                headers["idempotency-key"] = f"a-second-with-key-{dice.randrange(30)}"
            return "POST", "/v1/query", text, headers


def draw_tool(dice: Random, sql: str) -> dict[str, Any]:
    """A call of a tool, with its own arguments or others."""
    name = dice.choice(TOOLS)
    own = {"describe_table": {"table": sql}, "plan": {"statements": [sql]}}
    other = {"sql": sql} if dice.random() < 0.8 else {"table": sql, "epsilon": "x"}
    arguments = own.get(name, other)
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


# --- the server, in process ---


@asynccontextmanager
async def served(folder: Path, proxy: Proxy, lines: list[str]) -> AsyncIterator[Any]:
    """The application of `dpsql serve --http`, without a socket."""
    catalogue = partial(Catalogue, proxy.policy)
    present = Present(proxy, catalogue, users, Limits(port=0, log_statements=True))
    server = Server(present, Telemetry(lines.append))
    server._pacer = unpaced(proxy)
    runner = QueryRunner(server)
    logins = WebUsers(lambda: present, server.failures, server.telemetry)
    api = JsonApi(runner, logins, KeptReplies(str(folder / "replies")))
    endpoint = McpEndpoint(runner, logins)
    try:
        async with endpoint.running():
            routes = [*api.routes(), Route(PATH, endpoint, methods=["POST"])]
            yield guarded_app(routes, "http", frozenset({"localhost"}))
    finally:
        server.threads.shutdown(wait=True)


LOGIN = f"Basic {b64encode(f'ana:{PASSWORD}'.encode()).decode()}"


async def send(app: Any, call: Call) -> bytes:
    """Headers and body of the reply to one call."""
    method, path, body, headers = call
    given = {"host": "localhost", "authorization": LOGIN, "content-type": "application/json"}
    given |= {"accept": "application/json, text/event-stream"} | headers
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
        "method": method, "scheme": "http", "path": unquote(path), "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    inbox, outbox = [{"type": "http.request", "body": body or b""}], list[Any]()

    async def receive() -> Any:
        return inbox.pop() if inbox else await asyncio.Event().wait()

    async def put(message: Any) -> None:
        outbox.append(message)

    await app(scope, receive, put)
    heads = [b"%b: %b" % pair for each in outbox for pair in each.get("headers", ())]
    return b"\n".join([*heads, *(each.get("body", b"") for each in outbox)])


def leaks(folder: Path, seed: int, calls: int, *, at_once: int = 8) -> tuple[list[Any], int]:
    """Calls whose replies have a canary, or what the log has of one; and how many were answered."""
    tables, canaries = planted()
    dice, lines, found, answers = Random(seed), list[str](), list[Any](), 0  # noqa: S311
    drawn = [draw_call(dice) for _ in range(calls)]

    def seen(text: str) -> list[str]:
        return [canary for canary in canaries if canary in text.lower()]

    async def ask_all(proxy: Proxy) -> None:
        nonlocal answers
        async with served(folder, proxy, lines) as app:
            for first in range(0, calls, at_once):
                some = drawn[first : first + at_once]
                replies = await asyncio.gather(*(send(app, call) for call in some))
                for call, reply in zip(some, replies, strict=True):
                    text = reply.decode("utf-8", "replace").replace("\\u0000", "")
                    found.extend([(call, seen(text))] if seen(text) else [])
                    answers += '"receipt"' in text or "dpsql-receipt" in text or "cost: " in text

    with Proxy.open(str(shop(folder / "shop", *POLICY, tables=tables))) as proxy:
        asyncio.run(ask_all(proxy))
    assert len(lines) > calls / 4
    found.extend(line for line in lines if seen(line))
    return found, answers


@pytest.fixture(autouse=True)
def quoting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some questions fail in a way that nobody foresaw, and quote a value."""

    def ask(proxy: Proxy, request: Any, *rest: Any) -> Any:
        if "STDDEV(" in request.sql:
            raise RuntimeError(QUOTED)
        return answered(proxy, request, *rest)

    monkeypatch.setattr(web_queries, "answered", ask)


@pytest.mark.parametrize(
    ("seed", "calls"),
    [
        *(
            pytest.param(seed, 250, marks=pytest.mark.full("a slice of a campaign"))
            for seed in (1, 12)
        ),
        *(pytest.param(seed, 10_000, marks=pytest.mark.campaign) for seed in range(2, 12)),
    ],
)
def test_no_hostile_call_sees_a_canary(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], seed: int, calls: int
) -> None:
    found, answers = leaks(tmp_path, seed, calls)
    assert found == []
    assert answers > calls / 10
    assert STEM not in "".join(capfd.readouterr())


def told(query_id: str, error: Exception) -> Problem:
    return Problem(500, "failed", f"Query {query_id} failed: {error}")


def tell_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door that shows an error which nobody foresaw."""
    monkeypatch.setattr(JsonApi, "unknown_problem", lambda _, error: told("x", error))


def tell_in_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tools that show an error which nobody foresaw."""

    async def call_openly(tools: McpTools, call: Callable[[Any], Any]) -> Any:
        try:
            return await call(tools.caller())
        except Exception as error:  # noqa: BLE001 - the fault of this twin
            return str(error)

    monkeypatch.setattr(McpTools, "_guarded", call_openly)


def tell_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log with the text of errors."""
    monkeypatch.setattr(Telemetry, "event", _with_text(Telemetry.event))


def _with_text(event: Callable[..., None]) -> Callable[..., None]:
    def tell(telemetry: Telemetry, name: str, **fields: Any) -> None:
        event(telemetry, name, **fields, **({"why": QUOTED} if name == "failed" else {}))

    return tell


def tell_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers with a notice that names somebody."""
    monkeypatch.setattr("dpsql.systems.web.answer_formats.cost_text", lambda _: f"{STEM}name7")


@pytest.mark.full("a server answers hundreds of calls")
@pytest.mark.parametrize("twin", [tell_unknown, tell_in_tools, tell_in_the_log, tell_a_key])
def test_wrong_twin_a_door_that_shows_one_value_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, twin: Callable[[pytest.MonkeyPatch], None]
) -> None:
    twin(monkeypatch)
    assert leaks(tmp_path, 1, 40)[0] != []
