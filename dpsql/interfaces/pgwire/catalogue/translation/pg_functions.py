"""Calls: allowed functions, their types, and their translation to the shadow."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids, pg_json, pg_terms
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused

AGGREGATES = {
    "count": oids.INT8,
    "min": None,
    "max": None,
    "sum": oids.INT8,
    "array_agg": None,
    "string_agg": oids.TEXT,
    "bool_and": oids.BOOL,
    "bool_or": oids.BOOL,
    "every": oids.BOOL,
    "json_agg": oids.JSON,
    "jsonb_agg": oids.JSONB,
    "json_object_agg": oids.JSON,
    "jsonb_object_agg": oids.JSONB,
}
"""Type of each aggregate; None stands for the type of its argument."""

RANKS = ("row_number", "rank", "dense_rank")
_ANY_NUMBER = ("coalesce", "greatest", "least", "nullif")
_ROW = re.compile(r"(?m)^(\w[\w ]*)\(([^)]*)\) (\w+): (.*)$")


@dataclass(frozen=True, slots=True)
class PgFunction:
    """Result type (None: that of the first argument), argument types, and DuckDB text."""

    oid: int | None
    arguments: tuple[int, ...]
    sql: str


def _functions() -> dict[tuple[str, int], PgFunction]:
    text = (Path(__file__).parent / "functions.txt").read_text(encoding="utf-8")
    table = {}
    for names, arguments, result, sql in _ROW.findall(text):
        taken = tuple(_type(word) or 0 for word in re.findall(r"\w+", arguments))
        row = PgFunction(_type(result), taken, sql)
        table.update({(name, len(taken)): row for name in names.split()})
    return table


def _type(word: str) -> int | None:
    """Return the OID of a type word: `any` is 0, `same` is None, an underscore makes an array."""
    if word in ("any", "same"):
        return 0 if word == "any" else None
    oid = int(getattr(oids, word.removeprefix("_").upper()))
    return oids.ARRAYS[oid] if word.startswith("_") else oid


FUNCTIONS = _functions()
"""Functions by name and number of arguments. Others are refused."""


def applied(name: str, arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    """Return a scalar function of arguments. Raises `Refused`."""
    if name in SETS:
        return SETS[name](name, arguments, scope)
    if name in _WRITTEN:
        return _WRITTEN[name](arguments, scope)
    if name in _ANY_NUMBER:
        agreed, oid = casts.agreed(arguments, scope)
        return pg_terms.Term(f"{name}({', '.join(a.sql for a in agreed)})", oid, name)
    row = FUNCTIONS.get((name, len(arguments)))
    if row is None:
        raise Refused(Reason.UNKNOWN_FUNCTION, name=name)
    return _row(name, row, arguments, scope)


def _row(
    name: str, row: PgFunction, arguments: list[pg_terms.Term], scope: pg_terms.PgScope
) -> pg_terms.Term:
    """Return a function of the table over its arguments. Constants take the types of the row."""
    items = []
    for argument, oid in zip(arguments, row.arguments, strict=True):
        item = casts.typed(argument, oid or oids.TEXT, scope)
        if oid in oids.REGS and item.oid in oids.TEXTS:
            item = casts.cast(item, oid, scope)
        items.append(item)
    first = items[0] if items else pg_terms.unknown_literal("")
    oid = first.oid if row.oid is None else row.oid
    # Vectors begin at position 0, other arrays at 1.
    sql = row.sql.format(*(item.sql for item in items), base=0 if first.zero else 1)
    return pg_terms.Term(sql, oid, name)


def _format(arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate FORMAT of a constant with %s, %I and %L, which tools use."""
    template = arguments[0].literal if arguments else None
    if template is None:
        pg_terms.refuse("format without a constant")
    pieces = re.split("%([sIL])", template)
    if "%" in "".join(pieces[::2]) or len(pieces) // 2 != len(arguments) - 1:
        pg_terms.refuse("this format")
    values = [casts.cast(v, oids.TEXT, scope).sql for v in arguments[1:]]
    filled = [_FORMATS[kind].format(v) for kind, v in zip(pieces[1::2], values, strict=True)]
    plain = [pg_terms.unknown_literal(text).sql for text in pieces[::2]]
    parts = [part for pair in zip_longest(plain, filled) for part in pair if part is not None]
    return pg_terms.Term("(" + " || ".join(parts) + ")", oids.TEXT, "format")


_FORMATS = {
    "s": "coalesce({}, '')",
    "I": "pg_quote_ident({})",
    "L": FUNCTIONS["quote_nullable", 1].sql.replace("{0}", "{}"),
}
"""Translations of FORMAT's %s (text), %I (quoted name) and %L (quoted text)."""


def _as_json(name: str) -> Callable[[list[pg_terms.Term], pg_terms.PgScope], pg_terms.Term]:
    return lambda arguments, scope: pg_json.to_json(arguments, scope).named(name)


def _typeof(arguments: list[pg_terms.Term], _scope: pg_terms.PgScope) -> pg_terms.Term:
    (value,) = arguments if len(arguments) == 1 else pg_terms.refuse("pg_typeof of several values")
    return pg_terms.Term(f"CAST({value.oid} AS BIGINT)", oids.REGTYPE, "pg_typeof")


