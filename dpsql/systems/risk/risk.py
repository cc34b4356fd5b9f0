"""`dpsql risk`: disclosure risk of a table without names, for the owner."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dpsql.interfaces.cli.options import CommandSettings, with_picture, with_policy, written_as
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Bar, columns, interruptible, note, show_error
from dpsql.model.errors import DpsqlError

_MOST_COLUMNS = 6
"""Maximum number of columns in a set. Larger sets would be too many to read."""


def _names(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(name.strip() for text in texts for name in text.split(",") if name.strip())


def _pairs(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    """Parse options of the form COLUMN=TEXT, separated by commas."""
    pairs = []
    for each in (part for text in texts for part in text.split(",")):
        name, equals, value = each.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise click.BadParameter("give COLUMN=HOW, as in age=10,zip=2")
        pairs.append((name.strip(), value.strip()))
    return tuple(pairs)


@click.command()
@click.argument("table", metavar="TABLE")
@click.option(
    "--by",
    multiple=True,
    callback=_names,
    metavar="A,B",
    help="Columns known to outsiders; default: all visible ones but keys and --sensitive.",
)
@click.option(
    "--sensitive", multiple=True, callback=_names, metavar="A,B", help="Columns to protect."
)
@click.option(
    "--generalise",
    multiple=True,
    callback=_pairs,
    metavar="A=10,B=2",
    help="Publish numbers in steps, texts by first characters, dates by month or year.",
)
@click.option(
    "--clip", "clips", multiple=True, callback=_pairs, metavar="A=LOW:HIGH", help="Clip numbers."
)
@click.option(
    "--with",
    "others",
    multiple=True,
    callback=_names,
    metavar="TABLE",
    help="Tables to link with; default: all others of the policy.",
)
@click.option(
    "--size",
    type=click.IntRange(1, _MOST_COLUMNS),
    default=3,
    show_default=True,
    help="The most columns in a set.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.05,
    show_default=True,
    help="Least share of unique people for a set to identify.",
)
@written_as("How it is written.", "table", "json")
@with_picture("Draw k too")
@with_policy
def risk(
    settings: CommandSettings,
    /,
    *,
    table: str,
    style: str,
    picture: Path | None,
    **options: Any,
) -> None:
    """Measure how identifiable people in TABLE are without names. For the owner only.

    Shows the number of people who share each combination of columns (k), unique people, and
    identifying columns. Also shows the diversity and closeness of sensitive columns (l, t), links
    to other tables, and k by generalisation. Numbers are exact. Charges nothing, records nothing,
    and shows no value of the data. Proposals for the policy have names only.
    """
    from dpsql.systems.risk import disclosures  # noqa: PLC0415
    from dpsql.systems.risk.disclosure import Inspecting, Inspection  # noqa: PLC0415

    inspection = Inspection(table, **options)
    with output(None) as write:
        try:
            with Inspecting(settings.policy, inspection) as inspecting:
                bar = Bar("sets of columns", inspecting.progress)
                measured, _ = interruptible(inspecting.disclosure, inspecting.cancel, bar)
        except DpsqlError as error:
            raise click.exceptions.Exit(show_error(error)) from None
        shown = disclosures.as_json(measured)
        if style == "table":
            shown = disclosures.text(measured, columns(sys.stdout))
        write(shown)
    if picture is not None:
        disclosures.draw(measured, picture)
    note("These are exact numbers of private rows: for the owner only.")
