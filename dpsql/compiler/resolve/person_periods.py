"""Periods of people: the blocks that a query reads, and the policy that reads these blocks alone.

Proof (PRIVACY.md R103). The policy for some blocks reads each private table as a view of its rows
in these blocks (R98), so that every scan of people's rows is filtered. Conditions of a query only
decide which blocks are charged: rows in other blocks are not read, whatever the conditions say.

If several blocks are charged, a person's rows in two of them belong to two units. The unit is then
a column of both values, and the person's own column does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import TypeAlias

from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import NO_TIME, UNIT, PeriodRule, ends_of, in_blocks, label_of
from dpsql.model.vocabulary import ColumnPolicy, FactKind, Link, Policy, TablePolicy
from dpsql.model.walk import conjuncts, inputs, refs, relations, substitute

_Row: TypeAlias = tuple[tree.Value, ...]
_Evaluate: TypeAlias = Callable[
    [tuple[tree.Expression, ...], tuple[algebra.Field, ...], Sequence[_Row]], list[_Row]
]
"""A function that computes expressions over constant rows with the engine's own functions."""

_KEPT = frozenset(
    {FactKind.UNIQUE_KEY, FactKind.NOT_NULL_KEY, FactKind.LINK_RESOLVES, FactKind.MAX_ROWS}
)
"""Facts about a person's rows that hold for a person in a period."""


# --- the blocks that a query reads ---


def charged_blocks(
    relation: algebra.Relation, policy: Policy, evaluate: _Evaluate
) -> tuple[str, ...]:
    """Return the blocks with rows that can matter to a query; () without private tables.

    Conditions that exclude every row leave the block without a time.
    """
    rule = policy.period
    assert rule is not None
    reader = _Blocks(policy, rule, evaluate)
    scans = list(reader.scans(relation, ()))
    left = frozenset[str]().union(*scans)
    return tuple(name for name in rule.blocks if name in left) or ((NO_TIME,) if scans else ())


@dataclass(frozen=True, slots=True)
class _Blocks:
    policy: Policy
    rule: PeriodRule
    evaluate: _Evaluate

    def scans(
        self, relation: algebra.Relation, said: tuple[tree.Expression, ...]
    ) -> Iterator[frozenset[str]]:
        """Yield the blocks that each private scan may need.

        A row for which one of the conditions in `said` is not true does not matter.
        """
        match relation:
            case algebra.Scan():
                table = self.policy.table(relation.table)
                if table is not None and table.private:
                    yield self._of_scan(relation, said)
            case algebra.Filter(input=below, predicate=predicate):
                yield from self.scans(below, (*said, *conjuncts(predicate)))
            case algebra.Sort(input=below) | algebra.Single(input=below):
                yield from self.scans(below, said)
            case algebra.Project(input=below, items=items):
                yield from self.scans(below, _composed(said, items))
            case algebra.Aggregate(input=below, keys=keys, sets=()) if keys:
                yield from self.scans(below, _composed(said, keys))
            case algebra.Match(input=below, other=other):
                fields = {field.id for field in below.fields}
                yield from self.scans(below, tuple(each for each in said if refs(each) <= fields))
                yield from self.scans(other, ())
            case algebra.Join(left=left, right=right, kind=kind, condition=condition):
                on = conjuncts(condition)
                inner = kind in (tree.JoinKind.INNER, tree.JoinKind.CROSS)
                whole = inner or kind is tree.JoinKind.LEFT
                yield from self.scans(left, (*said, *on) if inner else said if whole else ())
                yield from self.scans(right, (*said, *on) if inner else on if whole else ())
            case _:
                for part in inputs(relation):
                    yield from self.scans(part, ())

    def _of_scan(self, scan: algebra.Scan, said: tuple[tree.Expression, ...]) -> frozenset[str]:
        name = (self.rule.column(scan.table) or "").lower()
        time = next((f for f in scan.fields if f.name.lower() == name), None)
        if time is None:
            return frozenset(self.rule.blocks)
        ends = ends_of(self.rule, time.type)
        stretches = _Stretches(time, ends, self.evaluate)
        left = stretches.every
        for condition in said:
            if refs(condition) == {time.id}:
                left &= stretches.left(condition)
        names = [name for name, _, _ in ends]
        return frozenset(NO_TIME if place == NULL else names[place] for place in left)


NULL = -1
"""Place of the rows without a time, beside the places of the stretches of time."""


