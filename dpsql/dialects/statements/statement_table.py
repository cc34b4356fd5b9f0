"""Piece → Statement: a table of patterns, one row for each form of a statement.

A text without a matching row is a query. Side systems add rows as data: the kinds of objects that
`dpsql.model.system_table` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from dpsql.dialects.postgres.words import Piece, WordKind, pieces, words
from dpsql.dialects.statements import commands, creations
from dpsql.dialects.statements.statement_reader import WordReader
from dpsql.model.errors import Reason, Refused
from dpsql.model.system_table import KINDS
from dpsql.model.tree import Span

_CONFIG = "set_config"
_UNLOCK_ALL = ("select", "pg_advisory_unlock_all", "(", ")")
_LEVELS = (
    ("SERIALIZABLE",),
    ("REPEATABLE", "READ"),
    ("READ", "COMMITTED"),
    ("READ", "UNCOMMITTED"),
)
_ONE_ROW = {
    "NEXT": (commands.Direction.FORWARD, 1),
    "PRIOR": (commands.Direction.BACKWARD, 1),
    "FIRST": (commands.Direction.ABSOLUTE, 1),
    "LAST": (commands.Direction.ABSOLUTE, -1),
}
_ALL_OF = "SELECT * FROM "
_TRUTH = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
_COPY_TEXTS = ("delimiter", "null", "quote", "escape")
_COPY_OPTIONS = (*_COPY_TEXTS, "format", "header", "force_quote", "encoding")
_NO_MODE = "there is no such transaction mode"
_LONGEST_LISTING = 1_000
"""Maximum length of a text that is read as a listing."""


def session_command(piece: Piece) -> commands.Command:
    """Parse a statement for a session, which asks the proxy for listings and side systems.

    Raises `Refused` (SYNTAX) with its place in the piece.

    >>> from dpsql.dialects.postgres.words import pieces
    >>> session_command(*pieces("SET LOCAL dpsql.epsilon = 0.5"))
    SetValue(name='dpsql.epsilon', value='0.5', local=True)
    """
    said = _of_rows(piece, _ROWS)
    if said is not None and not isinstance(
        said, commands.Explain | commands.Listing | creations.Creation | creations.Drop
    ):
        return said
    if tuple(word.value for word in islice(words(piece.text), len(_UNLOCK_ALL) + 1)) == _UNLOCK_ALL:
        return commands.UnlockAll()
    return (_config(piece) if _CONFIG in piece.text.lower() else None) or commands.Ask(piece)


def read_listing(text: str) -> commands.Listing | None:
    """Parse a text as a listing; None for other texts.

    >>> read_listing("SHOW TABLES;"), read_listing("SELECT 1")
    (Listing(table=(), span=Span(start=0, stop=0)), None)
    >>> read_listing("DESCRIBE analytics.Users").table
    ('analytics', 'Users')
    """
    try:
        said = _of_rows(Piece(text, 0), _LISTINGS) if len(text) <= _LONGEST_LISTING else None
    except Refused:
        return None
    return said if isinstance(said, commands.Listing) else None


def read_system_statement(text: str) -> creations.SystemStatement | None:
    """Parse a text as a statement of a side system; None for other texts. Raises `Refused`.

    >>> read_system_statement("CREATE MODEL m AS SELECT 1 OPTIONS(epsilon = 0.5)")
    Creation(kind='model', name='m', query='SELECT 1', options={'epsilon': '0.5'})
    >>> read_system_statement("drop synthetic table s;")
    Drop(kind='synthetic table', name='s')
    """
    said = _of_rows(Piece(text, 0), _OF_SYSTEMS)
    return said if isinstance(said, creations.Creation | creations.Drop) else None


def _of_rows(piece: Piece, table: _Table) -> commands.Statement | None:
    """Return the statement by the first row that matches. Raises the last refusal in the text."""
    first, errors = next(words(piece.text), None), []
    if first is None or first.kind is not WordKind.NAME:
        return None
    for pattern, make in table.get(first.value, ()):
        try:
            said = _matched(WordReader(piece), pattern, make)
        except Refused as error:
            errors.append(error)
        else:
            if said is not None:
                return said
    if errors:
        raise max(errors, key=lambda error: error.span.start)
    return None


def _config(piece: Piece) -> commands.SetConfig | None:
    """Parse SELECT set_config(name, value, local) of constants; None for other statements."""
    reader = WordReader(piece)
    try:
        reader.expect("SELECT")
        reader.take("PG_CATALOG", ".")
        reader.expect("SET_CONFIG", "(")
        name, value, local = _constants(reader)
        reader.expect(")")
        alias = reader.name() if reader.take("AS") else _CONFIG
        reader.end()
    except (Refused, ValueError):
        return None
    truth = _TRUTH.get((local or "").lower())
    if name is None or truth is None:
        return None
    return commands.SetConfig(name, value, truth, alias)


def _matched(
    reader: WordReader, pattern: str, make: Callable[..., commands.Statement]
) -> commands.Statement | None:
    """Return the statement of a row, made from its slots. Raises `Refused` if it does not fit.

    Returns None if the mismatch is before the row's `!`: it is another statement.
    """
    values, sure = [], "!" not in pattern.split()
    try:
        for part in pattern.split():
            if part == "!":
                sure = True
            elif part.startswith("{"):
                values.append(_SLOTS[part[1:-1]](reader))
            elif part.startswith("["):
                _taken(reader, part[1:-1])
            elif not _taken(reader, part):
                reader.fail(f"expected {part.replace('_', ' ').replace('|', ' or ')}")
        reader.end()
    except Refused:
        if sure:
            raise
        return None
    return make(*values)


def _taken(reader: WordReader, part: str) -> bool:
    """Read one of `A|B_C` if it comes next. Return whether it did."""
    return any(reader.take(*form.split("_")) for form in part.split("|"))


def _modes(reader: WordReader) -> commands.Modes:
    """Parse transaction modes on isolation and writing, as settings."""
    modes: list[tuple[str, str]] = []
    while reader.next is not None:
        if modes:
            reader.take(",")
        if reader.take("ISOLATION", "LEVEL"):
            level = next((level for level in _LEVELS if reader.take(*level)), None)
            level = level or reader.fail(_NO_MODE)
            modes.append(("transaction_isolation", " ".join(level).lower()))
        elif reader.take("READ"):
            access = reader.take_any("ONLY", "WRITE") or reader.fail(_NO_MODE)
            modes.append(("transaction_read_only", "on" if access == "ONLY" else "off"))
        else:
            off = reader.take("NOT")
            reader.expect("DEFERRABLE")
            modes.append(("transaction_deferrable", "off" if off else "on"))
    return tuple(modes)


def _value(reader: WordReader) -> str | None:
    if reader.take("DEFAULT"):
        return None
    return ", ".join(text or "" for text in _constants(reader))


def _zone(reader: WordReader) -> str | None:
    """Parse the value of TIME ZONE: a name, hours, or an interval; None for the default."""
    if reader.take_any("DEFAULT", "LOCAL") is not None:
        return None
    if not reader.take("INTERVAL"):
        return reader.constant()
    interval = reader.word(WordKind.STRING).value
    _ = reader.take("HOUR", "TO", "MINUTE") or reader.take("HOUR")
    return f"interval '{interval}'"


def _constants(reader: WordReader) -> tuple[str | None, ...]:
    constants = [reader.constant()]
    while reader.take(","):
        constants.append(reader.constant())
    return tuple(constants)


def _setting(reader: WordReader) -> str | None:
    """Parse the name of a setting; None for ALL."""
    if reader.take("ALL"):
        return None
    if reader.take("TIME", "ZONE"):
        return "timezone"
    if reader.take("SESSION", "AUTHORIZATION"):
        return "session_authorization"
    if reader.take("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    return reader.dotted()


def _discarded(reader: WordReader) -> commands.Discarded:
    word = reader.take_any(*commands.Discarded, "TEMPORARY")
    word = word or reader.fail("expected ALL, PLANS, SEQUENCES or TEMP")
    return commands.Discarded(word.replace("TEMPORARY", "TEMP"))


def _cursor(reader: WordReader) -> dict[str, bool]:
    """Parse the options of a cursor: `backward` and `binary`."""
    cursor = {"backward": False, "binary": False}
    while not reader.take("CURSOR"):
        if reader.take("BINARY"):
            cursor["binary"] = True
        elif reader.take("NO", "SCROLL"):
            cursor["backward"] = False
        elif reader.take("SCROLL"):
            cursor["backward"] = True
        elif reader.take_any("INSENSITIVE", "ASENSITIVE") is None:
            reader.fail("expected CURSOR")
    return cursor


def _steps(reader: WordReader) -> tuple[commands.Direction, int | None]:
    word = reader.take_any(*_ONE_ROW)
    if word is not None:
        return _ONE_ROW[word]
    to = reader.take_any("ABSOLUTE", "RELATIVE")
    if to is not None:
        place = reader.whole()
        return commands.Direction(to.lower()), reader.fail(
            "expected a number"
        ) if place is None else place
    direction = (
        commands.Direction.BACKWARD if reader.take("BACKWARD") else commands.Direction.FORWARD
    )
    reader.take("FORWARD")
    if reader.take("ALL"):
        return direction, None
    count = reader.whole()
    return direction, 1 if count is None else count


def _view(reader: WordReader) -> tuple[str, tuple[str, ...]]:
    """Parse the name of a view, and the names of its columns if given."""
    name = reader.name()
    following = reader.next
    return name, _columns(reader) if following is not None and following.text == "(" else ()


def _dropped(reader: WordReader) -> commands.DropViews:
    missing = reader.take("IF", "EXISTS")
    names = [reader.name()]
    while reader.take(","):
        names.append(reader.name())
    reader.take_any("CASCADE", "RESTRICT")
    return commands.DropViews(tuple(names), missing)


def _copy(reader: WordReader) -> commands.Copy:
    """Parse the words after COPY. Raises `Refused`."""
    query = _of_table(reader) or reader.parenthesised()
    start = reader.next.span if reader.next else Span(0, 0)
    if reader.take("FROM") or not reader.take("TO", "STDOUT"):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, start, construct="COPY other than TO STDOUT")
    reader.take("WITH")
    given = _in_parentheses(reader) if reader.take("(") else _one_by_one(reader)
    reader.end()
    return commands.Copy(query, _settled(given, start))


def _of_table(reader: WordReader) -> Piece | None:
    """Return a query for a whole table, at the table's place; None if a query is given."""
    if reader.next is None or reader.next.text == "(":
        return None
    table = reader.relation()
    (query,) = pieces(_ALL_OF + table.text)
    return replace(query, offset=table.offset - len(_ALL_OF))


