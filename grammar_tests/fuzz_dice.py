"""Choices of a hypothesis example, read from its bytes: small bytes are the simple choices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
PLACEHOLDER = re.compile(r"\{(\w+)\}")
BYTES = st.binary(min_size=400, max_size=600).map(lambda drawn: drawn[1 : 8 * drawn[0]])
"""One draw for a whole example: hypothesis copies parts of examples over others where it draws
many times, and half of the examples would be twins. The first byte shrinks and cuts the rest."""


@dataclass(slots=True)
class Dice:
    """Choices read from bytes; the simplest ones when they have run out."""

    source: bytes
    read: int = 0

    def number(self, most: int) -> int:
        """A number in [0, most], most < 2**16; zero is the simplest."""
        if most == 0:
            return 0
        size = 1 if most < 64 else 2
        value = int.from_bytes(self.source[self.read : self.read + size])
        self.read += size
        return value * (most + 1) >> 8 * size

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.number(len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """True in about `percent` cases of a hundred; False is the simplest."""
        return self.number(99) >= 100 - percent

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Zero to `most` options, repetitions possible."""
        return [self.pick(options) for _ in range(self.number(most))]


def filled(template: str, fill: Callable[[str], str]) -> str:
    """The template with each `{word}` replaced, from left to right.

    >>> filled("({int} + {dec})", str.upper)
    '(INT + DEC)'
    """
    return PLACEHOLDER.sub(lambda found: fill(found[1]), template)
