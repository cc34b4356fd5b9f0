"""The private plan: types that `track`, `infer`, `calibrate` and `rewrite` pass on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar, assert_never

from dpsql.compiler.plan import published_keys
from dpsql.compiler.plan.biased_columns import BiasedColumn
from dpsql.compiler.plan.certain_ranges import CertainNumbers
from dpsql.compiler.plan.enforcement import Enforcement
from dpsql.compiler.plan.lattices import Choice, Histogram, Lattice, RangeStrategy, TreeRelease
from dpsql.compiler.plan.measurement_kinds import MeanVote, Measurement, RatioVote, UnitVote
from dpsql.compiler.plan.shown_query import ShownQuery
from dpsql.compiler.plan.voting_rows import VotingRows
from dpsql.compiler.plan.weighed_rows import Weighed
from dpsql.consistency.least_squares import Agreement
from dpsql.consistency.marginals import Marginals
from dpsql.engines import MadeTotals
from dpsql.mechanisms.clipping_bias import ClippingBias
from dpsql.mechanisms.correlated_gaussian import CorrelatedNoise
from dpsql.mechanisms.matrix_noise import MatrixNoise
from dpsql.mechanisms.stability import Stability
from dpsql.model.algebra import Field, Item, Measure, Relation, Released
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.intervals import Facts, Interval
from dpsql.model.notices import Contributed
from dpsql.model.origins import DerivedColumns
from dpsql.model.row_notices import AnsweredAs, NoRows, Withheld
from dpsql.model.tree import Expression, Ref, Span, SqlType, Value
from dpsql.model.vocabulary import Event, Fact, Loss, Noise, Sensitivity
from dpsql.model.walk import relations


@dataclass(frozen=True, slots=True)
class Contribution:
    """A contribution bound: its value (None: no bound) and where it was proved or is enforced."""

    value: int | None
    how: str


@dataclass(frozen=True, slots=True)
class KeyLimit:
    """A limit for groupings by `key`, over columns of tables, with the owner's name of it."""

    key: Expression
    name: str
    most: int


@dataclass(frozen=True, slots=True)
class TotalLimit:
    """The largest sum of absolute values of one unit in a table's column."""

    column: int
    name: str
    most: Fraction


@dataclass(frozen=True, slots=True)
class DeclaredLimits:
    """The policy's declarations about one unit's rows in a relation (None: nothing). Limits `by` a
    key are for groupings by it and replace the general ones. `silent` are tables without a
    declaration, as limit and table, for a refusal.
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
        """Return the tables that would have to declare a limit, sorted, like "items and orders"."""
        tables = sorted(table for kind, table in self.silent if kind == limit)
        return " and ".join(tables) or "each table of people's rows in FROM"

    def plus(self, other: DeclaredLimits, shared: int = 0) -> DeclaredLimits:
        """Return the limits of the rows of both; `shared` rows are certainly counted twice."""
        return DeclaredLimits(
            total(self.rows_per_unit, other.rows_per_unit, shared),
            total(self.groups_per_unit, other.groups_per_unit, shared),
            total(self.rows_per_group, other.rows_per_group, shared),
            least(self.public_groups, other.public_groups),
        )

    def times(self, other: DeclaredLimits) -> DeclaredLimits:
        """Return the limits of a join in which any row of one side may meet any row of the other.
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
    """Return the smallest declared limit; None if there is none."""
    return min((limit for limit in limits if limit is not None), default=None)


def total(a: int | None, b: int | None, shared: int = 0) -> int | None:
    """Return the sum of two limits less their overlap; None if one is unknown."""
    return None if a is None or b is None else a + b - shared


def product(a: int | None, b: int | None) -> int | None:
    """Return the product of two limits; None if one is unknown."""
    return None if a is None or b is None else a * b


