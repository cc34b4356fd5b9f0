"""Outcomes of statements for the owner's log: analyst, result and charge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsql.dialects.postgres.words import Piece, WordKind
from dpsql.model.dataclass import dataclass

if TYPE_CHECKING:
    from dpsql.interfaces.pgwire.faults import Fault
    from dpsql.model.vocabulary import Receipt

SUCCESS = "00000"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of one statement, after `seconds`.

    `reason` is that of a refusal. `cause` is only for the owner. There is a receipt if private data
    were queried.
    """

    seconds: float
    sqlstate: str = SUCCESS
    reason: str = ""
    query: str = ""
    cause: str = ""
    receipt: Receipt | None = None
    text: str = ""

    @classmethod
    def of(cls, fault: Fault, seconds: float, text: str) -> Outcome:
        """Return the outcome of a failed statement."""
        return cls(seconds, fault.sqlstate, fault.reason, fault.query, fault.log, text=text)

    @property
    def kind(self) -> str:
        """Kind of the answer: refused, failed, free, remembered or fresh."""
        if self.sqlstate != SUCCESS:
            return "refused" if self.reason else "failed"
        if self.receipt is None:
            return "free"
        return "remembered" if self.receipt.remembered else "fresh"

    @property
    def facts(self) -> dict[str, str | float]:
        """Fields of the log line, without empty ones."""
        receipt = self.receipt
        paid: dict[str, str | float] = {}
        if receipt is not None and not receipt.remembered:
            paid = {
                "budget": receipt.budget,
                "epsilon": float(receipt.epsilon),
                "charge": receipt.charged.amount / 1e9,
                "charge_delta": receipt.charged.delta / 1e18,
            }
        query = self.query if receipt is None else receipt.query_id
        facts = {"sqlstate": self.sqlstate, "answer": self.kind, "reason": self.reason}
        facts |= {"query": query, "cause": self.cause, "text": self.text}
        seconds = round(self.seconds, 6)
        return {**{k: v for k, v in facts.items() if v}, **paid, "seconds": seconds}


def normalised(piece: Piece) -> str:
    """Return a statement in one line with `?` for each constant.

    >>> from dpsql.dialects.postgres.words import pieces
    >>> normalised(pieces("SELECT  'x', age + 1 -- a remark")[0])
    'SELECT ? , age + ?'
    """
    constants = (WordKind.STRING, WordKind.DOLLAR, WordKind.NUMBER)
    return " ".join("?" if word.kind in constants else word.text for word in piece.words)
