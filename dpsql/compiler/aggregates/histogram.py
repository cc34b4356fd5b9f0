"""HISTOGRAM(x) over public values: a noisy count of each, as the text that DuckDB shows.

Values whose noisy count is not positive are left out, as the engine leaves out absent ones.

Proof (PRIVACY.md R31). Each value is a COUNT of its own; a row has one value, so that one charge
may pay for all where that is proved (R34).
"""

from __future__ import annotations

import re

from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    Parts,
    Recipe,
    conjunction,
    no_distinct,
    rows_of_unit,
)
from dpsql.compiler.plan.measurement_kinds import RowCount
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts
from dpsql.model.tree import (
    BOOLEAN,
    INTEGER,
    VARCHAR,
    Call,
    Cast,
    Expression,
    Kind,
    Literal,
    Ref,
    Value,
)

MOST_VALUES = 100
"""Beyond it a text is no way to show counts: GROUP BY is."""

_PLAIN = re.compile(r"[\w.:/+-]+(?: [\w.:/+-]+)*")


def _values(asked: BoundedCall) -> tuple[Value, ...]:
    facts = asked.argument
    listed = () if facts is None else _listed(facts)
    if not listed or len(listed) > MOST_VALUES:
        raise Refused(
            Reason.UNSUPPORTED_AGGREGATE,
            asked.call.span,
            name="histogram",
            fix="Ask for COUNT(*) with GROUP BY: it takes values that are not listed, or many.",
        )
    return listed


def _listed(facts: Facts) -> tuple[Value, ...]:
    exact = (Kind.INTEGER, Kind.VARCHAR, Kind.BOOLEAN, Kind.DATE)
    return facts.domain or () if facts.type.kind in exact else ()


def _parts(asked: BoundedCall) -> Parts:
    no_distinct(asked)
    facts = asked.argument
    assert facts is not None
    return tuple(
        RowCount(
            conjunction(
                asked.call.filter,
                Call("eq", (asked.expression, Literal(value, facts.type)), BOOLEAN),
            ),
            rows_of_unit(asked),
        )
        for value in _values(asked)
    )


def _combine(asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    entries = map(_entry, _values(asked), parts)
    inside = Call("concat_ws", (_text(", "), *entries), VARCHAR)
    return Call("concat", (_text("{"), inside, _text("}")), VARCHAR)


def _entry(value: Value, count: Ref) -> Expression:
    shown = Call("concat", (_text(f"{_name(value)}="), Cast(count, VARCHAR)), VARCHAR)
    positive = Call("gt", (count, Literal(0, INTEGER)), BOOLEAN)
    return Call("case", (positive, shown, Literal(None, VARCHAR)), VARCHAR)


def _name(value: Value) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _PLAIN.fullmatch(text) else "'" + text.replace("'", "\\'") + "'"


def _text(text: str) -> Literal:
    return Literal(text, VARCHAR)


HISTOGRAM = Recipe(_parts, _combine)
