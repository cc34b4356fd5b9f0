"""Coverage of the shown intervals: each case is asked once, and its noise is drawn many times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from math import isfinite
from typing import Any

import duckdb
import pytest

from dpsql import mechanisms
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Answer, Exact, Loss, Policy, Receipt
from dpsql.release.finish import finish
from dpsql.release.histogram_choices import chosen
from dpsql.release.release import release
from grammar_tests import laws, world
from grammar_tests.bound import over
from grammar_tests.casefile import Case
from grammar_tests.draws import ENTROPY, pooled
from grammar_tests.laws import (
    BUDGET,
    OURS,
    PlainEngine,
    _transparent,
    compiled,
    exact_blocks,
    noiseless,
)

COPIES = 400
NORM = Fraction(1000)
"""What is found of contributions without limits: it clips nobody here."""
RECEIPT = Receipt("", "", "", "", Decimal(1), Loss(0), Loss(0), Loss(0))
NEAR = 1e-6


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of an answer: whether its interval holds the plain number.

    `clipped` says that the number without noise is another than the plain one: rows are clipped,
    scaled or sampled.
    """

    family: str
    inside: bool
    clipped: bool


@cache
def crowd() -> tuple[Policy, PlainEngine]:
    """The shop with 4,800 customers, each of the twelve many times."""
    policy, engine = over(world.well_behaved(), constraints=True)
    numbers = {"customer_id": 1000, "order_id": 1000, "item_id": 10_000, "event_id": 1000}
    numbers["login_id"] = 1000
    for table in ("customers", "orders", "items", "events", "logins"):
        named = world.COLUMNS[table]
        moved = ", ".join(
            f"{name} + {step} * k AS {name}"
            for name, step in numbers.items()
            if f"{name} INTEGER" in named
        )
        engine.connection.execute(
            f"INSERT INTO {table} SELECT t.* REPLACE ({moved}) FROM {table} AS t,"
            f" range(1, {COPIES}) AS r(k)"
        )
    return policy, engine


def question(
    case: Case, accountant: str, bound: tuple[Policy, PlainEngine] | None = None
) -> Prepared | None:
    """The plan of a case over the crowd; None where it has no noise, or is in several steps."""
    policy, engine = bound or crowd()
    budget = replace(BUDGET, accountant=accountant)
    try:
        prepared = compiled(
            case.sql, policy, engine, dialect=case.setting("dialect", "duckdb"), budget=budget,
            norm=NORM,
        )  # fmt: skip
    except Refused:
        return None
    if prepared.plan is None or any(sql.stages for sql in prepared.rewritten.blocks):
        return None
    return prepared if any(e is not None for e in prepared.rewritten.expected) else None


def draws(prepared: Prepared, engine: PlainEngine, count: int) -> Iterator[Answer]:
    """Independent answers over the same exact integers, with the real noise."""
    exact, plan = list(exact_blocks(prepared, engine)), prepared.plan
    assert plan is not None
    sampler = pooled(partial(mechanisms.sample, entropy=ENTROPY), count)
    chooser = partial(chosen, entropy=ENTROPY)
    for _ in range(count):
        noisy = [release(counted, block, sampler, chooser) for block, counted in exact]
        yield finish(plan, prepared.rewritten, noisy, engine.rows, engine.scratch, RECEIPT)


def cells(case: Case, accountant: str, count: int) -> list[Cell]:
    """The numbers of so many answers to a case."""
    prepared = question(case, accountant)
    if prepared is None:
        return []
    _, engine = crowd()
    keys = [n for n, error in enumerate(prepared.rewritten.expected) if error is None]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(laws, "_transparent", _with_empty_groups)
        without_noise = _by_key(noiseless(prepared, engine)[0], keys)
    plain = _plain(case, engine, keys) or without_noise
    if without_noise is None or plain is None:
        return []
    family, found = f"{accountant} {case.file.parent.name}/{case.file.stem}", list[Cell]()
    for answer in draws(prepared, engine, count):
        for row, margins in zip(answer.rows, answer.margins, strict=True):
            key = _key(row, keys)
            there = without_noise.get(key)
            if there is None:
                continue
            for n, margin in enumerate(margins):
                # The plain engine has no row for a group of nobody.
                rows = row, plain.get(key, there), there
                value, true, exact = (_number(each[n]) for each in rows)
                if margin is None or not isfinite(margin) or None in (value, true, exact):
                    continue
                clipped = abs(true - exact) > NEAR * max(1.0, abs(true))
                found.append(Cell(family, abs(value - true) <= margin + NEAR, clipped))
    return found


def _with_empty_groups(block: BlockPlan, exact: Exact) -> BlockPlan:
    """The block that shows all that is measured, and the listed groups of nobody too."""
    seen = _transparent(block, exact)
    return replace(seen, keys=block.keys) if isinstance(block.keys, ListedKeys) else seen


def _plain(case: Case, engine: PlainEngine, keys: Sequence[int]) -> Any:
    """The rows of the plain engine by key; None where it does not know the text."""
    if case.setting("dialect", "duckdb") != "duckdb":
        return None
    try:
        rows = engine.connection.execute(OURS.sub(r"AVG(\1)", case.sql)).fetchall()
    except duckdb.Error:
        return None
    return _by_key(rows, keys)


def _by_key(rows: Sequence[Any], keys: Sequence[int]) -> dict[Any, Any] | None:
    """The rows by what has no noise; None where several have the same."""
    found = {_key(row, keys): row for row in rows}
    return found if len(found) == len(rows) else None


def _key(row: Sequence[Any], keys: Sequence[int]) -> tuple[str, ...]:
    return tuple(str(row[n]) for n in keys if n < len(row))


def _number(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return float(value) if isfinite(value) else None
