"""Traversal and rebuilding of expressions and relations: only this file knows every node's parts.

>>> from dpsql.model.tree import INTEGER, Call, Ref
>>> sorted(refs(Call("add", (Ref(1, INTEGER), Ref(2, INTEGER)))))
[1, 2]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice
from operator import is_
from typing import assert_never, cast

from dpsql.model.algebra import (
    Again,
    Aggregate,
    Apply,
    Evaluated,
    Filter,
    Item,
    Join,
    Limit,
    Match,
    OneRow,
    Project,
    Recursion,
    Relation,
    Released,
    Scan,
    Single,
    Sort,
    Staged,
    Union,
    Values,
    Window,
)
from dpsql.model.ticking import tick
from dpsql.model.tree import (
    BOOLEAN,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Membership,
    Name,
    Ref,
    ScalarQuery,
    SortKey,
    Star,
    WindowCall,
)

MOST_NODES = 2_000
"""Largest size of a formula that is combined from nested queries, in nodes."""


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct subexpressions, in reading order."""
    tick()
    match expression:  # the most frequent kinds first
        case Call(args=args):
            return args
        case Ref() | Literal() | Name() | ScalarQuery():
            return ()
        case Star(replacing=replacing):
            return tuple(value for _, value in replacing)
        case Cast(arg=arg):
            return (arg,)
        case Membership(value=value):
            return () if value is None else (value,)
        case AggregateCall(args=args, filter=condition, order_by=order):
            conditions = () if condition is None else (condition,)
            return (*args, *conditions, *(key.expression for key in order))
        case WindowCall(args=args, partition_by=partition, order_by=order, filter=condition):
            conditions = () if condition is None else (condition,)
            return (*args, *conditions, *partition, *(key.expression for key in order))
        case _:
            assert_never(expression)


