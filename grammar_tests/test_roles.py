"""What roles do not grant does not exist: answers, neighbours, and every place that could tell.

PRIVACY.md R105. What an analyst sees is computed from the rows alone.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from dpsql.compiler.resolve import resolve
from dpsql.compiler.resolve.granted_rows import granted_rows
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Scan
from dpsql.model.dataclass import replace
from dpsql.model.errors import Refused
from dpsql.model.tree import NOWHERE
from dpsql.model.vocabulary import Policy, TablePolicy
from grammar_tests.laws import (
    compiled,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
)
from grammar_tests.path_worlds import PEOPLE, TABLES, PathWorld, questions, world
from grammar_tests.role_worlds import CONDITIONS, ROLES, granted, seen

WORLDS = 4
SAMPLE = 6
ASKED = (
    "SELECT COUNT(*), SUM(v) FROM people",
    "SELECT COUNT(*), SUM(v) FROM visits",
    "SELECT COUNT(*), SUM(v) FROM notes",
    "SELECT COUNT(*), SUM(a.v) FROM visits AS a JOIN people AS b ON a.pid = b.pid",
    "SELECT COUNT(*) FROM stays AS a WHERE EXISTS (SELECT 1 FROM visits AS b WHERE a.vid = b.vid)",
    "SELECT SUM(a.v), COUNT(b.v) FROM stays AS a LEFT JOIN visits AS b ON a.vid = b.vid",
    "SELECT COUNT(*) FROM items WHERE sid NOT IN (SELECT sid FROM stays WHERE sid IS NOT NULL)",
    "SELECT SUM(m) FROM (SELECT pid, MAX(v) AS m FROM visits GROUP BY pid) AS s",
)


def wrong(there: PathWorld, policy: Policy, name: str, asked: tuple[str, ...]) -> list[str]:
    """What is answered otherwise than over the granted rows, or moves too far."""
    engine, rows, faults = there.engine(), seen(there, name), list[str]()
    without = {unit: there.without(unit).engine() for unit in PEOPLE}
    for sql in asked:
        try:
            plan = compiled(sql, policy, engine)
        except Refused:
            continue
        if not same_rows(*noiseless(plan, engine), rows.rows(sql)):
            faults.append(f"answer: {sql}")
        here, released = integers(plan, engine), noiseless_blocks(plan, engine)
        for unit in PEOPLE:
            why = violation(plan, here, integers(plan, without[unit], released))
            if why is not None:
                faults.append(f"distance: {sql} without {unit}: {why}")
    return faults


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("number", [0, 1])
def test_answers_are_those_over_the_granted_rows(number: int, name: str, tmp_path: Path) -> None:
    """In clean worlds and in broken ones, with the facts that hold and without any."""
    whole = world(number).policy(tmp_path, recorded=number % 2 == 0)
    asked = (*ASKED, *Random(number).sample(questions(), SAMPLE))  # noqa: S311
    assert wrong(world(number), granted(whole, name), name, asked) == []


def test_a_role_without_a_condition_has_the_rows_that_another_leaves_out(tmp_path: Path) -> None:
    there, sql = world(0), "SELECT COUNT(*), COUNT(v) FROM visits"
    engine, rows = there.engine(), seen(there, "two").rows(sql)
    plan = compiled(sql, granted(there.policy(tmp_path, recorded=False), "two"), engine)
    assert same_rows(*noiseless(plan, engine), rows)
    assert rows[0][0] > rows[0][1]


@pytest.mark.campaign
@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("number", range(2 * WORLDS))
def test_all_questions_over_the_granted_rows(number: int, name: str, tmp_path: Path) -> None:
    whole = world(number).policy(tmp_path, recorded=number % 2 == 0)
    asked = (*ASKED, *questions())
    assert wrong(world(number), granted(whole, name), name, asked) == []


@pytest.mark.full("measures neighbours or further data sets")
def test_answers_without_recorded_facts_are_those_over_the_granted_rows(tmp_path: Path) -> None:
    """In a broken world, whose rows the facts would not fit."""
    policy = granted(world(1).policy(tmp_path, recorded=False), "rows")
    assert wrong(world(1), policy, "rows", ASKED) == []


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("name", ROLES)
def test_most_questions_are_answered_with_roles(name: str, tmp_path: Path) -> None:
    """Else the law would say little: what is refused is refused for its shape, not for roles."""
    policy = granted(world(0).policy(tmp_path, recorded=True), name)
    for sql in ASKED:
        compiled(sql, policy, world(0).engine())


# --- wrong twins ---


def below(policy: Policy) -> Policy:
    """The twin: conditions filter the tables by which units are attached."""
    return policy.with_tables(
        lambda t: replace(t, rows=_rows(t, policy), grants=()) if _own(t, policy) else t
    )


def _own(table: TablePolicy, policy: Policy) -> TablePolicy | None:
    there = policy.granted(table.name)
    return there if there is not None and there.grants else None


def _rows(table: TablePolicy, policy: Policy) -> Any:
    there = _own(table, policy)
    assert there is not None
    return granted_rows(there, policy, Identities(), NOWHERE)


def test_a_filter_below_the_attachment_is_found(tmp_path: Path) -> None:
    """Whoever is filtered out of the unit's own table loses the rows that all may count."""
    name, there = "the unit's table", world(0)
    policy = below(granted(there.policy(tmp_path, recorded=False), name))
    assert any(why.startswith("answer") for why in wrong(there, policy, name, ASKED))


@pytest.mark.full("measures neighbours or further data sets")
def test_a_scan_without_its_filter_is_found(tmp_path: Path) -> None:
    """As where EXISTS would read the whole table."""

    def whole(table: TablePolicy, _policy: Policy, identities: Identities, span: Any) -> Any:
        fields = tuple(identities.field(c.name, c.type) for c in table.columns)
        return Scan(table.name, fields, span, table.readings, table.rows)

    policy = granted(world(0).policy(tmp_path, recorded=True), "one table")
    for sql in ASKED[3:5]:
        assert wrong(world(0), policy, "one table", (sql,)) == []
        with patch.object(resolve, "granted_rows", whole):
            assert wrong(world(0), policy, "one table", (sql,)) != []


@pytest.mark.full("draws random questions or values")
def test_the_conditions_leave_something_out() -> None:
    """Of each table in some world, so that the law can fail."""
    fewer = set[str]()
    for number in range(WORLDS):
        rows, every = seen(world(number), "rows"), world(number).owned().engine()
        for table in TABLES:
            count = f"SELECT COUNT(*) FROM {table.name}"
            if 0 < rows.rows(count)[0][0] < every.rows(count)[0][0]:
                fewer.add(table.name)
    assert fewer == CONDITIONS.keys()
