"""Where the data is, and how much of the machine a query over it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Database:
    """Where the data is: a DuckDB file, or files by table name (Parquet or CSV, globs allowed)."""

    engine: str
    path: str | None = None
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one query may cost the machine, and on the groups that it may show.

    `max_fanout` is the most public rows that one private row may be joined to. `free_seconds` is
    how long what nobody pays for may take: compiling, and questions about public data alone.
    `max_result_cells` is the most values of such an answer that are kept at once.
    """

    max_public_groups: int = 10_000
    statement_seconds: float = 300.0
    memory: str = "4GB"
    min_units_per_group: int = 1
    max_fanout: int = 10_000
    free_seconds: float = 30.0
    max_result_cells: int = 10_000_000
