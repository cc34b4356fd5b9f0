"""Messages and values on the wire: what is sent is read back, what is broken is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.dialects.statements.commands import CopyFormat, CopyOptions
from dpsql.interfaces.pgwire import backend, frontend
from dpsql.interfaces.pgwire.copy_formats import copied
from dpsql.interfaces.pgwire.frontend import ProtocolError
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.data_rows import data_rows
from dpsql.interfaces.pgwire.values.wire_encoding import OutOfRange, encoder
from dpsql.interfaces.pgwire.values.wire_parameters import BadValue, parameter
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from grammar_tests.wire_kit import messages, packet

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
VALUES: dict[int, st.SearchStrategy[Any]] = {
    type_oids.BOOL: st.booleans(),
    type_oids.INT2: st.integers(-(2**15), 2**15 - 1),
    type_oids.INT4: st.integers(-(2**31), 2**31 - 1),
    type_oids.INT8: st.integers(-(2**63), 2**63 - 1),
    type_oids.OID: st.integers(0, 2**32 - 1),
    type_oids.FLOAT8: st.floats(),
    type_oids.NUMERIC: st.decimals(allow_nan=False, allow_infinity=False, places=9)
    | st.integers(-(10**38), 10**38).map(Decimal),
    type_oids.TEXT: TEXT,
    type_oids.DATE_OID: st.dates(),
    type_oids.TIMESTAMP_OID: MOMENTS,
    type_oids.TIMESTAMPTZ_OID: MOMENTS.map(lambda m: m.replace(tzinfo=UTC)),
    1009: st.lists(st.none() | TEXT, max_size=4),
    1016: st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=4),
}


@pytest.mark.parametrize("oid", VALUES)
@pytest.mark.parametrize("form", [0, 1])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_values_come_back(oid: int, form: int, data: st.DataObject) -> None:
    value = data.draw(VALUES[oid])
    found = parameter(encoder(oid, form)(value), oid, form)
    assert found == value or (isnan(found) and isnan(value))


def packed_pairs(*values: str) -> bytes:
    return b"".join(value.encode() + b"\0" for value in values)


@pytest.mark.full("opens servers or connects clients")
@settings(deadline=None)
@given(
    names=st.tuples(TEXT, TEXT),
    types=st.lists(st.integers(0, 2**32 - 1), max_size=5),
    values=st.lists(st.none() | st.binary(max_size=9), max_size=5),
    formats=st.lists(st.integers(0, 1), max_size=3),
)
def test_messages_come_back(
    names: tuple[str, str], types: list[int], values: list[bytes | None], formats: list[int]
) -> None:
    one, two = names
    body = packed_pairs(one, two) + struct.pack(f"!H{len(types)}I", len(types), *types)
    assert frontend.decode(b"P", body) == frontend.Parse(one, two, tuple(types))
    listed = struct.pack(f"!H{len(formats)}H", len(formats), *formats)
    sized = [struct.pack("!i", -1 if v is None else len(v)) + (v or b"") for v in values]
    body = (
        packed_pairs(one, two) + listed + struct.pack("!H", len(values)) + b"".join(sized) + listed
    )
    bind = frontend.Bind(one, two, tuple(formats), tuple(values), tuple(formats))
    assert frontend.decode(b"B", body) == bind
    assert frontend.decode(b"D", b"P" + packed_pairs(one)) == frontend.Describe(True, one)
    assert frontend.decode(b"C", b"S" + packed_pairs(one)) == frontend.Close(False, one)
    assert frontend.decode(b"E", packed_pairs(one) + b"\0\0\0\5") == frontend.Execute(one, 5)
    head = struct.pack("!i", 3 << 16 | 2)
    startup = frontend.startup(head + packed_pairs("user", one) + b"\0")
    assert startup == frontend.Startup((3, 2), (("user", one),))


@pytest.mark.full("opens servers or connects clients")
@settings(max_examples=300, deadline=None)
@given(kind=st.binary(min_size=1, max_size=1), body=st.binary(max_size=40))
def test_any_bytes_are_a_message_or_refused(kind: bytes, body: bytes) -> None:
    decoders: tuple[Callable[[], object], ...] = (
        lambda: frontend.decode(kind, body),
        lambda: frontend.startup(body),
    )
    for decode in decoders:
        with suppress(ProtocolError):
            assert decode() is not None


def test_blanks_around_members_of_an_array_are_not_theirs() -> None:
    assert parameter(b'{ a b , "c ",\tNULL, "d" }', 1009, 0) == ["a b", "c ", None, "d"]


@pytest.mark.full("opens servers or connects clients")
@settings(max_examples=300, deadline=None)
@given(oid=st.sampled_from(sorted(VALUES)), form=st.integers(0, 1), raw=st.binary(max_size=24))
def test_any_bytes_are_a_value_or_refused(oid: int, form: int, raw: bytes) -> None:
    with suppress(BadValue):
        assert parameter(raw, oid, form) is not None


def test_numbers_are_written_as_postgres_writes_them() -> None:
    text = encoder(type_oids.FLOAT8, 0)
    cases = {1.0: b"1", 0.1: b"0.1", 1e14: b"100000000000000", 1e15: b"1e+15", -2.5e-7: b"-2.5e-07"}
    assert {value: text(value) for value in cases} == cases
    numeric = encoder(type_oids.NUMERIC, 1)
    assert numeric(Decimal("12345.678")) == struct.pack("!HhHH3H", 3, 1, 0, 3, 1, 2345, 6780)
    assert numeric(Decimal("-0.0001")) == struct.pack("!HhHHH", 1, -1, 0x4000, 4, 1)
    assert numeric(Decimal("0.00")) == struct.pack("!HhHH", 0, 0, 0, 2)
    moment = datetime(2024, 7, 1, 12, 30, 0, 500_000, UTC)
    berlin = encoder(type_oids.TIMESTAMPTZ_OID, 0, ZoneInfo("Europe/Berlin"))
    assert berlin(moment) == b"2024-07-01 14:30:00.5+02"
    kolkata = encoder(type_oids.TIMESTAMPTZ_OID, 0, ZoneInfo("Asia/Kolkata"))
    assert kolkata(moment) == b"2024-07-01 18:00:00.5+05:30"
    assert encoder(type_oids.DATE_OID, 1)(date(1999, 12, 31)) == b"\xff\xff\xff\xff"


def test_vectors_are_bare_and_count_from_zero() -> None:
    assert encoder(type_oids.INT2VECTOR, 0)([1, 2]) == b"1 2"
    head = struct.pack("!iiIii", 1, 0, type_oids.INT2, 2, 0)
    assert encoder(type_oids.INT2VECTOR, 1)([1, 2]) == head + struct.pack("!ihih", 2, 1, 2, 2)
    assert encoder(1005, 1)([1])[16:20] == struct.pack("!i", 1)


def test_a_number_too_large_for_its_type_is_an_error() -> None:
    for form in (0, 1):
        with pytest.raises(OutOfRange):
            encoder(type_oids.INT8, form)(2**63)


COLUMNS = (WireColumn("a", type_oids.TEXT), WireColumn("b", type_oids.INT8))
ROWS = [("x\ty\\", None), ("", 2), ('say "hi", NULL', 3)]


def copy_rows(
    rows: Sequence[tuple[Any, ...]], options: CopyOptions, columns: Sequence[WireColumn] = COLUMNS
) -> list[bytes]:
    """The content of each CopyData message, of one table."""
    sent = messages(b"".join(copied(columns, [rows], options, UTC)))
    assert {kind for kind, _ in sent} <= {b"d"}
    return [content for _, content in sent]


def test_copy_escapes_as_postgres_does() -> None:
    assert copy_rows(ROWS, CopyOptions(header=True)) == [
        b"a\tb\n", b"x\\ty\\\\\t\\N\n", b"\t2\n", b'say "hi", NULL\t3\n',
    ]  # fmt: skip
    csv = CopyOptions(CopyFormat.CSV, delimiter=",", null="", force_quote=("b",))
    assert copy_rows(ROWS, csv) == [
        b"x\ty\\,\n", b'"","2"\n', b'"say ""hi"", NULL","3"\n',
    ]  # fmt: skip


def test_the_header_of_binary_copy_comes_with_the_first_row() -> None:
    binary = CopyOptions(CopyFormat.BINARY)
    first, *_, last = copy_rows(ROWS, binary)
    assert first.startswith(b"PGCOPY\n\xff\r\n\0" + b"\0" * 8 + b"\0\2")
    assert last == b"\xff\xff"
    (only,) = copy_rows([], binary)
    assert only == b"PGCOPY\n\xff\r\n\0" + b"\0" * 8 + b"\xff\xff"


def plain_field(field: str | None, options: CopyOptions, *, forced: bool, lone: bool) -> str:
    """One field of COPY, as PostgreSQL's manual says it."""
    if field is None:
        return options.null
    if options.format is CopyFormat.TEXT:
        letters = {**dict(zip("\b\f\n\r\t\v\\", "bfnrtv\\", strict=True))}
        mine = {options.delimiter: options.delimiter, **letters}
        return "".join(f"\\{mine[c]}" if c in mine else c for c in field)
    special = {options.delimiter, options.quote, "\n", "\r"}
    if not (forced or special & set(field) or field == options.null or (lone and field == "\\.")):
        return field
    escaped = "".join(
        options.escape + c if c in (options.quote, options.escape) else c for c in field
    )
    return f"{options.quote}{escaped}{options.quote}"


