"""`dpsql query` and `dpsql explain`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.dialects.postgres.words import pieces
from dpsql.interfaces import records
from dpsql.interfaces.asking import answered
from dpsql.interfaces.cli.options import (
    DIALECT,
    Command,
    CommandSettings,
    exact_epsilon,
    with_settings,
    written_as,
)
from dpsql.interfaces.cli.output import Write, output
from dpsql.interfaces.cli.prices import insisted, price_of, uncancelled
from dpsql.interfaces.cli.terminal import (
    Progress,
    can_answer,
    columns,
    interruptible,
    note,
    show_error,
)
from dpsql.interfaces.dbapi.local_answers import free_answer
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.pictures.charts import chart_of
from dpsql.interfaces.pictures.error_chart import error_chart
from dpsql.interfaces.pictures.html_page import page
from dpsql.interfaces.pictures.png_chart import png, require_png
from dpsql.interfaces.pictures.svg_chart import svg
from dpsql.interfaces.pictures.terminal_chart import in_lines, picture
from dpsql.interfaces.plan_text import WIDTH, plan_text
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import footnotes, remarks
from dpsql.interfaces.tables import markdown, table
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import DpsqlError, Reason, Refused
from dpsql.model.query_options import Precision, requested_precision
from dpsql.model.tree import PlanForm
from dpsql.model.vocabulary import Answer, Request
from dpsql.preparation.explanation import Explanation

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

_FORMATS: dict[str, Callable[[Answer], str | bytes]] = {
    "json": records.json_array,
    "jsonl": records.json_lines,
    "csv": records.csv,
    "markdown": markdown,
    "parquet": records.parquet,
    "svg": lambda answer: svg(chart_of(answer)),
    "png": lambda answer: png(chart_of(answer)),
}
_REQUIRED: dict[str, tuple[Callable[[], None], str]] = {
    "parquet": (records.require_parquet, "Parquet"),
    "png": (require_png, "A PNG"),
}
"""The check that a binary format needs before the query runs, and its name."""

Call = Callable[["Proxy", Request], Callable[[], Any]]
"""Function that checks a request first, and returns the work that can be cancelled."""

PassOn = Callable[[Answer], Answer]
"""Function that writes a streamed answer while the proxy is open, and returns it."""


def _question(command: Command) -> Command:
    """Add the arguments shared by `query` and `explain`: text, dialect and ε."""
    parameters = (
        click.argument("sql", required=False, metavar="[SQL|-]"),
        click.option("-f", "--file", type=click.Path(dir_okay=False), help="Read the SQL here."),
        click.option("--epsilon", callback=exact_epsilon, metavar="E", help="The ε of this query."),
        click.option(
            "--within",
            metavar="ERROR",
            help="Instead: the least epsilon for this error, as 100 or 5%.",
        ),
        click.option(
            "--confidence",
            type=float,
            metavar="P",
            help="How sure --within is, from 0.5 to 0.9999; 0.95 if not said.",
        ),
        click.option(
            "--nonnegative",
            is_flag=True,
            help="Show negative counts, and sums that are never negative, as zero.",
        ),
        DIALECT,
        with_settings,
    )
    for parameter in reversed(parameters):
        command = parameter(command)
    return command


@click.command()
@_question
@written_as("How the rows are written.", "table", *_FORMATS, "html")
@click.option("-o", "--output", "target", metavar="FILE", help="Write the result here, atomically.")
@click.option("--plot", "draws", is_flag=True, help="Draw the numbers below the table.")
@click.option("--explain", "only_explain", is_flag=True, help="Show the plan and the price; free.")
@click.option("--yes", is_flag=True, help="Answer even useless queries, without confirmation.")
@click.pass_context
def query(
    context: click.Context,
    settings: CommandSettings,
    /,
    *,
    style: str,
    target: str | None,
    draws: bool,
    only_explain: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Answer a SELECT: rows to stdout, cost to stderr. Several are answered in order."""
    if draws and style != "table":
        raise click.UsageError("--plot draws below a table; html, svg and png are pictures.")
    options["sql"], options["file"] = read_sql(options["sql"], options["file"]), None
    if _are_several(options["sql"]):
        if draws or only_explain or style != "table" or target is not None:
            raise click.UsageError(_SEVERAL)
        context.exit(_one_by_one(settings, yes=yes, **options))
    _require_written(style, target)
    if only_explain:
        form = PlanForm.JSON if style == "json" else None
        _explain(settings, target, form, draws=draws, **options)
        return
    with output(target) as write:
        flows = partial(records.flowed, write=write, style=style)
        answer = _ask(settings, flows if style in records.FLOWING else None, yes=yes, **options)
        if isinstance(answer.explanation, Explanation) and style == "table":
            write(_plan(answer.explanation, target=target))
            return
        if style == "table":
            notices = _drawn(answer, write, None if target else columns(sys.stdout), draws=draws)
        else:
            notices = _formatted(answer, write, style, options["sql"])
    for notice in notices:
        note(f"notice: {notice}")
    note(cost_text(answer.receipt))


