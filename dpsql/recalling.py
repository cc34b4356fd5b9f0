"""recalling: what the ledger remembers of a question, with the plan that it was paid for by."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from dpsql.ledgers import Ledger, Remembered
from dpsql.prepare import Prepared
from dpsql.questions import Asked


def recalled(
    ledger: Ledger,
    asked: Asked,
    prepared: Prepared,
    version: str,
    prepared_at: Callable[[Asked, Decimal], Prepared],
) -> tuple[Remembered, Prepared] | None:
    """The noisy answer of the same question, and the question as it is asked at that epsilon.

    None where there is none, or where a query of that epsilon would have asked otherwise.
    """
    known = ledger.recall(asked.request.analyst, prepared.question, version, asked.epsilon)
    if known is None:
        return None
    paid = prepared_at(asked, known.epsilon)
    return (known, paid) if paid.question == prepared.question else None
