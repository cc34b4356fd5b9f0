"""The owner's exact rows, for comparison with released ones: never for analysts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from dpsql.engines import EngineFailed
from dpsql.model.errors import Unreachable
from dpsql.policy.load import load
from dpsql.preparation.engine_kinds import opened


def true_rows(path: str, sql: str) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a SELECT over the database of a policy, in the database's own SQL.

    Raises `PolicyError`, or `Unreachable` if the database does not answer.
    """
    with closing(opened(load(path))) as engine:
        try:
            return engine.rows(sql)
        except EngineFailed:
            raise Unreachable("The database did not answer that SELECT by itself.") from None
