"""Every place that can tell of a table, a column or a row, for an analyst whose roles lack it.

PRIVACY.md R105. A place says what it knows in words; a number is what it knows of rows.
"""

# ruff: noqa: E501  one mistake, one row

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from click.testing import CliRunner

import dpsql
from dpsql.answering.any_statement import ColumnsOf, PlanOf
from dpsql.answering.together import AskTogether
from dpsql.compiler.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.engines import Stop
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.cli.shell_sessions import LocalSession
from dpsql.interfaces.dbapi.local_answers import free_answer
from dpsql.interfaces.messages import describe
from dpsql.interfaces.plan_text import plan_text
from dpsql.model.algebra import Scan
from dpsql.model.dataclass import replace
from dpsql.model.errors import DpsqlError, PolicyError, Reason, Refused
from dpsql.model.tree import PlanForm, Span
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.owner.check import check_policy
from dpsql.proxy import Proxy
from dpsql.systems.cubes.cubes import CreateCube
from grammar_tests.laws import no_noise
from grammar_tests.proxy_kit import request, shop

NORTH = """[roles.whole]
analysts = ["ana"]
tables = "all"

[roles.north]
analysts = ["bob"]
[roles.north.tables.customers]
columns = ["country", "segment"]
rows = "country = 'NO' AND name <> 'nobody'"
[roles.north.tables.orders]
columns = ["customer_id", "amount", "status"]
rows = "customers.country = 'NO'"
[roles.north.tables.items]
columns = ["price"]
[roles.north.tables.countries]

[ledger]"""
REMEMBERING = 'query_delta = 1e-6\nmemory = "wide"\nshare_answers = true'
LISTED = "device = {}", 'device = { values = ["phone"] }'
NAMES = frozenset(
    """events logins products item_id event_id login_id order_id product_id city age income
    vip quantity discount placed_at note_length device duration""".split()
)
"""Names that the role does not grant, and that are no words of messages."""
BY_SEGMENT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"
CUBE = (
    "CREATE DP CUBE c AS SELECT segment, vip, COUNT(*) AS n FROM customers"
    " GROUP BY CUBE (segment, vip) OPTIONS(epsilon = 1)"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shop(tmp_path / "shop", ("[ledger]", NORTH), ("query_delta = 1e-6", REMEMBERING), LISTED)


@pytest.fixture
def proxy(folder: Path) -> Iterator[Proxy]:
    with Proxy.open(str(folder)) as proxy:
        proxy.vault.sampler = no_noise
        yield proxy


def words(text: object) -> set[str]:
    return set(re.findall(r"\w+", str(text).lower()))


# --- what a place says in words ---


def message(proxy: Proxy, sql: str) -> str:
    """The words of a refusal, with what is offered instead; or of an answer."""
    try:
        return str([*map(str, proxy.ask(request(sql, "5", "bob")).notices)])
    except Refused as refused:
        facts = {name: fact for name, fact in refused.facts.items() if name not in sql}
        return f"{describe(refused, sql)} {facts} {refused.offer}"


def listings(proxy: Proxy) -> str:
    connection = dpsql.connect(proxy=proxy, analyst="bob")
    said = [connection.tables().fetchall()]
    return str(said + [connection.columns(t).fetchall() for t in ("customers", "orders")])


def completion(proxy: Proxy) -> str:
    names = LocalSession(proxy, request("", "1", "bob")).names()
    return f"{names.tables} {names.values}"


def catalogue(proxy: Proxy) -> str:
    texts = (
        "SELECT table_name, column_name FROM information_schema.columns",
        "SELECT relname FROM pg_class WHERE relkind = 'r'",
        "SELECT attname FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid WHERE relkind = 'r'",
        "SELECT description FROM pg_description",
        "SELECT conname FROM pg_constraint",
    )
    answers = [free_answer(proxy, request(sql, "1", "bob")) for sql in texts]
    return str([answer and answer.rows for answer in answers])


def values(proxy: Proxy) -> str:
    answer = free_answer(proxy, request("SELECT * FROM dpsql_values()", "1", "bob"))
    return str(answer and answer.rows)


def reflection(proxy: Proxy) -> str:
    sa = pytest.importorskip("sqlalchemy")
    from sqlalchemy.dialects import registry  # noqa: PLC0415

    registry.register("dpsql", "dpsql.interfaces.sqlalchemy", "DpsqlDialect")
    engine = sa.create_engine(f"dpsql:///{proxy.policy.path}?analyst=bob")
    metadata = sa.MetaData()
    metadata.reflect(engine)
    engine.dispose()
    columns = [(c.name, c.comment) for t in metadata.tables.values() for c in t.columns]
    return str([*metadata.tables, *columns, *(t.comment for t in metadata.tables.values())])


def did_you_mean(proxy: Proxy) -> str:
    texts = (
        "SELECT COUNT(*) FROM event",
        "SELECT COUNT(*) FROM custommers",
        "SELECT x FROM events_",
    )
    columns = ("SELECT AVG(incom) FROM customers", "SELECT AVG(vips) FROM customers")
    return " ".join(message(proxy, sql) for sql in (*texts, *columns))


def refusals(proxy: Proxy) -> str:
    """Refused for other reasons than a name, with offers."""
    texts = (
        "SELECT * FROM customers",
        "SELECT * FROM orders LIMIT 5",
        "SELECT status, amount FROM orders",
        "SELECT segment, status, COUNT(*) FROM customers JOIN orders ON segment = status GROUP BY 1, 2",
        "SELECT amount, RANK() OVER (ORDER BY amount) FROM orders",
        "SELECT COUNT(*) FROM orders WHERE EXISTS (SELECT 1 FROM customers WHERE segment = status)",
        "SELECT MAX(customer_id) FROM orders",
        "SELECT SUM(segment) FROM customers",
        "SELECT COUNT(*) FROM items AS a JOIN items AS b ON a.price = b.price",
    )
    return " ".join(message(proxy, sql) for sql in texts)


def plans(proxy: Proxy) -> str:
    off = "WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'off') "
    texts = (f"SELECT {off}COUNT(*) AS n FROM orders", f"SELECT {off}SUM(price) AS s FROM items")
    return _explained(proxy, *texts)


def plans_from_memory(proxy: Proxy) -> str:
    return _explained(proxy, BY_SEGMENT, "SELECT SUM(price) AS s FROM items")


def _explained(proxy: Proxy, *texts: str) -> str:
    explained = [proxy.explain(request(sql, "1", "bob")) for sql in texts]
    long = [plan_text(each, PlanForm.LONG, width=200) for each in explained]
    return str([*long, *explained])


def models(proxy: Proxy) -> str:
    """Side systems that read all columns of a table by its name."""
    said = []
    for sql in (
        "CREATE SYNTHETIC TABLE s AS customers",
        "CREATE SYNTHETIC TABLE events AS SELECT segment FROM customers",
        "CREATE MODEL m OPTIONS(label = 'amount') AS orders",
    ):
        try:
            said.append(str(proxy.explain(request(sql, "5", "bob"))))
        except DpsqlError as error:
            said.append(str(describe(error)))
    return " ".join(said).replace("events", "")


def history(proxy: Proxy) -> str:
    """What an analyst asked before its roles were narrowed, and what another one asks."""
    asked_before(proxy, *(sql for sql in BEFORE if sql != KNOWN_WORDS))
    proxy.ask(request("SELECT AVG(income) AS a FROM customers", "1", "ana"))
    reported = dpsql.connect(proxy=proxy, analyst="bob").history().fetchall()
    return f"{LocalSession(proxy, request('', '1', 'bob')).history()} {reported}"


KNOWN_WORDS = "SELECT COUNT(status) AS n FROM customers JOIN orders USING (customer_id)"
BEFORE = (
    "SELECT AVG(income) AS a FROM customers",
    "SELECT COUNT(*) AS n FROM events",
    "SELECT SUM(amount) AS product_id FROM orders",
    "SELECT COUNT(*) AS n FROM items /* discount */",
    KNOWN_WORDS,
)
"""The last one names what is granted, and joins by what is not."""


def asked_before(proxy: Proxy, *texts: str) -> None:
    """Ask as an analyst who has all rights, and take them back."""
    narrow = proxy.policy
    proxy.adopt(replace(narrow, roles=()))
    for sql in texts:
        proxy.ask(request(sql, "1", "bob"))
    proxy.adopt(narrow)


PLACES: dict[Callable[[Proxy], str], str] = {
    listings: "dpsql.proxy.restrict_to",
    completion: "dpsql.proxy.restrict_to",
    catalogue: "dpsql.interfaces.pgwire.catalogue.restrict_to",
    values: "dpsql.proxy.restrict_to",
    reflection: "dpsql.proxy.restrict_to",
    did_you_mean: "dpsql.preparation.compilation.restrict_policy",
    plans: "dpsql.preparation.compilation.restrict_policy",
    plans_from_memory: "dpsql.answering.explain.restrict_policy",
    refusals: "dpsql.preparation.compilation.restrict_policy",
    history: "dpsql.proxy.restrict_to",
}
"""Each place with the one call that restricts it."""


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("place", [*PLACES, models])
def test_no_place_names_what_is_not_granted(place: Callable[[Proxy], str], proxy: Proxy) -> None:
    said = words(place(proxy))
    assert said & NAMES == set()
    assert said, "the place says something"


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("place", PLACES)
def test_wrong_twin_a_place_that_forgets_roles_is_found(
    place: Callable[[Proxy], str], proxy: Proxy
) -> None:
    def whole(policy: Policy, *_whose: object) -> Policy:
        return policy

    with patch(PLACES[place], whole):
        assert words(place(proxy)) & NAMES


# --- what a place says of rows ---


def counts(proxy: Proxy, sql: str = BY_SEGMENT) -> dict[Any, Any]:
    return dict(proxy.ask(request(sql, "1", "bob")).rows)


def alone(proxy: Proxy) -> object:
    return counts(proxy)


def after_another(proxy: Proxy) -> object:
    """Where an analyst without conditions has shared the answer to the same text."""
    proxy.ask(request(BY_SEGMENT, "1", "ana"))
    return counts(proxy)


def repeated(proxy: Proxy) -> object:
    counts(proxy)
    return counts(proxy)


def at_one_price(proxy: Proxy) -> object:
    asked = [request(sql, None, "bob") for sql in (BY_SEGMENT, "SELECT COUNT(*) FROM countries")]
    answers, _ = proxy.run(AskTogether(asked))
    return dict(answers[0].rows)


def from_a_cube(proxy: Proxy) -> object:
    proxy.run(CreateCube(CUBE, "default", "duckdb"))
    return counts(proxy)


def from_wide_memory(proxy: Proxy) -> object:
    """The table that is measured for a slice, and answers its complement."""
    for value in ("consumer", "business"):
        proxy.ask(request(f"SELECT COUNT(*) FROM customers WHERE segment = '{value}'", "1", "bob"))
    return counts(proxy)


def only_tested(proxy: Proxy) -> object:
    """A scan that only tests existence: the same customers, each with its own row."""
    exists = "EXISTS (SELECT 1 FROM countries AS c WHERE c.code = customers.country)"
    return counts(proxy, BY_SEGMENT.replace("GROUP", f"WHERE {exists} GROUP"))


ROWS = (alone, after_another, repeated, at_one_price, from_a_cube, from_wide_memory, only_tested)


@pytest.fixture
def northern(folder: Path) -> dict[Any, Any]:
    """Customers of the granted rows by segment, from the file itself."""
    condition = "customer_id IS NOT NULL AND country = 'NO' AND name <> 'nobody'"
    with duckdb.connect(str(folder.parent / "shop.duckdb"), read_only=True) as connection:
        sql = f"SELECT segment, COUNT(*) FROM customers WHERE {condition} GROUP BY segment"
        return dict(connection.execute(sql).fetchall())


def whole_scan(table: TablePolicy, _policy: Policy, identities: Identities, span: Span) -> Scan:
    """The twin of `granted_rows`, which forgets the condition."""
    fields = tuple(identities.field(c.name, c.type) for c in table.columns)
    return Scan(table.name, fields, span, table.readings, table.rows)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("place", ROWS)
def test_no_place_counts_rows_that_are_not_granted(
    place: Callable[[Proxy], object], northern: dict[Any, Any], proxy: Proxy
) -> None:
    assert place(proxy) == northern


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("place", ROWS)
def test_wrong_twin_a_place_that_forgets_the_condition_is_found(
    place: Callable[[Proxy], object], northern: dict[Any, Any], proxy: Proxy
) -> None:
    with patch.object(resolve, "granted_rows", whole_scan):
        assert place(proxy) != northern


@pytest.mark.full("opens a proxy for each item")
def test_wide_memory_measures_only_granted_rows(proxy: Proxy) -> None:
    sql = "SELECT COUNT(*) FROM customers WHERE segment = 'consumer'"
    prepared = proxy.compiler.prepared(proxy.compiler.read(request(sql, "1", "bob"), Stop()))
    assert prepared.wide is not None
    assert "'NO'" in prepared.wide.prepared.rewritten.blocks[0].sql
    assert "= 'consumer'" not in prepared.wide.prepared.rewritten.blocks[0].sql


# --- rights that change ---


def changed(folder: Path, old: str, new: str) -> None:
    text = folder.read_text(encoding="utf-8")
    assert old in text
    folder.write_text(text.replace(old, new), encoding="utf-8")


ORDERS = "SELECT COUNT(*) AS n FROM orders"


@pytest.mark.full("opens a proxy for each item")
def test_a_lost_right_is_refused_before_an_answer_is_looked_up(folder: Path) -> None:
    with Proxy.open(str(folder)) as proxy:
        proxy.ask(request(ORDERS, "1", "bob"))
    changed(folder, "[roles.north.tables.orders]\n", "[roles.other.tables.orders]\n")
    changed(folder, "[roles.north.tables.countries]\n", '[roles.other]\nanalysts = ["ana"]\n')
    with Proxy.open(str(folder)) as proxy:
        with pytest.raises(Refused) as refused:
            proxy.ask(request(ORDERS, "1", "bob"))
        assert refused.value.reason is Reason.UNKNOWN_TABLE
        assert "orders" not in str(refused.value.facts["known"])


def test_wrong_twin_an_answer_that_is_looked_up_first_is_found(folder: Path) -> None:
    """With a plan of the whole policy, the ledger knows an answer."""
    with Proxy.open(str(folder)) as proxy:
        first = proxy.ask(request(ORDERS, "1", "ana"))
    changed(folder, 'analysts = ["ana"]\ntables = "all"', 'analysts = ["ana"]\ntables = ["items"]')
    with Proxy.open(str(folder)) as proxy:
        with pytest.raises(Refused):
            proxy.ask(request(ORDERS, "1", "ana"))
        with patch("dpsql.preparation.compilation.restrict_policy", lambda policy, _: policy):
            assert proxy.ask(request(ORDERS, "1", "ana")).rows == first.rows


@pytest.mark.full("opens a proxy for each item")
def test_a_change_of_roles_charges_nothing_again(folder: Path) -> None:
    with Proxy.open(str(folder)) as proxy:
        proxy.ask(request(BY_SEGMENT, "1", "bob"))
    changed(folder, 'columns = ["country", "segment"]', 'columns = ["segment"]')
    with Proxy.open(str(folder)) as proxy:
        receipt = proxy.ask(request(BY_SEGMENT, "1", "bob")).receipt
        assert receipt is not None
        assert receipt.remembered


@pytest.mark.full("draws random questions or values")
def test_two_roles_of_one_analyst_add_up(folder: Path, northern: dict[Any, Any]) -> None:
    """A column is NULL on the rows of the role that lacks it."""
    second = '[roles.south]\nanalysts = ["bob"]\n[roles.south.tables.customers]\n'
    second += 'columns = ["city"]\nrows = "country = \'SE\'"\n\n[ledger]'
    changed(folder, "[ledger]", second)
    with Proxy.open(str(folder)) as proxy:
        proxy.vault.sampler = no_noise
        rows = proxy.ask(
            request("SELECT COUNT(*) AS n, COUNT(segment) AS s FROM customers", "1", "bob")
        ).rows
        assert rows[0][1] == sum(northern.values()) < rows[0][0]


MADE = {
    "CREATE SYNTHETIC TABLE made OPTIONS(rows = 9) AS SELECT segment, vip FROM customers": (
        "SELECT COUNT(*) AS n FROM made WHERE vip"
    ),
    "CREATE MODEL made OPTIONS(model_type = 'linear_reg', label = 'income') AS"
    " SELECT income, vip FROM customers": "SELECT PREDICT(made, TRUE) AS p",
}
"""What an analyst made of columns before its roles were narrowed, and a text that reads it free."""


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("creation", MADE)
def test_what_was_made_with_other_rights_is_refused(creation: str, proxy: Proxy) -> None:
    """PRIVACY.md R105: a process that made it forgets it as others do, until rights are back."""
    narrow, wide = proxy.policy, replace(proxy.policy, roles=())
    free = request(MADE[creation], None, "bob")
    proxy.adopt(wide)
    proxy.ask(request(creation, "1", "bob"))
    before = proxy.ask(free).rows
    for policy, analyst_has in ((narrow, False), (wide, True), (narrow, False)):
        proxy.adopt(policy)
        if analyst_has:
            assert proxy.ask(free).rows == before
            continue
        with pytest.raises(Refused) as refused:
            proxy.ask(free)
        assert refused.value.reason is Reason.UNKNOWN_NAME
    with patch("dpsql.answering.paid_names.rights_of", lambda _policy, _analyst: ""):  # the twin
        proxy.adopt(wide)
        proxy.ask(free)
        proxy.adopt(narrow)
        assert proxy.ask(free).rows == before


def texts_of(proxy: Proxy, *args: str) -> list[str]:
    """The texts that `dpsql history` lists, newest first."""
    opened: Any = nullcontext(proxy)
    settings = CommandSettings(open=lambda _path: opened)
    said = CliRunner().invoke(main, ["history", "--format", "json", *args], obj=settings)
    assert said.exit_code == 0, said.output
    return [
        row["text"] for row in json.loads(said.stdout) if row["what"] == "charge" and row["text"]
    ]


@pytest.mark.full("opens a proxy for each item")
def test_a_history_has_the_texts_that_may_still_be_asked(proxy: Proxy) -> None:
    """The owner's has all. Words that are granted elsewhere grant no statement."""
    asked_before(proxy, ORDERS, *BEFORE)
    assert texts_of(proxy) == [*reversed(BEFORE), ORDERS]
    *others, shown = texts_of(proxy, "--analyst", "bob")
    assert shown == ORDERS
    assert len(others) == len(BEFORE)
    assert all("not shown" in text for text in others)
    with patch.object(PlanOf, "run", return_value=None):  # the twin: words alone
        assert KNOWN_WORDS in texts_of(proxy, "--analyst", "bob")


@pytest.mark.full("opens a proxy for each item")
def test_a_history_names_no_cube_that_was_received_before(proxy: Proxy) -> None:
    proxy.run(CreateCube(CUBE, "default", "duckdb"))
    asked_before(proxy, "SELECT vip, COUNT(*) AS n FROM customers GROUP BY vip")
    said = {
        who: CliRunner().invoke(
            main,
            ["history", "--format", "json", *who],
            obj=CommandSettings(open=lambda _path: nullcontext(proxy)),  # type: ignore[arg-type,return-value]
        )
        for who in ((), ("--analyst", "bob"))
    }
    assert "received cube c " in said[()].output
    assert "received cube (not shown) " in said["--analyst", "bob"].output


@pytest.mark.full("opens a proxy for each item")
def test_each_analyst_has_plans_of_its_own(proxy: Proxy) -> None:
    """The same text, one after another, in both orders."""
    for who in ("bob", "ana", "bob"):
        sql = "SELECT AVG(income) AS a FROM customers"
        if who == "ana":
            proxy.ask(request(sql, "1", who))
            continue
        with pytest.raises(Refused):
            proxy.ask(request(sql, "1", who))
        with pytest.raises(Refused):
            proxy.run(ColumnsOf(request(sql, "1", who), (), ()))


# --- roles that are wrong ---

MISTAKES = [
    ('tables = "all"', "", "has no table"),
    ('tables = "all"', "tables = []", "has no table"),
    ('tables = "all"', 'tables = ["custmers"]', "Did you mean customers?"),
    ('[roles.north]\nanalysts = ["bob"]', "[roles.north]", "has no analyst"),
    ('[roles.north]\nanalysts = ["bob"]', '[roles.north]\nanalysts = ["ana"]', "bob has no role"),
    ('[roles.north]\nanalysts = ["bob"]', '[roles.north]\nanalysts = ["eve"]', "no analyst eve"),
    ('[roles.north]\nanalysts = ["bob"]', '[roles.north]\ngroups = ["g"]', "no group g"),
    ('columns = ["country", "segment"]', 'columns = ["contry"]', "Did you mean country?"),
    ('columns = ["country", "segment"]', 'columns = ["name"]', "hidden from all"),
    ('columns = ["country", "segment"]', "columns = []", "no list of columns"),
    ('columns = ["country", "segment"]', 'colums = ["country"]', "Did you mean columns?"),
    ("rows = \"customers.country = 'NO'\"", 'rows = "logins.day > 1"', "no link of orders"),
    ("rows = \"customers.country = 'NO'\"", 'rows = "gone.day > 1"', "reads gone"),
    ("rows = \"customers.country = 'NO'\"", "rows = \"statu = 'NO'\"", "Did you mean status?"),
    ("rows = \"customers.country = 'NO'\"", "rows = \"status = 'lost'\"", "No row of orders"),
    ("rows = \"customers.country = 'NO'\"", 'rows = "1 = 0"', "is no condition"),
    ("rows = \"customers.country = 'NO'\"", 'rows = "amount"', "rows has no rule here"),
    ("rows = \"customers.country = 'NO'\"", 'rows = "amount >"', "is no condition"),
    (
        "rows = \"customers.country = 'NO'\"",
        'rows = "amount > 5) ORDER BY (amount"',
        "is no condition",
    ),
    ("rows = \"customers.country = 'NO'\"", 'rows = "COUNT(*) > 3"', "is no condition"),
    ("rows = \"customers.country = 'NO'\"", 'rows = "placed_at < now()"', "is no condition"),
    (
        "rows = \"customers.country = 'NO'\"",
        'rows = "customer_id IN (SELECT customer_id FROM customers)"',
        "is no condition",
    ),
    (
        "[roles.north.tables.countries]",
        '[roles.north.tables.countries]\nrows = "true"',
        "is public",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES)
def test_a_wrong_role_is_refused_at_the_start(folder: Path, old: str, new: str, said: str) -> None:
    changed(folder, old, new)
    with pytest.raises(PolicyError) as error, Proxy.open(str(folder)):
        pass
    assert said in str(error.value)
    assert error.value.line is not None
    near = folder.read_text(encoding="utf-8").splitlines()
    assert any("role" in line for line in near[max(0, error.value.line - 6) : error.value.line])


@pytest.mark.full("checks a policy against its data")
def test_check_says_what_roles_grant(folder: Path) -> None:
    said = [each.message for each in check_policy(str(folder)).findings if "role" in each.message]
    assert any(line.startswith("By the role whole, ana may use ") for line in said)
    (north,) = (line for line in said if line.startswith("By the role north, bob may use "))
    assert "; orders (customer_id, amount, status) where customers.country = 'NO'; " in north
    assert words(north) & (NAMES - {"customer_id"}) == set()
    (hidden,) = (line for line in said if "is hidden" in line)
    assert "rows of customers by customers.name" in hidden


@pytest.mark.full("checks a policy against its data")
def test_check_refuses_rows_that_cannot_be(folder: Path) -> None:
    changed(folder, "rows = \"customers.country = 'NO'\"", "rows = \"status = 'lost'\"")
    with pytest.raises(PolicyError, match="No row of orders can be status = 'lost'"):
        check_policy(str(folder))
    with patch("dpsql.owner.role_findings.check_roles"):  # the twin
        assert check_policy(str(folder)).findings


def test_a_condition_that_would_raise_is_total(folder: Path) -> None:
    """A cast that fails on a row is NULL there, so that the row is left out."""
    changed(folder, "name <> 'nobody'", "CAST(name AS INTEGER) >= 0")
    with Proxy.open(str(folder)) as proxy:
        proxy.vault.sampler = no_noise
        assert set(counts(proxy).values()) <= {0}


@pytest.mark.full("starts processes")
def test_commands_list_what_is_granted(proxy: Proxy) -> None:
    opened: Any = nullcontext(proxy)
    settings = CommandSettings(analyst="bob", open=lambda _path: opened)
    for args in (["describe", "customers"], ["tables"]):
        said = CliRunner().invoke(main, args, obj=settings)
        assert said.exit_code == 0, said.output
        assert words(said.output) & NAMES == set()