def _in_parentheses(reader: WordReader) -> dict[str, Any]:
    """Parse options in parentheses: names and values, separated by commas."""
    given: dict[str, Any] = {}
    while True:
        before = reader.next
        name = reader.name()
        if before is None or name not in _COPY_OPTIONS or name in given:
            span = before.span if before else Span(0, 0)
            raise Refused(Reason.SYNTAX, span, why="there is no such option of COPY")
        given[name] = _copy_value(name, reader)
        if reader.take(")"):
            return given
        reader.expect(",")


def _copy_value(name: str, reader: WordReader) -> Any:
    following = reader.next
    if name == "force_quote":
        return None if reader.take("*") else _columns(reader)
    if name == "header":
        if following is None or following.text in ",)":
            return True
        truth = _TRUTH.get(reader.constant() or "")
        return reader.fail("HEADER is true or false") if truth is None else truth
    return reader.constant()


def _columns(reader: WordReader) -> tuple[str, ...]:
    reader.expect("(")
    names = [reader.name()]
    while reader.take(","):
        names.append(reader.name())
    reader.expect(")")
    return tuple(names)


def _one_by_one(reader: WordReader) -> dict[str, Any]:
    """Parse options in the syntax before PostgreSQL 9: CSV HEADER DELIMITER AS '|'."""
    given: dict[str, Any] = {}
    while reader.next is not None:
        name = reader.word(WordKind.NAME).value
        if name in ("csv", "binary"):
            given["format"] = name
        elif name == "header":
            given["header"] = True
        elif name in (*_COPY_TEXTS, "encoding"):
            reader.take("AS")
            given[name] = reader.constant()
        elif name == "force" and reader.take("QUOTE"):
            given["force_quote"] = None if reader.take("*") else (reader.name(),)
        else:
            reader.fail("there is no such option of COPY")
    return given


