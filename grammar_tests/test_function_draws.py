"""Every function over columns of random values: as over the boundary values, less of each."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest

from dpsql.functions.registry import REGISTRY
from dpsql.functions.row import constant
from dpsql.model.intervals import Interval
from dpsql.model.tree import Kind
from grammar_tests import function_samples
from grammar_tests.faults import only_with
from grammar_tests.function_checks import check, connection
from grammar_tests.function_samples import COLUMNS, Column, calls

ROWS = 9
CALLS = 20
BITS = {"tinyint": 7, "integer": 31, "bigint": 63, "hugeint": 127}
LETTERS = "aabbXyz019 ,._-%\\'/éßñ\u0301中𝄞🏳\u200d🌈\x00\n"
Draw = Callable[[random.Random], str]


def whole(generator: random.Random, bits: int) -> str:
    """Any size is as likely as any other, and so is the sign."""
    size = generator.getrandbits(generator.randint(0, bits))
    return str(-size if generator.random() < 0.4 else size)


def exact(generator: random.Random, column: Column) -> str:
    digits = generator.randint(0, column.type.precision)
    size = Decimal(f"{generator.randrange(10**digits)}E-{column.type.scale}")
    return f"{generator.choice(('', '-'))}{size:f}"


def floating(generator: random.Random) -> str:
    if generator.random() < 0.5:
        return repr(struct.unpack("d", generator.randbytes(8))[0])
    return repr(round(generator.uniform(-200, 200), generator.randint(0, 4)))


def text(generator: random.Random) -> str:
    return "".join(generator.choices(LETTERS, k=generator.choice((1, 2, 3, 5, 12, 70))))


def moment(generator: random.Random) -> datetime:
    span = generator.choice((10**4, 10**9, 3 * 10**11))
    drawn = datetime(2000, 1, 1) + timedelta(0, generator.uniform(-1, 1) * min(span, 6 * 10**10))
    return drawn.replace(microsecond=generator.choice((0, 1, 999_999)))


def drawn(generator: random.Random, column: Column) -> str:
    match column.type.kind:
        case Kind.INTEGER:
            return whole(generator, BITS[column.name])
        case Kind.DECIMAL:
            return exact(generator, column)
        case Kind.DOUBLE:
            return floating(generator)
        case Kind.VARCHAR:
            return text(generator)
        case Kind.DATE:
            return str(moment(generator).date())
        case Kind.TIMESTAMP:
            return str(moment(generator))
        case _:
            return generator.choice(column.values)


def columns(generator: random.Random) -> tuple[Column, ...]:
    """The sample columns with other values."""
    return tuple(
        replace(c, values=tuple(dict.fromkeys(drawn(generator, c) for _ in range(ROWS))))
        for c in COLUMNS
    )


@contextmanager
def engine_of(
    generator: random.Random, monkeypatch: pytest.MonkeyPatch
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection over random columns, which are the samples as long as it is open."""
    others = columns(generator)
    with monkeypatch.context() as patch, connection(others) as engine:
        patch.setattr(function_samples, "COLUMNS", others)
        yield engine


def complaints(
    name: str, generator: random.Random, monkeypatch: pytest.MonkeyPatch, count: int = CALLS
) -> list[str]:
    with engine_of(generator, monkeypatch) as engine:
        tried = list(calls(name))
        some = generator.sample(tried, min(count, len(tried)))
        return [complaint for call in some for complaint in check(engine, call)]


@pytest.mark.full("draws random values")
@pytest.mark.parametrize("count", [CALLS // 3, pytest.param(CALLS, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_function_of_random_values(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = complaints(name, random.Random(name), monkeypatch, count)  # noqa: S311
    assert not found, "\n".join(found[:20])


@only_with("bytes")
def test_bounds_in_characters_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong twin: a distance that is said to count characters, where it counts bytes."""
    short = constant(Interval(Fraction(0), Fraction(70)))
    monkeypatch.setitem(REGISTRY, "levenshtein", replace(REGISTRY["levenshtein"], interval=short))
    seeds = (random.Random(f"bytes {n}") for n in range(20))  # noqa: S311
    assert any("interval" in c for s in seeds for c in complaints("levenshtein", s, monkeypatch))


def test_bounds_of_short_texts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong twin for every version: a distance that is said to be below the drawn lengths."""
    short = constant(Interval(Fraction(0), Fraction(12)))
    monkeypatch.setitem(REGISTRY, "levenshtein", replace(REGISTRY["levenshtein"], interval=short))
    seeds = (random.Random(f"short {n}") for n in range(20))  # noqa: S311
    assert any("interval" in c for s in seeds for c in complaints("levenshtein", s, monkeypatch))
