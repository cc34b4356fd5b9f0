"""The policy over the data as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpsql.engines import Engine, EngineFailed, Interrupted, TimedOut
from dpsql.ledgers import Ledger
from dpsql.model.errors import Unreachable
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind, vouched_for
from dpsql.policy.draft import Draft
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.public_data import PublicTables


def bound(draft: Draft, engine: Engine, ledger: Ledger) -> Policy:
    """The policy over the data as it now is, with the facts recorded for it."""
    schema = engine.schema()
    public = PublicTables(engine, dialects(draft.database).database)
    policy = bind(draft, schema, public.values)
    return replace(policy, facts=policy.facts | ledger.facts(vouched_for(policy)))


def reached(rebind: Callable[[], Policy]) -> Policy:
    """`rebind`, its engine failures told as a database that cannot be used."""
    try:
        return rebind()
    except (EngineFailed, Interrupted, TimedOut):
        raise Unreachable(
            "The database's schema or a public table cannot be read. Check the database."
        ) from None
