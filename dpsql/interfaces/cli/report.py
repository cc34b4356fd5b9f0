"""`dpsql report`: one page for the data protection officer."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from dpsql.interfaces.cli.options import CommandSettings, with_policy, written_as
from dpsql.interfaces.cli.output import output

_DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])


@click.command()
@with_policy
@click.option("--from", "since", type=_DAY, required=True, help="From this moment on, in UTC.")
@click.option("--to", "until", type=_DAY, required=True, help="Before this moment, in UTC.")
@written_as("How it is written.", "html", "json")
@click.option("-o", "--output", "target", metavar="FILE", help="Write it here, atomically.")
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
    period = since.replace(tzinfo=UTC), until.replace(tzinfo=UTC)
    with settings.open(settings.policy) as proxy:
        sections = report_sections(proxy, *period)
    with output(target) as write:
        write((report_json if style == "json" else report_html)(sections, *period))
