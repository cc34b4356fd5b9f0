"""Releases of the same data outside of this proxy, and the guarantee of everything together."""

from __future__ import annotations

from decimal import Decimal

from dpsql.model.other_release import OtherRelease
from dpsql.model.vocabulary import LIFETIME, Policy
from dpsql.policy.draft import Draft
from dpsql.policy.policy_keys import read_values
from dpsql.policy.value_reader import Reader

_EVERYTHING = "all budgets"


def read_releases(reader: Reader) -> tuple[OtherRelease, ...]:
    """Return the tables `[releases.R]` of a policy. Raises `PolicyError`."""
    each = reader.table("releases").tables()
    return tuple(OtherRelease(name, **read_values(table, "releases.R")) for name, table in each)


def total_guarantee(policy: Policy | Draft) -> tuple[Decimal, Decimal] | None:
    """Return (ε, δ) of all budgets and other releases together, by basic composition.

    A budget that renews counts with its lifetime. Returns None where one has no limit over all
    windows, or where units are people in periods, whose budgets have no end.
    """
    caps = {cap.title: cap for cap in policy.caps if cap.renews is None}
    everything = caps.get(_EVERYTHING) or caps.get(f"{LIFETIME}{_EVERYTHING}")
    pots = [
        budget if budget.renews is None else caps.get(f"{LIFETIME}budget {budget.name}")
        for budget in policy.budgets
    ]
    limits = pots if everything is None else [everything]
    if None in limits or policy.period is not None:
        return None
    each = [*(limit for limit in limits if limit is not None), *policy.releases]
    zero = Decimal(0)
    return sum((one.epsilon for one in each), zero), sum((one.delta for one in each), zero)
