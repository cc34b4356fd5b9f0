"""Joins of private relations: equality of units, and multiplication of rows.

Proof (PRIVACY.md R3, R11, R12, R14, R15, R93). Private rows meet only rows of their own unit: the
condition equates keys of one row, under which all rows are of one unit. Then pairs are at most the
product of both bounds. A row meets at most one where the condition equates columns on which no two
rows of a unit agree. Public rows that meet a row agree on the equated columns, which bounds their
number.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from dpsql.compiler.plan.private_plan import DeclaredLimits, product, total
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.blocks import present
from dpsql.compiler.track.equalities import equal_columns, equates, not_distinct, with_equal
from dpsql.compiler.track.uniqueness import MOST_KEYS, Key, Keys, key_within
from dpsql.compiler.track.units import (
    Anchor,
    Before,
    Copied,
    Growth,
    OptionalKey,
    Padding,
    Pending,
    Private,
    Together,
    agreeing,
    distance,
    led_beside,
    owner_of,
    reach_unit,
    require_small,
    settled,
)
from dpsql.model.algebra import Filter, Item, Join, Match, Project, Relation, Scan
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import BOOLEAN, NULL, Call, Expression, JoinKind, Literal, Ref, Span
from dpsql.model.vocabulary import Fact, FactKind, Policy
from dpsql.model.walk import both, conjuncts, implied, refs


@dataclass(frozen=True, slots=True)
class _Linked:
    """Two private sides with rows that meet only within one unit.

    They are linked by columns with one key, or by columns that agree `together`. Where neither
    proves that rows which meet have the same unit or none, the units are compared: `units` is that
    condition.
    """

    equal: dict[int, int]
    pairs: tuple[tuple[Anchor, Anchor], ...]
    together: tuple[tuple[Together, Together], ...] = ()
    units: Expression | None = None

    @property
    def facts(self) -> frozenset[Fact]:
        """Facts by which rows that agree are of one unit, if any are needed."""
        facts = (_facts_of(one, other) for one, other in self.together)
        return min(facts, key=len, default=frozenset())


def _facts_of(one: Together, other: Together) -> frozenset[Fact]:
    """Return the facts of a pair. Each `same_unit` column needs its own: it says nothing of
    another.
    """
    if one.beside or other.beside:
        return one.facts | other.facts
    return one.facts if one.single else other.facts


def join_units(
    join: Join, left: Private, right: Private, policy: Policy, identities: Identities
) -> Private:
    """Join private with private rows, INNER or LEFT; refused unless the condition implies equal
    units.
    """
    join = replace(join, condition=strict(join.condition, left, right, policy))
    linked = _linked(join.condition, left, right, policy)
    if linked is not None and join.kind is JoinKind.LEFT:
        if _to_parent(join, linked, left, right, policy):
            join = replace(join, kind=JoinKind.INNER)
        elif not (linked.together or any(_decides(b, right, policy) for _, b in linked.pairs)):
            linked = None
    if linked is None:
        raise _unequal(join.span, left, right, policy)
    linked, left, right = _of_one_unit(linked, left, right, policy, identities)
    join = replace(join, condition=_both(join.condition, linked.units))
    outer = join.kind is JoinKind.LEFT
    optional, whole = left.optional | right.optional, {f.id for f in left.relation.fields}
    before = Before(frozenset(whole), left.max_rows, left.declared)
    met = left.pending | right.pending
    resolved = _resolved(linked, left, right)
    joined = replace(
        left,
        relation=replace(join, left=left.relation, right=right.relation),
        anchors=left.anchors if outer else left.anchors | right.anchors,
        pending=left.pending if outer else met - resolved,
        determined=left.determined if outer else left.determined | right.determined,
        facts=left.facts | right.facts | linked.facts,
        growth=_growth(left, right, linked, outer=outer),
        copied=left.copied if outer else left.copied + right.copied,
        before=(*left.before, *(() if outer else right.before), before),
        together=left.together
        if outer
        else present(left.together | right.together, join.condition),
        optional=optional | {OptionalKey(b.id, a.id) for a, b in linked.pairs}
        if outer
        else optional,
    )
    return _limited(joined, left, right, linked, outer=outer)


def _growth(left: Private, right: Private, linked: _Linked, *, outer: bool) -> Growth:
    """Return the growth of a row in the join: none where it is proved to meet at most one."""
    if _meets_one(right, frozenset(linked.equal.values())):
        return left.growth.beside(right.growth)
    if not outer and _meets_one(left, frozenset(linked.equal)):
        return right.growth.beside(left.growth)
    return left.growth.joined(right.growth, linked.equal)


def _meets_one(side: Private, equated: frozenset[int]) -> bool:
    """Test whether no two rows of one unit agree on these columns."""
    return bool(equated & side.unique.keys()) or key_within(side.apart, equated) is not None


def _limited(
    joined: Private, left: Private, right: Private, linked: _Linked, *, outer: bool
) -> Private:
    """Return the join with its bound on a unit's rows, and the columns that are still keys.

    A row meets rows of its own unit alone. Where it meets them by columns on which no two rows of
    one unit agree, single or composite, it meets at most one: equality is never true for NULL.
    """
    in_right = [u.facts for b, u in right.unique.items() if b in linked.equal.values()]
    in_left = [u.facts for a, u in left.unique.items() if a in linked.equal]
    if in_right:
        return replace(joined, facts=joined.facts | min(in_right, key=len))
    if in_left and not outer:
        return replace(
            joined,
            max_rows=right.max_rows,
            declared=right.declared,
            unique=right.unique,
            ranks=right.ranks,
            apart=right.apart,
            facts=joined.facts | min(in_left, key=len),
        )
    joined = replace(joined, unique={}, ranks={})
    once = key_within(right.apart, frozenset(linked.equal.values()))
    if once is not None:
        return replace(joined, facts=joined.facts | once.facts)
    if outer and in_left:
        return _each_beside_one(joined, left, right, min(in_left, key=len))
    once = None if outer else key_within(left.apart, frozenset(linked.equal))
    if once is not None:
        limited = replace(joined, max_rows=right.max_rows, declared=right.declared)
        return replace(limited, apart=right.apart, facts=joined.facts | once.facts)
    return replace(
        joined,
        max_rows=product(left.max_rows, right.max_rows),
        declared=_declared(left, right, linked, outer=outer),
        apart=() if outer else _paired(left.apart, right.apart),
    )


def _each_beside_one(
    joined: Private, left: Private, right: Private, facts: frozenset[Fact]
) -> Private:
    """Return a LEFT JOIN in which each row of the right meets at most one of the left.

    Unmatched rows of the left stay, but at least one of the left is matched once there is a row on
    the right.
    """
    return replace(
        joined,
        max_rows=total(left.max_rows, right.max_rows, 1),
        declared=left.declared.plus(right.declared, 1),
        apart=(),
        facts=joined.facts | facts,
    )


def _declared(left: Private, right: Private, linked: _Linked, *, outer: bool) -> DeclaredLimits:
    """Return the owner's limits after a join that no fact limits: a child keeps its own.

    A declared key is no proof, and these limits are none: totals are clipped to them and groups are
    kept by them, so a repeated key costs accuracy.
    """
    if right.growth.keys & set(linked.equal.values()):
        return left.declared
    if not outer and left.growth.keys & linked.equal.keys():
        return right.declared
    return left.declared.times(right.declared)


def _paired(left: Keys, right: Keys) -> Keys:
    """Return the keys of a join within one unit: pairs of rows differ in one side's key."""
    pairs = [
        Key(a.columns | b.columns, a.facts | b.facts, nulls=a.nulls and b.nulls)
        for a in left
        for b in right
    ]
    return tuple(pairs[:MOST_KEYS])


