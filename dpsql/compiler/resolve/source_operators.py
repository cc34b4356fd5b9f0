"""Operators of T-SQL and MySQL, whose meaning depends on the types of their operands."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.model import tree
from dpsql.model.errors import Reason, Refused

AVERAGE = "avg_of_kind"
"""Average that is a whole number if its argument has whole numbers."""

_NUMBERS = {"add_numbers": "add", "sub_numbers": "sub", "add_or_concat": "add"}
_OF_FLOAT, _OF_WHOLE = "_of_float", "_of_whole"
"""Ends of names of functions with the type of their argument there, and another here."""


def of_source(call: tree.Call, types: Sequence[tree.SqlType]) -> tree.Expression | None:
    """Return the meaning of an operator over typed operands; None for our own functions.

    `add_or_concat` joins texts and adds numbers. `add_numbers` and `sub_numbers` are of numbers
    alone; of times they mean something else there. `of_same_kind(moved, moment)` is a date where
    the moment is one. `cut_fraction` is a number without its fraction, and `no_text` any number:
    `no_text(x, 0)` stands in `x = 0`, where MySQL reads a text as a number, and 'abc' as 0.
    `div_of_kind` is whole for whole numbers. `coalesce_of_kind` has the type of its first argument.
    `pow_of_float` and `sign_of_whole` are refused for other numbers, where they are rounded.
    """
    if call.function == "of_same_kind":
        moved, _moment = call.args
        return moved if types[1] != tree.DATE else tree.Cast(moved, tree.DATE, span=call.span)
    if call.function in ("cut_fraction", "no_text"):
        value, *equated = call.args
        if types[0] == tree.VARCHAR and equated:
            raise _refusal(call, "eq", types, "Write the number as a text: x = '0'.")
        if types[0] == tree.VARCHAR:
            raise _refusal(call, "cast", types, "Compare texts: CASE WHEN x = '12' THEN 12 END.")
        if call.function == "no_text":
            return value
        cut = types[0].kind in (tree.Kind.DOUBLE, tree.Kind.DECIMAL)
        return tree.Call("trunc", (value,), span=call.span) if cut else value
    if call.function == "div_of_kind":
        whole = all(kind.kind is tree.Kind.INTEGER for kind in types)
        return tree.Call("int_div" if whole else "div", call.args, span=call.span)
    function = _NUMBERS.get(call.function)
    if function is None:
        return _of_first(call, types)
    if any(kind.is_temporal for kind in types):
        raise _refusal(call, function, types, "Write DATEADD, DATE_ADD or DATEDIFF.")
    texts = call.function == "add_or_concat" and set(types) <= {tree.VARCHAR, tree.NULL}
    joined = texts and tree.VARCHAR in types
    return tree.Call("concat" if joined else function, call.args, span=call.span)


_TYPED = (
    (_OF_FLOAT, tree.Kind.DOUBLE, "CAST argument 1, as in CAST(x AS FLOAT)."),
    (_OF_WHOLE, tree.Kind.INTEGER, "Write CASE WHEN x > 0 THEN 1 WHEN x < 0 THEN -1 ELSE 0 END."),
)


def _of_first(call: tree.Call, types: Sequence[tree.SqlType]) -> tree.Expression | None:
    """Return the meaning of a function that keeps the type of its first argument there."""
    if call.function == "coalesce_of_kind":
        if not _is_kept(types[0], types[1], call.args[1]):
            raise _refusal(call, "isnull", types, "CAST argument 2 to the type of argument 1.")
        return tree.Call("coalesce", call.args, span=call.span)
    for end, kind, fix in _TYPED:
        if call.function.endswith(end):
            name = call.function.removesuffix(end)
            if types[0].kind is not kind:
                raise _refusal(call, name, types, fix)
            return tree.Call(name, call.args, span=call.span)
    return None


def _refusal(call: tree.Call, name: str, types: Sequence[tree.SqlType], fix: str) -> Refused:
    shown = tuple(map(str, types))
    return Refused(Reason.TYPE_MISMATCH, call.span, function=name, types=shown, fix=fix)


def _is_kept(first: tree.SqlType, second: tree.SqlType, value: tree.Expression) -> bool:
    """Test whether each value of the second type is the same one in the first type."""
    if tree.NULL in (first, second) or first.kind is second.kind:
        return second.scale <= first.scale
    constant = isinstance(value, tree.Literal) and second == tree.VARCHAR
    exact = {tree.Kind.INTEGER: 0, tree.Kind.BOOLEAN: 0, tree.Kind.DECIMAL: 1, tree.Kind.DOUBLE: 2}
    if first.kind in exact and second.kind in exact:
        return exact[second.kind] <= exact[first.kind]
    moment = (tree.Kind.TIMESTAMP, tree.Kind.DATE)
    return (first.kind, second.kind) == moment or (constant and first.is_temporal)


def of_kind(average: tree.Expression, kind: tree.SqlType) -> tree.Expression:
    """Return an average, cut to a whole number where its argument has whole numbers."""
    if kind.kind is not tree.Kind.INTEGER:
        return average
    whole = tree.Call("trunc", (average,), tree.DOUBLE, average.span)
    return tree.Cast(whole, tree.INTEGER, span=average.span)
