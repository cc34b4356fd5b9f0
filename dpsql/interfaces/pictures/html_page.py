"""An answer as a static HTML page: chart, table, cost, SQL, and the guarantee.

The page loads nothing and runs nothing, and its policy forbids both. Every text is escaped:
SECURITY.md S21.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from dpsql.interfaces.doors import Door
from dpsql.interfaces.html_tables import notes_html, table_html
from dpsql.interfaces.messages import printable
from dpsql.interfaces.pictures.charts import chart_of
from dpsql.interfaces.pictures.svg_chart import svg
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.sentences import remarks
from dpsql.model.vocabulary import Answer, Loss

_STYLE = (
    "body{margin:2rem auto;max-width:760px;padding:0 1rem;font:15px/1.5 system-ui,sans-serif;"
    "color:#222;background:#fff}table{border-collapse:collapse;margin:1.2rem 0}"
    "th,td{padding:.25rem .9rem .25rem 0;text-align:left;border-bottom:1px solid #ddd}"
    "th{border-bottom:2px solid #888}td{font-variant-numeric:tabular-nums}"
    "pre{background:#f5f5f2;padding:.8rem;white-space:pre-wrap}"
    "svg{max-width:100%;height:auto}.note{color:#666;font-size:.9em}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#1b1b1b}"
    "th,td{border-color:#444}pre{background:#262626}.note{color:#aaa}}"
)
_ALLOWED = "default-src 'none'; style-src 'unsafe-inline'"


def page(answer: Answer, sql: str, door: Door) -> str:
    """Return the page of an answer to `sql`. `door` gives words for further queries."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_ALLOWED}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>dpsql</title><style>{_STYLE}</style></head><body>",
            *_body(answer, sql, door),
            "</body></html>\n",
        ]
    )


def _body(answer: Answer, sql: str, door: Door) -> Iterator[str]:
    chart = chart_of(answer)
    if chart.panels:
        yield svg(chart)
    yield table_html(answer)
    yield from notes_html([*remarks(answer, door), cost_text(answer.receipt)])
    lines = "\n".join(escape(printable(line)) for line in sql.strip().splitlines())
    yield f"<pre>{lines}</pre>"
    yield from notes_html([_promise(answer)])


def _promise(answer: Answer) -> str:
    """Return the guarantee of an answer, in one or two sentences."""
    receipt = answer.receipt
    if answer.explanation is not None:
        return "This is a plan: no row of a person was read, and nothing was charged."
    if receipt is None or (receipt.charged == Loss(0) and not receipt.remembered):
        return "No row of a person was read."
    return (
        "These numbers carry random noise, which hides each person in the data: ± is its size in"
        " 95 % of all cases. What was spent for them counts against a budget that bounds what all"
        " answers together may tell of any one person. What is cut off or left out of a number is"
        " told beside it, and no ± covers it."
    )
