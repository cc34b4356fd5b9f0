"""The collector: whatever it acknowledged is there once, and nothing of who sent it, or when."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import uvicorn
from click.testing import CliRunner, Result
from uvicorn.server import ServerState

import dpsql
from dpsql.interfaces.bounded_connections import (
    HAS_HTTPTOOLS,
    AddressShares,
    BoundedParser,
    bounded_protocol,
)
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.options import publish_reports
from dpsql.model.errors import MissingExtra, PolicyError, Unreachable
from dpsql.policy.load import load
from dpsql.systems.local import collection as collection_module
from dpsql.systems.local import collector as collector_module
from dpsql.systems.local import report_store
from dpsql.systems.local.collection import Collection
from dpsql.systems.local.collector import Listening, collect
from dpsql.systems.local.questions import LocalQuestion
from dpsql.systems.local.report_store import STORE, Post, ReportStore
from grammar_tests.collector_kit import answers, collection, policy, rows_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EXAMPLE = Path(__file__).parent.parent / "examples" / "local" / "page.html"
ROWS = b'[{"clicked": "no", "stars": "3", "weight": "0.5", "sure": "true"}, {"cell": "010"}]'
AS_ROWS = {
    ("no", "3", None, "0.5", "true", None): 1,
    (None, None, "010", None, None, None): 1,
}
PRIVATE = 'access = "private"\nlink = { column = "day", references = "people.id" }'
NO = json.dumps([{"clicked": "no"}]).encode()
NO_ROW = ("no", None, None, None, None, None)


@pytest.fixture
def survey(tmp_path: Path) -> Collection:
    return collection(tmp_path)


@pytest.fixture
def store(survey: Collection) -> Iterator[ReportStore]:
    with closing(ReportStore.open(survey, 3)) as opened:
        yield opened


def one(survey: Collection, store: ReportStore, **request: Any) -> tuple[int, str]:
    ((status, _, text),) = answers(survey, store, [request])
    return status, text


def run(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["--policy", str(folder / "dpsql.toml"), *words])


# --- what is taken ---


def test_reports_are_kept_as_they_were_sent_and_once(
    survey: Collection, store: ReportStore
) -> None:
    first = {"body": ROWS, "key": "a" * 32}
    again = {"body": NO, "key": "a" * 32}
    assert [status for status, *_ in answers(survey, store, [first, first, again])] == [204] * 3
    assert one(survey, store, **first) == (204, "")
    assert rows_of(survey.folder) == AS_ROWS


def test_wrong_twin_a_store_that_forgets_keys_counts_twice(
    survey: Collection, store: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = iter(range(100))
    monkeypatch.setattr(
        report_store,
        "sha256",
        lambda _: type("D", (), {"digest": lambda _s: bytes([next(fresh)]) * 16})(),
    )
    answers(survey, store, [{"body": ROWS}, {"body": ROWS}])
    assert rows_of(survey.folder) == Counter(AS_ROWS) + Counter(AS_ROWS)


def test_concurrent_senders_lose_nothing(survey: Collection, store: ReportStore) -> None:
    """Each is sent twice, at the same time as all others."""
    bodies = [
        json.dumps([{"clicked": "yes"}, {"stars": str(n % 3 + 1)}]).encode() for n in range(80)
    ]
    requests = [{"body": body, "key": f"sender-{n:012}"} for n, body in enumerate(bodies)] * 2
    assert {status for status, *_ in answers(survey, store, requests)} == {204}
    stars = Counter((None, str(n % 3 + 1), *[None] * 4) for n in range(80))
    assert rows_of(survey.folder) == stars + Counter({("yes", *[None] * 5): 80})
    assert store.counts().sealed >= 2 * 78


@pytest.mark.parametrize(
    ("request_", "status", "why"),
    [
        ({"body": b'[{"clicked": "maybe"}]'}, 422, "Row 1 has another clicked"),
        ({"body": b'[{"clicked": "no"}, {"cell": "01"}]'}, 422, "Row 2 has another cell"),
        ({"body": b'[{"stars": 3}]'}, 422, "Row 1 has another stars"),
        ({"body": b'[{"name": "x"}]'}, 422, "Row 1 answers what visits does not ask."),
        ({"body": b"[]"}, 422, "1 to 100 rows"),
        ({"body": b"[{}]"}, 422, "a JSON list"),
        ({"body": b"[" * 9000}, 422, "a JSON list"),
        ({"body": b"[" + b'{"sure": "true"},' * 100 + b'{"sure": "true"}]'}, 422, "1 to 100 rows"),
        ({"body": b" " * 1_000_000 + NO}, 413, "A post has at most"),
        ({"body": NO, "content_type": "text/plain"}, 415, "application/json"),
        ({"body": NO, "key": "short"}, 400, "Idempotency-Key"),
        ({"body": NO, "origin": "https://b.example"}, 403, "does not list this origin"),
        ({"body": NO, "origin": "null"}, 403, "does not list this origin"),
        ({"body": NO, "origin": "http://["}, 403, "does not list this origin"),
        ({"body": NO, "origin": "https://a.example.evil"}, 403, "does not list this origin"),
        ({"body": NO, "path": "/orders/reports"}, 404, "the collector of visits"),
        ({"method": "GET"}, 405, "Method Not Allowed"),
        ({"body": NO, "stalls": True}, 408, "within"),
    ],
)
def test_what_is_no_report_is_refused_with_a_sentence(
    survey: Collection,
    store: ReportStore,
    monkeypatch: pytest.MonkeyPatch,
    request_: dict[str, Any],
    status: int,
    why: str,
) -> None:
    monkeypatch.setattr(collector_module, "_BODY_SECONDS", 0.01 if "stalls" in request_ else 20)
    told = one(survey, store, **request_)
    assert told[0] == status
    assert why in told[1]
    assert "maybe" not in told[1]
    assert not rows_of(survey.folder)


def mutated(random: np.random.Generator) -> bytes:
    """A post in which something was changed, or a report by chance another one."""
    body = bytearray(ROWS)
    for _ in range(random.integers(1, 4)):
        at = int(random.integers(len(body)))
        match random.integers(3):
            case 0:
                body[at] = int(random.integers(256))
            case 1:
                del body[at : at + int(random.integers(1, 9))]
            case _:
                body[at:at] = bytes(body[int(random.integers(len(body))) :][:9])
    return bytes(body)


def is_report(row: tuple[object, ...]) -> bool:
    values = (
        *({"yes", "no"}, {"1", "2", "3"}, {f"{n:03b}" for n in range(8)}),
        *({"0.5", "1.5"}, {"true", "false"}, {"2024-01-01", "2024-01-02"}),
    )
    each = [value is None or value in known for value, known in zip(row, values, strict=True)]
    return all(each) and any(value is not None for value in row)


def fuzzed(survey: Collection, store: ReportStore) -> bool:
    """Whether fuzzed posts are all answered, and all that is kept can have been reported."""
    random = np.random.default_rng(7)
    requests = [{"body": mutated(random), "key": f"fuzzed-{n:012}"} for n in range(800)]
    told = answers(survey, store, requests)
    assert {status for status, *_ in told} == {204, 422}
    return all(is_report(row) for row in rows_of(survey.folder))


@pytest.mark.full("measures neighbours or further data sets")
def test_fuzzed_bodies_are_reports_or_refused(survey: Collection, store: ReportStore) -> None:
    assert fuzzed(survey, store)


def test_wrong_twin_an_unchecked_report_is_seen(
    survey: Collection, store: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalQuestion, "can_report", lambda *_: True)
    assert not fuzzed(survey, store)


def test_pages_of_listed_origins_alone_may_send(survey: Collection, store: ReportStore) -> None:
    asks = {"method": "OPTIONS", "access_control_request_method": "POST"}
    asks |= {"access_control_request_headers": "content-type,idempotency-key"}
    origins = ["https://a.example", "https://b.example", "http://c.example"]
    told = answers(survey, store, [{**asks, "origin": origin} for origin in origins])
    assert [status for status, *_ in told] == [200, 400, 400]
    assert [h.get("access-control-allow-origin") for _, h, _ in told] == [origins[0], None, None]
    posts = [{"body": NO, "key": "n" * 16 + str(n), "origin": o} for n, o in enumerate(origins)]
    # The last one is what the Host header says, and whoever owns a name can have it lead here.
    assert [status for status, *_ in answers(survey, store, posts)] == [204, 403, 403]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8750", 204),
        ("http://localhost:8750", 204),
        ("https://127.0.0.1:8750", 403),
        ("http://127.0.0.1", 403),
        ("http://c.example:8750", 403),
        ("null", 403),
    ],
)
def test_its_own_page_is_known_by_where_it_listens(
    survey: Collection, store: ReportStore, origin: str, status: int
) -> None:
    where = Listening("127.0.0.1", 8750)
    host = origin.partition("://")[2] or "c.example"
    posts = [{"body": NO, "key": "o" * 16, "origin": origin, "host": host}]
    assert [told for told, *_ in answers(survey, store, posts, where)] == [status]


# --- connections -----------------------------------------------------------------------------

HEALTH = b"GET /health HTTP/1.1\r\nhost: c.example\r\n\r\n"


def connections(
    seconds: float, most: int, sent: list[bytes], *, fast: bool = False
) -> list[tuple[bytes, bool]]:
    """What each of several connections is answered, and whether it is open then.

    Without an answer it is read to its end; all of them are open at the same time.
    """

    async def healthy(scope: Any, _receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def one(port: int, data: bytes) -> tuple[asyncio.StreamWriter, bytes, bool]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        try:
            got = await (reader.readuntil(b"\r\n\r\n") if data == HEALTH else reader.read())
        except (ConnectionError, asyncio.IncompleteReadError):
            got = b""
        return writer, got, not reader.at_eof() and bool(got)

    async def all_of_them() -> list[tuple[bytes, bool]]:
        config = uvicorn.Config(healthy, lifespan="off", log_config=None)
        config.load()
        protocol = bounded_protocol(AddressShares(most), seconds, fast=fast)
        made = partial(protocol, config, ServerState(), {})
        server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        told = [await one(port, data) for data in sent]
        for writer, _, _ in told:
            writer.transport.abort()
        server.close()
        return [(got[:12], is_open) for _, got, is_open in told]

    return asyncio.run(all_of_them())


PARSERS = [True, False] if HAS_HTTPTOOLS else [False]


@pytest.mark.parametrize("fast", PARSERS)
@pytest.mark.parametrize("part", [b"", b"GET /hea", HEALTH[:-2]])
def test_a_head_that_does_not_come_ends_its_connection(part: bytes, *, fast: bool) -> None:
    assert connections(0.05, 9, [part], fast=fast) == [(b"", False)]


LONG_HEADS = [
    b"GET /" + b"a" * 700_000,
    HEALTH[:-2] + b"a: b\r\n" * 100_000,
    HEALTH[:-2] + b"a: " + b"b" * 700_000,
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: " + b"b" * 700_000,
]


@pytest.mark.parametrize("fast", PARSERS)
@pytest.mark.parametrize("head", LONG_HEADS)
def test_a_head_without_an_end_ends_its_connection(head: bytes, *, fast: bool) -> None:
    [(_, is_open)] = connections(300, 9, [head], fast=fast)
    assert not is_open


@pytest.mark.skipif(not HAS_HTTPTOOLS, reason="h11 has a limit of its own")
def test_wrong_twin_a_head_without_a_limit_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the time limit ends it: all of it was kept."""
    kept: list[int] = []

    def count(self: BoundedParser, data: bytes) -> None:
        kept.append(len(data))
        super(BoundedParser, self).data_received(data)

    monkeypatch.setattr(BoundedParser, "data_received", count)
    connections(0.3, 9, [LONG_HEADS[0]], fast=True)
    assert sum(kept) == len(LONG_HEADS[0])


