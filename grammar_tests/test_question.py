"""What makes two questions the same: nothing that changes what is released may be left out.

An answer is remembered by its question alone (and analyst, policy, data): of two plans with one
question the second would get the first one's noisy numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import combinations
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from dpsql.compiler.plan.canonical import LEFT_OUT, Writer, identify_plan
from dpsql.compiler.plan.lattices import WHOLE, TreeRelease
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
from dpsql.compiler.plan.private_plan import BlockPlan, PrivateBlock, PrivatePlan, Release
from dpsql.compiler.plan.published_keys import Keys, ListedKeys, ThresholdKeys, TopKeys, TrialKeys
from dpsql.consistency.marginals import Marginal, Marginals
from dpsql.model.algebra import Field, Filter, Item, Scan
from dpsql.model.tree import BOOLEAN, INTEGER, Literal
from dpsql.model.vocabulary import Norm
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY"
ROWS = f"{PRIVATE} SUM(amount, contribution_bounds_per_row => ({{}})) AS s FROM orders"
TOTALS = f"{PRIVATE} SUM(amount, contribution_bounds_per_group => ({{}})) AS s FROM orders"
FLOOR = f"{PRIVATE} OPTIONS(min_privacy_units_per_group = {{}}) city, COUNT(*) FROM customers"
QUANTILES = ", ".join(f"QUANTILE_DISC(age, {{}}{n})" for n in range(1, 10))
FIRST = "SELECT status FROM orders GROUP BY status ORDER BY SUM(amount) {}, status LIMIT {}"
DIFFERENT = {
    "clips of rows": [ROWS.format(ends) for ends in ("0, 100", "0, 99", "1, 100")],
    "clips of totals": [TOTALS.format(ends) for ends in ("0, 100", "0, 99", "1, 100")],
    "floors": [FLOOR.format(n) + " GROUP BY 1" for n in (5, 6)],
    "ranks": [f"SELECT {QUANTILES.replace('{}', d)} FROM customers" for d in ("0.", "0.0")],
    "one rank": [f"SELECT QUANTILE_DISC(age, {q}) FROM customers" for q in (0.25, 0.5)],
    "choices": [f"SELECT {f}(age) FROM customers" for f in ("MIN", "MAX", "MODE", "MEDIAN")],
    "the first": [FIRST.format(*wish) for wish in (("", 1), ("DESC", 1), ("DESC", 2))],
    "conditions": [f"SELECT COUNT(*) FROM customers WHERE age {c}" for c in ("> 3", ">= 3", "> 4")],
    "filters": [f"SELECT SUM(age) FILTER (WHERE age > {n}) FROM customers" for n in (3, 4)],
    "arguments": [f"SELECT SUM({x}) FROM orders" for x in ("quantity", "quantity + 1", "amount")],
    "keys": [f"SELECT {k}, COUNT(*) FROM customers GROUP BY 1" for k in ("city", "segment", "vip")],
    "domains": [
        f"SELECT segment, COUNT(*) FROM customers{kept} GROUP BY 1"
        for kept in ("", " WHERE segment = 'consumer'")
    ],
    "units": ["SELECT COUNT(*) FROM orders", "SELECT COUNT(DISTINCT customer_id) FROM orders"],
    "shares": [
        f"{PRIVATE} OPTIONS(epsilon = 1) COUNT(*, epsilon => {e}), AVG(age) FROM customers"
        for e in ("0.1", "0.2")
    ],
    "stages": [
        f"SELECT COUNT(*) FROM customers WHERE age > (SELECT {x}(age) FROM customers)"
        for x in ("AVG", "MEDIAN")
    ],
}


def same_question(one: PrivatePlan, other: PrivatePlan) -> bool:
    """Whether two plans are one question, now and in earlier versions."""
    a, b = identify_plan(one), identify_plan(other)
    assert (a.question == b.question) == (a.earlier == b.earlier)
    return a.question == b.question


def asked(sql: str, accountant: str = "zcdp") -> str:
    return compiled(sql, *shop(), budget=replace(BUDGET, accountant=accountant)).question


@pytest.mark.parametrize("kind", DIFFERENT)
def test_different_questions_are_told_apart(kind: str) -> None:
    found = [asked(sql) for sql in DIFFERENT[kind]]
    assert all(one != other for one, other in combinations(found, 2))


AGE = "SELECT COUNT(*) FROM customers WHERE age > {}"
SAME = {
    "casts of texts": [
        f"SELECT COUNT(*) FROM orders WHERE status = {text}"
        for text in ("'paid'", "'paid'::VARCHAR", "CAST('paid' AS TEXT)")
    ],
    "casts of numbers": [AGE.format(n) for n in ("30", "30::INT", "'30'::BIGINT", "30.0", "3e1")],
    "numbers with a scale": [
        f"SELECT COUNT(*) FROM orders WHERE amount < {n}" for n in ("10", "10.0", "10.000")
    ],
    "counts of rows": [
        f"SELECT city, COUNT(*) AS n FROM customers GROUP BY 1 ORDER BY 2 LIMIT {n}"
        for n in ("2", "(1 + 1)", "2::INT", "CAST(2 AS BIGINT)")
    ],
}


@pytest.mark.parametrize("kind", SAME)
def test_constants_written_otherwise_are_the_same_question(kind: str) -> None:
    found = [asked(sql) for sql in SAME[kind]]
    assert len(found) > 2
    assert len(set(found)) == 1


@pytest.mark.parametrize("other", ["30.5", "'30 '::VARCHAR::INT", "31"])
def test_another_constant_is_another_question(other: str) -> None:
    assert asked(AGE.format(other)) != asked(AGE.format("30"))


def test_accountants_and_the_delta_of_queries_are_part_of_a_question() -> None:
    sql = "SELECT AVG(age) FROM customers"
    found = {asked(sql, accountant) for accountant in ("zcdp", "pure", "approximate")}
    other = replace(BUDGET, query_delta=Decimal("1e-7"))
    found.add(compiled(sql, *shop(), budget=other).question)
    assert len(found) == 4


# --- every field of what is measured -------------------------------------------------------------

EXAMPLES: dict[str, Any] = {
    "argument": Literal(1, INTEGER),
    "condition": Literal(False, BOOLEAN),
    "test": RowTest(None, 7),
    "total": RowCount(None, 7),
    "norm": Norm.L1,
    "values": DistinctCount(
        argument=Literal(2, INTEGER), condition=None, total_upper=1, chosen=False
    ),
}
MEASURED = {
    "sums": "SELECT SUM(amount) FROM orders",
    "private keys": "SELECT device, COUNT(*) FROM events GROUP BY device",
    "the first keys": FIRST.format("DESC", 1),
    "rows": "SELECT COUNT(*) FROM orders",
    "units": "SELECT COUNT(DISTINCT customer_id) FROM orders",
    "scaled totals": "SELECT EXTRACT(month FROM day) AS m, COUNT(*) FROM logins GROUP BY m",
    "distinct values": "SELECT COUNT(DISTINCT status) FROM orders",
    "values summed once": "SELECT AVG(DISTINCT quantity) FROM orders",
    "blocks of units": "SELECT SAMPLE_AGGREGATE(AVG(age), 0, 120) FROM customers",
    "a tested mean": "SELECT PTR_MEAN(age, 20) FROM customers",
}


def changed(value: Any, name: str) -> Any:
    """Another value of a field."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case _ if name == "lattice":
            return replace(value, digits=value.digits + 1)
        case _:
            return EXAMPLES[name] if value is None or value != EXAMPLES[name] else None


