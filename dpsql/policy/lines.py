r"""Where in a TOML file each key stands: tomllib reads values, not places.

>>> Lines("[tables.t]\nkey = 'id'\n").of(("tables", "t", "key"))
2
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

HEADER = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(#.*)?$")
KEY = re.compile(r"""\s*(?P<name>(?:[A-Za-z0-9_\-.\s]|"[^"]*"|'[^']*')+?)\s*=""")
STRING = re.compile(r"""\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'[^']*'|\#[^\n]*""", re.DOTALL)

Path = tuple[str, ...]


class Lines:
    """The line of every table header and key of a TOML text that tomllib accepts."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        table: Path = ()
        depth = 0
        plain = STRING.sub(_blanked, text).split(
            "\n"
        )  # splitlines knows line ends that TOML does not
        for number, (line, bare) in enumerate(zip(text.split("\n"), plain, strict=True), 1):
            if depth == 0 and (header := HEADER.match(line)) and bare.lstrip().startswith("["):
                table = _parts(header["name"])
                self._lines.setdefault(table, number)
                continue
            if depth == 0 and "=" in bare and (key := KEY.match(line)):
                self._lines.setdefault(table + _parts(key["name"]), number)
            depth += sum(bare.count(c) for c in "[{") - sum(bare.count(c) for c in "]}")
        for path, number in sorted(self._lines.items(), key=lambda item: item[1]):
            for length in range(1, len(path)):  # a table without a header begins with what is in it
                self._lines.setdefault(path[:length], number)

    def of(self, path: Path) -> int:
        """The line of a key, or of the nearest thing around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)


def _parts(name: str) -> Path:
    """A dotted key as its parts, quotes removed."""
    nested: Any = tomllib.loads(f"{name} = 0")
    parts = []
    while isinstance(nested, dict):
        ((part, nested),) = nested.items()
        parts.append(part)
    return tuple(parts)


def _blanked(found: re.Match[str]) -> str:
    """A string or comment with nothing in it, on as many lines."""
    return re.sub(r"[^\n]", " ", found[0])
