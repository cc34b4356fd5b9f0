"""Conditions in canonical form: `NOT age <= 61`, `61 < age` and `age >= 62` are one condition.

Each rule keeps the value of the expression in every row, NULL included, so it may be used at any
depth. Rules that hold only for conditions that must be true are in `required`. Nothing here can
raise: an error in SQL is NULL in the form that is run, and its arguments stay the same.

Proof (PRIVACY.md R77). AND, OR and NOT are those of Kleene: they commute, are associative and
idempotent, TRUE and FALSE are neutral or absorb, De Morgan holds, and NOT NOT x is x. Comparisons
are those of a total order, in which NaN is the greatest, and NULL where a side is: so NOT of one is
its opposite. There is no value between two adjacent integers or days: so x < n is x <= n - 1. x IN
(a, b) is x = a OR x = b by definition. Among limits on the same side AND keeps the tighter one, OR
the wider one; all of them are NULL in the same rows.

    >>> from dpsql.model.tree import INTEGER, Ref
    >>> age, limit = Ref(1, INTEGER), Literal(61, INTEGER)
    >>> normal(~age.le(61)) == normal(Call("lt", (limit, age))) == age.ge(62)
    True
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Any

from dpsql.model.comparisons import MIRRORED, TRUE_IF
from dpsql.model.tree import BOOLEAN, INTEGER, NULL, Call, Expression, Kind, Literal, Ref, SqlType
from dpsql.model.walk import conjuncts, map_children

TRUE = Literal(value=True, type=BOOLEAN)
FALSE = Literal(value=False, type=BOOLEAN)
UNKNOWN = Literal(None, BOOLEAN)

OPPOSITE = {
    name: next(
        other
        for other, theirs in TRUE_IF.items()
        if all(a is not b for a, b in zip(truth, theirs, strict=True))
    )
    for name, truth in TRUE_IF.items()
} | {"is_distinct": "is_not_distinct", "is_not_distinct": "is_distinct"}
"""Opposite comparisons: `NOT a name b` equals `a OPPOSITE[name] b`."""

DUAL = {"and": "or", "or": "and"}
NEUTRAL = {"and": TRUE, "or": FALSE}
TIGHTER = {
    ("and", "le"): min, ("and", "ge"): max, ("or", "le"): max, ("or", "ge"): min,
}  # fmt: skip

STEPPED = {"lt": ("le", -1), "gt": ("ge", 1)}
"""Equivalents of strict comparisons with a constant, for types with steps: the comparison and a
shift.
"""
_EXACT = 2**53
"""Largest integer that is exact in every type in which an engine may compare."""
_SMALL = 10**9
"""Upper limit of whole numbers that fit every DECIMAL in which an engine may compare."""


def normal(expression: Expression) -> Expression:
    """Return the expression in canonical form, with the same value in every row."""
    expression = map_children(expression, normal)
    match expression:
        case Call(function="not", args=(inner,)):
            return negated(inner)
        case Call(function="and" | "or" as name, args=args):
            return junction(name, args)
        case Call(function=name, args=(left, right)) if name in TRUE_IF:
            return comparison(name, left, right)
        case Call(function="in", args=(subject, *options)):
            return _membership(expression, subject, options)
        case Call(function="is_null", args=(Literal(value=value),)):
            return TRUE if value is None else FALSE
        case _:
            return expression


def negated(inner: Expression) -> Expression:
    """Return NOT of a canonical expression, in canonical form."""
    match inner:
        case Literal(value=None):
            return UNKNOWN
        case Literal(value=bool(truth)):
            return FALSE if truth else TRUE
        case Call(function="not", args=(expression,)) if _type(expression) == BOOLEAN:
            return expression
        case Call(function="and" | "or" as name, args=args):
            return junction(DUAL[name], map(negated, args))
        case Call(function=name, args=(left, right)) if name in TRUE_IF:
            return comparison(OPPOSITE[name], left, right)
        case Call(function="is_distinct" | "is_not_distinct" as name):
            return replace(inner, function=OPPOSITE[name])
        case _:
            return Call("not", (inner,), BOOLEAN)


# --- comparisons ---------------------------------------------------------------------------------


def comparison(name: str, left: Expression, right: Expression) -> Expression:
    """Return a canonical comparison, with a constant on the right."""
    if isinstance(left, Literal) or (name in ("gt", "ge") and not isinstance(right, Literal)):
        name, left, right = MIRRORED[name], right, left
    if isinstance(right, Literal):
        return _with_constant(name, left, right)
    return Call(name, (left, right), BOOLEAN)


def _with_constant(name: str, subject: Expression, constant: Literal) -> Expression:
    kind = _type(subject)
    constant = _whole(constant, kind)
    match subject:
        case _ if constant.value is None:
            return UNKNOWN
        case Literal(value=None):
            return UNKNOWN
        case Literal(value=value) if kind == constant.type and (
            has_steps(kind) or (kind.kind in (Kind.VARCHAR, Kind.BOOLEAN) and name in ("eq", "ne"))
        ):
            other: Any = constant.value
            return TRUE if TRUE_IF[name][(value > other) - (value < other) + 1] else FALSE
        case _ if kind == constant.type == BOOLEAN and name in ("eq", "ne"):
            return subject if (name == "eq") is constant.value else negated(subject)
        case _:
            name, sides = _stepped(name, subject, constant)
            return Call(name, sides, BOOLEAN)


def _whole(constant: Literal, kind: SqlType) -> Literal:
    """Return 10.0 as 10 where it is compared with a type that compares alike with both.

    Rounding an INTEGER to DOUBLE keeps its order with a whole number below `_SMALL`. It need not
    for a DECIMAL, so a DOUBLE next to one stays; so does a number that a DECIMAL has no digits for.
    """
    value = constant.value
    if not isinstance(value, float | Decimal) or not -_SMALL < value < _SMALL:
        return constant
    if value != int(value):
        return constant
    if kind.kind is Kind.DECIMAL:
        most: int = 10 ** (kind.precision - kind.scale)
        alike = isinstance(value, Decimal) and abs(value) < most
    else:
        alike = kind.kind in (Kind.INTEGER, Kind.DOUBLE)
    return replace(constant, value=int(value), type=INTEGER) if alike else constant


def has_steps(kind: SqlType) -> bool:
    """Test whether the values of a type are discrete, with steps between them."""
    return kind.kind in (Kind.INTEGER, Kind.DATE)


def _stepped(
    name: str, subject: Expression, constant: Literal
) -> tuple[str, tuple[Expression, Literal]]:
    as_written = name, (subject, constant)
    if name not in STEPPED or _type(subject) != constant.type or not has_steps(constant.type):
        return as_written
    name, steps = STEPPED[name]
    beside = _beside(constant.value, steps)
    return as_written if beside is None else (name, (subject, Literal(beside, constant.type)))


def _beside(value: Any, steps: int) -> int | date | None:
    """Return the value `steps` further; None where it does not exist or might not be compared
    exactly.
    """
    if isinstance(value, int):
        return value + steps if abs(value) < _EXACT else None
    try:
        return value + timedelta(days=steps) if isinstance(value, date) else None
    except OverflowError:
        return None


def _membership(call: Call, subject: Expression, options: list[Expression]) -> Expression:
    """Return `subject IN (options)` in canonical form, if the subject is a constant or all options
    are constants of one type (NULL fits any); else the call as it is.
    """
    constants = [option for option in options if isinstance(option, Literal)]
    some = [constant for constant in constants if constant.value is not None]
    if isinstance(subject, Literal):
        return junction("or", (comparison("eq", subject, option) for option in options))
    if len(constants) < len(options) or len({constant.type for constant in some}) > 1:
        return call
    parts = [_among(subject, some)] if some else []
    return junction("or", [*parts, *([UNKNOWN] if len(some) < len(options) else [])])


def _among(subject: Expression, constants: Iterable[Literal]) -> Expression:
    """Return the membership of `subject` in constants of one type, each once and sorted."""
    different = sorted(set(constants), key=lambda constant: repr(constant.value))
    if len(different) == 1:
        return comparison("eq", subject, different[0])
    return Call("in", (subject, *different), BOOLEAN)


# --- AND and OR ----------------------------------------------------------------------------------


def junction(name: str, args: Iterable[Expression]) -> Expression:
    """Return AND or OR of canonical expressions, in canonical form."""
    parts = dict.fromkeys(_flattened(name, args))
    if negated(NEUTRAL[name]) in parts:
        return negated(NEUTRAL[name])
    parts.pop(NEUTRAL[name], None)
    merged = list(dict.fromkeys(_merged(name, parts)))
    if len(merged) == 1 and _type(merged[0]) == BOOLEAN:
        return merged[0]
    return Call(name, tuple(merged), BOOLEAN) if merged else NEUTRAL[name]


def _flattened(name: str, args: Iterable[Expression]) -> Iterator[Expression]:
    for arg in args:
        match arg:
            case Call(function=function, args=inner) if function == name:
                yield from inner
            case Literal(value=None):
                yield UNKNOWN
            case _:
                yield arg


def _merged(name: str, parts: Iterable[Expression]) -> Iterator[Expression]:
    """Yield the parts, with those that compare one subject to constants of one type merged."""
    members = defaultdict[tuple[Expression, SqlType], list[Literal]](list)
    ends = defaultdict[Expression, dict[str, Literal]](dict)
    for part in parts:
        match part if name == "or" else _uncovered(part):
            case Call(function="eq" | "in", args=(subject, Literal() as first, *others)) if all(
                isinstance(option, Literal) and option.type == first.type for option in others
            ):
                members[subject, first.type] += [first, *others]  # type: ignore[list-item]
                continue
        match part:
            case Call(function="le" | "ge" as side, args=(subject, Literal() as end)) if _type(
                subject
            ) == end.type and has_steps(end.type):
                least = ends[subject].get(side, end)
                ends[subject][side] = TIGHTER[name, side](least, end, key=attrgetter("value"))
            case _:
                yield part
    for (subject, _), constants in members.items():
        listed = _among(subject, constants)
        yield listed if name == "or" else negated(listed)
    for subject, sides in ends.items():
        yield from _between(name, subject, sides)


def _uncovered(part: Expression) -> Expression:
    """Return the expression that `part` negates, if it is a comparison or a membership."""
    match part:
        case Call(function="ne", args=args):
            return Call("eq", args, BOOLEAN)
        case Call(function="not", args=(Call(function="in") as listed,)):
            return listed
        case _:
            return NEUTRAL["and"]


def _between(name: str, subject: Expression, sides: dict[str, Literal]) -> Iterator[Expression]:
    if name == "and" and sides.get("le") is not None and sides.get("le") == sides.get("ge"):
        yield comparison("eq", subject, sides["le"])
        return
    for side, end in sides.items():
        yield Call(side, (subject, end), BOOLEAN)


# --- where only TRUE counts ----------------------------------------------------------------------


def required(
    conditions: Iterable[Expression], never_null: Collection[int] = ()
) -> tuple[Expression, ...]:
    """Return conditions that are all true in exactly the rows in which all of these are true.

    Rows for which a condition is NULL are excluded like those for which it is false. The columns
    `never_null` contain no NULL. Conditions that others imply are left out.

    >>> from dpsql.model.tree import INTEGER
    >>> age = Ref(1, INTEGER)
    >>> required([~age.is_null(), age.ge(62), NEUTRAL["and"]]) == (age.ge(62),)
    True
    """
    together = junction("and", (_if_true(normal(condition)) for condition in conditions))
    parts = tuple(part for part in conjuncts(together) if part != TRUE)
    if any(part in (FALSE, UNKNOWN) for part in parts) or _is_contradiction(parts):
        return (FALSE,)
    there = {value for part in parts for value in _needed(part)}
    return tuple(part for part in parts if not _is_implied(part, there, never_null))


def _if_true(part: Expression) -> Expression:
    """Return a condition that is true where this one is; NULL and false may differ."""
    match part:
        case Call(function="and" | "or" as name, args=args):
            return junction(name, map(_if_true, args))
        case Literal(value=None):
            return FALSE
        case Call(function="is_not_distinct", args=(subject, Literal(value=value) as constant)) if (
            value is not None
        ):
            return comparison("eq", subject, constant)
        case _:
            return part


def _is_contradiction(parts: Iterable[Expression]) -> bool:
    """Test whether an upper limit lies below a lower one of the same expression."""
    ends = dict[tuple[Expression, str], Any]()
    for part in parts:
        match part:
            case Call(
                function="le" | "ge" as side, args=(subject, Literal(value=value, type=kind))
            ):
                if has_steps(kind) and _type(subject) == kind:
                    ends[subject, side] = value
    return any(
        side == "le" and (subject, "ge") in ends and value < ends[subject, "ge"]
        for (subject, side), value in ends.items()
    )


def _needed(part: Expression) -> Iterator[Expression]:
    """Yield the expressions that are not NULL where a condition is true."""
    match part:
        case Call(function="not", args=(Call(function="in" | "like" | "ilike") as inner,)):
            yield inner.args[0]
        case Call(function=name, args=args) if name in TRUE_IF:
            yield from args
        case Call(function="in" | "like" | "ilike", args=(subject, *_)):
            yield subject
        case _:
            return


def _is_implied(
    part: Expression, there: Collection[Expression], never_null: Collection[int]
) -> bool:
    match part:
        case Call(function="not", args=(Call(function="is_null", args=(value,)),)):
            return value in there or (isinstance(value, Ref) and value.id in never_null)
        case _:
            return False


def _type(expression: Expression) -> SqlType:
    return getattr(expression, "type", NULL)
