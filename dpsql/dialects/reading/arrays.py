"""Arrays: lists of values that are known when a text is read; our tree has no others.

`x = ANY (array)` is `x IN (…)`. A comparison with ANY or ALL of an array becomes a comparison with
each member. Arrays are written (`ARRAY[…]`, `[…]`, `'{…}'`), bound as a parameter, or split from a
constant text. Any other array is refused.
"""

from __future__ import annotations

from sqlglot import exp

from dpsql.compiler.resolve.string_constants import coerced
from dpsql.dialects.postgres.array_text import members as members_of_text
from dpsql.dialects.reading.array_tokens import ALL_OF, ANY_OF, LIST
from dpsql.dialects.reading.literals import cast_type, casted
from dpsql.dialects.reading.nodes import Origin, placeholder_of
from dpsql.dialects.reading.tokens import FUNCTION
from dpsql.dialects.reading.window_frames import Read
from dpsql.model import tree
from dpsql.model.bound_parameters import bound
from dpsql.model.errors import Reason, Refused

MAX_MEMBERS = 10_000
"""Largest number of members of an array: each is a constant of the printed statement."""

Members = list[tree.Expression]


def is_list(node: exp.Expression) -> bool:
    """Test whether a node is a list in brackets."""
    return isinstance(node, exp.Anonymous) and node.name == LIST


def is_quantified(node: exp.Expression) -> bool:
    """Test whether a node is the ANY (…) or ALL (…) after a comparison."""
    return isinstance(node, exp.Anonymous) and node.name in (ANY_OF, ALL_OF)


def quantified(
    function: str,
    left: tree.Expression,
    right: exp.Expression,
    origin: Origin,
    read: Read,
    *,
    negate: bool = False,
) -> tree.Expression:
    """Return the comparison `left [NOT] function ANY (right)`, or ALL."""
    span = origin.span(right)
    this, args = origin.take(right, "this", "expressions")
    every = str(this) == ALL_OF
    in_query = len(args) == 1 and isinstance(args[0], exp.Query)
    if in_query:
        return _of_query(function, left, right, origin, every=every)
    listed = members(args[0], origin, read) if len(args) == 1 else [read(a, origin) for a in args]
    if listed is None:
        return tree.Literal(None, tree.BOOLEAN, span)
    if not listed:
        return tree.Literal(every, tree.BOOLEAN, span)
    if (function, every) in _IN:
        among = tree.Call("in", (left, *listed), span=span)
        return tree.Call("not", (among,), span=span) if every else among
    compared = tuple(tree.Call(function, (left, member), span=span) for member in listed)
    if negate:
        compared = tuple(tree.Call("not", (one,), span=span) for one in compared)
    return joined(compared, span, every=every)


_IN = frozenset({("eq", False), ("ne", True)})
"""Comparisons that are IN: `= ANY`, and NOT IN: `<> ALL`."""


def joined(
    conditions: tuple[tree.Expression, ...], span: tree.Span, *, every: bool
) -> tree.Expression:
    """Return the conjunction of conditions (`every`), or their disjunction."""
    if len(conditions) == 1:
        return conditions[0]
    return tree.Call("and" if every else "or", conditions, span=span)


def _of_query(
    function: str, left: tree.Expression, right: exp.Expression, origin: Origin, *, every: bool
) -> tree.Expression:
    """Return `= ANY (SELECT …)` and `<> ALL (SELECT …)` as IN and NOT IN."""
    if (function, every) not in _IN:
        raise Refused(
            Reason.UNSUPPORTED_SYNTAX,
            origin.span(right),
            construct=f"this comparison with {'ALL' if every else 'ANY'} of a subquery",
            fix="Compare with the largest or the smallest: (SELECT MAX(x) …).",
        )
    query = origin.read_query(right.expressions[0], origin)
    among = tree.Membership(query, left, origin.span(right))
    return tree.Call("not", (among,), span=among.span) if every else among


def members(node: exp.Expression, origin: Origin, read: Read) -> Members | None:
    """Return the members of an array node, None for NULL. Raises `Refused` for others."""
    listed = _members(node, origin, read)
    if listed is not None and len(listed) > MAX_MEMBERS:
        what = "members of an array"
        raise Refused(Reason.TOO_LARGE, origin.span(node), what=what, limit=MAX_MEMBERS)
    return listed


