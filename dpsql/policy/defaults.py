"""[defaults]: settings of all tables, columns and links that do not set them.

They are filled in before anything is read. A policy with defaults equals the policy with each of
them written out.
"""

from __future__ import annotations

from typing import Any

from dpsql.policy.limit_values import OF_ONE_UNIT
from dpsql.policy.policy_keys import read_values
from dpsql.policy.value_reader import Reader


def with_defaults(reader: Reader) -> Reader:
    """Return the policy with its defaults written out. Raises `PolicyError` if one makes no
    sense.

    Defaults for limits of one unit apply to private tables with one link. `other_people` applies
    to the links after the first.
    """
    defaults = reader.table("defaults")
    read_values(defaults, "defaults")  # public access is declared for each table
    if not defaults.values:
        return reader
    tables = {
        name: _table(table.values, defaults.values)
        for name, table in reader.table("tables").tables()
    }
    values = {**reader.values, "tables": tables}
    del values["defaults"]
    return Reader(reader.file, reader.lines, values, reader.path)


def _table(table: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    """Return a table with the defaults for missing settings."""
    whole = _with(table, defaults, "access")
    if whole.get("access") == "private" and "link" in whole:
        whole = _with(whole, defaults, *OF_ONE_UNIT)
    if whole.get("access") == "private":
        whole = _with(whole, defaults, "times")
    if isinstance(links := whole.get("links"), list):
        further = [_inline(link, defaults, "other_people") for link in links[1:]]
        whole = {**whole, "links": [*links[:1], *further]}
    if isinstance(columns := whole.get("columns"), dict):
        listed = {name: _inline(c, defaults, "nullable") for name, c in columns.items()}
        whole = {**whole, "columns": listed}
    return whole


def _inline(value: Any, defaults: dict[str, Any], key: str) -> Any:
    """Return a column or a link with defaults; other values stay, and are refused when read."""
    return _with(value, defaults, key) if isinstance(value, dict) else value


def _with(table: dict[str, Any], defaults: dict[str, Any], *keys: str) -> dict[str, Any]:
    absent = {key: defaults[key] for key in keys if key in defaults and key not in table}
    return {**table, **absent}
