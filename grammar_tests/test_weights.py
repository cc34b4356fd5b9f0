"""Public rows that stand for several: the same integers, and few rows of one person's.

The weighed form is compared with the one that reads every row, on data with NULL, NaN, two zeros
and repeated keys; the rows that one person has in it are counted, not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import PrivateBlock
from dpsql.compiler.rewrite import weights
from dpsql.dialects import block_printer
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.dialects.duckdb.relation_sql import statement
from dpsql.model.algebra import Relation
from dpsql.model.errors import Refused
from dpsql.model.tree import Ref
from dpsql.model.walk import relations
from dpsql.preparation.streams import stream
from grammar_tests import casefile, fuzz_world, world
from grammar_tests.bound import over, shop, transfers
from grammar_tests.fuzz_queries import QUERIES
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    integers,
    noiseless,
    same_rows,
    violation,
    without_unit,
)
from grammar_tests.test_fuzz import examples

UNITS = (1, 2, 7, 20)
"""Those with rows beyond every limit, duplicate keys or a flood, and one of a few rows."""
CODES = ("NO", "SE", None, "IT", "NO", "Oslo", "paid", "consumer")
MEASURES = (
    *("COUNT(*)", "COUNT(DISTINCT c.customer_id)", "COUNT(p0.category)", "SUM(c.age)"),
    *("COUNT(*) FILTER (WHERE c.age > 30)", "SUM(c.age) FILTER (WHERE p0.list_price > 1)"),
    *("COUNT_IF(c.vip)", "AVG(c.income)", "SUM(c.income)", "VAR_POP(c.age)", "MAX(c.age)"),
    *("SUM(o.amount)", "AVG(o.amount)", "SUM(o.quantity * 2)", "COUNT(DISTINCT o.status)"),
    *("SUM(p0.list_price)", "SUM(o.quantity * p0.list_price)", "COUNT(o.note)", "MEDIAN(c.age)"),
)
TIES = (
    *("{p}.category = c.country", "c.country = {p}.category", "{p}.category = o.status"),
    *("{p}.category || '' = c.country", "{p}.category = UPPER(c.country)"),
    "{p}.category = c.country AND {p}.list_price > 2",
    "{p}.category = c.country AND {p}.list_price = o.quantity",
    *("{p}.category IS NOT DISTINCT FROM c.country", "{p}.category <> c.segment"),
    "{p}.category = c.country AND {p}.product_id > 2 AND c.age >= 0",
)
AMONG = ("{p}.category = {q}.category", "{p}.list_price >= {q}.list_price", "{p}.category <> 'SE'")


def tables(dice: Random, made: world.Tables) -> world.Tables:
    """A shop whose public tables repeat what they are joined by."""
    products = [(n, dice.choice(CODES), dice.choice((1, 2, 3))) for n in range(dice.randint(3, 9))]
    return made | {"products": products}


def question(dice: Random) -> str:
    """People and their orders beside public tables that no key leads to."""
    source = "customers c JOIN orders o ON o.customer_id = c.customer_id"
    where = []
    for n in range(dice.randint(1, 3)):
        tie = dice.choice(TIES if not n or dice.random() < 0.5 else AMONG)
        on = tie.format(p=f"p{n}", q=f"p{n - 1}")
        if dice.random() < 0.3:
            source += f", products p{n}"
            where.append(on)
        else:
            source += f" {'LEFT ' * (dice.random() < 0.3)}JOIN products p{n} ON {on}"
    chosen = dice.sample(MEASURES, 3)
    key = dice.choice(("", "c.segment", "c.country", "p0.category", "c.segment, p0.category"))
    text = f"SELECT {', '.join([*([key] if key else []), *chosen])} FROM {source}"
    text += f" WHERE {' AND '.join(where)}" if where else ""
    if dice.random() < 0.3:
        inner = dice.sample(("COUNT(*)", "SUM(c.age)", "AVG(c.age)", "SUM(o.amount)"), 2)
        named = ", ".join(f"{call} AS m{n}" for n, call in enumerate([*inner, "MAX(c.age)"]))
        body = text[text.index(" FROM ") :]
        listed = f"SELECT c.customer_id, c.country AS k, {named}{body} GROUP BY 1, 2"
        return f"SELECT COUNT(*), SUM(m2), COUNT_IF(m0 > 3), SUM(m0) FROM ({listed}) AS t"
    text += f" GROUP BY {key}" if key else ""
    return text + (" HAVING COUNT(*) > 1" if key and dice.random() < 0.2 else "")


@contextmanager
def row_by_row() -> Iterator[None]:
    """Every row of the public tables is read."""
    with patch("dpsql.preparation.prepare.weighed", lambda plan, *_: plan):
        yield


def plans(
    seeds: range, made: Callable[[], world.Tables], *, constraints: bool
) -> Iterator[tuple[str, Prepared, Prepared, PlainEngine]]:
    """Random questions with weights, and the same row by row."""
    for seed in seeds:
        dice = Random(seed)  # noqa: S311
        policy, engine = over(tables(dice, made()), constraints=constraints)
        for _ in range(5):
            sql = question(dice)
            try:
                prepared = compiled(sql, policy, engine)
            except Refused:
                continue
            with row_by_row():
                yield sql, prepared, compiled(sql, policy, engine), engine


def is_weighed(prepared: Prepared) -> bool:
    return any(block.block.weighed is not None for block in prepared.blocks)


def counted(prepared: Prepared, engine: PlainEngine) -> list[Any]:
    return [(block, block.cells) for block in integers(prepared, engine)]


def wrong_integers(seeds: range) -> Iterator[str]:
    """The questions whose integers are others with weights, of which there are enough."""
    seen = 0
    for sql, ours, plain, engine in plans(seeds, world.adversarial, constraints=False):
        seen += is_weighed(ours)
        if counted(ours, engine) != counted(plain, engine):
            yield sql
    assert seen >= len(seeds)


@pytest.mark.full("measures neighbours or further data sets")
def test_the_integers_are_those_of_every_row() -> None:
    assert not list(wrong_integers(range(8)))


@pytest.mark.full("measures neighbours or further data sets")
def test_only_the_sql_is_another() -> None:
    for _, ours, plain, _ in plans(range(2), world.well_behaved, constraints=True):
        assert ours.plan is not None
        assert plain.plan is not None
        assert (ours.question, ours.plan.loss) == (plain.question, plain.plan.loss)
        assert [b.releases for b in ours.blocks] == [b.releases for b in plain.blocks]


def test_a_weight_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(block: PrivateBlock) -> tuple[PrivateBlock, None]:
        return duckdb_block_rows(block)[0], None

    duckdb_block_rows = block_printer.weighed_rows
    monkeypatch.setattr(block_printer, "weighed_rows", careless)
    assert any(wrong_integers(range(8)))


@pytest.mark.full("measures neighbours or further data sets")
def test_a_row_that_meets_nothing_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong twin: the weight of a row without a match is what LEFT JOIN makes of it."""
    monkeypatch.setattr(weights._Thin, "_factor", lambda _self, column: Ref(column.id, column.type))
    assert any(wrong_integers(range(8)))


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_said_of_public_rows_alone_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong twin: rows are counted before their own conditions have chosen them."""
    monkeypatch.setattr(weights, "_filtered_rows", lambda rows, _conditions: rows)
    assert any(wrong_integers(range(8)))


@pytest.mark.full("measures neighbours or further data sets")
def test_random_questions_are_answered_as_by_the_plain_engine() -> None:
    for sql, ours, _, engine in plans(range(5), world.well_behaved, constraints=True):
        if "MEDIAN" not in sql and "<>" not in sql:
            rows, errors = noiseless(ours, engine)
            assert same_rows(rows, errors, engine.rows(sql)), sql


def moved_too_far(seeds: range) -> int:
    """How many questions are moved by a unit more than they claim."""
    wrong = 0
    for _, ours, _, engine in plans(seeds, world.adversarial, constraints=False):
        here = integers(ours, engine)
        for unit in UNITS:
            with without_unit(engine.connection, world.deletions(unit)):
                wrong += violation(ours, here, integers(ours, engine)) is not None
    return wrong


@pytest.mark.full("measures neighbours or further data sets")
def test_a_person_moves_the_integers_by_what_is_claimed() -> None:
    assert moved_too_far(range(4)) == 0


ZEROS = (
    "SELECT COUNT(*), COUNT(*) FILTER (WHERE CAST(v.z AS VARCHAR) = '-0.0'), SUM(v.z + c.age)"
    " FROM customers c JOIN (VALUES (0e0, 'NO'), (-0e0, 'NO'), (0e0, 'NO'), (1e0, 'NO'))"
    " AS v(z, code) ON v.code = c.country"
)


def same_of_zeros() -> bool:
    policy, engine = over(world.well_behaved(), constraints=True)
    ours = compiled(ZEROS, policy, engine)
    assert is_weighed(ours)
    with row_by_row():
        return counted(ours, engine) == counted(compiled(ZEROS, policy, engine), engine)


@pytest.mark.full("measures neighbours or further data sets")
def test_two_zeros_are_two_values(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same_of_zeros()
    monkeypatch.setattr(weights, "DOUBLE", None)
    assert not same_of_zeros()


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("catalog", ["shop", "transfers"])
def test_the_integers_of_cases_are_those_of_every_row(catalog: str) -> None:
    policy, engine = {"shop": shop, "transfers": transfers}[catalog]()
    seen = 0
    for case in casefile.all_cases(catalog):
        if case.accepted and case.id.startswith(("joins", "several")):
            ours = compiled(case.sql, policy, engine)
            if is_weighed(ours):
                seen += 1
                with row_by_row():
                    plain = compiled(case.sql, policy, engine)
                assert counted(ours, engine) == counted(plain, engine)
    assert seen > 0


@pytest.mark.full("measures neighbours or further data sets")
def test_the_integers_of_random_queries_are_those_of_every_row() -> None:
    seen = 0

    @given(QUERIES)
    @examples(120, shrink=False)
    def same(sql: str) -> None:
        nonlocal seen
        policy, engine = fuzz_world.wary_policy(), fuzz_world.adversary(None)
        try:
            ours = compiled(sql, policy, engine)
        except Refused:
            return
        if is_weighed(ours):
            seen += 1
            with row_by_row():
                plain = compiled(sql, policy, engine)
            assert counted(ours, engine) == counted(plain, engine)

    same()
    assert seen


# --- how many rows one person has ---

SOURCE = "FROM customers c JOIN products p ON p.category = c.country"
ATTACKS = (
    f"SELECT COUNT(*) {SOURCE}",
    "SELECT SUM(c.age), AVG(c.income) FROM customers c, products p WHERE p.category = c.country",
    "SELECT COUNT(*) FROM customers c LEFT JOIN products p ON p.category = c.country",
    "SELECT COUNT(*) FROM customers c JOIN products p ON p.category || '' = c.country",
    f"SELECT segment, COUNT(*), COUNT(DISTINCT city), MAX(age) {SOURCE} GROUP BY segment",
    f"SELECT COUNT(*) {SOURCE} JOIN products q ON q.list_price = p.list_price AND q.product_id > 0",
    "SELECT COUNT(*) FROM customers JOIN (SELECT category AS k FROM products) AS p ON k = country",
    "SELECT VARIANCE(age) FROM customers, products",
    f"SELECT AVG(n) FROM (SELECT c.customer_id, COUNT(*) AS n, SUM(age) {SOURCE} GROUP BY 1) AS t",
    f"SELECT COUNT(*) FROM (SELECT customer_id {SOURCE}) AS t JOIN orders USING (customer_id)",
)


def rows_of_one(sql: str, size: int) -> int:
    """The most rows of one person in any join that the engine makes, of so many public rows."""
    products = [(n, "NO", n % 3) for n in range(size)]
    made = world.well_behaved() | {"products": products}
    made["customers"] = [(*row[:1], "NO", *row[2:]) for row in made["customers"]]
    policy, engine = over(made, constraints=True)
    policy = replace(policy, limits=replace(policy.limits, max_fanout=10**6))
    (block,) = compiled(sql, policy, engine).blocks
    rows = block.block.rows if block.block.weighed is None else block.block.weighed.rows
    return max(_rows_of_one(engine, part) for part in relations(rows))


def _rows_of_one(engine: PlainEngine, relation: Relation) -> int:
    """The most rows that one person has in a relation, 0 of one without people."""
    people = [f for f in relation.fields if f.name == "customer_id"]
    if not people:
        return 0
    listed = statement(relation, (Ref(people[0].id, people[0].type),))
    sql = f"SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM ({listed}) GROUP BY c0)"
    return int(engine.rows(sql)[0][0])


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", ATTACKS)
def test_the_rows_of_one_person_do_not_grow_with_a_public_table(sql: str) -> None:
    assert rows_of_one(sql, 60) == rows_of_one(sql, 6) <= 3


@pytest.mark.parametrize(
    "sql",
    [
        pytest.param(sql, marks=pytest.mark.full("further joins") if n % 3 else ())
        for n, sql in enumerate(ATTACKS)
    ],
)
def test_rows_that_grow_would_be_seen(sql: str) -> None:
    with row_by_row():
        assert rows_of_one(sql, 60) >= 60 > rows_of_one(sql, 6)


def test_a_monitor_adds_up_weights_too() -> None:
    policy, engine = over(world.well_behaved(), constraints=True)
    sql = "SELECT COUNT(*) FROM customers c JOIN countries k ON c.segment = k.region"
    assert "SUM(w)" in stream(compiled(sql, policy, engine), DUCKDB).sql.sql


def test_what_repeats_and_is_not_measured_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights._Weigher, "_repeats", lambda *_: False)
    assert rows_of_one(ATTACKS[0], 60) >= 60


NEEDED = (
    f"SELECT MEDIAN(age) {SOURCE}",
    f"SELECT SUM(c.age * p.product_id) {SOURCE}",
    f"SELECT COUNT_IF(v > 1) FROM (SELECT customer_id, VAR_POP(age) AS v {SOURCE} GROUP BY 1) AS t",
)


@pytest.mark.parametrize("sql", NEEDED)
def test_what_is_needed_row_by_row_is_joined_so(sql: str) -> None:
    assert rows_of_one(sql, 60) >= 60


@pytest.mark.full("measures neighbours or further data sets")
def test_what_does_not_repeat_is_joined_as_it_is() -> None:
    """Without a declared key too: it is measured."""
    policy, engine = over(world.well_behaved(), constraints=False)
    sql = (
        "SELECT region, COUNT(*) FROM customers c JOIN countries k ON k.code = c.country GROUP BY 1"
    )
    assert not is_weighed(compiled(sql, policy, engine))


@pytest.mark.full("measures neighbours or further data sets")
def test_many_pairs_of_public_rows_are_not_compared_first(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT COUNT(*) FROM customers c, products p, products q WHERE p.category = c.country"
    sql += " AND p.list_price >= q.list_price"
    assert rows_of_one(sql, 60) == 1
    monkeypatch.setattr(weights, "MOST_PAIRS", 10)
    assert rows_of_one(sql, 60) == 9


def test_the_limit_on_weights_is_far_beyond_that_on_joins() -> None:
    policy, engine = shop()
    wide = replace(policy, limits=replace(policy.limits, max_fanout=weights.MOST_WEIGHT + 1))
    sql = "SELECT COUNT(*) FROM customers c JOIN countries k ON k.region <> c.country"
    assert is_weighed(compiled(sql, policy, engine))
    assert not is_weighed(compiled(sql, wide, engine))
