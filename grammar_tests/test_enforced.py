"""What the kernel does not prove is enforced: false claims of the planner leak nothing.

Each claim is planted where it is false, over databases that have one unit or none; the wrong twin
prints the same plan without what enforces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from dpsql.compiler.kernel import enforce
from dpsql.compiler.kernel.known import Proof
from dpsql.compiler.plan.enforcement import Enforcement
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.track import blocks, joins, table_scans, track
from dpsql.compiler.track.units import Private
from dpsql.dialects.enforced_sql import EnforcedRows
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import INTEGER, Ref
from grammar_tests import laws
from grammar_tests.bound import shop, transfers
from grammar_tests.laws import PlainEngine, compiled, integers
from grammar_tests.test_cases import ALL, database

ROWS = "orders (order_id, customer_id, status, note, note_length, quantity): "
TWO = "(1, 1, 'open', 'a', 1, 1), (2, 1, 'paid', 'b', 2, 1)"
UNIT = "customers (customer_id, segment): (1, 'consumer')"
SCAN = table_scans.private_scan
BLOCK = blocks.Blocks.block


def orders_with(**claims: Any) -> object:
    """A scan of private rows with claims about the orders of one customer."""

    def scan(*given: Any) -> Private:
        rows = SCAN(*given)
        if given[1].name != "orders":
            return rows
        every = frozenset(f.id for f in rows.relation.fields)
        fixed = rows.determined | (every if claims.get("determined") else frozenset())
        return replace(rows, **{**claims, "determined": fixed})

    return scan


def block_with(**claims: Any) -> object:
    return lambda *given: replace(BLOCK(*given), **claims)


PLANTED: dict[str, tuple[object, str, object, str, str]] = {
    "one row of a unit": (
        track,
        "private_scan",
        orders_with(max_rows=1, determined=True),
        (
            "SELECT COUNT(*) FILTER (WHERE status = 'open'),"
            " COUNT(*) FILTER (WHERE status = 'paid') FROM orders"
        ),
        TWO,
    ),
    "one row of a unit in a group": (
        blocks.Blocks,
        "block",
        block_with(alone=True),
        (
            "SELECT segment, COUNT(*) FILTER (WHERE status = 'open'),"
            " COUNT(*) FILTER (WHERE status = 'paid') FROM orders JOIN customers"
            " USING (customer_id) GROUP BY segment"
        ),
        TWO,
    ),
    "one key of a unit": (
        track,
        "private_scan",
        orders_with(determined=True),
        "SELECT status, COUNT(DISTINCT customer_id) FROM orders GROUP BY status",
        TWO,
    ),
    "one group of a unit": (
        blocks.Blocks,
        "block",
        block_with(max_groups=1),
        "SELECT status, COUNT(DISTINCT customer_id) FROM orders GROUP BY status",
        TWO,
    ),
}
"""Where a claim is planted, the question, and the rows of one unit of which it is false."""


def moved(prepared: Prepared, rows: str) -> int:
    """By how much one unit moves all integers, from the empty database on."""
    (ours,), (empty,) = (
        integers(prepared, PlainEngine(database(listed))) for listed in ((UNIT, ROWS + rows), ())
    )
    zero = (0,) * len(next(iter(ours.values()), ()))
    return sum(
        abs(a - b)
        for key in {*ours, *empty}
        for a, b in zip(ours.get(key, zero), empty.get(key, zero), strict=True)
    )


@contextmanager
def planted(where: object, name: str, claim: object) -> Iterator[pytest.MonkeyPatch]:
    """A false claim of the planner, which no law stops."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(where, name, claim)
        patched.setattr(laws, "require_claims", lambda *_: None)
        yield patched


def unproved(*_given: object) -> Iterator[object]:
    return iter(())


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("name", PLANTED)
def test_a_false_claim_leaks_nothing(name: str) -> None:
    where, attribute, claim, sql, rows = PLANTED[name]
    with planted(where, attribute, claim) as patched:
        prepared = compiled(sql, *shop())
        assert prepared.blocks[0].block.enforced
        claimed = max(r.sensitivity.l1 for r in prepared.blocks[0].releases)
        assert len(prepared.blocks[0].payments) == 1
        assert moved(prepared, rows) <= claimed
        patched.setattr(enforce, "_unproved_claims", unproved)
        unguarded = compiled(sql, *shop())
        assert moved(unguarded, rows) > claimed  # the wrong twin


@pytest.mark.parametrize("name", PLANTED)
def test_the_switch_finds_what_is_left_out(name: str) -> None:
    where, attribute, claim, sql, rows = PLANTED[name]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(where, attribute, claim)
        prepared = compiled(sql, *shop())
        with pytest.raises(AssertionError, match="left out"):
            integers(prepared, PlainEngine(database((UNIT, ROWS + rows))))


