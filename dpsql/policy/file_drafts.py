"""Drafts of [tables.T.file] and of column types, from names alone, never from rows.

With `dpsql init --look` types come from the rows. Each line says so, because it becomes public.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from dpsql.model.file_formats import FileColumn, FileFormat, is_text
from dpsql.model.resources import Database
from dpsql.policy.column_words import ROW_WORDS, words
from dpsql.policy.value_reader import UNDECIDED

_INTEGERS = frozenset(
    "age qty quantity count items pieces visits units rank year quarter month week weekday hour "
    "minute floor rooms beds children days nights doses dispenses refills".split()
)
_AMOUNTS = frozenset(
    "amount price cost spend spent spending total subtotal revenue sales salary income wage weight "
    "height score rate value balance fee tax discount charge payment ms seconds minutes hours "
    "duration length size percent share temperature distance coverage dose pressure".split()
)
_DAYS = frozenset("date day dob birthday birthdate dt".split())
_TIMES = frozenset("time timestamp datetime ts at start stop begin end started ended".split())
_MEASURES = frozenset("value result".split())
"""Names of numbers with a unit of measurement, which stands in a column of its own."""

_RUN_TOGETHER = re.compile("(?!candidate|mandate).+(date|time|cost|price|amount|quantity)")
"""Names in which words are not separated, as BIRTHDATE and TOTALCOST."""

_FLAGS = frozenset("is has was flag".split())


class TypesFrom(StrEnum):
    """Source of the types of text files in a draft."""

    NOBODY = "nobody"
    NAMES = "names"
    DATA = "data"


def type_by_name(name: str) -> str:
    """Return the type that a column's name suggests, else VARCHAR.

    >>> [type_by_name(n) for n in ("person_id", "age", "spend", "day", "created_at", "city")]
    ['VARCHAR', 'BIGINT', 'DOUBLE', 'DATE', 'TIMESTAMP', 'VARCHAR']
    >>> [type_by_name(n) for n in ("START", "DEATHDATE", "TOTALCOST", "candidate")]
    ['TIMESTAMP', 'DATE', 'DOUBLE', 'VARCHAR']
    """
    own = words(name) or (name.lower(),)
    if match := _RUN_TOGETHER.fullmatch(own[-1]):
        own = (*own, match[1])
    if own[-1] in ROW_WORDS:
        return "VARCHAR"
    if own[0] in _FLAGS or own[-1] == "flag":
        return "BOOLEAN"
    for kind, last in (("BIGINT", _INTEGERS), ("DOUBLE", _AMOUNTS), ("DATE", _DAYS)):
        if own[-1] in last:
            return kind
    return "TIMESTAMP" if own[-1] in _TIMES else "VARCHAR"


def columns_by_name(names: Sequence[str]) -> tuple[FileColumn, ...]:
    """Return columns with the types that their names suggest.

    `units` next to a column of values are names of units of measurement.

    >>> [(c.name, c.type) for c in columns_by_name(("VALUE", "UNITS"))]
    [('VALUE', 'DOUBLE'), ('UNITS', 'VARCHAR')]
    """
    measured = not _MEASURES.isdisjoint(name.lower() for name in names)
    return tuple(
        FileColumn(name, "VARCHAR" if measured and name.lower() == "units" else type_by_name(name))
        for name in names
    )


def section_lines(database: Database, table: str, header: str, source: TypesFrom) -> Iterator[str]:
    """Yield the lines of [tables.T.file] for a text file; none for Parquet."""
    path, f = dict(database.files).get(table), dict(database.formats).get(table)
    if path is None or f is None or not is_text(path):
        return
    undecided = source is TypesFrom.NOBODY
    mark = "  # read from the data: public" if source is TypesFrom.DATA else ""
    yield f"[{header}.file]"
    facts = [f"encoding {f.encoding.upper()}", f"delimiter {f.delimiter!r}"]
    facts += ["skip the line sep="] if f.skip else []
    yield f"# The first line of the file says: {', '.join(facts)}."
    numbered = _numbered([c.name for c in f.columns])
    if f.header and numbered:
        yield "# A column without a name is called by its place, and a repeated name gets a number:"
        yield f"# {', '.join(numbered)}."
    if undecided:
        yield "# Only that line was read. Decide what the fields of others mean, here and in the"
        yield "# types below. A field that does not fit is NULL; dpsql check counts them."
        yield '# Recommended: decimal = ".", dates = "%Y-%m-%d" (ISO) and null_words = [""].'
        yield '# Else, say: ",", ["%d.%m.%Y", "%Y-%m-%d"] and ["", "NA", "-"].'
    yield f"delimiter = {_text(f.delimiter)}"
    if f.skip:
        yield f"skip = {f.skip}"
    if f.encoding != FileFormat().encoding:
        yield f"encoding = {_text(f.encoding)}"
    decisions = {
        "decimal": f.decimal,
        "dates": f.dates[0] if len(f.dates) == 1 else list(f.dates),
        "null_words": list(f.null_words),
    }
    for key, value in decisions.items():
        yield f"{key} = {_text(UNDECIDED if undecided else value)}{mark}"
    if f.thousands:
        yield f"thousands = {_text(f.thousands)}{mark}"


def _numbered(names: Sequence[str]) -> list[str]:
    """Return the names that `header_of` gives to columns without a name of their own.

    >>> _numbered(["sex", "Sex_2", "column3", "day_1"])
    ['Sex_2', 'column3']
    """
    lower = {name.lower() for name in names}
    repeated = (re.fullmatch(r"(.*)_[0-9]+", name.lower()) for name in names)
    return [
        name
        for place, (name, match) in enumerate(zip(names, repeated, strict=True), 1)
        if name == f"column{place}" or (match and match[1] in lower)
    ]


def type_part(database: Database, table: str, column: str, kind: str, source: TypesFrom) -> str:
    """Return the type part of a column's line, "" if the database fixes the type."""
    path, f = dict(database.files).get(table), dict(database.formats).get(table)
    if path is None or f is None:
        return ""
    if source is TypesFrom.NOBODY and (f.column(column) is not None or is_text(path)):
        return f"type = {_text(UNDECIDED)}"
    several = any(sign in path for sign in "*?[")
    return f"type = {_text(kind)}" if several or f.column(column) or is_text(path) else ""


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
