"""Requirements of propose-test-release besides noise: a δ, public groups, add/remove neighbours.

Proof (PRIVACY.md R55). A test costs its count's noise and δ. A mean costs the noise for its largest
change by one unit if the test could pass; cases that the proof does not cover are refused.
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
from dpsql.model.vocabulary import Neighbours


def means_of(parts: Sequence[Measurement]) -> list[StableMean]:
    """List the means in a block's measurements that are released only if their test passes."""
    return [part for part in parts if isinstance(part, StableMean)]


def require_testable(bounded: BoundedBlock, accountant: Accountant, neighbours: Neighbours) -> None:
    """Raise `Refused` for means of a block that no proof covers, or that have no δ."""
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
    """Return the releases with the test of each mean, which may use `delta` in `l0` groups."""
    counts = {release.query: release for release in releases}

    def with_test(release: Release) -> Release:
        if not isinstance(release.query, StableMean):
            return release
        test = release.query.test
        count = counts[test]
        test_of_count = stability(count.field.id, count.noise, test.rows, delta, l0)
        return replace(release, stability=test_of_count)

    return tuple(map(with_test, releases))
