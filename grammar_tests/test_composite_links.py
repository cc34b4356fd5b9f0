"""Links and keys of several columns, and columns that determine the unit, against brute force.

Sales have a key of two columns, by which returns link to them and gifts name a buyer beside a
payee. Whose a row is, is computed here from the rows alone, as PRIVACY.md R2 says it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import pytest

from dpsql.compiler.track import joins, units
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.interfaces.comments import column_comment
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.resources import Database
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Fact, FactKind, Policy, Voucher
from dpsql.owner.check import check
from dpsql.policy.bind import bind
from dpsql.policy.init import draft
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from dpsql.preparation.public_data import PublicTables
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    engine_of,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
    without_kernel,
)

Row = tuple[Any, ...]
WORLDS, FEW = 6, 3
PEOPLE = (1, 2, 3)
COLUMNS = {
    "people": ("pid", "v"),
    "sales": ("item", "ticket", "pid", "v"),
    "returns": ("of_ticket", "of_item", "v"),
    "gifts": ("item", "ticket", "payee", "v"),
}
POLICY = """
[database]
engine = "duckdb"
path = "links.duckdb"
[privacy_unit]
table = "people"
key = "pid"
[budgets.default]
epsilon = 1000.0
delta = 1e-3
[analysts.ana]
budget = "default"
[tables.people]
access = "private"
key = "pid"
[tables.people.columns]
pid = {}
v = { bounds = [-5, 10], nullable = true }
[tables.sales]
access = "private"
key = ["item", "ticket"]
link = { column = "pid", references = "people.pid" }
determines_unit = ["ticket"]
max_rows_per_unit = 50
max_rows_per_group = 50
[tables.sales.columns]
item = {}
ticket = { nullable = true }
pid = { nullable = true }
v = { bounds = [-5, 10], nullable = true }
[tables.returns]
access = "private"
link = { column = ["of_ticket", "of_item"], references = "sales.(ticket, item)" }
max_rows_per_unit = 50
max_rows_per_group = 50
[tables.returns.columns]
of_ticket = { nullable = true }
of_item = { nullable = true }
v = { bounds = [-5, 10], nullable = true }
[tables.gifts]
access = "private"
max_rows_per_unit = MOST
links = [
  { column = ["item", "ticket"], references = "sales.(item, ticket)" },
  { column = "payee", references = "people.pid" },
]
[tables.gifts.columns]
item = { nullable = true }
ticket = { nullable = true }
payee = { nullable = true }
v = { bounds = [-5, 10], nullable = true }
"""
MET = "s.item = r.of_item AND r.of_ticket = s.ticket"
ALWAYS = (
    "SELECT COUNT(*), SUM(v) FROM returns",
    f"SELECT SUM(r.v), COUNT(s.v) FROM returns r JOIN sales s ON {MET}",
    f"SELECT COUNT(*) FROM sales s, people p, returns r WHERE p.pid = s.pid AND {MET}",
    f"SELECT COUNT(s.v) FROM sales s WHERE EXISTS (SELECT 1 FROM returns r WHERE {MET})",
    f"SELECT SUM(s.v) FROM sales s WHERE NOT EXISTS (SELECT 1 FROM returns r WHERE {MET})",
    f"SELECT SUM(s.v), COUNT(r.v) FROM sales s LEFT JOIN returns r ON {MET}",
    (
        "SELECT SUM(LEAST(n, 9)) FROM"
        " (SELECT of_item, of_ticket, COUNT(*) AS n FROM returns GROUP BY 1, 2) AS t"
    ),
    "SELECT COUNT(*) FROM returns a JOIN returns b USING (of_ticket, of_item)",
)
"""Questions that no fact has to be recorded for."""
BY_TICKET = (
    "SELECT COUNT(*) FROM (SELECT ticket, SUM(v) AS s FROM sales GROUP BY ticket) AS t",
    "SELECT COUNT(DISTINCT s.pid) FROM sales s JOIN sales t ON s.ticket = t.ticket AND t.v > 3",
    "SELECT SUM(t.v) FROM sales s JOIN sales t ON s.ticket = t.ticket",
    (
        "SELECT COUNT(*) FROM sales s WHERE EXISTS"
        " (SELECT 1 FROM sales t WHERE t.ticket = s.ticket AND t.item <> s.item)"
    ),
    (
        "SELECT SUM(s.v) FROM sales s WHERE s.ticket NOT IN"
        " (SELECT of_ticket FROM returns WHERE of_ticket IS NOT NULL)"
    ),
    (
        "SELECT SUM(v) FROM (SELECT v, ROW_NUMBER() OVER (PARTITION BY ticket ORDER BY v) AS n"
        " FROM sales) AS t WHERE n = 1 AND v > 9"
    ),
    "SELECT COUNT(*) FROM returns r LEFT JOIN sales s ON s.ticket = r.of_ticket",
)
"""Questions that lean on a ticket's being of one person."""
SEVERAL = "SELECT COUNT(*), SUM(v) FROM gifts"


