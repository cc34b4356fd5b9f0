"""Plans of policies with periods of people: the blocks that they read and are charged to.

Proof (PRIVACY.md R103). The policy for a query reads the charged blocks alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

from dpsql.compiler.infer.column_facts import Evaluate, PublicData
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Tracked
from dpsql.compiler.resolve.person_periods import (
    about_people,
    charged_blocks,
    read_blocks,
    require_periods,
    several_periods,
)
from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.ledgers import Ledger
from dpsql.model.algebra import Scan
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import ELSEWHERE, NO_TIME, ChargedPeriods, PeriodRule
from dpsql.model.prepared_store import opened
from dpsql.model.query_options import Memory
from dpsql.model.tree import Statement
from dpsql.model.vocabulary import Budget, Policy
from dpsql.model.walk import relations


def memory_of(statement: Statement, budget: Budget) -> Memory:
    """Return the use of earlier answers: by the statement's option, or else by the budget."""
    return budget.memory if statement.memory is None else Memory(statement.memory)


def choose_blocks(statement: Statement, policy: Policy, evaluate: Evaluate) -> Policy:
    """Return the policy that reads the blocks which the conditions of a query leave.

    The policy itself without periods. Raises `Refused`.
    """
    if policy.period is None:
        return policy
    relation = resolve(statement, policy, Identities()).relation
    blocks = charged_blocks(relation, policy, evaluate)
    return read_blocks(policy, blocks) if blocks else policy


def period_now(rule: PeriodRule, ledger: Ledger) -> PeriodRule:
    """Return the rule at ledger time, with the data versions of its periods."""
    return rule.at(ledger.window(rule.calendar).name, ledger.period_versions(rule.text))


def differs_in_periods(old: Policy, new: Policy) -> bool:
    """Test whether two policies differ in the data of periods of people, or in their number, alone.

    All of their tables are private: other tables have no periods.
    """
    if old.period is None or new.period is None or new.moves:
        return False
    if not all(table.private for table in new.tables):
        return False
    same = (replace(each, period=None, data=None) for each in (old, new))
    return len({old.period.at(""), new.period.at("")}) == 1 and next(same) == next(same)


def plan_of_periods(plan: Prepared, old: Policy, new: Policy) -> Prepared | None:
    """Return a plan under a new policy, which differs from the old one in periods alone; None if
    its text may read other data now.

    Proof (PRIVACY.md R103). It reads its blocks alone, and the data of these are the same. If later
    times are in none of them, no new period is one that its conditions leave.
    """
    charged, rule, before = plan.charged, new.period, old.period
    assert rule is not None
    assert before is not None
    if charged is None or ELSEWHERE in charged.names or not {*charged.names} <= {*rule.blocks}:
        return None
    if rule.versions_of(charged.names) != before.versions_of(charged.names):
        return None
    data = opened(new.data, new.store)

    def under_rule(each: Prepared) -> Prepared:
        return replace(each, charged=replace(charged, rule=rule), data=data)

    wide = plan.wide and replace(plan.wide, prepared=under_rule(plan.wide.prepared))
    return replace(under_rule(plan), wider=tuple(map(under_rule, plan.wider)), wide=wide)


def require_refreshable(policy: Policy, periods: Sequence[str], ledger: Ledger) -> PeriodRule:
    """Return the rule at ledger time if these of its blocks can be refreshed alone.

    Raises `Refused`.
    """
    rule = policy.period
    if rule is None:
        raise _not_refreshed("the policy has no period: run dpsql refresh")
    if policy.moves:
        why = "rows of this database may change in every period: run dpsql refresh"
        raise _not_refreshed(why)
    present = period_now(rule, ledger)
    for name in periods:
        if name not in present.blocks:
            first, last = present.names[0], present.names[-1]
            span = f"from {first} to {last}, or {NO_TIME}, or {ELSEWHERE}"
            raise _not_refreshed(f"{name!r} is no {rule.every.value} {span}; name each one")
    if len({*periods}) < len(periods):
        raise _not_refreshed("a period is named twice")
    return present


def public_contents(
    policy: Policy, public: PublicData, read: Mapping[str, frozenset[str]]
) -> list[str]:
    """Return a digest of the public rows that a plan reads, where periods are refreshed alone.

    A refresh of periods begins no new data version of public tables.
    """
    if policy.period is None or policy.moves:
        return []
    digests = list[str]()
    for name, columns in sorted(read.items()):
        table = policy.table(name)
        if table is not None and not table.private:
            used = [column.name for column in table.columns if column.name.lower() in columns]
            digests.append(f"{name} {public.contents(name, used)}")
    return digests


def _not_refreshed(why: str) -> Refused:
    return Refused(Reason.BAD_OPTION, option="periods", why=why)


@contextmanager
def explaining_people(policy: Policy, reading: Policy) -> Iterator[None]:
    """Say of joins and of the person's column that they need one period, where several are read."""
    try:
        yield
    except Refused as refused:
        if len(reading.charged) < 2:  # noqa: PLR2004
            raise
        if refused.reason is Reason.UNEQUAL_UNITS:
            raise several_periods("a join of people's rows", refused.span) from None
        raise about_people(refused, policy) from None


def require_one_period(tracked: Tracked, policy: Policy) -> None:
    """Refuse blocks whose answer over several periods would not be the sum over the periods."""
    for block in tracked.blocks:
        require_periods((block.rows,), policy, block.span)


def common_periods(together: Iterable[Prepared]) -> ChargedPeriods | None:
    """Return the periods that questions read which are asked together. Raises `Refused`.

    Proof (PRIVACY.md R80, R103). One price is compared with the rest of each of these periods.
    """
    charged = {each.charged for each in together if each.plan is not None} or {None}
    if len(charged) > 1:
        construct = "statements about different periods that are asked together"
        fix = "Ask the statements of each period together: compare the time column in each of them."
        raise Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, construct=construct, fix=fix)
    return charged.pop()


def with_charged_blocks(prepared: Prepared, policy: Policy) -> Prepared:
    """Return the plan and its other forms, with the blocks that they are charged to.

    Refuses private keys in several periods: the people of a key would be counted once a period.
    Tables of several periods are not kept for other questions.
    """
    rule = policy.period
    assert rule is not None
    if prepared.plan is None:
        return prepared
    for block in prepared.blocks:
        if block.domain is None and len(policy.charged) > 1:
            span = block.block.keys[0].expression.span
            raise several_periods("private group keys", span)
    scans = chain.from_iterable(relations(block.block.rows) for block in prepared.blocks)
    tables = (scan.table for scan in scans if isinstance(scan, Scan))
    columns = (column for name in tables if (column := rule.column(name)) is not None)
    charged = ChargedPeriods(rule, policy.charged, next(columns, rule.of[0][1]))
    wider = tuple(replace(each, charged=charged) for each in prepared.wider)
    wide = prepared.wide if len(policy.charged) == 1 else None
    if wide is not None:
        wide = replace(wide, prepared=replace(wide.prepared, charged=charged))
    return replace(prepared, charged=charged, wider=wider, wide=wide)
