"""Every mistake in a policy is an error with its file, its line and a fix."""

# ruff: noqa: E501  one mistake, one row

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.errors import PolicyError
from dpsql.model.resources import Database
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import FactKind, Policy
from dpsql.owner.check import check, check_policy
from dpsql.owner.reminders import declared_in_vain
from dpsql.policy import demo, init
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.policy.policy_keys import KEYS
from dpsql.policy.unit_paths import unit_called
from dpsql.preparation.engine_kinds import opened
from dpsql.preparation.public_data import PublicTables
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.laws import PlainEngine

SHOP = (Path(__file__).parent / "catalogs" / "shop.toml").read_text(encoding="utf-8")


def written(folder: Path, text: str) -> str:
    path = folder / "dpsql.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def bound(path: str, tables: world.Tables, *, constraints: bool = False) -> Policy:
    engine = PlainEngine(world.build(tables, constraints=constraints))
    schema = Schema(declared(engine.rows), "here")
    return bind(load(path), schema, PublicTables(engine, DUCKDB).values)


OTHER_POT = """[budgets.other]
epsilon = 1.0
delta = 1e-6
[groups.ours]
analysts = ["ana"]
epsilon = 0.5
"""

MISTAKES = [
    # (what to replace, with what, where the error is, a word of the message or the fix)
    ('table = "customers"\nkey', 'table = "clients"\nkey', 'table = "clients"', "clients"),
    ('references = "customers.customer_id"', 'references = "customer.customer_id"', 'references = "customer.', "Did you mean customers?"),
    ('key = "customer_id"\nneigh', 'key = "age"\nneigh', 'key = "age"', "not the key"),
    ('neighbours = "add_remove"', 'neighbours = "near"', 'neighbours = "near"', "replace"),
    ("age = { bounds = [0, 120]", "age = { bounds = [120, 0]", "age = { bounds = [120", "Swap"),
    ("device = {}", "device = { private_bounds = 3 }", "device = { private", "true or false"),
    ("device = {}", 'device = { private_bounds = "guess" }', "device = { private", "log_histogram, quantile, sparse_vector"),
    ("age = { bounds = [0, 120]", "age = { private_bounds = true, bounds = [0, 120]", "age = { private", "Keep one"),
    ("age = { bounds = [0, 120]", 'age = { bounds = ["0", 120]', "age = { bounds = [", "Write 0, without quotes."),
    ("age = { bounds = [0, 120]", "age = { bounds = [0, 2025-13-31]", "age = { bounds = [0", "dates are 2025-12-31"),
    ('budget = "default"', 'budget = "defualt"', 'budget = "defualt"', 'Write budget = "default".'),
    ('budget = "default"', 'budget = "research"', 'budget = "research"', "Add [budgets.research]."),
    ("age = { bounds = [0, 120]", "age = { bounds = [0]", "age = { bounds = [0]", "two"),
    ("age = { bounds = [0, 120]", "age = { bounds = [0, nan]", "age = { bounds = [0, nan", "finite"),
    ("age = { bounds = [0, 120]", "age = { bounds = [0, inf]", "age = { bounds = [0, inf", "finite"),
    ("age = { bounds = [0, 120]", 'age = { bounds = [0, "9"]', 'age = { bounds = [0, "9"', "bound"),
    ("device = {}", 'device = { bounds = ["2024-01-01", "2024-12-31"] }', "device = { b", "without quotes"),
    ("nullable = true }\nincome", "nulable = true }\nincome", "nulable", "nullable"),
    ("nullable = true }\nincome", 'nullable = "yes" }\nincome', 'nullable = "yes"', "true or false"),
    ('["consumer", "business"]', '["consumer", "consumer"]', '["consumer", "consumer"]', "twice"),
    ('"countries.code"', '"orders.status"', '"orders.status"', "public"),
    ('"countries.code"', '"countries"', '"countries"', "table.column"),
    ("max_rows_per_unit = 50", "max_rows_per_unit = 0", "max_rows_per_unit = 0", "from 1"),
    ("max_rows_per_unit = 50", "max_row_per_unit = 50", "max_row_per_unit", "max_rows_per_unit"),
    ('"customers.customer_id" }\nmax_rows', '"customers.age" }\nmax_rows', '"customers.age"', "key"),
    ('"customers.customer_id" }\nmax_rows', '"countries.code" }\nmax_rows', '"countries.code" }\nm', "private"),
    ('access = "public"\nkey = "code"', 'access = "open"\nkey = "code"', 'access = "open"', "public"),
    ("epsilon = 1000.0", "epsilon = 0.0", "epsilon = 0.0", "above zero"),
    ("epsilon = 1000.0", "epsilon = nan", "epsilon = nan", "finite"),
    ("epsilon = 1000.0", 'epsilon = "3"', 'epsilon = "3"', "Write epsilon = 3."),
    ("epsilon = 1000.0", 'epsilon = "much"', 'epsilon = "much"', "Write epsilon = 1.0."),
    ("delta = 1e-3", "delta = 1.0", "delta = 1.0", "[0, 1)"),
    ('accountant = "zcdp"', 'accountant = "renyi"', 'accountant = "renyi"', "approximate"),
    ('accountant = "zcdp"', 'accountant = "pure"', "delta = 1e-3", "δ"),
    ('delta = 1e-3\naccountant = "zcdp"', 'accountant = "pure"', "query_delta = 1e-6", "no effect"),
    ("query_epsilon = 1.0\n", "query_epsilon = 11.0\n", "query_epsilon = 11.0", "max_query_epsilon"),
    ('budget = "default"', 'budget = "other"', 'budget = "other"', "other"),
    ("max_public_groups = 1000", 'memory = "lots"', 'memory = "lots"', "4GB"),
    ("max_public_groups = 1000", "max_public_groups = 1000\n[colours]", "[colours]", "colours"),
    ("max_public_groups = 1000", "min_units_per_group = 0", "min_units_per_group = 0", "from 1"),
    ("max_rows_per_unit = 50", 'rollups = [["status"]]', "rollups", "dpsql prepare"),
    ("max_public_groups = 1000", '[server]\nmetrics_host = "127.0.0.1"', "metrics_host", "Give metrics_port"),
    ("note = { nullable = true }", 'note = { format = ["%Y"] }', "note = { format", "Remove format."),
    ("[ledger]", f'{OTHER_POT}budget = "other"\n[ledger]', 'budget = "other"\n[ledger]', "ana spends from default"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "word"), MISTAKES)
