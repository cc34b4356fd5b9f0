"""Errors of published joins over TPC-H, with nothing declared and with limits, beside theirs.

    python -m benchmarks.joins FOLDER [--rows R2T PMSJA cwida] [--releases N] [--output FOLDER]

The data is made by `tpchgen-cli` in the folder, where it stays, at scale factors 1 and, for PMSJA,
2. cwida's rows are at 30: every exact integer of scale factor 1 counts thirty times, as if each
customer were there so often; the noise does not grow with the data, the clip that is chosen may.
What reads the data runs once for each statement; every release is chosen, noised and charged anew.

Where octaves end weighs in the error of one number, nothing declared: a clip may be anywhere in
the last one. By simulation Q19 errs by 0.085 to 0.144 % if they end elsewhere, 0.118 on average,
and by 0.094 where they do, at powers of two of what is summed. Halves of octaves would leave 0.108
on average, but cost where few have much: one number, pure, Pareto tails, 1.57 → 1.74 × the best.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.common import save, table
from benchmarks.joins.policies import written
from benchmarks.joins.rows import ROWS, Metric, Row
from benchmarks.repeated import notices, repeated
from benchmarks.tpch import built
from dpsql.model.errors import PolicyError

HEADER = ("row", "declared", "accountant", "error %", "±", "published %", "target %", "")
Cells = dict[tuple[str, ...], float]
"""Numbers of an answer by key and column."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The errors of each release in %, by cell; or why there are none."""

    row: Row
    errors: Sequence[Sequence[float]]
    notices: Mapping[str, int]
    why: str = ""

    @property
    def each(self) -> list[float]:
        """The errors that are averaged: of releases, or of the median cell's."""
        if self.row.metric != "median cell":
            return [error for (error,) in self.errors]
        columns = sorted(map(list, zip(*self.errors, strict=True)), key=statistics.fmean)
        return columns[(len(columns) - 1) // 2]

    @property
    def line(self) -> tuple[object, ...]:
        row = self.row
        target = "-" if row.target is None else f"{row.target:.2g}"
        head, tail = (row.name, row.declared.words, str(row.price)), (row.published, target)
        if self.why:
            return (*head, "-", "-", *tail, self.why)
        error = statistics.fmean(self.each)
        spread = statistics.stdev(self.each) / math.sqrt(len(self.each))
        verdict = "" if row.target is None else "holds" if error <= row.target else "MISSED"
        return (*head, f"{error:.2g}", f"{spread:.1g}", *tail, verdict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--only", nargs="+", default=[], help="names of rows")
    parser.add_argument("--output", type=Path, help="where tables and their numbers are written")
    given = parser.parse_args()
    for name in given.rows:
        rows = [row for row in ROWS[name]() if not given.only or row.name in given.only]
        found = [one for row in rows for one in [measured(given.folder, row, given.releases)]]
        lines = [one.line for one in found]
        title = f"{name}: {rows[0].metric} error of {given.releases} releases, scale factor"
        table(f"{title} {int(rows[0].scale) * rows[0].copies}", HEADER, lines)
        if given.output is not None:
            save(given.output, name, HEADER, lines, [asdict(one) for one in found])


def measured(data: Path, row: Row, releases: int) -> Measured:
    print(f"asking for {row.name}, {row.declared.words}, {row.price}", file=sys.stderr)
    database = built(row.scale, data / f"sf{row.scale}")
    with tempfile.TemporaryDirectory() as folder:
        policy = written(Path(folder), database, row.unit, row.declared, row.price)
        try:
            with repeated(policy, row.copies) as proxy:
                answers = proxy.answers(row.sql, releases)
        except PolicyError as error:
            return Measured(row, (), {}, f"no such policy: {error.message}")
    if isinstance(answers, str):
        return Measured(row, (), {}, answers)
    truth = _truth(database, row)
    each = [errors(_cells(a.rows, _names(a), row.keys), truth, row.metric) for a in answers]
    return Measured(row, each, notices(answers))


def _names(answer: Any) -> list[str]:
    return [column.name for column in answer.columns]


def _truth(database: Path, row: Row) -> Cells:
    with duckdb.connect(str(database), read_only=True, config={"threads": 1}) as plain:
        result = plain.execute(row.sql)
        names = [column[0] for column in result.description]
        cells = _cells(result.fetchall(), names, row.keys)
    return {
        key: value if key[-1] in row.intensive else value * row.copies
        for key, value in cells.items()
    }


def _cells(rows: Sequence[tuple[Any, ...]], names: Sequence[str], keys: int) -> Cells:
    """NULL counts as nothing."""
    return {
        (*map(str, row[:keys]), name): float(value or 0)
        for row in rows
        for name, value in zip(names[keys:], row[keys:], strict=True)
    }


def errors(release: Cells, truth: Cells, metric: Metric) -> list[float]:
    """In %: of each cell, or of all together.

    >>> errors({("a",): 4.0}, {("a",): 5.0}, "mean")
    [20.0]
    """
    exact = np.array(list(truth.values()))
    off = np.abs([release.get(key, 0.0) - value for key, value in truth.items()])
    if metric == "norm":
        return [float(100 * np.linalg.norm(off) / np.linalg.norm(exact))]
    return [float(error) for error in 100 * off / np.abs(exact)]


if __name__ == "__main__":
    main()
