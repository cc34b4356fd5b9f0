"""Random texts, under every accountant and through the DB-API: refused or answered, nothing else.

`python -m grammar_tests.test_fuzz_texts SECONDS` goes on with other texts for that long.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from time import monotonic

import pytest

import dpsql
from dpsql.dialects.reading.parse import parse
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Neighbours
from dpsql.proxy import Proxy
from grammar_tests.bound import shop
from grammar_tests.fuzz_texts import text
from grammar_tests.fuzz_world import adversary
from grammar_tests.laws import BUDGET, compiled, noiseless
from grammar_tests.proxy_kit import shop as real_shop

ACCOUNTANTS = ("zcdp", "pure", "approximate")
DIALECTS = ("duckdb", "duckdb", "duckdb", "postgres")
COMPILED, ASKED = 80, 60
"""Random texts of a run: those that are compiled, and those that the DB-API is asked."""


def texts(seed: int) -> Iterator[str]:
    """The random texts of this seed, without end."""
    chance = Random(seed)  # noqa: S311
    while True:
        yield text(chance.randbytes(900))


def told(sql: str, number: int) -> str:
    """What every accountant says of a text: a reason, or that it is answered, noise off, on hostile
    data too. Any other exception is a bug.
    """
    policy, engine = shop()
    neighbours = list(Neighbours)[number % 2]
    policy = replace(policy, unit=replace(policy.unit, neighbours=neighbours))
    dialect, said = DIALECTS[number % 4], []
    try:
        parse(sql, dialect)
    except Refused as refusal:
        return refusal.reason.value
    for accountant in ACCOUNTANTS:
        budget = replace(BUDGET, accountant=accountant)
        try:
            prepared = compiled(sql, policy, engine, dialect=dialect, budget=budget)
        except Refused as refusal:
            said.append(refusal.reason.value)
        else:
            noiseless(prepared, adversary(None))
            said.append("answered")
    return " ".join(dict.fromkeys(said))


def tried(seed: int, count: int, check: Callable[[str, int], str] = told) -> Counter[str]:
    """What is said of so many texts; a failure names the text."""
    said: Counter[str] = Counter()
    for number, sql in zip(range(count), texts(seed), strict=False):
        try:
            said[check(sql, number)] += 1
        except Exception as error:
            error.add_note(f"of text {number} of seed {seed}: {sql}")
            raise
    return said


@pytest.mark.full("hundreds of random queries")
def test_random_texts_are_refused_or_answered() -> None:
    said = tried(1, COMPILED)
    answered = sum(times for words, times in said.items() if "answered" in words)
    assert answered >= COMPILED // 10
    assert len(said) >= 10


def test_an_exception_would_be_seen() -> None:
    def dividing(sql: str, number: int) -> str:
        return str(1 // ("ROLLUP" not in sql)) + told("SELECT 1", number)

    with pytest.raises(ZeroDivisionError) as caught:
        tried(1, COMPILED, dividing)
    assert "ROLLUP" in caught.value.__notes__[0]


@pytest.mark.full("hundreds of random queries")
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_random_texts_through_the_dbapi(accountant: str, tmp_path: Path) -> None:
    changes = [('accountant = "zcdp"', f'accountant = "{accountant}"')]
    if accountant == "pure":
        changes += [("delta = 1e-3\n", ""), ("query_delta = 1e-6\n", "")]
    said: Counter[str] = Counter()
    with Proxy.open(str(real_shop(tmp_path / "shop", *changes))) as proxy:

        def asked(sql: str, number: int) -> str:
            connection = dpsql.connect(proxy=proxy, analyst="ana", dialect=DIALECTS[number % 4])
            try:
                connection.execute(sql).fetchall()
            except dpsql.Error as error:
                return type(error).__name__
            return "answered"

        said = tried(2 + ACCOUNTANTS.index(accountant), ASKED // 3, asked)
    assert said["answered"]
    assert len(said) >= 3


if __name__ == "__main__":
    end, seed = monotonic() + float(sys.argv[1]), int(sys.argv[1]) + 100
    so_far: Counter[str] = Counter()
    while monotonic() < end:
        seed += 1
        so_far += tried(seed, 10)
    print(so_far)  # noqa: T201
