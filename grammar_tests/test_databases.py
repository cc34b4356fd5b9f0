"""Several policies behind one port: each has its users, its ledger and its limits.

SECURITY.md S35: what an outsider or an analyst of one hears is the same, whichever others exist.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import psycopg
import pytest
from click.testing import CliRunner

import dpsql
from dpsql.interfaces.cli import main
from dpsql.interfaces.pgwire import entrance
from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.databases import Databases, make_decoy
from dpsql.interfaces.pgwire.login_file import User, Users, UsersFile, nobody, verifier_of
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import Server
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.model.errors import PolicyError
from dpsql.policy.draft import ServerSettings
from dpsql.policy.served_policies import name_policies
from dpsql.proxy import Proxy
from dpsql.systems.web.web_server import WebServer, make_web_server
from grammar_tests.proxy_kit import policy, shop
from grammar_tests.waiting import HANGS_SECONDS
from grammar_tests.wire_kit import PASSWORD, unpaced

COUNT = "SELECT COUNT(*) AS n FROM customers"
OTHER = "of the other"
NAMES = ("north", "south")
CHANGES = ((), (("device = {}", 'device = { values = ["s"] }'),))
USERS: dict[str, dict[str, User]] = {
    "north": {"ana": User(verifier_of(PASSWORD))},
    "south": {"ana": User(verifier_of(OTHER)), "bob": User(verifier_of(PASSWORD))},
}
"""Users by database: ana has one in each, bob is a user of one."""


@dataclass(frozen=True)
class Both:
    """Two policies of one server, over the wire and over HTTP."""

    port: int
    web: int
    servers: dict[str, Server]
    lines: list[str]

    def connect(
        self, name: str, user: str = "ana", password: str = PASSWORD
    ) -> psycopg.Connection[tuple[Any, ...]]:
        where = f"host=127.0.0.1 port={self.port} dbname={name}"
        return psycopg.connect(where, user=user, password=password, autocommit=True)

    def refusal(self, name: str, user: str = "ana", password: str = "wrong") -> str:  # noqa: S107
        """Return the words and the code of a refused login."""
        with pytest.raises(psycopg.OperationalError) as error:
            self.connect(name, user, password)
        return str(error.value).replace(f'"{user}"', "…")

    def send(
        self, path: str, user: str = "ana", password: str = PASSWORD, body: object = None
    ) -> tuple[int, str]:
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers = {"authorization": f"Basic {pair}", "content-type": "application/json"}
        headers["accept"] = "application/json"
        with closing(HTTPConnection("127.0.0.1", self.web, timeout=HANGS_SECONDS)) as connection:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, data, headers)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()


@contextmanager
def served(folder: Path) -> Iterator[Both]:
    """Serve the shop twice: as north with all of its tables, as south with other listed values."""
    lines, opened = list[str](), dict[str, Server]()
    telemetry, failures = Telemetry(lines.append), None
    for name, changes in zip(NAMES, CHANGES, strict=True):
        path = shop(folder / name, *changes)
        proxy = Proxy.open(str(path))
        users = partial(UsersFile, USERS[name], name.encode())
        limits = replace(ServerSettings(), port=0)
        present = Present(proxy, partial(Catalogue, proxy.policy, database=name), users, limits)
        server = Server(present, telemetry.make_part(name), failures=failures)
        server._pacer = unpaced(proxy)
        opened[name], failures = server, server.failures
    front = Databases(opened).front
    replies = tuple(str(folder / f"{name}.replies") for name in NAMES)
    web = make_web_server("127.0.0.1", 0, (), replies)
    with running(opened, front, web) as port:
        yield Both(port, web.port, opened, lines)


@contextmanager
def running(opened: dict[str, Server], front: Server, web: WebServer) -> Iterator[int]:
    started, ports = Event(), list[int]()
    for server in opened.values():
        server.databases = Databases(opened)

    async def run() -> None:
        listening = await front.start()
        await web.start(front)
        ports.append(listening.sockets[0].getsockname()[1])
        loops.append(asyncio.get_running_loop())
        ended.append(asyncio.Event())
        started.set()
        await ended[0].wait()
        await web.stop()
        await front.stop(1)

    loops, ended = list[asyncio.AbstractEventLoop](), list[asyncio.Event]()
    thread = Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert started.wait(HANGS_SECONDS)
    try:
        yield ports[0]
    finally:
        loops[0].call_soon_threadsafe(ended[0].set)
        thread.join(HANGS_SECONDS)


@pytest.fixture(scope="module")
def served_both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with served(tmp_path_factory.mktemp("both")) as found:
        yield found


@pytest.fixture
def both(served_both: Both) -> Both:
    """Both policies, without the failed logins of earlier tests."""
    served_both.servers["north"].failures._times.clear()
    return served_both


SERVERS = pytest.mark.full("opens servers or connects clients")


@SERVERS
def test_the_database_chooses_users_ledger_and_catalogue(both: Both) -> None:
    with both.connect("north") as north, both.connect("south", password=OTHER) as south:
        assert north.execute(COUNT).fetchone()
        charged = {n: len(s.present.proxy.ledger.history()) for n, s in both.servers.items()}
        assert charged == {"north": 1, "south": 0}
        values = "SELECT value FROM dpsql_values() WHERE column_name = 'device'"
        assert north.execute(values).fetchall() == []
        assert south.execute(values).fetchall() == [("'s'",)]
        for name, client in zip(NAMES, (north, south), strict=True):
            assert client.execute("SELECT current_database()").fetchall() == [(name,)]
            listed = {row[0] for row in client.execute("SELECT datname FROM pg_database")}
            assert listed == {name, "template0", "template1"}
    logins = [json.loads(line) for line in both.lines if '"login"' in line]
    assert [each["database"] for each in logins][-2:] == ["north", "south"]


@SERVERS
def test_unknown_databases_and_users_are_refused_in_one_sentence(both: Both) -> None:
    """Over the wire: a wrong password, a user of another database, and no such database."""
    said = {
        both.refusal("north"),
        both.refusal("north", "bob", PASSWORD),
        both.refusal("north", password=OTHER),
        both.refusal("west"),
        both.refusal("west", "bob", PASSWORD),
        both.refusal("dpsql", password=PASSWORD),
        both.refusal("postgres", password=PASSWORD),
    }
    assert len(said) == 1, said
    assert "password authentication failed" in said.pop()


@SERVERS
def test_wrong_twin_users_of_two_databases_are_shared(both: Both) -> None:
    """As if one users' file were read for both."""
    north = both.servers["north"].present

    def shared() -> Users:
        return UsersFile({**USERS["north"], **USERS["south"]}, b"north")

    with patch.object(north, "users", shared), both.connect("north", password=OTHER) as client:
        assert client.execute(COUNT).fetchone()
    both.refusal("north", password=OTHER)


