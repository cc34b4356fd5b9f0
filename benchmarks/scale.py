"""Ten times as many events of ten times as many people: CPU of the engine, and what it holds.

    python -m benchmarks.scale FOLDER [--rounds N] [--memory 4GB]

FOLDER has the ten million events of `benchmarks.events`, and is given a hundred million: each of
them ten times, of ten people. `/ tenth` is the CPU of a question's private statements over that for
the ten million, in the same run; so is `bare / tenth` of the hand-written `GROUP BY unit, key`.
`peak` is the most that the engine's process held, and `spilled` what one private statement over the
hundred million wrote to a folder for that.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.common import table
from benchmarks.drafts import Price
from benchmarks.events import MILLION, built, policy_of
from benchmarks.speed import COLUMNS, QUESTIONS, Asked, Metered, turn
from dpsql.model.errors import Failed
from dpsql.model.vocabulary import Exact
from dpsql.policy.load import load
from dpsql.proxy import Proxy

MORE = """
SET memory_limit = '10GB';
ATTACH '{small}' AS small (READ_ONLY);
CREATE TABLE users (user_id INTEGER PRIMARY KEY);
INSERT INTO users SELECT user_id + 1000000 * i FROM small.users, range(10) AS r(i);
CREATE TABLE events (
    user_id INTEGER NOT NULL REFERENCES users (user_id), country INTEGER NOT NULL,
    device INTEGER NOT NULL, month INTEGER NOT NULL, amount DOUBLE NOT NULL);
"""
ONCE_MORE = """
INSERT INTO events SELECT user_id + 1000000 * {copy}, country, device, month, amount
    FROM small.events;
"""
"""The index of a foreign key is made in memory: one statement has too much of it."""
TARGET = 11.0


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds of dpsql's statements and of the bare one; GB that the process held at most, and
    that one statement of dpsql's wrote.
    """

    ours: float
    bare: float
    peak: float
    spilled: float


class Spilling(Metered):
    """The engine, and the most GB that a private statement wrote, which are what it spilled."""

    spilled = 0.0

    def aggregate(self, *arguments: Any, **named: Any) -> Exact:
        before = self._written
        exact = super().aggregate(*arguments, **named)
        self.spilled = max(self.spilled, self._written - before)
        return exact

    @property
    def _written(self) -> float:
        return int(self._read("io").split("wchar:")[1].split()[0]) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the events")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="4GB", help="the limit of the engine")
    given = parser.parse_args()
    small = built(given.folder, MILLION)
    script = MORE.format(small=small) + "".join(ONCE_MORE.format(copy=n) for n in range(10))
    large = built(given.folder, replace(MILLION, name="larger", script=script))
    header = ("question", "10 M", "100 M", "/ tenth", "bare / tenth", "peak GB", "spilled GB")
    rows = [*measured(small, large, given.memory, given.rounds)]
    table(f"CPU s of the engine, limited to {given.memory}", (*header, "target", ""), rows)


def measured(small: Path, large: Path, memory: str, rounds: int) -> Iterator[tuple[object, ...]]:
    for asked in [asked for asked in QUESTIONS if asked.limits]:
        try:
            tenth, whole = (spent(path, asked, memory, rounds) for path in (small, large))
        except Failed as failed:
            yield asked.name, "", "", "", "", "", "", TARGET, f"MISSED: {failed}"
            continue
        ratio = whole.ours / tenth.ours
        verdict = "holds" if ratio <= TARGET else "MISSED"
        bare = whole.bare / tenth.bare
        held = whole.peak, whole.spilled
        yield asked.name, tenth.ours, whole.ours, ratio, bare, *held, TARGET, verdict


def spent(database: Path, asked: Asked, memory: str, rounds: int) -> Spent:
    """Medians of so many rounds. Raises `Failed` where the memory is too little."""
    data, price = replace(MILLION, columns=COLUMNS), Price("zcdp", 1.0, 1e-6)
    with tempfile.TemporaryDirectory() as name:
        draft = load(str(policy_of(Path(name), database, data, price, asked.limits)))
        spilling = replace(draft.database, spill=str(database.parent / "spilled"))
        engine = Spilling(spilling, replace(draft.limits, memory=memory, statement_seconds=3600))
        with Proxy.over(draft, engine) as proxy:
            turns = [turn(proxy, engine, asked) for _ in range(rounds + 1)][1:]
            ours, bare, _ = (statistics.median(each) for each in zip(*turns, strict=True))
            return Spent(ours, bare, engine.peak, engine.spilled)


if __name__ == "__main__":
    main()
