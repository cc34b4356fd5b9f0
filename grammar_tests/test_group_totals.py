"""Aggregates over groups of many people: totals of their rows, or a refusal before any charge."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.resolve import group_totals
from dpsql.compiler.track import track
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Request
from dpsql.preparation.offers import find_offer
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled, noiseless, same_rows

UNLIMITED = (
    ("max_rows_per_unit = 50\nmax_groups_per_unit = 3\nmax_rows_per_group = 10\n", ""),
    ("max_groups_per_unit = 4\nmax_rows_per_group = 20\n", ""),
)
"""Limits of orders and items that a drafted policy lacks: they are found for each question."""
KEYS = ("note", "note_length", "quantity % 7, note", "status, note")
"""Group keys of which one is not listed: many people may share a value, or few."""
UNIT_KEYS = ("customer_id, note", "order_id")
VALUES = (
    *("SUM(amount)", "COUNT(*)", "COUNT(discount)", "MIN(amount)", "MAX(quantity)"),
    *("SUM(amount) FILTER (WHERE quantity > 3)", "SUM(amount) / COUNT(*)", "AVG(quantity)"),
)
OUTER = (
    *("AVG(v)", "SUM(v)", "MEDIAN(v)", "STDDEV(v)", "MIN(v)", "MAX(v)", "COUNT(v)", "COUNT(*)"),
    *("SUM(v) / COUNT(*)", "AVG(v) FILTER (WHERE k IS NOT NULL)"),
)
WHERE = ("", " WHERE k IS NOT NULL")
AVERAGE = (
    "SELECT AVG(v) AS x FROM (SELECT note AS k, SUM(amount) AS v FROM orders GROUP BY note) AS t"
)


def random_texts(seed: int, most: int, keys: tuple[str, ...] = KEYS) -> list[str]:
    """Aggregates over GROUP BY, most of whose keys no policy lists."""
    every = [
        f"SELECT {outer} AS x FROM (SELECT {key.split(', ')[-1]} AS k, {value} AS v FROM orders"
        f" GROUP BY {key}) AS t{where}"
        for key, value, outer, where in product(keys, VALUES, OUTER, WHERE)
    ]
    return Random(seed).sample(every, most)  # noqa: S311 - a test's own


def is_true(sql: str, accountant: str = "zcdp") -> bool:
    """Test whether a text is answered as by the plain engine, but for noise, or refused with an
    accepted statement.
    """
    policy, engine = shop()
    budget = replace(BUDGET, accountant=accountant)

    def prepare(request: Request) -> Prepared:
        return compiled(request.sql, policy, engine, budget=budget)

    request = Request(sql, "ana")
    try:
        prepared = prepare(request)
    except Refused as refused:
        return find_offer(request, refused, policy, prepare) is not None
    ours, errors = noiseless(prepared, engine)
    return same_rows(ours, errors, engine.rows(sql))


def charged_without_number(place: Path, texts: list[str]) -> list[str]:
    """Return the texts that are charged and answered with NULL in place of a number."""
    _, engine = shop()
    lost = []
    with Proxy.open(str(place)) as proxy:
        for sql in texts:
            ((true,),) = engine.rows(sql)
            try:
                ((number,),) = proxy.ask(proxy_kit.request(sql, "10")).rows
            except Refused:
                continue
            lost += [sql] if number is None and true is not None else []
    return lost


@pytest.mark.parametrize("sql", [AVERAGE, *random_texts(1, 12)])
def test_groups_of_many_people_are_answered_truly_or_refused(sql: str) -> None:
    assert is_true(sql)


@pytest.mark.full("asks many questions")
@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
def test_more_groups_are_answered_truly_or_refused(accountant: str) -> None:
    assert [sql for sql in random_texts(2, 100) if not is_true(sql, accountant)] == []


@pytest.mark.full("asks many questions")
@pytest.mark.parametrize("limits", [(), UNLIMITED], ids=["limits", "none"])
def test_nothing_is_charged_for_a_number_that_is_missing(
    tmp_path: Path, limits: tuple[tuple[str, str], ...]
) -> None:
    texts = random_texts(3, 40, KEYS + UNIT_KEYS)
    assert charged_without_number(proxy_kit.shop(tmp_path, *limits), texts) == []


def test_wrong_twin_an_average_of_released_groups_is_one_of_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lists_all_keys() -> bool:
        plan = compiled(AVERAGE, *shop()).plan
        return plan is not None and all(block.domain is not None for block in plan.blocks)

    assert lists_all_keys()
    monkeypatch.setattr(track, "require_all_groups", lambda *_: None)
    assert not lists_all_keys()


@pytest.mark.full("asks many questions")
def test_wrong_twin_an_average_of_released_groups_has_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = proxy_kit.shop(tmp_path, *UNLIMITED)
    assert charged_without_number(place, [AVERAGE]) == []
    monkeypatch.setattr(track, "require_all_groups", lambda *_: None)
    assert charged_without_number(place, [AVERAGE]) == [AVERAGE]


def test_wrong_twin_a_group_of_null_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT COUNT(*) AS x FROM (SELECT note FROM orders GROUP BY note) AS t"
    assert is_true(sql)
    monkeypatch.setattr(group_totals, "lacks_null", lambda *_: True)
    assert not is_true(sql)
