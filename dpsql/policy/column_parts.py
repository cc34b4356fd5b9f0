"""Parts of columns as a policy names them: `payload.address.city`, `tags[1]`.

Each is declared as a column of its own; undeclared parts do not exist.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dpsql.model import tree
from dpsql.model.schema import SchemaColumn, SchemaTable

PLACE = re.compile(r"\[([1-9]\d{0,8})\]")
STEP = re.compile(r"\.([^.\"'\[\]]+)|" + PLACE.pattern)
_OF_JSON = {
    "VARCHAR": tree.VARCHAR,
    "BOOLEAN": tree.BOOLEAN,
    "DATE": tree.DATE,
    "DOUBLE": tree.DOUBLE,
    "TIME": tree.TIME,
    "TIMESTAMP": tree.TIMESTAMP,
    "UUID": tree.UUID,
    **dict.fromkeys(("INTEGER", "BIGINT"), tree.INTEGER),
}
"""Types that a JSON text may be read as."""


def column_or_part(
    name: str, table: SchemaTable, declared: str | None = None
) -> SchemaColumn | None:
    """Return the column or part with this name, or None; `declared` is the type of a JSON value."""
    columns = {c.name.lower(): c for c in table.columns}
    template = columns.get(PLACE.sub("[]", name).lower())
    if template is not None:
        return _placed(name, template)
    if name.lower() in columns:
        return columns[name.lower()]
    for column in table.columns:
        rest = name[len(column.name) :]
        of_json = column.reading is not None and column.reading.json
        if of_json and name.lower().startswith(column.name.lower()) and _steps(rest):
            kind = declared or "VARCHAR"
            reading = tree.StoredAs(column.name, _steps(rest), json=True)
            return SchemaColumn(name, _type(kind), kind, reading=reading, computed=column.computed)
    return None


def step(to: str | int) -> str:
    """Return a step of a path as it is written; place 0 of a list stands for any.

    >>> step("city"), step(0)
    ('.city', '[1]')
    """
    return f"[{to or 1}]" if isinstance(to, int) else f".{to}"


def _placed(name: str, template: SchemaColumn) -> SchemaColumn | None:
    """Return a part at the places of lists that its name gives."""
    reading, places = template.reading, PLACE.findall(name)
    if reading is None or 0 not in reading.path:
        return template
    if not places:
        return None
    left = iter(map(int, places))
    path = tuple(next(left) if step == 0 else step for step in reading.path)
    return replace(template, name=name, reading=replace(reading, path=path))


def _steps(rest: str) -> tuple[str | int, ...]:
    """Return the steps of `.a.b[1]`; () for anything else."""
    steps = list(STEP.finditer(rest))
    if "".join(step[0] for step in steps) != rest:
        return ()
    return tuple(step[1] or int(step[2]) for step in steps)


def _type(declared: str) -> tree.SqlType | None:
    if match := re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", declared.upper()):
        return tree.decimal(int(match[1]), int(match[2]))
    return _OF_JSON.get(declared.upper())
