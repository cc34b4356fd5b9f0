"""Every case: accepted or refused as written, with its place, sensitivities, keys and SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import duckdb
import pytest

from dpsql.compiler.plan.lattices import Choice, Histogram, TreeRelease
from dpsql.compiler.plan.measurement_kinds import (
    BlockAverage,
    ClippedSum,
    DistinctCount,
    DistinctSum,
    Measurement,
    RowCount,
    RowTest,
    ScaledTotal,
    StableMean,
    UnitCount,
)
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, Release
from dpsql.compiler.plan.published_keys import ThresholdKeys, TopKeys, TrialKeys
from dpsql.compiler.rewrite.rewrite import shown_sql
from dpsql.interfaces.sql_layout import laid_out
from dpsql.mechanisms.scores import Most, Peak, Rank, Reached
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span
from grammar_tests import casefile, world
from grammar_tests.bound import forum, limits, paths, shop, transfers
from grammar_tests.casefile import Case
from grammar_tests.laws import BUDGET, ONLY, PlainEngine, compiled, integers
from grammar_tests.test_laws import over_the_shop
from grammar_tests.test_layout import tokens

CATALOGS = {"shop": shop, "transfers": transfers, "limits": limits, "paths": paths, "forum": forum}
ALL = tuple(case for catalog in CATALOGS for case in casefile.all_cases(catalog))


def outcome(case: Case) -> tuple[str, tuple[str, ...], str]:
    """Verdict, pinned lines and rewritten SQL of a case, laid out."""
    try:
        prepared = compile_case(case)
    except Refused as refusal:
        return f"refuse: {refusal.reason} at {place(case.sql, refusal.span)}", (), ""
    lines = (*pinned(prepared), *(counted(prepared, case.rows) if case.rows else ()))
    return "accept", lines, rewritten(prepared)


def compile_case(case: Case) -> Prepared:
    """The plan of a case; those of the shop are compiled once, for the laws too."""
    if case.catalog == "shop":
        return over_the_shop(case)
    policy, engine = CATALOGS[case.catalog]()
    budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
    dialect = case.setting("dialect", "duckdb")
    return compiled(case.sql, policy, engine, dialect=dialect, budget=budget)


def place(sql: str, span: Span) -> str:
    before = sql[: span.start]
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def pinned(prepared: Prepared) -> tuple[str, ...]:
    blocks = () if prepared.plan is None else prepared.plan.blocks
    return tuple(
        line
        for block in blocks
        for line in (
            *(f"enforced: {claim.words}" for claim in block.block.enforced),
            _keys(block),
            *map(_release, block.releases),
            *map(_choice, block.choices),
            *map(_tree, block.trees),
        )
    )


ROWS = re.compile(r"(\w+) \((.+?)\): (.+)")


def counted(prepared: Prepared, rows: Sequence[str]) -> Iterator[str]:
    """The exact integers of the groups that these rows have, and of the cells of histograms."""
    every = integers(prepared, PlainEngine(database(rows)))
    for number, block in enumerate(every):
        which = f"release {number} " if len(every) > 1 else ""
        for key in sorted(block, key=str):
            yield f"integers: {which}{_group(key)} {' '.join(map(str, block[key]))}".rstrip()
        for (_, key), cells in block.cells.items():
            listed = " ".join(f"{cell}:{count}" for cell, count in sorted(cells.items()))
            yield f"integers: {which}{_group(key)} cells {listed}"


def _group(key: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, key))})"


def database(rows: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """A shop of these rows alone, keys counted from 1 where none are given, the rest NULL."""
    connection = world.build(world.empty(), constraints=False)
    for text in rows:
        found = ROWS.fullmatch(text)
        assert found is not None, text
        table, columns, values = found.groups()
        key = world.COLUMNS[table].split()[0]
        given = key in columns.split(", ")
        into, numbers = (
            (columns, "*") if given else (f"{key}, {columns}", "row_number() OVER (), *")
        )
        connection.execute(f"INSERT INTO {table} ({into}) SELECT {numbers} FROM (VALUES {values})")
    return connection


def _keys(block: BlockPlan) -> str:
    how = "enforced" if block.enforce_l0 else "proved"
    keys = block.keys
    if isinstance(keys, ThresholdKeys | TrialKeys):
        alone = ", by trials" if isinstance(keys, TrialKeys) else ""
        least = "" if keys.floor == 1 else f", of {keys.floor} units"
        columns = 1 if isinstance(keys, TrialKeys) else keys.threshold.counted.columns
        sums = "" if columns == 1 else f", by {columns} sums"
        return f"keys: private{alone}{sums}{least}, l0 {how}"
    if isinstance(keys, TopKeys):
        which = "lowest" if keys.top.lowest else "highest"
        return f"keys: {which} {keys.top.count} of {len(keys.domain)} public"
    return f"keys: {len(keys.domain)} public, l0 {how}"


MEASURED: dict[type[Measurement], str] = {
    RowCount: "rows",
    UnitCount: "units",
    ClippedSum: "sum",
    DistinctCount: "distinct",
    DistinctSum: "distinct sum",
    BlockAverage: "sum",
    ScaledTotal: "scaled",
    RowTest: "test",
    StableMean: "mean",
}


def _release(release: Release) -> str:
    query, sensitivity = release.query, release.sensitivity
    what = MEASURED[type(query)]
    linf = float(sensitivity.linf * query.released.step)
    return f"release: {what} l0={sensitivity.l0} linf={linf:.10g}"


def _choice(choice: Choice) -> str:
    query, aim = choice.query, choice.query.aim
    match aim:
        case Most():
            what = "most"
        case Peak():
            what = f"peak of {aim.options}"
        case Reached():
            what = f"{'highest' if aim.highest else 'lowest'} reached"
        case Rank():
            what = f"{aim.numerator}/{aim.denominator}"
    rows = _rows(query.histogram)
    return f"choice: {what} of {query.histogram.grid.cells} l0={choice.rounds} {rows}"


def _tree(tree: TreeRelease) -> str:
    ranks = " ".join(f"{rank.numerator}/{rank.denominator}" for rank in tree.ranks)
    shape, cells = tree.shape, tree.histogram.grid.cells
    l0, levels = tree.sensitivity.l0 // shape.levels, f"{shape.levels} levels by {shape.branching}"
    return f"tree: {ranks} of {cells} l0={l0} {_rows(tree.histogram)}, {levels}"


def _rows(histogram: Histogram) -> str:
    return f"rows={histogram.rows} {histogram.contributed.name.lower()}"


def rewritten(prepared: Prepared) -> str:
    statements = [b.sql for b in prepared.rewritten.blocks] + [shown_sql(prepared.rewritten, ONLY)]
    shown = [laid_out(sql) for sql in statements]
    assert list(map(tokens, shown)) == list(map(tokens, statements))
    return "\n".join(shown)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_case(case: Case, request: pytest.FixtureRequest) -> None:
    """With --update what turned out is written, but never another verdict: that still fails."""
    if not case.holds_here:
        pytest.skip("the DuckDB that is installed is older than what the case speaks of")
    holds(case, update=request.config.getoption("--update"))


def holds(case: Case, *, update: bool) -> None:
    verdict, lines, sql = outcome(case)
    if update:
        case = casefile.refresh(case, verdict, lines, sql)
    assert verdict == case.verdict
    assert lines == case.pinned
    assert case.rewrite is None or sql == case.rewrite


def test_a_file_is_written_as_it_was_read() -> None:
    for path in {case.file for case in ALL}:
        head, _ = casefile._blocks(path)
        assert casefile.text(head, casefile.read(path)) == path.read_text(encoding="utf-8")


TWO = """-- Two.
-- catalog: shop

