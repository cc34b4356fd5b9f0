"""Limits that the owner declares where they know better: of a column's total, and by a grouping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from dpsql.compiler.plan.measurement_kinds import ScaledTotal
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.interfaces.cli import main
from dpsql.model.errors import PolicyError
from dpsql.model.notices import Clipped
from dpsql.model.vocabulary import GroupingLimit, Neighbours, Norm, Policy
from dpsql.preparation.bound_policy import grouping_key
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit, world
from grammar_tests.bound import over
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    integers,
    violation,
    without_unit,
)

WEEK = "date_trunc('week', placed_at)"
BY_STATUS = "SELECT status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY status"
SIGNED = "SELECT status, SUM(quantity - 10) AS s FROM orders GROUP BY status"
TOTAL = "SELECT SUM(amount) AS s FROM orders"


def limited(
    policy: Policy,
    *,
    rows: dict[str, int] | None = None,
    groups: dict[str, int] | None = None,
    totals: dict[str, str] | None = None,
    **others: Any,
) -> Policy:
    """The shop's policy where these limits of orders are declared."""
    orders = policy.table("orders")
    assert orders is not None

    def by(limits: dict[str, int] | None) -> tuple[GroupingLimit, ...]:
        return tuple(
            GroupingLimit(text, most, grouping_key(text, orders, policy))
            for text, most in (limits or {}).items()
        )

    def with_total(column: Any) -> Any:
        most = (totals or {}).get(column.name)
        return replace(column, max_per_unit=None if most is None else Decimal(most))

    columns = tuple(map(with_total, orders.columns))
    new = replace(orders, columns=columns, rows_by=by(rows), groups_by=by(groups), **others)
    tables = tuple(new if t.name == "orders" else t for t in policy.tables)
    return replace(policy, tables=tables)


def block_of(sql: str, policy: Policy, engine: PlainEngine) -> BlockPlan:
    (block,) = compiled(sql, policy, engine).blocks
    return block


@pytest.fixture(scope="module")
def shop() -> tuple[Policy, PlainEngine]:
    return over(world.rivals(), constraints=False)


# --- which limit holds ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ("status", 4),
        (WEEK, 7),
        (f"{WEEK}, status", 4),
        ("quantity", 10),  # neither is grouped by
        ("EXTRACT(month FROM placed_at)", 10),  # another expression of the same column
        ("placed_at", 10),  # finer than a week, but who grouped by it is not said
        ("note, status", 4),
    ],
)
def test_a_grouping_has_the_least_limit_of_its_keys(
    shop: tuple[Policy, PlainEngine], keys: str, rows: int
) -> None:
    policy, engine = limited(shop[0], rows={"status": 4, WEEK: 7}), shop[1]
    for source in ("orders", "(SELECT * FROM orders WHERE amount > 3) AS o"):
        block = block_of(f"SELECT {keys}, COUNT(*) AS n FROM {source} GROUP BY ALL", policy, engine)
        assert block.rows_per_group.value == rows
        named = block.rows_per_group.how.split(": max_rows_per_group")[1]
        assert bool(named) == (rows != 10)


LISTED = {"note_length": 5, "note": 2, WEEK: 1}


@pytest.mark.parametrize(
    ("keys", "groups"),
    [
        ("note_length", 5),
        ("note_length // 7", 5),  # has no more values
        ("note, note_length", 10),  # the product
        ("note_length + LENGTH(note)", 10),
        ("note, placed_at", None),  # one has no limit
        ("quantity, note_length", None),
        (WEEK, 1),
        (f"{WEEK}, note", 2),
        ("EXTRACT(month FROM placed_at), note", None),
    ],
)
@pytest.mark.parametrize("others", [3, 99])
def test_groups_multiply(
    shop: tuple[Policy, PlainEngine], keys: str, groups: int | None, others: int
) -> None:
    more: dict[str, Any] = {"max_rows_per_unit": None, "max_groups_per_unit": others}
    policy = limited(shop[0], groups=LISTED, **more)
    block = block_of(f"SELECT {keys}, COUNT(*) AS n FROM orders GROUP BY ALL", policy, shop[1])
    one = groups in (1, 5)
    expected = others if groups is None else groups if one else min(groups, others)
    assert (block.l0, block.enforce_l0) == (expected, True)
    assert ("max_groups_per_unit of" in block.groups.how) == (expected != others)


