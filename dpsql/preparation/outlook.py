"""Expected precision of an answer, and better forms, before anything is asked.

Only compiled plans are promised: a proposal is the plan of the same question in another form. If a
unit's contribution is still unknown, plans assume a size for it. Two forms are compared as if it
were equal in both, or as large as possible. A sum of m totals is at most m times as large, and its
norm over groups sqrt(m) times (Cauchy-Schwarz).

Only text, policy, public data and the ledger are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import groupby, islice
from math import isfinite, sqrt
from operator import itemgetter
from typing import TypeAlias

from dpsql.compiler.plan.measurement_kinds import ClippedSum, RangeVote, ScaledTotal, Vote
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm, Poll
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.notices import Scaled
from dpsql.model.vocabulary import Norm
from dpsql.preparation import explanation
from dpsql.preparation.contribution_bounds import placeholder, split
from dpsql.preparation.other_forms import Form, OtherForm, other_forms
from dpsql.release.finish import expected_margins

ROWS = (1, 10, 100, 1_000, 10_000)
"""Numbers of rows, at their largest value, for which errors are shown."""
_TYPICAL = 100
_LESS = 0.9
"""Largest ratio of a proposal's error to the present one."""
_MOST = 3
"""Number of proposals to show."""
_MOST_COLUMNS, _MOST_GROUPS = 8, 10_000
"""Limits for an outlook: larger questions take too long to compile often."""

Compile: TypeAlias = Callable[[Form], Prepared]
Sizes: TypeAlias = Callable[[Form, Prepared], tuple[FoundNorm, ...]]
"""Function that assumes the results of a plan's polls."""


@dataclass(frozen=True, slots=True)
class _Expected:
    """A plan without open polls; if `taken`, some of its norms are assumed."""

    prepared: Prepared
    taken: bool

    @property
    def margins(self) -> list[tuple[str, float]]:
        """Half-width at 95 % of each column that is not exact; NaN if it is unknown."""
        margins = expected_margins(self.prepared.plan, self.prepared.rewritten)
        named = zip(self.prepared.columns, margins, strict=True)
        return [(column.name, margin) for column, margin in named if margin is not None]

    def depends(self, name: str) -> bool:
        """Test whether a column's error is proportional to an assumed norm."""
        cuts = (n for n in self.prepared.notices if isinstance(n, Scaled))
        columns = self.prepared.columns
        return self.taken and any(columns[place].name == name for n in cuts for place in n.columns)

    @property
    def groups(self) -> int | None:
        """Number of groups, if it is public."""
        domains = [block.domain for block in self.prepared.blocks]
        return None if len(domains) != 1 or domains[0] is None else len(domains[0])

    @property
    def norm(self) -> Norm:
        """Norm that bounds a unit's contribution; with one group there is one total."""
        queries = (query for block in self.prepared.blocks for query in block.queries)
        return next((q.norm for q in queries if isinstance(q, ScaledTotal)), Norm.MAX)

    @property
    def most(self) -> Mapping[tuple[int, int], float]:
        """Largest contribution of a unit, by block and measure."""
        return {place: most for place, _, most in _norms(self.prepared)}


def outlook(compiled: Compile, form: Form) -> explanation.Outlook:
    """Return the known errors of a question before it is asked, or before its rest is."""
    first = compiled(form)
    groups = sum(len(block.domain or ()) for block in first.blocks)
    large = len(first.columns) > _MOST_COLUMNS or groups > _MOST_GROUPS
    if not first.blocks or large:
        return explanation.Outlook()
    present = _expected(compiled, form, first, partial(_of_rows, rows=_TYPICAL))
    if not any(isfinite(margin) for _, margin in present.margins):
        return explanation.Outlook()
    bounds = tuple(_bounds(compiled, form, first)) if present.taken else ()
    least = {bound.column: bound.margin for bound in reversed(bounds)}
    proposals = (
        proposal
        for proposal in _proposals(compiled, form, first, present)
        # Until the present error is found, forms with a known error are compared with its least
        # value.
        if proposal.present_margin is not None or proposal.margin <= least.get(proposal.column, 0.0)
    )
    return explanation.Outlook(bounds, tuple(islice(proposals, _MOST)))


def _norms(prepared: Prepared) -> Iterator[tuple[tuple[int, int], FoundNorm, float]]:
    """Yield the found bounds of a plan, except those on units: places of block and measure, the
    bound, and its size in units of the values.
    """
    for number, block in enumerate(prepared.blocks):
        for bound in block.norms:
            if bound.measure is not None and bound.norm is not None and bound.groups is None:
                yield (number, bound.measure), bound.norm, bound.most


def _expected(compiled: Compile, form: Form, prepared: Prepared, sizes: Sizes) -> _Expected:
    """Return the plan of a form, with all norms that it needs."""
    taken = False
    while prepared.polls:
        taken = taken or not prepared.polls[0].first
        account = form.query.account
        norms = sizes(form, prepared)
        rest = form.query.at(split(prepared, account.budget, account.epsilon).rest)
        form = replace(form, query=replace(rest, norms=(*rest.norms, *norms)))
        prepared = compiled(form)
    return _Expected(prepared, taken)


# --- by what may be found ---


