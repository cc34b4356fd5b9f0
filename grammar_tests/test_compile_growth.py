"""Compiling twice the text is about twice the work, counted in calls and not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from grammar_tests.bound import shop
from grammar_tests.laws import compiled, parsed

MANY = 40
NEARLY_LINEAR = 2.4
"""Times the calls for twice the text; 4 would be quadratic."""


def listed(item: str) -> Callable[[int], str]:
    return lambda n: ", ".join(item.format(i) for i in range(n))


SHAPES: dict[str, Callable[[int], str]] = {
    "sums": lambda n: f"SELECT {listed('SUM(age + {0}) AS c{0}')(n)} FROM customers",
    "means of private keys": lambda n: (
        f"SELECT city, {listed('AVG(age + {0}) AS c{0}')(n)} FROM customers GROUP BY city"
    ),
    "filters": lambda n: (
        f"SELECT {listed('COUNT(*) FILTER (WHERE age > {0}) AS c{0}')(n)} FROM customers"
    ),
    "values": lambda n: f"SELECT COUNT(*) FROM customers WHERE age IN ({listed('{0}')(n)})",
    "branches": lambda n: (
        "SELECT SUM(CASE "
        + " ".join(f"WHEN age = {i} THEN {i}" for i in range(n))
        + " ELSE 0 END) FROM customers"
    ),
    "outputs": lambda n: (
        f"SELECT {listed('n + {0} AS c{0}')(n)} FROM"
        " (SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) t"
    ),
}


def calls(sql: str) -> int:
    """How many Python functions are called to compile a statement."""
    policy, engine = shop()
    parsed.cache_clear()
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        compiled(sql, policy, engine)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.full("processes are started and killed")
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_text_is_twice_the_work(shape: str) -> None:
    written = SHAPES[shape]
    calls(written(2))  # what is computed once and kept
    assert calls(written(2 * MANY)) <= NEARLY_LINEAR * calls(written(MANY))


def test_four_times_the_work_is_seen() -> None:
    """The wrong twin: what quadratic work for twice the text would be."""
    written = SHAPES["sums"]
    assert calls(written(2 * MANY)) > NEARLY_LINEAR * calls(written(MANY // 2))
