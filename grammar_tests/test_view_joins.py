"""Private views that join: accepted where the unit is compared on every private side (R98).

All columns are whole numbers, so that random views compare anything with anything. What is accepted
has to be local: without a person, the rows that are not theirs stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model import view_rows
from dpsql.model.errors import PolicyError
from dpsql.model.schema import Schema, SchemaTable
from dpsql.model.vocabulary import FactKind, Policy
from dpsql.owner.prepared_tables import prepared_tables
from dpsql.policy import bind as binding
from dpsql.policy import private_views
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation import view_joins
from dpsql.preparation.views import with_views
from grammar_tests.laws import PlainEngine, compiled, integers, violation
from grammar_tests.test_laws import halved

TABLES = {
    "people": "pid PRIMARY KEY, city, n",
    "visits": "vid PRIMARY KEY, pid, day",
    "labs": "lid PRIMARY KEY, vid, x",
    "cards": "cid PRIMARY KEY, pid, colour",
    "areas": "city PRIMARY KEY, area",
    "zones": "city, zone",
}
COLUMNS = {name: [c.split()[0] for c in text.split(",")] for name, text in TABLES.items()}
LINKS = {
    "visits": ("pid", "people.pid"),
    "labs": ("vid", "visits.vid"),
    "cards": ("pid", "people.pid"),
}
PUBLIC = ("areas", "zones")
UNITS, SEEDS = (1, 2, 3), 5


def rows_of(dice: Random) -> dict[str, list[tuple[Any, ...]]]:
    """Random rows; links may be NULL or lead nowhere, and values are those of other columns."""
    units = dice.sample(UNITS, dice.randint(0, 3))

    def some() -> int | None:
        return dice.choice([None, 9, 1, 2, 3])

    return {
        "people": [(unit, dice.randint(1, 2), dice.randint(1, 3)) for unit in units],
        "visits": [(n, some(), dice.randint(1, 3)) for n in range(1, dice.randint(1, 6))],
        "labs": [(n, some(), dice.randint(1, 3)) for n in range(1, dice.randint(1, 6))],
        "cards": [(n, some(), dice.randint(1, 3)) for n in range(1, dice.randint(1, 5))],
        "areas": [(1, 1), (2, 3)],
        "zones": [(1, 1), (1, 2), (2, 3)],
    }


def without(unit: int) -> Iterator[str]:
    yield f"DELETE FROM labs WHERE vid IN (SELECT vid FROM visits WHERE pid = {unit})"
    yield from (f"DELETE FROM {name} WHERE pid = {unit}" for name in ("visits", "cards", "people"))


@cache
def databases() -> duckdb.DuckDBPyConnection:
    """Schemas of random rows, and of each without one unit or another."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for seed in range(SEEDS):
        rows = rows_of(Random(seed))  # noqa: S311 - a test's own
        for gone in (0, *UNITS):
            connection.execute(f"CREATE SCHEMA s{seed}_{gone}; SET schema = 's{seed}_{gone}'")
            create(connection)
            for name, listed in rows.items():
                for row in listed:
                    connection.execute(f"INSERT INTO {name} VALUES {row}".replace("None", "NULL"))
            for delete in without(gone) if gone else ():
                connection.execute(delete)
    return connection


def create(connection: duckdb.DuckDBPyConnection) -> None:
    for name, text in TABLES.items():
        columns = (
            f"{c.split()[0]} INTEGER {c.partition(' PRIMARY')[2] and 'PRIMARY KEY'}"
            for c in map(str.strip, text.split(","))
        )
        connection.execute(f"CREATE TABLE {name} ({', '.join(columns)})")


@cache
def empty() -> duckdb.DuckDBPyConnection:
    """The tables without a row."""
    connection = duckdb.connect()
    create(connection)
    return connection


def expanded(view: str) -> Schema:
    connection = empty()
    connection.execute(f"CREATE OR REPLACE VIEW seen AS {view}")
    return with_views(Schema(declared(PlainEngine(connection).rows)), DUCKDB)


def seen_of(schema: Schema) -> SchemaTable:
    seen = schema.table("seen")
    assert seen is not None
    return seen


