"""Kinds of databases that a policy may name: how they are opened, and their SQL.

Our own kinds are here; others come from packages that the owner has installed (SECURITY.md S23). An
engine starts while the compiler is imported, so nothing is imported at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dpsql.engines import Engine
from dpsql.engines.memory import process_limits
from dpsql.engines.paired import Paired
from dpsql.engines.pool import EnginePool
from dpsql.engines.priority import NICENESS
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import PolicyError, Unreachable
from dpsql.model.installed import Registry, Unusable
from dpsql.model.resources import SPILL, Database, Limits
from dpsql.policy.draft import Draft

if TYPE_CHECKING:
    from dpsql.compiler.rewrite.dialect import Dialect, Dialects
    from dpsql.engines.broadcast_tables import BroadcastTables
    from dpsql.engines.stores import StoreWriter
    from dpsql.model.file_formats import TextCounts


@runtime_checkable
class EngineKind(Protocol):
    """One kind of database, which a policy names."""

    @property
    def name(self) -> str:
        """Name in a policy."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that the policy's [database] may have besides the name."""

    @property
    def dialect(self) -> Dialect:
        """SQL dialect of its databases."""

    def objection(self, database: Database) -> str | None:
        """Return the error in the policy's [database]; None if there is none."""

    def open(self, database: Database, limits: Limits) -> Engine:
        """Open an engine over this data, which keeps the contract of `dpsql.engines.Engine`.

        Does not wait: errors come with the first call.
        """


@dataclass(frozen=True, slots=True)
class _DuckDB:
    """A DuckDB file, or data files by table: in one process with scratch."""

    name: str = "duckdb"
    keys: tuple[str, ...] = ("path", "files", "prepared", SPILL)

    @property
    def dialect(self) -> Dialect:
        from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB  # noqa: PLC0415

        return DUCKDB

    def objection(self, database: Database) -> str | None:
        here = (database.path is None) != (not database.files)
        return None if here else "The data is in one database or in files."

    def open(
        self, database: Database, limits: Limits, script: Sequence[tuple[str, list[Any]]] = ()
    ) -> Engine:
        from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine  # noqa: PLC0415

        return DuckDBEngine(database, limits, script)


@dataclass(frozen=True, slots=True)
class _Postgres:
    """PostgreSQL 15 and newer, for the tables alone; scratch is ours."""

    name: str = "postgres"
    keys: tuple[str, ...] = ("dsn", "service", "public")

    @property
    def dialect(self) -> Dialect:
        from dpsql.dialects.postgres.postgres_dialect import POSTGRES  # noqa: PLC0415

        return POSTGRES

    def objection(self, database: Database) -> str | None:
        from dpsql.engines.postgres.whereabouts import objection  # noqa: PLC0415

        return objection(dict(database.settings))

    def open(self, database: Database, limits: Limits) -> Engine:
        from dpsql.engines.postgres.postgres_engine import PostgresEngine  # noqa: PLC0415
        from dpsql.engines.postgres.whereabouts import conninfo, shown  # noqa: PLC0415

        settings = dict(database.settings)
        read = partial(_broadcast, database, limits)
        engine = PostgresEngine(conninfo(settings), shown(settings), limits, read)
        return Paired(engine, scratch(limits))


@dataclass(frozen=True, slots=True)
class _Spark:
    """Parquet files that Spark (3.5 or newer) or Sail reads; scratch is ours."""

    name: str = "spark"
    keys: tuple[str, ...] = ("url", "files", "token_file", "public")

    @property
    def dialect(self) -> Dialect:
        from dpsql.dialects.spark.spark_dialect import SPARK  # noqa: PLC0415

        return SPARK

    def objection(self, database: Database) -> str | None:
        from dpsql.engines.spark.spark_server import objection  # noqa: PLC0415

        return objection(database)

    def open(self, database: Database, limits: Limits) -> Engine:
        from dpsql.engines.spark.spark_engine import SparkEngine  # noqa: PLC0415
        from dpsql.engines.spark.spark_server import installed  # noqa: PLC0415

        installed()
        engine = SparkEngine(database, limits, partial(_broadcast, database, limits))
        return Paired(engine, scratch(limits))


@dataclass(frozen=True, slots=True)
class OwnEngine:
    """The engine that every policy uses, as a package: its name, its binary, its deviations."""

    name: str
    key: Callable[[], str]
    find_deviations: Callable[[], frozenset[str]]


def own_engine() -> OwnEngine:
    """Return the installed package of our own engine."""
    from dpsql.engines.duckdb import conformance_worker  # noqa: PLC0415

    find = conformance_worker.find_deviations_apart
    return OwnEngine(_DUCKDB.name, conformance_worker.engine_key, find)


_DUCKDB = _DuckDB()
_POSTGRES = _Postgres()
_SPARK = _Spark()


