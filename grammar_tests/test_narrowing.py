"""Predicates on expressions: what they say of the columns and of the expressions in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import duckdb
import pytest

from dpsql import functions
from dpsql.compiler.infer import infer, keys_together
from dpsql.compiler.infer.column_facts import SUBJECT, ImpliedPredicate, statements
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.functions.registry import REGISTRY
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import BOOLEAN, INTEGER, Call, Cast, Expression, Kind, Literal, Ref, Value
from grammar_tests.bound import shop
from grammar_tests.function_checks import (
    FAR,
    broken_fact,
    column_text,
    connection,
    readable,
    run,
    sample_values,
    samples,
    sources,
    value_of,
)
from grammar_tests.function_samples import calls, casts, column_of
from grammar_tests.laws import compiled

ORDERED = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
COMPARISONS = ("eq", "lt", "ge", "ne")
TRIED = 5


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = connection()
    yield opened
    opened.close()


def subjects(name: str) -> Iterator[Call | Cast]:
    """Expressions of one column that has an order, by this function or cast."""
    candidates: Iterator[Call | Cast] = casts() if name == "cast" else calls(name)
    for e in candidates:
        reads = sources(e)
        if len(reads) == 1 and column_of(reads[0]).type.kind in ORDERED:
            yield e


def escapes(engine: duckdb.DuckDBPyConnection, subject: Call | Cast) -> Iterator[str]:
    """Values of the column for which a comparison is true, but that it shaves off."""
    (ref,) = sources(subject)
    kind = subject.type
    rows = run(engine, [readable(expression(subject, column_text), kind)], [ref])
    values = {value_of(row[-1], kind) for row in rows} - {None, FAR}
    for value in list(values)[:1]:
        predicates = [Call(name, (subject, Literal(value, kind)), BOOLEAN) for name in COMPARISONS]
        answers = run(engine, [expression(p, column_text) for p in predicates], [ref])
        for place, predicate in enumerate(predicates, 1):
            true = {row[0] for row in answers if row[place] is True}
            for option in samples(column_of(ref))[:3]:
                known = functions.shaved(option.facts, ref.id, predicate)
                known = replace(known, domain=None)
                for position in true & option.positions:
                    why = broken_fact(sample_values(column_of(ref))[position], known)
                    if why:
                        yield f"{expression(predicate, column_text)}: {position} not in {why}"


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("tried", [TRIED, pytest.param(4 * TRIED, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("name", [*sorted(REGISTRY), "cast"])
def test_nothing_that_holds_is_shaved_off(
    engine: duckdb.DuckDBPyConnection, name: str, tried: int
) -> None:
    listed = list(subjects(name))
    step = max(1, len(listed) // tried)
    found = [why for e in islice(listed, 0, None, step) for why in escapes(engine, e)]
    assert not found, "\n".join(found[:10])


def test_a_wrong_interval_is_caught(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Years that are said to be one later than they are."""
    right = REGISTRY["extract"]
    one = Interval(Fraction(1), Fraction(1))
    wrong = replace(right, interval=lambda args, kind: right.interval(args, kind) + one)
    monkeypatch.setitem(REGISTRY, "extract", wrong)
    assert any(why for e in subjects("extract") for why in escapes(engine, e))


# --- the expression itself ---------------------------------------------------------------------

X, Y = Ref(1, INTEGER), Ref(2, INTEGER)
BUCKET = Call("int_div", (X, Literal(10, INTEGER)), INTEGER)
STAND_IN = Ref(SUBJECT, INTEGER)


def compare(name: str, left: Expression, value: int) -> Call:
    return Call(name, (left, Literal(value, INTEGER)), BOOLEAN)


def both(*parts: Expression) -> Call:
    return Call("and", parts, BOOLEAN)


