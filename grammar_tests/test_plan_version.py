"""An edit of the policy charges again what it changes, and nothing else (PRIVACY.md R69).

Law: if an edit changes a statement, a distance or the guarantee of a plan, the question is another
one. What the plan does not read leaves it as it is.
"""

# ruff: noqa: E501  one edit, one row

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pytest

from dpsql.compiler.plan import wide_tables
from dpsql.compiler.plan.plan_version import BY_PLAN
from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.dialects.statements.statement_table import read_system_statement
from dpsql.engines import Stop
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.model.dataclass import replace
from dpsql.model.errors import Refused
from dpsql.model.file_formats import FileFormat
from dpsql.model.query_options import Memory
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy, Request
from dpsql.policy.bind import bind
from dpsql.policy.guarantee_keys import record_guarantee
from dpsql.policy.load import load
from dpsql.preparation import prepare
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import Account, Cost
from dpsql.preparation.streams import stream
from dpsql.proxy import Proxy
from dpsql.systems.models import gradient_plan, moments_plan
from dpsql.systems.models.model_statement import CreateModel, model_statement
from dpsql.systems.models.models import ListModels
from dpsql.systems.models.moments_plan import MomentsWish
from dpsql.systems.synthesis import synthesis_plan
from dpsql.systems.synthesis.synthesis_plan import SynthesisWish
from dpsql.systems.watch.monitor import Watch, WatchAll
from dpsql.vault.answer_cache import AnswerCache
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


def of_model(compiler: Compiler) -> tuple[str, list[Prepared]]:
    text = "SELECT age, income FROM customers"
    plan = moments_plan.planned(compiler, MomentsWish(asked(text)), Stop())
    return plan.cost.question, [plan.prepared]


def of_gradient(compiler: Compiler) -> tuple[str, list[Prepared]]:
    text = "SELECT vip, age FROM customers WHERE vip IS NOT NULL"
    written = read_system_statement(
        "CREATE MODEL m OPTIONS(model_type = 'logistic_reg', label = 'vip', method = 'gradient')"
        f" AS {text}"
    )
    assert written is not None
    said = model_statement(written)
    assert isinstance(said, CreateModel)
    plan = gradient_plan.planned(compiler, MomentsWish(asked(text)), said, Stop())
    return plan.cost.question, [plan.prepared]


def of_rows(compiler: Compiler) -> tuple[str, list[Prepared]]:
    text = "SELECT segment, vip FROM customers"
    plan = synthesis_plan.planned(compiler, SynthesisWish(asked(text)), Stop())
    return plan.cost.question, [*plan.singles, *plan.pairs.values()]


def of_watch(compiler: Compiler) -> tuple[str, list[Prepared]]:
    text = "SELECT status, COUNT(amount) AS n FROM orders GROUP BY status"
    prepared = compiler.prepared(compiler.read(asked(text), Stop()))
    return stream(prepared, DUCKDB).question, [prepared]


def of_cube(compiler: Compiler) -> tuple[str, list[Prepared]]:
    text = "SELECT COUNT(*) AS n FROM customers WHERE segment = 'consumer'"
    table = compiler.prepared(compiler.read(asked(text), Stop())).wide
    assert table is not None
    digests = *table.measured.keys, *table.measured.parts
    return "|".join((table.prepared.question, *digests)), [table.prepared]


def asked(text: str) -> Request:
    return Request(text, "ana", epsilon=Decimal(1))


SYSTEMS: dict[str, tuple[Callable[[Compiler], tuple[str, list[Prepared]]], str]] = {
    "a model by second moments": (of_model, "age income customers"),
    "a model by gradients": (of_gradient, "vip age customers"),
    "synthetic rows": (of_rows, "segment vip customers"),
    "a watched stream": (of_watch, "status amount orders"),
    "a cube": (of_cube, "segment customers"),
}
"""What side systems charge for, with the words of the edits that may change it."""


@cache
def of_systems(old: str = "") -> Mapping[str, tuple[str, object] | None]:
    """The identity and the decisive parts of each system's measurement, after an edit.

    None where it is refused.
    """
    whole = policy(old, EDITS[old][0]) if old else policy()
    budgets = tuple(replace(each, memory=Memory.WIDE) for each in whole.budgets)
    compiler = Compiler(replace(whole, budgets=budgets), ENGINE.public)
    made = dict[str, tuple[str, object] | None]()
    for name, (plan_of, _) in SYSTEMS.items():
        try:
            question, parts = plan_of(compiler)
        except Refused:
            made[name] = None
            continue
        made[name] = question, [decisive(each, whole) for each in parts]
    return MappingProxyType(made)


