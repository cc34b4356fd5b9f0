"""PIVOT and UNPIVOT over listed values, as equivalent SELECTs.

PIVOT is a GROUP BY of every other column with a filtered aggregate for each value. UNPIVOT joins
each row with the names of the columns, and takes the value of the named one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from sqlglot import exp

from dpsql.dialects.reading.calls import each
from dpsql.dialects.reading.expressions import expression
from dpsql.dialects.reading.group_keys import groups
from dpsql.dialects.reading.nodes import Origin, name_of
from dpsql.dialects.reading.written_names import describe_column
from dpsql.model import tree
from dpsql.model.walk import walk

MOST_COLUMNS = 1_000
"""Limit on the columns that a PIVOT makes."""


def pivoted(node: exp.Expression, source: tree.FromItem, origin: Origin) -> tree.Select:
    """Return the query equivalent to PIVOT or UNPIVOT of `source`, in either syntax."""
    if node.args.get("unpivot"):
        return _unpivoted(node, source, origin)
    names = "expressions", "fields", "using", "group", "columns", "this", "alias"
    notes = "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "unpivot"
    listed, fields, using, group, *_rest = origin.take(node, *names, *notes)
    columns = fields or listed
    measures = [_measure(m, origin) for m in (listed if fields else using) or ()]
    if not measures:
        raise origin.refusal(node, "PIVOT without an aggregate")
    choices = [_choices(column, origin) for column in columns]
    keys, sets = groups(group, origin, expression)
    span = origin.span(node)
    if group is None:
        read = [*(column for column, _ in choices), *(m.expression for m in measures)]
        items: tuple[tree.SelectItem, ...] = (
            tree.SelectItem(tree.Star(None, span, exclude=_names(read))),
        )
        keys = (tree.Star(None, span),)
    else:
        items = tuple(tree.SelectItem(key) for key in keys)
    combined = list(product(*(listed for _, listed in choices)))
    if len(combined) * len(measures) > MOST_COLUMNS:
        raise origin.refusal(node, f"PIVOT to more than {MOST_COLUMNS} columns")
    cells = (_cell(choices, chosen, m, len(measures)) for chosen in combined for m in measures)
    return tree.Select((*items, *cells), source, group_by=keys, span=span, grouping_sets=sets)


def _measure(node: exp.Expression, origin: Origin) -> tree.SelectItem:
    alias = None
    if isinstance(node, exp.Alias):
        node, alias = origin.take(node, "this", "alias")
    named = None if alias is None else name_of(alias, origin)
    return tree.SelectItem(expression(node, origin), named, describe_column(node))


_Choices = tuple[tree.Expression, list[tuple[tree.Literal, str]]]
"""An expression, and its values with their names."""


def _choices(node: exp.Expression, origin: Origin) -> _Choices:
    if not isinstance(node, exp.In):
        raise origin.refusal(node, "PIVOT without IN (values)")
    column, values = origin.take(node, "this", "expressions")
    return expression(column, origin), [_choice(value, origin) for value in values or ()]


def _choice(node: exp.Expression, origin: Origin) -> tuple[tree.Literal, str]:
    alias = None
    if isinstance(node, exp.PivotAlias):
        node, alias = origin.take(node, "this", "alias")
    value = expression(node, origin)
    if not isinstance(value, tree.Literal):
        raise origin.refusal(node, "PIVOT to anything but constants")
    return value, _text(value.value) if alias is None else name_of(alias, origin)


def _text(value: tree.Value) -> str:
    """Return the name of a value's column."""
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(read: list[tree.Expression]) -> tuple[str, ...]:
    names = (node.name for each in read for node in walk(each) if isinstance(node, tree.Name))
    return tuple({name.lower(): name for name in names}.values())


