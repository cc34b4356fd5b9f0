"""The exception tree of PEP 249, and which of ours becomes which of these."""

from __future__ import annotations

from dpsql.interfaces.doors import DATABASE_API
from dpsql.interfaces.messages import describe
from dpsql.interfaces.wordings import WORDINGS, ExitCode
from dpsql.model.errors import (
    DpsqlError,
    Failed,
    LedgerError,
    MissingExtra,
    PolicyError,
    Reason,
    Refused,
    Unreachable,
    WrongVersion,
)


class Warning(Exception):  # noqa: A001
    """Never raised: notices are on the cursor."""


class Error(Exception):
    """Root of the errors; `sqlstate` has five characters, `reason` is a refusal's reason."""

    def __init__(
        self, message: str, *, sqlstate: str = "HY000", reason: Reason | None = None
    ) -> None:
        super().__init__(message)
        self.sqlstate, self.reason = sqlstate, reason


class InterfaceError(Error):
    """The caller's or the policy file's fault, not the database's."""


class DatabaseError(Error):
    """Root of what the proxy reports."""


class DataError(DatabaseError):
    """Never raised: nothing about data is an error."""


class OperationalError(DatabaseError):
    """Budget exhausted, database or ledger unusable, statement failed or was cancelled."""


class IntegrityError(DatabaseError):
    """Never raised: nothing is written."""


class InternalError(DatabaseError):
    """Never raised: a fault of dpsql itself keeps its own type."""


class ProgrammingError(DatabaseError):
    """The text or its parameters are wrong."""


class NotSupportedError(DatabaseError):
    """The text is right and cannot be answered privately."""


_BY_EXIT_CODE: dict[ExitCode, type[Error]] = {
    ExitCode.BAD_INPUT: ProgrammingError,
    ExitCode.PRIVACY: NotSupportedError,
    ExitCode.BUDGET: OperationalError,
}


def raised_from(error: DpsqlError, sql: str = "") -> Error:
    """The PEP 249 exception that tells `error` about the text `sql`.

    >>> raised_from(Refused(Reason.RAW_ROWS)).sqlstate
    '42501'
    """
    message = describe(error, sql, DATABASE_API)
    reason = error.reason if isinstance(error, Refused) else None
    return _kind(error)(str(message), sqlstate=message.sqlstate, reason=reason)


def _kind(error: DpsqlError) -> type[Error]:
    match error:
        case Refused():
            return _BY_EXIT_CODE[WORDINGS[error.reason].exit_code]
        case PolicyError():
            return InterfaceError
        case Failed() | Unreachable() | LedgerError() | WrongVersion():
            return OperationalError
        case MissingExtra():
            return NotSupportedError
        case _:
            return DatabaseError
