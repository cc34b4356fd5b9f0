"""What cannot be said so that it holds for every row is refused, with the engine's name."""

from __future__ import annotations

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import NOWHERE, Span

ENGINE = "PostgreSQL"


def lacking(construct: str, span: Span = NOWHERE) -> Refused:
    """The refusal of what has no exact form that cannot fail on this engine."""
    return Refused(Reason.ENGINE_LACKS, span, construct=construct, engine=ENGINE)
