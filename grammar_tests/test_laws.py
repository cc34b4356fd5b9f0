"""The laws of PRIVACY.md on every accepted case, each with a wrong twin that fails.

Laws 4 and 5's run-time half are tested on the real proxy in test_invariants and test_functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain
from typing import Any

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.errors import Refused
from dpsql.model.notices import Assumed, Clipped, FewValues, Listed, Sampled
from dpsql.model.row_notices import NoRows
from dpsql.model.vocabulary import Noisy, Policy, Sensitivity, Voucher
from dpsql.preparation.public_data import PublicTables
from dpsql.release.histogram_choices import separated
from grammar_tests import casefile, world
from grammar_tests.bound import over, shop
from grammar_tests.casefile import Case
from grammar_tests.laws import (
    BUDGET,
    Counted,
    PlainEngine,
    RememberingEngine,
    compiled,
    exact_blocks,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
    without_unit,
)

ACCEPTED = tuple(case for case in casefile.all_cases() if case.accepted)
UNGUARDED = "a cast in a condition is total"
"""The case whose plain form raises on the data: law 1 says nothing of it."""
TRIPLES = 10_000
PARTS = 6
"""Tests among which the cases of law 3 are divided."""
NORM = Fraction(5, 2)
"""What is found of contributions without limits: it cuts most units, and not at whole rows."""
LAW_TWO_PARTS = 9
"""Tests among which the claims of law 2 are divided."""
SHARE = 8
"""Of the ordinary units, each case is compared on one in so many, in turn."""


def prepared(
    case: Case, policy: Policy, engine: PlainEngine, norm: Fraction | None = None
) -> Prepared:
    budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
    dialect = case.setting("dialect", "duckdb")
    return compiled(case.sql, policy, engine, dialect=dialect, budget=budget, norm=norm)


class Guarded(PlainEngine):
    """An engine that gives no row of a private table (law 3)."""

    def rows(self, sql: str) -> Any:
        private = (table.name for table in shop()[0].tables if table.private)
        assert not any(f'"{name}"' in sql for name in private), sql
        return super().rows(sql)


@cache
def over_the_shop(case: Case) -> Prepared:
    return prepared(case, shop()[0], guarded_shop())


@cache
def guarded_shop() -> Guarded:
    return Guarded(shop()[1].connection)


def private(policy: Policy, cases: Iterable[Case] = ACCEPTED) -> Iterator[tuple[Case, Prepared]]:
    """The cases that release something, compiled without any private row (law 3)."""
    compiled_over_nobody = over_nobody(policy)
    for case in cases:
        plan = compiled_over_nobody(case)
        if plan is not None and measures(plan):
            yield case, plan


@cache
def over_nobody(policy: Policy) -> Callable[[Case], Prepared | None]:
    """A case at a norm that cuts; without constraints a few proofs, and so cases, fail."""

    @cache
    def plan(case: Case) -> Prepared | None:
        try:
            return prepared(case, policy, guarded(world.empty), NORM)
        except Refused:
            assert all(fact.voucher is Voucher.CHECK for fact in policy.facts), case.id
            return None

    return plan


@cache
def guarded(made: Callable[[], world.Tables]) -> Guarded:
    return Guarded(world.build(made(), constraints=False))


def measures(plan: Prepared) -> bool:
    blocks = () if plan.plan is None else plan.plan.blocks
    return any(block.queries or block.choices for block in blocks)


# --- law 1: noise off and bounds wide, the answer is the plain engine's -------------------------


def comparable(case: Case) -> bool:
    words = "DIFFERENTIAL_PRIVACY", "SAMPLE_AGGREGATE", "WITHIN_RANGES"
    ours = any(word in case.sql for word in words)
    standard = not ours and case.title != UNGUARDED
    return standard and case.setting("dialect", "duckdb") == "duckdb" and case.holds_here


COMPARABLE = [case for case in ACCEPTED if comparable(case)]


@pytest.mark.parametrize("case", COMPARABLE, ids=lambda case: case.id)
def test_without_noise_the_answer_is_the_plain_one(case: Case) -> None:
    """Where bounds do not bind; where no cut is told of, whatever the data hold.

    Law 6 looks at the same integers.
    """
    plan, remembering = over_the_shop(case), RememberingEngine(shop()[1].connection)
    for engine in (remembering, *([exceeding()] if silent(plan) else [])):
        ours, errors = noiseless(plan, engine)
        assert same_rows(ours, errors, engine.rows(case.sql))
    assert not keys_beyond(plan, remembering)


@cache
def exceeding() -> PlainEngine:
    """Data in which everything but keys and links is beyond what the policy declares."""
    return over(world.exceeding(), constraints=True)[1]


def silent(prepared: Prepared) -> bool:
    """Whether a plan tells of nothing that it leaves out, groups too small to show aside."""
    told = Assumed | NoRows | Clipped | FewValues | Sampled | Listed
    return not any(isinstance(n, told) for n in prepared.notices)


@pytest.mark.full("measures neighbours or further data sets")
def test_most_cuts_are_seen_in_data_beyond_the_bounds() -> None:
    """The wrong twin: plans that told of no cut would be found out."""
    cut = [case for case in COMPARABLE[::24] if not silent(over_the_shop(case))]
    wrong = 0
    for case in cut:
        try:
            plain = exceeding().rows(case.sql)
        except duckdb.Error:  # what the plain query fails on cannot be compared
            continue
        ours, errors = noiseless(over_the_shop(case), exceeding())
        wrong += not same_rows(ours, errors, plain)
    assert wrong > len(cut) / 2


def test_a_wrong_answer_would_be_seen() -> None:
    policy, engine = shop()
    case = next(c for c in ACCEPTED if c.title == "sum of a column with declared bounds")
    ours, errors = noiseless(prepared(case, policy, engine), engine)
    assert not same_rows(ours, errors, engine.rows(case.sql.replace("amount", "amount + 1")))
    assert not same_rows([], [], engine.rows(case.sql))


def test_a_dropped_filter_would_be_seen() -> None:
    policy, engine = shop()
    case = next(c for c in ACCEPTED if c.title == "filtered count")
    plan = prepared(case, policy, engine)
    assert plan.plan is not None
    sql = plan.rewritten.blocks[0]
    dropped = replace(sql, sql=sql.sql.replace(" FILTER (WHERE x0)", ""))
    assert dropped.sql != sql.sql
    broken = replace(plan, rewritten=replace(plan.rewritten, blocks=(dropped,)))
    ours, errors = noiseless(broken, engine)
    assert not same_rows(ours, errors, engine.rows(case.sql))


# --- law 2: on neighbours the integers differ by at most the claim ------------------------------


def lone_flood() -> world.Tables:
    """Data whose one unit has rows beyond every limit."""
    return {**world.flood(), "customers": [world.customer(7)]}


WORLDS: dict[str, tuple[Callable[[], world.Tables], tuple[str, ...], frozenset[int]]] = {
    "adversarial": (world.adversarial, ("nothing",), frozenset({1, 2, 20})),
    "flood": (world.flood, ("constraints", "nothing"), frozenset({7})),
    "well-behaved": (world.well_behaved, ("constraints", "nothing"), frozenset()),
    "unowned": (world.unowned, ("recorded", "nothing"), frozenset()),
    "lone flood": (lone_flood, ("nothing",), frozenset({7})),
}
"""Data, vouchers, and the units with rows beyond every limit, duplicate keys or a flood.

