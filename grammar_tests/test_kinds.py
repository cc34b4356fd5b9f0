"""Columns of every type that databases have: UUID, TIME, ENUM, HUGEINT, other times, and parts.

One small world holds them, odd values too: 24:00, texts that are no JSON, empty lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.engines.duckdb.exact_values import encoded
from dpsql.engines.duckdb.result_columns import exact
from dpsql.engines.duckdb.type_names import parts
from dpsql.interfaces import data_frames
from dpsql.interfaces.comments import column_comment
from dpsql.interfaces.sqlalchemy.reflection import type_of
from dpsql.ledgers.codec import decode_answer, encode_answer
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.resources import Database
from dpsql.model.schema import Schema
from dpsql.model.tree import TIME
from dpsql.model.tree import UUID as UUID_TYPE
from dpsql.model.vocabulary import Column, Noisy, Policy, TablePolicy
from dpsql.owner.check import check
from dpsql.policy import init
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
    without_unit,
)
from grammar_tests.test_laws import halved

DATA = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE products (id UUID PRIMARY KEY, name VARCHAR, facts STRUCT(colour VARCHAR));
CREATE TABLE people (
    id UUID PRIMARY KEY, mood mood, wakes TIME, active BOOLEAN, fortune HUGEINT,
    seen TIMESTAMP_NS, since TIMESTAMP_S, note VARCHAR CHECK (length(note) <= 9), payload JSON,
    place STRUCT(country VARCHAR, stays STRUCT(day DATE)[]), tags VARCHAR[], height INTEGER,
    wealth DOUBLE
);
CREATE TABLE visits (
    visit UUID PRIMARY KEY, person UUID NOT NULL REFERENCES people (id), clock TIME, product UUID,
    mood mood, stamp TIMESTAMP_NS
);
INSERT INTO products SELECT md5('p' || i)::UUID, 'product ' || i, {'colour': 'red'}
FROM range(3) AS r(i);
INSERT INTO people SELECT
    md5('u' || i)::UUID, (['sad', 'ok', 'happy'])[1 + i % 3],
    CASE i WHEN 5 THEN TIME '24:00' ELSE TIME '08:30' + INTERVAL (i) HOUR END, i % 2 = 0,
    (i - 4) * 10::HUGEINT ** 30, make_timestamp_ns(1700000000123456789 + i % 2 * 86400000000000),
    '2024-01-01'::TIMESTAMP_S, repeat('x', i), CASE i WHEN 8 THEN NULL ELSE json_object(
    'country', (['NO', 'SE'])[1 + i % 2], 'n', i, 'deep', [{'x': i % 2 = 0}]) END,
    CASE i WHEN 7 THEN NULL
    ELSE {'country': (['NO', 'SE'])[1 + i % 2], 'stays': [{'day': DATE '2024-01-01'}]} END,
    CASE i WHEN 6 THEN [] ELSE ['a' || i % 2, 'b'] END, CASE WHEN i % 3 > 0 THEN 170 END, 1e308
FROM range(9) AS r(i);
INSERT INTO visits SELECT md5('v' || i)::UUID, md5('u' || i % 9)::UUID,
    TIME '08:00' + INTERVAL (i % 3) HOUR, md5('p' || i % 3)::UUID, 'ok', NULL
FROM range(24) AS r(i);
"""
POLICY = """
[database]
engine = "duckdb"
path = "kinds.duckdb"
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {}
mood = {}
wakes = { nullable = true }
active = { nullable = true }
fortune = {}
seen = { bounds = [2023-01-01T00:00:00, 2024-12-31T00:00:00] }
since = {}
note = { max_length = 9 }
height = { bounds = [0, 250] }
wealth = { bounds = [-1e308, 1e308] }
"payload.country" = { values = ["NO", "SE"], nullable = true }
"payload.n" = { type = "BIGINT", bounds = [0, 10], nullable = true }
"payload.deep[1].x" = { type = "BOOLEAN", nullable = true }
"place.country" = { values = ["NO", "SE"], nullable = true }
"place.stays[1].day" = { nullable = true }
"tags[1]" = { nullable = true }
[tables.visits]
access = "private"
key = "visit"
link = { column = "person", references = "people.id" }
max_rows_per_unit = 3
max_groups_per_unit = 3
max_rows_per_group = 3
[tables.visits.columns]
visit = {}
person = {}
clock = { values = [08:00:00, 09:00:00, 10:00:00] }
product = { values_from = "products.id" }
mood = { values = ["sad", "ok", "happy"] }
stamp = { nullable = true }
[tables.products]
access = "public"
key = "id"
[tables.products.columns]
"facts.colour" = {}
[budgets.default]
epsilon = 1000.0
delta = 1e-3
query_epsilon = 1.0
max_query_epsilon = 10.0
[analysts.ana]
budget = "default"
[ledger]
path = "kinds.ledger"
"""


