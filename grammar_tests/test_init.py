"""init: what is proposed of names, types and keys, what is asked, and what is written."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from contextlib import chdir
from datetime import date
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import click
import duckdb
import pytest
from click.testing import CliRunner, Result

from dpsql.engines.duckdb.found_files import tables_of
from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.drafting import Decision, Given, decided, nobody, recommendation
from dpsql.model.errors import PolicyError, Unreachable
from dpsql.model.resources import Database
from dpsql.model.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.model.tree import DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, decimal
from dpsql.model.vocabulary import Request
from dpsql.policy import init, unit_paths
from dpsql.policy.budget_choices import likely, odds
from dpsql.policy.column_words import column_words
from dpsql.policy.init import Decisions, draft
from dpsql.policy.load import load
from dpsql.policy.policy_keys import KEYS, draft_comment
from dpsql.policy.unit_paths import key_of, paths, proposals, unit_called
from dpsql.policy.update import update
from dpsql.proxy import Proxy

KINDS = {"i": INTEGER, "v": VARCHAR, "d": DATE, "t": TIMESTAMP, "n": decimal(10, 2), "f": DOUBLE}
LETTER = {kind: letter for letter, kind in KINDS.items()}


def table(spec: str) -> SchemaTable:
    """A table of `name: column kind, …`, where `*` is the primary key, `!` never NULL, and
    `column>table.key` a foreign key.
    """
    name, _, rest = spec.partition(":")
    columns, key, links = list[SchemaColumn](), list[str](), list[ForeignKey]()
    for each in rest.split(","):
        called, letter = each.split()
        plain, _, target = called.rstrip("*!").partition(">")
        if target:
            there, _, referenced = target.partition(".")
            links.append(ForeignKey((plain,), there, (referenced,)))
        key += [plain] if called.endswith("*") else []
        kind: SqlType = KINDS[letter]
        columns.append(SchemaColumn(plain, kind, str(kind.kind), not_null=called[-1] in "*!"))
    keys = (tuple(key),) if key else ()
    return SchemaTable(name, tuple(columns), keys, tuple(key), tuple(links))


def schema(text: str) -> Schema:
    return Schema(tuple(table(line) for line in text.strip().splitlines()))


COMPANY = """
customers: customer_id* i, name v, email v, birth_date d, city v, created_at t
addresses: address_id* i, customer_id>customers.customer_id i, street v, zip v, country v
orders: order_id* i, customer_id>customers.customer_id i, store_id i, placed_at t, total n
order_items: order_id>orders.order_id i, line i, product_id i, quantity i, price n
payments: payment_id* i, order_id>orders.order_id i, method v, amount n, iban v
refunds: refund_id* i, payment_id>payments.payment_id i, amount n, reason v
shipments: shipment_id* i, order_id>orders.order_id i, carrier v, weight f
returns: return_id* i, orderId i, reason v
carts: cart_id* i, customerId i, opened_at t
cart_items: cart_id>carts.cart_id i, product_id i, quantity i
reviews: review_id* i, customer_id i, product_id i, stars i, body v
wishlists: customer_id i, product_id i, added d
coupons_used: customer_id i, coupon_id i, used d
loyalty_accounts: loyalty_account_id* i, customer_id>customers.customer_id i, points i
loyalty_moves: loyalty_account_id i, points i, day d
tickets: ticket_id* i, customer_id i, agent v, opened_at t
ticket_messages: ticket_id>tickets.ticket_id i, body v, sent_at t
calls: call_id* i, caller_customer_id>customers.customer_id i, callee_customer_id i, seconds i
referrals: referrer_customer_id>customers.customer_id i, referred_customer_id i, day d
logins: customer_id i, ip_address v, at t
sessions: session_id* i, customer_id i, device v, started t
page_views: session_id i, page v, at t
searches: session_id i, words v, at t
emails_sent: customer_id i, campaign_id i, sent t
email_clicks: customer_id i, campaign_id i, clicked t
subscriptions: subscription_id* i, customer_id i, plan v, since d
invoices: invoice_id* i, subscription_id i, amount n, due d
consents: customer_id i, purpose v, given d
products: product_id* i, name v, department v, price n
stores: store_id* i, name v, city v, country v
campaigns: campaign_id* i, name v, begins d
coupons: coupon_id* i, text v, value n
plans: plan v, price n
carriers: carrier v, country v
countries: code* v, name v
suppliers: supplier_id* i, name v, phone v
"""
"""36 tables of a shop: some links are foreign keys, most are names alone."""

RETAIL = """
transactions: household_id i, store_id i, basket_id v, product_id v, quantity i, sales_value f
demographics: household_id i, age v, income v
redemptions: household_id i, coupon_upc v, day d
products: product_id v, department v, brand v
"""
"""Files: no key is declared."""


def rows_of(text: str) -> dict[str, object]:
    parsed: dict[str, object] = tomllib.loads(text)["tables"]
    return parsed


def test_a_schema_of_36_tables_leaves_few_decisions(tmp_path: Path) -> None:
    """The issue asks for 20 at most; 113 were left before links were followed."""
    company = schema(COMPANY)
    assert len(company.tables) == 36
    text = draft(company, Database("duckdb", "company.duckdb"))
    open_lines = [line for line in text.splitlines() if '"DECIDE"' in line]
    assert sum(not line.startswith("#") for line in open_lines) == 5
    assert {line.split("  #")[0] for line in open_lines if line.startswith("#")} == {
        '# link = "DECIDE"'
    }
    assert '# access = "public"' not in text
    decisions = decided(company, Given(public="products,stores"), recommendation)
    text = draft(company, Database("duckdb", "company.duckdb"), decisions)
    assert not [x for x in text.splitlines() if '"DECIDE"' in x and not x.startswith("#")]
    (tmp_path / "dpsql.toml").write_text(text, encoding="utf-8")
    policy = load(str(tmp_path / "dpsql.toml"))
    assert len(policy.tables) == 28 + 2
    assert {t.name for t in policy.tables if not t.private} == {"products", "stores"}


def test_links_are_followed_by_keys_names_and_types() -> None:
    company = schema(COMPANY)
    unit = unit_called(company, "customers.customer_id")
    assert unit is not None
    routes = paths(company, unit)
    ends = {name: [(k.columns[0], k.table) for k in way.links] for name, way in routes.items()}
    assert ends["orders"] == [("customer_id", "customers")]
    assert ends["returns"] == [("orderId", "orders")]
    assert ends["refunds"] == [("payment_id", "payments")]
    assert ends["page_views"] == [("session_id", "sessions")]
    assert ends["calls"] == [
        ("caller_customer_id", "customers"),
        ("callee_customer_id", "customers"),
    ]
    assert "products" not in ends
    other_type = schema(
        RETAIL.replace("redemptions: household_id i", "redemptions: household_id v")
    )
    unit = unit_called(other_type, "transactions.household_id")
    assert unit is not None
    assert dict(unit.columns) == {"transactions": "household_id", "demographics": "household_id"}


def work_of(tables: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the words of a column are read to draft a schema of so many tables."""
    calls = Counter[str]()

    def counted(of: SchemaTable, column: str) -> tuple[str, ...]:
        calls[column] += 1
        return column_words(of, column)

    with monkeypatch.context() as patch:
        patch.setattr(unit_paths, "column_words", counted)
        lines = [f"t{n}: id* i, user_id i, t{n - 1}_id i, day d, x f" for n in range(1, tables)]
        draft(
            schema("\n".join(["users: id* i, email v", "t0: id* i", *lines])),
            Database("duckdb"),
            Decisions(),
        )
    return sum(calls.values())


