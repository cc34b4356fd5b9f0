"""Error by contribution bound: as a table with bars, as JSON or CSV, or as a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any

from dpsql.interfaces.pictures.charts import Chart, ChartShape, plain_panel
from dpsql.interfaces.pictures.drawings import save_chart
from dpsql.interfaces.tables import grid
from dpsql.owner.tuning import Estimate, Tuned

_WIDTH = 24
_FAR = 20
"""Factor of the best error above which bounds are left out of the table."""
_FIELDS = ("limit", "noise", "cut", "least", "above", "error")
_NAMES = ("limit", "noise", "cut", "units above", "total")


def text(limits: Sequence[Tuned]) -> str:
    """Return one table per bound, with bars for errors, a recommendation, and the reach of the
    data.

    The clipping error of one group is a guess, and in 95 % of all cases at least another number.
    Numbers that noise hides are never shown as zero.
    """
    return "\n".join(map(_table, limits))


def _table(tuned: Tuned) -> str:
    best, title = tuned.best, tuned.title
    if best is None:
        return (
            f"{title}: no unit stands out of the noise; an octave of sizes needs {tuned.unseen}"
            " units: ask with a larger --epsilon\n"
        )
    shown = [e for e in tuned.estimates if e.error < _FAR * best.error]
    most = max(e.error for e in shown)
    rows = [
        (
            number(float(e.limit)),
            number(e.noise),
            _cut(e, tuned),
            f"≤ {e.above:,}",
            number(e.error),
            _bar(e, best, most),
        )
        for e in shown
    ]
    lines = [title, *grid([(*_NAMES, ""), *rows])]
    beyond = (
        f"cannot see beyond {number(float(tuned.reached))} at this epsilon: fewer than"
        f" {tuned.unseen:,} units in an octave are not seen, and what they have is in no figure"
    )
    best_line = (
        tuned.line or f"{tuned.histogram.kind} = {number(float(best.limit))}, by all of them"
    )
    return "\n".join([*lines, beyond, f"recommended: {best_line}", ""])


def number(value: float) -> str:
    """Return a number with three digits, without decimals from 100 on."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.3g}"  # noqa: PLR2004


def _cut(estimate: Estimate, tuned: Tuned) -> str:
    if estimate.limit >= tuned.reached or estimate.cut == 0:
        return "not seen"
    least = f", ≥ {number(estimate.least)}" if estimate.least else ""
    return f"about {number(estimate.cut)}{least}"


def _bar(estimate: Estimate, best: Estimate, most: float) -> str:
    bar = "#" * max(1, round(_WIDTH * estimate.error / most))
    return f"{bar} <" if estimate is best else bar


def as_json(limits: Sequence[Tuned]) -> str:
    """Return a JSON array with an object per bound. `recommended` is null if there is none."""
    return json.dumps([_object(tuned) for tuned in limits]) + "\n"


def _object(tuned: Tuned) -> dict[str, Any]:
    return {
        "limit": tuned.histogram.kind.value,
        "by": list(tuned.histogram.by),
        "column": tuned.histogram.column,
        "recommended": tuned.best and float(tuned.best.limit),
        "line": tuned.line,
        "reached": float(tuned.reached),
        "unseen": tuned.unseen,
        "estimates": [dict(zip(_FIELDS, _values(e, tuned), strict=True)) for e in tuned.estimates],
    }


def _values(e: Estimate, tuned: Tuned) -> tuple[float | None, ...]:
    """Return the numbers of an estimate in the order of `_FIELDS`; `cut` and `least` are None if
    hidden by noise.
    """
    seen = e.limit < tuned.reached
    cut, least = (e.cut, e.least) if seen else (None, None)
    return float(e.limit), e.noise, cut, least, e.above, e.error


def as_csv(limits: Sequence[Tuned]) -> str:
    """Return CSV with a line per bound and value."""
    lines = [
        ",".join(
            [
                tuned.histogram.kind,
                *("" if value is None else f"{value:.15g}" for value in _values(e, tuned)),
                str(e is tuned.best).lower(),
            ]
        )
        for tuned in limits
        for e in tuned.estimates
    ]
    return "\n".join([",".join(["name", *_FIELDS, "recommended"]), *lines]) + "\n"


def draw(curves: Sequence[Tuned], target: Path) -> None:
    """Draw the estimated errors of one group by the logarithm of the bound."""
    panels = []
    for tuned in curves:
        limits = [float(e.limit) for e in tuned.estimates]
        named = {
            key: [getattr(e, key) for e in tuned.estimates] for key in ("cut", "noise", "error")
        }
        title, places = f"error of one group by {tuned.title}", [*map(log2, limits)]
        labels = [*map(number, limits)]
        panels.append(plain_panel(ChartShape.LINES, title, labels, named, places))
    save_chart(Chart(tuple(panels)), target)
