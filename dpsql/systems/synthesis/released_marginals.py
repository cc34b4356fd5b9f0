"""Released marginals of synthetic rows: noisy tables of columns, and of selected pairs.

Pairs are selected one after another. The score of a pair is the distance of its table from the
current model, minus the expected effect of noise. First, pairs join columns into a tree. Then pairs
follow that the model fits worst (McKenna, Mullins, Sheldon and Miklau 2022, AIM), as long as the
cliques of the model are small.

Proof (PRIVACY.md R78, R86). The next selection and measurement follow from earlier releases. The
total is at most the charge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import pi, prod, sqrt
from typing import TypeAlias

import numpy as np

from dpsql import accountants, mechanisms
from dpsql.compiler.plan.prepared import Prepared
from dpsql.consistency.drawn_rows import PublicDice, drawn
from dpsql.consistency.graphical_model import Fit, GraphicalModel, NoisyTable, Tables, fitted
from dpsql.engines import Stop
from dpsql.engines.limited import limited
from dpsql.mechanisms.pair_choices import Pair, components, score
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.ticking import tick
from dpsql.model.vocabulary import Exact, Noisy
from dpsql.preparation.compilation import Compiler
from dpsql.systems.synthesis.synthesis_plan import (
    MOST_CLIQUE,
    SynthesisPlan,
    bound_loss,
    release_of,
    require_no_more,
)
from dpsql.systems.synthesis.synthetic_columns import Codes, cells, together
from dpsql.vault.joint_run import JointRun

FREQUENT = 3
"""Threshold in standard deviations of noise above which a cell has its own code."""

MOST_LOOKED_AT = 100_000
"""Number of sampled rows of a model for estimates of pair tables."""

Estimates: TypeAlias = Callable[[Pair], np.ndarray]
"""Function that returns the estimated table of a pair, in whole rows."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedMarginals:
    """Released tables: by the cells of each column, and by codes for each selected pair.

    `deviations` are the standard deviations of the noise in `singles` and in `pairs`.
    """

    singles: tuple[np.ndarray, ...]
    pairs: Mapping[Pair, np.ndarray]
    deviations: tuple[float, float]

    @property
    def codes(self) -> tuple[Codes, ...]:
        """Codes of the cells of every column."""
        least = FREQUENT * self.deviations[0]
        return tuple(together(counts, least) for counts in self.singles)

    @property
    def total(self) -> float:
        """Noisy number of rows from all columns, at least 1."""
        weights = np.array([1 / len(counts) for counts in self.singles])
        sums = np.array([counts.sum() for counts in self.singles])
        return max(float(weights @ sums / weights.sum()), 1.0)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column."""
        return tuple(len(set(codes)) for codes in self.codes)

    def shape(self, pair: Pair) -> tuple[int, ...]:
        """Return the shape of a pair's table by codes."""
        return tuple(self.sizes[n] for n in pair)


def released(compiler: Compiler, run: JointRun, plan: SynthesisPlan) -> tuple[Noisy, ...]:
    """Measure selected values, tables of single columns, selected pairs, and their tables.

    Raises `Refused` if they would lose more than was charged.
    """
    keys = tuple(run.noisy(prepared, run.integers(prepared)) for prepared in plan.keys.values())
    plan = over_selected(compiler, plan, keys, run.stop)
    _require_paid(plan, tuple(plan.pairs.values()))
    singles = tuple(run.noisy(prepared, run.integers(prepared)) for prepared in plan.singles)
    first = marginals_of(plan, (*keys, *singles, Noisy((), ())))
    pairs = plan.fixed if plan.choice is None else tuple(plan.pairs)
    counts = {pair: _of_codes(compiler, plan, first.codes, pair, run.stop) for pair in pairs}
    _require_paid(plan, tuple(counts.values()))
    exact = {pair: run.integers(prepared) for pair, prepared in counts.items()}
    measured = {pair: run.noisy(counts[pair], exact[pair]) for pair in plan.fixed}
    tables = {pair: _table(own, first, pair) for pair, own in exact.items()}
    fit, dice, choice = fit_to(first), PublicDice(plan.cost.question), plan.choice
    while choice is not None and len(measured) < plan.edges:
        candidates, expected = _joining(first.sizes, tuple(measured)), _independent(fit)
        if not candidates:
            with limited(run.stop, compiler.policy.limits.statement_seconds):
                candidates = _roomy(first.sizes, tuple(measured))
                fit = fit_to(_with(first, measured), fit.potentials)
                expected = _modelled(fit, first.total, dice)
        if not candidates:
            break
        scores = {p: score(tables[p], expected(p), _worth(first, p)) for p in candidates}
        pair = choice.chosen(scores, run.sampler)
        measured[pair] = run.noisy(counts[pair], exact[pair])
    chosen = Noisy(tuple(measured), ((),) * len(measured))
    return (*keys, *singles, chosen, *measured.values())


def over_selected(
    compiler: Compiler, plan: SynthesisPlan, answer: Sequence[Noisy], stop: Stop
) -> SynthesisPlan:
    """Return the plan over the values at the start of an answer; the most frequent if too many."""
    if not plan.keys:
        return plan
    values = []
    for place, noisy in zip(plan.keys, answer, strict=False):
        counts = zip(noisy.keys, noisy.parts, strict=True)
        falling = sorted(counts, key=lambda each: (-(each[1][0] or 0), str(each[0])))
        texts = [key[0] for key, _ in falling if key[0] is not None]
        values.append(tuple(sorted(texts[: plan.columns[place].valued])))
    return plan.over(compiler, values, stop)


