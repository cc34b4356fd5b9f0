"""Reading one value of the policy: of the right type, or an error with its line and a fix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, NoReturn

from dpsql.model.errors import PolicyError
from dpsql.policy.lines import Lines, Path

UNDECIDED = "DECIDE"
MEMORY = re.compile(r"\d+(\.\d+)?\s*([KMGT]i?B|B)", re.IGNORECASE)
"""What `dpsql init` writes where the owner must decide."""


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

    def only(self, *known: str) -> None:
        """Refuse keys that are not known, naming the nearest that is."""
        for key in self.values:
            if key not in known:
                near = get_close_matches(key, known, 1)
                fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}."
                self.fail(key, f"Unknown key {key}.", fix)

    def table(self, key: str, *, required: bool = False) -> Reader:
        """A table inside this one; empty if it is absent and not required."""
        if key not in self.values and required:
            self.fail(None, f"There is no [{'.'.join((*self.path, key))}].", "Add it.")
        found = self.values.get(key, {})
        if not isinstance(found, dict):
            self.fail(key, f"{key} is not a table.", f"Write [{'.'.join((*self.path, key))}].")
        return Reader(self.file, self.lines, found, (*self.path, key))

    def tables(self) -> list[tuple[str, Reader]]:
        """The tables inside this one, by name. SQL names differ by more than case."""
        self.distinct(tuple(self.values), None)
        return [(name, self.table(name)) for name in self.values]

    def listed(self, key: str) -> tuple[Reader, ...]:
        """The tables of a list inside this one."""
        found = self.values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            self.fail(key, f"{key} is no list of tables.", f"Write {key} = [{{ … }}, {{ … }}].")
        return tuple(Reader(self.file, self.lines, each, (*self.path, key)) for each in found)

    def distinct(self, names: tuple[str, ...], key: str | None) -> None:
        """Refuse two names that SQL takes for one; the error is at `key`, or at the second name."""
        seen: dict[str, str] = {}
        for name in names:
            first = seen.get(name.lower())
            if first is not None:
                self.fail(key or name, f"{first} and {name} are one name in SQL.", "Remove one.")
            seen[name.lower()] = name

    def text(self, key: str, default: str | None = None) -> str:
        """A string that is not empty."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or not value:
            self.fail(key, f"{key} must be text.", f'Write {key} = "…".')
        return value

    def choice(self, key: str, options: tuple[str, ...], default: str | None = None) -> str:
        """One of a few words."""
        value = self.text(key, default)
        if value not in options:
            self.fail(key, f"{key} is {value!r}.", f"Write one of {', '.join(options)}.")
        return value

    def flag(self, key: str) -> bool:
        """A truth value, false where absent."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.fail(key, f"{key} must be true or false.", f"Write {key} = true.")
        return value

    def count(self, key: str) -> int | None:
        """A positive whole number, None where absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self.fail(key, f"{key} must be a whole number from 1.", f"Write {key} = 10.")
        return value

    def memory(self, key: str, default: str) -> str:
        """An amount of memory, as DuckDB writes it."""
        value = self.text(key, default)
        if not MEMORY.fullmatch(value):
            self.fail(key, f"{value!r} is no amount of memory.", f'Write {key} = "{default}".')
        return value

    def amount(self, key: str, default: str | None = None) -> Decimal:
        """An exact, finite number."""
        value = self.values.get(key, None if default is None else Decimal(default))
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            self.fail(key, f"{key} must be a number.", f"Write {key} = 1.0.")
        value = Decimal(value)
        if not value.is_finite():
            self.fail(key, f"{key} must be finite.", f"Write {key} = 1.0.")
        return value
