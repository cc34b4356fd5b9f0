"""Scopes: the field that a column name means, and the inputs and outputs of a SELECT list.

Facts belong to the identity of a column, never to its name: SECURITY.md S7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dpsql.model import tree
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import candidates, nearest
from dpsql.model.walk import children, expressions, map_children, walk

MAX_FIELDS = 20_000
"""Largest number of columns in one statement: CTEs used twice are resolved twice."""


class Identities:
    """Generator of field ids, unique within a statement."""

    __slots__ = ("following",)

    def __init__(self, following: int = 1) -> None:
        self.following = following

    def field(self, name: str, kind: tree.SqlType) -> Field:
        """Return a new column; refuses a statement that grows beyond `MAX_FIELDS`."""
        number = self.following
        self.following += 1
        if number > MAX_FIELDS:
            raise Refused(Reason.TOO_LARGE, what="columns", limit=MAX_FIELDS)
        return Field(number, name, kind)


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM: its alias and its columns.

    `hidden` are existing names that may not be used, each with its table. `table` is the name of
    the policy's table where FROM names one, `key` the columns of its key.
    """

    alias: str | None
    fields: tuple[Field, ...]
    hidden: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None
    key: frozenset[int] | None = None

    def is_called(self, table: str, schema: tuple[str, ...]) -> bool:
        """Test whether a name with this qualifier may be a column of this source."""
        if self.alias is None or self.alias.lower() != table.lower():
            return False
        return (
            not schema or self.table is None or self.table.lower() in candidates((*schema, table))
        )

    def named(self, name: str) -> Iterator[Field]:
        lowered = name.lower()
        return (f for f in self.fields if f.name.lower() == lowered)


