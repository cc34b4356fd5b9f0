"""Quantiles of one histogram that are read from a tree, where separate choices have larger rank
errors.

k choices share the budget that the tree has alone. MIN, MAX and other ends of the same values are
read from it too, where that is closer. Errors are compared as root mean squares over the requested
quantiles, in rows. Equal values in adjacent rows reduce both errors alike.

Proof (PRIVACY.md R51). The nodes of all levels are one measurement: a unit moves as many groups as
there are levels, each by its rows at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from math import sqrt

from dpsql.accountants import Allowance
from dpsql.compiler.calibrate.choices import Payer, choice, expected_error
from dpsql.compiler.calibrate.splitting import Part
from dpsql.compiler.plan.lattices import Choice, ChoiceQuery, Histogram, TreeRelease
from dpsql.compiler.resolve.scopes import Identities
from dpsql.mechanisms import margin, standard_deviation
from dpsql.mechanisms.count_tree import Shape, best_shape, reserve
from dpsql.mechanisms.scores import Rank
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Noise, Sensitivity


@dataclass(frozen=True, slots=True)
class HistogramQueries:
    """The histogram queries of a block with their columns: single choices, and trees of quantiles.

    Each tree has a list of `halves`, columns for half-widths of its quantiles' intervals, or none.
    """

    single: Mapping[ChoiceQuery, Field]
    trees: tuple[Mapping[ChoiceQuery, Field], ...] = ()
    halves: tuple[tuple[Field, ...], ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns: choices, then quantiles of trees, then half-widths."""
        read = chain.from_iterable(t.values() for t in self.trees)
        return (*self.single.values(), *read, *chain.from_iterable(self.halves))

    @property
    def parts(self) -> list[Part]:
        """The parts that budget shares pay for: every choice and every tree."""
        paid = [[field] for field in self.single.values()]
        paid += [list(tree.values()) for tree in self.trees]
        return [Part(tuple(f.id for f in fields), 1.0, (1.0,) * len(fields)) for fields in paid]


def planned(
    histograms: HistogramQueries, allowance: Allowance, payer: Payer, identities: Identities
) -> HistogramQueries:
    """Return the same columns, with quantiles of a histogram from a tree where its error is
    smaller.
    """
    single, trees = dict(histograms.single), []
    for histogram, queries in _families(histograms.single):
        tree = _best(histogram, allowance, payer)
        if tree.error < _error_of_choices(queries, allowance.amount, payer):
            ends = _ends(histogram, single)
            closer = _reached_sooner(ends, tree, allowance, payer)
            members = [*queries, *ends] if closer else queries
            trees.append({query: single.pop(query) for query in members})
    return HistogramQueries(
        single, tuple(trees), tuple(_halves(tree, identities) for tree in trees)
    )


def _ends(histogram: Histogram, single: Mapping[ChoiceQuery, Field]) -> Mapping[ChoiceQuery, Field]:
    """Return the extreme quantiles of the same values."""
    values = histogram.argument, histogram.condition, histogram.grid
    return {
        query: field
        for query, field in single.items()
        if _is_end(query)
        and (query.histogram.argument, query.histogram.condition, query.histogram.grid) == values
    }


def _reached_sooner(
    ends: Mapping[ChoiceQuery, Field], tree: _Best, allowance: Allowance, payer: Payer
) -> bool:
    """Test whether a tree with the whole allowance reads ends closer to them than separate choices.

    A tree counts rows, and a choice counts units, which may have several rows: that favours the
    choice.
    """
    amount = allowance.amount / (1 + len(ends))
    chosen = (choice(field, query, amount, payer).aim for query, field in ends.items())
    nearest = min((aim.rows for aim in chosen if isinstance(aim, Rank)), default=0)
    return reserve(tree.shape, margin(tree.noise)) <= nearest


def _halves(tree: Mapping[ChoiceQuery, Field], identities: Identities) -> tuple[Field, ...]:
    """Return a column for the half-width of each quantile's interval, where these are numbers."""
    return tuple(
        identities.field("half", field.type)
        for query, field in tree.items()
        if query.histogram.grid.kind.is_numeric and not _is_end(query)
    )


