"""`dpsql synth`: synthetic rows of a table or a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpsql.interfaces import records
from dpsql.interfaces.amounts import loss_text, plain
from dpsql.interfaces.cli.options import (
    DIALECT,
    CommandSettings,
    exact_epsilon,
    with_picture,
    with_settings,
)
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Progress, interruptible, note, show_error
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import cost_text
from dpsql.model.errors import DpsqlError
from dpsql.model.vocabulary import Answer, Request

if TYPE_CHECKING:
    from dpsql.proxy import Proxy
    from dpsql.systems.synthesis.closeness import Closeness
    from dpsql.systems.synthesis.synthesis import SyntheticTable
    from dpsql.systems.synthesis.synthesis_plan import SynthesisPlan, SynthesisWish

T = TypeVar("T")

_WRITERS: dict[str, Callable[..., str | bytes]] = {
    "csv": records.csv,
    "json": records.json_array,
    "jsonl": records.json_lines,
    "parquet": records.parquet,
}


def _pairs(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[tuple[str, str], ...]:
    """Parse pairs of columns: a,b;b,c."""
    pairs = []
    for part in (text or "").split(";"):
        names = [name.strip() for name in part.split(",")]
        if names == [""]:
            continue
        if len(names) != 2 or not all(names):  # noqa: PLR2004
            raise click.BadParameter('give pairs of columns such as "age,income;age,sex"')
        pairs.append((names[0], names[1]))
    return tuple(pairs)


@click.command()
@click.argument("source", metavar="TABLE|QUERY")
@click.option("--epsilon", callback=exact_epsilon, metavar="E", help="The total ε.")
@click.option("--rows", type=click.IntRange(1), metavar="N", help="How many; else as there are.")
@click.option(
    "--keep", callback=_pairs, metavar="A,B;B,C", help="Pairs of columns to measure in any case."
)
@click.option("-o", "--output", "target", metavar="FILE", help="Write the rows here, atomically.")
@click.option(
    "--format",
    "style",
    type=click.Choice(tuple(_WRITERS)),
    help="How the rows are written; else as FILE ends, or CSV.",
)
@click.option(
    "--fit",
    type=click.Choice(("own", "mbi")),
    default="own",
    help="The method of the fit; mbi needs the extra synth.",
)
@with_picture("Draw how near they are")
@click.option("--truth", is_flag=True, help="For the owner only: how near to the private rows.")
@click.option("--explain", "only_explain", is_flag=True, help="Show the price; free.")
@DIALECT
@with_settings
def synth(
    settings: CommandSettings,
    /,
    *,
    source: str,
    target: str | None,
    style: str | None,
    picture: Path | None,
    truth: bool,
    only_explain: bool,
    **options: Any,
) -> None:
    """Write synthetic rows of TABLE, or of a SELECT, that resemble the private ones.

    Tables of all columns and of privately selected pairs are measured at the price of one query,
    and remembered. More rows, another format or another plot are free. Numbers and times need
    bounds or listed values. Texts without listed values are selected privately first. The distance
    of the rows to the measured tables is shown on stderr. With --truth the exact distance to the
    private rows is shown too, for the owner only. Exit codes are those of `query`.
    """
    ending = Path(target or "").suffix.removeprefix(".")
    style = style or (ending if ending in _WRITERS else "csv")
    rows, mbi = options.pop("rows"), options.pop("fit") == "mbi"
    _require(style, mbi=mbi)
    if only_explain:
        from dpsql.systems.synthesis.synthesis import ExplainSynthesis  # noqa: PLC0415

        plan = _with_proxy(
            settings, source, lambda proxy, wish: proxy.run(ExplainSynthesis(wish)), **options
        )
        note(price_text(plan))
        return
    with output(target) as write:
        make = partial(_uninterrupted, rows=rows, mbi=mbi)
        table = _with_proxy(settings, source, make, **options)
        exact = ((None,) * len(table.shown),) * len(table.rows)
        answer = Answer(table.shown, table.rows, (), exact)
        write(_WRITERS[style](answer, margins=False))
    _tell(settings, table, picture, truth=truth)
    note(cost_text(table.receipt))


def _require(style: str, *, mbi: bool) -> None:
    """Refuse impossible options before anything is charged."""
    from dpsql.systems.synthesis.mbi_fit import require_mbi  # noqa: PLC0415

    if mbi:
        require_mbi()
    if style == "parquet":
        records.require_parquet()


def _with_proxy(
    settings: CommandSettings,
    source: str,
    call: Callable[[Proxy, SynthesisWish], T],
    *,
    dialect: str,
    epsilon: Decimal | None,
    keep: tuple[tuple[str, str], ...],
) -> T:
    from dpsql.systems.synthesis.synthesis_plan import SynthesisWish  # noqa: PLC0415

    try:
        with settings.open(settings.policy) as proxy:
            who = proxy.analyst(settings.analyst)
            request = Request(source, who, dialect, epsilon=epsilon, door="command line")
            return call(proxy, SynthesisWish(request, keep))
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error)) from None


def _uninterrupted(
    proxy: Proxy, wish: SynthesisWish, *, rows: int | None, mbi: bool
) -> SyntheticTable:
    """Make the rows. Ctrl-C cancels the running statement, and the charge remains."""
    from dpsql.systems.synthesis.synthesis import Synthesise  # noqa: PLC0415

    work = partial(proxy.run, Synthesise(wish, rows, mbi))
    table, _cancelled = interruptible(work, proxy.cancel, Progress())
    return table


def price_text(plan: SynthesisPlan) -> str:
    """Return sentences on the price of synthetic rows and on their measurement."""
    payer = plan.source.payer
    charge = loss_text(plan.cost.loss, payer.budget.accountant)
    price = f"ε = {plain(payer.epsilon)} for all of it, {charge}, unless it is remembered"
    return f"{plan.summary}\nCharge: {price}."


def _tell(
    settings: CommandSettings, table: SyntheticTable, picture: Path | None, *, truth: bool
) -> None:
    """Show the measured tables and the distance of the rows to them.

    With `truth` also shows the distance to the private rows, for the owner.
    """
    from dpsql.owner.true_rows import true_rows  # noqa: PLC0415
    from dpsql.systems.synthesis.closeness import to_released, to_rows  # noqa: PLC0415

    near = to_released(table)
    exact = to_rows(table, true_rows(settings.policy, table.source)) if truth else ()
    if picture is not None:
        _draw(near, exact, picture)
    for line in _report(table, near):
        note(line)
    if truth:
        note("for the owner only, since it is exact: total variation to the private rows")
        for line in _by_size(exact):
            note(line)


def _report(table: SyntheticTable, near: Sequence[Closeness]) -> Iterator[str]:
    pairs = [printable(" - ".join(n.columns)) for n in near if len(n.columns) > 1]
    yield f"notice: {len(table.rows):,} synthetic rows: none is anybody's"
    if pairs:
        yield f"notice: beyond single columns they know of {', '.join(pairs)}; of nothing else"
    if names := ", ".join(printable(n) for n in table.selected):
        yield f"notice: {names} list only values that enough people share; rarer values are NULL"
    yield "notice: total variation to the noisy tables that they are drawn from"
    yield from _by_size(near)


def _by_size(near: Sequence[Closeness]) -> Iterator[str]:
    """Yield the mean and the largest distance of tables, by number of columns."""
    for count, group in groupby(near, key=lambda each: len(each.columns)):
        those = list(group)
        far = max(those, key=lambda each: each.variation)
        mean = fmean(each.variation for each in those)
        names = printable(", ".join(far.columns))
        yield f"  by {count}: mean {mean:.3f}, at most {far.variation:.3f} ({names})"


def _draw(near: Sequence[Closeness], exact: Sequence[Closeness], target: Path) -> None:
    """Draw a bar per measured table, largest distance first.

    Shows the distance to the noisy table, and to the private rows if known.
    """
    from dpsql.interfaces.pictures.charts import Chart, ChartShape, plain_panel  # noqa: PLC0415
    from dpsql.interfaces.pictures.drawings import save_chart  # noqa: PLC0415

    falling = sorted(near, key=lambda each: -each.variation)
    labels = [" - ".join(each.columns) for each in falling]
    true = {each.columns: each.variation for each in exact}
    shown = {"noisy table": [each.variation for each in falling]}
    if true:
        shown["private rows: owner only"] = [true[each.columns] for each in falling]
    panels = (
        plain_panel(ChartShape.BARS, f"total variation to the {name}", labels, {"": values})
        for name, values in shown.items()
    )
    save_chart(Chart(tuple(panels)), target)
