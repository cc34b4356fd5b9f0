"""The owner's floor on private keys: no group of fewer units, whatever the mechanism."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ThresholdKeys
from dpsql.model.errors import Reason, Refused
from dpsql.model.resources import Limits
from dpsql.model.vocabulary import Policy
from dpsql.proxy import Proxy
from grammar_tests.bound import shop
from grammar_tests.keys_kit import key_trials_of, threshold_of
from grammar_tests.laws import BUDGET, PlainEngine, compiled
from grammar_tests.proxy_kit import request
from grammar_tests.proxy_kit import shop as shop_on_disk

OPTION = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = {}) "
COUNTS = "city, COUNT(*) AS n FROM customers GROUP BY city"
KEYS = "DISTINCT city FROM customers"
MANY = 500
"""More than any threshold asks for by itself."""


def floored(floor: int) -> tuple[Policy, PlainEngine]:
    policy, engine = shop()
    return replace(policy, limits=Limits(min_units_per_group=floor)), engine


def block(sql: str, floor: int, accountant: str = "zcdp") -> BlockPlan:
    plan = compiled(sql, *floored(floor), budget=replace(BUDGET, accountant=accountant)).plan
    assert plan is not None
    return plan.blocks[0]


@pytest.mark.parametrize("accountant", ["zcdp", "approximate"])
@pytest.mark.parametrize("asked", [COUNTS, KEYS])
def test_no_smaller_group_is_shown(asked: str, accountant: str) -> None:
    for sql, floor in ((f"SELECT {asked}", MANY), (OPTION.format(MANY) + asked, 1)):
        found = block(sql, floor, accountant)
        assert threshold_of(found).value == MANY


def test_trials_are_shifted_by_a_small_floor() -> None:
    free, found = (key_trials_of(block(f"SELECT {KEYS}", floor, "approximate")) for floor in (1, 2))
    assert found == replace(free, floor=2)


def test_a_floor_below_the_threshold_changes_nothing() -> None:
    two, one = (threshold_of(block(f"SELECT {COUNTS}", floor)) for floor in (2, 1))
    assert two == one


def test_an_option_can_only_raise_the_floor() -> None:
    for floor in (MANY, MANY + 1):
        keys = block(OPTION.format(floor) + COUNTS, MANY).keys
        assert isinstance(keys, ThresholdKeys)
        assert keys.floor == floor
    with pytest.raises(Refused) as refusal:
        block(OPTION.format(MANY - 1) + COUNTS, MANY)
    assert refusal.value.reason is Reason.BAD_OPTION


def test_another_floor_is_another_question() -> None:
    asked = {
        compiled(sql + COUNTS, *floored(floor)).question
        for sql, floor in (("SELECT ", 1), ("SELECT ", 7), (OPTION.format(9), 7))
    }
    assert len(asked) == 3
    same = compiled(OPTION.format(7) + COUNTS, *floored(1)).question
    assert same == compiled(f"SELECT {COUNTS}", *floored(7)).question


@pytest.mark.full("opens a proxy for each item")
def test_the_policy_says_it_and_explain_shows_it(tmp_path: Path) -> None:
    limits = ("max_public_groups = 1000", f"min_units_per_group = {MANY}")
    with Proxy.open(str(shop_on_disk(tmp_path / "floor", limits))) as proxy:
        version = proxy.policy.version
        plan = proxy.explain(request(f"SELECT {COUNTS}"))
        assert f"reaches {MANY} (δ" in plan.blocks[0].keys
        assert proxy.ask(request(f"SELECT {COUNTS}")).rows == ()
    with Proxy.open(str(shop_on_disk(tmp_path / "free"))) as proxy:
        assert proxy.policy.version != version


@pytest.mark.full("opens a proxy for each item")
def test_explain_says_how_keys_are_shown_and_what_was_second(tmp_path: Path) -> None:
    accountant = ('accountant = "zcdp"', 'accountant = "approximate"')
    with Proxy.open(str(shop_on_disk(tmp_path / "approximate", accountant))) as proxy:
        keys = proxy.explain(request(f"SELECT {KEYS}")).blocks[0].keys
    assert keys.startswith("city: private keys; a key of 14 units is shown every other time")
    assert "otherwise: a key is shown if its noisy unit count reaches 16" in keys
    with Proxy.open(str(shop_on_disk(tmp_path / "zcdp"))) as proxy:
        keys = proxy.explain(request(f"SELECT {KEYS}")).blocks[0].keys
    assert keys.startswith("city: private keys; a key is shown if its noisy unit count reaches 2")
    assert "otherwise: a key of" in keys