def test_the_work_of_a_draft_grows_as_its_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    assert work_of(80, monkeypatch) < 3 * work_of(40, monkeypatch)


ODD = 'A long name with "quotes", a space, Ærøskøbing and more than sixty-three bytes'


@pytest.mark.full("starts processes")
def test_names_of_any_letters_are_drafted_and_asked(tmp_path: Path) -> None:
    name = ODD.replace('"', '""')
    with duckdb.connect(str(tmp_path / "odd.duckdb")) as connection:
        connection.execute(
            f'CREATE TABLE "{name}" ("Patient Id" INTEGER PRIMARY KEY, "select" DATE);'
            f'CREATE TABLE "VISITS.2024 x" ("No" INTEGER PRIMARY KEY, "{name}" INTEGER,'
            f' "Patient Id" INTEGER NOT NULL REFERENCES "{name}" ("Patient Id"))'
        )
    policy = tmp_path / "dpsql.toml"
    arguments = ["init", str(tmp_path / "odd.duckdb"), "--yes", "-o", str(policy), "--unit", ODD]
    made = CliRunner().invoke(main, arguments)
    assert made.exit_code == 0, made.output
    sql = (
        f'SELECT v."{name}", COUNT(p."select") FROM "VISITS.2024 x" v JOIN "{name}" p'
        f' ON v."Patient Id" = p."Patient Id" GROUP BY 1'
    )
    with Proxy.open(str(policy)) as proxy:
        assert proxy.explain(Request(sql, "analyst")).blocks


