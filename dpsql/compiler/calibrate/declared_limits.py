"""The owner's declarations about the rows of a block: by its grouping, and of totals.

A limit of rows by one key holds for any grouping by that key and others, which has finer groups:
the least such limit is used. A limit of groups holds for expressions over its keys too, which have
no more values. For several keys, the limits on groups multiply. For every other grouping the limit
without a grouping applies.

All rows that a unit may have add up to at most their number times the widest row, in any groups.
The absolute values of a unit in a column add up to at most its limit, over all groups and for any
kept rows. So does the L1 norm of its totals over the groups, and no norm is larger.

Over many groups a smaller clipping bound errs less: the L2 norm is far below the total, and the
clipped amount is spread. There a noisy histogram finds the bound, up to the limit.

Proof (PRIVACY.md R74). All of them are enforced: SQL limits groups and clips totals. It is never
assumed that they hold in the data.
"""

from __future__ import annotations

from math import ceil, prod

from dpsql.compiler.plan import private_plan
from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.measurement_kinds import (
    AdditiveTotal,
    ClippedSum,
    Measurement,
    RowCount,
    ScaledTotal,
    UnitCount,
)
from dpsql.model.algebra import Aggregate, Project, Relation
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import Expression, Ref
from dpsql.model.vocabulary import Norm
from dpsql.model.walk import composed, inputs, refs

_SPREAD_GROUPS = 8
"""Number of groups from which a unit's contribution, and the clipped amount, are spread."""
WIDEST_TOTAL = 2**54
"""Largest total of a unit in steps, unless one row has more. Larger totals are clipped."""
_LARGEST_NORM = 2**62
"""Upper limit of norms in steps, so that products with totals are exact."""
FINE = 10**4
"""Least number of steps in a row's bound, so that rounding toward zero loses little."""


@dataclass(frozen=True, slots=True)
class NamedLimit:
    """A declared limit (None: there is none), and its name in the policy."""

    value: int | None
    name: str


def rows_limit(block: private_plan.PrivateBlock) -> NamedLimit:
    """Return the declared most rows of one unit in a group of this grouping."""
    declared, named = block.declared, list[private_plan.KeyLimit]()
    if declared.rows_by:
        named = list(filter(_Keys(block).is_grouped_by, declared.rows_by))
    if not named:
        return NamedLimit(declared.rows_per_group, "max_rows_per_group")
    tightest = min(named, key=lambda limit: limit.most)
    return NamedLimit(tightest.most, f"max_rows_per_group of {tightest.name}")


def groups_limit(block: private_plan.PrivateBlock) -> NamedLimit:
    """Return the declared most groups of this grouping for one unit."""
    others = NamedLimit(block.declared.groups_per_unit, "max_groups_per_unit")
    limits = _Keys(block).covering()
    if not limits:
        return others
    names = " and ".join(limit.name for limit in limits)
    most = NamedLimit(prod(limit.most for limit in limits), f"max_groups_per_unit of {names}")
    if len(limits) > 1 and private_plan.least(most.value, others.value) != most.value:
        return others
    return most


class _Keys:
    """The keys of a block as expressions over columns of tables, without subquery names."""

    def __init__(self, block: private_plan.PrivateBlock) -> None:
        self._writer = Writer()
        self._writer.number(block.rows)
        self._declared = block.declared
        over = (over_tables(key.expression, block.rows) for key in block.keys)
        self._keys = [key for key in over if not refs(key) <= block.determined]
        self._texts = set(map(self._writer.write, self._keys))

    def is_grouped_by(self, limit: private_plan.KeyLimit) -> bool:
        """Test whether one of the keys is that of the limit."""
        return self._is(limit, self._texts)

    def covering(self) -> tuple[private_plan.KeyLimit, ...]:
        """Return limits of groups that together determine every key; empty if there are none."""
        limits: dict[private_plan.KeyLimit, None] = {}
        for key in self._keys:
            exact = [x for x in self._declared.groups_by if self._is(x, {self._writer.write(key)})]
            columns = [x for x in self._declared.groups_by if isinstance(x.key, Ref)]
            read = [x for x in columns if refs(x.key) <= refs(key)]
            if not exact and not refs(key) <= frozenset().union(*(refs(x.key) for x in read)):
                return ()
            limits |= dict.fromkeys(exact[:1] or read)
        return tuple(limits)

    def _is(self, limit: private_plan.KeyLimit, texts: set[str]) -> bool:
        there = refs(limit.key) <= self._writer.numbers.keys()
        return there and self._writer.write(limit.key) in texts