@SERVERS
def test_wrong_twin_a_server_that_says_which_databases_exist(both: Both) -> None:
    """As PostgreSQL does: after it, unknown names and refused users differ."""

    async def told(_databases: Databases, _stream: object, visitor: Any) -> Server:
        if visitor.database not in both.servers:
            raise entrance.fatal("3D000", "database does not exist")
        return both.servers[visitor.database]

    with patch.object(Databases, "choose", told):
        assert both.refusal("west") != both.refusal("north")


@SERVERS
def test_a_key_of_one_database_cancels_nothing_of_another(both: Both) -> None:
    with both.connect("north") as north, both.connect("south", password=OTHER) as south:
        assert north.info.backend_pid <= 100
        south.cancel_safe()
        assert north.execute(COUNT).fetchone()
        cancelled = [json.loads(line) for line in both.lines if '"cancel"' in line]
        assert [each["database"] for each in cancelled] == ["south"]


@SERVERS
def test_http_has_each_database_below_its_own_path(both: Both) -> None:
    for path in ("/v1/tables", "/db/north/v1/tables", "/db/south/v1/tables"):
        status, _ = both.send(path)
        assert status == {"/v1/tables": 404, "/db/north/v1/tables": 200}.get(path, 401)
    assert both.send("/db/south/v1/tables", password=OTHER)[0] == 200
    status, said = both.send("/db/south/v1/query", "bob", body={"sql": COUNT})
    assert (status, json.loads(said)["rows"] != []) == (200, True)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call["params"] = {"name": "budget", "arguments": {}}
    status, said = both.send("/db/south/mcp", "bob", body=call)
    assert (status, "spent" in said) == (200, True), said
    refused = {
        both.send(f"/db/{name}/{path}", user, "wrong", body)
        for name in ("north", "south", "west")
        for user in ("ana", "bob", "eve")
        for path, body in (("v1/tables", None), ("v1/query", "{}"), ("mcp", "{}"))
    }
    assert len(refused) == 1, refused
    assert {both.send(f"/db/{name}/v1/nothing", body=None)[0] for name in (*NAMES, "west")} == {404}


