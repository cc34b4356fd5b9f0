"""CPU of whole answers of dpsql and of its peers, each in an environment of its own.

    python -m benchmarks.peers FOLDER [--rounds N] [--environments FOLDER]

FOLDER has the ten million events of `benchmarks.events`, and is given them where it has none. All
spend (1, 1e-6) on a question, protect a user, and bound what one contributes alike: at most 5
countries, 20 rows in each. Everybody is asked in turns, by two threads of their own engine, with
all warm: SmartNoise SQL, Qrlew and dpsql over DuckDB, OpenDP over Polars. CPU seconds are of all
threads of the process, and for dpsql of proxy and engine; ratios are taken within a turn, and their
median is shown. `lost` is how far the counts are from the true ones, as a part of these: by the
bounds of contributions nearly all of it, so that it says whether these are alike. `floor` is
`GROUP BY unit, key` and a sum over that, by DuckDB alone: less than that nothing costs that bounds
what a user has in a group. `prepared` is dpsql over the store that `dpsql prepare` makes once.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.common import table
from benchmarks.drafts import Price
from benchmarks.environments import (
    ENVIRONMENT,
    ROOT,
    Peer,
    PeerFailedError,
    asked,
    last_line,
)
from benchmarks.events import MILLION, built, policy_of
from benchmarks.peers.questions import DELTA, EPSILON, QUESTIONS, Question
from benchmarks.speed import (
    COLUMNS,
    LIMITS,
    ROLLED_UP,
    Metered,
    own_seconds,
    with_store,
)
from dpsql.model.vocabulary import Request
from dpsql.policy.load import load
from dpsql.proxy import Proxy

PEERS = (
    Peer("SmartNoise SQL", ("smartnoise-sql>=1.0", "pandas<3", "duckdb"), "smartnoise"),
    Peer("Qrlew", ("pyqrlew>=0.9.27", "duckdb"), "qrlew"),
    Peer("OpenDP, Polars", ("opendp[polars]>=0.14",), "opendp"),
)
TARGET = 5.0
Spent = tuple[float, Sequence[Sequence[float]]]
"""CPU seconds, and the rows that they brought."""


class Ours:
    """dpsql, asked again as a new question each time."""

    def __init__(self, proxy: Proxy, engine: Metered) -> None:
        self._proxy, self._engine = proxy, engine

    def ask(self, number: int) -> Spent:
        self._proxy.ledger.refresh()
        before = own_seconds() + self._engine.seconds
        answer = self._proxy.ask(Request(QUESTIONS[number].sql, "ana", confirmed=True))
        rows = [[float(value or 0) for value in row] for row in answer.rows]
        return own_seconds() + self._engine.seconds - before, rows


class Plain:
    """DuckDB alone."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, *, floor: bool = False) -> None:
        self._connection, self._floor = connection, floor

    def ask(self, number: int) -> Spent:
        question = QUESTIONS[number]
        before = own_seconds()
        rows = self._connection.execute(question.floor if self._floor else question.sql).fetchall()
        return own_seconds() - before, rows


