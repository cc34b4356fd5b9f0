"""Wide measurements of a query, and the cells of them that answer it.

The population is the rows below the release without some conditions. These are conditions on listed
columns where a unit has one value. The population has their unit, and the keys that must not be
added up. These are the keys where some row may have no listed value, since totals would be of fewer
rows, and those where a unit may have several values, since its total is clipped in each. They are
keys of every table of the population. Populations, keys and measurements are identified by digests
of their canonical form, which includes clipping bounds, grids and lists of values.

Proof (PRIVACY.md R79). Let all rows of a unit agree on a key. Then without it a unit has the same
rows in each group, and its total there is the same, clipped alike. So the cells of the finer table
add up to those of the coarser. Digests are equal only where rows, values and clipping bounds are,
as for queries (R77).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

from dpsql.compiler.plan.canonical import Writer, parts_of, without_unread, written_rows
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, RowCount, UnitCount
from dpsql.compiler.plan.plan_version import plan_version
from dpsql.compiler.plan.prepared import Positions, Prepared, WideTable
from dpsql.compiler.plan.private_plan import BlockPlan, Payment, PrivateBlock, Release
from dpsql.compiler.plan.published_keys import Domain, ListedKeys
from dpsql.mechanisms.differences import noise_of_differences, sensitivity_of_differences
from dpsql.model.algebra import Relation
from dpsql.model.origins import MeasuredColumns
from dpsql.model.tree import Expression, Value
from dpsql.model.vocabulary import Event, Loss, Mechanism, NoiseEvent, Policy
from dpsql.model.walk import refs


def has_one(block: PrivateBlock, expression: Expression) -> bool:
    """Test whether all rows of a unit agree on this expression."""
    return block.max_rows == 1 or refs(expression) <= block.determined


def adds_up(prepared: Prepared) -> bool:
    """Test whether the cells of a query are sums over units, independent of the unit's other cells.

    All keys must be listed, and each column must have its own noise.
    """
    plan = prepared.plan
    if plan is None or len(plan.blocks) != 1 or plan.stages or plan.levels or plan.polls:
        return False
    block = plan.blocks[0]
    return (
        isinstance(block.keys, ListedKeys)
        and not (block.keys.within or block.choices or block.trees or block.agreements)
        and not (block.norms or block.totals or block.enforce_l0)
        and not block.block.several
        and block.block.groups is None
        and block.block.vote is None
        and bool(block.releases)
        and all(isinstance(r.query, RowCount | UnitCount | ClippedSum) for r in block.releases)
        and not any(payment.shares_noise for payment in block.payments)
    )


def wide_table(
    prepared: Prepared,
    wide: Prepared,
    whole: Sequence[bool],
    chosen: Sequence[frozenset[Value] | None],
    policy: Policy,
) -> WideTable | None:
    """Map a query's cells to those of a wide query; its keys begin with the query's keys. Returns
    None where they are no sums of its cells, or where its price differs. `whole` says for each key
    that every row has one of its values. The `policy` says what the digests depend on.
    """
    if not (adds_up(prepared) and adds_up(wide)) or _loss(wide) != _loss(prepared):
        return None
    (own,), (block,) = prepared.blocks, wide.blocks
    domain, groups, count = block.domain or (), own.domain or (), len(own.block.keys)
    axes = [tuple(dict.fromkeys(values)) for values in zip(*domain, strict=True)]
    writer, rows = written_rows(block.block)
    texts, columns = _texts(writer, block), _texts(written_rows(own.block)[0], own)
    if prod(map(len, axes)) != len(domain) or not set(columns) <= set(texts):
        return None
    selected = _selected(axes, chosen, count)
    places = _places(groups, axes[:count], chosen)
    summed = [has_one(block.block, key.expression) for key in block.block.keys]
    if places is None or () in selected or not all(summed[count:]):
        return None
    apart = [not all(both) for both in zip(whole, summed, strict=True)]
    of = _Digested(wide, axes, apart, _data(policy))
    present, earlier = of.present(writer, rows, policy), of.earlier(writer, rows)
    noises = tuple(release.noise for release in block.releases)
    measured = MeasuredColumns(present.keys, present.parts, noises)
    pairs = zip((*earlier.keys, *earlier.parts), (*present.keys, *present.parts), strict=True)
    return WideTable(
        replace(wide, question=present.population, earlier=earlier.population, measured=measured),
        sizes=tuple(map(len, axes)),
        chosen=tuple(selected),
        places=places,
        columns=tuple(map(texts.index, columns)),
        earlier=dict(pairs),
    )


class _Digests(NamedTuple):
    """Digests of a population, and of the keys and measurements of a table over it."""

    population: str
    keys: tuple[str, ...]
    parts: tuple[str, ...]


class _Digested(NamedTuple):
    """A wide table: the values of each key, and whether it is a key of all tables."""

    wide: Prepared
    axes: Sequence[tuple[Value, ...]]
    apart: Sequence[bool]
    data: str | None

    def present(self, writer: Writer, rows: Relation, policy: Policy) -> _Digests:
        """Return the digests over the columns that are read, by what the policy says of them."""
        (block,) = self.wide.blocks
        named = writer.by_name(rows)
        named.write(parts_of(replace(block.block, rows=rows, keys=())))
        read = without_unread(rows, named.scans(rows))
        return self.digests(writer.by_name, rows, read, partial(_said, policy))

    def earlier(self, writer: Writer, rows: Relation) -> _Digests:
        """Return the digests as versions before 0.2 wrote them."""
        return self.digests(lambda _rows: writer, rows, rows, lambda _writer, _rows: "")

    def digests(
        self,
        numbered: Callable[[Relation], Writer],
        rows: Relation,
        read: Relation,
        said: Callable[[Writer, Relation], str],
    ) -> _Digests:
        """Return the digests over `rows`, written by writers of these rows.

        `read` are the rows with the columns that the population reads, and `said` is what the
        policy says of the columns that a writer read.
        """
        (block,) = self.wide.blocks

        def digest(text: str, what: Expression | Measurement) -> str:
            writer = numbered(rows)
            writer.write(what)
            return _digest(f"{text}{said(writer, rows)}")

        writer, expressions = numbered(rows), [key.expression for key in block.block.keys]
        keys = tuple(
            digest(f"{writer.write(expression)} of {axis!r}", expression)
            for expression, axis in zip(expressions, self.axes, strict=True)
        )
        queries = (release.query for release in block.releases)
        parts = tuple(map(digest, _texts(writer, block), queries))
        apart = sorted(key for key, stays in zip(keys, self.apart, strict=True) if stays)
        writer = numbered(read)
        about = writer.write(parts_of(replace(block.block, rows=read, keys=())))
        about += said(writer, read)
        text = "\n".join([*self.wide.context, str(self.data), about, *apart])
        return _Digests(_digest(text), keys, parts)


def _data(policy: Policy) -> str | None:
    """Return the data of a table; under periods of people the version has those that it reads.

    Rows of public tables have no period.
    """
    private = all(table.private for table in policy.tables)
    return None if policy.period is not None and private and not policy.moves else policy.data


def _said(policy: Policy, writer: Writer, rows: Relation) -> str:
    """Return what the policy says of the columns that a writer read, as a digest."""
    read = dict[str, frozenset[str]]()
    for scan, names in writer.scans(rows):
        read[scan.table] = read.get(scan.table, frozenset()) | names
    return f" {plan_version(policy, read)}"


def written_parts(prepared: Prepared) -> tuple[str, tuple[str, ...]]:
    """Return one digest of the rows that a query measures, and one for each measured column.

    The query has one block. Names, and the order of a comparison, do not matter. Equal digests mean
    equal measurements, as for tables (PRIVACY.md R79).
    """
    (own,) = prepared.blocks
    writer, rows = written_rows(own.block)
    about = writer.write(parts_of(replace(own.block, rows=rows)))
    population = _digest("\n".join([*prepared.context, str(prepared.data), about]))
    return population, tuple(map(_digest, _texts(writer, own)))


def differing(wide: WideTable, along: tuple[int, ...]) -> WideTable | None:
    """Return the same table of differences along these keys, for the same loss; None if impossible.

    Proof (PRIVACY.md R84). A unit has one value of each of these keys.
    """
    plan, keys = wide.prepared.plan, wide.prepared.blocks[0].keys
    block, sizes = wide.prepared.blocks[0], [wide.sizes[place] for place in along]
    assert plan is not None
    assert isinstance(keys, ListedKeys)
    if not along:
        return wide
    if min(sizes) == 1 or not all(
        has_one(block.block, block.block.keys[place].expression) for place in along
    ):
        return None
    payments = {payment: _of_differences(payment, sizes) for payment in block.payments}
    releases = list[Release]()
    for release in block.releases:
        payment = payments[release.payment]
        if payment is None:
            return None
        releases.append(replace(release, payment=payment))
    measured = replace(wide.measured, noises=tuple(r.noise for r in releases), along=along)
    own = replace(block, keys=replace(keys, along=along), releases=tuple(releases))
    parts = [NoiseEvent(p.alone, p.sensitivity) for p in own.payments]
    differing = replace(plan, blocks=(own,), event=Event(tuple(parts)))
    return replace(wide, prepared=replace(wide.prepared, plan=differing, measured=measured))


def _of_differences(payment: Payment, sizes: Sequence[int]) -> Payment | None:
    sensitivity = sensitivity_of_differences(payment.sensitivity, sizes)
    if sensitivity is None or payment.alone.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        return None
    noise = noise_of_differences(payment.alone, sizes)
    return replace(payment, noise=noise, sensitivity=sensitivity, runner_up=None)


def _loss(prepared: Prepared) -> Loss | None:
    return None if prepared.plan is None else prepared.plan.loss


def _texts(writer: Writer, block: BlockPlan) -> list[str]:
    """Return the measurement of each column as text that is equal in other tables of these rows."""
    return [writer.write(release.query) for release in block.releases]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _selected(
    axes: Sequence[tuple[Value, ...]], chosen: Sequence[frozenset[Value] | None], keys: int
) -> list[Positions | None]:
    """Return the values that conditions keep for each axis behind the `keys` of the query."""
    own: list[Positions | None] = [None] * keys
    return own + [
        _positions(values or frozenset(), axis)
        for axis, values in zip(axes[keys:], chosen[keys:], strict=True)
    ]


def _positions(values: frozenset[Value], axis: tuple[Value, ...]) -> Positions:
    """Return the positions of these values; empty if one of them is missing."""
    there = tuple(n for n, value in enumerate(axis) if value in values)
    return there if len(there) == len(values) else ()


def _places(
    groups: Domain,
    axes: Sequence[tuple[Value, ...]],
    chosen: Sequence[frozenset[Value] | None],
) -> tuple[Positions, ...] | None:
    """Return the places of a query's groups.

    Returns None where one is missing, or where conditions exclude all of it.
    """
    numbers = [
        {value: n for n, value in enumerate(axis) if values is None or value in values}
        for axis, values in zip(axes, chosen, strict=False)
    ]
    places = tuple(
        tuple(number.get(value, -1) for value, number in zip(key, numbers, strict=True))
        for key in groups
    )
    return None if any(-1 in place for place in places) else places