def near(part: Measurement) -> Iterator[tuple[str, Measurement]]:
    """The measurement with one field changed."""
    for one in fields(part):
        other: dict[str, Any] = {one.name: changed(getattr(part, one.name), one.name)}
        yield one.name, replace(part, **other)


def near_keys(keys: Keys) -> Iterator[tuple[str, Keys]]:
    """The keys with one field changed."""
    match keys:
        case TopKeys() | TrialKeys():
            for name, query in near(keys.unreleased):
                yield name, replace(keys, unreleased=query)
        case ListedKeys() | ThresholdKeys():
            pass
    match keys:
        case ListedKeys() | TopKeys():
            yield "domain", replace(keys, domain=(("somewhere",),))
        case ThresholdKeys() | TrialKeys():
            yield "floor", replace(keys, floor=keys.floor + 1)


def twins(block: BlockPlan) -> Iterator[tuple[str, BlockPlan]]:
    """The block with one field of one measurement changed."""
    for n, release in enumerate(block.releases):
        for name, query in near(release.query):
            other = replace(release, query=query)
            releases = (*block.releases[:n], other, *block.releases[n + 1 :])
            yield name, replace(block, releases=releases)
    for name, keys in near_keys(block.keys):
        yield name, replace(block, keys=keys)
    assert block.groups.value is not None
    yield "l0", replace(block, groups=replace(block.groups, value=block.groups.value + 1))
    yield "enforced", replace(block, enforce_l0=not block.enforce_l0)
    yield "row level", replace(block, row_level=not block.row_level)


