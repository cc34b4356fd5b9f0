"""Possible combinations of listed keys that are computed from the same columns.

A month determines its quarter, so not every combination exists. The columns' own values are
enumerated, with days in place of times where keys read no more of them, and the resulting keys are
listed.

Proof (PRIVACY.md R24, R29). It depends on the text, the policy and public data alone. A list that
is used is enforced, so leaving out a key that does occur would cost accuracy only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from math import prod

from dpsql.compiler.infer.column_facts import Columns, Row
from dpsql.functions.dates import CLOCK, PARTS, UNITS
from dpsql.model.algebra import Field
from dpsql.model.intervals import Facts
from dpsql.model.tree import DATE, TIMESTAMP, VARCHAR, Call, Cast, Expression, Literal, Ref, Value
from dpsql.model.walk import children, refs

_OF_DAYS = {
    "date_trunc": frozenset(UNITS) - CLOCK,
    "extract": frozenset(PARTS) - CLOCK,
}
"""Parts for which these functions read only the day of a time."""


def together(
    keys: Sequence[Expression], domains: Sequence[tuple[Value, ...]], columns: Columns
) -> tuple[Row, ...] | None:
    """Return the possible rows of keys, each key one of its domain, in the order of these.

    Returns None where there are more than may be listed.
    """
    limit = columns.origin.limit
    over = [columns.over_sources(key) for key in keys]
    parts = list[tuple[list[int], tuple[Row, ...]]]()
    for places in _sharing(over):
        own = [domains[n] for n in places]
        rows = _given([over[n] for n in places], own, columns) if len(places) > 1 else None
        if rows is None and prod(map(len, own)) > limit:
            return None
        parts.append((places, tuple(product(*own)) if rows is None else rows))
    if prod(len(rows) for _, rows in parts) > limit:
        return None
    order = list(chain.from_iterable(places for places, _ in parts))
    back = [order.index(n) for n in range(len(keys))]
    joined = (tuple(chain.from_iterable(row)) for row in product(*(rows for _, rows in parts)))
    ranks = [{value: n for n, value in enumerate(domain)} for domain in domains]
    return tuple(
        sorted(
            (tuple(row[n] for n in back) for row in joined),
            key=lambda row: [rank[value] for rank, value in zip(ranks, row, strict=True)],
        )
    )


def _sharing(keys: Sequence[Expression]) -> list[list[int]]:
    """Group the places of keys into sets without common columns."""
    sets = list[tuple[list[int], frozenset[int]]]()
    for n, key in enumerate(keys):
        common = [one for one in sets if one[1] & refs(key)]
        sets = [one for one in sets if one not in common]
        places = [*chain.from_iterable(places for places, _ in common), n]
        sets.append((sorted(places), refs(key).union(*(read for _, read in common))))
    return [places for places, _ in sets]


def _given(
    keys: Sequence[Expression], domains: Sequence[tuple[Value, ...]], columns: Columns
) -> tuple[Row, ...] | None:
    """Return the distinct rows of keys over all values of their columns; None where they are too
    many.
    """
    numbers = sorted(frozenset[int]().union(*map(refs, keys)))
    facts = [_values(number, keys, columns) for number in numbers]
    rows = columns.combinations(facts)
    if rows is None:
        return None
    fields = tuple(Field(n, "", each.type) for n, each in zip(numbers, facts, strict=True))
    members = [frozenset(domain) for domain in domains]
    given = dict.fromkeys(columns.origin.evaluate(tuple(keys), fields, rows))
    return tuple(
        row for row in given if all(value in of for value, of in zip(row, members, strict=True))
    )


def _values(number: int, keys: Sequence[Expression], columns: Columns) -> Facts:
    """Return the facts of a column; for a time where only the day is read, those of its
    midnight.
    """
    facts = columns.column(number)
    if facts.domain is None and facts.type == TIMESTAMP:
        column = Ref(number, TIMESTAMP)
        if all(_reads_days(key, column) for key in keys):
            return columns.facts(Call("date_trunc", (Literal("day", VARCHAR), column), TIMESTAMP))
    return facts


def _reads_days(expression: Expression, time: Ref) -> bool:
    """Test whether an expression depends on a time through its day alone."""
    match expression:
        case Ref():
            return expression != time
        case Call(function=function, args=(Literal(value=str(part)), read)) if read == time:
            return part.lower() in _OF_DAYS.get(function, ())
        case Cast(arg=read, type=kind) if read == time:
            return kind == DATE
        case _:
            return all(_reads_days(part, time) for part in children(expression))