def _concat_ws(arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    texts = [casts.cast(argument, oids.TEXT, scope).sql for argument in arguments]
    return pg_terms.Term(f"concat_ws({', '.join(texts)})", oids.TEXT, "concat_ws")


_WRITTEN = {
    "format": _format,
    "concat_ws": _concat_ws,
    "pg_typeof": _typeof,
    "json_build_object": pg_json.json_build_object,
    "json_build_array": pg_json.json_build_array,
    "jsonb_build_object": pg_json.as_jsonb(
        partial(pg_json.json_build_object, colon=": "), "jsonb_build_object"
    ),
    "jsonb_build_array": pg_json.as_jsonb(pg_json.json_build_array, "jsonb_build_array"),
    "to_jsonb": pg_json.as_jsonb(pg_json.to_json, "to_jsonb"),
    **{name: _as_json(name) for name in ("row_to_json", "to_json", "array_to_json")},
}
"""Functions with any number of arguments."""


def _unnest(name: str, arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    (array,) = arguments if len(arguments) == 1 else pg_terms.refuse("unnest of several arrays")
    array = casts.typed(array, oids.ARRAYS[oids.TEXT], scope)
    if array.oid not in oids.ELEMENTS:
        pg_terms.refuse("unnest of this")
    return pg_terms.Term(f"unnest({array.sql})", oids.ELEMENTS[array.oid], name)


def _series(name: str, arguments: list[pg_terms.Term], _scope: pg_terms.PgScope) -> pg_terms.Term:
    if not 1 < len(arguments) < 4:  # noqa: PLR2004 - first, last and maybe a step
        pg_terms.refuse(f"{name} of {len(arguments)} arguments")
    inner = ", ".join(a.sql for a in arguments)
    oid = oids.common(*(a.oid for a in arguments))
    kind = oids.shadow_type(oid) if oid in oids.INTEGERS else pg_terms.refuse(f"this {name}")
    return pg_terms.Term(f"unnest(pg_series({inner})::{kind}[])", oid, name)


def _subscripts(
    name: str, arguments: list[pg_terms.Term], _scope: pg_terms.PgScope
) -> pg_terms.Term:
    array = arguments[0]
    first = 0 if array.zero else 1
    last = f"len({array.sql}) - {1 - first}"
    return pg_terms.Term(f"unnest(generate_series({first}, {last})::INTEGER[])", oids.INT4, name)


def _exploded(name: str, arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    """Return the grants of an array of ACL items, one for each holder and privilege."""
    (items,) = arguments if len(arguments) == 1 else pg_terms.refuse("aclexplode of several values")
    array = casts.typed(items, oids.ARRAYS[oids.ACLITEM], scope)
    return pg_terms.Term(f"unnest(pg_grants({array.sql}))", oids.RECORD, name)


def _itself(name: str, arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    relation = casts.typed(arguments[0], oids.REGCLASS, scope)
    return pg_terms.Term(f"unnest([{relation.sql}])", oids.REGCLASS, name)


SETS: dict[str, Callable[[str, list[pg_terms.Term], pg_terms.PgScope], pg_terms.Term]] = {
    "unnest": _unnest,
    "generate_series": _series,
    "generate_subscripts": _subscripts,
    "_pg_expandarray": lambda name, arguments, _scope: pg_terms.Term(
        f"unnest(pg_pairs({arguments[0].sql}))", oids.RECORD, name
    ),
    "aclexplode": _exploded,
    "pg_partition_ancestors": _itself,
}
"""Functions that return rows: in a SELECT list, or as a table of one column."""

RECORDS = {
    "_pg_expandarray": (pg_terms.PgColumn("x", oids.INT2), pg_terms.PgColumn("n", oids.INT4)),
    "aclexplode": (
        pg_terms.PgColumn("grantor", oids.OID),
        pg_terms.PgColumn("grantee", oids.OID),
        pg_terms.PgColumn("privilege_type", oids.TEXT),
        pg_terms.PgColumn("is_grantable", oids.BOOL),
    ),
}
"""Columns of the functions that return rows of several."""

TIMES = frozenset("now transaction_timestamp statement_timestamp clock_timestamp".split())
"""Time functions, which do not make a query one of the catalogue."""

_OTHERS = ("all", *_ANY_NUMBER, *_WRITTEN, *AGGREGATES, *SETS)


def is_known(name: str) -> bool:
    """Test whether a function is supported with any number of arguments."""
    return name in _OTHERS or any(name == function for function, _ in FUNCTIONS)


def aggregate(name: str, items: list[pg_terms.Term], distinct: str, order: str) -> pg_terms.Term:
    """Return an aggregate over terms. Raises `Refused`."""
    if name in ("json_agg", "jsonb_agg"):
        written = pg_json.json_agg(items[0], distinct, order)
        return written if name == "json_agg" else replace(written, oid=oids.JSONB, name=name)
    if name == "json_object_agg":
        return pg_json.json_object_agg(items, distinct, order)
    if name == "jsonb_object_agg":
        return pg_json.jsonb_object_agg(items, distinct, order)
    oid = AGGREGATES[name]
    if name == "array_agg":
        oid = oids.ARRAYS.get(items[0].oid) or pg_terms.refuse("an array of this type")
    shadow = {"array_agg": "list", "every": "bool_and"}.get(name, name)
    sql = f"{shadow}({distinct}{', '.join(t.sql for t in items)}{order})"
    if name == "sum" and items[0].oid in (oids.INT8, oids.NUMERIC):
        oid = oids.NUMERIC
    return pg_terms.Term(sql, items[0].oid if oid is None else oid, name)
