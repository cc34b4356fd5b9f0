"""Conditions that no row fulfils, by facts about tables and by the text itself.

NULL in a column that the engine keeps free of it, two rows of one unique key, a link without its
row, `1 = 0`: an aggregate under such a condition has no rows, so that nothing is to be measured.

The facts are those of the kernel, and the lists of the policy. A claim that a statement only
enforces says nothing here, and neither do declared bounds.

Proof (PRIVACY.md R38). It depends on the text, the policy, its facts and public data alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias

from dpsql import functions
from dpsql.compiler.infer.column_facts import FactSource, about
from dpsql.compiler.kernel.kernel import Kernel
from dpsql.compiler.kernel.known import INEXACT, Closure
from dpsql.model import algebra, tree
from dpsql.model.algebra import Relation
from dpsql.model.comparisons import MIRRORED, against_constant
from dpsql.model.intervals import Facts
from dpsql.model.row_notices import ByDeclaration, ByFact, CertainFact, NoRows
from dpsql.model.tree import Call, Kind, Literal, Ref
from dpsql.model.vocabulary import FactKind, TablePolicy
from dpsql.model.walk import conjuncts, refs

_Defined: TypeAlias = "tuple[Relation, int]"
"""The relation that makes a column, and the column's id there."""
_PLACED = frozenset({Kind.INTEGER, Kind.BOOLEAN, Kind.DATE})
"""Types with one value for each text: two different constants are never equal."""
_RANKS = frozenset("row_number rank dense_rank ntile percent_rank cume_dist".split())
_ROW: Sequence[tuple[tree.Value, ...]] = ((0,),)
_NO_COLUMN = (algebra.Field(-1, "", tree.INTEGER),)