def _require_written(style: str, target: str | None) -> None:
    """Raise MissingExtra or click.UsageError if a format cannot be written to this target."""
    if style in _REQUIRED:
        require, name = _REQUIRED[style]
        require()
        if target is None and sys.stdout.isatty():
            raise click.UsageError(f"{name} is not for a terminal: give -o FILE.")


_SEVERAL = (
    "Several statements are answered as tables, one after the other: --format, --plot, --explain "
    "and -o are for one."
)


def _are_several(sql: str) -> bool:
    try:
        return len(pieces(sql)) > 1
    except Refused:
        return False  # which is told of it as one


def _one_by_one(
    settings: CommandSettings,
    *,
    sql: str,
    file: None,
    dialect: str,
    nonnegative: bool,
    yes: bool,
    **price: Any,
) -> ExitCode:
    """Answer the statements of a script as the shell does, up to the first failure."""
    del file
    from dpsql.interfaces.cli.interactive import Shell  # noqa: PLC0415 - for scripts alone
    from dpsql.interfaces.cli.shell_sessions import LocalSession  # noqa: PLC0415

    with settings.open(settings.policy) as proxy:
        epsilon, precision = _price(**price)
        request = Request(
            "",
            proxy.analyst(settings.analyst),
            dialect,
            epsilon=epsilon,
            precision=precision,
            nonnegative=nonnegative,
            door="command line",
        )
        return Shell(LocalSession(proxy, request), yes=yes, door=COMMAND_LINE).lines(sql)


def _drawn(answer: Answer, write: Write, room: int | None, *, draws: bool) -> tuple[str, ...]:
    """Write the table, and the picture below it. Return the notices."""
    drawn = table(answer, room)
    write(drawn.text + (f"\n{picture(answer, room)}" if draws else ""))
    return (*remarks(answer, COMMAND_LINE), *drawn.notices)


def _formatted(answer: Answer, write: Write, style: str, sql: str) -> tuple[str, ...]:
    """Write the answer as text, unless it was streamed. Return the notices."""
    if style == "html":
        write(page(answer, sql, COMMAND_LINE))
        return ()
    if answer.flow is None:
        write(_FORMATS[style](answer))
    notices = remarks(answer, COMMAND_LINE)
    return notices if style == "markdown" else (*footnotes(answer), *notices)


@click.command()
@_question
@click.option("--verbose", is_flag=True, help="Show every measurement, proof and statement too.")
@click.option("--plot", "draws", is_flag=True, help="Draw the ± at this ε, half and twice of it.")
@written_as("How the plan is written; json has everything.", "text", "json")
def explain(
    settings: CommandSettings, /, *, verbose: bool, style: str, draws: bool, **options: Any
) -> None:
    """Show the price and expected error of one SELECT; runs nothing, costs nothing."""
    if draws and style == "json":
        raise click.UsageError("--plot draws below the text of a plan.")
    form = PlanForm.JSON if style == "json" else PlanForm.LONG if verbose else None
    _explain(settings, None, form, draws=draws, **options)


