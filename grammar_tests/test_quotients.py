"""Quotients without bounds: clipped to public ends, and searched for smaller ones (R115)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpsql.compiler.infer import infer
from dpsql.model.intervals import Interval
from dpsql.model.notices import Clipped
from dpsql.model.vocabulary import Policy
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

SHARE = "SELECT SUM(amount / quantity) AS s FROM orders"
OF_PEOPLE = """SELECT AVG(paid / bought) AS s FROM (SELECT customer_id, SUM(amount) AS paid,
SUM(quantity) AS bought FROM orders GROUP BY customer_id) AS t WHERE bought <> 0"""
LAST = ("DELETE FROM orders WHERE customer_id = 1",)


@pytest.fixture
def shop() -> tuple[Policy, PlainEngine]:
    """A shop in which the first customer has paid for an order of nothing."""
    policy, engine = over(world.well_behaved(), constraints=False)
    engine.connection.execute("UPDATE orders SET amount = 5, quantity = 0 WHERE customer_id = 1")
    return policy, engine


def is_moved_too_far(policy: Policy, engine: PlainEngine, clip: Interval, claim: Interval) -> bool:
    """Test for a unit that moves integers, clipped to one range, farther than another one says."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(infer, "QUOTIENTS", clip)
        sent = compiled(SHARE, policy, engine)
        patched.setattr(infer, "QUOTIENTS", claim)
        said = compiled(SHARE, policy, engine)
    assert sent.plan is not None
    assert said.plan is not None
    mixed = replace(sent, plan=replace(sent.plan, blocks=said.plan.blocks))
    here = integers(mixed, engine)
    with without_unit(engine.connection, LAST):
        return violation(mixed, here, integers(mixed, engine)) is not None


def test_a_division_by_zero_is_clipped(shop: tuple[Policy, PlainEngine]) -> None:
    assert not is_moved_too_far(*shop, infer.QUOTIENTS, infer.QUOTIENTS)


def test_wrong_twin_the_noise_is_for_smaller_quotients(shop: tuple[Policy, PlainEngine]) -> None:
    least = Interval(Fraction(-1, 2**20), Fraction(1, 2**20))
    assert is_moved_too_far(*shop, infer.QUOTIENTS, least)


@pytest.mark.parametrize("sql", [SHARE + " WHERE quantity <> 0", OF_PEOPLE])
def test_the_answer_without_noise_is_the_plain_one(
    sql: str, shop: tuple[Policy, PlainEngine]
) -> None:
    policy, engine = shop
    ((ours,),), _ = noiseless(compiled(sql, policy, engine, norm=Fraction(10**6)), engine)
    ((plain,),) = engine.rows(sql)
    assert ours == pytest.approx(plain, rel=1e-6)


def test_the_answer_says_to_what_quotients_are_clipped(shop: tuple[Policy, PlainEngine]) -> None:
    notices = compiled(SHARE, *shop).notices
    (values,) = (notice.values for notice in notices if isinstance(notice, Clipped))
    assert values == ((-(2**30), 2**30),)
