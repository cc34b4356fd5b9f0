"""Interfaces: implement protocols; contain no logic of SQL or privacy."""

import sys
from types import ModuleType


def require_ours(package: ModuleType) -> None:
    """Raise ImportError if another package, such as DPSQL+, has the name dpsql."""
    if "plan_text" not in getattr(package, "__all__", ()):
        raise ImportError(
            "Another package is installed under the name dpsql, as DPSQL+ would be: one of the two "
            "needs an environment of its own."
        )


require_ours(sys.modules["dpsql"])
