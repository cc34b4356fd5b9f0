"""Alternative forms of a question that may err less: another payment, more proved facts, or
coarser.

Each is a question of its own, compiled like any other. Changes of the text affect one SELECT of one
private block, without LIMIT. Its order is dropped, because no error depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil
from typing import TypeAlias

from dpsql import accountants
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, PrivateBlock
from dpsql.model import tree
from dpsql.model.algebra import Item
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Fact, FactKind, Policy, TablePolicy, Voucher
from dpsql.model.walk import map_children
from dpsql.preparation import explanation
from dpsql.preparation.describe_blocks import labels
from dpsql.preparation.question import Question

_SHORTEST = {"hour": 1, "day": 24, "week": 168, "month": 672, "quarter": 2160, "year": 8760}
_LONGEST = {"hour": 1, "day": 25, "week": 169, "month": 745, "quarter": 2209, "year": 8784}
"""Hours of periods; changes of clocks make them longer or shorter."""
_PERIODS = tuple(_SHORTEST)
_TRIED = 2
"""Number of coarser periods to try."""


@dataclass(frozen=True, slots=True)
class Form:
    """A question, its parsed statement, and its policy."""

    statement: tree.Statement
    policy: Policy
    query: Question


@dataclass(frozen=True, slots=True)
class OtherForm:
    """A form and its change; each of its groups merges at most `merged` present ones."""

    change: explanation.Change
    form: Form
    merged: int = 1


def other_forms(form: Form, prepared: Prepared) -> Iterator[OtherForm]:
    """Yield the forms to try; those of one kind follow one another."""
    yield from _of_payers(form)
    facts = form.policy.facts | recordable(form.policy)
    if facts != form.policy.facts:
        yield OtherForm(
            explanation.RecordedFacts(), replace(form, policy=replace(form.policy, facts=facts))
        )
    query = form.statement.query
    if isinstance(query, tree.Select) and len(prepared.blocks) == 1 and query.limit is None:
        for change, select, merged in _of_texts(query, prepared.blocks[0], form.policy):
            statement = replace(form.statement, query=replace(select, order_by=()))
            yield OtherForm(change, replace(form, statement=statement), merged)


def _of_payers(form: Form) -> Iterator[OtherForm]:
    budget = form.query.account.budget
    if form.query.account.epsilon < budget.max_query_epsilon:
        most = budget.max_query_epsilon
        yield OtherForm(explanation.LargerEpsilon(most), replace(form, query=form.query.at(most)))
    for other in accountants.ACCOUNTANTS:
        if other.name != budget.accountant and (budget.query_delta or not other.needs_delta):
            account = replace(
                form.query.account,
                budget=replace(budget, accountant=other.name, min_query_charge=None),
            )
            query = replace(form.query, account=account)
            yield OtherForm(explanation.OtherAccountant(other.name), replace(form, query=query))


def recordable(policy: Policy) -> frozenset[Fact]:
    """Return the facts that `dpsql check --record` would record if data is as the policy says."""
    return frozenset(
        Fact(kind, table.name, Voucher.CHECK)
        for table in policy.tables
        for kind in recordable_kinds(table)
    ) | {
        Fact(FactKind.SAME_UNIT, table.agreeing(link.columns), Voucher.CHECK)
        for table in policy.tables
        for link in table.same_unit
    }


def recordable_kinds(table: TablePolicy) -> tuple[FactKind, ...]:
    """Return the facts that a check can find about a table's key, links and row limit."""
    kinds = [FactKind.UNIQUE_KEY, FactKind.NOT_NULL_KEY] if table.key else []
    if table.private and not table.several:
        kinds.append(FactKind.NOT_NULL_LINK)
    if table.several or table.link is not None:
        limited = table.max_rows_per_unit is not None
        kinds += [FactKind.LINK_RESOLVES, *([FactKind.MAX_ROWS] if limited else [])]
    return tuple(kinds)


# --- other texts ---


_Text: TypeAlias = tuple[explanation.Change, tree.Select, int]
"""Change, SELECT, and number of merged groups."""


def _of_texts(select: tree.Select, plan: BlockPlan, policy: Policy) -> Iterator[_Text]:
    block = plan.block
    keys = [_meant(key, select.items) for key in select.group_by]
    if len(keys) == len(block.keys) and not select.grouping_sets:
        for key, item in zip(keys, block.keys, strict=True):
            yield from _coarser(select, key, item)
        for place, item in enumerate(block.keys if len(keys) > 1 else ()):
            coarser = [(*row[:place], *row[place + 1 :]) for row in plan.domain or ()]
            merged = max(Counter(coarser).values(), default=1)
            items = tuple(i for i in select.items if i.expression != keys[place])
            if items:
                others = (*keys[:place], *keys[place + 1 :])
                form = replace(select, items=items, group_by=others)
                yield explanation.WithoutKey(item.field.name), form, merged
    yield from _of_units(select, block, policy)


def _meant(key: tree.Expression, items: Sequence[tree.SelectItem]) -> tree.Expression:
    """Return the expression for an ordinal or an alias in GROUP BY."""
    match key:
        case tree.Literal(value=int(place)) if 0 < place <= len(items):
            return items[place - 1].expression
        case tree.Name(name=name, table=None):
            aliased = (i.expression for i in items if (i.alias or "").lower() == name.lower())
            return next(aliased, key)
        case _:
            return key


def _coarser(select: tree.Select, key: tree.Expression, item: Item) -> Iterator[_Text]:
    match key:
        case tree.Call(function="date_trunc", args=(tree.Literal(value=str(period)), moment)):
            finest = period
        case tree.Name() if item.field.type.is_temporal:
            finest, moment = "day", key
        case _:
            return
    coarser = _PERIODS[_PERIODS.index(finest) + 1 :] if finest in _PERIODS else ()
    for longer in coarser[:_TRIED]:
        truncated = tree.Call("date_trunc", (tree.Literal(longer, tree.VARCHAR), moment))
        name = moment.name if isinstance(moment, tree.Name) else item.field.name
        merged = ceil(_LONGEST[longer] / _SHORTEST[finest]) + 1  # the first and last lap over
        yield explanation.CoarserPeriods(name, longer), _replaced(select, key, truncated), merged


def _replaced(select: tree.Select, key: tree.Expression, other: tree.Expression) -> tree.Select:
    """Return the SELECT with another expression for a key, wherever the key itself is used."""

    def change(e: tree.Expression) -> tree.Expression:
        if e == key:
            return other
        return e if isinstance(e, tree.AggregateCall | tree.WindowCall) else map_children(e, change)

    items = (replace(item, expression=change(item.expression)) for item in select.items)
    having = None if select.having is None else change(select.having)
    group_by = tuple(map(change, select.group_by))
    return replace(select, items=tuple(items), group_by=group_by, having=having)


def _of_units(select: tree.Select, block: PrivateBlock, policy: Policy) -> Iterator[_Text]:
    """Yield the SELECT that counts units instead of rows, if a nameable column has their key."""
    rows = tree.AggregateCall("count", (tree.Star(),))
    column = labels(block.rows).get(block.unit.id) if isinstance(block.unit, tree.Ref) else None
    if column is None or all(item.expression != rows for item in select.items):
        return
    units = tree.AggregateCall("count", (tree.Name(column),), distinct=True)
    items = tuple(
        replace(item, expression=units) if item.expression == rows else item
        for item in select.items
    )
    yield explanation.UnitsCounted(policy.unit.table, column), replace(select, items=items), 1
