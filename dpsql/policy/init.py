"""init: draft a policy from a schema, never from data; every open decision says DECIDE."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dpsql.model.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.model.tree import Kind, identifier
from dpsql.policy.bind import Check, checks
from dpsql.policy.edit import toml_key
from dpsql.policy.value_reader import UNDECIDED

_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_FRACTIONS = (Kind.DECIMAL, Kind.DOUBLE)
"""What is summed more often than it names something."""


def draft(schema: Schema, engine: str, database: str) -> str:
    """The TOML text of a policy over these tables, with a comment on every decision to make."""
    lines = [
        "# Drafted from the schema, never from data. Replace every DECIDE; then: dpsql check",
        "[database]",
        f"engine = {_text(engine)}",
        f"path = {_text(database)}",
        "",
        "# Whose privacy is protected: one key of one table. Tables that many others reference are",
        f"# likely: {_comment(_suggested(schema))}.",
        "[privacy_unit]",
        f'table = "{UNDECIDED}"',
        f'key = "{UNDECIDED}"',
        'neighbours = "add_remove"',
    ]
    for table in schema.tables:
        lines += ["", *_table(table)]
    return "".join(f"{line}\n" for line in [*lines, *BUDGETS])


BUDGETS = f"""
# How much may be spent in total, and by one query. ε = 1 to 3 with δ below 1 / number of units is
# usual; all analysts who name a budget share it.
[budgets.default]
epsilon = "{UNDECIDED}"
delta = "{UNDECIDED}"
accountant = "zcdp"
query_epsilon = 0.1
max_query_epsilon = 1.0
query_delta = 1e-9

[analysts.analyst]
budget = "default"

[ledger]
path = "dpsql.ledger"
""".splitlines()


def _suggested(schema: Schema) -> str:
    times: dict[str, int] = {}
    for table in schema.tables:
        for key in table.foreign_keys:
            times[key.table] = times.get(key.table, 0) + 1
    ranked = sorted(times, key=lambda name: (-times[name], name))
    return ", ".join(ranked[:3]) or "none is referenced here"


def _table(table: SchemaTable) -> Iterator[str]:
    yield f"[tables.{toml_key(table.name)}]"
    yield "# private: rows are about people. public: anybody may see every row."
    yield f'access = "{UNDECIDED}"'
    if table.primary_key:
        keys = [_text(name) for name in table.primary_key]
        yield f"key = {keys[0] if len(keys) == 1 else '[' + ', '.join(keys) + ']'}"
    yield from _links(list(map(_link, table.foreign_keys)))
    if table.foreign_keys:
        yield "# How much one unit adds is found for each question, privately. Or, if you know: how"
        yield "# many groups and rows of one unit count at most; more is clipped."
        yield 'max_groups_per_unit = "private"'
        yield 'max_rows_per_group = "private"'
        yield from _hints(table)
    yield "# expected_rows = 1000: about how many there are, if anybody may know, for dpsql serve."
    yield f"[tables.{toml_key(table.name)}.columns]"
    yield "# Remove columns nobody should use. bounds let a column be summed, values let it be a"
    yield "# key without a threshold; both are public knowledge, never looked up in the data."
    constraints = checks(table)
    for column in table.columns:
        if column.reading is not None and (column.reading.json or 0 in column.reading.path):
            yield _part(column)
        elif column.type is None:
            kind = _comment(column.type_name)
            yield f"# {_comment(column.name)}: {kind} is {_remark(column, table)}"
        else:
            check = constraints.get(column.name.lower())
            yield _column(column, [] if check is None else _declared(check))


def _hints(table: SchemaTable) -> Iterator[str]:
    """Limits that an owner may know, as comments: of a period, and of what numbers add up to."""
    typed = [(column.name, column.type.kind) for column in table.columns if column.type is not None]
    day = next((name for name, kind in typed if kind in _TIMES), None)
    if day is not None:
        name = day if toml_key(day) == day else identifier(day)
        by = _comment(_text(f"date_trunc('month', {name})"))
        yield f"# Or by a grouping, if you know: max_rows_per_group = {{ {by} = 50 }}"
    if any(kind in _FRACTIONS for _, kind in typed):
        yield "# max_per_unit of a column below: the most that one unit's values of it add up to."


def _link(key: ForeignKey) -> str:
    columns = ", ".join(map(_text, key.columns))
    if len(key.columns) == 1:
        return f"column = {columns}, references = {_text(f'{key.table}.{key.referenced[0]}')}"
    target = f"{key.table}.({', '.join(key.referenced)})"
    return f"column = [{columns}], references = {_text(target)}"


def _links(links: list[str]) -> Iterator[str]:
    """The way to the unit; each further foreign key may name another person, and is a decision."""
    if links:
        yield "# The way to the privacy unit; remove it if the table is public or the unit's."
    if len(links) == 1:
        yield f"link = {{ {links[0]} }}"
    elif links:
        yield "# Remove those that lead to public tables. Rows that name several people belong to"
        yield '# each whom a link "protected" names, and need max_rows_per_unit over all links, and'
        yield '# no other limit. Those whom a link "unprotected" names have no protection here.'
        yield "links = ["
        for n, link in enumerate(links):
            decision = f', other_people = "{UNDECIDED}"' if n else ""
            yield f"  {{ {link}{decision} }},"
        yield "]"


def _column(column: SchemaColumn, declared: list[str]) -> str:
    parts = list(declared)
    if column.enum_values and not parts:
        parts.append(f"values = {json.dumps(list(column.enum_values), ensure_ascii=False)}")
    if not column.not_null:
        parts.append("nullable = true")
    inner = f"{{ {', '.join(parts)} }}" if parts else "{}"
    return f"{toml_key(column.name)} = {inner}  # {_comment(column.type_name)}"


def _remark(column: SchemaColumn, table: SchemaTable) -> str:
    """What an owner may do with a column of no type of ours."""
    parts = (c.reading.column for c in table.columns if c.reading is not None and c.reading.path)
    return "read by its parts" if column.name in parts else "not supported"


def _part(column: SchemaColumn) -> str:
    """How a part of JSON, or at one place of a list, is declared: as a comment."""
    assert column.reading is not None
    name, type_of = column.name.replace("[]", "[1]"), ""
    if column.reading.json:
        name, type_of = f"{name}.key", 'type = "VARCHAR", '
    declared = f"{_text(name)} = {{ {type_of}nullable = true }}  # a part of {column.type_name}"
    return f"# {_comment(declared)}"


def _declared(check: Check) -> list[str]:
    """A CHECK constraint as the policy declares it."""
    if check.bounds is not None:
        return [f"bounds = [{', '.join(check.bounds)}]"]
    if check.length is not None:
        return [f"max_length = {check.length}"]
    return [f"values = {json.dumps(list(check.values), ensure_ascii=False)}"]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    """Text of the schema on the one line of a comment: a name may hold a line break."""
    return "".join(c if c.isprintable() else " " for c in text)
