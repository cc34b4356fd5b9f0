"""Disclosure risk as tables with bars, as JSON, or as a picture. For the owner.

Shows names and counts, and no values of the data: SECURITY.md S24.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import log2, log10
from pathlib import Path
from textwrap import wrap
from typing import Any, assert_never

from dpsql.interfaces.messages import printable
from dpsql.interfaces.pictures.charts import Chart, ChartShape, plain_panel
from dpsql.interfaces.pictures.drawings import save_chart
from dpsql.interfaces.tables import sheet
from dpsql.policy.edit import toml_key
from dpsql.systems.risk import disclosure

_WIDTH = 24
_MOST_SHOWN = 12
"""Maximum number of column sets per size in a table. JSON has all of them."""
_CROWD = ("k", "alone", f"fewer than {disclosure.FEW}", "median k")
_FIELDS = ("k", "alone", "few", "median")


def text(risk: disclosure.Disclosure, room: int | None = None) -> str:
    """Return the risk as tables of at most `room` characters in width, with reasons and
    proposals.
    """
    return "\n".join([*_lines(risk, room), ""])


def _lines(risk: disclosure.Disclosure, room: int | None) -> Iterator[str]:
    people, by = risk.everything.crowd.people, risk.everything.columns
    yield f"{risk.table}: {people:,} people ({printable(risk.unit)}), {risk.rows:,} rows"
    yield ""
    yield f"Who is alone, by {_names(by)}:"
    yield from sheet(("columns", *_CROWD), [*map(_set, _worst(risk))], room)
    yield ""
    share = percent(risk.inspection.share)
    if risk.identifying:
        yield f"The smallest sets by which at least {share} of the people are alone:"
        yield from sheet(("columns", *_CROWD), [*map(_set, risk.identifying)], room)
    else:
        yield f"By no set of these is at least {share} of the people alone."
    yield from _of_identifiers(risk, room)
    yield from _of_links(risk, room)
    yield from _of_sensitive(risk, room)
    yield from _of_levels(risk, room)
    yield ""
    yield "Why this does not protect:"
    for line in reasons(risk):
        item = f"  - {line}"
        yield from [item] if room is None else wrap(item, room, subsequent_indent="    ")
    yield from _of_proposals(risk)


def _worst(risk: disclosure.Disclosure) -> Iterator[disclosure.ColumnSet]:
    """Yield the set of all columns, then the worst sets of each size."""
    yield risk.everything
    sizes = sorted({len(each.columns) for each in risk.sets})
    for size in sizes:
        sets = [s for s in risk.sets if len(s.columns) == size and s != risk.everything]
        yield from sorted(sets, key=lambda s: -s.crowd.alone)[:_MOST_SHOWN]


def _set(each: disclosure.ColumnSet) -> tuple[str, ...]:
    return (_names(each.columns), *_crowd(each.crowd))


def _crowd(crowd: disclosure.Crowd) -> tuple[str, ...]:
    return f"{crowd.k:,}", percent(crowd.alone), percent(crowd.few), f"{crowd.median:,}"


def _names(columns: Sequence[str]) -> str:
    return printable(", ".join(columns))


def percent(share: float) -> str:
    """Return a share in percent. Small shares do not look like 0 %, nor large ones like 100 %.

    >>> percent(0.25), percent(0.00001), percent(0.99999), percent(1.0), percent(0.0)
    ('25.0 %', '< 0.1 %', '> 99.9 %', '100.0 %', '0.0 %')
    """
    if 0 < share < 0.001:  # noqa: PLR2004
        return "< 0.1 %"
    return "> 99.9 %" if 0.999 < share < 1 else f"{100 * share:.1f} %"  # noqa: PLR2004


def _of_identifiers(risk: disclosure.Disclosure, room: int | None) -> Iterator[str]:
    if not risk.identifiers:
        return
    yield ""
    yield "Columns that look like identifiers:"
    rows = [
        (printable(c.column), percent(c.alone), _why(c), "hidden" if c.hidden else "")
        for c in risk.identifiers
    ]
    yield from sheet(("column", "alone", "by", "policy"), rows, room)


def _why(column: disclosure.IdentifyingColumn) -> str:
    if column.direct:
        return "its name: names people"
    return "its name: outsiders have lists of it" if column.named else "its values"


def _of_links(risk: disclosure.Disclosure, room: int | None) -> Iterator[str]:
    if not risk.linked:
        return
    yield ""
    yield "What another table could link, one row there to one person here:"
    people = max(1, risk.everything.crowd.people)
    rows = [
        (printable(o.table), _names(o.columns), f"{o.people:,}", percent(o.people / people))
        for o in risk.linked
    ]
    yield from sheet(("table", "by", "people", ""), rows, room)


def _of_sensitive(risk: disclosure.Disclosure, room: int | None) -> Iterator[str]:
    if not risk.sensitive:
        return
    yield ""
    yield "What a class of people who agree tells of sensitive columns:"
    rows = [
        (
            *(printable(s.column), s.level, f"{s.diversity:,}", f"{s.closeness:.2f}"),
            *(f"{s.certain:,}", f"{s.in_crowd:,}"),
        )
        for s in risk.sensitive
    ]
    heads = ("column", "published", "l", "t", "value certain", "of these k > 1")
    yield from sheet(heads, rows, room)


def _of_levels(risk: disclosure.Disclosure, room: int | None) -> Iterator[str]:
    if len(risk.levels) == 1:
        return
    yield ""
    yield f"k against generalisation, all of {_names(risk.everything.columns)}:"
    longest = max(log2(1 + each.crowd.median) for each in risk.levels) or 1
    rows = [
        (
            printable(each.level.title) + (" <" if each.level.named else ""),
            *_crowd(each.crowd),
            "#" * round(_WIDTH * log2(1 + each.crowd.median) / longest),
        )
        for each in risk.levels
    ]
    yield from sheet(("published", *_CROWD, "median k, in powers of 2"), rows, room)


def reasons(risk: disclosure.Disclosure) -> Iterator[str]:
    """Yield reasons why classes of k people do not protect them, with figures of this table."""
    published = risk.published
    yield (
        "k counts who agrees on the columns that were named; whoever knows one thing more counts "
        f"again. As published, k = {published.crowd.k:,}."
    )
    for s in risk.sensitive:
        if s.level == published.level.title and s.in_crowd:
            yield (
                f"k hides who, and not what: of {s.in_crowd:,} people in classes of two and more "
                f"the {printable(s.column)} is certain, since all of their class have the same."
            )
    if risk.together is not None:
        yield (
            "k holds for one release: whoever has a second one, whose steps begin half a step "
            f"later, finds k = {risk.together.k:,} and {percent(risk.together.alone)} of the "
            f"people alone (here {percent(published.crowd.alone)})."
        )
    yield (
        "Sums and counts without noise add up to single people, however many are in each "
        "(examples/attacks)."
    )
    yield "Noise for which a budget pays bounds what all answers tell, whatever else is known."


def _of_proposals(risk: disclosure.Disclosure) -> Iterator[str]:
    if not risk.proposals:
        return
    yield ""
    yield "For the policy, which is public: names alone, but which of them is read from the data."
    yield f"  [tables.{printable(toml_key(risk.table))}.columns]"
    yield from (f"  {printable(proposal_text(proposal))}" for proposal in risk.proposals)


def proposal_text(proposal: disclosure.RemedyProposal) -> str:
    """Return a proposal as a line of the policy: an entry, or a comment."""
    name = toml_key(proposal.column)
    match proposal.remedy:
        case disclosure.Remedy.HIDE:
            return f"{name} = {{ hidden = true }}"
        case disclosure.Remedy.COARSEN:
            return f"# {name}: publish it no finer than is needed, by a view in its place"
        case _:
            assert_never(proposal.remedy)


def as_json(risk: disclosure.Disclosure) -> str:
    """Return the risk as a JSON object. Shares are from 0 to 1; all numbers are exact."""
    return json.dumps(_object(risk), indent=2) + "\n"


def _object(risk: disclosure.Disclosure) -> dict[str, Any]:
    return {
        "version": 1,
        "exact": True,
        "table": risk.table,
        "unit": risk.unit,
        "people": risk.everything.crowd.people,
        "rows": risk.rows,
        "all": _set_object(risk.everything),
        "sets": [*map(_set_object, risk.sets)],
        "identifying": [*map(_set_object, risk.identifying)],
        "identifiers": [
            {name: getattr(c, name) for name in ("column", "alone", "hidden", "named", "direct")}
            for c in risk.identifiers
        ],
        "linked": [
            {"table": o.table, "columns": list(o.columns), "people": o.people} for o in risk.linked
        ],
        "sensitive": [
            {
                "column": s.column,
                "published": s.level,
                "l": s.diversity,
                "t": s.closeness,
                "certain": s.certain,
                "in_crowd": s.in_crowd,
            }
            for s in risk.sensitive
        ],
        "levels": [
            {"published": each.level.title, "named": each.level.named, **_numbers(each.crowd)}
            for each in risk.levels
        ],
        "together": None if risk.together is None else _numbers(risk.together),
        "proposals": [
            {"table": p.table, "column": p.column, "remedy": p.remedy.value} for p in risk.proposals
        ],
    }


def _set_object(each: disclosure.ColumnSet) -> dict[str, Any]:
    return {"columns": list(each.columns), **_numbers(each.crowd)}


def _numbers(crowd: disclosure.Crowd) -> dict[str, Any]:
    return {name: getattr(crowd, name) for name in _FIELDS}


def draw(risk: disclosure.Disclosure, target: Path) -> None:
    """Draw k and the share of unique people by level, in the format of the file's suffix."""
    titles = [each.level.title for each in risk.levels]
    crowds = [each.crowd for each in risk.levels]
    sizes = {
        "least k": [log10(max(1, crowd.k)) for crowd in crowds],
        "median k": [log10(max(1, crowd.median)) for crowd in crowds],
    }
    alone = {"": [100 * crowd.alone for crowd in crowds]}
    size = plain_panel(ChartShape.LINES, "people in a class, as a power of 10", titles, sizes)
    bars = plain_panel(ChartShape.BARS, "people alone (%)", titles, alone)
    save_chart(Chart((size, bars)), target)