def test_a_mistake_is_an_error_with_its_line(
    tmp_path: Path, old: str, new: str, place: str, word: str
) -> None:
    assert SHOP.count(old) >= 1
    text = SHOP.replace(old, new, 1)
    with pytest.raises(PolicyError) as caught:
        load(written(tmp_path, text))
    error = caught.value
    assert error.line == line_of(text, place)
    assert word in f"{error.message} {error.fix}"
    assert error.fix


def test_limits_above_their_defaults_are_read(tmp_path: Path) -> None:
    above = "max_fanout = 100000000\nmin_units_per_group = 3\nmax_text_length = 1000000"
    limits = load(written(tmp_path, SHOP.replace("max_public_groups = 1000", above, 1))).limits
    assert (limits.max_fanout, limits.min_units_per_group) == (100_000_000, 3)
    assert limits.max_text_length == 1_000_000


OF_THE_DATABASE = [
    ('engine = "duckdb"', 'engin = "duckdb"', "[database]", "engine is missing"),
    ('engine = "duckdb"', 'engine = "oracle"', 'engine = "oracle"', "one of duckdb"),
    ('engine = "duckdb"', 'engine = ""', 'engine = ""', "must be text"),
    ('path = "shop.duckdb"\n', "", "[database]", "path"),
    ('path = "shop.duckdb"', 'path = "a"\nfiles = { a = "a.csv" }', "[database]", "one database"),
    ('path = "shop.duckdb"', 'pth = "shop.duckdb"', 'pth = "shop.duckdb"', "mean path"),
    ('path = "shop.duckdb"', 'path = "a"\nhost = "here"', 'host = "here"', "path or files"),
    ('path = "shop.duckdb"', 'path = "a"\nport = 1', "port = 1", "must be text"),
]


