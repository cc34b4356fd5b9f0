"""Joins of rows of two units: bounds by brute force, wrong twins, near misses (PRIVACY.md R94)."""

# ruff: noqa: E501  one text, one line

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from dpsql.compiler.kernel.alike_rows import equated_pairs
from dpsql.compiler.kernel.kernel import Kernel
from dpsql.compiler.kernel.known import Proof, Rows
from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite import stored_rows
from dpsql.compiler.track.pairs import Pairs
from dpsql.dialects.reading.parse import parse
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.interfaces.comments import column_comment
from dpsql.interfaces.messages import describe
from dpsql.model.algebra import Join
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import FactKind, Neighbours, Policy
from dpsql.model.walk import relations
from dpsql.owner.check import check
from dpsql.owner.proof_counts import ProofCounter
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from dpsql.preparation.describe_blocks import helps
from dpsql.preparation.explanation import FewerRows
from grammar_tests.bound import CATALOGS, FORUM, forum
from grammar_tests.laws import (
    PlainEngine,
    claimed,
    compiled,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    too_far,
    violation,
)
from grammar_tests.link_worlds import UNIT, UNITS, LinkedTable, LinkedWorld, Row, filled

WORLDS, ODD = 8, 4
"""Worlds, and those among them with shared keys and broken links wherever they can be."""


class PairWorld(LinkedWorld):
    """Tables whose rows meet by the column `v`, with the limits that their rows keep."""

    def toml(self, most: int | None) -> str:
        text = LinkedWorld.toml(self, most)
        for table in self.tables:
            values = Counter(row["v"] for row in self.rows[table.name] if row["v"] is not None)
            limits = f"max_rows_per_key = {{ v = {max(values.values(), default=1)} }}\n"
            if table.name != UNIT:
                rows = Counter(u for row in self.rows[table.name] for u in self.ends(table, row))
                limits += f"max_rows_per_unit = {max(rows.values())}\n"
            head = f"[tables.{table.name}]\n"
            text = text.replace(head, head + limits)
        return text

    def ends(self, table: LinkedTable, row: Row) -> Iterator[object]:
        """The units at the ends of a row's paths, as a check counts them: each path, NULL too."""
        ((column, name),) = table.links
        if name == UNIT:
            yield row[column]
            return
        above = self.table(name)
        for target in self.rows[name]:
            if row[column] is not None and target[above.key] == row[column]:
                yield from self.ends(above, target)

    def only(self, unit: int | None) -> PairWorld:
        """The rows from which a path of links leads to one unit alone, or nothing."""
        kept = {
            table.name: tuple(
                row for row in self.rows[table.name] if self.reached(table, row) == {unit}
            )
            for table in self.tables
        }
        return replace(self, rows=kept)


def world(number: int) -> PairWorld:
    """World `number`: two tables of people's rows, and the people; the first are odd."""
    chance = Random(2000 + number)  # noqa: S311
    a = LinkedTable("a", "a_id", (("a_up", UNIT),))
    b = LinkedTable("b", "b_id", (("b_up", UNIT if number % 2 else "a"),))
    people = LinkedTable(UNIT, "pid", ())
    made = filled((people, a, b), chance, odd=number < ODD)
    return PairWorld(made.tables, made.rows)


MET = "x.v = y.v"
QUESTIONS = (
    f"SELECT COUNT(*), SUM(y.v) FROM a x JOIN b y ON {MET}",
    f"SELECT x.g, COUNT(*), SUM(x.v) FROM a x, b y WHERE {MET} AND x.a_id <> y.b_id GROUP BY x.g",
    f"SELECT COUNT(*) FROM a x JOIN a y ON {MET} AND x.a_up < y.a_up",
    "SELECT COUNT(*), SUM(p.v) FROM people p JOIN a ON p.v = a.v",
    "SELECT COUNT(*) FROM people p JOIN b ON p.pid = b.v",
    "SELECT AVG(x.v) FROM (SELECT * FROM a WHERE g = 'a') x JOIN (SELECT v FROM b) y ON y.v = x.v",
    f"SELECT w.n, SUM(x.v) FROM a x JOIN b y ON {MET} JOIN (VALUES (1, 'a'), (2, 'a'), (1, 'b')) w(n, g) ON w.g = x.g GROUP BY w.n",
    f"SELECT COUNT(*) FROM b y JOIN a x ON {MET} WHERE y.g IN (SELECT 'a') OR x.v > 0",
    f"SELECT p.g, COUNT(*) FROM a x JOIN b y ON {MET} JOIN people p ON p.pid = x.a_up GROUP BY p.g",
    f"SELECT COUNT(*) FROM (SELECT a.v FROM a LEFT JOIN (VALUES ('a'), ('a')) w(g) ON w.g = a.g) x JOIN b y ON {MET}",
    f"SELECT n, COUNT(x.v) FROM (VALUES (0), (3)) w(n) LEFT JOIN (SELECT x.v FROM a x JOIN b y ON {MET}) x ON x.v = n GROUP BY n",
)