def test_limits_reach_through_subqueries_and_not_to_other_columns(
    shop: tuple[Policy, PlainEngine],
) -> None:
    policy, engine = limited(shop[0], rows={WEEK: 7}, totals={"amount": "700"}), shop[1]
    renamed = (
        f"SELECT w AS k, SUM(y) AS s FROM (SELECT {WEEK} AS w, amount AS y FROM orders) AS a"
        " GROUP BY w"
    )
    block = block_of(renamed, policy, engine)
    assert block.rows_per_group.value == 7
    assert [limit.name for limit in block.totals] == ["amount"]
    for sql in (
        "SELECT SUM(amount * 2) AS s FROM orders",
        "SELECT SUM(quantity) AS s FROM orders",
        "SELECT SUM(price) AS s FROM items JOIN orders USING (order_id)",
        "SELECT AVG(amount) AS s FROM orders",
    ):
        assert block_of(sql, policy, engine).totals == ()


def test_what_joins_multiply_has_a_larger_limit(shop: tuple[Policy, PlainEngine]) -> None:
    policy, engine = limited(shop[0], totals={"amount": "700"}), shop[1]
    two = "(VALUES ('open', 1), ('open', 2), ('paid', 3)) AS v(status, n)"
    (limit,) = block_of(
        f"SELECT SUM(amount) AS s FROM orders JOIN {two} USING (status)", policy, engine
    ).totals
    assert limit.most == 1400


# --- clips hold, whatever is declared ------------------------------------------------------------


def proofs(neighbours: Neighbours, engine: PlainEngine) -> Iterator[tuple[Policy, PlainEngine]]:
    """The policy whose proofs lean on constraints, and on nothing, over data without them."""
    for constraints in (True, False):
        yield over(world.rivals(), constraints=constraints, neighbours=neighbours)[0], engine


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize(
    "accountant",
    ["zcdp", "pure", pytest.param("approximate", marks=pytest.mark.campaign)],
)
@pytest.mark.parametrize("notion", list(Neighbours))
@pytest.mark.parametrize("sql", [BY_STATUS, SIGNED, TOTAL])
def test_no_unit_moves_an_answer_farther_than_declared(
    accountant: str, notion: Neighbours, sql: str, shop: tuple[Policy, PlainEngine]
) -> None:
    """Units of thousands of rows at the ends of their bounds; the limits bind on them."""
    budget = replace(BUDGET, accountant=accountant)
    for plain, engine in proofs(notion, shop[1]):
        policy = limited(plain, rows={"status": 4}, totals={"amount": "700", "quantity": "9"})
        if sql == SIGNED:
            policy = limited(plain, rows={"status": 2})
        plan = compiled(sql, policy, engine, budget=budget)
        before = compiled(sql, plain, engine, budget=budget)
        assert (
            plan.blocks[0].releases[-1].sensitivity.l1
            < before.blocks[0].releases[-1].sensitivity.l1
        )
        assert violations(plan, engine) == []


def violations(plan: Prepared, engine: PlainEngine) -> list[str]:
    """Units that move the answer farther than it says: by group, in L1 or in L2."""
    here, found = integers(plan, engine), []
    for unit in (6, 7, 8):
        with without_unit(engine.connection, world.deletions(unit)):
            there = integers(plan, engine)
        found += [text for text in [violation(plan, here, there)] if text is not None]
        ((mine,), (others,)) = here, there
        for place, release in enumerate(plan.blocks[0].releases):
            moved = [mine[k][place] - others.get(k, [0] * 9)[place] for k in mine]
            once = replace(release.sensitivity, neighbours=Neighbours.ADD_REMOVE)
            if sum(map(abs, moved)) > once.l1 or sum(m * m for m in moved) > once.l2_squared:
                found.append(f"{unit} moves {moved}")
    return found


