"""Expressions as PostgreSQL's SQL that cannot raise, whatever the rows.

There is no TRY: each function here has a guard of its own, which holds in whatever order the
planner puts conditions (see `number_sql`), and what has no row in a table below is refused with the
engine's name. Texts that are computed and constants are compared byte by byte, as columns are.

Why nothing may raise: SECURITY.md S8.

    >>> from dpsql.model.tree import INTEGER, Call, Literal, Ref
    >>> bucket = Call("int_div", (Ref(1, INTEGER), Literal(10, INTEGER)), INTEGER)
    >>> expression(bucket, lambda ref: 't1."n"')
    't1."n" / 10'
    >>> expression(Call("add", (bucket, Ref(2, INTEGER)), INTEGER), lambda ref: 't1."n"')
    '(t1."n" / 10)::numeric + t1."n"::numeric'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import assert_never

from dpsql import functions
from dpsql.dialects.operators import OPERATORS
from dpsql.dialects.postgres.aggregate_sql import aggregate, window
from dpsql.dialects.postgres.constant_sql import constant
from dpsql.dialects.postgres.conversion_sql import converted
from dpsql.dialects.postgres.function_sql import FUNCTIONS
from dpsql.dialects.postgres.lacking import lacking
from dpsql.dialects.postgres.number_sql import (
    COMPUTED_DIGITS,
    DIGITS,
    STORED_DIGITS,
    Sized,
    literal_digits,
)
from dpsql.dialects.sql_text import ATOM, LOOSE, MINUS
from dpsql.dialects.window_frames_sql import framed
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.ticking import tick
from dpsql.model.tree import (
    BOOLEAN,
    AggregateCall,
    Call,
    Cast,
    Clip,
    Expression,
    Kind,
    Literal,
    Membership,
    Name,
    Ref,
    ScalarQuery,
    SortKey,
    Star,
    WindowCall,
)

Column = Callable[[Ref], str]

STORED = re.compile(r"""(NULLIF\()?t\d+\."(?:[^"]|"")*"(?(1), 'NaN'\))""")
"""How a column of a table is written; what is computed has another name."""
SHARED = frozenset(
    "eq ne lt le gt ge is_distinct is_not_distinct and or not is_null in case".split()
)
"""Operators that never raise and that are written as everywhere."""
CONSTANT = re.compile(r"-?\d|\('|\w+ '|(?:TRUE|FALSE|NULL)\Z")


def expression(e: Expression, column: Column) -> str:
    """The SQL of a resolved expression; `column` gives the text of a column.

    Raises `Refused` for what PostgreSQL has no form of that cannot raise.
    """
    return _Expressions(column).text(e).sql


def sort_key(key: SortKey, column: Column) -> str:
    """One item of ORDER BY, with our default order of NULL, which is last.

    >>> sort_key(SortKey(Ref(1, BOOLEAN), descending=True, nulls_first=None), lambda ref: "a")
    'a DESC NULLS LAST'
    """
    text = expression(key.expression, column)
    words = [f"coalesce({text})" if CONSTANT.match(text) else text]
    if key.descending:
        words.append("DESC")
    words.append("NULLS FIRST" if key.nulls_first else "NULLS LAST")
    return " ".join(words)


def compared(left: Expression, right: Expression, column: Column) -> tuple[str, str]:
    """Both sides of a comparison, in one type."""
    printer = _Expressions(column)
    args = printer.text(left), printer.text(right)
    equal = functions.lookup("eq")
    assert equal is not None
    first, second = _operands(equal, args)
    return first.operand(ATOM), second.sql