def _broadcast(database: Database, limits: Limits) -> BroadcastTables:
    """Return the public tables that another database has."""
    from dpsql.preparation.public_elsewhere import broadcast  # noqa: PLC0415

    if database.public is None:
        return ()
    kind = get(database.public.engine)
    with closing(kind.open(database.public, limits)) as engine:
        return broadcast(engine, kind.dialect, database.public.tables)


def scratch(limits: Limits, script: Sequence[tuple[str, list[Any]]] = ()) -> Engine:
    """Open an engine without data; `script` holds our own statements, which fill it at the
    start.
    """
    return _DUCKDB.open(Database(_DUCKDB.name), limits, script)


def of_sources(names: Sequence[str]) -> tuple[Database, Engine]:
    """Return the database that an owner names, and an engine over it, before there is a policy.

    Names are a DuckDB file; data files, folders and globs, after an address if Spark reads them; or
    a PostgreSQL as for libpq. Raises `Unreachable` if there is none, and `MissingExtra`.
    """
    from dpsql.engines.duckdb.found_files import is_data, parquet_of, tables_of  # noqa: PLC0415
    from dpsql.engines.postgres.whereabouts import named  # noqa: PLC0415
    from dpsql.engines.spark.spark_server import is_address  # noqa: PLC0415

    kind: EngineKind = _DUCKDB
    if is_address(names[0]):
        kind, files = _SPARK, _absolute(parquet_of(names[1:]))
        database = Database(kind.name, files=files, settings=(("url", names[0]),))
    elif len(names) == 1 and (settings := named(names[0])):
        kind, database = _POSTGRES, Database(_POSTGRES.name, settings=settings)
    elif len(names) == 1 and not is_data(names[0]):
        _is_database(names[0])
        database = Database(kind.name, os.path.abspath(names[0]))  # noqa: PTH100
    else:
        database = with_first_lines(Database(kind.name, files=_absolute(tables_of(names))))
    if (objection := kind.objection(database)) is not None:
        raise Unreachable(objection)
    return database, kind.open(database, Limits())


def with_looked_formats(database: Database, seen: Callable[[str, float], None]) -> Database:
    """Return a database of files with the formats that rows suggest: `dpsql init --look`.

    `seen` is called with a table and the share of its reads that are done.
    """
    from dpsql.engines.duckdb.looked_formats import look_at_rows  # noqa: PLC0415
    from dpsql.model.file_formats import is_text  # noqa: PLC0415

    formats = dict(database.formats)
    for table, by_line in database.formats:
        if is_text(dict(database.files)[table]):
            plain = formats | {table: replace(by_line, columns=(), null_words=())}
            seen(table, 0.0)
            with closing(opened_database(replace(database, formats=tuple(plain.items())))) as texts:
                formats[table] = look_at_rows(texts.rows, table, by_line, partial(seen, table))
    return replace(database, formats=tuple(formats.items()))


def counts_of_texts(
    draft: Draft, rows: Callable[[str], Sequence[tuple[Any, ...]]]
) -> Iterable[TextCounts]:
    """Yield the counts of misfits in the text files of a policy's own database."""
    if draft.database.engine != _DUCKDB.name:
        return ()
    from dpsql.engines.duckdb.duckdb_engine import sources_of  # noqa: PLC0415
    from dpsql.engines.duckdb.text_counts import text_counts  # noqa: PLC0415

    return text_counts(sources_of(draft.database, draft.limits.max_text_length), rows)


_MAGIC = slice(8, 12)
"""Place of the magic bytes in a DuckDB file."""


def _is_database(path: str) -> None:
    """Raise `Unreachable` for a file with a DuckDB name that is not a DuckDB file."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            begin = file.read(_MAGIC.stop)
    except OSError:
        return  # the engine says it
    if begin[_MAGIC] != b"DUCK":
        raise Unreachable(
            f"{path} is no DuckDB file, and its name does not end as Parquet or CSV files do. Name"
            " text files .csv or .tsv, with .gz or .zst if they are compressed so; unpack other"
            " archives, and convert JSON and others."
        )


def with_first_lines(database: Database) -> Database:
    """Return a database of files with text formats, as far as first lines and names show them.

    No row is read. Raises `Unreachable`.
    """
    from dpsql.engines.duckdb.duckdb_engine import sources_of  # noqa: PLC0415
    from dpsql.engines.duckdb.file_views import header_of, partition_keys  # noqa: PLC0415
    from dpsql.engines.duckdb.files import CannotOpen  # noqa: PLC0415
    from dpsql.engines.duckdb.first_lines import format_by_first_line  # noqa: PLC0415
    from dpsql.model.file_formats import FileFormat, is_text  # noqa: PLC0415
    from dpsql.policy.file_drafts import columns_by_name  # noqa: PLC0415

    formats = list[tuple[str, FileFormat]]()
    for table, pattern in database.files:
        one = sources_of(replace(database, files=((table, pattern),)))
        try:
            paths = one.matches()[table]
            by_line, keys = FileFormat(widen=True), partition_keys(paths)
            if all(map(is_text, paths)):
                by_line = format_by_first_line(paths)
                headers = (header_of(path, by_line) for path in paths)
                keys = (*(n for header in headers if header is not None for n in header), *keys)
        except CannotOpen as error:
            raise Unreachable(one.complaint(error.why)) from None
        columns = columns_by_name(tuple({key.lower(): key for key in keys}.values()))
        formats.append((table, replace(by_line, columns=columns)))
    return replace(database, formats=tuple(formats))


def _absolute(files: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((table, os.path.abspath(path)) for table, path in files)  # noqa: PTH100


def scratch_dialect() -> Dialect:
    """Return the dialect of scratch, which does not depend on the owner's database."""
    from dpsql.dialects.duckdb.duckdb_dialect import SCRATCH  # noqa: PLC0415

    return SCRATCH


