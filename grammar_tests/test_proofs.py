"""What the compiler takes to be proved, counted over all cases and over odd links and keys.

The wrong twins are proofs that were once wrong: each is made again, and has to be found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import given

from dpsql.compiler.track import per_unit, track, units
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model import comparisons
from dpsql.model.errors import Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Fact, FactKind, Policy, Voucher
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests import casefile, world
from grammar_tests.bound import over, shop
from grammar_tests.fuzz_proofs import CHAINS, CROSSINGS, PROOFS, odd_world
from grammar_tests.laws import PlainEngine, compiled, integers
from grammar_tests.link_worlds import LinkedTable, LinkedWorld, chain, questions
from grammar_tests.proofs import Claims, Counting, claims_of
from grammar_tests.test_fuzz import examples

ACCEPTED = tuple(case for case in casefile.all_cases() if case.accepted)
PARTS = 8
"""Items over which the cases are spread."""
RANDOM = 60
"""Random queries per run."""
FEW = 400
"""Random queries within which a wrong proof is found."""
SORTS = frozenset({"rows", "rank", "determined", "unique", "whose", "groups", "order", "key"})
"""What is claimed again and again; of a frequency there are a few claims."""


def claimed(
    policy: Policy, engine: PlainEngine, part: int = 0, parts: int = 1
) -> Iterable[tuple[str, Claims]]:
    """Yield the claims of every `parts`-th case; without constraints a few cases are refused."""
    for case in ACCEPTED[part::parts]:
        try:
            found = claims_of(case.sql, policy, engine, case.setting("dialect", "duckdb"))
        except Refused:
            assert not policy.facts, case.id
            continue
        yield case.id, found


def wrong(counting: Counting, claims: Iterable[tuple[str, Claims]]) -> list[str]:
    return [f"{name}: {why}" for name, each in claims for why in counting.disproved(each)]


FLOOD, ODD = (world.flood, True), (world.adversarial, False)
OF_FULL = (FLOOD, 0), (FLOOD, 4), (ODD, 2), (ODD, 6)
"""Half of the cases; law 2 compares neighbours of all of them."""
OTHERS = [(of, part) for of in (FLOOD, ODD) for part in range(PARTS) if (of, part) not in OF_FULL]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("made", "constraints", "part"),
    [
        *((*of, part) for of, part in OF_FULL),
        *(pytest.param(*of, part, marks=pytest.mark.campaign) for of, part in OTHERS),
    ],
)
def test_the_proofs_of_all_cases_hold(
    made: Callable[[], world.Tables],
    constraints: bool,  # noqa: FBT001
    part: int,
) -> None:
    """On the rows of the catalogue and more: where constraints vouch for facts, and where none."""
    policy, engine = over(made(), constraints=constraints)
    counting = Counting(policy, engine)
    assert wrong(counting, claimed(policy, engine, part, PARTS)) == []
    assert counting.counted.keys() >= SORTS


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("number", range(8))
def test_proofs_hold_over_odd_links(number: int, tmp_path: Path) -> None:
    """Keys that several units share, keys that are links, links that lead nowhere."""
    assert not wrong_over(chain(number), tmp_path)


def wrong_over(odd: LinkedWorld, folder: Path) -> Counter[str]:
    """The sorts of claims that are wrong."""
    policy, engine = odd.policy(folder, recorded=False), odd.engine()
    counting, found = Counting(policy, engine), Counter[str]()
    for sql in questions(odd):
        try:
            claims = claims_of(sql, policy, engine)
        except Refused:
            continue
        found.update(why.split(":")[0] for why in counting.disproved(claims))
    return found


# --- random queries ---


def disproved(number: int, sql: str) -> bool:
    """Counts what is claimed, and compares what is measured over two orders of all rows."""
    world = odd_world(number)
    counting, turned = world.engines
    try:
        claims = claims_of(sql, world.policy, counting.engine)
        plan = compiled(sql, world.policy, counting.engine) if len(sql) % 4 == 0 else None
    except Refused:
        return False
    assert counting.disproved(claims) == []
    if plan is not None:
        assert integers(plan, counting.engine) == integers(plan, turned.engine)
    return True


@pytest.mark.full("hundreds of random queries")
def test_the_proofs_of_random_queries_hold() -> None:
    assert random_queries(RANDOM) >= 0.8 * RANDOM


def random_queries(count: int, *, shrink: bool = True) -> int:
    """How many of so many random queries are accepted."""
    accepted: list[bool] = []

    @examples(count, shrink=shrink)
    @given(PROOFS)
    def hold(drawn: tuple[int, str]) -> None:
        accepted.append(disproved(*drawn))

    hold()
    return sum(accepted)


# --- a key that may be NULL ---


def cards(folder: Path, key: str) -> tuple[Policy, PlainEngine, PlainEngine]:
    """Cards with a key that may be missing, twice in a different order of their rows."""
    file = folder / "dpsql.toml"
    tables = LinkedTable("people", "pid", ()), LinkedTable("a", "a_id", (("a_up", "people"),))
    file.write_text(LinkedWorld(tables, {}).toml(None))
    rows = [f"({'NULL' if n < 8 and key == 'UNIQUE' else n}, 1, {n}, 'a')" for n in range(10)]
    engines = []
    for listed in (rows, rows[::-1]):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE people (pid INTEGER PRIMARY KEY, v INTEGER, g VARCHAR)")
        connection.execute(
            f"CREATE TABLE a (a_id INTEGER {key}, a_up INTEGER, v INTEGER, g VARCHAR)"
        )
        connection.execute("INSERT INTO people VALUES (1, 0, 'a')")
        connection.execute(f"INSERT INTO a VALUES {', '.join(listed)}")
        engines.append(PlainEngine(connection))
    schema = Schema(declared(engines[0].rows), "here")
    policy = bind(load(str(file)), schema, PublicTables(engines[0], DUCKDB).values)
    return policy, engines[0], engines[1]


NUMBERED = "SELECT v, g, {} OVER (PARTITION BY a_up ORDER BY g) AS n FROM a"
ROWS = "COUNT(*) OVER (PARTITION BY a_up ORDER BY g ROWS 1 PRECEDING)"
TIED = (
    f"SELECT SUM(v) FROM ({NUMBERED.format('ROW_NUMBER()')}) AS t WHERE n = 1",
    f"SELECT SUM(v) FROM ({NUMBERED.format('NTILE(3)')}) AS t WHERE n = 2",
    f"SELECT SUM(n) FROM ({NUMBERED.format('FIRST_VALUE(v)')}) AS t",
    f"SELECT SUM(n * v) FROM ({NUMBERED.format('LAG(v)')}) AS t",
    "SELECT SUM(v) FROM (SELECT DISTINCT ON (a_up) a_up, v FROM a ORDER BY a_up, g) AS t",
    f"SELECT SUM(n * v) FROM (SELECT v, {ROWS} AS n FROM a) AS t",
    "SELECT SUM(v) FROM (SELECT a_up, FIRST(v ORDER BY g) AS v FROM a GROUP BY a_up) AS t",
    "SELECT SUM(v) FROM (SELECT a_up, ARG_MIN(v, g) AS v FROM a GROUP BY a_up) AS t",
    f"SELECT SUM(t.v) FROM ({NUMBERED.format('ROW_NUMBER()')}) AS t WHERE 2 >= n",
)
"""Questions about rows that are tied but for their key."""


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("key", ["UNIQUE", "PRIMARY KEY"])
@pytest.mark.parametrize("sql", TIED)
def test_ties_do_not_fall_as_the_engine_meets_rows(sql: str, key: str, tmp_path: Path) -> None:
    policy, *engines = cards(tmp_path, key)
    claims = claims_of(sql, policy, engines[0])
    assert [Counting(policy, engine).disproved(claims) for engine in engines] == [[], []]
    plan = compiled(sql, policy, engines[0])
    assert integers(plan, engines[0]) == integers(plan, engines[1])


@pytest.mark.parametrize(("key", "never_null"), [("UNIQUE", False), ("PRIMARY KEY", True)])
def test_who_vouches_that_a_key_is_never_null(key: str, never_null: bool, tmp_path: Path) -> None:  # noqa: FBT001
    policy, *_ = cards(tmp_path, key)
    assert policy.fact(FactKind.UNIQUE_KEY, "a")
    assert bool(policy.fact(FactKind.NOT_NULL_KEY, "a")) is never_null


# --- wrong twins ---


@pytest.mark.parametrize("number", range(CHAINS, CHAINS + CROSSINGS))
def test_too_few_rows_of_a_person_whom_several_links_name_are_found(number: int) -> None:
    """The bound is over all links together: one that is less by a row is wrong."""
    odd, sql = odd_world(number), "SELECT COUNT(*), SUM(v) FROM t WHERE v >= -5 OR v IS NULL"
    counting = odd.engines[0]
    claims = claims_of(sql, odd.policy, counting.engine)
    assert counting.disproved(claims) == []
    claims.privates = [replace(p, max_rows=(p.max_rows or 0) - 1) for p in claims.privates]
    assert any(why.startswith("named") for why in counting.disproved(claims))
    assert counting.counted["named"] >= 2


def test_rows_that_name_nobody_are_found() -> None:
    """A policy that takes every link to lead to somebody, and keys to be unique, counts them."""
    found = Counter[str]()
    for number in range(CHAINS, CHAINS + CROSSINGS):
        odd = odd_world(number)
        wrongly = Fact(FactKind.LINK_RESOLVES, "t", Voucher.CONSTRAINT)
        policy = replace(odd.policy, facts=odd.policy.facts | {wrongly})
        claims = claims_of("SELECT COUNT(*) FROM t", policy, odd.engines[0].engine)
        found.update(why.split(":")[0] for why in odd.engines[0].disproved(claims))
    assert found["whose"] >= 1


def test_a_nullable_key_that_settles_an_order_is_found(tmp_path: Path) -> None:
    policy, *engines = cards(tmp_path, "UNIQUE")
    wrongly = Fact(FactKind.NOT_NULL_KEY, "a", Voucher.CONSTRAINT)
    policy = replace(policy, facts=policy.facts | {wrongly})
    counting = Counting(policy, engines[0])
    found = [counting.disproved(claims_of(sql, policy, engines[0])) for sql in TIED]
    assert sum(map(bool, found)) >= 5
    plans = [compiled(sql, policy, engines[0]) for sql in TIED]
    assert any(integers(p, engines[0]) != integers(p, engines[1]) for p in plans)


def test_a_frequency_of_another_run_is_found() -> None:
    policy, engine = shop()
    listed = "(SELECT category AS k FROM products) AS p"
    sql = f"SELECT COUNT(*) FROM customers c JOIN {listed} ON c.city = p.k"
    assert Counting(policy, engine).disproved(claims_of(sql, policy, engine)) == []
    with patch.object(PublicTables, "frequency", lambda *_: 1):
        claims = claims_of(sql, policy, engine)
    assert any("frequency" in why for why in Counting(policy, engine).disproved(claims))


LISTED = (
    "SELECT COUNT(*) FROM customers c JOIN"
    " (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip) AS t"
    " ON c.segment = t.segment"
)
FIRST = (
    "SELECT COUNT(*) FROM orders o JOIN LATERAL (SELECT v.device FROM events v"
    " WHERE v.customer_id = o.customer_id ORDER BY v.duration LIMIT 1) AS e ON TRUE"
)
CHAINED = (
    "SELECT COUNT(*) FROM customers c LEFT JOIN events e ON e.customer_id = c.customer_id"
    " LEFT JOIN logins l ON l.customer_id = e.customer_id"
)


def test_too_few_released_rows_that_agree_are_found() -> None:
    policy, engine = shop()
    assert Counting(policy, engine).disproved(claims_of(LISTED, policy, engine)) == []
    with patch.object(track, "most_alike", lambda *_: 1):
        claims = claims_of(LISTED, policy, engine)
    assert any("frequency" in why for why in Counting(policy, engine).disproved(claims))


def test_rows_of_parts_that_are_taken_for_one_are_found() -> None:
    policy, engine = shop()
    assert Counting(policy, engine).disproved(claims_of(FIRST, policy, engine)) == []
    with patch.object(per_unit, "_parted", lambda *_: per_unit.ONE):
        claims = claims_of(FIRST, policy, engine)
    found = Counting(policy, engine).disproved(claims)
    assert {"rank", "rows"} <= {why.split(":")[0] for why in found}


def test_fewer_rows_before_a_join_are_found() -> None:
    policy, engine = shop()
    claims = claims_of(CHAINED, policy, engine)
    assert any(before.rows == 1 for each in claims.privates for before in each.before)
    claims.privates = [
        replace(p, before=tuple(replace(b, rows=0) for b in p.before)) for p in claims.privates
    ]
    found = Counting(policy, engine).disproved(claims)
    assert any(why.startswith("before") for why in found)


def test_a_column_that_is_taken_for_a_key_is_found() -> None:
    policy, engine = shop()
    claims = claims_of(CHAINED, policy, engine)
    counting = Counting(policy, engine)
    assert counting.disproved(claims) == []
    assert counting.counted["optional"] >= 1

    def other(rows: units.Private, key: units.OptionalKey) -> units.OptionalKey:
        """That the number of an event is the key."""
        return replace(key, column=next(f.id for f in rows.relation.fields if f.name == "event_id"))

    claims.privates = [
        replace(p, optional=frozenset(other(p, o) for o in p.optional)) for p in claims.privates
    ]
    assert any(why.startswith("optional") for why in counting.disproved(claims))


@pytest.mark.full("measures neighbours or further data sets")
def test_rows_of_nobody_are_found(tmp_path: Path) -> None:
    """A link that is taken to lead to a unit, as one that is a key too once was."""
    tables = LinkedTable("people", "pid", ()), LinkedTable("a", "a_id", (("a_id", "people"),))
    value = {"v": 1, "g": "a"}
    rows = {
        "people": tuple({"pid": n, **value} for n in (1, 2)),
        "a": tuple({"a_id": n, **value} for n in (1, 2, 9)),
    }
    odd = LinkedWorld(tables, rows)
    assert not wrong_over(odd, tmp_path)
    with patch.object(units, "settled", lambda rows, *_: rows):
        assert wrong_over(odd, tmp_path)["whose"]


@pytest.mark.full("draws random questions or values")
def test_a_key_of_several_units_that_lends_one_is_found(tmp_path: Path) -> None:
    with patch.object(units, "Filter", lambda relation, _predicate: relation):
        assert any(wrong_over(chain(n), tmp_path)["whose"] for n in range(8))


@pytest.mark.full("hundreds of random queries")
@pytest.mark.parametrize(
    "name", ["mirror", "keys that are missing", "frequency", "rows of nobody", "shared keys"]
)
def test_random_queries_find_each(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match name:
        case "mirror":
            for sign in ("lt", "le", "gt", "ge"):
                monkeypatch.setitem(comparisons.MIRRORED, sign, sign)
        case "keys that are missing":
            monkeypatch.setattr(Policy, "fact", _never_null)
        case "frequency":
            monkeypatch.setattr(PublicTables, "frequency", lambda *_: 1)
        case "rows of nobody":
            monkeypatch.setattr(units, "settled", lambda rows, *_: rows)
        case _:
            monkeypatch.setattr(units, "Filter", lambda relation, _predicate: relation)
    with pytest.raises(AssertionError):
        random_queries(FEW, shrink=False)


def _never_null(policy: Policy, kind: FactKind, table: str) -> Fact | None:
    """The fact, where whatever is unique is taken to be there."""
    asked = FactKind.UNIQUE_KEY if kind is FactKind.NOT_NULL_KEY else kind
    return next((f for f in policy.facts if f.kind is asked and f.table == table), None)