def match_units(
    match: Match, left: Private, right: Private, policy: Policy, identities: Identities
) -> Private:
    """Return EXISTS and IN over private rows, where only rows of the same unit may decide.

    Where the condition alone implies this, IN follows SQL's rules for NULL.
    """
    condition, member = match.condition, match.member
    whole = condition
    if member is not None:
        same = member[0].eq(member[1])
        whole = same if condition is None else condition & same
    condition, whole = (strict(each, left, right, policy) for each in (condition, whole))
    linked = _deciding(condition, left, right, policy)
    if linked is None:
        condition, member = whole, None
        linked = _deciding(whole, left, right, policy)
    if linked is None:
        raise _unequal(match.span, left, right, policy)
    equal = equal_columns(whole, {f.id for f in left.relation.fields})
    work = left.growth.joined(right.growth, equal)
    if equal and equates(whole).only:
        work = left.growth.beside(right.growth)  # a lookup by equality takes constant time
    require_small(work, None, policy.limits.max_fanout, match.span)
    linked, left, right = _of_one_unit(linked, left, right, policy, identities)
    there = Match(
        input=left.relation,
        other=right.relation,
        condition=_both(condition, linked.units),
        mark=match.mark,
        member=member,
        span=match.span,
    )
    relation: Relation = there
    if member is None and match.member is not None:
        relation = _null_where_absent(there, match.member[0])
    return replace(left, relation=relation, facts=left.facts | right.facts | linked.facts)