-- case: one
SELECT COUNT(*) AS n FROM orders;
-- accept
-- release: rows l0=7 linf=1

-- case: two
SELECT COUNT(*) AS n FROM events;
-- accept
-- release: rows l0=7 linf=1

-- case: three
SELECT note FROM orders;
-- accept
"""


def test_an_update_of_one_case_writes_that_case(tmp_path: Path) -> None:
    file = tmp_path / "two.sql"
    file.write_text(TWO)
    one, _, three = casefile.read(file)
    with pytest.raises(AssertionError):
        holds(one, update=False)
    assert file.read_text() == TWO
    holds(one, update=True)
    pins = "-- keys: 1 public, l0 proved\n-- release: rows l0=1 linf=10"
    assert file.read_text() == TWO.replace("-- release: rows l0=7 linf=1", pins, 1)
    with pytest.raises(AssertionError):
        holds(three, update=True)
    assert casefile.read(file)[2].verdict == "accept"
    assert [path.name for path in tmp_path.iterdir()] == ["two.sql"]


def test_there_are_enough_cases_and_near_misses() -> None:
    verdicts = Counter(case.accepted for case in ALL)
    assert sum(verdicts.values()) >= 250
    assert min(verdicts.values()) >= 125


def test_enough_cases_pin_their_sql_and_what_it_counts() -> None:
    assert sum(case.rewrite is not None for case in ALL) >= 60
    assert sum(line.startswith("integers: ") for case in ALL for line in case.pinned) >= 20
    assert sum(bool(case.rows) for case in ALL) >= 20


def test_wrong_twin_a_clip_that_is_gone_changes_the_integers() -> None:
    (case,) = (case for case in ALL if case.title == "sum of a column with declared bounds")
    policy, engine = CATALOGS[case.catalog]()
    prepared = compiled(case.sql, policy, engine)
    block = prepared.rewritten.blocks[0]
    loose = replace(block, sql=block.sql.replace("500.00", "900.00").replace("(5, 2)", "(9, 2)"))
    damaged = replace(prepared, rewritten=replace(prepared.rewritten, blocks=(loose,)))
    pins = [line for line in case.pinned if line.startswith("integers: ")]
    assert pins == list(counted(prepared, case.rows))
    assert pins != list(counted(damaged, case.rows))


def test_every_file_has_both_verdicts_or_is_about_refusals() -> None:
    for path, group in groupby(ALL, key=lambda case: case.file):
        verdicts = {case.accepted for case in group}
        assert False in verdicts, f"{path} has no near-miss refusal"


def test_titles_are_unique() -> None:
    assert not [name for name, times in Counter(case.id for case in ALL).items() if times > 1]


def test_every_reason_a_text_can_have_has_a_case() -> None:
    elsewhere = {
        Reason.BUDGET_EXHAUSTED,  # test_ledgers, test_invariants
        Reason.EPSILON_TOO_LARGE,  # test_invariants
        Reason.NOT_USEFUL,  # test_remaining
        Reason.UNDECIDED_POLICY,  # test_policy
        Reason.UNKNOWN_NAME,  # test_messages
        Reason.ALARMS_USED,  # test_monitor
        Reason.ANALYST_STOPPED,  # test_pacing
        Reason.STOPPED_BY_OWNER,  # test_caps
        Reason.LIMIT_CHANGED,  # test_caps
        Reason.DELEGATION_ENDED,  # test_delegation
        Reason.ENGINE_LACKS,  # test_postgres_engine
    }
    seen = {case.verdict.split()[1] for case in ALL if not case.accepted}
    assert {reason.value for reason in Reason} - seen == {reason.value for reason in elsewhere}


def test_an_unknown_expectation_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "bad.sql"
    file.write_text("-- catalog: shop\n\n-- case: x\nSELECT 1;\n-- accept\n-- hope: so\n")
    with pytest.raises(ValueError, match=r"bad\.sql:6: unknown expectation 'hope'"):
        casefile.read(file)


README = Path(__file__).parent / "README.md"


def test_the_example_of_the_readme_holds(tmp_path: Path) -> None:
    (example,) = re.findall(r"(?ms)^```sql\n(.*?)^```", README.read_text(encoding="utf-8"))
    file = tmp_path / "example.sql"
    file.write_text(example)
    cases = casefile.read(file)
    assert {case.accepted for case in cases} == {True, False}
    for case in cases:
        holds(case, update=False)


def test_the_readme_explains_every_word() -> None:
    words = (*casefile.SETTINGS, *casefile.PINNED, "catalog", "case", "accept", "refuse", "rewrite")
    explained = re.findall(r"(?m)^\| `-- (\w+)", README.read_text(encoding="utf-8"))
    assert sorted(explained) == sorted(words)


def test_an_update_never_turns_a_verdict() -> None:
    refusal = next(case for case in ALL if not case.accepted)
    assert casefile.refreshed(refusal, "accept", (), "") == refusal
    accept = next(case for case in ALL if case.accepted)
    assert casefile.refreshed(accept, "refuse: raw-rows at 1:1", (), "") == accept
