"""How the keys of a block are published, each way with the fields that it has.

Public keys are listed, and all or the first of them are answered; private ones are shown by their
noisy unit count or by a trial each.

Trials are about counts that a unit changes by one: PRIVACY.md R76.
"""

from __future__ import annotations

from math import ceil
from typing import TypeAlias, assert_never

from dpsql.compiler.plan.lattices import WHOLE
from dpsql.compiler.plan.measurement_kinds import Measurement, clip_of_unit
from dpsql.mechanisms.threshold import Threshold
from dpsql.mechanisms.top_keys import Top
from dpsql.mechanisms.truncated_geometric import KeyTrials
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Value

Domain: TypeAlias = tuple[tuple[Value, ...], ...]
"""Public keys in their order; without columns there is one, ()."""


@dataclass(frozen=True, slots=True)
class Within:
    """Place `key` of a block's keys is always a value in column `column` of stage `stage`."""

    key: int
    stage: int
    column: int


@dataclass(frozen=True, slots=True)
class ListedKeys:
    """Public keys, each of them answered, whether the data has it or not.

    Those that are not `within` what was released before have no rows, and are not answered. With
    `along` some of the keys, of which they are all combinations, what is measured are differences
    along these: see `dpsql.mechanisms.differences`.
    """

    domain: Domain
    within: tuple[Within, ...] = ()
    along: tuple[int, ...] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each key has."""
        return tuple(len(set(values)) for values in zip(*self.domain, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKeys:
    """Public keys of which those alone are shown that `top` chooses by an `unreleased` sum.

    What is released is of them alone; if nothing is, `place` labels where each is in their order,
    in that sum's lattice. `otherwise` is the error of ordering all keys by the sum with noise.
    """

    domain: Domain
    within: tuple[Within, ...]
    top: Top
    unreleased: Measurement
    otherwise: float
    place: Field | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdKeys:
    """Private keys: one is shown if the sum of the `counted` columns reaches a `threshold`.

    None of fewer than `floor` units is, by that count. `runner_up` would have shown fewer.
    """

    threshold: Threshold
    counted: tuple[int, ...]
    floor: int
    runner_up: Threshold | KeyTrials | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialKeys:
    """Private keys of which nobody asks for a number: each is shown by a trial on its exact count.

    That count is `unreleased`: SQL computes it, and nobody sees it. A unit counts 1 in it.
    """

    trials: KeyTrials
    unreleased: Measurement
    floor: int
    runner_up: Threshold

    def __post_init__(self) -> None:
        """A trial is private for counts that a unit changes by one."""
        if self.unreleased.released != WHOLE or clip_of_unit(self.unreleased) != (0, 1):
            raise ValueError(self.unreleased)


Keys: TypeAlias = ListedKeys | TopKeys | ThresholdKeys | TrialKeys


def units_needed(keys: Keys) -> int | None:
    """About how many units a private key needs to be shown every other time."""
    match keys:
        case ListedKeys() | TopKeys():
            return None
        case ThresholdKeys(threshold=threshold):
            return ceil(threshold.units)
        case TrialKeys(trials=trials):
            return trials.even
        case _:
            assert_never(keys)


def unreleased(keys: Keys) -> tuple[Measurement, ...]:
    """What SQL sums so that keys can be chosen, and nobody sees."""
    match keys:
        case ListedKeys() | ThresholdKeys():
            return ()
        case TopKeys() | TrialKeys():
            return (keys.unreleased,)
        case _:
            assert_never(keys)
