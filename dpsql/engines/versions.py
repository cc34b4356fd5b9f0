"""Tested versions of the engine and the parser; no other is trusted.

Proofs assume that no expression raises, and that a statement means what its tokens say. Both were
tried with these versions. The test suite runs with the highest of each, a part of it with the
lowest.

>>> within("2.0.1", *TESTED["duckdb"]), within("2.1.0.dev7", *TESTED["duckdb"])
(True, False)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from dpsql.model.errors import WrongVersion

TESTED = {"duckdb": ("1.5.6", "2.1"), "sqlglot": ("30.20", "31")}
"""First tested version of a package, and the first that is no longer tested."""

TRIED = {"duckdb": ("1.5.6", "2.0.1"), "sqlglot": ("30.20.0", "30.30.0")}
"""Versions that passed all tests. Others in the range start after the conformance probes."""


def within(installed: str, first: str, end: str) -> bool:
    """Test whether a version lies in [first, end); a pre-release counts as its release."""
    return _numbers(first) <= _numbers(installed) < _numbers(end)


def require_tested(installed: Callable[[str], str] = version) -> None:
    """Raise `WrongVersion` if the engine or the parser is not a tested version."""
    for package, (first, end) in TESTED.items():
        try:
            present = installed(package)
        except PackageNotFoundError:
            present = "none"
        if not within(present, first, end):
            raise WrongVersion(
                f"{package} {present} is installed, and dpsql is tested with {first} and later, "
                f"below {end}. Install one of these: pip install '{package}>={first},<{end}'."
            )


def _numbers(text: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, 0 for missing ones; suffixes are ignored."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    return (*numbers, 0, 0, 0)[:3]


def _tilde_matches_anywhere() -> bool:
    try:
        return not within(version("duckdb"), "0", "2")
    except PackageNotFoundError:  # `require_tested` says so
        return True


TILDE_MATCHES_ANYWHERE = _tilde_matches_anywhere()
"""True if DuckDB's `~` finds its pattern anywhere in a text, not in the whole text alone."""
