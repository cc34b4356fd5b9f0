"""The law of physical order: integers depend on the rows, and on nothing else of the data.

Order, files, row groups, threads, the optimiser's choices and rows of nobody change none of them.
`python -m grammar_tests.test_physical_order` compares every case in every world.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.track import per_unit
from dpsql.dialects.duckdb import relation_sql
from dpsql.model.algebra import Field
from dpsql.model.errors import Refused
from dpsql.model.tree import Kind, StoredAs
from dpsql.model.vocabulary import Policy
from grammar_tests import bound, casefile
from grammar_tests.casefile import Case
from grammar_tests.laws import PlainEngine, compiled, integers, without_kernel
from grammar_tests.physical_worlds import WORLDS, engine_of, rows

EVERY = 400
"""One pair in so many of a case and a world is compared here."""
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
def plan_of(sql: str, dialect: str) -> Prepared | None:
    try:
        return compiled(sql, *here(), dialect=dialect)
    except Refused:
        return None


def chosen(case: Case, name: str, every: int) -> bool:
    """Whether a pair is in the share, by its hash."""
    digest = sha256(f"{case.id} in {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % every == 0


def differing(cases: Iterable[Case], name: str) -> list[str]:
    """The cases whose integers are others in a world."""
    plans = ((case.id, plan_of(case.sql, case.setting("dialect", "duckdb"))) for case in cases)
    return [title for title, plan in plans if plan is not None and differs(plan, name)]


def differs(plan: Prepared, name: str) -> bool:
    if plan.plan is None:
        return False
    return integers(plan, here()[1]) != integers(plan, engine_of(name))


@pytest.mark.parametrize("name", WORLDS)
def test_integers_depend_on_the_rows_alone(name: str) -> None:
    assert not differing((case for case in CASES if chosen(case, name, EVERY)), name)


# --- wrong twins ---

FIRST = "SELECT SUM(x) AS s FROM (SELECT FIRST(quantity) AS x FROM orders GROUP BY customer_id)"
RANKED = """SELECT SUM(quantity) AS s FROM (SELECT quantity, ROW_NUMBER() OVER (
    PARTITION BY customer_id ORDER BY status) AS place FROM orders) WHERE place = 1"""
BEYOND = "SELECT COUNT(*) AS n FROM orders WHERE discount > 100"


def found_in(sql: str, worlds: Sequence[str]) -> list[str]:
    """The worlds in which a statement has other integers, compiled as things are now."""
    plan = compiled(sql, *here())
    return [name for name in worlds if differs(plan, name)]


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

    monkeypatch.setattr(relation_sql, "column_sql", as_stored)
    assert found_in(BEYOND, FILES)


def main(names: Sequence[str]) -> int:
    """Compare every case in these worlds, or in all; how many pairs differ."""
    found = 0
    for name in names or WORLDS:
        unequal = differing(CASES, name)
        found += len(unequal)
        sys.stdout.write("\n  ".join([f"{name}: {len(unequal)} of {len(CASES)}", *unequal, ""]))
        sys.stdout.flush()
    return found


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
