"""sqlglot expressions → our expressions: a handler per node class; a missing one is a refusal."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from dpsql.dialects.reading import other_meanings
from dpsql.dialects.reading.arrays import among, containment, is_quantified, quantified, unnested
from dpsql.dialects.reading.calls import anonymous, filtered, trim, window, within_group
from dpsql.dialects.reading.function_names import refusal_of
from dpsql.dialects.reading.interval_literals import duration_of, later, opposite, value_of
from dpsql.dialects.reading.literals import cast_type, casted, literal, negative
from dpsql.dialects.reading.nodes import Origin, name_of, placeholder_of, schema_of, values_of_row
from dpsql.dialects.reading.other_dialects import OTHERS
from dpsql.dialects.reading.time_calls import in_zone, part_of, standard_part
from dpsql.dialects.reading.tokens import FUNCTION
from dpsql.dialects.reading.window_frames import Read
from dpsql.engines import versions
from dpsql.model.bound_parameters import bound
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.ticking import tick
from dpsql.model.tree import (
    BOOLEAN,
    INTEGER,
    NULL,
    VARCHAR,
    Call,
    Expression,
    Kind,
    Literal,
    Membership,
    Name,
    ScalarQuery,
    Span,
)


def expression(node: exp.Expression, origin: Origin) -> Expression:
    """Return the expression of `node`; raises `Refused` for every node without a handler."""
    tick()
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise origin.refusal(node, _SPOKEN.get(type(node).__name__))
    return handler(node, origin)


def _binary(function: str) -> Callable[[exp.Expression, Origin], Expression]:
    def handle(node: exp.Expression, origin: Origin) -> Expression:
        left, right = origin.take(node, "this", "expression")
        if is_quantified(right):
            return quantified(function, expression(left, origin), right, origin, expression)
        args = expression(left, origin), expression(right, origin)
        if function == "ne":
            return other_meanings.equated_there(function, args, origin, origin.span(node))
        return Call(function, args, span=origin.span(node))

    return handle


def _sum(function: str) -> Callable[[exp.Expression, Origin], Expression]:
    """Return the handler of `+` or `-`: of numbers, or of a timestamp and an INTERVAL."""

    def handle(node: exp.Expression, origin: Origin) -> Expression:
        left, right = origin.take(node, "this", "expression")
        span = origin.span(node)
        whole = duration_of(node, origin, expression)
        if whole is not None:
            return value_of(whole, span)
        step = duration_of(right, origin, expression)
        if step is not None:
            moment = expression(left, origin)
            return later(moment, step if function == "add" else opposite(step), span)
        step = duration_of(left, origin, expression) if function == "add" else None
        if step is not None:
            return later(expression(right, origin), step, span)
        args = expression(left, origin), expression(right, origin)
        return other_meanings.sum_there(function, args, origin, span)

    return handle


def _connective(function: str) -> Callable[[exp.Expression, Origin], Expression]:
    """Return the handler of AND or OR; a chain of any length is one call of many arguments."""

    def handle(node: exp.Expression, origin: Origin) -> Expression:
        leaves: list[Expression] = []
        pending = [node]
        while pending:
            current = pending.pop()
            if type(current) is type(node):
                left, right = origin.take(current, "this", "expression")
                pending += [right, left]
            else:
                leaves.append(expression(current, origin))
        return Call(function, tuple(leaves), span=origin.span(node))

    return handle


def _pattern(function: str) -> Callable[[exp.Expression, Origin], Expression]:
    def handle(node: exp.Expression, origin: Origin) -> Expression:
        left, right, negate = origin.take(node, "this", "expression", "negate")
        if is_quantified(right):
            tested = expression(left, origin)
            return quantified(function, tested, right, origin, expression, negate=bool(negate))
        pattern = other_meanings.pattern_there(expression(right, origin), node, origin)
        args = expression(left, origin), pattern
        return _not_if(negate, Call(function, args, span=origin.span(node)))

    return handle


def _not_if(negate: object, call: Call) -> Call:
    return Call("not", (call,), span=call.span) if negate else call


def _escape(node: exp.Expression, origin: Origin) -> Expression:
    """Return LIKE … ESCAPE 'c': the escape is the third argument of the pattern's call."""
    inner, character = origin.take(node, "this", "expression")
    if not isinstance(inner, exp.Like | exp.ILike):
        raise origin.refusal(node)
    call, escape = expression(inner, origin), expression(character, origin)
    match call, escape:
        case Call("not", (Call() as pattern,)), Literal(str() as value) if len(value) == 1:
            negated = True
        case Call() as pattern, Literal(str() as value) if len(value) == 1:
            negated = False
        case _:
            raise origin.refusal(node, "this ESCAPE")
    escaped = Call(pattern.function, (*pattern.args, escape), span=origin.span(node))
    return _not_if(negated, escaped)