def test_a_code_is_a_key_only_where_it_is_the_first_column() -> None:
    """Diagnoses have the CODE of their kind; the list of kinds begins with it."""
    columns = [SchemaColumn(n, VARCHAR, "VARCHAR") for n in ("START", "PATIENT", "CODE", "Id")]
    assert key_of(SchemaTable("conditions", tuple(columns[:3]))) == ()
    assert key_of(SchemaTable("conditions", tuple(columns))) == ("Id",)
    assert key_of(SchemaTable("icd10", (columns[2], columns[0]))) == ("CODE",)


def test_names_of_other_tables_lead_nowhere() -> None:
    """A short name, a name inside another, a fraction, or a view is no link."""
    there = schema(
        "people: id* i, country v\npaid: paid i, x i\nplans: plan_id i, id i\nrates: people_id f\n"
        "pets: people_id i, pet v"
    )
    unit = unit_called(there, "people.id")
    assert unit is not None
    assert paths(there, unit).keys() == {"people", "pets"}
    pets = there.tables[-1]
    view = SchemaTable(pets.name, pets.columns, view=True)
    assert paths(Schema((*there.tables[:-1], view)), unit).keys() == {"people"}


WARDS = """
patients: patient_id i, city v
stays: patient_id i, ward v, code v
wards: WARD v, beds i
icd10: code v, chapter v
doctors: ward v, first_name v
prices: sku v, amount n
"""


def test_files_without_keys_propose_dictionaries_by_names_and_take_none() -> None:
    stays = schema(WARDS)
    unit = unit_called(stays, "patients.patient_id")
    text = draft(stays, Database("duckdb"), Decisions(unit))
    marked = "# Proposed as public: others seem to refer to it, and no column looks like people.\n"
    assert re.findall(re.escape(marked) + r"# \[tables\.(\w+)\]", text) == ["wards", "icd10"]
    assert 'access = "public"\n' not in text


def test_people_without_a_table_are_a_column_of_several() -> None:
    unit = unit_called(schema(RETAIL), "household_id")
    assert unit is not None
    assert not unit.has_table
    assert proposals(schema(RETAIL))[0].columns == tuple(sorted(unit.columns))
    text = draft(schema(RETAIL), Database("duckdb", "x"), Decisions(unit))
    columns = ["transactions.household_id", "demographics.household_id", "redemptions.household_id"]
    assert tomllib.loads(text)["privacy_unit"]["columns"] == columns
    assert "# [tables.products]" in text
    assert unit_called(schema(RETAIL), "transactions.sales_value") is None
    assert unit_called(schema(RETAIL), "nobody") is None


def test_what_looks_like_a_name_is_hidden_unless_it_is_shown() -> None:
    company = schema(COMPANY)
    unit = unit_called(company, "customers")
    text = draft(company, Database("duckdb", "x"), Decisions(unit))
    hidden = {
        f"{name}.{column}"
        for name, each in rows_of(text).items()
        for column, says in each["columns"].items()  # type: ignore[index]
        if says.get("hidden")
    }
    named = "customers.name customers.email addresses.street payments.iban logins.ip_address"
    assert hidden == set(named.split())
    shown = draft(company, Database("duckdb", "x"), Decisions(unit, shown=frozenset(hidden)))
    assert "hidden = true" not in shown


def test_every_decision_is_asked_once_and_answered_by_its_option() -> None:
    company, decisions = schema(COMPANY), list[Decision]()

    def ask(decision: Decision) -> str | None:
        decisions.append(decision)
        return decision.recommended

    asked_for = decided(company, Given(), ask)
    assert [d.option for d in decisions] == (
        "--unit --public --show --other-people --units --rows --epsilon --delta".split()
    )
    answers = {d.option.strip("-").replace("-", "_"): d.recommended for d in decisions}
    decisions.clear()
    assert decided(company, Given(**answers), ask) == asked_for  # type: ignore[arg-type]
    assert decisions == []
    assert decided(company, Given(), nobody).unit is None
    assert all("DECIDE" not in d.reason for d in decisions)


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": "orders.nothing"},
        {"public": "orders"},
        {"show": "orders.total"},
        {"rows": "nowhere=5"},
        {"rows": "orders=many"},
        {"rows": "customers=5"},
        {"other_people": "some"},
        {"units": "many"},
        {"epsilon": "NaN"},
        {"delta": "1"},
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(click.BadParameter) as refused:
        decided(schema(COMPANY), Given(**{"unit": "customers", **wrong}), recommendation)
    assert refused.value.param_hint == "--" + next(iter(wrong)).replace("_", "-")


