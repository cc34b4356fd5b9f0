"""GoogleSQL's named arguments of aggregates: contribution_bounds_per_row, _per_group, epsilon.

They are read from the tokens and taken out, since no engine's grammar has them; a call finds its
own by the place of its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from sqlglot import Token, TokenType

from dpsql.dialects.reading.tokens import span_of
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Clip

_KINDS = {"contribution_bounds_per_row": False, "contribution_bounds_per_group": True}
NUMBER = re.compile(r"(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,2})?\Z")
_FARTHEST = 400
"""Powers of ten beyond every DOUBLE: an exact number of so many digits takes time."""
_PER_GROUP = frozenset("sum count count_if countif avg mean favg".split())
_PER_ROW = frozenset(
    """sum avg mean favg stddev stddev_pop stddev_samp variance var_pop var_samp min max median
    quantile quantile_cont quantile_disc percentile_cont percentile_disc approx_quantile
    approx_quantiles""".split()
)


_FIX = (
    "SUM and COUNT take contribution_bounds_per_group => (low, high), SUM, AVG, variances and"
    " quantiles contribution_bounds_per_row => (low, high), all aggregates epsilon => number."
)


@dataclass(frozen=True, slots=True)
class Named:
    """The named arguments of one aggregate."""

    clip: Clip | None = None
    epsilon: Decimal | None = None


def without_named(
    tokens: Sequence[Token], *, allowed: bool
) -> tuple[tuple[Token, ...], dict[int, Named]]:
    """The tokens without `, name => …`, and what they say by the offset of the function.

    Raises `Refused` for any other `=>`, and for all where they are not `allowed`.
    """
    kept = list(tokens)
    named: dict[int, Named] = {}
    while (arrow := _arrow(kept)) is not None:
        name = kept[arrow - 1]
        known = arrow > 1 and name.text.lower() in {*_KINDS, "epsilon"}
        if not allowed or not known or kept[arrow - 2].token_type is not TokenType.COMMA:
            raise Refused(Reason.UNSUPPORTED_SYNTAX, span_of(kept[arrow]), construct="=>")
        function = _function(kept, arrow - 2)
        before = named.get(function.start, Named())
        stop, named[function.start] = _with(before, kept, arrow + 1, name, function)
        del kept[arrow - 2 : stop]
    return tuple(kept), named


def _with(
    before: Named, tokens: Sequence[Token], n: int, name: Token, function: Token
) -> tuple[int, Named]:
    """What is named, with the argument whose value begins at token `n`, and where that ends."""
    per_group = _KINDS.get(name.text.lower())
    if (before.epsilon if per_group is None else before.clip) is not None:
        raise _bad(name, "it is given twice")
    if per_group is None:
        n, token = _one(tokens, n, TokenType.NUMBER, name, "it is not a positive number")
        return n, replace(before, epsilon=positive(token, name.text))
    if function.text.lower() not in (_PER_GROUP if per_group else _PER_ROW):
        raise _bad(name, f"{function.text.upper()} does not take it")
    n, low, high = _bounds(tokens, n, name)
    return n, replace(before, clip=Clip(low, high, per_group))


def positive(token: Token, option: str) -> Decimal:
    """The positive number that the token is, exact."""
    written = token.text if token.token_type is TokenType.NUMBER else ""
    value = Decimal(written) if NUMBER.match(written) else Decimal(0)
    if value <= 0:
        raise Refused(
            Reason.BAD_OPTION, span_of(token), option=option, why="it is not a positive number"
        )
    return value


def _arrow(tokens: Sequence[Token]) -> int | None:
    found = (n for n, token in enumerate(tokens) if token.token_type is TokenType.FARROW)
    return next(found, None)


def _function(tokens: Sequence[Token], place: int) -> Token:
    """The name before the parenthesis that the token at `place` stands in."""
    depth = 0
    for n in range(place, 0, -1):
        kind = tokens[n].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth < 0:
            return tokens[n - 1]
    raise Refused(Reason.SYNTAX, span_of(tokens[place]))


def _bounds(tokens: Sequence[Token], n: int, name: Token) -> tuple[int, Decimal, Decimal]:
    """Reads `(low, high)` at token `n`: where it ends, and both numbers."""
    n, _ = _one(tokens, n, TokenType.L_PAREN, name)
    n, low = _number(tokens, n, name)
    n, _ = _one(tokens, n, TokenType.COMMA, name)
    n, high = _number(tokens, n, name)
    n, _ = _one(tokens, n, TokenType.R_PAREN, name)
    if low > high:
        raise _bad(name, "the first bound is above the second")
    return n, low, high


def _number(tokens: Sequence[Token], n: int, name: Token) -> tuple[int, Decimal]:
    negative = n < len(tokens) and tokens[n].token_type is TokenType.DASH
    n, token = _one(tokens, n + negative, TokenType.NUMBER, name)
    try:
        value = Decimal(token.text)
    except InvalidOperation:
        raise _bad(name, "its bounds are not two numbers") from None
    if abs(value.adjusted()) > _FARTHEST:
        raise _bad(name, "its bounds are beyond DOUBLE")
    return n, -value if negative else value


def _one(
    tokens: Sequence[Token],
    n: int,
    kind: TokenType,
    name: Token,
    why: str = "its bounds are not two numbers in parentheses",
) -> tuple[int, Token]:
    if n >= len(tokens) or tokens[n].token_type is not kind:
        raise _bad(name, why)
    return n + 1, tokens[n]


def _bad(name: Token, why: str) -> Refused:
    return Refused(Reason.BAD_OPTION, span_of(name), option=name.text, why=why, fix=_FIX)