def _sees_nothing(method: Callable[..., Any]) -> object:
    """The kernel without proofs of rows and values; what is local stays so."""
    return lambda self, *given: None if self.is_local else method(self, *given)


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_enforced_in_vain_changes_no_integer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of true claims, of which the kernel is made to prove none."""
    cases = [c for c in ALL if c.accepted and c.catalog == "shop" and not c.rows][::40]
    plain = [compiled(c.sql, *shop(), dialect=c.setting("dialect", "duckdb")) for c in cases]
    for name in ("most_rows", "most_values"):
        monkeypatch.setattr(Proof, name, _sees_nothing(getattr(Proof, name)))
    enforced = 0
    for case, before in zip(cases, plain, strict=True):
        after = compiled(case.sql, *shop(), dialect=case.setting("dialect", "duckdb"))
        if before.plan is None or any(len(p.plan.stages) for p in (before, after) if p.plan):
            continue
        enforced += any(block.block.enforced for block in after.blocks)
        assert integers(after, shop()[1]) == integers(before, shop()[1]), case.id
    assert enforced > len(cases) / 4


def test_rows_that_are_not_seen_to_be_of_one_unit_are_refused() -> None:
    """A planner that takes any columns to tell whose rows meet."""

    def linked(_condition: object, left: Private, right: Private, _policy: object) -> object:
        return joins._Linked({}, ((min(left.anchors), min(right.anchors)),))

    sql = "SELECT COUNT(*) FROM orders o JOIN events e ON o.quantity = e.duration"
    with planted(joins, "_linked", linked), pytest.raises(Refused) as refused:
        compiled(sql, *shop())
    assert refused.value.reason is Reason.UNSUPPORTED_PRIVATE_OPERATOR


def test_rows_of_several_people_need_the_proof() -> None:
    def fewer(*given: Any) -> Private:
        rows = SCAN(*given)
        return replace(rows, max_rows=(rows.max_rows or 1) - 1)

    sql = "SELECT COUNT(*) FROM t"
    assert compiled(sql, *transfers()).blocks[0].block.several
    with planted(track, "private_scan", fewer), pytest.raises(Refused) as refused:
        compiled(sql, *transfers())
    assert refused.value.reason is Reason.UNSUPPORTED_PRIVATE_OPERATOR


JOINED = "SELECT COUNT(*) FROM orders a " + " ".join(
    f"JOIN orders {name} ON a.customer_id = {name}.customer_id" for name in "bcde"
)


def test_only_the_kernel_waives_the_limit_of_joined_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with planted(track, "private_scan", orders_with(max_rows=1, determined=True)):
        with pytest.raises(Refused) as refused:
            compiled(JOINED, *shop())
        assert refused.value.reason is Reason.TOO_LARGE
        monkeypatch.setattr(track._Tracker, "_proved_rows", lambda _self, joined: joined.max_rows)
        assert compiled(JOINED, *shop())  # the wrong twin


def test_what_of_the_cases_is_enforced_is_pinned() -> None:
    """All else is proved: a line `-- enforced:` says what is not."""
    enforced = [c.id for c in ALL if any(line.startswith("enforced: ") for line in c.pinned)]
    accepted = [c for c in ALL if c.accepted]
    assert 0 < len(enforced) < len(accepted) / 40, f"{len(enforced)} of {len(accepted)}"


GIVEN = (
    "SELECT * FROM (VALUES (1, NULL, 7, 1), (1, NULL, 7, 1), (1, 'b', 8, 1),"
    " (2, 'a', 7, 1), (2, 'b', 7, 1), (3, 'a', 9, 3), (NULL, 'a', 7, 1)) AS r(u, k0, x, w)"
)
"""Rows of three units; the first has two of NULL, and the third one that counts three times."""
VALUE = Ref(1, INTEGER)
ONE_OF_X, ONE_ROW_A_GROUP = Enforcement(1, (VALUE,)), Enforcement(1, in_group=True)


def stay(*claims: Enforcement, weight: str | None = None) -> list[tuple[int, str | None]]:
    """Units and groups of the rows that stay where these claims are enforced."""
    rows = EnforcedRows(GIVEN, claims, ("k0",), {VALUE: "x"}, weight, "AS MATERIALIZED")
    sql = f"WITH {', '.join(rows.stages)} SELECT u, k0 FROM rows WHERE u IS NOT NULL"
    return sorted(duckdb.connect().execute(sql).fetchall(), key=str)


@pytest.mark.parametrize(
    ("claims", "weight", "left"),
    [
        ((), None, [(1, "b"), (1, None), (1, None), (2, "a"), (2, "b"), (3, "a")]),
        ((Enforcement(2),), None, [(2, "a"), (2, "b"), (3, "a")]),
        ((Enforcement(3),), None, [(1, "b"), (1, None), (1, None), (2, "a"), (2, "b"), (3, "a")]),
        ((Enforcement(2),), "w", [(2, "a"), (2, "b")]),
        ((ONE_ROW_A_GROUP,), None, [(1, "b"), (2, "a"), (2, "b"), (3, "a")]),
        ((ONE_OF_X,), None, [(2, "a"), (2, "b"), (3, "a")]),
        ((Enforcement(2, (VALUE,)),), None, stay()),
        ((Enforcement(1), ONE_ROW_A_GROUP), None, [(3, "a")]),
        ((ONE_ROW_A_GROUP, Enforcement(1)), None, [(3, "a")]),
    ],
)
def test_exactly_those_rows_stay_that_keep_every_claim(
    claims: tuple[Enforcement, ...], weight: str | None, left: list[tuple[int, str | None]]
) -> None:
    assert stay(*claims, weight=weight) == sorted(left, key=str)


def test_a_claim_is_proved_only_by_a_number_that_is_no_larger() -> None:
    held = [enforce._within(*pair) for pair in ((1, 1), (1, 2), (2, 1), (None, 1), (1, None))]
    assert held == [True, True, False, False, False]
