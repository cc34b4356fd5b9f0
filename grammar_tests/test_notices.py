"""What is told beside numbers: every limit that SQL enforces, nothing that holds by proof."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpsql
from dpsql.compiler.notices import fed_columns
from dpsql.compiler.notices.fed_columns import FedColumns
from dpsql.compiler.plan.measurement_kinds import BlockAverage, DistinctCount, UnitCount
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.interfaces import records
from dpsql.interfaces.doors import COMMAND_LINE, DATABASE_API, WIRE
from dpsql.interfaces.messages import width
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import sentence, sentences
from dpsql.interfaces.tables import markdown, table
from dpsql.mechanisms.scores import HistogramCounts, candidates
from dpsql.model.notices import (
    Assumed,
    BoundsFound,
    Clipped,
    Contributed,
    CutSide,
    Drowned,
    Empty,
    FewValues,
    Hidden,
    Listed,
    NeverShown,
    Notice,
    OfShown,
    Ranked,
    RankedBy,
    Sampled,
    Scaled,
    SharedPresence,
    TooFew,
    Unclear,
    sides,
)
from dpsql.model.schema import Schema
from dpsql.model.tree import INTEGER
from dpsql.model.vocabulary import Answer, Column
from dpsql.model.walk import refs
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from dpsql.proxy import Proxy
from dpsql.release.histogram_choices import chosen
from dpsql.systems.watch.monitor import ExplainWatch, Watch, WatchAll
from dpsql.systems.watch.watch import price_text
from grammar_tests import casefile, proxy_kit, world
from grammar_tests.bound import CATALOGS, shop
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import PlainEngine, compiled
from grammar_tests.test_laws import over_the_shop


def told(sql: str) -> tuple[str, ...]:
    prepared = compiled(sql, *shop())
    return sentences(prepared.notices, prepared.columns)


# --- what is told of a plan ---

OUT = "; how much that leaves out is unknown, and not in ±"
CHANGED = "; how much that changes is unknown, and not in ±"

PLACE = "from its place in the sorted rows (95 %)"
UNNAMED = "what this is computed from"
NO_ERROR = "no ± has the error of these numbers"
TOLD = [
    ("SELECT COUNT(*) AS n FROM customers", ()),
    (
        "SELECT COUNT(*) AS n FROM orders",
        (f"customers count with at most 10 rows each in n{OUT} (≥)",),
    ),
    (
        "SELECT SUM(amount) AS total, COUNT(*) AS n, AVG(amount) AS mean FROM orders",
        (
            f"customers add at most 5,000 each to total: 10 rows each, clipped to 0 … 500{OUT}",
            f"customers count with at most 10 rows each in n{OUT} (≥)",
            f"customers count with at most 10 rows each in mean, values clipped to 0 … 500{OUT}",
        ),
    ),
    ("SELECT SUM(age) AS s FROM customers", (f"values in s are clipped to 0 … 120{CHANGED}",)),
    ("SELECT SUM(LEAST(GREATEST(age, 18), 65)) AS s FROM customers", ()),
    ("SELECT SUM(age) AS s FROM customers WHERE age BETWEEN 18 AND 65", ()),
    ("SELECT SUM(CASE WHEN vip THEN 1 ELSE 0 END) AS s FROM customers", ()),
    (
        "SELECT SUM(amount - 100) AS s FROM orders",
        (f"customers add -1,000 to 4,000 each to s: 10 rows each, clipped to -100 … 400{OUT}",),
    ),
    ("SELECT COUNT(DISTINCT customer_id) AS n FROM orders", ()),
    ("SELECT vip, COUNT(*) AS n FROM customers GROUP BY vip", ()),
    (
        "SELECT country AS c, COUNT(*) AS n FROM customers GROUP BY country",
        ("rows with another c than the 3 of the policy are left out",),
    ),
    (
        "SELECT CAST(DATE_TRUNC('month', placed_at) AS DATE) AS month FROM orders GROUP BY 1",
        (
            f"customers count in at most 3 groups each, chosen at random, in {UNNAMED}{OUT}",
            "rows with month outside 2024-01-01 … 2025-12-01 are left out",
        ),
    ),
    (
        "SELECT age, COUNT(*) AS n FROM customers GROUP BY age",
        ("rows with age outside 0 … 120 are left out",),
    ),
    (
        "SELECT CAST(age / 10 AS INTEGER) * 10 AS decade, COUNT(*) AS n FROM customers GROUP BY 1",
        ("rows with another decade than the 13 of the policy are left out",),
    ),
    ("SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment", ()),
    (
        "SELECT device, COUNT(*) AS n FROM events GROUP BY device",
        (
            f"customers count with at most 5 rows each per group in n{OUT} (≥)",
            f"customers count in at most 2 groups each, chosen at random, in n{OUT} (≥)",
            "groups of fewer than about 49 customers are not shown",
        ),
    ),
    (
        "SELECT COUNT(DISTINCT note) AS n FROM orders",
        (f"customers count with at most 10 different values each in n{OUT} (≥)",),
    ),
    (
        "SELECT COUNT(DISTINCT status) AS n FROM orders",
        ("values other than the 3 declared do not count in n",),
    ),
    (
        "SELECT MEDIAN(placed_at) AS m FROM orders",
        (
            (
                "customers count with at most 10 rows each in m, values clipped to "
                f"2024-01-01 00:00:00 … 2025-12-31 23:59:59{OUT}"
            ),
            f"m has no ± in values: it is at most 320 rows {PLACE}",
        ),
    ),
    (
        "SELECT MEDIAN(age) AS m, MAX(age) AS x, MODE(age) AS k FROM customers",
        (
            f"values in m, x, k are clipped to 0 … 120{CHANGED}",
            f"m has no ± in values: it is at most 31 rows {PLACE}",
            "in a group of more than 124 rows, 1 to 124 of them reach the value of x (95 %)",
            "no value has 31 rows more than that of k (95 %)",
        ),
    ),
    (
        "SELECT SUM(n) / 2 AS half FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY 1) AS t",
        (
            f"customers count with at most 10 rows each per group in half{OUT} (≥)",
            "rows with another status than the 3 of the policy are left out",
        ),
    ),
    (
        "SELECT COUNT(*) AS n FROM customers WHERE age > (SELECT AVG(age) FROM customers)",
        (
            f"values in what this is computed from are clipped to 0 … 120{CHANGED}",
            f"rows are chosen by numbers that are released first: {NO_ERROR}",
        ),
    ),
    (
        "SELECT AVG(t) AS m FROM (SELECT customer_id, SUM(amount) AS t FROM orders GROUP BY 1)",
        (f"values in m are clipped to 0 … 25,000{CHANGED}",),
    ),
    (
        (
            "SELECT AVG(t) AS m, COUNT(*) FILTER (WHERE t >= 5) AS n "
            "FROM (SELECT customer_id, COUNT(*) AS t FROM orders GROUP BY 1)"
        ),
        (
            f"values in m are clipped to 0 … 50{CHANGED}",
            "totals in m, n agree as if there were no values but the 51 declared",
        ),
    ),
    ("SELECT COUNT(*) FROM countries", ()),
]


@pytest.mark.parametrize(("sql", "expected"), TOLD, ids=[sql for sql, _ in TOLD])
def test_what_is_cut_is_told_and_what_is_proved_is_not(sql: str, expected: tuple[str, ...]) -> None:
    assert told(sql) == expected


def test_a_rank_is_off_by_no_more_than_is_said_and_by_more_than_a_tenth() -> None:
    """The wrong twin says a tenth of the rows."""
    prepared = compiled("SELECT MEDIAN(age) AS m FROM customers", *shop())
    (block,) = prepared.blocks
    (choice,) = block.choices
    (notice,) = (n for n in prepared.notices if isinstance(n, Ranked))
    cells, lists = choice.query.histogram.grid.cells, 400
    counts = HistogramCounts(lists, cells, np.arange(lists * cells), np.ones(lists * cells, int))
    places = chosen(choice, candidates(counts, choice.aim), ENTROPY)
    off = np.abs(places + 1 - cells / 2)
    assert (off <= notice.rows).mean() >= 0.95
    assert (off <= notice.rows / 10).mean() < 0.95


DERIVED = """
SELECT EXTRACT(month FROM day) AS m, COUNT(*) AS n, ROUND(COUNT(*) * 2.0, 1) AS twice,
    MAX(COUNT(*)) OVER () AS most, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share,
    RANK() OVER (ORDER BY COUNT(*) DESC) AS place, -COUNT(*) AS less,
    COUNT(*) - 2 * COUNT(*) AS both
