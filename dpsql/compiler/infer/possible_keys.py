"""Possible group keys: impossible combinations of public values are not listed.

The public tables of a query are joined and filtered as in the query. A combination of keys that
this excludes has no private rows in any data.

Proof (PRIVACY.md R24, R29). It depends on the text, the policy and public data alone. A list that
is used is enforced, so leaving out a key that does occur would cost accuracy only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, product
from math import prod

from dpsql.compiler.infer.column_facts import Columns, ImpliedPredicate, Row, predicates
from dpsql.compiler.resolve.typing import type_of
from dpsql.model import algebra
from dpsql.model.algebra import Filter, Match
from dpsql.model.tree import BOOLEAN, Call, Expression, JoinKind, Kind, Literal, Ref, Value
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, refs, relations, substitute, walk

_PLAIN = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.VARCHAR, Kind.DATE})
"""Types with the same equality of values in Python and in the engine."""

_THERE = algebra.Field(1 << 60, "there", BOOLEAN)
_MAYBE = algebra.Values((_THERE,), ((Literal(True, BOOLEAN),), (Literal(False, BOOLEAN),)))
_IS_THERE = _THERE.ref
"""One row where an optional side is present and one where it is absent. The id of the column is
larger than that of any column of a query.
"""


def possible(
    keys: Sequence[Expression], domain: tuple[Row, ...], rows: algebra.Relation, columns: Columns
) -> tuple[Row, ...]:
    """Return the keys of a domain that the rows of a block can have."""
    public = chain(_of_public_rows(keys, rows, columns), _of_members(keys, rows, columns))
    for places, allowed in public:
        domain = tuple(row for row in domain if tuple(row[n] for n in places) in allowed)
    return _together(keys, domain, columns)


def listed(
    keys: Sequence[Expression],
    domains: Sequence[tuple[Value, ...] | None],
    rows: algebra.Relation,
    columns: Columns,
) -> tuple[Row, ...] | None:
    """Return the combinations of keys, from joined public tables and from domains; None if they are
    too many or a domain is unknown.

    `domains` has None for a key with values that are unknown or too many.
    """
    parts = list[tuple[list[int], list[Row]]]()
    left = set(range(len(keys)))
    public = _of_public_rows(keys, rows, columns)
    for places, allowed in sorted(public, key=lambda part: -len(part[0])):
        if left.issuperset(places):
            parts.append(
                (places, sorted(allowed, key=lambda row: [(value is None, value) for value in row]))
            )
            left.difference_update(places)
    for n in sorted(left):
        values = domains[n]
        if values is None:
            return None
        parts.append(([n], [(value,) for value in values]))
    if prod(len(several) for _, several in parts) > columns.origin.limit:
        return None
    order = list(chain.from_iterable(places for places, _ in parts))
    back = [order.index(n) for n in range(len(keys))]
    joined = (tuple(chain.from_iterable(row)) for row in product(*(rows for _, rows in parts)))
    return tuple(tuple(row[n] for n in back) for row in joined)


def _of_public_rows(
    keys: Sequence[Expression], rows: algebra.Relation, columns: Columns
) -> Iterator[tuple[list[int], set[Row]]]:
    """Yield positions of keys, with the combinations that the joined, filtered public rows have."""
    policy = columns.origin.policy
    optional = [join for join in _optional(rows) if _is_public(join.right, policy)]
    scans = [scan for scan in _present(rows) if _is_public(scan, policy)]
    if not (optional or scans):
        return
    # Conditions within an optional side do not hold for absent rows.
    inside = set(chain.from_iterable(predicates(join.right) for join in optional))
    conditions = [each.predicate for each in _always(columns) if each not in inside]
    parts = _with_optional(_joined(scans, conditions, columns), optional, columns)
    for joined in _joined(parts, conditions, columns):
        public = reduce(_crossed, joined)
        filters = list(_equalities(joined, columns))
        meant = (_over(public.fields, condition, columns) for condition in conditions)
        every = [*filters, *(p for p in meant if p is not None and not _says_nothing(p))]
        outputs = [(n, _over(public.fields, key, columns)) for n, key in enumerate(keys)]
        alone = bool(every) or isinstance(public, algebra.Join)
        condition = both(tuple(every))
        rows = public if condition is None else Filter(public, condition)
        yield from _allowed(outputs, rows, columns, alone=alone)


def _of_members(
    keys: Sequence[Expression], rows: algebra.Relation, columns: Columns
) -> Iterator[tuple[list[int], set[Row]]]:
    """Yield positions of keys that IN compares with public rows, with the values of those rows."""
    for match in _matches(rows, columns):
        assert match.member is not None
        value, option = match.member
        same = [
            (n, option)
            for n, key in enumerate(keys)
            if isinstance(key, Ref)
            and isinstance(value, Ref)
            and key.type == value.type
            and value.id in columns.equal(key.id)
        ]
        if _is_public(match.other, columns.origin.policy):
            yield from _allowed(same, match.other, columns, alone=True)


def _with_optional(
    parts: Iterable[Sequence[algebra.Relation]], optional: Sequence[algebra.Join], columns: Columns
) -> list[algebra.Relation]:
    """Return public rows, joined to the optional sides of outer joins.

    An outer join is to the public rows that its condition reads. Where it reads others, its side is
    any of its rows, or absent.
    """
    joined = [reduce(_crossed, part) for part in parts]
    for join in optional:
        assert join.condition is not None
        for n, left in enumerate(joined):
            over = _over((*left.fields, *join.right.fields), join.condition, columns)
            if over is not None and refs(over) & {f.id for f in left.fields}:
                joined[n] = algebra.Join(left, join.right, JoinKind.LEFT, over)
                break
        else:
            joined.append(algebra.Join(_MAYBE, join.right, JoinKind.LEFT, _IS_THERE))
    return joined


def _joined(
    parts: Sequence[algebra.Relation], conditions: Sequence[Expression], columns: Columns
) -> list[list[algebra.Relation]]:
    """Return sets of public tables; a condition equates columns of the tables in one set."""
    fields = _fields(parts)
    meant = (_over(fields, condition, columns) for condition in conditions)
    equations = [p for p in meant if isinstance(p, Call) and p.function == "eq"]
    sets = [[part] for part in parts]
    for link in map(refs, (*_equalities(parts, columns), *equations)):
        near = [one for one in sets if link & {f.id for f in _fields(one)}]
        sets = [one for one in sets if one not in near]
        sets.append(list(chain.from_iterable(near)))
    return sets


def _fields(parts: Iterable[algebra.Relation]) -> tuple[algebra.Field, ...]:
    return tuple(chain.from_iterable(part.fields for part in parts))


def _equalities(parts: Sequence[algebra.Relation], columns: Columns) -> Iterator[Expression]:
    """Yield equalities of public columns, also those that follow through private columns."""
    own = {f.id: f for f in _fields(parts)}
    never_absent = {f.id for part in parts for f in _fields(_present(part))}
    read = frozenset[int]().union(*(refs(each.predicate) for each in _always(columns)))
    equal = (_equal(number, columns).intersection(own) for number in sorted(read))
    sets = dict.fromkeys(equal)
    for first, *others in (sorted(each) for each in sets if each):
        for other in others:
            if own[first].type == own[other].type:
                function = "eq" if {first, other} <= never_absent else "is_not_distinct"
                yield Call(function, (own[first].ref, own[other].ref), BOOLEAN)


def _crossed(left: algebra.Relation, right: algebra.Relation) -> algebra.Relation:
    return algebra.Join(left, right, JoinKind.CROSS, None)


def _allowed(
    outputs: Iterable[tuple[int, Expression | None]],
    public: algebra.Relation,
    columns: Columns,
    *,
    alone: bool,
) -> Iterator[tuple[list[int], set[Row]]]:
    """Yield the values of several keys that public rows allow, or of one if `alone`."""
    listed = [(n, e) for n, e in outputs if e is not None and type_of(e).kind in _PLAIN]
    if len(listed) < (1 if alone else 2):
        return
    limit = columns.origin.limit
    expressions = tuple(expression for _, expression in listed)
    allowed = columns.origin.public.distinct(public, expressions, limit + 1)
    if len(allowed) <= limit:
        yield [n for n, _ in listed], set(allowed)


def _together(
    keys: Sequence[Expression], domain: tuple[Row, ...], columns: Columns
) -> tuple[Row, ...]:
    """Remove the keys for which a condition on several of them is not true."""
    fields = {key.id: algebra.Field(key.id, "", key.type) for key in keys if isinstance(key, Ref)}
    if len(fields) < len(keys):
        return domain
    for each in _always(columns):
        meant = _over(tuple(fields.values()), each.predicate, columns)
        if domain and meant is not None and len(refs(meant)) > 1:
            verdicts = columns.origin.evaluate((meant,), tuple(fields.values()), domain)
            pairs = zip(domain, verdicts, strict=True)
            domain = tuple(row for row, holds in pairs if holds[0] is True)
    return domain


def _always(columns: Columns) -> Iterator[ImpliedPredicate]:
    return (each for each in columns.predicates if each.of is None)


def _over(
    fields: Sequence[algebra.Field], expression: Expression, columns: Columns
) -> Expression | None:
    """Rewrite an expression over these columns, through equal columns; None if that is
    impossible.
    """
    own = {f.id: f for f in fields}
    meant: dict[int, Expression] = {}
    for column in (node for node in walk(expression) if isinstance(node, Ref)):
        same = sorted(_equal(column.id, columns) & own.keys())
        alike = [own[number].ref for number in same if own[number].type == column.type]
        if not alike:
            return None
        meant[column.id] = alike[0]
    return substitute(expression, meant) if meant else None


def _equal(number: int, columns: Columns) -> frozenset[int]:
    """Return the columns equal to this one, or NULL where an outer join found no row."""
    same, pending = frozenset[int](), [number]
    while pending:
        equal = columns.equal(pending.pop())
        passed = (columns.padded(each) for each in equal - same)
        same |= equal
        pending += [ref.id for ref in passed if ref is not None and ref.id not in same]
    return same


def _says_nothing(predicate: Expression) -> bool:
    """Test whether a predicate compares an expression with itself."""
    match predicate:
        case Call(function="eq", args=(left, right)):
            return left == right
        case _:
            return False


def _present(relation: algebra.Relation) -> Iterator[algebra.Scan | algebra.Values]:
    """Yield the tables that have a row in every row of the relation."""
    match relation:
        case algebra.Scan() | algebra.Values():
            yield relation
        case algebra.Project() | Filter() | algebra.Sort() | Match() | algebra.Window():
            yield from _present(relation.input)
        case algebra.Join(left=left, right=right, kind=JoinKind.INNER | JoinKind.CROSS):
            yield from _present(left)
            yield from _present(right)
        case algebra.Join(left=left, kind=JoinKind.LEFT):
            yield from _present(left)
        case _:
            return


def _optional(relation: algebra.Relation) -> Iterator[algebra.Join]:
    """Yield the LEFT JOINs with a right side that may be absent, the innermost first."""
    match relation:
        case algebra.Project() | Filter() | algebra.Sort() | Match() | algebra.Window():
            yield from _optional(relation.input)
        case algebra.Join(left=left, right=right, kind=JoinKind.INNER | JoinKind.CROSS):
            yield from _optional(left)
            yield from _optional(right)
        case algebra.Join(left=left, kind=JoinKind.LEFT):
            yield from _optional(left)
            yield relation
        case _:
            return


def _matches(rows: algebra.Relation, columns: Columns) -> Iterator[Match]:
    """Yield the memberships (IN) that hold for every row, without other conditions."""
    marks = {p.predicate.id for p in _always(columns) if isinstance(p.predicate, Ref)}
    for relation in relations(rows):
        match relation:
            case Match(mark=mark, condition=None, member=member) if member and mark.id in marks:
                yield relation
            case _:
                continue


def _is_public(relation: algebra.Relation, policy: Policy) -> bool:
    """Test whether a relation reads public tables alone, without releases or aggregates."""
    parts = tuple(relations(relation))
    if any(
        isinstance(part, algebra.Released | algebra.Staged | algebra.Evaluated | algebra.Aggregate)
        for part in parts
    ):
        return False
    tables = [policy.table(part.table) for part in parts if isinstance(part, algebra.Scan)]
    return all(table is not None and not table.private for table in tables)