@dataclass(frozen=True, slots=True)
class Scope:
    """The sources of one SELECT.

    `merged` are the right-hand columns of USING, visible only once. `instead` maps a left-hand
    column to the visible column that replaces it. `outer` is the scope of the query around a
    subquery, where missing names are looked up.
    """

    sources: tuple[Source, ...] = ()
    merged: frozenset[int] = field(default_factory=frozenset)
    outer: Scope | None = None
    instead: Mapping[int, Field] = field(default_factory=dict)

    def lookup(self, name: tree.Name) -> Field:
        """Return the single field that `name` means, or raise a refusal that points at it."""
        name = self.whole(name)
        if self.outer is not None and not self._knows(name):
            return self.outer.lookup(name)
        sources = self._qualified(name)
        fields = [f for source in sources for f in source.named(name.name)]
        if name.table is None:
            fields = [self.seen(f) for f in fields if f.id not in self.merged]
        if len(fields) == 1:
            return fields[0]
        if fields:
            raise Refused(Reason.AMBIGUOUS_COLUMN, name.span, column=name.name)
        for table in (s.hidden.get(name.name.lower()) for s in sources):
            if table is not None:
                raise Refused(Reason.HIDDEN_COLUMN, name.span, column=name.name, others=table)
        existing = tuple(dict.fromkeys(f.name for source in sources for f in source.fields))
        near, facts = nearest(name.name, existing), dict[str, object]()
        if all(source.alias for source in sources):
            facts["holders"] = tuple(source.alias for source in sources)
        has_quotes = name.span.stop - name.span.start == len(name.name) + 2
        if near is None and has_quotes and name.table is None:
            facts["fix"] = "Double quotes name columns. Write a text in single quotes."
        raise Refused(
            Reason.UNKNOWN_COLUMN,
            name.span,
            column=name.name,
            table=name.table,
            near=near,
            known=existing,
            **facts,
        )

    def whole(self, name: tree.Name) -> tree.Name:
        """Rewrite "column.field", the name of a part of a column, as a column name."""
        if name.table is None or any(s.is_called(name.table, name.schema) for s in self.sources):
            return name
        words = (*name.schema, name.table, name.name)
        for place in range(len(words) - 1):
            *schema, table = (None, *words[:place])
            column = ".".join(words[place:])
            part = replace(name, name=column, table=table, schema=tuple(filter(None, schema)))
            if self.has(part) or self._has_parts(words[place]):
                return part
        return name if self.outer is None else self.outer.whole(name)

    def _has_parts(self, column: str) -> bool:
        """Test whether parts of such a column are declared: then the name is one of them, or
        unknown.
        """
        begins = tuple(f"{column.lower()}{sign}" for sign in ".[")
        return any(f.name.lower().startswith(begins) for s in self.sources for f in s.fields)

    def has(self, name: tree.Name) -> bool:
        """Test whether some field, visible or hidden, has this name."""
        return any(
            (name.table is None or source.is_called(name.table, name.schema))
            and (any(source.named(name.name)) or name.name.lower() in source.hidden)
            for source in self.sources
        )

    def _knows(self, name: tree.Name) -> bool:
        """Test whether the name exists here, usable or not; a table here hides outer ones."""
        if name.table is not None:
            return any(s.is_called(name.table, name.schema) for s in self.sources)
        return any(
            any(source.named(name.name)) or name.name.lower() in source.hidden
            for source in self.sources
        )

    def expand(self, star: tree.Star) -> tuple[Field, ...]:
        """Return the columns of `*` or `t.*`, in order."""
        fields = tuple(f for source in self._qualified(star) for f in source.fields)
        if star.table is not None:
            return fields
        return tuple(self.seen(f) for f in fields if f.id not in self.merged)

    def seen(self, column: Field) -> Field:
        """Return the column that a name without a table means after several merging joins."""
        while column.id in self.instead:
            column = self.instead[column.id]
        return column

    def renumbered(self, fields: Mapping[int, Field]) -> Scope:
        """Return the scope above a relation that gives these columns new identities."""

        def new(column: Field) -> Field:
            return fields.get(column.id, column)

        def same(number: int) -> int:
            return fields[number].id if number in fields else number

        def renamed(source: Source) -> Source:
            key = None if source.key is None else frozenset(map(same, source.key))
            return replace(source, fields=tuple(map(new, source.fields)), key=key)

        return Scope(
            tuple(map(renamed, self.sources)),
            frozenset(map(same, self.merged)),
            self.outer,
            {same(n): new(f) for n, f in self.instead.items()},
        )

    def settled_by(self, keys: frozenset[int], column: int) -> Source | None:
        """Return the table of a column, if the table's key is among `keys`."""
        settled = (s for s in self.sources if s.key is not None and s.key <= keys)
        return next((s for s in settled if any(f.id == column for f in s.fields)), None)

    def beside(self, right: Scope) -> Scope:
        """Return the scope of a join of both."""
        return Scope(
            self.sources + right.sources,
            self.merged | right.merged,
            instead={**self.instead, **right.instead},
        )

    def _qualified(self, name: tree.Name | tree.Star) -> tuple[Source, ...]:
        table = name.table
        if table is None:
            return self.sources
        sources = tuple(s for s in self.sources if s.is_called(table, name.schema))
        if not sources:
            raise self._not_in_from(table, name)
        return sources

    def _not_in_from(self, table: str, name: tree.Name | tree.Star) -> Refused:
        """Return the refusal of an unknown qualifier, with an alias or similar names."""
        meant = candidates((*name.schema, table))
        renamed = (s.alias for s in self.sources if s.table and s.table.lower() in meant)
        aliases = tuple(s.alias for s in self.sources if s.alias)
        written = ".".join((*name.schema, table))
        near = nearest(table, aliases)
        facts = {"alias": next(renamed, None), "near": near, "sources": aliases}
        return Refused(Reason.UNKNOWN_TABLE, name.span, qualifier=written, **facts)


def is_stated(expression: tree.Expression) -> bool:
    """Test whether an expression is a stated error.

    >>> is_stated(tree.Call("dp_stddev", (tree.Name("n"),))), is_stated(tree.Name("n"))
    (True, False)
    """
    return isinstance(expression, tree.Call) and expression.function in tree.STATED


