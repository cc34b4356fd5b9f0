"""What was prepared of the data is read instead: the same integers, and never other data's."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.model.errors import PolicyError, Unreachable
from dpsql.model.prepared_store import ABOUT, SCHEMA, PreparedStore, parsed, turn_columns
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.owner.check import check_policy
from dpsql.owner.prepared_tables import PreparedRows, prepared_tables
from dpsql.owner.preparing import preparation
from dpsql.policy.load import load
from dpsql.preparation.bound_policy import facts_lapsed, store_unused
from dpsql.preparation.engine_kinds import store_writer
from dpsql.proxy import Proxy
from grammar_tests import bound, physical_worlds, world
from grammar_tests.casefile import Case
from grammar_tests.laws import BUDGET, PlainEngine, compiled, integers
from grammar_tests.physical_worlds import store_of
from grammar_tests.proxy_kit import request, shop
from grammar_tests.test_asked_groups import OF_A_CATEGORY
from grammar_tests.test_cases import ALL
from grammar_tests.test_data_changes import replaced, silent

EVERY = 60
"""One of so many cases is compared."""
ACCEPTED = tuple(
    case for case in ALL if case.accepted and case.holds_here and case.catalog == "shop"
)


def odd() -> world.Tables:
    """Whatever is beyond what the policy declares, and rows that belong to nobody."""
    tables = world.exceeding()
    lost = [world.order(9999, 999, 1), (9998, None, *world.order(9998, 1, 1)[2:])]
    more = [(9000 + n, order, 1, Decimal(3), 1) for n, order in enumerate((9999, None, 123456))]
    nobody = (None, "NO", "consumer", "Oslo", 30, 1.0, True, None, "nobody", None)
    return tables | {
        "orders": tables["orders"] + lost,
        "items": tables["items"] + more,
        "customers": [*tables["customers"], nobody],
    }


@cache
def worlds() -> tuple[tuple[Policy, Policy, PlainEngine], ...]:
    """Policies without and with a store, by constraints or by nothing at all, over their data."""
    listed = []
    for tables, constraints in ((world.exceeding(), True), (odd(), False)):
        policy, engine = bound.over(tables, constraints=constraints)
        store = store_of(policy, engine)
        listed.append((policy, replace(policy, store=store), engine))
    return tuple(listed)


def plans(case: Case, *policies: Policy, engine: PlainEngine) -> list[Prepared]:
    budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
    dialect, norm = case.setting("dialect", "duckdb"), Fraction(8)
    return [
        compiled(case.sql, policy, engine, dialect=dialect, budget=budget, norm=norm)
        for policy in policies
    ]


def differing(cases: tuple[Case, ...]) -> list[str]:
    """The cases whose integers are others where they are read from the store."""
    found = []
    for plain, stored, engine in worlds():
        for case in cases:
            before, after = plans(case, plain, stored, engine=engine)
            if before.plan is None:
                continue
            assert after.question == before.question
            assert after.rewritten.stored
            mine, theirs = integers(before, engine), integers(after, engine)
            if [(dict(c), c.cells) for c in mine] != [(dict(c), c.cells) for c in theirs]:
                found.append(case.id)
    return found


@pytest.mark.full("starts processes")
def test_prepared_plans_give_the_same_integers() -> None:
    assert differing(ACCEPTED[::EVERY]) == []
    assert differing(tuple(c for c in ACCEPTED if "asked_groups" in str(c.file))) == []


@pytest.mark.full("measures neighbours or further data sets")
def test_wrong_twin_a_row_of_nobody_in_the_store_is_a_difference() -> None:
    cases = (replace(ACCEPTED[0], sql="SELECT COUNT(*) FROM orders WHERE quantity > 0"),)
    _plain, _stored, engine = worlds()[1]
    table = f"{SCHEMA}.orders"
    engine.connection.execute("BEGIN")
    engine.connection.execute(f"INSERT INTO {table} SELECT * FROM {table} LIMIT 1")
    try:
        assert differing(cases)
    finally:
        engine.connection.execute("ROLLBACK")
    assert not differing(cases)


BY_PERSON = """SELECT SUM(n) AS s FROM (SELECT customer_id, COUNT(*) AS n FROM items
    JOIN orders USING (order_id) GROUP BY customer_id HAVING COUNT(*) > 1) AS x"""
CLASHING = "orders.customer_id"


@pytest.mark.full("opens a proxy")
def test_a_column_that_is_called_as_one_of_the_store_is_not_the_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where items were flattened from JSON: else their own column would be their unit."""
    policy, engine = bound.over(world.well_behaved(), constraints=False, recorded=True)
    engine.connection.execute(f'ALTER TABLE items RENAME units TO "{CLASHING}"')
    engine.connection.execute(f'UPDATE items SET "{CLASHING}" = item_id')

    def renamed(table: TablePolicy) -> TablePolicy:
        named = {"units": CLASHING}
        columns = (replace(c, name=named.get(c.name, c.name)) for c in table.columns)
        return replace(table, columns=tuple(columns))

    policy = policy.with_tables(renamed)
    assert "items" not in {table.name for table in prepared_tables(policy)}
    with monkeypatch.context() as earlier:  # a store that an earlier version made
        earlier.setattr("dpsql.owner.prepared_tables.has_own_names", lambda *_: True)
        stored = replace(policy, store=store_of(policy, engine))

    def counted(over: Policy) -> dict[Any, tuple[int, ...]]:
        return dict(integers(compiled(BY_PERSON, over, engine), engine)[0])

    assert counted(stored) == counted(policy)
    # The wrong twin: the first column of that name is read.
    monkeypatch.setattr("dpsql.compiler.rewrite.stored_rows.has_own_names", lambda *_: True)
    assert counted(stored) != counted(policy)


