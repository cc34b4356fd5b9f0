"""Faults of other products: which versions have them. A test about a fault runs with these alone.

A property that privacy depends on is asserted for every version, in a test of its own.
"""

from __future__ import annotations

from importlib.metadata import version

import pytest

from dpsql.engines.versions import within

FAULTS = {
    "bytes": ("duckdb", "0", "2.0.1", "levenshtein counts bytes"),
    "guard": ("duckdb", "0", "2.0.1", "the optimiser empties TRY of what two columns share"),
    "small": ("duckdb", "0", "2.0.0", "kurtosis divides by a variance whose square is zero"),
    "wrap": ("duckdb", "0", "2.0.0", "round of an integer wraps around"),
    "folded": ("duckdb", "2.0.0", "2.0.1", "a column's range makes a CASE of text raise"),
}
"""Per fault: the package, the first version that has it, the first without, and what it is."""


def only_with(fault: str) -> pytest.MarkDecorator:
    """Skip mark for versions without the fault."""
    package, first, end, what = FAULTS[fault]
    return pytest.mark.skipif(
        not within(version(package), first, end),
        reason=f"a fault of {package} from {first}, below {end}: {what}",
    )
