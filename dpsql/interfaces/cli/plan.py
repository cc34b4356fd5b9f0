"""`dpsql plan`: the joint price of a file of statements, and their answers at that price."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import click

from dpsql.dialects.postgres.words import pieces
from dpsql.interfaces import records
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.ask import read_sql
from dpsql.interfaces.cli.terminal import Progress, can_answer, interruptible, note, show_error
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.joint_prices import price_text, prices
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import remarks
from dpsql.interfaces.tables import markdown, table
from dpsql.model.errors import DpsqlError
from dpsql.model.query_options import requested_precision
from dpsql.model.vocabulary import Answer, Loss, Request

if TYPE_CHECKING:
    from dpsql.answering.joint_plan import JointPlan
    from dpsql.proxy import Proxy

_WRITERS: dict[str, Callable[[Answer], str]] = {
    "table": lambda answer: table(answer, None).text,
    "json": records.json_array,
    "markdown": markdown,
}

_WIDEST = 60


@click.command()
@click.argument("file", type=click.Path(dir_okay=False), metavar="FILE|-")
@click.option(
    "--epsilon",
    callback=options.exact_epsilon,
    metavar="E",
    help="The total ε; else the least one that keeps each as exact as alone.",
)
@click.option("--within", metavar="ERROR", help="The error that each statement may have, as 100.")
@click.option("--confidence", type=float, metavar="P", help="How sure --within is; else 0.95.")
@options.written_as("How prices and answers are written.", *_WRITERS)
@click.option("--yes", is_flag=True, help="Ask all of it at this price, without confirmation.")
@options.DIALECT
@options.with_settings
def plan(
    settings: options.CommandSettings,
    /,
    *,
    file: str,
    dialect: str,
    epsilon: Decimal | None,
    within: str | None,
    confidence: float | None,
    style: str,
    yes: bool,
) -> None:
    """Price the statements of FILE together, then answer them at that price.

    Common parts are measured and charged once, and the answers agree. The prices are free; without
    a terminal, only prices are shown unless --yes.
    """
    if epsilon is not None and within is not None:
        raise click.UsageError("--epsilon is the price of all, --within finds the least: give one.")
    text = read_sql("-", None) if file == "-" else read_sql(None, file)
    sure = None if confidence is None else Decimal(repr(confidence))
    try:
        precision = requested_precision(None, within, sure)
        statements = [piece.text for piece in pieces(text)]
        if not statements:
            raise click.UsageError("There is no statement.")
        with settings.open(settings.policy) as proxy:
            who = proxy.analyst(settings.analyst)
            requests = [
                Request(sql, who, dialect, precision=precision, door="command line")
                for sql in statements
            ]
            _priced(proxy, requests, epsilon, style, yes=yes)
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error, text)) from None


def _priced(
    proxy: Proxy, requests: Sequence[Request], epsilon: Decimal | None, style: str, *, yes: bool
) -> None:
    """Show the prices, and answer if confirmed."""
    from dpsql.answering.together import PlanTogether  # noqa: PLC0415

    work = partial(proxy.run, PlanTogether(requests, epsilon))
    joint, cancelled = interruptible(work, proxy.cancel, Progress())
    if cancelled:
        raise click.Abort
    asks = (yes or can_answer()) and not joint.refusals
    if asks:
        note(table(prices(joint, _WIDEST), None).text.rstrip())
        note(price_text(joint))
    else:
        widest = _WIDEST if style == "table" else None
        click.echo(_WRITERS[style](prices(joint, widest)), nl=False)
        note(price_text(joint))
    _require_askable(joint, requests)
    if not asks:
        note("nothing was asked: --yes asks all of it at this price")
        return
    if joint.price != Loss(0) and not yes:
        click.confirm("Ask?", abort=True, err=True)
    _show_answers(proxy, [replace(request, confirmed=True) for request in requests], epsilon, style)


def _require_askable(joint: JointPlan, requests: Sequence[Request]) -> None:
    """Show why statements cannot be answered, and exit with the code of the last one."""
    code = None
    for number, refused in joint.refusals:
        note(f"statement {number}:")
        code = show_error(refused, requests[number - 1].sql)
    if code is not None:
        raise click.exceptions.Exit(code)


def _show_answers(
    proxy: Proxy, requests: Sequence[Request], epsilon: Decimal | None, style: str
) -> None:
    from dpsql.answering.together import AskTogether  # noqa: PLC0415

    work = partial(proxy.run, AskTogether(requests, epsilon))
    (answers, receipt), _cancelled = interruptible(work, proxy.cancel, Progress())
    written = [_WRITERS[style](answer).rstrip("\n") for answer in answers]
    if style == "json":
        click.echo("[" + ",\n".join(written) + "]")
    else:
        for number, text in enumerate(written, 1):
            title = " ".join(requests[number - 1].sql.split())
            click.echo(f"-- {number}: {printable(title)}\n{text}\n")
    for notice in dict.fromkeys(n for each in answers for n in remarks(each, COMMAND_LINE)):
        note(f"notice: {notice}")
    note(cost_text(receipt))