def wrong(there: PairWorld, policy: Policy, asked: tuple[str, ...]) -> Iterator[str]:
    """What is answered otherwise than over owned rows, or moves too far when a unit goes."""
    engine, owned = there.engine(), there.owned().engine()
    empty, alone = there.only(None).engine(), [there.only(unit).engine() for unit in UNITS]
    pairs = [(engine, there.without(unit).engine()) for unit in UNITS]
    pairs += [(one, empty) for one in alone]
    for sql in asked:
        plan = compiled(sql, policy, engine)
        assert all(block.block.several for block in plan.blocks), sql
        if not same_rows(*noiseless(plan, engine), owned.rows(sql)):
            yield f"answer: {sql}"
        released = noiseless_blocks(plan, engine)
        for more, less in pairs:
            with_unit = integers(plan, more, released)
            why = violation(plan, with_unit, integers(plan, less, released))
            if why is not None:
                yield f"distance: {sql}: {why}"


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("number", range(WORLDS))
def test_joined_rows_of_two_units_move_no_more_than_claimed(number: int, tmp_path: Path) -> None:
    there = world(number)
    assert not list(wrong(there, there.policy(tmp_path, recorded=True), QUESTIONS))


Formula = Callable[[int, int, int, int], int]
FORMULAS: dict[str, Formula] = {
    "the sum of rows": lambda m, _f, n, _g: m + n,
    "one side alone": lambda m, _f, _n, g: m * g,
    "the other side alone": lambda _m, f, n, _g: n * f,
    "the product of rows with one key": lambda _m, f, _n, g: f * g,
    "the larger term": lambda m, f, n, g: max(m * g, n * f),
}
"""Wrong bounds, of m and n rows of a unit, and of f and g rows with one key."""
SOUND = Kernel._of_two


def twin(formula: Formula) -> Callable[[Kernel, Join, Rows, Rows], int | None]:
    """The kernel's rule with another formula where it proves a bound."""

    def of_two(kernel: Kernel, join: Join, left: Rows, right: Rows) -> int | None:
        if SOUND(kernel, join, left, right) is None:
            return None
        m, n = (Proof(side, max(side.owners)).most_rows() for side in (left, right))
        met = [*equated_pairs(join)]
        f, g = (
            kernel.most_alike(side, frozenset(pair[place] for pair in met))
            for place, side in enumerate((join.left, join.right))
        )
        assert None not in (m, f, n, g)
        return formula(m or 0, f or 0, n or 0, g or 0)

    return of_two


@cache
def star() -> PairWorld:
    """Two people ask a question each, and three people answer both three times."""
    tables = tuple(
        LinkedTable(name, key, links)
        for name, key, links in (
            (UNIT, "pid", ()),
            ("a", "a_id", (("a_up", UNIT),)),
            ("b", "b_id", (("b_up", UNIT),)),
        )
    )
    people = tuple({"pid": unit, "v": None, "g": "a"} for unit in UNITS)
    a = tuple({"a_id": v, "a_up": unit, "v": v, "g": "a"} for unit, v in ((1, 0), (2, 3)))
    b = tuple(
        {"b_id": 9 * v + 3 * unit + n, "b_up": unit, "v": v, "g": "b"}
        for v in (0, 3)
        for unit in UNITS
        for n in range(3)
    )
    return PairWorld(tables, {UNIT: people, "a": a, "b": b})


