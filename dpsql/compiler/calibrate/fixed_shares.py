"""`epsilon => …` of single aggregates: parts of a query's budget that are fixed (GoogleSQL).

An aggregate with its own ε may spend as much on its measurements as a query of that ε. Aggregates
with common measurements pool their allowances. The rest of the budget is for all other
measurements; if there are none it is not spent.

Shares add up to at most the allowance of the query: PRIVACY.md R62.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from dpsql.compiler.calibrate.splitting import Part
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span


@dataclass(frozen=True, slots=True)
class Claim:
    """The part of the budget that may be spent on `columns`, as the aggregate at `span`
    requests.
    """

    columns: frozenset[int]
    share: Fraction
    span: Span


def with_claims(
    shares: Sequence[Fraction], parts: Sequence[Part], claims: Sequence[Claim]
) -> list[Fraction]:
    """Scale the shares of the parts to the claims and to the rest.

    Raises `Refused` where a claim measures nothing, or where too little is left.

    >>> from dpsql.model.tree import NOWHERE
    >>> parts = [Part((n,), 1.0, (1.0,)) for n in range(3)]
    >>> third = [Fraction(1, 3)] * 3
    >>> with_claims(third, parts, [Claim(frozenset({0}), Fraction(1, 2), NOWHERE)])
    [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    """
    if not claims:
        return list(shares)
    pools: list[tuple[frozenset[int], Fraction]] = []
    for claim in claims:
        places = frozenset(n for n, p in enumerate(parts) if claim.columns & set(p.columns))
        if not places:
            raise _bad(claim, "nothing is measured for it")
        if not claim.share:
            raise _bad(claim, "it is too small to spend")
        pools = _pooled(pools, places, claim.share)
    claimed = frozenset[int]().union(*(places for places, _ in pools))
    free = frozenset(range(len(parts))) - claimed
    left = 1 - sum((share for _, share in pools), Fraction(0))
    if left < 0 or (free and not left):
        raise _bad(claims[-1], "too little of the query's epsilon is left for it and the others")
    scaled = list(shares)
    for places, amount in [*pools, (free, left)]:
        total = sum(shares[n] for n in places)
        for n in places:
            scaled[n] = amount * shares[n] / total
    return scaled


def _pooled(
    pools: Iterable[tuple[frozenset[int], Fraction]], places: frozenset[int], share: Fraction
) -> list[tuple[frozenset[int], Fraction]]:
    """Add a pool, and merge pools that have a place in common."""
    apart = []
    for members, amount in pools:
        if members & places:
            places, share = places | members, share + amount
        else:
            apart.append((members, amount))
    return [*apart, (places, share)]


def _bad(claim: Claim, why: str) -> Refused:
    fix = "Name less: all aggregates together have the query's ε, and each needs a part of it."
    return Refused(Reason.BAD_OPTION, claim.span, option="epsilon", why=why, fix=fix)