def policy(
    schema: Schema, folder: Path, link: str, to: str = "people.pid", left_out: str = ""
) -> Policy:
    """The policy with the view and its base tables. Raises `PolicyError`."""
    head = '[database]\nengine = "duckdb"\npath = "data.duckdb"\n[privacy_unit]\n'
    parts = [f'{head}table = "people"\nkey = "pid"\n[defaults]\nnullable = true']
    links = LINKS | {"seen": (link, to)}
    columns = COLUMNS | {"seen": [c.name for c in seen_of(schema).columns]}
    for name, listed in columns.items():
        if name in left_out.split():
            continue
        access = "public" if name in PUBLIC else "private"
        parts.append(f'[tables.{name}]\naccess = "{access}"')
        if name in links:
            column, there = links[name]
            parts.append(f'link = {{ column = "{column}", references = "{there}" }}')
        if name not in (*PUBLIC, "seen"):
            parts.append(f'key = "{listed[0]}"')
        parts += [f"[tables.{name}.columns]", *(f"{c} = {{}}" for c in listed)]
    parts += ["[budgets.b]\nepsilon = 1.0\ndelta = 1e-6", '[analysts.ana]\nbudget = "b"']
    (folder / "dpsql.toml").write_text("\n".join(parts), "utf-8")
    return bind(load(str(folder / "dpsql.toml")), schema, lambda *_: [])


def rows_by_unit(
    sql: str, names: list[str], link: str, to: str, *, seed: int, gone: int = 0
) -> Counter[tuple[Any, ...]]:
    """The rows of a view, each behind its unit: NULL where the link leads to none."""
    connection = databases()
    connection.execute(f"SET schema = 's{seed}_{gone}'")
    listed = ", ".join(f"c{n}" for n in range(len(names)))
    at = f"c{names.index(link)}"
    unit = "people.pid" if to == "people.pid" else "up.pid"
    path = f"LEFT JOIN people ON people.pid = {at}"
    if to != "people.pid":
        path = f"LEFT JOIN visits v ON v.vid = {at} LEFT JOIN people AS up ON up.pid = v.pid"
    return Counter(
        connection.execute(f"SELECT {unit}, {listed} FROM ({sql}) AS r {path}").fetchall()
    )


def moved(schema: Schema, link: str, to: str) -> bool:
    """Whether a row of somebody else, or of nobody, changes when a unit goes."""
    rows = seen_of(schema).rows
    assert rows is not None
    names = [f.name for f in rows.fields]
    sql = DUCKDB.query(rows, tuple(f.ref for f in rows.fields))
    for seed in range(SEEDS):
        whole = rows_by_unit(sql, names, link, to, seed=seed)
        for (gone,) in databases().execute("SELECT pid FROM people").fetchall():
            rest = Counter({row: n for row, n in whole.items() if row[0] != gone})
            if rows_by_unit(sql, names, link, to, seed=seed, gone=gone) != rest:
                return True
    return False


# --- what is accepted, and near misses ------------------------------------------------------------

ACCEPTED = {
    "SELECT v.pid, v.day, p.n FROM visits v JOIN people p ON p.pid = v.pid": "",
    "SELECT v.pid, v.day, p.n FROM visits v LEFT JOIN people p ON p.pid = v.pid": "",
    "SELECT p.pid, v.day FROM people p JOIN visits v ON v.pid = p.pid WHERE v.day > 1": "",
    "SELECT p.pid, v.day FROM people p LEFT JOIN visits v ON v.pid = p.pid AND v.day = p.n": "",
    "SELECT v.pid, l.x FROM labs l JOIN visits v ON l.vid = v.vid": "",
    "SELECT v.pid, l.x FROM visits v LEFT JOIN labs l ON l.vid = v.vid": "",
    "SELECT v.pid, l.x, n FROM labs l JOIN visits v USING (vid) JOIN people p USING (pid)": "",
    "SELECT l.vid, v.day, v.pid FROM labs l LEFT JOIN visits v ON l.vid = v.vid": "vid",
    "SELECT p.pid, a.area FROM people p JOIN areas a ON a.city = p.city": "",
    "SELECT p.pid, a.area FROM people p LEFT JOIN areas a USING (city)": "",
    "SELECT pid, area FROM (SELECT pid, city AS c FROM people) p JOIN areas ON c = city": "",
    "SELECT v.pid, v.day, w.vid AS other FROM visits v JOIN visits w ON v.vid = w.vid"
    " AND v.pid = w.pid": "",
}
REFUSED = {
    "SELECT v.pid, p.n FROM visits v JOIN people p ON p.pid = v.vid": "none of it",
    "SELECT p.pid, v.day FROM visits v LEFT JOIN people p ON p.pid = v.pid": "always there",
    "SELECT v.pid, l.x FROM labs l LEFT JOIN visits v ON l.vid = v.vid": "always there",
    "SELECT v.pid, c.colour FROM visits v JOIN cards c ON c.pid = v.pid": "joins tables",
    "SELECT v.pid, c.colour FROM visits v JOIN cards c ON c.cid = v.vid": "none of it",
    "SELECT v.pid, c.colour FROM visits v LEFT JOIN cards c ON c.cid = v.vid": "none of it",
    "SELECT p.pid, z.zone FROM people p JOIN zones z ON z.city = p.city": "",
    "SELECT p.pid, z.zone FROM people p CROSS JOIN zones z": "joins tables",
    "SELECT p.pid, v.day FROM people p FULL JOIN visits v ON v.pid = p.pid": "joins tables",
    "SELECT p.pid, v.day FROM people p JOIN visits v ON v.pid = p.pid OR v.day = 1": "joins",
    "SELECT p.pid, v.day FROM people p JOIN visits v ON v.pid IS NOT DISTINCT FROM p.pid": "joins",
    "SELECT p.pid + 0 AS pid, v.day FROM people p JOIN visits v ON v.pid = p.pid": "always there",
    "SELECT a.city AS pid, p.n FROM people p JOIN areas a ON a.city = p.pid": "always there",
    "SELECT v.pid, w.day FROM visits v JOIN visits w ON v.vid = w.vid": "",
}
"""Near misses, with what the refusal says; a self-join by the key alone compares no unit."""


