"""`dpsql serve`: the Postgres interface."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli.options import CommandSettings, with_policy
from dpsql.interfaces.cli.terminal import note

if TYPE_CHECKING:
    from dpsql.policy.draft import ServerSettings
    from dpsql.proxy import Proxy


@click.command()
@with_policy
@click.option("--host", metavar="ADDRESS", help="Where to listen; default [server] host.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65_535), help="Default [server] port; 0: any."
)
@click.option(
    "--self-signed",
    is_flag=True,
    help="TLS with a certificate made for trying out; needs the extra serve.",
)
def serve(
    settings: CommandSettings,
    host: str | None,
    port: int | None,
    *,
    self_signed: bool,
) -> None:
    """Answer over the Postgres wire protocol until stopped; log lines go to stderr."""
    from dpsql.interfaces.pgwire.serving import serve as run  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    def make() -> tuple[Proxy, ServerSettings]:
        limits = load(settings.policy).server
        where = host or limits.host, limits.port if port is None else port
        return settings.open_server(settings.policy), replace(limits, host=where[0], port=where[1])

    run(make, note, self_signed=self_signed)