def test_wrong_twins_of_the_bound_are_found(tmp_path: Path) -> None:
    there, asked = (
        star(),
        tuple(f"SELECT COUNT(*) FROM {x} x JOIN {y} y ON {MET}" for x, y in ("ab", "ba")),
    )
    policy = there.policy(tmp_path, recorded=True)
    assert not list(wrong(there, policy, asked))
    for name, formula in FORMULAS.items():
        with patch.object(Kernel, "_of_two", twin(formula)):
            assert list(wrong(there, policy, asked)), name


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("number", range(WORLDS))
def test_a_replaced_unit_moves_joined_rows_within_the_claim(number: int, tmp_path: Path) -> None:
    """One person comes in the place of another: both are in no world beside the rest."""
    there = world(number)
    policy, engine = there.policy(tmp_path, recorded=True), there.engine()
    policy = replace(policy, unit=replace(policy.unit, neighbours=Neighbours.REPLACE))
    others = [there.without(unit).engine() for unit in UNITS]
    for sql in QUESTIONS:
        plan = compiled(sql, policy, engine)
        released = noiseless_blocks(plan, engine)
        each = [integers(plan, other, released) for other in others]
        for one, other in combinations(each, 2):
            for block, here, after in zip(plan.blocks, one, other, strict=True):
                assert too_far(block, claimed(block, Neighbours.REPLACE), here, after) is None, sql


# --- the forum of the cases ---

ASKED = (
    "SELECT q.topic, COUNT(*) FROM questions q JOIN answers a ON a.question_id = q.question_id"
    " WHERE q.user_id <> a.user_id GROUP BY q.topic"
)
REFUSED = {
    "no limit for the votes of a user": "SELECT COUNT(*) FROM answers a JOIN votes v ON v.answer_id = a.answer_id",
    "no key that facts bound": "SELECT COUNT(*) FROM answers a JOIN answers b ON a.day = b.day",
    "no equality": "SELECT COUNT(*) FROM questions q JOIN answers a ON a.question_id > q.question_id",
    "an equality in one branch": "SELECT COUNT(*) FROM questions q JOIN answers a ON a.question_id = q.question_id OR a.score = 3",
    "an expression": "SELECT COUNT(*) FROM questions q JOIN answers a ON a.question_id + 1 = q.question_id",
    "no condition": "SELECT COUNT(*) FROM questions, answers",
    "an outer join": "SELECT COUNT(*) FROM questions q LEFT JOIN answers a ON a.question_id = q.question_id",
    "a full join": "SELECT COUNT(*) FROM questions q FULL JOIN answers a ON a.question_id = q.question_id",
    "EXISTS": "SELECT COUNT(*) FROM questions q WHERE EXISTS (SELECT 1 FROM answers a WHERE a.question_id = q.question_id)",
    "IN": "SELECT COUNT(*) FROM questions WHERE question_id IN (SELECT question_id FROM answers)",
    "DISTINCT": "SELECT COUNT(DISTINCT a.user_id) FROM questions q JOIN answers a ON a.question_id = q.question_id",
    "a group for each person": "SELECT q.user_id, COUNT(*) FROM questions q JOIN answers a ON a.question_id = q.question_id GROUP BY q.user_id",
    "an aggregate per person": "SELECT AVG(n) FROM (SELECT a.user_id, COUNT(*) AS n FROM questions q JOIN answers a ON a.question_id = q.question_id GROUP BY a.user_id) t",
    "an aggregate by a key": "SELECT MAX(n) FROM (SELECT q.question_id, COUNT(*) AS n FROM questions q JOIN answers a ON a.question_id = q.question_id GROUP BY 1) t",
    "an extreme": "SELECT MAX(a.score) FROM questions q JOIN answers a ON a.question_id = q.question_id",
    "private keys": "SELECT a.question_id, COUNT(*) FROM questions q JOIN answers a ON a.question_id = q.question_id GROUP BY a.question_id",
    "a window": "SELECT SUM(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY a.user_id ORDER BY a.day) AS n FROM questions q JOIN answers a ON a.question_id = q.question_id) t",
    "a third side of people": "SELECT COUNT(*) FROM questions q JOIN answers a ON a.question_id = q.question_id JOIN answers b ON b.question_id = q.question_id",
    "a union": "SELECT COUNT(*) FROM (SELECT a.score FROM questions q JOIN answers a ON a.question_id = q.question_id UNION ALL SELECT score FROM answers) t",
    "rows": "SELECT a.score FROM questions q JOIN answers a ON a.question_id = q.question_id",
    "a side with answers per user": "SELECT COUNT(*) FROM questions q JOIN (SELECT user_id, question_id, COUNT(*) AS n FROM answers GROUP BY 1, 2) a ON a.question_id = q.question_id",
}
"""Near misses, of which none is answered."""