@cache
def engine() -> PlainEngine:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(DATA)
    return PlainEngine(connection)


def schema() -> Schema:
    return Schema(declared(engine().rows), "here")


def bound(*changes: tuple[str, str]) -> tuple[Policy, Any]:
    """The world's policy, with these changes of its text, and where its lines are."""
    text = POLICY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dpsql.toml"
        path.write_text(text, "utf-8")
        draft = load(str(path))
    return bind(draft, schema(), PublicTables(engine(), DUCKDB).values), draft.lines


@cache
def policy() -> Policy:
    return bound()[0]


def planned(sql: str) -> Prepared:
    return compiled(sql, policy(), engine())


ASKED = """
SELECT COUNT(*) FROM people;
SELECT COUNT(DISTINCT id), COUNT(DISTINCT mood), COUNT(DISTINCT fortune) FROM people;
SELECT mood, COUNT(*) FROM people GROUP BY mood;
SELECT COUNT(*) FROM people WHERE mood < 'ok' OR mood = 'none';
SELECT wakes, COUNT(*) FROM people WHERE EXTRACT(epoch FROM wakes) < 86400 GROUP BY wakes;
SELECT COUNT(*) FROM people WHERE wakes BETWEEN '09:00' AND TIME '12:30';
SELECT EXTRACT(hour FROM wakes) AS h, COUNT(*) FROM people GROUP BY 1;
SELECT SUM(EXTRACT(epoch FROM wakes)) FROM people;
SELECT CASE WHEN wakes < TIME '12:00' THEN 'early' ELSE 'late' END AS w, COUNT(*)
FROM people GROUP BY 1;
SELECT fortune, COUNT(*) FROM people GROUP BY fortune;
SELECT SUM(active), COUNT(*) FILTER (WHERE active = 1) FROM people;
SELECT AVG(active), SUM(active + 1), SUM(2 - active * 2) FROM people;
SELECT mood, AVG(active) FROM people GROUP BY mood;
SELECT CAST(seen AS DATE) AS d, COUNT(*) FROM people GROUP BY 1;
SELECT COUNT(*) FROM people WHERE seen >= '2023-11-15' AND since < '2025-01-01';
SELECT since, COUNT(*) FROM people GROUP BY since;
SELECT AVG(LENGTH(note)), SUM(LENGTH(note)) FROM people;
SELECT AVG(height) FROM people;
SELECT VAR_POP(height) FROM people;
SELECT payload->>'$.country' AS c, COUNT(*) FROM people GROUP BY 1;
SELECT (payload->'deep'->0->>'x') AS x, COUNT(*) FROM people GROUP BY 1;
SELECT json_extract_string(payload, '$.country') AS c, SUM(payload.n) FROM people GROUP BY 1;
SELECT place.country, COUNT(*) FROM people GROUP BY place.country;
SELECT p.place['country'] AS c, COUNT(*) FROM people AS p GROUP BY ALL;
SELECT people.place.stays[1].day AS d, COUNT(*) FROM people GROUP BY 1;
SELECT tags[1], COUNT(*) FROM people GROUP BY tags[1];
SELECT v.clock, COUNT(DISTINCT v.person) FROM visits AS v JOIN people AS p ON v.person = p.id
WHERE p.place.country = 'NO' GROUP BY 1;
SELECT product, COUNT(*) FROM visits GROUP BY product;
SELECT p.name, COUNT(*) FROM visits AS v JOIN products AS p ON v.product = p.id GROUP BY 1;
SELECT EXTRACT(hour FROM clock) AS h, COUNT(*) FROM visits GROUP BY 1;
SELECT COUNT(*) FROM visits WHERE product IN (SELECT id FROM products WHERE name <> 'product 1');
SELECT COUNT(*) FROM visits AS v JOIN people AS p ON v.person = p.id AND v.mood = p.mood;
SELECT AVG(n) FROM (SELECT person, COUNT(*) AS n, MIN(clock) AS a, MAX(product) AS b,
MIN(mood) AS m FROM visits GROUP BY person) AS t WHERE a < '10:00' AND b IS NOT NULL AND m = 'ok';
SELECT id, name FROM products ORDER BY id;
SELECT p.facts.colour, COUNT(*) FROM products AS p GROUP BY 1;
SELECT COUNT(*) FROM products WHERE id = '92095fbe-54b4-fdb2-00ce-83ffcbc7b7b6' OR id = UUID
'92095fbe-54b4-fdb2-00ce-83ffcbc7b7b6';
SELECT COUNT(*) FROM people WHERE id <> '00000000-0000-0000-0000-000000000000'
""".split(";")
ELSEWHERE = {
    "active)": "active::INT)",
    "active ": "active::INT ",
    "hour FROM wakes)": "hour FROM wakes) % 24",
    "payload.n": "(payload->>'n')::INT",
    "->>'x')": "->>'x')::BOOLEAN",
}
"""What the engine's own spelling is of what it does not read so."""


