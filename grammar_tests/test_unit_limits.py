"""Units beyond a limit are bounded by themselves: the integers are those of bounding every unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.compiler.calibrate import contributions
from dpsql.compiler.plan.measurement_kinds import RowCount, ScaledTotal
from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb import block_statement, norm_sql
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.dialects.duckdb.norm_sql import (
    large_total,
    maybe_beyond,
    norm_of_total,
    scaled_total,
)
from dpsql.dialects.duckdb.unit_limits import UnitLimits
from dpsql.dialects.places import place_in_unit
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Norm, Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.laws import PlainEngine, compiled, exact_blocks

POLICY = """
[database]
engine = "duckdb"
path = "unused.duckdb"
[privacy_unit]
table = "people"
key = "person"
[tables.people]
access = "private"
key = "person"
[tables.people.columns]
person = {}
[tables.visits]
access = "private"
link = { column = "person", references = "people.person" }
LIMITS
[tables.visits.columns]
person = {}
place = {}
page = {}
device = { values = [0, 1, 2, 3] }
seconds = { bounds = [-10, 100], nullable = true }
[budgets.default]
epsilon = 1000.0
delta = 1e-3
query_delta = 1e-6
[analysts.ana]
budget = "default"
[ledger]
path = "unused.ledger"
"""
DECLARED = "max_groups_per_unit = 2\nmax_rows_per_group = 3"
ASKED = (
    (DECLARED, "SELECT place, COUNT(*) AS n, SUM(seconds) AS s FROM visits GROUP BY place"),
    (DECLARED, "SELECT device, SUM(seconds), COUNT(DISTINCT person) FROM visits GROUP BY device"),
    (
        DECLARED,
        "SELECT place, device, COUNT(DISTINCT page), AVG(seconds) FROM visits GROUP BY 1, 2",
    ),
    (DECLARED, "SELECT device, MEDIAN(seconds), COUNT(*) FROM visits GROUP BY device"),
    (DECLARED, "SELECT place, SAMPLE_AGGREGATE(AVG(seconds), 0, 100) FROM visits GROUP BY place"),
    ("", "SELECT place, COUNT(*) AS n, SUM(seconds) AS s FROM visits GROUP BY place"),
    ("", "SELECT device, COUNT(*) AS n, SUM(seconds) AS s FROM visits GROUP BY device"),
)
"""Limits, and what is asked under them: without any there are norms, of private keys both."""
NORM = Fraction(5, 2)
DATABASES = 3


@dataclass(frozen=True, slots=True)
class EveryUnit(UnitLimits):
    """As it was: all totals are joined to the cuts, and to the norms."""

    def stages(self, source: str) -> dict[str, str]:
        kept = "SELECT * FROM clipped"
        stages = {"clipped AS MATERIALIZED": source}
        if self.l0 is not None:
            place = f"{place_in_unit('u', self.keys)} + (hash($sampling_key::UBIGINT, u) >> 2)"
            counted = f"SELECT *, {place} AS place, COUNT(*) OVER (PARTITION BY u) AS m"
            kept = f"SELECT * FROM ({counted} FROM clipped) WHERE place % m < {self.l0}"
        return {**stages, "kept AS MATERIALIZED": kept}

    @property
    def rows(self) -> str:
        if not self.scaled:
            return f"SELECT {self._listed()} FROM kept"
        norms = [f"{norm_of_total(part, name)} AS n_{name}" for name, part in self.scaled.items()]
        listed = [
            f"{scaled_total(self.scaled[name], name, f'n_{name}')} AS {name}"
            if name in self.scaled
            else name
            for name in (*self.keys, *self.values)
        ]
        of_units = f"SELECT u, {', '.join(norms)} FROM kept GROUP BY u"
        return f"SELECT u, {', '.join(listed)} FROM kept JOIN ({of_units}) AS norms USING (u)"

    @property
    def signed(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class NoUnit(UnitLimits):
    """Wrong: nobody is beyond a limit."""

    def stages(self, source: str) -> dict[str, str]:
        stages = UnitLimits.stages(self, source)
        return {**stages, "above AS MATERIALIZED": "SELECT u, 0 AS groups FROM clipped WHERE FALSE"}


@dataclass(frozen=True, slots=True)
class AllOfIt(UnitLimits):
    """Wrong: of units beyond a limit all groups are kept, or lost."""

    @property
    def _place(self) -> str:
        return f"{self.l0 or 0}"

    @property
    def rows(self) -> str:
        fixed: Any = UnitLimits.rows
        return str(fixed.fget(self)).replace(" ANTI JOIN above USING (u)", "")

    @property
    def _less_scaled(self) -> str:
        fixed: Any = UnitLimits._less_scaled
        return str(fixed.fget(self)).replace(" END - ", " END + ")


@dataclass(frozen=True, slots=True)
class OnlyRanked(UnitLimits):
    """Wrong: units that are beyond a norm alone, which need no places, are kept without groups."""

    @property
    def _limited(self) -> str:
        return f"SELECT {self._listed()} FROM beyond WHERE {f'place < {self.l0}' if self.l0 else 1}"


@contextmanager
def database(seed: int) -> Iterator[PlainEngine]:
    """People with up to thirty visits of few places, some of nobody, some without a number."""
    dice = Random(seed)  # noqa: S311 - the same in every run
    rows = [
        (person, dice.randrange(8), dice.randrange(5), dice.randrange(5), seconds)
        for person in range(12)
        for _ in range(dice.choice((0, 1, 2, 5, 30)))
        for seconds in (dice.choice((None, -20, 0, 7, 60, 300)),)
    ]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people AS SELECT range::INTEGER AS person FROM range(10)")
        connection.execute(
            "CREATE TABLE visits (person INTEGER, place INTEGER, page INTEGER, device INTEGER,"
            " seconds INTEGER)"
        )
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", rows)
        yield PlainEngine(connection)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Policy]:
    folder, found = tmp_path_factory.mktemp("limits"), {}
    with database(0) as engine:
        for limits in {limits for limits, _ in ASKED}:
            path: Path = folder / "dpsql.toml"
            path.write_text(POLICY.replace("LIMITS", limits), encoding="utf-8")
            schema = Schema(declared(engine.rows), "here")
            found[limits] = bind(load(str(path)), schema, PublicTables(engine, DUCKDB).values)
    return found


@pytest.fixture(autouse=True)
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of private keys that nobody limits, so few are kept that units lose some."""
    monkeypatch.setattr(contributions, "MOST_KEYS", 3)


