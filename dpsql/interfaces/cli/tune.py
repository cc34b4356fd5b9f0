"""`dpsql tune`: private selection of contribution bounds, for the owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget_commands import warn_of_lapsed_facts
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Progress, interruptible, note, show_error
from dpsql.interfaces.receipts import cost_text
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import DpsqlError
from dpsql.model.vocabulary import Request

if TYPE_CHECKING:
    from dpsql.model.vocabulary import Answer
    from dpsql.owner.tuning import SizeHistogram, Tuned
    from dpsql.policy.edit import LimitValue
    from dpsql.proxy import Proxy

_FINE = Decimal("1e-4")


@click.command()
@click.argument("table", metavar="TABLE")
@click.option(
    "--by", multiple=True, metavar="KEY", help="A column or an expression; may be given again."
)
@click.option(
    "--total",
    "totals",
    multiple=True,
    metavar="COLUMN",
    help="A column whose sum per unit is limited; may be given again.",
)
@click.option(
    "--epsilon",
    callback=options.exact_epsilon,
    default="0.1",
    show_default=True,
    metavar="E",
    help="The total ε.",
)
@options.written_as("How the estimates are written.", "table", "json", "csv")
@options.with_picture("Draw them too")
@click.option("--write", is_flag=True, help="Write the recommendation into the policy.")
@options.with_settings
def tune(
    settings: options.CommandSettings,
    /,
    *,
    table: str,
    by: tuple[str, ...],
    totals: tuple[str, ...],
    epsilon: Decimal,
    style: str,
    picture: Path | None,
    write: bool,
) -> None:
    """Find the contribution bound of TABLE with the least error, privately. For the owner.

    Each unit counts once in noisy histograms. They give the clipping error and the noise of each
    bound, for one group of a count or sum. Bounds are max_rows_per_group; with --by for groupings
    by KEY, and max_groups_per_unit; with --total the max_per_unit of COLUMN. Says what this epsilon
    cannot show. Where expected_rows is not declared, it also counts the rows, for 0.01 of
    that epsilon. The budget of the analyst is charged. Nothing exact is printed, so results may
    enter the policy. Exit codes are those of `query`.
    """
    from dpsql.interfaces.pictures import curves  # noqa: PLC0415

    writers = {"table": curves.text, "json": curves.as_json, "csv": curves.as_csv}
    with output(None) as show:
        limits, answers, size = _estimated(settings, table, Wish(by, totals, epsilon))
        show(writers[style](limits))
    if picture is not None and (drawn := [tuned for tuned in limits if tuned.estimates]):
        curves.draw(drawn, picture)
    for answer in answers:
        note(cost_text(answer.receipt))
    if size is not None:
        note(f"recommended, a power of four of a private count: {size.text}")
    if write:
        values = [value for tuned in limits for value in tuned.values]
        _write(settings.policy, values if size is None else [*values, size])


@dataclass(frozen=True, slots=True)
class Wish:
    """The group keys, the columns with limited totals, and the price of everything."""

    by: tuple[str, ...]
    totals: tuple[str, ...]
    epsilon: Decimal


def _write(path: str, values: Sequence[LimitValue]) -> None:
    from dpsql.policy.edit import with_limits  # noqa: PLC0415

    try:
        with_limits(path, values)
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error)) from None
    for value in values:
        note(f"written: {value.text}")


def _estimated(
    settings: options.CommandSettings, table: str, wish: Wish
) -> tuple[list[Tuned], list[Answer], LimitValue | None]:
    """Return the estimates of each bound, the answers that they use, and the table's size if it was
    unknown.
    """
    from dpsql.owner.table_sizes import SIZE_EPSILON, count_rows, size_of  # noqa: PLC0415
    from dpsql.owner.tuning import private_table, questions  # noqa: PLC0415

    try:
        with settings.open(settings.policy) as proxy:
            who = proxy.analyst(settings.analyst)
            histograms = questions(proxy.policy, table, wish.by, wish.totals)
            count = count_rows(private_table(proxy.policy, table), wish.epsilon)
            part = (wish.epsilon - (SIZE_EPSILON if count else 0)) / len(histograms)
            part = part.quantize(wish.epsilon * _FINE, ROUND_FLOOR).normalize()  # never above it
            request = Request("", who, epsilon=part)
            counting = replace(request, sql=count or "", epsilon=SIZE_EPSILON, confirmed=True)
            work = _work(proxy, request, histograms, counting if count else None)
            (limits, answers), _cancelled = interruptible(work, proxy.cancel, Progress())
            warn_of_lapsed_facts(proxy)
            size = size_of(proxy.policy, histograms[0].table, answers[-1]) if count else None
            return limits, answers, size
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error)) from None


def _work(
    proxy: Proxy,
    request: Request,
    histograms: Sequence[SizeHistogram],
    counting: Request | None,
) -> Callable[[], tuple[list[Tuned], list[Answer]]]:
    from dpsql.owner.tuning import Pricing, Votes, all_tuned, noise_of, require_units  # noqa: PLC0415

    def work() -> tuple[list[Tuned], list[Answer]]:
        budget = proxy.policy.budget_of(request.analyst)
        assert budget is not None
        laws = []
        for histogram in histograms:  # refused before anything is charged
            law = noise_of(proxy.explain(replace(request, sql=histogram.sql)).event)
            require_units(proxy.policy, histogram, law)
            laws.append(law)
        if counting is not None:
            proxy.explain(counting)
        answers = [proxy.ask(replace(request, sql=histogram.sql)) for histogram in histograms]
        votes = [Votes.of(answer.rows, law) for answer, law in zip(answers, laws, strict=True)]
        pricing = Pricing(budget, proxy.policy.unit.neighbours)
        sizes = [] if counting is None else [proxy.ask(counting)]
        return all_tuned(histograms, votes, pricing), [*answers, *sizes]

    return work
