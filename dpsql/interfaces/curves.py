"""Error against limit: as a table with bars, as JSON or CSV, or as a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpsql.interfaces.tables import grid
from dpsql.model.errors import MissingExtra
from dpsql.owner.tuning import Estimate, Tuned

_WIDTH = 40
_FIELDS = ("limit", "bias", "noise", "error")


def text(limits: Sequence[Tuned]) -> str:
    """One table per limit, with a bar for each error and the recommendation below it."""
    return "\n".join(map(_table, limits))


def _table(tuned: Tuned) -> str:
    best = tuned.best
    if best is None:
        return f"{tuned.kind}: no unit stands out of the noise; ask with a larger --epsilon\n"
    most = max(estimate.error for estimate in tuned.estimates)
    rows = [
        (f"{e.limit:,}", *(f"{x:,.0f}" for x in (e.bias, e.noise, e.error)), _bar(e, best, most))
        for e in tuned.estimates
    ]
    lines = [f"{tuned.kind}", *grid([(*_FIELDS, ""), *rows])]
    return "\n".join([*lines, f"recommended: {tuned.kind} = {best.limit}", ""])


def _bar(estimate: Estimate, best: Estimate, most: float) -> str:
    bar = "#" * max(1, round(_WIDTH * estimate.error / most))
    return f"{bar} <" if estimate is best else bar


def as_json(limits: Sequence[Tuned]) -> str:
    """One array of objects, a limit each; `recommended` is null where nothing is."""
    return json.dumps([_object(tuned) for tuned in limits]) + "\n"


def _object(tuned: Tuned) -> dict[str, Any]:
    return {
        "limit": tuned.kind.value,
        "recommended": tuned.best and tuned.best.limit,
        "estimates": [
            dict(zip(_FIELDS, (e.limit, e.bias, e.noise, e.error), strict=True))
            for e in tuned.estimates
        ],
    }


def as_csv(limits: Sequence[Tuned]) -> str:
    """One line per limit and value tried."""
    lines = [
        f"{tuned.kind},{e.limit},{e.bias},{e.noise},{e.error},{str(e is tuned.best).lower()}"
        for tuned in limits
        for e in tuned.estimates
    ]
    return "\n".join(["name,limit,bias,noise,error,recommended", *lines]) + "\n"


def require_plot() -> None:
    """Raises MissingExtra unless a picture can be drawn; asked before anything is charged."""
    try:
        import matplotlib.figure  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtra("A plot needs the extra: pip install 'dpsql[plot]'.") from None


def draw(curves: Sequence[Tuned], target: Path) -> None:
    """The curves as a picture, in the format that the file's name ends with."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(6.4 * len(curves), 4.8), layout="tight")
    for place, tuned in enumerate(curves, 1):
        axes = figure.add_subplot(1, len(curves), place)
        limits = [e.limit for e in tuned.estimates]
        for field in _FIELDS[1:]:
            axes.plot(limits, [getattr(e, field) for e in tuned.estimates], ".-", label=field)
        axes.set(xscale="log", xlabel=tuned.kind.value, ylabel="estimated error of a count")
        axes.legend()
    figure.savefig(target)
