"""infer: Tracked → Bounded. The interval and the finite domain of every private expression.

Facts start at declared columns, follow expressions by the rules of `dpsql.functions`, and are
narrowed by every predicate that all surviving rows satisfy. Nothing here is trusted for privacy:
clips and key lists enforce what is inferred, so a wrong declaration costs accuracy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Protocol, TypeAlias

from dpsql import functions
from dpsql.algebra import Aggregate, Field, Filter, Item, Join, Project, Relation, Scan
from dpsql.intervals import Facts
from dpsql.model import Policy
from dpsql.plan import Bounded, BoundedBlock, PrivateBlock, Tracked
from dpsql.tree import (
    Call,
    Cast,
    Expression,
    Literal,
    Ref,
    SqlType,
    Star,
    Value,
)
from dpsql.walk import conjuncts, refs, relations

Row: TypeAlias = tuple[Value, ...]
Evaluate: TypeAlias = Callable[
    [tuple[Expression, ...], tuple[Field, ...], Sequence[Row]], list[Row]
]
"""Values of expressions over given rows of constants, computed by the engine's own functions."""


class PublicData(Protocol):
    """What may be measured: public tables are public entirely."""

    def facts(self, table: str, column: str, kind: SqlType, limit: int) -> Facts:
        """Range, nullability and, up to `limit` values, the domain of a public column."""

    def frequency(self, relation: Relation, columns: tuple[Ref, ...]) -> int:
        """Most rows of a public relation that agree on these columns."""


def infer(tracked: Tracked, policy: Policy, public: PublicData, evaluate: Evaluate) -> Bounded:
    """What is known of every key and argument of every block."""
    blocks = tuple(_Block(block, policy, public, evaluate).bounded() for block in tracked.blocks)
    return Bounded(tracked.outer, blocks)


