"""Exception tree of PEP 249, and the translation of our errors to it."""

from __future__ import annotations

from dpsql.interfaces.doors import DATABASE_API
from dpsql.interfaces.messages import describe
from dpsql.interfaces.wordings import WORDINGS, ExitCode
from dpsql.model import errors


class Warning(Exception):  # noqa: A001
    """Warning of PEP 249, which is never raised: notices are on the cursor."""


class Error(Exception):
    """Root of the errors. `sqlstate` has five characters; `reason` is the reason of a refusal, and
    `offer` a statement that would be accepted, with its `changes`.
    """

    def __init__(
        self,
        message: str,
        *,
        sqlstate: str = "HY000",
        reason: errors.Reason | None = None,
        offer: errors.Offer | None = None,
    ) -> None:
        super().__init__(message)
        self.sqlstate, self.reason, self.offer = sqlstate, reason, offer


class InterfaceError(Error):
    """Error of the caller or the policy file, not of the database."""


class DatabaseError(Error):
    """Root of the errors that the proxy reports."""


class DataError(DatabaseError):
    """Error in data, which is never raised."""


class OperationalError(DatabaseError):
    """Exhausted budget, unusable database or ledger, or a failed or cancelled statement."""


class IntegrityError(DatabaseError):
    """Violation of integrity, which is never raised: nothing is written."""


class InternalError(DatabaseError):
    """Internal error, which is never raised: a bug of dpsql keeps its own type."""


class ProgrammingError(DatabaseError):
    """Error in the text or its parameters."""


class NotSupportedError(DatabaseError):
    """Valid text that cannot be answered privately."""


BY_EXIT_CODE: dict[ExitCode, type[Error]] = {
    ExitCode.BAD_INPUT: ProgrammingError,
    ExitCode.PRIVACY: NotSupportedError,
    ExitCode.BUDGET: OperationalError,
}


def raised_from(error: errors.DpsqlError, sql: str = "") -> Error:
    """Return the PEP 249 exception for `error` in the text `sql`.

    >>> raised_from(errors.Refused(errors.Reason.RAW_ROWS)).sqlstate
    '42501'
    """
    message = describe(error, sql, DATABASE_API)
    reason = error.reason if isinstance(error, errors.Refused) else None
    kind = _kind(error)
    return kind(str(message), sqlstate=message.sqlstate, reason=reason, offer=message.offer)


def _kind(error: errors.DpsqlError) -> type[Error]:
    match error:
        case errors.Refused():
            return BY_EXIT_CODE[WORDINGS[error.reason].exit_code]
        case errors.PolicyError():
            return InterfaceError
        case errors.Failed() | errors.Unreachable() | errors.LedgerError() | errors.WrongVersion():
            return OperationalError
        case errors.MissingExtra():
            return NotSupportedError
        case _:
            return DatabaseError