HARD = st.text(st.sampled_from("ab,|\"'\\\t\n\r\b.Né"), max_size=4)
FIELDS = st.none() | HARD | st.just("\\.")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_copy_writes_columns_at_once_as_it_would_fields_one_by_one(data: st.DataObject) -> None:
    names = ("a", "b", "c")[: data.draw(st.integers(1, 3))]
    columns = [WireColumn(name, type_oids.TEXT) for name in names]
    rows = data.draw(st.lists(st.tuples(*(FIELDS for _ in names)), min_size=1, max_size=5))
    csv = CopyOptions(CopyFormat.CSV, delimiter=",", null="")
    options = data.draw(
        st.sampled_from(
            [
                CopyOptions(),
                CopyOptions(delimiter="|", null="N"),
                csv,
                replace(csv, delimiter="|", quote="'", escape="\\", null="a"),
                replace(csv, force_quote=("a", "c")),
                replace(csv, force_quote=None),
            ]
        )
    )
    forced = [options.force_quote is None or name in options.force_quote for name in names]
    lines = [
        options.delimiter.join(
            plain_field(field, options, forced=must, lone=len(names) == 1)
            for field, must in zip(row, forced, strict=True)
        )
        for row in rows
    ]
    assert copy_rows(rows, options, columns) == [f"{line}\n".encode() for line in lines]


