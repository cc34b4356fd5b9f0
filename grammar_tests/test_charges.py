"""What is charged is answered: nothing that can be known beforehand fails after its charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Rewritten
from dpsql.dialects.duckdb.block_statement import block_sql
from dpsql.engines import EngineFailed, ScratchTable, Unrun
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.model.errors import Failed
from dpsql.model.resources import Database
from dpsql.model.tree import DATE, INTEGER
from dpsql.preparation.prepare import prepare
from dpsql.proxy import Proxy
from dpsql.release.execution import statements
from dpsql.systems.watch.monitor import Watch, WatchAll
from grammar_tests.engine_kit import SECRET, SMALL, folder
from grammar_tests.ledger_kit import contents
from grammar_tests.proxy_kit import BY_COUNTRY, request, shop, watched
from grammar_tests.test_laws import ACCEPTED, over_the_shop

__all__ = ["folder"]

CONSTANTS = ("COALESCE(10, 5)", "0.5", "1 + 1")
WITHIN = "SELECT SUM(m) FROM (SELECT customer_id, {} AS m FROM orders GROUP BY customer_id) AS t"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("charges")))) as proxy:
        yield proxy


@pytest.mark.parametrize("condition", ["", " FILTER (WHERE income >= 0)"])
@pytest.mark.parametrize(
    ("column", "only"),
    [("segment", "consumer"), ("age", "30"), ("vip", "true"), ("joined", "2021-03-04")],
)
def test_a_choice_of_one_candidate_is_answered(
    proxy: Proxy, column: str, only: str, condition: str
) -> None:
    sql = f"SELECT MODE({column}){condition} FROM customers WHERE {column} = '{only}'"
    ((value,),) = proxy.ask(request(sql)).rows
    assert str(value).lower() == only.lower()


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("order", ["", " ORDER BY quantity DESC", " ORDER BY quantity, amount"])
@pytest.mark.parametrize("aggregate", ["MODE", "FIRST", "LAST"])
def test_a_constant_within_a_unit_is_answered(
    proxy: Proxy, aggregate: str, constant: str, order: str
) -> None:
    proxy.ask(request(WITHIN.format(f"{aggregate}({constant}{order})")))


# --- an empty twin -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[DuckDBEngine]:
    with DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL) as engine:
        yield engine


def binds(engine: DuckDBEngine, *asked: Unrun) -> bool:
    try:
        engine.bind(asked)
    except EngineFailed:
        return False
    return True


PARTS = 10
"""Tests among which the cases are divided."""
BINDS = (
    Unrun("SELECT name, pay + 1 AS a, mood FROM people"),
    Unrun("SELECT * FROM names JOIN visits ON d IS NOT NULL"),
    Unrun("SELECT mood, COUNT(*)::HUGEINT FROM people GROUP BY mood", (), (1, 1)),
    Unrun("SELECT $sampling_key::UBIGINT % 2", (), (0, 1)),
    Unrun("SELECT c0 + 1 FROM release_0", (ScratchTable("release_0", (("c0", INTEGER),), ()),)),
    Unrun("SELECT year(c0) FROM release_0", (ScratchTable("release_0", (("c0", DATE),), ()),)),
)
DOES_NOT = (
    Unrun("SELECT CASE ELSE 1 END"),
    Unrun("SELECT mode(10 ORDER BY 10) FROM people"),
    Unrun("SELECT nobody FROM people"),
    Unrun("SELECT u FROM nowhere"),
    Unrun("SELECT no_such_function(name) FROM people"),
    Unrun("SELECT year(c0) FROM release_0", (ScratchTable("release_0", (("c0", INTEGER),), ()),)),
    Unrun("SELECT COUNT(*), 1 FROM people", (), (0, 1)),
    Unrun("SELECT name FROM people", (), (0, 1)),
    Unrun("SELECT 1; SELECT 2"),
    Unrun("CREATE TABLE t (a INTEGER)"),
    Unrun("SELECT * FROM read_csv('/etc/passwd')"),
)


@pytest.mark.parametrize("statement", BINDS, ids=lambda s: s.sql)
def test_what_the_engine_knows_binds(engine: DuckDBEngine, statement: Unrun) -> None:
    assert binds(engine, statement)


@pytest.mark.parametrize("statement", DOES_NOT, ids=lambda s: s.sql)
def test_what_the_engine_would_refuse_does_not_bind(engine: DuckDBEngine, statement: Unrun) -> None:
    assert not binds(engine, statement)
    assert binds(engine, *BINDS)
    assert not binds(engine, *BINDS, statement)


def test_the_twin_is_empty_and_nothing_runs_on_it(engine: DuckDBEngine) -> None:
    failing = f"SELECT error(name) FROM people WHERE name = '{SECRET}'"
    assert binds(engine, Unrun(failing), Unrun("SELECT error('at once') FROM range(3)"))
    with pytest.raises(EngineFailed):
        engine.rows(failing)


def test_a_twin_of_files_has_their_columns(folder: Path) -> None:
    files = (("parts", str(folder / "part*.parquet")), ("csv", str(folder / "rows.csv")))
    with DuckDBEngine(Database("duckdb", None, files), SMALL) as engine:
        assert binds(engine, Unrun("SELECT parts.a, b, csv.a FROM parts JOIN csv USING (a)"))
        assert not binds(engine, Unrun("SELECT c FROM parts"))


# --- nothing is charged for what does not bind ----------------------------------------------------

BROKEN = "SELECT CASE ELSE 1 END AS c0"
STAGED = (
    "SELECT COUNT(*) FROM customers JOIN (SELECT code, MAX(n) AS n FROM countries JOIN (SELECT"
    " country, COUNT(*) AS n FROM customers GROUP BY country) AS c ON code = country GROUP BY code)"
    " AS t ON customers.country = t.code WHERE t.n > 3"
)


def _block(plan: Rewritten) -> Rewritten:
    return replace(plan, blocks=(replace(plan.blocks[0], sql=BROKEN), *plan.blocks[1:]))


def _stage(plan: Rewritten) -> Rewritten:
    return replace(plan, stages=tuple(replace(stage, sql=BROKEN) for stage in plan.stages))


def _public(plan: Rewritten) -> Rewritten:
    def broken(tables: Any) -> Any:
        return tuple(replace(t, public_sql=t.public_sql and BROKEN) for t in tables)

    stages = tuple(replace(stage, tables=broken(stage.tables)) for stage in plan.stages)
    return replace(plan, tables=broken(plan.tables), stages=stages)


def _outer(plan: Rewritten) -> Rewritten:
    return replace(plan, outer_sql=BROKEN)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("damage", [_block, _stage, _public, _outer])
def test_a_statement_that_does_not_bind_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Rewritten], Rewritten]
) -> None:
    def damaged(*asked: Any) -> Prepared:
        found = prepare(*asked)
        return replace(found, rewritten=damage(found.rewritten))

    path = shop(tmp_path)
    with Proxy.open(str(path)) as proxy:
        proxy.ask(request(BY_COUNTRY))
        before = contents(tmp_path / "shop.ledger")
        monkeypatch.setattr("dpsql.preparation.compilation.prepare", damaged)
        with pytest.raises(Failed, match="nothing was charged"):
            proxy.ask(request(STAGED))
        assert contents(tmp_path / "shop.ledger") == before


@pytest.mark.full("draws random questions or values")
def test_statements_are_bound_before_the_charge_and_once(tmp_path: Path) -> None:
    proxy, engine = watched(shop(tmp_path), Proxy)
    with proxy:
        for again in range(2):
            engine.calls.clear()
            proxy.ask(request(BY_COUNTRY))
            proxy.ledger.refresh()
            kinds = [kind for kind, _sql in engine.calls if kind != "rows"]
            bound = [] if again else ["bind"]
            assert kinds == [*bound, "ready", "aggregate", "scratch"]


@pytest.mark.full("opens a proxy for each item")
def test_a_list_that_is_watched_is_bound_before_its_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy:
        before = contents(tmp_path / "shop.ledger")
        monkeypatch.setattr(
            "dpsql.dialects.duckdb.duckdb_dialect.block_sql",
            lambda block: replace(block_sql(block), sql=BROKEN),
        )
        with pytest.raises(Failed, match="nothing was charged"):
            proxy.run(
                WatchAll(Watch("ana", Decimal(5), 1), [request("SELECT COUNT(*) FROM orders")])
            )
        assert contents(tmp_path / "shop.ledger") == before


@pytest.mark.full("a slice of a campaign")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.campaign) for part in range(1, PARTS))]
)
def test_cases_bind_on_the_empty_twin(part: int, tmp_path: Path) -> None:
    """Every statement of every tenth accepted case, the outer ones included."""
    shop(tmp_path)
    failed = []
    with DuckDBEngine(Database("duckdb", str(tmp_path / "shop.duckdb")), SMALL) as engine:
        for case in ACCEPTED[part::PARTS]:
            plan = over_the_shop(case)
            if plan.plan is not None and not binds(engine, *statements(plan)):
                failed.append(case.id)
    assert failed == []