FROM logins GROUP BY m
"""


def mark_columns() -> dict[str, str]:
    prepared = compiled(DERIVED, *shop(), norm=Fraction(4))
    return {prepared.columns[n].name: s.value for n, s in sides(prepared.notices).items()}


def test_only_columns_that_rise_with_a_low_count_are_low_ends() -> None:
    low, either = ("n", "twice", "most"), ("share", "place", "less", "both")
    assert mark_columns() == dict.fromkeys(low, "≥") | dict.fromkeys(either, "*")


def test_a_mark_that_follows_every_column_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fed_columns, "_rises", refs)
    assert mark_columns()["place"] == "≥"


OVER_GROUPS = (
    "SELECT k, n, 100.0 * n / SUM(n) OVER () AS share, (SELECT MAX(n) FROM c) AS most"
    " FROM c WHERE n > 3"
)


def over_shown(key: str) -> list[str]:
    """The columns that are said to be over the groups that are shown."""
    groups = f"WITH c AS (SELECT {key} AS k, COUNT(*) AS n FROM customers GROUP BY 1) "
    prepared = compiled(groups + OVER_GROUPS, *shop())
    told = [n for n in prepared.notices if isinstance(n, OfShown)]
    return [prepared.columns[place].name for notice in told for place in notice.columns]


def test_numbers_over_private_groups_are_about_those_that_are_shown() -> None:
    assert over_shown("city") == ["share", "most"]
    assert over_shown("segment") == []


def test_wrong_twin_every_number_is_over_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FedColumns, "over_groups", lambda fed, block: fed.measures(block, 1, 0))
    assert over_shown("city") == ["n", "share", "most"]


def kinds(prepared: Prepared) -> set[type[Notice]]:
    return {type(notice) for notice in prepared.notices}


def owed(block: BlockPlan) -> set[type[Notice]]:
    """What a block by itself shows that it enforces, whatever is proved of values."""
    found: set[type[Notice]] = set()
    if block.enforce_l0:
        found.add(Sampled)
    if block.domain is None and block.block.keys:
        found.add(Hidden)
    sums = [r.query for r in block.releases if not isinstance(r.query, UnitCount | BlockAverage)]
    limit = block.rows_per_group.how.startswith("enforced")
    if limit and any(not isinstance(query, DistinctCount) for query in sums):
        found.add(Clipped)
    return found


@pytest.mark.parametrize(
    "case", [c for c in casefile.all_cases() if c.accepted][::6], ids=lambda c: c.id
)
def test_every_case_tells_what_its_plan_enforces(case: casefile.Case) -> None:
    prepared = over_the_shop(case)
    for block in prepared.blocks:
        assert owed(block) <= kinds(prepared)
    for text in sentences(prepared.notices, prepared.columns, WIRE):
        assert "  " not in text
        assert not text.endswith(" ")


def test_what_the_engine_enforces_is_not_told() -> None:
    """CHECK constraints, an ENUM and a foreign key keep values where the policy says they are."""
    tables = world.build(world.well_behaved(), constraints=True)
    policy = load(str(CATALOGS / "shop.toml"))
    engine = PlainEngine(tables)
    schema = Schema(declared(engine.rows), "here")
    found = {t.name: t for t in schema.tables}
    checked = replace(
        found["customers"], checks=(*found["customers"].checks, "CHECK((age BETWEEN 1 AND 110))")
    )
    listed = replace(found["orders"], checks=("CHECK((status IN ('open', 'lost')))",))
    wide = replace(found["items"], checks=("CHECK((price BETWEEN 0 AND 101))",))
    others = tuple(t for t in schema.tables if t.name not in ("customers", "orders", "items"))
    tighter = Schema((checked, listed, wide, *others), "here")
    bound = bind(policy, tighter, PublicTables(engine, DUCKDB).values)
    enforced = {f"{t.name}.{c.name}" for t in bound.tables for c in t.columns if c.enforced}
    assert enforced == {"customers.age", "customers.segment"}
    assert compiled("SELECT SUM(age) FROM customers", bound, engine).notices == ()
    assert bound.version == bind(policy, schema, PublicTables(engine, DUCKDB).values).version


# --- answers ---


@pytest.mark.full("draws random questions or values")
def test_remembered_answers_tell_it_again_and_empty_ones_say_why(tmp_path: Path) -> None:
    sql = "SELECT city, COUNT(*) AS n FROM customers GROUP BY city"
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        first, again = (proxy.ask(proxy_kit.request(sql)) for _ in range(2))
        assert again.receipt is not None
        assert again.receipt.remembered
        assert [type(n) for n in first.notices] == [Hidden, Empty]
        assert first.notices == again.notices
        assert proxy.explain(proxy_kit.request(sql)).notices == first.notices[:1]
        none = proxy.ask(
            proxy_kit.request(
                "SELECT * FROM (SELECT COUNT(*) AS n FROM customers) AS t WHERE n < -1000"
            )
        )
        assert none.notices == (Empty(None),)
        public = proxy.ask(proxy_kit.request("SELECT * FROM countries WHERE code = 'XX'"))
        assert public.notices == ()


@pytest.mark.full("opens a proxy for each item")
def test_a_plan_tells_what_its_answer_will(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        plan = plan_text(proxy.explain(proxy_kit.request("SELECT COUNT(*) AS n FROM orders")))
    told = f"Told with the answer: - customers count with at most 10 rows each in n{OUT}"
    assert told in " ".join(plan.split())


# --- answers that cannot be of use ---


def test_what_cannot_be_of_use_is_known_before() -> None:
    one = "SELECT COUNT(*) AS n FROM orders WHERE customer_id = 7"
    assert compiled(one, *shop()).notices[1:] == (Drowned("customers", 1, 8.9),)
    few = "SELECT city, COUNT(*) AS n FROM customers WHERE customer_id IN (1, 2, 3) GROUP BY city"
    (hidden, never) = compiled(few, *shop()).notices
    assert isinstance(hidden, Hidden)
    assert never == NeverShown("customers", 3, hidden.least)
    row = "SELECT SUM(amount) AS s FROM orders WHERE order_id = 7"
    assert isinstance(compiled(row, *shop()).notices[-1], Drowned)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM orders WHERE customer_id > 7",
        "SELECT COUNT(*) AS n FROM orders WHERE customer_id = 7 OR amount > 5",
        "SELECT COUNT(*) AS n FROM customers WHERE customer_id BETWEEN 1 AND 5000",
        "SELECT COUNT(*), (SELECT COUNT(*) FROM customers WHERE customer_id = 7) FROM customers",
    ],
)
def test_what_may_be_of_use_is_not_called_useless(sql: str) -> None:
    assert not {Drowned, NeverShown} & kinds(compiled(sql, *shop()))


# --- at every door ---

ANSWER = Answer(
    (Column("n", INTEGER), Column("total", INTEGER)),
    ((5, 10), (6, 12)),
    ((1.0, 2.0),) * 2,
    ((2.0, 4.0),) * 2,
    notices=(
        Clipped((1,), "customers", True, 10, ((0, 500),), (0, 5000)),
        BoundsFound("t", "x", 0.0, 8.0),
    ),
)
TEXT = f"customers add at most 5,000 each to total per group: 10 rows each, clipped to 0 … 500{OUT}"


def test_tables_mark_the_columns_and_tell_below() -> None:
    assert table(ANSWER).text == (
        f"      n   total *\n───────  ────────\n5 ± 2.0  10 ± 4.0\n6 ± 2.0  12 ± 4.0\n* {TEXT}\n"
    )
    narrow = table(ANSWER, 40).text
    assert max(map(width, narrow.splitlines())) <= 40
    assert TEXT in " ".join(line.strip() for line in narrow.splitlines())
    assert markdown(ANSWER).splitlines()[-1] == f"\\* {TEXT}"


def test_json_has_a_field_and_csv_is_untouched() -> None:
    rows = json.loads(records.json_array(ANSWER))
    own = [f"{name}{end}" for name in ("n", "total") for end in ("", "_margin", "_low", "_high")]
    assert list(rows[0]) == [*own, "total_notice"]
    assert [row["total_notice"] for row in rows] == [TEXT, TEXT]
    assert records.csv(ANSWER) == records.csv(replace(ANSWER, notices=()))
    clash = replace(ANSWER, columns=(Column("total_notice", INTEGER), Column("total", INTEGER)))
    assert "total_notice_2" in json.loads(records.json_array(clash))[0]


NOTICES: tuple[Notice, ...] = (
    *ANSWER.notices,
    FewValues((0,), "customers", False, 3),
    Sampled((0, 1), "customers", 5),
    SharedPresence((0,), "customers", 2.0),
    SharedPresence((0, 1), "customers", 5.4, 12, visible=True),
    SharedPresence((0, 1), "customers", 5.4, 12, visible=False),
    Listed((0,), "status", 3),
    Listed((1,), None, 3),
    Assumed((0, 1), 3),
    Hidden((0,), "customers", 164),
    OfShown((0, 1)),
    Empty(None),
    Empty(Hidden((0,), "customers", 164)),
    Drowned("customers", 1, 9.0),
    NeverShown("customers", 1, 164),
    TooFew("customers", 60, 20),
    Unclear(0, 1, 1),
    Unclear(1, 3, 12),
    *(Ranked((0, 1), by, 12) for by in RankedBy),
)


@pytest.mark.parametrize("notice", NOTICES, ids=lambda n: type(n).__name__)
def test_no_sentence_names_what_its_door_has_not(notice: Notice) -> None:
    for door in (COMMAND_LINE, DATABASE_API, WIRE):
        text = sentence(notice, ANSWER.columns, door)
        assert ("--" in text) <= (door is COMMAND_LINE)
        assert ("SET " in text) <= (door is WIRE)


@pytest.mark.full("opens a proxy for each item")
def test_numbers_no_larger_than_their_margin_are_counted(tmp_path: Path) -> None:
    """From the released rows alone: counted once more here, and of other rows there are others."""
    by_status = (
        "SELECT status, COUNT(*) AS n, SUM(amount) AS s FROM orders WHERE amount > 400 GROUP BY 1"
    )
    every = "SELECT 1 AS one, COUNT(*) AS n, COUNT(age) AS s FROM customers"
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        low, high = (
            proxy.ask(proxy_kit.request(sql, epsilon))
            for sql, epsilon in ((by_status, "0.05"), (every, "10"))
        )
    for answer in (low, high):
        for place in (1, 2):
            columns = zip(answer.rows, answer.margins, strict=True)
            small = [abs(row[place]) <= (half[place] or 0) for row, half in columns]
            told = [n for n in answer.notices if isinstance(n, Unclear) and n.column == place]
            assert told == [Unclear(place, sum(small), len(small))] * (sum(small) * 10 > len(small))
    assert any(isinstance(notice, Unclear) for notice in low.notices)
    assert not any(isinstance(notice, Unclear) for notice in high.notices)
    names = (Column("n", INTEGER),)
    assert sentence(Unclear(0, 1, 1), names) == "n is no larger than its ±"
    assert sentence(Unclear(0, 4, 4), names, WIRE) == (
        "all 4 numbers of n are no larger than their ±; EXPLAIN PRIVACY may show a better question"
    )


def test_a_name_cannot_drive_a_terminal() -> None:
    answer = replace(ANSWER, columns=(Column("n\x1b[2J", INTEGER),) * 2)
    assert "\x1b" not in table(answer).text + records.json_array(answer)


@pytest.mark.full("opens a proxy for each item")
def test_what_a_watched_statement_leaves_out_is_told(tmp_path: Path) -> None:
    sql = "SELECT status, SUM(amount) AS total FROM orders GROUP BY status"
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        wish = Watch("ana", Decimal(10**6), 1)
        price, found = (
            proxy.run(ExplainWatch(wish, [proxy_kit.request(sql)])),
            proxy.run(WatchAll(wish, [proxy_kit.request(sql)])),
        )
    cut = TEXT
    assert f"\nStatement 1: {cut}\n" in price_text(price)
    (verdict,) = found.verdicts
    assert dpsql.sentences(verdict.notices, verdict.columns)[0] == cut


def test_nothing_of_use_is_known_where_few_rows_are_expected() -> None:
    policy, engine = shop()
    few = tuple(
        replace(t, expected_rows=5 if t.name == "customers" else None) for t in policy.tables
    )
    expecting = replace(policy, tables=few)
    for sql in ("SELECT COUNT(*) AS n FROM orders", "SELECT MEDIAN(age) AS m FROM customers"):
        assert isinstance(compiled(sql, expecting, engine).notices[-1], Drowned)
        assert not {Drowned, NeverShown} & kinds(compiled(sql, policy, engine))
    cities = "SELECT city, COUNT(*) AS n FROM customers GROUP BY city"
    assert isinstance(compiled(cities, expecting, engine).notices[-1], NeverShown)


def test_a_limit_below_one_row_is_told_in_words() -> None:
    rows = Scaled((0,), "people", Contributed.ROWS, 0.0001, 3, visible=True, side=CutSide.EITHER)
    columns = (Column("b", INTEGER),)
    assert "people count with less than 1 row each in b (" in sentence(rows, columns)
    assert "with at most 2 rows each in b (" in sentence(replace(rows, most=2.0), columns)


def test_a_limit_over_groups_is_told_of_one_and_of_four() -> None:
    """No root of summed squares bounds the rows of a person in all groups together."""
    columns = (Column("b", INTEGER),)
    rows = Scaled(
        (0,), "people", Contributed.ROWS, 13.1072, 154, visible=True, side=CutSide.ABOVE,
        over_groups=True,
    )  # fmt: skip
    told = "with at most 14 rows each per group in b, or 7 in each of 4 groups ("
    assert told in sentence(rows, columns)
    values = replace(rows, what=Contributed.VALUES, most=90.0)
    assert "add at most 90 each to b per group, or 45 in each of 4 groups (" in sentence(
        values, columns
    )


def test_found_limits_are_whole_and_say_what_the_interval_covers() -> None:
    """The wrong twins round a limit to the nearest, or say of every interval that it covers."""
    columns = (Column("b", INTEGER),)
    rows = Scaled((0,), "people", Contributed.ROWS, 18.1, 684, visible=True, side=CutSide.ABOVE)
    limit = "people count with at most 19 rows each in b (limit found by dpsql); "
    missing = "the rest is missing, but the high end covers it (≥)"
    assert sentence(rows, columns) == f"{limit}at most about 684 people have more: {missing}"
    assert sentence(replace(rows, above=0), columns) == f"{limit}probably none have more: {missing}"
    assert "about 1 has more" in sentence(replace(rows, above=1), columns)
    assert "missing, and no ± covers it (≥)" in sentence(replace(rows, covered=False), columns)
    either = replace(rows, side=CutSide.EITHER, most=1.0)
    assert "with at most 1 row each in b (" in sentence(either, columns)
    assert sentence(either, columns).endswith("missing, but the interval covers it")
    guess = sentence(replace(rows, guess=True), columns)
    assert "covers" not in guess
    assert "have more, and the rest is missing (≥). The low end holds; the high end is a" in guess
    values = replace(rows, what=Contributed.VALUES, most=1234.1)
    assert sentence(values, columns).startswith("people add at most 1,235 each to b (")
