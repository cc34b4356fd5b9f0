"""`dpsql tune`: a private choice of contribution limits, for the owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli.options import CommandSettings, exact_epsilon, with_settings, written_as
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Progress, interruptible, note, show_error
from dpsql.interfaces.receipts import cost_text
from dpsql.model.errors import DpsqlError
from dpsql.model.vocabulary import Request

if TYPE_CHECKING:
    from dpsql.model.vocabulary import Answer
    from dpsql.owner.tuning import Tuned, TunedLimit
    from dpsql.proxy import Proxy

_PICTURES = (".png", ".svg", ".pdf")


@click.command()
@click.argument("table", metavar="TABLE")
@click.option("--by", multiple=True, metavar="COLUMN", help="A group key; may be given again.")
@click.option(
    "--epsilon",
    callback=exact_epsilon,
    default="0.1",
    show_default=True,
    metavar="E",
    help="What all of it may cost.",
)
@written_as("How the estimates are written.", "table", "json", "csv")
@click.option("--plot", "picture", metavar="FILE", help="Draw them too: .png, .svg or .pdf.")
@with_settings
def tune(
    settings: CommandSettings,
    /,
    *,
    table: str,
    by: tuple[str, ...],
    epsilon: Decimal,
    style: str,
    picture: str | None,
) -> None:
    """For the owner: which contribution limit of TABLE errs least, found privately.

    From a noisy histogram of rows per unit it estimates the error of a count, bias and noise, for
    each max_rows_per_group; with --by also for each max_groups_per_unit, each at half of E. The
    budget of the analyst who asks is charged. Nothing exact is printed: what is found may enter
    the policy. Exit codes are those of `query`.
    """
    from dpsql.interfaces import curves  # noqa: PLC0415

    if picture is not None:
        if Path(picture).suffix not in _PICTURES:
            raise click.UsageError(f"--plot takes a file that ends with {', '.join(_PICTURES)}.")
        curves.require_plot()
    writers = {"table": curves.text, "json": curves.as_json, "csv": curves.as_csv}
    with output(None) as write:
        limits, answers = _found(settings, table, by, epsilon)
        write(writers[style](limits))
    drawn = [tuned for tuned in limits if tuned.estimates]
    if picture is not None and drawn:
        curves.draw(drawn, Path(picture))
    for answer in answers:
        note(cost_text(answer.receipt))


def _found(
    settings: CommandSettings, table: str, by: Sequence[str], epsilon: Decimal
) -> tuple[list[Tuned], list[Answer]]:
    """The estimates of each limit, and the answers that they come from."""
    from dpsql.owner.tuning import questions  # noqa: PLC0415

    try:
        with settings.open(settings.policy) as proxy:
            who = proxy.analyst(settings.analyst)
            statements = questions(proxy.policy, table, by)
            request = Request("", who, epsilon=epsilon / len(statements))
            work = _work(proxy, request, statements)
            (limits, answers), _cancelled = interruptible(work, proxy.cancel, Progress())
            return limits, answers
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error)) from None


def _work(
    proxy: Proxy, request: Request, statements: dict[TunedLimit, str]
) -> Callable[[], tuple[list[Tuned], list[Answer]]]:
    from dpsql.owner.tuning import tuned  # noqa: PLC0415

    def work() -> tuple[list[Tuned], list[Answer]]:
        budget = proxy.policy.budget_of(request.analyst)
        assert budget is not None
        for sql in statements.values():
            proxy.explain(replace(request, sql=sql))  # refused before anything is charged
        answers = [proxy.ask(replace(request, sql=sql)) for sql in statements.values()]
        histograms = [
            ({most: float(units) for most, units in a.rows}, float(a.margins[0][1] or 0))
            for a in answers
        ]
        pairs = zip(statements, histograms, strict=True)
        change = proxy.policy.unit.neighbours
        return [tuned(kind, *histogram, budget, change) for kind, histogram in pairs], answers

    return work
