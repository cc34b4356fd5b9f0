"""Where the data is, and how much of the machine a query over it may take."""

from __future__ import annotations

import re

from dpsql.model.dataclass import dataclass
from dpsql.model.file_formats import FileFormat
from dpsql.model.public_times import Resolution

SPILL = "spill_unencrypted"
"""How a policy calls the folder to which statements may spill."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class Database:
    """The owner's database as a policy says it: which engine, and where the data is.

    `path`, `files` (by table name) and `prepared`, where `dpsql prepare` puts what it makes of it,
    are absolute; `settings` are texts by the engine's own keys. `public` is another one, which has
    those `tables` that are public and not in this one. `spill` is an absolute folder to which
    statements may spill private rows as they are; where there is none, nothing is spilled.
    `formats` say by table how its files are read.
    """

    engine: str
    path: str | None = None
    files: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    prepared: str | None = None
    public: Database | None = None
    tables: tuple[str, ...] = ()
    spill: str | None = None
    formats: tuple[tuple[str, FileFormat], ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """What is said beside the engine."""
        where: dict[str, object] = {"path": self.path, "files": self.files}
        where |= {"prepared": self.prepared, "public": self.public, SPILL: self.spill}
        return (*(key for key, said in where.items() if said), *(key for key, _ in self.settings))


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one query may cost the machine, and on the groups that it may show.

    `max_fanout` is the most public rows that one private row may be joined to. `free_seconds` is
    how long what nobody pays for may take: compiling, and questions about public data alone.
    `max_result_cells` is the most values of such an answer that are kept in memory at once, and
    `max_result_files` what those may take in temporary files that are fetched some at a time.
    `max_spill_files` is what the statements of one worker may have spilled at once.
    `niceness` is how much less urgent a query is than whoever serves it.

    NOW() is read on the grid of `time_resolution`; with `round_recent_times` so are constants of
    the last days.
    """

    max_public_groups: int = 10_000
    statement_seconds: float = 300.0
    memory: str = "4GB"
    min_units_per_group: int = 1
    max_fanout: int = 10_000
    free_seconds: float = 30.0
    max_result_cells: int = 10_000_000
    max_result_files: str = "10GB"
    max_spill_files: str = "50GB"
    time_resolution: Resolution = Resolution.DAY
    round_recent_times: bool = False
    niceness: int = 0


def bytes_of(amount: str) -> int:
    """An amount of memory as policies write it.

    >>> bytes_of("1.5KiB"), bytes_of("2 GB")
    (1536, 2000000000)
    """
    written = re.fullmatch(r"([\d.]+)\s*([kmgt]?)(i?)b", amount.lower())
    assert written is not None
    number, unit, binary = written.groups()
    return int(float(number) * (_BINARY if binary else _UNITS)[unit])
