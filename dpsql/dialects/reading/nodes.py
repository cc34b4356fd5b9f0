"""The one way to read a sqlglot node: every argument is taken by name, or the node is refused.

Arguments that are not taken are unknown, and refused: SECURITY.md S13.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlglot import exp

from dpsql.dialects.reading.request_options import Named
from dpsql.dialects.reading.tokens import FUNCTION, PLACEHOLDER
from dpsql.model import tree
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Reason, Refused

CLOCKS = {
    **dict.fromkeys(("current_date", "today"), tree.Kind.DATE),
    **dict.fromkeys(("localtimestamp", "current_localtimestamp"), tree.Kind.TIMESTAMP),
    **dict.fromkeys(
        "now current_timestamp get_current_timestamp transaction_timestamp"
        " statement_timestamp".split(),
        tree.Kind.TIMESTAMPTZ,
    ),
}
"""Functions of the current time, which are read as constants for a while."""

PRECISE = frozenset({"current_timestamp", "localtimestamp"})
"""Functions of time with an optional precision in digits of seconds; the time grid has none."""

_ARGUMENTS = {
    "all": "GROUP BY ALL",
    "hint": "a hint",
    "into": "SELECT INTO",
    "joins": "a join in parentheses",
    "laterals": "LATERAL",
    "locks": "FOR UPDATE",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "zone": "a time zone",
}
"""Names of refused arguments for people; others have sqlglot's name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Context of a tree: dialect, parameters, the instant, and the span of every node by id.

    `strings` are the offsets of string literals, which sqlglot also accepts as names. `read_query`
    reads queries inside of expressions. `named` are the named arguments of aggregates, by the
    offset of the aggregate's name; `heard` are those that were read. `clock` collects the places
    where the time was read, `nows` those of texts 'now'. `rows` are the columns that series in a
    SELECT list became, by node. `calls` are the words before a parenthesis, in lower case.
    """

    dialect: str
    parameters: tuple[tree.Parameter, ...]
    instant: datetime
    spans: Mapping[int, tree.Span]
    strings: frozenset[int]
    read_query: Callable[[exp.Expression, Origin], tree.Query]
    named: Mapping[int, Named]
    calls: frozenset[str]
    heard: set[int] = field(default_factory=set)
    clock: set[int] = field(default_factory=set)
    nows: set[int] = field(default_factory=set)
    rows: dict[int, str] = field(default_factory=dict)

    def clock_reading(self, name: str, span: tree.Span) -> tree.Literal | None:
        """Return the value of a function of the time, in UTC; None for another function."""
        if CLOCKS.get(name, tree.Kind.DATE) is not tree.Kind.DATE:
            self.clock.add(span.start)
        match CLOCKS.get(name):
            case tree.Kind.DATE:
                return tree.Literal(self.instant.date(), tree.DATE, span)
            case tree.Kind.TIMESTAMP:
                return tree.Literal(self.instant.replace(tzinfo=None), tree.TIMESTAMP, span)
            case tree.Kind.TIMESTAMPTZ:
                return tree.Literal(self.instant, tree.TIMESTAMPTZ, span)
            case _:
                return None

    def span(self, node: exp.Expression) -> tree.Span:
        """Return the span of the node, or of the nearest ancestor that has one."""
        current: Any = node
        while current is not None and id(current) not in self.spans:
            current = current.parent
        return tree.NOWHERE if current is None else self.spans[id(current)]

    def take(self, node: exp.Expression, *names: str) -> tuple[Any, ...]:
        """Return the node's arguments of these names (None if absent); refuse the node if it has
        others.

        So an attribute that no rule reads (FILTER, IGNORE NULLS, a sample, a join kind) cannot be
        dropped. Nothing else in the importer may look into `node.args`.
        """
        for name, value in node.args.items():
            absent = value is None or value is False or (isinstance(value, list) and not value)
            if name not in names and not absent:
                raise self._argument_refusal(node, name, value)
        return tuple(node.args.get(name) for name in names)

    def refusal(
        self, node: exp.Expression, construct: str | None = None, **facts: object
    ) -> Refused:
        """Return the refusal of the node's syntax, at its place; the caller raises it."""
        name = construct or spoken(node)
        return Refused(Reason.UNSUPPORTED_SYNTAX, self.span(node), construct=name, **facts)

    def _argument_refusal(self, node: exp.Expression, name: str, value: object) -> Refused:
        first = value[0] if isinstance(value, list) else value
        return Refused(
            Reason.UNSUPPORTED_SYNTAX,
            self.span(first if isinstance(first, exp.Expression) else node),
            construct=_ARGUMENTS.get(name, f"{spoken(node)} with {name.strip('_')}"),
        )


def spoken(node: exp.Expression) -> str:
    """Return the class of the node in words: WithinGroup is WITHIN GROUP."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).upper()


def nodes_of(root: exp.Expression) -> list[exp.Expression]:
    """Return all nodes of the tree."""
    return [node for node in root.walk() if isinstance(node, exp.Expression)]


def name_of(identifier: exp.Expression, origin: Origin) -> str:
    """Return the name as written, of a plain identifier or one renamed before a parenthesis."""
    if not isinstance(identifier, exp.Identifier):
        raise origin.refusal(identifier)
    if origin.span(identifier).start in origin.strings:
        fix = "Name it without quotes, or in double ones; of tables those that SHOW TABLES lists."
        raise origin.refusal(identifier, "a string as a name", fix=fix)
    name, in_quotes = origin.take(identifier, "this", "quoted")
    if in_quotes:
        return str(name)
    if str(name).startswith(PLACEHOLDER):
        raise Refused(Reason.SYNTAX, origin.span(identifier), why="a name cannot be a parameter")
    return str(name).removeprefix(FUNCTION)


def schema_of(
    database: exp.Expression | None, schema: exp.Expression | None, origin: Origin
) -> tuple[str, ...]:
    """Return the names before a table's: none, a schema, or a database and a schema."""
    written = [part for part in (database, schema) if part is not None]
    if "" in written:
        raise Refused(Reason.SYNTAX, origin.span(written[0]), why="no name stands between two dots")
    return tuple(name_of(part, origin) for part in written)


def placeholder_of(identifier: exp.Expression) -> int | None:
    """Return the number of the `?` that was renamed to this identifier; None for others."""
    if isinstance(identifier, exp.Identifier) and not identifier.quoted:
        name = str(identifier.this)
        if name.startswith(PLACEHOLDER):
            return int(name.removeprefix(PLACEHOLDER))
    return None


def values_of_row(node: exp.Expression, origin: Origin) -> list[exp.Expression] | None:
    """Return the values of `(a, b)` or ROW(a, b); None for anything else."""
    if isinstance(node, exp.Tuple):
        return list(origin.take(node, "expressions")[0])
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == FUNCTION + "row":
        return list(origin.take(node, "this", "expressions")[1] or ()) or None
    return None


def is_bare_values(node: exp.Expression) -> bool:
    """Test for the SELECT * that sqlglot puts around VALUES in place of a query."""
    source = node.args.get("from_") or node.args.get("from")
    values = None if source is None else source.this
    if not isinstance(node, exp.Select) or not isinstance(values, exp.Values):
        return False
    alias = values.args.get("alias")
    return alias is not None and "start" not in alias.this.meta
