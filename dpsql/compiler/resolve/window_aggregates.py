"""Windows over the rows of many privacy units, rewritten as the aggregate that reads them.

Older queries write a quantile with ROW_NUMBER and COUNT(*) OVER, and GROUP BY as SELECT DISTINCT
with windows. With rn the rank and n the number of the rows of a partition:

* MIN(CASE WHEN rn >= p*n THEN x END) is the value of rank ⌈p·n⌉: QUANTILE_DISC(x, p).
* MIN(CASE WHEN rn > p*n THEN x END) has rank ⌊p·n⌋ + 1, which is ⌈(1 - p)·n⌉ from the other end.
* MAX(CASE WHEN rn <= p*n THEN x END) has rank ⌊p·n⌋, which is ⌈(1 - p)·n⌉ + 1 from the other end.
* AVG(x) where rn is (n+1)//2 or (n+2)//2 is the median, which is answered as one row's value.
* SELECT DISTINCT g, f(x) OVER (PARTITION BY g) is SELECT g, f(x) GROUP BY g.

The first four need that NULL has no rank: x is never NULL, or n counts x and NULLs come last. The
first three also take NULL as one more value, greater than all others. A descending order mirrors
them: MAX stands for MIN. Every other form stays as it is.

Where a share of the rows is less than one row, the third form is NULL, and the answer is any value,
as it is where there are no rows.

A group key that is computed of other keys has one value for each of them: it follows the aggregate.

Proof (PRIVACY.md R104).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import takewhile
from typing import TypeAlias

from dpsql.compiler.aggregates import recipe_by_name, result_type
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import conjuncts, map_inputs, refs, relations, substitute

_SIDES = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}
_OPPOSITES = {"ge": "lt", "gt": "le", "le": "gt", "lt": "ge"}
MOST_PARTS = 10**6
"""Largest denominator of a share: the choice of a rank distinguishes no finer ones."""
_SHARE = tree.decimal(7, 6)
_NULL_OF_NULL = frozenset("add sub mul date_diff".split())
"""Functions that are NULL only where an argument is, or where an engine would fail."""
_INNER = (tree.JoinKind.INNER, tree.JoinKind.CROSS)
_OF_VALUES = ("sum", "avg", "min", "max", "median")


def as_aggregates(
    relation: algebra.Relation, policy: Policy, identities: Identities
) -> algebra.Relation:
    """Return the relation with such windows as aggregates; the same object if there are none."""
    inner = map_inputs(relation, lambda r: as_aggregates(r, policy, identities))
    relation = relation if inner == relation else inner
    if not isinstance(relation, algebra.Aggregate) or relation.sets:
        return relation
    ranked = WindowedAggregate.below(relation, policy)
    if ranked is None:
        return _with_fewer_keys(relation)
    return ranked.quantiles(identities) or ranked.groups(identities) or relation


def _with_fewer_keys(aggregate: algebra.Aggregate) -> algebra.Relation:
    """Return the aggregate without the keys that are computed of others, which follow it."""
    values = dict[int, tree.Expression]()
    relation = aggregate.input
    if isinstance(relation, algebra.Project):
        values = {item.field.id: item.expression for item in relation.items}
        relation = relation.input
    keys = [substitute(key.expression, values) for key in aggregate.keys]
    plain = {key.id for key in keys if isinstance(key, tree.Ref)}
    computed = [
        not isinstance(key, tree.Ref) and bool(refs(key)) and refs(key) <= plain for key in keys
    ]
    if not any(computed):
        return aggregate
    fields = {
        key.id: item.field
        for item, key in zip(aggregate.keys, keys, strict=True)
        if isinstance(key, tree.Ref)
    }
    items = [
        algebra.Item(
            item.field,
            substitute(key, {i: f.ref for i, f in fields.items()}) if more else item.field.ref,
        )
        for item, key, more in zip(aggregate.keys, keys, computed, strict=True)
    ]
    left = tuple(item for item, more in zip(aggregate.keys, computed, strict=True) if not more)
    measured = [measure.field.item for measure in aggregate.measures]
    return algebra.Project(replace(aggregate, keys=left), (*items, *measured))


_Parts: TypeAlias = tuple[tree.Expression, ...]


@dataclass(frozen=True, slots=True)
class WindowedAggregate:
    """Aggregate over one Window, its expressions written over the columns of the window's input.

    `between` are the conditions of the filters between the aggregate and the window.
    """

    aggregate: algebra.Aggregate
    window: algebra.Window
    keys: _Parts
    calls: tuple[tree.AggregateCall, ...]
    between: _Parts
    policy: Policy

    @classmethod
    def below(cls, aggregate: algebra.Aggregate, policy: Policy) -> WindowedAggregate | None:
        """Return an aggregate with the window that it reads; None if it reads no window.

        Only filters and projections may stand between the two.
        """
        keys = tuple(key.expression for key in aggregate.keys)
        calls: _Parts = tuple(measure.call for measure in aggregate.measures)
        between: _Parts = ()
        relation = aggregate.input
        while isinstance(relation, algebra.Project | algebra.Filter):
            if isinstance(relation, algebra.Filter):
                between += conjuncts(relation.predicate)
            else:
                values = {item.field.id: item.expression for item in relation.items}
                keys, calls, between = (
                    tuple(substitute(e, values) for e in part) for part in (keys, calls, between)
                )
            relation = relation.input
        if not isinstance(relation, algebra.Window):
            return None
        measured = tuple(call for call in calls if isinstance(call, tree.AggregateCall))
        return cls(aggregate, relation, keys, measured, between, policy)

    @property
    def windows(self) -> Mapping[int, tree.WindowCall]:
        return {item.field.id: item.call for item in self.window.items}

    def _reads_windows(self, expression: tree.Expression) -> bool:
        return not refs(expression).isdisjoint(self.windows)

    # --- quantiles ---

    def quantiles(self, identities: Identities) -> algebra.Relation | None:
        """Return the aggregate with its ranks as quantiles; None if it has another form."""
        if any(map(self._reads_windows, self.keys)) or len(self.between) > 1:
            return None
        middle = self.between[0] if self.between else None
        calls = [self._median(c, middle) if middle else self._quantile(c) for c in self.calls]
        others = tuple(call for call in calls if call is not None)
        if len(others) < len(calls) or others == self.calls:
            return None
        return self._aggregated(self.keys, others, identities)

    def _quantile(self, call: tree.AggregateCall) -> tree.AggregateCall | None:
        """Return the aggregate of a value at a rank as a quantile, and a call that reads no window
        unchanged; None for other calls.
        """
        if not self._reads_windows(call):
            return call
        match call:
            case tree.AggregateCall("min" | "max", (value,), filter=tree.Call() as test, clip=None):
                pass
            case tree.AggregateCall(
                "min" | "max",
                (tree.Call("case", (tree.Call() as test, value, tree.Literal(value=None))),),
                filter=None,
                clip=None,
            ):
                pass
            case tree.AggregateCall(
                "min" | "max",
                (tree.Call("case", (tree.Call() as before, tree.Literal(), value)),),
                filter=None,
                clip=None,
            ) if before.function in _OPPOSITES:
                # Neither a rank nor a number of rows is NULL. A constant is a limit of the answer.
                test = replace(before, function=_OPPOSITES[before.function])
            case _:
                return None
        ranked = self._rank(test, value)
        if ranked is None or (call.function == "max") is not (ranked.falls is not ranked.upto):
            return None
        if ranked.nulls and call.function == "max":
            return None  # MAX leaves NULL out, which is the greatest value there
        return replace(ranked.find_value(value, call.span), epsilon=call.epsilon)

    def _rank(self, test: tree.Call, value: tree.Expression) -> RankTest | None:
        """Return a test of the rank in the order of `value`; None for other tests."""
        if test.function not in _SIDES:
            return None
        left, right = map(_bare, test.args)
        name = test.function
        if isinstance(right, tree.Ref):
            left, right, name = right, left, _SIDES[name]
        if name == "lt" or not isinstance(left, tree.Ref):
            return None
        share, count = _share(right) or (None, None)
        if share is None or count is None:
            return None
        of_values = self._ranks(left.id, count, value)
        if of_values is None:
            return None
        falls, nulls = self.windows[left.id].order_by[0].descending, not of_values
        return RankTest(share, strict=name != "ge", upto=name == "le", falls=falls, nulls=nulls)

    def _ranks(self, rank: int, count: int, value: tree.Expression) -> bool | None:
        """Test whether two windows number and count the rows of this group that have a value.

        False means all rows, where NULL is greater than all values; None means other windows.
        """
        number, total = self.windows.get(rank), self.windows.get(count)
        if number is None or total is None or len(number.order_by) != 1:
            return None
        (key,) = number.order_by
        groups = {frozenset(number.partition_by), frozenset(total.partition_by)}
        plain = replace(total, args=(), partition_by=(), type=number.type)
        if groups != {frozenset(self.keys)} or plain != tree.WindowCall(
            "count", (), type=number.type
        ):
            return None
        if number.function != "row_number" or key.expression != value:
            return None
        (counted,) = total.args
        if counted == value and not key.nulls_first:
            return True
        if not isinstance(counted, tree.Star) and not self._lacks_null(counted):
            return None
        return self._lacks_null(value) or (False if has_greatest_null(key) else None)

    def _lacks_null(self, value: tree.Expression) -> bool:
        return lacks_null(value, self.window.input, self.policy)

    def _median(
        self, call: tree.AggregateCall, middle: tree.Expression
    ) -> tree.AggregateCall | None:
        """Return AVG of the one or two middle rows as the median; None for other calls."""
        match call, middle:
            case (
                tree.AggregateCall("avg", (value,), distinct=False, filter=None, clip=None),
                tree.Call("in", (tree.Ref() as rank, *middles)),
            ):
                counts = sorted(filter(None, map(_middle_of, middles)))
            case _:
                return None
        if self._reads_windows(value) or len(counts) != len(middles) or len(counts) != _MIDDLES:
            return None
        (first, count), (second, other) = counts
        if (first, second) != (1, _MIDDLES) or count != other:
            return None
        if not self._ranks(rank.id, count, value):
            return None
        kind = result_type("median", (type_of(value),))
        if kind is None:
            return None
        return tree.AggregateCall(
            "median", (value,), type=kind, span=call.span, epsilon=call.epsilon
        )

    # --- DISTINCT ---

    def groups(self, identities: Identities) -> algebra.Relation | None:
        """Return SELECT DISTINCT of partition keys and windows as GROUP BY; None otherwise."""
        plain = [key for key in self.keys if not self._reads_windows(key)]
        read = [key for key in self.keys if self._reads_windows(key)]
        windows = self.windows
        used = {id_ for key in read for id_ in refs(key) & windows.keys()}
        if self.aggregate.measures or self.between or not used or not plain:
            return None
        calls = [windows[id_] for id_ in used]
        if any(
            c.order_by or c.frame or c.ignore_nulls or recipe_by_name(c.function) is None
            for c in calls
        ):
            return None
        if {frozenset(c.partition_by) for c in calls} != {frozenset(plain)}:
            return None
        if any(refs(key) - windows.keys() for key in read):
            return None
        fields = {i.field.id: i.field for i in self.window.items}
        measures = tuple(algebra.Measure(fields[id_], _aggregate_of(windows[id_])) for id_ in used)
        named = {key: identities.field("", type_of(key)) for key in plain}
        keys = tuple(algebra.Item(field, key) for key, field in named.items())
        grouped = algebra.Aggregate(self.window.input, keys, measures, self.aggregate.span)
        items = tuple(
            algebra.Item(item.field, named[key].ref if key in named else key)
            for item, key in zip(self.aggregate.keys, self.keys, strict=True)
        )
        return algebra.Project(grouped, items)

    def _aggregated(
        self, keys: _Parts, calls: Sequence[tree.AggregateCall], identities: Identities
    ) -> algebra.Relation:
        """Return the aggregate over the window's input, under the identities that it had."""
        grouped = tuple(
            algebra.Item(item.field, key)
            for item, key in zip(self.aggregate.keys, keys, strict=True)
        )
        measures, items = list[algebra.Measure](), [key.field.item for key in grouped]
        for measure, old, call in zip(self.aggregate.measures, self.calls, calls, strict=True):
            field, limit = measure.field, _limit_of(old)
            if call.type != field.type or limit:
                field = identities.field(field.name, call.type)
            value: tree.Expression = field.ref
            if call.type != measure.field.type:
                value = tree.Cast(value, measure.field.type)
            if limit:
                name = "least" if old.function == "min" else "greatest"
                value = tree.Call(name, (value, limit), measure.field.type)
            items.append(algebra.Item(measure.field, value))
            measures.append(algebra.Measure(field, call))
        relation = algebra.Aggregate(
            self.window.input, grouped, tuple(measures), self.aggregate.span
        )
        return algebra.Project(relation, tuple(items))


