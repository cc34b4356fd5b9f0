"""Joins of rows with and without a unit: claims, law 1 and law 2, from the empty database too.

The wrong twins leave out what keeps rows without a unit from a unit's rows, and the guard that
tells an OR from an equality.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given

from dpsql.compiler.track import joins
from dpsql.compiler.track.equalities import Equates
from grammar_tests.fuzz_joins import JOINS, bound, broken_laws, world
from grammar_tests.laws import compiled, noiseless, without_kernel
from grammar_tests.link_worlds import LinkedTable, LinkedWorld, Row
from grammar_tests.test_fuzz import examples
from grammar_tests.test_join_conditions import implies

RANDOM, MANY = 8, 160
"""Random queries per run, and in a campaign."""
FEW = 60
"""Random queries within which a wrong proof is found."""
CHAIN = " ".join(f"JOIN phones AS t{n} ON t{n}.d = t0.d" for n in range(1, 4))
NOBODY = "SELECT b.d FROM phones AS b WHERE b.d = a.d AND b.pid IS NULL"
ATTACKS = tuple(
    (number, f"SELECT COUNT(*) FROM {rows}")
    for number, rows in (
        (6, f"phones AS t0 {CHAIN} WHERE t0.d = 1"),
        (6, f"phones AS t0 {CHAIN.replace('JOIN', 'LEFT JOIN')} WHERE t0.d = 1"),
        (6, "phones AS a, LATERAL (SELECT * FROM phones AS b WHERE b.d = a.d) AS t"),
        (6, "phones AS a ASOF JOIN phones AS b ON a.d = b.d AND a.v >= b.v"),
        (6, f"phones AS a WHERE EXISTS ({NOBODY})"),
        (6, f"phones AS a WHERE a.d IN ({NOBODY})"),
        (5, f"phones AS t0 {CHAIN} WHERE t0.d = 1"),
        (10, "calls AS a JOIN calls AS b ON a.e = b.e JOIN calls AS c ON c.e = a.e"),
        (4, "refunds AS a LEFT JOIN sales AS b USING (item, ticket)"),
    )
)
"""Worlds, and joins by what tells the unit of rows that have one: devices; units that are a column;
two hops; keys of two columns that several rows share."""


def wrong(number: int, sql: str) -> list[str]:
    found = broken_laws(number, sql)
    assert found is not None, sql
    return list(found)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(("number", "sql"), ATTACKS)
def test_rows_without_a_unit_multiply_nobodys(number: int, sql: str) -> None:
    assert wrong(number, sql) == []


@pytest.mark.parametrize(("number", "sql"), ATTACKS)
def test_rows_without_a_unit_that_multiply_are_found(number: int, sql: str) -> None:
    """The wrong twin compares no units."""
    same = patch.object(joins, "_of_one_unit", lambda linked, *sides: (linked, *sides[:2]))
    with same, without_kernel():
        assert wrong(number, sql)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(RANDOM, marks=pytest.mark.full("draws random questions or values")),
        pytest.param(MANY, marks=pytest.mark.campaign),
    ],
)
def test_the_laws_of_random_joins_hold(count: int) -> None:
    assert random_joins(count) >= 0.6 * count


def random_joins(count: int, *, shrink: bool = True) -> int:
    """How many of so many random joins are accepted."""
    accepted: list[bool] = []

    @examples(count, shrink=shrink)
    @given(JOINS)
    def hold(drawn: tuple[int, str]) -> None:
        found = broken_laws(*drawn)
        accepted.append(found is not None)
        assert list(found or ()) == []

    hold()
    return sum(accepted)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("name", ["units", "an OR"])
def test_random_joins_find_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match name:
        case "units":
            monkeypatch.setattr(joins, "_own", lambda *_: True)
        case _:
            monkeypatch.setattr(Equates, "is_only", implies)
    with pytest.raises(AssertionError):
        random_joins(FEW, shrink=False)


def test_a_link_that_breaks_below_a_key_is_found(tmp_path: Path) -> None:
    """`a` has no row 2, so what links to it has no unit, though person 2 is there."""
    tables = (
        LinkedTable("people", "pid", ()),
        LinkedTable("a", "a_id", (("a_id", "people"),)),
        LinkedTable("b", "b_id", (("b_up", "a"),)),
    )
    rows: dict[str, tuple[Row, ...]] = {
        "people": tuple({"pid": n, "v": 1, "g": "a"} for n in (1, 2)),
        "a": ({"a_id": 1, "v": 1, "g": "a"},),
        "b": tuple({"b_id": n, "b_up": n, "v": 1, "g": "a"} for n in (1, 2)),
    }
    odd = LinkedWorld(tables, rows)
    policy, engine = odd.policy(tmp_path, recorded=True), odd.engine()
    sql = "SELECT COUNT(b.v) FROM people p LEFT JOIN b ON b.b_up = p.pid"

    def answer() -> Any:
        return noiseless(compiled(sql, policy, engine), engine)[0]

    assert answer() == odd.owned().engine().rows(sql) == [(1,)]
    with patch.object(joins, "_with_links_to", lambda side, *_: side), without_kernel():
        assert answer() == [(2,)]


def test_units_are_compared_only_where_a_key_does_not_tell() -> None:
    """Joins along links and by unique keys are printed as they are written."""
    there, asked = bound(6), "SELECT COUNT(*) FROM {} AS a JOIN {} AS b USING ({})"
    for names, columns in (
        (("phones", "phones"), "pid"),
        (("phones", "people"), "pid"),
        (("phones", "calls"), "phone"),
        (("sales", "refunds"), "item, ticket"),
        (("refunds", "refunds"), "item, ticket"),
    ):
        plan = compiled(asked.format(*names, columns), there.policy, there.engine)
        sql = plan.rewritten.blocks[0].sql
        on = " AND ".join(f'."{column}" = ' for column in columns.split(", "))
        assert on.count("=") == len(columns.split(", "))
        assert sql.count('."pid" = ') == (columns == "pid"), sql


def test_the_worlds_have_what_breaks_links() -> None:
    """NULL and dangling links, rows without a unit at the second hop, and facts, all at once."""
    there = world(1)
    phones = {row["pid"] for row in there.rows["phones"]}
    calls = [row for row in there.rows["calls"] if not there.is_owned("calls", row)]
    assert {None, 9} <= phones
    assert {row["phone"] for row in calls} & {row["phone"] for row in there.rows["phones"]}
    assert {row["phone"] for row in calls} & {None, 9}
    assert {fact.kind.name for fact in bound(6).policy.facts} >= {"ONE_UNIT", "MAX_ROWS"}
