"""`dpsql tune`: what it asks, what it makes of noisy histograms, and what it prints."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.interfaces.curves import draw, text
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import Budget, Neighbours
from dpsql.owner.tuning import BEYOND, EDGES, TunedLimit, questions, tuned
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    integers,
    noiseless,
    violation,
    without_unit,
)
from grammar_tests.proxy_kit import shop

BUDGET = Budget("b", Decimal(1), Decimal(0), "pure", query_epsilon=Decimal(1))
TABLES = (("orders", ()), ("orders", ("status",)), ("items", ("product_id", "units")))


def plain(tables: world.Tables) -> tuple[Any, PlainEngine]:
    policy, _ = over(tables, constraints=True)
    return policy, PlainEngine(world.build(tables, constraints=False))


# --- what is asked -------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "by"), TABLES)
def test_each_unit_is_one_row_of_a_public_histogram(table: str, by: tuple[str, ...]) -> None:
    policy, engine = plain(world.flood())
    for sql in questions(policy, table, by).values():
        prepared = compiled(sql, policy, engine)
        assert prepared.plan is not None
        (block,) = prepared.plan.blocks
        (release,) = block.releases
        assert (release.sensitivity.l0, release.sensitivity.linf) == (1, 1)
        assert block.domain is not None
        here = integers(prepared, engine)
        for unit in [row[0] for row in world.flood()["customers"]][:8]:
            with without_unit(engine.connection, world.deletions(unit)):
                there = integers(prepared, engine)
            assert violation(prepared, here, there) is None


def test_without_noise_the_histogram_is_that_of_the_data() -> None:
    policy, engine = plain(world.flood())
    asked = questions(policy, "items", ["product_id"])
    pairs = engine.rows(
        "SELECT COUNT(*), MAX(n) FROM (SELECT customer_id, product_id, COUNT(*) AS n"
        " FROM items JOIN orders USING (order_id) JOIN customers USING (customer_id)"
        " GROUP BY ALL) GROUP BY customer_id"
    )
    for kind, place in ((TunedLimit.GROUPS, 0), (TunedLimit.ROWS, 1)):
        rows, _ = noiseless(compiled(asked[kind], policy, engine), engine)
        found = {most: units for most, units in rows if units}
        expected: dict[int, int] = {}
        for pair in pairs:
            edge = next((e for e in EDGES if pair[place] <= e), BEYOND)
            expected[edge] = expected.get(edge, 0) + 1
        assert found == expected


@pytest.mark.parametrize(
    ("table", "by", "reason"),
    [
        ("nowhere", (), Reason.UNKNOWN_TABLE),
        ("countries", (), Reason.BAD_OPTION),
        ("orders", ("nothing",), Reason.UNKNOWN_COLUMN),
    ],
)
def test_what_the_policy_does_not_know_is_refused(
    table: str, by: tuple[str, ...], reason: Reason
) -> None:
    policy, _ = plain(world.well_behaved())
    with pytest.raises(Refused) as refused:
        questions(policy, table, by)
    assert refused.value.reason is reason


# --- what is made of it --------------------------------------------------------------------------


def test_bins_have_rising_edges_without_gaps() -> None:
    assert list(EDGES) == sorted(set(EDGES))
    assert EDGES[:8] == tuple(range(1, 9))


def test_the_best_limit_has_the_least_error() -> None:
    found = tuned(TunedLimit.ROWS, {1: 500.0, 5: 100.0, 100: 3.0, 1000: -4.0}, 2.0, BUDGET)
    assert [e.limit for e in found.estimates] == [e for e in EDGES if e <= 100]
    assert found.best == min(found.estimates, key=lambda e: e.bias**2 + e.noise**2)
    first, last = found.estimates[0], found.estimates[-1]
    assert first.bias == 100 * 4 + 3 * (90.5 - 1)
    assert (last.bias, first.noise < last.noise) == (0, True)


def test_more_noise_wants_a_smaller_limit() -> None:
    histogram = {1: 500.0, 10: 200.0, 100: 5.0}
    limits = [
        tuned(TunedLimit.ROWS, histogram, 2.0, replace(BUDGET, query_epsilon=Decimal(e))).best
        for e in ("0.001", "0.1", "10")
    ]
    found = [best.limit for best in limits if best is not None]
    assert found == sorted(found)
    assert found[0] < found[2]


def test_groups_spread_their_bias_and_replacing_doubles_noise() -> None:
    histogram = {2: 100.0, 10: 50.0}
    rows = tuned(TunedLimit.ROWS, histogram, 2.0, BUDGET).estimates
    groups = tuned(TunedLimit.GROUPS, histogram, 2.0, BUDGET).estimates
    assert [e.bias for e in groups] == [e.bias / 10 for e in rows]
    doubled = tuned(TunedLimit.ROWS, histogram, 2.0, BUDGET, Neighbours.REPLACE).estimates
    assert doubled[3].noise == pytest.approx(2 * rows[3].noise, rel=0.05)


def test_where_nothing_stands_out_nothing_is_recommended() -> None:
    assert tuned(TunedLimit.ROWS, {1: 30.0, 5: -12.0}, 40.0, BUDGET).best is None


# --- the command ---------------------------------------------------------------------------------


def command(folder: Path, *words: str) -> Any:
    path = folder / "shop" / "dpsql.toml"
    if not path.exists():
        shop(folder / "shop", tables=world.flood(), constraints=False)
    return CliRunner().invoke(main, ["tune", "--policy", str(path), "--analyst", "ana", *words])


def spent(folder: Path) -> int:
    return SqliteLedger.open(str(folder / "shop" / "shop.ledger")).spent("default").amount


def test_it_charges_the_budget_once_and_recommends(tmp_path: Path) -> None:
    words = ("orders", "--by", "status", "--epsilon", "1")
    first = command(tmp_path, *words)
    assert first.exit_code == 0, first.stderr
    assert first.stdout.index("max_groups_per_unit") < first.stdout.index("max_rows_per_group")
    assert first.stderr.count("cost: ε = 0.5") == 2
    before = spent(tmp_path)
    assert before > 0
    again = command(tmp_path, *words)
    assert (again.stdout, spent(tmp_path)) == (first.stdout, before)
    assert again.stderr.count("remembered") == 2


def test_machines_read_the_same_numbers(tmp_path: Path) -> None:
    words = ("orders", "--epsilon", "1")
    ((found),) = json.loads(command(tmp_path, *words, "--format", "json").stdout)
    rows = list(csv.DictReader(command(tmp_path, *words, "--format", "csv").stdout.splitlines()))
    assert found["limit"] == "max_rows_per_group"
    assert [int(row["limit"]) for row in rows] == [e["limit"] for e in found["estimates"]]
    best = [int(row["limit"]) for row in rows if row["recommended"] == "true"]
    assert best == ([] if found["recommended"] is None else [found["recommended"]])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nowhere",), 1, "unknown-table"),
        (("countries",), 1, "needs no limits"),
        (("orders", "--by", "nothing"), 1, "unknown-column"),
        (("orders", "--by", "note"), 0, "cost"),
        (("customers", "--by", "name"), 3, "hidden-column"),
        (("orders", "--plot", "x.txt"), 2, ".png"),
        (("orders", "--epsilon", "1000000"), 3, "epsilon-too-large"),
    ],
)
def test_exit_codes(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = command(tmp_path, *words)
    assert done.exit_code == code, done.stderr
    assert said in done.stderr
    assert (spent(tmp_path) > 0) == (code == 0)


def test_a_picture_needs_its_extra_before_anything_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("orders", "--epsilon", "1", "--plot", str(tmp_path / "curve.png"))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "matplotlib.figure", None)
        done = command(tmp_path, *words)
        assert done.exit_code == 2
        assert "pip install 'dpsql[plot]'" in done.stderr
    assert not (tmp_path / "shop" / "shop.ledger").exists()
    drawn = command(tmp_path, *words)
    assert drawn.exit_code == 0, drawn.stderr


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_a_picture_is_drawn(tmp_path: Path, name: str, begins: bytes) -> None:
    histogram = {1: 500.0, 10: 200.0}
    draw([tuned(kind, histogram, 2.0, BUDGET) for kind in TunedLimit], tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_a_table_marks_the_recommendation() -> None:
    shown = text([tuned(TunedLimit.ROWS, {1: 500.0, 2: 20.0}, 2.0, BUDGET)])
    assert "recommended: max_rows_per_group = 2" in shown
    (marked,) = [line.split() for line in shown.splitlines() if line.endswith("<")]
    assert marked[:2] == ["2", "0"]
    assert "no unit stands out" in text([tuned(TunedLimit.ROWS, {}, 2.0, BUDGET)])
