"""recalling: what the ledger remembers of a question, with the plan that it was paid for by.

Telling it again loses nothing: PRIVACY.md R69.
"""

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

    A question that would choose groups is answered from noise on every group too. None where there
    is no answer, or where a query of that epsilon would have asked otherwise.
    """
    for way in prepared.ways:
        known = ledger.recall(asked.request.analyst, way.question, version, asked.epsilon)
        if known is not None:
            for paid in prepared_at(asked, known.epsilon).ways:
                if paid.question == way.question:
                    return known, paid
    return None
