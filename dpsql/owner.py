"""What only the owner may do: check the policy against the data, and record what holds."""

from __future__ import annotations

from dpsql.engines.duckdb import DuckDBEngine
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.policy.bind import bind, vouched_for
from dpsql.policy.check import Finding, check
from dpsql.policy.load import load
from dpsql.public import PublicTables


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
