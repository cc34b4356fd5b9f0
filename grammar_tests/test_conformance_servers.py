"""Conformance probes of servers: the record is what they answer, and a deviation is refused."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from dpsql.dialects.postgres.postgres_dialect import POSTGRES
from dpsql.dialects.spark.spark_dialect import SPARK
from dpsql.engines import EngineFailed
from dpsql.engines.conformance import (
    AT_ONCE,
    CORE,
    FAILED,
    RECORD,
    SERVERS,
    digests_of,
    find_deviations,
    load_probes,
    load_record,
)
from dpsql.interfaces.cli import main
from dpsql.model.errors import Reason, Refused, WrongVersion
from dpsql.preparation import engine_admission as admission
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.conformance_servers import (
    asked,
    server_of_ones_own,
    statements_of_server,
    texts_of,
)
from grammar_tests.postgres_kit import PORT, Postgres, running
from grammar_tests.proxy_kit import request
from grammar_tests.test_postgres_engine import READER
from grammar_tests.test_postgres_start import on
from grammar_tests.two_engines import filled

DIALECTS = {"postgres": POSTGRES, "spark": SPARK}
COUNT = "SELECT COUNT(*) AS n FROM customers"
UPPER = "SELECT UPPER(city) AS c, COUNT(*) AS n FROM customers GROUP BY 1"
MOST_STATEMENTS = 60
"""Whoever starts a proxy waits for them: each is a journey to the server."""


@pytest.mark.full("every probe is printed")
@pytest.mark.parametrize("engine", DIALECTS)
def test_the_record_asks_a_server_what_its_dialect_prints_in_few_statements(engine: str) -> None:
    recorded = texts_of(load_record()[SERVERS][engine])
    again = f"run python -m grammar_tests.conformance_record {engine}"
    assert recorded == statements_of_server(DIALECTS[engine]), again
    probes = load_probes(engine)
    over = [probe.over for group in probes.values() for probe in group]
    statements = over.count("") + sum(-(-over.count(o) // AT_ONCE) for o in set(over) if o)
    assert statements <= MOST_STATEMENTS
    assert RECORD.stat().st_size <= 300_000


WRONG = (("char_length(", "octet_length(", "length"), ("COUNT(*)", "2 * COUNT(*)", CORE))
"""What a wrong server computes instead, and under which name that is found."""


@pytest.mark.full("a server is started, and asked every probe")
@pytest.mark.parametrize("engine", DIALECTS)
def test_a_server_agrees_with_the_record(engine: str) -> None:
    probes = load_probes(engine)
    with server_of_ones_own(engine) as address, asked(engine, address) as run:
        assert find_deviations(probes, run) == frozenset()
        for right, wrong, name in WRONG:

            def changed(sql: str, right: str = right, wrong: str = wrong) -> Any:
                return run(sql.replace(right, wrong))

            assert name in find_deviations({name: probes[name]}, changed)


def test_what_fails_in_a_batch_is_found_and_nothing_beside_it() -> None:
    def run(sql: str) -> Sequence[tuple[Any, ...]]:
        texts = sql.removeprefix("SELECT ").removesuffix(" FROM t").split(", ")
        if "wrong" in texts:
            raise EngineFailed
        return [] if "none" in texts else [tuple(texts), tuple(texts)]

    texts = [f"x{n}" for n in range(3 * AT_ONCE)]
    texts[7], texts[-1] = "wrong", "none"
    digests = digests_of(texts, "FROM t", run)
    assert [text for text, digest in zip(texts, digests, strict=True) if digest == FAILED] == [
        "wrong",
        "none",
    ]
    assert len(set(digests)) == len(texts) - 1


# --- a PostgreSQL of which a function was changed ---

CHANGED = {
    "upper": """ALTER FUNCTION pg_catalog.upper(text) RENAME TO upper_before;
