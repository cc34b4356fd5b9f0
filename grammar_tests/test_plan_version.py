"""An edit of the policy charges again what it changes, and nothing else (PRIVACY.md R69).

Law: if an edit changes a statement, a distance or the guarantee of a plan, the question is another
one. What the plan does not read leaves it as it is.
"""

# ruff: noqa: E501  one edit, one row

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from unittest.mock import patch

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.dataclass import replace
from dpsql.model.errors import Refused
from dpsql.model.file_formats import FileFormat
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation import prepare
from dpsql.preparation.public_data import PublicTables
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import PlainEngine, compiled
from grammar_tests.proxy_kit import request, shop

SHOP = (CATALOGS / "shop.toml").read_text(encoding="utf-8")
ENGINE = PlainEngine(world.build(world.well_behaved(), constraints=False))

ASKED = (
    "SELECT COUNT(*) AS n FROM customers",
    "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment",
    "SELECT country, AVG(age) AS a FROM customers GROUP BY country",
    "SELECT city, COUNT(*) AS n FROM customers GROUP BY city",
    "SELECT SUM(amount) AS s FROM orders WHERE quantity > 3",
    "SELECT status, COUNT(*) AS n FROM orders GROUP BY status",
    "SELECT MAX(placed_at) AS m FROM orders",
    "SELECT COUNT(discount) AS n, COUNT(DISTINCT customer_id) AS c FROM orders",
    "SELECT SUM(price * units) AS s FROM items JOIN orders USING (order_id) WHERE status = 'paid'",
    "SELECT region, COUNT(*) AS n FROM customers JOIN countries ON country = code GROUP BY region",
    "SELECT COUNT(*) AS n FROM customers WHERE EXISTS (SELECT 1 FROM logins WHERE logins.customer_id = customers.customer_id AND day > DATE '2024-03-01')",
    "SELECT AVG(duration) AS d FROM events",
    "SELECT QUANTILE_CONT(income, 0.5) AS q FROM customers",
)
EDITS = {
    "city = {}": ("city = { hidden = true }", "city"),
    "vip = {}\n": ("", "vip"),
    "age = { bounds = [0, 120]": ("age = { bounds = [0, 100]", "age"),
    'segment = { values = ["consumer", "business"]': (
        'segment = { values = ["consumer"]',
        "segment",
    ),
    'country = { values_from = "countries.code" }': ('country = { values = ["NO"] }', "country"),
    "income = { bounds = [0.0, 200000.0] }": ("income = { bounds = [0.0, 300000.0] }", "income"),
    "amount = { bounds = [0.0, 500.0]": ("amount = { bounds = [0.0, 400.0]", "amount"),
    "quantity = { bounds = [0, 20]": ("quantity = { bounds = [5, 20]", "quantity"),
    "discount = { bounds = [0.0, 1.0], nullable = true }": ("discount = {}", "discount"),
    'status = { values = ["open",': ('status = { values = ["done",', "status"),
    "price = { bounds = [0.0, 100.0]": (
        "price = { max_per_unit = 900, bounds = [0.0, 100.0]",
        "price",
    ),
    "duration = { bounds = [0, 3600]": ("duration = { bounds = [0, 60]", "duration"),
    "max_rows_per_unit = 50": ("max_rows_per_unit = 40", "orders items"),
    "max_groups_per_unit = 3": ("max_groups_per_unit = 2", "orders items"),
    "max_rows_per_group = 10": ("max_rows_per_group = 5", "orders items"),
    "max_groups_per_unit = 4": ("max_groups_per_unit = 1", "items"),
    'key = "login_id"\n': ("", "logins"),
    'key = "code"': ("", "countries"),
    "expected_rows = 1000": ("expected_rows = 2000", "none"),
    "query_epsilon = 1.0": ("query_epsilon = 2.0", "none"),
    'neighbours = "add_remove"': ('neighbours = "replace"', ""),
}
"""Each edit, with the words of questions that it may change; "" is a word of all."""