def marginals_of(plan: SynthesisPlan, answer: Sequence[Noisy]) -> ReleasedMarginals:
    """Return the tables of an answer."""
    answer = answer[len(plan.keys) :]
    singles, edges, pairs = (
        answer[: len(plan.columns)],
        answer[len(plan.columns)].keys,
        answer[len(plan.columns) + 1 :],
    )
    tables = tuple(
        _filled(noisy, (cells(column),))
        for noisy, column in zip(singles, plan.columns, strict=True)
    )
    planned = (next(iter(plan.singles)), next(iter(plan.pairs.values()), plan.singles[0]))
    noises = [mechanisms.standard_deviation(release_of(each).noise) for each in planned]
    first = ReleasedMarginals(tables, {}, (noises[0], noises[1]))
    return _with(first, {(int(a), int(b)): own for (a, b), own in zip(edges, pairs, strict=True)})


def fit_to(marginals: ReleasedMarginals, first: Tables | None = None) -> Fit:
    """Fit the distribution of rows by codes. `first` holds initial potentials."""
    model, tables = measured_in(marginals)
    return fitted(model, tables, marginals.total, first)


def measured_in(marginals: ReleasedMarginals) -> tuple[GraphicalModel, Sequence[NoisyTable]]:
    """Return the graphical model of the pairs, and all noisy tables by codes."""
    of_single, of_pair = (deviation**2 for deviation in marginals.deviations)
    measured = []
    for place, (counts, codes) in enumerate(zip(marginals.singles, marginals.codes, strict=True)):
        by_code = (np.bincount(codes, weights=own) for own in (counts, np.ones(len(codes))))
        own, sizes = by_code
        measured.append(NoisyTable((place,), own, of_single * sizes))
    measured += [
        NoisyTable(edge, counts, np.full(counts.shape, of_pair))
        for edge, counts in marginals.pairs.items()
    ]
    return GraphicalModel.of(marginals.sizes, tuple(marginals.pairs)), measured


# --- the choice --------------------------------------------------------------------------------


def _joining(sizes: Sequence[int], edges: Sequence[Pair]) -> Sequence[Pair]:
    """Return the pairs of columns that are not yet connected."""
    parts = components(len(sizes), edges)
    return [pair for pair in combinations(range(len(sizes)), 2) if parts[pair[0]] != parts[pair[1]]]


def _roomy(sizes: Sequence[int], edges: Sequence[Pair]) -> Sequence[Pair]:
    """Return the pairs that fit into the model next to its edges."""
    tick()
    return [
        pair
        for pair in combinations(range(len(sizes)), 2)
        if pair not in edges and GraphicalModel.of(sizes, [*edges, pair]).largest <= MOST_CLIQUE
    ]


def _independent(fit: Fit) -> Estimates:
    """Return estimates under independence of all columns."""

    def estimated(pair: Pair) -> np.ndarray:
        one, other = (fit.table((place,)) for place in pair)
        return _whole(np.outer(one, other) / one.sum())

    return estimated


def _modelled(fit: Fit, total: float, dice: PublicDice) -> Estimates:
    """Return estimates from rows sampled from a model."""
    count = max(1, min(round(total), MOST_LOOKED_AT))
    rows = drawn(fit, count, dice)

    def estimated(pair: Pair) -> np.ndarray:
        shape = fit.model.shape(pair)
        places = np.ravel_multi_index([rows[n] for n in pair], shape)
        own = np.bincount(places, minlength=shape[0] * shape[1]).reshape(shape)
        return _whole(own * (total / count))

    return estimated


def _whole(table: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.rint(table).astype(np.int64)
    return result


def _worth(marginals: ReleasedMarginals, pair: Pair) -> int:
    """Return the expected L1 effect of noise alone on a pair's table."""
    cells_of_pair = prod(marginals.shape(pair))
    return round(sqrt(2 / pi) * marginals.deviations[1] * cells_of_pair)


# --- the tables --------------------------------------------------------------------------------


def _of_codes(
    compiler: Compiler, plan: SynthesisPlan, codes: Sequence[Codes], pair: Pair, stop: Stop
) -> Prepared:
    """Return the query by a pair of columns, over the released codes."""
    prepared = plan.source.counted(compiler, {place: codes[place] for place in pair}, stop)
    require_no_more(prepared, plan.pairs[pair])
    return prepared


def _require_paid(plan: SynthesisPlan, pairs: Sequence[Prepared]) -> None:
    """Raise `Refused` if the maximum number of pairs could lose more than was charged."""
    accountant = accountants.get(plan.source.payer.budget.accountant)
    first = (*plan.keys.values(), *plan.singles)
    loss = bound_loss(accountant, first, pairs, plan.choice, plan.edges)
    if not loss.is_within(plan.cost.loss):
        raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR)


def _table(counts: Exact, marginals: ReleasedMarginals, pair: Pair) -> np.ndarray:
    """Return the exact table of a pair by codes. It is used only for its score."""
    result = np.zeros(marginals.shape(pair), dtype=np.int64)
    for key, count in zip(counts.keys, counts.parts[0].tolist(), strict=True):
        if None not in key:
            result[key] = count
    return result


def _with(first: ReleasedMarginals, pairs: Mapping[Pair, Noisy]) -> ReleasedMarginals:
    """Return the marginals with tables of pairs."""
    filled = {pair: _filled(noisy, first.shape(pair)) for pair, noisy in pairs.items()}
    return replace(first, pairs=filled)


def _filled(noisy: Noisy, shape: tuple[int, ...]) -> np.ndarray:
    """Return noisy counts as a table. Keys with NULL are left out."""
    result = np.zeros(shape)
    for key, (count,) in zip(noisy.keys, noisy.parts, strict=True):
        if None not in key:
            result[key] = count
    return result
