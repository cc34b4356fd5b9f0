"""Engines: run a rewritten query, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpsql.tree import SqlType


class EngineFailed(Exception):
    """A statement failed; says nothing about why."""


class Interrupted(Exception):
    """A statement was cancelled."""


class TimedOut(Exception):
    """A statement ran longer than the policy allows."""


@dataclass(frozen=True, slots=True)
class ScratchTable:
    """A table of public or released rows for the scratch instance."""

    name: str
    columns: tuple[tuple[str, SqlType], ...]
    rows: Sequence[tuple[Any, ...]]
