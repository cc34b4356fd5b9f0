"""Name of a computed column of a SELECT list without an alias."""

from __future__ import annotations

from dpsql.model.signs import BEFORE, BETWEEN
from dpsql.model.tree import (
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Name,
    Star,
)

_LONGEST = 60


def unnamed(written: Expression, *, bound: bool) -> str | None:
    """Return the expression in words; None if its function or its column names it.

    If parameters are `bound`, constants are left out, so that the name depends only on the text.

    >>> from dpsql.model.tree import INTEGER
    >>> total = AggregateCall("sum", (Name("amount"),))
    >>> share = Call("div", (total, Call("sub", (Name("b"), Literal(1, INTEGER)))))
    >>> unnamed(share, bound=False), unnamed(share, bound=True), unnamed(total, bound=False)
    ('sum(amount) / (b - 1)', 'sum(amount) / (b - ?)', None)
    """
    if not (isinstance(written, Call) and written.function in {*BETWEEN, *BEFORE}):
        return None
    text = _text(written, bound)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _text(written: Expression, bound: bool) -> str:  # noqa: FBT001
    match written:
        case Name(name=name):
            return name
        case Star():
            return "*"
        case Literal(value=value):
            return "?" if bound else f"'{value}'" if isinstance(value, str) else str(value)
        case Cast(arg=arg):
            return _text(arg, bound)
        case Call(function=function, args=(arg,)) if function in BEFORE:
            return f"{BEFORE[function]}{_part(arg, bound)}"
        case Call(function=function, args=args) if function in BETWEEN:
            return f" {BETWEEN[function]} ".join(_part(arg, bound) for arg in args)
        case Call(function=function, args=args) | AggregateCall(function=function, args=args):
            return f"{function}({', '.join(_text(arg, bound) for arg in args)})"
        case _:
            return "…"


def _part(arg: Expression, bound: bool) -> str:  # noqa: FBT001
    """Return a part of an operation, in parentheses if it is an operation itself."""
    text = _text(arg, bound)
    return f"({text})" if isinstance(arg, Call) and arg.function in BETWEEN else text
