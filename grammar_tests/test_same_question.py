"""The same question in other words is the same question, and another one never is.

A rule is tried where it can be wrong: on every row of boundary values with NULL and NaN, on the
rows of random queries, and on texts of which the one says the other in other words, or nearly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.compiler.plan import conditions
from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.conditions import normal, required
from dpsql.compiler.plan.flat_rows import Flattener
from dpsql.compiler.plan.private_plan import PrivateBlock
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.model.algebra import Relation, Staged
from dpsql.model.comparisons import MIRRORED
from dpsql.model.errors import Refused
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    VARCHAR,
    Call,
    Expression,
    Literal,
    Ref,
    SqlType,
    decimal,
)
from dpsql.model.walk import relations
from dpsql.proxy import Proxy
from grammar_tests import fuzz_world
from grammar_tests.bound import shop
from grammar_tests.fuzz_queries import QUERIES
from grammar_tests.laws import PlainEngine, compiled
from grammar_tests.proxy_kit import request
from grammar_tests.proxy_kit import shop as shop_files
from grammar_tests.test_fuzz import tally

COUNT = "SELECT COUNT(*) FROM customers"
ALIKE = {
    "whole numbers": [
        "age > 61",
        "age >= 62",
        "NOT age <= 61",
        "NOT (62 > age)",
        "61 < age AND TRUE",
        "age > 61 AND 1 = 1 AND age > 61",
        "age > 61 AND age > 30 AND age IS NOT NULL",
        "(age > 61 OR FALSE) IS TRUE",
        "age > 61 OR NULL",
        "NOT (age <= 61 OR age <= 50)",
    ],
    "both ends": [
        "age BETWEEN 30 AND 40",
        "age >= 30 AND age <= 40",
        "age < 41 AND 29 < age",
        "NOT (age < 30 OR age > 40)",
        "NOT age NOT BETWEEN 30 AND 40",
    ],
    "neither": ["age NOT BETWEEN 30 AND 40", "age < 30 OR age > 40", "NOT (age BETWEEN 30 AND 40)"],
    "lists": [
        "city IN ('a', 'b', 'c')",
        "city IN ('c', 'b', 'a', 'b')",
        "city = 'b' OR city IN ('a', 'c')",
        "NOT (city <> 'a' AND city NOT IN ('b', 'c'))",
        "'a' = city OR 'b' = city OR city = 'c'",
    ],
    "none of a list": [
        "city NOT IN ('a', 'b')",
        "city <> 'b' AND city <> 'a'",
        "NOT (city = 'a' OR city = 'b')",
    ],
    "one of a list": ["city IN ('a')", "city = 'a'", "city IN ('a', 'a')", "NOT city <> 'a'"],
    "truth": ["vip", "vip = TRUE", "vip IS TRUE", "NOT NOT vip", "NOT vip = FALSE", "vip <> FALSE"],
    "days": [
        "joined < DATE '2021-03-01'",
        "joined <= DATE '2021-02-28'",
        "NOT joined >= '2021-03-01'",
    ],
    "both sides": ["age = income", "income = age", "NOT income <> age"],
    "conjuncts": ["age > 61 AND vip AND city = 'a'", "city = 'a' AND (vip AND age > 61)"],
    "branches": ["age > 61 AND vip OR city = 'a'", "city = 'a' OR NOT (age <= 61 OR NOT vip)"],
    "never": ["FALSE", "1 = 2", "age > 61 AND age < 20", "NULL", "age = NULL", "NOT 1 < 2"],
    "always": ["TRUE", "1 = 1", "NOT FALSE", "'a' = 'a'", "customer_id IS NOT NULL", "2 IN (1, 2)"],
    "inside": ["CASE WHEN NOT age <= 61 THEN vip END", "CASE WHEN age > 61 THEN vip = TRUE END"],
}
"""Conditions that say the same, and no two lists the same."""

NEAR = [
    ["age > 61", "age >= 61", "age < 61", "age <> 61", "age > 61.5", "age > 61.25"],
    ["income > 61", "income >= 62", "income >= 61"],
    [
        "age > 61",
        "age > 61 OR age IS NULL",
        "COALESCE(age > 61, TRUE)",
        "NOT COALESCE(age <= 61, TRUE)",
    ],
    ["age BETWEEN 30 AND 40", "age > 30 AND age < 40", "age BETWEEN 30 AND 41", "age >= 30"],
    ["city IN ('a', 'b')", "city IN ('a')", "city NOT IN ('a', 'b')", "city IN ('a', 'B')"],
    ["city <> 'a' OR city <> 'b'", "city <> 'a' AND city <> 'b'"],
    ["vip", "NOT vip", "vip IS NOT TRUE", "vip IS NULL", "vip OR TRUE"],
    ["age = 30 AND vip", "age = 30 OR vip", "age = 30"],
    ["age IS NOT NULL", "TRUE", "age IS NULL"],
    ["joined <= DATE '2021-02-28'", "joined < DATE '2021-02-28'", "joined <= DATE '2021-03-01'"],
    ["NOT (age > 61 AND vip)", "age <= 61 AND NOT vip"],
    ["age IN (30, 31)", "age BETWEEN 30 AND 31 AND vip", "age IN (30, 32)"],
]
"""Conditions that nearly say the same."""

PEOPLE = [
    "SELECT COUNT(*), SUM(income) FROM customers WHERE age > 61 AND vip",
    "SELECT COUNT(*), SUM(income) FROM (SELECT * FROM customers) q WHERE vip AND age > 61",
    "SELECT COUNT(*), SUM(i) FROM (SELECT vip v, income i FROM customers WHERE age > 61) WHERE v",
    (
        "WITH q AS (SELECT age, vip, income FROM customers WHERE vip), r AS (SELECT * FROM q)"
        " SELECT COUNT(*) AS n, SUM(r.income) AS s FROM r WHERE NOT r.age < 62"
    ),
    (
        "SELECT COUNT(*), SUM(income) FROM (SELECT income, age > 61 AS old, vip FROM customers)"
        " WHERE old AND vip"
    ),
    (
        "SELECT COUNT(*), SUM(income) FROM customers"
        " WHERE vip AND 61 < age AND customer_id IS NOT NULL"
    ),
]
JOINED = [
    "SELECT SUM(amount) FROM orders JOIN customers USING (customer_id) WHERE vip AND quantity > 2",
    (
        "SELECT SUM(o.amount) FROM customers c, orders o WHERE c.customer_id = o.customer_id AND"
        " c.vip AND o.quantity >= 3"
    ),
    (
        "SELECT SUM(amount) FROM (SELECT customer_id AS c FROM customers WHERE vip) p JOIN"
        " (SELECT amount, customer_id AS d FROM orders WHERE quantity > 2 AND order_id IS NOT NULL)"
        " o ON p.c = o.d"
    ),
]
MATCHED = [
    "SELECT COUNT(*) FROM customers WHERE age > 61 AND country IN (SELECT code FROM countries)",
    (
        "SELECT COUNT(*) FROM (SELECT * FROM customers WHERE age >= 62) q"
        " WHERE country IN (SELECT code FROM (SELECT * FROM countries) c)"
    ),
]
BESIDE = [
    "SELECT COUNT(*) FROM customers c LEFT JOIN countries k ON c.country = k.code WHERE age > 61",
    (
        "SELECT COUNT(*) FROM (SELECT * FROM customers WHERE NOT age <= 61) c"
        " LEFT JOIN (SELECT code AS k FROM countries) ON k = country"
    ),
]
GROUPED = [
    "SELECT segment, COUNT(*) FROM customers WHERE vip GROUP BY segment",
    "SELECT s, COUNT(*) n FROM (SELECT segment AS s, * FROM customers) WHERE vip = TRUE GROUP BY 1",
]
TOTALS = [
    (
        "SELECT COUNT(*) FROM (SELECT customer_id, SUM(quantity) AS n FROM orders WHERE"
        " quantity > 2 GROUP BY customer_id) q WHERE n > 5"
    ),
    (
        "SELECT COUNT(*) FROM (SELECT c, SUM(q) AS n FROM (SELECT customer_id AS c, quantity AS q"
        " FROM orders) o WHERE NOT q <= 2 GROUP BY c) WHERE n >= 6"
    ),
]
FILTERED = [
    "SELECT COUNT(*) FILTER (WHERE age > 61) FROM customers",
    "SELECT COUNT(*) FILTER (WHERE age >= 62 AND TRUE) FROM customers",
    "SELECT COUNT(*) FILTER (WHERE old) FROM (SELECT NOT age <= 61 AS old FROM customers) q",
]
TEXTS = [PEOPLE, JOINED, MATCHED, BESIDE, GROUPED, TOTALS, FILTERED]
LEFT = "SELECT COUNT(k.code) FROM customers c LEFT JOIN countries k ON c.country = k.code"
CITIES = "SELECT COUNT(*) FROM (SELECT customer_id, COUNT(*) AS n FROM orders{} GROUP BY 1) q{}"
LATEST = (
    "SELECT COUNT(*) FROM (SELECT quantity, row_number() OVER (PARTITION BY customer_id ORDER BY"
    " placed_at, order_id) AS r FROM orders{}) q WHERE r = 1{}"
)
APART = [
    [f"{LEFT} AND k.region = 'north'", f"{LEFT} WHERE k.region = 'north'", LEFT],
    [CITIES.format(" WHERE quantity > 2", ""), CITIES.format("", " WHERE n > 2")],
    [LATEST.format(" WHERE quantity > 2", ""), LATEST.format("", " AND quantity > 2")],
    [PEOPLE[0], PEOPLE[0].replace("SUM", "AVG"), PEOPLE[0].replace("(income)", "(age)")],
    [JOINED[0], JOINED[0].replace("(amount)", "(quantity)"), JOINED[0].replace("> 2", ">= 2")],
    [MATCHED[0], MATCHED[0].replace(" IN ", " NOT IN "), MATCHED[0].split(" AND ")[0]],
]
"""Texts that nearly say the same: what is asked before a step is not what is asked behind it."""
FORMS = (f"{COUNT} WHERE {{}}", "SELECT COUNT(*) FROM (SELECT * FROM customers WHERE {}) AS q")


def question(sql: str) -> str:
    return compiled(sql, *shop()).question


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.full("further data sets, and all their neighbours")
def test_conditions_in_other_words_are_one_question() -> None:
    by_name = {
        name: {question(form.format(one)) for one in words for form in FORMS}
        for name, words in ALIKE.items()
    }
    assert {name: len(found) for name, found in by_name.items() if len(found) > 1} == {}
    assert len(set().union(*by_name.values())) == len(ALIKE)


@pytest.mark.parametrize("texts", TEXTS)
def test_texts_in_other_words_are_one_question(texts: list[str]) -> None:
    assert len({question(sql) for sql in texts}) == 1


@pytest.mark.parametrize("words", NEAR)
def test_conditions_that_nearly_say_the_same_are_different_questions(words: list[str]) -> None:
    questions = [question(FORMS[0].format(one)) for one in words]
    assert all(one != other for one, other in combinations(questions, 2))


@pytest.mark.parametrize("texts", APART)
def test_texts_that_nearly_say_the_same_are_different_questions(texts: list[str]) -> None:
    assert len({question(sql) for sql in texts}) == len(texts)


WIDE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'wide') COUNT(*) FROM {}"
CHOICES = ["TRUE", "segment = 'business'", "NOT segment <> 'consumer'", "'consumer' IN (segment)"]
"""Conditions that choose among listed values, of which what is measured wide has all."""


def population(rows: str) -> tuple[str, tuple[str, ...]]:
    """What is measured wide for a count of rows: of which, and by which keys."""
    wide = compiled(WIDE.format(rows), *shop()).wide
    assert wide is not None
    return wide.prepared.question, wide.measured.keys


@pytest.mark.full("draws random questions or values")
def test_questions_of_the_same_rows_are_answered_of_the_same_tables() -> None:
    by_name = {
        name: {
            population(form.format(one, choice))
            for one, choice in zip(ALIKE[name], CHOICES, strict=False)
            for form in (
                "(SELECT * FROM customers WHERE {}) q WHERE {}",
                "customers WHERE {1} AND {0}",
            )
        }
        for name in ("whole numbers", "both ends", "days")
    }
    every = set[str]()
    for found in by_name.values():
        assert len({of for of, _ in found}) == 1
        assert len({keys for _, keys in found}) == 2  # none, and the one column
        every |= {of for of, _ in found}
    assert len(every) == len(by_name)
    assert len({population(f"customers WHERE {one}")[0] for one in NEAR[0]}) == len(NEAR[0])


@pytest.mark.full("draws random questions or values")
def test_what_facts_imply_is_left_out_only_where_they_vouch() -> None:
    asked = (
        "SELECT COUNT(*) FROM orders",
        "SELECT COUNT(*) FROM orders WHERE order_id IS NOT NULL",
    )
    one, other = (question(sql) for sql in asked)
    assert one == other
    policy, engine = fuzz_world.wary_policy(), fuzz_world.adversary(None)
    one, other = (compiled(sql, policy, engine).question for sql in asked)
    assert one != other


def test_declared_bounds_imply_nothing() -> None:
    assert question(COUNT) != question(f"{COUNT} WHERE age >= 0")
    assert question(COUNT) != question(f"{COUNT} WHERE segment IN ('consumer', 'business')")


def test_columns_of_an_outer_join_may_be_null_although_a_fact_says_they_are_not() -> None:
    source = "customers c LEFT JOIN orders o ON c.customer_id = o.customer_id"
    one = f"SELECT COUNT(DISTINCT c.customer_id) FROM {source}"
    assert question(one) != question(f"{one} WHERE o.order_id IS NOT NULL")


@pytest.mark.full("draws random questions or values")
def test_other_words_are_answered_from_memory_with_the_same_errors(tmp_path: Path) -> None:
    with Proxy.open(str(shop_files(tmp_path))) as proxy:
        first, *others = [proxy.ask(request(sql)) for sql in PEOPLE]
        assert first.receipt is not None
        for other in others:
            assert other.receipt is not None
            assert other.receipt.charged.amount == 0
            assert (other.rows, other.margins, other.notices) == (
                first.rows,
                first.margins,
                first.notices,
            )


LIMITLESS = [
    "SELECT COUNT(*) FROM logins WHERE day >= DATE '2024-02-01' AND login_id IS NOT NULL",
    "SELECT COUNT(*) FROM (SELECT day AS d FROM logins) q WHERE NOT d <= DATE '2024-01-31'",
]
"""Questions of which a poll finds first how much one person adds."""


@pytest.mark.full("draws random questions or values")
def test_bounds_that_polls_found_are_those_of_other_words_too(tmp_path: Path) -> None:
    with Proxy.open(str(shop_files(tmp_path))) as proxy:
        first, other = (proxy.ask(request(sql)) for sql in LIMITLESS)
        assert other.receipt is not None
        assert (other.receipt.remembered, other.receipt.charged.amount) == (True, 0)
        assert (other.rows, other.margins, other.notices) == (
            first.rows,
            first.margins,
            first.notices,
        )


# --- random texts --------------------------------------------------------------------------------

ATOMS = (
    *("age > {n}", "age <= {n}", "age = {n}", "age <> {n}", "income > {n}", "vip", "age IS NULL"),
    *("city = '{c}'", "city <> '{c}'", "age BETWEEN {n} AND {m}", "city IN ('{c}', '{d}')"),
)


def _random(chance: Random, depth: int) -> str:
    if depth and chance.random() < 0.6:
        word = chance.choice(("AND", "OR"))
        sides = (_random(chance, depth - 1) for _ in range(2))
        return f"({f' {word} '.join(sides)})"
    numbers = {"n": chance.randint(20, 22), "m": chance.randint(21, 23)}
    atom = chance.choice(ATOMS).format(**numbers, c=chance.choice("ab"), d=chance.choice("bc"))
    return f"(NOT {atom})" if chance.random() < 0.3 else atom


def _values() -> duckdb.DuckDBPyConnection:
    """People with all combinations of boundary values."""
    rows = duckdb.connect()
    rows.execute("CREATE TABLE customers (age INTEGER, income DOUBLE, vip BOOLEAN, city VARCHAR)")
    numbers = (None, *range(19, 25))
    incomes = (None, 20.0, 20.5, 21.0, 22.0)
    every = product(numbers, incomes, (None, True, False), (None, "a", "b", "c"))
    rows.executemany("INSERT INTO customers VALUES (?, ?, ?, ?)", list(every))
    return rows


@pytest.mark.full("hundreds of random queries")
def test_random_conditions_of_one_question_are_true_in_the_same_rows() -> None:
    chance, by_question = Random(1), defaultdict[str, set[str]](set)  # noqa: S311
    for _ in range(150):
        condition = _random(chance, 1)
        by_question[question(f"{COUNT} WHERE {condition}")].add(condition)
    pairs = [pair for words in by_question.values() for pair in combinations(sorted(words), 2)]
    assert len(pairs) > 20
    differ = " + ".join(
        f"COUNT(*) FILTER (WHERE (({a}) IS TRUE) <> (({b}) IS TRUE))" for a, b in pairs
    )
    assert _values().execute(f"SELECT {differ} FROM customers").fetchone() == (0,)


# --- the value of every expression ---------------------------------------------------------------

COLUMNS: dict[SqlType, tuple[int, str, tuple[Any, ...]]] = {
    INTEGER: (1, "BIGINT", (None, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**62)),
    DOUBLE: (2, "DOUBLE", (None, 0.0, 0.5, 1.0, 1.5, float("nan"), float("inf"))),
    BOOLEAN: (3, "BOOLEAN", (None, True, False)),
    VARCHAR: (4, "VARCHAR", (None, "", "a", "b")),
    DATE: (5, "DATE", (None, date(2020, 2, 28), date(2020, 2, 29), date(2020, 3, 1))),
    decimal(4, 1): (6, "DECIMAL(4, 1)", (None, Decimal("0.5"), Decimal("1.0"), Decimal("1.5"))),
}
CONSTANTS: dict[SqlType, tuple[Any, ...]] = {
    INTEGER: (0, 1, 2, 2**53, 2**53 + 1, None),
    DOUBLE: (0.0, 1.0, 1.5),
    BOOLEAN: (True, False, None),
    VARCHAR: ("", "a", "b"),
    DATE: (date(2020, 2, 29), date(2020, 3, 1), date(1, 1, 1)),
    decimal(4, 1): (Decimal("1.0"), Decimal("1.5")),
}
COMPARED = "eq ne lt le gt ge is_distinct is_not_distinct".split()


def _constant(chance: Random, kind: SqlType) -> Literal:
    return Literal(chance.choice(CONSTANTS[kind]), kind)


def _column(kind: SqlType) -> Ref:
    return Ref(COLUMNS[kind][0], kind)


def _expression(chance: Random, depth: int) -> Expression:
    """A random BOOLEAN expression."""
    shape = chance.choice(("not", "and", "or", "atom", "case") if depth else ("atom", "constant"))
    match shape:
        case "not":
            return Call("not", (_expression(chance, depth - 1),), BOOLEAN)
        case "and" | "or":
            sides = tuple(_expression(chance, depth - 1) for _ in range(chance.choice((2, 2, 3))))
            return Call(shape, sides, BOOLEAN)
        case "case":
            return Call("case", tuple(_expression(chance, depth - 1) for _ in range(3)), BOOLEAN)
        case "constant" if chance.random() < 0.2:
            return _constant(chance, BOOLEAN)
        case _:
            return _atom(chance)


def _atom(chance: Random) -> Expression:
    kind = chance.choice([*COLUMNS, INTEGER, INTEGER])
    subject: Expression = _column(kind)
    if kind == INTEGER and chance.random() < 0.3:
        subject = Call("add", (subject, Literal(1, INTEGER)), INTEGER)
    other = chance.choice([kind, INTEGER]) if kind in (DOUBLE, decimal(4, 1)) else kind
    match chance.choice(("compared", "compared", "listed", "missing", "itself")):
        case "listed":
            options = tuple(_constant(chance, other) for _ in range(chance.choice((1, 2, 3))))
            return Call("in", (subject, *options), BOOLEAN)
        case "missing":
            return Call("is_null", (subject,), BOOLEAN)
        case "itself" if kind == BOOLEAN:
            return subject
        case _:
            sides = [subject, _constant(chance, other)]
            chance.shuffle(sides)
            return Call(chance.choice(COMPARED), tuple(sides), BOOLEAN)


def _rows() -> duckdb.DuckDBPyConnection:
    """Every value of every column, each with a few of the others."""
    rows, chance = duckdb.connect(), Random(2)  # noqa: S311
    columns = ", ".join(f"c{number} {name}" for number, name, _ in COLUMNS.values())
    rows.execute(f"CREATE TABLE t ({columns})")
    every = [values for _, _, values in COLUMNS.values()]
    listed = [tuple(chance.choice(values) for values in every) for _ in range(300)]
    rows.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(COLUMNS))})", listed)
    return rows


def wrong_values(count: int) -> int:
    """In how many rows the form of an expression has another value."""
    chance, rows = Random(3), _rows()  # noqa: S311
    names = {number: f"c{number}" for number, _, _ in COLUMNS.values()}
    differ = []
    for _ in range(count):
        expression = _expression(chance, chance.choice((1, 2, 3)))
        one, other = (DUCKDB.expression(e, names) for e in (expression, normal(expression)))
        differ.append(f"COUNT(*) FILTER (WHERE ({one}) IS DISTINCT FROM ({other}))")
    wrong = 0
    for start in range(0, len(differ), 100):
        row = rows.execute(f"SELECT {' + '.join(differ[start : start + 100])} FROM t").fetchone()
        assert row is not None
        wrong += row[0]
    return wrong


@pytest.mark.full("draws random questions or values")
def test_the_one_form_has_the_same_value_in_every_row() -> None:
    assert wrong_values(500) == 0


@pytest.mark.full("draws random questions or values")
def test_what_is_required_is_true_in_the_same_rows() -> None:
    chance, rows = Random(4), _rows()  # noqa: S311
    names = {number: f"c{number}" for number, _, _ in COLUMNS.values()}
    differ = []
    for _ in range(200):
        expression = _expression(chance, chance.choice((1, 2, 3)))
        both = Call("and", (conditions.TRUE, *required((expression,))), BOOLEAN)
        one, other = (DUCKDB.expression(e, names) for e in (expression, both))
        differ.append(f"COUNT(*) FILTER (WHERE (({one}) IS TRUE) <> (({other}) IS TRUE))")
    for start in range(0, len(differ), 100):
        sql = f"SELECT {' + '.join(differ[start : start + 100])} FROM t"
        assert rows.execute(sql).fetchone() == (0,)


WRONG: dict[str, dict[str, Any]] = {
    "NULL is taken for FALSE": {"UNKNOWN": conditions.FALSE},
    "a step too few": {"STEPPED": {"lt": ("le", 0), "gt": ("ge", 1)}},
    "a step too many": {"STEPPED": {"lt": ("le", -1), "gt": ("ge", 2)}},
    "a DOUBLE has steps": {
        "has_steps": lambda kind: kind in (INTEGER, DOUBLE),
        "_beside": lambda value, steps: value + steps,
    },
    "the opposite of less is more": {"OPPOSITE": {**conditions.OPPOSITE, "lt": "gt", "gt": "lt"}},
    "the wider end counts": {
        "TIGHTER": {key: {min: max, max: min}[pick] for key, pick in conditions.TIGHTER.items()}
    },
    "NOT stops at OR": {"DUAL": {"and": "and", "or": "or"}},
    "mirrored without turning": {"MIRRORED": {name: name for name in MIRRORED}},
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for what, instead in WRONG[name].items():
        monkeypatch.setattr(conditions, what, instead)
    assert wrong_values(100) > 0


# --- the rows of every relation ------------------------------------------------------------------


def written(relation: Relation) -> str:
    writer = Writer()
    writer.number(relation)
    return writer.write(relation)


def same_rows(block: PrivateBlock, engine: PlainEngine) -> bool | None:
    """Whether the rows in one form are the rows, column by column; None where a stage is read."""
    if any(isinstance(r, Staged) for r in relations(block.rows)):
        return None
    flattener = Flattener(written, block.never_null)
    flat = flattener.flat(block.rows)
    columns = [(f.ref, flat.columns[f.id]) for f in block.rows.fields]
    ours = DUCKDB.query(block.rows, tuple(ref for ref, _ in columns))
    theirs = DUCKDB.query(flattener.rows(flat), tuple(value for _, value in columns))
    sides = f"(({ours}) EXCEPT ALL ({theirs})) UNION ALL (({theirs}) EXCEPT ALL ({ours}))"
    return engine.rows(f"SELECT COUNT(*) FROM ({sides})") == [(0,)]


def checked(sql: str, number: int) -> bool | None:
    policy, engine = fuzz_world.shop(number)
    try:
        plan = compiled(sql, policy, engine).plan
    except Refused:
        return None
    blocks = () if plan is None else plan.blocks
    verdicts = [same_rows(block.block, engine) for block in blocks]
    assert False not in verdicts, sql
    return True if True in verdicts else None


@pytest.mark.full("hundreds of random queries")
def test_the_rows_of_random_queries_are_the_same_in_one_form() -> None:
    said: Counter[bool | None] = tally(70, checked, shrink=False, queries=QUERIES)
    assert said[True] > 30


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("texts", TEXTS)
def test_the_rows_of_texts_are_the_same_in_one_form(texts: list[str]) -> None:
    for sql, number in product(texts, (3, 9)):
        checked(sql, number)


def _everywhere(self: Flattener, _sources: object) -> frozenset[int]:
    """The wrong twin: what facts say of a table is believed behind an outer join too."""
    return frozenset(self.never_null)


PADDED = (
    "SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id"
    " WHERE o.order_id IS NOT NULL"
)


def test_a_fact_that_is_believed_behind_an_outer_join_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked(PADDED, 9)
    monkeypatch.setattr(Flattener, "present", _everywhere)
    with pytest.raises(AssertionError):
        checked(PADDED, 9)
