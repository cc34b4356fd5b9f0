"""Aggregates over listed groups, some of them without rows.

All listed keys are released, those without rows as noise about 0. The rows of a plain GROUP BY are
the groups with rows. A group surely has rows if one of its measurements is farther from 0 than the
noise of any group is likely to reach. Aggregates are computed over these groups. If there are none,
they are computed over all groups.

Any of the other groups may have rows. Let v be a value below all that they can have, and below all
others, and let k groups have such a value instead. A mean, a quantile and an extreme fall with
each group of value v. So no set of groups with rows has a smaller result than the sure groups and
all k others at v. Upper ends, counts and sums are alike. Where nothing is known of an aggregate,
its error is unknown unless all groups surely have rows.

Numbers and ranks of groups in windows are over all groups. A true rank is lower by at most the
groups before that may have no rows. Whether EXISTS or IN meets a group is not known.

It is post-processing: PRIVACY.md R66.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce

from dpsql.compiler.aggregates.formulas import evaluate
from dpsql.compiler.errors.bias_ends import NOTHING, Ends
from dpsql.compiler.errors.expression_errors import NAN, or_zero, value_type
from dpsql.compiler.errors.noisy_columns import NoiseOfBlock, Presence, Traced
from dpsql.compiler.errors.outputs import EXACT
from dpsql.compiler.resolve.scopes import Identities
from dpsql.mechanisms import widest
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.intervals import Interval
from dpsql.model.walk import both, refs

WRONG = 0.005
"""Probability that a group without rows, or a value farther off than assumed, is among all."""

_INTERNAL = frozenset({"avg", "min", "max", "median", "quantile_cont", "quantile_disc"})
"""Aggregates with a result between their values, which rises with each of them."""

_COUNTS = frozenset({"count", "regr_count"})


def with_presence(
    relation: algebra.Relation,
    parts: Mapping[int, algebra.Field],
    noise: NoiseOfBlock,
    identities: Identities,
) -> tuple[algebra.Relation, Presence]:
    """Return listed groups with a column that is 1 where a group surely has rows, else 0."""
    far, present = widest(noise.noises, 1 - WRONG / noise.listed), tree.operand(0.0)
    for number in noise.additive & parts.keys():
        deviation = max(noise.deviations[number] or 0.0, noise.single.get(number, 0.0))
        size = tree.scalar("abs", or_zero(parts[number].ref.to(tree.DOUBLE)))
        present = tree.when(size.ge(far * deviation), 1.0, present)
    column = identities.field("present", tree.DOUBLE)
    items = (*(f.item for f in relation.fields), algebra.Item(column, present))
    return algebra.Project(relation, items), Presence(column.ref, far)


def joined_presence(left: Traced, right: Traced) -> Presence | None:
    """Return the presence of joined rows: where both groups have rows, or one has no partner."""
    sides = [side.present for side in (left, right) if side.present is not None]
    if not sides:
        return None
    columns = (tree.scalar("coalesce", side.column, 1.0) for side in sides)
    column = reduce(lambda a, b: a * b, columns)
    return Presence(column, max(side.far for side in sides))


def united_presence(
    relation: algebra.Union,
    sides: Sequence[Traced],
    added: Callable[[Sequence[tree.Expression]], tree.Expression],
) -> Presence | None:
    """Return the presence in rows of a union, in a column `added` to UNION ALL. Nothing is sure
    of other unions.
    """
    if all(side.present is None for side in sides):
        return None
    far = max(side.present.far for side in sides if side.present is not None)
    if not (relation.kind == "UNION" and relation.all):
        return Presence(tree.operand(0.0), far)
    one = tree.operand(1.0)
    return Presence(added([one if s.present is None else s.present.column for s in sides]), far)


def is_harmless(source: Traced, call: tree.AggregateCall | tree.WindowCall) -> bool:
    """Test whether groups without rows add nothing to a call, or nothing but noise."""
    if call.function == "grouping":
        return True
    over_bases = source.rewritten(call.args[0]) if call.args else None
    if call.function != "sum" or call.distinct or over_bases is None:
        return False
    return evaluate(over_bases, dict.fromkeys(refs(over_bases), 0.0)) == 0


def unsure_ends(ends: Ends | None, least: tree.Expression) -> Ends:
    """Return the ends of a number, unknown unless all groups surely have rows: `least` is 1."""
    own = Ends(NOTHING, NOTHING) if ends is None else ends
    unknown = tree.when(least.ge(0.5), 0.0, NAN)
    return replace(own, below=own.below + unknown, above=own.above + unknown)


@dataclass(frozen=True, slots=True, eq=False)
class GroupsRead:
    """Groups that an aggregate reads, with hidden measures `extra` and windows `below` it."""

    relation: algebra.Aggregate
    source: Traced
    presence: Presence
    identities: Identities
    range_of: Callable[[tree.Expression], Interval]
    extra: list[algebra.Measure]
    below: list[algebra.WindowItem] = field(default_factory=list)

    @property
    def rows(self) -> algebra.Relation:
        """Return the groups with the windows over them."""
        groups = self.source.relation
        return algebra.Window(groups, tuple(self.below)) if self.below else groups

    def of_sure(self, call: tree.AggregateCall) -> tree.AggregateCall:
        """Return the call over the groups that surely have rows; over all if there are none."""
        if is_harmless(self.source, call):
            return call
        some = self._over_groups("max", self.presence.column, call.filter)
        sure = self.presence.column.ge(0.5) | some.lt(0.5)
        return self._filtered(call, sure)

    def counts(self, call: tree.AggregateCall) -> bool:
        """Test whether a call counts groups, and noise decides no more than which have rows."""
        certain = all(map(self.source.is_certain, call.args))
        return call.function in _COUNTS and not call.distinct and certain

    def error(self, call: tree.AggregateCall, error: tree.Expression) -> tree.Expression:
        """Return the error of a call's argument; exact values have the error 0 here."""
        return tree.operand(0.0) if error == EXACT and not is_harmless(self.source, call) else error

    def of_results(self) -> Presence:
        """Return the presence of results by key: one of their groups surely has rows."""
        most = tree.AggregateCall("max", (self.presence.column,), type=tree.DOUBLE)
        return Presence(self._hidden(most), self.presence.far)

    def wider(self, measure: algebra.Measure, ends: Ends | None) -> Ends | None:
        """Return the ends of a measure, with how far its results for other sets of groups are."""
        call = measure.call
        if is_harmless(self.source, call):
            return ends
        bounds = self._bounds(call)
        if bounds is None:
            least = tree.AggregateCall("min", (self.presence.column,), type=tree.DOUBLE)
            return unsure_ends(ends, self._hidden(least))
        low, high = (self._hidden(bound).to(tree.DOUBLE) for bound in bounds)
        value = measure.field.ref.to(tree.DOUBLE)
        below = tree.scalar("greatest", or_zero(value - low), 0.0)
        above = tree.scalar("greatest", or_zero(high - value), 0.0)
        return Ends(below, above) if ends is None else Ends(ends.below + below, ends.above + above)

    def _bounds(
        self, call: tree.AggregateCall
    ) -> tuple[tree.AggregateCall, tree.AggregateCall] | None:
        """Return a call with the least and one with the largest result; None if unknown."""
        sure = self.presence.column.ge(0.5)
        if call.distinct:
            return None
        if call.function in _COUNTS:
            return self._filtered(call, sure), call
        argument = call.args[0]
        if call.function not in {*_INTERNAL, "sum"} or not _is_number(argument):
            return None
        error = self.source.error_in_total(argument)
        if error == NAN:
            return None
        low, high = self._reach(argument, error)
        return self._with_others_at(call, low, "min"), self._with_others_at(call, high, "max")

    def _reach(
        self, argument: tree.Expression, error: tree.Expression
    ) -> tuple[tree.Expression, tree.Expression]:
        """Return the least and the largest true value that a group may have, if it has rows."""
        number = argument.to(tree.DOUBLE)
        away = tree.operand(0.0) if error == EXACT else error * self.presence.far
        biased = self.source.ends(argument) or Ends(NOTHING, NOTHING)
        low: tree.Expression = number - away - biased.below
        high: tree.Expression = number + away + biased.above
        certain = self.range_of(argument)
        if isinstance(certain.lo, Fraction):
            low = tree.scalar("greatest", low, float(certain.lo))
        if isinstance(certain.hi, Fraction):
            high = tree.scalar("least", high, float(certain.hi))
        return low, high

    def _with_others_at(
        self, call: tree.AggregateCall, end: tree.Expression, extreme: str
    ) -> tree.AggregateCall:
        """Return the call with an extreme `end` for each group that may have no rows."""
        sure, number = self.presence.column.ge(0.5), call.args[0].to(tree.DOUBLE)
        if call.function == "sum":
            least = "least" if extreme == "min" else "greatest"
            value = tree.when(sure, number, tree.scalar(least, end, 0.0))
        else:
            farthest = self._over_groups(extreme, tree.when(sure, number, end), call.filter)
            value = tree.when(sure, number, farthest)
        order = tuple(
            replace(key, expression=value) if key.expression == call.args[0] else key
            for key in call.order_by
        )
        args = (value, *call.args[1:])
        return replace(call, args=args, order_by=order, type=tree.DOUBLE)

    def _filtered(self, call: tree.AggregateCall, sure: tree.Expression) -> tree.AggregateCall:
        conditions = (sure,) if call.filter is None else (sure, call.filter)
        return replace(call, filter=both(conditions))

    def _over_groups(
        self, function: str, value: tree.Expression, condition: tree.Expression | None
    ) -> tree.Ref:
        """Return a window: an extreme over all rows of the same result, or of several."""
        keys = () if self.relation.sets else self.relation.keys
        by = tuple(key.expression for key in keys)
        column = self.identities.field("present", tree.DOUBLE)
        window = tree.WindowCall(function, (value,), by, type=tree.DOUBLE, filter=condition)
        self.below.append(algebra.WindowItem(column, window))
        return tree.Ref(column.id, tree.DOUBLE)

    def _hidden(self, call: tree.AggregateCall) -> tree.Ref:
        column = self.identities.field("present", call.type)
        self.extra.append(algebra.Measure(column, call))
        return tree.Ref(column.id, call.type)


def _is_number(argument: tree.Expression) -> bool:
    kind = value_type(argument)
    return kind is not None and kind.is_numeric
