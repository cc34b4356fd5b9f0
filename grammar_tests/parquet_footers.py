"""Footers of Parquet files, read and written anew with other statistics, as other writers do."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

Struct = dict[int, tuple[int, Any]]
"""Fields of a structure of Thrift's compact protocol: the type and value of each number."""
BOOLEANS, BYTE, INTEGERS, DOUBLE, BYTES, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
GROUPS, COLUMNS, METADATA, PATH, STATISTICS = 4, 1, 3, 3, 12
"""Numbers of fields, from the footer of a file down to the statistics of a column."""
PAGES, PAGES_LEAST, PAGES_MOST = 6, 2, 3
"""Numbers of fields, from a column to the ends of its pages."""
OLD_MOST, OLD_LEAST, NULLS, MOST, LEAST = 1, 2, 3, 5, 6


class Reader:
    """Structures of Thrift's compact protocol, one after another."""

    def __init__(self, body: bytes) -> None:
        self.body, self.place = body, 0

    def byte(self) -> int:
        self.place += 1
        return self.body[self.place - 1]

    def number(self) -> int:
        shift, value = 0, 0
        while True:
            part = self.byte()
            value |= (part & 127) << shift
            shift += 7
            if part < 128:
                return value

    def signed(self) -> int:
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def taken(self, count: int) -> bytes:
        self.place += count
        return self.body[self.place - count : self.place]

    def value(self, kind: int, *, listed: bool = False) -> Any:
        if kind in BOOLEANS:
            return self.byte() == 1 if listed else kind == 1
        if kind in INTEGERS:
            return self.signed()
        if kind in LISTS:
            head = self.byte()
            count = head >> 4 if head >> 4 < 15 else self.number()
            return head & 15, [self.value(head & 15, listed=True) for _ in range(count)]
        if kind == STRUCT:
            return self.fields()
        return self.taken({BYTE: 1, DOUBLE: 8}.get(kind) or self.number())

    def fields(self) -> Struct:
        fields: Struct = {}
        last = 0
        while head := self.byte():
            last = last + (head >> 4) if head >> 4 else self.signed()
            fields[last] = head & 15, self.value(head & 15)
        return fields


def number(value: int) -> bytes:
    more = b""
    while value > 127:
        more += bytes([value & 127 | 128])
        value >>= 7
    return more + bytes([value])


def written(kind: int, value: Any, *, listed: bool = False) -> bytes:
    if kind in BOOLEANS:
        return bytes([1 if value else 2]) if listed else b""
    if kind in INTEGERS:
        return number((value << 1) ^ (value >> 63))
    if kind in LISTS:
        inner, values = value
        head = bytes([len(values) << 4 | inner]) if len(values) < 15 else bytes([0xF0 | inner])
        size = b"" if len(values) < 15 else number(len(values))
        return head + size + b"".join(written(inner, each, listed=True) for each in values)
    if kind == STRUCT:
        body, last = b"", 0
        for place in sorted(value):
            held, inside = value[place]
            held = (1 if inside else 2) if held in BOOLEANS else held
            body += bytes([(place - last) << 4 | held]) + written(held, inside)
            last = place
        return body + b"\0"
    return cast("bytes", value) if kind in (BYTE, DOUBLE) else number(len(value)) + value


def with_statistics(path: Path, change: Callable[[list[str], Struct], None]) -> None:
    """Write a file anew after a change of the statistics of each column of each row group."""
    whole = path.read_bytes()
    (size,) = struct.unpack("<i", whole[-8:-4])
    footer = Reader(whole[-8 - size : -8]).fields()
    for group in footer[GROUPS][1][1]:
        for column in group[COLUMNS][1][1]:
            about = column[METADATA][1]
            steps = [step.decode() for step in about[PATH][1][1]]
            statistics = about.setdefault(STATISTICS, (STRUCT, {}))[1]
            change(steps, statistics)
    body = written(STRUCT, footer)
    path.write_bytes(whole[: -8 - size] + body + struct.pack("<i", len(body)) + b"PAR1")


def with_page_ends(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Write a file anew with other least and most values of pages, as long as those before."""
    whole = bytearray(path.read_bytes())
    (size,) = struct.unpack("<i", whole[-8:-4])
    for group in Reader(bytes(whole[-8 - size : -8])).fields()[GROUPS][1][1]:
        for column in group[COLUMNS][1][1]:
            start, length = column[PAGES][1], column[PAGES + 1][1]
            index = Reader(bytes(whole[start : start + length])).fields()
            for end in (PAGES_LEAST, PAGES_MOST):
                inner, values = index[end][1]
                index[end] = LISTS[0], (inner, change(values))
            body = written(STRUCT, index)
            assert len(body) == length
            whole[start : start + length] = body
    path.write_bytes(whole)
