"""Aggregates over columns of randomised reports: reports are counted, and the counts debiased.

    SELECT status, COUNT(*) FROM people WHERE age > 30 GROUP BY status

counts the people over 30 by their *reports*, which is an ordinary query: it is charged, noised,
cached or public as usual. The query around it estimates the true counts as a weighted sum, with
weights that follow from the distribution of reports, and computes the variance of that estimate:

    SELECT w.status, SUM(n * w.weight), SUM(n * w.variance)
    FROM (SELECT status AS cell, COUNT(*) AS n … GROUP BY status) JOIN weights AS w USING (cell)
    GROUP BY w.status

Proof (PRIVACY.md R81). The outer query reads nothing else than released numbers and constants:
post-processing. A report r has the weight w(r) = Σ a(v)·W(v, r) in the estimate of Σ a(truth): W is
the inverse of the distribution, so that w(r) is a(truth) on average. For several columns it is the
product of theirs (Kronecker). Reports are drawn one by one, so that their variances add up: E w² -
a² of each, estimated without bias by Σ n(r)·(w(r)² - Σ a(v)²·W(v, r)). For texts of bits, rows are
counted that have a bit, or one of each of several texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import add
from typing import NoReturn, TypeAlias

import numpy as np

from dpsql.compiler.resolve.report_weights import Parts, numbers_of
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import algebra, tree, walk
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.local_reports import LocalColumn
from dpsql.model.row_notices import Reported
from dpsql.model.vocabulary import Policy

ESTIMATE = "local_estimate"
"""Function local_estimate(value, variance): an estimate with the variance from reports; see
`propagate`.
"""

MOST_CELLS = 100_000
"""Largest number of weights in one query: groups by combinations of reports."""

MOST_COUNTS = 1_000
"""Largest number of counts in one query: of rows that have a bit, or one of each of several
texts.
"""

Row: TypeAlias = tuple[tree.Value, ...]
Evaluate: TypeAlias = Callable[
    [tuple[tree.Expression, ...], tuple[algebra.Field, ...], Sequence[Row]], list[Row]
]


@dataclass(frozen=True, slots=True)
class Debiased:
    """A query with debiased reports; `cells` are the keys by which they are counted.

    `notices` belong to each measure that counts them.
    """

    relation: algebra.Relation
    cells: frozenset[int] = frozenset()
    notices: Mapping[int, tuple[Reported, ...]] = field(default_factory=dict)


def debiased(
    resolved: algebra.Resolved,
    statement: tree.Statement,
    policy: Policy,
    identities: Identities,
    evaluate: Evaluate,
) -> Debiased:
    """Rewrite a query about reports into estimates of the true values.

    Raises `Refused` for computations with reports that have no rule, and for estimates of a
    nonnegative `statement`. Directly shown rows of public tables show reports.
    """
    if not any(c.randomized for table in policy.tables for c in table.columns):
        return Debiased(resolved.relation)
    debiasing = _Debiasing(policy, identities, evaluate)
    rows = debiasing.rows(resolved.relation)
    if statement.nonnegative and debiasing.notices:
        why = "an estimate of what people reported may be below zero"
        raise Refused(Reason.BAD_OPTION, option="nonnegative", why=why)
    return Debiased(rows.plain, frozenset(debiasing.cells), debiasing.notices)


@dataclass(frozen=True, slots=True)
class _Report:
    """A column of reports in a table."""

    ref: tree.Ref
    name: str
    column: LocalColumn


@dataclass(frozen=True, slots=True)
class _Rows:
    """A relation: as written (`plain`), and as `rows` that do not depend on reports.

    `meaning` maps the columns computed from reports to expressions over these (None: no rule).
    `conditions` are those over reports. Rows are `decided` by reports where there is no rule.
    """

    plain: algebra.Relation
    rows: algebra.Relation
    reports: Mapping[int, _Report] = field(default_factory=dict)
    meaning: Mapping[int, tree.Expression | None] = field(default_factory=dict)
    conditions: tuple[tree.Expression, ...] = ()
    decided: bool = False

    def reads(self, *read: tree.Expression | None) -> bool:
        """Test whether any of these expressions is computed from reports."""
        return any(e is not None and bool(walk.refs(e) & self.meaning.keys()) for e in read)

    def over_reports(self, expression: tree.Expression) -> tree.Expression | None:
        """Return an expression over reports alone, if it reads no other columns; else None."""
        parts = {n: self.meaning.get(n) for n in walk.refs(expression)}
        traced = {n: part for n, part in parts.items() if part is not None}
        return walk.substitute(expression, traced) if len(traced) == len(parts) else None


class _Debiasing:
    """The debiasing of one query; `cells` and `notices` are as in `Debiased`."""

    def __init__(self, policy: Policy, identities: Identities, evaluate: Evaluate) -> None:
        self.policy, self.identities, self.evaluate = policy, identities, evaluate
        self.cells = set[int]()
        self.notices = dict[int, tuple[Reported, ...]]()

    def rows(self, relation: algebra.Relation) -> _Rows:
        match relation:
            case algebra.Scan():
                return self._scan(relation)
            case algebra.Filter():
                return self._filter(relation)
            case algebra.Project():
                return self._project(relation)
            case algebra.Match():
                return self._match(relation)
            case algebra.Aggregate():
                return self._aggregate(relation)
            case _:
                return self._other(relation)

    def _scan(self, scan: algebra.Scan) -> _Rows:
        table = self.policy.table(scan.table)
        assert table is not None
        columns = ((f, table.column(f.name)) for f in scan.fields)
        reports = {
            f.id: _Report(f.ref, f"{table.name}.{f.name}", column.randomized)
            for f, column in columns
            if column is not None and column.randomized is not None
        }
        return _Rows(scan, scan, reports, {n: report.ref for n, report in reports.items()})

    def _filter(self, relation: algebra.Filter) -> _Rows:
        source = self.rows(relation.input)
        plain = replace(relation, input=source.plain)
        stay, moved = list[tree.Expression](), list[tree.Expression]()
        for part in walk.conjuncts(relation.predicate):
            if not source.reads(part):
                stay.append(part)
                continue
            over_reports = source.over_reports(part)
            if over_reports is None:
                return replace(_lost(plain, source.meaning), decided=True)
            moved.append(over_reports)
        left = walk.both(tuple(stay))
        rows = source.rows if left is None else algebra.Filter(source.rows, left)
        return replace(source, plain=plain, rows=rows, conditions=(*source.conditions, *moved))

    def _project(self, relation: algebra.Project) -> _Rows:
        source = self.rows(relation.input)
        plain = replace(relation, input=source.plain)
        if not source.meaning:
            return _Rows(plain, plain, decided=source.decided)
        others, meaning = list[algebra.Item](), dict[int, "tree.Expression | None"]()
        for item in relation.items:
            if source.reads(item.expression):
                meaning[item.field.id] = source.over_reports(item.expression)
            else:
                others.append(item)
        carried = (report.ref for report in source.reports.values())
        others += (algebra.Item(algebra.Field(ref.id, "", ref.type), ref) for ref in carried)
        rows = algebra.Project(source.rows, tuple(others))
        return replace(source, plain=plain, rows=rows, meaning=meaning)

    def _match(self, relation: algebra.Match) -> _Rows:
        source, other = self.rows(relation.input), self.rows(relation.other)
        read = (relation.condition, *(relation.member or ()))
        correlated = walk.free_refs(relation.other) & source.meaning.keys()
        decided = other.decided or other.conditions or correlated
        if decided or source.reads(*read) or other.reads(*read):
            return self._other(relation)
        return replace(
            source,
            plain=replace(relation, input=source.plain, other=other.plain),
            rows=replace(relation, input=source.rows, other=other.plain),
        )

    def _other(self, relation: algebra.Relation) -> _Rows:
        """Return a relation without a rule: columns of reports may be output, but not used
        otherwise.
        """
        sources = [self.rows(source) for source in walk.inputs(relation)]
        parts = iter(sources)
        plain = walk.map_inputs(relation, lambda _input: next(parts).plain)
        meaning = {n: None for source in sources for n in source.meaning}
        read = frozenset[int]().union(*map(walk.refs, walk.expressions(relation)))
        read = read.union(*(walk.free_refs(source) for source in walk.inputs(relation)))
        if isinstance(relation, algebra.Union):
            sides = zip(relation.fields, relation.left.fields, relation.right.fields, strict=True)
            meaning |= {f.id: None for f, *ends in sides if {e.id for e in ends} & meaning.keys()}
        decided = any(source.decided or source.conditions for source in sources)
        return replace(_lost(plain, meaning), decided=decided or bool(read & meaning.keys()))

    def _aggregate(self, relation: algebra.Aggregate) -> _Rows:
        source = self.rows(relation.input)
        read = [key.expression for key in relation.keys] + [m.call for m in relation.measures]
        if source.decided:
            _refuse("an aggregate of rows that reports decide without a rule", relation.span)
        if source.conditions or source.reads(*read):
            estimated: algebra.Relation = _Estimate(self, relation, source).relation()
        else:
            estimated = replace(relation, input=source.plain)
        return _Rows(estimated, estimated)


def _lost(plain: algebra.Relation, meaning: Mapping[int, object]) -> _Rows:
    return _Rows(plain, plain, meaning=dict.fromkeys(meaning))


def _refuse(construct: str, span: tree.Span, fix: str = "") -> NoReturn:
    fix = fix or "Count by the column, or take AVG or SUM of what is computed of it alone."
    raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=construct, fix=fix)


# --- what is estimated ---


@dataclass(frozen=True, slots=True)
class _Total:
    """A measure as Σ of `value` (None: 1) where `mask` is true, over rows that satisfy `rows`.

    With `average`, it is divided by the number of rows.
    """

    measure: algebra.Measure
    value: tree.Expression | None
    mask: tree.Expression | None
    rows: tree.Expression | None
    average: bool = False


_TOTALS = {"count": False, "sum": False, "avg": True}
"""Aggregates that are estimated, and whether they are averages."""

_ALL_TRUE = tree.Literal(value=True, type=tree.BOOLEAN)


class _Estimate:
    """An aggregate over reports."""

    def __init__(self, debiasing: _Debiasing, aggregate: algebra.Aggregate, source: _Rows) -> None:
        self._debiasing, self._identities = debiasing, debiasing.identities
        self._aggregate, self._source = aggregate, source
        if aggregate.sets:
            _refuse("ROLLUP, CUBE and GROUPING SETS beside a randomised column", aggregate.span)
        self._plain = [k for k in aggregate.keys if not source.reads(k.expression)]
        self._local = [
            replace(k, expression=self._over_reports(k.expression, aggregate.span))
            for k in aggregate.keys
            if source.reads(k.expression)
        ]
        self._totals = [self._total(measure) for measure in aggregate.measures]
        self._reports = self._reports_read()

    def _over_reports(self, expression: tree.Expression, span: tree.Span) -> tree.Expression:
        over_reports = self._source.over_reports(expression)
        if over_reports is None:
            _refuse("an expression of a randomised column and of another one", span)
        return over_reports

    def _total(self, measure: algebra.Measure) -> _Total:
        call, source = measure.call, self._source
        average = _TOTALS.get(call.function)
        (argument, *more) = call.args or (tree.Star(),)
        counts_rows = isinstance(argument, tree.Star)
        if average is None or call.distinct or more or call.order_by:
            name = f"{call.function.upper()}{' of different values' if call.distinct else ''}"
            _refuse(f"{name} over a randomised column, or among what was reported", call.span)
        if call.clip is not None or call.epsilon is not None:
            _refuse("an aggregate of reports with bounds or an ε of its own", call.span)
        if not counts_rows and not source.reads(argument):
            _refuse(f"{call.function.upper()} of another column among reports", call.span)
        masks, rows = list[tree.Expression](), list[tree.Expression]()
        for part in walk.conjuncts(call.filter):
            if source.reads(part):
                masks.append(self._over_reports(part, call.span))
            else:
                rows.append(part)
        value = None if counts_rows else self._over_reports(argument, call.span)
        if value is not None:
            masks.append(tree.scalar("not", value.is_null(), kind=tree.BOOLEAN))
        counts = counts_rows or call.function == "count"
        return _Total(
            measure,
            None if counts or value is None else value.to(tree.DOUBLE),
            walk.both(tuple(masks)),
            walk.both(tuple(rows)),
            average,
        )

    def _reports_read(self) -> list[_Report]:
        """Return the report columns that the aggregate depends on, in the table's order."""
        parts: list[tree.Expression | None] = [key.expression for key in self._local]
        parts += [part for total in self._totals for part in (total.value, total.mask)]
        read = frozenset[int]().union(
            *(walk.refs(part) for part in (*parts, *self._source.conditions) if part is not None)
        )
        return [r for n, r in self._source.reports.items() if n in read]

    # --- the weights ---

    def relation(self) -> algebra.Relation:
        """Return the aggregate's columns, estimated."""
        counts, cells, numbers = self._counts()
        weights_of, groups, columns = self._weights(cells)
        condition = walk.both(
            tuple(
                tree.Call("eq", (here.ref, there.ref), tree.BOOLEAN)
                for here, there in zip(cells, weights_of.fields[len(groups) :], strict=False)
            )
        )
        kind = tree.JoinKind.CROSS if condition is None else tree.JoinKind.INNER
        joined = algebra.Join(counts, weights_of, kind, condition, self._aggregate.span)
        measures, items = list[algebra.Measure](), list[algebra.Item]()
        for total, parts in zip(self._totals, columns, strict=True):
            sums = [self._sum(numbers[total.rows], part, measures) for part in parts]
            items.append(algebra.Item(total.measure.field, _estimate(total, sums)))
        keys = [algebra.Item(key.field, counts.fields[n].ref) for n, key in enumerate(self._plain)]
        keys += [
            algebra.Item(k.field, group.ref) for k, group in zip(self._local, groups, strict=True)
        ]
        added = algebra.Aggregate(joined, tuple(keys), tuple(measures), self._aggregate.span)
        return algebra.Project(added, (*(key.field.item for key in self._aggregate.keys), *items))

    def _notices(self) -> tuple[Reported, ...]:
        tables = (self._debiasing.policy.table(r.name.rpartition(".")[0]) for r in self._reports)
        rows = (None if table is None else table.expected_rows for table in tables)
        return tuple(
            Reported(report.name, report.column.law, most)
            for report, most in zip(self._reports, rows, strict=True)
        )

    def _counts(
        self,
    ) -> tuple[
        algebra.Aggregate, list[algebra.Field], dict[tree.Expression | None, list[algebra.Field]]
    ]:
        """Count rows by the plain keys and by reports, as an ordinary query.

        For texts of bits, it counts rows, and rows with each bit, or one of each text.
        """
        rows, span = self._source.rows, self._aggregate.span
        reports = [r for r in self._reports if not r.column.law.of_bits]
        texts = list["list[tree.Expression | None]"]()
        for report in (r for r in self._reports if r.column.law.of_bits):
            text, count = report.ref, report.column.law.values
            rows = algebra.Filter(rows, tree.scalar("length", text, kind=tree.INTEGER).eq(count))
            places = range(1, count + 1)
            each = (tree.scalar("substring", text, n, 1, kind=tree.VARCHAR).eq("1") for n in places)
            texts.append([None, *each])
        if prod(map(len, texts)) > MOST_COUNTS:
            raise Refused(Reason.TOO_LARGE, span, what="combinations of bits", limit=MOST_COUNTS)
        several = [tuple(bit for bit in chosen if bit is not None) for chosen in product(*texts)]
        cells = [self._identities.field(r.name.rpartition(".")[2], r.ref.type) for r in reports]
        self._debiasing.cells |= {cell.id for cell in cells}
        keys = [
            algebra.Item(self._identities.field(k.field.name, k.field.type), k.expression)
            for k in self._plain
        ]
        keys += [algebra.Item(c, r.ref) for c, r in zip(cells, reports, strict=True)]
        measures = list[algebra.Measure]()
        numbers = dict["tree.Expression | None", list[algebra.Field]]()
        for counted in dict.fromkeys(total.rows for total in self._totals) or [None]:
            numbers[counted] = [self._identities.field("n", tree.INTEGER) for _ in several]
            for number, bits in zip(numbers[counted], several, strict=True):
                chosen = walk.both((*bits, *([] if counted is None else [counted])))
                call = tree.AggregateCall(
                    "count", (tree.Star(),), filter=chosen, type=tree.INTEGER, span=span
                )
                measures.append(algebra.Measure(number, call))
        self._debiasing.notices |= {m.field.id: self._notices() for m in measures}
        return algebra.Aggregate(rows, tuple(keys), tuple(measures), span), cells, numbers

    def _weights(
        self, cells: Sequence[algebra.Field]
    ) -> tuple[algebra.Values, list[algebra.Field], list[list[list[algebra.Field]]]]:
        """Return the weights of each cell for each group's numbers.

        Returns a table, its columns of the groups, and for each number the columns of its sums, one
        for each count of a cell.
        """
        values = [report.column.values for report in self._reports]
        laws = [report.column.law for report in self._reports]
        if prod(map(len, values)) > MOST_CELLS:
            raise Refused(Reason.TOO_LARGE, what="combinations of reports", limit=MOST_CELLS)
        keys, masks, amounts = self._evaluated(list(product(*values)))
        groups = [self._identities.field(k.field.name, k.field.type) for k in self._local]
        here = [self._identities.field(cell.name, cell.type) for cell in cells]
        listed = list(dict.fromkeys(k for k, row in zip(keys, masks, strict=True) if row[0]))
        if not listed and self._local:
            _refuse("a condition that no listed value meets", self._aggregate.span, "Change it.")
        of_values = (r.column for r in self._reports if not r.column.law.of_bits)
        reported: list[Row] = list(product(*(column.values for column in of_values)))
        if len(listed) * len(reported) > MOST_CELLS:
            raise Refused(Reason.TOO_LARGE, what="combinations of reports", limit=MOST_CELLS)
        rows = list[tuple[tree.Literal, ...]]()
        shape, tables = tuple(map(len, values)), list[list[Parts]]()
        for group in listed or [()]:
            chosen = np.array([1.0 if key == group else 0.0 for key in keys])
            masked = [masks[:, n + 1] * masks[:, 0] * chosen for n in range(len(amounts))]
            tables = [
                numbers_of(laws, shape, where * amount, where if total.average else None)
                for total, where, amount in zip(self._totals, masked, amounts, strict=True)
            ]
            flat = [column for table in tables for parts in table for column in parts]
            rows += _literal_rows(groups, group, here, reported, flat)
        columns = [
            [[self._identities.field("weight", tree.DOUBLE) for _ in parts] for parts in table]
            for table in tables
        ]
        fields = (*groups, *here, *(f for table in columns for parts in table for f in parts))
        return algebra.Values(fields, tuple(rows), self._aggregate.span), groups, columns

    def _evaluated(self, truths: list[Row]) -> tuple[list[Row], np.ndarray, list[np.ndarray]]:
        """Return for each truth its group, whether it satisfies WHERE and each total's mask, and
        its amounts.
        """
        fields = tuple(algebra.Field(r.ref.id, "", r.ref.type) for r in self._reports)
        where = walk.both(self._source.conditions) or _ALL_TRUE
        masks = [where, *(total.mask or _ALL_TRUE for total in self._totals)]
        amounts = [total.value or tree.operand(1.0) for total in self._totals]
        keys = [key.expression for key in self._local]
        outputs = (*keys, *masks, *amounts)
        rows = self._debiasing.evaluate(outputs, fields, truths)
        first, last = len(keys), len(keys) + len(masks)
        true = np.array([[1.0 if v is True else 0.0 for v in row[first:last]] for row in rows])
        numbers = [np.array([_number(row[last + n]) for row in rows]) for n in range(len(amounts))]
        return [row[:first] for row in rows], true, numbers

    def _sum(
        self,
        numbers: Sequence[algebra.Field],
        parts: Sequence[algebra.Field],
        measures: list[algebra.Measure],
    ) -> tree.Expression:
        """Return the sum of numbers of rows, weighted by their columns of weights."""
        total = self._identities.field("total", tree.DOUBLE)
        products = (n.ref.to(tree.DOUBLE) * w.ref for n, w in zip(numbers, parts, strict=True))
        weighed = reduce(add, products)
        measures.append(
            algebra.Measure(total, tree.AggregateCall("sum", (weighed,), type=tree.DOUBLE))
        )
        return total.ref


