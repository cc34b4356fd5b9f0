"""Which of the listed keys can occur at all, by the public rows that several are of, and by what
filters leave of public rows and of keys together: the others have no rows whatever is stored, and
are not shown.

Proof (PRIVACY.md R24, R29). It depends on the text, the policy and public data alone; and a list
that is used is enforced, so that leaving out a key that does occur would cost accuracy only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dpsql.compiler.infer.column_facts import Columns, Row
from dpsql.model.algebra import (
    Aggregate,
    Evaluated,
    Field,
    Filter,
    Join,
    Match,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    Staged,
    Window,
)
from dpsql.model.tree import Call, Expression, JoinKind, Kind, Ref
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, refs, relations, substitute, walk

_PLAIN = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.VARCHAR, Kind.DATE})
"""Types whose values are equal in Python where they are in the engine."""


def possible(
    keys: Sequence[Expression], domain: tuple[Row, ...], rows: Relation, columns: Columns
) -> tuple[Row, ...]:
    """The keys of a domain that the rows of a block can have."""
    for places, allowed in _of_public_rows(keys, rows, columns):
        domain = tuple(row for row in domain if tuple(row[n] for n in places) in allowed)
    return _together(keys, domain, columns)


def _of_public_rows(
    keys: Sequence[Expression], rows: Relation, columns: Columns
) -> Iterator[tuple[list[int], set[Row]]]:
    """Places of keys, and what public rows that are filtered leave for these."""
    policy = columns.origin.policy
    for scan in _present(rows):
        table = policy.table(scan.table)
        if table is None or table.private:
            continue
        meant = (_over(scan.fields, condition, columns) for condition in _always(columns))
        filters = [p for p in meant if p is not None and not _says_nothing(p)]
        outputs = [(n, _over(scan.fields, key, columns)) for n, key in enumerate(keys)]
        yield from _allowed(outputs, _filtered(scan, filters), columns, alone=bool(filters))
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
        if _is_public(match.other, policy):
            yield from _allowed(same, match.other, columns, alone=True)


def _allowed(
    outputs: Iterable[tuple[int, Expression | None]],
    public: Relation,
    columns: Columns,
    *,
    alone: bool,
) -> Iterator[tuple[list[int], set[Row]]]:
    """What public rows leave of several keys, or of one that may stand `alone`."""
    listed = [(n, e) for n, e in outputs if isinstance(e, Ref) and e.type.kind in _PLAIN]
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
    """Without the keys of which a condition on several of them is not true."""
    fields = {key.id: Field(key.id, "", key.type) for key in keys if isinstance(key, Ref)}
    if len(fields) < len(keys):
        return domain
    for condition in _always(columns):
        meant = _over(tuple(fields.values()), condition, columns)
        if domain and meant is not None and len(refs(meant)) > 1:
            verdicts = columns.origin.evaluate((meant,), tuple(fields.values()), domain)
            pairs = zip(domain, verdicts, strict=True)
            domain = tuple(row for row, holds in pairs if holds[0] is True)
    return domain


def _always(columns: Columns) -> Iterator[Expression]:
    return (each.predicate for each in columns.predicates if each.of is None)


def _over(fields: Sequence[Field], expression: Expression, columns: Columns) -> Expression | None:
    """An expression over these columns, by those that are equal to its own; None if it is none."""
    own = {f.id: f for f in fields}
    meant: dict[int, Expression] = {}
    for column in (node for node in walk(expression) if isinstance(node, Ref)):
        same = sorted(columns.equal(column.id) & own.keys())
        alike = [own[number].ref for number in same if own[number].type == column.type]
        if not alike:
            return None
        meant[column.id] = alike[0]
    return substitute(expression, meant) if meant else None


def _says_nothing(predicate: Expression) -> bool:
    """Whether it compares a column with itself."""
    match predicate:
        case Call(function="eq", args=(left, right)):
            return left == right
        case _:
            return False


def _filtered(relation: Relation, filters: Sequence[Expression]) -> Relation:
    condition = both(tuple(filters))
    return relation if condition is None else Filter(relation, condition)


def _present(relation: Relation) -> Iterator[Scan]:
    """The tables of which every row of the relation holds a row."""
    match relation:
        case Scan():
            yield relation
        case Project() | Filter() | Sort() | Match() | Window():
            yield from _present(relation.input)
        case Join(left=left, right=right, kind=kind):
            yield from _present(left)
            if kind in (JoinKind.INNER, JoinKind.CROSS):
                yield from _present(right)
        case _:
            return


def _matches(rows: Relation, columns: Columns) -> Iterator[Match]:
    """What every row is IN, by no other condition."""
    marks = {p.id for p in _always(columns) if isinstance(p, Ref)}
    for relation in relations(rows):
        match relation:
            case Match(mark=mark, condition=None, member=member) if member and mark.id in marks:
                yield relation
            case _:
                continue


def _is_public(relation: Relation, policy: Policy) -> bool:
    """Whether it is made of public tables alone, as they are."""
    parts = tuple(relations(relation))
    if any(isinstance(part, Released | Staged | Evaluated | Aggregate) for part in parts):
        return False
    tables = [policy.table(part.table) for part in parts if isinstance(part, Scan)]
    return all(table is not None and not table.private for table in tables)