def damaged(plan: Prepared, old: str, new: str) -> Prepared:
    (block,) = plan.rewritten.blocks
    assert old in block.sql
    other = replace(block, sql=block.sql.replace(old, new))
    return replace(plan, rewritten=replace(plan.rewritten, blocks=(other,)))


def test_a_clip_that_is_left_out_is_seen(shop: tuple[Policy, PlainEngine]) -> None:
    policy, engine = limited(shop[0], rows={"status": 4}, totals={"amount": "700"}), shop[1]
    plan = compiled(BY_STATUS, policy, engine)
    assert violations(plan, engine) == []
    assert violations(damaged(plan, "* 70000 //", "* 90000 //"), engine)
    assert violations(damaged(plan, "s0 > 4 THEN 4", "s0 > 40 THEN 40"), engine)


@pytest.mark.parametrize("norm", [Norm.L1, Norm.L2])
def test_a_limit_that_bounds_less_is_not_taken(
    shop: tuple[Policy, PlainEngine], norm: Norm
) -> None:
    """Of three groups with 10 rows of 500 each: the norm is 15,000 in L1 and 8,660 in L2."""
    least = {Norm.L1: 15_000, Norm.L2: 8_660}[norm]
    for most, taken in ((least - 1, True), (least + 1, False)):
        policy = limited(shop[0], totals={"amount": str(most)})
        accountant = {Norm.L1: "pure", Norm.L2: "zcdp"}[norm]
        budget = replace(BUDGET, accountant=accountant)
        (block,) = compiled(BY_STATUS, policy, shop[1], budget=budget).blocks
        assert isinstance(block.releases[-1].query, ScaledTotal) == taken
        assert bool(block.totals) == taken


