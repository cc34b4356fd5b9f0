"""Choices of a hypothesis example: what is listed first is what examples shrink to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@cache
def _upto(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)


@dataclass(frozen=True, slots=True)
class Dice:
    """Random choices, each drawn from hypothesis so that it can shrink."""

    draw: Callable[[st.SearchStrategy[int]], int]

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        return options[self.number(len(options) - 1)]

    def number(self, most: int) -> int:
        """A number in [0, most]; zero is the simplest."""
        return self.draw(_upto(most)) if most else 0

    def chance(self, percent: int) -> bool:
        """True in about `percent` cases of a hundred; False is the simplest."""
        return self.draw(_upto(99)) >= 100 - percent

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Zero to `most` options, repetitions possible."""
        return [self.pick(options) for _ in range(self.number(most))]


def filled(template: str, fill: Callable[[str], str]) -> str:
    """The template with each `{word}` replaced, from left to right.

    >>> filled("({int} + {dec})", str.upper)
    '(INT + DEC)'
    """
    return PLACEHOLDER.sub(lambda found: fill(found[1]), template)