def _members(node: exp.Expression, origin: Origin, read: Read) -> Members | None:
    match node:
        case exp.Paren():
            return _members(origin.take(node, "this")[0], origin, read)
        case exp.Cast():
            return _of_cast(node, origin, read)
        case exp.Null():
            origin.take(node)
            return None
        case exp.Literal() if node.is_string:
            return _of_text(str(origin.take(node, "this", "is_string")[0]), origin.span(node))
        case exp.Anonymous() if is_list(node):
            _, written = origin.take(node, "this", "expressions")
            return [read(member, origin) for member in written or ()]
        case exp.Anonymous() if str(node.this).removeprefix(FUNCTION).lower() == "string_to_array":
            return _split(node, origin, read)
        case exp.Column() if (number := placeholder_of(node.this)) is not None:
            return _of_parameter(origin.parameters[number], origin.span(node))
        case _:
            raise Refused(
                Reason.UNSUPPORTED_SYNTAX,
                origin.span(node),
                construct="an array of anything but constants",
                fix="Write ARRAY[…], bind a list, or write IN (SELECT …).",
            )


def _of_cast(node: exp.Expression, origin: Origin, read: Read) -> Members | None:
    """Return the members of `'{1,2}'::int[]`, each cast."""
    this, to, safe = origin.take(node, "this", "to", "safe")
    element = element_of(to, origin)
    if safe or element is None:
        raise origin.refusal(node, "this cast of an array")
    listed = _members(this, origin, read)
    if listed is None:
        return None
    return [_cast(member, element, origin, origin.span(node)) for member in listed]


def _cast(
    member: tree.Expression, target: tree.SqlType, origin: Origin, span: tree.Span
) -> tree.Expression:
    """Return the member in its type; a constant stays one if possible."""
    if isinstance(member, tree.Literal):
        if member.type in (target, tree.NULL):
            return tree.Literal(member.value, target, member.span)
        member = coerced(member, target)
        if member.type == target:
            return member
    return casted(member, target, origin, span)


def element_of(to: exp.Expression, origin: Origin) -> tree.SqlType | None:
    """Return the type of an array type's members, None if it is not an array type."""
    if not (isinstance(to, exp.DataType) and to.this == exp.DType.ARRAY):
        return None
    _, inner, _nested = origin.take(to, "this", "expressions", "nested")
    if len(inner or ()) != 1:
        raise origin.refusal(to, "this type")
    target, longest = cast_type(inner[0], origin)
    if longest is not None:
        raise origin.refusal(to, "an array of VARCHAR with a length")
    return target


def _of_text(text: str, span: tree.Span) -> Members:
    """Return the members of '{a,b}'; their types come from the compared value, as for bare
    strings.
    """
    try:
        listed = members_of_text(text)
    except ValueError:
        raise Refused(
            Reason.TYPE_MISMATCH, span, function="array", types=("this string",)
        ) from None
    return [tree.Literal(m, tree.NULL if m is None else tree.VARCHAR, span) for m in listed]


def _of_parameter(value: object, span: tree.Span) -> Members | None:
    match value:
        case None:
            return None
        case str():
            return _of_text(value, span)
        case tuple():
            if len(value) > MAX_MEMBERS:
                raise Refused(Reason.TOO_LARGE, span, what="members of an array", limit=MAX_MEMBERS)
            return [bound(member, span) for member in value]
        case _:
            raise Refused(Reason.BAD_PARAMETER, span, why="it is no array")


def _split(node: exp.Expression, origin: Origin, read: Read) -> Members | None:
    """Return the members of STRING_TO_ARRAY('a,b', ','), for constants."""
    _, args = origin.take(node, "this", "expressions")
    match [read(arg, origin) for arg in args or ()]:
        case [tree.Literal(str() as text), tree.Literal(str() as separator)] if separator:
            span = origin.span(node)
            return [
                tree.Literal(part, tree.VARCHAR, span) for part in text.split(separator) if text
            ]
        case _:
            raise origin.refusal(node, "STRING_TO_ARRAY of anything but two constants")


