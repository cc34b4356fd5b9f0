"""release: Exact → Noisy. Noise is added and private keys are chosen only here.

Every key of a domain is released, and draws are independent: PRIVACY.md R29, SECURITY.md S6, S10.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeAlias, assert_never

import numpy as np

from dpsql.compiler.plan import published_keys
from dpsql.compiler.plan.lattices import Lattice
from dpsql.compiler.plan.measurement_kinds import StableMean
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.engines import ScratchTable
from dpsql.mechanisms.correlated_gaussian import CorrelatedNoise
from dpsql.mechanisms.differences import differences
from dpsql.mechanisms.laws import Law
from dpsql.mechanisms.matrix_noise import MatrixNoise
from dpsql.mechanisms.stability import means, shown
from dpsql.model.vocabulary import Exact, Noise, Noisy
from dpsql.release.histogram_choices import Chooser, Columns, chosen_columns, separated

Sampler: TypeAlias = Callable[[Law, int], np.ndarray]
"""A function that draws `count` integers of a distribution: the mechanisms' sampler, or zeros in
tests.
"""


def release(
    exact: Exact, plan: BlockPlan, sampler: Sampler, chooser: Chooser | None = None
) -> Noisy:
    """Return the noisy table of a block: its measurements, then its choices, which need a
    `chooser`.

    Public keys: one row per key of the domain, in its order, whether the data has it or not.

    Private keys: those with a noisy unit count that reaches the threshold, or with a successful
    trial, ordered by key. The deciding noise is drawn for every group, the other noise for released
    groups only. Noise of different groups is independent, so the distribution is the same as with
    all noise drawn. The top keys come in the order of their choice, each with its place or
    measurements.
    """
    sums, chosen = exact, Columns()
    if plan.histograms:
        sums, cells = separated(exact, plan)
        keys = sums.keys if plan.domain is None else plan.domain

        def noised(noise: Noise, counts: np.ndarray) -> np.ndarray:
            return add_noise(counts.ravel(), noise, sampler).reshape(counts.shape)

        chosen = chosen_columns(cells, keys, plan, chooser, noised)
    match plan.keys:
        case published_keys.TopKeys():
            return _top(sums, plan, plan.keys, sampler)
        case published_keys.ListedKeys():
            return _public(sums, plan, plan.keys, sampler, chosen)
        case published_keys.ThresholdKeys(threshold=threshold, counted=counted):
            columns = _noisy(sums.parts, plan, sampler, counted)
            places = threshold.shown([columns[column] for column in counted])
            return _shown(sums, plan, places, {**columns, **chosen}, sampler)
        case published_keys.TrialKeys(trials=trials):
            counts, *parts = sums.parts
            places = np.flatnonzero(trials.shown(counts, sampler(trials.draw, len(counts))))
            return _shown(Exact(sums.keys, parts), plan, places, chosen, sampler)
        case _:
            assert_never(plan.keys)


def narrowed(plan: BlockPlan, stages: Mapping[int, ScratchTable]) -> BlockPlan:
    """Return the block without the public keys that released rows of earlier stages exclude.

    `stages` are those that the block reads.
    """
    keys = plan.keys
    match keys:
        case published_keys.ListedKeys() | published_keys.TopKeys():
            domain = keys.domain
            for place in keys.within:
                there = {row[place.column] for row in stages[place.stage].rows} - {None}
                domain = tuple(key for key in domain if key[place.key] in there)
            return replace(plan, keys=replace(keys, domain=domain))
        case published_keys.ThresholdKeys() | published_keys.TrialKeys():
            return plan
        case _:
            assert_never(keys)


def _top(exact: Exact, plan: BlockPlan, listed: published_keys.TopKeys, sampler: Sampler) -> Noisy:
    top = listed.top
    scores, *parts = [_over(listed.domain, exact, part) for part in exact.parts]
    left, chosen = top.best_first(scores.tolist()), list[int]()
    for _ in range(min(top.count, len(left))):
        place = sampler(top.law([int(scores[n]) for n in left]), 1)[0]
        chosen.append(left.pop(int(place)))
    keys = tuple(listed.domain[n] for n in chosen)
    columns = _noisy([part[chosen] for part in parts], plan, sampler)
    if listed.place is not None:
        places = range(1, len(keys) + 1)
        columns[listed.place.id] = np.array(places if top.lowest else places[::-1], dtype=object)
    return Noisy(keys, _rows(plan, columns, len(keys)))


def _over(domain: published_keys.Domain, exact: Exact, part: np.ndarray) -> np.ndarray:
    """Return a part for every public key, zero where the data lacks the key."""
    by_key = dict(zip(exact.keys, part.tolist(), strict=True))
    return np.array([int(by_key.get(key, 0)) for key in domain], dtype=object)


def _public(
    exact: Exact,
    plan: BlockPlan,
    listed: published_keys.ListedKeys,
    sampler: Sampler,
    chosen: Columns,
) -> Noisy:
    domain = listed.domain
    positions = {key: place for place, key in enumerate(domain)}
    rows = [(positions[key], n) for n, key in enumerate(exact.keys) if key in positions]
    complete = [np.zeros(len(domain), dtype=part.dtype) for part in exact.parts]
    for column, part in zip(complete, exact.parts, strict=True):
        for place, n in rows:
            column[place] = part[n]
    if listed.along:
        complete = [
            differences(column.astype(object).reshape(listed.sizes), listed.along).ravel()
            for column in complete
        ]
    if any(release_.stability is not None for release_ in plan.releases):
        columns = withheld(_noisy(with_means(complete, plan), plan, sampler), plan)
    else:
        columns = _noisy(complete, plan, sampler)
    return Noisy(domain, _rows(plan, {**columns, **chosen}, len(domain)))


def _noisy(
    parts: Sequence[np.ndarray],
    plan: BlockPlan,
    sampler: Sampler,
    only: Collection[int] | None = None,
) -> Columns:
    """Add noise to the exact parts of all releases, or of `only` these, by their ids."""
    return {
        release_.field.id: add_noise(part, release_.payment.noise, sampler)
        for release_, part in zip(plan.releases, parts, strict=True)
        if only is None or release_.field.id in only
    }


def _shown(
    exact: Exact, plan: BlockPlan, places: np.ndarray, columns: Columns, sampler: Sampler
) -> Noisy:
    """Return the groups at these places, ordered by key, and draw the releases that are still
    missing.
    """
    order = sorted(places.tolist(), key=lambda n: tuple(map(_sortable, exact.keys[n])))
    keys = tuple(exact.keys[n] for n in order)
    others = {release_.field.id for release_ in plan.releases} - columns.keys()
    shown = {column: values[order] for column, values in columns.items()}
    shown |= _noisy([part[order] for part in exact.parts], plan, sampler, others)
    return Noisy(keys, _rows(plan, shown, len(order)))


def with_means(parts: list[np.ndarray], plan: BlockPlan) -> list[np.ndarray]:
    """Return the exact parts of the releases, with means in place of the sums that become one."""
    exact = {release_.field.id: part for release_, part in zip(plan.releases, parts, strict=False)}
    columns = list(parts)
    for place, release_ in enumerate(plan.releases):
        query, test = release_.query, release_.stability
        if test is not None and isinstance(query, StableMean):
            columns[place] = means(parts[place], exact[test.count], query.steps)
    return columns


def withheld(columns: Columns, plan: BlockPlan) -> Columns:
    """Apply stability tests: a mean is None where its test fails, and of the test only one bit
    remains.
    """
    result = dict(columns)
    for release_ in plan.releases:
        query, test = release_.query, release_.stability
        if test is not None and isinstance(query, StableMean):
            ends = query.lower - query.centre, query.upper - query.centre
            bounds = ends[0] * query.steps, ends[1] * query.steps
            passed = columns[test.count] >= test.least
            result[release_.field.id] = shown(columns[release_.field.id], passed, bounds)
            result[test.count] = passed.astype(np.int64)
    return result


def add_noise(
    part: np.ndarray, noise: Noise | CorrelatedNoise | MatrixNoise, sampler: Sampler
) -> np.ndarray:
    """Add noise to integers, in Python integers wherever 64 bits might overflow."""
    if isinstance(noise, MatrixNoise):
        return noise.add(part, sampler)
    if isinstance(noise, CorrelatedNoise):
        drawn = noise.drawn(len(part), sampler)
    else:
        drawn = sampler(noise, len(part))
    if object in (part.dtype, drawn.dtype) or _near_limit(part) or _near_limit(drawn):
        part, drawn = part.astype(object), drawn.astype(object)
    total: np.ndarray = part + drawn
    return total


def _near_limit(values: np.ndarray) -> bool:
    limit = 2**62
    return len(values) > 0 and (int(values.max()) >= limit or int(values.min()) <= -limit)


def _rows(plan: BlockPlan, columns: Columns, count: int) -> tuple[tuple[int | None, ...], ...]:
    listed = [columns[column.id].tolist() for column in plan.columns]
    return tuple(zip(*listed, strict=True)) if listed else ((),) * count


def _sortable(value: Any) -> tuple[int, Any]:
    """Return a sort key: by value, then NaN, then NULL, so that the engine's order is not
    visible.
    """
    if value is None:
        return (2, 0)
    if value != value:  # noqa: PLR0124
        return (1, 0)
    return (0, value)


def in_units(value: int | None, lattice: Lattice) -> int | Decimal | float | None:
    """Convert a noisy grid integer to the units of its column; withheld values become NULL."""
    if value is None:
        return None
    if lattice.base == 10:  # noqa: PLR2004
        return Decimal(f"{value}E-{lattice.digits}") if lattice.digits else value
    return float(value * lattice.step)
