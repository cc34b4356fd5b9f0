"""The policy over the present data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.dialects.reading.parse import parse
from dpsql.engines import Engine, EngineFailed, Interrupted, TimedOut
from dpsql.ledgers import Ledger
from dpsql.model.algebra import Project, Scan
from dpsql.model.errors import PolicyError, Reason, Refused, Unreachable
from dpsql.model.resources import Database
from dpsql.model.schema import Schema
from dpsql.model.table_names import address
from dpsql.model.tree import Expression, Ref
from dpsql.model.vocabulary import Fact, GroupingLimit, Policy, TablePolicy
from dpsql.model.walk import substitute
from dpsql.policy.bind import bind, vouched_for
from dpsql.policy.draft import Draft
from dpsql.preparation.bound_roles import check_roles, with_roles
from dpsql.preparation.engine_admission import find_deviations_of
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.views import with_views


def bound(draft: Draft, engine: Engine, ledger: Ledger) -> Policy:
    """Return the policy over the present data, with the facts recorded for it.

    Raises `WrongVersion` if an untried engine or parser fails the probes of the core.
    """
    policy, _schema = bound_to(draft, engine)
    facts = policy.facts | of_stored_rows(ledger.facts(vouched_for(policy)), policy)
    public = PublicTables(engine, dialects(draft.database).database)
    check_roles(replace(policy, facts=facts), draft, public)
    return replace(policy, facts=facts, deviations=find_deviations_of(draft, engine))


def bound_to(draft: Draft, engine: Engine) -> tuple[Policy, Schema]:
    """Return the policy with the facts of constraints, and the schema with its views expanded."""
    dialect = dialects(draft.database).database
    schema, public = with_views(engine.schema(), dialect), PublicTables(engine, dialect)
    policy = with_groupings(bind(draft, schema, public.values), draft)
    return with_roles(policy, draft), schema


def of_stored_rows(facts: frozenset[Fact], policy: Policy) -> frozenset[Fact]:
    """Return the recorded facts about rows that the data version covers (PRIVACY.md R5).

    A view of the engine or a foreign table may have other rows although the data is the same.
    """
    evaluated = {t.name for t in policy.tables if t.view}
    evaluated |= {t.agreeing(columns) for t in policy.tables if t.view for columns in t.determining}
    evaluated |= {
        t.agreeing((name,)) for t in policy.tables if t.view for name, _ in t.max_rows_per_key
    }
    evaluated |= {
        t.agreeing(link.columns)
        for t in policy.tables
        for link in t.same_unit
        if t.view or link.table in evaluated
    }
    return frozenset(fact for fact in facts if fact.table not in evaluated)


def with_groupings(policy: Policy, draft: Draft) -> Policy:
    """Return the policy with limits by an expression resolved over their tables' columns.

    Raises `PolicyError` if a text is not an expression over usable columns.
    """
    read = partial(_limits, policy=policy, draft=draft)
    tables = (
        replace(
            table,
            groups_by=read(table, table.groups_by, "max_groups_per_unit"),
            rows_by=read(table, table.rows_by, "max_rows_per_group"),
        )
        for table in policy.tables
    )
    return replace(policy, tables=tuple(tables))


def _limits(
    table: TablePolicy,
    limits: tuple[GroupingLimit, ...],
    name: str,
    *,
    policy: Policy,
    draft: Draft,
) -> tuple[GroupingLimit, ...]:
    def read(limit: GroupingLimit) -> GroupingLimit:
        try:
            return replace(limit, key=limit.key or grouping_key(limit.by, table, policy))
        except Refused:
            line = draft.lines.of(("tables", table.name, name, limit.by))
            why = f"{limit.by} is neither a column of {table.name} nor computed of some."
            fix = "Write a column that is listed, or an expression as queries group by it."
            raise PolicyError(draft.path, line, why, fix) from None

    return tuple(map(read, limits))


def grouping_key(text: str, table: TablePolicy, policy: Policy) -> Expression:
    """Return an expression over a table's columns, as `Ref`s by place. Raises `Refused`."""
    statement = parse(f"SELECT {text} AS key FROM {address(table.name)}")
    relation = resolve(statement, policy, Identities()).relation
    match relation:
        case Project(input=Scan(fields=columns), items=(item,)):
            places = {column.name: place for place, column in enumerate(table.columns)}
            refs = {c.id: Ref(places[c.name], c.type) for c in columns if c.name in places}
            return substitute(item.expression, refs)
        case _:
            raise Refused(Reason.SYNTAX, what=text)


def reached(rebind: Callable[[], Policy]) -> Policy:
    """Call `rebind`; raise `Unreachable` instead of an engine failure."""
    try:
        return rebind()
    except (EngineFailed, Interrupted, TimedOut):
        raise Unreachable(
            "The database's schema or a public table cannot be read. Check the database."
        ) from None


def store_present(database: Database) -> object:
    """Return a value that changes when another store is put in place; None without a store."""
    try:
        about = None if database.prepared is None else os.stat(database.prepared)  # noqa: PTH116
    except OSError:
        return None
    return about and (about.st_ino, about.st_size, about.st_mtime_ns)


def facts_lapsed(policy: Policy, ledger: Ledger) -> bool:
    """Test whether facts were recorded before, and none of them counts for the present data."""
    return ledger.facts_lapsed(vouched_for(policy))


def store_unused(policy: Policy) -> bool:
    """Test whether a policy names a store, and there is none of this data under it."""
    return policy.database.prepared is not None and policy.store is None
