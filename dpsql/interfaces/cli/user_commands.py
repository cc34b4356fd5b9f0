"""`dpsql user`: logins of `dpsql serve`, which can change while it runs."""

from __future__ import annotations

import json
import sys
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli.budget_commands import REASON
from dpsql.interfaces.cli.options import CommandSettings, Group, exact_epsilon, with_policy
from dpsql.interfaces.cli.terminal import note
from dpsql.interfaces.messages import printable
from dpsql.interfaces.tables import grid
from dpsql.ledgers import Ledger, Stopped
from dpsql.model.errors import Refused
from dpsql.model.public_times import now
from dpsql.model.table_names import unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal

    from dpsql.interfaces.pgwire.login_file import User
    from dpsql.model.delegation import Delegation
    from dpsql.policy.draft import Draft

_WHEN = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])
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
    try:
        _require_analyst(draft, name)
    except Refused as unknown:
        fix = _how_to_name(draft, name, unknown.facts.get("near"))
        raise Refused(unknown.reason, **unknown.facts, fix=fix) from None
    if certificate and draft.server.client_ca is None:
        raise click.UsageError("No client certificate is believed: [server] client_ca is missing.")
    try:
        credential = ByCertificate() if certificate else verifier_of(_password(name))
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    _write(draft, {**_users(draft), name: User(credential)})
    how = "a client certificate of that name" if certificate else "the password"
    note(f"{printable(name)} can log in with {how}; see {draft.server.users}.")
    _record(draft, name, "added")


@user.command("list")
@with_policy
def listed(settings: CommandSettings) -> None:
    """List the users who may log in, their method, and disabled or stopped users."""
    draft = _draft(settings)
    analysts, agents = {who for who, _ in draft.analysts}, _delegations(draft)
    stopped, rows = _stopped(draft), []
    for name, entry in sorted(_users(draft).items()):
        state = "disabled" if entry.disabled else "may log in"
        if name in agents:
            state = f"agent of {printable(agents[name].delegator)}; see dpsql budget"
        elif name not in analysts:
            state = "no analyst of the policy"
        if Stopped(None, name) in stopped:
            state += ", stopped"
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
    _record(draft, name, "removed")


@user.command()
@with_policy
@click.argument("name")
def disable(settings: CommandSettings, name: str) -> None:
    """Disable the login of NAME, and end the sessions, until `dpsql user enable`.

    NAME may be an analyst or an agent without a password here: tokens of a provider are refused.
    """
    from dpsql.interfaces.pgwire.login_file import BLOCKED  # noqa: PLC0415

    draft = _draft(settings)
    users = _users(draft)
    if name not in users:
        _require_analyst(draft, name)
    entry = replace(users[name], disabled=True) if name in users else BLOCKED
    _write(draft, {**users, name: entry})
    note(f"{printable(name)} can no longer log in.")
    _record(draft, name, "disabled")


@user.command()
@with_policy
@click.argument("name")
def enable(settings: CommandSettings, name: str) -> None:
    """Enable the login of NAME again."""
    from dpsql.interfaces.pgwire.login_file import BLOCKED  # noqa: PLC0415

    draft = _draft(settings)
    users = _users(draft)
    _require(users, name)
    others = {other: entry for other, entry in users.items() if other != name}
    own = {} if users[name] == BLOCKED else {name: replace(users[name], disabled=False)}
    _write(draft, others | own)
    note(f"{printable(name)} can log in.")
    _record(draft, name, "enabled")


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