class CertainRows:
    """Judge of conditions: it reads facts, and the definitions of columns."""

    def __init__(self, origin: FactSource) -> None:
        self.origin, self.policy = origin, origin.policy
        self.kernel = Kernel(origin.policy, frequency=origin.public.frequency)

    def why_empty(self, relation: Relation) -> NoRows | None:
        """Return why the relation has no rows; None where it may have some."""
        match relation:
            case algebra.Filter(input=below, predicate=predicate):
                return self.why_empty(below) or self._why_false(predicate, below)
            case algebra.Project() | algebra.Sort() | algebra.Match() | algebra.Window():
                return self.why_empty(relation.input)
            case algebra.Aggregate(keys=keys, sets=()) if keys:
                return self.why_empty(relation.input)
            case algebra.Join(left=left, right=right, kind=kind):
                empty = self.why_empty(left)
                if empty is None and kind in (tree.JoinKind.INNER, tree.JoinKind.CROSS):
                    empty = self.why_empty(right)
                return empty
            case algebra.Union(kind="UNION", left=left, right=right):
                empty = self.why_empty(left)
                return None if empty is None else self.why_empty(right)
            case _:
                return None

    def why_nothing(self, call: tree.AggregateCall, rows: Relation) -> NoRows | None:
        """Return why a sum adds nothing but 0, or a count has nothing but NULL."""
        nothing = {"sum": (0, None), "count": (None,)}.get(call.function, ())
        match call.args:
            case (Call("case", branches),) if nothing:
                reason = None
                for place in range(0, len(branches), 2):
                    *condition, value = branches[place : place + 2]
                    if isinstance(value, Literal) and value.value in nothing:
                        continue
                    reason = self._why_false(condition[0], rows) if condition else None
                    if reason is None:
                        return None
                return reason
            case _:
                return None

    # --- conditions ---

    def _why_false(self, predicate: tree.Expression, below: Relation) -> NoRows | None:
        """Return why a condition is true for no row of a relation."""
        parts = tuple(conjuncts(predicate))
        for part in parts:
            if (reason := self._why_never(part, below)) is not None:
                return reason
        return _contradiction(parts, below)

    def _why_never(self, part: tree.Expression, below: Relation) -> NoRows | None:
        """Return why one part of a condition is true for no row."""
        if not refs(part):
            ((holds,),) = self.origin.evaluate((part,), _NO_COLUMN, list(_ROW))
            return None if holds is True else ByFact(CertainFact.FALSE, "")
        match part:
            case Call("is_null", (Ref(id=column),)):
                return self.why_present(below, column)
            case Call("not", (Ref(id=mark),)):
                return self._why_marked(below, mark)
            case Call(function=name, args=args) if name in MIRRORED and any(
                isinstance(expression, Literal) and expression.value is None for expression in args
            ):
                return ByFact(CertainFact.FALSE, "")
            case Call("or", branches):
                reasons = [self._why_false(branch, below) for branch in branches]
                return None if None in reasons else reasons[0]
            case _:
                return self._why_no_count(part, below)

    def _why_no_count(self, part: tree.Expression, below: Relation) -> NoRows | None:
        """Return why a number of rows of a group is never what a condition says."""
        match against_constant(part):
            case (name, Ref(id=column), Literal(value=int() as number)):
                defined = _definition(below, column)
            case _:
                return None
        match defined:
            case (algebra.Aggregate() as groups, counted):
                pass
            case _:
                return None
        measure = next((m for m in groups.measures if m.field.id == counted), None)
        if measure is None or measure.call.function != "count" or groups.sets:
            return None
        call, rows = measure.call, self.kernel.rows_of(groups.input).projected(groups.keys)
        most = Closure(rows).most(rows.most, self._exact(groups)) if rows.local else None
        whole = bool(groups.keys) and isinstance(call.args[0], tree.Star) and call.filter is None
        if most is None or not _is_beyond(name, number, int(whole), most):
            return None
        stored = filter(None, (_stored(groups, key) for key in self._exact(groups)))
        named = next((f"{scan.table}.{field.name}" for scan, field in stored), "")
        return ByFact(CertainFact.AT_MOST, named, most)

    @staticmethod
    def _exact(groups: algebra.Aggregate) -> tuple[int, ...]:
        return tuple(k.field.id for k in groups.keys if k.field.type.kind not in INEXACT)

    # --- columns without NULL ---

    def why_present(self, relation: Relation, column: int) -> NoRows | None:
        """Return why a column has no NULL in a relation."""
        match relation:
            case algebra.Scan():
                return self._why_stored(relation, column)
            case algebra.Filter(input=below, predicate=predicate):
                if any(_requires(part, column) for part in conjuncts(predicate)):
                    return ByFact(CertainFact.FALSE, "")
                return self.why_present(below, column)
            case algebra.Project() | algebra.Aggregate(sets=()):
                return self._why_computed(relation, column)
            case algebra.Sort() | algebra.Window() | algebra.Match():
                ranks = relation.items if isinstance(relation, algebra.Window) else ()
                if any(i.field.id == column and i.call.function in _RANKS for i in ranks):
                    return ByFact(CertainFact.FALSE, "")
                return self.why_present(relation.input, column)
            case algebra.Join():
                return self._why_joined(relation, column)
            case _:
                return None

    def _why_computed(
        self, relation: algebra.Project | algebra.Aggregate, column: int
    ) -> NoRows | None:
        keys = relation.items if isinstance(relation, algebra.Project) else relation.keys
        for item in keys:
            if item.field.id == column:
                match item.expression:
                    case Ref(id=source):
                        return self.why_present(relation.input, source)
                    case Literal(value=value) if value is not None:
                        return ByFact(CertainFact.FALSE, "")
                    case _:
                        return None
        counts = relation.measures if isinstance(relation, algebra.Aggregate) else ()
        if any(m.field.id == column and m.call.function == "count" for m in counts):
            return ByFact(CertainFact.FALSE, "")
        return None

    def _why_joined(self, join: algebra.Join, column: int) -> NoRows | None:
        """Return why a column of a join has no NULL: not that of an optional row, unless it is
        surely there.
        """
        inner = join.kind in (tree.JoinKind.INNER, tree.JoinKind.CROSS)
        if any(f.id == column for f in join.left.fields):
            if not inner and join.kind is not tree.JoinKind.LEFT:
                return None
            return self.why_present(join.left, column)
        if inner and any(_requires(part, column) for part in conjuncts(join.condition)):
            return ByFact(CertainFact.FALSE, "")
        if inner:
            return self.why_present(join.right, column)
        if join.kind is not tree.JoinKind.LEFT:
            return None
        linked = self._why_met(join.left, join.right, join.condition)
        equated = any(_requires(part, column) for part in conjuncts(join.condition))
        return linked if equated or self.why_present(join.right, column) else None

    def _why_stored(self, scan: algebra.Scan, column: int) -> NoRows | None:
        """Return the fact that a column of a table has no NULL as it is read."""
        table, field = self._table(scan), next((f for f in scan.fields if f.id == column), None)
        if table is None or field is None:
            return None
        reading, said = dict(scan.readings).get(field.name), f"{table.name}.{field.name}"
        if not table.private:
            facts = self.origin.public.facts(table.name, field.name, field.type, 1, reading)
            return None if facts.nullable else ByFact(CertainFact.NEVER_NULL, said)
        declared = table.column(field.name)
        if table.view or reading is not None or declared is None or declared.reading is not None:
            return None
        link = () if table.link is None else table.link.columns
        of_key = _is_among(field, table.key) and self._has(FactKind.NOT_NULL_KEY, table)
        of_link = _is_among(field, link) and self._has(FactKind.NOT_NULL_LINK, table)
        certain = declared.not_null or of_key or of_link
        return ByFact(CertainFact.NEVER_NULL, said) if certain else None

    # --- rows that are surely met ---

    def _why_marked(self, relation: Relation, mark: int) -> NoRows | None:
        """Return why EXISTS is true for every row."""
        match _definition(relation, mark):
            case (algebra.Match(member=None) as match, _):
                return self._why_met(match.input, match.other, match.condition)
            case _:
                return None

    def _why_met(
        self, left: Relation, right: Relation, condition: tree.Expression | None
    ) -> NoRows | None:
        """Return why every row of one side meets a row of a whole table on the other."""
        pairs = list(_pairs(left, right, condition))
        if not pairs or len(pairs) != len(tuple(conjuncts(condition))):
            return None
        there = [_whole_table(right, b) for _, b in pairs]
        here = [_stored(left, a) for a, _ in pairs]
        if None in there or None in here or not all(self.why_present(left, a) for a, _ in pairs):
            return None
        (target, _), (source, _) = (next(filter(None, each)) for each in (there, here))
        names = {(a[1].name, b[1].name) for a, b in zip(here, there, strict=True) if a and b}
        if any(each and each[0] is not target for each in there):
            return None
        if any(each and each[0] is not source for each in here):
            return None
        return self._why_linked(source, target, names)

    def _why_linked(
        self, source: algebra.Scan, target: algebra.Scan, names: set[tuple[str, str]]
    ) -> NoRows | None:
        """Return the fact that each value of a column has its row in a table."""
        table, other = self._table(source), self._table(target)
        if table is None or other is None or other.view or table.view or other.grants:
            return None
        read = {name for scan in (source, target) for name, _ in scan.readings}
        if read & {name for pair in names for name in pair}:
            return None
        link = table.link
        if link is not None and link.table == other.name and table.private:
            linked = set(zip(link.columns, link.keys, strict=True)) == names
            if linked and self._has(FactKind.LINK_RESOLVES, table):
                return ByFact(CertainFact.LINKED, f"{table.name}.{link.column}")
        return self._why_listed(table, other, target, names)

    def _why_listed(
        self,
        table: TablePolicy,
        other: TablePolicy,
        target: algebra.Scan,
        names: set[tuple[str, str]],
    ) -> NoRows | None:
        """Return that a public table has all values that the policy lists for a column."""
        ((here, there), *more) = names
        declared = table.column(here)
        if more or other.private or declared is None or not declared.values:
            return None
        field = next(f for f in target.fields if f.name == there)
        limit = self.origin.limit
        domain = self.origin.public.facts(other.name, there, field.type, limit).domain
        if domain is None or not set(declared.values) <= set(domain):
            return None
        return ByDeclaration(table.name, declared.name, declared.values)

    def _table(self, scan: algebra.Scan) -> TablePolicy | None:
        return None if scan.rows is not None else self.policy.table(scan.table)

    def _has(self, kind: FactKind, table: TablePolicy) -> bool:
        return self.policy.fact(kind, table.name) is not None