def _division(node: exp.Expression, origin: Origin) -> Expression:
    """Return `/`: of floats in DuckDB, of integers in Postgres if both sides are."""
    left, right, _typed, _safe = origin.take(node, "this", "expression", "typed", "safe")
    args = expression(left, origin), expression(right, origin)
    function = (
        "pg_div" if origin.dialect == "postgres" else other_meanings.sign_there("div", origin)
    )
    return Call(function, args, span=origin.span(node))


def _concatenation(node: exp.Expression, origin: Origin) -> Expression:
    """Return `||`; of two constants it is one constant, as in the patterns that clients
    assemble.
    """
    left, right, _safe = origin.take(node, "this", "expression", "safe")
    args = expression(left, origin), expression(right, origin)
    match args:
        case Literal(str() as a, type=kind), Literal(str() as b) if kind == VARCHAR:
            return Literal(a + b, VARCHAR, origin.span(node))
        case _:
            return Call("concat", args, span=origin.span(node))


def _product(node: exp.Expression, origin: Origin) -> Expression:
    """Return `*`: of numbers, or of a number and an INTERVAL."""
    whole = duration_of(node, origin, expression)
    if whole is not None:
        return value_of(whole, origin.span(node))
    left, right = origin.take(node, "this", "expression")
    args = expression(left, origin), expression(right, origin)
    return Call("mul", args, span=origin.span(node))


def _similar(node: exp.Expression, origin: Origin) -> Expression:
    """Return SIMILAR TO for the whole text: a regular expression in DuckDB, SQL's own in
    PostgreSQL.
    """
    left, right = origin.take(node, "this", "expression")
    text, pattern = expression(left, origin), expression(right, origin)
    span = origin.span(node)
    if origin.dialect != "postgres":
        return Call("regexp_full_match", (text, pattern), span=span)
    if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
        raise origin.refusal(right, "SIMILAR TO anything but a constant")
    whole = Literal(regular(pattern.value), VARCHAR, pattern.span)
    return Call("regexp_full_match", (text, whole, _flags("s", span)), span=span)


def regular(pattern: str) -> str:
    r"""Return the regular expression for a pattern of SIMILAR TO.

    >>> regular("a%(b|c)_")
    'a.*(b|c).'
    """
    return "".join(_PARTS.get(part, part) for part in _PART.findall(pattern))


_PART = re.compile(r"\\.|\[[^\]]*\]|.", re.DOTALL)
_PARTS = {"%": ".*", "_": ".", **{sign: "\\" + sign for sign in ".^$"}}


def _flags(written: str, span: Span) -> Literal:
    return Literal(written, VARCHAR, span)


def _matching(in_postgres: str, elsewhere: str) -> Callable[[exp.Expression, Origin], Expression]:
    """Return the handler of `~` or `~*` with these flags: a match anywhere; in DuckDB 1 a full
    match.
    """

    def handle(node: exp.Expression, origin: Origin) -> Expression:
        left, right, _full = origin.take(node, "this", "expression", "full_match")
        span = origin.span(node)
        args = expression(left, origin), expression(right, origin)
        if origin.dialect == "postgres":
            return Call("regexp_matches", (*args, _flags(in_postgres, span)), span=span)
        if versions.TILDE_MATCHES_ANYWHERE:
            flags = (_flags(elsewhere, span),) if elsewhere else ()
            return Call("regexp_matches", (*args, *flags), span=span)
        if elsewhere:
            raise origin.refusal(node, "~* here", fix="Write REGEXP_MATCHES(x, p, 'i').")
        return Call("regexp_full_match", args, span=span)

    return handle


def _holds(
    holding: str, among_them: str, *, every: bool
) -> Callable[[exp.Expression, Origin], Expression]:
    """Return the handler of PostgreSQL's `@>`, `<@` or `&&`; other engines treat NULL
    differently.
    """

    def handle(node: exp.Expression, origin: Origin) -> Expression:
        left, right = origin.take(node, holding, among_them)
        if origin.dialect != "postgres":
            raise origin.refusal(node, "@>, <@ or &&, which engines read differently,")
        return containment(left, right, origin, expression, origin.span(node), every=every)

    return handle


