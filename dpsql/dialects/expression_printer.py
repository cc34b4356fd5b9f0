"""Expressions as SQL that cannot raise for any rows, on engines without TRY.

Each function has its own guard, which holds in any order of conditions. A function that is missing
in an engine's table is refused with the engine's name.

Why nothing may raise: SECURITY.md S8; why nothing is NaN: PRIVACY.md R99.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import ClassVar, assert_never

from dpsql import functions as registry
from dpsql.dialects import aggregate_sql
from dpsql.dialects.operators import ONE_OF_ITS_VALUES, OPERATORS
from dpsql.dialects.sized_text import Sized, literal_digits
from dpsql.dialects.sql_text import ATOM, LOOSE, MINUS
from dpsql.dialects.window_frames_sql import framed
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts
from dpsql.model.ticking import tick

Column = Callable[[tree.Ref], str]
Rule = Callable[[tuple[Sized, ...], tree.SqlType], Sized | None]
"""Printer of a function; returns None if it cannot print it."""

DIGITS = 38
"""Maximum number of digits of an exact integer part."""
STORED_DIGITS = 19
"""Maximum number of digits of a stored BIGINT."""
SHARED = frozenset(
    "eq ne lt le gt ge is_distinct is_not_distinct and or not is_null in case".split()
)
"""Operators that never raise and have the same spelling everywhere."""
CONSTANT = re.compile(r"-?\d|\('|\w+ '|(?:TRUE|FALSE|NULL)\Z")


class ExpressionPrinter(ABC):
    """Prints expressions; `column` returns the text of a column."""

    functions: ClassVar[Mapping[str, Rule]]
    """Printers by names in the registry."""
    stored: ClassVar[re.Pattern[str]]
    """Pattern of a table's column; computed columns have other names."""
    computed: ClassVar[int]
    """Maximum number of digits of the integer part of a subquery's column."""

    def __init__(self, column: Column) -> None:
        self.column = column

    @abstractmethod
    def constant(self, literal: tree.Literal) -> str:
        """Return SQL for a constant of exactly its value and type."""

    @abstractmethod
    def converted(self, arg: Sized, kind: tree.SqlType, span: tree.Span) -> Sized:
        """Return the value in another type. Raises `Refused`."""

    @abstractmethod
    def without_nan(self, sql: str) -> str:
        """Return SQL for a DOUBLE, or NULL if it is NaN: PRIVACY.md R99."""

    @abstractmethod
    def lacking(self, construct: str, span: tree.Span) -> Refused:
        """Return the refusal of a construct that the engine lacks."""

    def aggregate(
        self, call: tree.AggregateCall | tree.WindowCall, args: tuple[Sized, ...], where: str
    ) -> str | None:
        """Return the call as text, with its FILTER; None if it cannot be exact."""
        return aggregate_sql.aggregate(call, args, where)

    def window(self, call: tree.WindowCall, args: tuple[Sized, ...], where: str) -> str | None:
        """Return the call of a window function, without its OVER."""
        return aggregate_sql.window(call, args, where)

    def sort_key(self, key: tree.SortKey) -> str:
        """Return one item of ORDER BY, with our default order of NULL, which is last."""
        text = self.text(key.expression).sql
        words = [f"coalesce({text})" if CONSTANT.match(text) else text]
        if key.descending:
            words.append("DESC")
        words.append("NULLS FIRST" if key.nulls_first else "NULLS LAST")
        return " ".join(words)

    def compared(self, left: tree.Expression, right: tree.Expression) -> tuple[str, str]:
        """Return both sides of a comparison, in one type."""
        equal = registry.lookup("eq")
        assert equal is not None
        first, second = self.operands(equal, (self.text(left), self.text(right)))
        return first.operand(ATOM), second.sql

    def operands(self, function: registry.Function, args: tuple[Sized, ...]) -> tuple[Sized, ...]:
        """Return the arguments in the types that the function requires, if it does."""
        operands = function.operands(tuple(arg.type for arg in args))
        return tuple(
            arg
            if kind is None or kind.kind is tree.Kind.DECIMAL
            else self.converted(arg, kind, tree.NOWHERE)
            for arg, kind in zip(args, operands, strict=True)
        )

    def text(self, e: tree.Expression) -> Sized:
        tick()
        match e:
            case tree.Literal():
                sql = self.constant(e)
                level = MINUS if sql.startswith("-") else ATOM
                return Sized(sql, e.type, level, literal=e, digits=literal_digits(e.value))
            case tree.Name() | tree.ScalarQuery() | tree.Membership():
                raise AssertionError(e)
            case tree.Star():
                return Sized("*", tree.BOOLEAN)
            case tree.Ref():
                return self._ref(e)
            case tree.Call():
                return self._call(e)
            case tree.Cast():
                arg = self.text(e.arg)
                text = self.converted(arg, e.type, e.span)
                parsed = e.type == tree.DOUBLE and arg.type.kind is tree.Kind.VARCHAR
                return Sized(self.without_nan(text.sql), tree.DOUBLE) if parsed else text
            case tree.AggregateCall(clip=tree.Clip()) | tree.AggregateCall(epsilon=Decimal()):
                construct = "a named argument where nothing is released"
                raise Refused(Reason.UNSUPPORTED_SYNTAX, e.span, construct=construct)
            case tree.AggregateCall():
                return self._aggregate(e)
            case tree.WindowCall():
                return self._window(e)
            case _:
                assert_never(e)

    def _ref(self, ref: tree.Ref) -> Sized:
        sql, kind = self.column(ref), ref.type
        stored = self.stored.fullmatch(sql) is not None
        digits = None
        if kind.kind is tree.Kind.INTEGER:
            digits = STORED_DIGITS if stored else self.computed
        elif kind.kind is tree.Kind.DECIMAL:
            summed = kind.precision == DIGITS and not stored
            digits = self.computed if summed else kind.precision - kind.scale
        atom = re.fullmatch(r'(?:\w+\.)?\w+|\(t\d+\."[^()]*\)', sql) is not None
        return Sized(sql, kind, ATOM if stored or atom else LOOSE, digits=digits)

    def _call(self, call: tree.Call) -> Sized:
        function = registry.function_of(call)
        args = tuple(map(self.text, call.args))
        kind = function.result_type(tuple(arg.type for arg in args)) or call.type
        facts = (
            Facts(arg.type) if arg.literal is None else registry.literal_facts(arg.literal)
            for arg in args
        )
        nan = kind == tree.DOUBLE and function.nan(tuple(facts))
        args = self.operands(function, args)
        rule = self.functions.get(call.function)
        if rule is None and call.function in SHARED:
            printed = OPERATORS[call.function](args, kind)
            return Sized(printed.sql, kind, printed.level, digits=most_digits(args))
        text = None if rule is None else rule(args, kind)
        if text is None:
            raise self.lacking(f"{call.function.upper()} of such values", call.span)
        return Sized(self.without_nan(text.sql), kind) if nan else text

    def _computed(self, call: tree.AggregateCall | tree.WindowCall, sql: str) -> Sized:
        """Return the result of an aggregate or window function."""
        nan = call.type == tree.DOUBLE and call.function not in ONE_OF_ITS_VALUES
        return Sized(self.without_nan(sql) if nan else sql, call.type)

    def _aggregate(self, call: tree.AggregateCall) -> Sized:
        args = tuple(map(self.text, call.args))
        where = "" if call.filter is None else f" FILTER (WHERE {self.text(call.filter).sql})"
        printed = None if call.order_by else self.aggregate(call, args, where)
        if printed is None:
            raise self.lacking(f"{call.function.upper()} within a query of rows", call.span)
        return self._computed(call, printed)

    def _window(self, call: tree.WindowCall) -> Sized:
        args = tuple(map(self.text, call.args))
        where = "" if call.filter is None else f" FILTER (WHERE {self.text(call.filter).sql})"
        printed = self.window(call, args, where)
        frame = call.frame
        if printed is None or (frame and frame.unit == "RANGE" and frame.has_distance):
            raise self.lacking(f"{call.function.upper()} over such a window of rows", call.span)
        clauses = []
        if call.partition_by:
            listed = ", ".join(self.text(item).sql for item in call.partition_by)
            clauses.append(f"PARTITION BY {listed}")
        if call.order_by:
            keys = map(self.sort_key, call.order_by)
            clauses.append(f"ORDER BY {', '.join(keys)}")
        if frame is not None:
            clauses.append(framed(frame))
        return self._computed(call, f"{printed} OVER ({' '.join(clauses)})")


def most_digits(args: tuple[Sized, ...]) -> int | None:
    """Return the digits of the largest of these numbers; None if one is unbounded."""
    sizes = [arg.digits for arg in args if arg.type.is_numeric]
    bounded = [size for size in sizes if size is not None]
    return max(bounded) if bounded and len(bounded) == len(sizes) else None
