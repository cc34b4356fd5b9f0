"""MIN, MAX and ANY_VALUE of what has one value in every group: that value, never measured.

The value follows from the query, the policy and the keys that are published anyway. It is told of
no rows too, where SQL says NULL: whether there is a row is private. ANY_VALUE of anything else
would be somebody's, and is refused.

Proof (PRIVACY.md R38). The value is public, or a function of a key that is released anyway, and it
is there whether a row is or not.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.recipe import BoundedCall, Parts, Recipe
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Expression, Literal, Ref


def _parts(bounded: BoundedCall) -> Parts:
    if one_value(bounded) is None:
        name = bounded.call.function
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, bounded.call.span, name=name)
    return ()


def _combine(bounded: BoundedCall, _parts: tuple[Ref, ...]) -> Expression:
    value = one_value(bounded)
    assert value is not None
    return value


def one_value(bounded: BoundedCall) -> Expression | None:
    """The one value: an expression over the keys, or a constant; None where there may be more.

    Where no row passes a FILTER the value is NULL, and whether one does is private.
    """
    if bounded.call.filter is not None:
        return None
    if bounded.of_keys is not None:
        return bounded.of_keys
    facts = bounded.argument
    assert facts is not None
    if facts.point is None or facts.nullable:
        return None
    return Literal(facts.point, bounded.call.type)


CONSTANT = Recipe(_parts, _combine)