@pytest.mark.parametrize("view", ACCEPTED)
def test_a_join_that_compares_the_unit_is_accepted_and_local(view: str, tmp_path: Path) -> None:
    link = ACCEPTED[view] or "pid"
    to = "visits.vid" if ACCEPTED[view] else "people.pid"
    schema = expanded(view)
    bound = policy(schema, tmp_path, link, to)
    assert not moved(schema, link, to)
    assert "seen" not in {table.name for table in prepared_tables(bound)}
    rows = seen_of(schema).rows
    assert rows is not None
    ours = DUCKDB.query(rows, tuple(f.ref for f in rows.fields))
    assert '"seen"' not in ours
    connection = databases()
    for seed in range(SEEDS):
        connection.execute(f"SET schema = 's{seed}_0'")
        plain = Counter(connection.execute(view).fetchall())
        assert Counter(connection.execute(ours).fetchall()) == plain


@pytest.mark.parametrize("view", REFUSED)
def test_a_join_that_does_not_is_refused(view: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(expanded(view), tmp_path, "pid")
    assert "view seen" in caught.value.message
    assert REFUSED[view] in caught.value.message
    assert "CREATE TABLE seen_rows AS SELECT * FROM seen" in caught.value.fix


def test_tables_that_the_policy_does_not_name_are_somebodys(tmp_path: Path) -> None:
    """They belong to whom the equated column names; no table is public that is not called so."""
    by_link = expanded("SELECT v.pid, c.colour FROM people v JOIN cards c ON c.pid = v.pid")
    policy(by_link, tmp_path, "pid", left_out="cards")
    looked_up = expanded("SELECT p.pid, a.area FROM people p JOIN areas a ON a.city = p.city")
    policy(looked_up, tmp_path, "pid")
    with pytest.raises(PolicyError, match="joins areas"):
        policy(looked_up, tmp_path, "pid", left_out="areas")


# --- random views ---------------------------------------------------------------------------------


def random_view(seed: int) -> tuple[str, str, str]:
    """A view of two or three tables by random equalities, its link, and where that leads."""
    dice = Random(seed)  # noqa: S311 - a test's own
    names = [dice.choice(list(TABLES)) for _ in range(dice.choice([2, 2, 3]))]
    text = f"{names[0]} AS t0"
    for n, name in enumerate(names[1:], 1):
        pairs = set[str]()
        for _ in range(dice.choice([1, 1, 2])):
            before = dice.randrange(n)
            common = [c for c in COLUMNS[name] if c in COLUMNS[names[before]]]
            here = dice.choice(common or COLUMNS[name])
            there = here if common and dice.random() < 0.8 else dice.choice(COLUMNS[names[before]])
            pairs.add(f"t{n}.{here} = t{before}.{there}")
        kind = dice.choice(["JOIN", "JOIN", "LEFT JOIN"])
        text += f" {kind} {name} AS t{n} ON {' AND '.join(sorted(pairs))}"
    listed = [f"t{n}.{c} AS {c}{n}" for n, name in enumerate(names) for c in COLUMNS[name]]
    linked = [
        f"{c}{n}" for n, name in enumerate(names) for c in COLUMNS[name] if c in ("pid", "vid")
    ]
    link = dice.choice(linked or [f"{COLUMNS[names[0]][0]}0"])
    to = "visits.vid" if link.startswith("vid") and dice.random() < 0.9 else "people.pid"
    return f"SELECT {', '.join(listed)} FROM {text}", link, to


def random_views(folder: Path, count: int) -> Iterator[tuple[Schema, str, str]]:
    """The random views that a policy may call private."""
    for seed in range(count):
        view, link, to = random_view(seed)
        schema = expanded(view)
        try:
            bound = policy(schema, folder, link, to)
        except PolicyError:
            continue
        assert bound.table("seen") is not None
        yield schema, link, to


RANDOM = 160


@pytest.mark.full("draws random questions or values")
def test_random_joins_that_are_accepted_are_local(tmp_path: Path) -> None:
    """Law: without a person, the rows of all others and of nobody stay; keys are unique."""
    accepted = 0
    for schema, link, to in random_views(tmp_path, RANDOM):
        accepted += 1
        assert not moved(schema, link, to), seen_of(schema).query
        assert not repeated(schema), seen_of(schema).query
    assert accepted > 10


def repeated(schema: Schema) -> bool:
    """Whether two rows of a view have a key that is said to be unique, without NULL in it."""
    seen, connection = seen_of(schema), databases()
    for key in seen.unique_keys:
        listed = ", ".join(f'"{c}"' for c in key)
        there = " AND ".join(f'"{c}" IS NOT NULL' for c in key)
        for seed in range(SEEDS):
            connection.execute(f"SET schema = 's{seed}_0'")
            sql = (
                f"SELECT 1 FROM ({seen.query}) WHERE {there} GROUP BY {listed} HAVING COUNT(*) > 1"
            )
            if connection.execute(sql).fetchall():
                return True
    return False


@pytest.mark.full("draws random questions or values")
def test_where_units_are_not_compared_others_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin: any join is taken for local."""
    monkeypatch.setattr(binding, "check_views", lambda *_: None)
    assert any(moved(*each) for each in random_views(tmp_path, RANDOM))


def test_a_side_that_may_be_absent_says_nothing_of_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin: the link is that of the right side of a LEFT JOIN."""
    plain = view_rows.sides_of

    def always_there(rows: Any) -> Any:
        sides = plain(rows)
        assert sides is not None
        return replace(sides, sides=tuple(replace(s, optional=False) for s in sides.sides))

    monkeypatch.setattr(private_views, "sides_of", always_there)
    there = "p.pid = v.pid AND p.n = v.day"
    schema = expanded(f"SELECT p.pid, v.day FROM visits v LEFT JOIN people p ON {there}")
    policy(schema, tmp_path, "pid")
    assert moved(schema, "pid", "people.pid")


def test_rows_that_a_join_repeats_have_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin: the keys of both sides stay unique."""

    def both(join: Any, tables: Any) -> Any:
        sides = (view_joins.unique_keys(side, tables) for side in (join.left, join.right))
        return frozenset().union(*sides)

    monkeypatch.setattr(view_joins, "_joined_keys", both)
    assert any(repeated(schema) for schema, *_ in random_views(tmp_path, RANDOM))


def test_constraints_that_a_join_keeps_are_facts(tmp_path: Path) -> None:
    view = "SELECT v.vid, v.pid, p.city, a.area FROM visits v JOIN people p USING (pid)"
    schema = expanded(f"{view} LEFT JOIN areas a ON a.city = p.city")
    seen = seen_of(schema)
    assert (seen.unique_keys, seen.primary_key) == ((("vid",),), ("vid",))
    assert [c.name for c in seen.columns if c.not_null] == ["vid"]
    bound = policy(schema, tmp_path, "pid")
    assert not {f.kind for f in bound.facts if f.table == "seen"} & {FactKind.MAX_ROWS}
    twice = "SELECT p.pid, v.vid FROM people p LEFT JOIN visits v ON v.pid = p.pid"
    assert seen_of(expanded(twice)).unique_keys == ()


QUESTIONS = (
    "SELECT COUNT(*) AS n FROM seen",
    "SELECT COUNT(DISTINCT pid) AS n FROM seen",
    "SELECT COUNT(*) AS n FROM seen AS a JOIN people AS b ON a.pid = b.pid WHERE b.n > 1",
)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_person_of_a_joined_view_moves_no_more_than_claimed(tmp_path: Path) -> None:
    """Law 2 from text to integers; the wrong twin halves what is claimed."""
    engine, caught = PlainEngine(databases()), 0
    for view, link in ACCEPTED.items():
        if link:
            continue
        bound = policy(expanded(view), tmp_path, "pid")
        for sql in QUESTIONS:
            plan = compiled(sql, bound, engine)
            for seed in range(SEEDS):
                databases().execute(f"SET schema = 's{seed}_0'")
                here = integers(plan, engine)
                for (gone,) in databases().execute("SELECT pid FROM people").fetchall():
                    databases().execute(f"SET schema = 's{seed}_{gone}'")
                    there = integers(plan, engine)
                    assert violation(plan, here, there) is None, (view, sql)
                    caught += violation(halved(plan), here, there) is not None
    assert caught
