"""Conformance probes: whether an engine computes what the tried versions of it compute.

Intervals, totality and integers are proved for the functions of certain versions. Another version
is asked the same constant questions once, and so is every server of an owner. What deviates is
refused by name; where the core deviates, the proxy does not start. No probe reads data.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from dpsql.engines import EngineFailed
from dpsql.model.dataclass import dataclass

RECORD = Path(__file__).with_name("conformance.json.gz")
"""What tried versions answered. `python -m grammar_tests.conformance_record` writes it."""

SERVERS = "servers"
"""The part of the record that is about servers, by engine."""

CORE = "core"
"""The group of probes without which no statement of ours can be trusted."""

CORE_FUNCTIONS = frozenset(
    """add sub mul neg abs case coalesce least greatest floor ceil eq ne lt le gt ge and or not
    is_null in""".split()
)
"""Functions that the printed statements use whether a query names them or not."""

AT_ONCE = 200
"""Expressions over the same rows that are asked in one statement."""

FAILED = "failed"
"""In place of a digest: the engine raised."""

SIGNIFICANT_DIGITS = 9
"""Libraries of two machines may differ in the last digits of a DOUBLE."""

Run: TypeAlias = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs one statement over constants. Raises `EngineFailed` where the engine does not."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One statement over constants, and the digests of the rows that tried versions gave.

    With `over` it is an expression, and this is the rest of the statement: its rows in order.
    """

    sql: str
    digests: tuple[str, ...]
    over: str = ""


def load_record() -> dict[str, Any]:
    """The record as it is written."""
    record: dict[str, Any] = json.loads(gzip.decompress(RECORD.read_bytes()))
    return record


def load_probes(engine: str) -> Mapping[str, tuple[Probe, ...]]:
    """Probes of an engine by what they try; none for an engine that has no record."""
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
    """Versions of a server that the record is of."""
    server = load_record().get(SERVERS, {}).get(engine, {})
    return tuple(server.get("versions", ()))


def ask_version(run: Run) -> tuple[str, str]:
    """What a server says that it is, and the name and number at the beginning of that."""
    ((label,),) = run("SELECT version()")
    number = re.match(r"\D*[\d.]+", str(label))
    return str(label), number[0] if number else str(label)


def find_deviations(probes: Mapping[str, Iterable[Probe]], run: Run) -> frozenset[str]:
    """Names of the groups in which the engine fails, or answers as no tried version did."""
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
    """Whether something deviates that every statement may lean on."""
    return CORE in deviations or bool(CORE_FUNCTIONS & deviations)


def digests_of(texts: Sequence[str], over: str, run: Run) -> list[str]:
    """Digest of the rows of each text, in their order; "failed" where it raises.

    Expressions over the same rows share a statement, which is halved where it raises.
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
    """Digest of the rows of a statement, in their order; "failed" where it raises."""
    try:
        return _digest(run(sql))
    except EngineFailed:
        return FAILED


def _digest(rows: Iterable[Iterable[Any]]) -> str:
    text = "\n".join("\t".join(_texts(row)) for row in rows)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _texts(row: Iterable[Any]) -> Iterator[str]:
    for value in row:
        yield f"{value:.{SIGNIFICANT_DIGITS}g}" if isinstance(value, float) else repr(value)
