"""The private plan: what `track`, `infer`, `calibrate` and `rewrite` hand to one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar, assert_never

from dpsql.compiler.plan.enforcement import Enforcement
from dpsql.compiler.plan.lattices import Choice, Histogram, Lattice, RangeStrategy, TreeRelease
from dpsql.compiler.plan.measurement_kinds import MeanVote, Measurement, RatioVote, UnitVote
from dpsql.compiler.plan.published_keys import (
    Domain,
    Keys,
    ListedKeys,
    ThresholdKeys,
    TopKeys,
    TrialKeys,
    Within,
    unreleased,
)
from dpsql.compiler.plan.weighed_rows import Weighed
from dpsql.consistency.least_squares import Agreement
from dpsql.consistency.marginals import Marginals
from dpsql.engines import MadeTotals
from dpsql.mechanisms.correlated_gaussian import CorrelatedNoise
from dpsql.mechanisms.stability import Stability
from dpsql.model.algebra import Field, Item, Measure, Relation, Released
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.intervals import Facts
from dpsql.model.notices import ByDeclaration, Contributed, Withheld
from dpsql.model.origins import DerivedColumns
from dpsql.model.tree import Expression, Ref, Span, SqlType, Value
from dpsql.model.vocabulary import Event, Fact, Loss, Noise, Sensitivity
from dpsql.model.walk import relations


@dataclass(frozen=True, slots=True)
class Contribution:
    """A contribution limit: its value (None: no limit) and where it was proved or is enforced."""

    value: int | None
    how: str


@dataclass(frozen=True, slots=True)
class KeyLimit:
    """A limit for groupings by `key`, over columns of tables, and what the owner calls that."""

    key: Expression
    name: str
    most: int


@dataclass(frozen=True, slots=True)
class TotalLimit:
    """The most that the sizes of one unit's values of a table's column add up to."""

    column: int
    name: str
    most: Fraction


@dataclass(frozen=True, slots=True)
class DeclaredLimits:
    """What the policy declares of one unit's rows in a relation (None: nothing).

    Limits `by` a key are for groupings by it and stand in the place of those for all.
    `silent` are the tables that declare nothing of a kind, as limit and table: for a refusal.
    """

    rows_per_unit: int | None = None
    groups_per_unit: int | None = None
    rows_per_group: int | None = None
    public_groups: int | None = None
    groups_by: tuple[KeyLimit, ...] = ()
    rows_by: tuple[KeyLimit, ...] = ()
    totals: tuple[TotalLimit, ...] = ()
    silent: frozenset[tuple[str, str]] = field(default=frozenset(), compare=False, repr=False)

    def lacking(self, limit: str) -> str:
        """The tables that would have to declare a limit, in words."""
        tables = sorted(table for kind, table in self.silent if kind == limit)
        return " and ".join(tables) or "each table of people's rows in FROM"

    def plus(self, other: DeclaredLimits, shared: int = 0) -> DeclaredLimits:
        """The limits of the rows of both, of which `shared` are certainly counted twice."""
        return DeclaredLimits(
            total(self.rows_per_unit, other.rows_per_unit, shared),
            total(self.groups_per_unit, other.groups_per_unit, shared),
            total(self.rows_per_group, other.rows_per_group, shared),
            least(self.public_groups, other.public_groups),
        )

    def times(self, other: DeclaredLimits) -> DeclaredLimits:
        """The limits of a join in which each row of one side may meet each row of the other.

        Limits by keys and of totals are those of this side alone.
        """
        most = other.rows_per_unit
        return DeclaredLimits(
            product(self.rows_per_unit, most),
            product(self.groups_per_unit, other.groups_per_unit),
            product(self.rows_per_group, other.rows_per_group),
            least(self.public_groups, other.public_groups),
            groups_by=self.groups_by,
            rows_by=() if most is None else tuple(_times(limit, most) for limit in self.rows_by),
            totals=() if most is None else tuple(_times(limit, most) for limit in self.totals),
        )


_Limit = TypeVar("_Limit", KeyLimit, TotalLimit)


def _times(limit: _Limit, times: int) -> _Limit:
    return replace(limit, most=limit.most * times)


def least(*limits: int | None) -> int | None:
    """The smallest declared limit, None if none is."""
    return min((limit for limit in limits if limit is not None), default=None)


def total(a: int | None, b: int | None, shared: int = 0) -> int | None:
    """The sum of two limits less what they share, None if one is not known."""
    return None if a is None or b is None else a + b - shared


def product(a: int | None, b: int | None) -> int | None:
    """The product of two limits, None if one is not known."""
    return None if a is None or b is None else a * b


@dataclass(frozen=True, slots=True)
class PrivateBlock:
    """One private aggregate: the rows it reads, each with its unit, and what it asks of them.

    `rows` carries the unit key as column `unit`, never NULL; `unit_ids` are all columns that hold
    it. `max_rows` is the proved most rows of one unit (None: unbounded). `determined` are the
    columns that the unit determines; `declared` the owner's limits; `facts` what proofs lean on.
    With `groups` the keys are those of a public relation, over whose columns they are written.
    Rows that belong to `several` people each have no one unit: see `compiler.track.table_scans`.
    `max_groups` is the most groups that one unit is proved to touch (None: as many as it has rows);
    with `alone` no two rows of one unit are in one group.

    All of this is about `rows`; where they are `weighed`, an engine adds up those instead. With a
    `vote` it is about the votes of the units of `rows`, one each, whose place is the one key. Facts
    say that the columns `never_null` of tables hold no NULL. Claims are `enforced` in SQL.
    """

    rows: Relation
    unit: Ref
    unit_ids: frozenset[int]
    max_rows: int | None
    determined: frozenset[int]
    keys: tuple[Item, ...]
    measures: tuple[Measure, ...]
    declared: DeclaredLimits
    facts: tuple[Fact, ...]
    span: Span
    groups: Relation | None = None
    several: bool = False
    max_groups: int | None = None
    alone: bool = False
    weighed: Weighed | None = None
    vote: UnitVote | None = None
    never_null: frozenset[int] = frozenset()
    enforced: tuple[Enforcement, ...] = ()

    @property
    def max_rows_per_group(self) -> int | None:
        """The proved most rows of one unit in one group."""
        return 1 if self.alone else self.max_rows


@dataclass(frozen=True, slots=True)
class Tracked:
    """`outer` reads only `Released` leaves and public tables; `blocks` are private.

    `stages` are queries over blocks whose rows later blocks join; a block reads stages only of
    blocks before it. `notices` are told where rows of people were asked for, of which none is
    shown, and of blocks that have none by declaration.
    """

    outer: Relation
    blocks: tuple[PrivateBlock, ...]
    stages: tuple[Relation, ...] = ()
    notices: tuple[Withheld | ByDeclaration, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundedBlock:
    """A block with what is known of its expressions.

    `arguments` describes each measure's arguments (none for COUNT(*)); `domain` lists the possible
    key tuples, or is None where they are private; `key_combinations` is how many combinations the
    keys that the unit does not determine can take (None: unbounded). `tested` describes what the
    conditions of measures are, and what they compare with constants. Keys that are not `within`
    what was released before have no rows. `wide` are the arguments if no unit has more rows than
    `MOST_ROWS`, where they have no bounds otherwise.
    """

    block: PrivateBlock
    arguments: tuple[tuple[Facts, ...], ...]
    domain: tuple[tuple[Value, ...], ...] | None
    key_combinations: int | None
    tested: Mapping[Expression, Facts] = field(default_factory=dict)
    within: tuple[Within, ...] = ()
    wide: tuple[tuple[Facts, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Bounded:
    """A tracked query whose every private expression is bounded."""

    outer: Relation
    blocks: tuple[BoundedBlock, ...]
    stages: tuple[Relation, ...] = ()


class Unpaid(ValueError):
    """A column that no payment names, a payment for what is not released, or of too little."""


@dataclass(frozen=True, slots=True)
class Payment:
    """The noise of the released columns with these ids, and what one unit changes of them.

    Of all of them together: it changes their vector, in L1, within the one sensitivity that they
    have, so that one loss covers them. Groups may share some of the noise of one column.
    `runner_up` is the noise of the same loss that would have been worse.
    """

    noise: Noise | CorrelatedNoise
    sensitivity: Sensitivity
    columns: tuple[int, ...]
    runner_up: Noise | None = None

    def __post_init__(self) -> None:
        """Noise that groups share is of one column, and enough for what one unit changes."""
        if isinstance(self.noise, CorrelatedNoise) and not (
            len(self.columns) <= 1 and self.noise.covers(self.sensitivity)
        ):
            raise Unpaid(self.sensitivity, self.noise.reached)

    @property
    def shares_noise(self) -> bool:
        """Whether groups share some of it, so that their errors depend on one another."""
        return isinstance(self.noise, CorrelatedNoise)

    @property
    def alone(self) -> Noise:
        """The noise of one group by itself."""
        return self.noise.alone if isinstance(self.noise, CorrelatedNoise) else self.noise


@dataclass(frozen=True, slots=True)
class Release:
    """One noised measurement: `field` labels it in the released table, `payment` pays for it.

    A mean with `stability` is shown only where its test is passed. What is derived of earlier
    measurements has in each group the noise `single`, and several of it at most the payment's each.
    """

    field: Field
    query: Measurement
    payment: Payment
    stability: Stability | None = None
    single: Noise | None = None

    @property
    def noise(self) -> Noise:
        """That of one group by itself."""
        return self.payment.alone

    @property
    def sensitivity(self) -> Sensitivity:
        return self.payment.sensitivity


@dataclass(frozen=True, slots=True)
class ReleasedColumn:
    """A column of a released table: its integers are in steps of `lattice`."""

    field: Field
    lattice: Lattice

    @property
    def id(self) -> int:
        """Its own, by which everything that reads it knows it."""
        return self.field.id


def _chosen(field: Field, histogram: Histogram) -> ReleasedColumn:
    return ReleasedColumn(field, histogram.grid.lattice)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlan:
    """One joint release: contribution bounds, measurements, and how its keys are published.

    `l0` is the most groups per unit; `enforce_l0` says that SQL must sample them; `row_level`
    that every unit has at most one row, so that nothing is aggregated per unit.

    `keys` says how the keys are published. Behind the `releases` are the choices, then what is read
    of trees.

    What `agreements` say of the exact integers of columns is made true of the noisy ones after the
    release. `norms` are the bounds that were found of what a unit contributes, `totals` those that
    are declared and that totals are clipped to. `ranges` says how ranges of values are measured.
    Votes are about the totals of the block `answering` with what they find, if that is known.
    """

    block: PrivateBlock
    keys: Keys
    releases: tuple[Release, ...]
    choices: tuple[Choice, ...] = ()
    trees: tuple[TreeRelease, ...] = ()
    groups: Contribution
    enforce_l0: bool
    row_level: bool
    rows_per_group: Contribution
    rows: Contribution
    agreements: tuple[Agreement, ...] = ()
    norms: tuple[ContributionBound, ...] = ()
    totals: tuple[TotalLimit, ...] = ()
    ranges: tuple[RangeStrategy, ...] = ()
    answering: BlockPlan | None = None

    def __post_init__(self) -> None:
        """Every release is named by the payment that it names, once, and nothing else is.

        Every column has an id of its own, and what is looked at is released.
        """
        columns = [release.field.id for release in self.releases]
        paid = [column for payment in self.payments for column in payment.columns]
        own = all(release.field.id in release.payment.columns for release in self.releases)
        if not own or len(paid) != len(set(paid)) or sorted(paid) != sorted(columns):
            raise Unpaid(columns, paid)
        if len(set(self.ids)) != len(self.ids) or not self._looked_at <= set(columns):
            raise Unpaid(self.ids, self._looked_at)
        for payment in self.payments:
            if isinstance(payment.noise, CorrelatedNoise) and not self._within(payment.noise):
                raise Unpaid(payment.noise.reached)

    @property
    def _looked_at(self) -> frozenset[int]:
        """The measurements by which others, or keys, are shown, and those that are to agree."""
        counted = self.keys.counted if isinstance(self.keys, ThresholdKeys) else ()
        tests = (r.stability.count for r in self.releases if r.stability is not None)
        agreed = (column for agreement in self.agreements for column in agreement.places)
        return frozenset((*counted, *tests, *agreed))

    def _within(self, noise: CorrelatedNoise) -> bool:
        """Whether there are no more groups than it is for."""
        listed = isinstance(self.keys, ListedKeys)
        return listed and len(self.domain or ()) <= noise.reached.groups

    @property
    def domain(self) -> Domain | None:
        """The public keys; None where keys are private."""
        match self.keys:
            case ListedKeys() | TopKeys():
                return self.keys.domain
            case ThresholdKeys() | TrialKeys():
                return None
            case _:
                assert_never(self.keys)

    @property
    def payments(self) -> tuple[Payment, ...]:
        """What pays for the releases, each once."""
        return tuple(dict.fromkeys(release.payment for release in self.releases))

    @property
    def queries(self) -> tuple[Measurement, ...]:
        """What SQL sums, in the order of its columns."""
        return (*unreleased(self.keys), *(release.query for release in self.releases))

    @property
    def columns(self) -> tuple[ReleasedColumn, ...]:
        """Everything that is released beside the keys, in the order of the released table."""
        match self.keys:
            case TopKeys(place=Field() as place, unreleased=judged):
                return (ReleasedColumn(place, judged.released), *self.noisy)
            case _:
                return self.noisy

    @property
    def noisy(self) -> tuple[ReleasedColumn, ...]:
        """What is measured, chosen, and read of trees; half the intervals of these are the last."""
        trees = self.trees
        measured = [ReleasedColumn(r.field, r.query.released) for r in self.releases]
        chosen = [_chosen(choice.field, choice.query.histogram) for choice in self.choices]
        read = [_chosen(field, tree.histogram) for tree in trees for field in tree.fields]
        halves = [_chosen(half, tree.histogram) for tree in trees for half in tree.halves]
        return (*measured, *chosen, *read, *halves)

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of the keys and of the released columns."""
        keys = (key.field.id for key in self.block.keys)
        return (*keys, *(column.id for column in self.columns))

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """What SQL counts by cells, each once."""
        choices = [choice.query.histogram for choice in self.choices]
        return tuple(dict.fromkeys([*choices, *(tree.histogram for tree in self.trees)]))

    @property
    def halves(self) -> Mapping[int, int]:
        """The quantiles whose error is known, each with the column of half its interval."""
        return {
            field.id: half.id
            for tree in self.trees
            for field, half in zip(tree.fields, tree.halves, strict=False)
        }

    @property
    def placed_agreements(self) -> tuple[Agreement, ...]:
        """The agreements by the places of the releases."""
        places = {release.field.id: place for place, release in enumerate(self.releases)}
        return tuple(agreement.renumbered(places) for agreement in self.agreements)

    @property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of all that is measured."""
        return (*(release.noise for release in self.releases), *(t.noise for t in self.trees))

    @property
    def l0(self) -> int:
        """Most groups one unit touches."""
        assert self.groups.value is not None
        return self.groups.value


@dataclass(frozen=True, slots=True)
class Poll:
    """A question that finds a norm: the votes of the units of `block`, known by `key`.

    The norm bounds what a unit adds to the released column `column` (None: the rows that choices
    keep of it, or their range), of which `groups` groups count. A mean or a ratio is to be found
    `first`: from there rows are measured whose norm is asked for. The norm `of_keys` is to
    show about as many private keys as it can. The rows that choices keep may be `of_sums`: of what
    rows of a unit add up to. That of an L2 norm over many groups is held `beside`
    that of the L1 norm of the same totals, known by its key, of which the better is taken where
    `either` may be. What is cut of a unit is `alone` in the largest private groups, which few units
    have several of.
    """

    key: str
    block: PrivateBlock
    column: int | None
    groups: int
    of_keys: bool = False
    of_sums: bool = False
    beside: str | None = None
    either: bool = False
    alone: bool = False

    @property
    def first(self) -> bool:
        return isinstance(self.block.vote, MeanVote | RatioVote)


@dataclass(frozen=True, slots=True)
class FoundNorm:
    """What the poll known by `key` found: the bound of a norm in steps, and who is beyond it.

    About `above` units at most have more; not `visible`, there are too few of them to find a bound.
    Of two norms of the same totals the L1 norm may be taken `instead`.
    """

    key: str
    bound: int
    above: int
    visible: bool
    instead: bool = False


@dataclass(frozen=True, slots=True)
class ContributionBound:
    """A bound of the norm of `what` a unit contributes to measure `measure` of a block.

    It was found by a poll, or is a public one (None); a measure None shows keys and is not asked
    for. `most` is the norm in units of the values; contributions may be `negative` or `positive`.
    A unit that is counted once in a group counts less in each of more than so many `groups`.
    """

    measure: int | None
    what: Contributed
    norm: FoundNorm | None
    most: float
    negative: bool
    positive: bool
    groups: float | None = None


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """The whole query: its blocks, the queries over their noisy tables, and its price.

    `loss` is what is charged for the event: no less than the least that any question is charged.
    `shares` are the parts of its budget that pay for the measurements and choices of the blocks.
    Tables of `levels` have totals in common, which are made equal after the release. While there
    are `polls` to be held, the norms that they find are the widest.
    """

    blocks: tuple[BlockPlan, ...]
    stages: tuple[Relation, ...]
    outer: Relation
    event: Event
    loss: Loss
    epsilon: Fraction
    shares: tuple[Fraction, ...]
    levels: tuple[Marginals, ...] = ()
    polls: tuple[Poll, ...] = ()

    def __post_init__(self) -> None:
        """What is read of a block is what it releases, no column more and none less."""
        for query in (self.outer, *self.stages):
            for read in relations(query):
                if isinstance(read, Released):
                    released = self.blocks[read.block].ids
                    if read.columns != released:
                        raise Unpaid(read.columns, released)


def as_derived(plan: PrivatePlan, derived: DerivedColumns) -> PrivatePlan:
    """The plan with the noise of numbers that were derived; as it is where it has other columns."""
    block = plan.blocks[0]
    if len(derived.noises) != len(block.releases):
        return plan
    releases = tuple(
        replace(r, payment=Payment(noise, r.sensitivity, (r.field.id,)), single=single)
        for r, noise, single in zip(block.releases, derived.noises, derived.singles, strict=True)
    )
    return replace(plan, blocks=(replace(block, releases=releases), *plan.blocks[1:]))


@dataclass(frozen=True, slots=True)
class BlockSql:
    """The one statement that computes a block's exact integers; `stages` are those it reads.

    Where something is chosen there is one key more, the cell of a histogram (NULL: the group
    itself), and one part more, the rows in the cell; the histograms' cells follow one another.
    Over `totals` that several statements read there is another one of the same numbers.
    """

    sql: str
    keys: tuple[SqlType, ...]
    parts: int
    stages: tuple[int, ...] = ()
    totals: MadeTotals | None = None


@dataclass(frozen=True, slots=True)
class ReleasedTable:
    """A table of the outer query: the noisy table of a block, or a public query's exact rows."""

    name: str
    columns: tuple[tuple[str, SqlType], ...]
    block: int | None
    public_sql: str | None


@dataclass(frozen=True, slots=True)
class StageSql:
    """What private rows are joined to: a released result, `sql` over `tables`, on scratch.

    With `rows` it is a public query, which was evaluated already.
    """

    columns: tuple[tuple[str, SqlType], ...]
    tables: tuple[ReleasedTable, ...]
    sql: str
    rows: Sequence[tuple[Value, ...]] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What runs where: block statements on the owner's engine, the outer query on scratch.

    `outer_sql` returns the output columns and then one error column per output column;
    `shown_sql` is the same without the errors. `expected` is the standard error of each output,
    None if exact, NaN where it depends on what is released. Blocks read these `stored` tables.
    """

    blocks: tuple[BlockSql, ...]
    tables: tuple[ReleasedTable, ...]
    outer_sql: str
    shown_sql: str
    output: tuple[Field, ...]
    stages: tuple[StageSql, ...] = ()
    expected: tuple[float | None, ...] = ()
    stored: tuple[str, ...] = ()