def test_a_table_of_people_cannot_be_made_public() -> None:
    """One that leads there by a key that was guessed can be: the guess may be wrong."""
    there = schema(
        "users: user_id* i, x v\nvisits: visit_id i, user_id i, x v\nnotes: visit_id i, y v"
    )
    assert decided(there, Given(public="notes"), recommendation).public == {"notes"}
    for name in ("users", "visits"):
        with pytest.raises(click.BadParameter, match="without people"):
            decided(there, Given(public=name), recommendation)
    declared = schema(COMPANY)
    with pytest.raises(click.BadParameter, match="without people"):
        decided(declared, Given(public="order_items"), recommendation)


def test_without_people_nothing_is_recommended() -> None:
    with pytest.raises(click.UsageError, match="--unit"):
        decided(schema("a: x i, y i"), Given(), recommendation)


# --- what is written ---


def policy_of(company: Schema, folder: Path) -> Path:
    path = folder / "dpsql.toml"
    given = Given(public="stores", units="50000", epsilon="2", delta="1e-7")
    decisions = decided(company, given, recommendation)
    path.write_text(draft(company, Database("duckdb", "x"), decisions), encoding="utf-8")
    return path


def test_the_comments_of_drafts_are_those_of_the_keys() -> None:
    text = draft(schema(COMPANY), Database("duckdb", "x"))
    with_comments = {(s, key.name) for s, keys in KEYS.items() for key in keys if key.draft}
    assert {
        each for each in with_comments if "\n".join(draft_comment(*each)) in text
    } == with_comments


def test_a_draft_says_what_is_risked(tmp_path: Path) -> None:
    text = policy_of(schema(COMPANY), tmp_path).read_text("utf-8")
    (budget,) = load(str(tmp_path / "dpsql.toml")).budgets
    assert (budget.epsilon, budget.delta) == (Decimal(2), Decimal("1e-7"))
    assert "by a factor of at most 7.4" in text
    assert "expected_rows = 50000" in text
    assert (
        draft(schema(COMPANY), Database("duckdb", "x")).count("Recommended: ε = 1.0, δ = 1e-9") == 1
    )


def test_the_page_on_choosing_says_what_a_draft_says() -> None:
    page = (Path(init.__file__).parents[1] / "docs" / "choosing.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.,]+) \| ([\d.]+) % likely \|$", page, re.MULTILINE)
    assert len(rows) == 5
    assert rows == [(e, odds(Decimal(e)), likely(Decimal(e))) for e, _, _ in rows]


def test_sizes_that_everybody_knows_are_declared(tmp_path: Path) -> None:
    company = schema(COMPANY)
    asked_for = decided(
        company, Given(units="900", rows="orders=5000, Payments=70"), recommendation
    )
    path = tmp_path / "dpsql.toml"
    path.write_text(draft(company, Database("duckdb", "x"), asked_for), encoding="utf-8")
    sizes = {t.name: t.expected_rows for t in load(str(path)).tables if t.expected_rows}
    assert sizes == {"customers": 900, "orders": 5000, "payments": 70}


@pytest.mark.parametrize("accountant", ["pure", "approximate"])
def test_every_accountant_has_a_budget_that_loads(accountant: str, tmp_path: Path) -> None:
    decisions = decided(schema(COMPANY), Given(accountant=accountant), recommendation)
    path = tmp_path / "dpsql.toml"
    path.write_text(draft(schema(COMPANY), Database("duckdb", "x"), decisions), encoding="utf-8")
    (budget,) = load(str(path)).budgets
    assert budget.accountant == accountant
    (whole,) = load(str(path)).caps
    assert (whole.title, whole.epsilon, whole.delta) == (
        "all budgets",
        budget.epsilon,
        budget.delta,
    )