OTHER_ORDERS = """SELECT COUNT(*) FROM items JOIN orders USING (order_id)
    JOIN orders AS others USING (customer_id)"""
"""Of an item all orders of its customer, of which its link says nothing."""


@pytest.mark.full("measures neighbours or further data sets")
def test_doubles_are_stored_as_they_are_read() -> None:
    """A later `prepare` that keeps a row, by a hash that -0.0 and 0.0 share, keeps what is read."""
    policy, engine = bound.over(physical_worlds.rows(), constraints=True)
    engine.connection.execute(f"CREATE SCHEMA {SCHEMA}")
    (table,) = (each for each in prepared_tables(policy) if each.name == "orders")
    engine.connection.execute(PreparedRows(table, policy, DUCKDB).creation(None))
    odd = "SELECT COUNT(*) FROM {} WHERE isnan(discount) OR (discount = 0 AND signbit(discount))"
    assert engine.rows(odd.format("orders")) > [(1,)]
    assert engine.rows(odd.format(f"{SCHEMA}.orders")) == [(0,)]
    assert not unequal_over_store(engine, policy)
    # The wrong twin: a store of the values as they are stored, which is read as it is.
    engine.connection.execute(f"CREATE OR REPLACE TABLE {SCHEMA}.orders AS FROM orders")
    assert len(unequal_over_store(engine, policy)) > 1


def unequal_over_store(engine: PlainEngine, policy: Policy) -> list[str]:
    """The questions about DOUBLEs whose integers are others over the store of one table."""
    stored = replace(policy, store=PreparedStore("a", "here", policy.version, ("orders",)))
    asked = ("COUNT(discount)", "COUNT(*) FILTER (WHERE discount > 0.1)", "SUM(discount)")
    questions = [f"SELECT {listed} FROM orders" for listed in asked]
    questions += [f"SELECT COUNT(*) FROM orders WHERE discount {end}" for end in ("> 2", "<= 0")]
    found = []
    for sql in questions:
        before, after = (compiled(sql, each, engine) for each in (policy, stored))
        (block,) = after.rewritten.blocks
        assert "isnan" not in block.sql
        if integers(before, engine) != integers(after, engine):
            found.append(sql)
    return found


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    ("sql", "joins"),
    [
        ("SELECT COUNT(*) FROM items", 0),
        ("SELECT COUNT(*) FROM items JOIN orders USING (order_id)", 0),
        ("SELECT SUM(amount) FROM items JOIN orders USING (order_id)", 1),
        ("SELECT COUNT(*) FROM orders JOIN customers USING (customer_id)", 0),
        ("SELECT country, COUNT(*) FROM orders JOIN customers USING (customer_id) GROUP BY 1", 1),
        (OTHER_ORDERS, 1),
        (OF_A_CATEGORY, 1),  # of the units above their limit
    ],
)
def test_what_only_leads_to_the_unit_is_not_joined(sql: str, joins: int) -> None:
    for plain, stored, engine in worlds():
        before, after = (compiled(sql, policy, engine) for policy in (plain, stored))
        (block,) = after.rewritten.blocks
        assert block.sql.count("JOIN") == joins
        assert dict(integers(before, engine)[0]) == dict(integers(after, engine)[0])


# --- rollups ---

BY_STATUS = "SELECT status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY status"


