"""Private bounds on a unit's contribution: the polls of a block, and clipping bounds from them.

Where nothing limits the rows of a unit, each unit counts once in a noisy histogram of log2 norms:
the norm of its contribution to a measurement, over the groups of the query. A clipping bound is
chosen from the noisy histogram, and a unit's totals are scaled together to it. No limit on its
groups or rows is needed.

Where groups are private and their number per unit is unlimited, all contributions are scaled, and
so is the count of units for partition selection. A small norm shows most keys, for any data, and
needs no poll. If the query reads that count, the norm is the largest of those that show about as
many keys, or the one with the least error in the first groups. Both take a poll.

Proof (PRIVACY.md R71, R73, R76). A unit has one vote. The bound is a released number, and is
enforced for every unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor, isqrt
from typing import assert_never

from dpsql.accountants import Accountant
from dpsql.compiler.aggregates.moments import centred_sum
from dpsql.compiler.aggregates.recipe import BoundedCall, Parts, Recipe, counted, unlimited
from dpsql.compiler.calibrate import declared_limits
from dpsql.compiler.calibrate.contributions import Contributions, unscalable
from dpsql.compiler.calibrate.typed_ratios import RATIO_STEPS, ratio_edges
from dpsql.compiler.plan import private_plan
from dpsql.compiler.plan.biased_columns import BiasedColumn
from dpsql.compiler.plan.canonical import Writer, written_rows
from dpsql.compiler.plan.lattices import WHOLE, ChoiceQuery
from dpsql.compiler.plan.measurement_kinds import (
    MOST_ROWS,
    AdditiveTotal,
    ClippedSum,
    DistinctCount,
    DistinctSum,
    MeanVote,
    Measurement,
    RangeVote,
    RatioVote,
    RowCount,
    ScaledTotal,
    UnitCount,
    UnitVote,
    Vote,
)
from dpsql.compiler.plan.voting_rows import VotingRows
from dpsql.compiler.resolve.scopes import Identities
from dpsql.mechanisms.norm_bounds import octave_of
from dpsql.mechanisms.threshold import ALONE, UnitCounting
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.intervals import Interval
from dpsql.model.notices import Contributed
from dpsql.model.tree import INTEGER, AggregateCall, Expression, Literal, Star
from dpsql.model.vocabulary import Mechanism, Norm, Sensitivity
from dpsql.model.walk import refs

MEANS = frozenset(("avg", "regr_avgx", "regr_avgy", "regr_intercept"))
"""Aggregates with an error proportional to that of the centred sum, and not to its square."""
OCTAVES = 40
"""Number of octaves that are distinguished, up to the largest possible total."""
_FINEST = 14
"""Finest division of a mean's bounds near their ends: 2^-14 of them."""
MANY_GROUPS = 32
"""Number of groups from which Gaussian noise is expected to be better, where both kinds are
possible.
"""
SQUARED_KEYS = 2
"""Square of the norm of a unit's counts by private keys that shows most of them."""
SHOWN_KEYS, ORDERED_KEYS, SINGLE_KEYS = 32, 128, 8
"""Numbers of private keys over which errors are weighed: where the query shows all or the first
ones, or where each unit has one key. Then a limit clips much of few groups, and more of some.
"""