Proofs lean on constraints or on recorded facts, where the data keeps them, and on nothing; the odd
units are compared on every case.
"""


def violations(
    policies: Sequence[Policy],
    tables: world.Tables,
    odd: frozenset[int],
    damage: Callable[[Prepared], Prepared] = lambda plan: plan,
    part: range = range(1),
) -> Iterator[str | None]:
    """What breaks the claims when any one unit is removed, or None, for each pair compared.

    Of the cases, those whose numbers are `part.start` modulo `part.stop` are compared.
    """
    # Without constraints, whatever the policies lean on: deletions here are transactions.
    engine = PlainEngine(world.build(tables, constraints=False))
    whole = RememberingEngine(engine.connection.cursor())  # it does not see what is not committed
    cases = ACCEPTED[part.start :: part.stop]
    sides: dict[int, tuple[Prepared, list[Counted], list[Noisy]]] = {}
    for place, unit in enumerate(world.units(tables)):
        with without_unit(engine.connection, world.deletions(unit)):
            other = RememberingEngine(engine.connection)
            claims = chain.from_iterable(private(policy, cases) for policy in policies)
            for number, (case, claimed) in enumerate(claims):
                if unit not in odd and (place + number) % SHARE:
                    continue
                if number not in sides:
                    plan = damage(claimed)
                    staged = noiseless_blocks(plan, whole) if plan.rewritten.stages else []
                    sides[number] = plan, integers(plan, whole), staged
                plan, ours, staged = sides[number]
                why = violation(plan, ours, integers(plan, other, staged))
                yield why and f"{case.id}, unit {unit}: {why}"


IN_TURN = "flood", "well-behaved", "unowned"
"""Worlds over each of which the full tier compares one part of the cases, and a campaign all."""


def in_turn(number: int, name: str) -> bool:
    """Whether the full tier compares this part of the cases over this world."""
    return name not in IN_TURN or number == len(IN_TURN) * IN_TURN.index(name)


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(number, name, marks=() if in_turn(number, name) else pytest.mark.campaign)
        for number in range(LAW_TWO_PARTS)
        for name in WORLDS
    ],
)
def test_neighbours_differ_by_no_more_than_claimed(number: int, name: str) -> None:
    """The worlds of a part run one after another: policies are equal, and plans compiled once."""
    made, vouched, odd = WORLDS[name]
    policies = [
        over(made(), constraints=voucher == "constraints", recorded=voucher == "recorded")[0]
        for voucher in vouched
    ]
    assert all(
        policy.facts
        for policy, voucher in zip(policies, vouched, strict=True)
        if voucher != "nothing"
    )
    compared = list(violations(policies, made(), odd, part=range(number, LAW_TWO_PARTS)))
    assert [why for why in compared if why] == []
    assert len(compared) >= TRIPLES / (10 if name == "lone flood" else 4) / LAW_TWO_PARTS


def halved(plan: Prepared) -> Prepared:
    """A sensitivity one step too small."""

    def half(claim: Sensitivity) -> Sensitivity:
        return replace(claim, lower=0, upper=claim.linf // 2)

    def smaller(block: BlockPlan) -> BlockPlan:
        releases = tuple(
            replace(r, payment=replace(r.payment, sensitivity=half(r.sensitivity)))
            for r in block.releases
        )
        return replace(block, releases=releases)

    return _with_blocks(plan, smaller)


def one_group(plan: Prepared) -> Prepared:
    """An L0 of one, whatever the keys."""
    return _with_blocks(plan, lambda block: replace(block, groups=replace(block.groups, value=1)))


def unclipped(plan: Prepared) -> Prepared:
    """The clip of a unit's total forgotten."""
    return _with_sql(
        plan,
        lambda sql: re.sub(r"WHEN (s0 [<>] -?\d+ )", r"WHEN NULL AND \1", sql),
    )


