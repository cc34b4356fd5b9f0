"""The canonical form of a private plan, by which two queries are the same.

Rows are a product of sources with conditions, for any division into subqueries (`flat_rows`),
conditions are in one form (`conditions`), column ids are renumbered by where the rows come from,
labels and places are left out, and the arguments of commutative operators are sorted. Noise is left
out, because an answer with less noise answers the same query. The split of the budget is included,
because the errors of an answer follow from it.

The required parts of a query's identity, and the proof that its form keeps its meaning: PRIVACY.md
R69, R77.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from dpsql.compiler.plan import measurement_kinds, private_plan
from dpsql.compiler.plan.conditions import normal, required
from dpsql.compiler.plan.flat_rows import Flattener
from dpsql.compiler.plan.lattices import WHOLE, Choice, TreeRelease
from dpsql.compiler.plan.published_keys import Keys, ListedKeys, ThresholdKeys, TopKeys, TrialKeys
from dpsql.consistency.marginals import Marginal, Marginals
from dpsql.mechanisms.matrix_noise import MatrixNoise
from dpsql.mechanisms.top_keys import Top
from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass
from dpsql.model.ticking import tick
from dpsql.model.walk import both, composed, conjuncts, inputs, map_inputs, relations

COMMUTATIVE = frozenset({"eq", "ne", "add", "mul", "is_distinct", "is_not_distinct"})

_SAME_IF_EQUAL = frozenset(
    {tree.Kind.INTEGER, tree.Kind.DATE, tree.Kind.TIMESTAMP, tree.Kind.TIMESTAMPTZ}
)
"""Types with identical equal values. Others are not: 0.0 and -0.0, or texts under a collation."""

IDEMPOTENT = frozenset({"and", "or"})
"""Commutative functions for which a repeated argument counts once."""


_PRICE = "noise and its price: with less noise the question is the same"
_PROOF = "what proofs rest on: what follows from them is here"
_DISPLAYED = "what is told, and changes nothing"
_FOLLOWS = "it follows from what is here"

LEFT_OUT: Mapping[type, Mapping[str, str]] = {
    private_plan.PrivatePlan: {
        "outer": "what is computed of released numbers",
        "event": _PRICE,
        "loss": _PRICE,
        "epsilon": _PRICE,
        "polls": "what is asked before",
        "certain": _FOLLOWS,
    },
    private_plan.BlockPlan: {
        "rows_per_group": _FOLLOWS,
        "rows": _FOLLOWS,
        "agreements": _FOLLOWS,
        "norms": _FOLLOWS,
        "totals": _FOLLOWS,
        "ranges": _DISPLAYED,
        "answering": _FOLLOWS,
        "biased": _FOLLOWS,
    },
    ListedKeys: {"within": _FOLLOWS, "shown": "the query that showed them is part of the context"},
    TopKeys: {"within": _FOLLOWS, "otherwise": _DISPLAYED, "place": "a label"},
    ThresholdKeys: {"threshold": _PRICE, "counted": _PRICE, "runner_up": _DISPLAYED},
    TrialKeys: {"trials": _PRICE, "runner_up": _DISPLAYED},
    private_plan.PrivateBlock: {
        "unit_ids": _PROOF,
        "never_null": _PROOF,
        "enforced": _PROOF,
        "max_rows": _PROOF,
        "determined": _PROOF,
        "measures": "the releases are made of them",
        "declared": _PROOF,
        "facts": _PROOF,
        "span": _DISPLAYED,
        "groups": "the domain has its keys",
        "several": _FOLLOWS,
        "max_groups": _PROOF,
        "alone": _PROOF,
        "weighed": "fewer rows with the same integers",
        "vote": "the key of its poll is part of the context",
    },
    private_plan.Contribution: {"how": _DISPLAYED},
    private_plan.Release: {
        "field": "a label",
        "payment": "noise and its price, but for whether groups share noise",
        "stability": _PRICE,
        "single": _PRICE,
    },
    Choice: {
        "field": "a label",
        "aim": "the query's, away from the ends by as much as noise asks for",
        "flips": _PRICE,
        "rate": _PRICE,
        "epsilon": _PRICE,
        "rounds": _FOLLOWS,
        "scan": "a mechanism by name is part of the context",
        "expected": _DISPLAYED,
        "otherwise": _DISPLAYED,
    },
    TreeRelease: {
        "fields": "labels",
        "shape": _PRICE,
        "sensitivity": _PRICE,
        "noise": _PRICE,
        "error": _DISPLAYED,
        "otherwise": _DISPLAYED,
        "reserve": _PRICE,
    },
    Top: {"keys": _FOLLOWS, "rate": _PRICE, "epsilon": _PRICE, "flips": _PRICE},
    Marginals: {"sizes": _FOLLOWS, "agreements": _FOLLOWS, "starts": _FOLLOWS},
    Marginal: {"axes": _FOLLOWS, "deviations": _PRICE},
}
"""Fields that are no part of a query's identity, with the reason. All other fields of these types
are.
"""

FOLLOWS: Mapping[type, Mapping[str, str]] = {
    algebra.Released: {"columns": "all that the block releases, in their order"},
    tree.SqlType: {"element": "nothing private is a list"},
}
"""Fields of relations that follow from other parts of the identity."""

_MEASUREMENT: Mapping[str, Any] = {
    "argument": None,
    "condition": None,
    "lattice": WHOLE,
    "lower": 1,
    "upper": 1,
    "centre": 0,
    "total_lower": 0,
    "total_upper": 1,
    "units": False,
    "distinct": False,
    "chosen": False,
    "blocks": 0,
}
"""The fields of a measurement in the identity, in this order, with defaults for missing fields.
Paid answers are found by it, so names and order never change. Additional fields of a kind are
written after them by name, if they are not None.
"""
_KEYS: Mapping[str, Any] = {"domain": None, "unreleased": (), "floor": 1, "top": None}
"""The same fields for the keys of a block."""
_TEST: Mapping[str, Any] = {"rows": 0, "finer": 0, "test": None}
"""The same fields for tests."""

_READ_AS: Mapping[tuple[type, str], Callable[[Any], Any]] = {
    (private_plan.PrivateBlock, "keys"): lambda keys: tuple(key.expression for key in keys),
    (TreeRelease, "halves"): len,
}
"""Conversions of fields without their labels, which are not part of the identity."""


def parts_of(value: object) -> tuple[Any, ...]:
    """Return the parts of a value that belong to the identity, in the order of its fields."""
    kind: Any = type(value)
    left_out = LEFT_OUT[kind]
    return tuple(
        _READ_AS.get((kind, name), lambda x: x)(getattr(value, name))
        for name in _names(kind)
        if name not in left_out
    )


@dataclass(frozen=True, slots=True)
class PlanIdentity:
    """The sha256 (hex) of a query on private data, without the columns that it does not read.

    `earlier` is that of versions before 0.2, with all columns of its tables. `read` has the columns
    that it reads of each table, in lower case.
    """

    question: str
    earlier: str
    read: Mapping[str, frozenset[str]]


def identify_plan(plan: private_plan.PrivatePlan, *context: str) -> PlanIdentity:
    """Return the identity of a query on private data, in this context."""
    blocks, stages, _, _ = parts_of(plan)
    written = (*map(_block, blocks), *map(_stage, stages))
    read: dict[str, frozenset[str]] = {}
    for scan, names in (pair for each in written for pair in each.scans):
        read[scan.table] = read.get(scan.table, frozenset()) | names
    short, whole = [each.short for each in written], [each.whole for each in written]
    return PlanIdentity(_digest(plan, context, short), _digest(plan, context, whole), read)


def _digest(plan: private_plan.PrivatePlan, context: Sequence[str], texts: Sequence[str]) -> str:
    """Return the sha256 (hex) of a plan with these texts of its blocks and stages."""
    _, _, shares, levels = parts_of(plan)
    parts = [*context, str(shares), *texts]
    for each in levels:
        (tables,) = parts_of(each)
        parts.append(str([parts_of(table) for table in tables]))
    for n, block in enumerate(plan.blocks):
        # The errors of numbers from several groups differ then, and so does the answer.
        if places := [place for place, r in enumerate(block.releases) if r.payment.shares_noise]:
            parts.append(f"groups share noise of {n}: {places}")
    for n, block in enumerate(plan.blocks):
        for place, noise in enumerate(release.payment.noise for release in block.releases):
            if isinstance(noise, MatrixNoise) and block.domain is not None:
                runs = [[block.domain[k] for k in run] for run in noise.runs]
                parts.append(f"running sums of {n}: {place} {noise.strategy} {runs}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Written:
    """The text of a block or stage with all columns of its tables, and the `short` one with those
    that it reads; its scans, each with the columns that are read.
    """

    whole: str
    short: str
    scans: list[tuple[algebra.Scan, frozenset[str]]]


def _stage(relation: algebra.Relation) -> _Written:
    canonical, writer = Flattener(_text).relation(relation), Writer()
    writer.number(canonical)
    whole, scans = writer.write(canonical), writer.scans(canonical)
    return _Written(whole, _text(without_unread(canonical, scans)), scans)


def without_unread(
    relation: algebra.Relation, scans: list[tuple[algebra.Scan, frozenset[str]]]
) -> algebra.Relation:
    """Return a relation whose scans have the columns that are read, by name."""
    read = {scan.fields: names for scan, names in scans}

    def change(part: algebra.Relation) -> algebra.Relation:
        if not isinstance(part, algebra.Scan):
            return map_inputs(part, change)
        used = [f for f in part.fields if f.name.lower() in read[part.fields]]
        return replace(part, fields=tuple(sorted(used, key=lambda f: f.name.lower())))

    return change(relation)


def _text(relation: algebra.Relation) -> str:
    """Return the text of a relation in its present form."""
    writer = Writer()
    writer.number(relation)
    return writer.write(relation)


def _block(plan: private_plan.BlockPlan) -> _Written:
    writer, rows = written_rows(plan.block)
    whole = _of_block(plan, rows, writer)
    scans = writer.scans(rows)
    short = without_unread(rows, scans)
    return _Written(whole, _of_block(plan, short, writer.anew(short)), scans)


def _of_block(plan: private_plan.BlockPlan, rows: algebra.Relation, writer: Writer) -> str:
    block, keys, *others = parts_of(plan)
    domain, judged, *rest = _of_keys(keys)
    own = parts_of(replace(block, rows=rows))
    return writer.write((*own, domain, judged, *others, *rest))


def _of_keys(keys: Keys) -> tuple[Any, ...]:
    """Return the parts of the identity that describe a block's keys, of any kind."""
    kind: Any = type(keys)
    own = {name: getattr(keys, name) for name in _names(kind) if name not in LEFT_OUT[kind]}
    if "unreleased" in own:
        own["unreleased"] = (own["unreleased"],)
    newer = tuple((name, x) for name, x in own.items() if name not in _KEYS and x is not None)
    return (*(own.get(name, absent) for name, absent in _KEYS.items()), *newer)


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _compared(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields by which values are compared, without those that follow from others."""
    follows = FOLLOWS.get(kind, {})
    return tuple(f.name for f in fields(kind) if f.compare and f.name not in follows)


def written_rows(block: private_plan.PrivateBlock) -> tuple[Writer, algebra.Relation]:
    """Return the rows of a block in canonical form, and the writer for expressions over them.

    Unowned rows belong to no unit, whether the text excludes them or not.
    """
    flattener = Flattener(_text, block.never_null)
    flat = flattener.flat(block.rows)
    unit = frozenset[int]()
    if isinstance(block.unit, tree.Ref) and not block.several:
        column = flat.columns[block.unit.id]
        unit = frozenset({column.id}) if isinstance(column, tree.Ref) else unit
    rows = flattener.rows(flat, unit)
    writer = Writer(flat.columns, flattener.present(flat.sources) | unit)
    writer.number(rows)
    writer.equate(conjuncts(rows.predicate) if isinstance(rows, algebra.Filter) else ())
    return writer, rows


_PLAIN = frozenset({bool, int, str, float, Decimal, Fraction, type(None)})
"""Types of most values: they are written as they are, before anything is tested."""


class Writer:
    """Writes frozen values as text; equal texts mean equal values up to column identity.

    Expressions are written in canonical form, over the definitions of `columns`; `never_null` are
    columns without NULL.
    """

    def __init__(
        self,
        columns: Mapping[int, tree.Expression] | None = None,
        never_null: Collection[int] = (),
    ) -> None:
        self.numbers: dict[int, int] = {}
        self._columns = {
            n: e for n, e in (columns or {}).items() if not (isinstance(e, tree.Ref) and e.id == n)
        }
        self._never_null = never_null
        self._digests: dict[int, str] = {}
        self._first: dict[int, int] = {}
        self._read = set[int]()

    def anew(self, relation: algebra.Relation) -> Writer:
        """Return a writer of the same columns that numbers those of this relation."""
        writer = Writer(self._columns, self._never_null)
        writer.number(relation)
        writer.equate(conjuncts(relation.predicate) if isinstance(relation, algebra.Filter) else ())
        return writer

    def scans(self, relation: algebra.Relation) -> list[tuple[algebra.Scan, frozenset[str]]]:
        """Return the scans of a relation, each with the columns that were written, in lower case.

        Set operations and recursions read all columns of their sides, by place.
        """
        parts, read = tuple(relations(relation)), set(self._read)
        for part in parts:
            if isinstance(part, algebra.Union | algebra.Recursion):
                read |= {f.id for side in inputs(part) for f in side.fields}
        return [
            (scan, frozenset(f.name.lower() for f in scan.fields if f.id in read))
            for scan in parts
            if isinstance(scan, algebra.Scan)
        ]

    def number(self, relation: algebra.Relation) -> None:
        """Number columns in the order of the tables they come from."""
        for source in inputs(relation):
            self.number(source)
        for column in relation.fields:
            self.numbers.setdefault(column.id, len(self.numbers))

    def by_name(self, relation: algebra.Relation) -> Writer:
        """Return a writer of the same columns that numbers those of tables by their names.

        Columns that are hidden, or added, change no number of the others.
        """
        writer = Writer(self._columns, self._never_null)
        for place, part in enumerate(relations(relation)):
            named = isinstance(part, algebra.Scan)
            for n, column in enumerate(part.fields):
                text = f"{place} {column.name.lower() if named else n}"
                number = int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)
                writer.numbers.setdefault(column.id, number)
        writer.number(relation)
        writer.equate(conjuncts(relation.predicate) if isinstance(relation, algebra.Filter) else ())
        return writer

    def equate(self, conditions: Iterable[tree.Expression]) -> None:
        """Write columns that these conditions equate as the first of them.

        This holds only where a column is read directly: expressions may depend on its width.
        """
        for condition in conditions:
            match condition:
                case tree.Call(
                    function="eq", args=(tree.Ref(type=kind) as one, tree.Ref() as other)
                ) if kind == other.type and kind.kind in _SAME_IF_EQUAL:
                    numbers = sorted({self._number(one), self._number(other)})
                    self._first |= {n: numbers[0] for n, x in self._first.items() if x in numbers}
                    self._first |= dict.fromkeys(numbers, numbers[0])
                case _:
                    pass

    def _number(self, column: tree.Ref) -> int:
        self._read.add(column.id)
        number = self.numbers[column.id]
        return self._first.get(number, number)

    def write(self, value: Any) -> str:
        if type(value) in _PLAIN:
            return f"{type(value).__name__}:{value!r}"
        if type(value) is tuple:  # before the kinds that are not so frequent
            return f"[{','.join(map(self.write, value))}]"
        match value:
            case tree.Ref() if isinstance(column := self._columns.get(value.id, value), tree.Ref):
                return f"#{self._number(column)}"
            case tree.Span():
                return ""
            case algebra.Field():
                return f"#{self.numbers[value.id]}:{value.type}"
            case algebra.Scan():
                columns = ",".join(f"{f.name}={self.write(f)}" for f in value.fields)
                return f"Scan({value.table};{columns})"
            case algebra.Staged(stage=stage, fields=columns):
                return f"Staged({self.write(stage)},{self.write(columns)})"
            case algebra.Evaluated(digest=digest):
                return f"Evaluated({digest})"
            case tree.Call() | tree.Ref() | tree.Cast() | tree.AggregateCall() | tree.WindowCall():
                return self._formula(normal(self._over(value)))
            case _ if isinstance(value, measurement_kinds.Measurement):
                tick()
                return self._measurement(value)
            case Enum():
                return str(value.value)
            case tuple() | list():
                return f"[{','.join(map(self.write, value))}]"
            case _ if type(value) in LEFT_OUT:
                parts = parts_of(value)
                return self.write(parts if len(parts) > 1 else parts[0])
            case _ if is_dataclass(value):
                return self._fields(value)
            case _:
                return f"{type(value).__name__}:{value!r}"

    def _over(self, expression: tree.Expression) -> tree.Expression:
        """Return the expression over the columns of sources; unchanged if that would be too
        long.
        """
        return composed(expression, self._columns) or expression if self._columns else expression

    def _formula(self, expression: tree.Expression) -> str:
        """Return the text of an expression in canonical form."""
        match expression:
            case tree.Ref():
                return self._column(expression)
            case tree.Call(function=name, args=args):
                tick()
                texts = [self._formula(arg) for arg in args]
                if name in IDEMPOTENT:
                    texts = sorted(set(texts))
                elif name == "in":
                    texts[1:] = sorted(set(texts[1:]))
                elif name in COMMUTATIVE:
                    texts.sort()
                return f"{name}({','.join(texts)})"
            case _:
                return self._fields(expression)

    def _column(self, column: tree.Ref) -> str:
        self._read.add(column.id)
        if column.id in self.numbers:
            return f"#{self.numbers[column.id]}"
        if column.id not in self._digests:
            definition = self.write(self._columns[column.id])
            self._digests[column.id] = hashlib.sha256(definition.encode()).hexdigest()
        return self._digests[column.id]

    def _fields(self, value: Any) -> str:
        """Return the text of the fields by which a value is compared."""
        tick()
        kind: Any = type(value)
        inner = (self.write(getattr(value, name)) for name in _compared(kind))
        return f"{kind.__name__}({','.join(inner)})"

    def _measurement(self, part: measurement_kinds.Measurement) -> str:
        """Return the text of every field of a measurement, of any kind."""
        marks = {
            "units": isinstance(part, measurement_kinds.UnitCount),
            "distinct": isinstance(part, measurement_kinds.DistinctCount),
        }
        values = {name: getattr(part, name, absent) for name, absent in _MEASUREMENT.items()}
        values |= marks
        words = [
            self._condition(x) if name == "condition" else self.write(x)
            for name, x in values.items()
        ]
        tested = isinstance(part, measurement_kinds.RowTest | measurement_kinds.StableMean)
        test = (self.write(getattr(part, name, absent)) for name, absent in _TEST.items())
        words.append(f"Proposal({','.join(test)})" if tested else self.write(None))
        kind: Any = type(part)
        for name in _names(kind):
            value = getattr(part, name)
            if name not in _MEASUREMENT and name not in _TEST and value is not None:
                words.append(f"{name}={self.write(value)}")
        return f"PartQuery({','.join(words)})"

    def _condition(self, condition: tree.Expression | None) -> str:
        """Return the text of the required part of a condition."""
        if condition is None:
            return self.write(None)
        whole = both(required((self._over(condition),), self._never_null))
        return self.write(None) if whole is None else self._formula(whole)
