"""Bounds on the rows of a released result that agree on columns, for any release.

A block of private keys releases only those that many units have. An aggregate over them is not that
of all groups, and no error says by how much: it is refused. Extremes of groups that the query lists
too are those of what is listed.

Proof (PRIVACY.md R11, R104). A block of public keys releases each key at most once, so no more rows
agree on some keys than listed keys do. Relations over them have no more rows than is written below,
one rule for each operator. A LIMIT holds for any input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress

from dpsql.compiler.plan.private_plan import PrivateBlock, least, product
from dpsql.model import algebra
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import JoinKind, Ref, Value
from dpsql.model.walk import inputs

Domain = tuple[tuple[Value, ...], ...]


def most_alike(
    relation: algebra.Relation,
    columns: frozenset[int],
    domain: Callable[[int], Domain | None],
    frequency: Callable[[algebra.Relation, tuple[Ref, ...]], int],
) -> int | None:
    """Return the most rows that agree on these columns; None where nothing bounds them.

    `domain` lists the keys of a block, if they are public; `frequency` measures public tables.
    """

    def most(relation: algebra.Relation, columns: frozenset[int]) -> int | None:
        match relation:
            case algebra.OneRow():
                return 1
            case algebra.Values():
                return len(relation.rows)
            case algebra.Scan():
                return frequency(relation, tuple(f.ref for f in relation.fields if f.id in columns))
            case algebra.Released():
                return _keys_alike(relation, columns, domain(relation.block))
            case algebra.Limit():
                return least(relation.limit, most(relation.input, columns))
            case algebra.Project():
                return most(relation.input, _below(relation.items, columns))
            case algebra.Aggregate(sets=()):
                if {item.field.id for item in relation.keys} <= columns:
                    return 1
                return most(relation.input, _below(relation.keys, columns))
            case algebra.Filter() | algebra.Sort() | algebra.Window():
                return most(relation.input, columns)
            case algebra.Join(kind=JoinKind.INNER | JoinKind.CROSS | JoinKind.LEFT):
                left, right = (most(side, columns) for side in (relation.left, relation.right))
                return product(left, None if right is None else max(right, 1))
            case _:
                return None

    bound = most(relation, columns)
    return None if bound is None else max(bound, 1)


def _below(items: Iterable[algebra.Item], columns: frozenset[int]) -> frozenset[int]:
    """Return the input columns that are passed on as some of these, below a projection or an
    aggregate.
    """
    return frozenset(
        item.expression.id
        for item in items
        if item.field.id in columns and isinstance(item.expression, Ref)
    )


def _keys_alike(
    relation: algebra.Released, columns: frozenset[int], domain: Domain | None
) -> int | None:
    """Return the number of listed keys that agree on the columns that are keys."""
    if domain is None:
        return None
    count = len(domain[0]) if domain else 0
    agreed = [f.id in columns for f in relation.fields[:count]]
    alike = Counter(tuple(map(_one_nan, compress(key, agreed))) for key in domain)
    return max(alike.values(), default=0)


def _one_nan(value: Value) -> Value:
    """Return the value, with NULL for NaN, which engines treat as equal to itself."""
    return value if value == value else None  # noqa: PLR0124


def require_all_groups(
    queries: Sequence[algebra.Relation],
    over_groups: Sequence[algebra.Aggregate],
    blocks: Sequence[PrivateBlock],
    domain_of: Callable[[PrivateBlock], Domain | None],
) -> None:
    """Raise `Refused` where an aggregate reads groups that are not all released.

    `over_groups` are the aggregates of `queries` over released or public rows.
    """
    listed = {block for query in queries for block in _listed(query)}
    hidden = [
        (aggregate.span, measure.call.function.upper(), blocks[number])
        for aggregate in over_groups
        for measure in aggregate.measures
        for number in _groups_of(aggregate.input)
        if not (number in listed and measure.call.function in ("min", "max"))
        if domain_of(blocks[number]) is None
    ]
    if hidden:
        _, function, block = min(hidden, key=lambda each: each[1] in _ADDED_UP)
        keys = ", ".join(key.field.name or "an expression" for key in block.keys)
        raise Refused(
            Reason.UNSUPPORTED_PRIVATE_OPERATOR,
            block.span,
            construct=f"{function} over groups by {keys}, some with too few people to be released",
            fix="Group by the people too; or list the keys in the policy, or declare there with"
            " determines_unit that each is of one of them.",
            groups=tuple(span for span, *_ in hidden),
        )


_ADDED_UP = frozenset({"COUNT", "SUM", "AVG"})


def _groups_of(relation: algebra.Relation) -> frozenset[int]:
    """Return the blocks with released groups that are the only rows of a relation."""
    match relation:
        case algebra.Released():
            return frozenset({relation.block})
        case algebra.Project() | algebra.Filter() | algebra.Sort() | algebra.Window():
            return _groups_of(relation.input)
        case algebra.Aggregate(measures=()):
            return _groups_of(relation.input)
        case algebra.Union():
            left, right = _groups_of(relation.left), _groups_of(relation.right)
            return left | right if left and right else frozenset()
        case _:
            return frozenset()


def _listed(query: algebra.Relation) -> Iterator[int]:
    """Yield the blocks with rows that a query releases, and not only aggregates."""
    if isinstance(query, algebra.Released):
        yield query.block
    if not (isinstance(query, algebra.Aggregate) and query.measures):
        for source in inputs(query):
            yield from _listed(source)