def test_an_address_has_a_share_of_the_connections() -> None:
    whole = (b"HTTP/1.1 204", True)
    assert connections(300, 2, [HEALTH] * 3) == [whole, whole, (b"", False)]


def test_connections_without_a_share_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AddressShares, "enter", lambda *_: True)
    monkeypatch.setattr(AddressShares, "leave", lambda *_: None)
    assert connections(300, 2, [HEALTH] * 3) == [(b"HTTP/1.1 204", True)] * 3


def test_what_a_page_needs_is_served(survey: Collection, store: ReportStore) -> None:
    where = Listening("127.0.0.1", 0, page="<p>hello")
    paths = ["/", "/client.js", "/visits/questions.json", "/health", "/.reports.sqlite"]
    requests = [{"method": "GET", "path": path} for path in paths]
    page, client, questions, health, hidden = answers(survey, store, requests, where)
    assert (page[0], page[2], hidden[0]) == (200, "<p>hello", 404)
    assert client[1]["content-type"].startswith("text/javascript")
    assert [q["name"] for q in json.loads(questions[2])][:2] == ["clicked", "stars"]
    assert health[2] == "ready\n"
    assert not any("set-cookie" in each[1] for each in (page, client, questions, health))


def test_what_cannot_be_kept_is_not_acknowledged(
    survey: Collection, store: ReportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what was to be written together with it; the sentence has nothing of the data."""
    lines: list[str] = []
    monkeypatch.setattr(report_store, "_seal", lambda _: 1 // 0)
    requests = [{"body": NO, "key": f"unlucky-{n:012}"} for n in range(3)]
    told = answers(survey, store, requests, write=lines.append)
    assert 500 in {status for status, *_ in told} <= {500, 503}
    assert not rows_of(survey.folder)
    (survey.folder / STORE).write_bytes(b"x" * 9000)
    told = answers(
        survey, store, [*requests, {"method": "GET", "path": "/health"}], write=lines.append
    )
    assert {status for status, *_ in told} == {503}
    assert all("again later" in text for *_, text in told)
    assert "is not a database" in "".join(lines)
    assert not any("clicked" in line or "unlucky" in line for line in lines)


# --- what is kept ---


def of_values(folder: Path, values: int) -> Collection:
    """A question with so many values that each report can be told from the others."""
    listed = json.dumps([f"value-{n:04}" for n in range(values)])
    return collection(folder, ('["yes", "no"]', listed))


def neighbours(folder: Path, values: int) -> int:
    """How many reports stand beside the one that came next, of those that were sent in order."""
    survey = of_values(folder, values)
    with closing(ReportStore.open(survey, values)) as store:
        rows = [(f"value-{n:04}", *[None] * 5) for n in range(values)]
        posts = [Post(f"post-{n:016}", (row,)) for n, row in enumerate(rows)]
        for at in range(0, values, 20):
            store.add(posts[at : at + 20])
        assert store.counts().sealed == values
    data = b"".join(path.read_bytes() for path in survey.folder.glob(f"{STORE}*"))
    order = [int(n) for n in re.findall(rb"value-(\d{4})", data)]
    assert values - 5 <= len(order) == len({*order})  # some are torn by the end of a page
    return sum(abs(a - b) == 1 for a, b in pairwise(order))


def test_a_sealed_batch_has_no_order(tmp_path: Path) -> None:
    """No byte of the store has another copy; two of 200 stand together by chance."""
    assert neighbours(tmp_path, 200) < 25


def test_wrong_twin_a_batch_in_order_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_store, "_shuffled", lambda rows: rows)
    assert neighbours(tmp_path, 200) > 150


def test_nothing_of_who_sent_it_or_when_is_kept(
    survey: Collection, store: ReportStore, capfd: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    sender = {"origin": "https://a.example", "user_agent": "Browser/77", "cookie": "me=4711"}
    requests = [{"body": NO, "key": f"a-secret-{n:012}", **sender} for n in range(4)]
    requests += [{"body": b"[]", "key": "z" * 16, **sender}]
    answers(survey, store, requests, write=lines.append)
    assert store.publish() == 4
    one(survey, store, body=NO, key="a-secret-and-more", **sender)
    files = [path.read_bytes() for path in survey.folder.iterdir()]
    out = "\n".join([*lines, *capfd.readouterr()]).encode()
    assert lines == ["4 reports are sealed for the next dpsql refresh."]
    now = time.time()
    moments = time.strftime("%Y-%m-%d").encode(), str(int(now))[:7].encode()
    for mark in (b"203.0.113.9", b"4711", b"Browser", b"a.example", b"secret", b"zzz", *moments):
        assert mark not in b"\n".join([*files, out])


# --- what becomes of it ---


@pytest.mark.full("draws random questions or values")
def test_only_a_refresh_shows_what_is_sealed(survey: Collection, store: ReportStore) -> None:
    folder = survey.folder.parent

    def count() -> int:
        """The rows of the files that the policy names."""
        ((_, pattern),) = (f for f in load(str(folder / "dpsql.toml")).database.files[1:])
        return sum(pq.read_metadata(file).num_rows for file in glob(pattern))  # noqa: PTH207

    for n in range(4):
        store.add([Post(f"post-{n}", (NO_ROW,) * 10)])
    assert count() == 0
    collected = run(folder, "local", "collected", "visits").stdout
    assert collected == "reports: 10 waiting (1 of 3 posts), 30 sealed, 0 published\n"
    assert run(folder, "refresh", "--periods", "2026-10").exit_code != 0
    assert count() == 0
    refreshed = run(folder, "refresh")
    assert refreshed.stdout == "data version 2\n"
    assert refreshed.stderr == "visits has 30 more reports.\n"
    assert count() == 30
    assert [*publish_reports(str(folder / "dpsql.toml"))] == []
    collected = run(folder, "local", "collected", "visits").stdout
    assert collected == "reports: 10 waiting (1 of 3 posts), 0 sealed, 30 published\n"


@pytest.mark.full("opens servers or connects clients")
def test_every_type_of_value_is_debiased_in_its_table(
    survey: Collection, store: ReportStore
) -> None:
    row = ("no", "3", "010", "0.5", "true", "2024-01-02")
    store.add([Post(f"post-{n}", (row,) * 50) for n in range(3)])
    store.publish()
    with dpsql.connect(str(survey.folder.parent / "dpsql.toml")) as connection:
        for question, value in zip(survey.questions, row, strict=True):
            told = connection.execute(
                f"SELECT {question.name}, COUNT(*) FROM visits GROUP BY {question.name}"
            ).fetchall()
            supported = "b" if question.law.of_bits else value
            p, q = float(question.law.p), float(question.law.q)
            for listed, count in told:
                got = str(listed).lower()
                expected = 150 * ((got == supported) - q) / (p - q)
                assert count == pytest.approx(expected, abs=0.51)


@pytest.mark.parametrize("stop", ["write_table", "replace", "sync_folder", "execute"])
def test_a_refresh_that_is_stopped_publishes_each_row_once(
    survey: Collection, store: ReportStore, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    """Before the file, before its name, after it, and before the store forgets the rows."""
    store.add([Post(f"post-{n}", (NO_ROW,)) for n in range(5)])

    class Stopped(BaseException):
        pass

    def fail(*_args: Any, **_more: Any) -> None:
        raise Stopped

    with monkeypatch.context() as patched:
        if stop == "write_table":
            patched.setattr("pyarrow.parquet.write_table", fail)
        elif stop == "replace":
            patched.setattr(Path, "replace", fail)
        else:
            patched.setattr(collection_module, "sync_folder", fail)
        if stop == "execute":  # the file has its name, and is durable
            patched.setattr(collection_module, "sync_folder", lambda _: None)
            patched.setattr(report_store, "len", fail, raising=False)
        with pytest.raises(Stopped):
            store.publish()
    assert store.publish() in (0, 5)
    with closing(ReportStore.open(survey, 3)) as again:
        again.publish()
        assert (again.counts().published, again.counts().sealed) == (5, 0)
    published = rows_of(survey.folder)
    assert published == {NO_ROW: 5}


def test_reports_of_other_laws_are_never_mixed(tmp_path: Path) -> None:
    ReportStore.open(collection(tmp_path), 1).close()
    later = ('clicked = { values = ["yes", "no"]', 'clicked = { values = ["no", "yes"]')
    other = collection(tmp_path, later)
    for begin in (partial(ReportStore.open, other, 1), partial(ReportStore.existing, other)):
        with pytest.raises(Unreachable, match="reports by other laws"):
            begin()
    assert "reports by other laws" in run(tmp_path, "refresh").output
    days = ('"two-coins" }', '"two-coins", remember_days = 9 }')
    ReportStore.open(collection(tmp_path, days), 1).close()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('access = "public"', PRIVATE, "is private"),
        ("clicked = {", "town = {}\nclicked = {", "visits.town is not randomised"),
        ("visits/*.parquet", "visits.csv", "nothing says how its lines are read"),
        ("visits/*.parquet", "v*/*.parquet", "no folder of Parquet files"),
        ("[0.5, 1.5]", '[0.5, "1"]', "are of several types"),
        ("[tables.visits", "[tables.other", "There is no table visits of reports"),
    ],
)
def test_a_table_that_cannot_be_collected_for_is_refused(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    with pytest.raises(PolicyError, match=re.escape(why)):
        Collection.of(load(str(policy(tmp_path, (old, new)))), "visits")


def test_other_machines_are_served_with_tls_alone(survey: Collection, store: ReportStore) -> None:
    with pytest.raises(Unreachable, match="without TLS"):
        collect(survey, store, Listening("0.0.0.0", 0), str)  # noqa: S104 - it does not
    pair = (str(survey.folder / STORE), "missing")
    with pytest.raises(Unreachable, match="needs PEM files"):
        collect(survey, store, Listening("127.0.0.1", 0, pair), str)


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "dpsql.systems.local.collector")
    with pytest.raises(MissingExtra, match=r"pip install 'dpsql\[local\]'"):
        importlib.import_module("dpsql.systems.local.collector")
