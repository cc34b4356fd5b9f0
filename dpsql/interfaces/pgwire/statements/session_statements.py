"""Piece → Command: which statement it is, and what it says. What is none of these is a query."""

from __future__ import annotations

from collections.abc import Callable

from dpsql.dialects.postgres.words import Piece, WordKind
from dpsql.interfaces.pgwire.statements.commands import (
    Ask,
    Begin,
    CloseCursor,
    Command,
    Deallocate,
    Declare,
    Direction,
    Discard,
    Discarded,
    ExecutePrepared,
    Fetch,
    Finish,
    Listen,
    Modes,
    Prepare,
    ReleaseSavepoint,
    Reset,
    Savepoint,
    SetTransaction,
    SetValue,
    Show,
    UnlockAll,
)
from dpsql.interfaces.pgwire.statements.copy_options import copy
from dpsql.interfaces.pgwire.statements.statement_reader import WordReader

_UNLOCK_ALL = ("select", "pg_advisory_unlock_all", "(", ")")
_LEVELS = (
    ("SERIALIZABLE",),
    ("REPEATABLE", "READ"),
    ("READ", "COMMITTED"),
    ("READ", "UNCOMMITTED"),
)
_NO_MODE = "there is no such transaction mode"


def command(piece: Piece) -> Command:
    """What a statement says. Raises `Refused` (SYNTAX) with its place in the piece.

    >>> from dpsql.dialects.postgres.words import pieces
    >>> command(*pieces("SET LOCAL dpsql.epsilon = 0.5"))
    SetValue(name='dpsql.epsilon', value='0.5', local=True)
    """
    first = piece.words[0]
    read = _READERS.get(first.value) if first.kind is WordKind.NAME else None
    if read is None:
        unlocks = tuple(word.value for word in piece.words) == _UNLOCK_ALL
        return UnlockAll() if unlocks else Ask(piece)
    reader = WordReader(piece)
    reader.name()
    return read(reader)


def _ending(reader: WordReader, found: Command) -> Command:
    reader.end()
    return found


# --- transactions ---


def _begin(reader: WordReader) -> Command:
    _ = reader.take("TRANSACTION") or reader.take("WORK")
    return Begin("BEGIN", _modes(reader))


def _start(reader: WordReader) -> Command:
    reader.expect("TRANSACTION")
    return Begin("START TRANSACTION", _modes(reader))


def _modes(reader: WordReader) -> Modes:
    """Wishes about isolation and writing, as settings."""
    found: list[tuple[str, str]] = []
    while reader.next is not None:
        if found:
            reader.take(",")
        if reader.take("ISOLATION", "LEVEL"):
            found.append(("transaction_isolation", _level(reader)))
        elif (access := reader.take_any("READ")) is not None:
            access = reader.take_any("ONLY", "WRITE") or reader.fail(_NO_MODE)
            found.append(("transaction_read_only", "on" if access == "ONLY" else "off"))
        else:
            off = reader.take("NOT")
            reader.expect("DEFERRABLE")
            found.append(("transaction_deferrable", "off" if off else "on"))
    return tuple(found)


def _level(reader: WordReader) -> str:
    level = next((level for level in _LEVELS if reader.take(*level)), None)
    return " ".join(level or reader.fail(_NO_MODE)).lower()


def _commit(reader: WordReader) -> Command:
    return _finish(reader, commit=True)


def _rollback(reader: WordReader) -> Command:
    _ = reader.take("TRANSACTION") or reader.take("WORK")
    if reader.take("TO"):
        reader.take("SAVEPOINT")
        return _ending(reader, ReleaseSavepoint(reader.name(), rollback=True))
    return _finish(reader, commit=False)


def _finish(reader: WordReader, *, commit: bool) -> Command:
    _ = reader.take("TRANSACTION") or reader.take("WORK")
    chain = reader.take("AND", "CHAIN")
    reader.take("AND", "NO", "CHAIN")
    return _ending(reader, Finish(commit, chain))


def _savepoint(reader: WordReader) -> Command:
    return _ending(reader, Savepoint(reader.name()))


def _release(reader: WordReader) -> Command:
    reader.take("SAVEPOINT")
    return _ending(reader, ReleaseSavepoint(reader.name(), rollback=False))


# --- settings ---


def _set(reader: WordReader) -> Command:
    if reader.take("TRANSACTION"):
        return SetTransaction(_modes(reader), session=False)
    if reader.take("SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"):
        return SetTransaction(_modes(reader), session=True)
    local = reader.take_any("SESSION", "LOCAL") == "LOCAL"
    if reader.take("TIME", "ZONE"):
        return _ending(reader, SetValue("timezone", _value(reader), local))
    if reader.take("NAMES"):
        return _ending(reader, SetValue("client_encoding", _value(reader), local))
    name = reader.dotted()
    if not (reader.take("=") or reader.take("TO")):
        reader.fail("expected = or TO")
    return _ending(reader, SetValue(name, _value(reader), local))


