"""CORR, REGR_* and COVAR_* over rows of a model: computed from its second moments for free.

The sums of such a query over two integer columns are weighted sums of a model's moments. This needs
the same rows, the same bounds, and no NULL. It is tested on plans: a generated text asks for the
same sums over the model's rows, and sums are equal if their normal forms are. A model that may
leave out unlisted values has other rows.

No sum may have a larger error than a new measurement. Sums that share moments get a higher noise:
the square of a sum of n numbers is at most n times the sum of their squares. So no formula of them
has a larger error than stated.

Readers of the answer: PRIVACY.md R69. Equality of queries: PRIVACY.md R77. Post-processing of
moments: PRIVACY.md R82.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from dpsql.accountants.remaining import rest
from dpsql.answering.explain import explained
from dpsql.answering.from_memory import ENOUGH
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, RowCount
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.wide_tables import adds_up, written_parts
from dpsql.mechanisms import standard_deviation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.origins import DerivedColumns
from dpsql.model.query_options import Memory
from dpsql.model.tree import Kind, identifier
from dpsql.model.vocabulary import Answer, Event, Loss, Mechanism, Noisy
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.explanation import Explanation
from dpsql.preparation.question import Question
from dpsql.systems.models.model_inputs import NumberInput
from dpsql.systems.models.moments_plan import MomentsPlan
from dpsql.systems.models.released_moments import Moments
from dpsql.vault.measured_cells import gaussian
from dpsql.vault.vault import Vault

_ROUNDING = 1 / 12
"""Variance from rounding to whole steps."""


@dataclass(frozen=True, slots=True)
class PaidMoments:
    """Paid moments of a model, with its name and the plan of their measurement."""

    name: str
    plan: MomentsPlan
    moments: Moments


@dataclass(frozen=True, slots=True)
class MomentSums:
    """The sums of a query, computed from the moments of a model, and their noise."""

    of: PaidMoments
    query: Question
    prepared: Prepared
    derived: DerivedColumns
    sums: tuple[int, ...]

    def answer(self, compiler: Compiler, vault: Vault) -> Answer:
        """Return the answer to the query, free of charge."""
        answering = compiler.prepared(replace(self.query, derived=self.derived))
        answering = replace(answering, columns=self.prepared.columns)
        self.query.require_room_for(self.prepared.columns)
        receipt = vault.till.receipt(self.query.account, self.of.moments.receipt.query_id)
        noisy = Noisy(self.prepared.blocks[0].domain or (), (self.sums,))
        return vault.derived(compiler, self.query, answering, noisy, replace(receipt, recalled=100))

    def explanation(self, compiler: Compiler, vault: Vault) -> Explanation:
        """Return the plan of the query, with a price of 0: the model's moments are paid for."""
        plan = explained(compiler, vault, replace(self.query, derived=self.derived))
        left = rest(vault.till.standing(self.query.account).budget, plan.spent, Loss(0))
        note = f"From the second moments of the model {self.of.name}, which are paid for."
        return replace(plan, charge=Loss(0), event=Event(()), rest=left, notes=(note,))


def sums_of_moments(
    compiler: Compiler, vault: Vault, query: Question, paid: Iterable[PaidMoments]
) -> MomentSums | None:
    """Return the answer from moments; None if it must be measured or is remembered itself."""
    if query.memory is Memory.OFF or query.precision is not None or compiler.wanting(query):
        return None
    prepared = compiler.prepared(query)
    if not adds_up(prepared) or prepared.blocks[0].block.keys:
        return None
    if vault.memory.recalled(compiler, query, query.account.epsilon) is not None:
        return None
    of_models = (_of_model(compiler, query, prepared, each) for each in paid)
    return next((sums for sums in of_models if sums is not None), None)