@dataclass(frozen=True, slots=True)
class PrivateBlock:
    """A private aggregate: the rows it reads, each with its unit, and its measures. `rows` has the
    unit key as column `unit`, never NULL; `unit_ids` are all columns that contain it. `max_rows` is
    the proved most rows of one unit (None: unbounded). `determined` are the columns that the unit
    determines; `declared` the owner's limits; `facts` those that proofs use. With `groups` the keys
    are those of a public relation, and they are written over its columns. Rows that belong to
    `several` units have no single unit: see `compiler.track.table_scans`. `max_groups` is the
    proved most groups of one unit (None: as many as it has rows); with `alone` no two rows of one
    unit are in one group. All of this is about `rows`; with `weighed`, an engine adds up those
    instead. With a `vote` it is a histogram of votes, one per unit, and their place is the only
    key. Facts say that the columns `never_null` of tables contain no NULL. Claims are `enforced` in
    SQL.
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
    """A query divided into private blocks and an outer query over their released tables. `outer`
    reads only `Released` leaves and public tables. `stages` are queries over blocks for joins in
    later blocks; a block reads stages only of blocks before it. `notices` say that private rows
    were requested and none is shown, or that blocks are empty by declaration.
    """

    outer: Relation
    blocks: tuple[PrivateBlock, ...]
    stages: tuple[Relation, ...] = ()
    notices: tuple[Withheld | NoRows | AnsweredAs, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundedBlock:
    """A block with the facts of its expressions. `arguments` describes each measure's arguments
    (none for COUNT(*)). `domain` lists the possible key tuples, or is None where they are private.
    `key_combinations` is the number of combinations of the keys that the unit does not determine
    (None: unbounded). `tested` has facts of the conditions of measures, and of expressions that
    they compare with constants. Keys that are not `within` earlier releases have no rows. `wide`
    are the arguments with far too large bounds, () for others: those of units of `MOST_ROWS` rows,
    or of all days that a policy assumes of times. A domain of private keys was `shown` before. Rows
    that wait for a stage may have `voting` rows in their place.
    """

    block: PrivateBlock
    arguments: tuple[tuple[Facts, ...], ...]
    domain: tuple[tuple[Value, ...], ...] | None
    key_combinations: int | None
    tested: Mapping[Expression, Facts] = field(default_factory=dict)
    within: tuple[published_keys.Within, ...] = ()
    wide: tuple[tuple[Facts, ...], ...] = ()
    shown: bool = False
    voting: VotingRows | None = None


@dataclass(frozen=True, slots=True)
class Bounded:
    """A tracked query with bounds for every private expression."""

    outer: Relation
    blocks: tuple[BoundedBlock, ...]
    stages: tuple[Relation, ...] = ()
    certain: CertainNumbers = CertainNumbers()


class Unpaid(ValueError):
    """An unpaid column, a payment for an unreleased column, or a payment that is too small."""


@dataclass(frozen=True, slots=True)
class Payment:
    """The noise of the released columns with these ids, and their change by one unit. A unit
    changes the vector of all of them, in L1, within their single sensitivity, so that one loss
    covers them. Groups may share the noise of one column. `runner_up` is the second-best
    noise of the same loss.
    """

    noise: Noise | CorrelatedNoise | MatrixNoise
    sensitivity: Sensitivity
    columns: tuple[int, ...]
    runner_up: Noise | None = None

    def __post_init__(self) -> None:
        """Check that noise shared by groups is of one column, and enough for the change by one
        unit.
        """
        if not isinstance(self.noise, Noise) and not (
            len(self.columns) <= 1 and self.noise.covers(self.sensitivity)
        ):
            raise Unpaid(self.sensitivity, self.noise)

    @property
    def shares_noise(self) -> bool:
        """True if groups share part of the noise, so their errors are dependent."""
        return not isinstance(self.noise, Noise)

    @property
    def alone(self) -> Noise:
        """The noise of one group by itself; of a typical running sum where these are measured."""
        return self.noise if isinstance(self.noise, Noise) else self.noise.alone


@dataclass(frozen=True, slots=True)
class Release:
    """One noised measurement: `field` labels it in the released table, `payment` pays for it. A
    mean with `stability` is released only if its test passes. A number derived from earlier
    measurements has the noise `single` in each group; several of them err at most as if each had
    the payment's.
    """

    field: Field
    query: Measurement
    payment: Payment
    stability: Stability | None = None
    single: Noise | None = None

    @property
    def noise(self) -> Noise:
        """Noise of the payment in one group by itself."""
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
        """The id by which all readers of the column know it."""
        return self.field.id


def _chosen(field: Field, histogram: Histogram) -> ReleasedColumn:
    return ReleasedColumn(field, histogram.grid.lattice)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlan:
    """One joint release: contribution bounds, measurements, and the publication of keys. `l0` is
    the most groups per unit; `enforce_l0` says that SQL must sample them. `row_level` says that
    every unit has at most one row, so that nothing is aggregated per unit. `keys` says how keys are
    published. After the `releases` come the choices, then the quantiles of trees. The exact columns
    satisfy `agreements`, and the noisy ones are made to after the release. `norms` are found bounds
    on a unit's contribution, `totals` are declared ones to which totals are clipped. `ranges` are
    the strategies for ranges of values. Votes are about the totals of the block `answering` with
    their result, if that is known. Found clipping bounds remove something of `biased` columns.
    """

    block: PrivateBlock
    keys: published_keys.Keys
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
    biased: tuple[BiasedColumn, ...] = ()

    def __post_init__(self) -> None:
        """Check that payments name exactly the releases, each once. Ids are unique, and columns
        that decide something are released.
        """
        columns = [release.field.id for release in self.releases]
        paid = [column for payment in self.payments for column in payment.columns]
        own = all(release.field.id in release.payment.columns for release in self.releases)
        if not own or len(paid) != len(set(paid)) or sorted(paid) != sorted(columns):
            raise Unpaid(columns, paid)
        if len(set(self.ids)) != len(self.ids) or not self._looked_at <= set(columns):
            raise Unpaid(self.ids, self._looked_at)
        for payment in self.payments:
            listed = isinstance(self.keys, published_keys.ListedKeys)
            if not isinstance(payment.noise, Noise) and not (
                listed and payment.noise.fits(len(self.domain or ()))
            ):
                raise Unpaid(payment.noise)

    @property
    def _looked_at(self) -> frozenset[int]:
        """The measurements that select others or keys, and those that are made to agree."""
        counted = self.keys.counted if isinstance(self.keys, published_keys.ThresholdKeys) else ()
        tests = (r.stability.count for r in self.releases if r.stability is not None)
        agreed = (column for agreement in self.agreements for column in agreement.places)
        return frozenset((*counted, *tests, *agreed))

    @property
    def lists_shown(self) -> bool:
        """Test whether its keys are listed because an earlier step showed them."""
        return isinstance(self.keys, published_keys.ListedKeys) and self.keys.shown

    @property
    def domain(self) -> published_keys.Domain | None:
        """The listed keys: public ones, or private ones that were shown before. None for others."""
        match self.keys:
            case published_keys.ListedKeys() | published_keys.TopKeys():
                return self.keys.domain
            case published_keys.ThresholdKeys() | published_keys.TrialKeys():
                return None
            case _:
                assert_never(self.keys)

    @property
    def payments(self) -> tuple[Payment, ...]:
        """The payments of the releases, each once."""
        return tuple(dict.fromkeys(release.payment for release in self.releases))

    @property
    def queries(self) -> tuple[Measurement, ...]:
        """The measurements that SQL sums, in the order of its columns."""
        return (*self.keys.judged, *(release.query for release in self.releases))

    @property
    def columns(self) -> tuple[ReleasedColumn, ...]:
        """All released columns besides the keys, in the order of the released table."""
        match self.keys:
            case published_keys.TopKeys(place=Field() as place, unreleased=judged):
                return (ReleasedColumn(place, judged.released), *self.noisy)
            case _:
                return self.noisy

    @property
    def noisy(self) -> tuple[ReleasedColumn, ...]:
        """Measurements, choices, quantiles of trees, and last the half-widths of these
        quantiles.
        """
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
        """The histograms that SQL counts, each once."""
        choices = [choice.query.histogram for choice in self.choices]
        return tuple(dict.fromkeys([*choices, *(tree.histogram for tree in self.trees)]))

    @property
    def halves(self) -> Mapping[int, int]:
        """The quantiles with known errors, each with the column of its half-width."""
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
        """The noise of all measurements."""
        return (*(release.noise for release in self.releases), *(t.noise for t in self.trees))

    @property
    def l0(self) -> int:
        """Largest number of groups of one unit."""
        assert self.groups.value is not None
        return self.groups.value


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll that finds a norm: the votes of the units of `block`, identified by `key`. The norm
    bounds a unit's contribution to the released column `column` (None: the rows that choices keep
    of it, or their range); `groups` groups count. A mean or a ratio is found `first`, because rows
    are measured from it before their norm. A norm `of_keys` shows about as many private keys as
    possible. Rows that choices keep may be `of_sums`: of the rows of a unit that are added up. An
    L2 norm over many groups is polled together with the L1 norm of the same totals, and `beside` is
    its key; the better one is taken where `either` may be. Clipping of a unit counts `alone` in the
    largest private groups, because few units have several of them. Groups are `listed` if they are
    public, or a unit is in one. If only the largest are shown, `groups` are fewer than `of_all`.
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
    listed: bool = False
    of_all: int = 0

    @property
    def first(self) -> bool:
        return isinstance(self.block.vote, MeanVote | RatioVote)


@dataclass(frozen=True, slots=True)
class FoundNorm:
    """The result of the poll `key`: the bound of a norm in steps, and the units beyond it. About
    `above` units at most have more. Without `visible`, there are too few units to find a bound. Of
    two norms of the same totals the L1 norm may be taken `instead`. The bound removes at most its
    `bias` (None: unknown).
    """

    key: str
    bound: int
    above: int
    visible: bool
    instead: bool = False
    bias: ClippingBias | None = None


@dataclass(frozen=True, slots=True)
class ContributionBound:
    """A bound on the norm of `what` a unit contributes to measure `measure` of a block. It was
    found by a poll, or is public (`norm` None). A measure None selects keys and is not output.
    `most` is the norm in units of the values, `over_groups` the root of summed squares of groups;
    contributions may be `negative` or `positive`. A unit that is counted once in a group counts
    less in each of more than `groups` groups.
    """

    measure: int | None
    what: Contributed
    norm: FoundNorm | None
    most: float
    negative: bool
    positive: bool
    groups: float | None = None
    over_groups: bool = False


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """The whole query: its blocks, the queries over their noisy tables, and its price. `loss` is
    the charge for the event: at least the minimum charge. `shares` are the parts of its budget for
    the measurements and choices of the blocks. Tables of `levels` have totals in common, which are
    made equal after the release. While `polls` are to run, the bounds that they find are the
    widest.
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
    certain: CertainNumbers = CertainNumbers()

    def __post_init__(self) -> None:
        """Check that queries read exactly the columns that a block releases."""
        for query in (self.outer, *self.stages):
            for read in relations(query):
                if isinstance(read, Released):
                    released = self.blocks[read.block].ids
                    if read.columns != released:
                        raise Unpaid(read.columns, released)