@dataclass(frozen=True, slots=True)
class World:
    """Rows of each table, in the order of its columns."""

    rows: dict[str, tuple[Row, ...]]

    def buyers(self, item: Any, ticket: Any) -> frozenset[int]:
        """The people behind a key of sales, there or not: behind every row that has it."""
        if item is None or ticket is None:
            return frozenset()
        return frozenset(r[2] for r in self.rows["sales"] if r[:2] == (item, ticket)) - {None}

    def reached(self, table: str, row: Row) -> list[frozenset[int]]:
        """The people to whom each link of a row leads."""
        match table:
            case "people":
                return [frozenset({row[0]})]
            case "sales":
                return [frozenset({row[2]} - {None})]
            case "returns":
                return [self.buyers(row[1], row[0])]
            case _:
                return [self.buyers(row[0], row[1]), frozenset({row[2]} - {None})]

    def owners(self, table: str, row: Row) -> frozenset[int]:
        """Whose a row is: nobody's where a link leads to several."""
        there = {person[0] for person in self.rows["people"]}
        behind = self.reached(table, row)
        several = any(len(people) > 1 for people in behind)
        return frozenset() if several else frozenset().union(*behind) & there

    def without(self, unit: int) -> World:
        """The neighbour: every row from which a path of links leads to the person is gone."""
        return World(
            {
                name: tuple(r for r in rows if not any(unit in b for b in self.reached(name, r)))
                for name, rows in self.rows.items()
            }
        )

    def owned(self) -> World:
        """The rows that belong to somebody."""
        return World(
            {
                name: tuple(r for r in rows if self.owners(name, r))
                for name, rows in self.rows.items()
            }
        )

    def most_gifts(self) -> int:
        """The most gifts that name one person and belong to somebody."""
        named = [
            frozenset().union(*self.reached("gifts", row))
            for row in self.rows["gifts"]
            if self.owners("gifts", row)
        ]
        return max([1, *(sum(unit in each for each in named) for unit in PEOPLE)])

    def engine(self) -> PlainEngine:
        return engine_of(
            (
                name,
                [f"{column} INTEGER" for column in columns],
                [dict(zip(columns, row, strict=True)) for row in self.rows[name]],
            )
            for name, columns in COLUMNS.items()
        )

    def policy(self, folder: Path, facts: tuple[Fact, ...] = (), *, recorded: bool) -> Policy:
        """The policy with the facts that a check of these rows records, if any."""
        file = folder / "dpsql.toml"
        file.write_text(POLICY.replace("MOST", str(self.most_gifts())))
        engine = self.engine()
        schema = Schema(declared(engine.rows), "here")
        policy = bind(load(str(file)), schema, PublicTables(engine, DUCKDB).values)
        found = check(policy, Lines(""), engine.rows)[1] if recorded else frozenset[Fact]()
        bound = Fact(FactKind.MAX_ROWS, "gifts", Voucher.CHECK)
        return replace(policy, facts=policy.facts | found | {bound, *facts})


