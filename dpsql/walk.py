"""Walking and rebuilding expressions and relations: the only place that knows every node's parts.

>>> from dpsql.tree import INTEGER, Call, Ref
>>> sorted(refs(Call("add", (Ref(1, INTEGER), Ref(2, INTEGER)))))
[1, 2]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from dpsql.algebra import (
    Aggregate,
    Filter,
    Join,
    Limit,
    OneRow,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    Union,
    Window,
)
from dpsql.tree import (
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Name,
    Ref,
    SortKey,
    Star,
    WindowCall,
)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct subexpressions, in reading order."""
    match expression:
        case Literal() | Name() | Star() | Ref():
            return ()
        case Call(args=args):
            return args
        case Cast(arg=arg):
            return (arg,)
        case AggregateCall(args=args, filter=condition, order_by=order):
            kept = () if condition is None else (condition,)
            return (*args, *kept, *(key.expression for key in order))
        case WindowCall(args=args, partition_by=partition, order_by=order):
            return (*args, *partition, *(key.expression for key in order))
        case _:
            assert_never(expression)


def map_children(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The same node with `change` applied to each direct subexpression."""
    match expression:
        case Literal() | Name() | Star() | Ref():
            return expression
        case Call(args=args):
            return replace(expression, args=tuple(map(change, args)))
        case Cast(arg=arg):
            return replace(expression, arg=change(arg))
        case AggregateCall(args=args, filter=condition, order_by=order):
            return replace(
                expression,
                args=tuple(map(change, args)),
                filter=None if condition is None else change(condition),
                order_by=_map_keys(order, change),
            )
        case WindowCall(args=args, partition_by=partition, order_by=order):
            return replace(
                expression,
                args=tuple(map(change, args)),
                partition_by=tuple(map(change, partition)),
                order_by=_map_keys(order, change),
            )
        case _:
            assert_never(expression)


def _map_keys(
    keys: tuple[SortKey, ...], change: Callable[[Expression], Expression]
) -> tuple[SortKey, ...]:
    return tuple(replace(key, expression=change(key.expression)) for key in keys)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def refs(expression: Expression) -> frozenset[int]:
    """The ids of the columns an expression reads."""
    return frozenset(node.id for node in walk(expression) if isinstance(node, Ref))


def substitute(expression: Expression, values: Mapping[int, Expression]) -> Expression:
    """The expression with each `Ref` whose id is in `values` replaced."""
    if isinstance(expression, Ref):
        return values.get(expression.id, expression)
    return map_children(expression, lambda child: substitute(child, values))


def conjuncts(predicate: Expression | None) -> tuple[Expression, ...]:
    """The predicates that must all hold for `predicate` to hold."""
    if predicate is None:
        return ()
    if isinstance(predicate, Call) and predicate.function == "and":
        return tuple(part for arg in predicate.args for part in conjuncts(arg))
    return (predicate,)


def inputs(relation: Relation) -> tuple[Relation, ...]:
    """The direct inputs of a relation."""
    match relation:
        case Scan() | OneRow() | Released():
            return ()
        case Filter() | Project() | Aggregate() | Window() | Sort() | Limit():
            return (relation.input,)
        case Join() | Union():
            return (relation.left, relation.right)
        case _:
            assert_never(relation)


def map_inputs(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """The same relation with `change` applied to each direct input."""
    match relation:
        case Scan() | OneRow() | Released():
            return relation
        case Filter() | Project() | Aggregate() | Window() | Sort() | Limit():
            return replace(relation, input=change(relation.input))
        case Join() | Union():
            return replace(relation, left=change(relation.left), right=change(relation.right))
        case _:
            assert_never(relation)


def relations(relation: Relation) -> Iterator[Relation]:
    """The relation and everything below it, parents first."""
    yield relation
    for source in inputs(relation):
        yield from relations(source)