def _deciding(
    condition: Expression | None, left: Private, right: Private, policy: Policy
) -> _Linked | None:
    """Return the link by which rows meet only deciding rows of their own unit; None if there is
    none.

    A matched row must not bring another unit: it must have no other unit than the row it meets.
    """
    linked = _linked(condition, left, right, policy)
    if linked is None or linked.together:
        return linked
    return linked if any(_decides(b, right, policy) for _, b in linked.pairs) else None


def compared_columns(match: Match) -> tuple[Ref, ...] | None:
    """Return the columns of the other side by which rows are looked up; None if any row matches."""
    if match.condition is None:
        return None
    here = {f.id for f in match.input.fields}
    compared = set(equal_columns(match.condition, here).values())
    if match.member is not None and isinstance(match.member[1], Ref):
        compared.add(match.member[1].id)
    return tuple(f.ref for f in match.other.fields if f.id in compared)


def _null_where_absent(match: Match, value: Expression) -> Relation:
    """Make `NULL IN (...)` NULL: the existence of another unit's row or NULL must not matter."""
    absent = Call("is_null", (value,), BOOLEAN)
    mark = Ref(match.mark.id, BOOLEAN)
    items = [f.item for f in match.fields if f.id != match.mark.id]
    marked = Call("case", (absent, Literal(None, NULL), mark), BOOLEAN)
    return Project(match, (*items, Item(match.mark, marked)))


def join_public(
    join: Join,
    private: Private,
    public: Relation,
    keys: Keys,
    frequency: Callable[[tuple[Ref, ...]], int],
) -> Private:
    """Join private with public rows, INNER or LEFT with the private side kept."""
    here = {f.id for f in private.relation.fields}
    equal = equal_columns(join.condition, here)
    key = key_within(keys, frozenset(equal.values()))
    inner = join.kind is not JoinKind.LEFT
    together = present(private.together, join.condition) if inner else private.together
    joined = replace(private, relation=join, together=together)
    if key is None:
        matched = tuple(f.ref for f in public.fields if f.id in equal.values())
        copied = Copied(frozenset(here), private.max_rows, private.declared.groups_per_unit)
        before = Before(frozenset(here), private.max_rows, private.declared)
        joined = replace(joined, copied=(*private.copied, copied), before=(*private.before, before))
        return multiplied(joined, frequency(matched))
    determined = private.determined
    keyed = {a for a, b in equal.items() if b in key.columns}
    if keyed <= determined and refs_of(join.condition) <= determined | {
        f.id for f in public.fields
    }:
        determined |= {f.id for f in public.fields}
    return replace(joined, determined=determined, facts=private.facts | key.facts)


def padded(inner: Private, public: Relation, private: Private) -> Private:
    """Return a public LEFT JOIN private: the inner join, with the public side's keys as groups."""
    padding = Padding(
        public,
        frozenset(f.id for f in public.fields),
        frozenset(f.id for f in private.relation.fields),
    )
    return replace(inner, padding=padding)


def refs_of(condition: Expression | None) -> frozenset[int]:
    """Return the columns that a condition reads."""
    return frozenset() if condition is None else refs(condition)


def _linked(
    condition: Expression | None, left: Private, right: Private, policy: Policy
) -> _Linked | None:
    """Return the equated columns, if some of them make both rows one unit's; None if not.

    If they do not, columns that equal them in every row on the left may.
    """
    equal = _with_keys(equal_columns(condition, {f.id for f in left.relation.fields}), left, right)
    linked = _linked_by(equal, left, right, policy)
    return linked or _linked_by(with_equal(equal, left.relation), left, right, policy)


def _linked_by(
    equal: dict[int, int], left: Private, right: Private, policy: Policy
) -> _Linked | None:
    pairs = tuple(
        (a, b)
        for a in sorted(left.anchors)
        for b in sorted(right.anchors)
        if a.table == b.table and equal.get(a.id) == b.id
        if _same_unit(a.table, left, right, policy)
    )
    beside = led_beside(left.together, right.together)
    together = tuple(
        (one, other)
        for one in agreeing(left.anchors, left.together, beside)
        for other in agreeing(right.anchors, right.together, beside)
        if one.of == other.of and (one.single or other.single)
        if tuple(map(equal.get, one.ids)) == other.ids
    )
    return _Linked(equal, pairs, together) if pairs or together else None


def _with_keys(equal: dict[int, int], left: Private, right: Private) -> dict[int, int]:
    """Extend equalities with a column that is NULL or a key to the key itself."""
    keys = {o.column: o.key for o in right.optional}
    while any(b in keys for b in equal.values()):
        equal = {a: keys.get(b, b) for a, b in equal.items()}
    pending = [o for o in left.optional if o.column in equal]
    while pending:
        optional = pending.pop()
        if optional.key not in equal:
            equal[optional.key] = equal[optional.column]
            pending += [o for o in left.optional if o.column == optional.key]
    return equal


