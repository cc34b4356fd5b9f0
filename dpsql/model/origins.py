"""The origin of a released table's columns: measured with noise, or derived from measured tables.

Derivation: PRIVACY.md R79.
"""

from __future__ import annotations

from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Noise


@dataclass(frozen=True, slots=True)
class MeasuredColumns:
    """The measured columns of a released table: digests of their meaning, and their noise.

    With `along` places of keys, the values are differences along these keys.
    """

    keys: tuple[str, ...]
    parts: tuple[str, ...]
    noises: tuple[Noise, ...]
    along: tuple[int, ...] = ()

    @property
    def along_keys(self) -> frozenset[str]:
        """The keys at the places `along`."""
        return frozenset(self.keys[place] for place in self.along)


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """The noise of columns that were derived from measurements, for error estimates.

    `singles` is the noise of a group by itself. Sums of several groups err at most as if each had
    independent noise of `noises`.
    """

    noises: tuple[Noise, ...]
    singles: tuple[Noise, ...]
