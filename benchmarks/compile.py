"""Time from text to plan over every case of the tests and TPC-H, and time to refuse hostile texts.

    python -m benchmarks.compile [REPEATS]

The pipeline as the proxy runs it, over a real engine whose public tables have been measured, with
no compiled plan remembered. A text counts with its fastest repeat; percentiles are over texts.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.common import seconds, table
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.dialects.reading.parse import MAX_BYTES, parse
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.prepare import prepare
from dpsql.preparation.public_data import PublicTables
from grammar_tests import casefile, proxy_kit
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import BUDGET
from grammar_tests.tpch_kit import build, generate, query

PROMISED = 25
PROMISED_REFUSAL = 50
TPCH_SCALE = "0.01"
DEEP = 100

SHAPES: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: f"SELECT {'(' * n}1{')' * n}",
    "parentheses never closed": lambda n: f"SELECT {'(' * n}1",
    "calls": lambda n: f"SELECT {'abs(' * n}1{')' * n}",
    "CASE in CASE": lambda n: f"SELECT {'CASE WHEN ' * n}a{' THEN 1 END' * n}",
    "CASE, many branches": lambda n: f"SELECT CASE{' WHEN a THEN 1' * n} END FROM customers",
    "subqueries in FROM": lambda n: f"SELECT 1{' FROM (SELECT 1' * n}{')' * n}",
    "subqueries in WHERE": lambda n: f"SELECT 1{' WHERE 1 IN (SELECT 1' * n}{')' * n}",
    "scalar subqueries": lambda n: f"SELECT {'(SELECT ' * n}1{')' * n}",
    "EXISTS": lambda n: f"SELECT {'EXISTS (SELECT ' * n}1{')' * n}",
    "joins": lambda n: f"SELECT 1 FROM t{' JOIN t ON a' * n}",
    "commas": lambda n: f"SELECT 1 FROM t{', t' * n}",
    "ORs": lambda n: f"SELECT COUNT(*) FROM customers WHERE a{' OR a' * n}",
    "ORs of parentheses": lambda n: f"SELECT 1 FROM customers WHERE a{' OR (a' * n}{')' * n}",
    "ANDs, true but the last": lambda n: (
        f"SELECT COUNT(*) FROM customers WHERE age > 1{' AND age > 1' * n} AND missing"
    ),
    "sums": lambda n: f"SELECT 1{' + a' * n} FROM customers",
    "NOTs": lambda n: f"SELECT {'NOT ' * n}a FROM customers",
    "signs": lambda n: f"SELECT {'- ' * n}1",
    "casts": lambda n: f"SELECT a{'::INT' * n} FROM customers",
    "UNION ALL": lambda n: f"SELECT a{' UNION ALL SELECT a' * n}",
    "IN list": lambda n: f"SELECT COUNT(*) FROM customers WHERE missing IN (1{', 1' * n})",
    "output columns": lambda n: f"SELECT missing{', missing' * n} FROM customers",
    "WITH": lambda n: f"WITH t AS (SELECT 1){', t AS (SELECT 1)' * n} SELECT missing FROM t",
    "types": lambda n: f"SELECT a::{'STRUCT(a ' * n}INT{')' * n}",
    "names with dots": lambda n: f"SELECT a{'.a' * n} FROM customers",
    "one string": lambda n: f"SELECT missing, '{'x' * n}' FROM customers",
    "one comment": lambda n: f"SELECT missing /*{'x' * n}*/ FROM customers",
    "semicolons": lambda n: f"SELECT 1{';' * n}",
}


@dataclass(frozen=True, slots=True)
class Compiler:
    """Text to plan over one catalog."""

    policy: Policy
    public: PublicTables

    def outcome(self, sql: str, dialect: str = "duckdb", accountant: str = "zcdp") -> str:
        """`accept`, or the reason of the refusal."""
        budget = replace(BUDGET, accountant=accountant)
        try:
            statement = parse(sql, dialect)
            public = self.public
            prepare(statement, self.policy, budget, Fraction(1), public, public.evaluate)
        except Refused as refusal:
            return refusal.reason.value
        return "accept"


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as name:
        shop = proxy_kit.shop(Path(name) / "shop")
        with opened(shop) as engine:
            compiler = over(shop, engine)
            rows, slow = cases(compiler, repeats)
            refusals = hostile(compiler, repeats)
        tpch = tpch_database(Path(name) / "tpch")
        with opened(tpch) as engine:
            rows.append(distribution("TPC-H", queries(over(tpch, engine), repeats)))
    header: tuple[str, ...] = ("texts", "number", "median ms", "95 %", "99 %", "maximum", "at most")
    table(f"Text to plan, {repeats} repeats (promised: the 95th percentile)", header, rows)
    table("The slowest cases", ("case", "ms"), slow)
    header = ("shape", "bytes", "outcome", "ms", "promised at most")
    table("Texts of 64 KiB and of depth 100", header, refusals)


def opened(policy: Path) -> DuckDBEngine:
    draft = load(str(policy))
    return DuckDBEngine(draft.database, draft.limits)


def over(policy: Path, engine: DuckDBEngine) -> Compiler:
    public = PublicTables(engine, DUCKDB)
    return Compiler(bind(load(str(policy)), engine.schema(), public.values), public)


def tpch_database(folder: Path) -> Path:
    """The policy beside a small TPC-H."""
    folder.mkdir()
    generate(folder, TPCH_SCALE)
    with duckdb.connect(str(folder / "tpch.duckdb")) as connection:
        build(connection, folder)
    policy = folder / "tpch.toml"
    policy.write_bytes((CATALOGS / "tpch.toml").read_bytes())
    return policy


Timed = list[tuple[str, float]]


def cases(compiler: Compiler, repeats: int) -> tuple[list[tuple[object, ...]], Timed]:
    """Rows for the accepted and the refused cases, and the slowest of them."""
    timed: dict[str, Timed] = {"accepted cases": [], "refused cases": []}
    for case in casefile.all_cases():
        dialect, accountant = case.setting("dialect", "duckdb"), case.setting("accountant", "zcdp")
        action = partial(compiler.outcome, case.sql, dialect, accountant)
        kind = "accepted cases" if case.accepted else "refused cases"
        timed[kind].append((case.id, fastest(action, repeats)))
    rows = [distribution(name, times) for name, times in timed.items()]
    slowest = sorted((pair for times in timed.values() for pair in times), key=lambda p: -p[1])
    return rows, slowest[:5]


def queries(compiler: Compiler, repeats: int) -> Timed:
    return [(f"Q{n}", fastest(partial(compiler.outcome, query(n)), repeats)) for n in range(1, 23)]


def hostile(compiler: Compiler, repeats: int) -> list[tuple[object, ...]]:
    """Each shape 100 deep or long, and as long as a text may be."""
    rows: list[tuple[object, ...]] = []
    for name, shape in SHAPES.items():
        for sql in (shape(DEEP), longest(shape)):
            outcome = compiler.outcome(sql)
            took = fastest(partial(compiler.outcome, sql), repeats)
            promise = "" if outcome == "accept" else PROMISED_REFUSAL
            rows.append((name, len(sql), outcome, took, promise))
    return rows


def longest(shape: Callable[[int], str]) -> str:
    """The longest text of this shape that is not refused for its bytes alone."""
    empty, one = len(shape(0)), len(shape(1))
    return shape((MAX_BYTES - empty) // (one - empty))


def fastest(action: Callable[[], object], repeats: int) -> float:
    """The least milliseconds, after one call that does not count: what others run has no say."""
    action()
    return 1000 * min(seconds(action) for _ in range(repeats))


def distribution(name: str, timed: Timed) -> tuple[object, ...]:
    times = sorted(time for _, time in timed)
    places = (0.5, 0.95, 0.99, 1)
    return (name, len(times), *(times[int(p * (len(times) - 1))] for p in places), PROMISED)


if __name__ == "__main__":
    main()