def strict(
    condition: Expression | None, left: Private, right: Private, policy: Policy
) -> Expression | None:
    """Return the condition with IS NOT DISTINCT of keys as equality.

    A row with NULL as its unit key or link is unowned and in no answer: its matches do not matter.
    """
    # Equalities in every branch of an OR are added as conditions.
    said = dict.fromkeys(_strict(part, left, right, policy) for part in conjuncts(condition))
    pairs = (a.eq(b) for a, b in equates(condition).pairs if b.eq(a) not in said)
    return both(tuple(said | dict.fromkeys(pairs)))


def _strict(part: Expression, left: Private, right: Private, policy: Policy) -> Expression:
    pair = not_distinct(part)
    if pair is None:
        return part
    here = {f.id for f in left.relation.fields}
    a, b = pair if pair[0].id in here else pair[::-1]
    keys = [
        (x, y)
        for x in left.anchors
        for y in right.anchors
        if (x.id, y.id, x.table) == (a.id, b.id, y.table)
    ]
    links = left.pending | right.pending
    open_at = {(link.root, link.table) for link in links}
    if any(
        x.table == policy.unit.table or {(x.root, x.table), (y.root, y.table)} & open_at
        for x, y in keys
    ):
        return a.eq(b)
    return part


def _same_unit(table: str, left: Private, right: Private, policy: Policy) -> bool:
    """Test whether two rows that belong to the same row of `table` belong to the same unit.

    They do if the key is unique. If it may not be, they still do when one side has no other path to
    its unit than through this key. Then its rows are owned only where the key is of one unit.
    """
    if _identifies(table, policy):
        return True
    here = distance(table, policy)
    return any(_nearest(side, policy) >= here for side in (left, right))


def _identifies(table: str, policy: Policy) -> bool:
    """Test whether rows with one key of this table are rows of one unit in any data."""
    return table == policy.unit.table or policy.fact(FactKind.UNIQUE_KEY, table) is not None


def _of_one_unit(
    linked: _Linked, left: Private, right: Private, policy: Policy, identities: Identities
) -> tuple[_Linked, Private, Private]:
    """Return two sides where no row with a unit meets one without, and the needed comparison.

    The unit of a row may follow from a key that both have: then its row exists for both of them, or
    for neither. Links of a side before that key are checked here. Elsewhere the units are compared,
    and NULL equals none: columns that determine the unit of owned rows say nothing about the
    others.
    """
    own = tuple((one, other) for one, other in linked.together if _own(one, other, policy))
    levels = [
        *(
            distance(a.table, policy)
            for a, _ in linked.pairs
            if _owns(a.table, left, right, policy)
        ),
        *(distance(one.of, policy) for one, _ in own),
    ]
    if levels:
        farthest = max(levels)  # the rows that meet are of one unit by what is equated there
        used = tuple(pair for pair in own if distance(pair[0].of, policy) == farthest)
        linked = replace(linked, together=used or linked.together)
        nearer = (_with_links_to(side, farthest, policy, identities) for side in (left, right))
        return linked, next(nearer), next(nearer)
    left, right = (reach_unit(side, policy, identities) for side in (left, right))
    a, b = (_unit_anchor(side, policy) for side in (left, right))
    units = left.unit(policy).eq(right.unit(policy))
    equal = {a.id: b.id, **linked.equal}
    return replace(linked, equal=equal, pairs=(*linked.pairs, (a, b)), units=units), left, right


def _owns(table: str, left: Private, right: Private, policy: Policy) -> bool:
    """Test whether the unit of both sides' rows follows from their key in a table alone."""
    below = (_nearest(side, policy) >= distance(table, policy) for side in (left, right))
    return _identifies(table, policy) or all(below)


def _own(one: Together, other: Together, policy: Policy) -> bool:
    """Test the same for a key of several columns: it is unique, or both are links to it."""
    beside = one.beside or other.beside
    links = one.single and other.single and not (beside or one.facts | other.facts)
    return links or policy.fact(FactKind.UNIQUE_KEY, one.of) is not None


def _with_links_to(side: Private, level: int, policy: Policy, identities: Identities) -> Private:
    """Return the rows with links that lead to a row, for tables farther from the unit than
    `level`.
    """
    farther = frozenset(p for p in side.pending if distance(p.table, policy) > level)
    return settled(side, farther, policy, identities)


