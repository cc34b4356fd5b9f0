"""The same shop behind two servers, dpsql and a real PostgreSQL 15, and programs that visit both.

Each program reads libpq's environment variables, talks TLS and SCRAM, and writes a JSON object per
line: what it did, and what it was told, without the numbers that are noisy here and exact there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from dpsql.interfaces.pgwire import tls
from dpsql.model.vocabulary import Policy
from grammar_tests import postgres_kit, world
from grammar_tests.catalogue_kit import ddl
from grammar_tests.proxy_kit import SLOW, WatchedEngine
from grammar_tests.waiting import reserved_port
from grammar_tests.wire_kit import PASSWORD, Door, door

PROGRAMS = Path(__file__).parent / "clients"
Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the two listen, as libpq's variables; the third is dpsql from within."""

    ours: Mapping[str, str]
    theirs: Mapping[str, str]
    door: Door


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Both servers, where a question about events runs until it is cancelled."""
    with door(folder) as ours:
        engine = WatchedEngine(ours.proxy.vault.engine)

        def delay() -> None:
            engine.instead = SLOW if "events" in engine.calls[-1][1] else None

        engine.before = delay
        kept, ours.proxy.vault.engine = ours.proxy.vault.engine, engine
        try:
            with _postgres(ours.proxy.policy) as (port, certificate):
                yield Servers(
                    _variables(ours.port, ours.certificate), _variables(port, certificate), ours
                )
        finally:
            ours.proxy.vault.engine = kept


def visit(command: Sequence[str], server: Mapping[str, str]) -> Told:
    """What a program was told, by what it did."""
    done = subprocess.run(  # noqa: S603 - a program of this folder
        list(command),
        env={**os.environ, **server},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=PROGRAMS.parents[1],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    told = {line["did"]: line["told"] for line in lines}
    assert len(told) == len(lines)
    return told


def _variables(port: int, certificate: str) -> dict[str, str]:
    return {
        "PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "ana", "PGPASSWORD": PASSWORD,
        "PGDATABASE": "dpsql", "PGSSLMODE": "verify-full", "PGSSLROOTCERT": certificate,
    }  # fmt: skip


@contextmanager
def _postgres(policy: Policy) -> Iterator[tuple[int, str]]:
    """A PostgreSQL with the shop's rows, on a port with TLS and SCRAM only; its certificate."""
    folder = Path(tempfile.mkdtemp(prefix="pg15tls"))
    certificate, key = tls.self_signed(folder, "127.0.0.1")
    rules = folder / "pg_hba.conf"
    rules.write_text("local all dpsql trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
    if os.getuid() == 0:
        for path in (folder, Path(certificate), Path(key), rules):
            shutil.chown(path, "nobody")
    try:
        with (
            reserved_port() as port,
            postgres_kit.running(
                port, listen_addresses="127.0.0.1", hba_file=str(rules),
                ssl="on", ssl_cert_file=certificate, ssl_key_file=key,
            ) as server,
            psycopg.connect(server.conninfo(), autocommit=True) as owner,
        ):  # fmt: skip
            _fill(owner, policy)
            with owner.transaction():
                owner.execute("LOCK TABLE events")
                yield port, certificate
    finally:
        shutil.rmtree(folder)


def _fill(owner: psycopg.Connection[Any], policy: Policy) -> None:
    for statement in ddl(policy):
        owner.execute(statement.encode())
    owner.execute(f"ALTER ROLE ana PASSWORD '{PASSWORD}'".encode())
    rows = world.build(world.well_behaved(), constraints=True)
    for table in policy.tables:
        names = ", ".join(column.name for column in table.columns if not column.hidden)
        found = rows.execute(f"SELECT {names} FROM {table.name}").fetchall()
        marks = ", ".join(["%s"] * len(found[0]))
        with owner.cursor() as cursor:
            insert = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
            cursor.executemany(insert.encode(), found)
