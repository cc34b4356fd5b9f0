"""The child process in which every DuckDB statement runs, so that it can be killed.

Reads length-prefixed pickles from standard input, writes them to standard output; imports only
the standard library and duckdb, because its start overlaps with the parent's. It holds two
instances: `private`, the owner's database opened read-only, and `scratch`, in memory with nothing
private in it. Both are locked down before the first statement (security.md).
"""

from __future__ import annotations

import pickle
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import duckdb

from dpsql.engines.framing import LENGTH

CHUNK = 1 << 16
SAFE = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
}


def main() -> None:
    """Serve requests until standard input ends."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    settings = receive(source)
    try:
        instances = {"private": private(settings), "scratch": scratch(settings)}
    except Exception:  # noqa: BLE001  the reason would quote paths and engine text
        send(sink, ("unreachable",))
        return
    send(sink, ("ready",))
    while (request := receive(source)) is not None:
        try:
            for reply in answer(instances, request):
                send(sink, reply)
            send(sink, ("done",))
        except Exception:  # noqa: BLE001  no engine text leaves this process
            send(sink, ("failed",))


def private(settings: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """The owner's database: its file read-only, or views over its files."""
    config = {**SAFE, "memory_limit": settings["memory"]}
    if settings["path"] is not None:
        connection = duckdb.connect(settings["path"], read_only=True, config=config)
        return locked(connection, [])
    connection = duckdb.connect(":memory:", config=config)
    paths: list[str] = []
    for name, files in settings["files"]:
        reader = "read_csv" if Path(files[0]).suffix in (".csv", ".tsv", ".txt") else "read_parquet"
        listed = ", ".join(quoted(path) for path in files)
        label = name.replace('"', '""')
        connection.execute(f'CREATE VIEW "{label}" AS SELECT * FROM {reader}([{listed}])')
        paths += files
    return locked(connection, paths)


def scratch(settings: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    """An instance in memory with nothing private in it."""
    return locked(
        duckdb.connect(":memory:", config={**SAFE, "memory_limit": settings["memory"]}), []
    )


def locked(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> duckdb.DuckDBPyConnection:
    """No file but these, no extension, no setting from here on; nothing is spilled to disk."""
    if paths:
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, paths))}]")
    connection.execute("SET temp_directory = ''")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def quoted(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def answer(
    instances: dict[str, duckdb.DuckDBPyConnection], request: dict[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """The replies to one request: chunks of rows, or of columns where integers are summed."""
    cursor = instances[request["instance"]].cursor()
    try:
        for table in request["tables"]:
            fill(cursor, *table)
        cursor.execute(request["sql"], request["parameters"])
        while chunk := cursor.fetchmany(CHUNK):
            yield "chunk", columns(chunk, request["keys"]) if request["keys"] is not None else chunk
    finally:
        for name, _, _ in request["tables"]:
            cursor.execute(f'DROP TABLE IF EXISTS "{name}"')
        cursor.close()


def columns(chunk: list[tuple[Any, ...]], keys: int) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Key tuples, and each integer column as 64-bit integers where they fit."""
    turned = list(zip(*chunk, strict=True))
    names = list(zip(*turned[:keys], strict=True)) if keys else [()] * len(chunk)
    return names, [packed(column) for column in turned[keys:]]


def packed(column: tuple[Any, ...]) -> array[int] | list[int]:
    """Integers in 64 bits each where all fit; a sum over nothing is zero."""
    values = [0 if value is None else int(value) for value in column]
    try:
        return array("q", values)
    except OverflowError:
        return values


def fill(
    cursor: duckdb.DuckDBPyConnection,
    name: str,
    types: list[tuple[str, str]],
    values: list[list[Any]],
) -> None:
    """A table from its columns; values arrive as text where text is the exact way."""
    declared = ", ".join(f'"{column}" {kind}' for column, kind in types)
    cursor.execute(f'CREATE TABLE "{name}" ({declared})')
    if values and values[0]:
        listed = ", ".join(f"CAST(unnest(${n + 1}) AS {kind})" for n, (_, kind) in enumerate(types))
        cursor.execute(f'INSERT INTO "{name}" SELECT {listed}', values)


def receive(source: BinaryIO) -> Any:
    """The next message, None where the parent has gone."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return pickle.loads(source.read(LENGTH.unpack(head)[0]))  # noqa: S301  from our own parent


def send(sink: BinaryIO, message: tuple[Any, ...]) -> None:
    """Write one message and flush it."""
    body = pickle.dumps(message, protocol=5)
    sink.write(LENGTH.pack(len(body)))
    sink.write(body)
    sink.flush()


if __name__ == "__main__":
    main()