@dataclass(frozen=True, slots=True)
class RankTest:
    """A rank compared with a share of the number of rows: at least the share, or beyond it if
    `strict`. `upto` means the rows before those that are beyond it. `falls` means a descending
    order, `nulls` that NULL is greater than all values.
    """

    share: Fraction
    strict: bool
    upto: bool
    falls: bool
    nulls: bool

    def find_value(self, value: tree.Expression, span: tree.Span) -> tree.AggregateCall:
        """Return the value of the first row that passes, or of the last one with `upto`."""
        share, shift, falls = self.share, Fraction(0), self.falls
        if self.strict:
            share, shift, falls = 1 - share, Fraction(int(self.upto)), not falls
        return build_quantile(value, share, shift, falls=falls, nulls=self.nulls, span=span)


def has_greatest_null(key: tree.SortKey) -> bool:
    """Test whether NULL is greater than all values in an order of numbers or times."""
    kind = type_of(key.expression)
    return key.nulls_first == key.descending and (kind.is_numeric or kind.is_temporal)


def build_quantile(
    value: tree.Expression,
    share: Fraction,
    shift: Fraction,
    *,
    falls: bool,
    span: tree.Span,
    nulls: bool = False,
) -> tree.AggregateCall:
    """Return the value of rank ⌈share·n + shift⌉, counted from the greatest on if it `falls`.

    The n rows are those with a value, or with `nulls` all, and NULL is greater than all values.
    """
    parts = (share, shift) if shift or nulls else (share,)
    written = (tree.Literal(Decimal(p.numerator) / Decimal(p.denominator), _SHARE) for p in parts)
    order = (tree.SortKey(value, descending=True, nulls_first=False),) if falls else ()
    args = value, *written, *((tree.Literal(value=True, type=tree.BOOLEAN),) if nulls else ())
    return tree.AggregateCall("quantile_disc", args, type=type_of(value), span=span, order_by=order)


