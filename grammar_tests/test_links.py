"""Whose a row is: shared keys, keys that are links, and broken links, against brute force."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.interfaces.messages import describe
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Clipped
from dpsql.model.vocabulary import FactKind, Neighbours, Policy, Sensitivity
from dpsql.owner.check import check
from dpsql.policy.value_reader import Lines
from grammar_tests import casefile
from grammar_tests.laws import (
    BUDGET,
    claimed,
    compiled,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    too_far,
    violation,
)
from grammar_tests.link_worlds import (
    UNIT,
    UNITS,
    LinkedTable,
    LinkedWorld,
    chain,
    crossing,
    questions,
)

CHAINS = 12
SEEDS = ("0", "1", "2")


def one_row_by_declaration(plan: Prepared) -> bool:
    """Whether a declared key limits a unit to one row: where it repeats after all, rows are cut."""
    return any(isinstance(notice, Clipped) and notice.rows == 1 for notice in plan.notices)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    "number",
    [*range(4), *(pytest.param(n, marks=pytest.mark.campaign) for n in range(4, CHAINS))],
)
def test_a_unit_has_the_rows_that_are_its_own_and_moves_no_other(
    number: int, tmp_path: Path
) -> None:
    """Answers are those over the rows of one unit each; without a unit only its own are gone."""
    world = chain(number)
    engine, owned = world.engine(), world.owned().engine()
    without = {unit: world.without(unit).engine() for unit in UNITS}
    policy = world.policy(tmp_path, recorded=number % 4 == 3)
    answered = 0
    for sql in questions(world):
        try:
            plan = compiled(sql, policy, engine)
        except Refused:
            continue
        answered += 1
        (ours, errors), plain = noiseless(plan, engine), owned.rows(sql)
        exact = same_rows(ours, errors, plain)
        assert exact or (one_row_by_declaration(plan) and len(ours) <= len(plain)), sql
        here, released = integers(plan, engine), noiseless_blocks(plan, engine)
        for unit in UNITS:
            there = integers(plan, without[unit], released)
            assert violation(plan, here, there) is None, (sql, unit)
    assert answered >= 10 * len(world.tables[1:])


@pytest.mark.parametrize("number", range(6 * CHAINS))
def test_removing_a_unit_leaves_all_others_their_rows(number: int) -> None:
    """The proof of `attach_unit`, on data: whose a row is follows from what its links reach."""
    world = chain(number)
    for unit in UNITS:
        rest = world.without(unit)
        for table in world.tables:
            before = [(r, o) for r in world.rows[table.name] if (o := world.owners(table, r))]
            after = [(r, o) for r in rest.rows[table.name] if (o := rest.owners(table, r))]
            assert after == [(row, whose) for row, whose in before if unit not in whose]


@pytest.mark.full("measures neighbours or further data sets")
def test_a_table_is_joined_to_the_unit_through_a_key_that_is_a_link(tmp_path: Path) -> None:
    """`people JOIN notes` where notes name a profile, and a profile is named as its person is."""
    tables = (
        LinkedTable("people", "pid", ()),
        LinkedTable("a", "a_id", (("a_id", "people"),)),
        LinkedTable("b", "b_id", (("b_up", "a"),)),
    )
    value = {"v": 1, "g": "a"}
    people = tuple({"pid": n, **value} for n in (1, 2, 3))
    profiles = tuple({"a_id": n, **value} for n in (1, 2, 2, 4, None))
    # Of the last four: a person without a profile, a profile of nobody, nothing, and nobody.
    notes = ({"b_id": n, "b_up": up, **value} for n, up in enumerate((1, 2, 2, 3, 4, 5, None)))
    world = LinkedWorld(tables, {"people": people, "a": profiles, "b": tuple(notes)})
    for sql in (
        "SELECT COUNT(*) FROM people p JOIN b ON p.pid = b.b_up",
        "SELECT COUNT(*) FROM people p, b WHERE b.b_up = p.pid AND p.v = 1",
        "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM b WHERE p.pid = b.b_up)",
        "SELECT COUNT(*) FROM b",
    ):
        engine, owned = world.engine(), world.owned().engine()
        plan = compiled(sql, world.policy(tmp_path, recorded=False), engine)
        assert same_rows(*noiseless(plan, engine), owned.rows(sql))
        assert engine.rows(sql) != owned.rows(sql)


@pytest.mark.parametrize("number", range(CHAINS))
def test_check_counts_the_rows_under_shared_keys(number: int, tmp_path: Path) -> None:
    world = chain(number)
    policy = world.policy(tmp_path, recorded=False)
    findings, _ = check(policy, Lines(""), world.engine().rows)
    told = {f.table: f.rows for f in findings if "several units share" in f.message}
    shared = {
        table.name: sum(len(world.reached(table, row)) > 1 for row in world.rows[table.name])
        for table in world.tables
    }
    assert told == {name: count for name, count in shared.items() if count}


WRITTEN = """
import sys
from pathlib import Path
from dpsql.model.errors import Reason, Refused
from dpsql.interfaces.messages import describe
from grammar_tests.laws import compiled, noiseless
from grammar_tests.link_worlds import chain, questions

