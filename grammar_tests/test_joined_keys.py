"""Keys of joined public tables: those are listed that their rows can have, and no others."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dpsql.compiler.infer import possible_keys
from grammar_tests import world
from grammar_tests.bound import CATALOGS, bound_by, over
from grammar_tests.laws import PlainEngine, compiled

COLUMNS = {"a": ("code", "region"), "b": ("code", "region"), "p": ("product_id", "category")}
FIRST = ("JOIN countries a ON country = a.code", "LEFT JOIN countries a ON country = a.code")
MORE = (
    "{} countries b ON b.code = country",
    "{} countries b ON b.region = a.region",
    "{} countries b ON b.region = a.region AND b.code <> a.code",
    "{} (SELECT * FROM countries WHERE region = 'north') b ON b.region = a.region",
)
LAST = (
    "{} products p ON p.product_id = LENGTH(a.region) - 4",
    "{} products p ON p.category = CASE WHEN a.region = 'north' THEN 'book' ELSE 'toy' END",
    "{} (FROM products WHERE product_id < LENGTH(category)) p ON p.product_id = LENGTH(a.code)",
)
CONDITIONS = ("a.code <> 'IT'", "b.code < a.code", "b.region = 'north'", "p.category = 'book'")
DERIVED = ("UPPER({})", "{} || '!'")
ROUNDS = 60


def question(dice: Random) -> tuple[str, str]:
    """Keys of up to three public tables, and the rows that they are joined to in any way."""
    joins = [dice.choice(FIRST)]
    if dice.random() < 0.8:
        # Two optional sides that a private column alone relates are taken as independent.
        more = MORE[joins[0].startswith("LEFT") :]
        joins.append(dice.choice(more).format(dice.choice(("JOIN", "LEFT JOIN"))))
    if dice.random() < 0.5:
        joins.append(dice.choice(LAST).format(dice.choice(("JOIN", "LEFT JOIN"))))
    text = " ".join(joins)
    aliases = [alias for alias in COLUMNS if f" {alias} ON" in text]
    columns = [f"{alias}.{column}" for alias in aliases for column in COLUMNS[alias]]
    keys = dice.sample(columns, dice.randint(1, min(3, len(columns))))
    if dice.random() < 0.2 and not keys[0].endswith("product_id"):
        keys[0] = dice.choice(DERIVED).format(keys[0])
    rows = f"FROM customers {text}"
    usable = [c for c in CONDITIONS if all(f"{a}." not in c or a in aliases for a in COLUMNS)]
    if usable and dice.random() < 0.5:
        rows += f" WHERE {dice.choice(usable)}"
    return ", ".join(keys), rows


def everybody() -> PlainEngine:
    """A customer of each country, and one of none."""
    codes = [code for code, _ in world.PUBLIC["countries"]]
    customers = [(n, code, *world.customer(n)[2:]) for n, code in enumerate([*codes, None])]
    tables = {**world.empty(), "customers": customers}
    return PlainEngine(world.build(tables, constraints=False))


def differences(rounds: int) -> tuple[list[str], list[str]]:
    """The questions that list a key which no rows can have, and those that miss one."""
    policy, engine = over(world.well_behaved(), constraints=True)
    dense, dice = everybody(), Random(5)  # noqa: S311 - a test's
    beyond, missing = list[str](), list[str]()
    for _ in range(rounds):
        keys, rows = question(dice)
        sql = f"SELECT {keys}, COUNT(*) AS n {rows} GROUP BY ALL"
        (block,) = compiled(sql, policy, engine).blocks
        assert block.domain is not None, sql
        listed: set[Any] = set(block.domain)
        real = set(dense.connection.execute(f"SELECT DISTINCT {keys} {rows}").fetchall())
        beyond += [sql] if listed - real else []
        missing += [sql] if real - listed else []
    return beyond, missing


@pytest.mark.full("measures neighbours or further data sets")
def test_keys_are_those_of_the_public_rows_as_they_are_joined() -> None:
    beyond, missing = differences(ROUNDS)
    assert missing == []
    assert beyond == []


@pytest.mark.campaign
def test_more_keys_are_those_of_the_public_rows() -> None:
    beyond, missing = differences(20 * ROUNDS)
    assert missing == []
    assert beyond == []


def test_public_tables_one_by_one_would_list_keys_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(possible_keys, "_joined", lambda parts, *_: [[part] for part in parts])
    beyond, missing = differences(ROUNDS // 4)
    assert beyond
    assert missing == []


PAIRS = (
    "SELECT a.code, b.region, COUNT(*) AS n FROM customers JOIN countries a ON country = a.code"
    " JOIN countries b ON a.region = b.region GROUP BY 1, 2"
)


UNRELATED = (
    "SELECT c.region, segment, vip, COUNT(*) AS n FROM customers JOIN countries c"
    " ON country = c.code GROUP BY 1, 2, 3"
)
ABSENT = (
    "SELECT b.code, d.code AS other, COUNT(*) AS n FROM customers LEFT JOIN"
    " (countries b JOIN countries d ON b.code = d.code AND b.code < d.region)"
    " ON b.code = country GROUP BY 1, 2"
)


@pytest.mark.parametrize(("most", "listed"), [(8, 8), (7, None)])
def test_keys_that_nothing_relates_are_listed_up_to_the_limit(
    most: int, listed: int | None
) -> None:
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    few = text.replace("max_public_groups = 1000", f"max_public_groups = {most}")
    (block,) = compiled(UNRELATED, *bound_by(few)).blocks
    assert (None if block.domain is None else len(block.domain)) == listed


def test_a_unit_is_in_as_many_groups_as_public_rows_list() -> None:
    """Where no domain of a key alone bounds them: three products are more than may be listed."""
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    few = text.replace("max_public_groups = 1000", "max_public_groups = 2")
    books = (
        "SELECT p.product_id, COUNT(*) AS n FROM items i JOIN products p"
        " ON i.product_id = p.product_id JOIN countries c ON c.region = 'south'"
        " AND p.category = CASE WHEN c.region = 'south' THEN 'book' END GROUP BY 1"
    )
    (block,) = compiled(books, *bound_by(few)).blocks
    assert block.domain == ((1,), (3,))
    assert block.l0 == 2


def test_what_is_equal_within_an_optional_side_may_be_absent() -> None:
    (block,) = compiled(ABSENT, *over(world.well_behaved(), constraints=True)).blocks
    assert block.domain is not None
    assert {("NO", "NO"), ("IT", "IT"), (None, None)} <= set(block.domain)
    assert all(code == other for code, other in block.domain)


@pytest.mark.full("measures neighbours or further data sets")
def test_pairs_that_are_few_are_listed_where_all_pairs_were_too_many() -> None:
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    for most, listed in ((3, 3), (2, None)):
        few = text.replace("max_public_groups = 1000", f"max_public_groups = {most}")
        (block,) = compiled(PAIRS, *bound_by(few)).blocks
        assert (None if block.domain is None else len(block.domain)) == listed
