"""The words for what would make errors smaller, or hide less."""

from __future__ import annotations

from typing import assert_never

from dpsql.explaining.explanation import (
    FewerGroups,
    FewerRows,
    Help,
    LargerEpsilon,
    PublicKeys,
    TighterBounds,
    approximate,
)
from dpsql.interfaces.amounts import plain
from dpsql.interfaces.doors import Door
from dpsql.interfaces.messages import printable


def help_text(each: Help, door: Door | None = None) -> str:
    """One help; what names a way to ask for more names the door's own.

    >>> help_text(TighterBounds("amount", 0, 500))
    'tighter bounds of amount, now 0 … 500 a row: half as wide, half the ±'
    """
    return printable(_said(each, door))


def _said(each: Help, door: Door | None) -> str:
    match each:
        case LargerEpsilon(most=most):
            way = "" if door is None else f" ({door.words()['by_epsilon']})"
            return f"a larger ε, up to {plain(most)}{way}: twice the ε, about half the ±"
        case PublicKeys(keys=keys):
            return f"values of {', '.join(keys)} listed in the policy: then every group is shown"
        case TighterBounds(argument=argument, lower=lower, upper=upper):
            ends = f"{approximate(lower)} … {approximate(upper)}"
            return f"tighter bounds of {argument}, now {ends} a row: half as wide, half the ±"
        case FewerRows(rows=rows):
            return f"fewer rows of one unit in a group than {rows:,}: half as many, half the ±"
        case FewerGroups(groups=groups):
            return f"coarser groups: one unit counts in up to {groups:,}, and each adds to the ±"
        case _:
            assert_never(each)