def as_derived(plan: PrivatePlan, derived: DerivedColumns) -> PrivatePlan:
    """Return the plan with the noise of derived numbers; unchanged if it has other columns."""
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
    """The statement that computes a block's exact integers; `stages` are those it reads. With
    choices there is one more key, the cell of a histogram (NULL: the group itself), and one more
    part, the rows in the cell. Cells of histograms are numbered one after another. `totals` holds a
    second statement for the same numbers, over totals that several statements read.
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
    """Rows that private rows are joined to: a released result, `sql` over `tables`, on scratch.
    With `rows` it is a public query, which was evaluated already.
    """

    columns: tuple[tuple[str, SqlType], ...]
    tables: tuple[ReleasedTable, ...]
    sql: str
    rows: Sequence[tuple[Value, ...]] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The statements by place: blocks on the owner's engine, the outer query on scratch.
    `outer_sql` returns the output columns, one error column per output column, and the two halves
    of the intervals of the `halved` ones; `shown` is the same without errors. `expected` is the
    standard error of each output, None if exact, NaN where it depends on released values. Where
    noise selects rows, it is at most `largest`. Blocks read these `stored` tables. True values of
    outputs lie in their `certain` ranges.
    """

    blocks: tuple[BlockSql, ...]
    tables: tuple[ReleasedTable, ...]
    outer_sql: str
    shown: ShownQuery | str
    output: tuple[Field, ...]
    stages: tuple[StageSql, ...] = ()
    expected: tuple[float | None, ...] = ()
    largest: tuple[float | None, ...] = ()
    stored: tuple[str, ...] = ()
    halved: tuple[int, ...] = ()
    certain: tuple[Interval, ...] = ()
