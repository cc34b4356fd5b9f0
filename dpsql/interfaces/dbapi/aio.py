"""`dpsql.aio`: a connection for asyncio. Statements run in threads, side by side in the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeVar

from dpsql.interfaces import dbapi
from dpsql.interfaces.dbapi.dbapi_cursor import Cursor, Parameters
from dpsql.interfaces.dbapi.statement_options import Named
from dpsql.preparation.explanation import Explanation

T = TypeVar("T")


class AsyncConnection:
    """A connection of one analyst. Tasks may share it: each statement has a cursor of its own.

    A cancelled task stops its statement and waits for the end of it. A charge remains.
    """

    def __init__(self, connection: dbapi.Connection) -> None:
        self.connection = connection

    async def execute(
        self, sql: str, parameters: Parameters | Named = (), **options: Any
    ) -> Cursor:
        """Answer one SELECT; return its cursor, which has the answer. See `Cursor.execute`."""
        cursor = self.connection.cursor()
        return await _in_thread(cursor, partial(cursor.execute, sql, parameters, **options))

    async def explain(
        self, sql: str, parameters: Parameters | Named = (), **options: Any
    ) -> Explanation:
        """Return the plan, price and expected error of a SELECT; free."""
        cursor = self.connection.cursor()
        return await _in_thread(cursor, partial(cursor.explain, sql, parameters, **options))

    async def tables(self) -> Cursor:
        """List the tables; free."""
        return await asyncio.to_thread(self.connection.tables)

    async def budget(self) -> Cursor:
        """Return the remaining budget; free."""
        return await asyncio.to_thread(self.connection.budget)

    async def close(self) -> None:
        """Close the connection; see `Connection.close`."""
        await asyncio.to_thread(self.connection.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await asyncio.to_thread(self.connection.__exit__)


async def connect(*arguments: Any, **options: Any) -> AsyncConnection:
    """Connect as `dpsql.connect` does, with the same arguments."""
    return AsyncConnection(await asyncio.to_thread(dbapi.connect, *arguments, **options))


async def _in_thread(cursor: Cursor, call: Callable[[], T]) -> T:
    """Return the result of a call in a thread. A cancelled task stops it, and waits for its end."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cursor.cancel()
        await asyncio.wait((running,))
        raise
