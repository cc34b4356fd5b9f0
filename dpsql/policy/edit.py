"""Writing a limit into a policy file: one line changes, all others and all comments stay.

The new text is read back: it must be the same policy with one value more, or nothing is written.
"""

from __future__ import annotations

import copy
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path as File
from typing import Any, NoReturn

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import PolicyError
from dpsql.policy.limit_values import ALL_OTHERS, PRIVATE
from dpsql.policy.load import load
from dpsql.policy.value_reader import STRING, Lines, Path

BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class LimitValue:
    """A limit of a table: for groupings by each of `by` (None: for all), or of a column's total."""

    table: str
    name: str
    most: Decimal
    by: str | None = None
    column: str | None = None

    @property
    def path(self) -> Path:
        """Path of the limit in the file."""
        if self.column is not None:
            return ("tables", self.table, "columns", self.column, self.name)
        return ("tables", self.table, self.name)

    @property
    def text(self) -> str:
        r"""Line that declares the limit if nothing else does.

        >>> LimitValue("t", "max_rows_per_group", Decimal(5), by="date_trunc('week', day)").text
        'max_rows_per_group = { "date_trunc(\'week\', day)" = 5 }'
        """
        if self.column is not None:
            return f"{toml_key(self.column)} = {{ {self.name} = {written(_with(None, self))} }}"
        return f"{self.name} = {written(_with(None, self))}"


def with_limits(path: str, limits: Sequence[LimitValue]) -> None:
    """Write limits into a policy file, all of them or none, atomically.

    Raises `PolicyError` if a value has several lines, or the file would not be a policy.
    """
    text = File(path).read_text(encoding="utf-8")
    for limit in limits:
        text = _edited(path, text, limit)
    replace_policy(path, text)


def replace_policy(path: str, text: str) -> None:
    """Replace a policy file by a text, atomically.

    Raises `PolicyError` if the text is not a policy.
    """
    file = File(path)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as new:
            new.write(text)
            new.flush()
            os.fsync(new.fileno())
        load(name)
        File(name).chmod(file.stat().st_mode & 0o7777)
        File(name).replace(file)
    finally:
        File(name).unlink(missing_ok=True)


def _edited(path: str, text: str, limit: LimitValue) -> str:
    values = tomllib.loads(text, parse_float=Decimal)
    expected = copy.deepcopy(values)
    *tables, name = limit.path
    table = expected
    for part in tables:
        table = table.setdefault(part, {})
    if table.get(name) == (new := _with(table.get(name), limit)):
        return text
    table[name] = new
    edited = _with_line(text, limit, values, new)
    try:
        same = tomllib.loads(edited, parse_float=Decimal) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        _fail(path, text, limit)
    return edited


def _fail(path: str, text: str, limit: LimitValue) -> NoReturn:
    line = Lines(text).of(limit.path)
    why = (
        f"{limit.name} cannot be written here: its value has several lines, or a table of its own."
    )
    raise PolicyError(path, line, why, f"Write {limit.text} yourself.")


def _with(value: Any, limit: LimitValue) -> Any:
    """Return the value of the key with the limit in it."""
    most = int(limit.most) if limit.most == limit.most.to_integral() else limit.most
    if limit.by is None:
        return {**value, ALL_OTHERS: most} if isinstance(value, dict) else most
    if isinstance(value, dict):
        return {**value, limit.by: most}
    others = {} if value is None or value == PRIVATE else {ALL_OTHERS: value}
    return {limit.by: most, **others}


def _with_line(text: str, limit: LimitValue, values: Any, new: Any) -> str:
    lines, places = text.split("\n"), Lines(text)
    table = ("tables", limit.table)
    if limit.column is not None:
        inline = values["tables"][limit.table]["columns"].get(limit.column, {})
        column = (*table, "columns", limit.column)
        header = lines[places.of(column) - 1].lstrip().startswith("[")
        if not header:
            return _changed(lines, places.of(column), written({**inline, limit.name: new}))
        if limit.name not in inline:
            lines.insert(places.of(column), f"{limit.name} = {written(new)}")
            return "\n".join(lines)
        return _changed(lines, places.of((*column, limit.name)), written(new))
    if limit.name in values["tables"][limit.table]:
        return _changed(lines, places.of((*table, limit.name)), written(new))
    lines.insert(_end_of_table(lines, places.of(table)), f"{limit.name} = {written(new)}")
    return "\n".join(lines)


def _end_of_table(lines: Sequence[str], header: int) -> int:
    """Return the line after the last key of a table that begins at line `header`."""
    end = next(
        (n for n in range(header, len(lines)) if lines[n].lstrip().startswith("[")), len(lines)
    )
    while end > header and not lines[end - 1].strip():
        end -= 1
    return end


def _changed(lines: list[str], number: int, value: str) -> str:
    """Return the text with another value on a line; the rest of the line stays."""
    line = lines[number - 1]
    bare = STRING.sub(lambda m: (" " if m[0].startswith("#") else "x") * len(m[0]), line)
    begin = bare.index("=") + 1 if "=" in bare else len(bare)
    comment = line[max(len(bare.rstrip()), begin) :]
    lines[number - 1] = f"{line[:begin]} {value}{comment}"
    return "\n".join(lines)


def written(value: Any) -> str:
    """Return a value as TOML.

    >>> written({"a b": 1, "c": [Decimal("0.50"), True, "x"]})
    '{ "a b" = 1, c = [0.50, true, "x"] }'
    """
    match value:
        case dict():
            return f"{{ {', '.join(f'{toml_key(k)} = {written(v)}' for k, v in value.items())} }}"
        case list():
            return f"[{', '.join(map(written, value))}]"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def toml_key(name: str) -> str:
    """Return a key as TOML."""
    return name if BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
