"""Names that a SELECT list gives and takes: stars written out, and aliases used beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsql.compiler.resolve.scopes import Scope
from dpsql.compiler.resolve.stated_names import Outputs
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    STATED,
    AggregateCall,
    Call,
    Expression,
    Literal,
    Name,
    Ref,
    Select,
    SelectItem,
    Star,
)
from dpsql.model.walk import children, map_children, walk

MAX_DEPTH = 64
"""Most levels of an expression once its aliases are written out, as in `check_depth`."""

MAX_NODES = 20_000
"""Most parts of an expression once its aliases are written out."""


@dataclass(frozen=True, slots=True)
class Aliases:
    """What the aliases of a SELECT list stand for; a column of FROM with the name goes first.

    What DP_STDDEV and its kin name is left as it is: see `dpsql.compiler.resolve.stated_names`.
    """

    scope: Scope
    meaning: Mapping[str, Expression]

    def unfolded(self, expression: Expression) -> Expression:
        """The expression with each alias in it replaced by what it stands for.

        Raises `Refused` (TOO_LARGE) where aliases of aliases make it grow too much.
        """
        result = self._replaced(expression)
        _check_size(result)
        return result

    def _replaced(self, expression: Expression) -> Expression:
        if isinstance(expression, Name):
            if expression.table is not None or self.scope.has(expression):
                return expression
            return self.meaning.get(expression.name.lower(), expression)
        if isinstance(expression, Call) and expression.function in STATED:
            return expression
        return map_children(expression, self._replaced)

    def with_alias(self, item: SelectItem) -> Aliases:
        """These aliases and that of one more item; the later of two equal names counts."""
        if item.alias is None:
            return self
        return Aliases(self.scope, {**self.meaning, item.alias.lower(): item.expression})


def _check_size(expression: Expression) -> None:
    """Aliases that use each other double in size and grow in depth at every step."""
    pending, seen = [(expression, 1)], 0
    while pending:
        node, depth = pending.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_NODES:
            what = "parts of an expression"
            raise Refused(Reason.TOO_LARGE, expression.span, what=what, limit=MAX_NODES)
        pending += [(child, depth + 1) for child in children(node)]


def spelled_out(select: Select, scope: Scope) -> tuple[Select, tuple[SelectItem, ...]]:
    """The SELECT with its stars, its aliases and GROUP BY ALL written out, and its list.

    Numbers and names of outputs in GROUP BY, ORDER BY and DISTINCT ON stay as they are. Raises
    `Refused` for names in EXCLUDE, REPLACE and RENAME that the star does not have.
    """
    items, aliases = _expanded(select.items, scope)
    outputs = Outputs(items, aliases.unfolded)
    items = outputs.named()
    labels = {item.alias.lower() for item in items if item.alias is not None}

    def outside(expression: Expression) -> Expression:
        named = isinstance(expression, Name) and expression.table is None
        if named and getattr(expression, "name", "").lower() in labels:
            return expression
        return outputs.meant(aliases.unfolded(expression))

    def optional(condition: Expression | None) -> Expression | None:
        return None if condition is None else outputs.meant(aliases.unfolded(condition))

    written = replace(
        select,
        where=None if select.where is None else aliases.unfolded(select.where),
        group_by=_group_by(select.group_by, items),
        having=optional(select.having),
        qualify=optional(select.qualify),
        order_by=tuple(replace(k, expression=outside(k.expression)) for k in select.order_by),
        distinct_on=tuple(map(outside, select.distinct_on)),
    )
    return written, items


def _group_by(
    keys: tuple[Expression, ...], items: tuple[SelectItem, ...]
) -> tuple[Expression, ...]:
    """The keys; GROUP BY ALL is every item without an aggregate."""
    if not any(isinstance(key, Star) for key in keys):
        return keys
    listed = [item.expression for item in items if not _has_aggregate(item.expression)]
    # A number would mean the item at its place, and no key at all one group without rows.
    numbers = [Call("coalesce", (e,), span=e.span) for e in listed if isinstance(e, Literal)]
    return (*(e for e in listed if not isinstance(e, Literal)), *numbers)


def _has_aggregate(expression: Expression) -> bool:
    return any(isinstance(node, AggregateCall) for node in walk(expression))


def _expanded(
    items: tuple[SelectItem, ...], scope: Scope
) -> tuple[tuple[SelectItem, ...], Aliases]:
    """The SELECT list with stars and the aliases of earlier items written out, and all aliases."""
    result: list[SelectItem] = []
    aliases = Aliases(scope, {})
    for item in items:
        if isinstance(item.expression, Star):
            columns = _columns(item.expression, aliases)
            result += columns
            new_names = {new.lower() for _, new in item.expression.renaming}
            for column in columns:
                if (column.alias or "").lower() in new_names:
                    aliases = aliases.with_alias(column)
            continue
        written = item.expression
        # The label of an output is what was written, not what it stands for.
        label = item.alias or (written.name if isinstance(written, Name) else None)
        new = SelectItem(aliases.unfolded(written), label)
        result.append(new)
        aliases = aliases.with_alias(new if item.alias else SelectItem(new.expression))
    return tuple(result), aliases


def _columns(star: Star, aliases: Aliases) -> list[SelectItem]:
    """The columns of `*` without those it excludes, with values replaced and labels renamed."""
    fields = aliases.scope.expand(star)
    present = {f.name.lower() for f in fields}
    excluded = {name.lower() for name in star.exclude}
    replaced = {name.lower(): aliases.unfolded(value) for name, value in star.replacing}
    renamed = {old.lower(): new for old, new in star.renaming}
    listed = (*excluded, *replaced, *renamed)
    for name in listed:
        if name not in present or listed.count(name) > 1:
            raise Refused(Reason.UNKNOWN_COLUMN, star.span, column=name)
    result = []
    for f in fields:
        name = f.name.lower()
        if name not in excluded:
            value = replaced.get(name, Ref(f.id, f.type, star.span))
            result.append(SelectItem(value, renamed.get(name, f.name)))
    return result
