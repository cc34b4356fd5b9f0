"""dpsql: a privacy proxy for SQL.

`connect` is PEP 249; `ask` and `explain` answer one question each; `watch` answers a stream
of them by one bit each; `plan_text` prints a plan, `sentences` tell the notices of an answer.
Everything is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsql.interfaces.dbapi import (
        Connection,
        Cursor,
        DatabaseError,
        DataError,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        Warning,  # noqa: A004
        apilevel,
        connect,
        paramstyle,
        threadsafety,
    )
    from dpsql.interfaces.dbapi import aio as aio
    from dpsql.interfaces.dbapi.direct import ask, explain, watch
    from dpsql.interfaces.plan_text import plan_text
    from dpsql.interfaces.sentences import sentences

    __version__: str

__all__ = [
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "__version__",
    "aio",
    "apilevel",
    "ask",
    "connect",
    "explain",
    "paramstyle",
    "plan_text",
    "sentences",
    "threadsafety",
    "watch",
]

_DBAPI = "dpsql.interfaces.dbapi"
_HOMES = {
    "ask": "dpsql.interfaces.dbapi.direct",
    "explain": "dpsql.interfaces.dbapi.direct",
    "plan_text": "dpsql.interfaces.plan_text",
    "sentences": "dpsql.interfaces.sentences",
    "watch": "dpsql.interfaces.dbapi.direct",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("dpsql")
    if find_spec(f"dpsql.{name}"):
        # A room of this package, which whoever asks for it imports: nothing else is begun here.
        raise AttributeError(f"module 'dpsql' has no attribute {name!r}")
    import_module("dpsql.model.public_times").require_clock()  # before anything imports logging
    if name == "aio":
        return import_module("dpsql.interfaces.dbapi.aio")
    home = import_module(_HOMES.get(name, _DBAPI))
    # PEP 249 wants its type objects and constructors on the module too.
    if name in _HOMES or name in home.__all__:
        return getattr(home, name)
    raise AttributeError(f"module 'dpsql' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
