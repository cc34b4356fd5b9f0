"""Expressions as DuckDB SQL that cannot raise for any rows.

DuckDB's `TRY(x)` is NULL if `x` raises. But its optimiser computes a subexpression that occurs
twice beforehand, outside of any TRY. So within a TRY only the outermost operator may raise. Every
raising operator has a TRY of its own, and every implicit conversion that can raise is written as
TRY_CAST.

    >>> from dpsql.model.tree import INTEGER, Call, Literal, Ref
    >>> bucket = Call("int_div", (Ref(1, INTEGER), Literal(10, INTEGER)), INTEGER)
    >>> expression(bucket, lambda ref: f"c{ref.id}")
    'c1 // 10::BIGINT'
    >>> expression(Call("add", (bucket, Ref(2, INTEGER)), INTEGER), lambda ref: f"c{ref.id}")
    'TRY((c1 // 10::BIGINT) + c2)'

Why nothing may raise: SECURITY.md S8; why nothing is NaN: PRIVACY.md R99.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import assert_never

from dpsql import functions
from dpsql.dialects.duckdb import call_sql
from dpsql.dialects.duckdb.call_sql import least
from dpsql.dialects.literal_sql import constant
from dpsql.dialects.operators import ONE_OF_ITS_VALUES
from dpsql.dialects.sql_text import ATOM, CAST, LOOSE, MINUS, OTHER, SUM, Text
from dpsql.dialects.window_frames_sql import framed
from dpsql.functions import Function
from dpsql.model import tree
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts
from dpsql.model.ticking import tick
from dpsql.model.tree import DOUBLE, INTEGER, Call, Literal, Ref, SortKey, identifier, type_name
from dpsql.model.walk import refs

__all__ = ["expression", "identifier", "sort_key", "type_name"]

Column = Callable[[Ref], str]

PATH = re.compile(r'(?:"(?:[^"]|"")*"|\w+)(?:\.(?:"(?:[^"]|"")*"|\w+))*')
INT64 = 2**63

CONSTANT = re.compile(r"-?\d|'|(?:TRUE|FALSE|NULL)\Z")
"""Beginning of a constant, which would be a position as a key of ORDER BY, or refused."""

WIDENED = frozenset(
    {"add", "sub", "mul", "int_div", "pg_div", "mod", "neg", "abs", "round", "trunc"}
    | {"bitwise_and", "bitwise_or", "bitwise_not"}
)
"""Integer operators that are computed in at least 64 bits for any width of columns."""

WIDE_RESULTS = WIDENED | {
    *("length", "strpos", "extract", "date_diff", "date_sub", "epoch_ms", "epoch_us"),
    *("interval_us", "age_part", "age_us"),
}
COUNTING = frozenset(
    """left right substring left_grapheme right_grapheme substring_grapheme repeat""".split()
)
"""Functions with integer arguments that must be BIGINT: DuckDB refuses HUGEINT there."""

LONGEST_TWICE = 200
"""Length in characters up to which a text is printed twice; longer ones would grow too much."""

OF_BITS = frozenset({"hex", "bin", "to_base", "format_bytes", "format_decimal_bytes"})
"""Functions with a BIGINT as first argument if it is an integer: DuckDB's signature, or 64 bits."""


def expression(e: tree.Expression, column: Column, *, total: bool = True, nan: bool = False) -> str:
    """Return the SQL of a resolved expression; `column` returns the text of a column.

    NaN becomes NULL, unless `nan` is set. With `total` False it is the plain form, which may raise
    or be NaN. Raises `Refused` for arguments that a function does not accept, and for constants
    that DuckDB cannot represent.
    """
    return _Printer(column, total, nan or not total).text(e).sql


def sort_key(key: SortKey, column: Column, *, total: bool = True, nan: bool = False) -> str:
    """Return one item of ORDER BY.

    >>> sort_key(SortKey(Ref(1, INTEGER), descending=True, nulls_first=False), lambda ref: "a")
    'a DESC NULLS LAST'
    """
    text = expression(key.expression, column, total=total, nan=nan)
    words = [f"coalesce({text})" if CONSTANT.match(text) else text]
    if key.descending:
        words.append("DESC")
    if key.nulls_first is not None:
        words.append("NULLS FIRST" if key.nulls_first else "NULLS LAST")
    return " ".join(words)


def without_nan(sql: str) -> str:
    """Return SQL for a DOUBLE, or NULL if it is NaN.

    >>> without_nan("a - b")
    'CASE WHEN isnan(a - b) THEN NULL ELSE a - b END'
    """
    if len(sql) > LONGEST_TWICE:
        return f"[CASE WHEN isnan(x) THEN NULL ELSE x END FOR x IN [{sql}]][1]"
    return f"CASE WHEN isnan({sql}) THEN NULL ELSE {sql} END"


def compared(
    left: tree.Expression, right: tree.Expression, column: Column, *, nan: bool = False
) -> tuple[str, str]:
    """Return both sides of a comparison, with conversions written out if they can raise."""
    printer = _Printer(column, total=True, nan=nan)
    args = (printer.text(left), printer.text(right))
    equal = functions.lookup("eq")
    assert equal is not None
    first, second = _converted(equal, args, tuple(map(_facts, args)))
    return first.operand(OTHER), second.sql


