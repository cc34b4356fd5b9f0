"""Terms that are computed once: the same values and errors, to the last bit, in less SQL."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite import common_terms
from dpsql.compiler.rewrite import rewrite as step
from dpsql.compiler.rewrite.common_terms import once
from dpsql.mechanisms.laws import Law
from dpsql.model.algebra import Field, Project, Released
from dpsql.model.tree import DOUBLE, Call, Expression, Literal, Ref
from dpsql.model.vocabulary import Loss, Receipt
from dpsql.release.finish import finish
from dpsql.release.release import release
from grammar_tests.bound import shop
from grammar_tests.laws import compiled, exact_blocks, the_best

QUESTIONS = (
    "SELECT segment, AVG(age) AS a, VAR_POP(age) AS v, COUNT(*) AS n FROM customers GROUP BY 1",
    "SELECT CORR(age, income) AS c, REGR_SLOPE(age, income) AS s FROM customers",
    "SELECT country, SUM(age) / NULLIF(COUNT(*), 0) AS m FROM customers GROUP BY 1 ORDER BY m, 1",
    """SELECT status, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY status) AS r FROM orders
    GROUP BY status ORDER BY n * n + n DESC, status LIMIT 2""",
    """SELECT country, a * a + a AS b FROM (SELECT country, AVG(age) AS a FROM customers
    GROUP BY country) AS t WHERE a > 10 ORDER BY b DESC""",
    "SELECT segment, AVG(age) AS a, DP_STDDEV(a) / a AS e FROM customers GROUP BY segment",
)


def noise(_law: Law, count: int) -> np.ndarray:
    """As good as any, and the same each time."""
    return (np.arange(count, dtype=np.int64) * 7 + 3) % 11 - 5


def answered(sql: str) -> tuple[list[tuple[str, ...]], Prepared]:
    """Rows and errors to the last bit."""
    policy, engine = shop()
    prepared = compiled(sql, policy, engine)
    assert prepared.plan is not None
    blocks = exact_blocks(prepared, engine)
    noisy = [release(exact, block, noise, the_best) for block, exact in blocks]
    receipt = Receipt("", "", "", "", Decimal(1), Loss(0), Loss(0), Loss(0))
    made = finish(prepared.plan, prepared.rewritten, noisy, engine.rows, engine.scratch, receipt)
    return [tuple(map(repr, row)) for row in (*made.rows, *made.errors)], prepared


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", QUESTIONS)
def test_values_and_errors_are_those_of_the_terms_written_out(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, ours = answered(sql)
    monkeypatch.setattr(step, "computed_once", lambda relation, _: relation)
    monkeypatch.setattr(step, "once", lambda relation, outputs, _: (relation, outputs))
    written, theirs = answered(sql)
    assert shared == written
    assert len(ours.rewritten.outer_sql) < len(theirs.rewritten.outer_sql)
    assert [b.sql for b in ours.rewritten.blocks] == [b.sql for b in theirs.rewritten.blocks]
    assert ours.question == theirs.question


COUNTS = "(SELECT country, COUNT(*) AS n FROM customers GROUP BY country) AS t"
COPIED = (
    (f"SELECT region, n FROM {COUNTS} JOIN countries AS k ON k.code = t.country", [2]),
    (f"SELECT n FROM {COUNTS} JOIN countries AS k ON k.code = t.country", [1]),
    (f"SELECT n FROM {COUNTS} CROSS JOIN countries AS k", [1]),
    (f"SELECT country FROM {COUNTS} UNION SELECT region FROM countries", [1]),
    (f"SELECT region, n FROM {COUNTS} JOIN (SELECT DISTINCT * FROM countries) AS k ON n > 1", [1]),
)


@pytest.mark.parametrize(("sql", "columns"), COPIED)
def test_of_public_tables_what_is_read_is_copied(
    sql: str, columns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, ours = answered(sql)
    monkeypatch.setattr(step, "of_columns_read", lambda relation, _: relation)
    every, theirs = answered(sql)
    assert sorted(rows) == sorted(every)
    assert [len(t.columns) for t in ours.rewritten.tables if t.public_sql] == columns
    copied = [len(t.columns) for t in theirs.rewritten.tables if t.public_sql]
    assert copied >= columns
    assert ours.question == theirs.question


def test_wrong_twin_terms_that_are_taken_for_one_another_change_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right, _ = answered(QUESTIONS[0])
    number = common_terms._Terms.number

    def careless(self: common_terms._Terms, expression: Expression) -> int:
        if isinstance(expression, Literal) and isinstance(expression.value, float):
            expression = Literal(1.0, expression.type)
        return number(self, expression)

    monkeypatch.setattr(common_terms._Terms, "number", careless)
    wrong, _ = answered(QUESTIONS[0])
    assert wrong != right


N = Ref(1, DOUBLE)
TABLE = Released(0, (Field(1, "n", DOUBLE), Field(2, "m", DOUBLE)))


def call(function: str, *args: Expression) -> Call:
    return Call(function, args, DOUBLE)


def test_zeros_of_different_sign_and_numbers_of_different_type_are_different_terms() -> None:
    terms = [call("div", N, Literal(zero, DOUBLE)) for zero in (0.0, -0.0)]
    below, written = once(TABLE, [call("least", *terms), call("greatest", *terms)], Identities())
    assert isinstance(below, Project)
    items = {item.field.id: item.expression for item in below.items}
    shown = {repr(arg) for output in written for arg in getattr(output, "args", ())}
    assert len(shown) == 2
    assert sorted(map(repr, items.values())) == sorted(map(repr, terms))


def test_what_is_written_once_stays_where_it_is() -> None:
    outputs = (call("div", call("add", N, N), Ref(2, DOUBLE)), N)
    assert once(TABLE, outputs, Identities()) == (TABLE, outputs)


def test_terms_of_constants_and_single_conversions_are_no_columns() -> None:
    constant = call("add", Literal(1.0, DOUBLE), Literal(2.0, DOUBLE))
    outputs = (call("mul", constant, N), call("sub", constant, N))
    assert once(TABLE, outputs, Identities()) == (TABLE, outputs)


@pytest.mark.full("draws random questions or values")
def test_a_long_chain_of_terms_is_not_as_many_projections() -> None:
    chain: list[Expression] = [call("add", N, Ref(2, DOUBLE))]
    for n in range(200):
        chain.append(call("add", chain[-1], Literal(float(n), DOUBLE)))
    below, _ = once(TABLE, chain, Identities())
    depth = 0
    while isinstance(below, Project):
        below, depth = below.input, depth + 1
    assert depth == common_terms._DEEPEST
