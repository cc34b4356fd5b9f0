"""Random scalar expressions, typed: templates written by hand and the function registry's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from dpsql.dialects.reading.function_names import PART_FUNCTIONS, scalars
from dpsql.functions import lookup
from dpsql.functions.dates import PARTS, UNITS
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Expression,
    Literal,
    Ref,
    SqlType,
    decimal,
)
from grammar_tests.fuzz_dice import Dice, filled

SCALARS = scalars()
TYPES: dict[str, SqlType] = {
    "int": INTEGER,
    "dec": decimal(10, 2),
    "dbl": DOUBLE,
    "text": VARCHAR,
    "bool": BOOLEAN,
    "date": DATE,
    "ts": TIMESTAMP,
}
"""The kinds of expressions; `amount` is a fourth kind of number, one with bounds."""

KINDS = {kind.kind: name for name, kind in TYPES.items()}

LITERALS = {
    "int": ("1", "0", "2", "-3", "7", "100"),
    "dec": ("0.5", "12.50", "-1.25", "100.00", "0.00"),
    "dbl": ("1e0", "2.5e-1", "-1e2", "0e0"),
    "text": ("''", "'open'", "'Oslo'", "'1'", "'a%'", "'2024-02-29'"),
    "bool": ("TRUE", "FALSE"),
    "date": ("DATE '2021-01-01'", "DATE '2024-02-29'"),
    "ts": ("TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP '2025-12-31 23:59:59'"),
    "amount": ("1", "0.5"),
}
NULLS = {
    "int": "CAST(NULL AS INTEGER)",
    "text": "CAST(NULL AS VARCHAR)",
    "bool": "NULL",
}

_ANY = ("int", "dec", "dbl", "text", "bool", "date", "ts")
_COMPARISONS = tuple(f"({{{k}}} {op} {{{k}}})" for k in _ANY for op in ("=", "<", ">=", "<>"))
_CASES = {
    kind: (
        f"CASE WHEN {{bool}} THEN {{{kind}}} ELSE {{{kind}}} END",
        f"CASE WHEN {{bool}} THEN {{{kind}}} END",
        f"CASE {{text}} WHEN {{text}} THEN {{{kind}}} WHEN {{text}} THEN {{{kind}}} END",
    )
    for kind in _ANY
}

SYNTAX: dict[str, tuple[str, ...]] = {
    "int": (
        *("({int} + {int})", "({int} - {int})", "({int} * {int})", "({int} % {int})"),
        *("({int} // {int})", "(- {int})", "POSITION({text} IN {text})"),
        *("EXTRACT(month FROM {ts})", "EXTRACT(year FROM {date})", "EXTRACT(hour FROM {ts})"),
        *("CAST({bool} AS INTEGER)", "CAST({dec} AS INTEGER)", "CAST({dbl} AS BIGINT)"),
        *("TRY_CAST({text} AS BIGINT)", "CAST({text} AS BIGINT)", *_CASES["int"]),
    ),
    "dec": (
        *("({dec} + {dec})", "({dec} - {int})", "({dec} * {int})", "(- {dec})", "({dec} % {dec})"),
        *("CAST({int} AS DECIMAL(12, 2))", "CAST({dbl} AS DECIMAL(10, 2))"),
        *("CAST({dec} AS DECIMAL(8, 1))", "TRY_CAST({text} AS DECIMAL(8, 2))", *_CASES["dec"]),
    ),
    "dbl": (
        *("({dbl} + {int})", "({int} / {int})", "({dec} / {dec})", "({dbl} * {dbl})"),
        *("({dbl} - {dec})", "CAST({int} AS DOUBLE)", "CAST({text} AS DOUBLE)", *_CASES["dbl"]),
    ),
    "text": (
        *("({text} || {text})", "CAST({int} AS VARCHAR)", "CAST({dec} AS VARCHAR)"),
        *("CAST({bool} AS VARCHAR)", "CAST({date} AS VARCHAR)", "CAST({ts} AS VARCHAR)"),
        *("SUBSTRING({text} FROM 2 FOR 3)", "TRIM(BOTH 'a' FROM {text})", "TRIM({text})"),
        *("TRIM(LEADING FROM {text})", *_CASES["text"]),
    ),
    "bool": (
        *_COMPARISONS,
        *("({bool} AND {bool})", "({bool} OR {bool})", "(NOT {bool})", "({bool} IS TRUE)"),
        *(f"({{{kind}}} IS NULL)" for kind in _ANY),
        *(f"({{{kind}}} IS NOT NULL)" for kind in _ANY),
        *(f"({{{kind}}} BETWEEN {{{kind}}} AND {{{kind}}})" for kind in ("int", "date", "text")),
        *(f"({{{kind}}} IN ({{{kind}}}, {{{kind}}}))" for kind in ("int", "text", "dec", "ts")),
        *(f"({{{kind}}} IS DISTINCT FROM {{{kind}}})" for kind in ("int", "text", "bool")),
        *("({text} NOT IN ({text}, {text}))", "({int} NOT BETWEEN {int} AND {int})"),
        *("({text} LIKE '%o%')", "({text} ILIKE 'O%')", "({text} NOT LIKE '_')"),
        *("({text} LIKE 'a$%%' ESCAPE '$')", "({text} LIKE {text})", "({bool} IS NOT FALSE)"),
        *("({dec} > {int})", "({int} < {dbl})", "({date} < {ts})", "CAST({int} AS BOOLEAN)"),
        *_CASES["bool"],
    ),
    "date": (
        "CAST({ts} AS DATE)",
        "CAST({text} AS DATE)",
        "TRY_CAST({text} AS DATE)",
        *_CASES["date"],
    ),
    "ts": ("CAST({date} AS TIMESTAMP)", "CAST({text} AS TIMESTAMP)", *_CASES["ts"]),
    "amount": (
        *("({amount} + {amount})", "({amount} - {amount})", "({amount} * 2)", "({amount} / 4)"),
        *("CASE WHEN {bool} THEN {amount} ELSE 0 END", "CASE WHEN {bool} THEN {amount} END"),
        *("COALESCE({amount}, 0)", "ABS({amount})", "LEAST({amount}, 10)", "(- {amount})"),
        *("GREATEST({amount}, 1)", "NULLIF({amount}, 0)", "ROUND({amount})", "FLOOR({amount})"),
        *("CAST({bool} AS INTEGER)", "({amount} * {amount})", "SIGN({amount})"),
    ),
}
"""What SQL says by syntax, per kind of the result; the simplest first."""


@dataclass(frozen=True, slots=True)
class Column:
    """Something of a kind that an expression can mention.

    Numbers that are `bounded` can be summed; `base` is the column of a base table that it is.
    """

    text: str
    kind: str
    bounded: bool = False
    base: str = ""


def _arguments(kind: str, place: int) -> list[tuple[str, Expression]]:
    """Ways to write an argument: a placeholder, or literals for functions that need them."""
    free: list[tuple[str, Expression]] = [(f"{{{kind}}}", Ref(place, TYPES[kind]))]
    if kind == "text":
        return [*free, *((f"'{w}'", Literal(w, VARCHAR)) for w in ("o", "é", *UNITS, "month"))]
    if kind == "int":
        return [*free, *((str(n), Literal(n, INTEGER)) for n in (2, 0, -1))]
    return free


def _calls(name: str) -> Iterator[tuple[str, str]]:
    """Kind of the result and template of every call of a function that the registry types."""
    row = SCALARS[name]
    function = lookup(row.function)
    assert function is not None
    most = 3 if row.most is None else min(row.most, max(row.least, 3))
    for count in range(row.least, most + 1):
        for kinds in product(TYPES, repeat=count):
            result = function.result_type(tuple(TYPES[kind] for kind in kinds))
            if result is None or result.kind not in KINDS or (name, *kinds) == ROUND:
                continue
            written = [_arguments(kind, n) for n, kind in enumerate(kinds)]
            fitting = [
                args
                for args in product(*written)
                if function.accepts(tuple(value for _, value in args))
            ]
            if fitting and all(text.startswith("{") for text, _ in fitting[0]):
                fitting = fitting[:1]
            for args in fitting:
                listed = ", ".join(text for text, _ in args)
                if name in OF_BITS:
                    listed = listed.replace("{int}", "ABS({int})")
                yield KINDS[result.kind], f"{name.upper()}({listed})"


ROUND = ("round", "dec", "int")
"""Equal in value, not as text: ROUND(1.25, 1) is 1.30 here, and 1.3 in DuckDB."""

OF_BITS = frozenset({"bin", "hex", "to_binary", "to_hex"})
"""A number below zero has 64 bits here, and as many as its type has in DuckDB."""

FOREIGN = frozenset("btrim iif nullifzero nvl octet_length width_bucket zeroifnull".split())
"""Names that DuckDB does not know: of those law 1 would say nothing."""


@cache
def templates() -> dict[str, dict[str, tuple[str, ...]]]:
    """Templates of the registry's calls, per kind of the result and function."""
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in TYPES}
    for name in sorted(SCALARS.keys() - FOREIGN):
        for kind, template in _calls(name):
            found[kind].setdefault(name, []).append(template)
    found["ts"]["timezone"] = ["TIMEZONE('UTC', TIMEZONE('Europe/Rome', {ts}))"]
    for name, part in PART_FUNCTIONS.items():
        if part in PARTS:
            found["int"][name] = [f"{name.upper()}({{{kind}}})" for kind in ("ts", "date")]
    return {kind: {n: tuple(t) for n, t in names.items()} for kind, names in found.items()}


def term(dice: Dice, kind: str, scope: Sequence[Column], depth: int) -> str:
    """An expression of a kind over the columns of a scope, at most `depth` calls deep."""
    if depth == 0 or not dice.chance(65):
        return _leaf(dice, kind, scope)
    functions = templates().get(kind, {})
    if functions and dice.chance(40):
        template = dice.pick(functions[dice.pick(tuple(functions))])
    else:
        template = dice.pick(SYNTAX[kind])
    return filled(template, lambda inner: term(dice, inner, scope, depth - 1))


def _leaf(dice: Dice, kind: str, scope: Sequence[Column]) -> str:
    columns = [c.text for c in scope if c.kind == kind or (kind == "amount" and c.bounded)]
    if columns and not dice.chance(12):
        return dice.pick(columns)
    if kind == "bool" and scope and not dice.chance(12):
        column = dice.pick(scope)
        return f"({column.text} >= {dice.pick(LITERALS[column.kind])})"
    if kind in NULLS and dice.chance(5):
        return NULLS[kind]
    return dice.pick(LITERALS[kind])
