"""Refusals of constructs that PostgreSQL cannot compute exactly for every row."""

from __future__ import annotations

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Span

ENGINE = "PostgreSQL"


def lacking(construct: str, span: Span = NOWHERE) -> Refused:
    """Return the refusal of a construct without an exact, total form on this engine."""
    return Refused(Reason.ENGINE_LACKS, span, construct=construct, engine=ENGINE)
