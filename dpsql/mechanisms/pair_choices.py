"""Pairs of columns with tables that are worth their noise, each chosen by the exponential
mechanism.

The score of a pair is how far the exact two-way table n lies in L1 from public whole numbers e,
such as those of a fitted model, less a public number, such as the distance that noise alone would
add: Σ |n(i, j) - e(i, j)| - worth (McKenna, Mullins, Sheldon and Miklau 2022, AIM).

Proof (PRIVACY.md R78). e is public when it is compared with, and so is its worth. If one unit moves
every exact table by at most Δ in L1, it moves every score by at most Δ, since |a - e| moves no more
than a. So the difference of two scores moves by at most 2Δ, and a round at rate r has
(2·r·Δ)-bounded range (PRIVACY.md R47). The pairs of a round, and e, follow from earlier rounds and
from releases between them. Rounds compose adaptively, and no more are drawn than are charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from dpsql.mechanisms.exponential import rate_down
from dpsql.mechanisms.laws import Law, Softmax
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import BoundedRangeEvent, Sensitivity

Pair: TypeAlias = tuple[int, int]
Draw: TypeAlias = Callable[[Law, int], np.ndarray]


@dataclass(frozen=True, slots=True)
class PairChoice:
    """Mechanism and charge of `rounds` choices at one rate. Only `pair_choice` makes it."""

    rounds: int
    rate: Fraction
    epsilon: Fraction

    @property
    def event(self) -> BoundedRangeEvent:
        """Event of all rounds, for the accountant."""
        return BoundedRangeEvent(self.epsilon, self.rounds)

    def chosen(self, scores: Mapping[Pair, int], draw: Draw) -> Pair:
        """Run one round and return the chosen pair.

        >>> choice = pair_choice(1, [Sensitivity(1, 0, 1)], Fraction(1))
        >>> choice.chosen({(0, 1): 5, (1, 2): 9}, lambda law, count: np.zeros(count, dtype=int))
        (1, 2)
        """
        best_first = sorted(scores, key=lambda pair: (-scores[pair], pair))
        law = Softmax(tuple(scores[pair] for pair in best_first), self.rate)
        return best_first[int(draw(law, 1)[0])]


def pair_choice(rounds: int, sensitivities: Iterable[Sensitivity], epsilon: Fraction) -> PairChoice:
    """Return `rounds` choices, each of at most ε-bounded range, among tables of these
    sensitivities.
    """
    spread = 2 * max(sensitivity.l1 for sensitivity in sensitivities)
    rate = rate_down(epsilon, spread)
    return PairChoice(rounds, rate, rate * spread)


def score(exact: np.ndarray, expected: np.ndarray, worth: int = 0) -> int:
    """Return the L1 distance of two tables of whole numbers, less `worth`.

    >>> score(np.array([[3, 0], [0, 2]]), np.array([[1, 1], [1, 1]]), 2)
    3
    """
    return int(np.abs(exact - expected).sum()) - worth


def components(nodes: int, edges: Iterable[Pair]) -> Sequence[int]:
    """Return the connected component of each node, named by its smallest node.

    >>> components(4, [(0, 2), (2, 3)])
    [0, 1, 0, 0]
    """
    parts = list(range(nodes))
    for one, other in edges:
        joined = {parts[one], parts[other]}
        parts = [min(joined) if part in joined else part for part in parts]
    return parts
