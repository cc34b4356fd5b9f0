"""Statements of a session: divided, told apart, read; what is none of them goes on as a query."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.dialects.postgres.words import numbered, pieces, words
from dpsql.dialects.statements.commands import (
    Accepted,
    Ask,
    Begin,
    CloseCursor,
    Command,
    Copy,
    CopyFormat,
    CopyOptions,
    Deallocate,
    Declare,
    Direction,
    Discard,
    Discarded,
    ExecutePrepared,
    Fetch,
    Finish,
    Prepare,
    ReleaseSavepoint,
    Reset,
    Savepoint,
    SetConfig,
    SetTransaction,
    SetValue,
    Show,
)
from dpsql.dialects.statements.statement_table import session_command as command
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span

SERIALIZABLE = "transaction_isolation", "serializable"
READ_ONLY = "transaction_read_only", "on"


def read(text: str) -> Command:
    (piece,) = pieces(text)
    return command(piece)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("begin", Begin("BEGIN")),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
         Begin("BEGIN", (SERIALIZABLE, READ_ONLY))),
        ("START TRANSACTION READ ONLY", Begin("START TRANSACTION", (READ_ONLY,))),
        ("COMMIT WORK", Finish(commit=True, chain=False)),
        ("END", Finish(commit=True, chain=False)),
        ("ROLLBACK AND CHAIN", Finish(commit=False, chain=True)),
        ("ABORT", Finish(commit=False, chain=False)),
        ("SAVEPOINT a", Savepoint("a")),
        ('RELEASE SAVEPOINT "A"', ReleaseSavepoint("A", rollback=False)),
        ("ROLLBACK TO a", ReleaseSavepoint("a", rollback=True)),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
         SetTransaction((READ_ONLY,), session=True)),
        ("SET TRANSACTION READ WRITE NOT DEFERRABLE",
         SetTransaction((("transaction_read_only", "off"), ("transaction_deferrable", "off")),
                        session=False)),
        ("SET extra_float_digits = 3", SetValue("extra_float_digits", "3", local=False)),
        ("SET LOCAL statement_timeout TO '5s'", SetValue("statement_timeout", "5s", local=True)),
        ('SET search_path TO a, "B"', SetValue("search_path", "a, B", local=False)),
        ("SET TIME ZONE 'Europe/Berlin'", SetValue("timezone", "Europe/Berlin", local=False)),
        ("SET NAMES 'UTF8'", SetValue("client_encoding", "UTF8", local=False)),
        ("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE",
         SetValue("timezone", "interval '+00:00'", local=False)),
        ("SET LOCAL TIME ZONE -7", SetValue("timezone", "-7", local=True)),
        ("SET SESSION TIME ZONE LOCAL", SetValue("timezone", None, local=False)),
        ("SET NAMES", SetValue("client_encoding", None, local=False)),
        ("SET SCHEMA 'a'", SetValue("search_path", "a", local=False)),
        ("SET ROLE NONE", SetValue("role", "none", local=False)),
        ("SET SESSION AUTHORIZATION DEFAULT",
         SetValue("session_authorization", None, local=False)),
        ("RESET SESSION AUTHORIZATION", Reset("session_authorization")),
        ("SET CONSTRAINTS ALL DEFERRED", Accepted("SET CONSTRAINTS")),
        ("SET CONSTRAINTS a, b.c IMMEDIATE", Accepted("SET CONSTRAINTS")),
        ("SELECT set_config('TimeZone', 'UTC', false)",
         SetConfig("TimeZone", "UTC", local=False, column="set_config")),
        ("select pg_catalog.Set_Config('jit', 'off', true) AS x",
         SetConfig("jit", "off", local=True, column="x")),
        ("SET dpsql.notices = DEFAULT", SetValue("dpsql.notices", None, local=False)),
        ("RESET ALL", Reset(None)),
        ("SHOW transaction isolation level", Show("transaction_isolation")),
        ("SHOW ALL", Show(None)),
        ("DISCARD TEMPORARY", Discard(Discarded.TEMP)),
        ("FETCH FORWARD ALL FROM c", Fetch("c", Direction.FORWARD, None, move=False)),
        ("FETCH c", Fetch("c", Direction.FORWARD, 1, move=False)),
        ("FETCH -2 IN c", Fetch("c", Direction.FORWARD, -2, move=False)),
        ("FETCH ABSOLUTE -1 FROM c", Fetch("c", Direction.ABSOLUTE, -1, move=False)),
        ("MOVE BACKWARD 5 FROM c", Fetch("c", Direction.BACKWARD, 5, move=True)),
        ("FETCH PRIOR c", Fetch("c", Direction.BACKWARD, 1, move=False)),
        ("CLOSE ALL", CloseCursor(None)),
        ("DEALLOCATE PREPARE p", Deallocate("p")),
        ("EXECUTE p (1, 'it''s', NULL, -2.5)", ExecutePrepared("p", ("1", "it's", None, "-2.5"))),
        ("LISTEN news", Accepted("LISTEN")),
        ("UNLISTEN *", Accepted("UNLISTEN")),
    ],
)  # fmt: skip
def test_statements_are_read(text: str, found: Command) -> None:
    assert read(text) == found


def test_statements_that_hold_a_query() -> None:
    declared = read("DECLARE c BINARY SCROLL CURSOR WITH HOLD FOR SELECT 1 + $x$;$x$")
    assert isinstance(declared, Declare)
    assert (declared.hold, declared.backward, declared.binary) == (True, True, True)
    assert (declared.query.text, declared.query.offset) == ("SELECT 1 + $x$;$x$", 45)
    prepared = read("PREPARE p (int, character varying) AS SELECT $1")
    assert isinstance(prepared, Prepare)
    assert (prepared.types, prepared.query.text) == (("int", "character varying"), "SELECT $1")
    copied = read("COPY (SELECT (1)) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (a))")
    assert isinstance(copied, Copy)
    assert copied.query.text == "SELECT (1)"
    assert copied.options == CopyOptions(
        CopyFormat.CSV, header=True, delimiter=",", null="", force_quote=("a",)
    )
    old = read("COPY (SELECT 1) TO STDOUT WITH CSV DELIMITER AS '|' QUOTE '~'")
    assert isinstance(old, Copy)
    assert (old.options.delimiter, old.options.quote, old.options.escape) == ("|", "~", "~")


@pytest.mark.parametrize("text", ["SELECT 1", "INSERT INTO t VALUES (1)", "EXPLAIN PRIVACY x", "(",
                                  "SELECT set_config('a', b.c, false)",
                                  "SELECT set_config('a', 'b', false) FROM t"])  # fmt: skip
def test_anything_else_is_a_query(text: str) -> None:
    assert isinstance(read(text), Ask)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("FETCH 1 2 FROM c", Span(8, 9)),
        ("SAVEPOINT", Span(8, 9)),
        ("BEGIN ISOLATION LEVEL chaos", Span(22, 27)),
        ("SET a 1", Span(6, 7)),
        ("COPY (SELECT 1) TO STDOUT (colour red)", Span(27, 33)),
        ("COPY (SELECT 1) TO STDOUT (DELIMITER 'ab')", Span(16, 18)),
        ("SELECT 'a", Span(7, 8)),
        ("SELECT /* a /* b */", Span(7, 9)),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(text: str, place: Span) -> None:
    with pytest.raises(Refused) as caught:
        read(text)
    assert (caught.value.reason, caught.value.span) == (Reason.SYNTAX, place)


def test_semicolons_divide_where_postgres_sees_them() -> None:
    text = "SELECT ';', \";\", $$;$$, E'\\';' -- ;\n; /* ; /* ; */ */ BEGIN;;"
    assert [(p.text, p.offset) for p in pieces(text)] == [
        ("SELECT ';', \";\", $$;$$, E'\\';'", 0),
        ("BEGIN", 54),
    ]
    assert pieces(" ; -- nothing\n;") == ()


def test_numbers_become_marks_in_place() -> None:
    (piece,) = pieces("SELECT '$1', $2, $13 + $2 -- $3")
    found = numbered(piece)
    assert found.numbers == (2, 13, 2)
    assert [found.text[p.start : p.stop] for p in found.places] == ["?", "?", "?"]
    assert len(found.text) == len(piece.text)


@given(st.text(alphabet="aAeE'\"$;-/*\\ \n1.?:(é", max_size=40))
def test_any_text_is_divided_or_refused(text: str) -> None:
    with suppress(Refused):
        for piece in pieces(text):
            assert text[piece.offset :].startswith(piece.text)
            assert all(piece.text[w.start : w.stop] == w.text for w in piece.words)
        divided = [(piece.offset + w.start, w.text) for piece in pieces(text) for w in piece.words]
        assert divided == [(w.start, w.text) for w in words(text) if w.text != ";"]
