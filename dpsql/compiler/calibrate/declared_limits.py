"""What the owner declares of the rows of a block: by what they are grouped, and of their totals.

A limit of rows by one key holds for a grouping by that key and others too, whose groups are finer:
the least of those that are grouped by. One of groups holds for what is computed of its keys too,
which has no more values; by several keys a unit has as many groups as their limits multiply to.
For every other grouping the limit that names none is taken.

All rows that a unit may have add up to as many times the widest row, whatever groups they are in.

The sizes of a unit's values of a column add up to its limit at most, over all groups and whatever
rows are kept: so does the L1 norm of its totals over the groups, and no norm is larger.

Over many groups a smaller clip errs less: the L2 norm is far below what they add up to, and what is
cut is spread. There a vote finds it, of no more than the limit.

Proof (PRIVACY.md R74). All of them are clips: SQL keeps so many groups and clips totals. That they
hold of the data is never used.
"""

from __future__ import annotations

from math import ceil, prod

from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.measurement_kinds import (
    AdditiveTotal,
    ClippedSum,
    Measurement,
    RowCount,
    ScaledTotal,
    UnitCount,
)
from dpsql.compiler.plan.private_plan import (
    KeyLimit,
    PrivateBlock,
    TotalLimit,
    least,
)
from dpsql.model.algebra import Aggregate, Project, Relation
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import Expression, Ref
from dpsql.model.vocabulary import Norm
from dpsql.model.walk import composed, inputs, refs

_SPREAD_GROUPS = 8
"""From here on what a unit adds is spread, and so is what is cut of it."""
WIDEST_TOTAL = 2**54
"""Steps of a unit's total beyond which it is cut, unless one row has more."""
_LARGEST_NORM = 2**62
"""Steps that a norm has fewer than, so that products with totals are exact."""
FINE = 10**4
"""Steps that a row's bound has at least, so that rounding toward zero loses little."""


@dataclass(frozen=True, slots=True)
class NamedLimit:
    """A declared limit (None: there is none), and what the policy calls it."""

    value: int | None
    name: str


def rows_limit(block: PrivateBlock) -> NamedLimit:
    """The most rows of one unit in a group of this grouping, as declared."""
    declared, key = block.declared, _Keys(block)
    named = [limit for limit in declared.rows_by if key.is_grouped_by(limit)]
    if not named:
        return NamedLimit(declared.rows_per_group, "max_rows_per_group")
    tightest = min(named, key=lambda limit: limit.most)
    return NamedLimit(tightest.most, f"max_rows_per_group of {tightest.name}")


def groups_limit(block: PrivateBlock) -> NamedLimit:
    """The most groups of this grouping that one unit is in, as declared."""
    others = NamedLimit(block.declared.groups_per_unit, "max_groups_per_unit")
    limits = _Keys(block).covering()
    if not limits:
        return others
    names = " and ".join(limit.name for limit in limits)
    most = NamedLimit(prod(limit.most for limit in limits), f"max_groups_per_unit of {names}")
    if len(limits) > 1 and least(most.value, others.value) != most.value:
        return others
    return most


class _Keys:
    """The keys of a block over columns of tables, through what subqueries call them."""

    def __init__(self, block: PrivateBlock) -> None:
        self._writer = Writer()
        self._writer.number(block.rows)
        self._declared = block.declared
        over = (over_tables(key.expression, block.rows) for key in block.keys)
        self._keys = [key for key in over if not refs(key) <= block.determined]
        self._texts = set(map(self._writer.write, self._keys))

    def is_grouped_by(self, limit: KeyLimit) -> bool:
        """Whether one of the keys is that of the limit."""
        return self._is(limit, self._texts)

    def covering(self) -> tuple[KeyLimit, ...]:
        """Limits of groups by all of which every key is determined; none if there are no such."""
        limits: dict[KeyLimit, None] = {}
        for key in self._keys:
            exact = [x for x in self._declared.groups_by if self._is(x, {self._writer.write(key)})]
            columns = [x for x in self._declared.groups_by if isinstance(x.key, Ref)]
            read = [x for x in columns if refs(x.key) <= refs(key)]
            if not exact and not refs(key) <= frozenset().union(*(refs(x.key) for x in read)):
                return ()
            limits |= dict.fromkeys(exact[:1] or read)
        return tuple(limits)

    def _is(self, limit: KeyLimit, texts: set[str]) -> bool:
        there = refs(limit.key) <= self._writer.numbers.keys()
        return there and self._writer.write(limit.key) in texts


def over_tables(expression: Expression, rows: Relation) -> Expression:
    """The expression over columns of tables, through what subqueries call them.

    What they compute by aggregates stays, and so does all where it would be too long.
    """
    match rows:
        case Project(items=items) | Aggregate(keys=items):
            below = composed(expression, {item.field.id: item.expression for item in items})
            if below is None:
                return expression
            expression = below
        case _:
            pass
    for source in inputs(rows):
        expression = over_tables(expression, source)
    return expression