def unsampled(plan: Prepared) -> Prepared:
    """The choice of a unit's groups forgotten."""
    return _with_sql(
        plan, lambda sql: re.sub(r" WHERE place (>=|<) \d+", " WHERE place \\1 1000", sql)
    )


def one_charge(plan: Prepared) -> Prepared:
    """Measurements paid for together that are not bounded together."""

    def joint(block: BlockPlan) -> BlockPlan:
        columns = tuple(release.field.id for release in block.releases)
        first = block.releases[0].payment if columns else None
        one = first and replace(first, noise=first.alone, columns=columns)
        releases = tuple(replace(r, payment=one or r.payment) for r in block.releases)
        return replace(block, releases=releases)

    return _with_blocks(plan, joint)


def every_value(plan: Prepared) -> Prepared:
    """The choice of a unit's distinct values forgotten."""
    return _with_sql(plan, lambda sql: re.sub(r"WHEN len\((s\d+)\) >", "WHEN FALSE AND 0 >", sql))


def _with_blocks(plan: Prepared, change: Callable[[BlockPlan], BlockPlan]) -> Prepared:
    assert plan.plan is not None
    return replace(plan, plan=replace(plan.plan, blocks=tuple(map(change, plan.plan.blocks))))


def _with_sql(plan: Prepared, change: Callable[[str], str]) -> Prepared:
    blocks = tuple(replace(b, sql=change(b.sql)) for b in plan.rewritten.blocks)
    return replace(plan, rewritten=replace(plan.rewritten, blocks=blocks))


