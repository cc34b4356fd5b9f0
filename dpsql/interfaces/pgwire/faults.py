"""Errors in the protocol: severity, SQLSTATE, message, detail, hint, position.

Errors of the engine and of the owner's files are not sent: SECURITY.md S5.
"""

from __future__ import annotations

from dpsql.dialects.postgres.words import Piece
from dpsql.interfaces.doors import WIRE
from dpsql.interfaces.messages import describe
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import DataChanged, DpsqlError, Failed, Refused, Unreachable
from dpsql.model.tree import NOWHERE


@dataclass(eq=False)
class Fault(Exception):
    """An error for a client. `position` counts characters of the whole text from 1.

    `log` is only for the owner. `reason` is the reason of a refusal, and `query` the id of the
    failed query.
    """

    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    position: int | None = None
    severity: str = "ERROR"
    log: str = ""
    reason: str = ""
    query: str = ""

    def __str__(self) -> str:
        return self.message

    @property
    def fields(self) -> dict[str, str]:
        """Fields of an ErrorResponse."""
        optional = {
            "S": self.severity,
            "V": self.severity,
            "C": self.sqlstate,
            "M": self.message,
            "D": self.detail,
            "H": self.hint,
            "P": "" if self.position is None else str(self.position),
        }
        return {code: text for code, text in optional.items() if text}


def fault_of(error: DpsqlError, piece: Piece | None = None) -> Fault:
    """Return the fault for `error` in a statement of the message.

    An internal failure shows only its query id. Problems and paths of the owner's files go to the
    log.

    >>> from dpsql.model.errors import Reason
    >>> fault_of(Refused(Reason.RAW_ROWS)).sqlstate
    '42501'
    """
    if isinstance(error, Failed) and not (error.cancelled or error.timed_out or error.too_large):
        return Fault("XX000", str(error), log=error.detail, query=error.query_id)
    if isinstance(error, DataChanged):
        return Fault("55000", str(error), log=error.detail)
    if isinstance(error, Unreachable):
        return Fault("58030", "The database cannot be used now. Ask its owner.", log=str(error))
    if not isinstance(error, Refused | Failed):
        return Fault("58030", "The server cannot answer now. Ask its owner.", log=str(error))
    message = describe(error, "" if piece is None else piece.text, WIRE)
    offer = message.offer
    tried = "" if offer is None else f"Try ({offer}): {offer.sql.strip()}"
    hint = "\n".join(filter(None, (message.fix, tried)))
    fault = Fault(message.sqlstate, message.headline, message.why, hint)
    if isinstance(error, Failed):
        fault.query = error.query_id
        return fault
    fault.reason = error.reason.value
    if error.span != NOWHERE and piece is not None:
        fault.position = piece.position(error.span.start)
    return fault


def internal(query_id: str) -> Fault:
    """Return an internal fault, without its cause."""
    return Fault("XX000", f"Query {query_id} failed.", query=query_id)
