"""Errors of numbers that noise selects: the first rows by a noisy number, and noisy extremes.

Of K nearly equal numbers the largest k are those whose noise is largest. An interval that ignores
this selection misses more often than 5 %. The errors of a selected number grow, until a share of
0.05·k/K of the noise lies beyond its upper end: then the K numbers send 0.05·k numbers beyond it on
average, so that 5 % of the selected ones are missed (Benjamini and Yekutieli 2005, "False coverage
rate"). A plain interval leaves 2.5 % beyond its upper end, so errors grow only where k < K/2. K
counts the released rows within two half-widths of the cut, and k those of them that are selected.
These half-widths are grown as if all rows were near: the noise at the cut may have grown as much.
Rows further away are first or last with any likely noise.

This is post-processing: PRIVACY.md R66.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

from dpsql.compiler.errors.bias_ends import Reach
from dpsql.compiler.errors.expression_errors import NAN
from dpsql.compiler.errors.noisy_columns import Traced
from dpsql.compiler.errors.outputs import EXACT
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Item, Project, Relation, Sort, Window, WindowItem
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import DOUBLE, INTEGER, Expression, WindowCall, scalar, when

_SQUARE_GROWS = 0.48
_LONG_GROWS = 1 / log(20)


@dataclass(frozen=True, slots=True)
class Selection:
    """Wider errors for selected numbers.

    `reach` has half an interval over a standard error, for noise without `long_tails` (Laplace) and
    with them. Before any data is seen no number is `selected`: all are expected to be far apart.
    """

    reach: Reach = Reach(0.0, 0.0)
    long_tails: bool = True
    selected: bool = True

    def is_near(
        self, value: Expression, cut: Expression, error: Expression, rows: Expression
    ) -> Expression:
        """Return 1 where a row is within two half-widths of the cut, else 0. The half-widths are
        those of one selected row of `rows`.
        """
        apart = scalar("abs", value.to(DOUBLE) - cut)
        half = error * self.factor(rows) * self.reach.width
        return when(apart.le(half * 2.0), 1.0, 0.0)

    def factor(self, rivals: Expression) -> Expression:
        """Return the factor of the errors, with `rivals` competing rows for each selected one.

        Laplace: the quantile is ln(10r)/ln 20 times the one of r = 2. Normal distribution: its
        square grows by less than 0.48·ln(r/2) up to r = 50,000.
        """
        more = scalar("ln", scalar("greatest", scalar("coalesce", rivals / 2.0, 1.0), 1.0))
        if self.long_tails:
            return more * _LONG_GROWS + 1.0
        return scalar("sqrt", more * _SQUARE_GROWS + 1.0)


def error_of_extreme(
    error: Expression,
    rivals: Expression,
    named: Callable[[str, Expression], Expression],
    selection: Selection,
) -> Expression:
    """Return the error of an extreme of several numbers; `rivals` is 1 for each rival."""
    largest = named("max", error)
    return largest * selection.factor(named("sum", rivals)) if selection.selected else largest


def widen_first(
    source: Traced, sort: Sort, count: int, selection: Selection, identities: Identities
) -> Traced:
    """Return the rows with wider errors where noise selects the first `count` of them.

    It widens nothing where the first sort key is exact.
    """
    first = sort.keys[0].expression
    bases, error = source.bases(first), source.error(first)
    if not (bases and selection.selected) or error in (EXACT, NAN):
        return source
    rank = identities.field("rank", INTEGER)
    names = ("cut", "rows", "rivals", "taken", "factor")
    cut, number_of, rivals, taken, factor = (identities.field(name, DOUBLE) for name in names)
    number = WindowCall("row_number", (), (), sort.keys, type=INTEGER)
    last = when(rank.ref.eq(count), first.to(DOUBLE), None)
    near = selection.is_near(first, cut.ref, error, number_of.ref / float(max(count, 1)))
    near_and_taken = when(rank.ref.le(count), near, 0.0)
    rows: Relation = Window(source.relation, (WindowItem(rank, number),))
    of_all = WindowItem(number_of, _over_all("sum", when(first.is_null(), 0.0, 1.0)))
    rows = Window(rows, (WindowItem(cut, _over_all("max", last)), of_all))
    of_rivals = WindowItem(rivals, _over_all("sum", near))
    rows = Window(rows, (of_rivals, WindowItem(taken, _over_all("sum", near_and_taken))))
    grown = selection.factor(rivals.ref / scalar("nullif", taken.ref, 0.0))
    widened = Item(factor, when(near.eq(1.0), grown, 1.0))
    rows = Project(rows, (*(f.item for f in source.relation.fields), widened))
    moved = {n for n, o in source.origin.items() for b in bases if not o.is_apart(source.origin[b])}
    moved.update(bases)

    errors = source.deviation.items()
    return replace(
        source.over(rows),
        deviation={n: e * factor.ref if e is not None and n in moved else e for n, e in errors},
        alone={n: e * factor.ref if n in moved else e for n, e in source.alone.items()},
    )


def _over_all(function: str, argument: Expression) -> WindowCall:
    return WindowCall(function, (argument,), type=DOUBLE)
