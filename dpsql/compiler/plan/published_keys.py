"""Publication of a block's keys: a type for each method, with its own fields.

Public keys are listed, and all or the first of them are answered. Private keys are selected by
their noisy unit count or by one trial each.

Proof (PRIVACY.md R76). Trials are about counts that a unit changes by one.

`events` is the cost of publishing the keys, without noise. `judged` are the sums that SQL computes
for their selection and that are never output. `units_needed` is about how many units a private key
needs to be released with probability one half.
"""

from __future__ import annotations

from math import ceil
from typing import ClassVar, TypeAlias

from dpsql.compiler.plan.lattices import WHOLE
from dpsql.compiler.plan.measurement_kinds import Measurement, clip_of_unit
from dpsql.mechanisms.threshold import Threshold
from dpsql.mechanisms.top_keys import Top
from dpsql.mechanisms.truncated_geometric import KeyTrials
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Value
from dpsql.model.vocabulary import EventPart, SelectionEvent

Domain: TypeAlias = tuple[tuple[Value, ...], ...]
"""Public keys in their order; without columns there is one, ()."""


@dataclass(frozen=True, slots=True)
class ShownKeys:
    """Private keys that an earlier query showed. The step that measures them lists them."""

    query_id: str
    keys: Domain


@dataclass(frozen=True, slots=True)
class Within:
    """A restriction: place `key` of a block's keys is always a value in column `column` of stage
    `stage`.
    """

    key: int
    stage: int
    column: int


@dataclass(frozen=True, slots=True)
class ListedKeys:
    """Public keys, which are all answered, whether the data has them or not.

    Keys that are not `within` earlier releases have no rows, and are not answered. With `along`
    some of the keys, which are all combinations, differences along these are measured: see
    `dpsql.mechanisms.differences`. Private keys that were `shown` before are listed too.
    """

    domain: Domain
    within: tuple[Within, ...] = ()
    along: tuple[int, ...] | None = None
    shown: bool = False
    events: ClassVar[tuple[EventPart, ...]] = ()
    judged: ClassVar[tuple[Measurement, ...]] = ()
    units_needed: ClassVar[None] = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each key."""
        return tuple(len(set(values)) for values in zip(*self.domain, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopKeys:
    """Public keys among which `top` chooses by an `unreleased` sum; only these are answered.

    Releases are of chosen keys only. Without releases, `place` labels the rank of each key, in that
    sum's grid. `otherwise` is the error of ordering all keys by the noisy sum.
    """

    domain: Domain
    within: tuple[Within, ...]
    top: Top
    unreleased: Measurement
    otherwise: float
    place: Field | None
    units_needed: ClassVar[None] = None

    @property
    def events(self) -> tuple[EventPart, ...]:
        """The cost of the choice."""
        return (self.top.event,)

    @property
    def judged(self) -> tuple[Measurement, ...]:
        """The sum that orders the keys."""
        return (self.unreleased,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdKeys:
    """Private keys: a key is released if the sum of the `counted` columns reaches a `threshold`.

    No key of fewer than `floor` units is, by that count. `runner_up` would have released fewer.
    """

    threshold: Threshold
    counted: tuple[int, ...]
    floor: int
    runner_up: Threshold | KeyTrials | None = None
    judged: ClassVar[tuple[Measurement, ...]] = ()

    @property
    def events(self) -> tuple[EventPart, ...]:
        """The cost of comparing with the threshold."""
        return (SelectionEvent(self.threshold.delta),)

    @property
    def units_needed(self) -> int:
        """The count at the threshold."""
        return ceil(self.threshold.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialKeys:
    """Private keys without requested numbers: each is selected by a trial on its exact count.

    SQL computes that count, `unreleased`, and it is never output. A unit counts 1 in it.
    """

    trials: KeyTrials
    unreleased: Measurement
    floor: int
    runner_up: Threshold

    def __post_init__(self) -> None:
        """Raise ValueError unless a unit changes the count by one, as trials require."""
        if self.unreleased.released != WHOLE or clip_of_unit(self.unreleased) != (0, 1):
            raise ValueError(self.unreleased)

    @property
    def events(self) -> tuple[EventPart, ...]:
        """The cost of the trials."""
        return (self.trials.event,)

    @property
    def judged(self) -> tuple[Measurement, ...]:
        """The count that the trials are about."""
        return (self.unreleased,)

    @property
    def units_needed(self) -> int:
        """The count of a key that is released in half of all trials."""
        return self.trials.even


Keys: TypeAlias = ListedKeys | TopKeys | ThresholdKeys | TrialKeys