def _settled(given: dict[str, Any], span: Span) -> commands.CopyOptions:
    kind = given.pop("format", None) or "text"
    if kind not in tuple(commands.CopyFormat):
        raise Refused(Reason.SYNTAX, span, why="the formats of COPY are text, csv and binary")
    if (given.pop("encoding", None) or "utf8").lower() not in ("utf8", "utf-8", "unicode"):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="an encoding other than UTF8")
    csv = kind == commands.CopyFormat.CSV
    options = (
        commands.CopyOptions(commands.CopyFormat.CSV, delimiter=",", null="")
        if csv
        else commands.CopyOptions()
    )
    if kind == commands.CopyFormat.BINARY and given:
        raise Refused(Reason.SYNTAX, span, why="binary COPY has no such option")
    if not csv and given.keys() & {"quote", "escape", "force_quote"}:
        raise Refused(Reason.SYNTAX, span, why="only CSV has this option")
    if "quote" in given:
        given.setdefault("escape", given["quote"])
    options = replace(options, **given, format=commands.CopyFormat(kind))
    single = (options.delimiter, options.quote, options.escape)
    if any(len(text.encode()) != 1 or text in "\r\n" for text in single):
        raise Refused(Reason.SYNTAX, span, why="delimiter, quote and escape are one character")
    return options