def world(number: int) -> World:
    """World `number`: from clean ones to such as have shared keys, tickets of several, NULLs."""
    chance, odd = Random(number), number % 3  # noqa: S311
    value = (None, -5, 0, 3, 10)
    holders = {ticket: chance.choice(PEOPLE) for ticket in range(1, 6)}
    sales: list[Row] = []
    for ticket, holder in holders.items():
        items = chance.sample((1, 2, 3), chance.choice((1, 2, 3)))
        sales += [(item, ticket, holder, chance.choice(value)) for item in items]
    for _ in range(4 if odd else 0):  # a ticket of two people, and perhaps a key
        shared = chance.choice((1, 2, None if odd > 1 else 3))
        anybody = chance.choice((*PEOPLE, 9, None)) if odd > 1 else chance.choice(PEOPLE)
        sales.append((chance.choice((1, 2)), shared, anybody, chance.choice(value)))
    keys = [row[:2] for row in sales] + ([(1, None), (7, 7), (None, 1)] if odd else [])
    named = [(*chance.choice(keys), chance.choice(value)) for _ in range(9)]
    returns = [(ticket, item, v) for item, ticket, v in named]
    payees = (*PEOPLE, None, 9) if odd else PEOPLE
    gifts = [(*chance.choice(keys), chance.choice(payees), chance.choice(value)) for _ in range(7)]
    people = [(unit, chance.choice(value)) for unit in PEOPLE]
    rows = {"people": people, "sales": sales, "returns": returns, "gifts": gifts}
    return World({name: tuple(listed) for name, listed in rows.items()})


def wrong(there: World, policy: Policy, questions: tuple[str, ...]) -> Iterator[str]:
    """What is answered otherwise than over the rows of one person each, or moves too far."""
    engine, owned = there.engine(), there.owned().engine()
    without = {unit: there.without(unit).engine() for unit in PEOPLE}
    for sql in questions:
        plan = compiled(sql, policy, engine)
        if not same_rows(*noiseless(plan, engine), owned.rows(sql)):
            yield f"answer: {sql}"
        here, released = integers(plan, engine), noiseless_blocks(plan, engine)
        for unit in PEOPLE:
            why = violation(plan, here, integers(plan, without[unit], released))
            if why is not None:
                yield f"distance: {sql} without {unit}: {why}"


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("number", range(WORLDS))
def test_rows_are_those_of_one_person_each_and_move_no_other(number: int, tmp_path: Path) -> None:
    there = world(number)
    recorded = there.policy(tmp_path, recorded=True)
    tickets = recorded.fact(FactKind.ONE_UNIT, "sales.(ticket)")
    assert (tickets is not None) == (number % 3 == 0)
    policy = recorded if number % 2 else there.policy(tmp_path, recorded=False)
    assert list(wrong(there, policy, (*ALWAYS, SEVERAL))) == []
    if tickets is not None:
        assert list(wrong(there, recorded, BY_TICKET)) == []


