"""What is added from the outside: as the map says (`dpsql/README.md`), and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import pytest

from dpsql import accountants
from dpsql.compiler import aggregates
from dpsql.compiler.aggregates import double
from dpsql.engines import Engine, EngineFailed, ScratchTable, Unrun
from dpsql.functions import REGISTRY, Function
from dpsql.functions.row import WHOLE, constant, fixed
from dpsql.interfaces.amounts import loss_text
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.installed import Unusable
from dpsql.model.intervals import Interval
from dpsql.model.resources import Database, Limits
from dpsql.model.tree import INTEGER
from dpsql.owner.check import check_policy
from dpsql.policy.load import load
from dpsql.preparation.engine_kinds import opened, pooled
from dpsql.proxy import Proxy
from grammar_tests import outside, test_engines
from grammar_tests.bound import shop as shop_in_memory
from grammar_tests.function_checks import check
from grammar_tests.function_checks import connection as duckdb_connection
from grammar_tests.function_samples import calls
from grammar_tests.laws import BUDGET, compiled, noiseless, same_rows
from grammar_tests.outside_accountant import BASIC
from grammar_tests.outside_aggregate import SEM
from grammar_tests.outside_engine import MARK, TOY, ToyDatabase
from grammar_tests.proxy_kit import policy, request, shop
from grammar_tests.test_every_accountant import spends

BY_KEY = "SELECT device, COUNT(*) AS n FROM events GROUP BY device"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that Python finds."""
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    return packages


# --- accountants ---

ACCOUNTANTS = "dpsql.accountants"
NAMED = ('accountant = "zcdp"', 'accountant = "basic"')


@pytest.mark.full("starts processes")
def test_an_accountant_is_a_file_and_an_entry_point(installed: Path, tmp_path: Path) -> None:
    outside.install(installed, "ours", ACCOUNTANTS, basic="grammar_tests.outside_accountant:BASIC")
    with Proxy.open(str(shop(tmp_path / "shop", NAMED))) as proxy:
        before = proxy.explain(request(BY_KEY))
        answer = proxy.ask(request(BY_KEY))
        assert answer.receipt is not None
        assert before.event is not None
        assert answer.receipt.accountant == before.accountant == "basic"
        assert answer.receipt.charged == before.charge == BASIC.loss(before.event)
        assert proxy.ledger.spent("default") == before.charge
        ((_, _, limit),) = proxy.budgets()
        assert limit == BASIC.limit(proxy.policy.budgets[0])
        assert loss_text(before.charge, "basic").startswith("ε = ")


OF_EACH_KIND = (
    "SELECT VAR_POP(age) AS v, AVG(age) AS a FROM customers",
    "SELECT segment, MEDIAN(age) AS m FROM customers GROUP BY segment",
    "SELECT MAX(age) AS m FROM customers",
    "SELECT PTR_MEAN(age, 10) AS m FROM customers",
    "SELECT COUNT(DISTINCT status) AS n FROM orders",
    "SELECT DISTINCT device FROM events",
    "SELECT device, COUNT(*) AS n FROM events GROUP BY device ORDER BY n DESC LIMIT 2",
)


@pytest.mark.parametrize("sql", OF_EACH_KIND)
def test_it_pays_for_measurements_of_each_kind(installed: Path, sql: str) -> None:
    outside.install(installed, "ours", ACCOUNTANTS, basic="grammar_tests.outside_accountant:BASIC")
    budget = replace(BUDGET, accountant="basic")
    plan = compiled(sql, *shop_in_memory(), budget=budget).plan
    assert plan is not None
    assert plan.loss == accountants.price(BASIC.loss(plan.event), budget)
    amount, delta = spends(plan, "basic")
    assert amount <= 1
    assert delta <= 1


def test_nothing_is_imported_that_the_policy_does_not_name(installed: Path, tmp_path: Path) -> None:
    (installed / "loud.py").write_text("raise RuntimeError('imported')\n")
    values = {"basic": "grammar_tests.outside_accountant:BASIC", "loud": "loud:LOUD"}
    outside.install(installed, "both", ACCOUNTANTS, **values)
    assert accountants.get("basic") is BASIC
    assert load(str(policy(tmp_path))).budgets[0].accountant == "zcdp"
    with pytest.raises(PolicyError, match=r"loud:LOUD raises RuntimeError: imported"):
        load(str(policy(tmp_path, (NAMED[0], 'accountant = "loud"'))))


