"""Operators of T-SQL and MySQL, whose meaning depends on the types of their operands."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.model import tree
from dpsql.model.errors import Reason, Refused

AVERAGE = "avg_of_kind"
"""Average that is a whole number if its argument has whole numbers."""

_NUMBERS = {"add_numbers": "add", "sub_numbers": "sub", "add_or_concat": "add"}


def of_source(call: tree.Call, types: Sequence[tree.SqlType]) -> tree.Expression | None:
    """Return the meaning of an operator over typed operands; None for our own functions.

    `add_or_concat` joins texts and adds numbers. `add_numbers` and `sub_numbers` are of numbers
    alone; of times they mean something else there. `of_same_kind(moved, moment)` is a date where
    the moment is one. `cut_fraction` is a number without its fraction. `div_of_kind` is
    whole for whole numbers.
    """
    if call.function == "of_same_kind":
        moved, _moment = call.args
        return moved if types[1] != tree.DATE else tree.Cast(moved, tree.DATE, span=call.span)
    if call.function == "cut_fraction":
        (value,) = call.args
        cut = types[0].kind in (tree.Kind.DOUBLE, tree.Kind.DECIMAL)
        return tree.Call("trunc", (value,), span=call.span) if cut else value
    if call.function == "div_of_kind":
        whole = all(kind.kind is tree.Kind.INTEGER for kind in types)
        return tree.Call("int_div" if whole else "div", call.args, span=call.span)
    function = _NUMBERS.get(call.function)
    if function is None:
        return None
    if any(kind.is_temporal for kind in types):
        fix = "Write DATEADD, DATE_ADD or DATEDIFF."
        shown = tuple(map(str, types))
        raise Refused(Reason.TYPE_MISMATCH, call.span, function=function, types=shown, fix=fix)
    texts = call.function == "add_or_concat" and set(types) <= {tree.VARCHAR, tree.NULL}
    joined = texts and tree.VARCHAR in types
    return tree.Call("concat" if joined else function, call.args, span=call.span)


def of_kind(average: tree.Expression, kind: tree.SqlType) -> tree.Expression:
    """Return an average, cut to a whole number where its argument has whole numbers."""
    if kind.kind is not tree.Kind.INTEGER:
        return average
    whole = tree.Call("trunc", (average,), tree.DOUBLE, average.span)
    return tree.Cast(whole, tree.INTEGER, span=average.span)