@SERVERS
def test_a_connection_of_python_names_its_database(both: Both) -> None:
    url = f"http://ana:{quote(PASSWORD)}@127.0.0.1:{both.web}"
    with closing(dpsql.connect(f"{url}/db/north")) as connection:
        assert connection.cursor().execute(COUNT).fetchone()
    for wrong in ("/db/south", "/db/west"):
        with pytest.raises(dpsql.OperationalError, match="Log in"):
            dpsql.connect(url + wrong)
    with pytest.raises(dpsql.InterfaceError, match="/db/NAME"):
        dpsql.connect(f"{url}/north")


@SERVERS
def test_a_token_of_one_database_opens_no_other(both: Both) -> None:
    _, said = both.send("/db/north/v1/token", body={})
    token = json.loads(said)["token"]
    for name, expected in (("north", 200), ("south", 401), ("west", 401)):
        with closing(HTTPConnection("127.0.0.1", both.web, timeout=HANGS_SECONDS)) as connection:
            headers = {"authorization": f"Bearer {token}"}
            connection.request("GET", f"/db/{name}/v1/budget", headers=headers)
            assert connection.getresponse().status == expected


@SERVERS
def test_metrics_name_the_database(both: Both) -> None:
    gauges = Databases(both.servers).gauges()
    for name in NAMES:
        assert any(f'database="{name}"' in label for _, label, _ in gauges)


def test_salts_of_unknown_databases_are_as_those_of_others() -> None:
    """The same at each try, and another for each database and user."""
    present = Present(
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        partial(UsersFile, {}, b"secret"),
        ServerSettings(),
    )

    def salt(database: str, user: str) -> bytes:
        users = make_decoy(present, database).users()
        assert isinstance(users, UsersFile)
        assert not users
        return nobody(user, users.secret).salt

    assert salt("west", "ana") == salt("west", "ana")
    salts = {salt(database, user) for database in ("west", "east") for user in ("ana", "bob")}
    assert len(salts | {nobody("ana", b"secret").salt, nobody("west", b"secret").salt}) == 6


# --- names ---


def named(folder: Path, name: str, *changes: tuple[str, str]) -> str:
    (folder / name).mkdir()
    written = policy(folder / name, *changes)
    return str(written.rename(written.with_name(f"{name}.toml")))


def test_a_policy_is_called_as_its_file_or_as_it_says(tmp_path: Path) -> None:
    own = ("[ledger]", '[server]\ndatabase = "clinic"\n[ledger]')
    paths = [named(tmp_path, "a"), named(tmp_path, "b", own)]
    assert name_policies(paths) == {"a": paths[0], "clinic": paths[1]}
    assert name_policies(paths[:1]) == {"": paths[0]}


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("server.database", '[server]\ndatabase = "a"\n[ledger]'),
        ("server.users", '[server]\nusers = "../a/dpsql.users"\n[ledger]'),
        ("ledger.path", '[ledger]\npath = "../a/shop.ledger"'),
        ("names no database", '[server]\ndatabase = "a/b"\n[ledger]'),
    ],
)
def test_what_two_policies_share_stops_the_start(tmp_path: Path, key: str, written: str) -> None:
    old = '[ledger]\npath = "shop.ledger"' if key == "ledger.path" else "[ledger]"
    paths = [named(tmp_path, "a"), named(tmp_path, "b", (old, written))]
    with pytest.raises(PolicyError, match=key) as error:
        name_policies(paths)
    assert error.value.path == paths[1]


def test_a_policy_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    """Its database is missing; the sentence names the policy."""
    first = shop(tmp_path / "a").rename(tmp_path / "a" / "a.toml")
    paths = [str(first), named(tmp_path, "b")]
    said = CliRunner().invoke(main, ["serve", "--policy", paths[0], "--policy", paths[1]])
    assert said.exit_code != 0
    assert paths[1] in said.stderr
