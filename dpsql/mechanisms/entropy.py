"""Uniform random integers from the operating system's generator, which is the only source.

Proof (PRIVACY.md R40). Lemire 2019: a word in the last, incomplete run of residues is drawn again,
so that every residue is equally likely. No bit is kept from one call to the next, and there is no
seed (SECURITY.md S10).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

_SPARE_BITS = 6
"""Lemire's method redraws with probability below 2**-6 when the word is 6 bits wider."""


class Entropy:
    r"""A source of uniform integers: stateless, so safe across threads and forks.

    Every call asks the operating system for fresh bytes and keeps none, so that no two processes
    or draws can ever share a bit. `urandom(n)` returns n bytes; tests pass a scripted one.

        >>> Entropy(lambda n: b"\xff" * n).below(10, 3).tolist()
        [9, 9, 9]
    """

    __slots__ = ("_urandom",)

    def __init__(self, urandom: Callable[[int], bytes] = os.urandom) -> None:
        self._urandom = urandom

    def below(self, bound: int, count: int) -> np.ndarray:
        """Draw `count` independent integers uniform in [0, bound).

        Returns an int64 array if bound <= 2**63, otherwise an object array of Python integers.
        Raises ValueError if the bound is not positive.
        """
        if bound < 1:
            raise ValueError("a uniform integer needs a positive bound")
        if bound == 1:
            return np.zeros(count, dtype=np.int64)
        if bound > 1 << 63:
            return self._wide(bound, count)
        return self._redrawn(partial(self._attempt, bound), count)

    def signs(self, count: int) -> np.ndarray:
        """Draw `count` independent int64 values, each +1 or -1 with probability one half."""
        return 1 - 2 * self.below(2, count)

    def _words(self, width: int, count: int) -> np.ndarray:
        return np.frombuffer(self._urandom(count * width // 8), dtype=f"<u{width // 8}")

    def _attempt(self, bound: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return candidates and which of them are valid uniform values."""
        for width in (8, 16, 32):
            if bound <= 1 << (width - _SPARE_BITS):
                return self._multiply(bound, count, width)
        return self._divide(bound, count)

    def _multiply(self, bound: int, count: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Multiply words by the bound (Lemire 2019): the high half, valid unless the low half is
        below 2**w % bound.
        """
        product = self._words(width, count).astype(f"u{width // 4}")
        product *= product.dtype.type(bound)
        low = product.astype(f"u{width // 8}")
        product >>= product.dtype.type(width)
        return product.astype(np.int64), low >= low.dtype.type((1 << width) % bound)

    def _divide(self, bound: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return word % bound, valid unless the word is in the last, incomplete run of residues."""
        words = self._words(64, count)
        last = (1 << 64) - (1 << 64) % bound - 1
        quotient = words // np.uint64(bound)
        return (words - quotient * np.uint64(bound)).astype(np.int64), words <= np.uint64(last)

    def _redrawn(
        self, draw: Callable[[int], tuple[np.ndarray, np.ndarray]], count: int
    ) -> np.ndarray:
        """Draw values with `draw`, again wherever it marks a value as invalid."""
        values, valid = draw(count)
        invalid = (~valid).nonzero()[0]
        while invalid.size:
            again, valid = draw(invalid.size)
            values[invalid] = again
            invalid = invalid[~valid]
        return values

    def _wide(self, bound: int, count: int) -> np.ndarray:
        bits = (bound - 1).bit_length()
        values = np.empty(count, dtype=object)
        for place in range(count):
            values[place] = self._wide_one(bound, bits)
        return values

    def _wide_one(self, bound: int, bits: int) -> int:
        size = (bits + 7) // 8
        while True:
            value = int.from_bytes(self._urandom(size), "little") >> (8 * size - bits)
            if value < bound:
                return value


INT64_LIMIT = 1 << 63

_LEAST_PROPOSED = 64
"""Number of spare candidates: for a few groups one round is enough."""

Propose: TypeAlias = Callable[[int], tuple[np.ndarray, np.ndarray]]
"""A function from a number of candidates to the places of the accepted ones and their values."""


def compose(blocks: np.ndarray, size: int, rests: np.ndarray, divisor: int = 1) -> np.ndarray:
    """Return floor((blocks · size + rests) / divisor) for non-negative parts, rests < size.

    int64 if every intermediate value fits, otherwise Python integers.

    >>> compose(np.array([2]), 10**18, np.array([5])).dtype.name
    'int64'
    >>> compose(np.array([20]), 10**18, np.array([5]))[0]
    20000000000000000005
    """
    most = int(blocks.max(initial=0))
    if max((most + 1) * size, divisor) >= INT64_LIMIT:
        blocks, rests = blocks.astype(object), rests.astype(object)
    whole: np.ndarray = blocks * size + rests
    return whole if divisor == 1 else whole // divisor


def accepted(count: int, propose: Propose) -> np.ndarray:
    """Return `count` independent accepted candidates.

    Each round proposes twice as many as are missing, so a few rounds suffice. The first accepted
    ones by place are taken, since a place is independent of its value.
    """
    batches = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing:
        places, values = propose(2 * missing + _LEAST_PROPOSED)
        first = np.argsort(places)[:missing]
        batches.append(values.take(first))
        missing -= first.size
    return concatenated(batches)


def concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays, as Python integers if one of them holds such."""
    if any(array.dtype == object for array in arrays):
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)


def distinct(values: np.ndarray) -> np.ndarray:
    """Return the distinct values in increasing order, by sorting: hashes of regular values collide.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if ordered.size else ordered