@dataclass(slots=True)
class DeclaredTotals:
    """The declared limits of one unit's totals in a block of up to so many `groups` of one unit.

    None `applies` where a unit has one row, or where rows belong to several people. Those that some
    measurement is clipped to are `binding`. Units can be `polled`, or not.
    """

    block: PrivateBlock
    groups: int
    norm: Norm
    applies: bool
    polled: bool
    binding: dict[TotalLimit, None] = field(default_factory=dict)

    @property
    def is_spread(self) -> bool:
        """Whether a vote may find a clip far below what a unit's totals add up to."""
        return self.polled and self.groups >= _SPREAD_GROUPS

    def limited(self, part: Measurement) -> Measurement:
        """The same sum with the totals of each unit clipped as declared, if it has less noise so.

        Several groups are scaled as a whole; of one the total is clipped.
        """
        limit = self._limit(part)
        if limit is None:
            return part
        assert isinstance(part, ClippedSum)
        most = ceil(limit.most / part.lattice.step)
        largest = max(abs(part.total_lower), abs(part.total_upper))
        many = self.groups if self.norm is Norm.L1 else self.groups**0.5
        if most >= largest * many:
            return part
        self.binding[limit] = None
        if self.groups == 1:
            return clipped(part, most)
        digits = more_digits(part, widest_row(part))
        total = clipped(within_integers(part), most)
        return ScaledTotal(total, self.norm, most * part.lattice.base**digits, digits)

    def of_rows(self, part: Measurement) -> Measurement:
        """The same total scaled to what all rows that a unit may have add up to, if it has less
        noise so than where as many may be in each of its groups.
        """
        rows = self.block.declared.rows_per_unit
        if rows is None or not self.applies or not isinstance(part, RowCount | ClippedSum):
            return part
        row = _most_of_row(part)
        digits = more_digits(part, row)
        bound = _norm_of_rows(part, self.norm, rows, part.lattice.base**digits)
        largest = max(abs(part.total_lower), abs(part.total_upper))
        many = self.groups if self.norm is Norm.L1 else self.groups**0.5
        if self.groups == 1 or rows * row >= largest * many or bound >= _LARGEST_NORM:
            return part
        total = within_integers(part) if isinstance(part, ClippedSum) else part
        return ScaledTotal(total, self.norm, bound, digits)

    def _limit(self, part: Measurement) -> TotalLimit | None:
        """That of the column whose values are summed as they are."""
        match part:
            case ClippedSum(argument=argument, centre=0) if self.applies:
                column = over_tables(argument, self.block.rows)
                if not isinstance(column, Ref):
                    return None
                totals = (t for t in self.block.declared.totals if t.column == column.id)
                return next(totals, None)
            case _:
                return None


def clipped(part: ClippedSum, most: int) -> ClippedSum:
    """The sum with totals of at most so many steps in size."""
    lower, upper = max(-most, part.total_lower), min(most, part.total_upper)
    return replace(part, total_lower=lower, total_upper=upper)


def is_of_rows(query: ScaledTotal, rows: int) -> bool:
    """Whether totals are scaled to what so many rows add up to: see `DeclaredTotals`."""
    if isinstance(query.total, UnitCount):
        return False
    return query.bound == _norm_of_rows(query.total, query.norm, rows, query.steps)


def _norm_of_rows(part: AdditiveTotal, norm: Norm, rows: int, steps: int) -> int:
    """What so many rows add up to; a little more where roots are rounded up, to cut nothing."""
    most = rows * _most_of_row(part) * steps
    return most if norm is Norm.L1 else most + (most >> 12) + 2


def _most_of_row(part: AdditiveTotal) -> int:
    return widest_row(part) if isinstance(part, ClippedSum) else 1


def widest_row(part: ClippedSum) -> int:
    """The most steps that one row adds."""
    return max(abs(part.lower - part.centre), abs(part.upper - part.centre))


def within_integers(part: ClippedSum) -> ClippedSum:
    """The measurement with totals that exact integers hold."""
    most = max(widest_row(part), WIDEST_TOTAL)
    lower, upper = max(-most, part.total_lower), min(most, part.total_upper)
    return replace(part, total_lower=lower, total_upper=upper)


def more_digits(part: AdditiveTotal | UnitCount, row: int) -> int:
    """How many more digits the grid of a scaled total has than that of rows of so many steps."""
    most, base, digits = max(-part.total_lower, part.total_upper), part.lattice.base, 0
    row = max(row, 1)  # rows that add nothing have no grid
    while row * base**digits < FINE and most * base ** (digits + 1) < WIDEST_TOTAL:
        digits += 1
    return digits
