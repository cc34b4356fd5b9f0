"""PostgreSQL reads one person otherwise than it stores them: keys, equality, order, long values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from dpsql.dialects.postgres import postgres_relations
from dpsql.dialects.postgres.postgres_block import PostgresBlock
from dpsql.engines.postgres import postgres_schema
from dpsql.model.algebra import Field
from dpsql.model.errors import PolicyError
from dpsql.model.schema import LONGEST_READ, SchemaColumn
from dpsql.model.tree import VARCHAR, StoredAs
from grammar_tests.postgres_kit import running
from grammar_tests.postgres_world import World, connected

SHOPS = [f"s{n}" for n in range(10)]
POLICY = f"""
[privacy_unit]
table = "people"
key = "pid"
[tables.people]
access = "private"
key = "pid"
[tables.people.columns]
pid = {{}}
[tables.visits]
access = "private"
key = "visit"
link = {{ column = "pid", references = "people.pid" }}
max_groups_per_unit = 2
max_rows_per_group = 1
[tables.visits.columns]
visit = {{}}
pid = {{}}
shop = {{ values = {SHOPS} }}
"""
ASKED = (
    "SELECT shop, COUNT(*) FROM visits GROUP BY shop",
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(DISTINCT pid) FROM visits",
    "SELECT shop, COUNT(DISTINCT v.pid) FROM visits v JOIN people p ON v.pid = p.pid GROUP BY shop",
    "SELECT COUNT(*) FROM people WHERE pid IN (SELECT pid FROM visits)",
)


@pytest.fixture(scope="module")
def pg() -> Iterator[psycopg.Connection[Any]]:
    with running() as server, connected(server) as connection:
        yield connection


def built(
    pg: psycopg.Connection[Any], people: str, visits: str, keys: list[str], same: str = "{0}"
) -> World:
    """People and their visits to all shops; `same` is how a visit spells its person, by shop."""
    pg.execute("DROP SCHEMA IF EXISTS public CASCADE")
    pg.execute("CREATE SCHEMA public")
    pg.execute(f"CREATE TABLE public.people (pid {people} PRIMARY KEY)")
    link = f"pid {visits} NOT NULL REFERENCES public.people (pid)"
    pg.execute(f"CREATE TABLE public.visits (visit INTEGER PRIMARY KEY, {link}, shop TEXT)")
    for key in keys:
        pg.execute(f"INSERT INTO public.people VALUES ('{key}')")
    for number, (key, shop) in enumerate((key, shop) for key in keys for shop in range(10)):
        spelled = same.format(key, " " * (shop % 3))
        values = f"({number}, '{spelled}', '{SHOPS[shop]}')"
        pg.execute(f"INSERT INTO public.visits VALUES {values}")
    return World(pg, POLICY)


def without(key: str) -> tuple[str, str]:
    delete = f"DELETE FROM public.{{}} WHERE pid = '{key}'"
    return delete.format("visits"), delete.format("people")


# --- a key that is read otherwise than it is stored ---


@pytest.mark.full("opens servers or connects clients")
def test_a_key_that_is_read_as_null_is_not_believed_to_be_there(
    pg: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [*map(str, range(1, 20)), "NaN"]
    numbered = built(pg, "NUMERIC(6, 0)", "NUMERIC(6, 0)", keys)
    assert [numbered.moved(sql, *without("NaN")) for sql in ASKED] == [None] * len(ASKED)
    assert [numbered.moved(sql, *without("7")) for sql in ASKED] == [None] * len(ASKED)
    table = numbered.schema.table("visits")
    assert table is not None
    assert [column.not_null for column in table.columns] == [True, False, False]
    assert [key.exact for key in table.foreign_keys] == [True]
    column = postgres_schema._column

    def stored(*args: Any, never_null: bool) -> SchemaColumn:
        return replace(column(*args, never_null=never_null), not_null=never_null)

    monkeypatch.setattr(postgres_schema, "_column", stored)
    believing = World(pg, POLICY)
    assert believing.moved(ASKED[0], *without("NaN")) is None  # groups of no unit do not count
    sampled = PostgresBlock._sampled

    def lenient(block: PostgresBlock, source: str) -> dict[str, str]:
        stages = sampled(block, source)
        return {name: sql.replace("u IS NOT NULL AND ", "") for name, sql in stages.items()}

    monkeypatch.setattr(PostgresBlock, "_sampled", lenient)
    found = [believing.moved(sql, *without("NaN")) for sql in ASKED]
    assert found[0] == "10 groups moved, 2 claimed"


@pytest.mark.full("opens servers or connects clients")
def test_long_texts_are_null_and_no_key_is_cut(
    pg: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that begin alike, which an index holds since they compress, would be one person."""
    keys = [*(f"p{n}" for n in range(9)), *("x" * (LONGEST_READ + n) for n in range(-2, 7))]
    long = built(pg, "TEXT", "TEXT", keys)
    gone = [key for key in keys if key.startswith("x")]
    for key in (gone[0], gone[-1], "p7"):
        assert [long.moved(sql, *without(key)) for sql in ASKED] == [None] * len(ASKED)
    ((counted,),) = [long.counted(long.plan("SELECT COUNT(DISTINCT pid) FROM visits"))]
    assert counted == {(): (9 + 3,)}
    pg.execute("ALTER TABLE public.visits ALTER shop SET NOT NULL")
    policy = World(pg, POLICY).policy
    (shop,) = [c for t in policy.tables for c in t.columns if c.name == "shop"]
    assert (shop.reading, shop.not_null) == (None, False)  # not cut, but a long one is NULL
    near = built(pg, "VARCHAR(16384)", "VARCHAR(16384)", keys[:9])
    assert [c.not_null for t in near.schema.tables for c in t.columns if c.name == "pid"] == [
        True
    ] * 2

    read = postgres_relations.column_sql

    def cut(alias: str, field: Field, reading: StoredAs | None) -> str:
        if field.type != VARCHAR:
            return read(alias, field, reading)
        return f'(left({alias}."{field.name}"::text, {LONGEST_READ}) COLLATE "C")'

    built(pg, "TEXT", "TEXT", keys)
    monkeypatch.setattr(postgres_relations, "column_sql", cut)
    twins = World(pg, POLICY)
    every = [
        f"DELETE FROM public.{t} WHERE length(pid) >= {LONGEST_READ}" for t in ("visits", "people")
    ]
    ((here,),) = [twins.counted(twins.plan("SELECT COUNT(DISTINCT pid) FROM visits"))]
    with twins.without(*every):
        ((there,),) = [twins.counted(twins.plan("SELECT COUNT(DISTINCT pid) FROM visits"))]
    assert (here[()][0], there[()][0]) == (12, 11)  # seven people, whom a unique key tells apart