@pytest.mark.parametrize("sql", ASKED, ids=lambda sql: sql[8:68])
def test_without_noise_the_answer_is_the_plain_one(sql: str) -> None:
    """Law 1."""
    plain = sql
    for ours, theirs in ELSEWHERE.items():
        plain = plain.replace(ours, theirs)
    assert same_rows(*noiseless(planned(sql), engine()), engine().rows(plain))


def deletions(unit: UUID) -> list[str]:
    tables = {"visits": "person", "people": "id"}
    return [f"DELETE FROM {table} WHERE {key} = '{unit}'" for table, key in tables.items()]


def violations(plans: list[Prepared]) -> Iterator[str | None]:
    """What contradicts the claims between the world and each of its neighbours."""
    changing = duckdb.connect()
    changing.execute("SET TimeZone = 'UTC'")
    # Without constraints rows of a transaction can go in any order.
    changing.execute(re.sub(r" PRIMARY KEY| NOT NULL REFERENCES people \(id\)", "", DATA))
    there = PlainEngine(changing)
    for (unit,) in engine().rows("SELECT id FROM people ORDER BY id"):
        with without_unit(changing, deletions(unit)):
            for plan in plans:
                released = noiseless_blocks(plan, engine())
                sides = (integers(plan, side, released) for side in (engine(), there))
                yield violation(plan, *sides)


@pytest.mark.full("further data sets, and all their neighbours")
def test_neighbours_differ_by_no_more_than_claimed() -> None:
    """Law 2, and its twin."""
    plans = [plan for sql in ASKED if (plan := planned(sql)).plan is not None]
    assert [why for why in violations(plans) if why] == []
    assert [why for why in violations([halved(plans[0])]) if why]


