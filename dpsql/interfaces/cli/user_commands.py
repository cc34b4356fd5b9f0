"""`dpsql user`: logins of `dpsql serve`, which can change while it runs."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli.budget_commands import REASON
from dpsql.interfaces.cli.options import CommandSettings, Group, with_policy
from dpsql.interfaces.cli.terminal import note
from dpsql.interfaces.messages import printable
from dpsql.interfaces.tables import grid
from dpsql.ledgers import Ledger, Stopped
from dpsql.model.table_names import unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpsql.interfaces.pgwire.login_file import User
    from dpsql.policy.draft import Draft

_HEADERS = ("user", "logs in by", "state")


@click.group(cls=Group)
def user() -> None:
    """Manage logins of `dpsql serve`; a running server applies changes within seconds."""


@user.command()
@with_policy
@click.option("--certificate", is_flag=True, help="By a client certificate, without a password.")
@click.argument("name")
def add(
    settings: CommandSettings,
    name: str,
    *,
    certificate: bool,
) -> None:
    """Let analyst NAME log in: with a password, asked for or the first line of stdin.

    Only a salted verifier is stored, from which the password cannot be derived.
    """
    from dpsql.interfaces.pgwire.login_file import ByCertificate, User, verifier_of  # noqa: PLC0415

    draft = _draft(settings)
    analysts = tuple(who for who, _ in draft.analysts)
    if name not in analysts:
        raise unknown_name("analyst", name, analysts)
    if certificate and draft.server.client_ca is None:
        raise click.UsageError("No client certificate is believed: [server] client_ca is missing.")
    try:
        credential = ByCertificate() if certificate else verifier_of(_password(name))
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    _write(draft, {**_users(draft), name: User(credential)})
    how = "a client certificate of that name" if certificate else "the password"
    note(f"{printable(name)} can log in with {how}; see {draft.server.users}.")


@user.command("list")
@with_policy
def listed(settings: CommandSettings) -> None:
    """List the users who may log in, their method, and disabled users."""
    draft = _draft(settings)
    analysts = {who for who, _ in draft.analysts}
    rows = []
    for name, entry in sorted(_users(draft).items()):
        state = "disabled" if entry.disabled else "may log in"
        if name not in analysts:
            state = "no analyst of the policy"
        rows.append((printable(name), _way(entry), state))
    if not rows:
        note("There is no user.")
        return
    click.echo("\n".join(grid([_HEADERS, *rows])))


@user.command()
@with_policy
@click.argument("name")
def remove(settings: CommandSettings, name: str) -> None:
    """Remove the login of NAME, and end the sessions."""
    draft = _draft(settings)
    users = _users(draft)
    _require(users, name)
    _write(draft, {other: entry for other, entry in users.items() if other != name})
    note(f"{printable(name)} can no longer log in.")


@user.command()
@with_policy
@click.argument("name")
def disable(settings: CommandSettings, name: str) -> None:
    """Disable the login of NAME, and end the sessions, until `dpsql user enable`."""
    _switch(_draft(settings), name, disabled=True)
    note(f"{printable(name)} can no longer log in.")


@user.command()
@with_policy
@click.argument("name")
def enable(settings: CommandSettings, name: str) -> None:
    """Enable the login of NAME again."""
    _switch(_draft(settings), name, disabled=False)
    note(f"{printable(name)} can log in.")


@user.command()
@with_policy
@click.argument("name")
@REASON
def stop(settings: CommandSettings, name: str, *, reason: str) -> None:
    """Charge nothing more for analyst NAME until resumed; remembered answers stay free."""
    with _ledger_of(settings, name) as ledger:
        ledger.stop(Stopped(None, name), reason)
    note(f"Nothing is charged for {printable(name)} any more.")


@user.command()
@with_policy
@click.argument("name")
@click.option("--reason", default="", metavar="WHY", help="Why: it stays in the ledger.")
def resume(settings: CommandSettings, name: str, *, reason: str) -> None:
    """Let analyst NAME ask again after a stop, or after too many late answers."""
    with _ledger_of(settings, name) as ledger:
        late = ledger.late(name)
        ledger.resume(Stopped(None, name), reason)
    note(f"{printable(name)} may ask again; {late} late answers no longer count.")


@contextmanager
def _ledger_of(settings: CommandSettings, name: str) -> Iterator[Ledger]:
    """Open the ledger for an analyst of the policy."""
    from dpsql.ledgers.open_ledger import open_ledger  # noqa: PLC0415

    draft = _draft(settings)
    analysts = tuple(who for who, _ in draft.analysts)
    if name not in analysts:
        raise unknown_name("analyst", name, analysts)
    with closing(open_ledger(draft.ledger)) as ledger:
        yield ledger


def _draft(settings: CommandSettings) -> Draft:
    from dpsql.policy.load import load  # noqa: PLC0415

    return load(settings.policy)


def _users(draft: Draft) -> dict[str, User]:
    from dpsql.interfaces.pgwire.login_file import read_users  # noqa: PLC0415

    try:
        return read_users(draft.server.users)
    except ValueError as error:
        raise click.UsageError(f"{draft.server.users}: {error}.") from None


def _write(draft: Draft, users: dict[str, User]) -> None:
    from dpsql.interfaces.pgwire.login_file import write_users  # noqa: PLC0415

    write_users(draft.server.users, users)


def _switch(draft: Draft, name: str, *, disabled: bool) -> None:
    users = _users(draft)
    _require(users, name)
    _write(draft, {**users, name: replace(users[name], disabled=disabled)})


def _require(users: dict[str, User], name: str) -> None:
    if name not in users:
        raise unknown_name("user", name, sorted(users))


def _way(user: User) -> str:
    from dpsql.interfaces.pgwire.login_file import ByCertificate  # noqa: PLC0415

    return "certificate" if isinstance(user.credential, ByCertificate) else "password"


def _password(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().removesuffix("\n")
