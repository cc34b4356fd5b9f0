"""Several paths to one person, against brute force and between neighbours (PRIVACY.md R93).

Whose a row is, and what is read of a column beside the link, is computed from the rows alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from unittest.mock import patch

import duckdb
import pytest
from click.testing import CliRunner

from dpsql.compiler.track import joins, per_unit, same_unit_columns
from dpsql.interfaces.cli import main
from dpsql.interfaces.comments import column_comment
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.vocabulary import Fact, FactKind, Policy, Voucher
from dpsql.owner.check import check
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from grammar_tests.laws import (
    compiled,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
    without_kernel,
)
from grammar_tests.path_worlds import PEOPLE, POLICY, TABLES, PathWorld, questions, same_unit, world

WORLDS, FEW = 8, 3
"""Worlds of the full tier, and those of the default one."""
SAMPLE = 12
"""Questions that are asked of one world in the default selection."""
UNIQUE = tuple(Fact(FactKind.UNIQUE_KEY, table.name, Voucher.CHECK) for table in TABLES)
EVERY = tuple(same_unit(table.name, column) for table in TABLES for column, _ in table.beside)


def wrong(there: PathWorld, policy: Policy, asked: Iterable[str]) -> Iterator[str]:
    """What is answered otherwise than over the rows as they are read, or moves too far."""
    engine, owned = there.engine(), there.owned().engine()
    without = {unit: there.without(unit).engine() for unit in PEOPLE}
    for sql in asked:
        plan = compiled(sql, policy, engine)
        if not same_rows(*noiseless(plan, engine), owned.rows(sql)):
            yield f"answer: {sql}"
        here, released = integers(plan, engine), noiseless_blocks(plan, engine)
        for unit in PEOPLE:
            why = violation(plan, here, integers(plan, without[unit], released))
            if why is not None:
                yield f"distance: {sql} without {unit}: {why}"


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("recorded", [True, False])
def test_columns_beside_the_link_read_their_own_unit_alone(recorded: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """With the facts that hold in a world, and without any."""
    asked = Random(1).sample(questions(), SAMPLE)  # noqa: S311
    policy = world(1).policy(tmp_path, recorded=recorded)
    assert list(wrong(world(1), policy, asked)) == []


@pytest.mark.full("a slice of a campaign")
@pytest.mark.parametrize("number", range(WORLDS))
def test_some_questions_by_all_paths(number: int, tmp_path: Path) -> None:
    """Each question in one world; in every second with the facts that hold there."""
    recorded = number % 2 == 0
    policy = world(number).policy(tmp_path, recorded=recorded)
    asked = questions()[(number + 4 * recorded) % 8 :: 8]
    assert asked
    assert list(wrong(world(number), policy, asked)) == []


@pytest.mark.campaign
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("number", range(WORLDS))
def test_all_questions_by_all_paths(number: int, recorded: bool, tmp_path: Path) -> None:  # noqa: FBT001
    policy = world(number).policy(tmp_path, recorded=recorded)
    assert list(wrong(world(number), policy, questions())) == []


@pytest.mark.parametrize(
    "numbers",
    [
        range(FEW),
        pytest.param(range(FEW, WORLDS), marks=pytest.mark.full("further data sets")),
        pytest.param(range(WORLDS, 4 * WORLDS), marks=pytest.mark.campaign),
    ],
)
def test_the_facts_are_those_that_hold(numbers: range, tmp_path: Path) -> None:
    """A column is of the same unit where each value leads to rows of its row's own unit alone."""
    kinds = set[str]()
    for number in numbers:
        there = world(number)
        policy = there.policy(tmp_path, recorded=False)
        findings, facts = check(policy, Lines(""), there.engine().rows)
        for table in TABLES:
            for column, target in table.beside:
                ends = [
                    (there.behind(target, r[column]), there.owner(table, r))
                    for r in there.rows[table.name]
                    if r[column] is not None
                ]
                alone = all(own is not None and behind == {own} for behind, own in ends)
                assert (same_unit(table.name, column) in facts) == alone, (number, table, column)
        kinds |= {f.kind for f in findings}
    assert kinds >= {"lost", "elsewhere", "ownerless"}


