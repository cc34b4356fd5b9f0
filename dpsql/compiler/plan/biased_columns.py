"""Released columns of which a found clipping bound removes something."""

from __future__ import annotations

from dpsql.mechanisms.clipping_bias import ClippingBias
from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class BiasedColumn:
    """A released column of which a clipping bound removes something.

    The truth may lie `above` the number by the bias, `below` it, or either.
    """

    column: int
    bias: ClippingBias
    below: bool
    above: bool