def test_defaults_are_what_is_not_said(tmp_path: Path) -> None:
    """A policy with defaults is the policy in which each is written out."""
    path = policy_of(schema(COMPANY), tmp_path)
    text = path.read_text("utf-8")
    limits = 'access = "private"\nmax_rows_per_group = 7\nmax_groups_per_unit = "private"'
    text = text.replace('access = "private"', limits).replace(
        "line = { private_bounds = true }", "line = { nullable = false }"
    )
    path.write_text(text, encoding="utf-8")
    tables = {table.name: table for table in load(str(path)).tables}
    assert tables["orders"].max_rows_per_group == 7
    assert tables["customers"].max_rows_per_group is None
    assert tables["referrals"].max_rows_per_group is None  # of several people
    assert tables["stores"].max_rows_per_group is None
    nullable = {c.name: c.nullable for c in tables["order_items"].columns}
    assert tables["orders"].times == (date(1900, 1, 1), date(2199, 12, 31))
    assert nullable == {
        "order_id": True,
        "line": False,
        "product_id": True,
        "quantity": True,
        "price": True,
    }
    path.write_text(text.replace("max_rows_per_group = 7", "max_rows_per_group = 9"), "utf-8")
    assert next(t for t in load(str(path)).tables if t.name == "orders").max_rows_per_group == 9


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('access = "public"', "access is 'public'"),
        ("bounds = [0, 1]", "Unknown key bounds"),
        ("nullable = 1", "nullable must be true or false"),
        ("max_rows_per_unit = 0", "max_rows_per_unit must be a whole number"),
        ('other_people = "DECIDE"', "1 decisions are open"),
    ],
)
def test_defaults_that_make_no_sense_are_refused(wrong: str, message: str, tmp_path: Path) -> None:
    path = policy_of(schema(COMPANY), tmp_path)
    text = path.read_text("utf-8")
    begin, end = text.index("[defaults]"), text.index("[tables.")
    path.write_text(f"{text[:begin]}[defaults]\n{wrong}\n{text[end:]}", encoding="utf-8")
    with pytest.raises(PolicyError, match=message):
        load(str(path))


# --- after a change of the schema ---

CHANGED = (
    COMPANY.replace("city v, created_at", "city v, phone v, created_at")
    .replace(", total n", "")
    .replace("consents: customer_id i, purpose v, given d\n", "")
    .replace("loyalty_moves: loyalty_account_id i,", "loyalty_moves: account i,")
    + "surveys: customer_id i, answer v, points n\nweather: day d, rain f\n"
)


def test_an_update_keeps_decisions_and_marks_what_is_new(tmp_path: Path) -> None:
    path = policy_of(schema(COMPANY), tmp_path)
    before = path.read_text("utf-8").replace("city = {}", 'city = { values = ["A", "B"] }  # ours')
    path.write_text(before, encoding="utf-8")
    changes = update(str(path), schema(CHANGED))
    new = {c.name for c in changes if c.is_new}
    assert new == {"customers.phone", "loyalty_moves.account", "surveys", "weather"}
    gone = {(c.name, c.needed) for c in changes if not c.is_new}
    needed = ("loyalty_moves.loyalty_account_id", True)
    assert gone == {("orders.total", False), ("consents", False), needed}
    after = path.read_text("utf-8").splitlines()
    marks = ("# NEW: ", "# GONE: ")
    assert [
        line.removeprefix(marks[1]) for line in after if line and not line.startswith(marks[0])
    ] == [line for line in before.splitlines() if line]
    assert "# NEW: phone = { hidden = true }  # varchar" in map(
        str.lower, after
    ) or "# NEW: phone" in str(after)
    tables = {table.name: table for table in load(str(path)).tables}
    assert "consents" not in tables
    assert "surveys" not in tables
    again = [c for c in update(str(path), schema(CHANGED)) if not c.needed]
    assert again == []
    assert path.read_text("utf-8").splitlines() == after


ROLE = """
[roles.some]
analysts = ["analyst"]
[roles.some.tables.orders]
columns = ["total"]
[roles.some.tables.consents]
"""


def test_an_update_keeps_roles_and_what_they_grant(tmp_path: Path) -> None:
    path = policy_of(schema(COMPANY), tmp_path)
    path.write_text(path.read_text("utf-8") + ROLE, encoding="utf-8")
    gone = {c.name: c.needed for c in update(str(path), schema(CHANGED)) if not c.is_new}
    assert gone["orders.total"]
    assert gone["consents"]
    assert path.read_text("utf-8").endswith(ROLE)
    assert load(str(path)).roles[0].grants
    with patch("dpsql.policy.update._Written._grants", return_value=()):  # the twin
        gone = {c.name: c.needed for c in update(str(path), schema(CHANGED)) if not c.is_new}
    assert not gone["consents"]