def forgotten_by_systems(
    old: str, systems: Callable[..., Mapping[str, tuple[str, object] | None]] = of_systems
) -> list[str]:
    """The systems whose measurement an edit changes while its identity stays."""
    before, after = systems(), systems(old)
    pairs = {name: (one, after[name]) for name, one in before.items()}
    return [
        name
        for name, (one, other) in pairs.items()
        if one and other and one[1] != other[1] and one[0] == other[0]
    ]


@pytest.mark.full("compiles five measurements for each edit")
@pytest.mark.parametrize(
    "old",
    [pytest.param(old, marks=pytest.mark.campaign if n % 3 else ()) for n, old in enumerate(EDITS)],
)
def test_an_edit_charges_a_side_system_again_only_where_it_reads_it(old: str) -> None:
    """Models, synthetic rows, watched streams and cubes."""
    _, words = EDITS[old]
    before, after = of_systems(), of_systems(old)
    assert forgotten_by_systems(old) == []
    for name, (_, read) in SYSTEMS.items():
        assert before[name] is not None, name
        if words and not {*words.split()} & {*read.split()}:
            assert after[name] == before[name], name


def test_wrong_twin_a_system_that_forgets_the_policy_is_found() -> None:
    def forgets(_policy: Policy, _read: object) -> str:
        return ""

    of_plans, of_tables = (
        patch.object(room, "plan_version", forgets) for room in (prepare, wide_tables)
    )
    with of_plans, of_tables:
        old = 'neighbours = "add_remove"'
        found = forgotten_by_systems(old, of_systems.__wrapped__)
    assert found == [name for name in SYSTEMS if name != "a watched stream"]  # another statement


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


MADE = (
    "CREATE MODEL aged OPTIONS(model_type = 'pca') AS SELECT age, income FROM customers",
    "CREATE SYNTHETIC TABLE drawn AS SELECT segment, vip FROM customers",
)
WATCHED = WatchAll(Watch("ana", Decimal(5), 2, Decimal(1)), (asked(ASKED[5]),))
UNUSED = (
    ("city = {}", "city = { hidden = true }"),
    ("max_groups_per_unit = 4", "max_groups_per_unit = 1"),
)


def charges_after(file: Path, *edits: tuple[str, str]) -> tuple[int, list[str]]:
    """How many of the objects are charged again after an edit, and which names there are then."""
    edited_text = file.read_text(encoding="utf-8")
    entries = charges(file)
    for old, new in edits:
        assert old in edited_text
        edited_text = edited_text.replace(old, new)
    file.write_text(edited_text, encoding="utf-8")
    draft = load(str(file))
    with closing(open_ledger(draft.ledger)) as ledger:
        record_guarantee(draft, ledger, "an edit")
    with Proxy.open(str(file)) as proxy:
        names = [each.name for each in proxy.run(ListModels("ana"))]
        names += [each.name for each in proxy.own_tables("ana")]
    return charges(file) - entries, names


def charges(file: Path) -> int:
    """The charges once each object is made or watched."""
    with Proxy.open(str(file)) as proxy:
        for text in MADE:
            proxy.ask(asked(text))
        proxy.run(WATCHED)
        return sum(bool(entry.loss.amount) for entry in proxy.ledger.history(None, 100))


@pytest.mark.full("opens a proxy for each step")
def test_models_rows_and_monitors_outlive_an_edit_of_what_they_do_not_read(tmp_path: Path) -> None:
    file = shop(tmp_path / "shop")
    assert charges_after(file, *UNUSED) == (0, ["aged", "drawn"])
    assert charges_after(file, ("[0.0, 200000.0]", "[0.0, 300000.0]")) == (1, ["drawn"])
    assert charges_after(file, ('"add_remove"', '"replace"'))[0] == 3


@pytest.mark.full("opens a proxy for each step")
def test_wrong_twin_objects_by_the_whole_policy_are_charged_again(tmp_path: Path) -> None:
    def of_policy(self: AnswerCache, compiler: Compiler, payer: Account, cost: Cost) -> Any:
        key = payer.analyst, cost.question + compiler.policy.version
        return self._ledger.recall(*key, BY_PLAN, payer.epsilon)

    with patch.object(AnswerCache, "recall_cost", of_policy):
        again, _ = charges_after(shop(tmp_path / "shop"), *UNUSED)
    assert again == len((*MADE, WATCHED))
