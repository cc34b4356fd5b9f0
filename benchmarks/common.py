"""What every benchmark shares: paired timing in one run, and a table on stdout."""

from __future__ import annotations

import csv
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

Row: TypeAlias = Sequence[object]

PEOPLE = """
[database]
engine = "duckdb"
path = "people.duckdb"
[privacy_unit]
table = "people"
key = "person_id"
[ledger]
path = "people.ledger"
[tables.people]
access = "private"
key = "person_id"
[tables.people.columns]
person_id = {}
"""
"""A policy over one table of people, to which its columns and budgets are added."""


def paired(
    first: Callable[[], object], second: Callable[[], object], rounds: int = 7
) -> tuple[float, float, float]:
    """Median seconds of each, and the median of their ratios taken round by round."""
    first()
    second()
    pairs = [(seconds(first), seconds(second)) for _ in range(rounds)]
    ratios = [a / b for a, b in pairs]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(ratios),
    )


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def table(title: str, header: Sequence[str], rows: Sequence[Row]) -> None:
    """Print a table with columns as wide as they need."""
    texts = [list(map(str, header)), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[n]) for row in texts) for n in range(len(header))]
    print(f"\n{title}")
    for row in texts:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def save(folder: Path, name: str, header: Sequence[str], rows: Sequence[Row], raw: object) -> None:
    """What `table` prints as CSV, and the numbers behind it as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    (folder / f"{name}.json").write_text(json.dumps(raw, default=str), encoding="utf-8")
