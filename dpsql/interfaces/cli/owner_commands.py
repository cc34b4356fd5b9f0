"""The owner's commands: `check`, `refresh`, `prepare`, `demo`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli import budget_commands
from dpsql.interfaces.cli.ask import read_sql
from dpsql.interfaces.cli.options import CommandSettings, with_policy, written_as
from dpsql.interfaces.cli.terminal import Bar, interruptible, note
from dpsql.interfaces.messages import describe, printable
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import Unreachable

if TYPE_CHECKING:
    from dpsql.owner.check import Checked
    from dpsql.owner.findings import Reviewed
    from dpsql.owner.proof_counts import CountedStatement


@click.command()
@with_policy
@click.option("--record", is_flag=True, help="Check the new data and record what they confirm.")
@click.option(
    "--periods",
    metavar="NAMES",
    help="New data of these periods of people alone, such as 2026-10,2026-11.",
)
def refresh(settings: CommandSettings, *, record: bool, periods: str | None) -> None:
    """Start a new data version: remembered answers and recorded facts no longer count.

    With --periods, answers about other periods still count. Without it, reports sealed by
    `dpsql local collect` become rows. A running server reloads policy, users and
    certificate, and keeps its connections.
    """
    if periods is None:
        for name, rows in settings.publish(settings.policy):
            note(f"{name} has {rows:,} more reports.")
    else:
        names = [name.strip() for name in periods.split(",")]
        with settings.open(settings.policy) as proxy:
            proxy.refresh(names)
            click.echo(f"new data of {', '.join(names)}")
            if not record:
                budget_commands.warn_of_lapsed_facts(proxy)
    if record:
        checked = _checked(settings.policy, record=True, refresh=periods is None)
        _show(settings.policy, checked.reviews)
        note("A new data version has begun; the facts that it confirms are recorded.")
    elif periods is None:
        with settings.open(settings.policy) as proxy:
            click.echo(f"data version {proxy.refresh()}")
            budget_commands.warn_of_lapsed_facts(proxy)


@click.command()
@with_policy
@click.option("--record", is_flag=True, help="Record what the data confirms, for later proofs.")
@click.option("--proofs", is_flag=True, help="Count on the data what plans call proved.")
@click.option("-f", "file", metavar="FILE", help="With --proofs: of these statements; - for stdin.")
@written_as("How findings are written.", "text", "json")
def check(
    settings: CommandSettings, *, record: bool, proofs: bool, file: str | None, style: str
) -> None:
    """Check that the data fits the policy. For the owner only: prints exact numbers.

    Exits with 1 if a finding is not accepted in the policy, and with --proofs if a count
    contradicts a proof.
    """
    if proofs:
        _check_proofs(settings.policy, file, style)
        return
    from dpsql.owner.reminders import unnamed_budgets_of  # noqa: PLC0415

    checked = _checked(settings.policy, record=record)
    if style == "json":
        click.echo(_as_json(checked.reviews))
    else:
        _show(settings.policy, checked.reviews)
    if record:
        note("The facts that the data confirms are recorded, until it changes.")
    if checked.facts_lapsed:
        budget_commands.note_lapsed_facts()
    elif checked.unrecorded:
        note(
            f"Facts such as unique keys hold in the data and are not recorded ("
            f"{len(checked.unrecorded)}). Recorded, they allow more joins and need less noise: "
            "dpsql check --record"
        )
    if checked.store_unused:
        budget_commands.note_unused_store()
    budget_commands.note_unnamed(unnamed_budgets_of(settings.policy))
    if any(review.fails for review in checked.reviews):
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
    accepted = any(review.accepted for review in checked.reviews)
    note("The data fits the policy" + (", but for what is accepted." if accepted else "."))


def _checked(path: str, *, record: bool, refresh: bool = False) -> Checked:
    """Return the result of a check. Raises `Unreachable` if the database fails on the data."""
    from dpsql.engines import EngineFailed  # noqa: PLC0415
    from dpsql.owner.check import check_policy  # noqa: PLC0415

    bar = Bar("", float)

    def seen(table: str, done: float) -> None:
        bar.show(printable(table), done)

    try:
        return check_policy(path, record=record, refresh=refresh, seen=seen)
    except EngineFailed:
        raise Unreachable(
            "The database failed while the check read all rows, as it does where these need more "
            "memory than it has. So may questions, after their charge. Raise memory in [limits], "
            "or shorten the texts of the longest lines."
        ) from None
    finally:
        bar.clear()


def _check_proofs(path: str, file: str | None, style: str) -> None:
    """Print the proved bounds of statements with the counts; exit with 1 if one is violated."""
    from dpsql.dialects.postgres.words import pieces  # noqa: PLC0415
    from dpsql.owner.proof_counts import count_proofs  # noqa: PLC0415

    text = "" if file is None else read_sql("-", None) if file == "-" else read_sql(None, file)
    counted = count_proofs(path, [piece.text for piece in pieces(text)])
    claims = [claim for statement in counted for claim in statement.claims]
    wrong = sum(not claim.holds for claim in claims)
    if style == "json":
        click.echo(_proofs_as_json(counted))
    for statement in counted if style == "text" else ():
        if statement.refused is not None and file is None:
            continue  # nobody asked about it
        click.echo(printable(" ".join(statement.sql.split())))
        for claim in statement.claims:
            verdict = "ok" if claim.holds else "VIOLATED"
            numbers = f"at most {claim.bound:,} proved, {claim.most:,} counted"
            click.echo(f"  {verdict}: {printable(claim.claim)}: {numbers}")
        for reason in statement.skipped:
            click.echo(f"  not counted: {reason}")
        if statement.refused is not None:
            click.echo(f"  refused: {describe(statement.refused, statement.sql).headline}")
    if wrong:
        note(f"{wrong} of {len(claims)} proofs are violated. Answer no query, and report this.")
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
    note(f"{len(claims)} proofs hold for the data.")


def _proofs_as_json(counted: Sequence[CountedStatement]) -> str:
    """Return the claims as JSON, for a program of the owner."""
    written = [
        {
            "sql": statement.sql,
            "refused": None if statement.refused is None else statement.refused.reason.value,
            "not_counted": list(statement.skipped),
            "claims": [
                {"claim": c.claim, "bound": c.bound, "counted": c.most, "ok": c.holds}
                for c in statement.claims
            ],
        }
        for statement in counted
    ]
    return json.dumps(written, ensure_ascii=False, indent=2)


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
    """Return the findings as JSON for a program of the owner, since numbers are exact."""
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
    """Copy the private tables into the policy's store, for faster queries. For the owner.

    Rows are sorted by unit. Answers and charges stay the same. Recorded facts are verified, and
    none is recorded. An interrupted run continues the next time. A running server takes the store
    up.
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
@click.option("--small", is_flag=True, help="The shop of 2,000 customers of `dpsql help`.")
@click.pass_obj
def demo(settings: CommandSettings, directory: str, *, small: bool) -> None:
    """Build a shop with its policy in DIRECTORY, and show in five steps what is answered."""
    from dpsql.interfaces.cli.demo_tour import show_small_shop, show_tour  # noqa: PLC0415
    from dpsql.policy.demo import build  # noqa: PLC0415
    from dpsql.policy.tour import build_shop, has_tour  # noqa: PLC0415

    policy = Path(directory) / "dpsql.toml"
    if policy.exists():
        note(f"{policy} exists and is kept.")
        small = not has_tour(policy)
    else:
        (build if small else build_shop)(Path(directory))
    (show_small_shop if small else show_tour)(settings, Path(directory))
