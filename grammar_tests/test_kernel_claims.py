"""Which claims of a block are enforced, for each of what the kernel proves and the block claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from dpsql.compiler.kernel import enforce
from dpsql.compiler.kernel.enforce import enforced
from dpsql.compiler.kernel.known import Proof, Rows
from dpsql.compiler.plan.enforcement import Enforcement
from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Ref
from grammar_tests.bound import shop
from grammar_tests.laws import compiled

SQL = "SELECT status, quantity, COUNT(*) FROM orders GROUP BY status, quantity"
NOTHING, ALL = (None, None, None, None), (1, 1, 1, 1)
PROVED = NOTHING, ALL, (3, 1, 1, 2), (2, 2, 2, 2), (4, None, 1, 3)
"""Rows of a unit, in all and in a group; different values of a key, and of all keys together."""


@cache
def plan() -> PrivatePlan:
    prepared = compiled(SQL, *shop())
    assert prepared.plan is not None
    return prepared.plan


def claiming(of: BlockPlan | None = None, **claims: Any) -> BlockPlan:
    of = of or plan().blocks[0]
    here = {name: claims.pop(name) for name in ("l0", "enforce_l0", "groups") if name in claims}
    return replace(of, block=replace(of.block, **claims), **here)


def prove(rows: int | None, within: int | None, one: int | None, both: int | None) -> Any:
    """A proof that says these numbers."""
    return SimpleNamespace(
        most_rows=lambda columns=(): within if set(columns) == KEYS() else rows,
        most_values=lambda columns: both if set(columns) == KEYS() else one,
    )


def KEYS() -> set[int]:  # noqa: N802 - a constant that is compiled
    return {key.field.id for key in plan().blocks[0].block.keys}


def claims_of(of: BlockPlan, *proved: int | None) -> list[Enforcement]:
    return list(enforce._unproved_claims(of, prove(*proved)))


def expected(of: BlockPlan, proved: tuple[int | None, ...]) -> Iterator[Enforcement]:
    """What R96 says, number by number."""
    rows, within, one, both = (10**9 if n is None else n for n in proved)
    block = of.block
    if block.max_rows is not None and rows > block.max_rows:
        yield Enforcement(block.max_rows)
    if block.max_rows != 1:
        if block.alone and within > 1:
            yield Enforcement(1, in_group=True)
        for key in block.keys:
            assert isinstance(key.expression, Ref)
            if key.expression.id in block.determined and one > 1:
                yield Enforcement(1, (key.expression,))
        counted = block.max_groups is not None and not of.enforce_l0
        if counted and of.groups.value == block.max_groups and both > (block.max_groups or 0):
            yield Enforcement(of.l0, tuple(key.expression for key in block.keys))


def test_what_is_not_proved_is_enforced() -> None:
    first = plan().blocks[0]
    keys = [key.expression.id for key in first.block.keys if isinstance(key.expression, Ref)]
    groups = [replace(first.groups, value=n) for n in (1, 2, 3)]
    found = set[tuple[Enforcement, ...]]()
    for rows, alone, known, most, sampled, limit in product(
        (None, 1, 2, 3), (False, True), range(3), (None, 1, 2, 3), (False, True), groups
    ):
        of = claiming(
            max_rows=rows,
            alone=alone,
            determined=frozenset(keys[:known]),
            max_groups=most,
            enforce_l0=sampled,
            groups=limit,
        )
        for proved in PROVED:
            enforcements = claims_of(of, *proved)
            assert enforcements == list(expected(of, proved))
            found.add(tuple(enforcements))
    assert len(found) > 20


def test_a_key_of_nothing_the_unit_determines_is_not_enforced() -> None:
    """Of a key that reads two columns, both have to be determined."""
    of = plan().blocks[0]
    first, second = of.block.keys
    both = replace(first, expression=first.expression.eq(second.expression))
    assert isinstance(first.expression, Ref)
    assert isinstance(second.expression, Ref)
    ids = first.expression.id, second.expression.id
    for known, count in (ids[:1], 0), (ids, 1):
        block = replace(of.block, keys=(both,), determined=frozenset(known), max_rows=None)
        assert len(claims_of(replace(of, block=block), *NOTHING)) == count


# --- the whole plan ---


class Stub:
    """A kernel that proves what it is told, and notes what it was made with."""

    def __init__(self, local: set[int], several: int | None = None) -> None:
        self.local, self.several, self.made = local, several, list[Any]()

    def __call__(self, *given: object) -> Stub:
        self.made.append(given)
        return self

    def proof(self, rows: object, unit: int, keys: object) -> Proof:
        self.made.append((rows, unit, keys))
        return Proof(Rows(frozenset(self.local), owners=frozenset(self.local)), unit)

    def most_of_several(self, rows: object) -> int | None:
        self.made.append(rows)
        return self.several


def over(stub: Stub, *blocks: BlockPlan, monkeypatch: pytest.MonkeyPatch) -> PrivatePlan:
    monkeypatch.setattr(enforce, "Kernel", stub)
    of = SimpleNamespace(blocks=blocks, stages=("a stage",))
    monkeypatch.setattr(enforce, "replace", replace_any)
    return enforced(of, shop()[0], FREQUENCY)  # type: ignore[arg-type]


def replace_any(old: Any, **new: Any) -> Any:
    return (
        SimpleNamespace(**vars(old) | new)
        if isinstance(old, SimpleNamespace)
        else replace(old, **new)
    )


def FREQUENCY(*_given: object) -> int:  # noqa: N802 - it is never called
    raise AssertionError


def test_the_kernel_reads_the_stages_and_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    of = plan().blocks[0]
    unit = of.block.unit.id
    stub = Stub({unit})
    none = claiming(keys=(), max_rows=None)
    done = over(stub, of, none, monkeypatch=monkeypatch)
    assert stub.made[0] == (shop()[0], ("a stage",), [2, 0], FREQUENCY)
    assert stub.made[1:] == [(b.block.rows, unit, b.block.keys) for b in (of, none)]
    assert [block.block.unit for block in done.blocks] == [of.block.unit] * 2


def test_the_unit_is_a_column_that_each_row_is_of(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = plan().blocks[0].block.rows.fields
    first, *others = sorted(f.id for f in fields)
    ids = frozenset({*others, 10**6})
    of = claiming(unit=Ref(first, fields[0].type), unit_ids=ids)
    for local in others[:2]:
        (block,) = over(Stub({local}), of, monkeypatch=monkeypatch).blocks
        assert block.block.unit == next(f.ref for f in fields if f.id == local)


@pytest.mark.parametrize("which", ["another column", "no column"])
def test_rows_of_nobody_known_are_refused(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that is not said to hold the unit is not asked."""
    of = plan().blocks[0]
    others = {f.id for f in of.block.rows.fields} - {of.block.unit.id, *of.block.unit_ids}
    local = max(others) if which == "another column" else 10**6
    with pytest.raises(Refused) as refused:
        over(Stub({local}), of, monkeypatch=monkeypatch)
    assert refused.value.reason is Reason.UNSUPPORTED_PRIVATE_OPERATOR
    assert refused.value.span == of.block.span
    assert refused.value.facts == {
        "construct": "rows that are not seen to be of one of the customers each"
    }


