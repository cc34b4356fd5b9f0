"""Every function over boundary values: total, within its facts, of its type, equal to the plain."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from operator import add

import duckdb
import pytest

from dpsql import functions
from dpsql.dialects.duckdb import expression_sql
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.functions.arithmetic import _operation
from dpsql.functions.date_making import FARTHEST
from dpsql.functions.registry import REGISTRY
from dpsql.functions.zone_names import ZONES
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Call,
    Cast,
    Expression,
    Kind,
    Literal,
    Ref,
)
from dpsql.model.walk import children
from grammar_tests.faults import only_with
from grammar_tests.function_checks import (
    broken_fact,
    check,
    column_text,
    connection,
    equal,
    readable,
    run,
    sample_values,
    samples,
    sources,
    value_of,
)
from grammar_tests.function_samples import (
    COLUMNS,
    LITERALS,
    Typed,
    calls,
    casts,
    column_of,
    type_of,
)


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = connection()
    yield opened
    opened.close()


MANY = 120
OF_MANY_TYPES = (
    *("add", "age_part", "atan2", "coalesce", "date_add", "div", "eq", "fdiv", "fmod", "ge"),
    *("greatest", "gt", "in", "is_distinct", "is_not_distinct", "le", "least", "lt", "make_date"),
    *("mod", "mul", "ne", "nullif", "pg_div", "pow", "sub"),
)
"""Functions with more than `MANY` calls: a part of these, drawn once, is tried in each tier."""
PARTS, OF_DEFAULT, OF_FULL = 6, (0,), (1, 2)
"""Into how many parts calls are drawn, and which of them the tiers try; a campaign all others."""


def drawn(name: str, parts: Sequence[int]) -> list[Call]:
    """The calls of a function that are in these parts."""
    shuffled = random.Random(name).sample(tried := [*calls(name)], len(tried))  # noqa: S311
    return [call for place, call in enumerate(shuffled) if place % PARTS in parts]


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_function(engine: duckdb.DuckDBPyConnection, name: str) -> None:
    tried = tuple(calls(name))
    assert (len(tried) > MANY) == (name in OF_MANY_TYPES)
    complain_of_none(engine, drawn(name, OF_DEFAULT) if name in OF_MANY_TYPES else tried)


@pytest.mark.full("further types")
@pytest.mark.parametrize("parts", [OF_FULL, pytest.param((3, 4, 5), marks=pytest.mark.campaign)])
@pytest.mark.parametrize("name", OF_MANY_TYPES)
def test_further_types_of_a_function(
    engine: duckdb.DuckDBPyConnection, name: str, parts: Sequence[int]
) -> None:
    complain_of_none(engine, drawn(name, parts))


def complain_of_none(engine: duckdb.DuckDBPyConnection, tried: Sequence[Call]) -> None:
    found = [complaint for call in tried for complaint in check(engine, call)]
    assert not found, "\n".join(found[:20])


def test_every_function_is_tried() -> None:
    assert not [name for name in REGISTRY if next(calls(name), None) is None]


@pytest.mark.full("measures neighbours or further data sets")
def test_casts(engine: duckdb.DuckDBPyConnection) -> None:
    found = [complaint for cast in casts() for complaint in check(engine, cast)]
    assert not found, "\n".join(found[:20])


def test_every_zone_is_known_to_the_engine(engine: duckdb.DuckDBPyConnection) -> None:
    noon = datetime(2024, 7, 1, 12, tzinfo=UTC)
    texts = [
        expression(
            Call("timezone", (Literal(name, VARCHAR), Literal(noon, TIMESTAMPTZ)), TIMESTAMP),
            column_text,
        )
        for name in ZONES.values()
    ]
    (row,) = engine.execute(f"SELECT {', '.join(texts)}").fetchall()
    hours = [abs(clock - noon.replace(tzinfo=None)) for clock in row]
    assert max(hours) < FARTHEST


ENDS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127}


def near_ends(width: str, step: int) -> list[int]:
    """Values of an integer type beside its ends and zero, and beside half a step from there."""
    top = 2 ** ENDS[width]
    near = [n for half in (0, step // 2, step) for n in (half - 1, half, half + 1)]
    values = {end + sign * n for end in (-top, 0, top - 1) for sign in (1, -1) for n in near}
    return sorted(value for value in values if -top < value < top)


@pytest.mark.parametrize("digits", [-1, -2, -3, -15])
@pytest.mark.parametrize("width", ENDS)
def test_rounded_integers_do_not_wrap_around(
    engine: duckdb.DuckDBPyConnection, width: str, digits: int
) -> None:
    """They are rounded half away from zero, or NULL where 128 bits have no room for half a step."""
    step = 10**-digits
    values = near_ends(width, step)
    engine.execute(f"CREATE OR REPLACE TEMP TABLE ends (v {width})")
    engine.executemany("INSERT INTO ends VALUES (?)", [[value] for value in values])
    call = Call("round", (Ref(1, INTEGER), Literal(digits, INTEGER)), INTEGER)
    rows = engine.execute(f"SELECT v, {expression(call, lambda _ref: 'v')} FROM ends").fetchall()
    assert [value for value, _ in rows] == values
    for value, rounded in rows:
        moved = abs(value) + step // 2
        exact = moved // step * step * (1 if value > 0 else -1)
        assert rounded == (exact if moved < 2**127 + (value < 0) else None)


@only_with("wrap")
def test_rounded_integers_would_wrap_around(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expression_sql, "_with_room", lambda _name, arg, _digits: arg)
    for width in ENDS:
        with pytest.raises(AssertionError):
            test_rounded_integers_do_not_wrap_around(engine, width, -1)


# --- expressions in expressions ---------------------------------------------------------------


def shapes(generator: random.Random, depth: int) -> Typed:
    """A random typed expression over three columns and some literals."""
    leaves = [r for r in (Ref(n, c.type) for n, c in enumerate(COLUMNS)) if r.id in (0, 2, 4, 8)]
    if depth == 0:
        options: list[Typed] = [*leaves, *LITERALS[:5], LITERALS[9], LITERALS[11]]
        return generator.choice(options)
    while True:
        name = generator.choice(sorted(REGISTRY))
        count = generator.choice((1, 2, 2, 3))
        args = tuple(shapes(generator, generator.randrange(depth)) for _ in range(count))
        function = REGISTRY[name]
        kind = function.result_type(tuple(map(type_of, args)))
        if kind is not None and kind.kind is not Kind.NULL and function.accepts(args):
            return Call(name, args, kind)


def facts_of(e: Expression) -> Facts:
    """Facts by the rules alone, of columns of which nothing is known."""
    match e:
        case Literal():
            return functions.literal_facts(e)
        case Call() | Cast():
            return functions.facts(e, tuple(map(facts_of, children(e))))
        case Ref(type=kind):
            return Facts(kind)
        case _:
            raise AssertionError(e)


def parenthesised(e: Expression) -> str:
    """The same text with every call of a call in parentheses of its own."""
    if not isinstance(e, Call):
        return expression(e, column_text)
    inner = {-n - 1: parenthesised(arg) for n, arg in enumerate(e.args)}
    stand_ins = tuple(
        Ref(-n - 1, type_of(arg)) if isinstance(arg, Call) else arg for n, arg in enumerate(e.args)
    )
    return expression(
        replace(e, args=stand_ins),
        lambda ref: f"({inner[ref.id]})" if ref.id < 0 else column_text(ref),
    )


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.campaign) for n in range(4, 40))]
)
def test_nested(engine: duckdb.DuckDBPyConnection, seed: int) -> None:
    """Forty expressions in one SELECT, so that the optimiser finds their common parts."""
    generator = random.Random(seed)  # noqa: S311
    trees = [shapes(generator, 3) for _ in range(40)]
    reads = [Ref(n, COLUMNS[n].type) for n in (0, 2, 4, 8)]
    texts = [readable(expression(e, column_text), type_of(e)) for e in trees]
    rows = run(engine, texts, reads)
    for n, e in enumerate(trees):
        facts = facts_of(e)
        for row in rows:
            raw = row[len(reads) + n]
            broken = broken_fact(value_of(raw, facts.type), facts)
            assert not broken, (texts[n], row[: len(reads)], raw, broken)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("seed", range(100, 104))
def test_parentheses(engine: duckdb.DuckDBPyConnection, seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311
    trees = [shapes(generator, 3) for _ in range(30)]
    reads = [Ref(n, COLUMNS[n].type) for n in (0, 2, 4, 8)]
    texts = [readable(expression(e, column_text), type_of(e)) for e in trees]
    full = [readable(parenthesised(e), type_of(e)) for e in trees]
    for row, other in zip(run(engine, texts, reads), run(engine, full, reads), strict=True):
        for n, (got, want) in enumerate(zip(row, other, strict=True)):
            assert got is None or want is None or equal(got, want), (texts[n - 4], full[n - 4])


def test_size_is_linear() -> None:
    """No argument is printed twice: nesting adds to the text, it does not multiply it."""
    e: Expression = Ref(2, INTEGER)
    for name in ("add", "mul", "int_div", "coalesce", "least", "sub", "mod", "nullif") * 4:
        e = Call(name, (e, Literal(7, INTEGER)), INTEGER)
    assert len(expression(e, column_text)) < 32 * 40


# --- narrowing --------------------------------------------------------------------------------


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_narrowed_facts_hold(engine: duckdb.DuckDBPyConnection, name: str) -> None:
    """Every value for which a predicate is true lies in the narrowed facts."""
    found = []
    for call in calls(name):
        ref = next((arg for arg in call.args if isinstance(arg, Ref)), None)
        if ref is None or len(sources(call)) > 1:
            continue
        rows = run(engine, [expression(call, column_text)], [ref])
        for option in samples(column_of(ref)):
            narrowed = functions.narrow(option.facts, call)
            held = [r[0] for r in rows if r[1] is True and r[0] in option.positions]
            values = [sample_values(column_of(ref))[n] for n in held]
            found += [(call, v, why) for v in values if (why := broken_fact(v, narrowed))]
    assert not found, found[:5]


def test_narrowing_reads_lists_and_alternatives() -> None:
    x, s = Ref(1, INTEGER), Ref(3, VARCHAR)
    ages = Facts(INTEGER, Interval(Fraction(0), Fraction(120)))

    def compare(name: str, value: int) -> Call:
        return Call(name, (x, Literal(value, INTEGER)), BOOLEAN)

    between = Call("and", (compare("ge", 18), compare("lt", 30)), BOOLEAN)
    either = Call("or", (between, compare("eq", 65)), BOOLEAN)
    assert functions.narrow(ages, between).interval == Interval(Fraction(18), Fraction(29))
    assert functions.narrow(ages, either).interval == Interval(Fraction(18), Fraction(65))
    assert functions.narrow(ages, Call("is_null", (x,), BOOLEAN)).domain == ()
    options = (Literal("b", VARCHAR), Literal("a", VARCHAR))
    chosen = functions.narrow(Facts(VARCHAR), Call("in", (s, *options), BOOLEAN))
    assert (chosen.domain, chosen.nullable) == (("a", "b"), False)
    both = functions.intersect(chosen, functions.facts_of_values(VARCHAR, ("b", "c")))
    assert both.domain == ("b",)


@pytest.mark.full("measures neighbours or further data sets")
def test_pointwise_calls_can_be_printed_over_columns() -> None:
    """A call whose arguments are all replaced by columns is still accepted."""
    for name in REGISTRY:
        for call in calls(name):
            if functions.is_pointwise(call):
                columns = tuple(Ref(n, type_of(arg)) for n, arg in enumerate(call.args))
                assert functions.function_of(replace(call, args=columns)).name == name
    month = (Literal("month", VARCHAR), Ref(0, DATE))
    assert not functions.is_pointwise(Call("extract", month, INTEGER))
    assert not functions.is_pointwise(Call("coalesce", (Ref(0, DATE),), DATE))


# --- wrong twins ------------------------------------------------------------------------------


def test_wrong_interval_is_caught(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Subtraction with the interval of addition."""
    wrong = replace(REGISTRY["sub"], interval=_operation(add))
    monkeypatch.setitem(REGISTRY, "sub", wrong)
    assert any("interval" in c for call in list(calls("sub"))[:60] for c in check(engine, call))