# --- definitions of columns ---


def _definition(relation: Relation, column: int) -> _Defined | None:
    """Return the relation that makes a column; None where an outer join may pad it."""
    match relation:
        case algebra.Project(items=items) | algebra.Aggregate(keys=items, sets=()):
            for item in items:
                if item.field.id == column and isinstance(item.expression, Ref):
                    return _definition(relation.input, item.expression.id)
            return relation, column
        case algebra.Filter() | algebra.Sort():
            return _definition(relation.input, column)
        case algebra.Window() | algebra.Match():
            within = any(f.id == column for f in relation.input.fields)
            return _definition(relation.input, column) if within else (relation, column)
        case algebra.Join(left=left, right=right, kind=kind):
            if kind not in (tree.JoinKind.INNER, tree.JoinKind.CROSS, tree.JoinKind.LEFT):
                return None
            if any(f.id == column for f in left.fields):
                return _definition(left, column)
            return None if kind is tree.JoinKind.LEFT else _definition(right, column)
        case _:
            return relation, column


def _stored(relation: Relation, column: int) -> tuple[algebra.Scan, algebra.Field] | None:
    """Return the table and the stored column that a column passes on."""
    match _definition(relation, column):
        case (algebra.Scan() as scan, number):
            return next(((scan, f) for f in scan.fields if f.id == number), None)
        case _:
            return None