@dataclass(frozen=True, slots=True)
class _Printer:
    column: Column
    total: bool
    nan: bool

    def text(self, e: tree.Expression) -> Text:
        tick()
        match e:
            case Literal():
                sql = constant(e)
                return Text(sql, e.type, MINUS if sql.startswith("-") else ATOM, literal=e)
            case tree.Name() | tree.ScalarQuery() | tree.Membership():
                raise AssertionError(e)
            case tree.Star():
                return Text("*", tree.BOOLEAN)
            case Ref():
                sql = self.column(e)
                return Text(sql, e.type, ATOM if PATH.fullmatch(sql) else LOOSE)
            case Call():
                return self._call(e)
            case tree.Cast():
                return self._cast(e)
            case tree.AggregateCall(clip=tree.Clip()) | tree.AggregateCall(epsilon=Decimal()):
                construct = "a named argument where nothing is released"
                raise Refused(Reason.UNSUPPORTED_SYNTAX, e.span, construct=construct)
            case tree.AggregateCall():
                return Text(self._aggregate(e), e.type)
            case tree.WindowCall():
                return Text(self._window(e), e.type)
            case _:
                assert_never(e)

    def _call(self, call: Call) -> Text:
        function = functions.function_of(call)
        args = tuple(map(self.text, call.args))
        facts = tuple(map(_facts, args))
        kind = function.result_type(tuple(arg.type for arg in args)) or call.type
        if self.total:
            args = _widened(call.function, kind, _converted(function, args, facts))
        if call.function in COUNTING:
            args = (args[0], *map(_bigint, args[1:]))
        if call.function in OF_BITS and args[0].type == INTEGER:
            args = (_bigint(args[0]), *args[1:])
        printed = call_sql.spelled(call.function, args, kind, total=self.total)
        wide = call.function in WIDE_RESULTS and kind == INTEGER
        if self.total and function.raises(facts, kind):
            printed = Text(f"TRY({printed.sql})", kind, wide=wide)
        if not self.nan and kind == DOUBLE and function.nan(facts):
            return Text(without_nan(printed.sql), kind)
        return printed if printed.wide == wide else replace(printed, wide=wide)

    def _cast(self, cast: tree.Cast) -> Text:
        arg = self.text(cast.arg)
        if cast.type.kind is tree.Kind.LIST:
            return Text(arg.sql, cast.type, arg.level)
        function = functions.cast_to(cast.type)
        guarded = self.total and function.raises((_facts(arg),), cast.type)
        sql = f"CAST({arg.sql} AS {type_name(cast.type)})"
        if cast.safe or guarded:
            # DuckDB 1.5 raises in TRY_CAST of a far TIMESTAMPTZ, and of an infinite time to TIME,
            # but not in TRY. There the error quotes a text, in the square of its length (R101).
            timed = cast.type.kind is tree.Kind.TIME and arg.type.kind is not tree.Kind.VARCHAR
            raising = arg.type.kind is tree.Kind.TIMESTAMPTZ or timed
            sql = f"TRY({sql})" if raising else f"TRY_{sql}"
        if not self.nan and cast.type == DOUBLE and function.nan((_facts(arg),)):
            sql = without_nan(sql)
        return Text(sql, cast.type, wide=cast.type == INTEGER)

    def _aggregate(self, call: tree.AggregateCall) -> str:
        # Constants are equal in any order. DuckDB would take MODE's constant for the fraction of a
        # percentile.
        ordered = any(refs(arg) for arg in call.args if not isinstance(arg, tree.Star))
        keys = ", ".join(self._key(key) for key in call.order_by) if ordered else ""
        order = f" ORDER BY {keys}" if keys else ""
        return self._guarded(call, call_sql.aggregate_name(call), order, "")

    def _window(self, call: tree.WindowCall) -> str:
        clauses = []
        if call.partition_by:
            clauses.append(f"PARTITION BY {self._listed(call.partition_by)}")
        if call.order_by:
            clauses.append(
                f"ORDER BY {', '.join(self._window_key(k, call) for k in call.order_by)}"
            )
        if call.frame is not None:
            clauses.append(framed(call.frame))
        ignored = " IGNORE NULLS" if call.ignore_nulls else ""
        return self._guarded(
            call, call_sql.aggregate_name(call), ignored, f" OVER ({' '.join(clauses)})"
        )

    def _guarded(
        self, call: tree.AggregateCall | tree.WindowCall, name: str, inner: str, over: str
    ) -> str:
        """Return the call; NULL if it would be NaN."""
        sql = self._computed(call, name, inner, over)
        computed = call.type == DOUBLE and call.function not in ONE_OF_ITS_VALUES
        return without_nan(sql) if computed and not self.nan else sql

    def _computed(
        self, call: tree.AggregateCall | tree.WindowCall, name: str, inner: str, over: str
    ) -> str:
        """Return the call; as text if it is a list; NULL if a moment would not fit a DOUBLE."""
        condition = "" if call.filter is None else f" FILTER (WHERE {self.text(call.filter).sql})"
        distinct = "DISTINCT " if call.distinct else ""
        end = f"{inner}){condition}{over}"
        if call.function in ("list", "histogram"):
            return f"CAST({name}({distinct}{self._listed(call.args)}{end} AS VARCHAR)"
        if call.function not in call_sql.MOMENTS or not self.total:
            return f"{name}({distinct}{self._listed(call.args)}{end}"
        args = [f"TRY_CAST({self.text(arg).sql} AS DOUBLE)" for arg in call.args]
        most, small = call_sql.widest(call.function), least(call.function)
        fits = [f"{arg} BETWEEN -{most} AND {most}" for arg in args]
        zeros = [f" WHEN abs({arg}) < {small} THEN 0" if small else "" for arg in args]
        cut = [
            f"CASE{zero} WHEN {fit} THEN {arg} END"
            for zero, fit, arg in zip(zeros, fits, args, strict=True)
        ]
        every = f"bool_and({' AND '.join(fits)}){condition}{over}"
        return f"CASE WHEN {every} THEN {name}({distinct}{', '.join(cut)}{end} END"

    def _key(self, key: SortKey) -> str:
        return sort_key(key, self.column, total=self.total, nan=self.nan)

    def _window_key(self, key: SortKey, call: tree.WindowCall) -> str:
        """Return SQL for a sort key, as DOUBLE for a RANGE frame with distances: integers might
        overflow.
        """
        frame = call.frame
        if frame is None or frame.unit != "RANGE" or not frame.has_distance:
            return self._key(key)
        return self._key(replace(key, expression=tree.Cast(key.expression, DOUBLE, safe=True)))

    def _listed(self, items: tuple[tree.Expression, ...]) -> str:
        return ", ".join(self.text(item).sql for item in items)


