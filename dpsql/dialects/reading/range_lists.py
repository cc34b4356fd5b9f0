"""WITHIN_RANGES(x, [[a, b], …]): a count for each range, as columns.

Each pair becomes `COUNT(*) FILTER (WHERE x BETWEEN a AND b)`, with both ends included; NULL is no
end. Structure that such columns share is found in every query
(`compiler.calibrate.range_workloads`).
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.dialects.reading.arrays import is_list
from dpsql.dialects.reading.expressions import expression
from dpsql.dialects.reading.function_names import WITHIN_RANGES
from dpsql.dialects.reading.nodes import Origin, name_of
from dpsql.dialects.reading.sources import function_name
from dpsql.model.tree import (
    AggregateCall,
    Call,
    Expression,
    Literal,
    Name,
    SelectItem,
    Span,
    Star,
)

MOST_RANGES = 500
"""Limit on the columns of one list."""


def is_ranges(node: exp.Expression, origin: Origin) -> bool:
    """Test whether an item of a SELECT list is such a call, perhaps with FILTER and a name."""
    for wrapper in (exp.Alias, exp.Filter):
        node = node.this if isinstance(node, wrapper) else node
    return isinstance(node, exp.Anonymous) and function_name(node, origin) == WITHIN_RANGES


def ranges(node: exp.Expression, origin: Origin) -> tuple[SelectItem, ...]:
    """Return the columns, named x_0_17 and so on for `x`, or by the name of the item."""
    span, alias, condition = origin.span(node), None, None
    if isinstance(node, exp.Alias):
        node, name = origin.take(node, "this", "alias")
        alias = name_of(name, origin)
    if isinstance(node, exp.Filter):
        node, where = origin.take(node, "this", "expression")
        condition = expression(origin.take(where, "this")[0], origin)
    _, args = origin.take(node, "this", "expressions")
    if len(args or ()) != 2 or not is_list(args[1]):  # noqa: PLR2004
        raise origin.refusal(node, "WITHIN_RANGES of anything but x, [[a, b], …]")
    value = expression(args[0], origin)
    _, listed = origin.take(args[1], "this", "expressions")
    if not 1 <= len(listed or ()) <= MOST_RANGES:
        raise origin.refusal(args[1], f"a list of {len(listed or ())} ranges")
    named = alias or (value.name if isinstance(value, Name) else "range")
    return tuple(_item(value, _ends(pair, origin), condition, named, span) for pair in listed)


_Ends = tuple[Literal, Literal]


def _ends(node: exp.Expression, origin: Origin) -> _Ends:
    if is_list(node):
        _, written = origin.take(node, "this", "expressions")
        match [expression(end, origin) for end in written or ()]:
            case [Literal() as low, Literal() as high] if (low.value, high.value) != (None, None):
                return low, high
    raise origin.refusal(node, "a range of anything but two constants")


def _item(
    value: Expression, ends: _Ends, condition: Expression | None, named: str, span: Span
) -> SelectItem:
    tests = [] if condition is None else [condition]
    for sign, end in zip(("ge", "le"), ends, strict=True):
        if end.value is not None:
            tests.append(Call(sign, (value, end), span=end.span))
    within = tests[0] if len(tests) == 1 else Call("and", tuple(tests), span=span)
    low, high = (end.value for end in ends)
    label = f"to_{high}" if low is None else f"from_{low}" if high is None else f"{low}_{high}"
    return SelectItem(
        AggregateCall("count", (Star(None, span),), filter=within, span=span), f"{named}_{label}"
    )