def has_shift(relation: algebra.Relation) -> bool:
    """Test whether a relation has a quantile with a shift of its rank, which no engine has."""
    return any(
        measure.call.function == "quantile_disc" and measure.call.args[2:]
        for part in relations(relation)
        if isinstance(part, algebra.Aggregate)
        for measure in part.measures
    )


_MIDDLES = 2


def _aggregate_of(call: tree.WindowCall) -> tree.AggregateCall:
    return tree.AggregateCall(
        call.function, call.args, call.distinct, call.filter, type=call.type, span=call.span
    )


def _bare(expression: tree.Expression) -> tree.Expression:
    """Return the column of a cast of a column; other expressions unchanged."""
    match expression:
        case tree.Cast(arg=tree.Ref() as column):
            return column
        case _:
            return expression


def _share(product: tree.Expression) -> tuple[Fraction, int] | None:
    """Return p and the identity of the column n of p*n, n*p or n/d, with 0 < p < 1; None for
    others.
    """
    match product:
        case tree.Call("mul", (first, second)):
            column, factor, inverse = _bare(first), second, False
            if not isinstance(column, tree.Ref):
                column, factor = _bare(second), first
        case tree.Call("div", (first, second)):
            column, factor, inverse = _bare(first), second, True
        case _:
            return None
    value = factor.value if isinstance(factor, tree.Literal) else None
    if not isinstance(column, tree.Ref) or not isinstance(value, int | Decimal) or not value > 0:
        return None
    share = 1 / Fraction(value) if inverse else Fraction(value)
    exact = share < 1 and share.denominator <= MOST_PARTS
    return (share, column.id) if exact else None