NOTED = "SELECT COUNT(DISTINCT pid) FROM visits WHERE LENGTH(note) = 65536 AND note LIKE '%b'"


@pytest.mark.full("opens servers or connects clients")
def test_a_text_that_is_no_key_is_cut_before_any_function(
    pg: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(pg, "TEXT", "TEXT", [f"p{n}" for n in range(9)])
    note = "repeat('é', 65535) || 'b' || repeat('c', 5000)"
    pg.execute(f"ALTER TABLE public.visits ADD note TEXT NOT NULL DEFAULT {note}")
    noted = POLICY.replace("shop = {", "note = {}\nshop = {")
    long = World(pg, noted)
    assert long.counted(long.plan(NOTED)) == [{(): (9,)}]
    assert long.moved(NOTED, *without("p7")) is None
    (column,) = [c for t in long.policy.tables for c in t.columns if c.name == "note"]
    assert column.not_null

    def whole(alias: str, field: Field, _reading: StoredAs | None) -> str:
        return f'({alias}."{field.name}"::text COLLATE "C")'

    monkeypatch.setattr(postgres_relations, "column_sql", whole)
    twin = World(pg, noted)
    assert twin.counted(twin.plan(NOTED)) == [{(): (0,)}]


# --- the server's equality is not ours ---

LOOSE = "CREATE COLLATION public.loose (provider = icu, locale = 'und', deterministic = false)"
CITEXT = "CREATE EXTENSION citext SCHEMA public"


@pytest.mark.parametrize(
    ("people", "visits"),
    [("CHARACTER(200)", "TEXT"), ("TEXT", "CHARACTER(200)"), ("CHARACTER(9)", "CHARACTER(9)")],
)
def test_texts_that_differ_and_are_equal_on_the_server_identify_nobody(
    pg: psycopg.Connection[Any], people: str, visits: str
) -> None:
    padded = built(pg, people, visits, ["p1", "p2"])
    with pytest.raises(PolicyError, match=r"character\(\d+\), in which texts that differ may be"):
        _ = padded.policy
    assert [key.exact for table in padded.schema.tables for key in table.foreign_keys] == [False]


@pytest.mark.parametrize("kind", ["TEXT COLLATE public.loose", "public.citext"])
def test_collations_and_types_of_others_identify_nobody(
    pg: psycopg.Connection[Any], kind: str
) -> None:
    pg.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
    pg.execute(LOOSE if "loose" in kind else CITEXT)
    pg.execute(f"CREATE TABLE public.people (pid {kind} PRIMARY KEY)")
    pg.execute(f"CREATE TABLE public.visits (visit INT, pid {kind} REFERENCES people, shop TEXT)")
    folded = World(pg, POLICY)
    with pytest.raises(PolicyError, match="in which texts that differ may be equal"):
        _ = folded.policy
    tables = folded.schema.tables
    assert [(t.unique_keys, [k.exact for k in t.foreign_keys]) for t in tables] == [
        ((), []),
        ((), [False]),
    ]


@pytest.mark.parametrize(
    ("people", "visits"), [("VARCHAR(9)", "TEXT"), ("BIGINT", "SMALLINT"), ("DATE", "DATE")]
)
def test_keys_of_one_equality_are_facts(
    pg: psycopg.Connection[Any], people: str, visits: str
) -> None:
    keys = ["2024-01-01", "2024-01-02"] if people == "DATE" else ["1", "2"]
    near = built(pg, people, visits, keys)
    assert [key.exact for table in near.schema.tables for key in table.foreign_keys] == [True]
    assert [near.moved(sql, *without(keys[0])) for sql in ASKED] == [None] * len(ASKED)


def test_wrong_twin_a_padded_key_would_be_three_people(
    pg: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"p{n}" for n in range(9)]
    built(pg, "CHARACTER(200)", "TEXT", keys, same="{0}{1}")
    column, equality = postgres_schema._column, ("text", 100)

    def trusted(*args: Any, never_null: bool) -> SchemaColumn:
        return replace(column(*args, never_null=never_null), identifies=True)

    monkeypatch.setattr(postgres_schema, "_column", trusted)
    monkeypatch.setattr(postgres_schema, "_equality", lambda *_: equality)
    believing = World(pg, POLICY)
    gone = ("DELETE FROM public.visits WHERE btrim(pid) = 'p7'", without("p7")[1])
    assert believing.moved(ASKED[0], *gone) is not None
    assert believing.moved(ASKED[2], *gone) is not None