@dataclass(slots=True)
class Polls:
    """The polls of one block: they build measurements with found bounds, and list missing bounds.

    Errors are weighed over all `listed` public groups, or over some private groups (0). An L2
    `norm` over many public groups is polled together with the L1 norm, which says how much is
    clipped over all groups. The L1 norm is used if it errs less and the accountant has `either`
    kind of noise. Units vote with their `voting` rows, if there are any.
    """

    block: private_plan.PrivateBlock
    totals: declared_limits.DeclaredTotals
    contributions: Contributions
    listed: int
    norm: Norm
    either: bool
    norms: Mapping[str, private_plan.FoundNorm]
    identities: Identities
    first: int | None = None
    voting: VotingRows | None = None
    missing: dict[str, private_plan.Poll] = field(default_factory=dict)
    bounds: list[private_plan.ContributionBound] = field(default_factory=list)
    keys: dict[Measurement, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of groups over which errors are weighed."""
        private = SINGLE_KEYS if self.totals.groups == 1 else SHOWN_KEYS
        return self.listed or (ORDERED_KEYS if self.first else private)

    @property
    def counted_units(self) -> Measurement:
        """The count of units for partition selection (PRIVACY.md R44), which averages do
        not share.
        """
        units, many = UnitCount(None), self.contributions.scaled or self.contributions.loose
        return self._units(units, None) if many else units

    @property
    def _scales_units(self) -> bool:
        """True if requested counts of units are scaled in many private keys.

        This excludes the count of an average, because its sum has all rows.
        """
        return self.contributions.scaled or (self.contributions.loose and _adds_up(self.block))

    def _scales(self, part: Measurement) -> bool:
        """Test whether a unit's contribution to private keys is scaled for any number of keys."""
        of_units = isinstance(part, UnitCount) or (isinstance(part, RowCount) and part.reach == 1)
        return self._scales_units if of_units else self.contributions.scaled

    @property
    def counting(self) -> UnitCounting:
        """The way in which the units of private keys are counted."""
        match self.counted_units:
            case ScaledTotal() as scaled:
                return UnitCounting(1, scaled.steps, scaled.bound, scaled.norm)
            case _:
                return ALONE

    def swayed(self, choices: tuple[ChoiceQuery, ...]) -> tuple[ChoiceQuery, ...]:
        """Return choices that each unit of a group influences.

        Raises `Refused` where a unit may be in many private groups.
        """
        if choices and self.contributions.scaled:
            raise unscalable(self.block)
        return choices

    def bounded(self, part: Measurement, measure: int, call: BoundedCall) -> Measurement:
        """Return a measurement with its declared bound, or a found one if the number of private
        keys is unlimited.

        Raises `Refused` where a unit may be in many private groups, if no norm bounds the
        measurement or units cannot be polled.
        """
        if self._scales(part):
            return self._scaled(part, measure, call)
        limited = self.limited(part, measure)
        return self.totals.of_rows(part) if limited == part and _adds_up(self.block) else limited

    def searched(self, part: Measurement, measure: int, call: BoundedCall) -> Measurement:
        """Return a measurement with a found bound; raises as `bounded` does."""
        return (self._scaled if self._scales(part) else self.clipped)(part, measure, call)

    def all_searched(
        self, parts: Parts, names: Sequence[str], measure: int, call: BoundedCall
    ) -> Parts:
        """Return the measurements of a call, with the recipe's names; raises as `bounded` does.

        Any norm of a centred sum is at most the root of the product of the bounds for rows and
        squares. Where these are bounded and no mean is shown, it needs no poll.
        """
        added = all(isinstance(part, RowCount | ClippedSum) for part in parts)
        shows_means = any(measure.call.function in MEANS for measure in self.block.measures)
        # Moments that are no larger than the root of the product of two others.
        pairs = {"y": ("n", "yy"), "x": ("n", "xx"), "yx": ("yy", "xx")}
        pairs = pairs if added and not shows_means else {}
        factors = {name: pair for name, pair in pairs.items() if {*pair} <= {*names}}
        places = {n: factors[name] for n, name in enumerate(names) if name in factors}
        clipped = {
            n: self.searched(part, measure, call) for n, part in enumerate(parts) if n not in places
        }
        by_name = {names[n]: part for n, part in clipped.items() if names}
        for n, (one, other) in places.items():
            part, squared = parts[n], _most_of(by_name[one]) * _most_of(by_name[other])
            assert isinstance(part, ClippedSum)
            total, digits = _digits(part, call)
            clipped[n] = self._within(
                total, isqrt(floor(squared / part.lattice.step**2)) + 1, digits
            )
        return tuple(clipped[n] for n in range(len(parts)))

    def _within(self, part: ClippedSum, bound: int, digits: int) -> Measurement:
        """Return the sum with a contribution of at most `bound` steps of rows per unit."""
        if self.totals.groups > 1:
            return ScaledTotal(part, self.norm, bound * part.lattice.base**digits, digits)
        lower, upper = max(-bound, part.total_lower), min(bound, part.total_upper)
        if part.total_upper - part.total_lower <= part.upper - part.lower:  # it is one row
            part = replace(part, lower=part.centre + lower, upper=part.centre + upper)
        return replace(part, total_lower=lower, total_upper=upper)

    def _scaled(self, part: Measurement, measure: int, call: BoundedCall) -> Measurement:
        """Return a measurement by private keys, where their number per unit is unlimited."""
        match part:
            case UnitCount():
                return self._units(part, measure)
            case RowCount(condition=condition, total_upper=1):
                return self._units(UnitCount(condition), measure)
            case RowCount() if self.contributions.polled:
                key, clipped = self._total(part, measure, declared_limits.more_digits(part, 1))
                self.keys[clipped] = key
                return clipped
            case ClippedSum() | DistinctCount() if self.contributions.polled:
                return self.clipped(part, measure, call)
            case ClippedSum() if (limited := self.totals.limited(part)) != part:
                return limited
            case _:
                raise unscalable(self.block)

    def _units(self, part: UnitCount, measure: int | None) -> ScaledTotal:
        """Count units, each with less weight in many groups: with a poll if the query reads their
        number.
        """
        digits, norm = declared_limits.more_digits(part, 1), None
        steps = part.lattice.base**digits
        if self.contributions.polled and (part.condition or self._asks_for_units):
            of_keys = self.first is None and part.condition is None
            key, bound = self._voted(part, self.norm, digits, of_keys=of_keys)
            clipped = ScaledTotal(part, self.norm, max(bound, steps), digits)
            norm, self.keys[clipped] = self.norms.get(key), key
        else:
            clipped = ScaledTotal(part, self.norm, isqrt(SQUARED_KEYS * steps**2), digits)
        most = clipped.bound / steps
        groups = most**2 if self.norm is Norm.L2 else most
        self.bounds.append(
            private_plan.ContributionBound(
                measure,
                Contributed.UNITS,
                norm,
                most,
                negative=False,
                positive=True,
                groups=groups,
            )
        )
        return clipped

    @property
    def _asks_for_units(self) -> bool:
        """True if the query reads the number of units by which private keys are selected."""
        one_row = self.contributions.rows_per_group.value == 1
        return self._scales_units and any(
            call.function == "count"
            and (refs(call) <= self.block.unit_ids if call.distinct else one_row)
            for call in (measure.call for measure in self.block.measures)
        )

    def limited(self, part: Measurement, measure: int) -> Measurement:
        """Return a measurement with its declared bound; over many groups a found bound, at most as
        large.
        """
        limited = self.totals.limited(part)
        match limited:
            case ScaledTotal(total=ClippedSum() as total, bound=most) if self.totals.is_spread:
                key, clipped = self._total(total, measure, limited.digits, most)
                self.keys[clipped] = key
                return clipped
            case _:
                return limited

    def clipped(self, part: Measurement, measure: int, call: BoundedCall) -> Measurement:
        """Return a measurement with its declared bound, a found one, or the widest possible."""
        limited = self.limited(part, measure)
        if limited != part:
            return limited
        match part:
            case DistinctCount() | DistinctSum() if (
                part.values.total_upper >= MOST_ROWS or self.contributions.scaled
            ):
                # Values of all groups count together, unless Gaussian noise is for listed groups.
                together = self.norm is Norm.L1 or self.contributions.scaled
                by_pairs = together and self.totals.groups > 1
                norm = Norm.L1 if by_pairs else Norm.MAX
                key, bound = self._bound(part.values, norm, 0, measure)
                clipped: Measurement = part.of_at_most(bound, norm)
            case RowCount() if part.total_upper >= MOST_ROWS:
                key, clipped = self._total(part, measure, declared_limits.more_digits(part, 1))
            case ClippedSum():
                total, digits = _digits(part, call)
                key, clipped = self._total(total, measure, digits)
            case _:
                return part
        self.keys[clipped] = key
        return clipped

    def measured_from(
        self, call: BoundedCall, recipe: Recipe, parts: Parts, measure: int
    ) -> BoundedCall:
        """Return a call with rows measured from about their mean, where deviations are measured.

        Its choices keep as many rows of a unit as most units have, if they keep only some.
        """
        if any(isinstance(part, ClippedSum) for part in parts):
            call = self._centred(call, recipe.deviations)
        if recipe.choices is None:
            return call
        unlimited = any(choice.histogram.rows >= MOST_ROWS for choice in recipe.choices(call))
        of_sums = call.wide
        call = self._within_range(call) if of_sums else call
        if not unlimited:
            return call
        key, rows = self._bound(RowCount(counted(call), MOST_ROWS), Norm.MAX, 0, measure)
        if key in self.missing:
            self.missing[key] = replace(self.missing[key], of_sums=of_sums)
        return replace(call, rows=rows)

    def _within_range(self, call: BoundedCall) -> BoundedCall:
        """Return a call with an argument bounded by the largest rows that the poll shows."""
        rows = centred_sum(replace(call, centres={0: 0}))
        highest = (max(-rows.lower, rows.upper, 1) - 1).bit_length()
        vote = RangeVote(rows, (max(0, highest - OCTAVES), highest))
        key, (facts, *others) = self._key(vote), call.arguments
        self._asks(key, vote)
        most = rows.lattice.step * (self.norms[key].bound if key in self.norms else 2**highest)
        interval = facts.interval.intersect(Interval(-most, most))
        return replace(call, arguments=(replace(facts, interval=interval), *others), wide=False)

    def _centred(self, call: BoundedCall, deviations: int) -> BoundedCall:
        centres = {}
        for place in range(deviations):
            plain = centred_sum(replace(call, centres={place: 0}), place)
            if self.voting is not None and not self.voting.one_row:
                # Deviations of more rows may cancel: values of one sign do not.
                centres[place] = min(max(0, plain.lower), plain.upper)
                continue
            finest = plain.upper.bit_length() if call.wide else _FINEST
            edges = _edges(plain.lower, plain.upper, finest)
            vote = MeanVote(declared_limits.within_integers(plain), edges)
            key, middle = self._key(vote), (plain.lower + plain.upper) // 2
            self._asks(key, vote)
            centres[place] = self.norms[key].bound if key in self.norms else middle
        return replace(call, centres=centres)

    def ratio(self, above: AdditiveTotal, below: AdditiveTotal) -> Fraction:
        """Return the approximate ratio of the first to the second measurement, in steps."""
        above, below = (
            part if isinstance(part, RowCount) else declared_limits.within_integers(part)
            for part in (above, below)
        )
        vote = RatioVote(above, below, ratio_edges(above, below))
        key = self._key(vote)
        self._asks(key, vote)
        ratio = self.norms.get(key)
        return Fraction(ratio.bound if ratio is not None and ratio.visible else 0, RATIO_STEPS)

    @property
    def released(self) -> tuple[private_plan.ContributionBound, ...]:
        """The known norms, each once."""
        return tuple(dict.fromkeys(self.bounds))

    def held_before(self, columns: Mapping[Measurement, int]) -> tuple[private_plan.Poll, ...]:
        """Return the polls for unknown bounds, and the released columns that they are about.

        Centres come first, because norms depend on the centre that is subtracted from rows.
        """
        about = {key: columns[part] for part, key in self.keys.items() if part in columns}
        beside = {poll.beside: about.get(poll.key) for poll in self.missing.values()}
        polls = [
            replace(poll, column=about.get(poll.key, beside.get(poll.key)))
            for poll in self.missing.values()
        ]
        return tuple([poll for poll in polls if poll.first] or polls)

    def biased(self, columns: Mapping[Measurement, int]) -> tuple[BiasedColumn, ...]:
        """The released columns of which bounds that were found remove something.

        Rows that are clipped to one for each unit are measured as units.
        """
        biased = []
        for part, key in self.keys.items():
            units = UnitCount(part.condition) if isinstance(part, RowCount) else part
            column, norm = columns.get(part, columns.get(units)), self.norms.get(key)
            if column is not None and norm is not None and norm.bias is not None:
                below, above = part.total_lower < 0, part.total_upper > 0
                biased.append(BiasedColumn(column, norm.bias, below, above))
        return tuple(biased)

    def _total(
        self, part: RowCount | ClippedSum, measure: int, digits: int, most: int | None = None
    ) -> tuple[str, Measurement]:
        if self.totals.groups > 1:
            norm = self._better(part, digits, most)
            key, bound = self._bound(part, norm, digits, measure, most)
            return key, ScaledTotal(part, norm, bound, digits)
        key, bound = self._bound(part, Norm.MAX, 0, measure)
        if isinstance(part, RowCount):
            return key, replace(part, total_upper=min(bound, part.total_upper))
        return key, self._within(part, bound, digits)

    def _bound(
        self,
        part: RowCount | ClippedSum | DistinctCount,
        norm: Norm,
        digits: int,
        measure: int,
        most: int | None = None,
    ) -> tuple[str, int]:
        """Return the found norm, or the largest bin before the poll; at most `most`."""
        key, bound = self._voted(part, norm, digits, most)
        if key in self.norms:
            released = replace(self.norms[key], bound=bound)
            largest = float(bound * part.lattice.step / part.lattice.base**digits)
            what = _what(self.block, part, measure)
            contribution = private_plan.ContributionBound(
                measure=measure,
                what=what,
                norm=released,
                most=largest,
                negative=part.total_lower < 0,
                positive=part.total_upper > 0,
                over_groups=norm is Norm.L2,
            )
            self.bounds.append(contribution)
        return key, bound

    def _better(self, part: AdditiveTotal, digits: int, most: int | None) -> Norm:
        """Return the norm to which totals over several groups are scaled.

        Over many public groups both norms are polled, and the better one is used.
        """
        many = min(self.totals.groups, self.listed) >= MANY_GROUPS
        if self.norm is not Norm.L2 or not many:
            return self.norm
        key, _ = self._voted(part, Norm.L2, digits, most)
        sizes, _ = self._voted(part, Norm.L1, digits, most)
        if key in self.missing:
            self.missing[key] = replace(self.missing[key], beside=sizes, either=self.either)
        other = self.norms.get(sizes)
        return Norm.L1 if other is not None and other.instead else Norm.L2

    def _voted(
        self,
        part: AdditiveTotal | UnitCount | DistinctCount,
        norm: Norm,
        digits: int,
        most: int | None = None,
        *,
        of_keys: bool = False,
    ) -> tuple[str, int]:
        """Return the key of a norm's poll, and the found norm, or the largest bin before
        the poll.
        """
        # Steps per unit, so that a number is clipped alike on every decimal grid:
        # the ends of octaves must not depend on the declared digits of a column.
        base, power = part.lattice.base, part.lattice.digits
        decimal = norm is Norm.MAX and base == WHOLE.base
        whole = int(max(1, base**power)) if decimal else 1
        largest = max(abs(part.total_lower), abs(part.total_upper)) * base**digits
        highest = octave_of(int(max(1, largest)), whole)
        if most is not None:
            highest = min(62, (most - 1).bit_length())
        elif norm is not Norm.MAX:
            highest = min(62, highest + self.totals.groups.bit_length())
        octaves = max(octave_of(1, whole), highest - OCTAVES), highest
        vote = Vote(part, self.block.keys, norm, digits, octaves, whole=whole, limit=most)
        key = self._key(vote)
        self._asks(key, vote, of_keys=of_keys)
        if key not in self.norms:
            return key, vote.bins.most if most is None else most
        bound = self.norms[key].bound
        return key, bound if most is None else min(bound, most)

    def _asks(self, key: str, vote: UnitVote, *, of_keys: bool = False) -> None:
        if key not in self.norms and key not in self.missing:
            alone = self.first is not None and not self.listed
            self.missing[key] = private_plan.Poll(
                key,
                self._polled(vote),
                None,
                self.size,
                of_keys,
                alone=alone,
                listed=(self.listed > 0 or self.totals.groups == 1) and not of_keys,
            )

    def _key(self, vote: UnitVote) -> str:
        """Return the identity of a poll."""
        block, vote = self._voters(vote)
        writer, rows = written_rows(block)
        keys = tuple(item.expression for item in vote.keys)
        call = rows, self.block.unit, keys, vote.total
        match vote:
            case Vote(norm=norm, digits=digits, octaves=octaves, parts=parts, whole=whole):
                how: tuple[object, ...] = norm, digits, octaves, parts, whole
            case MeanVote(edges=edges):
                how = (edges,)
            case RangeVote(octaves=octaves):
                how = "rows", octaves
            case RatioVote(below=below, edges=edges):
                how = below, edges
            case _:
                assert_never(vote)
        return hashlib.sha256(writer.write((*call, *how)).encode()).hexdigest()

    def _voters(self, vote: UnitVote) -> tuple[private_plan.PrivateBlock, UnitVote]:
        """Return the block of the units that vote, and the vote; raises `Refused` if none can."""
        if self.voting is None:
            return self.block, vote
        other = self.voting.vote(vote)
        if other is None:
            raise unlimited(self.block.measures[0].call.span, self.block.declared)
        return replace(self.block, rows=self.voting.rows), other

    def _polled(self, vote: UnitVote) -> private_plan.PrivateBlock:
        block, vote = self._voters(vote)
        octave = self.identities.field("octave", INTEGER)
        units = self.identities.field("units", INTEGER)
        return replace(
            block,
            max_rows=1,
            keys=(algebra.Item(octave, Literal(0, INTEGER)),),
            measures=(algebra.Measure(units, AggregateCall("count", (Star(),), type=INTEGER)),),
            declared=private_plan.DeclaredLimits(1, 1, 1),
            groups=None,
            max_groups=None,
            alone=False,
            vote=vote,
        )


def norm_of(accountant: Accountant, groups: int) -> Norm:
    """Return the norm to bound: that of the noise that is expected, or requested by name."""
    if accountant.order == 1 or (accountant.supports_selection and groups >= MANY_GROUPS):
        many = Sensitivity(groups, 0, 1, norm=Norm.L2)
        noise = accountant.noise(Fraction(1, 2), Fraction(1, 10**6), many)
        return Norm.L1 if noise.mechanism is Mechanism.DISCRETE_LAPLACE else Norm.L2
    return Norm.L1


def _most_of(part: Measurement) -> Fraction:
    """Return the largest contribution of a unit, in units of the values."""
    return max(-part.total_lower, part.total_upper) * part.released.step


def _edges(lower: int, upper: int, finest: int) -> tuple[int, ...]:
    """Return edges between bins of means: closer near the ends and 0, two per octave.

    They reach down to a part of 2^-finest of the bounds.
    """
    width = upper - lower
    ends = [lower + (width * n >> 4) for n in range(1, 16)]
    for n in range(5, finest + 1):
        for part in (width >> n, 3 * width >> (n + 1)):
            ends += [lower + part, upper - part, part, -part]
    return tuple(sorted({end for end in ends if lower < end < upper} or {upper}))


def _digits(part: ClippedSum, call: BoundedCall) -> tuple[ClippedSum, int]:
    """Return the sum with totals that fit, and the digits of its scaled totals."""
    total = declared_limits.within_integers(part)
    return total, declared_limits.more_digits(
        total, 1 if call.wide else declared_limits.widest_row(total)
    )


def _what(
    block: private_plan.PrivateBlock, part: RowCount | ClippedSum | DistinctCount, measure: int
) -> Contributed:
    call = block.measures[measure].call
    match part:
        case RowCount():
            return Contributed.ROWS
        case DistinctCount():
            return Contributed.DIFFERENT
        case ClippedSum(argument=argument, centre=centre):
            if _text(block, argument) in (_text(block, each) for each in call.args):
                return Contributed.DEVIATIONS if centre else Contributed.VALUES
            over_another = call.function in {"sum", "count"}
            return Contributed.BEYOND if over_another else Contributed.PRODUCTS
        case _:
            assert_never(part)


def _text(block: private_plan.PrivateBlock, expression: Expression) -> str:
    writer = Writer()
    writer.number(block.rows)
    return writer.write(expression)


def _adds_up(block: private_plan.PrivateBlock) -> bool:
    """Test whether only sums and counts are requested: means share a count, and are centred."""
    return all(measure.call.function in {"sum", "count"} for measure in block.measures)