REFUSED = {
    "SELECT id, COUNT(*) FROM people GROUP BY id": "unit-key-exposed",
    "SELECT COUNT(*) FROM people WHERE id = 'nobody'": "type-mismatch",
    "SELECT COUNT(*) FROM people WHERE wakes = '25:00'": "type-mismatch",
    "SELECT COUNT(*) FROM people WHERE wakes > 8": "type-mismatch",
    "SELECT SUM(wakes) FROM people": "type-mismatch",
    "SELECT MEDIAN(active) FROM people": "type-mismatch",
    "SELECT MIN(wakes) FROM people": "unsupported-aggregate",
    "SELECT SUM(fortune) FROM people": "unbounded-input",
    "SELECT SUM(EXTRACT(month FROM wakes)) FROM people": "unsupported-function",
    "SELECT SUM(LENGTH(tags[1])) FROM people": "unbounded-input",
    "SELECT payload->>'name' AS c, COUNT(*) FROM people GROUP BY 1": "unknown-column",
    "SELECT payload->'country' AS c, COUNT(*) FROM people GROUP BY 1": "unsupported-syntax",
    "SELECT payload->>'$.*' AS c, COUNT(*) FROM people GROUP BY 1": "unsupported-syntax",
    "SELECT tags[2], COUNT(*) FROM people GROUP BY 1": "unknown-column",
    "SELECT place.zip, COUNT(*) FROM people GROUP BY 1": "unknown-column",
    "SELECT p.place.zip, COUNT(*) FROM people AS p GROUP BY 1": "unknown-column",
    "SELECT places.country, COUNT(*) FROM people GROUP BY 1": "unknown-table",
    "SELECT SUM(wealth) FROM people": "unbounded-input",
    "SELECT AVG(wealth + wealth) FROM people": "unbounded-input",
    "SELECT STDDEV(wealth) FROM people": "unbounded-input",
    "SELECT AVG(s) FROM (SELECT v.person, SUM(p.wealth) AS s FROM visits AS v JOIN people AS p"
    " ON v.person = p.id GROUP BY 1) AS t": "unbounded-input",
    "SELECT payload, COUNT(*) FROM people GROUP BY 1": "unknown-column",
    "SELECT json_extract_string(payload, mood) FROM people": "unsupported-syntax",
    "SELECT COUNT(*) FROM visits JOIN people ON visits.clock = people.wakes": "unequal-units",
}


@pytest.mark.parametrize("sql", REFUSED, ids=lambda sql: sql[7:67])
def test_near_misses_are_refused(sql: str) -> None:
    with pytest.raises(Refused) as caught:
        planned(sql)
    assert caught.value.reason.value == REFUSED[sql]


def test_an_average_alone_leaves_out_what_is_missing() -> None:
    """Three of nine have no height, which the policy does not say: their mean is not lower for it.

    Beside a count that counts them, the policy is believed, and check says that it is wrong.
    """
    alone = noiseless(planned("SELECT AVG(height) FROM people"), engine())[0]
    beside = noiseless(planned("SELECT COUNT(*), AVG(height) FROM people"), engine())[0]
    assert alone == [(170.0,)]
    assert beside[0][1] < 170
    findings, _ = check(*bound(), engine().rows)
    assert [f.message for f in findings if f.column == "height"] == [
        "people: 3 of 9 rows have no height, which is not declared nullable."
    ]


def test_check_reads_columns_as_queries_do() -> None:
    changes = (
        ("max_length = 9", "max_length = 5"),
        ("bounds = [0, 10]", "bounds = [0, 6]"),
        ('country" = { values = ["NO", "SE"], nullable = true }\n"payload.n',
         'country" = { values = ["NO"] }\n"payload.n'),
    )  # fmt: skip
    findings, _ = check(*bound(*changes), engine().rows)
    assert {f.message for f in findings if "height" not in f.message} == {
        "people: 3 of 9 rows have more than 5 characters in note: they are clipped.",
        "people: 1 of 9 rows have payload.n outside its bounds: they are clipped.",
        "people: 1 of 9 rows have no payload.country, which is not declared nullable.",
        "people: 4 of 9 rows have values of payload.country that are not listed: in no group.",
    }


