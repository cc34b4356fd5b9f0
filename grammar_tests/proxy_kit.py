"""The real proxy over a folder of its own, and an engine that tells what it was asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, TypeAlias

import numpy as np

from dpsql.engines import Engine, Load, MadeTotals, ScratchTable, Stop, Unrun
from dpsql.model.table import Table
from dpsql.model.vocabulary import Answer, Exact, Request
from dpsql.preparation.compilation import Compiler
from dpsql.proxy import Proxy
from dpsql.release.release import Sampler
from dpsql.vault.vault import Vault
from grammar_tests import world
from grammar_tests.bound import CATALOGS

Kind: TypeAlias = type[Proxy | Vault | Compiler]
"""What a twin breaks: the proxy or one of its parts."""

PRIVATE = ("customers", "orders", "items", "events", "logins")
BY_COUNTRY = "SELECT country, COUNT(*) AS n FROM customers GROUP BY country"
SLOW = "SELECT COUNT(*) FROM range(100000000) a, range(100000000) b WHERE a.range % 7 = b.range % 5"
QUOTING = "SELECT error('secret of ' || MAX(name)) FROM customers"


def policy(folder: Path, *changes: tuple[str, str]) -> Path:
    """The shop's policy with a second analyst, in this folder; each change must apply."""
    text = (CATALOGS / "shop.toml").read_text(encoding="utf-8")
    text = text.replace("[ledger]", '[analysts.bob]\nbudget = "default"\n\n[ledger]')
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "dpsql.toml"
    path.write_text(text, encoding="utf-8")
    return path


def shop(
    folder: Path,
    *changes: tuple[str, str],
    tables: world.Tables | None = None,
    constraints: bool = True,
    without: int | None = None,
) -> Path:
    """A policy beside its database, from which one unit may be missing."""
    folder.mkdir(exist_ok=True)
    rows = world.well_behaved() if tables is None else tables
    listed = tuple((name, tuple(each)) for name, each in rows.items())
    (folder / "shop.duckdb").write_bytes(_database(listed, constraints, without))
    return policy(folder, *changes)


@lru_cache(16)
def _database(
    tables: tuple[tuple[str, tuple[Any, ...]], ...],
    constraints: bool,  # noqa: FBT001
    without: int | None,
) -> bytes:
    """A file of these rows: most tests want the same."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "shop.duckdb"
        rows = {name: list(each) for name, each in tables}
        with world.build(rows, str(path), constraints=constraints) as connection:
            for statement in [] if without is None else world.deletions(without):
                connection.execute(statement)
        return path.read_bytes()


def never_twice() -> Sampler:
    """Noise that is another number at every draw, so that no two answers are the same."""
    numbers = count()
    return lambda _law, draws: np.array([next(numbers) for _ in range(draws)])


def request(sql: str, epsilon: str | None = None, analyst: str = "ana", *values: Any) -> Request:
    asked = None if epsilon is None else Decimal(epsilon)
    return Request(sql, analyst, parameters=values, epsilon=asked)


class WatchedEngine:
    """The engine of a proxy, recorded: every call, and what to do before a private one.

    `instead` runs in place of a private statement, in the same worker and under the same limits.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[], None] = lambda: None
        self.instead: str | None = None
        self.running = Event()

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        self.calls.append(("rows", sql))
        return self.engine.rows(sql, stop, data)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        self.calls.append(("rows", sql))
        return self.engine.few(sql, cells, stop)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        self.calls.append(("rows", sql))
        self.engine.each(sql, take, stop)

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> Sequence[tuple[Any, ...]]:
        self.calls.append(("evaluate", sql))
        return self.engine.evaluate(sql, tables, stop)

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[tuple[Any, ...]]:
        self.calls.append(("scratch", sql))
        return self.engine.scratch(sql, tables, stop, cells)

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        self.calls.append(("ready", ""))
        self.engine.ready(data, stop)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        self.calls.append(("bind", "; ".join(statement.sql for statement in statements)))
        self.engine.bind(statements, stop, data)

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
        stop: Stop | None = None,
        data: str | None = None,
        totals: MadeTotals | None = None,
    ) -> Exact:
        self.calls.append(("aggregate", sql))
        self.before()
        self.running.set()
        if self.instead is not None:
            return self.engine.aggregate(self.instead, 0, 1, sampling_key, stop=stop)
        return self.engine.aggregate(sql, keys, parts, sampling_key, tables, stop, data, totals)

    def drop_made(self, key: str) -> None:
        self.engine.drop_made(key)

    def schema(self) -> Any:
        return self.engine.schema()

    @property
    def accepted(self) -> Any:
        return self.engine.accepted

    def follow(self, accepted: Any) -> None:
        self.engine.follow(accepted)

    @contextmanager
    def taken(self, _stop: Stop | None = None) -> Iterator[WatchedEngine]:
        yield self

    def cancel(self) -> None:
        self.engine.cancel()

    def close(self) -> None:
        self.engine.close()

    def private(self) -> list[str]:
        """The statements that could have seen private data."""
        names = re.compile(rf"\b({'|'.join(PRIVATE)})\b", re.IGNORECASE)
        return [
            sql for kind, sql in self.calls if kind == "aggregate" or
            (kind == "rows" and names.search(sql))
        ]  # fmt: skip


def opened(path: Path, kind: Kind = Proxy) -> Proxy:
    """An open proxy of this kind, or with such a compiler or vault in the place of its own."""
    if issubclass(kind, Proxy):
        return kind.open(str(path))
    proxy = Proxy.open(str(path))
    if issubclass(kind, Vault):
        proxy.vault = kind(proxy.vault.ledger, proxy.vault.engine)
    else:
        proxy.compiler = kind(proxy.policy, proxy.compiler.public)
    return proxy


def through(proxy: Proxy, engine: Any) -> None:
    """Have a proxy do everything through this engine."""
    proxy.vault.engine = engine
    proxy.compiler.public._engine = engine


def watched(path: Path, kind: Kind = Proxy) -> tuple[Proxy, WatchedEngine]:
    """An open proxy whose engine is watched from now on."""
    proxy = opened(path, kind)
    engine = WatchedEngine(proxy.vault.engine)
    through(proxy, engine)
    return proxy, engine


def shape(answer: Answer) -> tuple[tuple[str, str], ...]:
    """What the text alone decides of an answer."""
    return tuple((column.name, str(column.type)) for column in answer.columns)