def _limit_of(call: tree.AggregateCall) -> tree.Literal | None:
    """Return the constant that stands for rows before a rank; None if it is NULL or there is
    none.
    """
    match call.args:
        case (tree.Call("case", (_, tree.Literal() as limit, _)),) if limit.value is not None:
            return limit
        case _:
            return None


def _middle_of(expression: tree.Expression) -> tuple[int, int] | None:
    """Return k and the identity of the column n of (n + k) // 2; None for other expressions."""
    match expression:
        case tree.Call("int_div", (tree.Call("add", (a, b)), tree.Literal(value=2))):
            for column, number in ((a, b), (b, a)):
                if isinstance(column, tree.Ref) and isinstance(number, tree.Literal):
                    return (number.value, column.id) if isinstance(number.value, int) else None
    return None


def lacks_null(value: tree.Expression, relation: algebra.Relation, policy: Policy) -> bool:
    """Test whether a condition below, or the policy of a plain column, leaves no NULL."""
    below = list(relations(relation))
    there = _columns_there(below, policy)
    # An outer join pads rows with NULL.
    above = takewhile(lambda r: not isinstance(r, algebra.Join) or r.kind in _INNER, below)
    conditions = {c for r in above if isinstance(r, algebra.Filter) for c in conjuncts(r.predicate)}
    return not_null(value) in conditions or _is_there(value, there)


