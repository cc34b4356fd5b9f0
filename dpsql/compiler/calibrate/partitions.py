"""Measurements of nested and of disjoint rows of one whole, divided into parts that add up.

`x <= 10` and `x <= 20` are measured as the rows of the first, and those of the second that are not
of the first: disjoint rows, which are paid for once (see `compiler.calibrate.disjoint`), and the
second is a sum of these. Of k thresholds the j-th then has j times the variance of a single one.
Separate measurements have k times that each, or k² under Laplace noise.

Where two such divisions of one whole are measured (by sex, and by age; or the whole itself), each
gets its missing part at no cost. These are the rows for which none of its conditions is true.
(Nothing is missing where one of them is declared to hold for every row: a wrong declaration costs
accuracy, and no privacy.) Then all divisions must add up to the same number, and are made to agree:
see `dpsql.consistency.least_squares`.

Ranges of one value that overlap are divided into cells, or measured by a tree of these: see
`compiler.calibrate.range_workloads`.

This needs a proof that no unit has more rows than are counted, as disjoint rows do. Clipped totals
of parts need not add up to the clipped total of the whole.

Proof (PRIVACY.md R35). Each part is combined with the negation of the smaller ones, and the rest
with the negation of all, NULL included: no row is in two of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from math import isfinite
from typing import Any

from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.calibrate.disjoint import compared, divisible
from dpsql.compiler.calibrate.measurements import Measurements, PartColumn
from dpsql.compiler.calibrate.moment_vectors import untrue
from dpsql.compiler.calibrate.range_workloads import RangeWorkload, Whole, workloads
from dpsql.compiler.plan.measurement_kinds import AdditiveTotal, Measurement
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.algebra import Field
from dpsql.model.comparisons import against_constant
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.intervals import Facts
from dpsql.model.tree import INTEGER, Call, Expression, Kind, Literal, Ref, scalar
from dpsql.model.walk import both, conjuncts, substitute

_NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})
_MOST = 32
"""Largest number of conditions of one division: the total length of exclusions is quadratic
in it.
"""


@dataclass(frozen=True, slots=True)
class _Test:
    """The condition that separates `part` from others of its whole.

    Tests of one subject are disjoint. If `nested`, the first implies the second and so on, in the
    order of their places.
    """

    part: AdditiveTotal
    condition: Expression
    subject: tuple[str, Expression]
    place: Any
    nested: bool = False


@dataclass(frozen=True, slots=True)
class RowLimits:
    """Limits of a block: no unit has more than `rows` rows in a group.

    The `first` measurements stay unchanged. `described` has facts of conditions and of the
    expressions that they compare with constants. Budget shares count by the accountant's `order`.
    `nonnegative` raises negative parts to zero where they cannot be negative, so that counts by
    rising thresholds rise.
    """

    rows: int
    first: int
    described: Mapping[Expression, Facts]
    order: int
    nonnegative: bool = False


@dataclass(frozen=True, slots=True)
class _Division:
    """Disjoint parts of a whole; `sums` has the measurements that several of them add up to.

    Each tuple of `charges` is paid together. Each part of `families` is the sum of others.
    """

    parts: tuple[AdditiveTotal, ...]
    sums: Mapping[AdditiveTotal, tuple[AdditiveTotal, ...]]
    members: tuple[AdditiveTotal, ...]
    charges: tuple[tuple[AdditiveTotal, ...], ...]
    families: tuple[tuple[AdditiveTotal, tuple[AdditiveTotal, ...]], ...] = ()
    workload: RangeWorkload | None = None

    def of(self, whole: AdditiveTotal) -> _Division:
        """Return the division of a whole that is measured only by its parts."""
        sums = {**self.sums, whole: self.parts}
        return replace(self, sums=sums, members=(*self.members, whole))


def divided(
    measurements: Measurements, limits: RowLimits, identities: Identities, *, wholes: bool = True
) -> Measurements:
    """Return the same measures over divisions of the wholes that they measure.

    Without `wholes`, a divided whole is not measured itself: it is the sum of its parts.
    """
    deciding = measurements.columns[: limits.first]
    alone = [c.part for c, *others in measurements.paid if not others and c not in deciding]
    free = [part for part in alone if divisible(part, limits.rows)]
    ranges = workloads(free, limits.order)
    ranged = {part for own in ranges.values() for each in own for part in each.runs}
    claimed = _claimed([part for part in free if part not in ranged])
    tested = {test.part for tests in claimed.values() for test in tests}
    inner = ranged | {test.part for tests in claimed.values() for test in tests if test.nested}
    totals = {_as_whole(part): part for part in free if part not in inner}
    divisions: list[_Division] = []
    agreements: list[tuple[tuple[Measurement, ...], ...]] = []
    for whole in sorted({**claimed, **ranges}, key=lambda whole: len(whole[1])):
        families = [f for f in _families(claimed.get(whole, ())) if len(f) <= _MOST]
        own = ranges.get(whole, [])
        closed = len(families) + len(own) + (whole in totals) > 1
        new = [_division(f, rest=closed and not _complete(f, limits.described)) for f in families]
        new += [_of_ranges(each, rest=closed) for each in own]
        new = [d for d in new if closed or d.sums]
        lists = [d.parts for d in new]
        if closed and whole in totals:
            if wholes or totals[whole] in tested:
                lists.insert(0, (totals[whole],))
            else:
                shortest = min(range(len(new)), key=lambda n: len(lists[n]))
                new[shortest] = new[shortest].of(totals[whole])
        divisions += new
        if closed and len(lists) > 1:
            agreements.append(tuple(lists))
    agreements += [((node,), below) for each in divisions for node, below in each.families]
    return _measured(measurements, divisions, tuple(agreements), identities, limits)


def _as_whole(part: AdditiveTotal) -> Whole:
    return replace(part, condition=None), frozenset(conjuncts(part.condition))


def _claimed(parts: Sequence[AdditiveTotal]) -> dict[Whole, list[_Test]]:
    """Assign the test of each measurement to the whole with the most measurements."""
    candidates: dict[Whole, list[_Test]] = defaultdict(list)
    for part in parts:
        bare, conditions = _as_whole(part)
        for condition in dict.fromkeys(conjuncts(part.condition)):
            candidates[bare, conditions - {condition}].append(_test(part, condition))
    there = set(map(_as_whole, parts))
    sizes = {whole: len(tests) + (whole in there) for whole, tests in candidates.items()}
    taken: set[AdditiveTotal] = set()
    claimed: dict[Whole, list[_Test]] = {}
    for whole in sorted(candidates, key=lambda whole: -sizes[whole]):
        tests = [test for test in candidates[whole] if test.part not in taken]
        taken.update(test.part for test in tests)
        if tests:
            claimed[whole] = tests
    return claimed


def _test(part: AdditiveTotal, condition: Expression) -> _Test:
    equal = compared(condition)
    if equal is not None:
        return _Test(part, condition, ("eq", equal[0]), equal[1])
    match against_constant(condition):
        case ("lt" | "le" | "gt" | "ge" as sign, side, limit):
            return _threshold(part, condition, sign, side, limit)
    match condition:
        case Call("not", (denied,)):
            return _Test(part, condition, ("is", denied), False)
        case _:
            return _Test(part, condition, ("is", condition), True)


def _threshold(
    part: AdditiveTotal, condition: Expression, sign: str, side: Expression, limit: Literal
) -> _Test:
    """Return the test of a threshold: more rows below a larger limit, fewer above it."""
    value, kinds = limit.value, {type_of(side).kind, limit.type.kind}
    if not (kinds <= _NUMBERS and isinstance(value, int | float | Decimal) and isfinite(value)):
        return _Test(part, condition, ("is", condition), True)
    edge = Fraction(value)
    if sign in ("lt", "le"):
        return _Test(part, condition, ("below", side), (edge, sign == "le"), nested=True)
    return _Test(part, condition, ("above", side), (-edge, sign == "ge"), nested=True)


def _families(tests: Sequence[_Test]) -> list[list[_Test]]:
    """Group tests by subject, in their order; of two equal tests only the first is kept."""
    families: dict[Hashable, dict[Any, _Test]] = defaultdict(dict)
    for test in tests:
        families[test.subject].setdefault(test.place, test)
    return [
        sorted(family.values(), key=lambda test: test.place)
        if next(iter(family.values())).nested
        else list(family.values())
        for family in families.values()
    ]


def _complete(family: Sequence[_Test], described: Mapping[Expression, Facts]) -> bool:
    """Test whether, by known facts, one of the tests holds for every row."""
    kind, side = family[0].subject
    facts = described.get(side)
    if facts is None or facts.nullable or kind not in ("eq", "is"):
        return False
    values = (False, True) if kind == "is" else facts.domain
    return values is not None and {test.place for test in family}.issuperset(values)


def _division(family: Sequence[_Test], *, rest: bool) -> _Division:
    """Return the parts of a family, with the rest of the whole if requested."""
    tests = [test.condition for test in family]
    others = tuple(c for c in conjuncts(family[0].part.condition) if c != tests[0])
    query = family[0].part
    parts = [family[0].part]
    for n, test in enumerate(family[1:], start=1):
        smaller = tuple(~condition for condition in tests[:n]) if test.nested else ()
        cut = both((*others, test.condition, *smaller))
        parts.append(replace(query, condition=cut) if smaller else test.part)
    sums = {test.part: tuple(parts[: n + 1]) for n, test in enumerate(family) if n and test.nested}
    if rest:
        parts.append(replace(query, condition=both((*others, *map(untrue, tests)))))
    members = tuple(test.part for test in family)
    return _Division(tuple(parts), sums, members, (tuple(parts),))


def _of_ranges(workload: RangeWorkload, *, rest: bool) -> _Division:
    """Return the nodes of a range workload, one charge per level, with the rest if requested.

    The rest is in no node, so the first level's charge covers it too.
    """
    part = {node: workload.part(node) for level in workload.levels for node in level}
    charges = [tuple(part[node] for node in level) for level in workload.levels]
    parts = tuple(part[node] for node in workload.top)
    if rest:
        outside = both((*workload.others, untrue(workload.within)))
        others = (replace(workload.query, condition=outside),)
        parts, charges[0] = parts + others, charges[0] + others
    return _Division(
        parts=parts,
        sums={
            member: tuple(part[node] for node in workload.nodes(run))
            for member, run in workload.runs.items()
        },
        members=tuple(workload.runs),
        charges=tuple(charges),
        families=tuple(
            (part[node], tuple(part[each] for each in below)) for node, below in workload.families
        ),
        workload=workload,
    )


def _measured(
    measurements: Measurements,
    divisions: Sequence[_Division],
    agreements: tuple[tuple[tuple[Measurement, ...], ...], ...],
    identities: Identities,
    limits: RowLimits,
) -> Measurements:
    """Return the measurements with each division in place of its first member."""
    columns = {column.part: column for column in measurements.columns}
    at: dict[Measurement, _Division] = {member: d for d in divisions for member in d.members}
    charges: dict[tuple[Measurement, ...], None] = {}
    added = set[int]()  # divisions, each of which has the charges of all its members
    for together in measurements.paid:
        division = at.get(together[0].part)
        if division is None:
            charges[tuple(c.part for c in together)] = None
        elif id(division) not in added:
            added.add(id(division))
            charges.update(dict.fromkeys(division.charges))
    for division in divisions:
        typical = columns[division.members[0]].typical
        for part in chain.from_iterable(division.charges):
            if part not in columns:
                field = identities.field("part", part_type(part.lattice))
                columns[part] = PartColumn(part, field, typical)
    instead = {
        columns[whole].field.id: _sum([_term(part, columns[part].field, limits) for part in parts])
        for division in divisions
        for whole, parts in division.sums.items()
    }
    return replace(
        measurements,
        paid=tuple(tuple(columns[part] for part in charge) for charge in charges),
        values=tuple(substitute(value, instead) for value in measurements.values),
        agreements=agreements,
        workloads=tuple(d.workload for d in divisions if d.workload is not None),
    )


def _term(part: AdditiveTotal, field: Field, limits: RowLimits) -> Ref | Call:
    term = field.ref
    if not limits.nonnegative or part.total_lower < 0:
        return term
    return scalar("greatest", term, Literal(0, INTEGER).to(field.type), kind=field.type)


def _sum(terms: Sequence[Ref | Call]) -> Expression:
    total = terms[0]
    for term in terms[1:]:
        total = scalar("add", total, term, kind=term.type)
    return total
