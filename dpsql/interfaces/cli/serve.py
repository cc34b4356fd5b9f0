"""`dpsql serve`: the Postgres interface, and the HTTP interface beside it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.cli.terminal import note
from dpsql.model.errors import DpsqlError, Unreachable
from dpsql.model.system_table import load_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpsql.interfaces.pgwire.serving import SecondInterface
    from dpsql.policy.draft import ServerSettings
    from dpsql.proxy import Proxy

_MOST_PORT = 65_535


def _address(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    """Parse an address and a port. An IPv6 address stands in brackets."""
    if text is None:
        return None
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) <= _MOST_PORT):
        raise click.BadParameter("give an address and a port, such as 127.0.0.1:8439")
    return host, int(port)


@click.command()
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="FILE",
    help="The policy; default dpsql.toml. Of several, each is a database.",
)
@click.option("--host", metavar="ADDRESS", help="Where to listen; default [server] host.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65_535), help="Default [server] port; 0: any."
)
@click.option(
    "--self-signed",
    is_flag=True,
    help="TLS with a certificate made for trying out; needs the extra serve.",
)
@click.option(
    "--http",
    metavar="HOST:PORT",
    callback=_address,
    help="Answer over HTTP there too, with JSON; needs the extra web.",
)
@click.option(
    "--http-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Another name by which HTTP clients call the server, such as dp.example.org.",
)
@click.pass_context
def serve(
    context: click.Context,
    policies: tuple[str, ...],
    host: str | None,
    port: int | None,
    http: tuple[str, int] | None,
    names: tuple[str, ...],
    *,
    self_signed: bool,
) -> None:
    """Answer over the Postgres wire protocol until stopped; log lines go to stderr.

    With --http, answer over HTTP as well: the same users, budgets and limits. With --policy given
    several times, clients name a database: the policy's file without its ending, or its
    [server] database. The first one says where to listen.
    """
    from dpsql.interfaces.pgwire.serving import serve as run  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415
    from dpsql.policy.served_policies import name_policies  # noqa: PLC0415

    settings = context.ensure_object(CommandSettings)
    named = name_policies(policies or (settings.policy,))
    front = next(iter(named.values()))

    def make(path: str) -> tuple[Proxy, ServerSettings]:
        limits, first = load(path).server, load(front).server
        where = host or first.host, first.port if port is None else port
        try:
            proxy = settings.open_server(path)
        except DpsqlError as error:
            if len(named) == 1 or path in str(error):
                raise
            raise Unreachable(f"The policy {path} cannot be served: {error}") from None
        return proxy, replace(limits, host=where[0], port=where[1])

    makes = {name: partial(make, path) for name, path in named.items()}
    second = None if http is None else _web_server(tuple(named.values()), http, names)
    run(makes, note, self_signed=self_signed, second=second)


def _web_server(
    policies: tuple[str, ...], address: tuple[str, int], names: tuple[str, ...]
) -> SecondInterface:
    """Return the HTTP interface of the side system web. Raises `MissingExtra`."""
    from dpsql.policy.load import load  # noqa: PLC0415

    make: Callable[..., SecondInterface] = load_value("web")
    host, port = address
    return make(host, port, names, tuple(f"{load(path).ledger.path}-replies" for path in policies))
