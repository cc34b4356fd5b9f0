"""Rows of synthetic tables: they have the tables that were measured, within bins."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpsql.consistency.drawn_rows import PublicDice, apportioned, drawn
from dpsql.consistency.graphical_model import GraphicalModel, NoisyTable, Tables, fitted
from dpsql.interfaces.cli import main
from dpsql.model.errors import MissingExtra, Refused
from dpsql.model.intervals import Facts, Interval
from dpsql.model.tree import DATE, DOUBLE, INTEGER, VARCHAR, Kind, SqlType
from dpsql.proxy import Proxy
from dpsql.systems.synthesis import mbi_fit, released_marginals
from dpsql.systems.synthesis.closeness import to_rows
from dpsql.systems.synthesis.synthesis import Synthesise
from dpsql.systems.synthesis.synthetic_columns import cells, column_of
from grammar_tests import proxy_kit, world
from grammar_tests.test_synthesis import PEOPLE, exactly, spent, wish
from grammar_tests.test_synthesis import proxy as proxy  # noqa: PLC0414 - a fixture


@pytest.mark.full("starts processes")
def test_without_noise_the_rows_have_the_true_tables(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy.vault, "sampler", exactly)
    text = "SELECT country, segment, vip FROM customers"
    monkeypatch.setattr(released_marginals, "FREQUENT", 0)
    table = proxy.run(Synthesise(wish(text, "10")))
    truth = [
        (country, segment, vip)
        for _, country, segment, _, _, _, vip, *_ in world.well_behaved()["customers"]
    ]
    assert len(table.rows) == len(truth)
    names = [column.name for column in table.columns]
    edges = {tuple(names[n] for n in edge) for edge in table.marginals.pairs}
    near = {each.columns: each.variation * len(truth) for each in to_rows(table, truth)}
    assert all(near[(name,)] <= 1 for name in names)
    assert all(near[edge] <= 2 for edge in edges)
    assert len(edges) == 3


PAIRS = [[(1, 0), (1, 2)], [(0, 1), (1, 2), (0, 2)], [(0, 1), (1, 2), (2, 3), (3, 0)]]


@pytest.mark.parametrize("edges", PAIRS, ids=["tree", "triangle", "circle"])
def test_a_model_has_the_tables_that_it_is_fitted_to(edges: list[tuple[int, int]]) -> None:
    """Without noise the fit is exact, and so are the rows to within rounding."""
    sizes = (2, 3, 4, 2)
    true = np.arange(48).reshape(sizes) * 7 % 11 + 1.0

    def table(axes: tuple[int, ...]) -> np.ndarray:
        first: np.ndarray = true.sum(axis=tuple({0, 1, 2, 3} - {*axes}))
        return first if axes == tuple(sorted(axes)) else first.T

    measured = [
        NoisyTable(axes, table(axes), np.ones(table(axes).shape))
        for axes in [*((n,) for n in range(4)), *edges]
    ]
    fit = fitted(GraphicalModel.of(sizes, edges), measured, true.sum())
    rows = drawn(fit, 1000, PublicDice("rows"))
    for axes in edges:
        assert np.allclose(fit.table(axes), table(axes), atol=0.1)
        for place, axis in enumerate(axes):
            assert np.allclose(fit.table(axes).sum(axis=1 - place), fit.table((axis,)))
        shape = fit.model.shape(axes)
        own = np.bincount(np.ravel_multi_index([rows[n] for n in axes], shape))
        assert np.abs(own - 1000 * fit.table(axes).ravel() / true.sum()).max() <= 2


def test_what_depends_on_one_another_is_one_distribution() -> None:
    """Tables of a model are those of the product of its factors, of all columns at once."""
    sizes, edges = (2, 3, 2, 3), [(0, 1), (1, 2), (2, 3), (0, 3)]
    potentials: Tables = {}
    for one, other in edges:
        shape = sizes[one], sizes[other]
        potentials[one, other] = np.sin(np.arange(shape[0] * shape[1])).reshape(shape)
    whole = np.zeros(sizes)
    for axes, own in potentials.items():
        whole += own.reshape([sizes[n] if n in axes else 1 for n in range(4)])
    whole = np.exp(whole) / np.exp(whole).sum()
    model = GraphicalModel.of(sizes, edges)
    tables = model.tables(potentials, 5.0)
    for edge in edges:
        apart = tuple({0, 1, 2, 3} - {*edge})
        assert np.allclose(model.table(tables, edge), 5 * whole.sum(axis=apart))


def test_weighted_least_squares_are_reached() -> None:
    """Two columns that nothing hinders: the totals are the means weighted by precision."""
    counts = np.array([[40.0, 20.0], [30.0, 10.0]])
    single = np.array([70.0, 30.0])
    measured = [
        NoisyTable((0,), single, np.full(2, 4.0)),
        NoisyTable((1,), counts.sum(axis=0), np.full(2, 1e9)),
        NoisyTable((0, 1), counts, np.full((2, 2), 1.0)),
    ]
    fit = fitted(GraphicalModel.of((2, 2), [(0, 1)]), measured, 100)
    # Of the row's total: 60 with variance 2, and 70 with variance 4.
    assert np.allclose(fit.table((0,)), [190 / 3, 110 / 3], atol=0.05)


@pytest.mark.skipif(find_spec("mbi") is None, reason="the extra synth is not installed")
@pytest.mark.filterwarnings("ignore")  # of jax about itself
def test_mbi_finds_the_distribution_that_we_find() -> None:
    sizes, edges = (2, 3, 4), [(0, 1), (1, 2), (0, 2)]
    true = np.arange(24).reshape(sizes) * 7 % 11 * 10.0
    measured = []
    for axes in [(0,), (1,), (2,), *edges]:
        counts = true.sum(axis=tuple({0, 1, 2} - {*axes}))
        noise = np.sin(np.arange(counts.size)).reshape(counts.shape) * 20
        measured.append(NoisyTable(axes, counts + noise, np.full(counts.shape, 1.0 + len(axes))))
    given = GraphicalModel.of(sizes, edges), measured, true.sum()
    own, theirs = fitted(*given), mbi_fit.fitted_by_mbi(*given)
    for axes in edges:
        assert np.abs(own.table(axes) - theirs.table(axes)).max() < 0.02 * true.sum()


def test_a_fit_by_a_package_that_is_not_there_is_refused_free_of_charge(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbi_fit, "find_spec", lambda _name: None)
    before = spent(proxy)
    with pytest.raises(MissingExtra, match="synth"):
        proxy.run(Synthesise(wish("SELECT joined, vip FROM customers"), mbi=True))
    assert spent(proxy) == before
    options = ("--policy", str(proxy_kit.shop(tmp_path / "shop")), "--analyst", "ana")
    done = CliRunner().invoke(main, ["synth", PEOPLE, "--fit", "mbi", *options])
    assert done.exit_code != 0
    assert isinstance(done.exception, MissingExtra) or "dpsql[synth]" in done.output


def test_shares_are_whole_and_no_total_drifts() -> None:
    table = np.array([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]] * 30)
    sizes = np.arange(90) % 4
    whole = apportioned(table, sizes)
    assert (whole.sum(axis=1) == sizes).all()
    assert (whole >= 0).all()
    assert (whole[table == 0] == 0).all()
    assert np.abs(whole.sum(axis=0) - (table * sizes[:, None]).sum(axis=0)).max() <= 2


def test_shares_are_even_by_every_key_that_numbers_lines() -> None:
    around = (12, 15)
    table = np.arange(12 * 15 * 5).reshape(180, 5) * 7919 % 101 + 1.0
    sizes = np.arange(180) * 31 % 7
    due = table / table.sum(axis=1, keepdims=True) * sizes[:, None]

    def farthest(whole: np.ndarray) -> float:
        apart = (whole - due).reshape(*around, 5)
        return max(float(np.abs(apart.sum(axis=axis)).max()) for axis in (0, 1))

    assert farthest(apportioned(table, sizes, around)) <= 1.5
    assert farthest(apportioned(table, sizes)) > 1.5  # as if lines were of one key


DECIMAL = SqlType(Kind.DECIMAL, 10, 2)
BOUNDED: list[tuple[SqlType, Any, Any, list[Any]]] = [
    (INTEGER, Fraction(-5), Fraction(20_000), [-5, 0, 1, 7, 20_000]),
    (DECIMAL, Fraction(0), Fraction(500), [Decimal("0.00"), Decimal("0.01"), Decimal("500.00")]),
    (DOUBLE, Fraction(-1), Fraction(1), [-1.0, -0.5, 0.0, 1e-9, 1.0]),
    (DATE, date(2020, 1, 1), date(2025, 12, 31), [date(2020, 1, 1), date(2025, 12, 31)]),
    (
        SqlType(Kind.TIMESTAMP),
        datetime(2024, 1, 1),
        datetime(2025, 1, 1),
        [datetime(2024, 1, 1), datetime(2024, 7, 1, 12), datetime(2025, 1, 1)],
    ),
]


@pytest.mark.parametrize(("kind", "lo", "hi", "values"), BOUNDED, ids=lambda v: str(v)[:9])
def test_values_come_back_within_their_bins(kind: SqlType, lo: Any, hi: Any, values: Any) -> None:
    column = column_of("x", Facts(kind, Interval(lo, hi), nullable=True))
    places = [column.cell(value) for value in values]
    assert None not in places
    for share in (0.0, 0.5, 1 - 2**-53):
        filled = column.filled(np.array([*places, column.valued]), np.full(len(places) + 1, share))
        assert filled[-1] is None
        assert [column.cell(value) for value in filled[:-1]] == places
        assert all(type(one) is type(other) for one, other in zip(filled, values, strict=False))
    if kind.is_numeric and lo <= 0:
        zero = column.cell(0.0 if kind.kind is Kind.DOUBLE else 0)
        assert zero is not None
        assert column.filled(np.array([zero]), np.array([0.9]))[0] in (0, 2.0**-1022 * 0.9)
    assert cells(column) <= 35


@pytest.mark.full("draws random questions or values")
def test_few_values_are_listed_and_many_texts_refused() -> None:
    few = column_of("x", Facts(VARCHAR, domain=("a", "b"), nullable=False))
    assert (few.valued, cells(few), few.cell("b"), few.cell("c")) == (2, 2, 1, None)
    many = Facts(VARCHAR, domain=tuple(map(str, range(101))))
    with pytest.raises(Refused, match="unbounded-input"):
        column_of("x", many)