@pytest.mark.parametrize(
    ("proved", "claimed", "accepted"),
    [(3, 3, True), (2, 3, True), (4, 3, False), (None, 3, False), (3, None, False)],
)
def test_rows_of_several_need_a_bound(
    proved: int | None,
    claimed: int | None,
    accepted: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of, stub = claiming(several=True, max_rows=claimed), Stub(set(), proved)
    if accepted:
        assert over(stub, of, monkeypatch=monkeypatch).blocks == (of,)
        assert stub.made[1:] == [of.block.rows]
        return
    with pytest.raises(Refused) as refused:
        over(stub, of, monkeypatch=monkeypatch)
    assert refused.value.reason is Reason.UNSUPPORTED_PRIVATE_OPERATOR
    assert refused.value.span == of.block.span
    assert refused.value.facts == {"construct": "rows of several customers each, without a bound,"}


def test_claims_are_enforced_once_and_votes_make_none(monkeypatch: pytest.MonkeyPatch) -> None:
    of = claiming(max_rows=2)
    key, other = of.block.keys
    assert isinstance(key.expression, Ref)
    keys = key, replace(other, expression=key.expression)
    twice = claiming(of, keys=keys, determined=frozenset({key.expression.id}))
    stub = Stub({of.block.unit.id})
    (block,) = over(stub, twice, monkeypatch=monkeypatch).blocks
    assert block.block.enforced == (Enforcement(2), Enforcement(1, (key.expression,)))
    (voted,) = over(stub, claiming(of, vote=object()), monkeypatch=monkeypatch).blocks
    assert voted.block.enforced == ()