@pytest.mark.parametrize("what", MEASURED)
def test_every_field_of_a_measurement_is_part_of_its_question(what: str) -> None:
    plan = compiled(MEASURED[what], *shop()).plan
    assert plan is not None
    (block,) = plan.blocks
    for name, twin in twins(block):
        assert not same_question(replace(plan, blocks=(twin,)), plan), name


SUMMED: dict[str, Any] = {"argument": Literal(1, INTEGER), "lattice": WHOLE, "lower": 0, "upper": 1}
TEST = RowTest(None, 9)
VALUES = DistinctCount(argument=SUMMED["argument"], condition=None, total_upper=1, chosen=False)
KINDS: tuple[Measurement, ...] = (
    RowCount(None, 1),
    UnitCount(None),
    ClippedSum(**SUMMED, condition=None, total_lower=-1, total_upper=1),
    ScaledTotal(RowCount(None, 1), Norm.L2, 1, 0),
    VALUES,
    DistinctSum(**SUMMED, values=VALUES, total_lower=0, total_upper=1),
    BlockAverage(**SUMMED, blocks=9),
    TEST,
    StableMean(**SUMMED, condition=None, centre=0, finer=0, test=TEST),
)
"""One of each, in as much as they can the same."""


def test_every_kind_of_measurement_is_told_from_the_others() -> None:
    assert set(map(type, KINDS)) == set(get_args(Measurement))
    written = [Writer().write(part) for part in KINDS]
    assert len(set(written)) == len(written)
    seen = set()
    for sql in MEASURED.values():
        plan = compiled(sql, *shop()).plan
        assert plan is not None
        seen |= {type(query) for block in plan.blocks for query in block.queries}
    assert seen == set(map(type, KINDS))


@dataclass(frozen=True, slots=True)
class Newer(RowCount):
    """A kind with a field that it did not have when answers were paid for."""

    norm: int | None = None


def test_answers_that_were_paid_for_are_found_by_what_is_newer_too() -> None:
    assert Writer().write(RowCount(None, 3)) == (
        "PartQuery(NoneType:None,NoneType:None,Lattice(int:10,int:0),int:1,int:1,int:0,int:0,int:3,"
        "bool:False,bool:False,bool:False,int:0,NoneType:None)"
    )
    assert Writer().write(Newer(None, 3)) == Writer().write(RowCount(None, 3))
    assert len({Writer().write(Newer(None, 3, norm)) for norm in (None, 1, 2)}) == 3


# --- every field of what a plan is made of -------------------------------------------------------


class Odd:
    """A value that no plan has."""


