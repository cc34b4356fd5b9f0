"""Catalogs bound to databases in this process: what the cases and laws run over."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Neighbours, Policy
from dpsql.owner.check import check
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from dpsql.preparation.bound_policy import with_groupings
from dpsql.preparation.public_data import PublicTables
from grammar_tests import path_worlds, world
from grammar_tests.laws import PlainEngine
from grammar_tests.link_worlds import crossing

CATALOGS = Path(__file__).parent / "catalogs"


def over(
    tables: world.Tables,
    *,
    constraints: bool,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    recorded: bool = False,
) -> tuple[Policy, PlainEngine]:
    """The shop's policy over these rows.

    Its proofs lean on constraints, on the facts that a check of the rows records, or on nothing.
    """
    engine = PlainEngine(world.build(tables, constraints=constraints))
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "shop.toml")), schema, PublicTables(engine, DUCKDB).values)
    policy = replace(policy, unit=replace(policy.unit, neighbours=neighbours))
    facts = check(policy, Lines(""), engine.rows)[1] if recorded else frozenset()
    return replace(policy, facts=policy.facts | facts), engine


@cache
def transfers() -> tuple[Policy, PlainEngine]:
    """People named by several links of a table `t`, which a recorded fact bounds."""
    world = crossing(1)
    with TemporaryDirectory() as folder:
        policy = world.policy(Path(folder), recorded=True, most=world.most_rows(world.table("t")))
    return policy, world.engine()


@cache
def paths() -> tuple[Policy, PlainEngine]:
    """Five tables by several paths, with the facts of a check: columns lead to the same person."""
    clean = path_worlds.world(0)
    with TemporaryDirectory() as folder:
        return clean.policy(Path(folder), recorded=True), clean.engine()


FORUM = """
CREATE TABLE users (user_id INTEGER, region VARCHAR);
INSERT INTO users VALUES (1, 'north'), (2, 'south'), (3, 'north');
CREATE TABLE questions (question_id INTEGER, user_id INTEGER, topic VARCHAR);
INSERT INTO questions VALUES (1, 1, 'sql'), (2, 1, 'privacy'), (3, 2, 'sql'), (4, NULL, 'sql'),
    (5, 9, 'sql');
CREATE TABLE answers
    (answer_id INTEGER, question_id INTEGER, user_id INTEGER, score INTEGER, day DATE);
INSERT INTO answers VALUES (1, 1, 2, 3, '2024-01-01'), (2, 1, 3, 10, '2024-01-02'),
    (3, 1, 1, 4, '2024-01-03'), (4, 2, 2, 5, '2024-02-01'), (5, 3, 1, -1, '2024-02-02'),
    (6, NULL, 1, 3, '2024-02-03'), (7, 8, 1, 3, '2024-03-01'), (8, 4, 2, 3, '2024-03-02'),
    (9, 5, 2, 3, '2024-03-03');
CREATE TABLE votes (answer_id INTEGER, user_id INTEGER);
INSERT INTO votes VALUES (1, 1), (1, 3), (4, 3);
CREATE TABLE topics (topic VARCHAR, area VARCHAR);
INSERT INTO topics VALUES ('sql', 'tools'), ('sql', 'work'), ('privacy', 'work');
"""


@cache
def forum() -> tuple[Policy, PlainEngine]:
    """A forum with the facts of a check: questions and answers of several users meet by key."""
    connection = duckdb.connect()
    connection.execute(FORUM)
    engine = PlainEngine(connection)
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "forum.toml")), schema, PublicTables(engine, DUCKDB).values)
    return replace(policy, facts=policy.facts | check(policy, Lines(""), engine.rows)[1]), engine


@cache
def shop() -> tuple[Policy, PlainEngine]:
    """The shop with constraints and well-behaved data."""
    return over(world.well_behaved(), constraints=True)


LIMITS = {
    "max_groups_per_unit = 3\nmax_rows_per_group = 10\n": 'max_groups_per_unit = { "*" = 3,'
    ' note_length = 8, note = 2 }\nmax_rows_per_group = { "*" = 10, status = 4,'
    " \"date_trunc('week', placed_at)\" = 2 }\n",
    "amount = { bounds = [0.0, 500.0] }": "amount = { bounds = [0.0, 500.0], max_per_unit = 700 }",
    "max_rows_per_unit = 50\n": "",
}
"""What the owner of the shop might know of orders, instead of what the catalog says."""


@cache
def limits() -> tuple[Policy, PlainEngine]:
    """The shop whose orders have limits by grouping, and of a total."""
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    for old, new in LIMITS.items():
        assert old in text
        text = text.replace(old, new)
    return bound_by(text)


@cache
def unlimited() -> tuple[Policy, PlainEngine]:
    """The shop of whose rows no limit is declared: all of them are found."""
    lines = (CATALOGS / "shop.toml").read_text("utf-8").splitlines()
    limits = "max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group"
    return bound_by("\n".join(line for line in lines if not line.startswith(limits)))


def bound_by(text: str) -> tuple[Policy, PlainEngine]:
    """The shop under the policy of this text."""
    engine = PlainEngine(world.build(world.well_behaved(), constraints=True))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dpsql.toml"
        path.write_text(text, "utf-8")
        draft = load(str(path))
    schema = Schema(declared(engine.rows), "here")
    return with_groupings(bind(draft, schema, PublicTables(engine, DUCKDB).values), draft), engine
