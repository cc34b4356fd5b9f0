"""Calls of side systems, replaced by the formulas for which they stand.

The result is an ordinary expression. Over private rows it can be aggregated, over released rows it
can be shown. A formula consists of released numbers and of the arguments of its call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from dpsql.compiler.resolve.scopes import MAX_DEPTH, MAX_NODES
from dpsql.model import tree
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.system_formulas import Formula, formula_name
from dpsql.model.system_table import FORMULA_CALLS
from dpsql.model.walk import children, map_children


def formula_calls(part: Any) -> Iterator[tree.Call]:
    """Yield the calls of side systems in a part of a statement, outer ones first."""
    if isinstance(part, tree.Call) and part.function in FORMULA_CALLS:
        yield part
    for inner in part if isinstance(part, tuple) else _parts(part).values():
        yield from formula_calls(inner)


def with_formulas(statement: tree.Statement) -> tree.Query:
    """Return the query of a statement with its formulas in place of their calls.

    Raises `Refused` for a call without a formula, for a wrong number of arguments, and for formulas
    that are too large.
    """
    formulas = _Formulas({(f.call, f.of, f.part): f for f in statement.formulas})
    query: tree.Query = formulas.within(statement.query)
    return query


def _parts(part: Any) -> dict[str, Any]:
    """Return the parts of a node of the tree by name; none of any other value."""
    if type(part).__module__ != tree.__name__ or isinstance(part, str | tree.Span):
        return {}
    return {each.name: getattr(part, each.name) for each in fields(part)}


@dataclass(slots=True)
class _Formulas:
    """Formulas by call, name and part, and the number of nodes that they have taken."""

    by_call: dict[tuple[str, str, str | None], Formula]
    nodes: int = field(default=0)

    def within(self, part: Any) -> Any:
        """Return a part of a statement with calls replaced."""
        if isinstance(part, tree.Call) and part.function in FORMULA_CALLS:
            expression = self._expanded(part)
            self._count(expression)
            return expression
        if isinstance(part, tuple):
            return tuple(map(self.within, part))
        if isinstance(part, tree.SelectItem) and part.alias is None:
            called = part.expression
            if isinstance(called, tree.Call) and called.function in FORMULA_CALLS:
                part = replace(part, alias=called.function)
        old = _parts(part)
        new = {name: self.within(value) for name, value in old.items()}
        return replace(part, **new) if any(new[n] is not old[n] for n in old) else part

    def _expanded(self, call: tree.Call) -> tree.Expression:
        of, part = formula_name(call)
        formula = self.by_call.get((call.function, of, part))
        if formula is None:
            raise Refused(Reason.UNKNOWN_FUNCTION, call.span, name=call.function)
        given = tuple(map(self._argument, call.args[1:]))
        if given and len(given) != len(formula.columns):
            names = ", ".join(formula.columns)
            why = f"{formula.of} is of {len(formula.columns)} columns: {names}"
            raise Refused(Reason.BAD_OPTION, call.span, option=call.function.upper(), why=why)
        values = given or tuple(tree.Name(name, span=call.span) for name in formula.columns)
        return self._filled(formula.expression, values, call.span)

    def _argument(self, argument: tree.Expression) -> tree.Expression:
        if isinstance(argument, tree.Call) and argument.function in FORMULA_CALLS:
            return self._expanded(argument)
        return map_children(argument, self._argument)

    def _filled(
        self, expression: tree.Expression, values: tuple[tree.Expression, ...], span: tree.Span
    ) -> tree.Expression:
        """Return a formula at the place of its call, with values for its columns."""
        if isinstance(expression, tree.Name):
            return values[int(expression.name[1:])]
        filled = map_children(expression, lambda each: self._filled(each, values, span))
        return replace(filled, span=span)

    def _count(self, expression: tree.Expression) -> None:
        """Refuse formulas with too many nodes: formulas in formulas multiply them."""
        pending = [(expression, 1)]
        while pending:
            node, depth = pending.pop()
            self.nodes += 1
            if depth > MAX_DEPTH or self.nodes > MAX_NODES:
                what = "parts of formulas"
                raise Refused(Reason.TOO_LARGE, expression.span, what=what, limit=MAX_NODES)
            pending += [(child, depth + 1) for child in children(node)]
