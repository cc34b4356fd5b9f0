"""Lists of quantiles: QUANTILE_DISC(x, [0.25, 0.75]) and APPROX_QUANTILES(x, 4), as one text.

There are no list types: a list is the text that its engine shows it as, made of a quantile each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from dpsql.dialects.reading.brackets import NUMBERS
from dpsql.dialects.reading.nodes import Origin
from dpsql.model.tree import VARCHAR, AggregateCall, Call, Cast, Expression, Literal, Span
from dpsql.model.walk import map_children

BOUNDARIES = "approx_quantiles"
"""GoogleSQL's: n + 1 boundaries of n parts with equally many rows, the ends included."""

MOST = 100
"""Elements of a list."""

_LISTED = frozenset(
    "quantile quantile_cont quantile_disc approx_quantile percentile_cont percentile_disc".split()
)

_BRACKETS = {"duckdb": ("[", ", ", "]"), "postgres": ("{", ",", "}")}


def elements(
    name: str, args: list[exp.Expression], origin: Origin
) -> list[list[exp.Expression]] | None:
    """The arguments of the call for each element of the list, None where one value is asked for."""
    if name == BOUNDARIES:
        return [[*args[:-1], fraction] for fraction in _boundaries(args, origin)]
    if name not in _LISTED or not args or not is_list(args[-1]):
        return None
    _, written = origin.take(args[-1], "this", "expressions")
    if len(written) > MOST:
        raise origin.refusal(args[-1], f"a list of {len(written)} quantiles")
    return [[*args[:-1], fraction] for fraction in written]


def is_list(node: exp.Expression) -> bool:
    """Whether a node is a list of numbers."""
    return isinstance(node, exp.Anonymous) and node.name == NUMBERS


def _boundaries(args: list[exp.Expression], origin: Origin) -> list[exp.Expression]:
    number = args[1] if len(args) == 2 else None  # noqa: PLR2004
    written = None if number is None else origin.take(number, "this", "is_string")[0]
    if not (isinstance(written, str) and written.isdecimal() and 1 <= int(written) < MOST):
        raise origin.refusal(args[-1], f"APPROX_QUANTILES of anything but x, 1 to {MOST - 1}")
    parts = int(written)
    return [exp.Literal.number(n / parts) for n in range(parts + 1)]


def as_text(values: Sequence[Expression], origin: Origin, span: Span) -> Expression:
    """The values as the text of a list."""
    opening, comma, closing = (
        Literal(mark, VARCHAR, span) for mark in _BRACKETS.get(origin.dialect, _BRACKETS["duckdb"])
    )
    nothing = Literal("NULL", VARCHAR, span)
    shown = [
        Call("coalesce", (Cast(value, VARCHAR, span=span), nothing), span=span) for value in values
    ]
    inside = Call("concat_ws", (comma, *shown), span=span)
    return Call("concat", (opening, inside, closing), span=span)


def each(text: Expression, change: Callable[[AggregateCall], AggregateCall]) -> Expression:
    """The text of a list with every aggregate in it changed."""
    if isinstance(text, AggregateCall):
        return change(text)
    return map_children(text, lambda child: each(child, change))