def test_nothing_is_cut_that_is_within_the_limits() -> None:
    plain, engine = over(world.well_behaved(), constraints=False)
    wide = limited(plain, rows={"status": 9}, totals={"amount": "4999"})
    (here,), (there,) = (integers(compiled(BY_STATUS, p, engine), engine) for p in (wide, plain))
    steps = 10**2
    assert {k: (n, s // steps * steps) for k, (n, s) in there.items()}.keys() == here.keys()
    for key, (rows, total) in there.items():
        assert here[key][0] == rows
        assert total == pytest.approx(here[key][1] / (here[key][1] / total if total else 1))


def test_a_declared_total_is_not_looked_for() -> None:
    """Nothing limits the rows: a bound of what they add up to is declared, and pays no poll."""
    policy, engine = over(world.rivals(), constraints=False)
    open_rows = {"max_rows_per_group": None, "max_rows_per_unit": None}
    unlimited = limited(policy, **open_rows)
    assert compiled(TOTAL, unlimited, engine).polls
    known = limited(policy, totals={"amount": "700"}, **open_rows)
    assert compiled(TOTAL, known, engine).polls == ()
    (poll,) = compiled(f"{BY_STATUS} ORDER BY n", known, engine).polls
    assert poll.block.vote is not None


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("norm", [Fraction(3), Fraction(10**6)])
@pytest.mark.parametrize("rows", [None, 10])
def test_over_many_groups_a_vote_finds_no_more_than_the_limit(
    shop: tuple[Policy, PlainEngine], accountant: str, norm: Fraction, rows: int | None
) -> None:
    """What adds up to 700 over 24 months errs less where it is clipped to less."""
    sql = "SELECT date_trunc('month', placed_at) AS m, SUM(amount) AS s FROM orders GROUP BY m"
    limits: dict[str, Any] = {
        "max_rows_per_group": rows,
        "max_rows_per_unit": None,
        "max_groups_per_unit": 24,
    }
    policy, engine = limited(shop[0], totals={"amount": "700"}, **limits), shop[1]
    budget = replace(BUDGET, accountant=accountant)
    polls = compiled(sql, policy, engine, budget=budget).polls
    assert any(poll.column is not None for poll in polls)
    plan = compiled(sql, policy, engine, budget=budget, norm=norm)
    part = plan.blocks[0].releases[-1].query
    assert isinstance(part, ScaledTotal)
    assert part.bound * part.released.step == min(norm, 700)
    assert violations(plan, engine) == []


NOTHING_ELSE: dict[str, Any] = {"max_rows_per_group": None, "max_groups_per_unit": None}
BY_NOTE = "SELECT note, COUNT(*) AS n FROM orders GROUP BY note"


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("notion", list(Neighbours))
def test_rows_alone_cost_as_many_rows_and_not_as_many_in_each_group(
    accountant: str, notion: Neighbours, shop: tuple[Policy, PlainEngine]
) -> None:
    budget, engine = replace(BUDGET, accountant=accountant), shop[1]
    plain, _ = over(world.rivals(), constraints=False, neighbours=notion)
    policy = limited(plain, max_rows_per_unit=4, **NOTHING_ELSE)
    for sql in (BY_STATUS, SIGNED, *([BY_NOTE] if accountant != "pure" else [])):
        plan = compiled(sql, policy, engine, budget=budget)
        assert violations(plan, engine) == []
        told = [notice for notice in plan.notices if isinstance(notice, Clipped)]
        assert {(notice.rows, notice.grouped) for notice in told} == {(4, False)}
        (block,) = plan.blocks
        for release in block.releases:
            if not isinstance(release.query, ScaledTotal):
                assert block.domain is None, "units are counted as ever"
                continue
            row = release.query.total.reach / 4
            bound = release.query.bound * float(release.query.released.step)
            assert bound == pytest.approx(4 * row, rel=1e-3)
            assert block.l0 > 1
    plan = compiled(BY_STATUS, policy, engine, budget=budget)
    part = plan.blocks[0].releases[0].query
    assert isinstance(part, ScaledTotal)
    assert violations(damaged(plan, f"* {part.bound} //", "* 90000 //"), engine), "the twin"


def test_rows_that_bound_less_than_groups_of_them_are_not_scaled(
    shop: tuple[Policy, PlainEngine],
) -> None:
    """Three groups of ten rows, or thirty rows in all; means are measured as they were."""
    pure = replace(BUDGET, accountant="pure")
    for rows, taken in ((29, True), (30, False)):
        policy = limited(shop[0], max_rows_per_unit=rows)
        (block,) = compiled(BY_STATUS, policy, shop[1], budget=pure).blocks
        assert isinstance(block.releases[0].query, ScaledTotal) == taken
        told = compiled(BY_STATUS, policy, shop[1], budget=pure).notices
        cuts = {(notice.rows, notice.grouped) for notice in told if isinstance(notice, Clipped)}
        assert cuts == {(10, True)} | ({(29, False)} if taken else set())
        mean = BY_STATUS.replace("SUM", "AVG")
        (block,) = compiled(mean, policy, shop[1], budget=pure).blocks
        assert not any(isinstance(release.query, ScaledTotal) for release in block.releases)


# --- what the owner reads ------------------------------------------------------------------------

ORDERS = "max_groups_per_unit = 3\nmax_rows_per_group = 10\n"
BOTH = (
    f'max_groups_per_unit = {{ "*" = 3, quantity = 2 }}\n'
    f'max_rows_per_group = {{ "*" = 10, status = 1, "{WEEK}" = 1 }}\n'
)
AMOUNT = "amount = { bounds = [0.0, 500.0] }"


def opened(folder: Path, *changes: tuple[str, str]) -> str:
    return str(proxy_kit.shop(folder, *changes, tables=world.rivals(), constraints=False))


@pytest.mark.full("opens a proxy for each item")
def test_a_policy_declares_them_and_explain_names_what_binds(tmp_path: Path) -> None:
    path = opened(tmp_path, (ORDERS, BOTH), (AMOUNT, AMOUNT[:-1] + ", max_per_unit = 700 }"))
    with Proxy.open(path) as proxy:
        text = proxy_kit.request(f"{BY_STATUS} ")
        lines = [line for b in proxy.explain(text).blocks for line in b.limits]
        said = {line.name: (line.value, line.how) for line in lines}
        rows = "enforced by clipping each unit's total: max_rows_per_group of status"
        assert said["rows per unit and group"] == (1, rows)
        grouped = proxy_kit.request(f"SELECT {WEEK} AS w, SUM(amount) AS s FROM orders GROUP BY w")
        lines = [line for b in proxy.explain(grouped).blocks for line in b.limits]
        said = {line.name: (line.value, line.how) for line in lines}
        assert said["rows per unit and group"][0] == 1
        assert WEEK in said["rows per unit and group"][1]
        assert said["amount of one unit in all"][0] == 700


@pytest.mark.full("opens a proxy for each item")
def test_check_counts_the_units_beyond(tmp_path: Path) -> None:
    changes = (ORDERS, BOTH), (AMOUNT, AMOUNT[:-1] + ", max_per_unit = 700 }")
    path = opened(tmp_path, *changes)
    done = CliRunner().invoke(main, ["check", "--policy", path])
    text = " ".join(done.stdout.split())
    with duckdb.connect(str(Path(path).with_name("shop.duckdb")), read_only=True) as engine:
        there = "SELECT COUNT(DISTINCT customer_id) FROM orders JOIN customers USING (customer_id)"
        ((units,),) = engine.execute(there).fetchall()
        for what, sql in {
            "units have more than 1 rows in a group by status": "MAX(n) FROM (SELECT COUNT(*) AS n,"
            " customer_id AS u FROM orders JOIN customers USING (customer_id) GROUP BY u, status)"
            " GROUP BY u HAVING MAX(n) > 1",
            "units have more than 2 groups by quantity": "1 FROM orders JOIN customers"
            " USING (customer_id) GROUP BY customer_id HAVING COUNT(DISTINCT quantity) > 2",
            "units have more than 700 amount in all": "1 FROM orders JOIN customers"
            " USING (customer_id) GROUP BY customer_id HAVING SUM(abs(amount)) > 700",
        }.items():
            count = len(engine.execute(f"SELECT {sql}").fetchall())
            assert count
            assert f"{count} of {units} {what}" in text


@pytest.mark.parametrize(
    ("old", "new", "place", "word"),
    [
        (ORDERS, "max_rows_per_group = {}\n", "max_rows_per_group", "names no grouping"),
        (ORDERS, "max_rows_per_group = { status = 0 }\n", "max_rows_per_group", "from 1"),
        (ORDERS, 'max_rows_per_group = { status = "x" }\n', "max_rows_per_group", "from 1"),
        (ORDERS, 'max_groups_per_unit = { "*" = "none" }\n', "max_groups", "from 1"),
        (ORDERS, "max_rows_per_group = { a = 1, A = 1 }\n", "max_rows", "one name"),
        (ORDERS, "max_rows_per_group = { nothing = 4 }\n", "max_rows", "neither a column"),
        (ORDERS, 'max_rows_per_group = { "1; x" = 4 }\n', "max_rows", "neither a column"),
        (ORDERS, 'max_rows_per_group = { "status, note" = 4 }\n', "max_rows", "neither a column"),
        (ORDERS, 'max_rows_per_group = { "COUNT(*)" = 4 }\n', "max_rows", "neither a column"),
        (AMOUNT, "amount = { max_per_unit = 0 }", "amount = {", "above zero"),
        (AMOUNT, 'amount = { max_per_unit = "x" }', "amount = {", "a number"),
        (AMOUNT, AMOUNT[:-1] + ", max_per_unit = 499 }", "amount = {", "narrow the bounds"),
        ("device = {}", "device = { max_per_unit = 5 }", "device = {", "no number"),
        ("age = { ", "age = { max_per_unit = 500, ", "age = {", "one row"),
    ],
)
def test_mistakes_are_errors_with_their_line(
    tmp_path: Path, old: str, new: str, place: str, word: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        Proxy.open(opened(tmp_path, (old, new)))
    text = (tmp_path / "dpsql.toml").read_text()
    assert word in f"{caught.value.message} {caught.value.fix}"
    line = text.splitlines()[(caught.value.line or 0) - 1]
    assert line.startswith(place.partition(" = ")[0])
