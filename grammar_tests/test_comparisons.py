"""Comparisons with constants on either side: what follows from them, counted on the data."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import duckdb
import pytest

from dpsql import functions
from dpsql.model import comparisons
from dpsql.model.comparisons import MIRRORED, TRUE_IF, against_constant
from dpsql.model.intervals import Facts
from dpsql.model.tree import BOOLEAN, INTEGER, Call, Expression, Literal, Ref
from dpsql.model.vocabulary import Policy
from grammar_tests import world
from grammar_tests.bound import over, shop
from grammar_tests.laws import PlainEngine, compiled, noiseless, same_rows
from grammar_tests.proofs import Counting, claims_of

SIGNS = {"lt": "<", "le": "<=", "eq": "=", "ne": "<>", "ge": ">=", "gt": ">"}
CONSTANTS = (-1, 0, 1, 2)
COMPARED = tuple(
    text
    for sign in SIGNS.values()
    for k in CONSTANTS
    for text in (f"{{x}} {sign} {k}", f"{k} {sign} {{x}}")
)
CONDITIONS = (
    *COMPARED,
    *(f"NOT ({text})" for text in COMPARED),
    *(f"{{x}}{no} BETWEEN {a} AND {b}" for no in ("", " NOT") for a in (0, 1) for b in (1, 2)),
    *(f"{k} BETWEEN {{x}} AND {{x}} + 1" for k in CONSTANTS),
    *("1 BETWEEN {x} AND 3", "2 BETWEEN 1 AND {x}", "{x} IN (1)", "{x} IN (1, 2)", "1 IN ({x})"),
    *("{x} = 1 OR FALSE", "{x} = 1 OR 1 = {x}", "{x} <= 1.5", "1.5 >= {x}", "{x} < 1e0", "1 = 1"),
    *(
        "{x} IS NOT DISTINCT FROM 1",
        "1 IS NOT DISTINCT FROM {x}",
        "({x} = 1) IS TRUE",
    ),
    *(
        "{x} < 2 AND 1 <= {x}",
        "{x} <= 2 - 1",
        "CAST({x} AS VARCHAR) = '1'",
        "-{x} >= -1",
        "{x} = {x}",
    ),
)
"""Conditions on a number; whatever is concluded must be true of the rows for which they are."""

RANK = "ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id)"


@cache
def flooded() -> Counting:
    """One person with more orders than any limit, every key vouched for."""
    policy, engine = over(world.flood(), constraints=True)
    return Counting(policy, engine)


def written(condition: str) -> str:
    """A count and a sum of the rows for whose number within their person this is true."""
    numbered = f"SELECT amount, {RANK} AS rn FROM orders"
    asked = f"SELECT COUNT(*) AS n, SUM(amount) AS s FROM ({numbered}) AS t"
    return f"{asked} WHERE {condition.format(x='rn')}"


def disproved(sql: str) -> list[str]:
    counting = flooded()
    return counting.disproved(claims_of(sql, counting.policy, counting.engine))


# --- the table ---


def test_there_is_one_table_and_it_is_true() -> None:
    for name, sign in SIGNS.items():
        for a in CONSTANTS:
            for b in CONSTANTS:
                truth = TRUE_IF[name][(a > b) - (a < b) + 1]
                assert duckdb.execute(f"SELECT {a} {sign} {b}").fetchall() == [(truth,)]
                assert TRUE_IF[MIRRORED[name]][(b > a) - (b < a) + 1] is truth


def test_a_constant_stands_on_the_right() -> None:
    x, k = Ref(1, INTEGER), Literal(1, INTEGER)
    for name in SIGNS:
        assert against_constant(Call(name, (x, k), BOOLEAN)) == (name, x, k)
        assert against_constant(Call(name, (k, x), BOOLEAN)) == (MIRRORED[name], x, k)
        assert against_constant(Call(name, (x, x), BOOLEAN)) is None
    assert against_constant(Call("is_distinct", (x, k), BOOLEAN)) is None
    assert against_constant(Call("not", (k,), BOOLEAN)) is None


# --- rows of a unit ---


@pytest.mark.full("further data sets, and all their neighbours")
def test_a_row_number_limits_rows_only_where_it_does() -> None:
    assert [c for c in CONDITIONS if disproved(written(c))] == []


PROVED = {
    **dict.fromkeys(["{x} = 1", "1 = {x}", "{x} <= 1", "1 >= {x}", "{x} < 2", "2 > {x}"], 1),
    **dict.fromkeys(["{x} = 2", "2 = {x}", "{x} < 1", "1 > {x}"], 1),
    **dict.fromkeys(["{x} <= 2", "2 >= {x}"], 2),
}


@pytest.mark.full("measures neighbours or further data sets")
def test_either_order_proves_as_much() -> None:
    counting = flooded()
    for condition in COMPARED:
        claims = claims_of(written(condition), counting.policy, counting.engine)
        (bounded,) = claims.blocks
        assert bounded.block.max_rows == PROVED.get(condition), condition


def test_a_wrong_mirror_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof that 1 <= rn is one row."""
    for name in ("le", "ge", "lt", "gt"):
        monkeypatch.setitem(comparisons.MIRRORED, name, name)
    wrong = [c for c in COMPARED if disproved(written(c))]
    assert wrong == ["1 < {x}", "2 < {x}", "1 <= {x}", "2 <= {x}"]


