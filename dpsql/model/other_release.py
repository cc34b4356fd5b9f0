"""A release of the same data outside of this proxy, which `dpsql budget` adds to the budgets."""

from __future__ import annotations

from decimal import Decimal

from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OtherRelease:
    """A release by its guarantee (ε, δ), as in [releases.R] of a policy."""

    name: str
    epsilon: Decimal
    delta: Decimal = Decimal(0)
    about: str = ""
