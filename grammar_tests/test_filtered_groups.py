"""Conditions on the keys of released groups: of what was paid for, some rows are free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpsql.compiler.infer import infer
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.resolve.key_filters import behind_groups
from dpsql.model.algebra import Filter, Project, Relation
from dpsql.proxy import Proxy
from grammar_tests.bound import CATALOGS, bound_by
from grammar_tests.fuzz_checks import Verdict, law_one
from grammar_tests.laws import compiled
from grammar_tests.proxy_kit import request, shop

BY_SEGMENT = "SELECT segment, vip, COUNT(*) AS n FROM customers{} GROUP BY segment, vip{}"
SOME_GROUPS = [
    (" WHERE segment = 'consumer'", ""),
    (" WHERE segment IN ('business') AND vip", ""),
    (" WHERE NOT vip OR segment = 'business'", " HAVING COUNT(*) > 0 ORDER BY n DESC"),
    (" WHERE vip IS NULL", ""),
]
OTHER_GROUPS = [
    BY_SEGMENT.format(" WHERE segment = 'consumer' AND age > 30", ""),
    "SELECT segment, COUNT(*) FROM customers WHERE vip GROUP BY segment",
    "SELECT UPPER(segment), COUNT(*) FROM customers WHERE segment = 'business' GROUP BY 1",
]
"""A condition on what is no key."""


def plainly(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=str)


@pytest.mark.full("opens a proxy for each item")
def test_conditions_on_keys_of_released_groups_are_free(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy:
        every = proxy.ask(request(BY_SEGMENT.format("", "")))
        margins = dict(zip(map(tuple, every.rows), every.margins, strict=True))
        for where, order in SOME_GROUPS:
            some = proxy.ask(request(BY_SEGMENT.format(where, order)))
            assert some.receipt is not None
            assert some.receipt.remembered
            for row, margin in zip(map(tuple, some.rows), some.margins, strict=True):
                assert margins[row] == margin
        left = proxy.ask(request(BY_SEGMENT.format(*SOME_GROUPS[0])))
        assert plainly(left.rows) == plainly(r for r in every.rows if r[0] == "consumer")
        for sql in OTHER_GROUPS:
            other = proxy.ask(request(sql))
            assert other.receipt is not None
            assert not other.receipt.remembered


def widest(prepared: Prepared) -> Prepared:
    return prepared.wider[-1]


OF_GROUPS = [
    *(BY_SEGMENT.format(*words) for words in SOME_GROUPS[:3]),
    (
        "SELECT status, SUM(quantity), COUNT(*) FROM orders WHERE status <> 'paid' AND quantity > 1"
        " GROUP BY status"
    ),
    (
        "SELECT UPPER(segment) AS s, COUNT(*) FROM customers WHERE vip"
        " AND UPPER(segment) = 'BUSINESS' GROUP BY UPPER(segment)"
    ),
    "SELECT status, COUNT(*), SUM(COUNT(*)) OVER () FROM orders WHERE status > 'open' GROUP BY 1",
]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("number", [3, 9])
def test_of_more_groups_the_same_are_answered(number: int) -> None:
    for sql in OF_GROUPS:
        assert law_one(sql, number, widest) is not Verdict.REFUSED


def test_a_condition_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetting(relation: Relation) -> Relation | None:
        behind = behind_groups(relation)
        assert isinstance(behind, Project)
        assert isinstance(behind.input, Filter)
        return replace(behind, input=behind.input.input)

    monkeypatch.setattr("dpsql.preparation.prepare.behind_groups", forgetting)
    with pytest.raises(AssertionError):
        law_one(OF_GROUPS[3], 9, widest)


@pytest.mark.full("opens a proxy for each item")
def test_groups_that_a_condition_leaves_out_are_not_there_to_be_paid_for(tmp_path: Path) -> None:
    """The other way round nothing is free: some of the groups are not all of them."""
    with Proxy.open(str(shop(tmp_path))) as proxy:
        proxy.ask(request(BY_SEGMENT.format(*SOME_GROUPS[0])))
        every = proxy.ask(request(BY_SEGMENT.format("", "")))
        assert every.receipt is not None
        assert not every.receipt.remembered


# --- parts of times without bounds ---------------------------------------------------------------

PARTS = [
    "EXTRACT(month FROM placed_at)",
    "EXTRACT(hour FROM placed_at)",
    "EXTRACT(month FROM placed_at + INTERVAL 3 DAY)",
    "DAYNAME(DATE_TRUNC('week', placed_at))",
    "EXTRACT(dow FROM CAST(placed_at AS DATE))",
]


def keys_of_part(part: str, declared: str) -> set[Any]:
    """The listed groups by a part of a time that is declared so."""
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    bounds = "placed_at = { bounds = [2024-01-01T00:00:00, 2025-12-31T23:59:59] }"
    assert bounds in text
    policy, engine = bound_by(text.replace(bounds, f"placed_at = {declared}"))
    domains: list[set[Any]] = []
    for sql in (
        f"SELECT {part} AS k, COUNT(*) AS n FROM orders GROUP BY k",
        f"SELECT k, COUNT(*) AS n FROM (SELECT {part} AS k FROM orders) AS t GROUP BY k",
    ):
        (block,) = compiled(sql, policy, engine).blocks
        domains.append({key for (key,) in block.domain or ()})
    direct, nested = domains
    assert direct == nested
    return direct


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("part", PARTS)
def test_a_time_that_is_never_null_has_no_group_of_null(part: str) -> None:
    listed = keys_of_part(part, "{}")
    assert None not in listed
    assert keys_of_part(part, "{ nullable = true }") == {*listed, None}


def test_an_infinite_time_would_have_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer._Block, "_finite", lambda block: block.rows)
    assert None in keys_of_part(PARTS[0], "{}")
