"""prepare: the pure pipeline from text to statements, top to bottom, with nothing run.

It sees no private data: PRIVACY.md R6, SECURITY.md S1.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

from dpsql import accountants
from dpsql.accountants.preference import SPARSE_VECTOR, bad_mechanism
from dpsql.compiler.aggregates.recipe import MeasurementOptions
from dpsql.compiler.calibrate.calibrate import calibrate
from dpsql.compiler.infer.column_facts import Evaluate, PublicData
from dpsql.compiler.infer.infer import has_domain, infer
from dpsql.compiler.notices.plan_notices import notices
from dpsql.compiler.plan.canonical import question
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan, Rewritten
from dpsql.compiler.plan.published_keys import TopKeys, TrialKeys
from dpsql.compiler.resolve.resolve import resolve, without_rows
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite.rewrite import rewrite, rewrite_public
from dpsql.compiler.rewrite.weights import weighed
from dpsql.compiler.track.track import track
from dpsql.compiler.track.uniqueness import keys_of
from dpsql.model.algebra import Relation
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Statement
from dpsql.model.vocabulary import Budget, Column, Policy
from dpsql.preparation.engine_kinds import dialects

CELLS_OF_A_PLAN = 10_000
_MIN_UNITS = "min_privacy_units_per_group"


def plans_of(most: int) -> BoundedCache[Prepared]:
    """So many plans; those with many rows of public subqueries leave room for fewer."""
    return BoundedCache(most, lambda plan: 1 + plan.cells // CELLS_OF_A_PLAN)


def prepare(
    statement: Statement,
    policy: Policy,
    budget: Budget,
    epsilon: Fraction,
    public: PublicData,
    evaluate: Evaluate,
) -> Prepared:
    """Compile a parsed statement for an analyst who pays from `budget`.

    Raises `Refused` with a reason and a place. Depends on text, policy and public tables only.
    """
    identities = Identities()
    resolved = without_rows(resolve(statement, policy, identities))
    columns = tuple(Column(f.name, f.type) for f in resolved.relation.fields)
    listed = partial(has_domain, policy=policy, public=public, evaluate=evaluate)
    named, scans = statement.mechanism, statement.mechanism == SPARSE_VECTOR
    accountant = accountants.preferring(budget, None if scans else named, epsilon)
    tracked = track(resolved, policy, public, listed, identities)
    if not tracked.blocks:
        return _public(statement, columns, tracked.outer, policy, identities)
    bounded = infer(tracked, policy, public, evaluate)
    payer = accountant, policy.unit.neighbours
    options = MeasurementOptions(epsilon, _floor(statement, policy), statement.nonnegative, scans)
    context = (budget.accountant, str(budget.query_delta), *([named] if named else []))

    def planned(options: MeasurementOptions) -> Prepared:
        plan = calibrate(bounded, *payer, options, Fraction(budget.query_delta), identities)
        plan = weighed(plan, policy, public.frequency, identities)
        sql = _written(plan, policy, identities)
        priced = replace(plan, loss=accountants.price(plan.loss, budget))
        told = notices(bounded, plan, policy, public, evaluate, options)
        return Prepared(columns, priced, sql, question(plan, *context), told, data=policy.data)

    found = planned(options)
    _selects_keys(statement, found.blocks)
    _heeds_mechanism(statement, found.blocks)
    if any(isinstance(block.keys, TopKeys | TrialKeys) for block in found.blocks):
        return replace(found, whole=planned(replace(options, whole=True)))
    return found


def _public(
    statement: Statement,
    columns: tuple[Column, ...],
    outer: Relation,
    policy: Policy,
    identities: Identities,
) -> Prepared:
    sql = rewrite_public(outer, identities, dialects(policy.database).database)
    _selects_keys(statement, ())
    return Prepared(columns, None, sql, "")


def _written(plan: PrivatePlan, policy: Policy, identities: Identities) -> Rewritten:
    keys = partial(keys_of, policy=policy, block_keys=lambda b: len(plan.blocks[b].block.keys))
    return rewrite(plan, keys, identities, dialects(policy.database))


def _floor(statement: Statement, policy: Policy) -> int:
    """The fewest units of a private key that is shown: OPTIONS can only raise the policy's."""
    least = policy.limits.min_units_per_group
    if statement.min_units is not None and statement.min_units < least:
        raise Refused(
            Reason.BAD_OPTION, option=_MIN_UNITS, why=f"the policy asks for at least {least}"
        )
    return max(least, statement.min_units or 1)


def _selects_keys(statement: Statement, blocks: tuple[BlockPlan, ...]) -> None:
    """Refuse a smallest group where none is left out: public keys are answered, empty ones too."""
    if statement.min_units is not None and all(block.domain is not None for block in blocks):
        raise Refused(Reason.BAD_OPTION, option=_MIN_UNITS, why="the query has no private keys")


def _heeds_mechanism(statement: Statement, blocks: tuple[BlockPlan, ...]) -> None:
    """Refuse a mechanism by name that has nothing to do."""
    if statement.mechanism == SPARSE_VECTOR:
        if not any(choice.scan for block in blocks for choice in block.choices):
            raise bad_mechanism("there is no MIN or MAX to find")
    elif statement.mechanism is not None and not any(block.releases for block in blocks):
        raise bad_mechanism("nothing here is measured with noise")