@pytest.mark.parametrize(("old", "new", "place", "word"), OF_THE_DATABASE)
def test_every_mistake_about_the_database_is_placed_before_it_is_opened(
    old: str, new: str, place: str, word: str, tmp_path: Path
) -> None:
    text = SHOP.replace(old, new, 1)
    with pytest.raises(PolicyError) as caught:
        opened(load(written(tmp_path, text)))
    assert caught.value.line == line_of(text, place)
    assert word in f"{caught.value.message} {caught.value.fix}"


def test_the_catalog_itself_is_right(tmp_path: Path) -> None:
    assert len(load(written(tmp_path, SHOP)).tables) == 7


MISFITS = [
    ("[tables.events]", "[tables.evnts]", "tables.evnts", "Did you mean events?"),
    ("[tables.events]", "[tables.stations]", "tables.stations", "has no table stations"),
    ("device = {}", "devise = {}", "devise = {}", "Did you mean device?"),
    ("device = {}", "device = { bounds = [0, 1] }", "device = { bounds", "VARCHAR"),
    ("age = { bounds = [0, 120]", "age = { bounds = [0, 1.5]", "age = { bounds", "INTEGER"),
    ("vip = {}", "vip = { private_bounds = true }", "vip = { private", "no number"),
    ("vip = {}", 'vip = { values = ["yes"] }', "vip = { values", "BOOLEAN"),
    ("vip = {}", 'vip = { type = "INTEGER" }', "vip = { type", "BOOLEAN"),
    (
        "quantity = { bounds = [0, 20] }",
        "quantity = { bounds = [0, 20], values = [5, 60] }",
        "quantity = { b",
        "60 lies beyond the bounds",
    ),
]


@pytest.mark.parametrize(("old", "new", "place", "word"), MISFITS)
def test_what_the_database_has_not_is_an_error(
    tmp_path: Path, old: str, new: str, place: str, word: str
) -> None:
    text = SHOP.replace(old, new)
    if old.startswith("["):
        text = text.replace("[tables.events.", new.replace("]", "."))
    with pytest.raises(PolicyError) as caught:
        bound(written(tmp_path, text), world.well_behaved())
    assert caught.value.line == line_of(text, place)
    assert word in f"{caught.value.message} {caught.value.fix}"


TO_COLUMNS = {
    "max_length": "5",
    "max_per_unit": "7",
    "private_bounds": "true",
    "bounds": "[0, 9]",
    "values": '["north"]',
    "values_from": '"products.category"',
}
"""Keys that say something of a private column, and nothing of a public one, with a value."""
REFUSED = ("max_length", "max_per_unit", "private_bounds")
OTHERS = {"type", "hidden", "published", "randomized", "nullable", "format"}


def test_keys_that_say_nothing_of_a_public_column_are_found(tmp_path: Path) -> None:
    assert {key.name for key in KEYS["tables.T.columns"]} == OTHERS | TO_COLUMNS.keys()
    for key, value in TO_COLUMNS.items():
        columns = f'key = "code"\ncolumns = {{ region = {{ {key} = {value} }} }}\n'
        text = SHOP.replace('key = "code"\n', columns)
        path = written(tmp_path, text)
        if key in REFUSED:
            with pytest.raises(PolicyError, match=key) as caught:
                bound(path, world.well_behaved())
            assert caught.value.line == line_of(text, "columns = { region")
        else:
            (reminder,) = declared_in_vain(load(path))
            assert reminder.line == line_of(text, "columns = { region")
            assert reminder.fix == f"Remove {key}."


def test_keys_of_private_columns_are_not_in_vain(tmp_path: Path) -> None:
    assert declared_in_vain(load(written(tmp_path, SHOP))) == ()


@pytest.mark.full("starts processes")
def test_constraints_are_facts_and_nothing_else_is(tmp_path: Path) -> None:
    path = written(tmp_path, SHOP)
    assert not bound(path, world.well_behaved()).facts
    facts = {(f.kind, f.table) for f in bound(path, world.well_behaved(), constraints=True).facts}
    assert (FactKind.UNIQUE_KEY, "orders") in facts
    assert (FactKind.LINK_RESOLVES, "items") in facts
    assert (FactKind.NOT_NULL_LINK, "customers") in facts
    assert not [kind for kind, _ in facts if kind is FactKind.MAX_ROWS]


