"""Scans of private tables, with the facts and limits of their rows.

Proof (PRIVACY.md R2, R3, R4, R8). A bound on a unit's rows and a key are taken from facts only.
Rows of broken links are dropped where the unit is attached, or where only such rows are read.

Rows may belong to several units: every unit that one of their links names. A row that names A and B
goes with A and with B. So an aggregate per unit is not bounded by that unit's rows: A's rows touch
a value of every other unit they name. No choice of rows by a quota for each unit is stable either:
keeping A's row decides which of B's are kept. Hence such rows are never sampled. A constraint or a
recorded fact says that no unit has more than m of them over all links together, and they are only
filtered, joined with public tables, counted and summed. The owner of a row follows from the rows
that its links reach (the proof is that of `units.attach_unit`), and a row with a link to a key that
several units share is unowned.

Proof (PRIVACY.md R4). Let a row add x in [L, U] to its group, L <= 0 <= U. Without the unit's rows,
which are at most m, the vector of all groups moves by v, a sum of at most m vectors that have x in
one group each. So v is a mean of m vectors that have m·x in one group, and no norm of it is more
than that of one group moved by m·L or by m·U: in L1 and in L2 m·max(|L|, |U|). Replaced, the vector
moves by w - v; a norm of that is convex in both, so it is largest where each has one group alone:
the same, moved by m·(U - L), or two. These are the distances of `Sensitivity` with one group and
the clip [m·L, m·U]. (At most m groups move.) The exact formula for one Gaussian measurement is
about one group that moves, and not about several: it is not used here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dpsql.compiler.plan.measurement_kinds import AdditiveTotal, Measurement
from dpsql.compiler.plan.private_plan import DeclaredLimits, KeyLimit, PrivateBlock, TotalLimit
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track import units
from dpsql.compiler.track.uniqueness import Key
from dpsql.compiler.track.units import Together
from dpsql.model.algebra import Aggregate, Field, Filter, Join, Relation, Scan
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import BOOLEAN, AggregateCall, Call, Expression, JoinKind, Ref, Span
from dpsql.model.vocabulary import Fact, FactKind, GroupingLimit, Link, Policy, TablePolicy
from dpsql.model.walk import both, refs, relations, substitute


def private_scan(
    scan: Scan, table: TablePolicy, policy: Policy, identities: Identities
) -> units.Private:
    """Return a private table's rows, with the columns that lead to their unit."""
    if policy.period is not None and not policy.charged:
        raise AssertionError("people's rows are read in the periods that are charged (R103)")
    scan, by_name = _with_hidden_links(scan, table, policy, identities)
    if table.several:
        columns = tuple(
            tuple(by_name[name.lower()] for name in link.columns) for link in table.several
        )
        return several_scan(scan, columns, table, policy, identities)
    rows = _scan_of_one(scan, by_name, table, policy)
    if table.link is None:
        return rows
    if table.link.more:
        target = policy.table(table.link.table)
        assert target is not None
        own = _in_order(table.link, target, by_name)
        rows = units.to_unit(rows, own, target.name, policy, identities)
    return replace(rows, together=frozenset(_together(table, by_name, policy)))


def _scan_of_one(
    scan: Scan, by_name: dict[str, Field], table: TablePolicy, policy: Policy
) -> units.Private:
    """Return rows that belong to one unit each."""
    anchors, facts = set(), set()
    pending: frozenset[units.Pending] = frozenset()
    unique: dict[int, units.Unique] = {}
    fact, key = policy.fact(FactKind.UNIQUE_KEY, table.name), [n.lower() for n in table.key]
    own, ids = by_name[key[0]] if len(key) == 1 else None, {by_name[n].id for n in key if fact}
    if own is not None:
        anchors.add(units.Anchor(own.id, table.name, own.id))
        if fact is not None:
            whole = policy.fact(FactKind.NOT_NULL_KEY, table.name)
            settling = None if whole is None else frozenset({fact, whole})
            unique = {own.id: units.Unique(frozenset({fact}), settling)}
    if table.link is not None and not table.link.more:
        links = dict(units.leads(by_name[table.link.column.lower()].id, table, policy))
        anchors |= links.keys()
        pending = frozenset(links.values())
    is_unit = table.name == policy.unit.table
    rows, max_rows = policy.fact(FactKind.MAX_ROWS, table.name), None
    if fact is not None and unique and (is_unit or _is_key_of_unit(table, policy)):
        max_rows = 1
        facts.add(fact)
    if rows is not None and table.max_rows_per_unit is not None and not is_unit:
        max_rows = table.max_rows_per_unit
        facts.add(rows)
    determined = frozenset(f.id for f in scan.fields) if max_rows == 1 else frozenset()
    return units.Private(
        relation=scan,
        anchors=frozenset(anchors),
        pending=pending,
        max_rows=max_rows,
        determined=determined,
        unique=unique,
        declared=_declared(table, policy, by_name),
        facts=frozenset(facts),
        growth=units.Growth(keys=frozenset() if own is None else frozenset({own.id})),
        apart=() if fact is None or not ids else (Key(frozenset(ids), frozenset({fact})),),
    )


