"""No accepted format is one that the engine cannot follow."""

from __future__ import annotations

import random

import duckdb
import pytest

from dpsql.functions.strings import fields_of
from dpsql.model.tree import Kind

VALUES = {
    Kind.INTEGER: ("5::TINYINT", "-7::BIGINT", "170141183460469231731687303715884105727::HUGEINT"),
    Kind.DECIMAL: ("2.5::DECIMAL(3, 1)", f"{'9' * 38}::DECIMAL(38, 0)"),
    Kind.DOUBLE: ("1.5e308::DOUBLE", "'nan'::DOUBLE", "'-inf'::DOUBLE", "-0.0::DOUBLE"),
    Kind.VARCHAR: ("''", "'ñ𝄞'", "chr(0)"),
    Kind.BOOLEAN: ("true",),
    Kind.DATE: ("DATE '2024-02-29'", "'infinity'::DATE"),
    Kind.TIMESTAMP: ("TIMESTAMP '2024-02-29 01:02:03.4'",),
}
PARTS = {
    "printf": "% % %% d s f e x n c , . .2 .99 0 9 99 100 + - # * l a $".split(),
    "format": "{ { } } {{ }} : : d s f e x n c , . .2 .99 0 9 99 100 + - # < > ^ a 0 !".split(),
}


def drawn(generator: random.Random, name: str) -> str:
    parts = PARTS[name]
    if generator.random() < 0.4:
        return "".join(generator.choices(parts, k=generator.randint(1, 8)))
    inner = "".join(generator.choices(parts[4:], k=generator.randint(0, 4)))
    return f"%{inner}" if name == "printf" else f"{{:{inner}}}"


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("name", ["printf", "format"])
def test_accepted_formats_are_followed(name: str) -> None:
    engine = duckdb.connect()
    generator = random.Random(name)  # noqa: S311
    accepted = 0
    for text in sorted({drawn(generator, name) for _ in range(12000)}):
        fields = fields_of(text, name)
        if fields is None:
            continue
        accepted += len(fields) == 1
        for kinds in fields[:1]:
            shown = [value for kind in sorted(kinds) for value in VALUES[kind]]
            rest = [VALUES[min(kinds)][0] for kinds in fields[1:]]
            calls = [f"{name}('{text}', {', '.join([value, *rest])})" for value in shown]
            engine.execute(f"SELECT {', '.join(calls)}").fetchall()
    assert accepted > 30


@pytest.mark.parametrize(
    ("call", "name", "text"),
    [
        ("printf('%s', 3)", "printf", "%s"),
        ("printf('%d', 2.5)", "printf", "%d"),
        ("printf('%')", "printf", "%"),
        ("format('{:05}', 'a')", "format", "{:05}"),
        ("format('{:%}', 3)", "format", "{:%}"),
        ("format('{:9,}', 3)", "format", "{:9,}"),
        ("format('}')", "format", "}"),
    ],
)
def test_what_the_engine_cannot_follow_is_refused(call: str, name: str, text: str) -> None:
    with pytest.raises(duckdb.Error):
        duckdb.execute(f"SELECT {call}").fetchall()
    shown = {"%s": Kind.INTEGER, "%d": Kind.DECIMAL}
    fields = fields_of(text, name)
    assert fields is None or shown[text] not in fields[0]