def _unary(function: str) -> Callable[[exp.Expression, Origin], Expression]:
    def handle(node: exp.Expression, origin: Origin) -> Expression:
        (this,) = origin.take(node, "this")
        return Call(function, (expression(this, origin),), span=origin.span(node))

    return handle


def _negation(node: exp.Expression, origin: Origin) -> Expression:
    (this,) = origin.take(node, "this")
    if isinstance(this, exp.Literal) and not this.is_string:
        return negative(literal(this, origin), origin.span(node))
    whole = duration_of(node, origin, expression)
    if whole is not None:
        return value_of(whole, origin.span(node))
    return Call("neg", (expression(this, origin),), span=origin.span(node))


def _is(node: exp.Expression, origin: Origin) -> Expression:
    """Return IS [NOT] NULL | TRUE | FALSE | UNKNOWN."""
    left, right, negate = origin.take(node, "this", "expression", "negate")
    tested, span = expression(left, origin), origin.span(node)
    if isinstance(right, exp.Null):
        return _not_if(negate, Call("is_null", (tested,), span=span))
    if isinstance(right, exp.Boolean):
        truth = expression(right, origin)
        return _not_if(negate, Call("is_not_distinct", (tested, truth), span=span))
    raise origin.refusal(node, "this IS")


def _in(node: exp.Expression, origin: Origin) -> Expression:
    this, members, query, field = origin.take(node, "this", "expressions", "query", "field")
    array = field if query is None else unnested(query)
    if array is not None:
        return among(expression(this, origin), array, origin, expression, origin.span(node))
    if query is None and members and isinstance(members[0], exp.Values):
        (query, *members) = members
    if query is not None and not members:
        return Membership(origin.read_query(query, origin), _row(this, origin), origin.span(node))
    if not members:
        raise origin.refusal(node, "an empty IN")
    if values_of_row(this, origin) is not None:
        matches = tuple(_same_row(this, member, node, origin) for member in members)
        return matches[0] if len(matches) == 1 else Call("or", matches, span=origin.span(node))
    args = tuple(expression(e, origin) for e in (this, *members))
    return other_meanings.equated_there("in", args, origin, origin.span(node))


def _row(node: exp.Expression, origin: Origin) -> Expression:
    """Return the left side of IN: a value, or several as `row`."""
    values = values_of_row(node, origin)
    if values is None:
        return expression(node, origin)
    return Call("row", tuple(expression(v, origin) for v in values), span=origin.span(node))


def _same_row(
    left: exp.Expression, right: exp.Expression, node: exp.Expression, origin: Origin
) -> Expression:
    """Return (a, b) = (c, d) as a = c AND b = d, which is NULL in the same cases."""
    ours, theirs = values_of_row(left, origin), values_of_row(right, origin)
    if ours is None or theirs is None:
        raise origin.refusal(node, "a row of values")
    if len(ours) != len(theirs):
        raise Refused(Reason.SYNTAX, origin.span(node), why="the rows differ in length")
    span = origin.span(node)
    equal = tuple(
        other_meanings.equated_there(
            "eq", (expression(a, origin), expression(b, origin)), origin, span
        )
        for a, b in zip(ours, theirs, strict=True)
    )
    return equal[0] if len(equal) == 1 else Call("and", equal, span=span)


def _inequality(node: exp.Expression, origin: Origin) -> Expression:
    """Return `<>` of values; of rows only in PostgreSQL, because DuckDB treats NULL in them as a
    value.
    """
    left, right = origin.take(node, "this", "expression")
    if origin.dialect != "postgres" or values_of_row(left, origin) is None:
        return _binary("ne")(node, origin)
    return Call("not", (_same_row(left, right, node, origin),), span=origin.span(node))


def _equality(node: exp.Expression, origin: Origin) -> Expression:
    """Return `=` of values or of rows of values."""
    left, right = origin.take(node, "this", "expression")
    if values_of_row(left, origin) is not None:
        return _same_row(left, right, node, origin)
    if is_quantified(right):
        return quantified("eq", expression(left, origin), right, origin, expression)
    args = expression(left, origin), expression(right, origin)
    return other_meanings.equated_there("eq", args, origin, origin.span(node))


def _between(node: exp.Expression, origin: Origin) -> Expression:
    """Return BETWEEN low AND high; SYMMETRIC also accepts the bounds in reverse."""
    this, low, high, symmetric = origin.take(node, "this", "low", "high", "symmetric")
    tested, span = expression(this, origin), origin.span(node)
    one, other = expression(low, origin), expression(high, origin)

    def within(first: Expression, last: Expression) -> Call:
        above, below = Call("ge", (tested, first), span=span), Call("le", (tested, last), span=span)
        return Call("and", (above, below), span=span)

    if not symmetric:
        return within(one, other)
    return Call("or", (within(one, other), within(other, one)), span=span)


