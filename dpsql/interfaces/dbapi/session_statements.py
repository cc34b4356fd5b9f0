"""Statements of a session in Python: BEGIN, COMMIT, SAVEPOINT, SET, RESET and SHOW.

They change settings as they do over the wire, and nothing else: nothing is written, and a charge is
part of no transaction.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.dialects.postgres.words import Piece
from dpsql.dialects.statements import commands
from dpsql.dialects.statements.statement_table import session_command
from dpsql.interfaces.dbapi.dbapi_errors import NotSupportedError, ProgrammingError
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.session_state import change_settings, change_transaction
from dpsql.interfaces.pgwire.settings import SessionSettings, with_settings
from dpsql.interfaces.pgwire.transactions import Transaction
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import VARCHAR
from dpsql.model.vocabulary import Answer, Column, Request

_TIMEOUT = "statement_timeout"


@dataclass(slots=True, eq=False)
class SessionStatements:
    """The transaction and settings of a connection."""

    transaction: Transaction

    @classmethod
    def with_defaults(cls, defaults: Mapping[str, str]) -> SessionStatements:
        """Return the state of a new connection. `defaults` are values of settings by name."""
        return cls(Transaction(SessionSettings(defaults)))

    def change_defaults(self, defaults: Mapping[str, str]) -> None:
        """Take over what the attributes of the connection say now: the latest word counts."""
        for name, value in defaults.items():
            self.transaction.settings.change_default(name, value)

    @property
    def settings(self) -> Mapping[str, str]:
        return self.transaction.settings

    def run(self, sql: str, *, has_parameters: bool) -> Answer | None:
        """Run a statement of a session, and return its rows; None for a statement of another kind.

        A statement that returns nothing has an answer without columns. Raises ProgrammingError,
        NotSupportedError, or `Refused` for wrong syntax.
        """
        command = session_command(Piece(sql, 0))
        if has_parameters and not isinstance(command, commands.Ask):
            raise ProgrammingError("This statement takes no parameters.", sqlstate="07001")
        try:
            match command:
                case (
                    commands.Begin()
                    | commands.Finish()
                    | commands.Savepoint()
                    | commands.ReleaseSavepoint()
                ):
                    result = change_transaction(self.transaction, command)
                case (
                    commands.SetTransaction()
                    | commands.SetValue()
                    | commands.SetConfig()
                    | commands.Reset()
                    | commands.Show()
                ):
                    result = change_settings(self.transaction, command)
                case _:
                    return None
        except Fault as fault:
            message = "\n".join(filter(None, (fault.message, fault.hint)))
            raise ProgrammingError(message, sqlstate=fault.sqlstate) from None
        self._require_no_timeout()
        columns = tuple(Column(c.name, VARCHAR) for c in result.columns or ())
        exact = ((None,) * len(columns),) * len(result.rows)
        return Answer(columns, tuple(result.rows), exact, exact)

    def _require_no_timeout(self) -> None:
        """Reset and refuse a time limit for statements, which only a server keeps."""
        if self.settings[_TIMEOUT] != "0":
            self.transaction.settings.reset(_TIMEOUT)
            message = f"{_TIMEOUT} has no effect here. Stop a statement by cursor.cancel()."
            raise NotSupportedError(message, sqlstate="0A000")

    def end_transaction(self, *, commit: bool) -> None:
        """End an open transaction; a rollback restores the settings of its beginning."""
        self.transaction.finish(commit=commit)

    def apply(self, request: Request) -> Request:
        """Return a request with the settings."""
        return with_settings(request, self.settings)