@pytest.mark.full("starts processes")
def test_the_version_follows_decisions_not_layout(tmp_path: Path) -> None:
    def version(text: str) -> str:
        return bound(written(tmp_path, text), world.well_behaved()).version

    here = version(SHOP)
    assert version("# a comment\n\n" + SHOP.replace(" = ", "  =  ")) == here
    assert version(SHOP.replace("epsilon = 1000.0", "epsilon = 2000.0")) == here
    for old, new in (
        ("[0, 120]", "[0, 121]"),
        ('"open", "paid"', '"open", "payed"'),
        ("max_groups_per_unit = 3", "max_groups_per_unit = 4"),
        ("add_remove", "replace"),
        ("note = { nullable = true }", "note = {}"),
        ("city = {}", "city = { hidden = true }"),
    ):
        assert version(SHOP.replace(old, new)) != here


def test_an_undecided_policy_says_where(tmp_path: Path) -> None:
    engine = PlainEngine(world.build(world.well_behaved(), constraints=True))
    text = init.draft(Schema(declared(engine.rows)), Database("duckdb", "shop.duckdb"))
    assert text.endswith('# tables = ["customers", "orders"]\n')
    with pytest.raises(PolicyError, match="decisions are open") as caught:
        load(written(tmp_path, text))
    numbered = enumerate(text.splitlines(), 1)
    lines = [n for n, line in numbered if '"DECIDE"' in line and not line.startswith("#")]
    assert caught.value.fix == f"Replace DECIDE on lines {', '.join(map(str, lines))}."


def test_a_draft_reads_no_data() -> None:
    drafts = [
        init.draft(
            Schema(declared(PlainEngine(world.build(tables, constraints=True)).rows)),
            Database("duckdb", "x"),
        )
        for tables in (world.empty(), world.well_behaved())
    ]
    assert drafts[0] == drafts[1]


@pytest.mark.full("starts processes")
def test_a_draft_keeps_what_the_schema_declares(tmp_path: Path) -> None:
    demo.build(tmp_path)
    engine = PlainEngine(duckdb.connect(str(tmp_path / "shop.duckdb"), read_only=True))
    text = init.draft(Schema(declared(engine.rows)), Database("duckdb", "shop.duckdb"))
    assert "age = { bounds = [0, 120], nullable = true }" in text
    assert 'status = { values = ["open", "paid", "returned"] }' in text
    assert 'link = { column = "customer_id", references = "customers.customer_id" }' in text


@pytest.mark.full("starts processes")
def test_check_finds_what_does_not_fit_and_where(tmp_path: Path) -> None:
    path = written(tmp_path, SHOP)
    engine = PlainEngine(world.build(world.adversarial(), constraints=False))
    findings, facts = check(bound(path, world.adversarial()), load(path).lines, engine.rows)
    said = {(f.line, f.rows) for f in findings if "outside its bounds" in f.message}
    assert (line_of(SHOP, "age = {"), 2) in said
    messages = " ".join(f.message for f in findings)
    for word in ("share their key", "link to no row", "have no", "NaN", "not listed", "units have"):
        assert word in messages
    assert not {f.kind for f in facts if f.table in ("customers", "orders")} & {
        FactKind.UNIQUE_KEY,
        FactKind.LINK_RESOLVES,
    }


@pytest.mark.full("measures neighbours or further data sets")
def test_check_counts_infinite_times_of_columns_that_have_no_bounds(tmp_path: Path) -> None:
    bounds = "bounds = [2024-01-01T00:00:00, 2025-12-31T23:59:59]"
    rows = world.well_behaved()
    engine = PlainEngine(world.build(rows, constraints=False))
    engine.connection.execute("UPDATE orders SET placed_at = 'infinity' WHERE order_id IN (10, 30)")
    engine.connection.execute("UPDATE orders SET placed_at = NULL WHERE order_id = 20")
    for options, expected in (("", [2]), ("nullable = true", [])):
        assert bounds in SHOP
        path = written(tmp_path, SHOP.replace(bounds, options))
        findings, _ = check(bound(path, rows), load(path).lines, engine.rows)
        assert [f.rows for f in findings if "an infinite placed_at" in f.message] == expected