def test_an_error_says_what_is_installed(installed: Path, tmp_path: Path) -> None:
    outside.install(installed, "ours", ACCOUNTANTS, basic="grammar_tests.outside_accountant:BASIC")
    path = policy(tmp_path, (NAMED[0], 'accountant = "renyi"'))
    with pytest.raises(PolicyError, match="one of zcdp, pure, approximate, tight, basic") as caught:
        load(str(path))
    line = path.read_text().splitlines()[(caught.value.line or 0) - 1]
    assert line == 'accountant = "renyi"'


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"other": "grammar_tests.outside_accountant:BASIC"}, "none of that name"),
        ({"other": "grammar_tests.outside_accountant:Basic"}, "none of that name"),
        ({"other": "grammar_tests.outside_accountant:NOWHERE"}, "AttributeError"),
        ({"other": "nowhere_at_all:BASIC"}, "ModuleNotFoundError"),
    ],
)
def test_what_is_no_accountant_of_that_name_is_refused(
    installed: Path, values: dict[str, str], error: str
) -> None:
    outside.install(installed, "ours", ACCOUNTANTS, **values)
    with pytest.raises(Unusable, match=error):
        accountants.get("other")


def test_two_packages_cannot_share_a_name(installed: Path) -> None:
    for package in ("ours", "theirs"):
        value = f"grammar_tests.outside_accountant:{'BASIC' if package == 'ours' else 'Basic'}"
        outside.install(installed, package, ACCOUNTANTS, basic=value)
    with pytest.raises(Unusable, match="ours and theirs"):
        accountants.get("basic")


def test_nobody_replaces_our_own(installed: Path) -> None:
    own = accountants.get("zcdp")
    outside.install(installed, "ours", ACCOUNTANTS, zcdp="grammar_tests.outside_accountant:BASIC")
    assert accountants.get("zcdp") is own


# --- engines ---

ENGINES = "dpsql.engines"
A_TOY = ('engine = "duckdb"', 'engine = "toy"\nhost = "here"')
BY_LISTED = "SELECT UPPER(segment) AS s, COUNT(*) AS n FROM customers GROUP BY 1"
OF_A_STAGE = """SELECT c.region, COUNT(*) AS n FROM customers AS u
JOIN (SELECT code, region FROM countries LIMIT 2) AS c ON u.country = c.code GROUP BY c.region"""


@pytest.fixture
def toy(installed: Path) -> Iterator[list[ToyDatabase]]:
    """A package with an engine, and the databases that it opened."""
    outside.install(installed, "toys", ENGINES, toy="grammar_tests.outside_engine:TOY")
    TOY.opened.clear()
    yield TOY.opened
    TOY.opened.clear()


@pytest.mark.full("starts processes")
def test_an_engine_is_a_file_and_an_entry_point(toy: list[ToyDatabase], tmp_path: Path) -> None:
    path = str(shop(tmp_path / "shop", A_TOY))
    assert not check_policy(path, record=True).facts_lapsed
    with Proxy.open(path) as proxy:
        database = toy[-1]
        for sql in (BY_KEY, OF_A_STAGE, BY_LISTED, "SELECT AVG(age) AS a FROM customers"):
            explained = proxy.explain(request(sql))
            assert MARK in explained.blocks[0].sql
            assert MARK not in explained.outer_sql
            assert proxy.ask(request(sql)).receipt is not None
        assert proxy.ask(request("SELECT COUNT(*) AS n FROM countries")).rows == [(3,)]
    calls = {kind: [sql for k, sql in database.calls if k == kind] for kind, _ in database.calls}
    assert {"bind", "aggregate", "evaluate", "few"} <= set(calls)
    for kind in ("bind", "aggregate", "few", "evaluate"):
        assert all(MARK in sql for sql in calls[kind])


@pytest.mark.full("starts processes")
def test_every_kind_of_statement_goes_to_its_own_engine(
    toy: list[ToyDatabase], tmp_path: Path
) -> None:
    released = (ScratchTable("release_0", (("c0", INTEGER),), ()),)
    with closing(opened(load(str(shop(tmp_path / "shop", A_TOY))))) as engine:
        engine.bind(
            [
                Unrun("SELECT age FROM customers"),
                Unrun("SELECT c0 FROM release_0", released, scratch=True),
            ]
        )
        assert toy[0].calls == [("bind", "SELECT age FROM customers")]
        with pytest.raises(EngineFailed):
            engine.bind([Unrun("SELECT age FROM customers", scratch=True)])
        with pytest.raises(EngineFailed):
            engine.scratch("SELECT age FROM customers")
        with engine.taken() as one:
            one.ready(engine.schema().identity)


@pytest.mark.full("starts processes")
def test_such_engines_take_turns_over_the_data_that_the_first_accepted(
    toy: list[ToyDatabase], tmp_path: Path
) -> None:
    draft = load(str(shop(tmp_path / "shop", A_TOY)))
    draft = replace(draft, server=replace(draft.server, workers=2))
    with closing(pooled(draft)) as pool:
        identity = pool.schema().identity
        with pool.taken() as one, pool.taken() as other:
            one.ready(identity)
            other.ready(identity)
            assert toy[0].accepted == toy[1].accepted == pool.accepted
        pool.follow(None)
        assert {database.accepted for database in toy} == {None}