def _is_key_of_unit(table: TablePolicy, policy: Policy) -> bool:
    """Test whether the only column of a table's key is its link to the unit's key."""
    link, unit = table.link, policy.unit
    if link is None or link.more or link.table != unit.table:
        return False
    return (link.column.lower(),) == tuple(name.lower() for name in table.key)


def never_null(rows: Relation, policy: Policy) -> frozenset[int]:
    """Return the columns of tables in these rows that contain no NULL, by facts."""
    columns = set[int]()
    for scan in relations(rows):
        table = policy.table(scan.table) if isinstance(scan, Scan) else None
        if table is None:
            continue
        names = set(table.key if policy.fact(FactKind.NOT_NULL_KEY, table.name) else ())
        if table.link is not None and policy.fact(FactKind.NOT_NULL_LINK, table.name):
            names.update(table.link.columns)
        lowered = {name.lower() for name in names}
        columns |= {field.id for field in scan.fields if field.name.lower() in lowered}
    return frozenset(columns)


def _in_order(link: Link, target: TablePolicy, by_name: dict[str, Field]) -> tuple[int, ...]:
    """Return the columns of a link in the order of the key that they reference."""
    columns = dict(zip(link.keys, link.columns, strict=True))
    return tuple(by_name[columns[key].lower()].id for key in target.key)


def determinations(table: TablePolicy, policy: Policy) -> dict[Fact, tuple[str, ...]]:
    """Return the columns on which rows agree only if they are of one unit, by facts.

    If the key that the rows link to contains such columns, the link's columns are included: a row
    has the unit of the row that it links to.
    """
    own = {
        fact: columns
        for columns in table.determining
        if (fact := policy.fact(FactKind.ONE_UNIT, table.agreeing(columns))) is not None
    }
    target = None if table.link is None else policy.table(table.link.table)
    if target is None or table.link is None:
        return own
    there = {k.lower(): c for k, c in zip(table.link.keys, table.link.columns, strict=True)}
    above = {
        fact: tuple(there[name.lower()] for name in columns)
        for fact, columns in determinations(target, policy).items()
        if all(name.lower() in there for name in columns)
    }
    return above | own


def _together(table: TablePolicy, by_name: dict[str, Field], policy: Policy) -> Iterator[Together]:
    """Yield the columns that identify rows of one unit, besides columns with the key of one row."""
    for fact, columns in determinations(table, policy).items():
        ids = tuple(by_name[name.lower()].id for name in columns)
        yield Together(ids, fact.table, single=True, facts=frozenset({fact}))
    if len(table.key) > 1:
        ids = tuple(by_name[name.lower()].id for name in table.key)
        unique = policy.fact(FactKind.UNIQUE_KEY, table.name)
        facts = frozenset[Fact]() if unique is None else frozenset({unique})
        yield Together(ids, table.name, single=unique is not None, facts=facts)
    if table.link is not None and table.link.more:
        target = policy.table(table.link.table)
        assert target is not None
        yield Together(_in_order(table.link, target, by_name), target.name, single=True)


def _with_hidden_links(
    scan: Scan, table: TablePolicy, policy: Policy, identities: Identities
) -> tuple[Scan, dict[str, Field]]:
    """Return the scan with its key and link columns present even where the policy hides them."""
    fields = {f.name.lower(): f for f in scan.fields}
    links = table.several if table.link is None else (table.link,)
    names = [*table.key, *(name for link in links for name in link.columns)]
    names += [name for columns in determinations(table, policy).values() for name in columns]
    for name in names:
        if name.lower() not in fields:
            column = table.column(name)
            assert column is not None
            fields[name.lower()] = identities.field(column.name, column.type)
    return replace(scan, fields=tuple(fields.values())), fields


def _declared(table: TablePolicy, policy: Policy, by_name: dict[str, Field]) -> DeclaredLimits:
    if table.name == policy.unit.table:
        return DeclaredLimits(1, 1, 1, table.max_public_groups)
    return DeclaredLimits(
        table.max_rows_per_unit,
        table.max_groups_per_unit,
        table.max_rows_per_group,
        table.max_public_groups,
        groups_by=_by_keys(table.groups_by, table, by_name),
        rows_by=_by_keys(table.rows_by, table, by_name),
        totals=tuple(
            TotalLimit(by_name[column.name.lower()].id, column.name, Fraction(column.max_per_unit))
            for column in table.columns
            if column.max_per_unit is not None and column.name.lower() in by_name
        ),
    )


