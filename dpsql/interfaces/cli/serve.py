"""`dpsql serve` and `dpsql user add`: the Postgres door and who may use it."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from dpsql.errors import Reason, Refused
from dpsql.interfaces.cli.options import Settings, common
from dpsql.interfaces.cli.terminal import note


@click.command()
@common
@click.option("--host", metavar="ADDRESS", help="Where to listen; default [server] host.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65_535), help="Default [server] port; 0: any."
)
@click.option("--self-signed", is_flag=True, help="TLS with a certificate made for trying out.")
@click.pass_obj
def serve(
    settings: Settings,
    policy: str | None,
    analyst: str | None,
    host: str | None,
    port: int | None,
    *,
    self_signed: bool,
) -> None:
    """Answer over the Postgres wire protocol until stopped; log lines go to stderr."""
    from dpsql.interfaces.pgwire.run import serve as run  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    settings = settings.with_options(policy, analyst)
    limits = load(settings.policy).server
    limits = replace(limits, host=host or limits.host, port=limits.port if port is None else port)
    with settings.open(settings.policy) as proxy:
        run(proxy, limits, note, self_signed=self_signed)


@click.group()
def user() -> None:
    """Say who may log in to `dpsql serve`."""


@user.command()
@common
@click.argument("name")
@click.pass_obj
def add(settings: Settings, policy: str | None, analyst: str | None, name: str) -> None:
    """Set the password of analyst NAME: asked for, or the first line of stdin.

    Only a salted verifier is kept, from which the password does not follow.
    """
    from dpsql.interfaces.pgwire.users import verifier_of, write_user  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    draft = load(settings.with_options(policy, analyst).policy)
    known = tuple(known for known, _ in draft.analysts)
    if name not in known:
        raise Refused(Reason.BAD_OPTION, option="analyst", value=name, known=known)
    try:
        verifier = verifier_of(_password(name))
        write_user(draft.server.users, name, verifier)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    note(f"{name} can log in; the verifier is in {draft.server.users}.")


def _password(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().removesuffix("\n")