@dataclass(frozen=True, slots=True)
class _Stretches:
    """The stretches of time of a column, and conditions that are never true in some of them."""

    time: algebra.Field
    ends: list[tuple[str, date | None, date | None]]
    evaluate: _Evaluate

    @property
    def every(self) -> frozenset[int]:
        return frozenset(range(NULL, len(self.ends)))

    def left(self, condition: tree.Expression) -> frozenset[int]:
        """Return the places where a condition on the time column may be true."""
        match condition:
            case tree.Call(function="and", args=args):
                return self.every.intersection(*map(self.left, args))
            case tree.Call(function="or", args=args):
                return frozenset[int]().union(*map(self.left, args))
            case tree.Call(function="is_null", args=(tree.Ref(),)):
                return frozenset({NULL})
            case tree.Call(function="not", args=(tree.Call(function="is_null", args=(value,)),)):
                return self.every - {NULL} if isinstance(value, tree.Ref) else self.every
            case tree.Call(function="in", args=(value, *options)):
                equal = (self._compared("eq", value, option) for option in options)
                return frozenset[int]().union(*equal)
            case tree.Call(function=function, args=(left, right)) if function in _MIRRORED:
                if refs(left):
                    return self._compared(function, left, right)
                return self._compared(_MIRRORED[function], right, left)
            case _:
                return self.every

    def _compared(
        self, function: str, value: tree.Expression, other: tree.Expression
    ) -> frozenset[int]:
        """Return the places where a growing value of the time may compare so with a constant."""
        if refs(other) or not _is_growing(value):
            return self.every
        first, last = _NEEDED[function]
        at_first = self._holds([first for _, first, _ in self.ends], first, value, other)
        at_last = self._holds([last for _, _, last in self.ends], last, value, other)
        both = zip(at_first, at_last, strict=True)
        return frozenset(place for place, (low, high) in enumerate(both) if low and high)

    def _holds(
        self,
        moments: Sequence[date | None],
        function: str,
        value: tree.Expression,
        other: tree.Expression,
    ) -> list[bool]:
        """Test a comparison at these moments; it may hold where there is none, or no function."""
        if not function:
            return [True for _ in moments]
        ends = [(moment,) for moment in moments if moment is not None]
        condition = tree.Call(function, (value, other), tree.BOOLEAN)
        verdicts = iter(self.evaluate((condition,), (self.time,), ends))
        return [moment is None or next(verdicts)[0] is True for moment in moments]


_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq"}
_NEEDED: dict[str, tuple[str, str]] = {
    "lt": ("lt", ""),
    "le": ("le", ""),
    "gt": ("", "gt"),
    "ge": ("", "ge"),
    "eq": ("le", "ge"),
}
"""Comparisons that are true at the first, and at the last, moment of a block with such a time."""


def _is_growing(value: tree.Expression) -> bool:
    """Test whether an expression is the time, or its day, or the start of its unit of time.

    Each of them is NULL for no time, and never less for a later time.
    """
    match value:
        case tree.Ref():
            return True
        case tree.Cast(arg=arg, type=kind):
            return kind.kind in (tree.Kind.DATE, tree.Kind.TIMESTAMP) and _is_growing(arg)
        case tree.Call(function="date_trunc", args=(tree.Literal(), arg)):
            return _is_growing(arg)
        case tree.Call(function="extract", args=(tree.Literal(value="year"), arg)):
            return _is_growing(arg)
        case _:
            return False


def _composed(
    said: tuple[tree.Expression, ...], items: Sequence[algebra.Item]
) -> tuple[tree.Expression, ...]:
    """Return the conditions that read these items alone, over what the items read."""
    values = {item.field.id: item.expression for item in items}
    return tuple(substitute(each, values) for each in said if refs(each) <= values.keys())


# --- the policy that reads some blocks ---


def read_blocks(policy: Policy, blocks: tuple[str, ...]) -> Policy:
    """Return the policy under which private tables have their rows in these blocks alone.

    Within one block the unit is the person. In several it is a person in a period, and facts that
    were recorded about people hold only if they hold for parts of their rows.
    """
    rule = policy.period
    assert rule is not None
    several = len(blocks) > 1
    rows = {
        table.name: _rows(table, rule, blocks)
        for table in policy.beneath or policy.tables
        if table.private
    }

    def narrowed(table: TablePolicy) -> TablePolicy:
        return replace(table, rows=rows[table.name]) if table.private else table

    reading = replace(policy.with_tables(narrowed), charged=blocks)
    if not several:
        return reading
    facts = frozenset(fact for fact in policy.facts if fact.kind in _KEPT)
    whole = tuple(_by_period(table, policy) for table in reading.beneath)
    shown = _without_person if whole else _by_period
    tables = tuple(shown(table, policy) for table in reading.tables)
    return replace(reading, tables=tables, beneath=whole, facts=facts)


