"""A prepared store whose rows have changed since: what came is added, and once."""

from __future__ import annotations

import fcntl
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.engines.duckdb.taken_rows import TakenRows
from dpsql.model.errors import Unreachable
from dpsql.owner import preparing
from dpsql.owner.check import check_policy
from dpsql.owner.preparing import preparation
from dpsql.policy.draft import Draft
from dpsql.preparation.engine_kinds import store_writer
from grammar_tests import world
from grammar_tests.proxy_kit import shop
from grammar_tests.test_prepare import path as path  # noqa: PLC0414 - a fixture
from grammar_tests.test_prepare import policy_with_store, prepare

SINCE = (
    "INSERT INTO orders BY NAME SELECT o.* REPLACE (7001 + n AS order_id)"
    " FROM orders AS o, range(2) AS r(n) WHERE order_id = (SELECT MIN(order_id) FROM orders)"
)
"""Two more orders of somebody."""


def changed(folder: Path, *statements: str) -> None:
    """The owner's database, with these statements run in it."""
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a policy says of its data is verified when its store is made first, for speed."""
    verified = cache(preparing.__dict__["_verified"])

    def again(draft: Draft) -> Any:
        policy, rollups = verified(draft)
        with store_writer(draft) as writer:
            return replace(policy, data=writer.identity), rollups

    monkeypatch.setattr(preparing, "_verified", again)


def made(path: Path) -> tuple[dict[str, list[str]], set[str]]:
    """The rows of every table of a store that is made now, and those that were added to."""
    added = set()
    with preparation(str(path)) as planned:
        for step in planned.steps:
            planned.make(step)
            added |= {step.table} if step.added else set()
        planned.writer.finish()
    with duckdb.connect(str(path.parent / "made.duckdb"), read_only=True) as store:
        listed = store.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'")
        return {
            name: sorted(map(repr, store.execute(f'SELECT * FROM "{name}"').fetchall()))
            for (name,) in listed.fetchall()
        }, added


def made_whole(path: Path) -> dict[str, list[str]]:
    (path.parent / "made.duckdb").unlink()
    rows, added = made(path)
    assert not added
    return rows


ORDERS = {"orders", "orders by unit alone", "orders by status"}


FIRST = "WHERE {0}_id = (SELECT MIN({0}_id) FROM {0}s)"
CHANGES = (
    (SINCE, set[str]()),
    (f"UPDATE orders SET quantity = 7 {FIRST.format('order')}", {*ORDERS, "items"}),
    ("ALTER TABLE orders ADD COLUMN more INTEGER", {*ORDERS, "items"}),
)
"""What may become of the data, and what of a store is then made again whole."""


@pytest.mark.full("processes are started and killed")
@pytest.mark.usefixtures("verified_once")
def test_what_is_added_to_a_store_makes_the_whole_one(path: Path) -> None:
    made(path)
    for statement, whole in CHANGES:
        changed(path.parent, statement)
        after, added = made(path)
        assert added == after.keys() - whole, statement
        assert after == made_whole(path), statement


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("wrong", [False, True], ids=["as it is", "wrong twin"])
@pytest.mark.usefixtures("verified_once")
def test_of_two_who_make_a_store_at_once_the_second_is_refused(
    wrong: bool,  # noqa: FBT001 - pytest passes it by name
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or the first would put into its place what the second has begun, or nothing."""
    if wrong:
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with preparation(str(path)) as planned:
        planned.make(planned.steps[0])
        with pytest.raises(Unreachable, match="failed" if wrong else "Another dpsql prepare"):
            prepare(path)
        for step in planned.steps[1:]:
            planned.make(step)
        with pytest.raises(FileNotFoundError) if wrong else nullcontext():
            planned.writer.finish()


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A store of orders, one of which is of nobody, and of somebody since."""
    rows = world.well_behaved()
    tables = rows | {"orders": [*rows["orders"], world.order(9999, 999, 1)]}
    path = policy_with_store(shop(tmp_path, tables=tables, constraints=False))
    made(path)
    newer = "INSERT INTO customers BY NAME SELECT * REPLACE (999 AS customer_id) FROM customers"
    changed(tmp_path, f"{newer} WHERE customer_id = 1", SINCE)
    return path


@pytest.mark.full("starts processes")
@pytest.mark.usefixtures("verified_once")
def test_rows_that_were_of_nobody_are_taken_when_they_are_somebodys(waiting: Path) -> None:
    after, added = made(waiting)
    assert "customers" in added
    assert not added & ORDERS
    assert after == made_whole(waiting)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.usefixtures("verified_once")
def test_wrong_twin_only_what_is_new_in_a_table_is_taken(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = preparing.__dict__["_since"]
    monkeypatch.setattr(
        preparing, "_since", lambda rows, _writer, grown: grown[rows.table.name].since
    )
    after, added = made(waiting)
    monkeypatch.setattr(preparing, "_since", own)
    assert added >= ORDERS
    assert after != made_whole(waiting)


@pytest.mark.full("prepares a store three times; a quicker twin is in test_prepare.py")
@pytest.mark.usefixtures("verified_once")
def test_wrong_twin_a_sum_that_overlooks_a_change_is_a_difference(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TakenRows, "_sums", lambda *_: ["the same"])
    made(path)
    changed(path.parent, "UPDATE orders SET amount = amount / 2", SINCE)
    after, added = made(path)
    assert added == after.keys()
    assert after != made_whole(path)


@pytest.mark.full("processes are started and killed")
@pytest.mark.usefixtures("verified_once")
def test_files_that_came_since_are_added(path: Path) -> None:
    folder = path.parent
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        for name in names:
            (folder / name).mkdir()
            connection.execute(f"COPY {name} TO '{folder / name / 'a.parquet'}'")
        connection.execute(SINCE)
        later = "SELECT * FROM orders WHERE order_id > 7000"
        files = "".join(f'{name} = "{name}/*.parquet"\n' for name in names)
        text = path.read_text("utf-8").replace('path = "shop.duckdb"\n', "")
        text = text.replace("[privacy_unit]", f"[database.files]\n{files}[privacy_unit]")
        path.write_text(text, "utf-8")
        check_policy(str(path), record=True)
        made(path)
        connection.execute(f"COPY ({later}) TO '{folder / 'orders' / 'b.parquet'}'")
    after, added = made(path)
    assert added == after.keys()
    assert after == made_whole(path)
    (folder / "orders" / "b.parquet").touch()
    after, added = made(path)
    assert added == after.keys() - {*ORDERS, "items"}