@pytest.mark.parametrize("name", REFUSED)
def test_near_misses_are_refused(name: str) -> None:
    policy, engine = forum()
    with pytest.raises(Refused) as caught:
        compiled(REFUSED[name], policy, engine)
    assert caught.value.reason in {
        Reason.UNEQUAL_UNITS,
        Reason.UNSUPPORTED_PRIVATE_OPERATOR,
        Reason.RAW_ROWS,
    }


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        (FactKind.MAX_ROWS, "questions"),
        (FactKind.MAX_ROWS, "answers"),
        (FactKind.ROWS_PER_KEY, "answers.(question_id)"),
        (FactKind.UNIQUE_KEY, "questions"),
    ],
)
def test_each_fact_is_needed_and_named(kind: FactKind, about: str) -> None:
    policy, engine = forum()
    cited = {(f.kind, f.table) for f in compiled(ASKED, policy, engine).blocks[0].block.facts}
    assert (kind, about) in cited
    fewer = frozenset(f for f in policy.facts if (f.kind, f.table) != (kind, about))
    with pytest.raises(Refused) as caught:
        compiled(ASKED, replace(policy, facts=fewer), engine)
    table, _, column = about.partition(".")
    column = column.strip("()") or "question_id"
    of = f"unit of {table}" if kind is FactKind.MAX_ROWS else f"key of {table} ({column})"
    said = str(describe(caught.value, ASKED))
    assert f"Missing: max_rows_per_{of}." in said


def test_a_policy_with_a_period_has_no_such_join() -> None:
    policy, engine = forum()
    rows = compiled(ASKED, policy, engine).blocks[0].block.rows
    join = next(part for part in relations(rows) if isinstance(part, Join))
    left: Any = SimpleNamespace(relation=join.left)
    right: Any = SimpleNamespace(relation=join.right)
    refusal = Refused(Reason.UNEQUAL_UNITS)
    period: Any = SimpleNamespace(period="a month")
    with pytest.raises(Refused) as caught:
        Pairs(period, Identities(), Kernel(policy)).join(join, left, right, refusal)
    assert caught.value is refusal


BOUNDS: dict[str, tuple[str, int | None]] = {
    "a key": ("SELECT question_id AS k FROM questions", 1),
    "a column with a limit": ("SELECT question_id AS k FROM answers", 5),
    "another column": ("SELECT day AS k FROM answers", None),
    "of some rows": ("SELECT question_id AS k FROM answers WHERE score > 3", 5),
    "an expression": ("SELECT question_id + 1 AS k FROM answers", None),
    "beside a key": (
        "SELECT a.question_id AS k FROM answers a JOIN users u ON u.user_id = a.user_id",
        5,
    ),
    "beside public rows": (
        "SELECT q.question_id AS k FROM questions q JOIN topics t ON t.topic = q.topic",
        2,
    ),
    "beside rows with a limit": (
        "SELECT q.question_id AS k FROM questions q JOIN answers a ON a.question_id = q.question_id",
        5,
    ),
    "by the other side": (
        "SELECT a.question_id AS k FROM questions q JOIN answers a ON a.question_id = q.question_id",
        5,
    ),
    "beside rows without one": (
        "SELECT q.question_id AS k FROM questions q JOIN answers a ON a.day = DATE '2024-01-01'",
        None,
    ),
    "a group": ("SELECT question_id AS k FROM answers GROUP BY question_id", 1),
    "a group by more": ("SELECT question_id AS k FROM answers GROUP BY question_id, day", None),
    "the left of an outer join": (
        "SELECT q.question_id AS k FROM questions q LEFT JOIN topics t ON t.topic = q.topic",
        2,
    ),
    "the left of an outer join beside few": (
        "SELECT a.question_id AS k FROM answers a LEFT JOIN questions q ON q.question_id = a.question_id",
        5,
    ),
    "the right of an outer join": (
        "SELECT q.question_id AS k FROM answers a LEFT JOIN questions q ON q.question_id = a.question_id",
        None,
    ),
    "an outer join by no key": (
        "SELECT q.question_id AS k FROM questions q LEFT JOIN answers a ON a.day = DATE '2024-01-01'",
        None,
    ),
    "a union": (
        "SELECT question_id AS k FROM questions UNION ALL SELECT question_id FROM answers",
        None,
    ),
    "public rows": ("SELECT topic AS k FROM topics", 2),
}
"""The most rows of all units with one value of `k`; None where no fact says so."""


