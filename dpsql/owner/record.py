"""What only the owner may do: check the policy against the data, and record what holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.ledgers import Charged, Ledger
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.vocabulary import Budget
from dpsql.owner.check import Finding, check
from dpsql.policy.bind import bind, vouched_for
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables


def unnamed_budgets(ledger: Ledger, budgets: Iterable[Budget]) -> tuple[Charged, ...]:
    """What was charged to budgets that the policy does not name, or no more.

    A budget with another name begins at zero: what was told under the old one stays told.
    """
    named = {budget.name for budget in budgets}
    return tuple(pot for pot in ledger.budgets() if pot.budget not in named)


def unnamed_budgets_of(path: str) -> tuple[Charged, ...]:
    """`unnamed_budgets` of a policy file; none where there is no ledger yet.

    Raises `PolicyError` or `LedgerError`.
    """
    draft = load(path)
    if not Path(draft.ledger).exists():
        return ()
    ledger = SqliteLedger.open(draft.ledger)
    try:
        return unnamed_budgets(ledger, draft.budgets)
    finally:
        ledger.close()


def check_policy(path: str, *, record: bool = False, refresh: bool = False) -> tuple[Finding, ...]:
    """Findings of the policy against its database; `record` keeps the facts that hold.

    With `refresh` a new data version starts just before that.

    Recorded facts count for proofs until the database files change or a new data version starts.
    Raises `PolicyError`, `Unreachable` or `LedgerError`.
    """
    draft = load(path)
    with DuckDBEngine(draft.database, draft.limits) as engine:
        schema = engine.schema()
        policy = bind(draft, schema, PublicTables(engine).values)
        findings, facts = check(policy, draft.lines, engine.rows)
    if record:
        ledger = SqliteLedger.open(draft.ledger)
        try:
            if refresh:
                ledger.refresh()
            ledger.record_facts(facts, vouched_for(policy))
        finally:
            ledger.close()
    return findings