CREATE FUNCTION pg_catalog.upper(text) RETURNS text IMMUTABLE STRICT LANGUAGE sql
AS 'SELECT CASE WHEN $1 = ''abc'' THEN ''ABD'' ELSE pg_catalog.upper_before($1) END'""",
    "abs": """ALTER FUNCTION pg_catalog.abs(numeric) RENAME TO abs_before;
CREATE FUNCTION pg_catalog.abs(numeric) RETURNS numeric IMMUTABLE STRICT LANGUAGE sql
AS 'SELECT pg_catalog.abs_before($1) + 1'""",
}
ARGUMENT = {"upper": "text", "abs": "numeric"}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running(PORT) as started:
        with psycopg.connect(started.conninfo(), autocommit=True) as pg:
            pg.execute(f"CREATE ROLE {READER} LOGIN")
            pg.execute(f"ALTER ROLE {READER} SET log_parameter_max_length = 0")
            for table, columns in world.COLUMNS.items():
                typed = columns.format(**world.CONSTRAINTS).replace("DOUBLE", "float8")
                pg.execute(f"CREATE TABLE {table} ({typed}); GRANT SELECT ON {table} TO {READER}")
                filled(pg, table, world.well_behaved()[table])
        yield started


@contextmanager
def changed(server: Postgres, name: str) -> Iterator[None]:
    """A function of the server is another one for now."""
    with psycopg.connect(server.conninfo(), autocommit=True) as pg:
        pg.execute(CHANGED[name])
        try:
            yield
        finally:
            kind = ARGUMENT[name]
            pg.execute(f"DROP FUNCTION pg_catalog.{name}({kind})")
            pg.execute(f"ALTER FUNCTION pg_catalog.{name}_before({kind}) RENAME TO {name}")


@pytest.mark.full("a server is changed and asked every probe")
def test_a_changed_function_is_refused_by_name(server: Postgres, tmp_path: Path) -> None:
    with changed(server, "upper"), Proxy.open(str(on(server, tmp_path))) as proxy:
        with pytest.raises(Refused) as refused:
            proxy.ask(request(UPPER))
        assert (refused.value.reason, refused.value.span.start) == (Reason.ENGINE_LACKS, 7)
        assert proxy.ask(request(COUNT)).rows


@pytest.mark.full("a server is changed and asked every probe")
def test_a_changed_core_does_not_start(server: Postgres, tmp_path: Path) -> None:
    path = str(on(server, tmp_path))
    with changed(server, "abs"), pytest.raises(WrongVersion, match="Install one of these: Post"):
        Proxy.open(path)
    Proxy.open(path).close()  # what broke the core is asked again


@pytest.mark.full("a server is asked every probe")
def test_a_server_is_asked_once_and_the_outcome_is_its_owners(
    server: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = on(server, tmp_path)
    times: list[str] = []
    find = find_deviations

    def counted(*args: Any) -> frozenset[str]:
        times.append("once")
        return find(*args)

    monkeypatch.setattr(admission, "find_deviations", counted)
    for _ in range(2):
        Proxy.open(str(path)).close()
    assert times == ["once"]
    (kept,) = (path.parent / admission.STATE).iterdir()
    assert kept.name.startswith("postgres-")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    elsewhere = path.read_text(encoding="utf-8").replace("dbname=", "application_name=x dbname=")
    path.write_text(elsewhere, encoding="utf-8")
    Proxy.open(str(path)).close()
    assert times == ["once", "once"]


@pytest.mark.full("a server is asked every probe")
def test_the_doctor_tells_of_the_server(server: Postgres, tmp_path: Path) -> None:
    with changed(server, "upper"):
        path = str(on(server, tmp_path))
        told = CliRunner().invoke(main, ["doctor", "--policy", path])
        assert told.exit_code == 0, told.output
        (line,) = [line for line in told.output.splitlines() if "PostgreSQL 15" in line]
        assert "refused by name: " in line
        assert "upper" in line