def _number(value: tree.Value) -> float:
    """Convert an amount to a float; a masked value may be anything and becomes 0."""
    return float(value) if isinstance(value, int | float) else 0.0


def _literal_rows(
    groups: Sequence[algebra.Field],
    group: Row,
    cells: Sequence[algebra.Field],
    reported: Sequence[Row],
    columns: Sequence[np.ndarray],
) -> Iterable[tuple[tree.Literal, ...]]:
    lead = tuple(tree.Literal(v, f.type) for v, f in zip(group, groups, strict=True))
    for place, cell in enumerate(reported):
        numbers = (column[place] for column in columns)
        here = (tree.Literal(v, f.type) for v, f in zip(cell, cells, strict=True))
        yield (*lead, *here, *(tree.Literal(float(x), tree.DOUBLE) for x in numbers))


def _estimate(total: _Total, sums: Sequence[tree.Expression]) -> tree.Expression:
    """Return a number and its variance from reports, in the type of the measure."""
    if total.average:
        amount, rows, squares, products, counts = sums
        count = tree.scalar("greatest", rows, 1.0)
        mean = amount / count
        variance = (squares - 2.0 * mean * products + mean * mean * counts) / (count * count)
        value = tree.when(rows.le(0.0), None, mean)
        return tree.scalar(ESTIMATE, value, tree.scalar("greatest", variance, 0.0))
    amount, squares = (tree.scalar("coalesce", part, 0.0) for part in sums)
    variance, kind = tree.scalar("greatest", squares, 0.0), total.measure.field.type
    return tree.scalar(ESTIMATE, amount.to(kind), variance, kind=kind)
