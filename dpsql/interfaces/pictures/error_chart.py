"""Expected errors of plans as a chart: the margins at each ε."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

from dpsql.interfaces.amounts import plain
from dpsql.interfaces.messages import printable
from dpsql.interfaces.pictures.charts import Chart, ChartShape, Panel, Point, Series
from dpsql.preparation.explanation import Explanation, approximate


def error_chart(plan: Explanation, others: Sequence[Explanation]) -> Chart:
    """Return the 95 % intervals around zero, least ε first, for a plan and the same at other ε.

    Only columns with errors that do not depend on the data have a panel.
    """
    plans = sorted((plan, *others), key=lambda each: each.epsilon)
    labels = tuple(f"ε = {plain(p.epsilon)}{', as asked' * (p is plan)}" for p in plans)
    places = tuple(map(float, range(len(plans))))
    panels = []
    for number, (column, margin) in enumerate(zip(plan.columns, plan.expected, strict=False)):
        if margin is not None and not isnan(margin):
            points = tuple(_point(each.expected[number]) for each in plans)
            title = f"± of {printable(column.name)} at 95 %"
            panels.append(Panel(title, ChartShape.BARS, labels, places, (Series("", points),)))
    return Chart(tuple(panels))


def _point(margin: float | None) -> Point:
    """Return an error around zero. An unknown error has no whiskers."""
    text = "?" if margin is None or isnan(margin) else approximate(margin)
    return Point(0.0, margin, "", f"± {text}")
