"""The server's own memory is bounded: what would take more ends one statement."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpsql.interfaces.pgwire import serving
from dpsql.interfaces.pgwire.frontend import Query
from dpsql.model.errors import PolicyError, Unreachable
from dpsql.model.resources import bytes_of
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import policy, shop
from grammar_tests.session_kit import COUNTRIES, Client

BOUNDED = """
import resource, sys
from dpsql.engines.memory import bound_memory
from dpsql.proxy import Proxy
bound_memory("100MB")
try:
    bytearray(200 << 20)
except MemoryError:
    print("ends")
bytearray(50 << 20)
with Proxy.open(sys.argv[1]) as proxy:
    proxy.vault.engine.rows("SELECT 1")
    worker = proxy.vault.engine._first._worker._process.pid
    own = resource.getrlimit(resource.RLIMIT_DATA)[0]
    print("more" if resource.prlimit(worker, resource.RLIMIT_DATA)[0] > own else "less")
"""


@pytest.mark.full("processes are started and killed")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say what a process has")
def test_the_server_is_bounded_and_its_workers_by_their_own(tmp_path: Path) -> None:
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", BOUNDED, str(shop(tmp_path))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.split() == ["ends", "more"]


def test_a_statement_without_memory_fails_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(*_given: object) -> None:
        raise MemoryError("secret")

    with Proxy.open(str(shop(tmp_path))) as proxy:
        client = Client(proxy)
        with monkeypatch.context() as patched:
            patched.setattr(proxy, "ask", without)
            client.send(Query(COUNTRIES))
        assert client.error["C"] == "53200"
        assert "secret" not in str(client.said)
        client.send(Query(COUNTRIES))
        assert client.rows


@pytest.mark.parametrize(
    ("amount", "count"),
    [("10B", 10), ("1kb", 1000), ("1 KiB", 1024), ("2.5GB", 2_500_000_000), ("1TiB", 1 << 40)],
)
def test_amounts_of_memory_are_read(amount: str, count: int) -> None:
    assert bytes_of(amount) == count


def test_the_policy_says_how_much(tmp_path: Path) -> None:
    written = policy(tmp_path, ("[ledger]", '[server]\nmemory = "512MiB"\n\n[ledger]'))
    assert load(str(written)).server.memory == "512MiB"
    written = policy(tmp_path, ("[ledger]", '[server]\nmemory = "much"\n\n[ledger]'))
    with pytest.raises(PolicyError, match="no amount of memory"):
        load(str(written))


def test_threads_of_a_server_give_way_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own turns are 5 ms, of which an answer that is sent again would wait for some."""
    before, own = sys.getswitchinterval(), 0.005
    assert own > serving.TURN_SECONDS
    sys.setswitchinterval(own)
    monkeypatch.setattr(logging.getLogger(), "addHandler", lambda _handler: None)

    def make() -> Any:
        assert sys.getswitchinterval() == pytest.approx(serving.TURN_SECONDS)
        raise Unreachable("nothing is served")

    try:
        with pytest.raises(Unreachable):
            serving.serve(make, lambda _line: None, self_signed=False)
    finally:
        sys.setswitchinterval(before)
