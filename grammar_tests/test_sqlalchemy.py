"""The SQLAlchemy dialect over a private shop: connections, reflection, answers, refusals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, time
from decimal import Decimal
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.exc import ArgumentError, InterfaceError, NoSuchTableError, NotSupportedError
from sqlalchemy.exc import ProgrammingError as SqlalchemyProgrammingError

from dpsql.interfaces import dbapi
from dpsql.interfaces.sqlalchemy import DpsqlDialect
from dpsql.interfaces.sqlalchemy.reflection import type_of
from dpsql.model.tree import BOOLEAN, DATE, DOUBLE, NULL, TIMESTAMP, TIMESTAMPTZ
from grammar_tests.proxy_kit import shop

registry.register("dpsql", "dpsql.interfaces.sqlalchemy", "DpsqlDialect")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop(tmp_path_factory.mktemp("sqlalchemy") / "shop")


@pytest.fixture
def engine(policy: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"dpsql:///{policy}?analyst=ana&epsilon=0.5")
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def tables(policy: Path) -> sa.MetaData:
    made = sa.create_engine(f"dpsql:///{policy}?analyst=ana")
    metadata = sa.MetaData()
    metadata.reflect(made)
    made.dispose()
    return metadata


# --- connections ---


def test_the_package_declares_the_dialect() -> None:
    (found,) = entry_points(group="sqlalchemy.dialects", name="dpsql")
    assert found.load() is DpsqlDialect


@pytest.mark.full("opens servers or connects clients")
def test_the_url_says_who_asks_and_for_how_much(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        assert (driver.analyst, driver.epsilon) == ("ana", Decimal("0.5"))
        result = connection.execute(sa.text("SELECT COUNT(*) AS n FROM events"))
        context: Any = result.context
        assert context.receipt.epsilon == Decimal("0.5")
        assert context.errors[0][0] > 0
        assert context.margins[0][0] > context.errors[0][0]
        assert isinstance(result.scalar_one(), int)


@pytest.mark.parametrize(
    "url",
    [
        "dpsql://host/dpsql.toml",
        "dpsql://ana@/dpsql.toml",
        "dpsql:///dpsql.toml?user=ana",
        "dpsql:///dpsql.toml?dialect=duckdb",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError, match="dpsql:///POLICY"):
        sa.create_engine(url).connect()


def test_the_policy_is_that_of_the_folder_by_default() -> None:
    args, options = DpsqlDialect().create_connect_args(sa.make_url("dpsql://"))
    assert (args, options) == (("dpsql.toml",), {})


@pytest.mark.full("opens servers or connects clients")
def test_a_missing_policy_and_an_unknown_analyst(policy: Path, tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match="no such file"):
        sa.create_engine(f"dpsql:///{tmp_path}/none.toml").connect()
    with pytest.raises(SqlalchemyProgrammingError, match="eve"):
        sa.create_engine(f"dpsql:///{policy}?analyst=eve").connect()


@pytest.mark.full("opens servers or connects clients")
def test_connections_share_one_proxy_until_the_last_is_closed(engine: sa.Engine) -> None:
    first, second = engine.connect(), engine.connect()
    drivers: Any = [c.connection.dbapi_connection for c in (first, second)]
    proxy = drivers[0].proxy
    assert drivers[0] is not drivers[1]
    assert proxy is drivers[1].proxy
    first.invalidate()
    first.close()
    assert second.execute(sa.text("SELECT 1")).scalar() == 1
    second.close()
    engine.dispose()
    with engine.connect() as third:
        driver: Any = third.connection.dbapi_connection
        assert driver.proxy is not proxy


@pytest.mark.full("opens servers or connects clients")
def test_threads_use_one_engine(engine: sa.Engine) -> None:
    def ask(n: int) -> Any:
        with engine.connect() as connection:
            return connection.execute(sa.select(sa.literal(n))).scalar()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, range(40))) == list(range(40))


@pytest.mark.full("opens servers or connects clients")
def test_a_closed_connection_is_replaced(policy: Path) -> None:
    engine = sa.create_engine(f"dpsql:///{policy}?analyst=ana", pool_pre_ping=True)
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
    driver.close()
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


@pytest.mark.full("opens servers or connects clients")
def test_transactions_are_states_and_charges_stay(engine: sa.Engine) -> None:
    """What was told stays told: after a rollback the same question is remembered, and free."""
    asked = sa.text("SELECT COUNT(*) AS n FROM customers WHERE joined > :day")
    asked = asked.bindparams(day=date(2024, 5, 5))
    with engine.connect() as connection:
        first = connection.execute(asked)
        answer = first.scalar()
        connection.rollback()
        with connection.begin(), connection.begin_nested() as inner:
            again = connection.execute(asked)
            assert again.scalar() == answer
            inner.rollback()
    contexts: Any = first.context, again.context
    assert contexts[0].receipt.charged.amount > 0
    assert contexts[1].receipt.charged.amount == 0


@pytest.mark.full("opens servers or connects clients")
def test_isolation_levels_are_states(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        assert connection.default_isolation_level == "SERIALIZABLE"
        connection.execution_options(isolation_level="AUTOCOMMIT")
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        driver: Any = connection.connection.dbapi_connection
        assert engine.dialect.detect_autocommit_setting(driver)
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "SERIALIZABLE"


# --- reflection ---


def test_tables_of_the_policy(engine: sa.Engine) -> None:
    inspector = sa.inspect(engine)
    names = ["countries", "customers", "events", "items", "logins", "orders", "products"]
    assert sorted(inspector.get_table_names()) == names
    assert sorted(inspector.get_table_names(schema="public")) == names
    assert inspector.get_schema_names() == ["public"]
    assert inspector.default_schema_name == "public"
    assert inspector.has_schema("public")
    assert not inspector.has_schema("main")
    assert inspector.get_table_names(schema="other") == []
    assert inspector.get_view_names() == []
    assert inspector.has_table("Orders")
    assert not inspector.has_table("orders", schema="other")
    assert inspector.get_indexes("orders") == []
    assert inspector.get_unique_constraints("orders") == []
    assert inspector.get_check_constraints("orders") == []
    with pytest.raises(NoSuchTableError):
        inspector.get_columns("secrets")


def test_columns_with_types_and_comments(tables: sa.MetaData) -> None:
    customers, orders = tables.tables["customers"], tables.tables["orders"]
    assert "name" not in customers.c  # it is hidden
    assert customers.c.customer_id.comment == "the privacy unit"
    assert customers.c.age.comment == "bounds 0 to 120; may be NULL"
    assert customers.c.age.nullable
    assert not customers.c.country.nullable
    assert customers.comment == "private: the unit is customers.customer_id"
    assert tables.tables["countries"].comment == "public"
    kinds = {column.name: str(column.type) for column in orders.columns}
    assert kinds["order_id"] == "BIGINT"
    assert kinds["amount"] == "NUMERIC(10, 2)"
    assert kinds["placed_at"] == "TIMESTAMP"
    assert kinds["status"] == "VARCHAR"


def test_keys(tables: sa.MetaData) -> None:
    orders = tables.tables["orders"]
    assert orders.primary_key.columns.keys() == ["order_id"]
    (link,) = orders.foreign_keys
    assert (link.parent.name, link.target_fullname) == ("customer_id", "customers.customer_id")
    assert not tables.tables["countries"].foreign_keys


@pytest.mark.full("measures neighbours or further data sets")
def test_keys_and_links_of_what_is_hidden_do_not_exist(tmp_path: Path) -> None:
    key, link = "[tables.orders.columns]\norder_id = {", 'column = "customer_id"'
    path = shop(
        tmp_path,
        (key, f"{key} hidden = true "),
        ("event_id = {}\ncustomer_id = {", "event_id = {}\ncustomer_id = { hidden = true "),
        (link, link.upper().replace("COLUMN", "column")),
    )
    engine = sa.create_engine(f"dpsql:///{path}?analyst=ana")
    metadata = sa.MetaData()
    metadata.reflect(engine)
    engine.dispose()
    orders, events = metadata.tables["orders"], metadata.tables["events"]
    assert list(orders.primary_key) == []
    assert [key.parent.name for key in orders.foreign_keys] == ["customer_id"]
    assert (events.primary_key.columns.keys(), events.foreign_keys) == (["event_id"], set())


@pytest.mark.parametrize(
    ("kind", "reflected"),
    [
        (BOOLEAN, sa.Boolean),
        (DOUBLE, sa.Double),
        (DATE, sa.Date),
        (TIMESTAMP, sa.TIMESTAMP),
        (TIMESTAMPTZ, sa.TIMESTAMP),
        (NULL, sa.types.NullType),
    ],
)
def test_every_type_is_reflected(kind: Any, reflected: type) -> None:
    assert type(type_of(kind)) is reflected
    assert getattr(type_of(kind), "timezone", False) is (kind == TIMESTAMPTZ)


# --- what the compiler writes is answered ---


def totals(o: Any) -> Any:
    total = sa.func.sum(o.amount).label("total")
    return sa.select(o.status, total).group_by(o.status).subquery()


COUNT = sa.func.count()
QUERIES: dict[str, Callable[[Any, Any], Any]] = {
    "count": lambda c, _: sa.select(COUNT).select_from(c.age.table),
    "in": lambda c, _: sa.select(COUNT).where(c.segment.in_(["consumer", "x"])),
    "not in": lambda c, _: sa.select(COUNT).where(c.segment.not_in([])),
    "contains": lambda c, _: sa.select(COUNT).where(c.city.contains("a", autoescape=True)),
    "ilike": lambda c, _: sa.select(COUNT).where(c.city.ilike("A%")),
    "regexp": lambda c, _: sa.select(COUNT).where(c.city.regexp_match("^a.*", "i")),
    "no regexp": lambda c, _: sa.select(COUNT).where(~c.city.regexp_match("^a.*")),
    "join": lambda c, o: (
        sa.select(c.segment, sa.func.sum(o.amount))
        .join(o.status.table, c.customer_id == o.customer_id)
        .group_by(c.segment)
        .order_by(sa.desc(sa.func.sum(o.amount)))
        .limit(1)
        .offset(1)
    ),
    "offset": lambda _, o: sa.select(o.status, COUNT).group_by(o.status).offset(1),
    "fetch": lambda _, o: sa.select(o.status, COUNT).group_by(o.status).fetch(2),
    "case": lambda c, _: sa.select(
        sa.case((c.age > 40, "old"), else_="young").label("group"), COUNT
    ).group_by("group"),
    "filter": lambda _, o: sa.select(COUNT.filter(o.amount > 10)),
    "subquery": lambda _, o: sa.select(sa.func.max(totals(o).c.total)),
    "cte": lambda _, o: sa.select(sa.select(o.status, COUNT).group_by(o.status).cte("t")),
    "window": lambda _, o: (
        (t := totals(o).c)
        and sa.select(t.status, sa.func.sum(t.total).over(order_by=t.status, rows=(-1, 0)))
    ),
    "cast": lambda _, o: sa.select(sa.cast(sa.func.sum(o.amount), sa.Numeric(18, 2))),
    "extract": lambda _, o: sa.select(sa.extract("year", o.placed_at).label("y"), COUNT).group_by(
        "y"
    ),
    "date_trunc": lambda _, o: sa.select(
        sa.func.date_trunc("month", o.placed_at).label("m"), COUNT
    ).group_by("m"),
    "between": lambda _, o: sa.select(sa.func.avg(o.amount)).where(
        o.placed_at.between(date(2024, 1, 1), date(2024, 6, 30))
    ),
    "union": lambda c, o: sa.union_all(
        sa.select(sa.literal("a").label("k"), COUNT).select_from(c.age.table),
        sa.select(sa.literal("b"), COUNT).select_from(o.status.table),
    ),
    "exists": lambda c, o: (sa.select(COUNT).select_from(c.age.table)).where(
        sa.exists().where(o.customer_id == c.customer_id).correlate(c.age.table)
    ),
}
"""Of the columns of customers and orders."""


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("name", QUERIES)
def test_what_the_compiler_writes_is_answered(
    name: str, engine: sa.Engine, tables: sa.MetaData
) -> None:
    query = QUERIES[name](tables.tables["customers"].c, tables.tables["orders"].c)
    with engine.connect() as connection:
        result = connection.execute(query)
        context: Any = result.context
        assert context.receipt is not None
        assert result.fetchall()


@pytest.mark.full("opens servers or connects clients")
def test_numbers_have_the_type_that_was_asked_for(engine: sa.Engine) -> None:
    columns: list[Any] = [
        sa.column("a", sa.Numeric(10, 2)),
        sa.column("b", sa.Numeric(10, 2, asdecimal=False)),
        sa.column("c", sa.Numeric(10, 3)),
        sa.column("d", sa.Float()),
    ]
    text = sa.text("SELECT 1.50 AS a, 2.50 AS b, 3.5e0 AS c, 4.5 AS d").columns(*columns)
    with engine.connect() as connection:
        row = connection.execute(text).one()
    assert [repr(value) for value in row] == ["Decimal('1.50')", "2.5", "Decimal('3.500')", "4.5"]


@pytest.mark.full("opens servers or connects clients")
def test_the_cache_keeps_parameters_apart(engine: sa.Engine, tables: sa.MetaData) -> None:
    codes = tables.tables["countries"].c.code
    with engine.connect() as connection:
        found = [connection.execute(sa.select(codes).where(codes == x)).all() for x in ("DK", "?")]
        limited = [len(connection.execute(sa.select(codes).limit(n)).all()) for n in (1, 2)]
    assert (found[1], limited) == ([], [1, 2])


@pytest.mark.full("opens servers or connects clients")
def test_a_refusal_keeps_its_reason(engine: sa.Engine, tables: sa.MetaData) -> None:
    with engine.connect() as connection:
        with pytest.raises(NotSupportedError) as caught:
            connection.execute(sa.select(tables.tables["customers"].c.age))
        original: Any = caught.value.orig
        assert (original.reason, original.sqlstate) == ("raw-rows", "42501")
        for statement in (
            sa.insert(tables.tables["countries"]).values(code="XX"),
            sa.text("DROP TABLE countries"),
            sa.schema.CreateTable(sa.Table("t", sa.MetaData(), sa.Column("x", sa.Integer))),
        ):
            with pytest.raises(NotSupportedError, match="unsupported-statement"):
                connection.execute(statement)


@pytest.mark.full("opens servers or connects clients")
def test_pandas_reads_without_a_warning(engine: sa.Engine, tables: sa.MetaData) -> None:
    asked = sa.select(sa.func.count().label("n")).select_from(tables.tables["customers"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_text = pd.read_sql("SELECT COUNT(*) AS n FROM customers", engine)
        by_table = pd.read_sql(asked, engine)
        whole = pd.read_sql_table("countries", engine)
    assert by_text["n"].dtype == "int64"
    assert by_text.equals(by_table)
    assert "code" in whole


@pytest.mark.full("opens servers or connects clients")
def test_errors_come_as_columns(engine: sa.Engine, tables: sa.MetaData) -> None:
    number: sa.ColumnClause[int] = sa.column("n")
    asked = sa.select(
        sa.func.count().label("n"),
        sa.func.dp_stddev(number).label("error"),
        sa.func.dp_interval_high(number).label("high"),
    ).select_from(tables.tables["customers"])
    with engine.connect() as connection:
        result = connection.execute(asked)
        context: Any = result.context
        row = result.one()
    assert row.error == pytest.approx(context.errors[0][0])
    assert row.high == pytest.approx(row.n + context.margins[0][0], abs=1)


@pytest.mark.full("opens servers or connects clients")
def test_pandas_reads_through_the_driver_with_its_own_warning(policy: Path) -> None:
    warned = pytest.warns(UserWarning, match="pandas only supports SQLAlchemy")
    with dbapi.connect(str(policy), analyst="ana") as connection, warned:
        frame = pd.read_sql("SELECT COUNT(*) AS n FROM customers", connection)
    assert frame["n"].dtype == "int64"


def test_the_driver_is_the_same(engine: sa.Engine) -> None:
    driver: Any = engine.dialect.dbapi
    assert driver is dbapi
    assert engine.dialect.paramstyle == "qmark"


@pytest.mark.full("opens servers or connects clients")
def test_uuids_and_times_of_day_go_both_ways(engine: sa.Engine) -> None:
    """As values of Python, whether a driver would take texts or not."""
    given = {"a": UUID(int=2**127 + 1), "b": time(23, 59, 59, 999_999)}
    asked = sa.select(sa.bindparam("a", type_=sa.Uuid()), sa.bindparam("b", type_=sa.Time()))
    with engine.connect() as connection:
        assert connection.execute(asked, given).one() == tuple(given.values())
