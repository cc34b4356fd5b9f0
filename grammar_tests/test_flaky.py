"""No test sleeps, looks for a free port and gives it back, or decides by a clock."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from grammar_tests import waiting

FOLDER = Path(__file__).parent
FLAKY = {
    "sleeps": re.compile(r"(?<![\w.])(?:time\.|asyncio\.)?sleep\("),
    "gives a port back": re.compile(r"def _?free_port|\.bind\(\(.*, 0\)\)"),
    "measures time": re.compile(r"\b(?:monotonic|perf_counter|process_time)\(\)"),
    "tries again": re.compile(r"\bflaky\b|\breruns\b|\bretry\b", re.IGNORECASE),
}
ALLOWED = {
    "waiting.py": "the one place that waits",
    "test_flaky.py": "these words",
    "test_clocks.py": "a text about clocks",
    "test_fuzz_texts.py": "its command line runs for a given time",
}
"""Files with such words, and why."""


def flaws(text: str) -> list[str]:
    return [name for name, pattern in FLAKY.items() if pattern.search(text)]


@pytest.mark.full("measures neighbours or further data sets")
def test_no_test_depends_on_luck_or_time() -> None:
    files = [path for path in FOLDER.glob("*.py") if path.name not in ALLOWED]
    found = {path.name: flaws(path.read_text(encoding="utf-8")) for path in files}
    assert {name: words for name, words in found.items() if words} == {}
    assert all((FOLDER / name).exists() for name in ALLOWED)


@pytest.mark.parametrize(
    "text",
    [
        "    time.sleep(0.1)",
        "await asyncio.sleep(0)",
        "sleep(1)",
        "def free_port() -> int:",
        'probe.bind(("127.0.0.1", 0))',
        "assert time.monotonic() - began < 2",
        "@pytest.mark.flaky(reruns=2)",
    ],
)
def test_each_of_these_would_be_seen(text: str) -> None:
    assert flaws(text)


def test_a_reserved_port_is_free_for_one_server() -> None:
    with waiting.reserved_port() as port, socket.create_server(("127.0.0.1", port)) as server:
        others = {socket.create_server(("127.0.0.1", 0)) for _ in range(50)}
        assert port not in {other.getsockname()[1] for other in others}
        for other in others:
            other.close()
        with socket.create_connection(("127.0.0.1", port)), pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port))
        assert server.getsockname()[1] == port
