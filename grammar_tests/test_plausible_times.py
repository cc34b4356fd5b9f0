"""Dates and times without bounds: clipped to public days where an aggregate needs ends (R24)."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.compiler.infer import infer
from dpsql.compiler.infer.column_facts import FactSource
from dpsql.compiler.plan.measurement_kinds import RangeVote
from dpsql.compiler.plan.private_plan import FoundNorm, Poll, PrivateBlock
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.vocabulary import Policy
from dpsql.policy.load import load
from grammar_tests import laws, proxy_kit, world
from grammar_tests.bound import over
from grammar_tests.laws import (
    PlainEngine,
    compiled,
    integers,
    noiseless,
    violation,
    without_unit,
)
from grammar_tests.test_contribution_bounds import crowd
from grammar_tests.test_contribution_bounds import shop as shop_of

DAYS = (date(1900, 1, 1), date(2199, 12, 31))
AGE = "DATE_DIFF('hour', placed_at, TIMESTAMP '2024-06-01')"
STAY = f"SELECT AVG({AGE}) AS h, MIN(placed_at) AS first FROM orders"
MONTHS = f"SELECT DATE_TRUNC('month', placed_at) AS m, AVG({AGE}) AS h FROM orders GROUP BY 1"


def without_bounds(policy: Policy, days: tuple[date, date] | None) -> Policy:
    """The policy in which no time has bounds, but these days."""
    tables = [
        replace(
            table,
            times=days,
            columns=tuple(
                replace(c, bounds=None) if c.type.is_temporal else c for c in table.columns
            ),
        )
        for table in policy.tables
    ]
    return replace(policy, tables=tuple(tables))


@pytest.fixture
def shop() -> tuple[Policy, PlainEngine]:
    policy, engine = over(world.adversarial(), constraints=False)
    return without_bounds(policy, DAYS), engine


def test_averages_and_extremes_of_times_need_no_bounds(shop: tuple[Policy, PlainEngine]) -> None:
    policy, engine = shop
    assert compiled(STAY, policy, engine).plan is not None
    with pytest.raises(Refused) as near_miss:
        compiled(STAY, without_bounds(policy, None), engine)
    assert near_miss.value.reason is Reason.UNBOUNDED_INPUT


def unlisted(policy: Policy, engine: PlainEngine) -> bool:
    """Whether months have private keys, rather than 3,600 listed ones."""
    plan = compiled(MONTHS, policy, engine).plan
    assert plan is not None
    return plan.blocks[0].domain is None


def test_no_key_is_listed_by_these_days(shop: tuple[Policy, PlainEngine]) -> None:
    assert unlisted(*shop)


def test_keys_of_these_days_would_be_listed(
    shop: tuple[Policy, PlainEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong twin: keys read the days too."""

    def block(block: PrivateBlock, policy: Policy, public: object, evaluate: object) -> object:
        origin = FactSource(policy, public, evaluate, 4000, clips=True)  # type: ignore[arg-type]
        return infer._Block(block, origin)

    monkeypatch.setattr(infer, "_block", block)
    assert not unlisted(*shop)


def moved(policy: Policy, engine: PlainEngine) -> bool:
    """Whether a unit of rows in the years 1 and 9999 moves an integer too far."""
    prepared = compiled(STAY, policy, engine)
    here = integers(prepared, engine)
    deletions = ("DELETE FROM orders WHERE customer_id = 1",)
    with without_unit(engine.connection, deletions):
        return violation(prepared, here, integers(prepared, engine)) is not None


def test_times_outside_of_the_days_are_clipped(shop: tuple[Policy, PlainEngine]) -> None:
    policy, engine = shop
    engine.connection.execute(
        "UPDATE orders SET placed_at = TIMESTAMP '9999-12-31' WHERE customer_id = 1"
    )
    assert not moved(policy, engine)


def test_days_that_are_trusted_are_caught(shop: tuple[Policy, PlainEngine]) -> None:
    """Wrong twin: the noise is for fewer days than the clip keeps."""
    policy, engine = shop
    engine.connection.execute(
        "UPDATE orders SET placed_at = TIMESTAMP '9999-12-31' WHERE customer_id = 1"
    )
    wide = compiled(STAY, without_bounds(policy, (date(1, 1, 1), date(9999, 12, 31))), engine)
    assert wide.plan is not None
    narrow = compiled(STAY, policy, engine)
    assert narrow.plan is not None
    mixed = replace(wide, plan=replace(wide.plan, blocks=narrow.plan.blocks))
    here = integers(mixed, engine)
    with without_unit(engine.connection, ("DELETE FROM orders WHERE customer_id = 1",)):
        assert violation(mixed, here, integers(mixed, engine)) is not None


SINCE = "DATE_DIFF('hour', day, DATE '2024-06-01')"
RANK = f"SELECT QUANTILE_DISC({SINCE}, 0.3) AS q FROM logins"
SPREAD = f"SELECT VAR_POP({SINCE}) AS v FROM logins"


def is_plain(sql: str, norm: int) -> bool:
    """Whether a number of logins on days without bounds is the plain one, without any noise."""
    policy, engine = shop_of(crowd(8, most=4))
    found = compiled(sql, without_bounds(policy, DAYS), engine, norm=Fraction(norm))
    ((ours,),), _ = noiseless(found, engine)
    ((plain,),) = engine.rows(sql)
    return bool(ours == pytest.approx(plain, rel=1e-6))


@pytest.mark.parametrize(("sql", "norm"), [(RANK, 10**4), (SPREAD, 10**16)])
def test_numbers_that_these_days_bound_have_a_fine_grid(
    sql: str, norm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong twin: numbers of three centuries count as bounded, and are rounded to their grid."""
    assert is_plain(sql, norm)
    monkeypatch.setattr(infer, "LONGEST", 1 << 40)
    assert not is_plain(sql, norm)


@pytest.mark.parametrize(
    ("sql", "days", "searched"),
    [(RANK, DAYS, True), (RANK, None, False), (RANK.replace("hour", "year"), DAYS, False)],
    ids=["long", "declared", "short"],
)
def test_only_long_numbers_of_days_without_bounds_are_searched(
    sql: str,
    days: tuple[date, date] | None,
    monkeypatch: pytest.MonkeyPatch,
    *,
    searched: bool,
) -> None:
    votes, find = [], laws.found

    def found(poll: Poll, norm: Fraction) -> FoundNorm:
        votes.append(poll.block.vote)
        return find(poll, norm)

    monkeypatch.setattr(laws, "found", found)
    policy, engine = shop_of(crowd(8))
    compiled(sql, without_bounds(policy, days) if days else policy, engine, norm=Fraction(10**4))
    assert any(isinstance(vote, RangeVote) for vote in votes) == searched


@pytest.mark.parametrize(
    "wrong", ["[1900-01-01]", '["1900-01-01", "2000-01-01"]', "[2000-01-01, 1900-01-01]", "1900"]
)
def test_days_that_make_no_sense_are_refused(wrong: str, tmp_path: Path) -> None:
    change = ("[tables.orders.columns]", f"times = {wrong}\n[tables.orders.columns]")
    with pytest.raises(PolicyError, match="times are two days"):
        load(str(proxy_kit.policy(tmp_path, change)))
