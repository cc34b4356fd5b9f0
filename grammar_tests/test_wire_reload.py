"""New data, policy, users and certificate in one step, with clients connected."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest

from dpsql.interfaces.pgwire import server, tls
from dpsql.interfaces.pgwire.login_file import User, verifier_of
from dpsql.owner.check import check_policy
from dpsql.policy.load import load
from dpsql.policy.role_sections import WrittenRoles
from dpsql.preparation.bound_policy import facts_lapsed
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.proxy_kit import WatchedEngine, policy, shop
from grammar_tests.test_renamed_budgets import RENAMED
from grammar_tests.test_wire_cli import SECRET, dpsql
from grammar_tests.waiting import until
from grammar_tests.wire_kit import PASSWORD, Door, opened

COUNTRIES = "SELECT COUNT(*) FROM countries"
CUSTOMERS = "SELECT COUNT(*) FROM customers"


@dataclass(frozen=True)
class Place:
    door: Door
    policy: Path

    def connect(self, user: str = "ana") -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(**self.door.conninfo(user=user), autocommit=True)

    def swap(self, countries: int, *, constraints: bool = True) -> None:
        """What a loader does: another file, moved over the one that is open."""
        tables = world.well_behaved()
        tables["countries"] = [(f"C{n}", "north") for n in range(countries)]
        new = self.policy.parent / "new.duckdb"
        world.build(tables, str(new), constraints=constraints).close()
        new.replace(self.policy.parent / "shop.duckdb")

    def renew(self) -> None:
        asyncio.run_coroutine_threadsafe(self.door.server.renew(), self.door.loop).result(60)

    def events(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.door.lines]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(server, "WATCH_SECONDS", 0.05)
    policy = shop(tmp_path / "shop")
    users = {name: User(verifier_of(PASSWORD)) for name in ("ana", "bob", "new")}
    with opened(tmp_path, policy, lambda: users) as door:
        yield Place(door, policy)


@pytest.mark.full("opens servers or connects clients")
def test_a_refresh_from_another_process_is_taken_up_by_who_is_connected(place: Place) -> None:
    with place.connect() as client:
        assert client.execute(COUNTRIES).fetchone() == (3,)
        place.swap(countries=5)
        assert dpsql(place.policy, "refresh").returncode == 0
        until(lambda: "reloaded" in place.events())
        assert client.execute(COUNTRIES).fetchone() == (5,)
        assert client.execute(CUSTOMERS).fetchone()


@pytest.mark.full("opens servers or connects clients")
def test_confirmed_limits_reach_who_is_connected(place: Place) -> None:
    with place.connect() as client:
        assert client.execute(CUSTOMERS).fetchone()
        assert "reloaded" not in place.events()
        policy(place.policy.parent, ("epsilon = 1000.0", "epsilon = 2000.0"))
        assert dpsql(place.policy, "budget", "confirm", "--reason", "more people").returncode == 0
        until(lambda: "reloaded" in place.events())
        assert place.door.server.present.proxy.policy.budgets[0].epsilon == 2000
        assert client.execute(f"{CUSTOMERS} WHERE age > 20").fetchone()


def narrow(policy: Path) -> None:
    """Grant ana one public table, and others all."""
    text = policy.read_text(encoding="utf-8")
    others = [name for name, _ in load(str(policy)).analysts if name != "ana"]
    whole = f'[roles.whole]\nanalysts = {json.dumps(others)}\ntables = "all"\n'
    own = '[roles.small]\nanalysts = ["ana"]\ntables = ["countries"]\n'
    policy.write_text(f"{text}\n{whole}\n{own}", encoding="utf-8")


@pytest.mark.full("opens servers or connects clients")
def test_a_narrower_role_reaches_who_is_connected_and_stands_in_the_history(place: Place) -> None:
    """Without a signal and without a refresh, as the policy file alone is edited."""
    before = place.policy.read_text(encoding="utf-8")
    with place.connect() as client, place.connect("bob") as other:
        assert client.execute(CUSTOMERS).fetchone()
        narrow(place.policy)
        until(lambda: place.events().count("reloaded") == 1)
        with pytest.raises(psycopg.errors.UndefinedTable):
            client.execute(CUSTOMERS)
        assert client.execute(COUNTRIES).fetchone() == (3,)
        assert other.execute(CUSTOMERS).fetchone()
        place.policy.write_text(before, encoding="utf-8")
        until(lambda: place.events().count("reloaded") == 2)
        assert client.execute(CUSTOMERS).fetchone()
    with Proxy.open(str(place.policy)) as proxy:
        wide, small, *others = proxy.ledger.acts(10)
        assert [wide.what, small.what] == ["roles", "roles"]
        assert "roles" not in [act.what for act in others]
        assert "small (ana): countries" in small.reason
        assert wide.reason.startswith("no roles")


@pytest.mark.full("opens servers or connects clients")
def test_wrong_twin_a_server_that_reads_no_roles_keeps_the_old_ones(place: Place) -> None:
    with patch.object(WrittenRoles, "have_changed", return_value=False), place.connect() as client:
        narrow(place.policy)
        dpsql(place.policy, "tables")  # another process, for longer than the server's watch
        assert "reloaded" not in place.events()
        assert client.execute(CUSTOMERS).fetchone()


@pytest.mark.full("opens servers or connects clients")
def test_another_guarantee_is_taken_up_once_it_is_confirmed(place: Place) -> None:
    """Until then the old policy goes on, and the log says which key has changed."""
    public = '[tables.events]\naccess = "public"\n'
    with place.connect() as client:
        assert client.execute(CUSTOMERS).fetchone()
        text = place.policy.read_text(encoding="utf-8")
        start = text.index("[tables.events]")
        end = text.index("\n[", text.index("[tables.events.columns]"))
        place.policy.write_text(text[:start] + public + text[end:], encoding="utf-8")
        until(lambda: "reload_failed" in place.events())
        (event,) = [json.loads(line) for line in place.door.lines if "reload_failed" in line]
        assert "[tables.events] access was private, and is now public" in event["why"]
        events = place.door.server.present.proxy.policy.table("events")
        assert events is not None
        assert events.private
        assert dpsql(place.policy, "budget", "confirm", "--reason", "a register").returncode == 0
        until(lambda: "reloaded" in place.events())
        assert client.execute("SELECT COUNT(*) FROM events").fetchone()


@pytest.mark.full("opens servers or connects clients")
def test_what_runs_ends_on_the_old_data(place: Place) -> None:
    engine = WatchedEngine(place.door.proxy.vault.engine)
    place.door.proxy.vault.engine = engine

    def meanwhile() -> None:
        place.swap(countries=5)
        place.renew()

    engine.before = meanwhile
    with place.connect() as client, ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.execute, CUSTOMERS)
        assert running.result(60).fetchone()
        assert client.execute(COUNTRIES).fetchone() == (5,)
    until(lambda: place.door.proxy.vault.engine.engine._closed)  # type: ignore[attr-defined]


@pytest.mark.full("opens servers or connects clients")
def test_a_policy_that_cannot_be_taken_up_changes_nothing(place: Place) -> None:
    text = place.policy.read_text(encoding="utf-8")
    with place.connect() as client:
        place.policy.write_text(text + "\n[nonsense]\n", encoding="utf-8")
        place.renew()
        assert client.execute(CUSTOMERS).fetchone()
        failed = [json.loads(line) for line in place.door.lines if "reload_failed" in line]
        assert all("nonsense" in event["why"] for event in failed)
        assert 1 <= len(failed) <= 2  # the watch reads the roles of each edit, too
        place.policy.write_text(text, encoding="utf-8")
        place.renew()
        assert place.events()[-1] == "reloaded"


@pytest.mark.full("opens servers or connects clients")
def test_a_budget_that_a_reload_renames_is_told(place: Place) -> None:
    with place.connect() as client:
        assert client.execute(CUSTOMERS).fetchone()
    policy(place.policy.parent, *RENAMED)
    place.renew()
    (event,) = [json.loads(line) for line in place.door.lines if "unnamed_budget" in line]
    assert event["budget"] == "default"
    assert event["spent"].startswith("ρ = ")


@pytest.mark.full("opens servers or connects clients")
def test_analysts_come_and_go_with_the_policy(place: Place) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        place.connect("new")
    with place.connect() as kept, place.connect("bob") as leaving:
        text = place.policy.read_text(encoding="utf-8")
        place.policy.write_text(text.replace("[analysts.bob]", "[analysts.new]"), encoding="utf-8")
        place.renew()
        until(lambda: leaving.pgconn.socket < 0 or _ended(leaving))
        with place.connect("new") as came:
            assert came.execute(CUSTOMERS).fetchone()
        assert kept.execute(CUSTOMERS).fetchone()


def _ended(client: psycopg.Connection[tuple[object, ...]]) -> bool:
    try:
        client.execute("SELECT 1")
    except psycopg.OperationalError as error:
        return "may no longer log in" in str(error)
    return False


@pytest.mark.full("opens servers or connects clients")
def test_facts_that_lapse_are_told_until_they_are_recorded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WATCH_SECONDS", 0.05)
    policy = shop(tmp_path / "shop", constraints=False)
    check_policy(str(policy), record=True)
    with opened(tmp_path, policy) as door:
        place = Place(door, policy)
        facts = door.proxy.policy.facts
        assert facts
        place.swap(countries=5, constraints=False)
        assert dpsql(policy, "refresh").returncode == 0
        until(lambda: "facts_lapsed" in place.events())
        assert "check --record" in dpsql(policy, "budget").stderr
        assert dpsql(policy, "refresh", "--record").returncode == 0
        until(lambda: door.server.present.proxy.policy.facts == facts)
        assert "check --record" not in dpsql(policy, "budget").stderr


@pytest.mark.full("opens servers or connects clients")
def test_facts_of_other_data_are_not_taken_up(tmp_path: Path) -> None:
    """The wrong twin of what `refresh --record` does: recorded before the data were swapped."""
    policy = shop(tmp_path / "shop", constraints=False)
    check_policy(str(policy), record=True, refresh=True)
    with Proxy.open(str(policy)) as proxy:
        assert proxy.policy.facts
    new = tmp_path / "shop" / "new.duckdb"
    world.build(world.flood(), str(new), constraints=False).close()
    new.replace(tmp_path / "shop" / "shop.duckdb")
    with Proxy.open(str(policy)) as proxy:
        assert not proxy.policy.facts
        assert facts_lapsed(proxy.policy, proxy.ledger)


@pytest.mark.full("opens servers or connects clients")
def test_a_hangup_reloads_and_ends_nothing(tmp_path: Path) -> None:
    policy = shop(tmp_path / "shop")
    assert dpsql(policy, "user", "add", "ana", text=f"{SECRET}\n").returncode == 0
    command = [sys.executable, "-m", "dpsql", "--policy", str(policy), "serve", "--port", "0"]
    with subprocess.Popen(  # noqa: S603
        [*command, "--self-signed"], stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stderr is not None
        port = json.loads(served.stderr.readline())["port"]
        where = {"host": "127.0.0.1", "port": port, "user": "ana", "password": SECRET}
        with psycopg.connect(**where, autocommit=True) as client:
            served.send_signal(signal.SIGHUP)
            while json.loads(served.stderr.readline())["event"] != "reloaded":
                pass
            assert client.execute("SELECT 1").fetchone() == (1,)
        served.send_signal(signal.SIGTERM)
        assert served.wait(60) == 0


@pytest.mark.full("opens servers or connects clients")
def test_new_connections_see_the_new_certificate(place: Place, tmp_path: Path) -> None:
    old = place.door.certificate
    (tmp_path / "renewed").mkdir()
    certificate, key = tls.self_signed(tmp_path / "renewed", "127.0.0.1")
    place.door.server.present.context = tls.context(certificate, key)
    place.door.server.present.binding = tls.binding(certificate)
    told = place.door.conninfo(sslmode="verify-full")
    with psycopg.connect(**told, sslrootcert=certificate) as client:
        assert client.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="certificate"):
        psycopg.connect(**told, sslrootcert=old)