def _set(name: str, local: bool, value: str | None) -> commands.SetValue:  # noqa: FBT001 - slots in order
    return commands.SetValue(name, value, local=local)


def _constraints(reader: WordReader) -> None:
    """Skip the names of constraints. There are none to check."""
    if not reader.take("ALL"):
        reader.dotted()
        while reader.take(","):
            reader.dotted()


def _described(reader: WordReader) -> commands.Listing:
    """Parse the dotted name of a table as written, with its place."""
    first = reader.next
    parts, last = list[str](), first
    while not parts or reader.take("."):
        last = reader.word(WordKind.NAME, WordKind.QUOTED)
        parts.append(last.value if last.kind is WordKind.QUOTED else last.text)
    span = Span(first.start if first else 0, last.stop if last else 0)
    return commands.Listing(tuple(parts), span)


_SLOTS: dict[str, Callable[[WordReader], Any]] = {
    "constants": _constants,
    "constraints": _constraints,
    "copy": _copy,
    "cursor": _cursor,
    "discarded": _discarded,
    "dropped": _dropped,
    "end": WordReader.end,
    "local": lambda reader: reader.take_any("SESSION", "LOCAL") == "LOCAL",
    "modes": _modes,
    "name": WordReader.name,
    "names": lambda reader: None if reader.take("ALL") else reader.name(),
    "query": WordReader.rest,
    "setting": _setting,
    "steps": _steps,
    "table": _described,
    "types": lambda reader: tuple(
        " ".join(kind.lower().split()) for kind in reader.parenthesised().text.split(",")
    ),
    "value": _value,
    "zone": _zone,
    "variable": WordReader.dotted,
    "view": _view,
    **{
        f"created:{kind.replace(' ', '_')}": partial(
            creations.read_creation, kind, system.kinds[kind]
        )
        for kind, system in KINDS.items()
    },
    **{f"dropped:{kind.replace(' ', '_')}": partial(creations.read_drop, kind) for kind in KINDS},
}
"""Parsers of the slots of a row."""

_Row: TypeAlias = tuple[str, Callable[..., commands.Statement]]
_Table: TypeAlias = Mapping[str, Sequence[_Row]]

_LISTED: tuple[_Row, ...] = (
    ("SHOW [ALL] TABLES {end} !", lambda _: commands.Listing()),
    ("SHOW COLUMNS FROM|IN {table} {end} !", lambda table, _: table),
    ("DESCRIBE|DESC {end} !", lambda _: commands.Listing()),
    ("DESCRIBE|DESC TABLE {table} {end} !", lambda table, _: table),
    ("DESCRIBE|DESC {table} {end} !", lambda table, _: table),
)

_MADE: tuple[_Row, ...] = tuple(
    (f"{verb} {kind.upper()} ! {{{slot}:{kind.replace(' ', '_')}}}", lambda said: said)
    for kind in KINDS
    for verb, slot in (("CREATE", "created"), ("DROP", "dropped"))
)

