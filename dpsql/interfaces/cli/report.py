"""`dpsql report`: one page for the data protection officer."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from dpsql.interfaces.cli.options import CommandSettings, with_policy, written_as
from dpsql.interfaces.cli.output import output
from dpsql.model.public_times import now

_DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])
_SINCE = "From this day or time on, in UTC: 2026-11-01 or 2026-11-01T12:00:00."
_UNTIL = "Before this day or time, in UTC."


@click.command()
@with_policy
@click.option("--from", "since", type=_DAY, required=True, metavar="DATE", help=_SINCE)
@click.option("--to", "until", type=_DAY, required=True, metavar="DATE", help=_UNTIL)
@written_as("Format of the page.", "html", "json")
@click.option(
    "-o", "--output", "target", metavar="FILE", help="Write it to this file, whole or not at all."
)
def report(
    settings: CommandSettings,
    *,
    since: datetime,
    until: datetime,
    style: str,
    target: str | None,
) -> None:
    """Write what was promised, asked, charged and changed in a period, for an officer."""
    from dpsql.interfaces.officer_report import (  # noqa: PLC0415 - the engine starts first
        report_html,
        report_json,
        report_sections,
    )

    if until <= since:
        raise click.BadParameter("it must be after --from.", param_hint="--to")
    since, until = since.replace(tzinfo=UTC), until.replace(tzinfo=UTC)
    with settings.open(settings.policy) as proxy:
        sections = report_sections(proxy, since, until, now())
    with output(target) as write:
        write((report_json if style == "json" else report_html)(sections, since, until))
