"""JSON of values and rows, in the format of PostgreSQL's functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpsql.interfaces.pgwire.catalogue.translation import casts, oids, pg_terms
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused

TAKES_ROWS = frozenset({"row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg"})
"""Functions that accept a table's name as its row."""

_PLAIN = (*oids.NUMBERS, oids.BOOL, oids.JSON, oids.JSONB, oids.RECORD)
"""Types with a text that is valid JSON."""


def whole_row(columns: Sequence[pg_terms.Term]) -> pg_terms.Term:
    """Return a row as a JSON object of type RECORD."""
    pairs = " || ',' || ".join(f"{_label(c.name)} || ':' || {_json(c)}" for c in columns)
    return pg_terms.Term(f"('{{' || {pairs} || '}}')", oids.RECORD)


def _label(name: str) -> str:
    return f"CAST(to_json({pg_terms.unknown_literal(name).sql}) AS VARCHAR)"


def _json(value: pg_terms.Term) -> str:
    """Return the JSON of a value; null for NULL."""
    if value.oid in oids.ELEMENTS:
        inner = _json(pg_terms.Term("e", oids.ELEMENTS[value.oid]))
        listed = f"list_transform({value.sql}, lambda e: {inner})"
        text = f"'[' || array_to_string({listed}, ',') || ']'"
    elif value.oid in _PLAIN:
        text = f"CAST({value.sql} AS VARCHAR)"
    elif value.oid in oids.REGS:
        text = f"CAST(to_json(pg_reg_text({value.oid}, {value.sql})) AS VARCHAR)"
    else:
        text = f"CAST(to_json(CAST({value.sql} AS VARCHAR)) AS VARCHAR)"
    return f"coalesce({text}, 'null')"


def to_json(arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate TO_JSON, ARRAY_TO_JSON and ROW_TO_JSON of one value."""
    (argument,) = arguments if len(arguments) == 1 else pg_terms.refuse("JSON of several values")
    value = casts.typed(argument, oids.TEXT, scope)
    if value.oid == oids.RECORD:
        return pg_terms.Term(value.sql, oids.JSON)
    return pg_terms.Term(f"CASE WHEN {value.sql} IS NOT NULL THEN {_json(value)} END", oids.JSON)


def json_build_object(
    arguments: list[pg_terms.Term], scope: pg_terms.PgScope, colon: str = " : "
) -> pg_terms.Term:
    """Translate JSON_BUILD_OBJECT of pairs.

    JSONB has no blank before its colons, and sorts short labels first.
    """
    if not arguments or len(arguments) % 2:
        raise Refused(Reason.UNKNOWN_FUNCTION, name="json_build_object")
    items = [casts.typed(argument, oids.TEXT, scope) for argument in arguments]
    pairs = list(zip(items[::2], items[1::2], strict=True))
    if colon == ": ":
        if any(label.literal is None for label in arguments[::2]):
            pg_terms.refuse("JSONB with computed labels")
        labels = [len(str(a.literal).encode()) for a in arguments[::2]]
        texts = [str(argument.literal) for argument in arguments[::2]]
        last = dict(zip(zip(labels, texts, strict=True), pairs, strict=True))
        pairs = [pair for _, pair in sorted(last.items(), key=lambda entry: entry[0])]
    listed = " || ', ' || ".join(_pair(label, value, colon) for label, value in pairs)
    return pg_terms.Term(f"('{{' || {listed} || '}}')", oids.JSON, "json_build_object")


def _pair(label: pg_terms.Term, value: pg_terms.Term, colon: str) -> str:
    return f"CAST(to_json(CAST({label.sql} AS VARCHAR)) AS VARCHAR) || '{colon}' || {_json(value)}"


def as_jsonb(
    write: Callable[[list[pg_terms.Term], pg_terms.PgScope], pg_terms.Term], name: str
) -> Callable[[list[pg_terms.Term], pg_terms.PgScope], pg_terms.Term]:
    """Return a translator with JSONB as its result type."""
    return lambda arguments, scope: replace(write(arguments, scope), oid=oids.JSONB, name=name)


def json_build_array(arguments: list[pg_terms.Term], scope: pg_terms.PgScope) -> pg_terms.Term:
    """Translate JSON_BUILD_ARRAY, spaced as in PostgreSQL."""
    values = [_json(casts.typed(argument, oids.TEXT, scope)) for argument in arguments]
    listed = " || ', ' || ".join(values) or "''"
    return pg_terms.Term(f"('[' || {listed} || ']')", oids.JSON, "json_build_array")


def json_agg(value: pg_terms.Term, distinct: str, order: str) -> pg_terms.Term:
    """Translate JSON_AGG: rows on a line each, other values on one line."""
    if distinct:
        pg_terms.refuse("DISTINCT of JSON")
    between = ", \n " if value.oid == oids.RECORD else ", "
    listed = f"string_agg({_json(value)}, '{between}'{order})"
    return pg_terms.Term(f"('[' || {listed} || ']')", oids.JSON, "json_agg")


def json_object_agg(items: Sequence[pg_terms.Term], distinct: str, order: str) -> pg_terms.Term:
    """Translate JSON_OBJECT_AGG of labels and values."""
    label, value = _labelled(items, distinct)
    listed = f"string_agg({_pair(label, value, ' : ')}, ', '{order})"
    return pg_terms.Term(f"('{{ ' || {listed} || ' }}')", oids.JSON, "json_object_agg")


def jsonb_object_agg(items: Sequence[pg_terms.Term], distinct: str, order: str) -> pg_terms.Term:
    """Translate JSONB_OBJECT_AGG: short labels first, and the last value of each label."""
    label, value = _labelled(items, distinct)
    text = f"CAST({label.sql} AS VARCHAR)"
    pair = f"{{'n': strlen({text}), 'k': {text}, 'p': {_pair(label, value, ': ')}}}"
    later = "list_transform(l[i + 1:], lambda o: o.k)"
    last = f"list_filter(l, lambda e, i: NOT list_contains({later}, e.k))"
    pairs = f"list_transform([list({pair}{order})], lambda l: list_sort({last}))[1]"
    listed = f"array_to_string(list_transform({pairs}, lambda e: e.p), ', ')"
    return pg_terms.Term(f"('{{' || {listed} || '}}')", oids.JSONB, "jsonb_object_agg")


def _labelled(items: Sequence[pg_terms.Term], distinct: str) -> tuple[pg_terms.Term, pg_terms.Term]:
    if distinct or len(items) != len(("label", "value")):
        pg_terms.refuse("this object of JSON")
    return items[0], items[1]
