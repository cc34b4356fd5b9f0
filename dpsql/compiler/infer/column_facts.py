"""Facts about the columns of private rows, computed on demand.

Facts start at declared columns, follow expressions by the rules of `dpsql.functions`, and are
narrowed by every predicate that all surviving rows satisfy.

Inferred facts are enforced by clipping and key lists, never trusted: PRIVACY.md R24, R115. A wrong
limit on the rows of one unit costs accuracy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from datetime import date
from fractions import Fraction
from itertools import product
from math import prod
from typing import Protocol, TypeAlias, assert_never, cast

from dpsql import functions
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.intervals import EVERYTHING, Facts, Interval, hull, lattice
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.model.walk import (
    both,
    composed,
    conjuncts,
    implied,
    map_children,
    refs,
    relations,
    walk,
)

VALUES = frozenset(
    """min max any_value first last mode quantile_disc arg_max arg_min arg_max_null arg_min_null
    lag lead first_value last_value nth_value""".split()
)
"""Functions that return one of the values of their first argument."""

MEANS = frozenset({"avg", "median", "quantile_cont"})
_FINITE = (date(1000, 1, 1), date(9000, 1, 1))
"""Finite days, with room for additions in a query."""

RANKS = frozenset("row_number rank dense_rank ntile".split())


def facts_of_rows(
    function: str, kind: tree.SqlType, argument: Facts | None, rows: int | None, limit: int
) -> Facts:
    """Return the facts of an aggregate or window function, with a domain of at most `limit` values.

    >>> from dpsql.model.tree import INTEGER
    >>> facts_of_rows("count", INTEGER, None, 2, 10).domain
    (0, 1, 2)
    """
    if function in VALUES and argument is not None:
        return replace(argument, type=kind, nullable=True)
    facts = Facts(kind, _interval(function, kind, argument, rows), nullable=True)
    if function in ("percent_rank", "cume_dist"):
        return replace(facts, nullable=False)
    if function == "count" or function in RANKS:
        return replace(facts, nullable=False, domain=lattice(kind, facts.interval, limit))
    return facts


def _interval(
    function: str, kind: tree.SqlType, argument: Facts | None, rows: int | None
) -> Interval:
    if function in ("percent_rank", "cume_dist"):
        return Interval(Fraction(0), Fraction(1))
    if function == "count" or function in RANKS:
        least = Fraction(0 if function == "count" else 1)
        return Interval(least, None if rows is None else Fraction(max(1, rows)))
    if argument is None or not argument.type.is_numeric:
        return EVERYTHING
    if function in MEANS:
        return argument.interval.outward(kind, 4)
    if function == "sum":
        lo, hi = (
            cast("Fraction | None", argument.interval.lo),
            cast("Fraction | None", argument.interval.hi),
        )
        many = Interval(Fraction(0), None if rows is None else Fraction(rows))
        return (Interval(lo, hi) * many).outward(kind, 4)
    return EVERYTHING


SUBJECT = -1
"""Id of the column that stands for an expression."""

MOST_IN_CASE = 33
"""Largest number of CASE arguments for which each branch is evaluated again under its
conditions.
"""

STATEMENTS = frozenset("eq ne lt le gt ge in is_null".split())


@dataclass(frozen=True, slots=True)
class ImpliedPredicate:
    """A predicate that holds in every row; with `of`, only its statements about these
    columns do.
    """

    predicate: tree.Expression
    of: frozenset[int] | None = None


def predicates(rows: algebra.Relation) -> Iterable[ImpliedPredicate]:
    """Yield the predicates of the rows: filters, and join conditions for the side that they
    filter.
    """
    for relation in relations(rows):
        match relation:
            case algebra.Filter():
                yield from map(ImpliedPredicate, implied(relation.predicate))
            case algebra.Join():
                outer = relation.kind is tree.JoinKind.LEFT
                of = frozenset(f.id for f in relation.right.fields) if outer else None
                yield from (ImpliedPredicate(part, of) for part in implied(relation.condition))
            case _:
                continue


def about(predicate: tree.Expression, number: int) -> tree.Expression | None:
    """Return the part of a predicate about this column alone; each branch of an OR must
    have one.
    """
    if refs(predicate) == {number}:
        return predicate
    if not (isinstance(predicate, tree.Call) and predicate.function == "or"):
        return None
    branches = []
    for branch in predicate.args:
        mine = both(tuple(part for part in conjuncts(branch) if refs(part) == {number}))
        if mine is None:
            return None
        branches.append(mine)
    return tree.Call("or", tuple(branches), tree.BOOLEAN)


def equated(predicate: tree.Expression, number: int) -> int | None:
    """Return the column that the predicate equates with column `number`, if it does just that."""
    if not (isinstance(predicate, tree.Call) and predicate.function == "eq"):
        return None
    a, b = predicate.args
    if not (isinstance(a, tree.Ref) and isinstance(b, tree.Ref)) or a.id == b.id:
        return None
    return b.id if a.id == number else a.id if b.id == number else None


def statements(
    implied_predicates: Iterable[ImpliedPredicate],
) -> dict[tree.Expression, tuple[tree.Expression, ...]]:
    """Collect predicates on expressions that are compared with constants. The column `SUBJECT`
    replaces the expression in each predicate.
    """
    by_subject: dict[tree.Expression, list[tree.Expression]] = defaultdict(list)
    for each in implied_predicates:
        for subject in _subjects(each.predicate):
            if each.of is not None and not refs(subject) <= each.of:
                continue
            stand_in = tree.Ref(SUBJECT, subject.type)
            said = about(_replaced(each.predicate, subject, stand_in), SUBJECT)
            if said is not None:
                by_subject[subject].append(said)
    return {subject: tuple(said) for subject, said in by_subject.items()}


def _subjects(predicate: tree.Expression) -> set[tree.Call | tree.Cast]:
    """Return the expressions that the predicate, or a part of it, compares with constants."""
    return {
        arg
        for node in walk(predicate)
        if isinstance(node, tree.Call) and node.function in STATEMENTS
        for arg in node.args
        if isinstance(arg, tree.Call | tree.Cast)
        and refs(arg)
        and all(isinstance(other, tree.Literal) for other in node.args if other is not arg)
    }


def _replaced(
    expression: tree.Expression, old: tree.Expression, new: tree.Expression
) -> tree.Expression:
    if expression == old:
        return new
    return map_children(expression, lambda child: _replaced(child, old, new))


Row: TypeAlias = tuple[tree.Value, ...]
Evaluate: TypeAlias = Callable[
    [tuple[tree.Expression, ...], tuple[algebra.Field, ...], Sequence[Row]], list[Row]
]
"""A function that computes expressions over constant rows with the engine's own functions."""