# --- intervals, disjoint rows, questions ---


def expressions() -> Iterator[tuple[str, Expression]]:
    x = Ref(1, INTEGER)
    for name, sign in SIGNS.items():
        for k in CONSTANTS:
            literal = Literal(k, INTEGER)
            yield f"x {sign} {k}", Call(name, (x, literal), BOOLEAN)
            yield f"{k} {sign} x", Call(name, (literal, x), BOOLEAN)


@pytest.mark.parametrize(("text", "predicate"), list(expressions()))
def test_an_interval_holds_what_a_condition_keeps(text: str, predicate: Expression) -> None:
    rows = duckdb.execute(f"SELECT x FROM range(-5, 6) AS t(x) WHERE {text}").fetchall()
    interval = functions.narrow(Facts(INTEGER), predicate).interval
    kept = [x for x in range(-5, 6) if interval.contains(Fraction(x))]
    lacking = {-1, 0, 1, 2} - {x for (x,) in rows}
    assert set(kept) >= {x for (x,) in rows}
    assert "<>" in text or not lacking & set(kept)


def asked(*conditions: str) -> str:
    listed = (f"COUNT(*) FILTER (WHERE {c}) AS n{i}" for i, c in enumerate(conditions))
    return f"SELECT {', '.join(listed)} FROM customers"


def questions(policy: Policy, engine: PlainEngine, *conditions: str) -> list[str]:
    return [compiled(asked(c), policy, engine).question for c in conditions]


@pytest.mark.parametrize("name", SIGNS)
def test_either_order_asks_one_question_and_no_other(name: str) -> None:
    policy, engine = shop()
    written = f"age {SIGNS[name]} 1", f"1 {SIGNS[MIRRORED[name]]} age"
    assert len(set(questions(policy, engine, *written))) == 1
    others = [f"age {sign} 1" for sign in SIGNS.values()]
    assert len(set(questions(policy, engine, *others))) == len(others)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sign", SIGNS.values())
def test_thresholds_are_nested_in_either_order(sign: str) -> None:
    """Parts of nested rows sum up to what the plain conditions count, whatever their order."""
    policy, engine = over(world.well_behaved(), constraints=True)
    for conditions in (
        [f"age {sign} {k}" for k in (20, 40, 60)],
        [f"{k} {sign} age" for k in (20, 40, 60)],
        [f"age {sign} 40", f"40 {sign} age", f"20 {sign} age"],
    ):
        sql = asked(*conditions)
        assert same_rows(*noiseless(compiled(sql, policy, engine), engine), engine.rows(sql))