def _facts(text: Text) -> Facts:
    """Return the facts from the text alone: all of a constant, else the type."""
    if text.literal is not None:
        return _facts_of_constant(text.literal)
    return Facts(text.type)


@lru_cache(4096)
def _facts_of_constant(literal: Literal) -> Facts:
    """Return the facts of a constant; the width of its type, which no test reads, may differ."""
    return functions.literal_facts(literal)


def _converted(
    function: Function, args: tuple[Text, ...], facts: tuple[Facts, ...]
) -> tuple[Text, ...]:
    """Return arguments with conversions that can raise written as TRY_CAST."""
    operands = function.operands(tuple(arg.type for arg in args))
    return tuple(
        Text(f"TRY_CAST({arg.sql} AS {type_name(operand)})", operand)
        if operand is not None and functions.conversion_raises(fact, operand)
        else arg
        for arg, fact, operand in zip(args, facts, operands, strict=True)
    )


def _widened(name: str, kind: tree.SqlType, args: tuple[Text, ...]) -> tuple[Text, ...]:
    """Return integer operands, at least one of them with 64 bits or more."""
    if name not in WIDENED or kind != INTEGER or args[0].type.kind is not tree.Kind.INTEGER:
        return args
    if name in ("round", "trunc"):
        # ROUND(BIGINT, -n) overflows silently in DuckDB 1.5; ROUND(x) changes nothing.
        return (_with_room(name, args[0], args[1]), args[1]) if args[1:] else args
    # A factor may be a sum near the limit of 64 bits.
    typed = [_typed_integer(arg, 0 if name == "mul" else INT64) for arg in args]
    if not any(arg.wide for arg in typed):
        typed[0] = _as(typed[0], "HUGEINT")
    return tuple(typed)


def _with_room(name: str, arg: Text, digits: Text) -> Text:
    """Return the argument of ROUND in 128 bits, with an overflow error if rounding exceeds them.

    DuckDB 1.5 overflows silently there. Half a step is added and subtracted in both directions,
    because sums raise in every version.
    """
    wide = _as(arg, "HUGEINT")
    places = digits.literal.value if digits.literal is not None else None
    if name == "trunc" or (isinstance(places, int) and places >= 0):
        return wide
    assert isinstance(places, int)  # `accepts` lets no other number of digits through
    half = 10**-places // 2
    return Text(f"{wide.sql} + {half} - {2 * half} + {half}", INTEGER, SUM, wide=True)


def _typed_integer(arg: Text, longest: int) -> Text:
    """Return a constant in 64 bits, or in 128 from `longest` on."""
    if arg.literal is None or not isinstance(arg.literal.value, int):
        return arg
    return _as(arg, "BIGINT" if -longest <= arg.literal.value < longest else "HUGEINT")


def _as(arg: Text, width: str) -> Text:
    return Text(f"{arg.operand(ATOM)}::{width}", INTEGER, CAST, wide=True)


def _bigint(arg: Text) -> Text:
    value = None if arg.literal is None else arg.literal.value
    if isinstance(value, int) and -INT64 <= value < INT64:
        return arg
    return Text(f"TRY_CAST({arg.sql} AS BIGINT)", INTEGER, wide=True)