def _explain(
    settings: CommandSettings,
    target: str | None,
    form: PlanForm | None,
    *,
    draws: bool,
    **options: Any,
) -> None:
    with output(target) as write:
        (plan, *others), _ = _with_proxy(
            settings,
            lambda proxy, request: partial(_planned, proxy, request, draws=draws),
            **options,
        )
        write(_plan(plan, form, target))
        if draws and (form or plan.form) is not PlanForm.JSON:
            chart = error_chart(plan, others)
            room = None if target else columns(sys.stdout)
            write(f"\n{in_lines(chart, room)}" if chart.panels else _NO_ERRORS)


_BESIDE = (Decimal("0.5"), Decimal(2))
"""Factors of the requested ε for further curves of the plot."""

_NO_ERRORS = "\nNothing is drawn: no column has an error that is known before it is asked.\n"


def _planned(proxy: Proxy, request: Request, *, draws: bool) -> tuple[Explanation, ...]:
    """Return the plan, followed by plans at other ε that are allowed."""
    plan, others = proxy.explain(request), list[Explanation]()
    for part in _BESIDE if draws and plan.blocks else ():
        with suppress(Refused):
            wish = replace(request, epsilon=plan.epsilon * part, precision=None)
            others.append(proxy.explain(wish))
    # An ε in the text itself overrides the requested one.
    return (plan, *(other for other in others if other.epsilon != plan.epsilon))


def _plan(plan: Explanation, form: PlanForm | None = None, target: str | None = None) -> str:
    """Return the plan as text, as wide as the terminal."""
    width = None if target else columns(sys.stdout)
    return plan_text(plan, form, width=width or WIDTH, door=COMMAND_LINE)


def _ask(
    settings: CommandSettings, pass_on: PassOn | None = None, *, yes: bool, **options: Any
) -> Answer:
    """Return the answer. A stream is passed on while the proxy is open.

    If Ctrl-C came too late for the statement, its charge is still reported.
    """
    answer: Answer
    call = partial(_confirmed, pass_on=pass_on, yes=yes)
    answer, cancelled = _with_proxy(settings, call, **options)
    return uncancelled(answer, cancelled=cancelled)


def _confirmed(
    proxy: Proxy, request: Request, *, pass_on: PassOn | None, yes: bool
) -> Callable[[], Answer]:
    """Return the work that asks, after confirmation if the answer would be useless."""
    catalogued = free_answer(proxy, request)
    if catalogued is not None:
        return lambda: catalogued
    if yes:
        request = replace(request, confirmed=True)
    elif can_answer():
        price = price_of(proxy.explain(request), COMMAND_LINE)
        request = replace(request, confirmed=insisted(price))
    confirmed = replace(request, flowing=pass_on is not None)
    if pass_on is None:
        return partial(answered, proxy, confirmed)
    return lambda: pass_on(answered(proxy, confirmed))


def _with_proxy(
    settings: CommandSettings,
    call: Call,
    *,
    sql: str | None,
    file: str | None,
    dialect: str,
    nonnegative: bool,
    **price: Any,
) -> tuple[Any, bool]:
    """Open the proxy and make the call interruptible. Show errors with the text."""
    text = read_sql(sql, file)
    try:
        with settings.open(settings.policy) as proxy:
            who = proxy.analyst(settings.analyst)
            epsilon, precision = _price(**price)
            request = Request(
                text,
                who,
                dialect,
                epsilon=epsilon,
                precision=precision,
                nonnegative=nonnegative,
                door="command line",
            )
            return interruptible(call(proxy, request), proxy.cancel, Progress())
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error, text)) from None


def read_sql(sql: str | None, file: str | None) -> str:
    """Return the SQL from exactly one of: the argument, stdin, or a file."""
    if (sql is None) == (file is None):
        raise click.UsageError("Give the SQL as an argument, as - for stdin, or with -f FILE.")
    if file is None and sql != "-":
        return sql or ""
    try:
        content = sys.stdin.buffer.read() if file is None else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None
    except UnicodeDecodeError:
        raise Refused(Reason.SYNTAX, why="the text is not UTF-8") from None


def _price(
    epsilon: Decimal | None, within: str | None, confidence: float | None
) -> tuple[Decimal | None, Precision | None]:
    """Return the ε of the query, or the error that determines it."""
    sure = None if confidence is None else Decimal(repr(confidence))
    return epsilon, requested_precision(None, within, sure)
