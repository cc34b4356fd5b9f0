"""Operators as most SQL writes them: shared by dialects, and by terms that people read.

A dialect with another spelling has a row of its own for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from dpsql.dialects.sql_text import AND, ATOM, CAST, MINUS, NOT, OR, OTHER, PRODUCT, SUM, TEST, Text
from dpsql.model.tree import SqlType

Printed: TypeAlias = Callable[[tuple[Text, ...], SqlType], Text]
"""Printer of a call, given its arguments and its type."""


ONE_OF_ITS_VALUES = frozenset(
    """min max any_value first last mode quantile_disc arg_max arg_min arg_max_null arg_min_null
    lag lead first_value last_value nth_value percent_rank cume_dist""".split()
)
"""Aggregates and window functions that return NaN only if a value is NaN."""


def _infix(sign: str, level: int, left: int, right: int) -> Printed:
    """Return the printer of a binary operator: its level and the levels that its sides need."""

    def text(args: tuple[Text, ...], kind: SqlType) -> Text:
        sql = f"{args[0].operand(left)} {sign} {args[1].operand(right)}"
        return Text(sql, kind, level)

    return text


def _test(sign: str) -> Printed:
    return _infix(sign, TEST, OTHER, OTHER)


def listed(args: tuple[Text, ...]) -> str:
    """Return arguments with commas between them."""
    return ", ".join(arg.sql for arg in args)


def _joined(word: str, level: int, inner: int) -> Printed:
    """Return the printer of an operator over any number of arguments."""

    def text(args: tuple[Text, ...], kind: SqlType) -> Text:
        if len(args) == 1:
            return args[0]
        return Text(f" {word} ".join(arg.operand(inner) for arg in args), kind, level)

    return text


def _like(args: tuple[Text, ...], kind: SqlType) -> Text:
    sql = f"{args[0].operand(OTHER)} LIKE {args[1].operand(OTHER)}"
    escape = f" ESCAPE {args[2].operand(ATOM)}" if args[2:] else ""
    return Text(sql + escape, kind, TEST)


def _case(args: tuple[Text, ...], kind: SqlType) -> Text:
    branches = zip(args[:-1:2], args[1::2], strict=True)
    whens = " ".join(f"WHEN {when.sql} THEN {then.sql}" for when, then in branches)
    return Text(f"CASE {whens} ELSE {args[-1].sql} END", kind)


OPERATORS: dict[str, Printed] = {
    "add": _infix("+", SUM, SUM, PRODUCT),
    "sub": _infix("-", SUM, SUM, PRODUCT),
    "mul": _infix("*", PRODUCT, PRODUCT, MINUS),
    "div": _infix("/", PRODUCT, PRODUCT, MINUS),
    "int_div": _infix("//", OTHER, MINUS, MINUS),
    "mod": _infix("%", OTHER, MINUS, MINUS),
    "eq": _test("="),
    "ne": _test("<>"),
    "lt": _test("<"),
    "le": _test("<="),
    "gt": _test(">"),
    "ge": _test(">="),
    "is_distinct": _test("IS DISTINCT FROM"),
    "is_not_distinct": _test("IS NOT DISTINCT FROM"),
    "ilike": _test("ILIKE"),
    "and": _joined("AND", AND, NOT),
    "or": _joined("OR", OR, AND),
    "not": lambda args, kind: Text(f"NOT {args[0].operand(TEST)}", kind, NOT),
    "neg": lambda args, kind: Text(f"-{args[0].operand(CAST)}", kind, MINUS),
    "is_null": lambda args, kind: Text(f"{args[0].operand(OTHER)} IS NULL", kind, TEST),
    "in": lambda args, kind: Text(f"{args[0].operand(OTHER)} IN ({listed(args[1:])})", kind, TEST),
    "like": _like,
    "case": _case,
    "concat": _joined("||", OTHER, MINUS),
    "bitwise_and": _infix("&", OTHER, MINUS, MINUS),
    "bitwise_or": _infix("|", OTHER, MINUS, MINUS),
    "bitwise_not": lambda args, kind: Text(f"~{args[0].operand(ATOM)}", kind, OTHER),
}
"""Printers of operators and keywords, by names in the registry."""