def _case(node: exp.Expression, origin: Origin) -> Expression:
    """Return CASE [operand] WHEN … THEN … [ELSE …] END, always with an ELSE in our tree."""
    operand, branches, default = origin.take(node, "this", "ifs", "default")
    span = origin.span(node)
    tested = None if operand is None else expression(operand, origin)
    args: list[Expression] = []
    for branch in branches:
        condition, value = origin.take(branch, "this", "true")
        when = expression(condition, origin)
        pair = None if tested is None else (tested, when)
        args.append(other_meanings.equated_there("eq", pair, origin, when.span) if pair else when)
        args.append(expression(value, origin))
    args.append(Literal(None, NULL, span) if default is None else expression(default, origin))
    return Call("case", tuple(args), span=span)


def _cast(node: exp.Expression, origin: Origin) -> Expression:
    """Return CAST, TRY_CAST, `::`, or a typed literal such as DATE '2025-01-01'."""
    whole = duration_of(node, origin, expression)
    if whole is not None:
        return value_of(whole, origin.span(node))
    this, to, safe = origin.take(node, "this", "to", "safe")
    target, longest = cast_type(to, origin)
    safe = bool(safe) or isinstance(node, exp.TryCast)
    span = origin.span(node)
    value = expression(this, origin)
    if origin.dialect == "tsql" and target.kind is Kind.INTEGER:
        value = Call("cut_fraction", (value,), span=span)
    elif origin.dialect in OTHERS and target.is_numeric and not isinstance(value, Literal):
        value = Call("no_text", (value,), span=span)
    cast = casted(value, target, origin, span, safe=safe)
    if longest is None:
        return cast
    cut = Call("left", (cast, Literal(longest, INTEGER, span)), span=span)
    # A CHAR(n) ignores blanks at its end.
    return Call("rtrim", (cut,), span=span) if to.this == exp.DType.CHAR else cut


def _extract(node: exp.Expression, origin: Origin) -> Expression:
    part, this = origin.take(node, "this", "expression")
    if not isinstance(part, exp.Var | exp.Literal):
        raise origin.refusal(node, "EXTRACT of a computed part")
    written = str(origin.take(part, "this", "is_string")[0])
    name = other_meanings.part_there(standard_part(written), node, origin)
    return part_of(name, expression(this, origin), origin.span(node))


def _substring(node: exp.Expression, origin: Origin) -> Expression:
    text, start, length = origin.take(node, "this", "start", "length")
    first = Literal(1, INTEGER, origin.span(node)) if start is None else expression(start, origin)
    values = [expression(text, origin), first]
    values += [] if length is None else [expression(length, origin)]
    if origin.dialect in OTHERS:
        return other_meanings.part_of_text(values, node, origin)
    return Call("substring", tuple(values), span=origin.span(node))


def _of_two_texts(name: str, second: str) -> Callable[[exp.Expression, Origin], Expression]:
    """Return the reader of a function of a text and the text under `second`."""

    def read(node: exp.Expression, origin: Origin) -> Expression:
        text, other = origin.take(node, "this", second)
        args = expression(text, origin), expression(other, origin)
        return Call(name, args, span=origin.span(node))

    return read


def _column(node: exp.Expression, origin: Origin) -> Expression:
    """Return a column, or another term that was renamed to one."""
    this, table, schema, catalog = origin.take(node, "this", "table", "db", "catalog")
    number = placeholder_of(this)
    if number is not None and table is None:
        return bound(origin.parameters[number], origin.span(node))
    if isinstance(this, exp.Identifier) and not this.quoted and this.name.startswith(FUNCTION):
        name = this.name.removeprefix(FUNCTION).lower()
        clock = other_meanings.clock_of(name, origin.dialect)
        reading = None if clock is None else origin.clock_reading(clock, origin.span(node))
        if reading is not None:
            return reading
        raise refusal_of(name, origin.span(node))
    qualifier = None if table is None else name_of(table, origin)
    if isinstance(this, exp.Star):
        raise origin.refusal(node, _SPOKEN["Star"])
    where = schema_of(catalog, schema, origin)
    return Name(name_of(this, origin), qualifier, origin.span(node), where)


def _null(node: exp.Expression, origin: Origin) -> Expression:
    origin.take(node)
    return Literal(None, NULL, origin.span(node))


def _subquery(node: exp.Expression, origin: Origin) -> Expression:
    return ScalarQuery(origin.read_query(node, origin), origin.span(node))


