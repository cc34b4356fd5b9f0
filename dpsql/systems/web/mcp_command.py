"""`dpsql mcp`: the tools of a language model over stdin and stdout."""

from __future__ import annotations

from functools import partial

import click

from dpsql.interfaces.cli.options import CommandSettings, with_settings
from dpsql.interfaces.cli.terminal import note


@click.command()
@with_settings
def mcp(settings: CommandSettings) -> None:
    """Serve the tools of a language model over stdin and stdout (MCP), as --analyst.

    The model is an analyst: it has the budget, and the steps of time, of `dpsql serve`. Needs the
    extra mcp.
    """
    import asyncio  # noqa: PLC0415 - `dpsql --help` does without

    from dpsql.interfaces.pgwire.catalogue import Catalogue  # noqa: PLC0415
    from dpsql.interfaces.pgwire.present import Present  # noqa: PLC0415
    from dpsql.interfaces.pgwire.telemetry import Telemetry  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415
    from dpsql.systems.web.mcp_stdio import serve_stdio  # noqa: PLC0415

    limits = load(settings.policy).server
    with settings.open_server(settings.policy) as proxy:
        analyst = proxy.analyst(settings.analyst)
        catalogue = partial(Catalogue, proxy.policy, apart=proxy.compiler.apart)
        present = Present(proxy=proxy, catalogue=catalogue, users=dict, limits=limits)
        asyncio.run(serve_stdio(present, Telemetry(note), analyst))