class _Block:
    """Facts of one block, computed on demand: most columns are never asked about."""

    def __init__(
        self, block: PrivateBlock, policy: Policy, public: PublicData, evaluate: Evaluate
    ) -> None:
        self.block, self.policy, self.public, self.evaluate = block, policy, public, evaluate
        self.limit = block.declared.public_groups or policy.limits.max_public_groups
        self.defined: dict[int, Item | tuple[Scan, Field]] = dict(_definitions(block.rows))
        self.predicates = tuple(_predicates(block.rows))
        self.known: dict[int, Facts] = {}

    def bounded(self) -> BoundedBlock:
        arguments = tuple(
            None if isinstance(m.call.args[0], Star) else self.facts(m.call.args[0])
            for m in self.block.measures
        )
        domains = [self.keys(key.expression) for key in self.block.keys]
        free = [
            domain
            for key, domain in zip(self.block.keys, domains, strict=True)
            if not refs(key.expression) <= self.block.determined
        ]
        domain = self._product(domains)
        # A domain limits what a unit touches only where keys outside of it are dropped: the data
        # may hold what the policy does not list.
        combinations = prod(len(d) for d in free if d is not None)
        limited = domain is not None or not free
        return BoundedBlock(self.block, arguments, domain, combinations if limited else None)

    def _product(self, domains: list[tuple[Value, ...] | None]) -> tuple[Row, ...] | None:
        known = [d for d in domains if d is not None]
        if len(known) < len(domains) or prod(map(len, known)) > self.limit:
            return None
        return tuple(product(*known))

    def keys(self, expression: Expression) -> tuple[Value, ...] | None:
        """The values a key can take, NULL among them where it can be NULL."""
        facts = self._image(expression) or self.facts(expression)
        if facts.may_be_nan or facts.domain is None or len(facts.domain) > self.limit:
            return None
        return (*facts.domain, None) if facts.nullable else facts.domain

    # --- expressions ---

    def facts(self, expression: Expression) -> Facts:
        """Interval, nullability and domain of an expression over the block's rows."""
        match expression:
            case Literal():
                return functions.literal_facts(expression)
            case Ref():
                return self.column(expression.id)
            case Call() | Cast():
                args = tuple(self.facts(arg) for arg in _arguments(expression))
                facts = functions.facts(expression, args, self.limit)
                if facts.domain is None and functions.is_pointwise(expression):
                    return self._pointwise(expression, args, facts)
                return facts
            case _:
                raise AssertionError(expression)

    def column(self, number: int) -> Facts:
        """Facts of a column, narrowed by the predicates that read it."""
        if number not in self.known:
            defined = self.defined[number]
            self.known[number] = (
                self.facts(defined.expression)
                if isinstance(defined, Item)
                else self._declared(*defined)
            )
            self.known[number] = self._narrowed(number, self.known[number])
        return self.known[number]

    def _declared(self, scan: Scan, field: Field) -> Facts:
        table = self.policy.table(scan.table)
        assert table is not None
        if not table.private:
            return self.public.facts(table.name, field.name, field.type, self.limit)
        column = table.column(field.name)
        assert column is not None
        return functions.declared_facts(column, self.limit)

    def _image(self, expression: Expression) -> Facts | None:
        """Exact image of an expression whose columns all have finite domains."""
        numbers = sorted(refs(expression))
        columns = [self.column(number) for number in numbers]
        if isinstance(expression, Ref) or not numbers or any(c.may_be_nan for c in columns):
            return None
        rows = self._rows(columns)
        if rows is None:
            return None
        fields = tuple(Field(n, "", c.type) for n, c in zip(numbers, columns, strict=True))
        values = [row[0] for row in self.evaluate((expression,), fields, rows)]
        return functions.facts_of_values(self.facts(expression).type, values)

    def _pointwise(self, expression: Call | Cast, args: tuple[Facts, ...], facts: Facts) -> Facts:
        """`facts` with the image of one call over its arguments' domains, taken as independent."""
        if any(arg.may_be_nan for arg in args) or (rows := self._rows(list(args))) is None:
            return facts
        fields = tuple(Field(-1 - n, "", a.type) for n, a in enumerate(args))
        places = tuple(Ref(f.id, f.type) for f in fields)
        call = (
            replace(expression, arg=places[0])
            if isinstance(expression, Cast)
            else replace(expression, args=places)
        )
        values = [row[0] for row in self.evaluate((call,), fields, rows)]
        image = functions.facts_of_values(expression.type, values)
        interval = facts.interval.intersect(image.interval) if image.domain else facts.interval
        return replace(facts, domain=image.domain, interval=interval)

    def _rows(self, columns: list[Facts]) -> list[Row] | None:
        domains = []
        for facts in columns:
            if facts.domain is None:
                return None
            domains.append((*facts.domain, None) if facts.nullable else facts.domain)
        if prod(map(len, domains)) > self.limit:
            return None
        return list(product(*domains))

    # --- predicates ---

    def _narrowed(self, number: int, facts: Facts) -> Facts:
        """The facts of a column among the rows for which every predicate holds."""
        for predicate in self.predicates:
            if refs(predicate) == {number}:
                facts = functions.narrow(facts, predicate)
                facts = self._filtered(number, facts, predicate)
            elif (other := _equated(predicate, number)) is not None:
                self.known[number] = facts  # two equal columns must not ask each other for ever
                facts = functions.intersect(facts, self.column(other))
        return facts

    def _filtered(self, number: int, facts: Facts, predicate: Expression) -> Facts:
        """A finite domain without the values for which the predicate is not true."""
        if facts.domain is None or len(facts.domain) > self.limit:
            return facts
        rows: list[Row] = [(value,) for value in facts.domain]
        if facts.nullable:
            rows.append((None,))
        held = self.evaluate((predicate,), (Field(number, "", facts.type),), rows)
        kept = [row[0] for row, holds in zip(rows, held, strict=True) if holds[0] is True]
        return replace(
            facts,
            domain=tuple(value for value in kept if value is not None),
            nullable=None in kept,
        )


def _arguments(expression: Call | Cast) -> tuple[Expression, ...]:
    return (expression.arg,) if isinstance(expression, Cast) else expression.args


def _definitions(rows: Relation) -> Iterable[tuple[int, Item | tuple[Scan, Field]]]:
    """Where each column of the block comes from."""
    for relation in relations(rows):
        match relation:
            case Scan():
                for field in relation.fields:
                    yield field.id, (relation, field)
            case Project() | Aggregate():
                items = relation.items if isinstance(relation, Project) else relation.keys
                for item in items:
                    if item.expression != Ref(item.field.id, item.field.type):
                        yield item.field.id, item
            case _:
                continue


def _predicates(rows: Relation) -> Iterable[Expression]:
    """Every condition that all rows of the block satisfy: filters and inner joins only."""
    for relation in relations(rows):
        if isinstance(relation, Filter):
            yield from conjuncts(relation.predicate)
        elif isinstance(relation, Join):
            yield from conjuncts(relation.condition)


def _equated(predicate: Expression, number: int) -> int | None:
    """The column that the predicate equates with column `number`, if it does just that."""
    if not (isinstance(predicate, Call) and predicate.function == "eq"):
        return None
    a, b = predicate.args
    if not (isinstance(a, Ref) and isinstance(b, Ref)) or a.id == b.id:
        return None
    return b.id if a.id == number else a.id if b.id == number else None
