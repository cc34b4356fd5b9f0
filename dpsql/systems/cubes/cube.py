"""`dpsql cube`: tables that the owner measures once for all analysts of a budget."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.amounts import loss_text, plain
from dpsql.interfaces.cli.ask import read_sql
from dpsql.interfaces.cli.budget_commands import REASON
from dpsql.interfaces.cli.options import DIALECT, CommandSettings, Group, with_policy
from dpsql.interfaces.cli.terminal import Progress, can_answer, interruptible, note, show_error
from dpsql.interfaces.joint_prices import count_noun, price_text, prices
from dpsql.interfaces.messages import printable
from dpsql.interfaces.tables import sheet, table
from dpsql.model.errors import DpsqlError
from dpsql.model.table_names import unknown_name
from dpsql.model.vocabulary import Loss

if TYPE_CHECKING:
    from dpsql.systems.cubes.cubes import Cube

_HEADERS = ("cube", "budget", "tables", "spent", "measured", "")
_TABLES = ("question", "ε", "spent", "measured")
_WIDEST = 70


@click.group(cls=Group)
def cube() -> None:
    """Measure tables once, from which all queries of a budget are answered."""


@cube.command()
@click.argument("sql", required=False, metavar="[SQL|-]")
@click.option("-f", "--file", type=click.Path(dir_okay=False), help="Read the SQL here.")
@click.option(
    "--budget", metavar="NAME", help="The budget that pays; its analysts may use the cube."
)
@click.option("--yes", is_flag=True, help="Measure it at this price, without confirmation.")
@DIALECT
@with_policy
def create(
    settings: CommandSettings,
    *,
    sql: str | None,
    file: str | None,
    budget: str | None,
    yes: bool,
    dialect: str,
) -> None:
    """Price CREATE DP CUBE name AS SELECT … GROUP BY CUBE (…), then measure it at that price."""
    from dpsql.systems.cubes.cubes import CreateCube, ExplainCube  # noqa: PLC0415

    text = read_sql(sql, file)
    try:
        with settings.open(settings.policy) as proxy:
            joint = proxy.run(ExplainCube(text, budget, dialect))
            click.echo(table(prices(joint, _WIDEST), None).text, nl=False)
            note(price_text(joint))
            if not yes and not can_answer():
                note("nothing was measured: --yes measures all of it at this price")
                return
            if joint.price != Loss(0) and not yes:
                click.confirm("Measure it?", abort=True, err=True)
            work = partial(proxy.run, CreateCube(text, budget, dialect))
            joint, _cancelled = interruptible(work, proxy.cancel, Progress())
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error, text)) from None
    charged = loss_text(joint.price, joint.account.budget.accountant)
    tables = count_noun(len(joint.parts), "table")
    note(f"cost: ε = {plain(joint.account.epsilon)} ({charged}), {tables}")


@cube.command("list")
@with_policy
def list_cubes(settings: CommandSettings) -> None:
    """List the cubes that were measured, and their prices."""
    rows = [
        (
            printable(each.name),
            printable(each.budget),
            str(len(each.entries)),
            loss_text(each.spent, each.entries[0].accountant),
            f"{each.time:%Y-%m-%d}",
            "dropped" if each.dropped else "",
        )
        for each in _cubes(settings)
    ]
    if not rows:
        note("There is no cube.")
        return
    click.echo("\n".join(sheet(_HEADERS, rows, None)))


@cube.command()
@click.argument("name")
@with_policy
def show(settings: CommandSettings, *, name: str) -> None:
    """Show the tables of a cube, and the ε of each measurement."""
    every = _cubes(settings)
    entries = [entry for each in every if each.name == name for entry in each.entries]
    if not entries:
        raise unknown_name("cube", name, tuple(each.name for each in every))
    rows = [
        (
            printable(" ".join(entry.inquiry.sql.split())),
            plain(entry.epsilon),
            loss_text(entry.loss, entry.accountant),
            f"{entry.time:%Y-%m-%d}",
        )
        for entry in entries
    ]
    click.echo("\n".join(sheet(_TABLES, rows, None)))


@cube.command()
@click.argument("name")
@REASON
@with_policy
def drop(settings: CommandSettings, *, name: str, reason: str) -> None:
    """Stop answering queries from a cube. Its budget stays spent; `create` measures it again."""
    from dpsql.systems.cubes import cubes  # noqa: PLC0415

    with settings.open(settings.policy) as proxy:
        cubes.drop(proxy.ledger, name, reason)
    note(f"No question is answered of cube {printable(name)} any more.")


@cube.command()
@click.option("--budget", metavar="NAME", help="The budget with the past queries.")
@DIALECT
@with_policy
def suggest(settings: CommandSettings, *, budget: str | None, dialect: str) -> None:
    """List the cubes that would have saved budget on past queries. Reads no private data."""
    from dpsql.systems.cubes.cube_suggestions import SuggestCubes  # noqa: PLC0415

    with settings.open(settings.policy) as proxy:
        suggestions = proxy.run(SuggestCubes(budget, dialect))
        units = {each.name: each.accountant for each in proxy.policy.budgets}
    unit = next(iter(units.values())) if budget is None else units[budget]
    for each in suggestions:
        price, spent = loss_text(each.price, unit), loss_text(each.spent, unit)
        note(f"{price} instead of {spent}, which {each.questions} questions were charged:")
        click.echo(f"{printable(each.text)};")
    if not suggestions:
        note("No cube would have saved anything.")


def _cubes(settings: CommandSettings) -> tuple[Cube, ...]:
    from dpsql.systems.cubes import cubes  # noqa: PLC0415

    with settings.open(settings.policy) as proxy:
        return cubes.cubes(proxy.ledger)