@pytest.mark.full("takes half a second and more")
@pytest.mark.parametrize(
    ("sql", "table"),
    [
        (BY_STATUS, "orders by status"),
        (f"{BY_STATUS} HAVING COUNT(*) > 2", "orders by status"),
        ("SELECT AVG(amount), AVG(discount), COUNT(discount) FROM orders", "orders by unit alone"),
        ("SELECT VAR_POP(quantity) FROM orders WHERE status <> 'open'", "orders by status"),
        ("SELECT COUNT(*) FILTER (WHERE status = 'paid') FROM orders", "orders by status"),
        ("SELECT SUM(units) FROM items", "items by unit alone"),
        ("SELECT device, COUNT(DISTINCT customer_id) FROM events GROUP BY 1", "events by device"),
        ("SELECT day, COUNT(*) FROM logins GROUP BY 1", "logins by day"),  # scaled to a norm
        # Of the groups that are left the places are others than those that are stored.
        ("SELECT device, COUNT(*) FROM events WHERE device <> 'device 27' GROUP BY 1",
         "events by device"),
        ("SELECT EXTRACT(month FROM placed_at) AS m, SUM(quantity) FROM orders GROUP BY m",
         "orders by status, placed_at"),
        # What is finer, or adds something else of a row, is asked of the rows.
        (BY_STATUS.replace("GROUP", "WHERE quantity > 3 GROUP"), "orders"),
        (BY_STATUS.replace("SUM(amount)", "SUM(amount * 2)"), "orders"),
        (BY_STATUS.replace("SUM(amount)", "SUM(amount) FILTER (WHERE quantity > 3)"), "orders"),
        ("SELECT COUNT(DISTINCT quantity) FROM orders", "orders"),
        ("SELECT country, COUNT(*) FROM orders JOIN customers USING (customer_id) GROUP BY 1",
         "orders"),
    ],
)  # fmt: skip
def test_a_question_is_asked_of_the_rollup_that_has_all_it_needs(sql: str, table: str) -> None:
    for plain, stored, engine in worlds():
        before, after = (compiled(sql, policy, engine) for policy in (plain, stored))
        assert after.rewritten.stored[0] == table
        assert [dict(c) for c in integers(before, engine)] == [
            dict(c) for c in integers(after, engine)
        ]


def copies(sql: str, engine: PlainEngine) -> bool:
    """Whether the engine keeps what a statement reads until it is read again."""
    ((_, plan),) = engine.connection.execute(f"EXPLAIN {sql}", {"sampling_key": 1}).fetchall()
    return "CTE" in plan


@pytest.mark.full("opens a proxy")
def test_what_is_stored_is_read_again_and_not_copied() -> None:
    sql = "SELECT device, COUNT(*) AS n, SUM(duration) FROM events GROUP BY 1"
    _plain, stored, engine = worlds()[0]
    for asked in (sql, sql.replace("GROUP", "WHERE device <> 'phone' GROUP")):
        (block,) = compiled(asked, stored, engine).rewritten.blocks
        assert not copies(block.sql, engine)
        assert copies(block.sql.replace(" NOT MATERIALIZED", " MATERIALIZED"), engine)


def test_tighter_bounds_are_asked_of_the_rows() -> None:
    _plain, stored, engine = worlds()[0]
    tables = list(stored.tables)
    (place,) = [n for n, table in enumerate(tables) if table.name == "orders"]
    columns = tuple(
        replace(c, bounds=(Decimal(0), Decimal(400))) if c.name == "amount" else c
        for c in tables[place].columns
    )
    tables[place] = replace(tables[place], columns=columns)
    tighter = replace(stored, tables=tuple(tables))
    assert compiled(BY_STATUS, tighter, engine).rewritten.stored == ("orders",)


@pytest.mark.parametrize(
    "wrong",
    [
        "INSERT INTO {0} SELECT * FROM {0} ORDER BY unit LIMIT 1",  # stale
        "UPDATE {0} SET rows = rows - 1",  # of a finer filter
        "UPDATE {0} SET s0 = s0 - 1, n0 = n0 + 1",
        "UPDATE {0} SET groups = 1",  # nobody has too many groups
        "UPDATE {0} SET place = groups - place + 1",  # another order
        "UPDATE {0} SET place = 1",  # of whom all groups are kept, or none
    ],
)
def test_wrong_twin_a_rollup_of_other_rows_is_a_difference(wrong: str) -> None:
    sql = "SELECT device, COUNT(*) AS n, SUM(duration), COUNT(duration) FROM events GROUP BY 1"
    case = replace(ACCEPTED[0], sql=sql)
    plain, stored, engine = worlds()[1]
    before, after = plans(case, plain, stored, engine=engine)
    engine.connection.execute("BEGIN")
    engine.connection.execute(wrong.format(f'{SCHEMA}."events by device"'))
    try:
        first, second = (dict(integers(p, engine)[0]) for p in (before, after))
        assert first != second
    finally:
        engine.connection.execute("ROLLBACK")