def not_null(value: tree.Expression) -> tree.Call:
    """Return the condition that a value is not NULL."""
    return tree.Call("not", (tree.Call("is_null", (value,), tree.BOOLEAN),), tree.BOOLEAN)


def _is_there(value: tree.Expression, there: frozenset[int]) -> bool:
    """Test whether an expression is never NULL, as the columns `there` are."""
    match value:
        case tree.Literal(value=constant):
            return constant is not None
        case tree.Ref(id=column):
            return column in there
        case tree.Call("coalesce", args):
            return any(_is_there(part, there) for part in args)
        case tree.Call("case", args):
            results = (*args[1::2], *args[-1:]) if len(args) % 2 else args[1::2]
            return bool(len(args) % 2) and all(_is_there(part, there) for part in results)
        case tree.Call(name, args):
            return name in _NULL_OF_NULL and all(_is_there(part, there) for part in args)
        case _:
            return False


def _columns_there(below: Sequence[algebra.Relation], policy: Policy) -> frozenset[int]:
    """Return the columns that are never NULL: declared, compared, computed or counted ones."""
    there = frozenset[int]()
    for relation in reversed(below):
        if isinstance(relation, algebra.Scan):
            table = policy.table(relation.table)
            columns = () if table is None else table.columns
            never = {column.name for column in columns if not column.nullable}
            there |= {field.id for field in relation.fields if field.name in never}
        elif isinstance(relation, algebra.Join):
            padded = {
                tree.JoinKind.LEFT: relation.right.fields,
                tree.JoinKind.RIGHT: relation.left.fields,
            }
            others = () if relation.kind in _INNER else relation.fields
            there -= {field.id for field in padded.get(relation.kind, others)}
        elif isinstance(relation, algebra.Filter):
            there |= set(_tested(relation.predicate))
        elif isinstance(relation, algebra.Project):
            there |= {i.field.id for i in relation.items if _is_there(i.expression, there)}
        elif isinstance(relation, algebra.Aggregate) and not relation.sets:
            keys = {i.field.id for i in relation.keys if _is_there(i.expression, there)}
            grouped = bool(relation.keys)
            there |= keys | {
                m.field.id for m in relation.measures if _has_value(m.call, there, grouped=grouped)
            }
    return there


def _tested(condition: tree.Expression) -> Iterator[int]:
    """Yield the columns that are not NULL where a condition is true."""
    for part in conjuncts(condition):
        match part:
            case tree.Call("not", (tree.Call("is_null", (tree.Ref(id=column),)),)):
                yield column
            case tree.Call(name, args) if name in _SIDES or name == "eq":
                yield from (side.id for side in args if isinstance(side, tree.Ref))


def _has_value(call: tree.AggregateCall, there: frozenset[int], *, grouped: bool) -> bool:
    """Test for a count, or another aggregate of values that are there in every row of a group."""
    if call.function == "count":
        return True
    (value, *others) = call.args
    plain = call.filter is None and not others and grouped
    return plain and _is_there(value, there) and call.function in _OF_VALUES
