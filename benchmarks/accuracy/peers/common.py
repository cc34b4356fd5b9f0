"""What every peer's script shares: the data as arrays, the questions in turn, JSON on stdout.

Runs in the peer's own environment: the standard library, NumPy and pyarrow alone.
"""

from __future__ import annotations

import json
import operator
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.accuracy.questions import BOUNDS, QUESTIONS, VALUES, Measure, Question

SECONDS = 60
"""After this long a way gives as many releases as it has made, at least three."""

_COMPARE = {"=": operator.eq, ">": operator.gt, ">=": operator.ge}
Numbers = list[float | None]
Answer = dict[str, Numbers]


class CannotExpressError(Exception):
    """The peer has no way to answer a question; the message says why."""


@dataclass(frozen=True, slots=True)
class Way:
    """One configuration of a peer: what it is called, and one release of an answer."""

    how: str
    release: Callable[[], Answer]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name."""

    columns: Mapping[str, Any]

    @property
    def size(self) -> int:
        return len(next(iter(self.columns.values())))

    def values(self, measure: Measure, mask: Any = None) -> Any:
        """The numbers that a measure is made of; for a count one number for each row."""
        passing = self.passing(measure) if mask is None else self.passing(measure) & mask
        return self.columns[measure.column or "age"][passing]

    def passing(self, measure: Measure) -> Any:
        """Whether each row passes the measure's condition."""
        if measure.where is None:
            return np.ones(self.size, dtype=bool)
        column, how, constant = measure.where
        return _COMPARE[how](self.columns[column], constant)

    def keys(self, names: Sequence[str]) -> Any:
        """The values of some columns of each row, joined with `|`."""
        joined = self.columns[names[0]].astype(str)
        for name in names[1:]:
            joined = np.char.add(np.char.add(joined, "|"), self.columns[name].astype(str))
        return joined


def domain(names: Sequence[str]) -> list[str]:
    """All combinations of public values, joined as `Table.keys` joins them."""
    joined = [""]
    for name in names:
        joined = [f"{head}|{value}" if head else value for head in joined for value in VALUES[name]]
    return joined


def main(ways: Callable[[Question, Table], Iterable[Way]]) -> None:
    """`python -m MODULE DATA RELEASES`."""
    names = {n for question in QUESTIONS for n in question.keys} | BOUNDS.keys()
    names |= {m.where[0] for question in QUESTIONS for m in question.measures if m.where}
    read = pq.read_table(sys.argv[1], columns=sorted(names))
    columns = {name: read[name].to_numpy(zero_copy_only=False) for name in names}
    table = Table({name: np.asarray(column) for name, column in columns.items()})
    releases = int(sys.argv[2])
    answers = {question.name: _answers(question, table, ways, releases) for question in QUESTIONS}
    json.dump(answers, sys.stdout)


def _answers(
    question: Question,
    table: Table,
    ways: Callable[[Question, Table], Iterable[Way]],
    releases: int,
) -> dict[str, Any]:
    try:
        tried = [(way.how, _released(way, releases)) for way in ways(question, table)]
    except CannotExpressError as error:
        return {"why": str(error)}
    return {"ways": [{"how": how, "releases": released} for how, released in tried]}


def _released(way: Way, releases: int) -> list[Answer]:
    start, made = time.monotonic(), list[Answer]()
    while len(made) < releases and (len(made) < 3 or time.monotonic() - start < SECONDS):
        made.append(way.release())
    return made
