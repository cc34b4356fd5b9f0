"""Interfaces: speak a protocol; know no SQL and no privacy."""

import sys
from types import ModuleType


def require_ours(package: ModuleType) -> None:
    """Raises ImportError where the name dpsql is another package's, as that of DPSQL+ is."""
    if "plan_text" not in getattr(package, "__all__", ()):
        raise ImportError(
            "Another package is installed under the name dpsql, as DPSQL+ would be: one of the two "
            "needs an environment of its own."
        )


require_ours(sys.modules["dpsql"])
