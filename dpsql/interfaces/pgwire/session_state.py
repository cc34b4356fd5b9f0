"""Commands that change only the transaction and the settings of a session, and their results."""

from __future__ import annotations

from typing import TypeAlias

from dpsql.dialects.statements import commands
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.portals import Columns, Result, Warned
from dpsql.interfaces.pgwire.settings import BadSetting, spelled
from dpsql.interfaces.pgwire.transactions import IDLE, Transaction
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn

TransactionCommand: TypeAlias = (
    commands.Begin | commands.Finish | commands.Savepoint | commands.ReleaseSavepoint
)
SettingCommand: TypeAlias = (
    commands.SetTransaction
    | commands.SetValue
    | commands.SetConfig
    | commands.Reset
    | commands.Show
)
_SHOWN_ALL = tuple(WireColumn(name, type_oids.TEXT) for name in ("name", "setting", "description"))


def change_transaction(transaction: Transaction, command: TransactionCommand) -> Result:
    """Begin or end a transaction, or set or release a savepoint. Raises `Fault`."""
    match command:
        case commands.Begin(tag=tag, modes=modes):
            warning = transaction.begin()
            for name, value in modes:
                transaction.settings.set(name, value, local=True)
            return _warned(tag, warning)
        case commands.Finish(commit=commit, chain=chain):
            if chain and transaction.status == IDLE:
                raise Fault("25P01", "AND CHAIN can only be used in transaction blocks")
            tag, warning = transaction.finish(commit=commit)
            if chain:
                transaction.begin()
            return _warned(tag, warning)
        case commands.Savepoint(name=name):
            transaction.save(name)
            return Result(None, (), "SAVEPOINT")
        case commands.ReleaseSavepoint(name=name, rollback=rollback):
            transaction.release(name, rollback=rollback)
            return Result(None, (), "ROLLBACK" if rollback else "RELEASE")


def change_settings(transaction: Transaction, command: SettingCommand) -> Result:
    """Set, reset or show settings. Raises `Fault`."""
    settings = transaction.settings
    try:
        match command:
            case commands.SetTransaction(modes=modes, session=session):
                return _set_transaction(transaction, modes, session=session)
            case commands.SetValue(name=name, value=value, local=local):
                if local and transaction.status == IDLE:
                    warning = "25P01", "SET LOCAL can only be used in transaction blocks"
                    return _warned("SET", warning)
                settings.set(name, value, local=local)
                return Result(None, (), "SET")
            case commands.SetConfig(name=name, value=value, local=local, column=column):
                settings.set(name, value, local=local)
                present = settings.show(name)
                if transaction.status == IDLE:
                    settings.forget_local()
                columns = (WireColumn(column, type_oids.TEXT),)
                return Result(columns, [(present,)], "SELECT", counted=True)
            case commands.Reset(name=name):
                settings.reset(name)
                return Result(None, (), "RESET")
            case commands.Show(name=None):
                rows = [(*pair, "") for pair in settings.all()]
                return Result(setting_columns(None), rows, "SHOW")
            case commands.Show(name=name):
                return Result(setting_columns(name), [(settings.show(name or ""),)], "SHOW")
    except BadSetting as bad:
        raise Fault(bad.sqlstate, str(bad), hint=bad.hint) from None


def setting_columns(name: str | None) -> Columns:
    """Return the columns of SHOW: one with PostgreSQL's spelling, or three for all settings."""
    return _SHOWN_ALL if name is None else (WireColumn(spelled(name), type_oids.TEXT),)


def _set_transaction(transaction: Transaction, modes: commands.Modes, *, session: bool) -> Result:
    if not session and transaction.status == IDLE:
        return _warned("SET", ("25P01", "SET TRANSACTION can only be used in transaction blocks"))
    for name, value in modes:
        default = f"default_{name}" if session else name
        transaction.settings.set(default, value, local=not session)
    return Result(None, (), "SET")


def _warned(tag: str, warning: Warned) -> Result:
    return Result(None, (), tag, warning=warning)
