"""Random bits of the statistical tests: each test has its own, the same in every run.

A test that rejects one right sampler in a million would fail for somebody some day. With fixed bits
it fails for everybody or nobody, whatever ran before it and in whichever process.
"""

from __future__ import annotations

from hashlib import shake_128

import numpy as np

from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.laws import Law
from dpsql.release.release import Sampler


class Stream:
    """Bytes that follow from a name: SHAKE-128 of the name and the number of the call.

    >>> one, other = Stream("a"), Stream("b")
    >>> first = one(4)
    >>> first == one(4), first == other(4), first == Stream("a")(4)
    (False, False, True)
    """

    def __init__(self, name: str) -> None:
        self.restart(name)

    def restart(self, name: str) -> None:
        self._name, self._calls = name, 0

    def __call__(self, count: int) -> bytes:
        self._calls += 1
        return shake_128(f"{self._calls} {self._name}".encode()).digest(count)


STREAM = Stream("")
"""Restarted with the name of every test by conftest, which makes it the source of every proxy."""

SYSTEM = Entropy()
"""The source outside tests."""

ENTROPY = Entropy(STREAM)


def pooled(sampler: Sampler, releases: int = 0) -> Sampler:
    """The same draws, each used once, made many at a time: one alone costs a thousand times more.

    Those of so many releases are made at once, or 100,000.
    """
    pools: dict[Law, tuple[np.ndarray, int]] = {}

    def draw(noise: Law, count: int) -> np.ndarray:
        pool, used = pools.get(noise, (np.zeros(0, dtype=np.int64), 0))
        if used + count > len(pool):
            pool, used = sampler(noise, count * releases or 100_000), 0
        pools[noise] = (pool, used + count)
        return pool[used : used + count]

    return draw