def map_children(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the same node with `change` applied to each direct subexpression."""
    tick()
    match expression:  # the most frequent kinds first
        case Call(name, args, kind, span):  # not by `replace`, which takes longer than all the rest
            changed_args = tuple(map(change, args))
            same = all(map(is_, changed_args, args))
            return expression if same else Call(name, changed_args, kind, span)
        case Ref() | Literal() | Name() | ScalarQuery():
            return expression
        case Star(replacing=replacing):
            changed = tuple((column, change(value)) for column, value in replacing)
            return replace(expression, replacing=changed) if replacing else expression
        case Cast(arg, kind, safe, span):
            changed_arg = change(arg)
            return expression if changed_arg is arg else Cast(changed_arg, kind, safe, span)
        case Membership(value=value):
            return expression if value is None else replace(expression, value=change(value))
        case AggregateCall(args=args, filter=condition, order_by=order):
            return replace(
                expression,
                args=tuple(map(change, args)),
                filter=None if condition is None else change(condition),
                order_by=_map_keys(order, change),
            )
        case WindowCall(args=args, partition_by=partition, order_by=order, filter=condition):
            return replace(
                expression,
                args=tuple(map(change, args)),
                filter=None if condition is None else change(condition),
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
    """Yield the expression and everything below it, parents first."""
    left = [expression]
    while left:
        node = left.pop()
        yield node
        left += reversed(children(node))


def walk_nodes(expression: Expression) -> Iterator[Expression]:
    """Yield each node of the expression once, also where a formula holds it in many places."""
    left, seen = [expression], set[int]()
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        left += reversed(children(node))


def refs(expression: Expression) -> frozenset[int]:
    """Return the ids of the columns that an expression reads."""
    left, seen, ids = [expression], set[int](), set[int]()
    while left:
        node = left.pop()
        if isinstance(node, Ref):
            ids.add(node.id)
        elif not isinstance(node, Literal) and id(node) not in seen:
            seen.add(id(node))
            left += children(node)
    return frozenset(ids)


def substitute(expression: Expression, values: Mapping[int, Expression]) -> Expression:
    """Replace each `Ref` with an id in `values`.

    A formula may hold one node in many places, so each node is visited once.
    """
    replacements: dict[int, Expression] = {}

    def change(node: Expression) -> Expression:
        if isinstance(node, Ref):
            return values.get(node.id, node)
        if isinstance(node, Literal):
            return node
        if (replacement := replacements.get(id(node))) is None:
            replacement = replacements[id(node)] = map_children(node, change)
        return replacement

    return change(expression)


def composed(expression: Expression, values: Mapping[int, Expression]) -> Expression | None:
    """Substitute as `substitute` does; None beyond `MOST_NODES`: nested queries could double a
    formula each.
    """
    parts = (
        walk(values[node.id]) if isinstance(node, Ref) and node.id in values else (node,)
        for node in walk(expression)
    )
    size = sum(1 for _ in islice(chain.from_iterable(parts), MOST_NODES + 1))
    return substitute(expression, values) if size <= MOST_NODES else None


def conjuncts(predicate: Expression | None) -> tuple[Expression, ...]:
    """Return the predicates that must all hold for `predicate` to hold."""
    if predicate is None:
        return ()
    if isinstance(predicate, Call) and predicate.function == "and":
        return tuple(part for arg in predicate.args for part in conjuncts(arg))
    return (predicate,)


def implied(predicate: Expression | None) -> tuple[Expression, ...]:
    """Return the conjuncts, and the predicates that every branch of an OR among them implies."""
    predicates: list[Expression] = []
    for part in conjuncts(predicate):
        predicates.append(part)
        if isinstance(part, Call) and part.function == "or":
            first, *others = (implied(branch) for branch in part.args)
            predicates += [p for p in first if all(p in other for other in others)]
    return tuple(predicates)


def both(predicates: tuple[Expression, ...]) -> Expression | None:
    """Return the conjunction of predicates; None without predicates."""
    if len(predicates) <= 1:
        return predicates[0] if predicates else None
    return Call("and", predicates, BOOLEAN)


def expressions(relation: Relation) -> tuple[Expression, ...]:
    """Return the expressions of a relation itself, without those of its inputs."""
    match relation:
        case Scan() | OneRow() | Values() | Released() | Staged() | Evaluated() | Union() | Limit():
            return ()
        case Single() | Recursion() | Again():
            return ()
        case Apply(member=member):
            return () if member is None else (member,)
        case Filter(predicate=predicate):
            return (predicate,)
        case Project(items=items):
            return tuple(item.expression for item in items)
        case Join(condition=condition):
            return () if condition is None else (condition,)
        case Match(condition=condition, member=member):
            return (() if condition is None else (condition,)) + (member or ())
        case Aggregate(keys=keys, measures=measures):
            return tuple(k.expression for k in keys) + tuple(m.call for m in measures)
        case Window(items=windows):
            return tuple(item.call for item in windows)
        case Sort(keys=order):
            return tuple(key.expression for key in order)
        case _:
            assert_never(relation)


def map_expressions(relation: Relation, change: Callable[[Expression], Expression]) -> Relation:
    """Return the same relation with `change` applied to each of its `expressions`."""
    match relation:
        case Scan() | OneRow() | Values() | Released() | Staged() | Evaluated() | Union() | Limit():
            return relation
        case Single() | Recursion() | Again():
            return relation
        case Apply(member=member):
            return relation if member is None else replace(relation, member=change(member))
        case Filter(predicate=predicate):
            return replace(relation, predicate=change(predicate))
        case Project(items=items):
            return replace(relation, items=_map_items(items, change))
        case Join(condition=condition):
            return replace(relation, condition=None if condition is None else change(condition))
        case Match(condition=condition, member=member):
            return replace(
                relation,
                condition=None if condition is None else change(condition),
                member=None if member is None else (change(member[0]), change(member[1])),
            )
        case Aggregate(keys=keys, measures=measures):
            called = tuple(replace(m, call=cast("AggregateCall", change(m.call))) for m in measures)
            return replace(relation, keys=_map_items(keys, change), measures=called)
        case Window(items=windows):
            added = tuple(replace(w, call=cast("WindowCall", change(w.call))) for w in windows)
            return replace(relation, items=added)
        case Sort(keys=order):
            return replace(relation, keys=_map_keys(order, change))
        case _:
            assert_never(relation)


def _map_items(
    items: tuple[Item, ...], change: Callable[[Expression], Expression]
) -> tuple[Item, ...]:
    return tuple(replace(item, expression=change(item.expression)) for item in items)


def inputs(relation: Relation) -> tuple[Relation, ...]:
    """Return the direct inputs of a relation."""
    match relation:
        case Scan() | OneRow() | Values() | Released() | Evaluated() | Again():
            return ()
        case Staged(source=source):
            return () if source is None else (source,)
        case Filter() | Project() | Aggregate() | Window() | Sort() | Limit() | Single():
            return (relation.input,)
        case Match() | Apply():
            return (relation.input, relation.other)
        case Join() | Union():
            return (relation.left, relation.right)
        case Recursion():
            return (relation.first, relation.step)
        case _:
            assert_never(relation)


def map_inputs(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """Return the same relation with `change` applied to each direct input, except to a stage's
    source.
    """
    match relation:
        case Scan() | OneRow() | Values() | Released() | Staged() | Evaluated() | Again():
            return relation
        case Filter() | Project() | Aggregate() | Window() | Sort() | Limit() | Single():
            return replace(relation, input=change(relation.input))
        case Match() | Apply():
            return replace(relation, input=change(relation.input), other=change(relation.other))
        case Join() | Union():
            return replace(relation, left=change(relation.left), right=change(relation.right))
        case Recursion():
            return replace(relation, first=change(relation.first), step=change(relation.step))
        case _:
            assert_never(relation)


def free_refs(relation: Relation) -> frozenset[int]:
    """Return the columns that a query reads from outside: nothing inside it provides them."""
    parts = tuple(relations(relation))
    read = frozenset(n for part in parts for e in expressions(part) for n in refs(e))
    return read - {f.id for part in parts for f in part.fields}


def relations(relation: Relation) -> Iterator[Relation]:
    """Yield the relation and everything below it, parents first."""
    yield relation
    for source in inputs(relation):
        yield from relations(source)