@dataclass(frozen=True, slots=True)
class Outputs:
    """The items of a SELECT list; `unfolded` replaces the aliases in arguments of aggregates."""

    items: tuple[tree.SelectItem, ...]
    unfolded: Callable[[tree.Expression], tree.Expression]

    def named(self) -> tuple[tree.SelectItem, ...]:
        """Return the items; the alias in each `DP_STDDEV(alias)` becomes that item's expression.

        Raises `Refused` for a name of several different items and for the error of an error.
        """
        return tuple(
            replace(item, expression=self.meant(item.expression, place))
            for place, item in enumerate(self.items)
        )

    def meant(self, expression: tree.Expression, own: int | None = None) -> tree.Expression:
        """Return an expression of the same SELECT (its item number `own`), with errors as in
        `named`.
        """
        if isinstance(expression, tree.AggregateCall):
            return expression  # reads columns of FROM
        if is_stated(expression):
            return map_children(expression, lambda arg: self._replaced(arg, own))
        return map_children(expression, lambda child: self.meant(child, own))

    def _replaced(self, expression: tree.Expression, own: int | None) -> tree.Expression:
        if isinstance(expression, tree.AggregateCall):
            return self.unfolded(expression)
        if not isinstance(expression, tree.Name) or expression.table is not None:
            return map_children(expression, lambda child: self._replaced(child, own))
        name = expression.name
        outputs = {
            item.expression
            for place, item in enumerate(self.items)
            if place != own and (item.alias or "").lower() == name.lower()
        }
        if len(outputs) > 1:
            raise Refused(Reason.AMBIGUOUS_COLUMN, expression.span, column=name)
        (meaning,) = outputs or {expression}
        if any(map(is_stated, walk(meaning))):
            construct = f"the error of {name}, which is made of an error"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, expression.span, construct=construct)
        return meaning


def stated_in(relation: Relation) -> Iterator[tree.Call]:
    """Yield the errors that a relation itself states, without those of its inputs."""
    for expression in expressions(relation):
        for node in walk(expression):
            if isinstance(node, tree.Call) and is_stated(node):
                yield node


def require_none(relation: Relation, where: str) -> None:
    """Refuse errors that a relation itself states, in a place `where` nothing is noisy yet."""
    for call in stated_in(relation):
        construct = f"{call.function.upper()} {where}"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, call.span, construct=construct)


MAX_DEPTH = 64
"""Largest depth of an expression after its aliases are replaced, as in `check_depth`."""

MAX_NODES = 20_000
"""Largest number of nodes of an expression after its aliases are replaced."""


@dataclass(frozen=True, slots=True)
class Aliases:
    """Meanings of the aliases of a SELECT list; a column of FROM with the same name has precedence.

    Arguments of DP_STDDEV and similar functions stay unchanged: see
    `dpsql.compiler.resolve.scopes`.
    """

    scope: Scope
    meaning: Mapping[str, tree.Expression]

    def unfolded(self, expression: tree.Expression) -> tree.Expression:
        """Replace each alias in an expression by its meaning.

        Raises `Refused` (TOO_LARGE) where aliases of aliases make it grow too much.
        """
        result = self._replaced(expression)
        _check_size(result)
        return result

    def _replaced(self, expression: tree.Expression) -> tree.Expression:
        if isinstance(expression, tree.Name):
            if expression.table is not None or self.scope.has(expression):
                return expression
            return self.meaning.get(expression.name.lower(), expression)
        if isinstance(expression, tree.Call) and expression.function in tree.STATED:
            return expression
        return map_children(expression, self._replaced)

    def with_alias(self, item: tree.SelectItem) -> Aliases:
        """Return these aliases and that of one more item; of two equal names the later one
        counts.
        """
        if item.alias is None:
            return self
        return Aliases(self.scope, {**self.meaning, item.alias.lower(): item.expression})


def _check_size(expression: tree.Expression) -> None:
    """Refuse a large expression: aliases that use each other double its size and depth at every
    step.
    """
    pending, seen = [(expression, 1)], 0
    while pending:
        node, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_NODES:
            what = "parts of an expression"
            raise Refused(Reason.TOO_LARGE, expression.span, what=what, limit=MAX_NODES)
        pending += [(child, depth + 1) for child in children(node)]