def _bounds(compiled: Compile, form: Form, first: Prepared) -> Iterator[explanation.FoundBound]:
    by_column: dict[str, list[explanation.FoundBound]] = {}
    for rows in ROWS:
        expected = _expected(compiled, form, first, partial(_of_rows, rows=rows))
        most: dict[str, list[float]] = {}
        for notice in expected.prepared.notices:
            if isinstance(notice, Scaled):
                for place in notice.columns:
                    name = expected.prepared.columns[place].name
                    most.setdefault(name, []).append(notice.most)
        for name, margin in expected.margins:
            if name in most:
                bound = explanation.FoundBound(name, tuple(most[name]), margin)
                by_column.setdefault(name, []).append(bound)
    for column in by_column.values():
        if all(isfinite(bound.margin) for bound in column):
            yield from dict.fromkeys(column)


def _of_rows(_form: Form, prepared: Prepared, *, rows: int) -> tuple[FoundNorm, ...]:
    """Return norms of `rows` rows at their largest value, and middles as centres.

    All rows may be in one group. Then both norms are equal, and the L1 norm is used if either may
    be, because its noise is never larger.
    """
    better = {poll.beside for poll in prepared.polls if poll.either}
    return tuple(
        placeholder(poll)
        if poll.first
        else FoundNorm(poll.key, _steps_of(poll, rows), 0, visible=True, instead=poll.key in better)
        for poll in prepared.polls
    )


def _steps_of(poll: Poll, rows: int) -> int:
    """Return the norm of `rows` rows at their largest value; of a range, that of one row."""
    vote = poll.block.vote
    assert isinstance(vote, Vote | RangeVote)
    match vote.total:
        case ClippedSum() as total:
            largest = max(abs(total.lower - total.centre), abs(total.upper - total.centre))
        case _:
            largest = 1
    size = rows * max(1, largest) * vote.steps if isinstance(vote, Vote) else largest
    return int(min(size, vote.bins.most))


# --- in another form ---


def _proposals(
    compiled: Compile, form: Form, first: Prepared, present: _Expected
) -> list[explanation.Proposal]:
    best = list[tuple[float, explanation.Proposal]]()
    for _, forms in groupby(other_forms(form, first), key=_kind):
        tried = (_tried(compiled, other, present) for other in forms)
        less = [each for each in tried if each is not None and each[0] <= _LESS]
        # Of periods the finest that helps; of other kinds the best.
        coarser = isinstance(less[0][1].change, explanation.CoarserPeriods) if less else False
        best += less[:1] if coarser else sorted(less, key=itemgetter(0))[:1]
    # A form that counts something else comes last.
    best.sort(key=lambda each: (isinstance(each[1].change, explanation.UnitsCounted), each[0]))
    return [proposal for _, proposal in best]


def _kind(other: OtherForm) -> tuple[type[explanation.Change], str]:
    change = other.change
    return type(change), change.key if isinstance(change, explanation.CoarserPeriods) else ""


def _tried(
    compiled: Compile, other: OtherForm, present: _Expected
) -> tuple[float, explanation.Proposal] | None:
    """Return a form and its error relative to the present one, corrected for fewer, larger groups;
    None if it is refused or not comparable.
    """
    sizes = _Related(compiled, present, other.merged)
    try:
        expected = _expected(compiled, other.form, compiled(other.form), sizes)
    except Refused:
        return None
    before, after = present.margins, expected.margins
    pairs = [
        (margin / now, name, now, margin, other_name)
        for (name, now), (other_name, margin) in zip(before, after, strict=False)
        if isfinite(now) and isfinite(margin) and now > 0
    ]
    if len(before) != len(after) or not pairs:
        return None
    ratio, name, now, margin, other_name = min(pairs)
    depended, depends = present.depends(name), expected.depends(other_name)
    both = present.groups, expected.groups
    now_groups, groups = both if all(both) else (None, None)
    fewer = (now_groups or 1) / (groups or 1)
    return ratio / fewer, explanation.Proposal(
        change=other.change,
        column=name,
        margin=margin,
        present_margin=None if depended and not depends else now,
        groups=groups,
        present_groups=now_groups,
        most=depends,
        relative=depended and depends,
    )


@dataclass(frozen=True, slots=True)
class _Related:
    """Norms of another form: as large as those of the `present` one, or as large as they can be."""

    compiled: Compile
    present: _Expected
    merged: int

    def __call__(self, form: Form, prepared: Prepared) -> tuple[FoundNorm, ...]:
        typical = _of_rows(form, prepared, rows=_TYPICAL)
        if prepared.polls[0].first:
            return typical
        ones = tuple(replace(norm, bound=1) for norm in typical)
        query = replace(form.query, norms=(*form.query.norms, *ones))
        probed = {
            norm.key: (at, most)
            for at, norm, most in _norms(self.compiled(replace(form, query=query)))
        }
        polls = {poll.key: poll for poll in prepared.polls}
        return tuple(
            self._as_large(norm, polls[norm.key], probed.get(norm.key)) for norm in typical
        )

    def _as_large(
        self, norm: FoundNorm, poll: Poll, probed: tuple[tuple[int, int], float] | None
    ) -> FoundNorm:
        if probed is None or probed[0] not in self.present.most:
            return norm
        place, step = probed
        most = self.present.most[place] * self._growth(poll)
        return replace(norm, bound=max(1, round(most / step)))

    def _growth(self, poll: Poll) -> float:
        vote = poll.block.vote
        if not isinstance(vote, Vote) or self.present.norm is not Norm.L2:
            return 1.0
        same = vote.norm is Norm.L2
        return sqrt(self.merged if same else self.present.groups or 1)
