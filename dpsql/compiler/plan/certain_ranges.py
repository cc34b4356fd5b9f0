"""Ranges in which the true values of released numbers lie, by the text and the policy.

A range is about the value without noise, so no condition on noisy numbers narrows it. It starts at
the measures of blocks and follows the outer query, by the rules of `dpsql.functions`.

It reads the plan alone: PRIVACY.md R108.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import cast

from dpsql import functions
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Refused
from dpsql.model.intervals import EVERYTHING, Facts, Interval
from dpsql.model.walk import inputs

COUNTS = Interval(Fraction(0))
"""Range of a number of rows."""
_SAME = frozenset("min max any_value first last avg lag lead first_value last_value".split())
"""Aggregates and windows with values within the range of their argument."""
_NO_LESS = frozenset({"nullif", "greatest"})
"""Functions around a divisor that is NULL, or no less than it was, and so makes no share larger."""


_WITH_DEFAULT = 3
"""Number of arguments of LAG and LEAD with a value for rows that do not exist."""


@dataclass(frozen=True, slots=True)
class CertainNumbers:
    """The `ranges` of measures by the ids of their fields, and pairs of a part and its `whole`.

    A part is never negative and never larger than its whole.
    """

    ranges: Mapping[int, Interval] = field(default_factory=dict)
    shares: frozenset[tuple[int, int]] = frozenset()


class CertainRanges:
    """The ranges of an outer query's columns, and of expressions over them."""

    def __init__(self, outer: algebra.Relation, numbers: CertainNumbers) -> None:
        self._ranges = dict(numbers.ranges)
        self._same: dict[int, int] = {}
        self._shares = set(numbers.shares)
        self._read(outer)

    def range_of(self, expression: tree.Expression) -> Interval:
        """Return the range of an expression; unbounded where no rule gives an end."""
        return self._facts(expression).interval

    def _read(self, relation: algebra.Relation) -> None:
        for source in inputs(relation):
            self._read(source)
        for field_id, interval in self._defined(relation):
            self._ranges.setdefault(field_id, interval)

    def _defined(self, relation: algebra.Relation) -> Iterator[tuple[int, Interval]]:
        match relation:
            case algebra.Project():
                for item in relation.items:
                    if item.field.id not in self._ranges and isinstance(item.expression, tree.Ref):
                        self._same[item.field.id] = self._origin(item.expression.id)
                    yield item.field.id, self.range_of(item.expression)
            case algebra.Aggregate():
                for key in relation.keys:
                    yield key.field.id, self.range_of(key.expression)
                for measure in relation.measures:
                    yield measure.field.id, self._of_rows(measure.call)
            case algebra.Window():
                for each in relation.items:
                    yield each.field.id, self._of_rows(each.call)
                    self._note_share(each)
            case algebra.Union():
                for new, *both in zip(
                    relation.fields, relation.left.fields, relation.right.fields, strict=True
                ):
                    left, right = (self.range_of(each.ref) for each in both)
                    yield new.id, left.union(right)
            case _:
                return

    def _of_rows(self, call: tree.AggregateCall | tree.WindowCall) -> Interval:
        """Return the range of an aggregate or window over released rows."""
        if call.function == "count":
            return COUNTS
        if not call.args or not call.type.is_numeric:
            return EVERYTHING
        argument = self.range_of(call.args[0])
        if call.function in _SAME and len(call.args) < _WITH_DEFAULT:
            return argument
        return range_of_sum(argument) if call.function == "sum" else EVERYTHING

    def _note_share(self, item: algebra.WindowItem) -> None:
        """Note that a number is part of the total of all rows of its partition."""
        call = item.call
        if call.function != "sum" or call.order_by or call.frame or call.filter or call.distinct:
            return
        (argument,) = call.args
        if isinstance(argument, tree.Ref) and self.range_of(argument).is_nonnegative:
            self._shares.add((self._origin(argument.id), item.field.id))

    def _origin(self, column: int) -> int:
        return self._same.get(column, column)

    def _facts(self, expression: tree.Expression) -> Facts:
        match expression:
            case tree.Literal():
                return functions.literal_facts(expression)
            case tree.Ref(id=column, type=kind):
                return Facts(kind, self._ranges.get(column, EVERYTHING))
            case tree.Cast(arg=arg):
                return self._of_call(expression, (arg,))
            case tree.Call(args=args):
                return self._of_call(expression, args)
            case tree.AggregateCall(type=kind) | tree.WindowCall(type=kind):
                return Facts(kind)
            case _:
                return Facts(tree.NULL)

    def _of_call(self, expression: tree.Call | tree.Cast, args: Sequence[tree.Expression]) -> Facts:
        arguments = tuple(map(self._facts, args))
        try:
            facts = functions.facts(expression, arguments, 2)
        except Refused:  # a stated error is no function
            return Facts(expression.type)
        if isinstance(expression, tree.Call) and expression.function == "div":
            part, whole = args
            share = self._of_quotient(part, whole)
            return Facts(expression.type, facts.interval.intersect(share))
        return facts

    def _of_quotient(self, part: tree.Expression, whole: tree.Expression) -> Interval:
        """Return the range of a quotient that is a number: of a share, or by its sign."""
        if not all(self.range_of(side).is_nonnegative for side in (part, whole)):
            return EVERYTHING
        (times, above), (over, below) = _scaled(part), _scaled(whole, divides=True)
        pair = tuple(map(self._origin, (above, below)))
        is_share = pair in self._shares or pair[0] == pair[1] >= 0
        return Interval(Fraction(0), times / over if is_share and over > 0 else None)


def _scaled(expression: tree.Expression, *, divides: bool = False) -> tuple[Fraction, int]:
    """Return a column and a constant factor of an expression; column -1 if it is no such product.

    >>> _scaled(tree.Ref(3, tree.INTEGER) * 100)
    (Fraction(100, 1), 3)
    """
    match expression:
        case tree.Ref(id=column):
            return Fraction(1), column
        case tree.Cast(arg=tree.Ref() as arg, type=kind) if (
            arg.type == tree.INTEGER or kind == tree.DOUBLE
        ):
            return _scaled(arg)
        case tree.Call(function=name, args=(arg, *_)) if name in _NO_LESS and divides:
            return _scaled(arg, divides=True)
        case tree.Call(function="mul", args=(a, b)):
            for number, other in ((a, b), (b, a)):
                plain = number.arg if isinstance(number, tree.Cast) else number
                facts = functions.literal_facts(plain) if isinstance(plain, tree.Literal) else None
                if facts is not None and isinstance(facts.interval.lo, Fraction):
                    times, column = _scaled(other, divides=divides)
                    return facts.interval.lo * times, column
    return Fraction(1), -1


def range_of_sum(argument: Interval) -> Interval:
    """Return the range of a sum of any number of values: its sign.

    >>> range_of_sum(Interval(Fraction(2), Fraction(9)))
    Interval(lo=Fraction(0, 1), hi=None)
    """
    lo, hi = cast("Fraction | None", argument.lo), cast("Fraction | None", argument.hi)
    return Interval(
        Fraction(0) if lo is not None and lo >= 0 else None,
        Fraction(0) if hi is not None and hi <= 0 else None,
    )