def test_binary_copy_holds_what_rows_do() -> None:
    rows = [(n, n / 2, f"{n}", None) for n in range(5)]
    kinds = (type_oids.INT8, type_oids.FLOAT8, type_oids.TEXT, type_oids.INT4)
    columns = [WireColumn(f"c{kind}", kind) for kind in kinds]
    first, *rest = copy_rows(rows, CopyOptions(CopyFormat.BINARY), columns)
    told = messages(data_rows(rows, [(kind, 1) for kind in kinds], UTC))
    assert [first[19:], *rest] == [*(content for _, content in told), b"\xff\xff"]


def test_server_messages_have_their_length() -> None:
    sent = [
        backend.row_description(COLUMNS, (0, 1)),
        data_rows([("x", None)], [(type_oids.TEXT, 0)] * 2, UTC),
        backend.parameter_description([20, 25]),
        backend.error({"S": "ERROR", "M": "no"}),
        backend.negotiate_version((3, 2), ["_pq_.x"]),
        backend.copy_out(2, 1),
        backend.backend_key(7, b"k" * 32),
    ]
    assert [kind for kind, _ in messages(b"".join(sent))] == [
        b"T",
        b"D",
        b"t",
        b"E",
        b"v",
        b"H",
        b"K",
    ]
    assert messages(sent[1]) == [(b"D", b"\0\2\0\0\0\1x\xff\xff\xff\xff")]


def plain_rows(rows: list[tuple[Any, ...]], formats: list[tuple[int, int]]) -> bytes:
    """Rows put together value by value, as the protocol says it."""
    found = b""
    for row in rows:
        body = struct.pack("!h", len(row))
        for value, (oid, form) in zip(row, formats, strict=True):
            raw = b"" if value is None else encoder(oid, form)(value)
            body += struct.pack("!i", -1 if value is None else len(raw)) + raw
        found += packet(b"D", body)
    return found


CELLS = (
    type_oids.INT8,
    type_oids.INT4,
    type_oids.FLOAT8,
    type_oids.TEXT,
    type_oids.NUMERIC,
    type_oids.BOOL,
)


@pytest.mark.full("opens servers or connects clients")
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_rows_are_written_at_once_as_they_are_one_by_one(data: st.DataObject) -> None:
    formats = data.draw(st.lists(st.tuples(st.sampled_from(CELLS), st.sampled_from((0, 1)))))
    cells = [st.none() | VALUES[oid] if data.draw(st.booleans()) else VALUES[oid]
             for oid, _ in formats]  # fmt: skip
    rows = data.draw(st.lists(st.tuples(*cells), max_size=5))
    assert data_rows(rows, formats, UTC) == plain_rows(rows, formats)


def test_what_does_not_fit_and_odd_text_are_told_at_once_too() -> None:
    for value in (2**63, -(2**63) - 1):
        for form in (0, 1):
            with pytest.raises(OutOfRange):
                data_rows([(1,), (value,)], [(type_oids.INT8, form)], UTC)
    lone = "a\ud800"
    assert data_rows([(lone,)], [(type_oids.TEXT, 0)], UTC).endswith(b"\0\0\0\2a?")
