"""Side systems are plug-ins: without their folder the core answers, and names what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dpsql.dialects.postgres.words import Piece
from dpsql.dialects.reading.parse import parse, parse_any
from dpsql.dialects.statements.commands import Ask, Explain
from dpsql.dialects.statements.creations import Drop
from dpsql.dialects.statements.statement_table import session_command
from dpsql.ledgers import Charge
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import MissingExtra, Reason, Refused
from dpsql.model.system_table import KINDS, SYSTEMS, SideSystem, load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request, shop

ROOT = Path(__file__).parent.parent
INSTANT = datetime(2026, 1, 1, tzinfo=UTC)
MOST_FRAMES = 9
"""Calls from `Proxy.ask` to the charge of a question."""
ALONE = """
import sys
from importlib import import_module
from pathlib import Path
from click.testing import CliRunner
import dpsql
from dpsql.interfaces.cli import main
from dpsql.ledgers import Charge
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import MissingExtra, Refused
from dpsql.model.vocabulary import Request
from dpsql.policy import demo
from dpsql.proxy import Proxy

root = Path(dpsql.__file__).parent
assert not (root / "systems").exists()
for path in sorted(root.rglob("*.py")):
    names = path.relative_to(root.parent).with_suffix("").parts
    if names[-1] not in ("__init__", "__main__"):
        try:
            import_module(".".join(names))
        except ModuleNotFoundError as missing:
            assert not missing.name.startswith("dpsql"), missing
with Proxy.open(str(demo.build(Path(sys.argv[1])))) as proxy:
    for sql in QUESTIONS:
        answer = proxy.ask(Request(sql, "ana"))
        assert answer.rows or answer.explanation, sql
    for sql in MISSING:
        try:
            proxy.ask(Request(sql, "ana"))
        except Refused as refused:
            assert "dpsql.systems" in refused.facts["fix"], refused.facts
        else:
            raise AssertionError(sql)
result = CliRunner().invoke(main, ["synth", "customers"])
assert "dpsql.systems" in result.stderr, result.stderr
listed = CliRunner().invoke(main, ["--help"])
assert listed.exit_code == 0, listed.stderr
"""
QUESTIONS = [
    "SELECT COUNT(*) AS n FROM customers",
    "SELECT AVG(age) AS a FROM customers",
    "SELECT SUM(amount) AS s FROM orders",
    "SELECT COUNT(DISTINCT customer_id) AS n FROM orders",
    "SELECT country, COUNT(*) AS n FROM customers GROUP BY country",
    "SELECT CORR(age, age) AS r FROM customers",
    "SELECT MEDIAN(age) AS m FROM customers",
    "SELECT COUNT(*) AS n FROM customers WHERE age > 40",
    "EXPLAIN PRIVACY SELECT COUNT(*) AS n FROM customers",
    "SELECT 1 AS one",
]
MISSING = [
    "CREATE MODEL m OPTIONS(model_type = 'pca') AS SELECT age FROM customers",
    "/* so */ drop model m",
    "CREATE SYNTHETIC TABLE s AS SELECT age FROM customers",
    "CREATE DP CUBE c AS SELECT COUNT(*) FROM customers GROUP BY CUBE (age)",
    "CREATE DP TABLE t AS SELECT COUNT(*) AS n FROM customers",
    "SELECT AVG(PREDICT(m)) AS p FROM customers",
]


@pytest.mark.full("imports every module of a copy of the package")
def test_the_core_answers_without_side_systems(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("systems", "__pycache__")
    shutil.copytree(ROOT / "dpsql", tmp_path / "dpsql", ignore=ignored)
    (tmp_path / "demo").mkdir()
    script = f"QUESTIONS = {QUESTIONS!r}\nMISSING = {MISSING!r}\n{ALONE}"
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script, str(tmp_path / "demo")],
        check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_what_the_table_names_is_there(system: SideSystem) -> None:
    places = [system.opens, system.reads, *system.commands.values(), *system.values.values()]
    assert all(map(load, filter(None, places)))
    assert bool(system.kinds) == bool(system.reads)
    assert bool(system.opens) or not (system.calls or system.answers or system.tables)


def test_a_missing_folder_is_named_and_another_failure_is_not_hidden() -> None:
    with pytest.raises(MissingExtra, match=r"dpsql\.systems\.gone is missing"):
        load("dpsql.systems.gone.models:Models")
    with pytest.raises(AttributeError):
        load("dpsql.systems.models.models:Gone")


@pytest.mark.full("opens a proxy for each item")
def test_a_plain_question_opens_no_side_system(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy:
        proxy.ask(request("SELECT COUNT(*) AS n FROM orders"))
        for sql in ("SELECT name FROM customers", "DROP TABLE customers", "SELECT f(1)"):
            with pytest.raises(Refused):
                proxy.ask(request(sql))
        assert proxy.systems._open == {}
        with pytest.raises(Refused):
            proxy.ask(request("SELECT AVG(PREDICT(m)) FROM customers"))
        assert list(proxy.systems._open) == ["models"]


@pytest.mark.full("opens a proxy")
def test_the_owners_statement_is_refused_to_analysts(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy, pytest.raises(Refused) as refused:
        proxy.ask(request("create  dp cube c as select 1"))
    assert refused.value.reason is Reason.UNSUPPORTED_SYNTAX


@pytest.mark.parametrize("kind", KINDS)
def test_every_interface_reads_a_systems_statement_by_the_one_table(kind: str) -> None:
    text = f"DROP {kind} m;"
    assert parse_any(text, "postgres", (), INSTANT) == Drop(kind, "m")
    for unread in (text, f"DROP {kind}", f"CREATE {kind} m AS"):
        assert isinstance(session_command(Piece(unread, 0)), Ask), "the proxy reads it, once"
    explained = parse_any(f"EXPLAIN {text}", "postgres", (), INSTANT)
    assert isinstance(explained, Explain)
    for other in (f"DROP {kind}S m", f'DROP "{kind}" m', explained.inner(f"EXPLAIN {text}")):
        with pytest.raises(Refused) as refused:
            parse(other, "postgres")
        assert refused.value.reason is Reason.UNSUPPORTED_STATEMENT


@pytest.mark.full("opens a proxy for each item")
def test_a_charge_is_few_calls_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, names = SqliteLedger.charge, list[str]()

    def charge(ledger: SqliteLedger, *charges: Charge) -> None:
        frames = traceback.extract_stack()[:-1]
        names.extend(f.name for f in frames if f.filename.startswith(str(ROOT / "dpsql")))
        real(ledger, *charges)

    monkeypatch.setattr(SqliteLedger, "charge", charge)
    with Proxy.open(str(shop(tmp_path))) as proxy:
        proxy.ask(request("SELECT COUNT(*) AS n FROM orders"))
    assert names[0] == "ask"
    assert len(names) <= MOST_FRAMES
