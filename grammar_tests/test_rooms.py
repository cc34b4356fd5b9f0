"""The table of grammar_tests/README.md that says which tests are about which room."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).parent
HOUSE = FOLDER.parent / "dpsql"
ROW = re.compile(r"(?m)^\| (all of it|`[\w/]+/`|`proxy\.py`) \| ([\w ]+) \|$")


def rooms() -> dict[str, list[str]]:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    return {room.strip("`"): names.split() for room, names in ROW.findall(text)}


def test_every_test_file_is_about_one_room() -> None:
    named = Counter(name for names in rooms().values() for name in names)
    files = {path.stem.removeprefix("test_") for path in FOLDER.glob("test_*.py")}
    assert set(named) == files
    assert [name for name, times in named.items() if times > 1] == []


def test_every_room_has_tests() -> None:
    """Of a folder of the house, or of the folders in it."""
    listed = set(rooms()) - {"all of it"}
    assert [room for room in listed if not (HOUSE / room).exists()] == []
    folders = {path.parent.name for path in HOUSE.glob("*/__init__.py")}
    assert {room.split("/")[0] for room in listed} >= folders
    assert all(rooms().values())