def _of_model(
    compiler: Compiler, query: Question, prepared: Prepared, of: PaidMoments
) -> MomentSums | None:
    """Return the sums of a query from one model; None if they differ or have a larger error."""
    if not _has_all_rows(of.plan):
        return None
    rows, digests = written_parts(prepared)
    weights = dict(_weights(compiler, query, of, rows, frozenset(digests)))
    if not digests or not set(digests) <= weights.keys():
        return None
    releases = prepared.blocks[0].releases
    steps = np.array([float(release.query.released.step) for release in releases])
    own = np.array([weights[part] for part in digests]) / steps[:, None]
    shared = np.count_nonzero(own, axis=0)
    variances = own**2 @ (shared * of.moments.variances) + _ROUNDING
    fresh = np.array([standard_deviation(release.noise) ** 2 for release in releases])
    if np.any(variances > fresh * ENOUGH):
        return None
    noises = tuple(gaussian(float(variance)) for variance in variances)
    sums = tuple(round(float(total)) for total in own @ of.moments.sums)
    return MomentSums(of, query, prepared, DerivedColumns(noises, noises), sums)


def _has_all_rows(plan: MomentsPlan) -> bool:
    """Test whether the moments cover all rows, without scaling or dropped values.

    The noise must be Gaussian too, since sums of it are then Gaussian.
    """
    whole = all(
        isinstance(column, NumberInput) or column.type.kind is Kind.BOOLEAN
        for column in plan.layout.columns
    )
    gaussian_noise = plan.noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
    return whole and plan.vectors.rows.proved and gaussian_noise


def _weights(
    compiler: Compiler, query: Question, of: PaidMoments, rows: str, digests: frozenset[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the parts of queries over the model's rows, with the weight of each moment.

    Weights are in units of the columns. Yields nothing if `rows` differ from the model's.
    """
    layout = of.moments.layout
    exact = [
        n
        for n, column in enumerate(layout.columns)
        if isinstance(column, NumberInput) and column.is_exact and not column.nullable
    ]
    if len(exact) < 2:  # noqa: PLR2004
        return

    def parts(*calls: str) -> tuple[str, list[tuple[str, Measurement]]]:
        text = f"SELECT {', '.join(calls)} FROM (\n{of.plan.rows}\n) AS moments"
        own = Question(replace(of.plan.request, sql=text), query.account, query.stop)
        prepared = compiler.prepared(own)
        if not adds_up(prepared):
            return "", []
        population, names = written_parts(prepared)
        queries = (release.query for release in prepared.blocks[0].releases)
        return population, list(zip(names, queries, strict=True))

    names = {n: identifier(layout.columns[n].name) for n in exact}
    population, means = parts(*(f"AVG({names[n]}) AS a{n}" for n in exact))
    if population != rows or len(means) != 1 + len(exact):
        return
    read = [n for n, (part, _) in zip(exact, means[1:], strict=True) if part in digests]
    for y, x in combinations(read, 2):
        population, listed = parts(f"CORR({names[y]}, {names[x]}) AS r")
        if population == rows:
            yield from _of_pair(of.moments, (y, x), listed)


def _of_pair(
    moments: Moments, pair: tuple[int, int], listed: Sequence[tuple[str, Measurement]]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the weights for the sums of CORR of two columns.

    The order is: number of rows, both columns, their product, and their squares.
    """
    layout = moments.layout
    columns = [layout.columns[n] for n in pair]
    cells = [layout.numbers_of(n)[0] for n in pair]
    match [query for _, query in listed]:
        case [RowCount(), ClippedSum() as y, ClippedSum() as x, *products]:
            pass
        case _:
            return
    lines, ends = list[np.ndarray](), list[bool]()
    for column, own, cell in zip(columns, (y, x), cells, strict=True):
        assert isinstance(column, NumberInput)
        step = own.lattice.step
        ends.append((own.lower * step, own.upper * step) == (column.lower, column.upper))
        line = np.zeros(len(layout.places))  # the value less the question's centre, by cells
        line[0], line[cell] = column.middle - float(own.centre * step), column.half
        lines.append(line)
    if not all(ends):
        return
    one = np.eye(1, len(layout.places))[0]
    factors = [(one, one), (lines[0], one), (lines[1], one), tuple(lines), *((v, v) for v in lines)]
    for (part, query), (left, right) in zip(listed, factors, strict=True):
        result = np.zeros(len(moments.sums))
        a, b = np.nonzero(np.outer(left, right))
        np.add.at(result, layout.places[a, b], left[a] * right[b])
        if isinstance(query, ClippedSum) and query in products:
            result[0] -= float(query.centre * query.lattice.step)
        yield part, result
