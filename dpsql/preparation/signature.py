"""signature: types of a statement's parameters and results, before parameters are known.

Types of parameters follow from neighbouring terms; columns follow from samples of these types. Only
names and types are considered. Whether the query is private enough is decided later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import assert_never
from uuid import UUID

from dpsql.compiler.infer.wide_columns import told_columns
from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import COERCING, type_of
from dpsql.dialects.postgres.words import words
from dpsql.dialects.reading.parse import parse_any
from dpsql.dialects.statements.commands import OtherStatement
from dpsql.model import tree
from dpsql.model.algebra import Relation
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Column, Policy, Request
from dpsql.model.walk import expressions, relations, walk

_TEXTS = ("2000-01-01", "month")
_GUESSES: tuple[tree.Parameter, ...] = (None, 1, *_TEXTS)
"""Values tried in turn for a parameter of unknown type, until names and types fit."""

_ALIKE = COERCING | frozenset("add sub mul div like ilike concat mod".split())
"""Functions with arguments of one type, or of types that fit each other."""


_OF_ARRAYS = frozenset("any some all unnest".split())
_MEMBERS: tuple[tree.Parameter, ...] = ((None,),)

_COUNTING = frozenset("limit offset first next".split())


@dataclass(frozen=True, slots=True)
class Signature:
    """Columns of a statement's result, and the type of each parameter."""

    columns: tuple[Column, ...]
    parameters: tuple[tree.SqlType, ...]


def signature(
    request: Request,
    policy: Policy,
    places: Sequence[tree.Span],
    declared: Sequence[tree.SqlType | None],
) -> Signature | OtherStatement:
    """Return the signature of the request's SELECT, with a `?` at each of `places` of its text.

    `declared` are the types that the client fixed, None if it did not. Returns another statement
    than a query itself. Raises `Refused` if the text is wrong for all parameters.
    """
    arrays, every = _arrays(request.sql), pairwise(words(request.sql))
    counts = {word.start for before, word in every if before.value in _COUNTING}
    declared = [
        kind or (tree.INTEGER if place.start in counts else None)
        for place, kind in zip(places, declared, strict=True)
    ]
    guesses = [
        _MEMBERS if kind is None and place.start in arrays else _guesses(kind)
        for place, kind in zip(places, declared, strict=True)
    ]
    while True:
        values = tuple(left[0] for left in guesses)
        try:
            statement = parse_any(request.sql, request.dialect, values, request.at)
            if not isinstance(statement, tree.Statement):
                return statement
            statement = with_context(statement, request)
            resolved = resolve(statement, policy, Identities())
        except Refused as refused:
            if not _guess_again(guesses, places, refused.span):
                raise
            continue
        kinds = {place.start: kind for place, kind in _beside(resolved.relation)}
        types = tuple(
            kind or _settled(kinds.get(place.start), value)
            for place, kind, value in zip(places, declared, values, strict=True)
        )
        return Signature(told_columns(resolved.relation, policy), types)


def with_context(statement: tree.Statement, request: Request) -> tree.Statement:
    """Return a statement with the search path and the formulas of its request."""
    return replace(statement, search_path=request.search_path, formulas=request.formulas)


def _arrays(text: str) -> set[int]:
    """Return the places of parentheses with an array or a query inside."""
    every = tuple(words(text))
    triples = zip(every, every[1:], every[2:], strict=False)
    return {
        behind.start
        for word, opening, behind in triples
        if word.value in _OF_ARRAYS and opening.text == "("
    }


def _guesses(declared: tree.SqlType | None) -> tuple[tree.Parameter, ...]:
    """Return the values to try for a parameter: of any type, or of the declared one."""
    if declared is None:
        return _GUESSES
    return _TEXTS if declared == tree.VARCHAR else (sample(declared),)


def _guess_again(
    guesses: list[tuple[tree.Parameter, ...]], places: Sequence[tree.Span], span: tree.Span
) -> bool:
    """Advance the guess of a parameter in `span`, or else of any; return whether one was left."""
    unsettled = [n for n, left in enumerate(guesses) if len(left) > 1]
    inside = [n for n in unsettled if span.start <= places[n].start < span.stop]
    for n in inside or unsettled:
        guesses[n] = guesses[n][1:]
    return bool(unsettled)


def _settled(beside: tree.SqlType | None, value: tree.Parameter) -> tree.SqlType:
    """Return the type of a parameter for which `value` fitted, next to terms of type `beside`."""
    if isinstance(value, tuple):
        return tree.list_of(_settled(beside, None))
    if isinstance(value, str):
        return tree.VARCHAR
    if beside is not None and beside.kind is not tree.Kind.NULL:
        return beside
    return tree.VARCHAR if value is None else tree.INTEGER


def _beside(relation: Relation) -> Iterator[tuple[tree.Span, tree.SqlType]]:
    """Yield each constant's place with the type that neighbouring terms give it."""
    for node in relations(relation):
        for expression in expressions(node):
            for part in walk(expression):
                yield from _company(part)


def _company(expression: tree.Expression) -> Iterator[tuple[tree.Span, tree.SqlType]]:
    match expression:
        case tree.Cast(arg=tree.Literal(span=span), type=kind):
            yield span, kind
        case tree.Call(function=function, args=args) if function in _ALIKE:
            types = [type_of(arg) for arg in args if not isinstance(arg, tree.Literal)]
            for arg in args:
                if isinstance(arg, tree.Literal) and types:
                    yield arg.span, types[0]
        case _:
            return


def sample(kind: tree.SqlType) -> tree.Parameter:
    """Return a value of a type.

    >>> sample(tree.INTEGER), sample(tree.VARCHAR)
    (1, '2000-01-01')
    """
    match kind.kind:
        case tree.Kind.BOOLEAN:
            return True
        case tree.Kind.INTEGER:
            return 1
        case tree.Kind.DECIMAL:
            return Decimal(1)
        case tree.Kind.DOUBLE:
            return 1.0
        case tree.Kind.VARCHAR:
            return "2000-01-01"
        case tree.Kind.DATE:
            return date(2000, 1, 1)
        case tree.Kind.TIMESTAMP:
            return datetime(2000, 1, 1)  # noqa: DTZ001
        case tree.Kind.TIMESTAMPTZ:
            return datetime(2000, 1, 1, tzinfo=UTC)
        case tree.Kind.INTERVAL:
            return timedelta(days=1)
        case tree.Kind.LIST:
            return (None,)
        case tree.Kind.TIME:
            return time(0)
        case tree.Kind.UUID:
            return UUID(int=0)
        case tree.Kind.NULL:
            return None
        case _:
            assert_never(kind.kind)