NULLS = "SELECT COUNT(*) FROM (SELECT vid, MAX(v) AS m FROM items GROUP BY vid) AS s WHERE m > 3"


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    "sql",
    [
        NULLS,
        "SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY vid ORDER BY v) AS n FROM items)",
        "SELECT COUNT(*) FROM (SELECT DISTINCT vid, v FROM items) AS s WHERE v > 3",
        "SELECT MAX(m) FROM (SELECT MAX(v) AS m FROM items WHERE vid > 1 OR v > 3 GROUP BY vid)",
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_a_group_of_null_is_refused_with_the_condition(
    sql: str,
    recorded: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    with pytest.raises(Refused) as error:
        compiled(sql, world(0).policy(tmp_path, recorded=recorded), world(0).engine())
    assert error.value.reason is Reason.UNSUPPORTED_PRIVATE_OPERATOR
    assert error.value.facts["fix"] == "Add the condition vid IS NOT NULL."


# --- wrong twins: each is answered otherwise, or somebody moves too much ---


def moved(number: int, folder: Path, asked: Iterable[str], *facts: Fact) -> bool:
    """Whether somebody moves more than one row may, under facts that need not hold."""
    there = world(number)
    policy = there.policy(folder, facts, recorded=False, most=1)
    return any(why.startswith("distance") for why in wrong(there, policy, asked))


ASKED = questions()
JOINED = [sql for sql in ASKED if " JOIN " in sql or "EXISTS" in sql]


@pytest.mark.full("measures neighbours or further data sets")
def test_a_column_that_is_believed_where_a_row_differs_is_found(tmp_path: Path) -> None:
    """The wrong twin of the fact: it is recorded though one row leads to another unit."""
    assert moved(1, tmp_path, JOINED, *UNIQUE, *EVERY)
    assert not moved(1, tmp_path, JOINED[::9], *UNIQUE)


def test_a_group_of_null_that_mixes_people_is_found(tmp_path: Path) -> None:
    """The wrong twin of the rule of NULL: each person has a group of NULL, and the text has one."""
    sql = "SELECT COUNT(*) FROM (SELECT pid FROM items GROUP BY pid) AS s"
    with patch.object(
        per_unit, "name_unit", lambda keys, _: frozenset[Fact]() if [*keys] else None
    ):
        policy = world(0).policy(tmp_path, recorded=True)
        assert list(wrong(world(0), policy, [sql])) == [f"answer: {sql}"]


@pytest.mark.full("measures neighbours or further data sets")
def test_people_who_share_a_target_key_are_found(tmp_path: Path) -> None:
    """The wrong twin of comparing the units: two people's rows meet under one key."""
    with patch.object(joins, "_own", lambda *_: True):
        with without_kernel():
            assert moved(2, tmp_path, JOINED)
        with pytest.raises(Refused):
            moved(2, tmp_path, JOINED)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_newcomer_with_a_key_at_which_another_dangles_is_found(tmp_path: Path) -> None:
    """The wrong twin of the lookup: a value is read wherever anybody has such a row."""
    assert not moved(1, tmp_path, ASKED[::9])
    with (
        patch.object(same_unit_columns._UnitKeys, "holds", lambda there, c, _: c.eq(there.key)),
        without_kernel(),
    ):
        assert moved(1, tmp_path, ASKED)


@pytest.mark.parametrize("names", [["items"], ["notes"], ["items", "notes"]])
@pytest.mark.parametrize("on", ["a.vid = b.vid", "a.vid = b.vid AND a.pid = b.pid"])
@pytest.mark.parametrize(
    "form", ["JOIN notes AS b ON {}", "WHERE EXISTS (SELECT 1 FROM notes AS b WHERE {})"]
)
def test_each_believed_column_is_told(names: list[str], on: str, form: str, tmp_path: Path) -> None:
    """Both columns of an equality are believed, or looked up, each by itself."""
    facts = {same_unit(name, "vid") for name in names}
    unique = (fact for fact in UNIQUE if fact.table != "people")
    policy = world(0).policy(tmp_path, (*unique, *facts), recorded=False)
    sql = f"SELECT COUNT(*) FROM items AS a {form.format(on)}"
    plan = compiled(sql, policy, world(0).engine()).plan
    assert plan is not None
    assert facts <= {*plan.blocks[0].block.facts}


# --- policies ---

SHOP = """
CREATE TABLE users (user_id INTEGER PRIMARY KEY, country TEXT);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, parent_order_id INTEGER REFERENCES orders,
    user_id INTEGER NOT NULL REFERENCES users);
CREATE TABLE items (item_id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders,
    user_id INTEGER NOT NULL REFERENCES users);
CREATE TABLE returns (return_id INTEGER PRIMARY KEY, item_id INTEGER REFERENCES items,
    order_id INTEGER REFERENCES orders);
CREATE TABLE messages (message_id INTEGER PRIMARY KEY, sender_id INTEGER REFERENCES users,
    reader_id INTEGER REFERENCES users);
INSERT INTO users VALUES (1, 'NO'), (2, 'SE');
INSERT INTO orders VALUES (1, NULL, 1), (3, NULL, 2);
INSERT INTO orders VALUES (2, 1, 1);
INSERT INTO items VALUES (1, 1, 1), (2, 3, 2);
INSERT INTO returns VALUES (1, 1, 1), (2, 2, NULL)
"""


@pytest.mark.full("opens servers or connects clients")
def test_a_draft_has_same_unit_wherever_two_paths_meet(tmp_path: Path) -> None:
    """The draft passes a check with no further decision, and its joins are answered."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(SHOP)
    policy = str(tmp_path / "dpsql.toml")
    run = CliRunner().invoke
    made = run(main, ["init", str(tmp_path / "shop.duckdb"), "--yes", "-o", policy])
    assert made.exit_code == 0, made.output
    there = {table.name: table for table in load(policy).tables}
    beside = {name: [link.column for link in t.same_unit] for name, t in there.items()}
    assert beside == {
        "users": [],
        "orders": ["parent_order_id"],
        "items": ["order_id"],
        "returns": ["order_id"],
        "messages": [],
    }
    assert [link.column for link in there["messages"].several] == ["sender_id", "reader_id"]
    assert run(main, ["check", "--policy", policy]).exit_code == 0
    sql = "SELECT COUNT(*) FROM items JOIN orders USING (order_id)"
    asked = run(main, ["explain", "--policy", policy, sql])
    assert asked.exit_code == 0, asked.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("visits.vid", "visits.pid", "visits.pid is not the declared key of visits"),
        ('column = "parent"', 'column = "pid"', "pid is a link already"),
        ('column = "parent"', 'column = "mother"', "visits.mother is not listed"),
        ("same_unit = [", "same_unit = [1, ", "same_unit"),
        ('"parent", references = "visits.vid"', '"parent", references = "vid"', "no column"),
        (
            '{ column = "parent", references = "visits.vid" }',
            '{ column = ["vid", "pid"], references = "visits.(vid, pid)" }',
            "by one column each, and this key has several",
        ),
        ("\nlink = { column", "\nlinks = [{ column", "several people|no list|Invalid|one link"),
    ],
)
def test_mistakes_have_a_line_and_a_fix(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in POLICY
    file = tmp_path / "dpsql.toml"
    text = POLICY.replace(old, new, 1)
    if new.startswith("\nlinks"):
        both = '{ column = "pid", references = "people.pid" }, { column = "v", '
        text = POLICY.replace('link = { column = "pid", references = "people.pid" }', both, 1)
        text = text.replace(both, f'links = [{both}references = "people.pid" }}]', 1)
    file.write_text(text)
    with pytest.raises(PolicyError, match=message) as error:
        load(str(file))
    assert error.value.fix


def test_a_column_beside_the_link_is_told_as_such(tmp_path: Path) -> None:
    policy = world(0).policy(tmp_path, recorded=False)
    visits = policy.table("visits")
    assert visits is not None
    parent = visits.column("parent")
    assert parent is not None
    told = column_comment(policy, visits, parent)
    assert told == "leads to the same unit through visits.vid; may be NULL"
