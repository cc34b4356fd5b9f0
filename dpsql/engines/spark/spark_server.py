"""Address of a Spark Connect server, access to it, and reasons against using it.

A policy contains no token. It comes from DPSQL_SPARK_TOKEN, or from a file that only its owner
reads (SECURITY.md S28).
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import MissingExtra
from dpsql.model.resources import Database

TOKEN = "DPSQL_SPARK_TOKEN"  # noqa: S105 - its name
WHY = {
    "unreadable": "cannot be reached; check its address and its token",
    "changed": "has changed since it was opened; open the policy again",
    "missing": "is to read a file or folder that is not here; correct its path in the policy",
    "open": "has a file with its token that others may read; chmod 600",
    "old": "is older than Spark 3.5",
    "settings": "does not take the settings of a session that every proof leans on",
    "values": "is to read texts that are not UTF-8, or times outside of years 1 to 9999, on which"
    " statements fail; write NULL for them into the files",
    "statistics": "is to read files whose statistics their values break, as old writers state them;"
    " write them anew with another writer",
    "untrusted": "does not compute as Spark 3.5 does, so that no proof holds on it",
}
_URL = re.compile(r"sc://[^;]+(;/?|/;use_ssl=(true|false))?")
_HIDDEN = f"A token stands in no policy: give it in {TOKEN}, or in a token_file with mode 0600."
_TEXTS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_MAGIC = b"PAR1"
"""First bytes of a Parquet file."""
_OTHERS = 0o077
"""Mode bits of the group and of others."""

Signature = tuple[tuple[str, int, int, int, int], ...]
"""Path, device, inode, size and mtime_ns of each file: a data version."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Address of the server and access to it; `files` holds the path of each table."""

    url: str
    token: str
    token_file: str
    files: tuple[tuple[str, str], ...]
    memory: str
    niceness: int = 0


def objection(database: Database) -> str | None:
    """Return the error in the policy's [database]; None if there is none.

    >>> files = (("orders", "/d/orders.parquet"),)
    >>> objection(Database("spark", files=files, settings=(("url", "sc://s;token=x"),))) == _HIDDEN
    True
    >>> objection(Database("spark", files=files, settings=(("url", "sc://spark:15002"),)))
    """
    url = dict(database.settings).get("url", "")
    if "token=" in url.lower() or "@" in url:
        return _HIDDEN
    if not _URL.fullmatch(url):
        return 'The server is at a url like "sc://host:15002".'
    if not database.files:
        return "The data is in files: a Parquet file or a folder of them for each table."
    for _table, path in database.files:
        if set("*?[{`\\") & set(path):
            return f"{path} is a pattern: name a Parquet file, or a folder of them."
        if path.lower().endswith(_TEXTS):
            return f"{path} is a text: Spark is asked for Parquet files and folders of them."
    return None


def is_address(source: str) -> bool:
    """Test whether a source is the address of a Spark server.

    >>> is_address("sc://spark.example:15002"), is_address("/data/orders.parquet")
    (True, False)
    """
    return source.startswith("sc://")


def installed() -> None:
    """Check that the packages for Spark are installed. Raises `MissingExtra`."""
    if find_spec("pyspark") is None or find_spec("grpc") is None:
        raise MissingExtra("The engine spark needs pyspark-client: pip install 'dpsql[spark]'.")


def settings_of(database: Database, memory: str, niceness: int) -> SparkSettings:
    """Return the settings of a worker."""
    said = dict(database.settings)
    return SparkSettings(
        url=said["url"],
        token=os.environ.get(TOKEN, ""),
        token_file=said.get("token_file", ""),
        files=database.files,
        memory=memory,
        niceness=niceness,
    )


def is_open(path: Path) -> bool:
    """Test whether other users may read a file."""
    return bool(path.stat().st_mode & _OTHERS)


def stamp_files(files: tuple[tuple[str, str], ...]) -> Signature:
    """Return the data version on disk now. Raises `OSError` if a file is missing."""
    read = [file for _table, path in files for file in _files_in(Path(path))]
    return tuple((str(file), *_stamp(file)) for file in read)


def parquet_files(path: str) -> list[str]:
    """Return the Parquet files of a table. Raises `OSError` if a file is missing."""
    return [str(file) for file in _files_in(Path(path)) if _has_magic(file)]


def _has_magic(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _files_in(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = sorted(each for each in path.rglob("*") if each.is_file())
    if not inside:
        raise FileNotFoundError
    return inside


def _stamp(path: Path) -> tuple[int, int, int, int]:
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
