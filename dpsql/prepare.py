"""prepare: the pure pipeline from text to statements, top to bottom, with nothing run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpsql import accountants
from dpsql.canonical import question
from dpsql.compiler.calibrate import calibrate
from dpsql.compiler.columns import Evaluate, PublicData
from dpsql.compiler.infer import has_domain, infer
from dpsql.compiler.resolve import resolve
from dpsql.compiler.rewrite import rewrite, rewrite_public
from dpsql.compiler.scopes import Identities
from dpsql.compiler.track import track
from dpsql.model import Budget, Column, Policy
from dpsql.plan import PrivateBlock, PrivatePlan, Rewritten
from dpsql.tree import Statement


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query ready to run: `plan` is None where it reads public tables alone.

    `question` identifies what is asked of private data, whatever the epsilon.
    """

    columns: tuple[Column, ...]
    plan: PrivatePlan | None
    rewritten: Rewritten
    question: str


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
    resolved = resolve(statement, policy, identities)
    columns = tuple(Column(f.name, f.type) for f in resolved.relation.fields)

    def listed(block: PrivateBlock) -> bool:
        return has_domain(block, policy, public, evaluate)

    tracked = track(resolved, policy, public.frequency, listed, identities)
    if not tracked.blocks:
        return Prepared(columns, None, rewrite_public(tracked.outer), "")
    bounded = infer(tracked, policy, public, evaluate)
    accountant = accountants.get(budget.accountant)
    delta = Fraction(budget.query_delta)
    plan = calibrate(bounded, accountant, policy.unit.neighbours, epsilon, delta, identities)
    asked = question(plan, budget.accountant, str(budget.query_delta))
    return Prepared(columns, plan, rewrite(plan, identities), asked)
