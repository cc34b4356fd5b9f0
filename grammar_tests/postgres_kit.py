"""A real PostgreSQL 15 of the test's own, as the oracle of what a Postgres client may expect."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from grammar_tests.waiting import HANGS_SECONDS, until

BIN = Path("/usr/lib/postgresql/15/bin")
PGBOUNCER = Path("/usr/sbin/pgbouncer")
OWNER, DATABASE = "dpsql", "dpsql"
PORT = 5432
"""Only the name of a socket: the server listens on no network."""

SERVER = {
    "listen_addresses": "",
    "fsync": "off",
    "autovacuum": "off",
    "timezone": "UTC",
    "shared_buffers": "16MB",
    "max_connections": "20",
}
MISSING = f"PostgreSQL 15 is not installed: there is no {BIN}/initdb"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server: the folder of its socket, its port, and its superuser `dpsql`."""

    folder: str
    port: int = PORT

    def conninfo(self, user: str = OWNER) -> str:
        return f"host={self.folder} port={self.port} user={user} dbname={DATABASE}"


@contextmanager
def running(port: int = PORT, **settings: str) -> Iterator[Postgres]:
    """Start a server in a folder of its own, and stop it; skips the test where there is none."""
    if not (BIN / "initdb").exists():
        pytest.skip(MISSING)
    with _fresh_folder() as (folder, as_user):
        _run([*as_user, "cp", "-a", _template() / "data", folder])
        options = {**SERVER, "port": str(port), **settings}
        with _started(folder, as_user, options):
            yield Postgres(str(folder), port)


