"""What a question measures when it measures wide, and which cells of that are its own.

The population is the rows below the release without conditions on listed columns of which a unit
has one value, with their unit and with the keys that nothing is added up over: those of which some
row may have no listed value, since totals would be of fewer rows, and those of which a unit may
have several values, since its total is clipped in each. They are keys of every table of the
population. Populations, keys and measurements are known by digests of their one form, clips,
lattices and lists of values among it.

Proof (PRIVACY.md R79). Let all rows of a unit agree on a key. Then without it a unit has the same
rows in each group, its total there is the same, clipped alike, and the cells of the finer table add
up to those of the coarser. Digests are equal only where rows, values and clips are, as of questions
(R77).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from dpsql.compiler.plan.canonical import Writer, parts_of, written_rows
from dpsql.compiler.plan.measurement_kinds import ClippedSum, RowCount, UnitCount
from dpsql.compiler.plan.prepared import Positions, Prepared, WideTable
from dpsql.compiler.plan.private_plan import BlockPlan, Payment, PrivateBlock, Release
from dpsql.compiler.plan.published_keys import Domain, ListedKeys
from dpsql.mechanisms.differences import noise_of_differences, sensitivity_of_differences
from dpsql.model.origins import MeasuredColumns
from dpsql.model.tree import Expression, Value
from dpsql.model.vocabulary import Event, Loss, Mechanism, NoiseEvent
from dpsql.model.walk import refs


def has_one(block: PrivateBlock, expression: Expression) -> bool:
    """Whether all rows of a unit agree on this."""
    return block.max_rows == 1 or refs(expression) <= block.determined


def adds_up(prepared: Prepared) -> bool:
    """Whether the cells of a question are sums over units of what each has there, whatever it has
    in others: all keys are listed, and each column has noise of its own.
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
    data: str | None,
) -> WideTable | None:
    """A question's cells in a wide one's, whose keys begin with the question's; None where they are
    no sums of its cells, or where its price is another one. `whole` says of a key that every row
    has one of its values; `data` identifies what is measured.
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
    written = [writer.write(key.expression) for key in block.block.keys]
    keys = [_digest(f"{text} of {axis!r}") for text, axis in zip(written, axes, strict=True)]
    every = map(all, zip(whole, summed, strict=True))
    apart = sorted(key for key, may_go in zip(keys, every, strict=True) if not may_go)
    about = writer.write(parts_of(replace(block.block, rows=rows, keys=())))
    population = _digest("\n".join([*wide.context, str(data), about, *apart]))
    noises = tuple(release.noise for release in block.releases)
    measured = MeasuredColumns(tuple(keys), tuple(map(_digest, texts)), noises)
    return WideTable(
        replace(wide, question=population, measured=measured),
        sizes=tuple(map(len, axes)),
        chosen=tuple(selected),
        places=places,
        columns=tuple(map(texts.index, columns)),
    )


def written_parts(prepared: Prepared) -> tuple[str, tuple[str, ...]]:
    """Digests of the rows of a question's only block, and of what each of its columns measures:
    equal ones are the same, as of tables (PRIVACY.md R79).
    """
    (own,) = prepared.blocks
    writer, rows = written_rows(own.block)
    about = writer.write(parts_of(replace(own.block, rows=rows)))
    population = _digest("\n".join([*prepared.context, str(prepared.data), about]))
    return population, tuple(map(_digest, _texts(writer, own)))


def differing(wide: WideTable, along: tuple[int, ...]) -> WideTable | None:
    """The same table of differences along these keys, for the same loss; None where that cannot be
    said of them.

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
    """What each column measures, in words that are the same in other tables of these rows."""
    return [writer.write(release.query) for release in block.releases]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _selected(
    axes: Sequence[tuple[Value, ...]], chosen: Sequence[frozenset[Value] | None], keys: int
) -> list[Positions | None]:
    """Which values conditions leave of each axis behind the `keys` of the question."""
    own: list[Positions | None] = [None] * keys
    return own + [
        _positions(values or frozenset(), axis)
        for axis, values in zip(axes[keys:], chosen[keys:], strict=True)
    ]


def _positions(values: frozenset[Value], axis: tuple[Value, ...]) -> Positions:
    """Where these are; nowhere if one of them is not there."""
    there = tuple(n for n, value in enumerate(axis) if value in values)
    return there if len(there) == len(values) else ()


def _places(
    groups: Domain,
    axes: Sequence[tuple[Value, ...]],
    chosen: Sequence[frozenset[Value] | None],
) -> tuple[Positions, ...] | None:
    """Where the groups of a question are; None where one of them is not there, or is one of which
    conditions leave nothing.
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
