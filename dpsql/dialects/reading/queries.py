"""sqlglot queries → our queries: SELECT with its stars and groupings, set operations and WITH."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from sqlglot import exp

from dpsql.dialects.reading import sources
from dpsql.dialects.reading.array_tokens import LIST
from dpsql.dialects.reading.arrays import is_list, members
from dpsql.dialects.reading.calls import list_value
from dpsql.dialects.reading.choosing import DP_CHOOSE, choice_among, chosen
from dpsql.dialects.reading.expressions import expression
from dpsql.dialects.reading.function_names import WITHIN_RANGES
from dpsql.dialects.reading.group_keys import groups
from dpsql.dialects.reading.nodes import Origin, name_of, placeholder_of, schema_of
from dpsql.dialects.reading.other_meanings import assigned_name
from dpsql.dialects.reading.pivots import pivoted
from dpsql.dialects.reading.postgres_names import figure_name
from dpsql.dialects.reading.range_lists import is_ranges, ranges
from dpsql.dialects.reading.window_frames import definitions, sort_keys, with_windows
from dpsql.dialects.reading.written_names import describe_column
from dpsql.model import tree
from dpsql.model.bound_parameters import bound
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import DEFAULT_SPELLING

_SELECT = (
    "expressions",
    "from_",
    "from",
    "joins",
    "where",
    "group",
    "having",
    "qualify",
    "distinct",
    "order",
    "limit",
    "offset",
    "with_",
    "with",
    "windows",
)
_SET = (
    "this",
    "expression",
    "distinct",
    "order",
    "limit",
    "offset",
    "with_",
    "with",
    "by_name",
)
"""Arguments of exp.Select and exp.SetOperation; `from` and `with` became `from_` and `with_`."""

_MOST_ROWS = 2**63
"""Limit on counts of rows: engines count in 64 bits, and would fail beyond after the charge."""


def query(node: exp.Expression, origin: Origin) -> tree.Query:
    """Return the query of `node`; raises `Refused` for syntax that the tree cannot express."""
    match node:
        case exp.Select():
            return _select(node, origin)
        case exp.Union() | exp.Intersect() | exp.Except():
            return _set_operation(node, origin)
        case exp.Subquery():
            (inner,) = origin.take(node, "this")
            return query(inner, origin)
        case exp.Values():
            return tree.Select(
                (tree.SelectItem(tree.Star(None)),), sources.relation(node, origin, query)
            )
        case exp.Pivot():
            return pivoted(node, sources.relation(node.this, origin, query), origin)
        case _:
            is_statement = isinstance(node, exp.Command | exp.DDL | exp.DML)
            raise origin.refusal(node, "a statement in a query" if is_statement else None)


def _select(node: exp.Select, origin: Origin) -> tree.Select:
    taken = dict(zip(_SELECT, origin.take(node, *_SELECT), strict=True))
    if not taken["expressions"]:
        raise Refused(Reason.SYNTAX, origin.span(node), why="nothing is selected")
    keys = _distinct_on(taken["distinct"], origin)
    rows = sources.source(taken["from_"] or taken["from"], taken["joins"] or [], origin, query)
    rows = rows or _series_among(node, origin)
    group_by, sets = groups(taken["group"], origin, expression)
    listed, expands = taken["expressions"], WITHIN_RANGES in origin.calls
    items = (
        ranges(each, origin) if expands and is_ranges(each, origin) else (_item(each, origin),)
        for each in listed
    )
    choice = choice_among(listed, origin) if DP_CHOOSE in origin.calls else None
    select = tree.Select(
        items=() if choice else tuple(chain.from_iterable(items)),
        source=rows,
        where=_clause(taken["where"], origin),
        group_by=group_by,
        having=_clause(taken["having"], origin),
        qualify=_clause(taken["qualify"], origin),
        distinct=taken["distinct"] is not None and not keys,
        order_by=() if taken["order"] is None else sort_keys(taken["order"], origin, expression),
        limit=_count(taken["limit"], origin),
        offset=_count(taken["offset"], origin) or 0,
        ctes=_common_tables(taken["with_"] or taken["with"], origin),
        span=origin.span(node),
        distinct_on=keys,
        grouping_sets=sets,
    )
    select = select if choice is None else chosen(select, choice, origin)
    windows = taken["windows"] or []
    if not (windows or node.find(exp.Window)):
        return select
    return with_windows(select, definitions(windows, origin, expression))


def _series_among(select: exp.Select, origin: Origin) -> tree.ValuesList | None:
    """Return the series in the list of a SELECT without FROM: a row per value, as in PostgreSQL."""
    calls = [call for item in select.expressions for call in item.find_all(exp.Anonymous)]
    series = [
        call
        for call in calls
        if sources.is_series(call, origin)
        and not sources.is_series(call.parent, origin)
        and call.parent_select is select
    ]
    if len(series) != 1:
        return None
    rows = sources.rows_of(series[0], origin)
    origin.rows[id(series[0])] = rows.names[0]
    return rows


def _item(node: exp.Expression, origin: Origin) -> tree.SelectItem:
    if isinstance(node, exp.Alias):
        this, alias = origin.take(node, "this", "alias")
        return tree.SelectItem(_value(this, origin), name_of(alias, origin))
    assigned = assigned_name(node, origin) if origin.dialect == "tsql" else None
    if assigned is not None:
        return tree.SelectItem(_value(assigned[0], origin), name_of(assigned[1], origin))
    star = star_of(node, origin, expression)
    if star is not None:
        return tree.SelectItem(star)
    value = _value(node, origin)
    if origin.dialect == DEFAULT_SPELLING and isinstance(value, tree.Name):
        return tree.SelectItem(value)  # DuckDB calls it as the table does, in upper or lower case
    label = figure_name(node) if origin.dialect == "postgres" else describe_column(node)
    return tree.SelectItem(value, label=label)


def _value(node: exp.Expression, origin: Origin) -> tree.Expression:
    """Return an expression, or a list of expressions as one output."""
    if LIST not in origin.calls or not is_list(node):
        return expression(node, origin)
    listed = members(node, origin, expression)
    return list_value(listed or (), origin, origin.span(node))


def _clause(node: exp.Expression | None, origin: Origin) -> tree.Expression | None:
    """Return the condition in WHERE, HAVING or QUALIFY."""
    if node is None:
        return None
    (condition,) = origin.take(node, "this")
    return expression(condition, origin)


def _distinct_on(node: exp.Expression | None, origin: Origin) -> tuple[tree.Expression, ...]:
    """Return the keys of DISTINCT ON; () for a plain DISTINCT."""
    if node is None:
        return ()
    (keys,) = origin.take(node, "on")
    if keys is None:
        return ()
    listed = origin.take(keys, "expressions")[0] if isinstance(keys, exp.Tuple) else [keys]
    return tuple(expression(key, origin) for key in listed)


def _count(node: exp.Expression | None, origin: Origin) -> int | None:
    """Return LIMIT or OFFSET: an integer, written or bound; None for no limit, ALL and NULL."""
    if node is None:
        return None
    if isinstance(node, exp.Fetch):  # FETCH {FIRST | NEXT} n ROWS ONLY is LIMIT n
        value, _direction, options = origin.take(node, "count", "direction", "limit_options")
        value = value or exp.Literal.number(1)  # FETCH FIRST ROW ONLY
    else:
        value, options = origin.take(node, "expression", "limit_options")
    _check_options(options, node, origin)
    if isinstance(node, exp.Limit) and isinstance(value, exp.Var) and value.name.upper() == "ALL":
        return None
    count = _constant(value, origin)
    if isinstance(count, tree.Literal) and count.value is None:
        return None
    if not (isinstance(count, tree.Literal) and type(count.value) is int and count.value >= 0):
        fix = "Write a whole number, or bind one."
        raise origin.refusal(node, "LIMIT or OFFSET by an expression", fix=fix)
    if count.value >= _MOST_ROWS:
        raise origin.refusal(node, "LIMIT or OFFSET of so many rows")
    return count.value


def _constant(node: exp.Expression, origin: Origin) -> tree.Expression | None:
    """Return a constant or a bound parameter, which is a bare name after FETCH FIRST; else None."""
    number = placeholder_of(node)
    if number is not None:
        return bound(origin.parameters[number], origin.span(node))
    plain = isinstance(node, exp.Literal | exp.Column | exp.Null)
    return expression(node, origin) if plain else None


def _check_options(options: exp.Expression | None, node: exp.Expression, origin: Origin) -> None:
    if options is None:
        return
    _rows, percent, ties = origin.take(options, "rows", "percent", "with_ties")
    if percent or ties:
        construct = "LIMIT by percentage" if percent else "FETCH … WITH TIES"
        raise origin.refusal(node, construct)


def _set_operation(node: exp.Expression, origin: Origin) -> tree.SetOperation:
    taken = dict(zip(_SET, origin.take(node, *_SET), strict=True))
    for side in (taken["this"], taken["expression"]):
        if isinstance(node, exp.Intersect) and isinstance(side, exp.Union | exp.Except):
            # INTERSECT binds closer than UNION; some parsers read from left to right.
            raise origin.refusal(node, "INTERSECT beside UNION or EXCEPT without parentheses")
    left = _balanced(taken["this"], origin) if is_union_all(node) else query(taken["this"], origin)
    return tree.SetOperation(
        kind=type(node).__name__.upper(),
        all=taken["distinct"] is False,
        left=left,
        right=query(taken["expression"], origin),
        order_by=() if taken["order"] is None else sort_keys(taken["order"], origin, expression),
        limit=_count(taken["limit"], origin),
        offset=_count(taken["offset"], origin) or 0,
        ctes=_common_tables(taken["with_"] or taken["with"], origin),
        span=origin.span(node),
        by_name=bool(taken["by_name"]),
    )


def is_union_all(node: exp.Expression) -> bool:
    """Test whether a node is UNION ALL of two sides and nothing else, which is associative."""
    said = {name for name, value in node.args.items() if value}
    return isinstance(node, exp.Union) and node.args.get("distinct") is False and said <= _BARE


_BARE = frozenset(("this", "expression"))
_LONG, _MOST_SIDES = 16, 128
"""Sides of a chain of UNION ALL that become a tree of few levels, and the most that it may have."""


def _balanced(node: exp.Expression, origin: Origin) -> tree.Query:
    """Return a chain of UNION ALL as a tree of few levels, and anything else as it is."""
    sides, inner = list[exp.Expression](), node
    while is_union_all(inner):
        sides.append(inner.expression)
        inner = inner.this
    sides.append(inner)
    if len(sides) < _LONG:
        return query(node, origin)
    if len(sides) >= _MOST_SIDES:
        raise Refused(Reason.TOO_LARGE, origin.span(node), what="parts of UNION ALL")
    while is_union_all(node):
        node, *_ = origin.take(node, "this", "expression", "distinct")
    queries = [query(side, origin) for side in reversed(sides)]
    while len(queries) > 1:
        pairs = zip(queries[::2], queries[1::2], strict=False)
        joined: list[tree.Query] = [tree.SetOperation("UNION", True, a, b) for a, b in pairs]
        queries = joined + queries[len(queries) // 2 * 2 :]
    return queries[0]


def _common_tables(node: exp.Expression | None, origin: Origin) -> tuple[tree.CommonTable, ...]:
    if node is None:
        return ()
    tables, recursive = origin.take(node, "expressions", "recursive")
    return tuple(_common_table(table, origin, recursive=bool(recursive)) for table in tables)


def _common_table(node: exp.Expression, origin: Origin, *, recursive: bool) -> tree.CommonTable:
    if not isinstance(node, exp.CTE):
        raise origin.refusal(node)
    # MATERIALIZED is a hint about speed.
    this, alias, _materialized = origin.take(node, "this", "alias", "materialized")
    name, columns = sources.alias_of(alias, origin)
    if name is None:
        raise origin.refusal(node, "WITH without a name")
    return tree.CommonTable(name, query(this, origin), columns, recursive)


def star_of(
    node: exp.Expression,
    origin: Origin,
    read: Callable[[exp.Expression, Origin], tree.Expression],
) -> tree.Star | None:
    """Return `*` or `t.*` with EXCLUDE (EXCEPT), REPLACE and RENAME; None for anything else."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        star, table, schema, catalog = origin.take(node, "this", "table", "db", "catalog")
        qualifier, where = name_of(table, origin), schema_of(catalog, schema, origin)
    elif isinstance(node, exp.Star):
        star, qualifier, where = node, None, ()
    else:
        return None
    names = "except_", "except", "replace", "rename"
    left_out, excluded, replaced, renamed = origin.take(star, *names)
    return tree.Star(
        qualifier,
        origin.span(node),
        tuple(_column(e, origin, read) for e in left_out or excluded or ()),
        tuple(_replaced(e, origin, read) for e in replaced or ()),
        tuple(_renamed(e, origin, read) for e in renamed or ()),
        schema=where,
    )


def _column(
    node: exp.Expression, origin: Origin, read: Callable[[exp.Expression, Origin], tree.Expression]
) -> str:
    column = read(node, origin)
    if not isinstance(column, tree.Name) or column.table is not None:
        raise origin.refusal(node, "this column of a * list")
    return column.name


def _replaced(
    node: exp.Expression, origin: Origin, read: Callable[[exp.Expression, Origin], tree.Expression]
) -> tuple[str, tree.Expression]:
    value, column = _aliased(node, origin)
    return name_of(column, origin), read(value, origin)


def _renamed(
    node: exp.Expression, origin: Origin, read: Callable[[exp.Expression, Origin], tree.Expression]
) -> tuple[str, str]:
    old, new = _aliased(node, origin)
    return _column(old, origin, read), name_of(new, origin)


def _aliased(node: exp.Expression, origin: Origin) -> tuple[exp.Expression, exp.Expression]:
    if not isinstance(node, exp.Alias):
        raise origin.refusal(node, "this item of a * list")
    this, alias = origin.take(node, "this", "alias")
    return this, alias