@pytest.mark.full("starts processes")
def test_check_confirms_what_fits(tmp_path: Path) -> None:
    path = written(tmp_path, SHOP)
    engine = PlainEngine(world.build(world.well_behaved(), constraints=False))
    findings, facts = check(bound(path, world.well_behaved()), load(path).lines, engine.rows)
    assert findings == ()
    kinds = {(f.kind, f.table) for f in facts}
    assert (FactKind.UNIQUE_KEY, "customers") in kinds
    assert (FactKind.MAX_ROWS, "orders") in kinds
    assert (FactKind.LINK_RESOLVES, "items") in kinds


@pytest.mark.full("starts processes")
def test_recorded_facts_count_only_under_the_policy_they_were_checked_under(
    tmp_path: Path,
) -> None:
    world.build(world.well_behaved(), str(tmp_path / "shop.duckdb"), constraints=False).close()
    path = written(tmp_path, SHOP)
    assert not any(review.fails for review in check_policy(path, record=True).reviews)
    with Proxy.open(path) as proxy:
        assert FactKind.MAX_ROWS in {fact.kind for fact in proxy.policy.facts}
    written(tmp_path, SHOP.replace("max_rows_per_unit = 50", "max_rows_per_unit = 1"))
    with Proxy.open(path) as proxy:
        assert not proxy.policy.facts


def test_a_draft_keeps_text_of_the_schema_inside_comments() -> None:
    engine = PlainEngine(duckdb.connect())
    engine.connection.execute("CREATE TYPE m AS ENUM ('a\n[analysts.evil]\n', 'b')")
    engine.connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, m m)")
    schema = Schema(declared(engine.rows))
    decisions = init.Decisions(unit_called(schema, "t.id"))
    text = init.draft(schema, Database("duckdb", "x"), decisions)
    assert "evil" in text
    assert "[analysts.evil]" not in text.splitlines()


def test_a_key_that_knows_two_zeros_is_refused(tmp_path: Path) -> None:
    """0.0 and -0.0 are one key and two values: what a unit determines would not be determined."""
    engine = PlainEngine(duckdb.connect())
    engine.connection.execute("CREATE TABLE t (id DOUBLE PRIMARY KEY, n INTEGER)")
    text = SHOP[: SHOP.index("[tables.customers]")].replace("customers", "t")
    text = text.replace('"customer_id"', '"id"')
    text += '[tables.t]\naccess = "private"\nkey = "id"\n[tables.t.columns]\nid = {}\nn = {}\n'
    text += SHOP[SHOP.index("[budgets.default]") :]
    schema = Schema(declared(engine.rows), "here")
    with pytest.raises(PolicyError, match=r"0\.0 and -0\.0") as caught:
        bind(load(written(tmp_path, text)), schema, PublicTables(engine, DUCKDB).values)
    assert caught.value.line == line_of(text, 'key = "id"\n[tables.t.columns]')


def test_limits_of_a_unit_may_be_found(tmp_path: Path) -> None:
    """Which no other limit may be."""
    found = SHOP.replace("max_rows_per_group = 5", 'max_rows_per_group = "private"')
    found = found.replace("max_groups_per_unit = 2", 'max_groups_per_unit = "private"')
    (events,) = (t for t in load(written(tmp_path, found)).tables if t.name == "events")
    assert events.max_rows_per_group is events.max_groups_per_unit is None
    wrong = SHOP.replace("max_groups_per_unit = 2", 'max_public_groups = "private"')
    with pytest.raises(PolicyError) as refused:
        load(written(tmp_path, wrong))
    assert refused.value.line == line_of(wrong, 'max_public_groups = "private"')


def test_a_database_is_no_policy(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    duckdb.connect(str(path)).close()
    with pytest.raises(PolicyError, match="This is a DuckDB file") as error:
        load(str(path))
    assert error.value.fix == "Name the TOML that has its path in [database]."
    path.write_bytes(b"\0\xff")
    with pytest.raises(PolicyError) as error:
        load(str(path))
    assert error.value.fix.startswith("If it is the database")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(PolicyError) as error:
        load(str(tmp_path / "latin.toml"))
    assert error.value.fix == "Save it as UTF-8 text."