# --- groups that rows are in ---

NOT_SUMMED = (
    "SELECT device, COUNT(*) AS n, SUM(duration * 2) FROM events GROUP BY 1",
    "SELECT device, COUNT(DISTINCT duration), MEDIAN(duration) FROM events GROUP BY 1",
    "SELECT device, SAMPLE_AGGREGATE(AVG(duration), 0, 100) FROM events GROUP BY 1",
)


@pytest.mark.parametrize("sql", NOT_SUMMED)
def test_rows_of_groups_that_are_not_kept_are_left_out_first(sql: str) -> None:
    for plain, stored, engine in worlds():
        before, after = (compiled(sql, policy, engine) for policy in (plain, stored))
        (own,), (theirs,) = before.rewritten.blocks, after.rewritten.blocks
        assert "ROW_NUMBER" in own.sql
        assert "ROW_NUMBER" not in theirs.sql
        assert [(dict(c), c.cells) for c in integers(before, engine)] == [
            (dict(c), c.cells) for c in integers(after, engine)
        ]


def test_where_rows_are_left_out_the_groups_of_the_others_are_ranked() -> None:
    _plain, stored, engine = worlds()[0]
    sql = NOT_SUMMED[0].replace("GROUP", "WHERE duration > 1 GROUP")
    assert "ROW_NUMBER" in compiled(sql, stored, engine).rewritten.blocks[0].sql


@pytest.mark.parametrize(
    "wrong",
    ["{groups} = 1", "{place} = {groups} - {place} + 1", "{place} = 1", "{place} = {place} + 1"],
)
def test_wrong_twin_rows_in_other_groups_are_a_difference(wrong: str) -> None:
    case = replace(ACCEPTED[0], sql=NOT_SUMMED[0])
    plain, stored, engine = worlds()[1]
    before, after = plans(case, plain, stored, engine=engine)
    groups, place = map(identifier, turn_columns("events by device"))
    engine.connection.execute("BEGIN")
    change = wrong.format(groups=groups, place=place)
    engine.connection.execute(f"UPDATE {SCHEMA}.events SET {change}")
    try:
        first, second = (dict(integers(p, engine)[0]) for p in (before, after))
        assert first != second
    finally:
        engine.connection.execute("ROLLBACK")


# --- the store of a policy ---