def over_tables(expression: Expression, rows: Relation) -> Expression:
    """Rewrite the expression over columns of tables, without subquery names.

    Results of aggregates in subqueries stay, and so does an expression that would grow too long.
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
    """The declared limits on one unit's totals in a block, where a unit is in at most `groups`
    groups.

    None `applies` where a unit has one row, or where rows belong to several units. Limits that clip
    some measurement are `binding`. `polled` says whether units can be polled.
    """

    block: private_plan.PrivateBlock
    groups: int
    norm: Norm
    applies: bool
    polled: bool
    binding: dict[private_plan.TotalLimit, None] = field(default_factory=dict)

    @property
    def is_spread(self) -> bool:
        """True if a noisy histogram may find a bound far below the limit of a unit's totals."""
        return self.polled and self.groups >= _SPREAD_GROUPS

    def limited(self, part: Measurement) -> Measurement:
        """Return the sum with the totals of each unit clipped as declared, if that gives less
        noise.

        Over several groups all totals of a unit are scaled together; in one group the total is
        clipped.
        """
        if not isinstance(part, ClippedSum) or part.centre or not self.applies:
            return part
        column, totals = over_tables(part.argument, self.block.rows), self.block.declared.totals
        id_ = column.id if isinstance(column, Ref) else None
        limit = next((total for total in totals if total.column == id_), None)
        if limit is None:
            return part
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
        """Return the total scaled to the sum of all rows that a unit may have, if that gives less
        noise.

        The alternative allows as many rows in each of its groups.
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


def clipped(part: ClippedSum, most: int) -> ClippedSum:
    """Return the sum with totals of at most `most` steps in absolute value."""
    lower, upper = max(-most, part.total_lower), min(most, part.total_upper)
    return replace(part, total_lower=lower, total_upper=upper)


def is_of_rows(query: ScaledTotal, rows: int) -> bool:
    """Test whether totals are scaled to the sum of `rows` rows: see `DeclaredTotals`."""
    if isinstance(query.total, UnitCount):
        return False
    return query.bound == _norm_of_rows(query.total, query.norm, rows, query.steps)


def _norm_of_rows(part: AdditiveTotal, norm: Norm, rows: int, steps: int) -> int:
    """Return the norm of `rows` rows; slightly more for L2, where roots are rounded up, to clip
    nothing.
    """
    most = rows * _most_of_row(part) * steps
    return most if norm is Norm.L1 else most + (most >> 12) + 2


def _most_of_row(part: AdditiveTotal) -> int:
    return widest_row(part) if isinstance(part, ClippedSum) else 1


def widest_row(part: ClippedSum) -> int:
    """Return the most steps that one row adds."""
    return max(abs(part.lower - part.centre), abs(part.upper - part.centre))


def within_integers(part: ClippedSum) -> ClippedSum:
    """Return the measurement with totals that exact integers can hold."""
    most = max(widest_row(part), WIDEST_TOTAL)
    lower, upper = max(-most, part.total_lower), min(most, part.total_upper)
    return replace(part, total_lower=lower, total_upper=upper)


def more_digits(part: AdditiveTotal | UnitCount, row: int) -> int:
    """Return the additional digits of a scaled total's grid, for rows of at most `row` steps."""
    most, base, digits = max(-part.total_lower, part.total_upper), part.lattice.base, 0
    row = max(row, 1)  # rows that add 0 have no grid
    while row * base**digits < FINE and most * base ** (digits + 1) < WIDEST_TOTAL:
        digits += 1
    return digits
