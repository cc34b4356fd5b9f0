"""The law of physical order: integers depend on the rows, and on nothing else of the data.

Order, files, row groups, threads, the optimiser's choices, a prepared store and rows of nobody
change none of them. `python -m grammar_tests.test_physical_order [WORLD...]` compares every case.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.track import per_unit
from dpsql.dialects.duckdb import relation_sql
from dpsql.dialects.relation_printer import Text
from dpsql.model.algebra import Field
from dpsql.model.dataclass import replace
from dpsql.model.errors import Refused
from dpsql.model.prepared_store import PreparedStore
from dpsql.model.tree import Expression, Kind, StoredAs
from dpsql.model.vocabulary import Policy
from grammar_tests import bound, casefile, world
from grammar_tests.casefile import Case
from grammar_tests.laws import PlainEngine, compiled, integers, without_kernel
from grammar_tests.physical_worlds import CROWD, WORLDS, finite, native, rows, world_of

OF_FULL, OF_RULES = 100, 200
"""One pair in so many of a case and a world is compared in the full tier; without a rule of the
optimiser, of which there are many, one in twice as many."""
CANONICAL = {
    column: f"CASE WHEN NOT isnan({column}) THEN {column} + 0.0 END"
    for column in ("discount", "income")
}
"""How columns that may be NaN are compared."""
CASES = tuple(
    case
    for case in casefile.all_cases()
    if case.accepted and case.holds_here and case.catalog == "shop"
)


@cache
def here() -> tuple[Policy, PlainEngine]:
    """A policy that no constraint backs, and the world that others are compared with."""
    return bound.over(rows(), constraints=False)


@cache
def compared_with(*, of_finite: bool) -> PlainEngine:
    """The engine that has the rows of a world."""
    return native(finite(rows())).engine if of_finite else here()[1]


@cache
def plan_of(sql: str, dialect: str, store: PreparedStore | None = None) -> Prepared | None:
    """The plan of a case, over a store if there is one; None where it is refused."""
    policy, engine = here()
    try:
        return compiled(sql, replace(policy, store=store), engine, dialect=dialect)
    except Refused:
        return None


def chosen(case: Case, name: str, every: int) -> bool:
    """Whether a pair is in the share, by its hash."""
    digest = sha256(f"{case.id} in {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % every == 0


def differing(cases: Iterable[Case], name: str) -> list[str]:
    """The cases whose integers are others in a world."""
    return [case.id for case in cases if differs(case.sql, name, case.setting("dialect", "duckdb"))]


def differs(sql: str, name: str, dialect: str = "duckdb") -> bool:
    """Whether a statement has other integers in a world."""
    plan, there = plan_of(sql, dialect), world_of(name)
    if plan is None or plan.plan is None:
        return False
    theirs = plan_of(sql, dialect, there.store)
    assert theirs is not None
    expected = integers(plan, compared_with(of_finite=there.finite))
    return integers(theirs, there.engine) != expected


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("name", "every"),
    [
        *((name, OF_RULES if name.startswith("without ") else OF_FULL) for name in WORLDS),
        *(pytest.param(name, 1, marks=pytest.mark.campaign) for name in WORLDS),
    ],
)
def test_integers_depend_on_the_rows_alone(name: str, every: int) -> None:
    assert not differing((case for case in CASES if chosen(case, name, every)), name)


@pytest.mark.full("builds every world")
@pytest.mark.parametrize("name", [name for name in WORLDS if not name.startswith("without ")])
def test_a_world_has_the_same_rows(name: str) -> None:
    """A crowd has more: of nobody."""
    there = world_of(name)
    engines = compared_with(of_finite=there.finite), there.engine
    for table, columns in world.COLUMNS.items():
        names = re.findall(r"(\w+) [A-Z]", columns)
        texts = ", ".join(f"({CANONICAL.get(each, each)})::VARCHAR" for each in names)
        rows = f"SELECT {texts} FROM {table} ORDER BY ALL"
        mine, theirs = (engine.rows(rows) for engine in engines)
        assert set(mine) <= set(theirs) if len(theirs) > CROWD else mine == theirs


# --- wrong twins ---

FIRST = "SELECT SUM(x) AS s FROM (SELECT FIRST(quantity) AS x FROM orders GROUP BY customer_id)"
RANKED = """SELECT SUM(quantity) AS s FROM (SELECT quantity, ROW_NUMBER() OVER (
    PARTITION BY customer_id ORDER BY status) AS place FROM orders) WHERE place = 1"""
BEYOND = "SELECT COUNT(*) AS n FROM orders WHERE discount > 100"


def found_in(sql: str, worlds: Sequence[str]) -> list[str]:
    """The worlds in which a statement has other integers, compiled as things are now."""
    plan = compiled(sql, *here())
    expected = integers(plan, here()[1])
    return [name for name in worlds if integers(plan, world_of(name).engine) != expected]


ORDERS = ("shuffled", "reversed", "crowd")
FILES = ("parquet", "parquet without dictionaries")


@pytest.mark.parametrize(("sql", "worlds"), [(FIRST, ORDERS), (RANKED, ORDERS), (BEYOND, FILES)])
def test_what_the_twins_break_holds(sql: str, worlds: Sequence[str]) -> None:
    assert not found_in(sql, worlds)


def test_wrong_twin_the_first_value_that_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_unit, "in_any_order", lambda call: call)
    assert found_in(FIRST, ORDERS)


def test_wrong_twin_ties_that_other_rows_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(per_unit, "_settled", lambda call, _rows: call)
    with pytest.raises(Refused):  # the kernel sees that ties are left open
        found_in(RANKED, ORDERS)
    with without_kernel():
        assert found_in(RANKED, ORDERS)


def test_wrong_twin_a_scan_that_keeps_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = relation_sql.column_sql

    def as_stored(alias: str, column: Field, reading: StoredAs | None) -> str:
        double = column.type.kind is Kind.DOUBLE and reading is None
        return f'{alias}."{column.name}"::DOUBLE' if double else plain(alias, column, reading)

    def bare(self: relation_sql.Printer, node: Expression, columns: Text, stored: Text) -> str:
        return self.text(node, {**columns, **stored})

    monkeypatch.setattr(relation_sql, "column_sql", as_stored)
    monkeypatch.setattr(relation_sql.Printer, "condition", bare)
    assert found_in(BEYOND, FILES)


def main(names: Sequence[str]) -> int:
    """Compare every case in these worlds, or in all; return how many pairs differ."""
    found = 0
    plans = ((case, plan_of(case.sql, case.setting("dialect", "duckdb"))) for case in CASES)
    cases = [case for case, plan in plans if plan is not None and plan.plan is not None]
    for name in names or WORLDS:
        unequal = differing(cases, name)
        found += len(unequal)
        sys.stdout.write("\n  ".join([f"{name}: {len(unequal)} of {len(cases)}", *unequal, ""]))
        sys.stdout.flush()
    return found


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
