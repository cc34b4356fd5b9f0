"""`dpsql fit` and `dpsql model`: models of private rows, charged once and free to show."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dpsql.interfaces.cli.options import (
    DIALECT,
    CommandSettings,
    Group,
    exact_epsilon,
    with_settings,
    written_as,
)
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Progress, columns, interruptible, note, show_error
from dpsql.interfaces.messages import printable
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.tables import grid, table
from dpsql.model.errors import DpsqlError
from dpsql.model.tree import DOUBLE, VARCHAR, identifier
from dpsql.model.vocabulary import Answer, Column, Request

if TYPE_CHECKING:
    from dpsql.proxy import Proxy
    from dpsql.systems.models.model import Model

T = TypeVar("T")
_DOOR = "command line"
_TYPES = ("linear_reg", "logistic_reg", "pca")
_METHODS = ("auto", "one_pass", "gradient")


@click.command()
@click.argument("name")
@click.argument("query")
@click.option(
    "--type", "model_type", type=click.Choice(_TYPES), required=True, help="The kind of model."
)
@click.option("--label", metavar="COLUMN", help="The column that the others explain.")
@click.option("--features", metavar="A,B", help="Only these columns explain it.")
@click.option(
    "--components", type=click.IntRange(1), metavar="N", help="Number of components of pca."
)
@click.option(
    "--knots",
    type=click.IntRange(2),
    metavar="N",
    help="Knots of each number's spline; 2 is a line.",
)
@click.option("--method", type=click.Choice(_METHODS), help="How it is fitted.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Number of steps of gradient.")
@click.option("--gradient-norm", metavar="C", help="The clipping bound of a row's gradient.")
@click.option("--input-norm", metavar="C", help="The clipping bound of a row, before that.")
@click.option(
    "--momentum", metavar="M", help="Share of a step that the next repeats: from 0 to less than 1."
)
@click.option("--epsilon", callback=exact_epsilon, metavar="E", help="The ε of the fit.")
@click.option("--explain", "only_explain", is_flag=True, help="Show the price; free.")
@DIALECT
@with_settings
def fit(
    settings: CommandSettings,
    /,
    *,
    name: str,
    query: str,
    epsilon: Decimal | None,
    only_explain: bool,
    dialect: str,
    **options: Any,
) -> None:
    """Fit a model to the rows of QUERY, under NAME: as CREATE MODEL does.

    The measurement costs as much as one query, and is remembered: another label is free. Every
    column needs listed values or bounds. Exit codes are those of `query`.
    """
    listed = ", ".join(f"{key} = {_literal(said)}" for key, said in options.items() if said)
    text = f"CREATE MODEL {identifier(name)} OPTIONS({listed}) AS {query.strip().rstrip(';')}"

    def request(proxy: Proxy) -> Request:
        who = proxy.analyst(settings.analyst)
        return Request(text, who, dialect, epsilon=epsilon, door=_DOOR)

    if only_explain:
        plan = _with_proxy(settings, lambda proxy: proxy.explain(request(proxy)))
        click.echo(plan_text(plan))
        return

    def fitted(proxy: Proxy) -> tuple[Answer, Model]:
        wanted_request = request(proxy)
        answer, _cancelled = interruptible(
            partial(proxy.ask, wanted_request), proxy.cancel, Progress()
        )
        return answer, _find(proxy, name, wanted_request.analyst)

    answer, model = _with_proxy(settings, fitted)
    click.echo(_text(model))
    for line in _about(model):
        note(line)
    note(cost_text(answer.receipt))


def _find(proxy: Proxy, name: str, analyst: str) -> Model:
    from dpsql.systems.models.models import FindModel  # noqa: PLC0415

    return proxy.run(FindModel(name, analyst))


@click.group(cls=Group)
def model() -> None:
    """Show, list, test and drop models; all but a test is free."""


@model.command("list")
@with_settings
def listed(settings: CommandSettings) -> None:
    """List your models, with their types and columns."""
    from dpsql.systems.models.models import ListModels  # noqa: PLC0415

    models = _with_proxy(settings, lambda p: p.run(ListModels(p.analyst(settings.analyst))))
    if not models:
        note("There is no model.")
        return
    rows = [
        (
            printable(m.name),
            str(m.type),
            printable(m.label or ""),
            f"{m.rows:,}",
            printable(", ".join(column.name for column in m.columns)),
        )
        for m in models
    ]
    click.echo("\n".join(grid([("model", "type", "label", "rows", "columns"), *rows])))


@model.command()
@click.argument("name")
@click.option("-o", "--output", "target", metavar="FILE", help="Write it here, atomically.")
@written_as("How it is written.", "table", "json")
@with_settings
def show(settings: CommandSettings, *, name: str, target: str | None, style: str) -> None:
    """Show the coefficients of model NAME, with 95 % confidence intervals.

    `dpsql model test` measures its predictions on other rows, at a price.
    """
    result = _with_proxy(settings, lambda p: _find(p, name, p.analyst(settings.analyst)))
    with output(target) as write:
        write(_FORMATS[style](result))
    for line in _about(result):
        note(line)


@model.command()
@click.argument("name")
@click.argument("query")
@click.option("--epsilon", callback=exact_epsilon, metavar="E", help="The ε of the fit.")
@DIALECT
@with_settings
def test(
    settings: CommandSettings,
    *,
    name: str,
    query: str,
    epsilon: Decimal | None,
    dialect: str,
) -> None:
    """Measure the accuracy or error of model NAME on the rows of QUERY.

    Use other rows than those of the fit. A test costs as much as any query.
    """

    def tested(proxy: Proxy) -> Answer:
        from dpsql.systems.models.model import test_sql  # noqa: PLC0415

        who = proxy.analyst(settings.analyst)
        text = test_sql(_find(proxy, name, who), query.strip().rstrip(";"))
        request = Request(text, who, dialect, epsilon=epsilon, door=_DOOR)
        answer, _cancelled = interruptible(partial(proxy.ask, request), proxy.cancel, Progress())
        return answer

    answer = _with_proxy(settings, tested)
    click.echo(table(answer, columns(sys.stdout)).text)
    note(cost_text(answer.receipt))


@model.command()
@click.argument("name")
@with_settings
def drop(settings: CommandSettings, *, name: str) -> None:
    """Drop model NAME. The same model can be made again for free."""

    def dropped(proxy: Proxy) -> None:
        who = proxy.analyst(settings.analyst)
        proxy.ask(Request(f"DROP MODEL {identifier(name)}", who, door=_DOOR))

    _with_proxy(settings, dropped)
    note(f"{printable(name)} is forgotten; the same again costs nothing")


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _with_proxy(settings: CommandSettings, call: Callable[[Proxy], T]) -> T:
    try:
        with settings.open(settings.policy) as proxy:
            return call(proxy)
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error)) from None


def _json(model: Model) -> str:
    from dpsql.systems.models.model import as_json  # noqa: PLC0415

    return json.dumps(as_json(model), indent=2) + "\n"


def _text(model: Model) -> str:
    """Return the coefficients as a table, with standard errors if known; one column per
    component.
    """
    first = model.scores[0]
    names = [("intercept", ""), *((model.columns[t.column].name, _value(t)) for t in first.terms)]
    numbers = [(score.intercept, *score.terms) for score in model.scores]
    heads = [
        Column("column", VARCHAR),
        Column("value", VARCHAR),
        *(Column(score.about, DOUBLE) for score in model.scores),
    ]
    if len(model.scores) == 1 and model.label is not None:
        heads[-1] = Column("adds", DOUBLE)
    rows = [(*name, *(n[place].coefficient for n in numbers)) for place, name in enumerate(names)]
    margins = [(None, None, *(n[place].margin for n in numbers)) for place in range(len(names))]
    if model.label is not None and not isnan(first.intercept.error):
        heads.append(Column("standard error", DOUBLE))
        errors = (float(f"{n.error:.3g}") for n in numbers[0])
        rows = [(*row, error) for row, error in zip(rows, errors, strict=True)]
        margins = [(*row, None) for row in margins]
    return table(Answer(tuple(heads), rows, margins, margins), columns(sys.stdout)).text


def _value(term: object) -> str:
    from dpsql.systems.models.model import ModelTerm  # noqa: PLC0415

    assert isinstance(term, ModelTerm)
    if term.number:
        return ""
    return "NULL" if term.value is None else str(term.value)


_FORMATS: dict[str, Callable[[Model], str]] = {"table": lambda m: _text(m) + "\n", "json": _json}


def _about(model: Model) -> Iterator[str]:
    """Yield lines about a model: explained variance, rows, limits and noise."""
    from dpsql.systems.models.models import CREATED  # noqa: PLC0415

    if model.label is None:
        shares = [
            f"{score.about} {_share(score.share, score.share_error)}" for score in model.scores
        ]
        yield f"notice: of the variance between {model.rows:,} rows: {', '.join(shares)}"
    else:
        what = "the log odds" if model.positive is not None else "the mean"
        of = "" if model.positive is None else f" = {model.positive}"
        about = f"{what} of {printable(model.label + of)}"
        share = model.explained
        explained = "" if share is None else f"; explains {_share(share, model.explained_error)}"
        yield f"notice: {about}, of about {model.rows:,} rows{explained}"
    yield from (f"notice: {limit}" for limit in sentences(model.notices, CREATED))
    if model.steps is not None:
        taken, steps = model.steps
        lost = "; the engine failed, and what was paid for the others is lost" * (taken < steps)
        yield f"notice: {taken} of {steps} steps of gradient descent were taken{lost}"
    if model.noise_margin is not None:
        most = f"{model.noise_margin:.2g}"
        yield f"notice: noise alone moves what a column adds by ± {most} at most; no ± says more"
    if model.hidden:
        directions = f"{model.hidden} of {len(model.scores[0].terms) + 1} directions of the data"
        yield f"notice: noise hides {directions}: coefficients along them are too small"


def _share(share: float | None, error: float | None) -> str:
    """Return a share with the half width of its 95 % interval, in percent."""
    from dpsql.systems.models.model import CONFIDENT  # noqa: PLC0415

    return f"{100 * (share or 0):.1f} ± {100 * min(CONFIDENT * (error or 0), 1):.1f} %"