class PublicData(Protocol):
    """Measurements of public tables, which are entirely public."""

    def facts(
        self,
        table: str,
        column: str,
        kind: tree.SqlType,
        limit: int,
        reading: tree.StoredAs | None = None,
    ) -> Facts:
        """Return range, nullability and, up to `limit` values, the domain of a public column."""

    def contents(self, table: str, columns: Sequence[str]) -> str:
        """Return a digest of columns of a public table."""

    def frequency(self, relation: algebra.Relation, columns: tuple[tree.Ref, ...]) -> int:
        """Return the most rows of a public relation, or of its evaluation, that agree on these
        columns.
        """

    def once(self, relation: algebra.Relation) -> algebra.Evaluated:
        """Evaluate a public relation once for this data."""

    def distinct(
        self, relation: algebra.Relation, outputs: tuple[tree.Expression, ...], limit: int
    ) -> list[Row]:
        """Return the distinct rows of these expressions over a public relation, at most `limit`."""


@dataclass(frozen=True, slots=True)
class FactSource:
    """The sources of facts: declarations, public data, and the engine's functions. A domain lists
    at most `limit` values. At most `most_rows` rows of a unit without a limit are aggregated. With
    `doubts`, columns may be NULL unless the engine forbids it. With `finite`, no stored moment is
    infinite. With `clips`, times without bounds are in their table's `times`: never for keys. With
    `limitless`, the owner's limits on rows, which clip, say nothing of values. A quotient of
    bounded numbers that has no bounds itself is within `quotients`.
    """

    policy: Policy
    public: PublicData
    evaluate: Evaluate
    limit: int
    most_rows: int | None = None
    doubts: bool = False
    finite: bool = False
    clips: bool = False
    limitless: bool = False
    quotients: Interval = EVERYTHING

    def within_quotients(self, call: tree.Expression, args: Iterable[Facts], facts: Facts) -> Facts:
        """Return the facts of an expression with these arguments, within `quotients` if need be."""
        divides = isinstance(call, tree.Call) and call.function in ("div", "pg_div", "fdiv")
        if not divides or not all(each.interval.is_bounded for each in args):
            return facts
        return replace(facts, interval=facts.interval.intersect(self.quotients))


