"""Released tables of a query that are sums of the same rows, and so have totals in common.

A table's cells add up to the exact total of the rows if every row has one of its keys, which
requires public keys. (A row with a key that the policy does not list is in no cell. A wrong
declaration costs accuracy, and no privacy.) With private keys, unreleased ones are missing. No row
may be left out either: no unit has more rows or groups than are counted, as in
`compiler.calibrate.partitions`.

Making totals agree is post-processing: PRIVACY.md R67.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from typing import TypeAlias

from dpsql.compiler.calibrate.disjoint import divisible
from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.consistency.least_squares import Agreement
from dpsql.consistency.marginals import Marginal, Marginals
from dpsql.mechanisms import standard_deviation
from dpsql.model.algebra import Relation, Released
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Value
from dpsql.model.walk import relations

_MOST_KEYS = 6
"""Largest number of keys of one table: it has an effect for every subset of them."""

_Quantity: TypeAlias = tuple[str, ...]
"""A measurement as text, after those that precede it on the line of its agreements."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """A block's table, described so that blocks of the same rows can be compared.

    `quantities` has one for each measurement, None for one that does not add up; `lists` are the
    agreements over them.
    """

    block: int
    domains: dict[str, tuple[Value, ...]]
    quantities: tuple[_Quantity | None, ...]
    deviations: tuple[float, ...]
    lists: tuple[tuple[tuple[_Quantity, ...], ...], ...]


def levels_of(blocks: Sequence[BlockPlan], stages: Sequence[Relation]) -> tuple[Marginals, ...]:
    """Return the tables with common quantities, grouped by their rows.

    A table that a stage reads stays as it is, because the others do not exist yet.
    """
    staged = {r.block for stage in stages for r in relations(stage) if isinstance(r, Released)}
    of_rows: dict[str, list[_Cells]] = defaultdict(list)
    for number, block in enumerate(blocks):
        if number not in staged and _adds_up(block):
            writer = Writer()
            writer.number(block.block.rows)
            cells = _cells_of(number, block, writer)
            if cells is not None:
                of_rows[writer.write((block.block.rows, block.block.unit))].append(cells)
    return tuple(levels for tables in of_rows.values() for levels in _shared(tables))


def _adds_up(block: BlockPlan) -> bool:
    rows = block.rows.value
    return (
        isinstance(block.keys, ListedKeys)
        and block.block.groups is None
        and block.block.vote is None
        and not block.enforce_l0
        and len(block.block.keys) <= _MOST_KEYS
        and rows is not None
        and rows == block.rows_per_group.value
    )


def _cells_of(number: int, block: BlockPlan, writer: Writer) -> _Cells | None:
    """Describe a block; None where it has no group, a repeated key, or dependent keys."""
    rows, domain = block.rows.value, block.domain
    assert rows is not None
    assert domain is not None
    keys = [writer.write(key.expression) for key in block.block.keys]
    domains = {key: tuple(dict.fromkeys(k[n] for k in domain)) for n, key in enumerate(keys)}
    if not domain or len(domains) < len(keys):
        return None
    if prod(map(len, domains.values())) > len(domain):
        return None
    parts = [release.query for release in block.releases]
    agreements = block.placed_agreements
    before = _before(agreements)
    line = [(*before.get(n, ()), n) for n in range(len(parts))]
    texts = [writer.write(part) for part in parts]
    quantities = [tuple(texts[place] for place in places) for places in line]
    adds_up = [divisible(part, rows) for part in parts]
    return _Cells(
        number,
        domains,
        tuple(q if yes else None for q, yes in zip(quantities, adds_up, strict=True)),
        tuple(standard_deviation(release.noise) for release in block.releases),
        tuple(
            tuple(tuple(quantities[place] for place in listed) for listed in agreement.lists)
            for agreement in agreements
        ),
    )


def _before(agreements: Sequence[Agreement]) -> dict[int, tuple[int, ...]]:
    """Return the places before each place, where lists with equal totals start together."""
    before: dict[int, tuple[int, ...]] = {}
    for agreement in agreements:
        alone = [listed[0] for listed in agreement.lists if len(listed) == 1]
        first = next((before[place] for place in alone if place in before), ())
        for listed in agreement.lists:
            for n, place in enumerate(listed):
                before.setdefault(place, (*first, *listed[:n]))
    return before


def _shared(tables: Sequence[_Cells]) -> Iterator[Marginals]:
    """Yield the tables that share a quantity with another one, if there are any."""
    count: dict[_Quantity, int] = defaultdict(int)
    for table in tables:
        for quantity in table.quantities:
            if quantity is not None:
                count[quantity] += 1
    sharing = [t for t in tables if any(q is not None and count[q] > 1 for q in t.quantities)]
    domains = {key: domain for table in sharing for key, domain in table.domains.items()}
    if sharing and all(domains[key] == d for table in sharing for key, d in table.domains.items()):
        yield _levels(sharing, domains)


def _levels(sharing: Sequence[_Cells], domains: dict[str, tuple[Value, ...]]) -> Marginals:
    axes = {key: n for n, key in enumerate(domains)}
    quantities = dict.fromkeys(q for table in sharing for q in table.quantities if q is not None)
    number = {quantity: n for n, quantity in enumerate(quantities)}
    tables = [
        Marginal(
            table.block,
            tuple(axes[key] for key in table.domains),
            tuple(None if q is None else number[q] for q in table.quantities),
            table.deviations,
        )
        for table in sharing
    ]
    agreements = dict.fromkeys(
        Agreement(tuple(tuple(number[q] for q in listed) for listed in lists))
        for table in sharing
        for lists in table.lists
    )
    starts = tuple(tuple(number[q[: n + 1]] for n in range(len(q) - 1)) for q in quantities)
    return Marginals(tuple(map(len, domains.values())), tuple(tables), tuple(agreements), starts)
