"""MIN, MAX and ANY_VALUE of an argument with one value per group: that value, without measurement.

The value follows from the query, the policy and the keys that are published anyway. It is returned
for a group without rows too, where SQL returns NULL: the existence of a row is private. Any other
ANY_VALUE would belong to one unit, and is refused.

Proof (PRIVACY.md R38). The value is public, or a function of a key that is released anyway, and it
is returned with and without a row.
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
    """Return the only value, as an expression over the keys or a constant; None if there may be
    more.

    With a FILTER the result is None: the value is NULL if no row passes, and that is private.
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