@cache
def policy(old: str = "", new: str = "") -> Policy:
    assert old in SHOP
    with TemporaryDirectory() as folder:
        file = Path(folder) / "dpsql.toml"
        file.write_text(SHOP.replace(old, new) if old else SHOP, encoding="utf-8")
        schema = Schema(declared(ENGINE.rows), "here")
        return bind(load(str(file)), schema, PublicTables(ENGINE, DUCKDB).values)


@cache
def edited(old: str = "", new: str = "") -> Mapping[str, Prepared]:
    """The plans under the shop's policy or under an edit of it, which no test changes."""
    return MappingProxyType(plans(policy(old, new)))


def plans(policy: Policy) -> dict[str, Prepared]:
    found = dict[str, Prepared]()
    for sql in ASKED:
        try:
            found[sql] = compiled(sql, policy, ENGINE)
        except Refused:
            continue
    return found


@pytest.mark.full("measures neighbours or further data sets")
def test_texts_that_are_cut_elsewhere_are_other_questions() -> None:
    """The cut is in no statement where the reader makes it."""
    limits = "[limits]\nmax_text_length = {}".format
    before = edited()
    for longest, same in ((65_536, True), (40, False)):
        after = edited("[limits]", limits(longest))
        assert [before[sql].question == after[sql].question for sql in ASKED] == [same] * len(ASKED)


def decisive(plan: Prepared, policy: Policy) -> object:
    """What the integers and the guarantee are: statements, distances and noise, and the unit."""
    assert plan.plan is not None
    numbers = re.compile(r"\b[ct]\d+\b")  # those of columns and tables say nothing
    statements = [numbers.sub("x", block.sql) for block in plan.rewritten.blocks]
    return statements, plan.plan.event, policy.unit


def forgotten(old: str, plans_of: Callable[..., Mapping[str, Prepared]] = edited) -> list[str]:
    """The questions of a plan that an edit changes, and that stay the same."""
    edit = old, EDITS[old][0]
    before, after, there = policy(), policy(*edit), plans_of(*edit)
    return [
        sql
        for sql, plan in plans_of().items()
        if sql in there
        and decisive(plan, before) != decisive(there[sql], after)
        and plan.question == there[sql].question
    ]


@pytest.mark.parametrize("old", EDITS)
def test_an_edit_that_changes_a_plan_changes_its_question(old: str) -> None:
    assert forgotten(old) == []


@pytest.mark.parametrize("old", EDITS)
def test_an_edit_of_what_is_not_read_changes_no_question(old: str) -> None:
    new, words = EDITS[old]
    before, after = edited(), edited(old, new)
    for sql, plan in before.items():
        if words and not any(word in sql for word in words.split()):
            assert after[sql].question == plan.question, sql
    assert before.keys() == {*ASKED}


def test_wrong_twin_a_version_that_forgets_the_guarantee_is_found() -> None:
    with patch.object(prepare, "plan_version", lambda _policy, _read: ""):
        assert forgotten('neighbours = "add_remove"', edited.__wrapped__)


def test_another_format_of_a_file_is_another_question() -> None:
    """It is in no statement: views read the file."""
    before = policy()
    formats = (("orders", FileFormat(delimiter=";")),)
    after = replace(before, database=replace(before.database, formats=formats))
    one, other = edited(), plans(after)
    changed = {sql for sql in ASKED if one[sql].question != other[sql].question}
    assert changed == {sql for sql in ASKED if "orders" in sql or "items" in sql}


@pytest.mark.full("opens a proxy for each item")
def test_hiding_a_column_charges_no_other_question_again(tmp_path: Path) -> None:
    """With the vault and the ledger; a question that names the column is refused."""
    file = shop(tmp_path / "shop")
    with Proxy.open(str(file)) as proxy:
        paid = [proxy.ask(request(sql, "1")).rows for sql in ASKED[:3]]
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("note = { nullable = true }\n", "").replace(
        "city = {}", "city = { hidden = true }"), encoding="utf-8")  # fmt: skip
    with Proxy.open(str(file)) as proxy:
        again = [proxy.ask(request(sql, "1")) for sql in ASKED[:3]]
        assert [answer.rows for answer in again] == paid
        assert all(answer.receipt and answer.receipt.remembered for answer in again)
        with pytest.raises(Refused):
            proxy.ask(request(ASKED[3], "1"))
