"""Clients that are programs of their own visit dpsql and PostgreSQL 15, and are told the same.

What a program leaves out is noise, and what a shadow of a catalogue lacks by design. One difference
is meant: among those who may log in an analyst sees itself alone, where PostgreSQL shows all roles.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from grammar_tests.clients_kit import PROGRAMS, Servers, Told, servers, visit

pytestmark = pytest.mark.full("a client of its own replays its session")

JAR = Path("/usr/share/java/postgresql.jar")
ITSELF_ALONE = """\
           List of roles
 Role name | Attributes | Member of\x20
-----------+------------+-----------
 ana       |            | {}

"""
"""psql's list of those who may log in, as an analyst sees it."""
BOBS = "\n        |        |       | bob=r/dpsql         |                   | "
"""His line in psql's list of grants."""
Seen = Mapping[str, Callable[[Any], Any]]
"""What an analyst who sees itself alone is told, by what was done and what PostgreSQL tells."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers(tmp_path_factory.mktemp("more")) as opened:
        yield opened


def told_alike(command: list[str], both: Servers, itself_alone: Seen | None = None) -> Told:
    """What a program is told by dpsql, which is what PostgreSQL tells it.

    Only of what `itself_alone` names PostgreSQL tells more: it shows other roles too.
    """
    ours, theirs = visit(command, both.ours), visit(command, both.theirs)
    assert list(ours) == list(theirs)
    seen = itself_alone or {}
    assert seen.keys() <= ours.keys()
    for did, told in ours.items():
        if did in seen:
            assert told != theirs[did], did
            assert told == seen[did](theirs[did]), did
        else:
            assert told == theirs[did], did
    return ours


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg", "pg8000"])
def test_drivers_of_python(both: Servers, driver: str) -> None:
    told = told_alike(program("python_drivers", driver), both)
    assert {"failure", "copy csv", "copy WITH (FORMAT csv, HEADER)"} & told.keys()
    assert told["failure"][:2] == ["42703", "25P02"]
    assert told.get("cancel", told.get("timeout")) in ("57014", "alive")


def test_sqlalchemy_pandas_and_polars(both: Servers) -> None:
    told = told_alike(program("sqlalchemy_session"), both)
    assert told["failure"] == ["ProgrammingError", [["code"], ["IT"], ["NO"], ["SE"]]]
    assert told["pandas"]["values"] == {"segment": ["business", "consumer"]}


def without_bob(theirs: str) -> str:
    assert BOBS in theirs
    return theirs.replace(BOBS, "").replace("ana=r/dpsql        +", "ana=r/dpsql         ")


def test_psql(both: Servers) -> None:
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    seen: Seen = {"\\du": lambda _theirs: ITSELF_ALONE, "\\dp orders": without_bob}
    told = told_alike(program("psql_session"), both, seen)
    assert told["cancel"] == ["", ["ERROR:  57014"]]
    assert "ERROR:  25P02" in told["failure"][2]
    assert told["errors"] == [0, "Did not find any relations.\n"]
    assert "bounds 0.00 to 500.00" in told["\\d+ orders"]


def test_pgjdbc(both: Servers) -> None:
    if not JAR.exists() or shutil.which("javac") is None:
        pytest.skip("pgjdbc needs Debian's libpostgresql-jdbc-java and a JDK")
    # Short programs are not worth the second compiler of the virtual machine.
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(JAR)]
    # pgjdbc reads privileges by the owner's role, which no analyst sees: the headings are left.
    tables = ("customers", "orders", "items", "countries")
    asked = ["column privileges", *(f"privileges on {table}" for table in tables)]
    command = [*java, str(PROGRAMS / "Pgjdbc.java")]
    told = told_alike(command, both, dict.fromkeys(asked, lambda theirs: theirs[:1]))
    assert told["failure"][1:3] == ["42703", "25P02"]
    assert told["cancel"] == told["timeout"] == "57014"
    assert [row[4] for row in told["tables"][1:3]] == [
        "public", "private: the unit is customers.customer_id",
    ]  # fmt: skip
    assert told["chunks of an aggregate"][1:] == told["binary: by segment"][1:]


def test_node_postgres(both: Servers) -> None:
    told = told_alike([node("pg", "pg-cursor", "pg-copy-streams"), script("node_postgres")], both)
    assert told["connection"] == [True, "15"]
    assert told["cancel"] == told["timeout"] == "57014"
    assert bytes.fromhex(told["copy WITH (FORMAT binary)"][0]).startswith(b"PGCOPY\n")


def test_sequelize(both: Servers) -> None:
    told = told_alike([node("sequelize", "pg"), script("sequelize")], both)
    assert told["zone"] == [{"TimeZone": "<+05:30>-05:30"}]
    assert told["failure"] == [3, ["SequelizeDatabaseError", "42703"]]


def test_adbc(both: Servers) -> None:
    if find_spec("adbc_driver_postgresql") is None:
        pytest.skip("adbc-driver-postgresql is not installed")
    told = told_alike(program("adbc"), both)
    (catalogue,) = (found for found in told["objects"] if found["catalog_name"] == "dpsql")
    tables = catalogue["catalog_db_schemas"][0]["db_schema_tables"]
    assert {table["table_name"] for table in tables} >= {"customers", "orders"}
    assert told["cancel"] == told["timeout"] == "57014"


def test_psqlodbc(both: Servers) -> None:
    driver = next(Path("/usr/lib").glob("*/odbc/psqlodbcw.so"), None)
    if driver is None or find_spec("pyodbc") is None:
        pytest.skip("psqlODBC needs Debian's odbc-postgresql and pyodbc")
    told = told_alike(program("psqlodbc", str(driver)), both)
    names, (vector, _) = told["vectors"]
    assert (names, vector) == (["indkey", "indclass"], "1")
    assert told["spliced: of orders 0.25"] == told["prepared: of orders 0.25"]
    assert told["cancel"] == told["timeout"] == "57014"


def test_pgcli(both: Servers) -> None:
    installed = shutil.which("pgcli")
    if installed is None:
        pytest.skip("pgcli is not installed")
    own = Path(installed).resolve().with_name("python")
    command = [str(own), "-m", "grammar_tests.clients.pgcli_session"]
    told = told_alike(command, both, {"\\du": without_others})
    assert "'orders'" in "".join(told["tables"])
    assert told["failure"] == ["answered", "42703", "25P02", "answered", "answered"]
    assert told["cancel"] == "57014"


def without_others(theirs: list[Any]) -> list[Any]:
    """pgcli's list of roles without the others who may log in: bob and the owner."""
    ((above, headers, rows, status),) = theirs
    assert status == f"SELECT {len(rows)}"
    name, may_log_in = headers.index("rolname"), headers.index("rolcanlogin")
    assert [row[name] for row in rows if row[may_log_in]] == ["ana", "bob", "dpsql"]
    kept = [row for row in rows if row[name] == "ana" or not row[may_log_in]]
    return [[above, headers, kept, f"SELECT {len(kept)}"]]


def node(*packages: str) -> str:
    """Node's program, which has these packages."""
    needed = "; ".join(f"require('{name}')" for name in packages)
    found = shutil.which("node")
    if found is None or subprocess.run([found, "-e", needed], capture_output=True).returncode:  # noqa: PLW1510, S603
        pytest.skip(f"node needs {', '.join(packages)} in a folder that NODE_PATH names")
    return found


def script(name: str) -> str:
    return str(PROGRAMS / f"{name}.js")


def program(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"grammar_tests.clients.{name}", *arguments]


def test_a_difference_would_be_seen(both: Servers) -> None:
    told = "import json, os; print(json.dumps({'did': 'x', 'told': os.environ['PGPORT']}))"
    with pytest.raises(AssertionError, match="x"):
        told_alike([sys.executable, "-c", told], both)
