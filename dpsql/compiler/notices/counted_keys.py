"""Private keys that a query counts as they are shown: how many there are is another question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan
from dpsql.model.algebra import Aggregate, Filter, Limit, Project, Relation, Released, Sort, Window
from dpsql.model.notices import CountedKeys
from dpsql.model.tree import AggregateCall, WindowCall
from dpsql.model.walk import relations


def counted_keys(plan: PrivatePlan) -> tuple[CountedKeys, ...]:
    """One notice for the private keys of each block whose shown groups are counted."""
    return tuple(dict.fromkeys(_counted(plan)))


def _counted(plan: PrivatePlan) -> Iterator[CountedKeys]:
    for relation in relations(plan.outer):
        match relation:
            case Aggregate(input=source, measures=measures):
                calls: list[AggregateCall | WindowCall] = [m.call for m in measures]
            case Window(input=source, items=items):
                calls = [item.call for item in items]
            case _:
                continue
        keys = _private_keys(source, plan.blocks)
        if keys and any(call.function == "count" for call in calls):
            yield CountedKeys(keys)


def _private_keys(relation: Relation, blocks: Sequence[BlockPlan]) -> tuple[str, ...]:
    """The names of the private keys whose groups are the rows of a relation."""
    match relation:
        case Released(block=number) if blocks[number].domain is None:
            return tuple(key.field.name for key in blocks[number].block.keys)
        case Project() | Filter() | Sort() | Limit() | Window():
            return _private_keys(relation.input, blocks)
        case _:
            return ()
