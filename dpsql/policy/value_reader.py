"""Reading one value of the policy: of the right type, or an error with its line and a fix."""

from __future__ import annotations

import re
import tomllib
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any, NoReturn

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import PolicyError

HEADER = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(#.*)?$")
KEY = re.compile(r"""\s*(?P<name>(?:[A-Za-z0-9_\-.\s]|"[^"]*"|'[^']*')+?)\s*=""")
STRING = re.compile(r"""\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'[^']*'|\#[^\n]*""", re.DOTALL)

_NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")

Path = tuple[str, ...]


class Lines:
    r"""The line of every table header and key of a TOML text that tomllib accepts.

    tomllib itself reads values, not places.

    >>> Lines("[tables.t]\nkey = 'id'\n").of(("tables", "t", "key"))
    2
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        table: Path = ()
        depth = 0
        # splitlines knows line ends that TOML does not.
        plain = STRING.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text).split("\n")
        for number, (line, bare) in enumerate(zip(text.split("\n"), plain, strict=True), 1):
            if depth == 0 and (header := HEADER.match(line)) and bare.lstrip().startswith("["):
                table = header_parts(header["name"])
                self._lines.setdefault(table, number)
                continue
            if depth == 0 and "=" in bare and (key := KEY.match(line)):
                self._lines.setdefault(table + header_parts(key["name"]), number)
            depth += sum(bare.count(c) for c in "[{") - sum(bare.count(c) for c in "]}")
        for path, number in sorted(self._lines.items(), key=lambda item: item[1]):
            for length in range(1, len(path)):  # a table without a header begins with what is in it
                self._lines.setdefault(path[:length], number)

    def of(self, path: Path) -> int:
        """Return the line of a key, or of the nearest enclosing table."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


def header_parts(name: str) -> Path:
    """Return a dotted key, or the name of a header, as its parts, without quotes."""
    nested: Any = tomllib.loads(f"{name} = 0")
    parts = []
    while isinstance(nested, dict):
        ((part, nested),) = nested.items()
        parts.append(part)
    return tuple(parts)


UNDECIDED = "DECIDE"
MEMORY = re.compile(r"\d+(\.\d+)?\s*([KMGT]i?B|B)", re.IGNORECASE)
"""Value that `dpsql init` writes for an open decision."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One table of the TOML file: `values` at `path`."""

    file: str
    lines: Lines
    values: dict[str, Any]
    path: Path = ()

    def fail(self, key: str | None, message: str, fix: str) -> NoReturn:
        """Raise a PolicyError at `key` of this table, or at its header."""
        place = self.path if key is None else (*self.path, key)
        raise PolicyError(self.file, self.lines.of(place), message, fix)

    def only(self, *allowed: str) -> None:
        """Refuse unknown keys, and name the nearest known one."""
        for key in self.values:
            if key not in allowed:
                near = get_close_matches(key, allowed, 1)
                fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(allowed)}."
                self.fail(key, f"Unknown key {key}.", fix)

    def table(self, key: str, *, required: bool = False) -> Reader:
        """Return a table inside this one; empty if it is absent and not required."""
        if key not in self.values and required:
            self.fail(None, f"There is no [{'.'.join((*self.path, key))}].", "Add it.")
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            self.fail(key, f"{key} is not a table.", f"Write [{'.'.join((*self.path, key))}].")
        return Reader(self.file, self.lines, value, (*self.path, key))

    def tables(self) -> list[tuple[str, Reader]]:
        """Return the tables inside this one, by name. SQL names differ by more than case."""
        self.distinct(tuple(self.values), None)
        return [(name, self.table(name)) for name in self.values]

    def listed(self, key: str) -> tuple[Reader, ...]:
        """Return the tables of a list inside this one."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            self.fail(key, f"{key} is no list of tables.", f"Write {key} = [{{ … }}, {{ … }}].")
        return tuple(Reader(self.file, self.lines, each, (*self.path, key)) for each in value)

    def distinct(self, names: tuple[str, ...], key: str | None) -> None:
        """Refuse two names that are one in SQL; the error is at `key`, or at the second name."""
        seen: dict[str, str] = {}
        for name in names:
            first = seen.get(name.lower())
            if first is not None:
                self.fail(key or name, f"{first} and {name} are one name in SQL.", "Remove one.")
            seen[name.lower()] = name

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string that is not empty."""
        value = self.values.get(key, default)
        if value is None:
            near = get_close_matches(key, self.values, 1)
            fix = f"Did you mean {key} by {near[0]}?" if near else f'Add {key} = "…".'
            self.fail(None, f"{key} is missing.", f"{fix} See dpsql help policy.")
        if not isinstance(value, str) or not value:
            self.fail(key, f"{key} must be text.", f'Write {key} = "…".')
        return value

    def choice(self, key: str, options: tuple[str, ...], default: str | None = None) -> str:
        """Return one of a few words."""
        given = self.values.get(key)
        value: str = given if given in options else self.text(key, default)
        if value not in options:
            signs = any(len(option) < 2 for option in options)  # noqa: PLR2004
            listed = ", ".join(map(repr, options) if signs else options)
            self.fail(key, f"{key} is {value!r}.", f"Write one of {listed}.")
        return value

    def flag(self, key: str, default: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Return a truth value."""
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.fail(key, f"{key} must be true or false.", f"Write {key} = true.")
        return value

    def count(self, key: str, most: int | None = None, least: int = 1) -> int | None:
        """Return a positive integer between bounds, None if absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.fail(key, f"{key} must be a whole number from 1.", f"Write {key} = 10.")
        if most is not None and value > most:
            self.fail(key, f"{key} is at most {most}.", "Write a smaller one.")
        if value < least:
            self.fail(key, f"{key} is at least {least}.", "Write a larger one.")
        return value

    def texts(
        self, key: str, default: tuple[str, ...] = (), *, empty: bool = False
    ) -> tuple[str, ...]:
        """Return a list of texts, which may be written as one text."""
        value = self.values.get(key, list(default))
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            self.fail(key, f"{key} is no list of texts.", f'Write {key} = ["…"].')
        if not empty and not all(listed):
            self.fail(key, f"{key} has an empty text.", "Remove it.")
        return tuple(listed)

    def place(self, key: str, default: str | None = None) -> str:
        """Return a path, relative to the folder of the policy."""
        return str(File(self.file).resolve().parent / self.text(key, default))

    def seconds(self, key: str, default: float) -> float:
        """Return a duration in seconds."""
        seconds, most = self.amount(key, default), 10**6
        if not 0 < seconds <= most:
            why = f"{key} must be above zero, and at most {most}."
            self.fail(key, why, f"Write {key} = {default:g}.")
        return float(seconds)

    def memory(self, key: str, default: str) -> str:
        """Return an amount of memory, as DuckDB writes it."""
        value = self.text(key, default)
        if not MEMORY.fullmatch(value):
            self.fail(key, f"{value!r} is no amount of memory.", f'Write {key} = "{default}".')
        return value

    def amount(self, key: str, default: Decimal | float | str | None = None) -> Decimal:
        """Return an exact, finite number."""
        value = self.values.get(key, None if default is None else Decimal(default))
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            number = value if isinstance(value, str) and _NUMBER.fullmatch(value) else "1.0"
            self.fail(key, f"{key} must be a number.", f"Write {key} = {number}.")
        value = Decimal(value)
        if not value.is_finite():
            self.fail(key, f"{key} must be finite.", f"Write {key} = 1.0.")
        return value