@pytest.mark.parametrize("name", BOUNDS)
def test_rows_with_one_key_are_bounded_by_facts_alone(name: str) -> None:
    policy, engine = forum()
    sql, most = BOUNDS[name]
    relation = resolve(parse(sql), policy, Identities()).relation
    key = frozenset({relation.fields[0].id})
    kernel = Kernel(policy, frequency=engine.public.frequency)
    assert kernel.most_alike(relation, key) == most
    views = policy.with_tables(lambda t: replace(t, view=t.private))
    if most is not None and "group" not in name and name != "public rows":
        assert replace(kernel, policy=views).most_alike(relation, key) is None
    counted = (
        f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM ({sql}) WHERE k IS NOT NULL GROUP BY k)"
    )
    assert most is None or engine.rows(counted)[0][0] <= most


def test_check_counts_the_values_that_more_rows_share() -> None:
    policy, engine = forum()
    lower = policy.with_tables(
        lambda t: replace(t, max_rows_per_key=(("question_id", 2),)) if t.name == "answers" else t
    )
    findings, facts = check(lower, Lines(""), engine.rows)
    (found,) = [f.message for f in findings if f.kind == "keys"]
    assert found == "answers: 1 values of question_id have more than 2 rows."
    assert not [f for f in facts if f.table == "answers.(question_id)"]


def test_too_many_joined_rows_of_one_user_are_refused() -> None:
    policy, engine = forum()
    few = replace(policy, limits=replace(policy.limits, max_fanout=18))
    with pytest.raises(Refused) as caught:
        compiled(ASKED, few, engine)
    assert caught.value.reason is Reason.TOO_LARGE
    assert "(19)" in str(describe(caught.value, ASKED))


def test_the_claim_is_counted_on_the_data() -> None:
    """`check --proofs` counts joined rows that name one user: of user 1, four questions' pairs."""
    policy, engine = forum()
    counted = ProofCounter(policy, engine.public, engine.rows).count(ASKED)
    assert [(c.claim, c.bound, c.most) for c in counted.claims] == [
        ("joined rows that name one unit", 19, 4)
    ]


def test_the_limit_is_in_the_comment_on_its_column() -> None:
    policy, _engine = forum()
    answers = policy.table("answers")
    assert answers is not None
    said = {c.name: column_comment(policy, answers, c) or "" for c in answers.columns}
    limited = [name for name, text in said.items() if "at most 5 rows of all units" in text]
    assert limited == ["question_id"]


def test_coarser_groups_are_no_advice() -> None:
    """Joined rows in many groups need no more noise than in one (R4)."""
    policy, engine = forum()
    assert helps(compiled(ASKED, policy, engine).blocks) == (FewerRows(19),)


def test_a_prepared_store_is_not_read() -> None:
    policy, engine = forum()
    (block,) = compiled(ASKED, policy, engine).blocks
    store: Any = None
    with patch.object(stored_rows, "_Stored", side_effect=AssertionError):
        assert stored_rows._over_store(block, policy, store, Identities()) is block


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("{ question = 5 }", "answers.question is not listed."),
        ("{ question_id = 0 }", "question_id must be a whole number from 1."),
        ("{ question_id = 5, QUESTION_ID = 6 }", "are one name in SQL."),
        ("{ share = 5 }", "in which 0.0 and -0.0 are equal."),
    ],
)
def test_a_limit_of_rows_with_one_key_names_a_column(limit: str, why: str, tmp_path: Path) -> None:
    text = (CATALOGS / "forum.toml").read_text("utf-8")
    text = text.replace("{ question_id = 5 }", limit).replace("day = {", "share = {}\nday = {")
    (tmp_path / "dpsql.toml").write_text(text, "utf-8")
    connection = duckdb.connect()
    connection.execute(f"{FORUM}; ALTER TABLE answers ADD COLUMN share DOUBLE")
    with pytest.raises(PolicyError) as caught:
        bind(
            load(str(tmp_path / "dpsql.toml")),
            Schema(declared(PlainEngine(connection).rows), "here"),
            lambda *_: (),
        )
    assert why in str(caught.value)
