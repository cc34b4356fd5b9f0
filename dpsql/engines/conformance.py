"""Conformance probes: whether an engine computes what the tried versions of it compute.

Intervals, totality and integers are proved for the functions of certain versions. Another version
is asked the same constant questions once. What deviates is refused by name; where the core
deviates, the proxy does not start. No probe reads data.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from dpsql.engines import EngineFailed
from dpsql.model.dataclass import dataclass

RECORD = Path(__file__).with_name("conformance.json.gz")
"""What tried versions answered. `python -m grammar_tests.conformance_record` writes it."""

CORE = "core"
"""The group of probes without which no statement of ours can be trusted."""

CORE_FUNCTIONS = frozenset(
    """add sub mul neg abs case coalesce least greatest floor ceil eq ne lt le gt ge and or not
    is_null in""".split()
)
"""Functions that the printed statements use whether a query names them or not."""

SIGNIFICANT_DIGITS = 9
"""Libraries of two machines may differ in the last digits of a DOUBLE."""

Run: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs one statement over constants. Raises `EngineFailed` where the engine does not."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One statement over constants, and the digests of the rows that tried versions gave."""

    sql: str
    digests: tuple[str, ...]


def load_record() -> dict[str, Any]:
    """The record as it is written."""
    record: dict[str, Any] = json.loads(gzip.decompress(RECORD.read_bytes()))
    return record


def load_probes(engine: str) -> Mapping[str, tuple[Probe, ...]]:
    """Probes of an engine by what they try; none for an engine that has no record."""
    recorded = load_record().get(engine, {})
    return {
        name: tuple(Probe(sql, tuple(digests)) for sql, digests in probes)
        for name, probes in recorded.items()
    }


def find_deviations(probes: Mapping[str, Iterable[Probe]], run: Run) -> frozenset[str]:
    """Names of the groups in which the engine fails, or answers as no tried version did."""
    return frozenset(
        name
        for name, group in probes.items()
        if not all(digest_of(probe.sql, run) in probe.digests for probe in group)
    )


def breaks_core(deviations: frozenset[str]) -> bool:
    """Whether something deviates that every statement may lean on."""
    return CORE in deviations or bool(CORE_FUNCTIONS & deviations)


def digest_of(sql: str, run: Run) -> str:
    """Digest of the rows of a statement, in their order; "failed" where it raises."""
    try:
        rows = run(sql)
    except EngineFailed:
        return "failed"
    text = "\n".join("\t".join(_texts(row)) for row in rows)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _texts(row: Iterable[Any]) -> Iterator[str]:
    for value in row:
        yield f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else repr(value)
