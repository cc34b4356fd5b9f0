"""Admission of an engine: a tried version immediately, another one after the conformance probes.

Results of the probes are kept next to the policy, in a file that only its owner can read, by the
hash of the engine's binary. A server is always probed, once for its address and version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpsql.dialects.reading.parse import parse
from dpsql.engines import Engine, EngineFailed, conformance
from dpsql.engines.conformance import find_deviations
from dpsql.engines.versions import TRIED
from dpsql.model.algebra import Relation, Scan
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import DpsqlError, Reason, Refused, WrongVersion
from dpsql.model.resources import Database
from dpsql.model.tree import AggregateCall, Call, Cast, WindowCall, type_name
from dpsql.model.walk import expressions, relations, walk
from dpsql.policy.draft import Draft
from dpsql.preparation.engine_kinds import own_engine

INSTANT = datetime(2024, 2, 29, tzinfo=UTC)
THIS = "this version of the engine"
STATE = ".dpsql"
"""Folder next to the policy with results of probes."""


@dataclass(frozen=True, slots=True)
class Conformance:
    """One engine or parser: its version, whether it was tried, and its deviations.

    For a server, `versions` are the tried ones; each server is still probed.
    """

    name: str
    version: str
    tried: bool
    deviations: frozenset[str] = frozenset()
    versions: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """True if the proxy may start with it."""
        return not conformance.breaks_core(self.deviations)


def check_conformance(folder: Path) -> tuple[Conformance, ...]:
    """Return the installed DuckDB and sqlglot, probed if they are untried.

    `folder` is the folder of the policy. The first start with an untried version takes some
    seconds.
    """
    return tuple(_admit(name, folder) for name in TRIED)


def check_engines(draft: Draft, engine: Engine) -> tuple[Conformance, ...]:
    """Return all engines under a policy: DuckDB, sqlglot, and the owner's server if there is
    one.
    """
    folder = Path(draft.path).resolve().parent
    server = check_server(draft.database, lambda sql: engine.evaluate(sql, ()), folder)
    return (*check_conformance(folder), *(() if server is None else (server,)))


def find_deviations_of(draft: Draft, engine: Engine) -> frozenset[str]:
    """Return the functions to refuse under a policy. Raises `WrongVersion` if the core deviates."""
    return require_core(check_engines(draft, engine))


def check_server(database: Database, run: conformance.Run, folder: Path) -> Conformance | None:
    """Return the owner's server, probed once per address and version; None if this kind of engine
    has no probes.
    """
    engine = database.engine
    probes = {} if engine == own_engine().name else conformance.load_probes(engine)
    if not probes:
        return None
    label, number = conformance.ask_version(run)
    key = sha256(repr((label, sorted(database.settings))).encode()).hexdigest()[:32]
    return Conformance(
        engine,
        number,
        tried=False,
        deviations=_recall(folder, engine, key, lambda: find_deviations(probes, run)),
        versions=conformance.tried_servers(engine),
    )


def require_core(conformances: Sequence[Conformance]) -> frozenset[str]:
    """Return the functions to refuse with these engines. Raises `WrongVersion` if the core
    deviates.
    """
    for each in conformances:
        if not each.usable:
            tried = ", ".join(TRIED.get(each.name, each.versions))
            raise WrongVersion(
                f"{each.name} {each.version} computes otherwise than the versions that dpsql was"
                f" tried with. Install one of these: {tried}."
            )
    return frozenset[str]().union(*(each.deviations for each in conformances))


def require_conforming(relation: Relation, deviations: frozenset[str]) -> None:
    """Raise `Refused` if a query, or a view that it reads, calls a deviating function."""
    for each in relations(relation):
        if isinstance(each, Scan) and each.rows is not None:
            require_conforming(each.rows, deviations)
        for root in expressions(each):
            for node in walk(root):
                name = name_of(node)
                if name in deviations:
                    span = getattr(node, "span")  # noqa: B009
                    raise Refused(Reason.ENGINE_LACKS, span, construct=name, engine=THIS)


def name_of(node: object) -> str | None:
    """Return the name under which a node's function was probed; None if it calls nothing."""
    match node:
        case Call():
            return node.function
        case AggregateCall() | WindowCall():
            return f"{node.function} of groups"
        case Cast():
            return f"cast to {type_name(node.type)}"
        case _:
            return None


def run_parser(text: str) -> Sequence[tuple[Any, ...]]:
    """Return the tree of a text as one row, or the reason and place of its refusal."""
    try:
        return [(repr(parse(text, instant=INSTANT)),)]
    except Refused as refused:
        return [(refused.reason, refused.span)]
    except DpsqlError:
        raise EngineFailed from None


def _admit(name: str, folder: Path) -> Conformance:
    installed = version(name)
    if installed in TRIED[name]:
        return Conformance(name, installed, tried=True)
    own = own_engine()
    if name == own.name:
        deviations = _recall(folder, name, own.key(), own.find_deviations)
    else:
        probes = conformance.load_probes(name)
        deviations = _recall(folder, name, installed, lambda: find_deviations(probes, run_parser))
    return Conformance(name, installed, tried=False, deviations=deviations)


def _recall(folder: Path, name: str, key: str, find: Any) -> frozenset[str]:
    """Return the result of earlier probes with the same record, or probe now and keep the
    result.
    """
    record = sha256(conformance.RECORD.read_bytes()).hexdigest()[:32]
    path = folder / STATE / f"{name}-{key}.json"
    try:
        outcome = json.loads(path.read_text(encoding="utf-8"))
        if outcome["record"] == record:
            return frozenset(outcome["deviations"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    deviations: frozenset[str] = find()
    if conformance.breaks_core(deviations):
        return deviations  # not kept: a probe that a busy machine ended is asked again
    text = json.dumps({"record": record, "deviations": sorted(deviations)})
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        unfinished.replace(path)
    except OSError:
        pass  # a folder that cannot be written: the next start probes again
    return deviations