def test_a_predicate_is_about_the_expression_that_it_compares() -> None:
    low, high = compare("ge", BUCKET, 3), compare("lt", BUCKET, 5)
    either = Call("or", (both(low, compare("eq", Y, 1)), high), BOOLEAN)
    found = statements([ImpliedPredicate(low), ImpliedPredicate(either)])
    assert set(found) == {BUCKET}
    alternatives = Call("or", (compare("ge", STAND_IN, 3), compare("lt", STAND_IN, 5)), BOOLEAN)
    assert found[BUCKET] == (compare("ge", STAND_IN, 3), alternatives)


def test_nothing_is_said_where_another_column_decides() -> None:
    sided = Call("lt", (BUCKET, Y), BOOLEAN)
    branch = Call("or", (compare("ge", BUCKET, 3), compare("eq", Y, 1)), BOOLEAN)
    assert statements([ImpliedPredicate(sided), ImpliedPredicate(branch)]) == {}


def test_the_condition_of_a_left_join_speaks_of_its_right_side_only() -> None:
    condition = compare("ge", BUCKET, 3)
    assert statements([ImpliedPredicate(condition, frozenset({2}))]) == {}
    assert statements([ImpliedPredicate(condition, frozenset({1}))]) != {}


def test_cuts_on_both_sides_of_open_intervals() -> None:
    inside = both(compare("ge", BUCKET, 3), compare("le", BUCKET, 5))
    known = functions.shaved(Facts(INTEGER), 1, inside)
    assert known.interval == Interval(Fraction(30), Fraction(59))
    never = both(compare("ge", BUCKET, 5), compare("le", BUCKET, 3))
    assert functions.shaved(Facts(INTEGER), 1, never).interval.hi == 1 - 2**127


# --- keys that the filter leaves ---

FILTERED = (
    "SELECT country, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code"
    " WHERE c.region = 'north' GROUP BY country"
)


def _listed_and_present(sql: str) -> tuple[set[object], set[object]]:
    policy, engine = shop()
    (block,) = compiled(sql, policy, engine).blocks
    return {key for (key,) in block.domain or ()}, {row[0] for row in engine.rows(sql)}


def test_a_key_that_is_left_out_by_mistake_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, present = _listed_and_present(FILTERED)
    assert listed == present == {"NO", "SE"}
    monkeypatch.setattr(infer, "possible", lambda _keys, domain, _rows, _columns: domain[:1])
    listed, present = _listed_and_present(FILTERED)
    assert not present <= listed


TOGETHER = (
    "SELECT EXTRACT(quarter FROM day) AS a, EXTRACT(month FROM day) AS b FROM logins",
    "SELECT DATE_TRUNC('week', day) AS a, CAST(day AS VARCHAR) < '2024-03' AS b FROM logins",
    "SELECT EXTRACT(hour FROM placed_at) AS a, EXTRACT(dow FROM placed_at) AS b FROM orders",
    "SELECT DATE_TRUNC('month', placed_at) AS a, CAST(placed_at AS DATE) AS b FROM orders",
    "SELECT age // 30 AS a, age // 60 AS b FROM customers",
    "SELECT region AS a, country AS b FROM customers JOIN countries ON country = code",
)


def _listed_together(rows: str) -> tuple[set[tuple[Value, ...]], set[tuple[Value, ...]]]:
    policy, engine = shop()
    sql = f"SELECT a, b, COUNT(*) AS n FROM ({rows}) AS t GROUP BY a, b"
    (block,) = compiled(sql, policy, engine).blocks
    return set(block.domain or ()), {row[:2] for row in engine.rows(sql)}


@pytest.mark.parametrize("rows", TOGETHER)
def test_keys_of_the_same_columns_are_those_that_can_be_together(rows: str) -> None:
    listed, present = _listed_together(rows)
    assert listed >= present != set()
    each = [len({row[place] for row in listed}) for place in range(2)]
    assert len(listed) < each[0] * each[1] or "hour" in rows


def test_a_column_that_is_not_gone_through_in_full_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys_together, "_reads_days", lambda *_: True)
    listed, present = _listed_together(TOGETHER[2])
    assert not present <= listed, "the twin takes hours for days"