ROLLED_UP = 'rollups = [[], ["status"]]'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A shop without constraints, whose facts are recorded, and whose policy names a store."""
    return policy_with_store(shop(tmp_path, constraints=False))


def policy_with_store(found: Path) -> Path:
    """The policy, which names a store, its facts recorded."""
    text = found.read_text("utf-8")
    more = {'path = "shop.duckdb"': 'prepared = "made.duckdb"', 'key = "order_id"': ROLLED_UP}
    for line, added in more.items():
        assert text.count(f"{line}\n") == 1
        text = text.replace(f"{line}\n", f"{line}\n{added}\n")
    found.write_text(text, "utf-8")
    check_policy(str(found), record=True)
    return found


def prepare(path: Path, steps: int | None = None) -> int:
    """Makes the store, or the first steps of it; says how many were left to do."""
    with preparation(str(path)) as planned:
        for step in planned.steps[:steps]:
            planned.make(step)
        if steps is None:
            planned.writer.finish()
        return len(planned.steps)


QUESTION = "SELECT status, COUNT(*) AS n FROM items JOIN orders USING (order_id) GROUP BY status"


def answered(path: Path, sql: str = QUESTION) -> tuple[list[Any], bool]:
    """The rows without noise, and whether they were read from the store."""
    with Proxy.open(str(path)) as proxy:
        proxy.vault.sampler = silent
        notes = proxy.explain(request(sql)).notes
        return list(proxy.ask(request(sql)).rows), any("dpsql prepare" in note for note in notes)


@pytest.mark.full("starts processes")
def test_a_plan_over_the_store_says_so_and_is_the_same_question(path: Path) -> None:
    rows, stored = answered(path)
    assert not stored
    prepare(path)
    with Proxy.open(str(path)) as proxy:
        again = proxy.ask(request(QUESTION))
        assert again.receipt is not None
        assert again.receipt.remembered
        assert list(again.rows) == rows
        assert not facts_lapsed(proxy.policy, proxy.ledger)
        proxy.refresh()
    assert answered(path) == (rows, True)


@pytest.mark.full("starts processes")
def test_a_folder_in_which_others_may_create_names_is_refused(path: Path) -> None:
    path.parent.chmod(0o770)
    with pytest.raises(Unreachable, match="chmod go-w"):
        prepare(path)
    path.parent.chmod(0o1777)  # as /tmp: nobody replaces what is another's
    unfinished = path.parent / "made.duckdb.unfinished"
    unfinished.symlink_to(path.parent)
    with pytest.raises(Unreachable):
        prepare(path)
    unfinished.unlink()
    prepare(path)


@pytest.mark.full("starts processes")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_a_folder_of_somebody_else_is_refused(path: Path) -> None:
    unfinished = path.parent / "made.duckdb.unfinished"
    unfinished.mkdir()
    os.chown(unfinished, 1234, 1234)
    with pytest.raises(Unreachable, match="belongs to somebody else"):
        prepare(path)


@pytest.mark.full("starts processes")
def test_what_was_begun_is_gone_on_with_and_is_its_owners_alone(path: Path) -> None:
    every, folder = prepare(path, steps=2), path.parent
    assert (folder / "made.duckdb.unfinished").stat().st_mode & 0o777 == 0o700
    assert not (folder / "made.duckdb").exists()
    assert prepare(path) == every - 2
    assert (folder / "made.duckdb").stat().st_mode & 0o777 == 0o600
    assert {each.name for each in folder.glob("made*")} == {"made.duckdb"}
    prepare(path, steps=1)
    replaced(folder, world.exceeding())
    assert prepare(path) == every


@pytest.mark.full("starts processes")
def test_a_store_of_other_data_is_not_used_and_its_owner_is_told(path: Path) -> None:
    prepare(path)
    before, stored = answered(path)
    assert stored
    replaced(path.parent, world.exceeding())
    now, stored = answered(path)
    assert not stored
    assert now != before
    assert check_policy(str(path)).store_unused


@pytest.mark.full("opens a proxy for each item")
def test_wrong_twin_a_store_that_claims_to_be_of_this_data_is_believed(path: Path) -> None:
    prepare(path)
    before, _ = answered(path)
    replaced(path.parent, world.exceeding())
    with store_writer(load(str(path))) as writer:
        identity = writer.identity
    with duckdb.connect(str(path.parent / "made.duckdb")) as made:
        ((about,),) = made.execute(f"SELECT about FROM {ABOUT}").fetchall()
        store = parsed(about)
        assert store is not None
        made.execute(f"UPDATE {ABOUT} SET about = ?", [replace(store, data=identity).text])
    assert answered(path) == (before, True)


@pytest.mark.full("starts processes")
def test_a_running_proxy_keeps_its_store_until_it_takes_up_another(path: Path) -> None:
    prepare(path)
    with Proxy.open(str(path)) as proxy:
        proxy.vault.sampler = silent
        before, accepted = proxy.ask(request(QUESTION)).rows, proxy.accepted
        assert proxy.recorded() == accepted
        prepare(path)
        assert proxy.recorded() != accepted
        assert "orders by status" in proxy.explain(request(BY_STATUS)).blocks[0].sql
        assert proxy.ask(request(BY_STATUS)).rows
        proxy.refresh()
        assert not store_unused(proxy.policy)
        assert proxy.ask(request(QUESTION)).rows == before
    text = path.read_text("utf-8")
    path.write_text(text.replace("bounds = [0.0, 500.0]", "bounds = [0.0, 400.0]"), "utf-8")
    assert not answered(path)[1]


@pytest.mark.full("starts processes")
def test_facts_that_do_not_hold_are_no_store(path: Path) -> None:
    replaced(path.parent, world.adversarial())
    with pytest.raises(Unreachable, match="orders: unique key"):
        prepare(path)
    assert not list(path.parent.glob("made*"))


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(
    ("rollups", "why"),
    [
        ('[["discount"]]', "no column that orders can be rolled up by"),
        ('[["unheard_of"]]', "no column that orders can be rolled up by"),
        ('["status"]', "no list of lists"),
    ],
)
def test_rollups_that_cannot_be(path: Path, rollups: str, why: str) -> None:
    text = path.read_text("utf-8")
    path.write_text(text.replace(ROLLED_UP, f"rollups = {rollups}"), "utf-8")
    with pytest.raises(PolicyError, match=why):
        prepare(path)


def test_a_policy_that_names_no_store(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="names no file"):
        prepare(shop(tmp_path))
