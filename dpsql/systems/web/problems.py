"""Problem details (RFC 9457): errors of the HTTP interface, in the words of all interfaces.

Errors of the engine and of the owner's files are not sent: SECURITY.md S5.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.interfaces.doors import HTTP, Door
from dpsql.interfaces.messages import describe
from dpsql.interfaces.pgwire.faults import Fault, fault_of
from dpsql.interfaces.wordings import WORDINGS, ExitCode
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import DpsqlError, Failed, Refused

PROBLEM_TYPE = "application/problem+json"
_STATUS_OF_REFUSAL = {ExitCode.BUDGET: 403}
_REFUSED, _SERVER_FAILED, _UNAVAILABLE = 422, 500, 503


@dataclass(eq=False)
class Problem(Exception):
    """An error for a client, with its HTTP status.

    `reason` is a word for programs. `about` has the members that only some problems have: place,
    offer, id of the query. `log` is only for the owner.
    """

    status: int
    reason: str
    title: str
    why: str = ""
    fix: str = ""
    about: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault | None = None

    def __str__(self) -> str:
        return self.title

    @property
    def document(self) -> dict[str, object]:
        """Members of the document, without empty ones.

        >>> Problem(404, "no-route", "There is no such route.").document["type"]
        'tag:dpsql,2026:no-route'
        """
        members = {
            "type": f"tag:dpsql,2026:{self.reason}",
            "status": self.status,
            "title": self.title,
            "reason": self.reason,
            "why": self.why,
            "fix": self.fix,
            **self.about,
        }
        return {name: value for name, value in members.items() if value not in ("", None)}


def problem_of(error: DpsqlError, sql: str = "", door: Door = HTTP) -> Problem:
    """Return the problem for an error in the text `sql`, in the words of an interface.

    >>> from dpsql.model.errors import Reason
    >>> problem_of(Refused(Reason.RAW_ROWS)).status
    422
    """
    fault = fault_of(error)
    if not isinstance(error, Refused | Failed):
        return Problem(_UNAVAILABLE, "unavailable", fault.message, fault=fault)
    message = describe(error, sql, door)
    about: dict[str, object] = {"sqlstate": message.sqlstate, "query_id": fault.query}
    if isinstance(error, Failed):
        about["charged"] = error.charged
        status = _status_of_failure(error)
    else:
        status = _STATUS_OF_REFUSAL.get(WORDINGS[error.reason].exit_code, _REFUSED)
        place = {"line": message.line, "column": message.column, "excerpt": message.excerpt}
        about |= {"charged": False, "place": place if message.line is not None else None}
    if message.offer is not None:
        offer = message.offer
        about["try"] = {"sql": offer.sql.strip(), "changes": list(offer.changes)}
    return Problem(
        status,
        message.code,
        message.headline,
        why=message.why,
        fix=message.fix,
        about=about,
        fault=fault,
    )


def _status_of_failure(error: Failed) -> int:
    if error.cancelled:
        return 409
    if error.timed_out:
        return 504
    return _REFUSED if error.too_large else _SERVER_FAILED
