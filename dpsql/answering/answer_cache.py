"""Finished answers that a proxy remembers in memory, the oldest forgotten first."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.vocabulary import Answer

MOST_CELLS = 1_000_000
"""Values of all finished answers that are kept."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A remembered answer, finished: good as it is while the ledger's stamp is still the same."""

    stamp: object
    answer: Answer


def answers_of(cells: int = MOST_CELLS) -> BoundedCache[Finished]:
    """Finished answers of at most this many cells in all."""
    return BoundedCache(cells, lambda kept: 1 + len(kept.answer.rows) * len(kept.answer.columns))
