"""`dpsql tables` and `dpsql describe`: tables and columns, as the policy declares them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import click

from dpsql.dialects.statements.commands import Listing
from dpsql.dialects.statements.statement_table import read_listing
from dpsql.interfaces import records
from dpsql.interfaces.cli.options import CommandSettings, with_settings, written_as
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import columns
from dpsql.interfaces.listing import listed
from dpsql.interfaces.messages import printable
from dpsql.interfaces.tables import broken, markdown, table
from dpsql.model.errors import DpsqlError
from dpsql.model.vocabulary import Answer


def listing_text(answer: Answer, room: int | None) -> str:
    """Return the rows as a table, with long descriptions wrapped between words."""
    return table(broken(answer, room), room).text


_FORMATS: dict[str, Callable[[Answer], str]] = {
    "table": lambda answer: listing_text(answer, columns(sys.stdout)),
    "json": partial(records.json_array, margins=False),
    "csv": partial(records.csv, margins=False),
    "markdown": markdown,
}


def _names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the tables of the policy with this prefix; none if it cannot be read."""
    from dpsql.policy.load import load  # noqa: PLC0415

    chain = [context, *([context.parent] if context.parent else [])]
    paths = [c.params.get("policy") for c in chain]
    try:
        draft = load(next((path for path in paths if path), CommandSettings().policy))
    except DpsqlError:
        return []
    return [t.name for t in draft.tables if t.name.lower().startswith(incomplete.lower())]


@click.command()
@written_as("How the rows are written.", *_FORMATS)
@with_settings
def tables(settings: CommandSettings, *, style: str) -> None:
    """List the tables, with their units and contribution bounds; free."""
    _show(settings, Listing(), style)


@click.command()
@written_as("How the rows are written.", *_FORMATS)
@with_settings
@click.argument("name", metavar="TABLE", shell_complete=_names)
def describe(settings: CommandSettings, *, name: str, style: str) -> None:
    """List the columns of TABLE with declared types, bounds and values; free."""
    wish = read_listing(f"DESCRIBE {name}")
    if wish is None or not wish.table:
        raise click.UsageError(f"{printable(name)} is no name of a table.")
    _show(settings, wish, style)


def _show(settings: CommandSettings, wish: Listing, style: str) -> None:
    with output(None) as write, settings.open(settings.policy) as proxy:
        who = settings.analyst
        synthetic = () if who is None else proxy.own_tables(proxy.analyst(who))
        policy = proxy.policy if who is None else proxy.policy_of(proxy.analyst(who))
        write(_FORMATS[style](listed(wish, policy, synthetic=synthetic)))
