"""`dpsql budget compare`: the charges of a budget under other accountants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpsql.interfaces.amounts import plain
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import note
from dpsql.interfaces.messages import printable
from dpsql.interfaces.tables import grid
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import MissingExtra, Reason, Refused
from dpsql.model.vocabulary import Budget

if TYPE_CHECKING:
    from dpsql.owner.compositions import Sums

_WAYS = ("basic", "advanced", "Rényi", "zCDP", "PLD")
_WIDTH = 32
_EVERYTHING = 2**62
_DELTA = Decimal("1e-6")
"""Default δ for budgets without one."""


@click.command()
@click.argument("name", required=False)
@click.option(
    "--delta",
    callback=options.exact_epsilon,
    metavar="D",
    help="The δ of each ε; default the budget's.",
)
@options.written_as("How the report is written.", "table", "json", "csv")
@options.with_picture("Draw it too")
@options.with_settings
def compare(
    settings: options.CommandSettings,
    /,
    *,
    name: str | None,
    delta: Decimal | None,
    style: str,
    picture: Path | None,
) -> None:
    """Add up the charges to budget NAME, or to each, by basic, advanced, Rényi, zCDP and PLD
    sums.

    With --analyst only the charges of that analyst. It stops nothing and charges nothing: advanced
    and Rényi composition hold for queries that were fixed in advance.
    """
    reports = _reports(settings, name, delta)
    writers = {"table": lambda reports: "\n".join(map(_lines, reports)), "json": _json, "csv": _csv}
    with output(None) as write:
        write(writers[style](reports))
    if picture is not None:
        _draw(reports, picture)


@dataclass(frozen=True, slots=True)
class _Report:
    """A budget, the δ of its ε, and the running sums of its charges."""

    pot: Budget
    delta: Decimal
    points: tuple[Sums, ...]


def _reports(
    settings: options.CommandSettings, name: str | None, delta: Decimal | None
) -> list[_Report]:
    from dpsql.ledgers.open_ledger import open_ledger  # noqa: PLC0415
    from dpsql.owner.compositions import sums  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    draft = load(settings.policy)
    names = tuple(pot.name for pot in draft.budgets)
    if name is not None and name not in names:
        raise Refused(Reason.BAD_OPTION, option="budget", value=name, known=names)
    distributions, reports = _has_distributions(), []
    with closing(open_ledger(draft.ledger)) as ledger:
        for pot in draft.budgets:
            if name in {None, pot.name}:
                charges = ledger.history(settings.analyst, _EVERYTHING, budget=pot.name)[::-1]
                at = delta or pot.delta or _DELTA
                points = sums(charges, at, distributions=distributions)
                reports.append(_Report(pot, at, points))
    return reports


def _has_distributions() -> bool:
    from dpsql.accountants.reports import require_pld  # noqa: PLC0415

    try:
        require_pld()
    except MissingExtra as missing:
        note(f"notice: {missing}")
        return False
    return True


def _lines(report: _Report) -> str:
    """Return the last sums of a report as text bars."""
    pot, title = report.pot, printable(f"budget {report.pot.name}")
    if not report.points:
        return f"{title}: nothing was charged.\n"
    last = report.points[-1]
    most = max([e for e in last.epsilons if e is not None and isfinite(e)], default=0.0)
    rows = [
        (way, f"{e:.3g}" if isfinite(e) else "none at this δ", _bar(e, most))
        for way, e in zip(_WAYS, last.epsilons, strict=True)
        if e is not None
    ]
    head = f"{title}: the ε of {last.charges:,} charges at δ = {plain(report.delta)}"
    limit = f"of ε = {plain(pot.epsilon)} by {pot.accountant}"
    return "\n".join([f"{head}, {limit}", *grid(rows), ""])


def _bar(epsilon: float, most: float) -> str:
    return "#" * max(1, round(_WIDTH * epsilon / most)) if isfinite(epsilon) and most else ""


def _json(reports: Sequence[_Report]) -> str:
    objects = [
        {
            "budget": report.pot.name,
            "accountant": report.pot.accountant,
            "epsilon": float(report.pot.epsilon),
            "delta": float(report.delta),
            "points": [{n: _finite(e) for n, e in asdict(p).items()} for p in report.points],
        }
        for report in reports
    ]
    return json.dumps(objects, ensure_ascii=False, indent=2) + "\n"


def _csv(reports: Sequence[_Report]) -> str:
    """Return CSV with a line per charge of each budget."""
    lines = ["budget,delta,charges,basic,advanced,renyi,zcdp,pld"]
    for report in reports:
        name = '"' + report.pot.name.replace('"', '""') + '"'
        for point in report.points:
            numbers = ["" if _finite(e) is None else f"{e:.9g}" for e in point.epsilons]
            lines.append(",".join([name, f"{report.delta}", str(point.charges), *numbers]))
    return "\n".join(lines) + "\n"


def _finite(epsilon: float | None) -> float | None:
    return epsilon if epsilon is not None and isfinite(epsilon) else None


def _draw(reports: Sequence[_Report], target: Path) -> None:
    """Draw the sums over the number of charges, one panel per budget."""
    from dpsql.interfaces.pictures.charts import Chart, ChartShape, plain_panel  # noqa: PLC0415
    from dpsql.interfaces.pictures.drawings import save_chart  # noqa: PLC0415

    panels = []
    for report in reports:
        charges = [point.charges for point in report.points]
        curves = zip(*(point.epsilons for point in report.points), strict=True)
        sums = {way: each for way, each in zip(_WAYS, curves, strict=False) if None not in each}
        sums["budget"] = (float(report.pot.epsilon),) * len(charges)
        title, labels = f"{report.pot.name}: ε at δ = {report.delta}", [f"{n:,}" for n in charges]
        panels.append(plain_panel(ChartShape.LINES, title, labels, sums, charges))
    save_chart(Chart(tuple(panels)), target)
