"""Conformance probes: tests that an engine computes what the tried versions of it compute.

Intervals, totality and integers are proved for the functions of certain versions. Every other
version, and every server of an owner, is asked the same constant queries once. A function that
deviates is refused by name. If the core deviates, the proxy does not start. No probe reads data.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from dpsql.engines import EngineFailed
from dpsql.model.dataclass import dataclass

RECORD = Path(__file__).with_name("conformance.json.gz")
"""Answers of tried versions. `python -m grammar_tests.conformance_record` writes the file."""

SERVERS = "servers"
"""Key of the record for servers, by engine."""

CORE = "core"
"""Name of the probes on which every statement of ours relies."""

CORE_FUNCTIONS = frozenset(
    """add sub mul neg abs case coalesce least greatest floor ceil eq ne lt le gt ge and or not
    is_null in""".split()
)
"""Functions that printed statements use even if a query does not name them."""

AT_ONCE = 200
"""Number of expressions over the same rows in one statement."""

FAILED = "failed"
"""Marker instead of a digest: the engine raised an error."""

SIGNIFICANT_DIGITS = 9
"""Digits of a DOUBLE that are compared; libraries of two machines may differ in later ones."""

Run: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]
"""Function that runs one statement over constants; raises `EngineFailed` if the engine fails."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One statement over constants, and the digests of its rows by tried versions.

    If `over` is set, `sql` is an expression, and `over` is the rest of the statement, which orders
    its rows.
    """

    sql: str
    digests: tuple[str, ...]
    over: str = ""


def load_record() -> dict[str, Any]:
    """Return the record as it is written."""
    record: dict[str, Any] = json.loads(gzip.decompress(RECORD.read_bytes()))
    return record


def load_probes(engine: str) -> Mapping[str, tuple[Probe, ...]]:
    """Return an engine's probes by the name that they test; empty if it has no record."""
    record = load_record()
    if engine in record.get(SERVERS, ()):
        server = record[SERVERS][engine]
        return {
            name: tuple(Probe(sql, tuple(digests), server["over"][n]) for sql, n, digests in probes)
            for name, probes in server["probes"].items()
        }
    recorded = record.get(engine, {})
    return {
        name: tuple(Probe(sql, tuple(digests)) for sql, digests in probes)
        for name, probes in recorded.items()
    }


def tried_servers(engine: str) -> tuple[str, ...]:
    """Versions of a server in the record."""
    server = load_record().get(SERVERS, {}).get(engine, {})
    return tuple(server.get("versions", ()))


def ask_version(run: Run) -> tuple[str, str]:
    """Return a server's description of itself, and the name and number at its beginning."""
    ((label,),) = run("SELECT version()")
    number = re.match(r"\D*[\d.]+", str(label))
    return str(label), number[0] if number else str(label)


def find_deviations(probes: Mapping[str, Iterable[Probe]], run: Run) -> frozenset[str]:
    """Return names of groups in which the engine fails or differs from all tried versions."""
    by_rows: dict[str, list[tuple[str, Probe]]] = defaultdict(list)
    for name, group in probes.items():
        for probe in group:
            by_rows[probe.over].append((name, probe))
    return frozenset(
        name
        for over, listed in by_rows.items()
        for (name, probe), digest in zip(
            listed, digests_of([probe.sql for _, probe in listed], over, run), strict=True
        )
        if digest not in probe.digests
    )


def breaks_core(deviations: frozenset[str]) -> bool:
    """Test whether a deviation affects every statement."""
    return CORE in deviations or bool(CORE_FUNCTIONS & deviations)


def digests_of(texts: Sequence[str], over: str, run: Run) -> list[str]:
    """Return the digest of each text's rows, in their order; "failed" if it raises.

    Expressions over the same rows share a statement. If it raises, it is split in halves.
    """
    if not over:
        return [digest_of(text, run) for text in texts]
    if len(texts) <= AT_ONCE:
        try:
            columns = list(zip(*run(f"SELECT {', '.join(texts)} {over}"), strict=True))
        except EngineFailed:
            columns = []
        if len(columns) == len(texts):
            return [_digest((value,) for value in column) for column in columns]
        if len(texts) == 1:
            return [FAILED]
    middle = len(texts) // 2
    return [*digests_of(texts[:middle], over, run), *digests_of(texts[middle:], over, run)]


def digest_of(sql: str, run: Run) -> str:
    """Return the digest of a statement's rows, in their order; "failed" if it raises."""
    try:
        return _digest(run(sql))
    except EngineFailed:
        return FAILED


def _digest(rows: Iterable[Iterable[Any]]) -> str:
    text = "\n".join(
        "\t".join(
            f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else repr(value)
            for value in row
        )
        for row in rows
    )
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
