"""`dpsql ledger`: the owner verifies, moves, backs up and exports the ledger."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.amounts import loss_text
from dpsql.interfaces.cli.options import CommandSettings, Group, with_policy
from dpsql.interfaces.cli.terminal import note
from dpsql.interfaces.messages import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpsql.ledgers import LedgerPlace
    from dpsql.ledgers.chain import State
    from dpsql.ledgers.sqlite import StoredLedger


@click.group(cls=Group)
def ledger() -> None:
    """Verify, move, back up and export the ledger."""


@ledger.command()
@with_policy
def verify(settings: CommandSettings) -> None:
    """Check every entry and answer, and show up to which entry the record is whole, and its id."""
    with _opened(settings) as (_, own_ledger):
        own_ledger.verify()
        with own_ledger.whole() as (_, book):
            _show(book.state)
            click.echo(f"Its id is {book.state.ledger}.")


@ledger.command("copy")
@with_policy
@click.argument("to", metavar="URL|FILE")
def copy_ledger(settings: CommandSettings, to: str) -> None:
    """Move the ledger to an empty FILE, or to a server at postgresql://HOST/DATABASE.

    Nothing is charged at the old place any more. Then name the new one in the policy's [ledger].
    """
    from dpsql.ledgers.open_ledger import store_at  # noqa: PLC0415
    from dpsql.ledgers.transfer import move_ledger  # noqa: PLC0415

    with _opened(settings) as (place, own_ledger):
        there = store_at(_place(to, place))
        try:
            _show(move_ledger(own_ledger, there))
        finally:
            there.close()
    key = "url" if "://" in to else "path"
    note(f'Now write into the policy: [ledger] {key} = "{printable(to)}"')


@ledger.command()
@with_policy
@click.argument("file")
def backup(settings: CommandSettings, file: str) -> None:
    """Copy the ledger into a new FILE, which opens only after `dpsql budget --accept-ledger`."""
    from dpsql.ledgers.open_ledger import store_at  # noqa: PLC0415
    from dpsql.ledgers.transfer import back_up  # noqa: PLC0415

    with _opened(settings) as (place, own_ledger):
        _show(back_up(own_ledger, store_at(_place(file, place))))


@ledger.command()
@with_policy
def export(settings: CommandSettings) -> None:
    """Write every entry as a line of JSON, with its hash; answers are left out."""
    from dpsql.ledgers.transfer import entry_lines  # noqa: PLC0415

    with _opened(settings) as (_, own_ledger):
        for line in entry_lines(own_ledger):
            click.echo(line)


@contextmanager
def _opened(settings: CommandSettings) -> Iterator[tuple[LedgerPlace, StoredLedger]]:
    from dpsql.ledgers.open_ledger import open_ledger  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    place = load(settings.policy).ledger
    with closing(open_ledger(place)) as own_ledger:
        yield place, own_ledger


def _place(to: str, place: LedgerPlace) -> LedgerPlace:
    """Return the place that a text names; the mark of a server stays beside the policy's path."""
    from dpsql.engines.postgres.whereabouts import objection  # noqa: PLC0415
    from dpsql.ledgers import LedgerPlace  # noqa: PLC0415

    if "://" not in to:
        return LedgerPlace(to)
    if wrong := objection({"dsn": to}):
        raise click.UsageError(wrong)
    return LedgerPlace(place.path, to)


def _show(state: State) -> None:
    """Show the end of a verified ledger, and the sum of each budget."""
    click.echo(f"The ledger is whole up to entry {state.sequence}, {state.hash.hex()}.")
    for budget, accountant in sorted(state.accountants.items()):
        click.echo(f"{printable(budget)}: {loss_text(state.spent(budget), accountant)} is spent.")