@user.command()
@with_policy
@click.argument("name")
@click.option("--to", "agent", required=True, metavar="AGENT", help="Name of the agent.")
@click.option(
    "--epsilon",
    callback=exact_epsilon,
    required=True,
    metavar="E",
    help="The most that it may spend.",
)
@click.option("--until", type=_WHEN, required=True, metavar="TIME", help="Its end, in UTC.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="No more than it grants.")
@click.option("--reason", default="", metavar="WHY", help="Why: it stays in the ledger.")
def delegate(
    settings: CommandSettings,
    name: str,
    *,
    agent: str,
    epsilon: Decimal,
    until: datetime,
    roles: tuple[str, ...],
    reason: str,
) -> None:
    """Let AGENT ask for analyst NAME: below a cap, with at most the rights of NAME.

    Each of its charges also counts for NAME. An agent may have agents of its own; these have none.
    """
    from dpsql.owner.delegate_rights import delegate_rights  # noqa: PLC0415

    draft, moment = _draft(settings), until.replace(tzinfo=UTC)
    if moment <= now():
        raise click.UsageError("--until must be later than now.")
    with closing(_open_ledger(draft)) as ledger:
        try:
            delegate_rights(draft, ledger, name, agent, epsilon, moment, roles, reason)
        except ValueError as error:
            raise click.UsageError(f"{error}.") from None
    note(f"{printable(agent)} may ask for {printable(name)} until {moment:%Y-%m-%d %H:%M} UTC.")


@user.command()
@with_policy
@click.argument("agent")
@click.option("--reason", default="", metavar="WHY", help="Why: it stays in the ledger.")
def revoke(settings: CommandSettings, agent: str, *, reason: str) -> None:
    """End the delegation to AGENT at once, also in a running server; no charge is undone."""
    draft = _draft(settings)
    agents = _delegations(draft)
    if agent in {who for who, _ in draft.analysts}:
        raise click.UsageError(
            f"{printable(agent)} is an analyst, and no agent. End the logins: dpsql user remove. "
            "End the charges: dpsql user stop."
        )
    if agent not in agents:
        raise unknown_name("agent", agent, sorted(agents))
    with closing(_open_ledger(draft)) as ledger:
        ledger.revoke(agent, reason)
    note(f"{printable(agent)} may ask nothing any more.")


@contextmanager
def _ledger_of(settings: CommandSettings, name: str) -> Iterator[Ledger]:
    """Open the ledger for an analyst of the policy, or an agent of one."""
    draft = _draft(settings)
    _require_analyst(draft, name)
    with closing(_open_ledger(draft)) as ledger:
        yield ledger


def _open_ledger(draft: Draft) -> Ledger:
    from dpsql.ledgers.open_ledger import open_ledger  # noqa: PLC0415

    return open_ledger(draft.ledger)


def _delegations(draft: Draft) -> Mapping[str, Delegation]:
    """Return the delegations in the ledger; none before it has begun."""
    if not draft.ledger.is_begun:
        return {}
    with closing(_open_ledger(draft)) as ledger:
        return ledger.delegations()


def _stopped(draft: Draft) -> frozenset[Stopped]:
    """Return the stops in the ledger; none before it has begun."""
    if not draft.ledger.is_begun:
        return frozenset()
    with closing(_open_ledger(draft)) as ledger:
        return ledger.stopped()


def _require_analyst(draft: Draft, name: str) -> None:
    """Raise `Refused` for a name that is neither an analyst nor an agent."""
    analysts = tuple(who for who, _ in draft.analysts)
    if name not in analysts and name not in (agents := _delegations(draft)):
        raise unknown_name("analyst", name, (*analysts, *agents))


def _how_to_name(draft: Draft, name: str, near: object) -> str:
    """Return what to write into the policy before a new analyst can log in."""
    from dpsql.policy.edit import toml_key  # noqa: PLC0415

    first, *others = (json.dumps(budget.name, ensure_ascii=False) for budget in draft.budgets)
    or_others = f" (or {', '.join(others)})" if others else ""
    meant = f"Did you mean {near}? Else write" if near else "Write"
    section = f"[analysts.{toml_key(name)}]"
    return (
        f"{meant} {section} and, on a line below it, budget = {first}{or_others} into the policy."
    )


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


def _record(draft: Draft, name: str, act: str) -> None:
    """Record an act on a login in the ledger, if it has begun; the act itself is done by then."""
    if draft.ledger.is_begun:
        with closing(_open_ledger(draft)) as ledger:
            ledger.record_login(name, act)


def _require(users: dict[str, User], name: str) -> None:
    if name not in users:
        raise unknown_name("user", name, sorted(users))


def _way(user: User) -> str:
    from dpsql.interfaces.pgwire import login_file  # noqa: PLC0415

    match user.credential:
        case login_file.ByCertificate():
            return "certificate"
        case login_file.WithoutPassword():
            return "none"
        case login_file.Verifier():
            return "password"


def _password(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().removesuffix("\n")