def without_found_bounds(table: TablePolicy) -> TablePolicy:
    """Return the table without bounds that were found: values may lie beyond them."""
    columns = (replace(c, bounds=None) if c.private_bounds else c for c in table.columns)
    return replace(table, columns=tuple(columns))


@dataclass(frozen=True, slots=True)
class _Stored:
    scan: algebra.Scan | algebra.Values
    column: algebra.Field


@dataclass(frozen=True, slots=True)
class _Computed:
    """A computed column; `padded` if an outer join may replace it by NULL."""

    expression: tree.Expression
    padded: bool = False


@dataclass(frozen=True, slots=True)
class _OfRows:
    """An aggregate or window function over at most `rows` rows of one unit. Filters above a window
    do not narrow its input: it sees the rows of `relation`.
    """

    call: tree.AggregateCall | tree.WindowCall
    rows: int | None
    relation: algebra.Relation | None


@dataclass(frozen=True, slots=True)
class _OneOf:
    """A column of UNION ALL."""

    left: int
    right: int
    type: tree.SqlType


@dataclass(frozen=True, slots=True)
class _Unknown:
    type: tree.SqlType


_Source: TypeAlias = "_Stored | _Computed | _OfRows | _OneOf | _Unknown"


class Columns:
    """The facts of a relation's columns and of expressions over them."""

    def __init__(self, rows: algebra.Relation, origin: FactSource) -> None:
        self.rows, self.origin = rows, origin
        self.defined: dict[int, _Source] = dict(_definitions(rows))
        self.predicates = tuple(predicates(rows))
        self.statements = statements(self.predicates)
        self._facts_of: dict[int, Facts] = {}
        self._in_branch = False

    def facts(self, expression: tree.Expression) -> Facts:
        """Return interval, nullability and domain of an expression over the block's rows."""
        match expression:
            case tree.Literal():
                return functions.literal_facts(expression)
            case tree.Ref():
                return self.column(expression.id)
            case tree.Call() | tree.Cast():
                read = (expression.arg,) if isinstance(expression, tree.Cast) else expression.args
                args = tuple(map(self.facts, read))
                facts = functions.facts(expression, args, self.origin.limit)
                facts = self.origin.within_quotients(expression, args, facts)
                if isinstance(expression, tree.Call) and expression.function == "case":
                    facts = self._of_branches(expression, args, facts)
                facts = self._stated(expression, args, facts)
                if facts.domain is None and functions.is_pointwise(expression):
                    facts = self._pointwise(expression, args, facts)
                    return self._stated(expression, args, facts)
                return facts
            case _:
                raise AssertionError(expression)

    def _of_branches(self, case: tree.Call, args: tuple[Facts, ...], facts: Facts) -> Facts:
        """Return the facts of a numeric CASE; if unbounded, from the conditions of each branch. A
        branch is reached only if its condition is true and no earlier one is.
        """
        if not case.type.is_numeric or facts.interval.is_bounded:
            return facts
        if self._in_branch or len(args) > MOST_IN_CASE:
            return facts
        reached = list(args)
        before: list[tree.Expression] = []
        for place in (*range(1, len(args), 2), len(args) - 1):
            own = case.args[place - 1 : place] if place % 2 else ()
            if not args[place].interval.is_bounded and refs(case.args[place]):
                reached[place] = self._among((*before, *own)).facts(case.args[place])
            # Where a condition can be NULL, later branches are reached by NULL too.
            if own and not args[place - 1].nullable:
                before.append(tree.Call("not", own, tree.BOOLEAN))
        return functions.facts(case, tuple(reached), self.origin.limit)

    def _among(self, conditions: tuple[tree.Expression, ...]) -> Columns:
        """Return the same columns among the rows for which these conditions are true."""
        same = copy(self)
        more = (part for condition in conditions for part in implied(condition))
        same.predicates = (*self.predicates, *map(ImpliedPredicate, more))
        same.statements = statements(same.predicates)
        same._facts_of, same._in_branch = {}, True  # noqa: SLF001 - one of us
        return same

    def column(self, number: int) -> Facts:
        """Return the facts of a column, narrowed by the predicates that read it."""
        if number not in self._facts_of:
            self._facts_of[number] = self._defined(self.defined[number])
            self._facts_of[number] = self._narrowed(number, self._facts_of[number])
        return self._facts_of[number]

    def _defined(self, source: _Source) -> Facts:
        limit = self.origin.limit
        match source:
            case _Stored(scan, column):
                return self.stored(scan, column)
            case _Computed(expression, padded):
                facts = self.facts(expression)
                return replace(facts, nullable=True) if padded else facts
            case _OfRows(call, rows, relation):
                below = self if relation is None else type(self)(relation, self.origin)
                argument = None
                if call.args and not isinstance(call.args[0], tree.Star):
                    argument = below.facts(call.args[0])
                most = self.origin.most_rows if rows is None else rows
                most = None if self.origin.limitless else most
                return facts_of_rows(call.function, call.type, argument, most, limit)
            case _OneOf(left, right, kind):
                return functions.either(self.column(left), self.column(right), kind)
            case _Unknown(kind):
                return Facts(kind, domain=lattice(kind, EVERYTHING, limit))
            case _:
                assert_never(source)

    def stored(self, scan: algebra.Scan | algebra.Values, column: algebra.Field) -> Facts:
        """Return the facts of a column of a table, or of constants."""
        if isinstance(scan, algebra.Values):
            place = scan.fields.index(column)
            return functions.facts_of_values(column.type, (row[place].value for row in scan.rows))
        table = self.origin.policy.table(scan.table)
        assert table is not None
        if not table.private:
            reading = dict(scan.readings).get(column.name)
            limit = self.origin.limit
            return self.origin.public.facts(table.name, column.name, column.type, limit, reading)
        declared = table.column(column.name)
        assert declared is not None
        days = table.times if self.origin.clips else _FINITE if self.origin.finite else None
        facts = functions.declared_facts(declared, self.origin.limit, days)
        doubted = self.origin.doubts and not declared.not_null
        return replace(facts, nullable=True) if doubted else facts

    def equal(self, number: int) -> frozenset[int]:
        """Return the columns that are known to equal this one in every row."""
        equal, pending = set[int](), [number]
        while pending:
            if (column := pending.pop()) in equal:
                continue
            equal.add(column)
            match self.defined.get(column):
                case _Computed(expression=tree.Ref(id=below), padded=False):
                    pending.append(below)
            always = (
                implied_here.predicate
                for implied_here in self.predicates
                if implied_here.of is None
            )
            others = (equated(predicate, column) for predicate in always)
            pending += [other for other in others if other is not None]
        return frozenset(equal)

    def over_sources(self, expression: tree.Expression) -> tree.Expression:
        """Return the expression over source columns, unless it would be too long."""
        while True:
            below = composed(expression, dict(self._computed(refs(expression))))
            if below is None or below == expression:
                return expression
            expression = below

    def _computed(self, numbers: Iterable[int]) -> Iterator[tuple[int, tree.Expression]]:
        for number in numbers:
            match self.defined.get(number):
                case _Computed(expression=expression, padded=False):
                    yield number, expression
                case _:
                    continue

    def padded(self, number: int) -> tree.Ref | None:
        """Return the column of an outer join's optional side that a projection passes on as this
        one.
        """
        match self.defined.get(number):
            case _Computed(expression=tree.Ref() as below, padded=True):
                return below
            case _:
                return None

    def image(self, expression: tree.Expression) -> Facts | None:
        """Return the exact image of an expression over columns with finite domains."""
        numbers = sorted(refs(expression))
        columns = [self.column(number) for number in numbers]
        if isinstance(expression, tree.Ref) or not numbers:
            return None
        rows = self.combinations(columns)
        if rows is None:
            return None
        fields = tuple(algebra.Field(n, "", c.type) for n, c in zip(numbers, columns, strict=True))
        values = [row[0] for row in self.origin.evaluate((expression,), fields, rows)]
        return functions.facts_of_values(self.facts(expression).type, values)

    def _pointwise(
        self, expression: tree.Call | tree.Cast, args: tuple[Facts, ...], facts: Facts
    ) -> Facts:
        """Return `facts` with the image of one call over its arguments' domains, taken as
        independent.
        """
        if (rows := self.combinations(args)) is None:
            return facts
        fields = tuple(algebra.Field(-1 - n, "", a.type) for n, a in enumerate(args))
        places = tuple(f.ref for f in fields)
        call = (
            replace(expression, arg=places[0])
            if isinstance(expression, tree.Cast)
            else replace(expression, args=places)
        )
        values = [row[0] for row in self.origin.evaluate((call,), fields, rows)]
        image = functions.facts_of_values(expression.type, values)
        interval = facts.interval.intersect(image.interval) if image.domain else facts.interval
        return replace(facts, domain=image.domain, interval=interval)

    def combinations(self, columns: Sequence[Facts]) -> list[Row] | None:
        """Return all combinations of the columns' values; None where they are too many."""
        domains = []
        for facts in columns:
            if facts.domain is None:
                return None
            domains.append((*facts.domain, None) if facts.nullable else facts.domain)
        if prod(map(len, domains)) > self.origin.limit:
            return None
        return list(product(*domains))

    # --- predicates ---

    def _stated(
        self, expression: tree.Call | tree.Cast, args: tuple[Facts, ...], facts: Facts
    ) -> Facts:
        """Return the facts of an expression, narrowed by the predicates about it as a whole."""
        narrowed = facts
        for predicate in self.statements.get(expression, ()):
            narrowed = functions.narrow(narrowed, predicate)
        if narrowed.domain is None and narrowed.interval != facts.interval:
            return functions.listed(expression, args, narrowed, self.origin.limit)
        return narrowed

    def _narrowed(self, number: int, facts: Facts) -> Facts:
        """Return the facts of a column among the rows for which every predicate holds."""
        for implied_predicate in self.predicates:
            if implied_predicate.of is not None and number not in implied_predicate.of:
                continue
            predicate = about(implied_predicate.predicate, number)
            if predicate is not None:
                facts = functions.narrow(facts, predicate)
                facts = self._filtered(number, facts, predicate)
            elif (other := equated(implied_predicate.predicate, number)) is not None:
                self._facts_of[number] = facts  # avoid endless mutual references
                facts = functions.intersect(facts, self.column(other))
        return facts

    def _filtered(self, number: int, facts: Facts, predicate: tree.Expression) -> Facts:
        """Remove from a domain or interval the values for which the predicate is not true."""
        if facts.domain is None:
            facts = functions.shaved(facts, number, predicate)
            facts = replace(facts, domain=lattice(facts.type, facts.interval, self.origin.limit))
        if facts.domain is None or len(facts.domain) > self.origin.limit:
            return facts
        rows: list[Row] = [(value,) for value in facts.domain]
        if facts.nullable:
            rows.append((None,))
        verdicts = self.origin.evaluate(
            (predicate,), (algebra.Field(number, "", facts.type),), rows
        )
        values = [row[0] for row, holds in zip(rows, verdicts, strict=True) if holds[0] is True]
        domain = tuple(value for value in values if value is not None)
        interval = facts.interval.intersect(hull(domain)) if domain else facts.interval
        return replace(facts, domain=domain, interval=interval, nullable=None in values)