def trees_of(
    histograms: HistogramQueries, allowances: Sequence[Allowance], payer: Payer
) -> tuple[tuple[Choice, ...], tuple[TreeRelease, ...]]:
    """Return each choice and each tree with its own allowance."""
    if not allowances:
        return (), ()
    paid = dict(zip(histograms.single, allowances, strict=False))
    rivals = {
        query: _best(histogram, paid[query].share(Fraction(len(queries))), payer).error
        for histogram, queries in _families(paid)
        for query in queries
    }

    def with_rival(query: ChoiceQuery, field: Field) -> Choice:
        amount = paid[query].amount
        chosen = choice(field, query, amount, payer)
        if query not in rivals:
            return chosen
        expected = expected_error(query, amount, payer)
        return replace(chosen, expected=expected, otherwise=rivals[query])

    choices = tuple(with_rival(query, field) for query, field in histograms.single.items())
    rest = zip(histograms.trees, histograms.halves, allowances[len(paid) :], strict=True)
    return choices, tuple(
        replace(_tree(members, allowance, payer), halves=halves)
        for members, halves, allowance in rest
    )


@dataclass(frozen=True, slots=True)
class _Best:
    """The tree of a histogram with the least error, in rows."""

    shape: Shape
    sensitivity: Sensitivity
    noise: Noise

    @property
    def error(self) -> float:
        return self.shape.deviation * standard_deviation(self.noise)


def _best(histogram: Histogram, allowance: Allowance, payer: Payer) -> _Best:
    """Return the best tree. A row counts once per level: a unit moves levels·L0 counts by its rows.

    If its rows are in several nodes of a level, these move together no farther in L1 and L2.
    """

    def with_levels(levels: int) -> tuple[Sensitivity, Noise]:
        sensitivity = Sensitivity(levels * payer.l0, 0, histogram.rows, payer.neighbours)
        noise = payer.accountant.noise(allowance.amount, allowance.noise_delta, sensitivity)
        return sensitivity, noise

    shape = best_shape(
        histogram.grid.cells, lambda levels: standard_deviation(with_levels(levels)[1])
    )
    sensitivity, noise = with_levels(shape.levels)
    return _Best(shape, sensitivity, noise)


def _tree(members: Mapping[ChoiceQuery, Field], allowance: Allowance, payer: Payer) -> TreeRelease:
    queries = list(members)
    histogram = queries[0].histogram
    best = _best(histogram, allowance, payer)
    return TreeRelease(
        fields=tuple(members.values()),
        histogram=histogram,
        ranks=tuple(query.aim for query in queries if isinstance(query.aim, Rank)),
        shape=best.shape,
        sensitivity=best.sensitivity,
        noise=best.noise,
        error=best.error,
        otherwise=_error_of_choices(queries, allowance.amount, payer),
        reserve=reserve(best.shape, margin(best.noise)),
    )


def _is_end(query: ChoiceQuery) -> bool:
    return isinstance(query.aim, Rank) and query.aim.is_extreme


def _error_of_choices(queries: Sequence[ChoiceQuery], amount: Fraction, payer: Payer) -> float:
    """Return the root mean squared error, in rows, of choices that share the amount equally."""
    share = amount / len(queries)
    errors = [expected_error(query, share, payer) for query in queries if not _is_end(query)]
    return sqrt(sum(error**2 for error in errors) / len(errors))


def _families(queries: Iterable[ChoiceQuery]) -> list[tuple[Histogram, list[ChoiceQuery]]]:
    """Group quantiles by histogram, without MIN and MAX, which read only each unit's extreme."""
    families: dict[Histogram, list[ChoiceQuery]] = {}
    for query in queries:
        if isinstance(query.aim, Rank) and not _is_end(query):
            families.setdefault(query.histogram, []).append(query)
    return list(families.items())