ODD: Any = Odd()
ODD_TABLE = Scan("odd", ())
ODD_RELEASE = SimpleNamespace(payment=SimpleNamespace(shares_noise=False, noise=None))
LEVELS = Marginals((2,), (Marginal(0, (0,), (0, None), (1.0, 1.0)),), (), ())
INSTEAD: dict[tuple[type, str], Callable[[Any], Any]] = {
    (PrivatePlan, "blocks"): lambda blocks: (*blocks, *blocks),
    (PrivatePlan, "stages"): lambda stages: (*stages, ODD_TABLE),
    (PrivatePlan, "levels"): lambda levels: (*levels, LEVELS),
    (BlockPlan, "block"): lambda block: altered(block, "unit", ODD),
    (BlockPlan, "keys"): lambda _: ListedKeys((("odd",),)),
    (BlockPlan, "releases"): lambda releases: (*releases, ODD_RELEASE),
    (Release, "payment"): lambda payment: replace(payment, runner_up=ODD),
    (PrivateBlock, "rows"): lambda rows: Filter(rows, Literal(False, BOOLEAN)),
    (PrivateBlock, "never_null"): lambda columns: columns | {-1},
    (PrivateBlock, "keys"): lambda keys: (*keys, Item(Field(0, "k", INTEGER), Literal(1, INTEGER))),
    (TreeRelease, "halves"): lambda halves: (*halves, ODD),
    (Marginals, "tables"): lambda tables: (*tables, *tables),
}
"""Other values of fields, where it cannot be anything."""
TRIED = "SELECT DISTINCT city FROM customers"
"""Private keys by trials, where the accountant adds up ε."""
HOLDING = (
    "SELECT segment, COUNT(*), SUM(age), MODE(age), {} FROM customers GROUP BY segment".format(
        QUANTILES.replace("{}", "0.")
    ),
    FIRST.format("DESC", 1),
    MEASURED["private keys"],
    TRIED,
)
"""With choices and a tree; and with every kind of keys."""


def altered(value: Any, name: str, other: Any) -> Any:
    """A frozen value with another field, of which nothing is checked."""
    twin = copy(value)
    object.__setattr__(twin, name, other)
    return twin


def placed(plan: PrivatePlan, old: Any, new: Any) -> PrivatePlan:
    """The plan with a part of it, found by what it is, in the place of another."""

    def within(value: Any) -> Any:
        if value is old:
            return new
        match value:
            case tuple():
                return tuple(map(within, value))
            case _ if type(value) in LEFT_OUT:
                for one in fields(value):
                    inner = getattr(value, one.name)
                    changed = within(inner)
                    if isinstance(inner, tuple) or changed is not inner:
                        value = altered(value, one.name, changed)
                return value
            case _:
                return value

    found: PrivatePlan = within(plan)
    return found


def parts(value: Any) -> Iterator[Any]:
    """Whatever the question of a plan is made of that leaves something out itself."""
    if isinstance(value, tuple):
        for one in value:
            yield from parts(one)
    elif type(value) in LEFT_OUT:
        yield value
        for one in fields(value):
            if one.name not in LEFT_OUT[type(value)]:
                yield from parts(getattr(value, one.name))


def holding(sql: str) -> PrivatePlan:
    budget = replace(BUDGET, accountant="approximate") if sql == TRIED else BUDGET
    plan = compiled(sql, *shop(), budget=budget).plan
    assert plan is not None
    return altered(plan, "levels", (LEVELS,))  # type: ignore[no-any-return]


@pytest.mark.full("draws random questions or values")
def test_a_field_is_part_of_its_question_or_is_left_out_by_name() -> None:
    """Also one that nobody thought of when it was added: then its change makes another question."""
    seen = set()
    for plan in map(holding, HOLDING):
        for part in {type(found): found for found in parts(plan)}.values():
            kind = type(part)
            seen.add(kind)
            for one in fields(part):
                old, instead = getattr(part, one.name), INSTEAD.get((kind, one.name))
                twin = altered(part, one.name, (ODD,) if instead is None else instead(old))
                other = twin if part is plan else placed(plan, part, twin)
                left_out = one.name in LEFT_OUT[kind]
                assert (same_question(other, plan)) == left_out, (kind.__name__, one.name)
    assert seen == set(LEFT_OUT)


def test_what_is_left_out_exists_and_says_why() -> None:
    for kind, names in LEFT_OUT.items():
        assert names.keys() < {one.name for one in fields(kind)}
        assert all(names.values())


def test_a_field_that_is_forgotten_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin: the floor of private keys is left out, and two questions are one."""
    low, high = (asked(sql) for sql in DIFFERENT["floors"])
    assert low != high
    names = {**LEFT_OUT[ThresholdKeys], "floor": "forgotten"}
    others = {**LEFT_OUT, ThresholdKeys: names}
    monkeypatch.setattr("dpsql.compiler.plan.canonical.LEFT_OUT", others)
    low, high = (asked(sql) for sql in DIFFERENT["floors"])
    assert low == high
