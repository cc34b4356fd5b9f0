"""What is known of the columns of a released table besides their numbers: what was measured, with
which noise, or that it was derived of such tables (PRIVACY.md R79).
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.model.vocabulary import Noise


@dataclass(frozen=True, slots=True)
class MeasuredColumns:
    """What the columns of a released table are, by digests of what they say, with their noise."""

    keys: tuple[str, ...]
    parts: tuple[str, ...]
    noises: tuple[Noise, ...]


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """The noise of columns that were derived of measurements: `singles` of a group by itself, and
    what is made of several groups errs at most as if each had `noises`, independently of others.
    """

    noises: tuple[Noise, ...]
    singles: tuple[Noise, ...]
