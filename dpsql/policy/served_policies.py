"""Policies that one server answers for: each has a name, a ledger and users of its own.

SECURITY.md S35.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpsql.model.errors import PolicyError
from dpsql.policy.load import load
from dpsql.policy.policy_keys import DATABASE_NAME


def name_policies(paths: Sequence[str]) -> dict[str, str]:
    """Return policy files by the names of their databases; one alone is called "".

    Raises `PolicyError` for a policy with the name, the ledger or the users of another one.
    """
    if len(paths) == 1:
        return {"": paths[0]}
    named, taken = dict[str, str](), dict[tuple[str, str], str]()
    for path in paths:
        draft = load(path)
        name = draft.server.database or Path(path).stem
        if not DATABASE_NAME.fullmatch(name):
            why, fix = f"{name!r} names no database.", "Write [server] database."
            raise PolicyError(path, None, why, fix)
        ledger = draft.ledger.url or str(Path(draft.ledger.path).resolve())
        users = str(Path(draft.server.users).resolve())
        own = ("server.database", name), ("ledger.path", ledger), ("server.users", users)
        for key, value in own:
            if (key, value) in taken:
                line = draft.lines.of(tuple(key.split(".")))
                why = f"{taken[key, value]} has the same {key}, and one server answers for both."
                raise PolicyError(path, line, why, f"Give each its own {key}.")
            taken[key, value] = path
        named[name] = path
    return named
