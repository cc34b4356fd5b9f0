"""DP_CHOOSE(option ORDER BY score), the option with the highest score, as a query.

`SELECT DP_CHOOSE(option ORDER BY score) FROM t` stands for

    SELECT option FROM t GROUP BY option ORDER BY SUM(score) DESC LIMIT 1

If the score is an aggregate itself, such as COUNT(*), it replaces SUM. Of listed options the first
is chosen by the exponential mechanism, or by noisy scores if that errs less. The influence of a
person on a score follows from bounds and limits (`compiler.calibrate.top_groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.dialects.reading.expressions import expression
from dpsql.dialects.reading.nodes import Origin, name_of
from dpsql.dialects.reading.sources import function_name
from dpsql.dialects.reading.window_frames import sort_keys
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import AggregateCall, Select, SelectItem, SortKey
from dpsql.model.walk import walk

DP_CHOOSE = "dp_choose"
_SHAPE = "DP_CHOOSE of anything but one option ORDER BY one score"
_ALONE = "Write SELECT DP_CHOOSE(option ORDER BY score) FROM … WHERE …, and nothing beside it."


def choice_among(items: Sequence[exp.Expression], origin: Origin) -> exp.Expression | None:
    """Return the DP_CHOOSE of a SELECT list, or None; raise `Refused` if there are other
    columns.
    """
    choices = [item for item in items if _is_choice(item, origin)]
    if choices and len(items) > 1:
        raise _beside(choices[0], "other columns", origin)
    return next(iter(choices), None)


def _is_choice(node: exp.Expression, origin: Origin) -> bool:
    node = node.this if isinstance(node, exp.Alias) else node
    return isinstance(node, exp.Anonymous) and function_name(node, origin) == DP_CHOOSE


def _beside(node: exp.Expression, what: str, origin: Origin) -> Refused:
    construct = f"DP_CHOOSE beside {what}"
    return Refused(Reason.UNSUPPORTED_SYNTAX, origin.span(node), construct=construct, fix=_ALONE)


def chosen(select: Select, node: exp.Expression, origin: Origin) -> Select:
    """Return the query of the best option, for a SELECT without items yet.

    Raises `Refused` if it has clauses of groups or of an order.
    """
    if replace(select, source=None, where=None, ctes=()) != Select(()):
        raise _beside(node, "GROUP BY, HAVING, ORDER BY or LIMIT", origin)
    alias = DP_CHOOSE
    if isinstance(node, exp.Alias):
        node, name = origin.take(node, "this", "alias")
        alias = name_of(name, origin) or alias
    _, args = origin.take(node, "this", "expressions")
    if len(args or ()) != 1 or not isinstance(args[0], exp.Order):
        raise origin.refusal(node, _SHAPE)
    (listed,) = origin.take(args[0], "this", "expressions")[:1]
    keys = sort_keys(args[0], origin, expression)
    if len(keys) != 1 or keys[0].descending:
        raise origin.refusal(node, f"{_SHAPE}: the highest is chosen, without DESC")
    option = expression(listed, origin)
    total = keys[0].expression
    if not any(isinstance(part, AggregateCall) for part in walk(total)):
        total = AggregateCall("sum", (total,), span=origin.span(node))  # the sum over its rows
    score = SortKey(total, descending=True, nulls_first=False)
    items = (SelectItem(option, alias),)
    return replace(select, items=items, group_by=(option,), order_by=(score,), limit=1)