def unnested(node: exp.Expression) -> exp.Expression | None:
    """Return the array if a query returns exactly its members; None for any other query.

    Such queries are SELECT UNNEST(array), and SELECT x FROM UNNEST(array) AS u(x).
    """
    while isinstance(node, exp.Subquery) and _has_only(node, "this"):
        node = node.this
    if not isinstance(node, exp.Select) or len(node.expressions) != 1:
        return None
    (item,) = node.expressions
    item = item.this if isinstance(item, exp.Alias) else item
    if _has_only(node, "expressions"):
        return _of_unnest(item)
    source = node.args.get("from_")
    table = source.this if source is not None and _has_only(node, "expressions", "from_") else None
    if isinstance(table, exp.Table) and _has_only(table, "this", "alias") and _is_all(item, table):
        return _of_unnest(table.this)
    return None


def _of_unnest(call: exp.Expression) -> exp.Expression | None:
    """Return the array of UNNEST(array), else None."""
    if not isinstance(call, exp.Anonymous) or len(call.expressions) != 1:
        return None
    name = str(call.this).removeprefix(FUNCTION).lower()
    return call.expressions[0] if name == "unnest" else None


def _is_all(item: exp.Expression, table: exp.Expression) -> bool:
    """Test whether an item of a SELECT list is the table's one column, by `*` or by its name."""
    if isinstance(item, exp.Star):
        return not any(item.args.values())
    alias = table.args.get("alias")
    columns = [] if alias is None else alias.args.get("columns") or []
    named = isinstance(item, exp.Column) and _has_only(item, "this")
    return named and len(columns) == 1 and columns[0].name.lower() == item.name.lower()


def _has_only(node: exp.Expression, *names: str) -> bool:
    return not any(value for key, value in node.args.items() if key not in names)


ARRAY_CALLS = frozenset(
    """list_contains list_has array_contains array_has list_position list_indexof array_position
    array_indexof""".split()
)
"""Functions of an array and a value."""


def array_call(
    name: str, args: list[exp.Expression], node: exp.Expression, origin: Origin, read: Read
) -> tree.Expression:
    """Return LIST_CONTAINS(array, value) or ARRAY_POSITION(array, value)."""
    if len(args) != 2:  # noqa: PLR2004
        raise origin.refusal(node, f"{name.upper()} of {len(args)} arguments")
    answer = place if name.endswith(("position", "indexof")) else among
    return answer(read(args[1], origin), args[0], origin, read, origin.span(node))


def among(
    value: tree.Expression, node: exp.Expression, origin: Origin, read: Read, span: tree.Span
) -> tree.Expression:
    """Return the test for a member of an array: `x IN (SELECT UNNEST(array))`."""
    listed = members(node, origin, read)
    if not listed:
        return tree.Literal(None if listed is None else False, tree.BOOLEAN, span)
    return tree.Call("in", (value, *listed), span=span)


def containment(
    holding: exp.Expression,
    among_them: exp.Expression,
    origin: Origin,
    read: Read,
    span: tree.Span,
    *,
    every: bool,
) -> tree.Expression:
    """Return the test whether one array contains `every` member of another, or any: `@>` and
    `&&`.

    NULL is contained in none.
    """
    whole, parts = (members(node, origin, read) for node in (holding, among_them))
    if whole is None or parts is None:
        return tree.Literal(None, tree.BOOLEAN, span)
    nothing = tree.Literal(False, tree.BOOLEAN, span)
    if not whole or not parts:
        return tree.Literal(every and not parts, tree.BOOLEAN, span)
    surely = tuple(
        tree.Call("coalesce", (tree.Call("in", (part, *whole), span=span), nothing), span=span)
        for part in parts
    )
    return joined(surely, span, every=every)


def place(
    value: tree.Expression, node: exp.Expression, origin: Origin, read: Read, span: tree.Span
) -> tree.Expression:
    """Return ARRAY_POSITION(array, value): the number of the first equal member, else NULL."""
    args: list[tree.Expression] = []
    for number, member in enumerate(members(node, origin, read) or (), start=1):
        same = tree.Call("is_not_distinct", (value, member), span=span)
        args += [same, tree.Literal(number, tree.INTEGER, span)]
    nothing = tree.Literal(None, tree.NULL, span)
    return tree.Call("case", (*args, nothing), span=span) if args else nothing