def _unit_anchor(side: Private, policy: Policy) -> Anchor:
    unit = side.unit(policy).id
    return min(a for a in side.anchors if (a.id, a.table) == (unit, policy.unit.table))


def _both(condition: Expression | None, units: Expression | None) -> Expression | None:
    return both(tuple(part for part in (condition, units) if part is not None))


def _to_parent(join: Join, linked: _Linked, left: Private, right: Private, policy: Policy) -> bool:
    """Test whether a LEFT JOIN only follows a link to its whole parent table.

    A row without a parent is unowned and in no answer: the join is an inner one. The link is that
    of an existing row: an anchor, and not one that an outer join may have padded.
    """
    if not isinstance(right.relation, Scan):
        return False
    table = policy.table(right.relation.table)
    assert table is not None
    condition, keys = equates(join.condition), [k.lower() for k in table.key]
    own = {f.id for f in right.relation.fields if [f.name.lower()] == keys}
    return any(
        b.table == table.name
        and b.id in own
        and condition.is_only(a.id, b.id)
        and (
            owner_of(left.relation, a.root) != table.name
            or policy.fact(FactKind.NOT_NULL_KEY, table.name) is not None
        )
        for a, b in linked.pairs
    )


def _decides(anchor: Anchor, right: Private, policy: Policy) -> bool:
    """Test whether a row on the right has no other unit than that of the row it matches."""
    if _identifies(anchor.table, policy):
        return True
    return _nearest(right, policy) >= distance(anchor.table, policy)


def _nearest(side: Private, policy: Policy) -> int:
    return min(distance(a.table, policy) for a in side.anchors)


def _resolved(linked: _Linked, left: Private, right: Private) -> frozenset[Pending]:
    """Return the links that surely lead to a row, because an inner join has found it."""

    def open_at(anchor: Anchor, side: Private) -> set[Pending]:
        return {p for p in side.pending if (p.root, p.table) == (anchor.root, anchor.table)}

    resolved: set[Pending] = set()
    for a, b in linked.pairs:
        here, there = open_at(a, left), open_at(b, right)
        resolved |= here if not there else set()
        resolved |= there if not here else set()
    return frozenset(resolved)


def multiplied(private: Private, most: int) -> Private:
    """Return the relation when each of its rows may meet up to `most` rows of a public table."""
    return replace(
        private,
        max_rows=None if private.max_rows is None else private.max_rows * most,
        declared=private.declared.times(DeclaredLimits(most, most, most)),
        unique={},
        ranks={},
        growth=private.growth.times(Growth(most)),
        apart=(),
    )


def with_join_conditions(relation: Relation, predicate: Expression) -> Relation:
    """Add the equalities of columns in WHERE to the inner joins below.

    A comma join has its condition there; the filter above stays unchanged.
    """
    if isinstance(relation, Filter):
        return replace(relation, input=with_join_conditions(relation.input, predicate))
    if not (isinstance(relation, Join) and relation.kind in (JoinKind.INNER, JoinKind.CROSS)):
        return relation
    sides = tuple({f.id for f in side.fields} for side in (relation.left, relation.right))
    conditions = () if relation.condition is None else (relation.condition,)
    stated = set(chain.from_iterable(map(implied, conditions)))
    across = tuple(
        part
        for part in implied(predicate)
        if isinstance(part, Call)
        and part.function == "eq"
        and all(isinstance(arg, Ref) for arg in part.args)
        and all(refs(part) & side for side in sides)
        and part not in stated
    )
    left = with_join_conditions(relation.left, predicate)
    right = with_join_conditions(relation.right, predicate)
    if not across:
        return replace(relation, left=left, right=right)
    condition = both(conditions + across)
    return replace(relation, left=left, right=right, kind=JoinKind.INNER, condition=condition)


def _unequal(span: Span, left: Private, right: Private, policy: Policy) -> Refused:
    names = {f.id: f.name for f in (*left.relation.fields, *right.relation.fields)}
    near = {t.name for t in policy.tables if t.link and t.link.table == policy.unit.table}
    pairs = [
        (a.table != policy.unit.table, a.table not in near, names[a.id], names[b.id])
        for a in left.anchors
        for b in right.anchors
        if a.table == b.table and a.id in names and b.id in names
    ]
    fix = "Join along the declared links."
    if pairs:
        first, second = min(pairs)[2:]
        fix = f"Add the condition that equates {first} with {second}."
        if first == second:
            question = "as said, the question changes"
            fix = f"Add the condition that both rows have the same {first} ({question})."
    pair = min(pairs)[2:] if pairs else ()
    return Refused(Reason.UNEQUAL_UNITS, span, fix=fix, pair=pair)
