"""COPY (query) TO STDOUT: its options, in today's spelling and in the old one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpsql.dialects.postgres.words import Piece, WordKind, pieces
from dpsql.interfaces.pgwire.statements.commands import Copy, CopyFormat, CopyOptions
from dpsql.interfaces.pgwire.statements.statement_reader import WordReader
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span

_ALL = "SELECT * FROM "
_TRUTH = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
_CHARACTERS = ("delimiter", "null", "quote", "escape")
_OPTIONS = (*_CHARACTERS, "format", "header", "force_quote", "encoding")


def copy(reader: WordReader) -> Copy:
    """The words behind COPY. Raises `Refused`."""
    query = _of_table(reader) or reader.parenthesised()
    start = reader.next.span if reader.next else Span(0, 0)
    if reader.take("FROM") or not reader.take("TO", "STDOUT"):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, start, construct="COPY other than TO STDOUT")
    reader.take("WITH")
    given = _listed(reader) if reader.take("(") else _old(reader)
    reader.end()
    return Copy(query, _settled(given, start))


def _of_table(reader: WordReader) -> Piece | None:
    """The query for all of a table, at the table's place; None where a query is given."""
    if reader.next is None or reader.next.text == "(":
        return None
    table = reader.relation()
    (query,) = pieces(_ALL + table.text)
    return replace(query, offset=table.offset - len(_ALL))


def _listed(reader: WordReader) -> dict[str, Any]:
    """Options in parentheses: name and value, divided by commas."""
    given: dict[str, Any] = {}
    while True:
        before = reader.next
        name = reader.name()
        if before is None or name not in _OPTIONS or name in given:
            span = before.span if before else Span(0, 0)
            raise Refused(Reason.SYNTAX, span, why="there is no such option of COPY")
        given[name] = _value_of(name, reader)
        if reader.take(")"):
            return given
        reader.expect(",")


def _value_of(name: str, reader: WordReader) -> Any:
    following = reader.next
    if name == "force_quote":
        return None if reader.take("*") else _names(reader)
    if name == "header":
        if following is None or following.text in ",)":
            return True
        truth = _TRUTH.get(reader.constant() or "")
        return reader.fail("HEADER is true or false") if truth is None else truth
    return reader.constant()


def _names(reader: WordReader) -> tuple[str, ...]:
    reader.expect("(")
    names = [reader.name()]
    while reader.take(","):
        names.append(reader.name())
    reader.expect(")")
    return tuple(names)


def _old(reader: WordReader) -> dict[str, Any]:
    """Options as before PostgreSQL 9: CSV HEADER DELIMITER AS '|'."""
    given: dict[str, Any] = {}
    while reader.next is not None:
        name = reader.word(WordKind.NAME).value
        if name in ("csv", "binary"):
            given["format"] = name
        elif name == "header":
            given["header"] = True
        elif name in (*_CHARACTERS, "encoding"):
            reader.take("AS")
            given[name] = reader.constant()
        elif name == "force" and reader.take("QUOTE"):
            given["force_quote"] = None if reader.take("*") else (reader.name(),)
        else:
            reader.fail("there is no such option of COPY")
    return given


def _settled(given: dict[str, Any], span: Span) -> CopyOptions:
    kind = given.pop("format", None) or "text"
    if kind not in tuple(CopyFormat):
        raise Refused(Reason.SYNTAX, span, why="the formats of COPY are text, csv and binary")
    if (given.pop("encoding", None) or "utf8").lower() not in ("utf8", "utf-8", "unicode"):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="an encoding other than UTF8")
    csv = kind == CopyFormat.CSV
    options = CopyOptions(CopyFormat.CSV, delimiter=",", null="") if csv else CopyOptions()
    if kind == CopyFormat.BINARY and given:
        raise Refused(Reason.SYNTAX, span, why="binary COPY has no such option")
    if not csv and given.keys() & {"quote", "escape", "force_quote"}:
        raise Refused(Reason.SYNTAX, span, why="only CSV has this option")
    if "quote" in given:
        given.setdefault("escape", given["quote"])
    options = replace(options, **given, format=CopyFormat(kind))
    single = (options.delimiter, options.quote, options.escape)
    if any(len(text.encode()) != 1 or text in "\r\n" for text in single):
        raise Refused(Reason.SYNTAX, span, why="delimiter, quote and escape are one character")
    return options