def _whole_table(relation: Relation, column: int) -> tuple[algebra.Scan, algebra.Field] | None:
    """Return the same, if the relation has every row of the table."""
    below = relation
    while isinstance(below, algebra.Project | algebra.Sort):
        below = below.input
    return _stored(relation, column) if isinstance(below, algebra.Scan) else None


def _pairs(
    left: Relation, right: Relation, condition: tree.Expression | None
) -> Iterator[tuple[int, int]]:
    """Yield the columns of both sides that a condition equates."""
    here, there = ({f.id: f.type for f in side.fields} for side in (left, right))
    for part in conjuncts(condition):
        match part:
            case Call("eq", (Ref(id=a), Ref(id=b))):
                for one, other in ((a, b), (b, a)):
                    if one in here and other in there and here[one] == there[other]:
                        yield one, other


def _is_among(field: algebra.Field, names: Iterable[str]) -> bool:
    return field.name.lower() in map(str.lower, names)


# --- parts of conditions ---


def _requires(part: tree.Expression, column: int) -> bool:
    """Test whether a part of a condition is true only where a column is not NULL."""
    match part:
        case Call("not", (Call("is_null", (Ref(id=number),)),)):
            return number == column
        case Call(function=name, args=args) if name in MIRRORED:
            return any(isinstance(arg, Ref) and arg.id == column for arg in args)
        case Call("in", (Ref(id=number), *_)):
            return number == column
        case _:
            return False


def _is_beyond(name: str, number: int, least: int, most: int) -> bool:
    """Test whether no number from `least` to `most` compares so with a constant.

    >>> _is_beyond("gt", 1, 1, 1), _is_beyond("ge", 1, 0, 1)
    (True, False)
    """
    return {
        "gt": most <= number,
        "ge": most < number,
        "lt": least >= number,
        "le": least > number,
        "eq": not least <= number <= most,
        "ne": least == most == number,
    }.get(name, False)


def _contradiction(parts: Sequence[tree.Expression], below: Relation) -> NoRows | None:
    """Return that two parts of a condition exclude each other: ranges of a column without a common
    value.
    """
    types = {f.id: f.type for f in below.fields}
    for column in set(chain.from_iterable(map(refs, parts))) & types.keys():
        kind = types[column]
        said = [each for part in parts if (each := about(part, column)) is not None]
        facts = [functions.narrow(Facts(kind), each) for each in said]
        lows = [f.interval.lo for f in facts if f.interval.lo is not None]
        highs = [f.interval.hi for f in facts if f.interval.hi is not None]
        apart = bool(lows and highs) and max(lows) > min(highs)  # type: ignore[operator]
        listed = [set(f.domain) for f in facts if f.domain is not None and kind.kind in _PLACED]
        none = len(listed) > 1 and not set.intersection(*listed)
        absent = any(part == Call("is_null", (Ref(column, kind),), tree.BOOLEAN) for part in parts)
        there = any(_requires(part, column) for part in parts)
        if (absent and there) or ((apart or none) and not all(f.nullable for f in facts)):
            return ByFact(CertainFact.FALSE, "")
    return None
