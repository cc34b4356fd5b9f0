"""Differences along keys whose totals are known: how far a person moves them, what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql import accountants
from dpsql.compiler.plan.prepared import WideTable
from dpsql.compiler.plan.wide_tables import differing
from dpsql.engines import Stop
from dpsql.ledgers.codec import decode_answer, encode_answer
from dpsql.mechanisms import differences
from dpsql.model.vocabulary import Exact, Neighbours, Noisy, Norm, Request, Sensitivity
from dpsql.proxy import Proxy
from dpsql.release.release import release
from dpsql.vault.measured_cells import measured_cells
from grammar_tests.laws import no_noise
from grammar_tests.test_from_memory import (
    BY_BOTH,
    BY_PLAN,
    BY_SEX,
    PEOPLE,
    POLICY,
    SEVERAL,
    ask,
    charged,
)

BY_THREE = "SELECT sex, plan, vip, COUNT(*) AS n, SUM(income) AS s FROM people GROUP BY 1, 2, 3"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder: Path = tmp_path_factory.mktemp("differences")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(PEOPLE)
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        yield proxy


def tables(proxy: Proxy, sql: str) -> Iterator[WideTable]:
    """A question's wide table, as differences along all keys that may be."""
    query = proxy.compiler.read(Request(sql, "ana"), Stop())
    table = proxy.compiler.prepared(query).wide
    assert table is not None
    keys = range(len(table.sizes))
    for along in (some for n in keys for some in combinations(keys, n + 1)):
        each = differing(table, along)
        if each is not None:
            yield each


def released(table: WideTable, cells: np.ndarray) -> Noisy:
    """These cells of each measurement, without noise."""
    (block,) = table.prepared.blocks
    parts = [part.ravel() for part in cells]
    return release(Exact(list(block.domain or ()), parts), block, no_noise)


def too_far(proxy: Proxy) -> bool:
    """Whether a person moves differences farther than is claimed and charged for; where none does,
    somebody moves them as far.
    """
    zcdp = accountants.get("zcdp")
    for sql, groups in ((BY_THREE, 0), (SEVERAL[0][0], 1)):  # in one cell, or in one of each kind
        for table in tables(proxy, sql):
            plan, (block,) = table.prepared.plan, table.prepared.blocks
            clips = np.array([r.sensitivity.linf for r in block.releases], dtype=object)
            claimed = [r.sensitivity.l2_squared for r in block.releases]
            squares = []
            for cell in np.ndindex(*table.sizes[groups:]):
                person = np.zeros((len(clips), *table.sizes), dtype=object)
                person[(slice(None), *[slice(None)] * groups, *cell)] = clips.reshape(
                    -1, *[1] * groups
                )
                moved = np.array(released(table, person).parts, dtype=object)
                squares.append((moved**2).sum(axis=0))
            assert plan is not None
            assert zcdp.loss(plan.event).amount <= plan.loss.amount
            if (np.array(squares) > claimed).any():
                return True
            assert (np.max(squares, axis=0) == claimed).all()
    return False


@pytest.mark.full("measures neighbours or further data sets")
def test_a_person_moves_differences_no_farther_than_claimed(proxy: Proxy) -> None:
    assert not too_far(proxy)


def test_a_shorter_distance_is_found(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong: a person moves the cell alone that they are in."""
    shorter: Any = lambda sizes: int(np.prod([(n - 1) ** 2 for n in sizes]))  # noqa: E731
    monkeypatch.setattr(differences, "distance", shorter)
    assert too_far(proxy)


def test_keys_of_which_a_person_has_several_values_have_no_differences(proxy: Proxy) -> None:
    along = [table.measured.along for table in tables(proxy, SEVERAL[0][0])]
    assert along == [(1,)]


@pytest.mark.parametrize(
    "change",
    [{"neighbours": Neighbours.REPLACE}, {"norm": Norm.L2}, {"together": 2}],
)
def test_what_is_not_known_to_be_nearer_has_no_differences(change: dict[str, Any]) -> None:
    cells = Sensitivity(1, 0, 3)
    nearer = differences.sensitivity_of_differences(cells, [2, 3])
    assert nearer is not None
    assert nearer.l2_squared == 12 * cells.l2_squared
    changed = replace(cells, **change)
    assert differences.sensitivity_of_differences(changed, [2, 3]) is None


def test_differences_are_recorded_as_such_and_read_as_cells(proxy: Proxy) -> None:
    dice = np.random.default_rng(1)
    for table in tables(proxy, BY_THREE):
        cells = dice.integers(-(10**6), 10**6, (2, *table.sizes)).astype(object)
        noisy = replace(released(table, cells), origin=table.measured)
        (again,) = decode_answer(encode_answer((noisy,)))
        assert again == noisy
        expected = cells.astype(float)
        for place in table.measured.along:
            expected -= expected.mean(axis=1 + place, keepdims=True)
        read = measured_cells(again)
        assert read.along == table.measured.along_keys
        for part, part_cells in zip(read.parts.values(), expected, strict=True):
            assert np.allclose(part, part_cells)


@pytest.mark.full("opens a proxy for each item")
def test_what_is_lacking_is_measured_beyond_what_is_known(proxy: Proxy) -> None:
    """Two tables by one key each leave a table by both its differences within both alone: of them
    one part of two times three of four.
    """
    whole = charged(ask(proxy, BY_SEX))
    charged(ask(proxy, BY_PLAN))
    explained = proxy.explain(Request(BY_BOTH, "ana"))
    assert "differences within sex and plan alone" in explained.blocks[0].keys
    both = ask(proxy, BY_BOTH)
    assert charged(both) == explained.charge.amount < 0.3 * whole
    (fresh,) = {row[-1] for row in ask(proxy, BY_BOTH, "pat").margins}
    margins = {row[-1] for row in both.margins}
    assert all(each and fresh and each <= fresh * 1.005 for each in margins)
    assert charged(ask(proxy, BY_BOTH)) == 0
    assert ask(proxy, BY_BOTH).rows == both.rows
    eve = [charged(ask(proxy, sql, "eve")) for sql in (BY_SEX, BY_BOTH)]
    assert eve[0] == eve[1]  # where ε adds up, parts would buy less