def dialects(database: Database) -> Dialects:
    """Return the dialects of a policy's database and of scratch."""
    from dpsql.compiler.rewrite.dialect import Dialects  # noqa: PLC0415

    return Dialects(get(database.engine).dialect, scratch_dialect())


def get(name: str) -> EngineKind:
    """Return the kind with that name. Raises `Unusable`."""
    return _BY_NAME.get(name)


_OWN: dict[str, EngineKind] = {kind.name: kind for kind in (_DUCKDB, _POSTGRES, _SPARK)}
_BY_NAME = Registry(
    "engine",
    "dpsql.engines",
    _OWN,
    lambda value, name: value if isinstance(value, EngineKind) and value.name == name else None,
)


def opened_database(database: Database) -> Engine:
    """Open the engine over a database without a policy."""
    return get(database.engine).open(database, Limits())


def opened(draft: Draft) -> Engine:
    """Open the engine over a policy's data. Raises `PolicyError` if the policy names none."""
    return _kind(draft).open(draft.database, draft.limits)


def store_writer(draft: Draft) -> StoreWriter:
    """Return the writer of the store that a policy names.

    Raises `PolicyError` if it names none, or if its engine has no stores; and `Unreachable`.
    """
    from dpsql.engines.duckdb.duckdb_engine import sources_of  # noqa: PLC0415
    from dpsql.engines.duckdb.store_writer import StoreOfDuckDB  # noqa: PLC0415

    kind = _kind(draft)
    if "prepared" not in kind.keys:
        why = f"dpsql prepare copies data that DuckDB reads; what {kind.name} reads stays there."
        raise _wrong(draft, ("engine",), why, "Ask as it is: no question needs a store.")
    if draft.database.prepared is None:
        why = "The policy names no file for what is prepared of its data."
        raise _wrong(draft, (), why, 'Write prepared = "prepared.duckdb"; the engine is duckdb.')
    return StoreOfDuckDB(
        sources_of(draft.database, draft.limits.max_text_length), draft.limits.memory
    )


def pooled(draft: Draft) -> EnginePool:
    """Return a pool of engines for the policy's server, with lower priority than the server."""
    make = partial(_kind(draft).open, draft.database, replace(draft.limits, niceness=NICENESS))
    return EnginePool(make, draft.server.workers, len(draft.analysts))


_WITH_PERIODS = ("duckdb", "postgres")
"""Engines whose rows are read in periods of people (PRIVACY.md R103)."""


def _kind(draft: Draft) -> EngineKind:
    """Return the kind of database that a policy names, after a check of its settings.

    Raises `Unreachable` on a system that cannot limit its processes.
    """
    process_limits()
    if draft.period is not None and draft.database.engine not in _WITH_PERIODS:
        why = f"{draft.database.engine} is not supported with period."
        raise _wrong(draft, ("engine",), why, f"Use one of {', '.join(_WITH_PERIODS)}.")
    if draft.database.public is not None:
        _kind_of(draft, draft.database.public, ("public",))
    return _kind_of(draft, draft.database, ())


def _kind_of(draft: Draft, database: Database, place: tuple[str, ...]) -> EngineKind:
    try:
        kind = get(database.engine)
    except Unusable as error:
        raise _wrong(draft, (*place, "engine"), error.message, error.fix) from None
    fix = f"Give {' or '.join(kind.keys)}."
    for key in database.keys:
        if key not in kind.keys:
            near = get_close_matches(key, kind.keys, 1)
            message = f"The engine {kind.name} has no key {key}."
            raise _wrong(draft, (*place, key), message, f"Did you mean {near[0]}?" if near else fix)
    if (objection := kind.objection(database)) is not None:
        raise _wrong(draft, place, objection, fix)
    return kind


def _wrong(draft: Draft, place: tuple[str, ...], message: str, fix: str) -> PolicyError:
    return PolicyError(draft.path, draft.lines.of(("database", *place)), message, fix)