_OF_SESSIONS: tuple[_Row, ...] = (
    ("BEGIN [TRANSACTION|WORK] {modes}", partial(commands.Begin, "BEGIN")),
    ("START TRANSACTION {modes}", partial(commands.Begin, "START TRANSACTION")),
    (
        "COMMIT|END [TRANSACTION|WORK] [AND_NO_CHAIN]",
        lambda: commands.Finish(commit=True, chain=False),
    ),
    ("COMMIT|END [TRANSACTION|WORK] AND_CHAIN", lambda: commands.Finish(commit=True, chain=True)),
    (
        "ROLLBACK|ABORT [TRANSACTION|WORK] [AND_NO_CHAIN]",
        lambda: commands.Finish(commit=False, chain=False),
    ),
    (
        "ROLLBACK|ABORT [TRANSACTION|WORK] AND_CHAIN",
        lambda: commands.Finish(commit=False, chain=True),
    ),
    (
        "ROLLBACK|ABORT [TRANSACTION|WORK] TO [SAVEPOINT] {name}",
        partial(commands.ReleaseSavepoint, rollback=True),
    ),
    ("SAVEPOINT {name}", commands.Savepoint),
    ("RELEASE [SAVEPOINT] {name}", partial(commands.ReleaseSavepoint, rollback=False)),
    (
        "SET {local} {variable} =|TO {value}",
        lambda local, name, value: commands.SetValue(name, value, local=local),
    ),
    ("SET TRANSACTION {modes}", partial(commands.SetTransaction, session=False)),
    (
        "SET SESSION_CHARACTERISTICS_AS_TRANSACTION {modes}",
        partial(commands.SetTransaction, session=True),
    ),
    ("SET {local} TIME_ZONE {zone}", partial(_set, "timezone")),
    ("SET {local} NAMES {value}", partial(_set, "client_encoding")),
    ("SET {local} NAMES", lambda local: commands.SetValue("client_encoding", None, local)),
    ("SET {local} SCHEMA {value}", partial(_set, "search_path")),
    ("SET {local} ROLE {value}", partial(_set, "role")),
    (
        "SET SESSION_AUTHORIZATION {value}",
        lambda value: commands.SetValue("session_authorization", value, local=False),
    ),
    (
        "SET CONSTRAINTS {constraints} DEFERRED|IMMEDIATE",
        lambda _names: commands.Accepted("SET CONSTRAINTS"),
    ),
    ("RESET {setting}", commands.Reset),
    ("SHOW {setting}", commands.Show),
    ("DISCARD {discarded}", commands.Discard),
    (
        "CREATE TEMP|TEMPORARY VIEW ! {view} AS {query}",
        lambda view, query: commands.CreateView(view[0], view[1], query, replace=False),
    ),
    (
        "CREATE OR_REPLACE TEMP|TEMPORARY VIEW ! {view} AS {query}",
        lambda view, query: commands.CreateView(view[0], view[1], query, replace=True),
    ),
    ("DROP VIEW ! {dropped}", lambda dropped: dropped),
    (
        "DECLARE {name} {cursor} [WITHOUT_HOLD] FOR {query}",
        lambda name, cursor, query: commands.Declare(name, query, hold=False, **cursor),
    ),
    (
        "DECLARE {name} {cursor} WITH_HOLD FOR {query}",
        lambda name, cursor, query: commands.Declare(name, query, hold=True, **cursor),
    ),
    (
        "FETCH {steps} [FROM|IN] {name}",
        lambda steps, name: commands.Fetch(name, steps[0], steps[1], move=False),
    ),
    (
        "MOVE {steps} [FROM|IN] {name}",
        lambda steps, name: commands.Fetch(name, steps[0], steps[1], move=True),
    ),
    ("CLOSE {names}", commands.CloseCursor),
    ("COPY {copy}", lambda copied: copied),
    ("PREPARE {name} AS {query}", lambda name, query: commands.Prepare(name, (), query)),
    ("PREPARE {name} {types} AS {query}", commands.Prepare),
    ("EXECUTE {name}", lambda name: commands.ExecutePrepared(name, ())),
    ("EXECUTE {name} ( {constants} )", commands.ExecutePrepared),
    ("DEALLOCATE [PREPARE] {names}", commands.Deallocate),
    ("LISTEN {name}", lambda _channel: commands.Accepted("LISTEN")),
    ("UNLISTEN {name}", lambda _channel: commands.Accepted("UNLISTEN")),
    ("UNLISTEN *", lambda: commands.Accepted("UNLISTEN")),
)
"""Rows of patterns, each with the function that makes the command.

Words stand in order: `A|B` is either, `A_B` both, `[A]` optional, `{slot}` a slot. A text that
matches up to `!` is this statement, regardless of the rest.
"""


def _by_first_word(rows: Sequence[_Row]) -> _Table:
    table: dict[str, list[_Row]] = {}
    for row in rows:
        for first in row[0].split()[0].lower().split("|"):
            table.setdefault(first, []).append(row)
    return table


_LISTINGS, _OF_SYSTEMS = _by_first_word(_LISTED), _by_first_word(_MADE)
_ROWS = _by_first_word((*_LISTED, *_OF_SESSIONS))
