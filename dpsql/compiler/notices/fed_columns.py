"""Result columns that released columns contribute to, and which of them err to the same side.

A sum that is too low makes a share, a rank or a difference err to either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from dpsql.model.algebra import Aggregate, Project, Relation, Released, Union, Window
from dpsql.model.dataclass import dataclass
from dpsql.model.notices import CutSide
from dpsql.model.tree import AggregateCall, Call, Cast, Expression, Literal, Ref, WindowCall
from dpsql.model.walk import refs, relations


@dataclass(frozen=True, slots=True)
class FedColumns:
    """Result columns that each column of released tables contributes to.

    Those in `unlike` may fall where that column rises. `outer` computes them.
    """

    outputs: Mapping[int, frozenset[int]]
    unlike: Mapping[int, frozenset[int]]
    tables: tuple[Released, ...]
    outer: Relation

    @classmethod
    def of(cls, outer: Relation, width: int) -> FedColumns:
        outputs: dict[int, frozenset[int]] = {}
        unlike: dict[int, frozenset[int]] = {}
        sources = dict(_sources(outer))
        for place, field in enumerate(outer.fields[:width]):
            pending, seen = [(field.id, True)], set[tuple[int, bool]]()
            while pending:
                number, rises = node = pending.pop()
                if node in seen:
                    continue
                seen.add(node)
                for fed in (outputs,) if rises else (outputs, unlike):
                    fed[number] = fed.get(number, frozenset()) | {place}
                pending += ((n, rises and same) for n, same in sources.get(number, {}).items())
        tables = tuple(r for r in relations(outer) if isinstance(r, Released))
        return cls(outputs, unlike, tables, outer)

    def keys(self, block: int, place: int) -> tuple[int, ...]:
        """Return the result columns that read key number `place` of a block."""
        ids = [t.fields[place].id for t in self.tables if t.block == block]
        return tuple(sorted(_fed_by(self.outputs, ids)))

    def measures(self, block: int, keys: int, measure: int) -> tuple[int, ...]:
        """Return the result columns that read a measure of a block with this number of keys."""
        return tuple(sorted(_fed_by(self.outputs, self._measured(block, keys, measure))))

    def errs_alike(self, block: int, keys: int, measure: int) -> frozenset[int]:
        """Return those of `measures` that err to the side of the measure, and to no other."""
        ids = self._measured(block, keys, measure)
        return _fed_by(self.outputs, ids) - _fed_by(self.unlike, ids)

    def over_groups(self, block: int) -> tuple[int, ...]:
        """Return the result columns that read an aggregate or window over groups of a block."""
        ids = list[int]()
        for relation in relations(self.outer):
            if isinstance(relation, Aggregate | Window) and any(
                isinstance(r, Released) and r.block == block for r in relations(relation.input)
            ):
                items = relation.measures if isinstance(relation, Aggregate) else relation.items
                ids += (item.field.id for item in items)
        return tuple(sorted(_fed_by(self.outputs, ids)))

    def _measured(self, block: int, keys: int, measure: int) -> list[int]:
        return [
            t.fields[keys + t.measures.index(measure)].id
            for t in self.tables
            if t.block == block and measure in t.measures
        ]


def _fed_by(outputs: Mapping[int, frozenset[int]], ids: Sequence[int]) -> frozenset[int]:
    return frozenset[int]().union(*(outputs.get(n, ()) for n in ids))


def _sources(outer: Relation) -> Iterator[tuple[int, Mapping[int, bool]]]:
    """Yield each computed column with the columns it reads: does it rise with each of them?"""
    for relation in relations(outer):
        match relation:
            case Project(items=items):
                yield from ((i.field.id, _read_by(i.expression)) for i in items)
            case Aggregate(keys=keys, measures=measures):
                yield from ((key.field.id, _read_by(key.expression)) for key in keys)
                yield from ((m.field.id, _read_by(m.call)) for m in measures)
            case Window(items=windows):
                yield from ((w.field.id, _read_by(w.call)) for w in windows)
            case Union(left=left, right=right, fields=fields):
                for new, one, other in zip(fields, left.fields, right.fields, strict=True):
                    yield new.id, {one.id: True, other.id: True}
            case _:
                continue


def _read_by(expression: Expression) -> Mapping[int, bool]:
    rising = _rises(expression)
    return {column: column in rising for column in refs(expression)}


def _rises(expression: Expression) -> frozenset[int]:
    """Return the column that an expression rises with, wherever that is sure; else nothing."""
    match expression:
        case Ref(id=column):
            return frozenset({column})
        case Cast(arg=arg):
            return _rises(arg)
        case AggregateCall("sum" | "min" | "max", (arg,), filter=None) | WindowCall(
            "sum" | "min" | "max", (arg,), filter=None
        ):
            return _rises(arg)
        case Call("round" | "floor" | "ceil" | "coalesce" | "sub" | "add", (arg, *rest)) if all(
            isinstance(each, Literal) for each in rest
        ):
            return _rises(arg)
        case Call("mul" | "div", (arg, Literal(value=int() | float() | Decimal() as factor))) if (
            factor > 0
        ):
            return _rises(arg)
        case _:
            return frozenset()


def split_by_side(
    side: CutSide, columns: tuple[int, ...], alike: frozenset[int]
) -> Iterator[tuple[CutSide, tuple[int, ...]]]:
    """Yield the columns on the side of a measure, and those that may err to either side."""
    if side is CutSide.EITHER or alike.issuperset(columns):
        yield side, columns
        return
    if same := tuple(c for c in columns if c in alike):
        yield side, same
    yield CutSide.EITHER, tuple(c for c in columns if c not in alike)