def spelled_out(
    select: tree.Select, scope: Scope
) -> tuple[tree.Select, tuple[tree.SelectItem, ...]]:
    """Return the SELECT and its list with stars, aliases and GROUP BY ALL replaced.

    Numbers and names of outputs in GROUP BY, ORDER BY and DISTINCT ON stay. Raises `Refused` for
    names in EXCLUDE, REPLACE and RENAME that the star does not have.
    """
    items, aliases = _expanded(select.items, scope)
    outputs = Outputs(items, aliases.unfolded)
    items = outputs.named()
    labels = {item.alias.lower() for item in items if item.alias is not None}

    def outside(expression: tree.Expression) -> tree.Expression:
        named = isinstance(expression, tree.Name) and expression.table is None
        if named and getattr(expression, "name", "").lower() in labels:
            return expression
        return outputs.meant(aliases.unfolded(expression))

    def optional(condition: tree.Expression | None) -> tree.Expression | None:
        return None if condition is None else outputs.meant(aliases.unfolded(condition))

    written = replace(
        select,
        where=None if select.where is None else aliases.unfolded(select.where),
        group_by=_group_by(select.group_by, items) if select.group_by else (),
        having=optional(select.having),
        qualify=optional(select.qualify),
        order_by=tuple(replace(k, expression=outside(k.expression)) for k in select.order_by),
        distinct_on=tuple(map(outside, select.distinct_on)),
    )
    return written, items


def _group_by(
    keys: tuple[tree.Expression, ...], items: tuple[tree.SelectItem, ...]
) -> tuple[tree.Expression, ...]:
    """Return the keys; GROUP BY ALL means every item without an aggregate."""
    if not any(isinstance(key, tree.Star) for key in keys):
        return keys
    listed = [
        item.expression
        for item in items
        if not any(isinstance(node, tree.AggregateCall) for node in walk(item.expression))
    ]
    # A number would mean the item at its place, and no key at all one group without rows.
    numbers = [
        tree.Call("coalesce", (e,), span=e.span) for e in listed if isinstance(e, tree.Literal)
    ]
    return (*(e for e in listed if not isinstance(e, tree.Literal)), *numbers)


def _expanded(
    items: tuple[tree.SelectItem, ...], scope: Scope
) -> tuple[tuple[tree.SelectItem, ...], Aliases]:
    """Return the SELECT list with stars and aliases of earlier items replaced, and all aliases."""
    result: list[tree.SelectItem] = []
    aliases = Aliases(scope, {})
    for item in items:
        if isinstance(item.expression, tree.Star):
            columns = _columns(item.expression, aliases)
            result += columns
            new_names = {new.lower() for _, new in item.expression.renaming}
            for column in columns:
                if (column.alias or "").lower() in new_names:
                    aliases = aliases.with_alias(column)
            continue
        written = item.expression
        name, meant = item.alias, aliases.unfolded(written)
        if name is None and isinstance(written, tree.Name):
            # The name of an output is what was written, not what it stands for.
            name = written.name if item.label or meant is not written else _own_name(written, scope)
        new = tree.SelectItem(meant, name, item.label)
        result.append(new)
        aliases = aliases.with_alias(new if item.alias else tree.SelectItem(new.expression))
    if not result:
        why = "* has no column: nothing is selected"
        raise Refused(Reason.SYNTAX, items[0].expression.span, why=why)
    return tuple(result), aliases


def _own_name(written: tree.Name, scope: Scope) -> str:
    """Return the name of a column in its table's case; as written where this is not clear."""
    sources = (s for s in scope.sources if not written.table or s.is_called(written.table, ()))
    names = {field.name for source in sources for field in source.named(written.name)}
    return names.pop() if len(names) == 1 else written.name


def _columns(star: tree.Star, aliases: Aliases) -> list[tree.SelectItem]:
    """Return the columns of `*` after EXCLUDE, REPLACE and RENAME."""
    fields = aliases.scope.expand(star)
    present = {f.name.lower() for f in fields}
    excluded = {name.lower() for name in star.exclude}
    replaced = {name.lower(): aliases.unfolded(value) for name, value in star.replacing}
    renamed = {old.lower(): new for old, new in star.renaming}
    listed = (*excluded, *replaced, *renamed)
    for name in listed:
        if name not in present or listed.count(name) > 1:
            existing = tuple(f.name for f in fields)
            near = nearest(name, existing)
            raise Refused(Reason.UNKNOWN_COLUMN, star.span, column=name, near=near, known=existing)
    result = []
    for f in fields:
        name = f.name.lower()
        if name not in excluded:
            value = replaced.get(name, tree.Ref(f.id, f.type, star.span))
            result.append(tree.SelectItem(value, renamed.get(name, f.name)))
    return result
