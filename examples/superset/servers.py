"""The two servers: `dpsql serve` over the demo, and Superset in an environment of its own."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection, create_server

PACKAGES = (
    "apache-superset", "rich", "cachetools", "flask-caching==2.3.1", "cachelib<0.14",
    "psycopg2-binary",
)  # fmt: skip
"""Superset 6.1 starts with these versions of what it leaves open; the last one speaks to dpsql."""

ADMINISTRATOR = "admin"
STARTING_SECONDS = 180


def run(*command: str | Path, text: str = "", **environment: str) -> str:
    """Run a command to its end; its output, or the end of this program with what it said."""
    given = list(map(str, command))
    done = subprocess.run(  # noqa: S603
        given,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        sys.exit(f"{given[0]} {given[1]} … failed:\n{done.stderr}")
    return done.stdout


def install(environment: Path) -> None:
    """Superset in this virtual environment, unless it is there."""
    if (environment / "bin" / "superset").exists():
        return
    print("installing Superset, which takes minutes …")
    run(sys.executable, "-m", "venv", environment)
    run(environment / "bin" / "pip", "install", "--quiet", *PACKAGES)


@contextmanager
def dpsql_server(policy: Path, password: str) -> Iterator[str]:
    """`dpsql serve` with TLS for analyst ana; yields its address as SQLAlchemy writes it."""
    command = [sys.executable, "-m", "dpsql", "--policy", str(policy)]
    run(*command, "user", "add", "ana", text=f"{password}\n")
    port = _free_port()
    serving = [*command, "serve", "--port", str(port), "--self-signed"]
    with _running(serving, port, policy.with_name("serve.log"), {}):
        yield f"postgresql://ana:{password}@127.0.0.1:{port}/dpsql?sslmode=require"


@contextmanager
def superset_server(environment: Path, folder: Path, password: str) -> Iterator[str]:
    """A Superset with an empty database of its own in this folder; yields its URL."""
    program = environment / "bin" / "superset"
    settings = _settings(folder)
    for old in folder.glob("superset.db*"):
        old.unlink()
    print("preparing Superset's own database …")
    run(program, "db", "upgrade", **settings)
    person = ["--firstname", "A", "--lastname", "B", "--email", "admin@example.com"]
    account = ["--username", ADMINISTRATOR, "--password", password]
    run(program, "fab", "create-admin", *account, *person, **settings)
    run(program, "init", **settings)
    port = _free_port()
    serving = [str(program), "run", "--port", str(port), "--with-threads"]
    with _running(serving, port, folder / "superset.log", settings):
        yield f"http://127.0.0.1:{port}"


def _settings(folder: Path) -> dict[str, str]:
    config = folder / "superset_config.py"
    config.write_text(
        f"SECRET_KEY = {secrets.token_urlsafe(40)!r}\n"
        f"SQLALCHEMY_DATABASE_URI = 'sqlite:///{folder.resolve() / 'superset.db'}'\n"
        "TALISMAN_ENABLED = False  # no HTTPS on this machine\n"
        "RATELIMIT_ENABLED = False\n",
        encoding="utf-8",
    )
    return {
        "SUPERSET_CONFIG_PATH": str(config),
        "SUPERSET_HOME": str(folder),
        "FLASK_APP": "superset.app:create_app()",
    }


@contextmanager
def _running(
    command: list[str], port: int, log: Path, environment: Mapping[str, str]
) -> Iterator[None]:
    """A server that listens on this port now, and ends with the block."""
    with (
        log.open("w", encoding="utf-8") as told,
        subprocess.Popen(  # noqa: S603
            command, stdout=told, stderr=told, env={**os.environ, **environment}
        ) as process,
    ):
        try:
            _await(process, port, log)
            yield
        finally:
            process.terminate()
            process.wait(30)


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(STARTING_SECONDS * 5):
        if process.poll() is not None:
            sys.exit(f"{log} says why the server did not start")
        try:
            create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    sys.exit(f"nothing listens on port {port}")


def _free_port() -> int:
    with create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
