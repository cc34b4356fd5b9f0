"""The aggregate and window part of one SELECT: its keys, measures and windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dpsql.compiler.resolve.scopes import Identities, Source
from dpsql.compiler.resolve.subqueries import NOTHING, Lookup, Nested, is_grouped
from dpsql.compiler.resolve.typing import predicate, type_of, typed, typed_call
from dpsql.model import algebra, tree
from dpsql.model.comparisons import against_constant
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import nearest
from dpsql.model.walk import both, conjuncts, map_children, walk


class Grouping:
    """Rewrites the expressions of one SELECT so that they read keys, measures and windows.

    An aggregate written twice becomes one measure. A column that is neither a key nor inside an
    aggregate is refused.
    """

    def __init__(
        self,
        identities: Identities,
        nested: Nested,
        select: tree.Select,
        items: tuple[tree.SelectItem, ...],
    ) -> None:
        self._identities, self._nested = identities, nested
        self._scope, self._relation = nested.scope, nested.relation
        self._select, self._items = select, items
        self._measures: dict[tree.AggregateCall, algebra.Field] = {}
        self._windows: dict[tree.WindowCall, algebra.Field] = {}
        self._lookups: dict[tree.Expression, Lookup] = {}
        self._looked_up: frozenset[int] = frozenset()
        self._beside: dict[int, algebra.Field] = {}
        self._tables: list[Lookup] = []
        self.grouped = is_grouped(select, items)
        written = [self._key(expression) for expression in select.group_by]
        # A key written twice is one key, or a product of domains would count it twice.
        self._keys = tuple({key.expression: key for key in written}.values())
        self._key_fields: dict[tree.Expression, algebra.Field] = {
            k.expression: k.field for k in self._keys
        }
        places = {key.expression: n for n, key in enumerate(self._keys)}
        self._sets = tuple(
            tuple(dict.fromkeys(places[written[n].expression] for n in chosen))
            for chosen in select.grouping_sets
        )
        # Every use is lifted before the relation is built, so that all measures are known.
        for item in items:
            self.lift(item.expression)
        for expression in (*(key.expression for key in select.order_by), *select.distinct_on):
            if not self._names_output(expression):
                self._lift_order(expression)
        self._having = None if select.having is None else self._having_of(select.having)
        self.qualify: tree.Expression | None = None
        """The QUALIFY condition over keys, measures and windows."""
        if select.qualify is not None:
            qualify = predicate(self._with_lookups(select.qualify), self._scope)
            self.qualify = self._lifted(qualify)

    def _lift_order(self, expression: tree.Expression) -> None:
        try:
            self.lift(expression)
        except Refused as refused:
            raise self._with_outputs(refused, orders=True) from None

    def filtered(self) -> algebra.Relation:
        """Return the relation after GROUP BY and HAVING."""
        relation = self._relation
        if self.grouped:
            measures = tuple(algebra.Measure(field, call) for call, field in self._measures.items())
            span = self._select.span
            sets = self._sets if self._keys else ()
            relation = algebra.Aggregate(relation, self._keys, measures, span, sets=sets)
            if not self._keys and len(self._sets) > 1:
                relation = self._repeated(relation, len(self._sets))
        for lookup in (*self._tables, *self._lookups.values()):
            relation = lookup.attach(relation)
        return relation if self._having is None else algebra.Filter(relation, self._having)

    def _repeated(self, total: algebra.Relation, times: int) -> algebra.Relation:
        """Return the single row of an aggregate once for each of several empty grouping sets."""
        number = self._identities.field("set", tree.INTEGER)
        rows = tuple((tree.Literal(n, tree.INTEGER),) for n in range(times))
        values = algebra.Values((number,), rows, self._select.span)
        return algebra.Join(total, values, tree.JoinKind.CROSS, None, self._select.span)

    def windowed(self, relation: algebra.Relation) -> algebra.Relation:
        """Return `relation` with the window columns added, if there are any."""
        if not self._windows:
            return relation
        items = tuple(algebra.WindowItem(field, call) for call, field in self._windows.items())
        return algebra.Window(relation, items)

    def lift(self, expression: tree.Expression) -> tree.Expression:
        """Rewrite a written expression over keys, measures and windows."""
        return self._lifted(typed(self._with_lookups(expression), self._scope))

    def _with_lookups(self, expression: tree.Expression) -> tree.Expression:
        """Replace the subqueries that groups evaluate by columns next to the groups."""
        expression = map_children(expression, self._with_lookups)
        if not isinstance(expression, tree.ScalarQuery | tree.Membership):
            return expression
        if expression not in self._lookups:
            lookup = self._nested.lookup(expression)
            self._looked_up |= lookup.columns
            self._lookups[expression] = lookup.map(self._lifted)
        return self._lookups[expression].value

    def _lifted(self, expression: tree.Expression) -> tree.Expression:
        if self.grouped and expression in self._key_fields:
            field = self._key_fields[expression]
            return field.ref
        match expression:
            case tree.AggregateCall(function="grouping"):
                return self._grouping(expression)
            case tree.AggregateCall():
                return self._named(self._measures, expression)
            case tree.WindowCall():
                for part in walk(expression):
                    if part is not expression and isinstance(part, tree.WindowCall):
                        raise Refused(Reason.MISPLACED_AGGREGATE, part.span, name=part.function)
                return self._named(self._windows, map_children(expression, self._lifted))
            case tree.Ref() if self.grouped and expression.id not in self._looked_up:
                named = {f.id: f.name for f in self._relation.fields}
                if expression.id not in named:  # a column of the query around this one
                    return expression
                return self._settled(expression, named[expression.id])
            case _:
                return map_children(expression, self._lifted)

    def _settled(self, column: tree.Ref, name: str) -> tree.Ref:
        """Return a column of a table that has its key among the keys: it has one value per group.

        This follows from the declared key. A column of a public table is joined to the groups. A
        column of private rows becomes one more key, so that a wrong key gives more groups.
        """
        keys = {k.expression.id: k.field for k in self._keys if isinstance(k.expression, tree.Ref)}
        source = self._scope.settled_by(frozenset(keys), column.id)
        table = None if source is None else self._nested.subqueries.policy.table(source.table or "")
        if self._sets or source is None or table is None:
            raise Refused(Reason.NOT_GROUPED, column.span, column=name)
        if table.private:
            key = algebra.Item(self._identities.field(name, column.type), column)
            self._keys = (*self._keys, key)
            self._key_fields[column] = key.field
            return key.field.ref
        if column.id not in self._beside:
            self._look_beside(source, keys)
        return self._beside[column.id].ref

    def _look_beside(self, source: Source, keys: Mapping[int, algebra.Field]) -> None:
        """Add the columns of a public table to the groups, joined by its key."""

        def copies() -> tuple[algebra.Field, ...]:
            return tuple(self._identities.field(f.name, f.type) for f in self._columns(source))

        there, shown = copies(), copies()
        scan = algebra.Scan(source.table or "", there, self._select.span)
        equal = (
            typed_call(tree.Call("eq", (keys[old.id].ref, new.ref), span=self._select.span))
            for old, new in zip(source.fields, there, strict=True)
            if old.id in (source.key or ())
        )
        pairs = tuple(zip(there, shown, strict=True))
        self._tables.append(Lookup(scan, both(tuple(equal)), NOTHING, renamed=pairs))
        self._beside |= {old.id: new for old, new in zip(source.fields, shown, strict=True)}

    def _columns(self, source: Source) -> tuple[algebra.Field, ...]:
        """Return the columns of a table under their own names, in the order of `source`."""
        table = self._nested.subqueries.policy.table(source.table or "")
        assert table is not None
        names = [c.name for c in table.columns if not c.hidden]
        return tuple(replace(f, name=n) for f, n in zip(source.fields, names, strict=True))

    def _grouping(self, call: tree.AggregateCall) -> tree.Expression:
        """Return the value of GROUPING(keys): a bit for each key that a row sums over."""
        for arg in call.args:
            if arg not in self._key_fields:
                raise Refused(Reason.NOT_GROUPED, call.span, column="an argument of GROUPING")
        return self._named(self._measures, call) if self._sets else tree.Literal(0, tree.INTEGER)

    def _named(self, table: dict, call: tree.Expression) -> tree.Ref:  # type: ignore[type-arg]
        kind = type_of(call)
        if call not in table:
            table[call] = self._identities.field(getattr(call, "function", ""), kind)
        return tree.Ref(table[call].id, kind)

    def _having_of(self, expression: tree.Expression) -> tree.Expression | None:
        """Return HAVING without conditions that hold for every group, such as COUNT(1) > 0 of BI
        tools.

        They would cost a measurement. Without keys they stay, because the one row may have no rows
        below.
        """
        try:
            named = self._with_lookups(self._with_aliases(expression))
            parts = conjuncts(predicate(named, self._scope))
        except Refused as refused:
            raise self._with_outputs(refused) from None
        if self._keys:
            parts = tuple(part for part in parts if not _holds_of_every_group(part))
        condition = both(parts)
        return None if condition is None else self._lifted(condition)

    def _with_outputs(self, refused: Refused, *, orders: bool = False) -> Refused:
        """Return the refusal of an unknown column, which may mean an output: one with a name, or,
        where it `orders` rows, the place of one that is called by its function.
        """
        facts = refused.facts
        if refused.reason is not Reason.UNKNOWN_COLUMN:
            return refused
        written, near = str(facts.get("column")).lower(), str(facts.get("near") or "").lower()
        computed = [item for item in self._items if not isinstance(item.expression, tree.Name)]
        labels = [item.alias for item in computed if item.alias]
        places = [n for n, i in enumerate(self._items, 1) if orders and _function_of(i) == written]
        meant = nearest(written, labels) or (labels[0] if len(labels) == 1 else None)
        if len(places) == 1:
            fix = f"Order by its place, {places[0]}, or name it: {written.upper()}(…) AS {written}."
            meant, facts = str(places[0]), {**facts, "fix": fix}
        elif near and (not orders or near.startswith(written)):
            return refused
        if meant is None:
            return refused
        return Refused(refused.reason, refused.span, **{**facts, "near": meant, "known": ()})

    def _with_aliases(self, expression: tree.Expression) -> tree.Expression:
        """Replace names of outputs in HAVING that are no columns of the groups, as DuckDB does.

        A column of FROM takes precedence over such a name inside aggregates, or where it is a key.
        """
        if isinstance(
            expression, tree.AggregateCall | tree.WindowCall | tree.ScalarQuery | tree.Membership
        ):
            return expression
        if not isinstance(expression, tree.Name) or expression.table is not None:
            return map_children(expression, self._with_aliases)
        column = typed(expression, self._scope)
        label = expression.name.lower()
        meant = {i.expression for i in self._items if (i.alias or "").lower() == label}
        if not isinstance(column, tree.Ref) or column in self._key_fields or not meant:
            return expression
        keys = frozenset(k.id for k in self._key_fields if isinstance(k, tree.Ref))
        settled = self._scope.settled_by(keys, column.id) is not None
        if meant == {expression}:
            return expression
        if settled or len(meant) > 1:
            raise Refused(Reason.AMBIGUOUS_COLUMN, expression.span, column=expression.name)
        return next(iter(meant))

    def _key(self, expression: tree.Expression) -> algebra.Item:
        written = self._unaliased(expression)
        key = typed(written, self._scope)
        for node in walk(key):
            if isinstance(node, tree.AggregateCall | tree.WindowCall):
                raise Refused(
                    Reason.MISPLACED_AGGREGATE, node.span, name=node.function, clause="GROUP BY"
                )
        aliases = (item.alias for item in self._items if item.expression == written)
        plain = written.name if isinstance(written, tree.Name) else "key"
        name = next(filter(None, aliases), plain)
        return algebra.Item(self._identities.field(name, type_of(key)), key)

    def _unaliased(self, expression: tree.Expression) -> tree.Expression:
        """Replace an ordinal or an output alias by its expression."""
        if isinstance(expression, tree.Literal) and expression.type.kind is tree.Kind.INTEGER:
            position = expression.value
            assert isinstance(position, int)
            if not 1 <= position <= len(self._items):
                last = len(self._items)
                raise Refused(Reason.UNKNOWN_COLUMN, expression.span, position=position, last=last)
            return self._items[position - 1].expression
        if (
            isinstance(expression, tree.Name)
            and expression.table is None
            and not self._scope.has(expression)
        ):
            for item in self._items:
                if output_name(item).lower() == expression.name.lower():
                    return item.expression
        return expression

    def _names_output(self, expression: tree.Expression) -> bool:
        if isinstance(expression, tree.Literal):
            return isinstance(expression.value, int)
        if isinstance(expression, tree.Star):
            return True
        return (
            isinstance(expression, tree.Name)
            and expression.table is None
            and expression.name.lower() in {output_name(item).lower() for item in self._items}
        )


def output_name(item: tree.SelectItem) -> str:
    """Return the name of an output column; without an alias the text determines it."""
    if item.alias:
        return item.alias
    if isinstance(item.expression, tree.Name):
        return item.expression.name
    return item.label or _function_of(item) or "column"


def _function_of(item: tree.SelectItem) -> str | None:
    """Return the name of the output's function, in lower case; None for other expressions."""
    name = getattr(item.expression, "function", None)
    return name.lower() if isinstance(name, str) else None


def _holds_of_every_group(condition: tree.Expression) -> bool:
    """Test for COUNT(*) > 0, 0 < COUNT(1) or COUNT(*) >= 1, which every group satisfies."""
    compared = against_constant(condition)
    if compared is None or compared[0] not in ("gt", "ge"):
        return False
    comparison, count, limit = compared
    if not isinstance(count, tree.AggregateCall) or count.function != "count":
        return False
    argument = count.args[0]
    constant = isinstance(argument, tree.Literal) and argument.value is not None
    every = constant or isinstance(argument, tree.Star)
    least = tree.Literal(0 if comparison == "gt" else 1, tree.INTEGER)
    return every and count.filter is None and not count.distinct and limit == least