@pytest.mark.parametrize("sql", BY_TICKET[1:])
def test_the_owners_word_is_no_proof(sql: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as error:
        compiled(sql, world(0).policy(tmp_path, recorded=False), world(0).engine())
    assert error.value.reason in (Reason.UNEQUAL_UNITS, Reason.UNSUPPORTED_PRIVATE_OPERATOR)


@pytest.mark.parametrize("on", ["s.item = r.of_item", "s.ticket = r.of_ticket", "s.v = r.v"])
def test_a_part_of_a_key_is_not_the_key(on: str, tmp_path: Path) -> None:
    sql = f"SELECT COUNT(*) FROM sales s JOIN returns r ON {on}"
    with pytest.raises(Refused) as error:
        compiled(sql, world(0).policy(tmp_path, recorded=False), world(0).engine())
    assert error.value.reason is Reason.UNEQUAL_UNITS


@pytest.mark.full("measures neighbours or further data sets")
def test_keys_of_several_people_that_lend_one_are_found(tmp_path: Path) -> None:
    """The wrong twin: rows under a key that several people share are somebody's."""
    found = (why for n in range(WORLDS) for why in _unrecorded(n, tmp_path, ALWAYS))
    with patch.object(units, "Filter", lambda relation, _predicate: relation), without_kernel():
        assert any(why.startswith("answer") for why in found)


def test_a_determination_that_does_not_hold_is_found(tmp_path: Path) -> None:
    """A ticket of two people that is taken for one: the answer is wrong, and nobody moves it.

    In the wrong twin the units are not compared, and somebody does.
    """
    fact = Fact(FactKind.ONE_UNIT, "sales.(ticket)", Voucher.CHECK)
    asked = BY_TICKET[1:2]
    found = [why for n in range(FEW) for why in _unrecorded(n, tmp_path, asked, fact)]
    assert {why.split(":")[0] for why in found} == {"answer"}
    with (
        patch.object(joins, "_of_one_unit", lambda linked, *sides: (linked, *sides[:2])),
        without_kernel(),
    ):
        moved = (why for n in range(WORLDS) for why in _unrecorded(n, tmp_path, asked, fact))
        assert any(why.startswith("distance") for why in moved)


def _unrecorded(
    number: int, folder: Path, questions: tuple[str, ...], *facts: Fact
) -> Iterator[str]:
    there = world(number)
    yield from wrong(there, there.policy(folder, facts, recorded=False), questions)


@pytest.mark.full("measures neighbours or further data sets")
def test_check_counts_what_breaks_them(tmp_path: Path) -> None:
    told = []
    for number in range(WORLDS):
        there = world(number)
        policy = there.policy(tmp_path, recorded=False)
        findings, _ = check(policy, Lines(""), there.engine().rows)
        shared = sum(len(there.buyers(row[1], row[0])) > 1 for row in there.rows["returns"])
        below = [f for f in findings if f.table == "returns" and "several units share" in f.message]
        assert sum(f.rows for f in below) == shared
        told += [f.message for f in findings if "are of several units" in f.message]
    assert any(message.startswith("sales: 2 values of ticket") for message in told)


CONSTRAINED = """
CREATE TABLE people (pid INTEGER PRIMARY KEY);
CREATE TABLE sales (item INTEGER, ticket INTEGER, pid INTEGER REFERENCES people (pid),
    PRIMARY KEY (item, ticket));
CREATE TABLE returns (i INTEGER, t INTEGER, FOREIGN KEY (i, t) REFERENCES sales (item, ticket))
"""


def test_a_draft_has_links_of_several_columns() -> None:
    connection = duckdb.connect()
    connection.execute(CONSTRAINED)
    schema = Schema(declared(PlainEngine(connection).rows), "here")
    text = draft(schema, Database("duckdb", "links.duckdb"))
    assert 'link = { column = ["i", "t"], references = "sales.(item, ticket)" }' in text


def test_a_link_of_several_columns_is_told_as_such(tmp_path: Path) -> None:
    policy = world(0).policy(tmp_path, recorded=False)
    returns = policy.table("returns")
    assert returns is not None
    (first, *_) = returns.columns
    comment = column_comment(policy, returns, first)
    assert comment == "leads to the privacy unit through sales.(ticket, item); may be NULL"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sales.(ticket, item)", "sales.ticket", "column names 2 columns, and references 1."),
        ("sales.(ticket, item)", "sales.(ticket, v)", "is not the declared key of sales"),
        ('["of_ticket", "of_item"]', '["of_ticket", "of_ticket"]', "are one name in SQL"),
        ('["ticket"]', '["tickets"]', "sales.tickets is not listed"),
        ('["ticket"]', "[[]]", "is no list of columns"),
        ('["ticket"]', "true", "determines_unit is no list"),
    ],
)
def test_mistakes_have_a_line_and_a_fix(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = POLICY.replace("MOST", "5")
    assert old in text
    file = tmp_path / "dpsql.toml"
    file.write_text(text.replace(old, new))
    with pytest.raises(PolicyError, match=message.replace("(", r"\(").replace(")", r"\)")) as error:
        load(str(file))
    assert error.value.fix
