"""A declared link: one hop towards the privacy unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """One declared foreign-key hop: column of this table references table.key."""

    column: str
    table: str
    key: str
