"""`dpsql tune`: what it asks, what it makes of noisy histograms, and what it prints."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, log2, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.interfaces.pictures.curves import as_json, draw, text
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.tree import INTEGER
from dpsql.model.vocabulary import (
    Answer,
    Budget,
    Column,
    Fact,
    FactKind,
    Mechanism,
    Neighbours,
    Noise,
    Voucher,
)
from dpsql.owner.table_sizes import count_rows, size_of
from dpsql.owner.tuning import (
    SPREADS,
    Estimate,
    Pricing,
    SizeHistogram,
    Tuned,
    TunedLimit,
    Votes,
    questions,
    require_units,
    tuned,
)
from dpsql.policy.edit import LimitValue, with_limits
from dpsql.proxy import Proxy
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
TABLES = (
    ("orders", (), ()),
    ("orders", ("status",), ("amount",)),
    ("orders", ("EXTRACT(month FROM placed_at)",), ()),
    ("items", ("product_id", "units"), ("price", "units")),
    ("customers", (), ("income",)),
)


def plain(tables: world.Tables) -> tuple[Any, PlainEngine]:
    policy, _ = over(tables, constraints=True)
    return policy, PlainEngine(world.build(tables, constraints=False))


# --- what is asked -------------------------------------------------------------------------------


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(("table", "by", "totals"), TABLES)
def test_each_unit_is_one_row_of_a_public_histogram(
    table: str, by: tuple[str, ...], totals: tuple[str, ...]
) -> None:
    policy, engine = plain(world.flood())
    for histogram in questions(policy, table, by, totals):
        prepared = compiled(histogram.sql, policy, engine)
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


def octave(size: float) -> int:
    """The octave (2^(i-1), 2^i] of a size."""
    return ceil(log2(size))


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("by", ["product_id", "EXTRACT(year FROM placed_at)"])
def test_without_noise_the_histograms_are_those_of_the_data(by: str) -> None:
    policy, engine = plain(world.flood())
    table = "items" if by == "product_id" else "orders"
    groups, rows, total = questions(
        policy, table, [by], ["price" if by == "product_id" else "amount"]
    )
    column = total.column
    source = "items JOIN orders USING (order_id)" if table == "items" else "orders"
    cells = f"SELECT customer_id AS u, {by} AS k, COUNT(*) AS m FROM {source} JOIN customers"
    cells += " USING (customer_id) GROUP BY ALL"
    expected = engine.rows(f"SELECT COUNT(*), MAX(m), SUM(m) FROM ({cells}) GROUP BY u")
    found, _ = noiseless(compiled(groups.sql, policy, engine), engine)
    assert {o: n for o, n in found if n} == Counter(octave(k) for k, _, _ in expected)
    found, _ = noiseless(compiled(rows.sql, policy, engine), engine)
    spreads = Counter(
        (octave(m), next((n for n, times in enumerate(SPREADS) if s <= times * m), len(SPREADS)))
        for _, m, s in expected
    )
    assert {(o, spread): n for o, spread, n in found if n} == spreads
    sums = engine.rows(
        f"SELECT SUM(ABS({column})) FROM {source} JOIN customers USING (customer_id)"
        " GROUP BY customer_id"
    )
    found, _ = noiseless(compiled(total.sql, policy, engine), engine)
    within = (min(max(octave(s), total.lowest), total.highest) for (s,) in sums)
    assert {o: n for o, n in found if n} == Counter(within)


@pytest.mark.parametrize(
    ("table", "by", "totals", "reason"),
    [
        ("nowhere", (), (), Reason.UNKNOWN_TABLE),
        ("countries", (), (), Reason.BAD_OPTION),
        ("orders", ("nothing",), (), Reason.UNKNOWN_COLUMN),
        ("orders", ("COUNT(*)",), (), Reason.SYNTAX),
        ("orders", ("status, note",), (), Reason.SYNTAX),
        ("orders", (), ("nothing",), Reason.UNKNOWN_COLUMN),
        ("orders", (), ("status",), Reason.BAD_OPTION),
        ("orders", (), ("note_length",), Reason.BAD_OPTION),
    ],
)
def test_what_the_policy_does_not_know_is_refused(
    table: str, by: tuple[str, ...], totals: tuple[str, ...], reason: Reason
) -> None:
    policy, _ = plain(world.well_behaved())
    with pytest.raises(Refused) as refused:
        questions(policy, table, by, totals)
    assert refused.value.reason is reason


def test_too_few_units_are_refused_by_what_is_said_of_them() -> None:
    policy, _ = plain(world.well_behaved())
    (histogram,) = questions(policy, "orders", ())
    require_units(policy, histogram, Noise(Mechanism.DISCRETE_LAPLACE, Fraction(5)))
    with pytest.raises(Refused, match=re.escape("too few units")) as refused:
        require_units(policy, histogram, Noise(Mechanism.DISCRETE_LAPLACE, Fraction(500)))
    assert refused.value.reason is Reason.BAD_OPTION


# --- what is made of it --------------------------------------------------------------------------

LAW = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(2))


def votes_of(sizes: Sequence[float], law: Noise = LAW, seed: int = 1) -> Votes:
    """Noisy votes of units that have so much each."""
    random = np.random.default_rng(seed)
    scale = float(law.scale)
    counts = Counter(map(octave, sizes))
    noise = (random.laplace(0, scale, 21)).round().astype(int)
    return Votes({(o, 0): counts.get(o, 0) + int(noise[o]) for o in range(21)}, law)


def of_rows(votes: Votes, budget: Budget = BUDGET) -> Tuned:
    return tuned(
        SizeHistogram("t", TunedLimit.ROWS, "", lowest=0, highest=20), votes, Pricing(budget)
    )


def heavy(seed: int) -> np.ndarray:
    """Two humps: most people have tens of rows, a tenth has thousands that hold most of all."""
    random = np.random.default_rng(seed)
    sizes = random.lognormal(4, 1, 2500)
    sizes[:250] = random.lognormal(7.6, 0.5, 250)
    return np.maximum(1, sizes).round()


@pytest.mark.parametrize("seed", range(5))
def test_a_limit_in_a_heavy_tail_errs_little_more_than_the_best(seed: int) -> None:
    sizes = heavy(seed)
    result = of_rows(votes_of(sizes.tolist(), seed=seed))
    assert result.best is not None

    def error(limit: float) -> float:
        return float(np.maximum(0, sizes - limit).sum() + sqrt(2) * limit)

    best = min(error(float(e.limit)) for e in result.estimates)
    assert error(float(result.best.limit)) < 1.6 * best
    # What the median person has cuts most of the rows: to call that nothing would be wrong.
    (low,) = (e for e in result.estimates if e.limit == 100)
    truth = float(np.maximum(0, sizes - 100).sum())
    assert abs(low.cut - truth) < 0.15 * truth
    assert low.above >= (sizes > 100).sum()


def sizes_of(kind: str, random: np.random.Generator) -> np.ndarray:
    """Sizes of 2,000 units, with light tails, heavy ones, and a few units far beyond the others."""
    sizes: dict[str, Callable[[], np.ndarray]] = {
        "geometric": lambda: random.geometric(0.1, 2000),
        "lognormal": lambda: random.lognormal(3, 1, 2000),
        "heavy lognormal": lambda: random.lognormal(3, 2, 2000),
        "Pareto": lambda: random.pareto(1.5, 2000) * 5 + 1,
        "a few": lambda: np.where(random.random(2000) < 0.01, 3000, random.poisson(20, 2000)),
    }
    result: np.ndarray = np.maximum(1, sizes[kind]()).round()
    return result


def clipped_sizes(seeds: int) -> Iterator[tuple[Estimate, float]]:
    """Each estimate, and what its limit clips."""
    law = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(10))
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        for kind in ("geometric", "lognormal", "heavy lognormal", "Pareto", "a few"):
            sizes = sizes_of(kind, random)
            for estimate in of_rows(votes_of(sizes.tolist(), law, seed)).estimates:
                yield estimate, float(np.maximum(0, sizes - float(estimate.limit)).sum())


@pytest.mark.full("measures neighbours or further data sets")
def test_at_least_so_much_is_clipped_as_is_said() -> None:
    told = [(e.least / true, e.least <= true) for e, true in clipped_sizes(20) if e.least]
    assert len(told) > 1000
    assert sum(held for _, held in told) / len(told) >= 0.975
    assert sum(share for share, _ in told) / len(told) > 0.2


def test_clipped_amounts_are_guesses_in_heavy_tails() -> None:
    """Neither a guess nor a margin around it holds: what noise hides may be most of all."""
    told = [(estimate.cut, true) for estimate, true in clipped_sizes(2) if estimate.least]
    assert sum(true <= 2 * cut for cut, true in told) / len(told) < 0.8
    assert sum(true >= cut for cut, true in told) / len(told) < 0.9


def test_nothing_is_called_zero_that_cannot_be_seen() -> None:
    few = [10.0] * 1000 + [10_000.0] * 5
    result = of_rows(votes_of(few, Noise(Mechanism.DISCRETE_LAPLACE, Fraction(20))))
    assert result.reached < 10_000
    assert result.unseen > 5
    shown = text([result])
    assert f"cannot see beyond {result.reached:,}" in shown
    assert f"fewer than {result.unseen:,} units" in shown
    beyond = [e for e in result.estimates if e.limit >= result.reached]
    assert all(e.above > 0 for e in beyond)
    assert shown.count("not seen") >= 1 + bool(beyond)
    assert not re.search(r"(≥|about) 0\b(?!\.)", shown)
    (found,) = json.loads(as_json([result]))
    ends = [e for e in found["estimates"] if e["limit"] >= found["reached"]]
    assert [(e["cut"], e["least"]) for e in ends] == [(None, None)] * len(ends)


def test_more_noise_wants_a_smaller_limit() -> None:
    votes = votes_of(heavy(1).tolist())
    limits = [
        of_rows(votes, replace(BUDGET, query_epsilon=Decimal(e))).best
        for e in ("0.001", "0.1", "10")
    ]
    found = [best.limit for best in limits if best is not None]
    assert found == sorted(found)
    assert found[0] < found[2]


def test_groups_share_what_is_cut_and_replacing_doubles_noise() -> None:
    votes = Votes({(1, 0): 100, (3, 0): 50}, LAW)
    histograms = [SizeHistogram("t", kind, "", lowest=0, highest=20) for kind in TunedLimit]
    rows, groups, total = (tuned(h, votes, Pricing(BUDGET)).estimates for h in histograms)
    assert [e.cut for e in groups] == pytest.approx([e.cut / 8 for e in rows])
    assert [e.cut for e in total] == [e.cut for e in rows]
    assert [e.least for e in groups] == pytest.approx([e.least / 8 for e in rows])
    doubled = tuned(histograms[0], votes, Pricing(BUDGET, Neighbours.REPLACE)).estimates
    assert doubled[3].noise == pytest.approx(2 * rows[3].noise, rel=0.05)
    assert tuned(histograms[0], votes, Pricing(BUDGET), 4).estimates[3].noise > 3 * rows[3].noise


def test_rows_of_other_groups_are_cut_too() -> None:
    """By spread: a unit with all rows in one group, and one with as many in each of many."""
    histogram = SizeHistogram("t", TunedLimit.ROWS, "", lowest=0, highest=20, by=("week",))
    one, many = (
        tuned(histogram, Votes({(6, spread): 1000}, LAW), Pricing(BUDGET)) for spread in (0, 3)
    )
    (a,), (b,) = ([e for e in t.estimates if e.limit == 16] for t in (one, many))
    assert b.cut > 5 * a.cut > 0
    assert 14_000 < a.least <= 1000 * (32 - 16), "each has more than 32 rows, all in one group"
    assert a.least < b.least < b.cut / 2


def test_where_nothing_stands_out_nothing_is_recommended() -> None:
    result = of_rows(Votes({(0, 0): 3, (2, 0): -2}, Noise(Mechanism.DISCRETE_LAPLACE, Fraction(9))))
    assert (result.best, result.line, result.values) == (None, None, ())
    assert "no unit stands out" in text([result])


# --- the command ---------------------------------------------------------------------------------


def command(folder: Path, *words: str) -> Any:
    path = folder / "shop" / "dpsql.toml"
    if not path.exists():
        shop(folder / "shop", tables=world.flood(), constraints=False)
    return CliRunner().invoke(main, ["tune", "--policy", str(path), "--analyst", "ana", *words])


def spent(folder: Path) -> int:
    return SqliteLedger.open(str(folder / "shop" / "shop.ledger")).spent("default").amount


UNIQUE = Fact(FactKind.UNIQUE_KEY, "orders", Voucher.CHECK)


@pytest.mark.full("starts processes")
def test_it_charges_the_budget_once_and_recommends(tmp_path: Path) -> None:
    words = ("orders", "--by", "status", "--epsilon", "1")
    first = command(tmp_path, *words)
    assert first.exit_code == 0, first.stderr
    assert first.stdout.index("max_groups_per_unit") < first.stdout.index("max_rows_per_group")
    assert first.stderr.count("cost: ε = 0.5") == 2
    assert first.stdout.count("cannot see beyond") + first.stdout.count("stands out") == 2
    before = spent(tmp_path)
    assert before > 0
    with closing(SqliteLedger.open(str(tmp_path / "shop" / "shop.ledger"))) as ledger:
        ledger.record_facts(frozenset({UNIQUE}), "other data")
    again = command(tmp_path, *words)
    assert (again.stdout, spent(tmp_path)) == (first.stdout, before)
    assert again.stderr.count("remembered") == 2
    lapsed = "do not count for the data"
    assert (first.stderr.count(lapsed), again.stderr.count(lapsed)) == (0, 1)


@pytest.mark.full("starts processes")
def test_machines_read_the_same_numbers(tmp_path: Path) -> None:
    words = ("orders", "--epsilon", "1")
    ((found),) = json.loads(command(tmp_path, *words, "--format", "json").stdout)
    rows = list(csv.DictReader(command(tmp_path, *words, "--format", "csv").stdout.splitlines()))
    assert found["limit"] == "max_rows_per_group"
    assert [int(row["limit"]) for row in rows] == [e["limit"] for e in found["estimates"]]
    best = [int(row["limit"]) for row in rows if row["recommended"] == "true"]
    assert best == ([] if found["recommended"] is None else [found["recommended"]])


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nowhere",), 1, "unknown-table"),
        (("countries",), 1, "needs no limits"),
        (("orders", "--by", "nothing"), 1, "unknown-column"),
        (("orders", "--by", "note"), 0, "cost"),
        (("orders", "--total", "amount"), 0, "cost"),
        (("orders", "--total", "note"), 1, "no number"),
        (("orders", "--epsilon", "0.001"), 1, "too few units"),
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


@pytest.mark.full("starts processes")
def test_a_picture_needs_its_extra_before_anything_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("orders", "--epsilon", "1", "--plot", str(tmp_path / "curve.png"))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "resvg_py", None)
        done = command(tmp_path, *words)
        assert done.exit_code == 2
        assert "pip install 'dpsql[png]'" in done.stderr
    assert not (tmp_path / "shop" / "shop.ledger").exists()
    drawn = command(tmp_path, *words)
    assert drawn.exit_code == 0, drawn.stderr


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<svg")])
def test_a_picture_is_drawn(tmp_path: Path, name: str, begins: bytes) -> None:
    draw([of_rows(votes_of(heavy(1).tolist()))] * 2, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_a_table_marks_the_recommendation() -> None:
    result = of_rows(votes_of(heavy(1).tolist()))
    assert result.best is not None
    shown = text([result])
    assert f"recommended: max_rows_per_group = {result.best.limit:f}" in shown
    (marked,) = [line.split() for line in shown.splitlines() if line.endswith("<")]
    assert marked[0] == f"{result.best.limit:,f}"


# --- the policy file -----------------------------------------------------------------------------

POLICY = (Path(__file__).parent / "catalogs" / "shop.toml").read_text("utf-8")
AMOUNT = "amount = { bounds = [0.0, 500.0] }  # what it costs"
COMMENTED = POLICY.replace("max_rows_per_group = 10\n", "max_rows_per_group = 10   # ten = 10\n", 1)
COMMENTED = COMMENTED.replace(AMOUNT.split("  ", maxsplit=1)[0], AMOUNT)


def rows(most: int, by: str | None = None) -> LimitValue:
    return LimitValue("orders", "max_rows_per_group", Decimal(most), by)


@pytest.mark.parametrize(
    ("limit", "old", "new"),
    [
        (rows(7), "max_rows_per_group = 10   #", "max_rows_per_group = 7   #"),
        (rows(7, "status"), "= 10   # ten", '= { status = 7, "*" = 10 }   # ten'),
        (
            rows(7, "date_trunc('week', placed_at)"),
            "= 10   # ten",
            '= { "date_trunc(\'week\', placed_at)" = 7, "*" = 10 }   # ten',
        ),
        (
            LimitValue("logins", "max_groups_per_unit", Decimal(9), "day"),
            "\n[tables.logins.columns]",
            "\nmax_groups_per_unit = { day = 9 }\n[tables.logins.columns]",
        ),
        (
            LimitValue("orders", "max_per_unit", Decimal(9000), column="amount"),
            AMOUNT,
            AMOUNT.replace("] }", "], max_per_unit = 9000 }"),
        ),
    ],
)
def test_a_limit_changes_one_line_of_the_policy(
    tmp_path: Path, limit: LimitValue, old: str, new: str
) -> None:
    path = tmp_path / "dpsql.toml"
    path.write_text(COMMENTED, "utf-8")
    path.chmod(0o640)
    with_limits(str(path), [limit])
    assert path.read_text("utf-8") == COMMENTED.replace(old, new, 1) != COMMENTED
    assert path.stat().st_mode & 0o777 == 0o640
    with_limits(str(path), [limit])
    assert path.read_text("utf-8") == COMMENTED.replace(old, new, 1)
    assert [p.name for p in tmp_path.iterdir()] == ["dpsql.toml"]


def test_limits_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.toml"
    path.write_text(
        COMMENTED.replace("max_rows_per_group = 10 ", 'max_rows_per_group = "private" ')
    )
    with_limits(str(path), [rows(7, "status"), rows(8, "note")])
    assert "max_rows_per_group = { status = 7, note = 8 }   # ten = 10\n" in path.read_text("utf-8")
    with_limits(str(path), [rows(5, "status"), rows(99)])
    assert 'max_rows_per_group = { status = 5, note = 8, "*" = 99 }   #' in path.read_text("utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (AMOUNT, "amount = { bounds = [\n0.0, 500.0] }"),
        ("max_rows_per_group = 10 ", "max_rows_per_group.status = 3 "),
    ],
)
def test_what_has_several_lines_is_not_written(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "dpsql.toml"
    text = COMMENTED.replace(old, new)
    path.write_text(text, "utf-8")
    total = LimitValue("orders", "max_per_unit", Decimal(9000), column="amount")
    with pytest.raises(PolicyError, match="several lines"):
        with_limits(str(path), [total if "amount" in new else rows(7, "note")])
    assert path.read_text("utf-8") == text
    assert [p.name for p in tmp_path.iterdir()] == ["dpsql.toml"]


def test_what_would_be_no_policy_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.toml"
    path.write_text(COMMENTED, "utf-8")
    with pytest.raises(PolicyError):
        with_limits(str(path), [rows(5), rows(0)])
    assert path.read_text("utf-8") == COMMENTED
    assert [p.name for p in tmp_path.iterdir()] == ["dpsql.toml"]


@pytest.mark.full("starts processes")
def test_the_command_writes_what_it_recommends(tmp_path: Path) -> None:
    tables = {**world.empty(), "customers": [world.customer(n) for n in range(1, 301)]}
    tables["orders"] = [world.order(4 * n + k, n, k % 3) for n in range(1, 301) for k in range(4)]
    shop(tmp_path / "shop", tables=tables, constraints=False)
    words = ("orders", "--by", "status", "--total", "amount", "--epsilon", "9", "--write")
    done = command(tmp_path, *words, "--format", "json")
    assert done.exit_code == 0, done.stderr
    lines = [found["line"] for found in json.loads(done.stdout) if found["line"]]
    assert lines
    assert done.stderr.count("written: ") == len(lines)
    with Proxy.open(str(tmp_path / "shop" / "dpsql.toml")) as proxy:
        orders = proxy.policy.table("orders")
    assert orders is not None
    written = [*orders.rows_by, *orders.groups_by]
    assert len(written) + sum(c.max_per_unit is not None for c in orders.columns) == len(lines)


# --- how many rows a table has ---


def sized(rows: int, halves: tuple[float, float]) -> LimitValue | None:
    policy, _ = over(world.empty(), constraints=True)
    column = Column("n", INTEGER)
    answer = Answer((column,), ((rows,),), ((1.0,),), ((max(halves),),), halves=((halves,),))
    return size_of(policy, "orders", answer)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_size_is_a_power_of_four_of_what_stands_out() -> None:
    near = sized(200_000, (50_000.0, 150_000.0))
    assert near is not None
    assert near.text == "expected_rows = 262144"
    assert sized(900, (1_000.0, 2_000.0)) is None
    assert sized(-5, (1_000.0, 2_000.0)) is None


def test_a_size_is_counted_where_nobody_knows_it() -> None:
    """What is declared, public, of several people, or half of the price is not counted."""
    policy, _ = over(world.empty(), constraints=True)
    orders, countries = policy.table("orders"), policy.table("countries")
    assert orders is not None
    assert countries is not None
    unknown = replace(orders, expected_rows=None)
    assert count_rows(unknown, Decimal("0.1")) == 'SELECT COUNT(*) AS n FROM "orders"'
    assert count_rows(unknown, Decimal("0.019")) is None
    assert count_rows(orders, Decimal("0.1")) is None
    assert count_rows(countries, Decimal("0.1")) is None
    several = replace(unknown, several=(orders.link,) * 2, link=None) if orders.link else unknown
    assert count_rows(several, Decimal("0.1")) is None


@pytest.mark.full("starts processes")
def test_the_command_counts_rows_within_its_price(tmp_path: Path) -> None:
    tables = {**world.empty(), "customers": [world.customer(n) for n in range(1, 301)]}
    tables["orders"] = [world.order(4 * n + k, n, k % 3) for n in range(1, 301) for k in range(4)]
    unknown = ("expected_rows = 1000\n", "")
    path = shop(tmp_path / "shop", unknown, tables=tables, constraints=False)
    done = command(tmp_path, "orders", "--epsilon", "0.9", "--write")
    assert done.exit_code == 0, done.stderr
    assert [e for e in ("0.89", "0.01") if f"cost: ε = {e}" not in done.stderr] == []
    written = re.findall(r"written: expected_rows = (\d+)", done.stderr)
    with Proxy.open(str(path)) as proxy:
        orders = proxy.policy.table("orders")
    assert orders is not None
    assert orders.expected_rows == (int(written[0]) if written else None)