def test_a_text_that_is_no_json_has_nothing_in_it() -> None:
    """JSON is a text, of which files may hold any: reading it fails on none."""
    other = PlainEngine(duckdb.connect())
    other.connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    text = DATA[DATA.index("CREATE TABLE products") :].replace("payload JSON", "payload VARCHAR")
    other.connection.execute(text)
    other.connection.execute("UPDATE people SET payload = '{broken'")
    plan = planned("SELECT payload->>'country' AS c, SUM(payload.n) FROM people GROUP BY 1")
    ((counted,),) = [integers(plan, other)]
    assert {key: numbers[0] for key, numbers in counted.items()} == {(None,): 0}


LONG_JSON = """'{"n": 7, "deep": [' || repeat('1,', 2000000) || '1]}'"""
"""JSON of four megabytes, for which its parser takes more than sixty."""


def sums_with_json(sql: str, most: int | None = None) -> list[Any]:
    """The integers of a query where one person has this JSON; `most` is its longest length."""
    there = duckdb.connect(config={"threads": 1})
    there.execute(DATA)
    there.execute(f"UPDATE people SET payload = {sql} WHERE payload.n = '7'")
    there.execute("SET memory_limit = '60MB'")
    policy, _ = bound()
    if most is not None:
        policy = policy.with_tables(lambda table: read_to(table, most))
    return list(
        integers(
            compiled("SELECT SUM(payload.n) FROM people", policy, engine()), PlainEngine(there)
        )
    )


def read_to(table: TablePolicy, most: int) -> TablePolicy:
    columns = (
        replace(c, reading=c.reading and replace(c.reading, most=most)) for c in table.columns
    )
    return replace(table, columns=tuple(columns))


def test_a_long_json_is_null_and_makes_no_query_fail() -> None:
    assert sums_with_json(LONG_JSON) == sums_with_json("NULL") != sums_with_json("payload")


def test_wrong_twin_a_long_json_that_is_parsed() -> None:
    with pytest.raises(duckdb.OutOfMemoryException):
        sums_with_json(LONG_JSON, 0)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("mood = {}\nwakes", "payload = {}\nmood = {}\nwakes", 'as "payload.key" = {}'),
        ("mood = {}\nwakes", "place = {}\nmood = {}\nwakes", 'as "place.country" = {}'),
        ("mood = {}\nwakes", "tags = {}\nmood = {}\nwakes", 'as "tags[1]" = {}'),
        ('"tags[1]"', '"tags[]"', "has no column tags[]"),
        ('"tags[1]"', '"tags[0]"', "has no column tags[0]"),
        ('"place.country"', '"place.city"', "has no column place.city"),
        ('"payload.n" = { type = "BIGINT"', '"payload.n" = { type = "BLOB"', "has type BLOB"),
        ("wakes = {", "wakes = { bounds = [08:00:00, 09:00:00],", "no bound of wakes"),
        ("fortune = {}", "fortune = { max_length = 3 }", "is public, or no text"),
        ('key = "visit"', 'key = "stamp"', "visits.stamp is TIMESTAMP_NS"),
        ('mood = { values = ["sad"', 'mood = { values = ["glad", "sad"', "no member of mood"),
        ('"products.id"', '"products.facts.colour"', "products.facts is not a public table"),
    ],
)  # fmt: skip
def test_what_cannot_be_declared_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(says)):
        bound((old, new))


def test_more_values_than_may_be_listed_are_private_keys() -> None:
    """`values_from` of many values lists none: keys are shown by their counts; nothing fails."""
    listed = {}
    for most in (2, 3):
        limits = f"[limits]\nmax_public_groups = {most}\n[budgets.default]"
        policy, _ = bound(("[budgets.default]", limits))
        plan = compiled("SELECT product, COUNT(*) FROM visits GROUP BY 1", policy, engine()).plan
        assert plan is not None
        listed[most] = type(plan.blocks[0].keys).__name__
    assert listed == {2: "ThresholdKeys", 3: "ListedKeys"}


