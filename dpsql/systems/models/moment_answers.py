"""CORR, REGR_* and COVAR_* of rows whose second moments were paid for: computed of these.

What such a question sums up of two columns of whole numbers are weighted sums of the moments of a
model, if the rows are the same, the bounds, and nothing is NULL. That is seen from plans: a text of
ours asks for the same of the model's rows, and sums are the same where their one form is. A model
whose rows may leave out what is not listed is none of these rows.

No sum may err more than it would if it were measured now. Sums that have moments in common are
taken to have so many times the noise of these: of n numbers the square of the sum is no more than
n times the sum of their squares, so that no formula of them errs more than it is told to.

Whom it is told to: PRIVACY.md R69. That questions are the same: PRIVACY.md R77. What is computed of
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
"""The variance of what is rounded to whole steps."""


@dataclass(frozen=True, slots=True)
class PaidMoments:
    """The moments of a model that are paid for, by its name, and how they were measured."""

    name: str
    plan: MomentsPlan
    moments: Moments


@dataclass(frozen=True, slots=True)
class MomentSums:
    """What a question sums up, by the moments of a model, and with which noise."""

    of: PaidMoments
    query: Question
    prepared: Prepared
    derived: DerivedColumns
    sums: tuple[int, ...]

    def answer(self, compiler: Compiler, vault: Vault) -> Answer:
        """The answer of the question, for nothing."""
        answering = compiler.prepared(replace(self.query, derived=self.derived))
        answering = replace(answering, columns=self.prepared.columns)
        self.query.require_room_for(self.prepared.columns)
        receipt = vault.receipt(self.query.account, self.of.moments.receipt.query_id)
        noisy = Noisy(self.prepared.blocks[0].domain or (), (self.sums,))
        return vault.derived(compiler, self.query, answering, noisy, replace(receipt, recalled=100))

    def explanation(self, compiler: Compiler, vault: Vault) -> Explanation:
        """The plan of the question, which costs nothing."""
        plan = explained(compiler, vault, replace(self.query, derived=self.derived))
        left = rest(vault.standing(self.query.account).budget, plan.spent, Loss(0))
        note = f"From the second moments of the model {self.of.name}, which are paid for."
        return replace(plan, charge=Loss(0), event=Event(()), rest=left, notes=(note,))


def sums_of_moments(
    compiler: Compiler, vault: Vault, query: Question, paid: Iterable[PaidMoments]
) -> MomentSums | None:
    """How a question is answered of moments; None where it is told again, or measured."""
    if query.memory is Memory.OFF or query.precision is not None:
        return None
    prepared = compiler.prepared(query)
    if not adds_up(prepared) or prepared.blocks[0].block.keys:
        return None
    if vault.recalled(compiler, query, query.account.epsilon) is not None:
        return None
    of_models = (_of_model(compiler, query, prepared, each) for each in paid)
    return next((sums for sums in of_models if sums is not None), None)


def _of_model(
    compiler: Compiler, query: Question, prepared: Prepared, of: PaidMoments
) -> MomentSums | None:
    """The sums of a question by one model; None where they are others, or would err more."""
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
    """Whether the moments are of every row, none of a person with more scaled, none left out for
    what it holds; with noise whose sums are like it.
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
    """Of what may be asked of the model's rows how much each moment counts, in units of columns;
    nothing where `rows` are others.
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
    """The weights of what CORR of two columns sums up: the rows, both columns, their product and
    squares, in this order.
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
