"""How many rows joins make of one person's: time is an output too.

A condition on one person's row, in front of joins that make a million rows of it, tells by the
clock whether it is true. What bounds the joins is read from the text, the policy and public data.

What is left of time is told in bits: PRIVACY.md R70, SECURITY.md S22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span

MOST_SELF_JOINS = 2
"""How often a person's rows may be multiplied with each other."""

SELF_JOIN = 10
"""How many public rows one such multiplication counts for."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What joins made of a row: `public` copies, by `own` multiplications with the same person's.

    `keys` are the columns that the owner declares to be keys, as long as joins left them so. That
    nobody verified it does not matter here: what an analyst writes cannot make them repeat.

    >>> Growth(public=5).times(Growth(public=7)).public
    35
    """

    public: int = 1
    own: int = 0
    keys: frozenset[int] = frozenset()

    def times(self, other: Growth) -> Growth:
        """A join in which each row of one side may meet each of the other."""
        return Growth(self.public * other.public, self.own + other.own)

    def beside(self, other: Growth) -> Growth:
        """Rows of this, each of which meets at most one of the other; or of both, side by side."""
        return Growth(max(self.public, other.public), max(self.own, other.own), self.keys)

    def joined(self, other: Growth, equal: Mapping[int, int]) -> Growth:
        """A join within one person, whose condition equates these columns of both."""
        if other.keys & set(equal.values()):
            return self.beside(other)
        if self.keys & equal.keys():
            return other.beside(self)
        return self.times(other).times(SELF)


UNJOINED, SELF = Growth(), Growth(own=1)


def require_small(growth: Growth, rows: int | None, most: int, span: Span) -> None:
    """Refuse joins that make more of a row than `most`, unless a person is proved to have no more.

    `rows` is the proved most rows of one person behind the joins (None: no proof).
    """
    if rows is not None and rows <= most:
        return
    if growth.own > MOST_SELF_JOINS:
        what, fix = "joins of a person's rows with each other", "Aggregate them per person first."
        raise Refused(Reason.TOO_LARGE, span, what=what, limit=MOST_SELF_JOINS, why=_WHY, fix=fix)
    if growth.public * SELF_JOIN**growth.own > most:
        what = "rows of public tables for each private row"
        fix = "Join on a key of the public table, or aggregate it first."
        raise Refused(Reason.TOO_LARGE, span, what=what, limit=most, why=_WHY, fix=fix)


_WHY = "A row that is multiplied so often would tell by the clock whether it is there."