FURTHER = pytest.mark.full("measures neighbours or further data sets")


@pytest.mark.parametrize(
    "damage",
    [
        halved,
        one_group,
        *(
            pytest.param(damage, marks=FURTHER)
            for damage in (unclipped, unsampled, one_charge, every_value)
        ),
    ],
)
def test_a_wrong_sensitivity_is_caught(damage: Callable[[Prepared], Prepared]) -> None:
    policy, _ = over(world.flood(), constraints=False)
    assert any(violations([policy], lone_flood(), frozenset({7}), damage))


# --- law 3: nothing but the noise depends on data ------------------------------------------------


@pytest.mark.full("a slice of a campaign")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.campaign) for part in range(1, PARTS))]
)
def test_plans_are_the_same_on_every_database(part: int) -> None:
    """As over the shop: over nobody, and over the oddest rows, in turn.

    No case is compiled over a private row, by the test below: two plans could differ only by what
    the engine says of whole tables.
    """
    policy, _ = shop()
    for number, case in enumerate(ACCEPTED[part::PARTS]):
        engine = guarded((world.empty, world.adversarial)[number % 2])
        assert prepared(case, policy, engine) == over_the_shop(case), case.id


def test_compiling_reads_public_tables_only() -> None:
    """Every case of the shop is compiled over this engine (`test_cases.py`)."""
    with pytest.raises(AssertionError):
        guarded_shop().rows('SELECT note FROM "orders"')


# --- law 6: observed values lie in inferred domains ----------------------------------------------


def keys_beyond(plan: Prepared, engine: PlainEngine) -> set[tuple[Any, ...]]:
    """Observed keys that are in no inferred domain."""
    found: set[tuple[Any, ...]] = set()
    for block, exact in exact_blocks(plan, engine) if measures(plan) else ():
        if block.domain is not None:
            sums, cells = separated(exact, block)
            found |= {*sums.keys, *cells.keys} - set(block.domain)
    return found


@pytest.mark.full("compiles the cases that law 1 leaves out")
def test_observed_keys_are_in_the_domain() -> None:
    """On data that keeps its declarations; what breaks them is dropped (test_neighbours).

    Of the cases of law 1 its test sees to it.
    """
    others = [case for case in ACCEPTED if case not in set(COMPARABLE)]
    assert not any(keys_beyond(over_the_shop(case), shop()[1]) for case in others)


def test_wrong_twin_a_domain_without_an_observed_key_is_found() -> None:
    plan = compiled("SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment", *shop())
    assert not keys_beyond(plan, shop()[1])

    def shortened(block: BlockPlan) -> BlockPlan:
        assert isinstance(block.keys, ListedKeys)
        return replace(block, keys=replace(block.keys, domain=(*block.keys.domain,)[1:]))

    assert len(keys_beyond(_with_blocks(plan, shortened), shop()[1])) == 1


def test_the_schema_of_the_test_world_is_what_the_policy_declares() -> None:
    _, engine = shop()
    names = {table.name for table in declared(engine.rows)}
    assert names == set(world.COLUMNS)
    assert PublicTables(engine, DUCKDB).values("countries", "code") == ["IT", "NO", "SE"]
