"""prepare: the pure pipeline from text to statements, top to bottom, without running anything.

It sees no private data: PRIVACY.md R6, SECURITY.md S1. A budget with public keys only plans no step
that needs a δ: PRIVACY.md R57.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from hashlib import sha256
from math import prod

from dpsql import accountants
from dpsql.accountants.preference import SPARSE_VECTOR, bad_mechanism
from dpsql.compiler.aggregates.recipe import MeasurementOptions
from dpsql.compiler.calibrate.calibrate import calibrate
from dpsql.compiler.calibrate.poll_queries import about_blocks, polled
from dpsql.compiler.infer.column_facts import Evaluate, FactSource, PublicData
from dpsql.compiler.infer.declared_empty import without_empty_blocks
from dpsql.compiler.infer.infer import domain_of, infer, with_others
from dpsql.compiler.infer.wide_columns import told_columns, with_noise
from dpsql.compiler.kernel.enforce import enforced
from dpsql.compiler.notices.plan_notices import notices, too_few
from dpsql.compiler.plan.canonical import identify_plan
from dpsql.compiler.plan.plan_version import plan_version
from dpsql.compiler.plan.prepared import Prepared, WideTable
from dpsql.compiler.plan.private_plan import (
    BlockPlan,
    Bounded,
    FoundNorm,
    PrivatePlan,
    Tracked,
    as_derived,
)
from dpsql.compiler.plan.published_keys import ShownKeys, TopKeys, TrialKeys
from dpsql.compiler.plan.wide_tables import adds_up, wide_table
from dpsql.compiler.resolve.first_rows import as_ranks
from dpsql.compiler.resolve.grid import on_grid
from dpsql.compiler.resolve.group_totals import as_totals
from dpsql.compiler.resolve.joined_rows import limit_joined_sides, replace_by_existence
from dpsql.compiler.resolve.key_filters import behind_groups
from dpsql.compiler.resolve.randomized_columns import Debiased, debiased
from dpsql.compiler.resolve.rejoined_ranks import beside_rows
from dpsql.compiler.resolve.resolve import resolve, without_rows
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.staged_ranks import as_edges
from dpsql.compiler.resolve.staged_windows import as_stages
from dpsql.compiler.resolve.unmatched_rows import with_public_values, with_unmatched
from dpsql.compiler.resolve.wide_groups import wide_groups
from dpsql.compiler.resolve.window_aggregates import as_aggregates, has_shift
from dpsql.compiler.rewrite.rewrite import rewrite, rewrite_public
from dpsql.compiler.rewrite.stored_rows import over_store
from dpsql.compiler.rewrite.weights import weighed
from dpsql.compiler.track.track import track
from dpsql.compiler.track.uniqueness import keys_of
from dpsql.mechanisms import margin
from dpsql.model.algebra import Relation, Released, Resolved, Staged
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts
from dpsql.model.notices import Notice
from dpsql.model.origins import DerivedColumns
from dpsql.model.prepared_store import opened
from dpsql.model.row_notices import STAGED_FORMS, AnsweredAs, AnswerForm, Reported
from dpsql.model.tree import Statement
from dpsql.model.vocabulary import Budget, Column, Loss, Policy
from dpsql.model.walk import relations
from dpsql.preparation import period_plans
from dpsql.preparation.engine_admission import require_conforming
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.period_plans import with_charged_blocks
from dpsql.preparation.shown_keys import keys_alone, with_listed
from dpsql.release.finish import NORMAL

CELLS_OF_A_PLAN = 10_000
_MIN_UNITS = "min_privacy_units_per_group"
_ANY_DELTA = Decimal("1e-9")
"""Placeholder for the δ of a question while its polls are compiled. Polls spend none, and do not
depend on it.
"""


def plans_of(most: int) -> BoundedCache[Prepared]:
    """Return a cache of plans; those with many rows of public subqueries take more room."""
    return BoundedCache(most, lambda plan: 1 + plan.cells // CELLS_OF_A_PLAN)


@dataclass(frozen=True, slots=True)
class KnownSteps:
    """Results of earlier steps of a question, and the step to compile.

    `norms` are contribution bounds by the keys of their polls. With `polls`, these polls are
    compiled. With `derived`, the columns were derived, with this noise. `promised` is the least
    charge, which was announced before bounds were found. With
    `shows_keys`, the step that shows private keys is compiled; `shown` are the keys that it showed.
    """

    norms: Mapping[str, FoundNorm] = field(default_factory=dict)
    polls: tuple[str, ...] = ()
    derived: DerivedColumns | None = None
    promised: Loss | None = None
    shows_keys: bool = False
    shown: ShownKeys | None = None

    @property
    def are_later(self) -> bool:
        """Test whether an earlier step decides some of the plan."""
        return self.promised is not None or self.shown is not None


def prepare(
    statement: Statement,
    policy: Policy,
    budget: Budget,
    epsilon: Fraction,
    public: PublicData,
    evaluate: Evaluate,
    steps: KnownSteps | None = None,
) -> Prepared:
    """Compile a parsed statement for an analyst who pays from `budget`.

    Raises `Refused` with a reason and a place. Depends only on text, policy and public tables.
    """
    if policy.period is None:
        return _prepare(statement, policy, budget, epsilon, public, evaluate, steps)
    reading = period_plans.choose_blocks(statement, policy, evaluate)
    with period_plans.explaining_people(policy, reading):
        prepared = _prepare(statement, reading, budget, epsilon, public, evaluate, steps)
        return with_charged_blocks(prepared, reading)


def _prepare(
    statement: Statement,
    policy: Policy,
    budget: Budget,
    epsilon: Fraction,
    public: PublicData,
    evaluate: Evaluate,
    steps: KnownSteps | None,
) -> Prepared:
    identities, steps = Identities(), steps or KnownSteps()
    resolved = without_rows(resolve(statement, policy, identities))
    if policy.deviations:
        require_conforming(resolved.relation, policy.deviations)
    dated, rounding = on_grid(resolved, statement, policy.limits)
    reported = debiased(dated, statement, policy, identities, evaluate)
    plans = _Plans(
        statement, policy, budget, identities, public=public, evaluate=evaluate, steps=steps
    )
    options = _options(statement, policy, epsilon, steps.norms)
    resolved, tracked = plans.aggregated(Resolved(reported.relation))
    columns = told_columns(dated.relation, policy)
    more = (*tracked.notices, *rounding, *(_about_stages(tracked) if tracked.stages else ()))
    if not tracked.blocks:
        prepared = _public(statement, columns, tracked.outer, policy, identities)
        return replace(prepared, notices=(*more, *_reports((), reported)))
    bounded = infer(tracked, policy, public, evaluate)
    if reported.cells:
        _are_listed(bounded, reported.cells)
    bounded = with_listed(bounded, steps.shown) if steps.shown else bounded
    if steps.shows_keys:
        return plans.planned(keys_alone(bounded, identities), options)
    if steps.polls:
        return plans.of_polls(bounded, options, steps.polls)
    prepared = plans.planned(bounded, options)
    if (statement.min_units, statement.keys, statement.mechanism) != (None, None, None):
        _heeds_options(statement, prepared.blocks, steps)
    grouped = any(block.block.keys for block in bounded.blocks)
    wider = plans.wider(resolved, bounded, prepared, options) if grouped else ()
    first, *others = (_announced(p, columns, more, reported) for p in (prepared, *wider))
    return replace(first, wider=tuple(others), wide=plans.wide(resolved, prepared, options))


def _about_stages(tracked: Tracked) -> tuple[AnsweredAs, ...]:
    """Return the notice that private rows depend on numbers that are released first."""
    forms = {n.form for n in tracked.notices if isinstance(n, AnsweredAs)}
    if not forms.isdisjoint(STAGED_FORMS):
        return ()
    waited = {
        part.stage
        for block in tracked.blocks
        for part in relations(block.rows)
        if isinstance(part, Staged) and part.source is None
    }
    noisy = (
        isinstance(part, Released) and part.measures
        for stage in waited
        for part in relations(tracked.stages[stage])
    )
    return (AnsweredAs(AnswerForm.STAGED_NUMBER),) if any(noisy) else ()


def _announced(
    prepared: Prepared,
    columns: tuple[Column, ...],
    more: tuple[Notice, ...],
    reported: Debiased,
) -> Prepared:
    """Return a plan under the columns of its text, with further notices."""
    columns = with_noise(columns, prepared.rewritten.expected)
    reports = _reports(prepared.blocks, reported) if reported.notices else ()
    notices = (*prepared.notices, *more, *reports)
    return replace(prepared, columns=columns, notices=notices)


def _reports(blocks: Sequence[BlockPlan], reported: Debiased) -> tuple[Reported, ...]:
    """Return the notices on randomized columns, with the noise of their counts."""
    listed = dict[Reported, None]()
    for measure, estimates in reported.notices.items():
        block = next((b for b in blocks if measure in {m.field.id for m in b.block.measures}), None)
        noise = None
        if block is not None and block.releases:
            times = prod(notice.law.amplification for notice in estimates)
            noise = times * max(
                margin(release.noise) * float(release.query.released.step)
                for release in block.releases
            )
        listed |= {replace(notice, noise=noise): None for notice in estimates}
    return tuple(listed)


def _are_listed(bounded: Bounded, cells: frozenset[int]) -> None:
    """Refuse counts of reports in private groups: missing groups could not be subtracted."""
    for block in bounded.blocks:
        if block.domain is None and any(key.field.id in cells for key in block.block.keys):
            construct = "private group keys beside a column that people randomised"
            fix = "Group by columns with declared values."
            raise Refused(
                Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                block.block.span,
                construct=construct,
                fix=fix,
            )


def argument_facts(
    statement: Statement, policy: Policy, budget: Budget, public: PublicData, evaluate: Evaluate
) -> tuple[Facts, ...]:
    """Return the facts about arguments of aggregates over private rows, in their order.

    Raises `Refused`. Depends only on text, policy and public tables.
    """
    identities = Identities()
    policy = period_plans.choose_blocks(statement, policy, evaluate)
    resolved = without_rows(resolve(statement, policy, identities))
    plans = _Plans(statement, policy, budget, identities, public=public, evaluate=evaluate)
    bounded = infer(plans.aggregated(resolved)[1], policy, public, evaluate)
    return tuple(f for block in bounded.blocks for facts in block.arguments for f in facts)


@dataclass(frozen=True, slots=True)
class _Plans:
    """Builder of a statement's plans: payment, notices and SQL."""

    statement: Statement
    policy: Policy
    budget: Budget
    identities: Identities
    public: PublicData
    evaluate: Evaluate
    steps: KnownSteps = field(default_factory=KnownSteps)

    def tracked(self, resolved: Resolved) -> Tracked:
        """Return the private blocks that may have rows, with their measures."""
        policy, public, evaluate = self.policy, self.public, self.evaluate
        listed = partial(domain_of, policy=policy, public=public, evaluate=evaluate)
        empty = self.statement.empty_rows
        tracked = track(resolved, policy, public, listed, self.identities, empty_rows=empty)
        if policy.period is not None:
            period_plans.require_one_period(tracked, policy)
        return without_empty_blocks(tracked, policy, public, evaluate)

    def aggregated(self, resolved: Resolved) -> tuple[Resolved, Tracked]:
        """Return the relations and their blocks, windows over people as aggregates where need is.

        Raises `Refused`.
        """
        try:
            return resolved, self.tracked(resolved)
        except Refused as refused:
            if refused.reason not in (Reason.UNSUPPORTED_PRIVATE_OPERATOR, Reason.TOO_LARGE):
                raise
            other, notices = self._otherwise(resolved.relation, refused)
            if other is resolved.relation:
                raise
            tracked = self.tracked(Resolved(other))
            if any(map(has_shift, (tracked.outer, *tracked.stages))):
                raise
        return Resolved(other), replace(tracked, notices=(*tracked.notices, *notices))

    def _otherwise(
        self, relation: Relation, refused: Refused
    ) -> tuple[Relation, tuple[AnsweredAs, ...]]:
        """Return a refused relation in the forms that have a rule."""
        if refused.reason is Reason.TOO_LARGE:
            return self._with_fewer_rows(relation)
        groups = refused.facts.get("groups")
        if isinstance(groups, tuple):
            return as_totals(relation, frozenset(groups), self.policy, self.identities), ()
        policy, identities, notices = self.policy, self.identities, list[AnsweredAs]()
        beside = beside_rows(relation, policy)
        ranked = as_aggregates(beside, policy, identities)
        compared = as_edges(ranked, policy, identities)
        if compared is not ranked:
            notices.append(AnsweredAs(AnswerForm.STAGED_RANK))
        limited = as_ranks(compared, policy, identities)
        staged = as_stages(limited, policy, identities)
        if staged is not limited:
            notices.append(AnsweredAs(AnswerForm.STAGED_AVERAGE))
        valued = with_public_values(staged, policy, self.public.frequency)
        counted = with_unmatched(valued, policy, self.public.frequency, identities)
        if counted is not valued:
            notices.append(AnsweredAs(AnswerForm.UNMATCHED_ROWS))
        return counted, tuple(notices)

    def _with_fewer_rows(self, relation: Relation) -> tuple[Relation, tuple[AnsweredAs, ...]]:
        """Return a relation with EXISTS in the place of joins, or with limits before them."""
        tested = replace_by_existence(relation, self.policy, self.identities)
        if tested is not relation:
            return tested, ()
        limited, most = limit_joined_sides(relation, self.policy, self.identities)
        return limited, () if most is None else (AnsweredAs(AnswerForm.LIMITED_JOIN, most),)

    def planned(self, bounded: Bounded, options: MeasurementOptions) -> Prepared:
        """Return the plan with its statements and notices."""
        plan = self.calibrated(bounded, options)
        plan = weighed(plan, self.policy, self.public.frequency, self.identities)
        listed = notices(bounded, plan, self.policy, self.public, self.evaluate, options)
        return replace(self.written(plan), notices=listed)

    def wider(
        self, resolved: Resolved, bounded: Bounded, prepared: Prepared, options: MeasurementOptions
    ) -> Iterator[Prepared]:
        """Yield the plans over more groups; refused ones, and ones with polls, were never
        charged.
        """
        whole = replace(options, whole=True)
        if any(isinstance(block.keys, TopKeys | TrialKeys) for block in prepared.blocks):
            yield self.planned(bounded, whole)
        one_step = not prepared.polls and self.steps.shown is None
        behind = behind_groups(resolved.relation) if one_step else None
        plan = None if behind is None else self._answered(Resolved(behind), whole)
        if plan is not None and not plan.polls and plan.question != prepared.question:
            yield plan

    def _answered(self, resolved: Resolved, options: MeasurementOptions) -> Prepared | None:
        """Return the plan of a query; None if it would be refused."""
        try:
            tracked = self.tracked(resolved)
            bounded = infer(tracked, self.policy, self.public, self.evaluate)
            return self.planned(bounded, options)
        except Refused:
            return None

    def wide(
        self, resolved: Resolved, prepared: Prepared, options: MeasurementOptions
    ) -> WideTable | None:
        """Return all groups that the conditions choose among, as one measurement.

        None if the question is not a sum of its cells.
        """
        remembers = period_plans.memory_of(self.statement, self.budget).measures_wide
        if not remembers or self.steps.are_later or not adds_up(prepared):
            return None
        block = prepared.blocks[0].block
        groups = wide_groups(resolved.relation, block, self.policy, self.identities)
        if groups is None:
            return None
        try:
            bounded = infer(
                self.tracked(Resolved(groups.relation)), self.policy, self.public, self.evaluate
            )
            everyone = with_others(bounded, [key.other for key in groups.keys], self.policy)
            if everyone is None:
                return None
            plan = self.planned(everyone, replace(options, whole=True))
        except Refused:
            return None
        whole, chosen = [key.whole for key in groups.keys], [key.chosen for key in groups.keys]
        return wide_table(prepared, plan, whole, chosen, self.policy)

    def calibrated(self, bounded: Bounded, options: MeasurementOptions) -> PrivatePlan:
        """Return the measurements of the blocks, with their noise."""
        named = None if options.scans else self.statement.mechanism
        accountant = accountants.preferring(self.budget, named, options.epsilon)
        delta = self.budget.query_delta
        plan = calibrate(
            bounded,
            accountant,
            self.policy.unit.neighbours,
            options,
            Fraction(delta),
            self.identities,
        )
        plan = enforced(plan, self.policy, self.public.frequency)
        if self.budget.only_public_keys and plan.loss.delta:
            block = next((b.block for b in plan.blocks if b.domain is None), plan.blocks[0].block)
            raise Refused(Reason.PRIVATE_KEYS_NEED_DELTA, block.span)
        return plan if self.steps.derived is None else as_derived(plan, self.steps.derived)

    def of_polls(
        self, bounded: Bounded, options: MeasurementOptions, polls: tuple[str, ...]
    ) -> Prepared:
        """Return the plan of some of the polls that a query needs first."""
        most = self.policy.limits.max_public_groups
        origin = FactSource(self.policy, self.public, self.evaluate, most)
        budget = replace(self.budget, query_delta=self.budget.query_delta or _ANY_DELTA)
        whole = replace(self, budget=budget).calibrated(bounded, options)
        polling = polled(whole.polls, polls, bounded.stages, self.identities)
        # A mechanism that the question names may need the δ that its polls lack.
        any_noise = replace(self, statement=replace(self.statement, mechanism=None))
        paid = self if self.budget.query_delta else any_noise
        plan = about_blocks(paid.calibrated(polling, options), whole)
        few = tuple(too_few(plan, origin, self.policy))
        return replace(self.written(plan, *polls), notices=few[:1])

    def written(self, plan: PrivatePlan, *more: str) -> Prepared:
        """Return the plan with its statements and price; `more` is part of its question."""
        budget, named = self.budget, self.statement.mechanism
        # Keys that were shown twice are other keys, even if they are equal by chance (R102).
        shown = [self.steps.shown.query_id] if self.steps.shown else []
        more = *([named] if named else []), *shown, *more
        context = budget.accountant, str(budget.query_delta), *more
        keys = partial(
            keys_of, policy=self.policy, block_keys=lambda b: len(plan.blocks[b].block.keys)
        )
        blocks, tables = plan.blocks, tuple[str, ...]()
        if self.policy.store is not None:
            blocks, tables = over_store(plan, self.policy, self.policy.store, self.identities)
        rewritten = rewrite(plan, keys, self.identities, dialects(self.policy.database), blocks)
        sql = replace(rewritten, stored=tables)
        loss = accountants.price(plan.loss, budget)
        if self.steps.promised is not None:
            loss = accountants.larger_loss(loss, self.steps.promised)
        priced = replace(plan, loss=loss)
        identity = identify_plan(plan, *context)
        version = plan_version(self.policy, identity.read)
        rows = period_plans.public_contents(self.policy, self.public, identity.read)
        return Prepared(
            columns=tuple(Column(f.name, f.type) for f in plan.outer.fields),
            plan=priced,
            rewritten=sql,
            question=sha256(" ".join((identity.question, version, *rows)).encode()).hexdigest(),
            data=opened(self.policy.data, self.policy.store),
            context=context,
            earlier=identity.earlier,
        )