@contextmanager
def _fresh_folder() -> Iterator[tuple[Path, list[str]]]:
    """A folder of a server, removed at the end, and how programs of its user are run."""
    # A socket's path may not be longer than 107 bytes: pytest's own folders are.
    folder = Path(tempfile.mkdtemp(prefix="pg15"))
    try:
        yield folder, _unprivileged(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _started(folder: Path, as_user: list[str], options: dict[str, str]) -> Iterator[None]:
    """Run the server of the data in a folder."""
    data = folder / "data"
    options["unix_socket_directories"] = str(folder)
    lines = [f"{name} = '{value}'\n" for name, value in options.items()]
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(lines)
    control: list[str | Path] = [*as_user, BIN / "pg_ctl", "-D", data, "-w"]
    try:
        _run([*control, "-l", folder / "log", "start"])
        yield
    finally:
        with suppress(subprocess.CalledProcessError):
            _run([*control, "-m", "immediate", "stop"])


_TEMPLATES = ExitStack()


@cache
def _template() -> Path:
    """The folder of a server that never runs again: each of this process starts as a copy of it."""
    folder, as_user = _TEMPLATES.enter_context(_fresh_folder())
    initdb = "initdb -U dpsql -A trust -E UTF8 --locale=C --no-sync -D".split()
    _run([*as_user, BIN / initdb[0], *initdb[1:], folder / "data"])
    with _started(folder, as_user, {**SERVER, "port": str(PORT)}):
        there: list[str | Path] = ["-h", folder, "-p", str(PORT), "-U", OWNER]
        _run([*as_user, BIN / "createdb", *there, DATABASE])
        _run([*as_user, BIN / "dropdb", *there, "--maintenance-db=template1", "postgres"])
        _run([*as_user, BIN / "pg_ctl", "-D", folder / "data", "-m", "fast", "-w", "stop"])
    return folder


def close() -> None:
    """Remove what servers of this process were copied from."""
    _template.cache_clear()
    _TEMPLATES.close()


@contextmanager
def standby(server: Postgres) -> Iterator[None]:
    """Have a running server be one in recovery, which waits for what another writes."""
    folder = Path(server.folder)
    control: list[str | Path] = [
        *_unprivileged(folder),
        BIN / "pg_ctl",
        "-D",
        folder / "data",
        "-w",
    ]
    _run([*control, "-m", "fast", "stop"])
    (folder / "data" / "standby.signal").touch()
    _run([*control, "-l", folder / "log", "start"])
    yield


def _is_followed(primary: Postgres) -> bool:
    """Whether a standby receives what the server writes."""
    import psycopg  # noqa: PLC0415 - not installed for every run

    followers = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
    with psycopg.connect(primary.conninfo(), autocommit=True) as session:
        return session.execute(followers).fetchone() != (0,)


def _unprivileged(folder: Path) -> list[str]:
    """How to run a program as one who is not root, which a PostgreSQL server insists on."""
    if os.getuid() != 0:
        return []
    shutil.chown(folder, "nobody")
    return ["setpriv", "--reuid=nobody", "--clear-groups"]


def _run(command: list[str | Path]) -> None:
    subprocess.run(  # noqa: S603 - programs of the server's package
        list(map(str, command)), check=True, capture_output=True, timeout=HANGS_SECONDS, cwd="/"
    )


@dataclass(frozen=True, slots=True)
class Pooler:
    """A pgbouncer in front of a server: each transaction has another session of it."""

    folder: Path
    server: Postgres
    process: subprocess.Popen[bytes]

    @property
    def conninfo(self) -> str:
        return f"host={self.folder} port=6432 user={OWNER} dbname=ledger"

    def lead_to(self, database: str) -> None:
        """Lead all connections to another database of the server from now on."""
        write_pooler(self.folder, self.server, database)
        self.process.send_signal(signal.SIGHUP)
        log = self.folder / "log"
        until(lambda: b"got SIGHUP, re-reading config" in log.read_bytes())


def write_pooler(folder: Path, server: Postgres, database: str) -> None:
    there = f"host={server.folder} port={server.port} user={OWNER} dbname={database}"
    text = f"""[databases]
ledger = {there}
[pgbouncer]
listen_port = 6432
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
logfile = {folder}/log
"""
    (folder / "pgbouncer.ini").write_text(text, encoding="utf-8")


@contextmanager
def pooling(server: Postgres) -> Iterator[Pooler]:
    """Start a pgbouncer in front of a server, and stop it; skips the test where there is none."""
    if not PGBOUNCER.exists():
        pytest.skip("pgbouncer is not installed")
    folder = Path(tempfile.mkdtemp(prefix="bouncer"))
    write_pooler(folder, server, DATABASE)
    command = [*_unprivileged(folder), str(PGBOUNCER), "-q", "pgbouncer.ini"]
    with subprocess.Popen(command, cwd=folder) as process:  # noqa: S603 - a program of the system
        try:
            until(lambda: (folder / ".s.PGSQL.6432").exists() or process.poll() is not None)
            assert process.poll() is None, (folder / "log").read_bytes()
            yield Pooler(folder, server, process)
        finally:
            process.terminate()
    shutil.rmtree(folder)


def tool(server: Postgres, name: str, *arguments: str | Path) -> None:
    """Run a program of the server's package, as its user, over its socket."""
    there = ["-h", server.folder, "-p", str(server.port), "-U", OWNER]
    _run([*_unprivileged(Path(server.folder)), BIN / name, *there, *arguments])


def control(server: Postgres, *arguments: str) -> None:
    """Start, stop, reload or promote a server by pg_ctl; waits until that is done."""
    folder = Path(server.folder)
    log = ["-D", str(folder / "data"), "-w", "-l", str(folder / "log")]
    _run([*_unprivileged(folder), BIN / "pg_ctl", *log, *arguments])


@contextmanager
def standby_of(primary: Postgres) -> Iterator[Postgres]:
    """A second server that follows the first, under the name `second`."""
    folder = Path(tempfile.mkdtemp(prefix="pg15"))
    as_user = _unprivileged(folder)
    copy, data = Postgres(str(folder), primary.port), folder / "data"
    try:
        source = f"{primary.conninfo()} application_name=second"
        tool(primary, "pg_basebackup", "-c", "fast", "-R", "-d", source, "-D", data)
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"unix_socket_directories = '{folder}'\n")
        control(copy, "start")
        until(lambda: _is_followed(primary))
        yield copy
    finally:
        with suppress(subprocess.CalledProcessError):
            _run([*as_user, BIN / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"])
        shutil.rmtree(folder, ignore_errors=True)