def test_the_role_of_a_draft_may_be_uncommented(tmp_path: Path) -> None:
    path = policy_of(schema(COMPANY), tmp_path)
    text = path.read_text("utf-8")
    assert load(str(path)).roles == ()
    begin = text.index("# [roles.some]")
    path.write_text(text[:begin] + text[begin:].replace("# ", ""), encoding="utf-8")
    (role,) = load(str(path)).roles
    assert role.analysts == {"analyst"}
    assert role.grants is not None
    assert {grant.table for grant in role.grants} <= {t.name for t in load(str(path)).tables}


def test_what_an_update_marks_may_be_uncommented(tmp_path: Path) -> None:
    path = policy_of(schema(COMPANY), tmp_path)
    update(str(path), schema(CHANGED))
    text = path.read_text("utf-8").replace("# NEW: ", "")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError, match="1 decisions are open"):
        load(str(path))
    path.write_text(text.replace('link = "DECIDE"', 'access = "public"'), encoding="utf-8")
    tables = {table.name: table for table in load(str(path)).tables}
    assert tables["surveys"].link == tables["reviews"].link
    assert any(c.name == "phone" and c.hidden for c in tables["customers"].columns)


def test_what_stands_in_two_places_is_left_alone(tmp_path: Path) -> None:
    path = policy_of(schema(COMPANY), tmp_path)
    text = path.read_text("utf-8")
    line = next(line for line in text.splitlines() if line.startswith("total = "))
    two = "total.nullable = true\ntotal.hidden = true"
    path.write_text(text.replace(line, two), encoding="utf-8")
    with pytest.raises(PolicyError, match="cannot be written here"):
        update(str(path), schema(CHANGED))
    assert two in path.read_text("utf-8")


# --- from files ---


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Files of every kind: one, parts of one, a folder of parts, and what is no data."""
    connection = duckdb.connect()
    for name in ("people.parquet", "visits_2024-01.parquet", "visits_2024-02.parquet"):
        connection.execute(f"COPY (SELECT 1 AS person_id, 2 AS n) TO '{tmp_path / name}'")
    (tmp_path / "deep" / "y=1").mkdir(parents=True)
    (tmp_path / "deep" / "y=1" / "a.csv").write_text("person_id,x\n1,2\n", "utf-8")
    (tmp_path / "my days.csv").write_text("day,holiday\n2024-01-01,true\n", "utf-8")
    (tmp_path / "notes.txt").write_text("no data", "utf-8")
    return tmp_path


def test_files_folders_and_globs_are_tables(files: Path) -> None:
    with chdir(files):
        whole = {
            "my_days": "my days.csv",
            "people": "people.parquet",
            "visits": "visits_2024*.parquet",
            "deep": "deep/**/*.csv",
        }
        assert dict(tables_of(["."])) == whole | {"visits": "visits*.parquet"}
        assert dict(tables_of(["*.parquet"])).keys() == {"people", "visits"}
        assert tables_of(["visits_*.parquet"]) == (("visits", "visits_*.parquet"),)
        assert tables_of(["days=my days.csv", "deep"])[0] == ("days", "my days.csv")
        for wrong in (["nothing.csv"], ["notes.txt"], ["*.tsv"], ["people.parquet", "people=deep"]):
            with pytest.raises(Unreachable):
                tables_of(wrong)


def run(folder: Path, *args: str, code: int = 0) -> Result:
    with chdir(folder):
        done = CliRunner().invoke(main, args, env={"DPSQL_ANALYST": None})
    assert done.exit_code == code, done.output
    return done


@pytest.mark.full("processes are started and killed")
def test_a_draft_of_files_answers(files: Path) -> None:
    """From files to an answer in three commands; nothing of the rows is in the policy."""
    run(files, "init", ".", "--yes", "--public", "my_days")
    text = (files / "dpsql.toml").read_text("utf-8")
    assert tomllib.loads(text)["privacy_unit"] == {
        "table": "people",
        "key": "person_id",
        "neighbours": "add_remove",
        "epsilon": "sum",
    }
    run(files, "check")
    assert set("±…") & set(run(files, "query", "SELECT SUM(n) AS n FROM visits").stdout)
    (files / "people.parquet").unlink()
    connection = duckdb.connect()
    rows = "SELECT 1 AS person_id, 2 AS n, 3 AS age"
    connection.execute(f"COPY ({rows}) TO '{files / 'people.parquet'}'")
    assert "people.age is new" in run(files, "init", "--update").stdout
    assert "nothing else" in run(files, "init", "--update").stderr
    run(files, "init", ".", code=2)
    run(files, "init", ".", "--update", code=2)
    run(files, "init", code=2)