def test_wrong_nullability_is_caught(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Division that forgets that it is NULL by zero."""
    wrong = replace(REGISTRY["int_div"], nulls=lambda _args: False)
    monkeypatch.setitem(REGISTRY, "int_div", wrong)
    found = [c for call in list(calls("int_div"))[:60] for c in check(engine, call)]
    assert any("not nullable" in c for c in found)


def test_a_wrong_quotient_of_what_is_never_zero_is_caught(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Division by what is not zero that takes it for at least two; NULLIF of anything."""
    monkeypatch.setattr("dpsql.functions.arithmetic.LEAST", 2)
    found = [c for call in list(calls("int_div"))[:60] for c in check(engine, call)]
    assert any("interval" in c for c in found)
    wrong = replace(REGISTRY["nullif"], nonzero=lambda _args: True)
    monkeypatch.setitem(REGISTRY, "nullif", wrong)
    found = [c for call in list(calls("nullif"))[:60] for c in check(engine, call)]
    assert any("never zero" in c for c in found)


def test_wrong_strictness_is_caught(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Joining with a separator that claims to be NULL if a part is."""
    wrong = replace(REGISTRY["concat_ws"], nulls=REGISTRY["concat"].nulls)
    monkeypatch.setitem(REGISTRY, "concat_ws", wrong)
    found = [c for call in calls("concat_ws") for c in check(engine, call)]
    assert any("of NULL" in c for c in found)


def test_missing_guard_is_caught(
    engine: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Division that claims never to raise."""
    wrong = replace(REGISTRY["int_div"], raises=lambda _args, _kind: False)
    monkeypatch.setitem(REGISTRY, "int_div", wrong)
    with pytest.raises(duckdb.Error):
        [check(engine, call) for call in calls("int_div")]


def test_plain_cast_raises(engine: duckdb.DuckDBPyConnection) -> None:
    text = next(n for n, column in enumerate(COLUMNS) if column.name == "text")
    cast = Cast(Ref(text, VARCHAR), INTEGER)
    run(engine, [expression(cast, column_text)], sources(cast))
    with pytest.raises(duckdb.Error):
        run(engine, [expression(cast, column_text, total=False)], sources(cast))


EDGE = "CREATE OR REPLACE TEMP TABLE edge AS SELECT 9223372036854775807 AS a, 1 AS b"


@only_with("guard")
def test_optimiser_empties_a_shared_guard(engine: duckdb.DuckDBPyConnection) -> None:
    """Why every raising operator has its own TRY: DuckDB computes common parts beforehand."""
    engine.execute(EDGE)
    with pytest.raises(duckdb.Error):
        engine.execute("SELECT TRY((a + b) + 1), TRY((a + b) + 2) FROM edge").fetchall()


def test_shared_parts_have_their_own_guard(engine: duckdb.DuckDBPyConnection) -> None:
    engine.execute(EDGE)
    a, b = Ref(1, INTEGER), Ref(2, INTEGER)
    both = Call("mul", (Call("mul", (a, a), INTEGER), Call("mul", (a, a), INTEGER)), INTEGER)
    trees: list[Typed] = [Call("add", (both, Literal(n, INTEGER)), INTEGER) for n in (1, 2)]
    texts = [expression(tree, lambda ref: "ab"[ref.id - 1]) for tree in (*trees, both, b)]
    assert engine.execute(f"SELECT {', '.join(texts)} FROM edge").fetchall() == [(None,) * 3 + (1,)]