def test_init_drafts_what_is_read_of_a_column() -> None:
    drafted = init.draft(schema(), Database("duckdb", "kinds.duckdb")).splitlines()
    assert {
        "height = { private_bounds = true }  # INTEGER",
        "wakes = {}  # TIME",
        "note = { max_length = 9 }  # VARCHAR",
        '# "payload.key" = { type = "VARCHAR", nullable = true }  # a part of JSON',
        '"place.country" = {}  # VARCHAR',
        '# "place.stays[1].day" = { nullable = true }  # a part of DATE',
        "# tags: VARCHAR[] is read by its parts",
    } <= set(drafted)


def test_parts_of_odd_types_are_told_apart() -> None:
    kind = (
        'STRUCT("a ""b""" INTEGER, "c, d" ENUM(\'x, )\', \'y\'), "e.f" DATE, g MAP(VARCHAR, DATE), '
        "h STRUCT(i DECIMAL(5,2))[3][])"
    )
    names = [(name, kind) for name, kind, _ in parts("s", kind)]
    assert names == [("s.c, d", "ENUM('x, )', 'y')"), ("s.h[][].i", "DECIMAL(5,2)")]


ANSWERED = (UUID(int=2**128 - 1), time(12, 34, 56, 789), None)


@pytest.mark.full("opens servers or connects clients")
def test_values_cross_every_boundary() -> None:
    """The engine's encoding, the ledger's, and frames. Python has no 24:00, which is left out."""
    values = "(VALUES (UUID 'ffffffff-ffff-ffff-ffff-ffffffffffff', TIME '12:34:56.000789', 7), "
    sql = f"SELECT * FROM {values} (NULL, TIME '24:00', 8), (NULL, NULL, 9)) AS t"
    text, decoders = encoded(sql, ["UUID", "TIME", "INTEGER"], 2)
    columns = duckdb.connect().execute(text).fetchnumpy()
    chunk = [columns[name] for name in columns]
    chunk[-1] = None
    found = exact([(3, chunk)], decoders, 1)
    assert found.keys == [ANSWERED[:2], (None, None)]
    assert found.parts[0].tolist() == [7, 9]
    kept = (Noisy((ANSWERED,), ((1,),)),)
    assert decode_answer(encode_answer(kept)) == kept
    told = [Column("id", UUID_TYPE), Column("at", TIME)]
    rows = [ANSWERED[:2], (None, None)]
    arrow, polars = data_frames.arrow(told, rows), data_frames.polars(told, rows)
    assert arrow.to_pylist() == polars.to_dicts()
    assert arrow.to_pylist()[0] == {"id": str(ANSWERED[0]), "at": ANSWERED[1]}
    assert data_frames.pandas(told, rows)["id"].tolist() == [ANSWERED[0], None]
    assert [repr(type_of(column.type)) for column in told] == ["Uuid()", "Time()"]


def test_comments_say_how_long_texts_are() -> None:
    table = policy().table("people")
    assert table is not None
    note = table.column("note")
    assert note is not None
    assert column_comment(policy(), table, note) == "at most 9 characters"


def test_a_policy_is_another_one_where_columns_are_read_otherwise() -> None:
    """Answers are remembered for a policy: of another path, or another length, they are others."""
    longer, _ = bound(("max_length = 9", "max_length = 8"))
    other, _ = bound(('"tags[1]"', '"tags[2]"'))
    assert len({p.version for p in (policy(), longer, other)}) == 3


def test_dates_of_parts_are_dates() -> None:
    plan = planned("SELECT place.stays[1].day, COUNT(*) FROM people GROUP BY 1")
    rows, _ = noiseless(plan, engine())
    assert dict(rows) == {date(2024, 1, 1): 8, None: 1}
    ((first,), *_rest), _ = noiseless(planned("SELECT MIN(seen) FROM people"), engine())
    assert isinstance(first, datetime)