@pytest.mark.parametrize(
    "contract",
    [
        partial(test_engines.test_sums_are_exact, value=2**100 + 1),
        test_engines.test_nan_is_a_key_of_its_own,
        test_engines.test_the_sampling_key_may_be_read_or_not,
        test_engines.test_no_group_at_all,
        partial(test_engines.test_columns_without_an_exact_form_fail, sql="SELECT 1, 1.5"),
        test_engines.test_scratch_keeps_order_names_and_an_empty_table,
    ],
)
def test_an_engine_of_two_keeps_the_contract(contract: Callable[..., None], two: Engine) -> None:
    contract(engine=two)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("two") / "empty.duckdb"
    duckdb.connect(str(path)).close()
    with closing(TOY.open(Database("toy", str(path)), Limits(memory="200MB"))) as engine:
        yield engine


@pytest.mark.parametrize(
    ("change", "line", "error"),
    [
        (
            ('engine = "duckdb"', 'engine = "toys"'),
            'engine = "toys"',
            "one of duckdb, postgres, spark, toy",
        ),
        (('engine = "duckdb"', 'engine = "toy"'), "[database]", "needs a host"),
        ((A_TOY[0], f"{A_TOY[1]}\nhots = 'x'"), "hots = 'x'", "Did you mean host"),
    ],
)
def test_an_error_about_an_engine_has_its_line(
    toy: list[ToyDatabase], tmp_path: Path, change: tuple[str, str], line: str, error: str
) -> None:
    path = policy(tmp_path, change)
    with pytest.raises(PolicyError, match=error) as caught:
        opened(load(str(path)))
    assert path.read_text().splitlines()[(caught.value.line or 0) - 1] == line
    assert toy == []


# --- scalar functions ---

BITS = Function(
    "bit_count",
    fixed(INTEGER, WHOLE),
    constant(Interval(Fraction(-128), Fraction(128))),  # DuckDB 2.0.0 says -128 of 128 bits
    called=(1, 1),
)
OF_BITS = "SELECT SUM(bit_count(age)) AS s FROM customers"


def complaints(row: Function) -> list[str]:
    """What the engine contradicts of a row, over calls of columns and constants."""
    with duckdb_connection() as engine:
        return [told for call in calls(row.name) for told in check(engine, call)]


def test_a_scalar_function_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, engine = shop_in_memory()
    with pytest.raises(Refused, match="unknown-function"):
        compiled(OF_BITS, policy, engine)
    monkeypatch.setitem(REGISTRY, BITS.name, BITS)
    assert complaints(BITS) == []
    plan = compiled(OF_BITS, policy, engine).plan
    assert plan is not None
    (total,) = plan.blocks[0].queries
    assert (total.total_lower, total.total_upper) == (-128, 128)
    with pytest.raises(Refused, match="type-mismatch"):
        compiled("SELECT SUM(bit_count(age, 1)) AS s FROM customers", policy, engine)


def test_a_row_that_promises_too_much_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(BITS, interval=constant(Interval(Fraction(0), Fraction(127))))
    monkeypatch.setitem(REGISTRY, BITS.name, wrong)
    assert complaints(wrong)


# --- aggregates ---

OF_MEANS = "SELECT segment, SEM(age) AS s, AVG(age) AS a FROM customers GROUP BY segment"


@pytest.fixture
def sem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aggregates._ROWS, "sem", aggregates._Row(double, SEM))


def test_an_aggregate_that_nobody_added_is_refused() -> None:
    with pytest.raises(Refused, match="unsupported-aggregate"):
        compiled(OF_MEANS.replace("AVG", "avg"), *shop_in_memory())


@pytest.mark.usefixtures("sem")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_an_aggregate_of_moments_is_a_recipe_and_a_row(accountant: str) -> None:
    policy, engine = shop_in_memory()
    found = compiled(OF_MEANS, policy, engine, budget=replace(BUDGET, accountant=accountant))
    assert found.plan is not None
    (block,) = found.plan.blocks
    assert len(block.releases) == 3  # shared with the average
    payments = {release.payment.columns for release in block.releases}
    assert len(payments) == (1 if accountant == "pure" else 2)  # as a vector, or sums as one
    ours, errors = noiseless(found, engine)
    assert same_rows(ours, errors, engine.rows(OF_MEANS))
    assert all(error is not None for _, error, _ in errors)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.usefixtures("sem")
def test_of_public_rows_it_is_the_engines() -> None:
    policy, engine = shop_in_memory()
    found = compiled("SELECT SEM(length(code)) AS s FROM countries", policy, engine)
    assert engine.rows(found.rewritten.outer_sql) == [(0.0,)]
