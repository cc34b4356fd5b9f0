"""What a random query is held to: law 1, law 2 and totality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from enum import StrEnum
from math import isclose, isfinite, isnan
from typing import Any

import duckdb
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb import expression_sql, relation_sql
from dpsql.dialects.duckdb.relation_sql import statement
from dpsql.model.errors import Refused
from dpsql.model.row_notices import ByFact, CertainFact, NoRows
from dpsql.model.vocabulary import Policy
from grammar_tests import fuzz_world
from grammar_tests.laws import (
    PlainEngine,
    Rows,
    compiled,
    counts_rows,
    integers,
    measured,
    noiseless,
    noiseless_blocks,
    violation,
)

ROWS = 1000
"""More rows than any aggregate of a random shop is over."""

UNITS = (1, 2, 4, 20)
"""The units of the adversarial shop that are removed: floods, duplicates, values out of bounds."""


class Verdict(StrEnum):
    """What came of a query."""

    HELD = "held"
    LOOSE = "held, within a coarse lattice"
    SILENT = "plain DuckDB raises"
    REFUSED = "refused"


Damage = Callable[[Prepared], Prepared]


def whole(prepared: Prepared) -> Prepared:
    """No damage."""
    return prepared


def accepted(sql: str, policy: Policy, engine: PlainEngine) -> Prepared | None:
    """The compiled query, None if it is refused; any other exception is a bug."""
    try:
        return compiled(sql, policy, engine)
    except Refused:
        return None


def law_one(sql: str, number: int, damage: Damage = whole) -> Verdict:
    """Noise off, the answer over shop `number` is plain DuckDB's; and ours never raises."""
    policy, engine = fuzz_world.shop(number)
    prepared = asked(sql, policy, engine)
    if prepared is None:
        return Verdict.REFUSED
    ours, errors = noiseless(damage(prepared), engine)
    try:
        plain = engine.rows(sql)
    except (duckdb.InternalException, duckdb.FatalException):
        fuzz_world.shop.cache_clear()  # a bug of DuckDB's has ended this database
        return Verdict.SILENT
    except duckdb.Error:
        return Verdict.SILENT
    slack, known = _slack(prepared), _over_nothing(prepared, engine)
    if not agree(ours, errors, plain, slack, known=known):
        # DuckDB takes a NaN that an operation gives for a value.
        with nan_kept():
            prepared = asked(sql, policy, engine)
            assert prepared is not None
            ours, errors = noiseless(damage(prepared), engine)
        assert agree(ours, errors, plain, slack, known=known), (ours, plain)
    return Verdict.HELD if slack < 1 else Verdict.LOOSE


def asked(sql: str, policy: Policy, engine: PlainEngine) -> Prepared | None:
    """The compiled query, which measures what a shop need not have too; None if it is refused."""
    prepared = accepted(sql, policy, engine)
    if prepared is None or not any(isinstance(n, NoRows) for n in prepared.notices):
        return prepared
    # These shops hold what is declared alone: what is not measured is not there.
    every = measured(sql, policy, engine)
    same = any(isinstance(n, ByFact) and n.fact is CertainFact.EQUAL for n in prepared.notices)
    assert prepared.plan is not None or same or not counts_rows(every, engine)
    return every


@contextmanager
def nan_kept() -> Iterator[None]:
    """What is printed meanwhile is NaN where DuckDB's own operations are."""
    with pytest.MonkeyPatch.context() as patched:
        for module in (expression_sql, relation_sql):
            patched.setattr(module, "without_nan", lambda sql: sql)
        yield


def law_two(sql: str, damage: Damage = whole) -> bool:
    """Removing a unit from the adversarial shop moves the integers by no more than claimed."""
    policy, engine = fuzz_world.wary_policy(), fuzz_world.adversary(None)
    prepared = accepted(sql, policy, engine)
    if prepared is None or prepared.plan is None:
        return False
    prepared = damage(prepared)
    here = integers(prepared, engine)
    staged = noiseless_blocks(prepared, engine) if prepared.rewritten.stages else []
    for unit in UNITS:
        there = integers(prepared, fuzz_world.adversary(unit), staged)
        why = violation(prepared, here, there)
        assert why is None, f"unit {unit}: {why}"
    return True


def totality(sql: str, number: int, damage: Damage = whole) -> bool:
    """What was compiled for well-behaved data raises nothing on adversarial data either."""
    prepared = accepted(sql, *fuzz_world.shop(number))
    if prepared is None:
        return False
    noiseless(damage(prepared), fuzz_world.adversary(None))
    return True


def _over_nothing(prepared: Prepared, engine: PlainEngine) -> bool:
    """Whether it aggregates no row into one group, where we say what each of its rows would have.

    MIN, MAX, MODE and ANY_VALUE of what can have one value only are that value, and NULL in SQL.
    """
    listed = (block.block for block in prepared.blocks if not block.block.keys)
    asked = (f"SELECT 1 FROM ({statement(block.rows, ())}) LIMIT 1" for block in listed)
    return any(not engine.rows(sql) for sql in asked)


def _slack(prepared: Prepared) -> float:
    """How far rounding to a lattice of powers of two may move a result."""
    if prepared.plan is None:
        return 0.0
    steps = [
        float(release.query.lattice.step)
        for block in prepared.plan.blocks
        for release in block.releases
        if release.query.lattice.base == 2
    ]
    return ROWS * max(steps, default=0.0)


def agree(ours: Rows, errors: Rows, plain: Rows, slack: float, *, known: bool = False) -> bool:
    """Whether the rows are equal as multisets, numbers within `slack`.

    An aggregate over nothing may be a number of ours where plain DuckDB says NULL, and a sum over
    a NaN or an infinity, which has no bounds, any number. Where values are `known` without a row,
    one may be so without noise.
    """
    if len(ours) != len(plain):
        return False
    left = sorted(zip(ours, errors, strict=True), key=lambda pair: _order(pair[0]))
    for row in sorted(plain, key=lambda row: (_holes(row), _order(row))):
        for place, (mine, noise) in enumerate(left):
            if all(_same(*cells, slack, known) for cells in zip(mine, noise, row, strict=True)):
                del left[place]
                break
        else:
            return False
    return True


def _holes(row: tuple[Any, ...]) -> int:
    """How many cells anything noisy agrees with: such rows choose last."""
    return sum(value is None or (isinstance(value, float) and not isfinite(value)) for value in row)


def _order(row: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(str, row))


def _same(ours: Any, error: Any, plain: Any, slack: float, known: bool) -> bool:  # noqa: FBT001
    if plain is None:
        return ours is None or error is not None or known
    if isinstance(plain, bool) or not isinstance(plain, float | int | Decimal):
        return bool(ours == plain)
    if ours is None:
        return False
    mine, theirs = float(ours), float(plain)
    if not isfinite(theirs):
        return error is not None or mine == theirs or (isnan(mine) and isnan(theirs))
    return isclose(mine, theirs, rel_tol=1e-6, abs_tol=1e-5 + slack)