def _value(reader: WordReader) -> str | None:
    if reader.take("DEFAULT"):
        return None
    parts = [reader.constant() or ""]
    while reader.take(","):
        parts.append(reader.constant() or "")
    return ", ".join(parts)


def _reset(reader: WordReader) -> Command:
    return _ending(reader, Reset(_named(reader)))


def _show(reader: WordReader) -> Command:
    return _ending(reader, Show(_named(reader)))


def _named(reader: WordReader) -> str | None:
    if reader.take("ALL"):
        return None
    if reader.take("TIME", "ZONE"):
        return "timezone"
    if reader.take("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    return reader.dotted()


def _discard(reader: WordReader) -> Command:
    what = reader.take_any(*Discarded, "TEMPORARY")
    if what is None:
        reader.fail("expected ALL, PLANS, SEQUENCES or TEMP")
    return _ending(reader, Discard(Discarded(what.replace("TEMPORARY", "TEMP"))))


# --- cursors ---


def _declare(reader: WordReader) -> Command:
    name = reader.name()
    binary = backward = False
    while not reader.take("CURSOR"):
        if reader.take("BINARY"):
            binary = True
        elif reader.take("NO", "SCROLL"):
            backward = False
        elif reader.take("SCROLL"):
            backward = True
        elif reader.take_any("INSENSITIVE", "ASENSITIVE") is None:
            reader.fail("expected CURSOR")
    hold = reader.take("WITH", "HOLD")
    reader.take("WITHOUT", "HOLD")
    reader.expect("FOR")
    return Declare(name, reader.rest(), hold, backward, binary)


_ONE_ROW = {
    "NEXT": (Direction.FORWARD, 1),
    "PRIOR": (Direction.BACKWARD, 1),
    "FIRST": (Direction.ABSOLUTE, 1),
    "LAST": (Direction.ABSOLUTE, -1),
}


def _fetching(*, move: bool) -> Callable[[WordReader], Command]:
    def fetch(reader: WordReader) -> Command:
        direction, count = _steps(reader)
        _ = reader.take("FROM") or reader.take("IN")
        return _ending(reader, Fetch(reader.name(), direction, count, move))

    return fetch


def _steps(reader: WordReader) -> tuple[Direction, int | None]:
    word = reader.take_any(*_ONE_ROW)
    if word is not None:
        return _ONE_ROW[word]
    to = reader.take_any("ABSOLUTE", "RELATIVE")
    if to is not None:
        place = reader.whole()
        if place is None:
            reader.fail("expected a number")
        return Direction(to.lower()), place
    way = Direction.BACKWARD if reader.take("BACKWARD") else Direction.FORWARD
    reader.take("FORWARD")
    if reader.take("ALL"):
        return way, None
    count = reader.whole()
    return way, 1 if count is None else count


def _close(reader: WordReader) -> Command:
    return _ending(reader, CloseCursor(None if reader.take("ALL") else reader.name()))


# --- prepared statements, notifications ---


def _prepare(reader: WordReader) -> Command:
    name = reader.name()
    types: tuple[str, ...] = ()
    if reader.next is not None and reader.next.text == "(":
        inner = reader.parenthesised().text
        types = tuple(" ".join(kind.lower().split()) for kind in inner.split(","))
    reader.expect("AS")
    return Prepare(name, types, reader.rest())


def _execute(reader: WordReader) -> Command:
    name = reader.name()
    arguments: list[str | None] = []
    if reader.take("("):
        arguments.append(reader.constant())
        while reader.take(","):
            arguments.append(reader.constant())
        reader.expect(")")
    return _ending(reader, ExecutePrepared(name, tuple(arguments)))


def _deallocate(reader: WordReader) -> Command:
    reader.take("PREPARE")
    return _ending(reader, Deallocate(None if reader.take("ALL") else reader.name()))


def _listen(reader: WordReader) -> Command:
    reader.name()
    return _ending(reader, Listen("LISTEN"))


def _unlisten(reader: WordReader) -> Command:
    if not reader.take("*"):
        reader.name()
    return _ending(reader, Listen("UNLISTEN"))


_READERS: dict[str, Callable[[WordReader], Command]] = {
    "begin": _begin,
    "start": _start,
    "commit": _commit,
    "end": _commit,
    "rollback": _rollback,
    "abort": _rollback,
    "savepoint": _savepoint,
    "release": _release,
    "set": _set,
    "reset": _reset,
    "show": _show,
    "discard": _discard,
    "declare": _declare,
    "fetch": _fetching(move=False),
    "move": _fetching(move=True),
    "close": _close,
    "copy": copy,
    "prepare": _prepare,
    "execute": _execute,
    "deallocate": _deallocate,
    "listen": _listen,
    "unlisten": _unlisten,
}
