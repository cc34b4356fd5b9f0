"""What is known of the columns of a released table besides their numbers: what was measured, with
which noise, or that it was derived of such tables (PRIVACY.md R79).
"""

from __future__ import annotations

from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Noise


@dataclass(frozen=True, slots=True)
class MeasuredColumns:
    """What the columns of a released table are, by digests of what they say, with their noise.

    With `along` places of keys they are differences along these.
    """

    keys: tuple[str, ...]
    parts: tuple[str, ...]
    noises: tuple[Noise, ...]
    along: tuple[int, ...] = ()

    @property
    def along_keys(self) -> frozenset[str]:
        """The keys at these places."""
        return frozenset(self.keys[place] for place in self.along)


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """The noise of columns that were derived of measurements: `singles` of a group by itself, and
    what is made of several groups errs at most as if each had `noises`, independently of others.
    """

    noises: tuple[Noise, ...]
    singles: tuple[Noise, ...]
