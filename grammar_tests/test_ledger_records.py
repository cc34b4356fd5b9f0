"""What a ledger writes comes back exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from math import nan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpsql.ledgers.codec import decode_answer, decode_event, encode_answer, encode_event
from dpsql.model.vocabulary import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    Mechanism,
    Neighbours,
    Noise,
    NoiseEvent,
    Noisy,
    SelectionEvent,
    Sensitivity,
)
from grammar_tests.ledger_kit import ANSWER, EVENT, used


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


RATIOS = st.fractions(min_value=0, max_value=10**30)
EVENTS = st.builds(
    Event,
    st.lists(
        st.one_of(
            st.builds(
                NoiseEvent,
                st.builds(Noise, st.sampled_from(Mechanism), RATIOS, RATIOS),
                st.builds(
                    Sensitivity,
                    st.integers(1, 2**40),
                    st.integers(-(2**80), 0),
                    st.integers(0, 2**80),
                    st.sampled_from(Neighbours),
                ),
            ),
            st.builds(SelectionEvent, RATIOS),
            st.builds(BoundedRangeEvent, RATIOS, st.integers(1, 2**40)),
            st.builds(ApproximateEvent, RATIOS, RATIOS),
        ),
        max_size=4,
    ).map(tuple),
)


@pytest.mark.full("draws random questions or values")
@given(EVENTS)
@example(EVENT)
def test_events_come_back_exactly(event: Event) -> None:
    text = encode_event(event)
    assert decode_event(text) == event
    assert encode_event(decode_event(text)) == text


def test_an_unknown_event_is_never_guessed() -> None:
    for text in ('[{"part":"magic"}]', '[{"part":"selection"}]', "[7]"):
        with pytest.raises((ValueError, KeyError, TypeError)):
            decode_event(text)


OFFSETS = st.builds(timezone, st.timedeltas(timedelta(hours=-23), timedelta(hours=23)))
KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.decimals(),
    st.floats(),
    st.text(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=OFFSETS),
)
ROWS = st.lists(st.lists(KEYS, max_size=3).map(tuple), max_size=4).map(tuple)
PARTS = st.lists(st.lists(st.integers(), max_size=3).map(tuple), max_size=4).map(tuple)
ANSWERS = st.lists(st.builds(Noisy, ROWS, PARTS), max_size=3).map(tuple)


def exactly(value: Any) -> Any:
    """A value as text that no other value, of no other type, has."""
    match value:
        case Noisy():
            return exactly((value.keys, value.parts))
        case tuple():
            return tuple(map(exactly, value))
        case datetime():
            return (value.isoformat(), value.utcoffset())
        case _:
            return (type(value).__name__, repr(value))


def comes_back(
    answer: tuple[Noisy, ...],
    encode: Callable[[tuple[Noisy, ...]], Any] = encode_answer,
    decode: Callable[[Any], Any] = decode_answer,
) -> None:
    assert exactly(decode(encode(answer))) == exactly(answer)


@pytest.mark.full("draws random questions or values")
@given(ANSWERS)
@example(ANSWER)
@example((Noisy(((datetime(2000, 1, 1, tzinfo=timezone(timedelta(microseconds=1))),),), ((),)),))
@example((Noisy(((-0.0, nan, Decimal("-0E+3"), Decimal("sNaN12"), "\ud800\0", True),), ((1,),)),))
def test_answers_come_back_exactly(answer: tuple[Noisy, ...]) -> None:
    comes_back(answer)


@pytest.mark.parametrize(
    "key", [Decimal(1), date(2025, 1, 1), nan, datetime(2025, 1, 1, tzinfo=UTC)]
)
def test_untyped_records_would_be_caught(key: Any) -> None:
    def encode(answer: tuple[Noisy, ...]) -> str:
        return json.dumps([[block.keys, block.parts] for block in answer], default=str)

    def decode(text: str) -> tuple[Noisy, ...]:
        return tuple(
            Noisy(tuple(map(tuple, keys)), tuple(map(tuple, parts)))
            for keys, parts in json.loads(text.replace("NaN", "null"))
        )

    comes_back((Noisy((("a",),), ((1,),)),), encode, decode)
    with pytest.raises(AssertionError):
        comes_back((Noisy(((key,),), ((1,),)),), encode, decode)


def test_other_keys_and_other_formats_are_refused() -> None:
    with pytest.raises(TypeError, match="Fraction"):
        encode_answer((Noisy(((Fraction(1),),), ((1,),)),))
    with pytest.raises(ValueError, match="format"):
        decode_answer(b"\x02" + encode_answer(ANSWER)[1:])


def test_nothing_is_left_open(path: Path) -> None:
    if not os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        pytest.skip("needs /proc")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    used(path)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