def _options(
    statement: Statement, policy: Policy, epsilon: Fraction, norms: Mapping[str, FoundNorm]
) -> MeasurementOptions:
    floor, scans = _floor(statement, policy), statement.mechanism == SPARSE_VECTOR
    return MeasurementOptions(epsilon, floor, statement.nonnegative, scans, norms=norms)


def _public(
    statement: Statement,
    columns: tuple[Column, ...],
    outer: Relation,
    policy: Policy,
    identities: Identities,
) -> Prepared:
    sql = rewrite_public(outer, identities, dialects(policy.database).database, NORMAL)
    _selects_keys(statement, ())
    return Prepared(columns, None, sql, "")


def _floor(statement: Statement, policy: Policy) -> int:
    """Return the least units of a released private key; OPTIONS can only raise the policy's
    limit.
    """
    least = policy.limits.min_units_per_group
    if statement.min_units is not None and statement.min_units < least:
        raise Refused(
            Reason.BAD_OPTION, option=_MIN_UNITS, why=f"the policy asks for at least {least}"
        )
    return max(least, statement.min_units or 1)


def _selects_keys(statement: Statement, blocks: tuple[BlockPlan, ...]) -> None:
    """Refuse a smallest group if keys are public: all of them are answered, empty ones too."""
    if statement.min_units is not None and all(block.domain is not None for block in blocks):
        raise Refused(Reason.BAD_OPTION, option=_MIN_UNITS, why="the query has no private keys")


def _heeds_options(statement: Statement, blocks: tuple[BlockPlan, ...], steps: KnownSteps) -> None:
    """Refuse options without effect, unless the effect depends on found bounds."""
    if steps.are_later:
        return
    _selects_keys(statement, blocks)
    if statement.keys is not None and all(block.domain is not None for block in blocks):
        raise Refused(Reason.BAD_OPTION, option="keys", why="the query has no private keys")
    if statement.mechanism == SPARSE_VECTOR:
        if not any(choice.scan for block in blocks for choice in block.choices):
            raise bad_mechanism("there is no MIN or MAX to find")
    elif statement.mechanism is not None and not any(block.releases for block in blocks):
        raise bad_mechanism("nothing here is measured with noise")