def _by_keys(
    limits: tuple[GroupingLimit, ...], table: TablePolicy, by_name: dict[str, Field]
) -> tuple[KeyLimit, ...]:
    """Return the limits by keys over the scanned columns; the query groups by no other keys."""
    columns = {
        place: by_name[column.name.lower()].ref
        for place, column in enumerate(table.columns)
        if column.name.lower() in by_name
    }
    return tuple(
        KeyLimit(substitute(limit.key, columns), limit.by, limit.most)
        for limit in limits
        if limit.key is not None and refs(limit.key) <= columns.keys()
    )


def several_scan(
    scan: Scan,
    columns: Sequence[Sequence[Field]],
    table: TablePolicy,
    policy: Policy,
    identities: Identities,
) -> units.Private:
    """Return the owned rows of a table with its links in these columns.

    Raises `Refused` unless a fact bounds the number of rows that name one unit.
    """
    most, bound = table.max_rows_per_unit, policy.fact(FactKind.MAX_ROWS, table.name)
    if most is None or bound is None:
        fix = (
            f"Ask the owner to set max_rows_per_unit for {table.name}, over all its links"
            " together, and to run dpsql check --record."
        )
        limit = "max_rows_per_unit"
        raise Refused(Reason.UNBOUNDED_CONTRIBUTION, scan.span, limit=limit, fix=fix)
    relation: Relation = scan
    belongs = policy.fact(FactKind.LINK_RESOLVES, table.name)
    if belongs is not None:
        facts = frozenset({bound, belongs})
    else:
        relation, known_facts = _of_somebody(scan, columns, table.several, policy, identities)
        facts = known_facts | {bound}
    return units.Private(
        relation=relation,
        anchors=frozenset(),
        pending=frozenset(),
        max_rows=most,
        determined=frozenset(),
        unique={},
        declared=DeclaredLimits(most, most, most, table.max_public_groups),
        facts=facts,
        several=frozenset(column.id for link in columns for column in link),
    )


def _of_somebody(
    scan: Scan,
    columns: Sequence[Sequence[Field]],
    links: Sequence[Link],
    policy: Policy,
    identities: Identities,
) -> tuple[Relation, frozenset[Fact]]:
    """Return rows with a link that leads to a unit, and with none to a key that several units
    share.
    """
    relation: Relation = scan
    facts, somebody, alone = frozenset[Fact](), list[Expression](), list[Expression]()
    for own, link in zip(columns, links, strict=True):
        unit = own[0].ref
        if link.table != policy.unit.table:
            behind, target = units.owners(link.table, policy, identities), policy.table(link.table)
            assert target is not None
            named = dict(zip(link.keys, own, strict=True))
            values = [named[key].ref for key in target.key]
            relation = _beside(relation, values, behind.relation, behind.keys)
            facts |= behind.facts
            unit = behind.first
            if behind.first != behind.last:
                alone.append(behind.first.is_null() | behind.first.eq(behind.last))
        there, key, unique = units.different_keys(policy.unit.table, policy, identities)
        relation = _beside(relation, (unit,), there, (key,))
        facts |= unique
        somebody.append(~key.is_null())
    for condition in (Call("or", tuple(somebody), BOOLEAN), *alone):
        relation = Filter(relation, condition)
    return relation, facts


def _beside(
    relation: Relation, values: Sequence[Ref], other: Relation, keys: Sequence[Ref]
) -> Join:
    """Return every row, with the row of the other relation that has this key."""
    same = tuple(value.eq(key) for value, key in zip(values, keys, strict=True))
    return Join(relation, other, JoinKind.LEFT, both(same))


def require_one_person(rows: units.Private, construct: str, span: Span) -> None:
    """Refuse a computation on one unit's rows where they also belong to others."""
    if rows.several:
        raise _refused(construct, span)


def require_other_keys(relation: Aggregate, rows: units.Private) -> None:
    """Refuse a group for each unit of rows that belong to several."""
    for item in relation.keys:
        if isinstance(item.expression, Ref) and item.expression.id in rows.several:
            raise _refused("a group for each person", item.expression.span)


def require_public_keys(block: PrivateBlock) -> None:
    """Refuse private keys, which need partition selection, for rows of several units."""
    if block.several:
        raise _refused("private group keys", block.keys[0].expression.span)


def require_direct(call: AggregateCall, parts: Sequence[Measurement], *, chosen: bool) -> None:
    """Refuse all but direct counts and sums of rows that belong to several units.

    `parts` are the measurements of the aggregate; `chosen` says that it also has private choices.
    """
    # A unit's contribution to a group is not computed, so it cannot be clipped.
    clips = call.clip is not None and call.clip.per_group
    if chosen or clips or not all(isinstance(part, AdditiveTotal) for part in parts):
        raise _refused(f"{call.function.upper()}{'(DISTINCT)' if call.distinct else ''}", call.span)


def _refused(construct: str, span: Span) -> Refused:
    return Refused(
        Reason.UNSUPPORTED_PRIVATE_OPERATOR,
        span,
        construct=f"{construct} over rows that belong to several people each",
        fix=(
            "Filter, join with public tables, and COUNT or SUM by columns whose values are"
            " declared."
        ),
    )
