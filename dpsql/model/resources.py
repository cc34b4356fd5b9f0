"""The location of the data, and limits on the machine's resources for a query."""

from __future__ import annotations

import re

from dpsql.model.dataclass import dataclass
from dpsql.model.file_formats import FileFormat
from dpsql.model.public_times import Resolution

LONGEST_TEXT = 65_536
"""Default length to which texts are cut, in characters."""

SPILL = "spill_unencrypted"
"""Policy key of the folder to which statements may spill."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, slots=True)
class Database:
    """The owner's database in a policy: its engine, and the location of the data.

    `path`, `files` (by table name) and `prepared`, the folder of `dpsql prepare`, are absolute.
    `settings` are texts by the engine's own keys. `public` is another database with those `tables`
    that are public and not in this one. `spill` is an absolute folder to which statements may spill
    private rows unencrypted; without it nothing is spilled. `formats` describe the files by table.
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
        """Keys of the policy that are set, besides the engine."""
        where: dict[str, object] = {"path": self.path, "files": self.files}
        where |= {"prepared": self.prepared, "public": self.public, SPILL: self.spill}
        return (*(key for key, said in where.items() if said), *(key for key, _ in self.settings))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the machine's resources per query, and on the groups of an answer, by the keys of
    [limits] (`policy_keys`).

    Texts are read up to `max_text_length` characters (PRIVACY.md R101). `niceness` lowers the
    priority of a query relative to its server; a policy cannot set it.
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
    max_text_length: int = LONGEST_TEXT
    niceness: int = 0


def bytes_of(amount: str) -> int:
    """Convert an amount of memory as policies write it to bytes.

    >>> bytes_of("1.5KiB"), bytes_of("2 GB")
    (1536, 2000000000)
    """
    written = re.fullmatch(r"([\d.]+)\s*([kmgt]?)(i?)b", amount.lower())
    assert written is not None
    number, unit, binary = written.groups()
    return int(float(number) * (_BINARY if binary else _UNITS)[unit])