def plans(policies: Mapping[str, Policy], engine: PlainEngine) -> list[Prepared]:
    return [compiled(sql, policies[limits], engine, norm=NORM) for limits, sql in ASKED]


def answers(plans: list[Prepared]) -> list[list[object]]:
    """The integers of every plan over every database, with groups of nothing."""
    found = []
    for seed in range(DATABASES):
        with database(seed) as engine:
            found.append([_integers(plan, engine) for plan in plans])
    return found


def _integers(plan: Prepared, engine: PlainEngine) -> object:
    ((_, exact),) = exact_blocks(plan, engine)
    return sorted(zip(map(str, exact.keys), *(map(int, part) for part in exact.parts), strict=True))


Limits = Callable[..., UnitLimits]


@pytest.mark.full("measures neighbours or further data sets")
def test_units_within_their_limits_are_as_if_they_were_ranked_and_scaled(
    policies: Mapping[str, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(0) as engine:
        ours = plans(policies, engine)
        assert all(" above " in plan.rewritten.blocks[0].sql for plan in ours)
        monkeypatch.setattr(block_statement, "UnitLimits", EveryUnit)
        theirs = plans(policies, engine)
    assert answers(ours) == answers(theirs)


def kept(l0: int, groups: int, questions: int, turn: str = "") -> list[tuple[int, ...]]:
    """The groups of one unit that each question keeps."""
    limits = UnitLimits(keys=["k0"], values=[], l0=l0, scaled={})
    source = f"SELECT 7 AS u, i::INTEGER AS k0 FROM range({groups}) r(i)"
    stages = ", ".join(f"{name} ({sql})" for name, sql in limits.stages(source).items())
    sql = f"WITH {stages} SELECT k0 FROM ({limits.rows}) ORDER BY k0"
    sql = sql.replace("(hash($sampling_key::UBIGINT, u) >> 2)::BIGINT", turn) if turn else sql
    with duckdb.connect() as connection:
        asked = [{"sampling_key": key} for key in range(questions)]
        return [
            tuple(key for (key,) in connection.execute(sql, None if turn else key).fetchall())
            for key in asked
        ]


@pytest.mark.full("measures neighbours or further data sets")
def test_questions_keep_each_group_of_a_unit_equally_often() -> None:
    """Of 400 questions 7.2 standard deviations either way: a false alarm has 1e-11."""
    found = kept(2, 7, 400)
    assert all(len(groups) == 2 for groups in found)
    for group in range(7):
        assert abs(sum(group in groups for groups in found) - 400 * 2 / 7) < 65


def test_wrong_twin_an_order_without_a_turn_keeps_the_same_for_ever() -> None:
    assert len(set(kept(2, 7, 20))) > 2
    assert len(set(kept(2, 7, 20, turn="0"))) == 1


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("wrong", [NoUnit, AllOfIt])
def test_a_wrong_division_of_units_is_found(
    wrong: Limits, policies: Mapping[str, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(0) as engine:
        right = answers(plans(policies, engine))
        monkeypatch.setattr(block_statement, "UnitLimits", wrong)
        found = answers(plans(policies, engine))
    for number, (_, sql) in enumerate(ASKED):
        assert [each[number] for each in right] != [each[number] for each in found], sql


def test_wrong_twin_a_unit_beyond_a_norm_alone_that_loses_its_groups_would_be_seen(
    policies: Mapping[str, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    with database(0) as engine:
        right = answers(plans(policies, engine))
        monkeypatch.setattr(block_statement, "UnitLimits", OnlyRanked)
        assert answers(plans(policies, engine)) != right


def doubts(part: ScaledTotal, totals: list[int], share: Fraction) -> bool:
    """Whether a unit with these totals is taken to be beyond that share of its norm."""
    rows = f"(VALUES {', '.join(f'({total}::BIGINT)' for total in totals)}) AS t(p0)"
    with duckdb.connect() as connection:
        one = connection.execute(f"SELECT {norm_of_total(part, 'p0')} FROM {rows}").fetchone()
        assert one is not None
        bound = int(one[0] * share) - 1
        sql = f"SELECT {maybe_beyond(replace(part, bound=bound), 'p0')} FROM {rows}"
        ((found,),) = connection.execute(sql).fetchall()
    return bool(found)


SCALED = tuple(
    (ScaledTotal(RowCount(None, most), norm, 1, digits), groups)
    for norm in (Norm.L1, Norm.L2)
    for most, digits in ((2**20, 4), (2**31, 0), (2**48, 3))
    for groups in (1, 1000)
)


def of_many(part: ScaledTotal, groups: int) -> list[int]:
    """Totals up to the most that there can be, one of them that."""
    dice, most = Random(groups), part.total.total_upper  # noqa: S311 - the same in every run
    return [most, *(dice.randrange(most) for _ in range(groups - 1))]


def are_large(part: ScaledTotal, totals: list[int], share: Fraction, groups: int) -> bool:
    """Whether a total of a unit with these is large for that share of its norm."""
    rows = f"(VALUES {', '.join(f'({total}::BIGINT)' for total in totals)}) AS t(p0)"
    with duckdb.connect() as connection:
        one = connection.execute(f"SELECT {norm_of_total(part, 'p0')} FROM {rows}").fetchone()
        assert one is not None
        large = large_total(replace(part, bound=int(one[0] * share) - 1), "p0", str(groups))
        found = connection.execute(f"SELECT bool_or({large}) FROM {rows}").fetchone()
    assert found is not None
    return bool(found[0])


@pytest.mark.full("measures neighbours or further data sets")
def test_a_unit_beyond_its_bound_has_a_large_total() -> None:
    for part, groups in SCALED:
        most = [part.total.total_upper] * groups  # as even as possible: none is larger
        assert are_large(part, most, Fraction(1), groups)
        assert are_large(part, of_many(part, groups), Fraction(1), groups)
        assert not are_large(part, most, Fraction(2), groups)


def test_wrong_twin_a_total_that_is_large_by_itself_is_not_what_it_takes() -> None:
    for part, groups in SCALED:
        if groups > 1:
            assert not are_large(part, [part.total.total_upper] * groups, Fraction(1), 1)


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_beyond_its_bound_is_always_doubted() -> None:
    for part, groups in SCALED:
        assert doubts(part, of_many(part, groups), Fraction(1))
        assert not doubts(part, of_many(part, groups), Fraction(2))


def test_a_doubt_that_comes_too_late_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm_sql, "_MARGIN", 1.001)
    assert not any(doubts(part, of_many(part, groups), Fraction(1)) for part, groups in SCALED)
