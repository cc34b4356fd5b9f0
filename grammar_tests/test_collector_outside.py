"""A collector from outside: a page in a browser, and a process that is killed."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

import dpsql
from dpsql.interfaces.pgwire.tls import self_signed
from dpsql.systems.local.report_store import STORE
from grammar_tests.collector_kit import collecting, policy, rows_of
from grammar_tests.test_collector import CHROMIUM, EXAMPLE, NO_ROW, is_report, run
from grammar_tests.waiting import until


def post(connection: HTTPConnection, key: str) -> int:
    headers = {"content-type": "application/json", "idempotency-key": key}
    body = json.dumps([{"clicked": "no"}, {"stars": str(int(key[-6:]) % 3 + 1)}])
    connection.request("POST", "/visits/reports", body, headers)
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


def sent_until_killed(port: int, sender: int) -> list[str]:
    """The keys that were acknowledged; one more may have been on its way."""
    connection, keys = HTTPConnection("127.0.0.1", port, timeout=20), []
    with suppress(OSError, HTTPException), closing(connection):
        for n in range(10_000):
            key = f"sender-{sender}-{n:08}"
            if post(connection, key) == 204:
                keys.append(key)
    return keys


COUNTERS = """
clicks = { values = ["0", "1-4", "5+"], randomized = { mechanism = "grr", epsilon = 1 } }
seconds = { values = ["0-9", "10-59", "60+"], randomized = { mechanism = "grr", epsilon = 1 } }
[budgets"""
PEOPLE = """<script type="module">
import { Respondent, cell } from './client.js'
const [clicked, , place] = await (await fetch('visits/questions.json')).json()
const memory = () => {
  const kept = new Map()
  return { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v) }
}
let next = 0
const some = async () => {
  for (let n = next++; n < 400; n = next++) {
    const person = new Respondent({ budget: '3', url: 'visits/reports', batch: 2, store: memory() })
    await person.answer(clicked, n % 4 ? 'yes' : 'no')
    await person.answer(place, cell(place, n % 2, 0, [0, 0, 1.5, 1], 3))
    await person.send()
  }
}
await Promise.all(Array.from({ length: 6 }, some))
for (let n = 0; n < 6; n++) document.querySelector('button').click()
while (!localStorage.getItem('dpsql')) {
  await new Promise((wake) => setTimeout(wake, 20))
  dispatchEvent(new Event('pagehide'))
}
</script>
"""
QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)


class Patience:
    """Ends a process that is waited for too long."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._timer = Timer(90, process.kill)
        self._timer.start()

    def close(self) -> None:
        self._timer.cancel()


@pytest.mark.full("a browser opens a page")
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_page_in_a_browser_becomes_an_answer(tmp_path: Path) -> None:
    """400 people in one page: 3 of 4 clicked, and half of them are in each of two cells.

    It is the page of the examples, which tells of its own visitor at the end.
    """
    path, page = policy(tmp_path, ("[budgets", COUNTERS)), tmp_path / "page.html"
    page.write_text(EXAMPLE.read_text(encoding="utf-8") + PEOPLE, encoding="utf-8")
    with collecting(path, "--page", str(page), "--least", "401") as (process, port):
        assert CHROMIUM is not None
        command = CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}"
        with (
            subprocess.Popen(  # noqa: S603
                [*command, f"http://127.0.0.1:{port}/"], stderr=subprocess.DEVNULL
            ) as browser,
            closing(Patience(process)),
        ):
            assert process.stderr is not None
            assert (
                process.stderr.readline() == "802 reports are sealed for the next dpsql refresh.\n"
            )
            browser.terminate()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert run(tmp_path, "refresh").stderr == "visits has 802 more reports.\n"
    rows = rows_of(tmp_path / "visits")
    assert {is_report(row[:6]) for row in rows if any(row[:6])} == {True}
    clicks, seconds = zip(*(row[6:] for row in rows.elements() if any(row[6:])), strict=True)
    assert {*clicks} & {"0", "1-4", "5+"}
    assert {*seconds} & {"0-9", "10-59", "60+"}
    assert len(clicks) == 2
    with dpsql.connect(str(path)) as connection:
        cursor = connection.execute("SELECT COUNT(*) FROM visits WHERE clicked = 'yes'")
        ((clicked,),), ((error,),) = cursor.fetchall(), cursor.errors
        cursor = connection.execute("SELECT cell, COUNT(*) FROM visits GROUP BY cell")
        cells: dict[Any, Any] = dict(cursor.fetchall())
        errors = [error for _, error in cursor.errors]
    said = sum(count for row, count in rows.items() if row[0] == "yes")
    assert abs(clicked - (said - 400 * 0.25) / 0.5) <= 0.5
    assert error is not None
    assert abs(clicked - 300) < 7 * error  # 1e-11
    assert {*cells} == {*"abc"}
    for (cell, count), error in zip(cells.items(), errors, strict=True):
        assert error is not None
        assert abs(count - {"a": 200, "b": 0, "c": 200}[cell]) < 7 * error


@pytest.mark.full("processes are started and killed")
def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    """Twice as many are sent again; over TLS then, and the end is that of a service."""
    path = policy(tmp_path)
    with collecting(path, "--least", "7") as (process, port), ThreadPoolExecutor(4) as pool:
        senders = [pool.submit(sent_until_killed, port, n) for n in range(4)]
        store = tmp_path / "visits" / STORE
        until(lambda: store.stat().st_size > 40_000 or any(s.done() for s in senders))
        process.send_signal(signal.SIGKILL)
        keys = [sender.result() for sender in senders]
    assert sum(map(len, keys)) > 20
    rows, acknowledged = rows_of(tmp_path / "visits"), sum(map(len, keys))
    assert acknowledged <= rows[NO_ROW] <= acknowledged + len(keys)
    assert rows.total() == 2 * rows[NO_ROW]
    pair = self_signed(tmp_path, "127.0.0.1")
    with collecting(path, "--least", "7", "--tls", *pair) as (process, port):
        context = ssl.create_default_context(cafile=pair[0])
        connection = HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
        for sender, mine in enumerate(keys):
            again = [*mine, f"sender-{sender}-{len(mine):08}"]
            assert {post(connection, key) for key in again} == {204}
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "127.0.0.1" not in process.stderr.read()
    stars = [n % 3 + 1 for mine in keys for n in range(len(mine) + 1)]
    expected = Counter((None, str(star), *[None] * 4) for star in stars)
    assert rows_of(tmp_path / "visits") == expected + Counter({NO_ROW: len(stars)})
