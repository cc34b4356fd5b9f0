"""Scans of private tables: what the policy and its vouched facts say of their rows.

Proof (PRIVACY.md R3, R4, R8). A bound on a unit's rows and a key are taken from facts only; rows of
broken links are dropped where the unit is attached, or where only such rows are looked at.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.plan.private_plan import DeclaredLimits
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.several_units import several_scan
from dpsql.compiler.track.uniqueness import Key, Keys
from dpsql.compiler.track.units import Anchor, Growth, Pending, Private, Unique, leads
from dpsql.model.algebra import Field, Scan
from dpsql.model.vocabulary import Fact, FactKind, Policy, TablePolicy


def private_scan(scan: Scan, table: TablePolicy, policy: Policy, identities: Identities) -> Private:
    """A private table's rows, with the columns that lead to their unit."""
    scan, by_name = _with_hidden_links(scan, table, identities)
    if table.several:
        columns = tuple(by_name[link.column.lower()] for link in table.several)
        return several_scan(scan, columns, table, policy, identities)
    return _scan_of_one(scan, by_name, table, policy)


def _scan_of_one(
    scan: Scan, by_name: dict[str, Field], table: TablePolicy, policy: Policy
) -> Private:
    """Rows that belong to one unit each."""
    anchors, facts = set(), set()
    pending: frozenset[Pending] = frozenset()
    unique: dict[int, Unique] = {}
    own = by_name[table.key[0].lower()] if len(table.key) == 1 else None
    fact = policy.fact(FactKind.UNIQUE_KEY, table.name)
    if own is not None:
        anchors.add(Anchor(own.id, table.name, own.id))
        if fact is not None:
            whole = policy.fact(FactKind.NOT_NULL_KEY, table.name)
            settling = None if whole is None else frozenset({fact, whole})
            unique = {own.id: Unique(frozenset({fact}), settling)}
    if table.link is not None:
        found = dict(leads(by_name[table.link.column.lower()].id, table, policy))
        anchors |= found.keys()
        pending = frozenset(found.values())
    is_unit = table.name == policy.unit.table
    rows, max_rows = policy.fact(FactKind.MAX_ROWS, table.name), None
    if is_unit and fact is not None and unique:
        max_rows = 1
        facts.add(fact)
    if rows is not None and table.max_rows_per_unit is not None and not is_unit:
        max_rows = table.max_rows_per_unit
        facts.add(rows)
    determined = frozenset(f.id for f in scan.fields) if max_rows == 1 else frozenset()
    return Private(
        scan,
        frozenset(anchors),
        pending,
        max_rows,
        determined,
        unique,
        _declared(table, policy),
        frozenset(facts),
        growth=Growth(keys=frozenset() if own is None else frozenset({own.id})),
        apart=_keys(table, by_name, fact),
    )


def _keys(table: TablePolicy, by_name: dict[str, Field], fact: Fact | None) -> Keys:
    """The table's key, of however many columns, where a fact says that it is one."""
    if fact is None or not table.key:
        return ()
    return (Key(frozenset(by_name[n.lower()].id for n in table.key), frozenset({fact})),)


def _with_hidden_links(
    scan: Scan, table: TablePolicy, identities: Identities
) -> tuple[Scan, dict[str, Field]]:
    """The scan with its key and link columns present even where the policy hides them."""
    fields = {f.name.lower(): f for f in scan.fields}
    links = table.several if table.link is None else (table.link,)
    wanted = [*table.key, *(link.column for link in links)]
    for name in wanted:
        if name.lower() not in fields:
            column = table.column(name)
            assert column is not None
            fields[name.lower()] = identities.field(column.name, column.type)
    return replace(scan, fields=tuple(fields.values())), fields


def _declared(table: TablePolicy, policy: Policy) -> DeclaredLimits:
    if table.name == policy.unit.table:
        return DeclaredLimits(1, 1, 1, table.max_public_groups)
    return DeclaredLimits(
        table.max_rows_per_unit,
        table.max_groups_per_unit,
        table.max_rows_per_group,
        table.max_public_groups,
    )