def _definitions(rows: algebra.Relation) -> Iterable[tuple[int, _Source]]:
    """Yield the definition of each column of the rows."""
    for relation in relations(rows):
        match relation:
            case algebra.Scan() | algebra.Values():
                yield from ((f.id, _Stored(relation, f)) for f in relation.fields)
            case algebra.Staged(source=None):
                yield from ((f.id, _Unknown(f.type)) for f in relation.fields)
            case algebra.Match():
                yield relation.mark.id, _Unknown(relation.mark.type)
            case algebra.Apply():
                yield relation.value.id, _Unknown(relation.value.type)
            case algebra.Recursion() | algebra.Again():
                yield from ((f.id, _Unknown(f.type)) for f in relation.fields)
            case algebra.Project():
                source = relation.input
                absent = frozenset[int]()
                if isinstance(source, algebra.Join) and source.kind is tree.JoinKind.LEFT:
                    absent = frozenset(f.id for f in source.right.fields)
                for number, computed in _computed(relation.items):
                    yield number, replace(computed, padded=bool(refs(computed.expression) & absent))
            case algebra.Aggregate():
                yield from _computed(relation.keys)
                for measure in relation.measures:
                    yield measure.field.id, _OfRows(measure.call, relation.rows, None)
            case algebra.Window():
                for item in relation.items:
                    call = item.call
                    if item.counts_its_row:
                        call = replace(call, function="row_number", args=())
                    yield item.field.id, _OfRows(call, relation.rows, relation.input)
            case algebra.Union():
                for new, left, right in zip(
                    relation.fields, relation.left.fields, relation.right.fields, strict=True
                ):
                    yield new.id, _OneOf(left.id, right.id, new.type)
            case _:
                continue


def _computed(items: tuple[algebra.Item, ...]) -> Iterable[tuple[int, _Computed]]:
    for item in items:
        if item.expression != item.field.ref:
            yield item.field.id, _Computed(item.expression)