for number in map(int, sys.argv[2:]):
    world = chain(number)
    engine, policy = world.engine(), world.policy(Path(sys.argv[1]), recorded=False)
    for sql in list(questions(world))[::2]:
        try:
            plan = compiled(sql, policy, engine)
        except Refused as refusal:
            print(sql, refusal)
        else:
            print(sql, plan.question, plan.rewritten, noiseless(plan, engine))
"""
"""Everything that is sent and answered, for some worlds."""


@pytest.mark.full("measures neighbours or further data sets")
def test_the_same_plan_and_answer_under_every_hash_seed(tmp_path: Path) -> None:
    numbers = [n for n in range(3 * CHAINS) if _has_key_that_is_a_link(chain(n))][:4]
    running = []
    for seed in SEEDS:
        (folder := tmp_path / seed).mkdir()
        command = [sys.executable, "-c", WRITTEN, str(folder), *map(str, numbers)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        running.append(
            subprocess.Popen(  # noqa: S603
                command, env=environment, stdout=subprocess.PIPE, text=True
            )
        )
    told = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0] * len(SEEDS)
    assert len(told) == 1
    assert "SELECT" in told.pop()


def _has_key_that_is_a_link(world: LinkedWorld) -> bool:
    return any(table.key == column for table in world.tables for column, _ in table.links)


# --- rows that belong to several people each ---

DIRECT = [case.sql for case in casefile.all_cases("transfers") if case.accepted]
CROSSINGS = 6
ACCOUNTANTS = ("zcdp", "pure", "approximate")


def bounded(world: LinkedWorld, folder: Path, less: int = 0) -> Policy:
    """The policy with the facts that a check records; perhaps it claims too little of a person."""
    policy = world.policy(folder, recorded=True, most=world.most_rows(world.table("t")))
    assert policy.fact(FactKind.MAX_ROWS, "t")
    lowered = (
        replace(t, max_rows_per_unit=t.max_rows_per_unit - less) if t.max_rows_per_unit else t
        for t in policy.tables
    )
    return replace(policy, tables=tuple(lowered))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("number", range(2, 2 + CROSSINGS))
def test_rows_of_several_people_are_summed_as_they_are(number: int, tmp_path: Path) -> None:
    """Each row counts once, and a person moves no more than the bound over all links together."""
    world = crossing(number)
    engine, owned = world.engine(), world.owned().engine()
    policy, wrong = bounded(world, tmp_path), bounded(world, tmp_path, less=1)
    budget = replace(BUDGET, accountant=ACCOUNTANTS[number % len(ACCOUNTANTS)])
    others = [world.without(unit).engine() for unit in UNITS]
    caught = False
    for sql in DIRECT:
        plan = compiled(sql, policy, engine, budget=budget)
        assert plan.plan is not None
        assert not any(release.sensitivity.alone for b in plan.blocks for release in b.releases)
        assert same_rows(*noiseless(plan, engine), owned.rows(sql)), sql
        here, released = integers(plan, engine), noiseless_blocks(plan, engine)
        moved = [integers(plan, other, released) for other in others]
        assert [violation(plan, here, there) for there in moved] == [None] * len(UNITS), sql
        if sql == DIRECT[0]:
            low = compiled(sql, wrong, engine, budget=budget)
            caught = any(violation(low, here, there) for there in moved)
    assert caught


def test_a_block_cites_the_facts_behind_each_of_several_links(tmp_path: Path) -> None:
    links = ("via", "a"), ("past", "b")
    tables = [LinkedTable(name, f"{name}_id", ((f"{name}_up", UNIT),)) for name in "ab"]
    tables = [LinkedTable(UNIT, "pid", ()), *tables, LinkedTable("t", "t_id", links)]
    row = dict.fromkeys(("v", "g", "pid", "a_id", "a_up", "b_id", "b_up", "via"), 1) | {"g": "a"}
    rows: dict[str, tuple[dict[str, Any], ...]]
    rows = {table.name: ({**row, "past": 9, "t_id": 1},) for table in tables}
    rows |= {"t": (*rows["t"], {**row, "past": 9, "via": 9, "t_id": 2})}
    world = LinkedWorld(tuple(tables), rows)
    plan = compiled(
        "SELECT COUNT(*) FROM t", world.policy(tmp_path, recorded=True, most=3), world.engine()
    )
    cited = {(fact.table, fact.kind) for fact in plan.blocks[0].block.facts}
    unique = {(name, FactKind.UNIQUE_KEY) for name in ("people", "a", "b")}
    assert cited == {("t", FactKind.MAX_ROWS), *unique}


@pytest.mark.full("measures neighbours or further data sets")
def test_rows_of_several_people_are_replaced_within_the_claim(tmp_path: Path) -> None:
    for number in range(2, 6):
        world = crossing(number)
        policy = bounded(world, tmp_path)
        unit = replace(policy.unit, neighbours=Neighbours.REPLACE)
        policy, engine = replace(policy, unit=unit), world.engine()
        others = [world.without(unit).engine() for unit in UNITS]
        for sql in DIRECT:
            plan = compiled(sql, policy, engine)
            released = noiseless_blocks(plan, engine)
            each = [integers(plan, other, released) for other in others]
            for one, other in combinations(each, 2):
                for block, here, there in zip(plan.blocks, one, other, strict=True):
                    assert too_far(block, claimed(block, Neighbours.REPLACE), here, there) is None


@pytest.mark.parametrize("lower", [-4, -1, 0, 2])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_distances_of_rows_of_several_people_are_the_largest(lower: int, rows: int) -> None:
    """All ways to put up to so many rows at an end of [lower, 3] into two groups, exactly."""
    ends = (lower, 0, 3)
    vectors = {
        (sum(one), sum(other))
        for values in product(ends, repeat=rows)
        for taken in product((False, True), repeat=rows)
        for one in [[v for v, t in zip(values, taken, strict=True) if t]]
        for other in [[v for v, t in zip(values, taken, strict=True) if not t]]
    }
    clip = min(0, rows * lower), rows * 3
    for neighbours, pairs in (
        (Neighbours.ADD_REMOVE, [(v, (0, 0)) for v in vectors]),
        (Neighbours.REPLACE, list(product(vectors, repeat=2))),
    ):
        claim = Sensitivity(1, *clip, neighbours)
        steps = [[abs(a - b) for a, b in zip(*pair, strict=True)] for pair in pairs]
        assert max(map(sum, steps)) <= claim.l1
        assert max(sum(s * s for s in each) for each in steps) == claim.l2_squared


@pytest.mark.full("measures neighbours or further data sets")
def test_nothing_is_known_of_rows_of_several_people_without_a_recorded_bound(
    tmp_path: Path,
) -> None:
    world = crossing(0)
    engine, most = world.engine(), world.most_rows(world.table("t"))
    for policy in (
        world.policy(tmp_path, recorded=False, most=most),
        world.policy(tmp_path, recorded=True),
        world.policy(tmp_path, recorded=True, most=most - 1),
    ):
        with pytest.raises(Refused) as caught:
            compiled("SELECT COUNT(*) FROM t", policy, engine)
        assert caught.value.reason is Reason.UNBOUNDED_CONTRIBUTION
        assert "check --record" in str(describe(caught.value, "SELECT COUNT(*) FROM t"))
        assert compiled("SELECT COUNT(*) FROM people", policy, engine).plan is not None
