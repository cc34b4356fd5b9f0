"""What a proposal needs beside its noise: a δ, public groups, and no exchange between groups.

Proof (PRIVACY.md R55). A test costs its count's noise and δ, a mean the noise for what one unit
moves it by if the test could be passed; what the proof does not cover is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.accountants import Accountant
from dpsql.compiler.plan.measurement_kinds import Measurement, StableMean
from dpsql.compiler.plan.private_plan import BoundedBlock, Release
from dpsql.mechanisms.stability import stability
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import EventPart, Neighbours, SelectionEvent


def means_of(parts: Sequence[Measurement]) -> list[StableMean]:
    """What is shown where its test is passed, among a block's measurements."""
    return [part for part in parts if isinstance(part, StableMean)]


def require_testable(
    bounded: BoundedBlock,
    parts: Sequence[Measurement],
    accountant: Accountant,
    neighbours: Neighbours,
) -> None:
    """Raises `Refused` for a proposal that no proof covers, or that has no δ."""
    if not means_of(parts):
        return
    name, span = "PTR_MEAN", bounded.block.span
    if not accountant.supports_selection:
        fix = "Ask the owner for a budget with δ, or use AVG."
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, span, name=f"{name} without δ", fix=fix)
    if bounded.domain is None:
        fix = "Group by columns with declared values."
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, span, name=f"{name} by private keys", fix=fix)
    if bounded.block.keys and neighbours is Neighbours.REPLACE:
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, span, name=f"{name} by group under REPLACE")


def tested(releases: tuple[Release, ...], delta: Fraction, l0: int) -> tuple[Release, ...]:
    """The releases with the test of each mean, for which it may use `delta` in `l0` groups."""
    counts = {release.query: release for release in releases}

    def with_test(release: Release) -> Release:
        if not isinstance(release.query, StableMean):
            return release
        test = release.query.test
        count = counts[test]
        test_of_count = stability(count.field.id, count.noise, test.rows, delta, l0)
        return replace(release, stability=test_of_count)

    return tuple(map(with_test, releases))


def events_of_tests(releases: Sequence[Release]) -> tuple[EventPart, ...]:
    """What the tests cost beside the noise of their counts."""
    return tuple(SelectionEvent(r.stability.delta) for r in releases if r.stability is not None)
