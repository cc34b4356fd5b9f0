"""The table of scalar functions, and the facts of calls.

A function without a row does not exist, and a call of it is refused: PRIVACY.md R25, SECURITY.md
S13.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction
from math import ceil, floor

from dpsql.functions.arithmetic import ARITHMETIC
from dpsql.functions.conditionals import CONDITIONALS, reached
from dpsql.functions.conversions import cast_to
from dpsql.functions.date_making import DATE_MAKING, DATE_TEXT, ZONED
from dpsql.functions.dates import DATE_ARITHMETIC, DATES, PARTS, UNITS
from dpsql.functions.elapsed import ELAPSED
from dpsql.functions.numeric import INTEGERS, NUMERIC, TRANSCENDENTAL
from dpsql.functions.predicates import LONGEST_LIKE, PREDICATES
from dpsql.functions.row import Args, Domain, Function, any_nullable
from dpsql.functions.strings import FORMATS, PATTERNS, STRINGS, TEXTS
from dpsql.functions.type_rules import conversion_raises
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts, Interval, bound_of, distinct, hull, lattice
from dpsql.model.table_names import nearest
from dpsql.model.vocabulary import ColumnPolicy

REGISTRY: dict[str, Function] = {
    row.name: row
    for rows in (
        *(ARITHMETIC, NUMERIC, TRANSCENDENTAL, INTEGERS),
        *(PREDICATES, CONDITIONALS, STRINGS, TEXTS, PATTERNS, FORMATS),
        *(DATES, DATE_ARITHMETIC, DATE_MAKING, DATE_TEXT, ZONED, ELAPSED),
    )
    for row in rows
}


def lookup(name: str) -> Function | None:
    """Return the row of a function; None if it has none.

    >>> lookup("add").name, lookup("random")
    ('add', None)
    """
    return REGISTRY.get(name)


DEFAULT_LIMIT = 10_000


def literal_facts(literal: tree.Literal) -> Facts:
    """Return the facts of a constant.

    >>> literal_facts(tree.Literal(7, tree.INTEGER)).domain
    (7,)
    """
    return facts_of_values(literal.type, (literal.value,))


def facts_of_values(kind: tree.SqlType, values: Iterable[tree.Value]) -> Facts:
    """Return the facts of an expression with just these values. NULL counts separately; NaN is
    NULL.

    Dates in years that Python lacks, and 24:00, come as text: then only the type is known.
    """
    listed = list(values)
    if kind != tree.VARCHAR and any(isinstance(value, str) for value in listed):
        return Facts(kind)
    domain = distinct(listed)
    nulls = any(value is None or value != value for value in listed)  # noqa: PLR0124
    return Facts(kind, hull(domain), nulls, domain)


def declared_facts(
    column: ColumnPolicy, limit: int = DEFAULT_LIMIT, days: tuple[date, date] | None = None
) -> Facts:
    """Return the owner's declarations of a column, with its domain if it has at most `limit`
    values.

    Dates and times without bounds are in these `days`, if given.
    """
    if column.values is not None:
        return replace(facts_of_values(column.type, column.values), nullable=column.nullable)
    lo, hi = (None, None) if column.bounds is None else map(bound_of, column.bounds)
    interval = Interval(lo, hi)
    endless = column.bounds is None and column.type != tree.BOOLEAN
    domain = None if endless else lattice(column.type, interval, limit)
    if days is not None and column.bounds is None and column.type.is_temporal:
        first, last = days
        interval = Interval(first, last)
        if column.type != tree.DATE:
            begin, end = datetime.combine(first, time.min), datetime.combine(last, time.max)
            interval = Interval(begin, end)
    return Facts(column.type, interval, column.nullable, domain, longest=column.max_length)


def function_of(expression: tree.Call | tree.Cast) -> Function:
    """Return the row of a call or cast that `resolve` typed.

    Raises `Refused` where the function does not exist or does not accept the arguments as written.
    """
    if isinstance(expression, tree.Cast):
        return cast_to(expression.type)
    function = lookup(expression.function)
    if function is None or not function.accepts(expression.args):
        raise unaccepted(expression)
    return function


def unaccepted(call: tree.Call) -> Refused:
    """Return the refusal of constants for which a function may fail or has no rule."""
    constants = [arg.value if isinstance(arg, tree.Literal) else None for arg in call.args]
    texts = (repr(v) if isinstance(v, str) else "…" if v is None else str(v) for v in constants)
    facts = {"name": call.function, "written": f"{call.function}({', '.join(texts)})"}
    part, names = next(iter(constants), None), _PARTS_OF.get(call.function, ())
    if isinstance(part, str) and names and part not in names:
        near = nearest(part, names)
        facts["fix"] = f"Did you mean '{near}'?" if near else f"Parts are {', '.join(names)}."
    if "like" in call.function and len(str(constants[1])) > LONGEST_LIKE:
        facts["fix"] = f"Write a pattern of at most {LONGEST_LIKE} characters, or several of them."
    return Refused(Reason.UNSUPPORTED_FUNCTION, call.span, **facts)


_PARTS_OF: dict[str, tuple[str, ...]] = {
    "extract": tuple(PARTS),
    **dict.fromkeys(("date_trunc", "date_diff", "date_sub"), tuple(UNITS)),
}
"""Names of parts that the first argument of a function may be."""


def is_pointwise(expression: tree.Call | tree.Cast) -> bool:
    """Test whether evaluating the call on columns of argument values lists the result's values.

    This fails where the result is one of the arguments, or where some arguments must be literals.
    """
    if isinstance(expression, tree.Cast):
        return True
    function = function_of(expression)
    columns = tuple(tree.Ref(-1 - n, tree.NULL) for n in range(len(expression.args)))
    return function.union is None and function.accepts(columns)


LENIENT = frozenset({"and", "or", "in"})
"""Functions that may return a value for a NULL argument, without a rule of their own."""


def is_strict(name: str) -> bool:
    """Test whether a function is NULL as soon as one argument is."""
    function = lookup(name)
    if function is None or name in LENIENT:
        return False
    return function.nulls is any_nullable and function.union is None


def facts(expression: tree.Call | tree.Cast, args: Args, limit: int = DEFAULT_LIMIT) -> Facts:
    """Return the facts of a call, given true facts of its arguments.

    The domain lists at most `limit` values. It is None where neither the arguments' domains nor the
    interval give one without evaluating the call. Raises `Refused` as `function_of` does.
    """
    function, kind = function_of(expression), expression.type
    if function.name == "case":
        args = reached(args)
    nullable_args = converted_facts(function, args)
    interval = function.interval(nullable_args, kind)
    domain = _domain(function, args, kind, interval, limit)
    return Facts(
        kind,
        interval,
        function.nulls(nullable_args)
        or function.raises(args, kind)
        or (kind == tree.DOUBLE and function.nan(nullable_args)),
        domain,
        nonzero=function.nonzero(nullable_args),
    )


def listed(
    expression: tree.Call | tree.Cast, args: Args, inferred: Facts, limit: int = DEFAULT_LIMIT
) -> Facts:
    """Return the `inferred` facts of a call with the domain that its interval allows."""
    domain = function_of(expression).image(args, inferred.type, inferred.interval, limit)
    return replace(inferred, domain=domain)


def converted_facts(function: Function, args: Args) -> Args:
    """Return the arguments after conversion to operand types: NULL where the conversion fails."""
    operands = function.operands(tuple(arg.type for arg in args))
    return tuple(
        replace(arg, nullable=True) if conversion_raises(arg, operand) else arg
        for arg, operand in zip(args, operands, strict=True)
    )


def _domain(
    function: Function, args: Args, kind: tree.SqlType, interval: Interval, limit: int
) -> Domain:
    if function.union is not None:
        merged = _merged([args[n] for n in function.union(len(args))], kind)
        if merged is not None and len(merged) <= limit:
            return _possible(merged, interval)
    return function.image(args, kind, interval, limit)


def _merged(sides: Sequence[Facts], kind: tree.SqlType) -> Domain:
    """Return the values of all sides; None where one is not finite or has values of another
    type.
    """
    values: list[tree.Value] = []
    for side in sides:
        if side.domain is None or (side.domain and not _same_values(side.type, kind)):
            return None
        values.extend(side.domain)
    alone = [side.domain for side in sides if side.domain]
    # A CASE that is a column or NULL has the column's values, which are in order.
    return alone[0] if len(alone) == 1 else distinct(values)


def _same_values(source: tree.SqlType, target: tree.SqlType) -> bool:
    exact = {tree.Kind.INTEGER, tree.Kind.DECIMAL}
    return source.kind is target.kind or {source.kind, target.kind} <= exact


def _possible(values: Sequence[tree.Value], interval: Interval) -> tuple[tree.Value, ...]:
    """Return the values inside an interval; integers take a fast path."""
    lo, hi = interval.lo, interval.hi
    whole = [value for value in values if type(value) is int]
    if len(whole) == len(values) and isinstance(lo, Fraction) and isinstance(hi, Fraction):
        least, most = ceil(lo), floor(hi)
        return tuple(value for value in whole if least <= value <= most)
    return tuple(value for value in values if interval.admits(value))