class Theirs:
    """A peer's script: a line for each question, a line for each answer."""

    def __init__(self, process: subprocess.Popen[str], errors: Any) -> None:
        self._process, self._errors = process, errors

    def ask(self, number: int) -> Spent:
        """Raises `PeerFailedError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it says why below
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise PeerFailedError(last_line(self._errors.read()))
        spent, rows = json.loads(line)
        return float(spent), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the events")
    parser.add_argument("--rounds", type=int, default=3)
    environments = Path(tempfile.gettempdir()) / "dpsql-peers"
    parser.add_argument("--environments", type=Path, default=environments)
    given = parser.parse_args()
    ratios = ("/ plain", "/ floor", "/ dpsql", "/ prepared")
    header = ("question", "who", "CPU s", "lost", *ratios, "target", "")
    rows = [*measured(given.folder, given.environments, given.rounds)]
    table(f"CPU of whole answers, ε = {EPSILON:g}, δ = {DELTA:g}", header, rows)


def measured(folder: Path, environments: Path, rounds: int) -> Iterator[tuple[object, ...]]:
    database = built(folder, MILLION)
    events = folder / "events.parquet"
    with ExitStack() as stack:
        plain = stack.enter_context(duckdb.connect(str(database), read_only=True))
        if not events.exists():
            plain.execute(f"COPY events TO '{events}' (FORMAT parquet)")
        name = stack.enter_context(tempfile.TemporaryDirectory())
        data, price = replace(MILLION, columns=COLUMNS), Price("zcdp", EPSILON, DELTA)
        limits = f"{LIMITS}\nrollups = {ROLLED_UP['rollups']}"
        policy = policy_of(Path(name), database, data, price, limits)
        whom: dict[str, Ours | Plain | Theirs] = {"DuckDB": Plain(plain)}
        whom["floor"] = Plain(plain, floor=True)
        whom["dpsql"] = asked_by(stack, policy)
        before = own_seconds() + own_seconds(resource.RUSAGE_CHILDREN)
        with_store(policy, Path(name) / "store.duckdb")
        spent = own_seconds() + own_seconds(resource.RUSAGE_CHILDREN) - before
        yield "once", "dpsql prepare", spent, *[""] * 7
        whom["prepared"] = asked_by(stack, policy)
        failed = dict[str, str]()
        for peer in PEERS:
            try:
                whom[peer.name] = started(stack, peer, environments, database, events)
            except PeerFailedError as error:
                failed[peer.name] = str(error)
        for number, question in enumerate(QUESTIONS):
            turns = _turns(whom, failed, number, rounds)
            yield from _rows(question, turns)
            yield from ((question.name, peer, *["-"] * 6, "", why) for peer, why in failed.items())


def asked_by(stack: ExitStack, policy: Path) -> Ours:
    """A proxy of this policy, which ends with the stack."""
    draft = load(str(policy))
    engine = Metered(draft.database, draft.limits)
    return Ours(stack.enter_context(Proxy.over(draft, engine)), engine)


def started(
    stack: ExitStack, peer: Peer, environments: Path, database: Path, events: Path
) -> Theirs:
    """Its script, which ends with the stack. Raises `PeerFailedError`."""
    module = replace(peer, module=f"benchmarks.peers.{peer.module}")
    command = asked(module, environments, str(database.resolve()), str(events.resolve()))
    errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - the stack closes it
    stack.enter_context(errors)
    process = stack.enter_context(
        subprocess.Popen(  # noqa: S603
            command, stdin=-1, stdout=-1, stderr=errors, text=True, cwd=ROOT, env=ENVIRONMENT
        )
    )
    return Theirs(process, errors)


Turn = dict[str, Spent]


def _turns(
    whom: dict[str, Ours | Plain | Theirs], failed: dict[str, str], number: int, rounds: int
) -> list[Turn]:
    """What each round cost everybody; the first is not counted. Who fails is asked no more."""
    turns = []
    for _ in range(rounds + 1):
        turn = Turn()
        for name in list(whom):
            print(f"asking {name}: {QUESTIONS[number].name}", file=sys.stderr)
            try:
                turn[name] = whom[name].ask(number)
            except PeerFailedError as error:
                failed[name] = str(error)
                del whom[name]
        turns.append(turn)
    return turns[1:]


def _rows(question: Question, turns: list[Turn]) -> Iterator[tuple[object, ...]]:
    for name in turns[-1]:
        spent = statistics.median(turn[name][0] for turn in turns)
        lost = statistics.median(_lost(question, turn, name) for turn in turns)
        ratios = [
            statistics.median(turn[name][0] / turn[other][0] for turn in turns)
            for other in ("DuckDB", "floor", "dpsql", "prepared")
        ]
        row = (question.name, name, spent, lost, *ratios)
        if name not in {peer.name for peer in PEERS}:
            yield *row, "", ""
            continue
        _, floor, ours, prepared = ratios
        why = "" if floor >= TARGET else ", and so would the floor"
        verdict = "holds" if ours >= TARGET else f"MISSED{why}"
        again = "" if ours >= TARGET or prepared < TARGET else "; prepared holds"
        yield *row, TARGET, f"{verdict}{again}"


def _lost(question: Question, turn: Turn, name: str) -> float:
    """How much less, or more, of what is counted is there; a group that is not shown counts 0."""

    def counts(who: str) -> dict[float, float]:
        return {
            row[0] if question.key else 0.0: row[1 if question.key else 0] for row in turn[who][1]
        }

    found, true = counts(name), counts("DuckDB")
    return sum(abs(n - found.get(key, 0.0)) for key, n in true.items()) / sum(true.values())


if __name__ == "__main__":
    main()
