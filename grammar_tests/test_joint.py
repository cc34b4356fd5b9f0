"""The vector of moments: a row of any value moves it by no more than one row may, NaN included."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import BUDGET, compiled, integers, violation

VALUES = ("'nan'", "'inf'", "'-inf'", "0.1", "77777.777", "1e300", "-1e-300")


@pytest.mark.parametrize("asked", ["AVG(income)", "AVG(income), VAR_POP(income), COUNT(*)"])
def test_one_row_moves_a_vector_by_one_row(asked: str) -> None:
    policy, engine = over(world.well_behaved(), constraints=True)
    engine.connection.execute("CREATE TABLE copied AS FROM customers LIMIT 1")
    budget = replace(BUDGET, accountant="pure", query_delta=Decimal(0))
    prepared = compiled(f"SELECT {asked} FROM customers", policy, engine, budget=budget)
    assert prepared.plan is not None
    claimed = prepared.plan.blocks[0].releases[0].sensitivity.linf
    (here,) = integers(prepared, engine)
    for value in VALUES:
        engine.connection.execute("BEGIN")
        engine.connection.execute(
            f"INSERT INTO customers SELECT * REPLACE (987654 AS customer_id, {value}::DOUBLE"
            " AS income) FROM copied"
        )
        (there,) = integers(prepared, engine)
        engine.connection.execute("ROLLBACK")
        moved = sum(abs(b - a) for a, b in zip(here[()], there[()], strict=True))
        assert 0.99 * claimed <= moved <= claimed, value  # a row of NaN counts too
        assert violation(prepared, [here], [there]) is None
        halves = tuple(2 * b - a for a, b in zip(here[()], there[()], strict=True))
        there[()] = halves
        assert violation(prepared, [here], [there]) is not None
