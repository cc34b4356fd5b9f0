"""`dpsql watch`: the statements of a file against one threshold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpsql.interfaces.amounts import loss_text, plain
from dpsql.interfaces.cli.ask import read_sql
from dpsql.interfaces.cli.options import (
    DIALECT,
    CommandSettings,
    exact_epsilon,
    with_settings,
    written_as,
)
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Progress, interruptible, note, show_error
from dpsql.interfaces.messages import printable
from dpsql.interfaces.plan_text import budget_lines
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.records import json_scalar
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.tables import grid
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import DpsqlError, Refused
from dpsql.model.tree import NOWHERE, Span, Value
from dpsql.model.vocabulary import Request

if TYPE_CHECKING:
    from dpsql.preparation.streams import QueryStream
    from dpsql.proxy import Proxy
    from dpsql.systems.watch.monitor import Price, Watch, Watched


T = TypeVar("T")


def _exact_number(_context: click.Context, _option: click.Parameter, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise click.BadParameter("give a decimal number such as 1000") from None


@click.command()
@click.argument("file", metavar="FILE|-")
@click.option(
    "--threshold",
    callback=_exact_number,
    metavar="T",
    required=True,
    help="The number to compare with.",
)
@click.option(
    "--alarms",
    type=click.IntRange(1),
    required=True,
    metavar="C",
    help='How many answers "above" are paid for; then the watch ends.',
)
@click.option("--epsilon", callback=exact_epsilon, metavar="E", help="The total ε.")
@click.option(
    "--measure",
    callback=exact_epsilon,
    metavar="E",
    help="Additional ε: each alarm comes with its noisy number.",
)
@DIALECT
@written_as("How the answers are written.", "table", "json")
@click.option("--explain", "only_explain", is_flag=True, help="Show the price and the noise; free.")
@with_settings
def watch(
    settings: CommandSettings, /, *, file: str, style: str, only_explain: bool, **options: Any
) -> None:
    """Test which COUNTs and SUMs of FILE are above a threshold, at one price for all.

    The statements, separated by semicolons, are answered in order: each by one of the words above
    and below, or one for each public group. All are compiled before anything is charged; if one is
    refused, nothing runs. The same file asked again is answered from memory.

    Exit codes: 0 answered, even if the alarms were used up before the end (the rest is "not
    asked"); 3 refused; 4 the budget cannot pay; others as for `query`.
    """
    text = read_sql("-", None) if file == "-" else read_sql(None, file)
    with output(None) as write:
        if only_explain:
            write(price_text(_with_proxy(settings, text, _price, **options)[1]))
            return
        places, watched = _with_proxy(settings, text, _uninterrupted, **options)
        written = {"table": _table, "json": _json}[style]
        rows = list(_rows(text, places, watched))
        write(written(rows, measured=options["measure"] is not None))
    for number, verdict in enumerate(watched.verdicts, 1):
        for line in sentences(verdict.notices, verdict.columns):
            note(f"notice: statement {number}: {line}")
    note(f"alarms left: {watched.left}")
    note(cost_text(watched.receipt))


def _with_proxy(
    settings: CommandSettings,
    text: str,
    call: Callable[[Proxy, Watch, list[Request]], T],
    *,
    dialect: str,
    **wished: Any,
) -> tuple[tuple[Span, ...], T]:
    """Call a function with all statements. A refusal shows its place in the whole text."""
    from dpsql.dialects.reading.parse import divide  # noqa: PLC0415
    from dpsql.systems.watch.monitor import Watch  # noqa: PLC0415

    places: tuple[Span, ...] = ()
    try:
        places = divide(text, dialect)
        if not places:
            raise click.UsageError("The file has no statement.")
        with settings.open(settings.policy) as proxy:
            wish = Watch(proxy.analyst(settings.analyst), **wished)
            requests = [Request(text[p.start : p.stop], wish.analyst, dialect) for p in places]
            result = call(proxy, wish, requests)
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(_placed(error, places), text)) from None
    return places, result


def _price(proxy: Proxy, wish: Watch, requests: list[Request]) -> Price:
    from dpsql.systems.watch.monitor import ExplainWatch  # noqa: PLC0415

    return proxy.run(ExplainWatch(wish, requests))


def _uninterrupted(proxy: Proxy, wish: Watch, requests: list[Request]) -> Watched:
    """Answer all statements. Ctrl-C cancels the running statement, and the charge remains."""
    from dpsql.systems.watch.monitor import WatchAll  # noqa: PLC0415

    watched: Watched
    watched, _cancelled = interruptible(
        lambda: proxy.run(WatchAll(wish, requests)), proxy.cancel, Progress()
    )
    return watched


def _placed(error: DpsqlError, places: tuple[Span, ...]) -> DpsqlError:
    """Return a refusal of one statement with its span in the whole text."""
    number = error.facts.get("statement") if isinstance(error, Refused) else None
    if not isinstance(error, Refused) or not isinstance(number, int):
        return error
    note(f"statement {number}:")
    whole = places[number - 1]
    here = error.span if error.span != NOWHERE else Span(0, whole.stop - whole.start)
    span = Span(whole.start + here.start, whole.start + here.stop)
    return Refused(error.reason, span, **error.facts)


@dataclass(frozen=True, slots=True)
class _Row:
    """The answer to one query; `above` is None if it was not asked.

    `number` and its margin are set if it is above and numbers are charged.
    """

    statement: int
    line: int
    key: dict[str, Value]
    above: bool | None
    number: int | Decimal | float | None = None
    margin: float | None = None


def _rows(text: str, places: tuple[Span, ...], watched: Watched) -> Iterator[_Row]:
    """Yield a row for each query."""
    for statement, (place, verdict) in enumerate(zip(places, watched.verdicts, strict=True), 1):
        line = text.count("\n", 0, place.start) + 1
        numbers = verdict.numbers or (None,) * len(verdict.answers)
        for (key, above), number in zip(verdict.answers, numbers, strict=True):
            names = dict(zip(verdict.keys, key, strict=True))
            margin = None if number is None else verdict.margin
            yield _Row(statement, line, names, above, number, margin=margin)
        if not verdict.complete:
            yield _Row(statement, line, {}, None)


def _table(rows: Sequence[_Row], *, measured: bool) -> str:
    words = {True: "above", False: "below", None: "not asked"}
    lines = [
        (
            str(row.statement),
            str(row.line),
            _key(row.key),
            words[row.above],
            *_about(row)[:measured],
        )
        for row in rows
    ]
    heads = ("statement", "line", "key", "answer", "about")[: 4 + measured]
    return "\n".join(grid([heads, *lines])) + "\n"


def _about(row: _Row) -> tuple[str]:
    """Return a number with its margin, or an empty text."""
    if row.number is None or row.margin is None:
        return ("",)
    return (f"{row.number:,} ± {row.margin:,.6g}",)


def _json(rows: Sequence[_Row], *, measured: bool) -> str:
    """Return a JSON array with an object per query."""
    names = ("statement", "line", "key", "above", "number", "margin")[: 4 + 2 * measured]
    objects = [
        ", ".join(f"{json.dumps(name)}: {_json_value(getattr(row, name))}" for name in names)
        for row in rows
    ]
    return "[" + ",\n ".join(f"{{{inner}}}" for inner in objects) + "]\n"


def _json_value(value: object) -> str:
    if not isinstance(value, dict):
        return json_scalar(value)
    pairs = (f"{json.dumps(name)}: {json_scalar(key)}" for name, key in value.items())
    return f"{{{', '.join(pairs)}}}"


def _key(key: dict[str, Value]) -> str:
    """Return the key of a group as text; empty without groups."""
    return ", ".join(
        printable(f"{name} = {'NULL' if value is None else value}") for name, value in key.items()
    )


def price_text(price: Price) -> str:
    """Return the whole price as lines of text."""
    return "\n".join(_price_lines(price)) + "\n"


def _price_lines(price: Price) -> Iterator[str]:
    accountant = price.budget.accountant
    queries = sum(len(stream.domain) for stream in price.streams)
    yield (
        f"Watching {len(price.streams)} statements, {queries} queries in all, until "
        f"{price.law.alarms} of them are at or above {plain(price.wish.threshold)}."
    )
    if price.remembered:
        yield "Charge: nothing; this was answered before and is remembered."
    else:
        charge = loss_text(price.charge, accountant)
        yield f"Charge: ε = {plain(price.epsilon)} however many are below, {charge} ({accountant})."
    if price.wish.measure is not None:
        yield (
            f"ε = {plain(price.wish.measure)} of this is for the numbers of what is above, "
            f"{price.law.alarms} at most."
        )
    yield from budget_lines(
        price.budget.name,
        f" of {price.wish.analyst}",
        accountant,
        price.charge,
        price.spent,
        price.limit,
        price.rest,
    )
    for number, stream in enumerate(price.streams, 1):
        for sentence in sentences(stream.notices, stream.columns):
            yield f"Statement {number}: {sentence}"
    yield "The threshold's noise is drawn once, a query's each time; both are within ± at 95 %:"
    heads = ["statement", "queries", "one unit moves", "threshold ±", "query ±"]
    heads += [] if price.numbers is None else ["number ±"]
    rows = [_price_row(n, stream, price) for n, stream in enumerate(price.streams, 1)]
    yield from grid([tuple(heads), *rows])


def _price_row(number: int, stream: QueryStream, price: Price) -> tuple[str, ...]:
    from dpsql.mechanisms import margin  # noqa: PLC0415

    moves = stream.distance * float(stream.release.query.lattice.step)
    noises = price.law.threshold, price.law.query
    margins = [f"{moves * margin(noise):,.6g}" for noise in noises]
    if price.numbers is not None:
        step = float(stream.release.query.lattice.step)
        margins.append(f"{step * margin(price.numbers.noise(stream.distance)):,.6g}")
    return (str(number), str(len(stream.domain)), f"{moves:,.6g}", *margins)
