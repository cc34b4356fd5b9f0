"""The lines of connection of the page on PostgreSQL connect, each as it stands but for the port."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from grammar_tests.test_more_clients import JAR
from grammar_tests.test_readme import page
from grammar_tests.wire_kit import PASSWORD, Door, door

LINE = re.compile(r"^\| ([^|`]+) \| `([^`]+)` \|$", re.MULTILINE)
LINES = dict(LINE.findall(page("postgres").split("| client |")[1]))
ASKED = "SELECT code FROM countries ORDER BY code"
PLAIN = f"c = LINE.cursor(); c.execute('{ASKED}'); print([row[0] for row in c.fetchall()])"
PROGRAMS = {
    "psql": f'LINE -c "{ASKED}"',
    "pgcli": f'LINE -c "{ASKED}"',
    "psycopg 3": f"import psycopg; {PLAIN}",
    "psycopg 2": f"import psycopg2; {PLAIN}",
    "asyncpg": f"import asyncio, asyncpg\nasync def ask():\n c = LINE\n"
    f" print(await c.fetch('{ASKED}'))\nasyncio.run(ask())",
    "pg8000": f"import pg8000.dbapi; {PLAIN}",
    "SQLAlchemy, pandas, polars": "import sqlalchemy; "
    f"print(list(LINE.connect().execute(sqlalchemy.text('{ASKED}'))))",
    "ADBC": f"import adbc_driver_postgresql.dbapi\nwith LINE as a, a.cursor() as c:\n"
    f" c.execute('{ASKED}'); print(c.fetchall())",
    "psqlODBC": f"import pyodbc; {PLAIN}",
    "node-postgres": "const pg = require('pg'), c = LINE;"
    f" c.connect().then(() => c.query('{ASKED}'))"
    ".then((found) => { console.log(JSON.stringify(found.rows)); return c.end(); });",
    "Sequelize": "const { Sequelize } = require('sequelize'), c = LINE; c.options.logging = false;"
    f" c.query('{ASKED}').then(([rows]) => {{ console.log(JSON.stringify(rows)); c.close(); }});",
    "pgjdbc": "import java.sql.*;"
    " class Ask { public static void main(String[] given) throws Exception {"
    f' ResultSet found = LINE.createStatement().executeQuery("{ASKED}");'
    " while (found.next()) System.out.println(found.getString(1)); } }",
}
"""What is asked with each; LINE is the page's."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("lines")) as opened:
        yield opened


def command(client: str, program: str, folder: Path) -> list[str]:
    match client:
        case "psql" | "pgcli":
            found = shutil.which(client)
            return [] if found is None else ["/bin/sh", "-c", program]
        case "node-postgres" | "Sequelize":
            node = shutil.which("node")
            return [node, "-e", program] if node and os.environ.get("NODE_PATH") else []
        case "pgjdbc":
            (folder / "Ask.java").write_text(program, encoding="utf-8")
            found = shutil.which("javac") and shutil.which("java")
            return [found, "-cp", str(JAR), str(folder / "Ask.java")] if found else []
        case "psqlODBC" if not any(Path("/usr/lib").glob("*/odbc/psqlodbcw.so")):
            return []
    modules = re.findall(r"import (?:asyncio, )?(\w+)", program)
    return [sys.executable, "-c", program] if all(map(find_spec, modules)) else []


def test_every_client_has_a_line() -> None:
    assert LINES.keys() == PROGRAMS.keys()


@pytest.mark.full("a client of its own replays its session")
@pytest.mark.parametrize("client", PROGRAMS)
def test_a_line_connects(client: str, served: Door, tmp_path: Path) -> None:
    assert "5439" in LINES[client]
    line = LINES[client].replace("5439", str(served.port))
    given = command(client, PROGRAMS[client].replace("LINE", line), tmp_path)
    if not given:
        pytest.skip(f"{client} is not installed")
    done = subprocess.run(  # noqa: S603
        given,
        env={**os.environ, "PGPASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\b(?:IT|NO|SE)\b", done.stdout) == ["IT", "NO", "SE"]


def test_a_wrong_line_does_not_connect(served: Door, tmp_path: Path) -> None:
    line = LINES["psycopg 3"].replace("5439", str(served.port)).replace("ana", "eve")
    given = command("psycopg 3", PROGRAMS["psycopg 3"].replace("LINE", line), tmp_path)
    environment = {**os.environ, "PGPASSWORD": PASSWORD}
    done = subprocess.run(given, env=environment, capture_output=True, timeout=60, check=False)  # noqa: S603
    assert done.returncode == 1