def _exists(node: exp.Expression, origin: Origin) -> Expression:
    (this,) = origin.take(node, "this")
    query = origin.read_query(this, origin)
    if query.limit and not query.offset:
        query = replace(query, limit=None)  # there is a first row where there is any
    return Membership(query, None, origin.span(node))


def _glob(node: exp.Expression, origin: Origin) -> Expression:
    """Return GLOB of a constant with `*` and `?` alone as LIKE."""
    left, right = origin.take(node, "this", "expression")
    text, pattern = expression(left, origin), expression(right, origin)
    match pattern:
        case Literal(str() as written) if (
            not _UNLIKE.search(written) and origin.dialect != "postgres"
        ):
            like = replace(pattern, value=written.translate(_OF_GLOB))
            return Call("like", (text, like), span=origin.span(node))
        case _:
            raise origin.refusal(node, "this GLOB", fix="Write LIKE or REGEXP_MATCHES.")


_UNLIKE = re.compile(r"[%_\\\[\]]")
_OF_GLOB = str.maketrans("*?", "%_")


def at_time_zone(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return the timestamp AT TIME ZONE 'name'."""
    moment, zone = origin.take(node, "this", "zone")
    return in_zone(read(zone, origin), read(moment, origin), origin.span(node))


def _call(
    reader: Callable[
        [exp.Expression, Origin, Callable[[exp.Expression, Origin], Expression]], Expression
    ],
) -> Callable[[exp.Expression, Origin], Expression]:
    """Return a handler for a reader of calls, which gets the function that reads its arguments."""

    def handle(node: exp.Expression, origin: Origin) -> Expression:
        return reader(node, origin, expression)

    return handle


_SPOKEN = {
    "Anonymous": "this function",
    "Star": "* in an expression",
    "Order": "ORDER BY in a function call",
    "Limit": "LIMIT in a function call",
    "Distinct": "DISTINCT in this function",
    "Dot": "access to a part of a value",
    "Tuple": "a row of values",
    "Var": "this word",
}

_BINARY: Mapping[type[exp.Expression], str] = {
    exp.IntDiv: "int_div",
    exp.Mod: "mod",
    exp.Pow: "pow",
    exp.BitwiseXor: "xor",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "is_not_distinct",
    exp.NullSafeNEQ: "is_distinct",
}

_HANDLERS: Mapping[type[exp.Expression], Callable[[exp.Expression, Origin], Expression]] = {
    **{node: _binary(function) for node, function in _BINARY.items()},
    exp.Add: _sum("add"),
    exp.Sub: _sum("sub"),
    exp.Mul: _product,
    exp.EQ: _equality,
    exp.NEQ: _inequality,
    exp.And: _connective("and"),
    exp.Or: _connective("or"),
    exp.Not: _unary("not"),
    exp.ArrayContainsAll: _holds("this", "expression", every=True),
    exp.ArrayContainedBy: _holds("expression", "this", every=True),
    exp.ArrayOverlaps: _holds("this", "expression", every=False),
    exp.BitwiseAnd: _binary("bitwise_and"),
    exp.BitwiseOr: _binary("bitwise_or"),
    exp.BitwiseNot: _unary("bitwise_not"),
    exp.SimilarTo: _similar,
    exp.RegexpLike: _matching("s", ""),
    exp.RegexpFullMatch: _matching("s", ""),  # `~` by sqlglot 30.20
    exp.RegexpILike: _matching("is", "i"),
    exp.Neg: _negation,
    exp.Paren: lambda node, origin: expression(origin.take(node, "this")[0], origin),
    exp.Div: _division,
    exp.DPipe: _concatenation,
    exp.Like: _pattern("like"),
    exp.ILike: _pattern("ilike"),
    exp.Escape: _escape,
    exp.Glob: _glob,
    exp.StartsWith: _of_two_texts("starts_with", "expression"),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.Substring: _substring,
    exp.StrPosition: _of_two_texts("strpos", "substr"),
    exp.Column: _column,
    exp.Literal: literal,
    exp.Boolean: lambda node, origin: Literal(
        bool(origin.take(node, "this")[0]), BOOLEAN, origin.span(node)
    ),
    exp.Null: _null,
    exp.Subquery: _subquery,
    exp.Select: _subquery,
    exp.Exists: _exists,
    exp.Trim: _call(trim),
    exp.AtTimeZone: _call(at_time_zone),
    exp.Anonymous: _call(anonymous),
    exp.Filter: _call(filtered),
    exp.Window: _call(window),
    exp.WithinGroup: _call(within_group),
}