def _rows(table: TablePolicy, rule: PeriodRule, blocks: tuple[str, ...]) -> algebra.Relation:
    """Return the rows of a table in these blocks, with the unit if there are several."""
    identities = Identities()
    fields = tuple(identities.field(c.name, c.type) for c in table.columns)
    named = {field.name.lower(): field for field in fields}
    time = named[(rule.column(table.name) or "").lower()]
    rows: algebra.Relation = algebra.Scan(table.name, fields, readings=table.readings)
    rows = algebra.Filter(rows, in_blocks(rule, time.ref, time.type, blocks))
    items = [algebra.Item(identities.field(f.name, f.type), f.ref) for f in fields]
    if len(blocks) > 1:
        assert table.link is not None
        person = named[table.link.column.lower()].ref
        label = label_of(rule, time.ref, time.type, blocks, tree.VARCHAR)
        parts = label, tree.Literal(" ", tree.VARCHAR), person.to(tree.VARCHAR)
        unit = tree.Call("concat", parts, tree.VARCHAR)
        items.append(algebra.Item(identities.field(UNIT, tree.VARCHAR), unit))
    return algebra.Project(rows, tuple(items))


def _by_period(table: TablePolicy, policy: Policy) -> TablePolicy:
    """Return a table whose unit is a person in a period, without the person's own column."""
    if not table.private:
        return table
    assert table.link is not None
    person = table.link.column.lower()
    columns = tuple(
        replace(c, hidden=True) if c.name.lower() == person else c for c in table.columns
    )
    unit = ColumnPolicy(UNIT, tree.VARCHAR, hidden=True)
    link = Link(UNIT, policy.unit.table, policy.unit.key)
    return replace(table, columns=(*columns, unit), link=link, determining=())


def _without_person(table: TablePolicy, policy: Policy) -> TablePolicy:
    """Return a table as an analyst's roles show it, without the person's own column."""
    whole = policy.table(table.name)
    if whole is None or whole.link is None:
        return table
    person = whole.link.column.lower()
    columns = tuple(column for column in table.columns if column.name.lower() != person)
    return replace(table, columns=columns, link=None, determining=())


# --- queries about people over several periods ---


def require_periods(rows: Sequence[algebra.Relation], policy: Policy, span: tree.Span) -> None:
    """Refuse private rows that are joined or grouped within people over several blocks."""
    for relation in rows if len(policy.charged) > 1 else ():
        if _met(relation, policy) > 1:
            raise several_periods("a join of people's rows", span)
        for part in relations(relation):
            grouped = isinstance(part, algebra.Aggregate | algebra.Window)
            if grouped and _met(part, policy):
                raise several_periods("a group or window below the aggregate", span)


def _met(relation: algebra.Relation, policy: Policy) -> int:
    """Return the most private scans whose rows can meet in one row."""
    if isinstance(relation, algebra.Scan):
        table = policy.table(relation.table)
        return int(table is not None and table.private)
    parts = [_met(part, policy) for part in inputs(relation)]
    return max(parts, default=0) if isinstance(relation, algebra.Union) else sum(parts)


def several_periods(construct: str, span: tree.Span) -> Refused:
    """Return the refusal of a query that has one answer within a period alone."""
    fix = "Ask one period: compare the time column with its first day and the next one's."
    return Refused(
        Reason.UNSUPPORTED_PRIVATE_OPERATOR,
        span,
        construct=f"{construct} over several periods",
        fix=fix,
    )


_ABOUT_COLUMNS = (Reason.HIDDEN_COLUMN, Reason.UNKNOWN_COLUMN)


def about_people(refused: Refused, policy: Policy) -> Refused:
    """Return the refusal of the person's column, which the analyst may use within a period."""
    people = set[str]()
    for table in policy.tables:
        whole = policy.table(table.name)
        link = None if whole is None else whole.link
        column = None if link is None else table.column(link.column)
        if column is not None and not column.hidden:
            people.add(column.name.lower())
    named = str(refused.facts.get("column", "")).lower()
    if refused.reason not in _ABOUT_COLUMNS or named not in people:
        return refused
    return several_periods(f"the person's column {refused.facts['column']}", refused.span)
