"""Result columns as text and policy determine them: INTEGER columns may need more than 64 bits,
or no more than 32.

An interface that returns types before values must know this in advance. Otherwise it could not
return an answer that was already charged. It follows from declarations and storage types, and is an
expectation: no proof uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from dpsql import functions
from dpsql.compiler.infer.column_facts import Columns, FactSource, Row
from dpsql.model import algebra
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import INTEGER, INTEGER_WIDTH, STATED, Call, Expression, Kind, Ref, SqlType
from dpsql.model.vocabulary import WORD, Column, ColumnPolicy, Policy
from dpsql.model.walk import relations, walk

INT64, INT32 = 2**63, 2**31
MOST_ROWS = 2**31 - 1
"""Assumed upper limit of aggregated rows, including noise."""
MOST_ERROR = 2.0**56
"""Standard error above which noise alone may need more than 64 bits: 2**62 is 64 times as much."""


def told_columns(relation: algebra.Relation, policy: Policy) -> tuple[Column, ...]:
    """Return the columns of a resolved query. A count never needs more than 64 bits."""
    fields, counts = relation.fields, _counts(relation)
    if all(_number(f.type) is None or f.id in counts for f in fields):
        return tuple(Column(f.name, f.type) for f in fields)
    sizes = _Sizes(relation, FactSource(policy, _Untold(), _untold, 0, MOST_ROWS))
    return tuple(Column(f.name, f.type, sizes.wide(f), sizes.small(f)) for f in fields)


def _counts(relation: algebra.Relation) -> set[int]:
    """Return the ids of the counts of a relation, with those of columns that pass them on."""
    match relation:
        case algebra.Project(items=items):
            below = _counts(relation.input)
            passed = ((item.field.id, item.expression) for item in items)
            return {n for n, read in passed if isinstance(read, Ref) and read.id in below}
        case algebra.Aggregate(measures=measures):
            return {m.field.id for m in measures if m.call.function == "count"}
        case algebra.Filter() | algebra.Sort() | algebra.Limit():
            return _counts(relation.input)
        case _:
            return set()


def with_noise(columns: Sequence[Column], errors: Sequence[float | None]) -> tuple[Column, ...]:
    """Return the columns, also marking those with noise that may need more than 64 bits.

    >>> [c.wide for c in with_noise((Column("n", INTEGER),) * 3, (1.0, 1e17))]
    [False, True, False]
    """
    beyond = [error is not None and error > MOST_ERROR for error in errors]
    beyond += [False] * (len(columns) - len(beyond))
    return tuple(
        replace(c, wide=c.wide or (loud and c.type == INTEGER), small=c.small and not loud)
        for c, loud in zip(columns, beyond, strict=True)
    )


def _is_wide(interval: Interval) -> bool:
    """Test whether whole numbers in an interval may need more than 64 bits; False if it is
    unbounded.
    """
    return interval.is_bounded and not interval.within(-INT64, INT64 - 1)


def _number(kind: SqlType) -> SqlType | None:
    """Return INTEGER for itself and for lists of it, else None."""
    member = kind.member if kind.kind is Kind.LIST else kind
    return member if member == INTEGER else None


def _stored(column: ColumnPolicy) -> Facts:
    """Return the facts of a column from its declaration, or else from its storage type.

    Bounds are clipping bounds: as a key, values beyond them are output unchanged. The last of 64
    bits is hardly ever used, and slightly larger numbers are no reason for another type.
    """
    declared = functions.declared_facts(column, 0)
    listed, bits = column.values is not None, column.bits
    if column.type != INTEGER or listed or (bits <= WORD and declared.interval.is_bounded):
        return declared
    most = Fraction(2 ** (bits - 2 if bits == WORD else bits - 1))
    return replace(declared, interval=Interval(-most, most))


class _Sizes(Columns):
    """The ranges of whole numbers, as they are declared and stored."""

    def __init__(self, rows: algebra.Relation, origin: FactSource) -> None:
        super().__init__(rows, origin)
        self.predicates = tuple(
            p
            for p in self.predicates
            if not any(
                isinstance(part, Call) and part.function in STATED for part in walk(p.predicate)
            )
        )

    def facts(self, expression: Expression) -> Facts:
        """Return facts as usual, but nothing except the type for stated errors."""
        if isinstance(expression, Call) and expression.function in STATED:
            return Facts(expression.type)
        return super().facts(expression)

    def stored(self, scan: algebra.Scan | algebra.Values, column: algebra.Field) -> Facts:
        """Return the facts of a table's column, without measuring public data."""
        if isinstance(scan, algebra.Values):
            return super().stored(scan, column)
        table = self.origin.policy.table(scan.table)
        declared = None if table is None else table.column(column.name)
        assert declared is not None
        return _stored(declared)

    def wide(self, column: algebra.Field) -> bool:
        """Test whether a column of the result, or members of its lists, may need more than
        64 bits.
        """
        match _number(column.type):
            case None:
                return False
            case kind if kind == column.type:
                return _is_wide(self.column(column.id).interval)
            case _:
                return any(map(self._is_wide_scan, relations(self.rows)))

    def small(self, column: algebra.Field) -> bool:
        """Test whether PostgreSQL's type of a column is int4, and its values are no larger."""
        if column.type != INTEGER or column.type.width != INTEGER_WIDTH:
            return False
        interval = self.column(column.id).interval
        return interval.is_bounded and interval.within(-INT32, INT32 - 1)

    def _is_wide_scan(self, relation: algebra.Relation) -> bool:
        if not isinstance(relation, algebra.Scan):
            return False
        numbers = [f for f in relation.fields if f.type == INTEGER]
        return any(_is_wide(self.stored(relation, f).interval) for f in numbers)


class _Untold:
    """A substitute for public data that measures nothing."""

    def _nothing(self, *_args: object) -> NoReturn:
        raise AssertionError

    facts = contents = frequency = once = distinct = _nothing


def _untold(
    expressions: tuple[Expression, ...], _fields: tuple[algebra.Field, ...], rows: Sequence[Row]
) -> list[Row]:
    """Return NULL for every expression and row, without computing anything."""
    return [(None,) * len(expressions)] * len(rows)
