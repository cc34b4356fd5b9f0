"""TPC-H at ε = 1, δ = 1e-6: time beside plain DuckDB, and the error of every noisy column.

    python -m benchmarks.tpch [SCALE FACTOR, default 1] [FOLDER]

The policy is that of the tests, with its contribution limits as they are. The data is made by
`tpchgen-cli` in the folder, where it stays; without a folder it is temporary. Each query is asked
alone. Its exact integers are computed once and noised anew in every run, except where a later
statement reads what an earlier one released.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.common import paired, seconds, table
from benchmarks.repeated import Once
from dpsql.mechanisms.laws import Law
from dpsql.model.vocabulary import Answer, Request
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.bound import CATALOGS
from grammar_tests.tpch_kit import PRIVATE, build, generate, query

RUNS = 20
ROUNDS = 3
BUDGET = ("epsilon = 100.0\ndelta = 1e-4", "epsilon = 100000.0\ndelta = 0.9")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of an answer: what it should be, what it is, and the stated margin at 95 %."""

    exact: float
    noisy: float
    margin: float

    @property
    def error(self) -> float:
        return abs(self.noisy - self.exact)


@dataclass(frozen=True, slots=True)
class Compared:
    """Answers beside the exact rows: the numbers of each column, and how many rows agree."""

    cells: dict[str, list[Cell]]
    answered: float
    others: float


class Bench:
    """The proxy, and plain DuckDB on the same file."""

    def __init__(self, folder: Path) -> None:
        draft = load(str(folder / "tpch.toml"))
        self._engine = Once(draft.database, draft.limits)
        self._proxy = Proxy.over(draft, self._engine)
        self._sampler = self._proxy.vault.sampler
        self._plain = duckdb.connect(str(folder / "tpch.duckdb"), read_only=True)

    def close(self) -> None:
        self._proxy.close()
        self._plain.close()

    def measure(self, number: int) -> tuple[list[Row], list[Row]]:
        """The rows of the two tables for one query."""
        sql, name = query(number), f"Q{number}"
        compile_ = seconds(partial(self._proxy.explain, Request(sql, "ana")))
        exact = self._rows(sql)
        ours, plain, ratio = paired(partial(self._run, sql), partial(self._rows, sql), ROUNDS)
        noisy = compared(exact, [self._ask(sql) for _ in range(RUNS)])
        quiet = compared(exact, [self._noise_off(sql)])
        counts = len(exact), noisy.answered, noisy.others
        time = [(name, compile_, plain, ours, ratio, *counts)]
        return time, [
            (name, column, *errors(cells), relative(quiet.cells.get(column, [])))
            for column, cells in noisy.cells.items()
        ]

    def _rows(self, sql: str) -> list[Row]:
        return self._plain.execute(sql).fetchall()

    def _run(self, sql: str) -> Answer:
        self._engine.forget()
        return self._ask(sql)

    def _ask(self, sql: str) -> Answer:
        self._proxy.ledger.refresh()
        return self._proxy.ask(Request(sql, "ana"))

    def _noise_off(self, sql: str) -> Answer:
        """What clipping, sampling and the threshold leave."""
        self._proxy.vault.sampler = zeros
        answer = self._ask(sql)
        self._proxy.vault.sampler = self._sampler
        return answer


def main() -> None:
    scale = sys.argv[1] if len(sys.argv) > 1 else "1"
    if len(sys.argv) > 2:
        report(scale, Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as name:
        report(scale, Path(name))


def report(scale: str, folder: Path) -> None:
    prepare(scale, folder)
    bench = Bench(folder)
    times, accuracy = [], []
    for number in PRIVATE:
        time, error = bench.measure(number)
        times += time
        accuracy += error
    bench.close()
    header: tuple[str, ...] = (
        "query",
        "compile s",
        "plain s",
        "dpsql s",
        "ratio",
        "rows",
        "answered",
        "others",
    )
    table(f"TPC-H, scale factor {scale}: time, and exact rows answered", header, times)
    header = (
        "query",
        "column",
        "median error %",
        "stated ± %",
        "within ± %",
        "noise off %",
    )
    table(f"TPC-H, scale factor {scale}: errors at ε = 1, {RUNS} releases", header, accuracy)


def prepare(scale: str, folder: Path) -> None:
    """The database, unless it is there, and the policy with a budget for every run."""
    built(scale, folder)
    policy = (CATALOGS / "tpch.toml").read_text(encoding="utf-8")
    (folder / "tpch.toml").write_text(policy.replace(*BUDGET), encoding="utf-8")


def built(scale: str, folder: Path) -> Path:
    """The database, made unless it is there."""
    path, unfinished = folder / "tpch.duckdb", folder / "unfinished.duckdb"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generate(folder, scale)
        unfinished.unlink(missing_ok=True)
        with duckdb.connect(str(unfinished)) as connection:
            build(connection, folder)
        unfinished.rename(path)
    return path


def zeros(_law: Law, count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


def compared(exact: list[Row], answers: list[Answer]) -> Compared:
    """Rows are matched by the columns that have no error; numbers that are exactly 0 are left."""
    flags = [any(row[n] is not None for a in answers for row in a.errors) for n in columns(answers)]
    truth = {key(row, flags): row for row in exact}
    found = [sum(key(row, flags) in truth for row in a.rows) for a in answers]
    cells: dict[str, list[Cell]] = {
        column.name: [] for column, noisy in zip(answers[0].columns, flags, strict=True) if noisy
    }
    for answer in answers:
        for name, cell in numbers(answer, truth, flags):
            cells[name].append(cell)
    others = [len(a.rows) - n for a, n in zip(answers, found, strict=True)]
    return Compared(cells, statistics.median(found), statistics.median(others))


def columns(answers: list[Answer]) -> range:
    return range(len(answers[0].columns))


def key(row: Row, noisy: list[bool]) -> Row:
    return tuple(value for value, flag in zip(row, noisy, strict=True) if not flag)


def numbers(answer: Answer, truth: dict[Row, Row], flags: list[bool]) -> Iterator[tuple[str, Cell]]:
    """The noisy numbers of rows that the exact answer has too, by column."""
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        true = truth.get(key(row, flags))
        if true is None:
            continue
        for n, noisy in enumerate(flags):
            if noisy and true[n] and row[n] is not None:
                margin = nan if margins[n] is None else float(margins[n] or 0)
                yield answer.columns[n].name, Cell(float(true[n]), float(row[n]), margin)


def errors(cells: list[Cell]) -> tuple[object, ...]:
    """In %: the median error, the median stated margin, how many errors are within it."""
    stated = [cell for cell in cells if not isnan(cell.margin)]
    if not stated:
        return relative(cells), "unknown", ""
    margins = [100 * cell.margin / abs(cell.exact) for cell in stated]
    within = 100 * sum(cell.error <= cell.margin for cell in stated) / len(stated)
    return relative(cells), statistics.median(margins), within


def relative(cells: list[Cell]) -> object:
    """The median error in % of the exact value."""
    return 100 * statistics.median(c.error / abs(c.exact) for c in cells) if cells else "no row"


if __name__ == "__main__":
    main()
