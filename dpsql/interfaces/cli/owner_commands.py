"""The owner's commands: `check`, `refresh`, `prepare`, `demo`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli.budget_commands import (
    note_lapsed_facts,
    note_unnamed,
    note_unused_store,
    warn_of_lapsed_facts,
)
from dpsql.interfaces.cli.options import CommandSettings, with_policy, written_as
from dpsql.interfaces.cli.terminal import Bar, columns, encodable, interruptible, note
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.tables import table
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.vocabulary import Request

if TYPE_CHECKING:
    from dpsql.owner.findings import Reviewed


@click.command()
@with_policy
@click.option("--record", is_flag=True, help="Check the new data and record what they confirm.")
def refresh(settings: CommandSettings, *, record: bool) -> None:
    """Start a new data version: remembered answers and recorded facts no longer count.

    What `dpsql local collect` sealed becomes rows. A running server takes it up, with policy, users
    and certificate, and loses no connection.
    """
    for name, rows in settings.publish(settings.policy):
        note(f"{name} has {rows:,} more reports.")
    if record:
        from dpsql.owner.check import check_policy  # noqa: PLC0415

        checked = check_policy(settings.policy, record=True, refresh=True)
        _show(settings.policy, checked.reviews)
        note("A new data version has begun; what the data confirms is recorded.")
        return
    with settings.open(settings.policy) as proxy:
        click.echo(f"data version {proxy.refresh()}")
        warn_of_lapsed_facts(proxy)


@click.command()
@with_policy
@click.option("--record", is_flag=True, help="Record what the data confirms, for later proofs.")
@written_as("How findings are written.", "text", "json")
def check(settings: CommandSettings, *, record: bool, style: str) -> None:
    """For the owner only: does the data fit the policy? Prints exact numbers of private rows.

    Exits with 1 where something does not fit that is not accepted in the policy.
    """
    from dpsql.owner.check import check_policy, unnamed_budgets_of  # noqa: PLC0415

    checked = check_policy(settings.policy, record=record)
    if style == "json":
        click.echo(_as_json(checked.reviews))
    else:
        _show(settings.policy, checked.reviews)
    if record:
        note("What the data confirms is recorded, until the data changes.")
    if checked.facts_lapsed:
        note_lapsed_facts()
    if checked.store_unused:
        note_unused_store()
    note_unnamed(unnamed_budgets_of(settings.policy))
    if any(review.fails for review in checked.reviews):
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
    accepted = any(review.accepted for review in checked.reviews)
    note("The data fits the policy" + (", but for what is accepted." if accepted else "."))


def _show(path: str, reviews: Sequence[Reviewed]) -> None:
    for review in reviews:
        finding = review.finding
        how = "accepted" if review.accepted else finding.severity.value
        click.echo(f"{path}:{finding.line}: {how}: {printable(finding.message)}")
        if review.accepted:
            click.echo(f"  why: {printable(review.why)}")
            continue
        click.echo(f"  fix: {printable(finding.fix)}")
        if finding.severity is not finding.severity.REMINDER:
            click.echo(f"  id: {printable(finding.id)}")
        if review.why:
            click.echo(f"  not accepted: {printable(review.why)}")


def _as_json(reviews: Sequence[Reviewed]) -> str:
    """The findings for a program: of an owner, for they have exact numbers."""
    written = [
        {
            "id": review.finding.id,
            "severity": review.finding.severity.value,
            "line": review.finding.line,
            "table": review.finding.table,
            "column": review.finding.column,
            "message": review.finding.message,
            "count": review.finding.rows,
            "total": review.finding.total,
            "accepted": review.accepted,
            "why": review.why or None,
            "fix": review.finding.fix,
        }
        for review in reviews
    ]
    return json.dumps(written, ensure_ascii=False, indent=2)


@click.command()
@with_policy
def prepare(settings: CommandSettings) -> None:
    """For the owner: copy the private tables into the store that the policy names, for speed.

    Rows are put together by unit, so that new questions cost less; answers and charges are the
    same. Recorded facts are verified, and none is recorded. What is interrupted goes on the next
    time. A running server takes the store up.
    """
    from dpsql.owner.preparing import megabytes, preparation  # noqa: PLC0415

    with preparation(settings.policy) as planned:
        writer = planned.writer
        free = megabytes(writer.room)
        for added, what in ((True, "New rows are added to"), (False, "Made again whole")):
            listed = [step.table for step in planned.steps if step.added is added]
            if planned.again and listed:
                note(f"{what}: {', '.join(listed)}.")
        note(f"{len(planned.steps)} tables, at most {megabytes(planned.size)}; {free} are free.")
        for number, step in enumerate(planned.steps, 1):
            title = f"{step.table} ({number} of {len(planned.steps)})"
            bar = Bar(title, writer.progress)
            interruptible(partial(planned.make, step), writer.cancel, bar)
        writer.finish()
    note("The data is prepared: plans over it say so.")


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
        who = proxy.analyst(None)  # the demo's only one
        for title, sql in QUERIES:
            answer = proxy.ask(Request(sql, who))
            click.echo(f"\n{title}\n\n{indent(sql, '    ')}\n")
            drawn = table(answer, columns(sys.stdout))
            click.echo(encodable(drawn.text, sys.stdout.encoding), nl=False)
            note(cost_text(answer.receipt))
    note(f'\nGo on: cd {directory}; dpsql query "SELECT COUNT(*) AS n FROM orders"')
