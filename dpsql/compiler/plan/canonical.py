"""The canonical form of a private plan: what makes two questions the same question.

Column ids are renumbered by where the rows come from, labels and places are left out, the
arguments of commutative operators are sorted, and comparisons are turned one way. The noise is left
out, because a question answered with less noise answers the same question; how the budget is split
is not, because the errors of an answer follow from it.

What a question must say of itself: PRIVACY.md R69.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan
from dpsql.model.algebra import Evaluated, Field, Relation, Scan, Staged
from dpsql.model.comparisons import MIRRORED
from dpsql.model.ticking import tick
from dpsql.model.tree import Call, Ref, Span
from dpsql.model.walk import inputs

COMMUTATIVE = frozenset({"and", "or", "eq", "ne", "add", "mul", "is_distinct", "is_not_distinct"})

TURNED = frozenset({"gt", "ge"})


def question(plan: PrivatePlan, *context: str) -> str:
    """sha256 (hex) of what is asked of the private data, in this context."""
    parts = [*context, str(plan.shares), *map(_block, plan.blocks), *map(_stage, plan.stages)]
    parts += [str([(t.block, t.quantities) for t in levels.tables]) for levels in plan.levels]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _stage(relation: Relation) -> str:
    writer = Writer()
    writer.number(relation)
    return writer.write(relation)


def _block(plan: BlockPlan) -> str:
    writer = Writer()
    writer.number(plan.block.rows)
    return writer.write(
        (
            plan.block.rows,
            plan.block.unit,
            tuple(key.expression for key in plan.block.keys),
            plan.domain,
            plan.unreleased,
            tuple(release.query for release in plan.releases),
            tuple(choice.query for choice in plan.choices),
            tuple((tree.histogram, tree.ranks, len(tree.halves)) for tree in plan.trees),
            plan.groups.value,
            plan.enforce_l0,
            plan.row_level,
            plan.floor,
            None if plan.top is None else (plan.top.count, plan.top.lowest),
        )
    )


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


class Writer:
    """Writes frozen values as text; equal texts mean equal values up to column identity."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def number(self, relation: Relation) -> None:
        """Give columns numbers in the order of the tables they come from."""
        for source in inputs(relation):
            self.number(source)
        for column in relation.fields:
            self.numbers.setdefault(column.id, len(self.numbers))

    def write(self, value: Any) -> str:
        match value:
            case Span():
                return ""
            case Field():
                return f"#{self.numbers[value.id]}:{value.type}"
            case Ref():
                return f"#{self.numbers[value.id]}"
            case Scan():
                columns = ",".join(f"{f.name}={self.write(f)}" for f in value.fields)
                return f"Scan({value.table};{columns})"
            case Staged(stage=stage, fields=columns):
                return f"Staged({self.write(stage)},{self.write(columns)})"
            case Evaluated(digest=digest):
                return f"Evaluated({digest})"
            case Call(function=name, args=args):
                tick()
                written = [self.write(arg) for arg in args]
                if name in TURNED:
                    name, written = MIRRORED[name], written[::-1]
                return f"{name}({','.join(sorted(written) if name in COMMUTATIVE else written)})"
            case Enum():
                return str(value.value)
            case tuple() | list():
                return f"[{','.join(map(self.write, value))}]"
            case _ if is_dataclass(value):
                tick()
                kind: Any = type(value)
                inner = (self.write(getattr(value, name)) for name in _names(kind))
                return f"{type(value).__name__}({','.join(inner)})"
            case _:
                return f"{type(value).__name__}:{value!r}"
