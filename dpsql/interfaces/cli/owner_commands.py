"""The owner's commands: `check`, `refresh`, `demo`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli.budget_commands import note_unnamed, warn_of_lapsed_facts
from dpsql.interfaces.cli.options import CommandSettings, with_settings
from dpsql.interfaces.cli.terminal import columns, encodable, note
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.tables import table
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.vocabulary import Request

if TYPE_CHECKING:
    from dpsql.owner.check import Finding


@click.command()
@with_settings
@click.option("--record", is_flag=True, help="Check the new data and record what they confirm.")
def refresh(settings: CommandSettings, *, record: bool) -> None:
    """Start a new data version: remembered answers and recorded facts no longer count.

    A running server takes it up, with policy, users and certificate, and loses no connection.
    """
    if record:
        from dpsql.owner.check import check_policy  # noqa: PLC0415

        _show(settings.policy, check_policy(settings.policy, record=True, refresh=True))
        note("A new data version has begun; what the data confirms is recorded.")
        return
    with settings.open(settings.policy) as proxy:
        click.echo(f"data version {proxy.refresh()}")
        warn_of_lapsed_facts(proxy)


@click.command()
@with_settings
@click.option("--record", is_flag=True, help="Record what the data confirms, for later proofs.")
def check(settings: CommandSettings, *, record: bool) -> None:
    """For the owner only: does the data fit the policy? Prints exact numbers of private rows."""
    from dpsql.owner.check import (  # noqa: PLC0415
        check_policy,
        promises_little,
        unnamed_budgets_of,
    )
    from dpsql.policy.load import load  # noqa: PLC0415

    findings = check_policy(settings.policy, record=record)
    _show(settings.policy, (*findings, *promises_little(load(settings.policy))))
    if record:
        note("What the data confirms is recorded, until the data changes.")
    note_unnamed(unnamed_budgets_of(settings.policy))
    if any(finding.rows for finding in findings):
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
    note("The data fits the policy.")


def _show(path: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        click.echo(f"{path}:{finding.line}: {printable(finding.message)}")
        click.echo(f"  fix: {printable(finding.fix)}")


@click.command()
@click.argument("directory", type=click.Path(file_okay=False), default="dpsql-demo")
@click.pass_obj
def demo(settings: CommandSettings, directory: str) -> None:
    """Build a small shop database with its policy in DIRECTORY and answer three queries."""
    from dpsql.policy.demo import QUERIES, build  # noqa: PLC0415

    policy = Path(directory) / "dpsql.toml"
    if policy.exists():
        note(f"{policy} exists and is kept.")
    else:
        build(Path(directory))
    with settings.open(str(policy)) as proxy:
        who = proxy.analyst(settings.analyst)
        for title, sql in QUERIES:
            answer = proxy.ask(Request(sql, who))
            click.echo(f"\n{title}\n\n{indent(sql, '    ')}\n")
            drawn = table(answer, columns(sys.stdout))
            click.echo(encodable(drawn.text, sys.stdout.encoding), nl=False)
            note(cost_text(answer.receipt))
    note(f'\nGo on: cd {directory}; dpsql query "SELECT COUNT(*) AS n FROM orders"')
