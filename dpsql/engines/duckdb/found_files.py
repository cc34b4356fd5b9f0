"""Data files as an owner names them (files, folders, globs), and the tables that they form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from glob import escape, glob
from pathlib import Path

from dpsql.model.errors import Unreachable

_TEXTS = (".csv", ".tsv")
SUFFIXES = (".parquet", *(text + packed for text in _TEXTS for packed in ("", ".gz", ".zst")))
_PARTITION = re.compile(r"[^=]+=.*")
"""Name of a folder of a partitioned table: KEY=VALUE."""
_WILD = re.compile(r"[*?\[]")
_ALL_OF = re.compile(r"/(\*\*/)?\*\.parquet$")
_NUMBER = re.compile(r"[-_. ]\d[\d\-_. T]*$")
"""Number or date at the end of a name, by which the parts of one table differ."""


def is_data(name: str) -> bool:
    """Test whether a name means data files: a file of a known kind, a folder, or a glob.

    >>> is_data("orders.CSV"), is_data("data/*.parquet"), is_data("shop.duckdb")
    (True, True, False)
    """
    _, path = named(name)
    return _suffix(path) is not None or bool(_WILD.search(path)) or Path(path).is_dir()


def named(name: str) -> tuple[str | None, str]:
    """Return the table, or None, and the path of `TABLE=PATH`.

    >>> named("orders=data/*.csv"), named("data/orders.csv")
    (('orders', 'data/*.csv'), (None, 'data/orders.csv'))
    """
    table, equals, path = name.partition("=")
    said = bool(equals) and re.fullmatch(r"\w+", table) is not None
    return (table, path) if said else (None, name)


def tables_of(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the tables of files, folders and globs, each with the path or glob of its files.

    A file is a table. So are files with names that differ by a number or a date at the end, and
    each folder in a folder. `TABLE=PATH` sets the name of a table. Raises `Unreachable` if there is
    no data file, or if two tables have one name.
    """
    tables: dict[str, tuple[str, str]] = {}
    for name in names:
        for table, pattern in _tables(name):
            other = tables.setdefault(table.lower(), (table, pattern))[1]
            if other != pattern:
                both = f"{other} and {pattern}"
                raise Unreachable(f"{both} would be one table; call them: NAME={pattern}.")
    return tuple(tables.values())


def parquet_of(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return tables like `tables_of`, for engines that read a folder by its path and no glob.

    A folder of files `part-…`, as Spark writes them, is a table. If a folder holds parts of several
    tables, each table stays a glob.
    """
    written = (_whole_table(name) for name in names)
    return tuple((table, _ALL_OF.sub("", path)) for table, path in tables_of(written))


def _whole_table(name: str) -> str:
    table, path = named(name)
    is_one = table is None and any(Path(path).glob("part-*.parquet"))
    return f"{_word(Path(path).resolve().name)}={path}" if is_one else name


def _tables(name: str) -> Iterator[tuple[str, str]]:
    table, path = named(name)
    if Path(path).is_dir():
        tables = [*_folder(Path(path))] if table is None else [(table, _whole(Path(path)))]
    elif _WILD.search(path) and not Path(path).exists():
        tables = [*_matches(table, path)]
    else:
        tables = [(table or _called(path), path)]
        if not Path(path).is_file():
            raise Unreachable(f"{path} does not exist.")
        if _suffix(path) is None:
            raise Unreachable(f"{path} is no data file: name it {', '.join(SUFFIXES)}.")
    if not tables:
        raise Unreachable(f"{path} has no file of {', '.join(SUFFIXES)}.")
    yield from tables


def _matches(table: str | None, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the table of a glob with a fixed beginning (`orders_*.csv`); else each of its files."""
    files = [path for path in sorted(glob(pattern, recursive=True)) if _suffix(path)]  # noqa: PTH207
    begins = _WILD.split(Path(pattern).name)[0].strip("-_. ")
    if files and (table or begins):
        yield table or _word(begins), pattern
    else:
        yield from _grouped(files)


def _folder(folder: Path) -> Iterator[tuple[str, str]]:
    here = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if any(path.is_dir() and _PARTITION.fullmatch(path.name) for path in here):
        yield _word(folder.resolve().name), _whole(folder)
        return
    yield from _grouped([str(path) for path in here if path.is_file() and _suffix(path.name)])
    for each in here:
        if each.is_dir() and (pattern := _whole(each)):
            yield _word(each.name), pattern


def _whole(folder: Path) -> str:
    """Return the glob of all data files in a folder and below it; "" if there are none.

    Raises `Unreachable` if they are of several kinds.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and _suffix(path.name)]
    kinds = {_suffix(path.name) for path in files}
    if len(kinds) > 1:
        raise Unreachable(f"{folder} has files of several kinds, which are no one table.")
    below = "" if all(path.parent == folder for path in files) else "**/"
    return f"{escape(str(folder))}/{below}*{kinds.pop()}" if kinds else ""


def _grouped(files: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each file as a table, and the parts of one table together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for path in files:
        suffix = _suffix(path) or ""
        base = _NUMBER.sub("", path[: -len(suffix)])
        groups.setdefault((base, suffix), []).append(path)
    for (base, suffix), group in groups.items():
        pattern = f"{escape(base)}*{suffix}"
        if len(group) > 1 and sorted(glob(pattern)) == group:  # noqa: PTH207
            yield _called(base + suffix), pattern
        else:
            yield from ((_called(path), path) for path in group)


def _suffix(path: str) -> str | None:
    """Return the longest known suffix of a data file's name; None if there is none."""
    fitting = [suffix for suffix in SUFFIXES if path.lower().endswith(suffix)]
    return path[-len(max(fitting, key=len)) :] if fitting else None


def _called(path: str) -> str:
    name = Path(path).name
    return _word(name[: -len(_suffix(name) or "")] if _suffix(name) else name)


def _word(name: str) -> str:
    """Return a name that SQL accepts without quotes, similar to this one.

    >>> _word("web orders.2024")
    'web_orders_2024'
    """
    return re.sub(r"\W+", "_", name).strip("_") or "data"
