"""The vector of moments: a row of any value moves it by no more than one row may, NaN included."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from dpsql.compiler.calibrate import pair_moments
from dpsql.model.tree import Expression, operand
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    integers,
    violation,
    without_unit,
)

VALUES = ("'inf'", "'-inf'", "0.1", "77777.777", "1e300", "-1e-300")


YEAR = "EXTRACT(year FROM joined)"


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize(
    "asked",
    [
        "AVG(income)",
        "AVG(income), VAR_POP(income), COUNT(*)",
        f"COVAR_POP(income, {YEAR})",
        f"CORR(income, {YEAR}), REGR_SLOPE({YEAR}, income), AVG(income), COUNT(*)",
    ],
)
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
        assert 0.99 * claimed <= moved <= claimed, value
        assert violation(prepared, [here], [there]) is None
        halves = tuple(2 * b - a for a, b in zip(here[()], there[()], strict=True))
        there[()] = halves
        assert violation(prepared, [here], [there]) is not None


RANKED = (
    "SELECT {} FROM (SELECT COALESCE(discount, 0.0) AS x, quantity AS y, ROW_NUMBER() OVER ("
    "PARTITION BY customer_id ORDER BY order_id) AS rn FROM orders) AS t WHERE rn <= {}"
)


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("accountant", ["pure", "approximate"])
@pytest.mark.parametrize("asked", ["AVG(x)", "VAR_POP(x)", "COVAR_POP(x, y)", "CORR(x, y)"])
def test_several_rows_of_a_unit_move_a_vector_by_as_many_rows(asked: str, accountant: str) -> None:
    """A unit with rows at both ends: clipped to one row's, its sums would move by two at once."""
    policy, _ = over(world.rivals(), constraints=True)
    engine = PlainEngine(world.build(world.rivals(), constraints=False))
    budget = replace(BUDGET, accountant=accountant)
    claims, moves = {}, {}
    for rows in (1, 4):
        prepared = compiled(RANKED.format(asked, rows), policy, engine, budget=budget)
        assert prepared.plan is not None
        releases = prepared.plan.blocks[0].releases
        assert len(prepared.plan.blocks[0].payments) == 1
        assert not any(release.sensitivity.alone for release in releases)
        claims[rows] = releases[0].sensitivity.linf
        (here,) = integers(prepared, engine)
        with without_unit(engine.connection, world.deletions(7)):
            (there,) = integers(prepared, engine)
        assert violation(prepared, [here], [there]) is None
        moves[rows] = sum(abs(a - b) for a, b in zip(here[()], there[()], strict=True))
    assert claims[4] == 4 * claims[1]
    assert 0.99 * claims[4] <= moves[4] <= claims[4]


def test_polynomials_that_add_up_to_more_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the middle one: it is none of Bernstein's, and a row in the middle adds more than 1."""

    def twice(t: Expression, _degree: int) -> list[Expression]:
        rest = operand(1.0 - t)
        return [rest * rest, 4.0 * (t * rest), t * t]

    monkeypatch.setattr(pair_moments, "_polynomials", twice)
    policy, _ = over(world.well_behaved(), constraints=True)
    engine = PlainEngine(world.build(world.well_behaved(), constraints=False))
    budget = replace(BUDGET, accountant="pure", query_delta=Decimal(0))
    prepared = compiled(
        f"SELECT CORR(income, {YEAR}) FROM customers", policy, engine, budget=budget
    )
    here = integers(prepared, engine)
    seen = 0
    for unit in range(1, 7):
        with without_unit(engine.connection, world.deletions(unit)):
            seen += violation(prepared, here, integers(prepared, engine)) is not None
    assert seen