def _operands(function: functions.Function, args: tuple[Sized, ...]) -> tuple[Sized, ...]:
    """The arguments as the types that the function converts them to, where that says anything."""
    operands = function.operands(tuple(arg.type for arg in args))
    return tuple(
        arg if kind is None or kind.kind is Kind.DECIMAL else converted(arg, kind)
        for arg, kind in zip(args, operands, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Expressions:
    column: Column

    def text(self, e: Expression) -> Sized:
        tick()
        match e:
            case Literal():
                sql = constant(e)
                level = MINUS if sql.startswith("-") else ATOM
                return Sized(sql, e.type, level, literal=e, digits=literal_digits(e.value))
            case Name() | ScalarQuery() | Membership():
                raise AssertionError(e)
            case Star():
                return Sized("*", BOOLEAN)
            case Ref():
                return self._ref(e)
            case Call():
                return self._call(e)
            case Cast():
                return converted(self.text(e.arg), e.type, e.span)
            case AggregateCall(clip=Clip()) | AggregateCall(epsilon=Decimal()):
                construct = "a named argument where nothing is released"
                raise Refused(Reason.UNSUPPORTED_SYNTAX, e.span, construct=construct)
            case AggregateCall():
                return self._aggregate(e)
            case WindowCall():
                return self._window(e)
            case _:
                assert_never(e)

    def _ref(self, ref: Ref) -> Sized:
        sql, kind = self.column(ref), ref.type
        stored = STORED.fullmatch(sql) is not None
        digits = None
        if kind.kind is Kind.INTEGER:
            digits = STORED_DIGITS if stored else COMPUTED_DIGITS
        elif kind.kind is Kind.DECIMAL:
            summed = kind.precision == DIGITS and not stored
            digits = COMPUTED_DIGITS if summed else kind.precision - kind.scale
        return Sized(sql, kind, ATOM if stored or _is_atom(sql) else LOOSE, digits=digits)

    def _call(self, call: Call) -> Sized:
        function = functions.function_of(call)
        args = tuple(map(self.text, call.args))
        kind = function.result_type(tuple(arg.type for arg in args)) or call.type
        args = _operands(function, args)
        if call.function in SHARED:
            printed = OPERATORS[call.function](args, kind)
            return Sized(printed.sql, kind, printed.level, digits=_most(args))
        rule = FUNCTIONS.get(call.function)
        text = None if rule is None else rule(args, kind)
        if text is None:
            raise lacking(f"{call.function.upper()} of such values", call.span)
        return text

    def _aggregate(self, call: AggregateCall) -> Sized:
        args = tuple(map(self.text, call.args))
        where = "" if call.filter is None else f" FILTER (WHERE {self.text(call.filter).sql})"
        printed = None if call.order_by else aggregate(call, args, where)
        if printed is None:
            raise lacking(f"{call.function.upper()} within a query of rows", call.span)
        return Sized(printed, call.type)

    def _window(self, call: WindowCall) -> Sized:
        args = tuple(map(self.text, call.args))
        where = "" if call.filter is None else f" FILTER (WHERE {self.text(call.filter).sql})"
        printed = window(call, args, where)
        frame = call.frame
        if printed is None or (frame and frame.unit == "RANGE" and frame.has_distance):
            raise lacking(f"{call.function.upper()} over such a window of rows", call.span)
        clauses = []
        if call.partition_by:
            listed = ", ".join(self.text(item).sql for item in call.partition_by)
            clauses.append(f"PARTITION BY {listed}")
        if call.order_by:
            keys = (sort_key(key, self.column) for key in call.order_by)
            clauses.append(f"ORDER BY {', '.join(keys)}")
        if frame is not None:
            clauses.append(framed(frame))
        return Sized(f"{printed} OVER ({' '.join(clauses)})", call.type)


def _most(args: tuple[Sized, ...]) -> int | None:
    """How large the largest of these numbers is; None where one may be any."""
    sizes = [arg.digits for arg in args if arg.type.is_numeric]
    bounded = [size for size in sizes if size is not None]
    return max(bounded) if bounded and len(bounded) == len(sizes) else None


def _is_atom(sql: str) -> bool:
    return re.fullmatch(r'(?:\w+\.)?\w+|\(t\d+\."[^()]*\)', sql) is not None