def _cell(
    choices: list[_Choices],
    chosen: tuple[tuple[tree.Literal, str], ...],
    measure: tree.SelectItem,
    count: int,
) -> tree.SelectItem:
    """Return an aggregate over the rows that have these values."""
    columns = [column for column, _ in choices]
    tests = tuple(
        tree.Call(
            "is_not_distinct" if value.type == tree.NULL else "eq", (column, value), span=value.span
        )
        for column, (value, _) in zip(columns, chosen, strict=True)
    )
    condition = tests[0] if len(tests) == 1 else tree.Call("and", tests, span=tests[0].span)

    def filtered(call: tree.AggregateCall) -> tree.AggregateCall:
        own = () if call.filter is None else (call.filter,)
        return replace(
            call, filter=tree.Call("and", (condition, *own), span=call.span) if own else condition
        )

    own = [measure.alias or measure.label or "value"] if measure.alias or count > 1 else []
    label = "_".join([*(label for _, label in chosen), *own])
    return tree.SelectItem(each(measure.expression, filtered), label)


def _unpivoted(node: exp.Expression, source: tree.FromItem, origin: Origin) -> tree.Select:
    names = "expressions", "fields", "into", "include_nulls", "this", "alias", "unpivot"
    listed, fields, into, nulls, *_rest = origin.take(node, *names, "value_columns_first")
    span = origin.span(node)
    name, value = "name", "value"
    if fields:
        (field,) = fields if len(fields) == 1 else (None,)
        if not isinstance(field, exp.In) or len(listed) != 1:
            raise origin.refusal(node, "this UNPIVOT")
        target, columns = origin.take(field, "this", "expressions")
        name, value = name_of(target, origin), name_of(listed[0], origin)
    else:
        columns = listed
        if into is not None:
            name, value = _into(into, origin)
    parts = [_part(column, origin) for column in columns or ()]
    if not parts:
        raise origin.refusal(node, "UNPIVOT of no columns")
    rows = tuple((tree.Literal(label, tree.VARCHAR, column.span),) for column, label in parts)
    labels = tree.ValuesList((name,), rows, "unpivot", (name,), span)
    chosen = _chosen(name, parts, span)
    there = (
        None
        if nulls
        else tree.Call("not", (tree.Call("is_null", (chosen,), span=span),), span=span)
    )
    items = (
        tree.SelectItem(tree.Star(None, span, exclude=_names([column for column, _ in parts]))),
        tree.SelectItem(chosen, value),
    )
    joined = tree.JoinedTables(source, labels, tree.JoinKind.CROSS, span=span)
    return tree.Select(items, joined, there, span=span)


def _into(node: exp.Expression, origin: Origin) -> tuple[str, str]:
    """Return the names of INTO NAME name VALUE value."""
    name, values = origin.take(node, "this", "expressions")
    read = [expression(each, origin) for each in (name, *values)]
    if len(read) != 2 or not all(isinstance(each, tree.Name) for each in read):  # noqa: PLR2004
        raise origin.refusal(node, "UNPIVOT to several columns")
    first, second = (each.name for each in read if isinstance(each, tree.Name))
    return first, second


def _part(node: exp.Expression, origin: Origin) -> tuple[tree.Name, str]:
    """Return a column of UNPIVOT, and the name of its rows."""
    alias = None
    if isinstance(node, exp.PivotAlias | exp.Alias):
        node, alias = origin.take(node, "this", "alias")
    column = expression(node, origin)
    if not isinstance(column, tree.Name):
        raise origin.refusal(node, "UNPIVOT of anything but columns")
    if alias is None:
        return column, column.name
    return column, _alias(alias, origin)


def _alias(node: exp.Expression, origin: Origin) -> str:
    if isinstance(node, exp.Identifier):
        return name_of(node, origin)
    written = expression(node, origin)
    if isinstance(written, tree.Literal):
        return _text(written.value)
    raise origin.refusal(node, "this name in UNPIVOT")


def _chosen(name: str, parts: list[tuple[tree.Name, str]], span: tree.Span) -> tree.Expression:
    """Return CASE name WHEN 'a' THEN a … END."""
    args: list[tree.Expression] = []
    for column, label in parts:
        test = tree.Call(
            "eq",
            (tree.Name(name, "unpivot", span), tree.Literal(label, tree.VARCHAR, span)),
            span=span,
        )
        args += [test, column]
    return tree.Call("case", (*args, tree.Literal(None, tree.NULL, span)), span=span)
