"""A session of drill-downs from memory: right, exact, and at the price that was said.

All sessions are over one table, whose columns are kept to their lists in every way there is: by the
engine, with NULL or without, by nobody, and then with NULL and values that no list has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from dpsql.answering.from_memory import recollection
from dpsql.compiler.plan import wide_tables
from dpsql.compiler.resolve.wide_groups import WideKey
from dpsql.engines import EngineFailed, Stop
from dpsql.ledgers import PaidAnswer, debits
from dpsql.ledgers.codec import decode_answer, encode_answer
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.mechanisms import standard_deviation
from dpsql.model.errors import Failed
from dpsql.model.origins import MeasuredColumns
from dpsql.model.vocabulary import Answer, Loss, Mechanism, Noise, Noisy, Request, TablePolicy
from dpsql.preparation import workload
from dpsql.preparation.question import Question
from dpsql.proxy import Proxy
from dpsql.vault.answer_cache import AnswerCache
from grammar_tests.laws import no_noise

PEOPLE = """
CREATE TABLE people (
    id INTEGER PRIMARY KEY,
    sex VARCHAR NOT NULL CHECK (sex IN ('f', 'm')),
    plan VARCHAR,
    band VARCHAR CHECK (band IN ('low', 'high')),
    region VARCHAR,
    vip BOOLEAN,
    city VARCHAR,
    income INTEGER,
    spent INTEGER
);
INSERT INTO people SELECT
    i,
    ['f', 'm'][1 + (i % 2)::INTEGER],
    ['p0', 'p1', 'p2', 'unlisted', NULL][1 + (hash(i, 1) % 5)::INTEGER],
    ['low', 'high', NULL][1 + (hash(i, 2) % 3)::INTEGER],
    ['north', 'south', 'nowhere', NULL][1 + (hash(i, 3) % 4)::INTEGER],
    [true, false, NULL][1 + (hash(i, 4) % 3)::INTEGER],
    ['Oslo', 'Bergen'][1 + (hash(i, 5) % 2)::INTEGER],
    CASE WHEN hash(i, 6) % 10 > 0 THEN hash(i, 7) % 101 END,
    i % 60
FROM range(600) t (i);
CREATE TABLE visits (
    id INTEGER PRIMARY KEY,
    person INTEGER NOT NULL REFERENCES people (id),
    kind VARCHAR NOT NULL CHECK (kind IN ('a', 'b'))
);
INSERT INTO visits SELECT i, i // 4, ['a', 'b'][1 + (i % 2)::INTEGER] FROM range(800) t (i);
"""

POLICY = """
[database]
engine = "duckdb"
path = "people.duckdb"

[privacy_unit]
table = "people"
key = "id"

[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {}
sex = { values = ["f", "m"] }
plan = { values = ["p0", "p1", "p2"] }
band = { values = ["low", "high"], nullable = true }
region = { values = ["north", "south"], nullable = true }
vip = { nullable = true }
city = {}
income = { bounds = [0, 100], nullable = true }
spent = { private_bounds = true }

[tables.visits]
access = "private"
key = "id"
link = { column = "person", references = "people.id" }
max_rows_per_unit = 4
max_rows_per_group = 2
max_groups_per_unit = 2
[tables.visits.columns]
id = {}
person = {}
kind = { values = ["a", "b"] }

[budgets.default]
epsilon = 300
delta = 1e-6
memory = "wide"

[budgets.other]
epsilon = 300
delta = 1e-6
memory = "wide"

[budgets.pure]
epsilon = 300
accountant = "pure"
memory = "wide"

[budgets.plain]
epsilon = 300
delta = 1e-6

[analysts.ana]
budget = "default"

[analysts.bob]
budget = "default"

[analysts.kim]
budget = "other"

[analysts.eve]
budget = "pure"

[analysts.pat]
budget = "plain"

[ledger]
path = "dpsql.ledger"
"""

KEYS = {
    "sex": ("sex = 'f'", "sex IN ('m')"),
    "plan": ("plan = 'p1'",),
    "band": ("band = 'low'", "band IS NULL"),
    "region": ("region = 'north'",),
    "vip": ("vip", "NOT vip"),
}
MEASURES = (
    "COUNT(*) AS n",
    "SUM(income) AS s",
    "COUNT(income) AS c",
    "COUNT(*) AS n, SUM(income) AS s",
)


def drills(count: int, seed: int = 3) -> list[str]:
    """Questions by up to two columns, where up to two have a value."""
    dice = Random(seed)  # noqa: S311 - which questions are asked
    result = []
    for _ in range(count):
        keys = dice.sample(list(KEYS), dice.randint(0, 2))
        where = [dice.choice(KEYS[c]) for c in dice.sample(list(KEYS), dice.randint(0, 2))]
        items = ", ".join([*keys, dice.choice(MEASURES)])
        behind = f" WHERE {' AND '.join(where)}" * bool(
            where
        ) + f" GROUP BY {', '.join(keys)}" * bool(keys)
        result.append(f"SELECT {items} FROM people{behind}")
    return result


SESSION = drills(20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(PEOPLE)
    return folder


@contextmanager
def opened(folder: Path, name: str) -> Iterator[Proxy]:
    """A proxy with a ledger of this name."""
    path = folder / f"{name}.toml"
    path.write_text(POLICY.replace("dpsql.ledger", f"{name}.ledger"), encoding="utf-8")
    with Proxy.open(str(path)) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def proxy(folder: Path) -> Iterator[Proxy]:
    with opened(folder, "noisy") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def exact_proxy(folder: Path) -> Iterator[Proxy]:
    """One that draws no noise."""
    with opened(folder, "exact") as proxy:
        proxy.vault.sampler = no_noise
        yield proxy


def ask(proxy: Proxy, sql: str, analyst: str = "ana", epsilon: str | None = None) -> Answer:
    return proxy.ask(Request(sql, analyst, epsilon=None if epsilon is None else Decimal(epsilon)))


def charged(answer: Answer) -> int:
    assert answer.receipt is not None
    return answer.receipt.charged.amount


def untrue(folder: Path, questions: Sequence[str], answers: Sequence[Answer]) -> list[str]:
    """The questions that are answered by other numbers than the plain engine's."""
    result = []
    with duckdb.connect(str(folder / "people.duckdb"), read_only=True) as connection:
        for sql, answer in zip(questions, answers, strict=True):
            width = sql.count(" AS ")
            rows = connection.execute(sql).fetchall()
            plain = {row[:-width]: tuple(x or 0 for x in row[-width:]) for row in rows}
            shown = [(tuple(row[:-width]), tuple(row[-width:])) for row in answer.rows]
            if any(numbers != plain.get(key, (0,) * width) for key, numbers in shown):
                result.append(sql)
    return result


def unlike_fresh(proxy: Proxy, questions: Sequence[tuple[str, str, str]]) -> list[str]:
    """The questions that are answered from memory by other numbers than afresh, without noise."""
    return [
        sql
        for sql, *payer in questions
        if ask(proxy, sql, *payer).rows != ask(proxy, with_memory(sql, "off"), *payer).rows
    ]


def with_memory(sql: str, memory: str) -> str:
    return sql.replace(
        "SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = '{memory}')", 1
    )


# --- the answers ---

BY_PLAN = "SELECT plan, COUNT(*) AS n FROM people GROUP BY plan"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
BY_BOTH = "SELECT sex, plan, COUNT(*) AS n FROM people GROUP BY sex, plan"
ALL = "SELECT COUNT(*) AS n FROM people"
OF_P1 = "SELECT sex, COUNT(*) AS n FROM people WHERE plan = 'p1' GROUP BY sex"


@pytest.fixture(scope="module")
def exact_session(exact_proxy: Proxy) -> list[Answer]:
    return [ask(exact_proxy, sql) for sql in SESSION]


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_derived_is_what_the_engine_says(folder: Path, exact_session: list[Answer]) -> None:
    assert untrue(folder, SESSION, exact_session) == []
    recalled = [answer.receipt.recalled for answer in exact_session if answer.receipt]
    assert {0, 100} < set(recalled)


@pytest.mark.full("measures neighbours or further data sets")
def test_charges_are_as_explained_and_errors_no_larger_than_fresh_ones(
    proxy: Proxy, exact_session: list[Answer]
) -> None:
    for sql, exact in zip(SESSION[:11], exact_session, strict=False):
        before, answer = proxy.explain(Request(sql, "ana")), ask(proxy, sql)
        assert answer.receipt is not None
        assert before.charge == answer.receipt.charged
        assert (before.charge == Loss(0)) == answer.receipt.remembered
        fresh = proxy.explain(Request(sql, "pat")).expected
        pairs = zip(answer.rows, answer.margins, strict=True)
        triples = (t for pair in pairs for t in zip(*pair, fresh, strict=True))
        # Half an interval is rounded, and one below the range of a count reaches into it (R108).
        assert all(m <= most * 1.005 - min(n, 0) for n, m, most in triples if m and most)
        assert charged(answer) == charged(exact)  # no number that was released decides anything


def wrong_widening(self: Any, rows: Any, key: Any, chosen: Any) -> tuple[Any, WideKey]:
    """Wrong: believes that every row has one of the values that are declared."""
    del self, rows
    return key, WideKey(chosen, whole=True)


def names_alone(writer: Any, block: Any) -> list[str]:
    """Wrong: measurements are told apart by their kinds."""
    del writer
    return [f"{type(r.query).__name__} {n}" for n, r in enumerate(block.releases)]


def any_key(block: Any, expression: Any) -> bool:
    """Wrong: takes any key for one that a unit has one value of."""
    del block, expression
    return True


VISITS = (
    "SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind",
    "SELECT COUNT(*) AS n FROM visits",
)
TWINS: dict[str, tuple[list[tuple[str, Any]], list[tuple[str, str, str]]]] = {
    "rows outside of all cells": (
        [("dpsql.compiler.resolve.wide_groups._Widening._closed", wrong_widening)],
        [(BY_PLAN, "ana", "0.1"), (ALL, "ana", "0.1")],
    ),
    "other measurements": (
        [
            ("dpsql.compiler.plan.wide_tables._texts", names_alone),
            ("dpsql.compiler.plan.wide_tables._said", lambda *_: ""),
        ],
        [(ALL, "ana", "0.1"), ("SELECT COUNT(income) AS c FROM people", "ana", "0.1")],
    ),
    "totals whose clips bind": (
        [
            ("dpsql.compiler.plan.wide_tables.has_one", any_key),
            ("dpsql.compiler.resolve.wide_groups.has_one", any_key),
        ],
        [(VISITS[0], "eve", "1"), (VISITS[1], "eve", "0.1")],
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_wrong_memories_are_found(
    exact_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, twin: str
) -> None:
    changes, questions = TWINS[twin]
    exact_proxy.refresh()
    assert unlike_fresh(exact_proxy, questions) == []
    for name, instead in changes:
        monkeypatch.setattr(name, instead)
    exact_proxy.refresh()
    assert unlike_fresh(exact_proxy, questions) == [questions[-1][0]]


BOTH = "FROM visits JOIN people ON person = people.id"
SEVERAL = [
    (f"SELECT kind, sex, COUNT(*) AS n {BOTH} GROUP BY kind, sex", "1", False),
    (f"SELECT kind, COUNT(*) AS n {BOTH} GROUP BY kind", "0.1", True),
    (f"SELECT COUNT(*) AS n {BOTH} WHERE sex = 'f'", "1", False),
    (f"SELECT COUNT(*) AS n {BOTH}", "0.1", True),
    (f"SELECT COUNT(*) AS n {BOTH} WHERE kind = 'a'", "0.1", False),
]
"""Questions of which a person has several rows, at which ε, and whether that is free then."""


@pytest.mark.full("measures neighbours or further data sets")
def test_of_several_rows_the_columns_of_their_person_add_up(exact_proxy: Proxy) -> None:
    exact_proxy.refresh()
    free = [charged(ask(exact_proxy, sql, "eve", epsilon)) == 0 for sql, epsilon, _ in SEVERAL]
    assert free == [expected for *_, expected in SEVERAL]
    assert unlike_fresh(exact_proxy, [(sql, "eve", epsilon) for sql, epsilon, _ in SEVERAL]) == []


NOT_WIDE = {
    "keys by a threshold": "SELECT city, COUNT(*) AS n FROM people GROUP BY city",
    "a total of the largest": (
        "SELECT SUM(n) AS n FROM (SELECT city, COUNT(*) AS n FROM people GROUP BY city"
        " ORDER BY n DESC LIMIT 2) AS t"
    ),
    "several tables": (
        "SELECT COUNT(*) AS n FROM people WHERE income > (SELECT AVG(income) FROM people)"
    ),
    "another aggregate": "SELECT MEDIAN(income) AS m FROM people",
    "sets of keys": "SELECT sex, COUNT(*) AS n FROM people GROUP BY ROLLUP (sex)",
}


@pytest.mark.parametrize("what", NOT_WIDE)
def test_what_does_not_add_up_is_not_remembered(exact_proxy: Proxy, what: str) -> None:
    query = exact_proxy.compiler.read(Request(NOT_WIDE[what], "ana"), Stop())
    assert exact_proxy.compiler.prepared(query).wide is None


# --- who pays ---


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_lacking_is_paid_where_that_loses_nothing(proxy: Proxy) -> None:
    proxy.refresh()
    whole = charged(ask(proxy, BY_BOTH))
    assert proxy.explain(Request(OF_P1, "ana")).charge == Loss(0)
    paid = proxy.ledger.history(None, 1000)
    free = ask(proxy, OF_P1)
    assert charged(free) == 0
    assert proxy.ledger.history(None, 1000) == paid  # what is free is written nowhere
    least = ask(proxy, BY_BOTH, epsilon="0.102")
    assert least.receipt is not None
    assert least.receipt.least
    part = ask(proxy, BY_SEX)
    assert 0 < charged(part) < 0.9 * whole
    assert ask(proxy, OF_P1).rows == free.rows
    assert part.receipt is not None
    assert part.receipt.recalled == 100 - -(-100 * charged(part) // whole) > 0
    assert charged(ask(proxy, BY_SEX)) == 0
    whole = charged(ask(proxy, BY_BOTH, "eve"))
    assert charged(ask(proxy, OF_P1, "eve")) == 0
    again = ask(proxy, BY_SEX, "eve")  # in parts, ε would buy less
    assert again.receipt is not None
    assert (charged(again), again.receipt.recalled) == (whole, 0)


def with_shorter_texts(table: TablePolicy) -> TablePolicy:
    """The table with another limit on the length of each column's texts."""
    columns = tuple(replace(column, max_length=99) for column in table.columns)
    return replace(table, columns=columns)


def others_who_pay_nothing(proxy: Proxy) -> list[str]:
    """Who has a remembered measurement free without having been charged for it."""
    result = []
    proxy.refresh()
    whole = proxy.explain(Request(with_memory(OF_P1, "off"), "ana")).charge.amount
    ask(proxy, BY_BOTH)
    if charged(ask(proxy, OF_P1, "bob")) != whole:
        result.append("another analyst")
    if charged(ask(proxy, OF_P1, "kim")) != whole:
        result.append("an analyst of another budget")
    ask(proxy, BY_BOTH, "pat")
    if charged(ask(proxy, OF_P1, "pat")) != whole:
        result.append("after a slice")
    policy = proxy.policy
    proxy.adopt(replace(policy, analysts=(("ana", "other"),)))
    if charged(ask(proxy, OF_P1)) != whole:
        result.append("another budget")
    proxy.adopt(replace(policy, tables=tuple(map(with_shorter_texts, policy.tables))))
    if charged(ask(proxy, OF_P1)) != whole:
        result.append("another policy")
    proxy.adopt(policy)
    proxy.refresh()
    if charged(ask(proxy, OF_P1)) != whole:
        result.append("other data")
    return result


@pytest.mark.full("measures neighbours or further data sets")
def test_only_who_was_charged_has_it_free(proxy: Proxy) -> None:
    assert others_who_pay_nothing(proxy) == []


def of_whoever_asked(cache: Any, query: Question, question: str, version: str) -> list[PaidAnswer]:
    """Wrong: whoever asked."""
    payer = query.account
    return list(cache._ledger.released(payer.analyst, payer.budget.name, question, version))


def of_any_time(book: Any, kind: Any, question: str, version: str, also: str, *values: str) -> Any:
    """Wrong: whatever the policy and the data were."""
    del version
    return book.find(kind, f"question = ? AND {also}", question, *values)


def of_any_budget(
    ledger: SqliteLedger, analyst: str, budget: str, question: str, version: str
) -> tuple[PaidAnswer, ...]:
    """Wrong: whatever paid."""
    del budget
    return tuple(
        each
        for pot in ("default", "other")
        for each in RELEASED(ledger, analyst, pot, question, version)
    )


RELEASED = SqliteLedger.released
MEMORIES = [
    (AnswerCache, "paid_for", of_whoever_asked, "another analyst"),
    (wide_tables, "plan_version", lambda _policy, _read: "", "another policy"),
    (debits, "_about", of_any_time, "other data"),
    (SqliteLedger, "released", of_any_budget, "another budget"),
]


@pytest.mark.full("measures neighbours or further data sets")
def test_memories_of_what_others_paid_are_found(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where, name, wrong, who in MEMORIES:
        with monkeypatch.context() as patch:
            patch.setattr(where, name, wrong)
            assert who in others_who_pay_nothing(proxy)


# --- as it is asked for ---


@pytest.mark.full("measures neighbours or further data sets")
def test_a_question_says_itself_what_it_takes_and_leaves(proxy: Proxy) -> None:
    proxy.refresh()
    whole = charged(ask(proxy, with_memory(BY_BOTH, "slice")))
    assert charged(ask(proxy, OF_P1)) == whole  # a slice leaves nothing for others
    first = ask(proxy, OF_P1)
    assert charged(first) == 0
    assert charged(ask(proxy, with_memory(BY_BOTH, "best"))) == 0
    off = proxy.explain(Request(with_memory(OF_P1, "off"), "ana"))
    again = ask(proxy, with_memory(OF_P1, "off"))
    assert off.charge.amount == charged(again) == whole
    assert again.rows != first.rows
    before = ask(proxy, OF_P1)
    assert charged(before) == 0
    charged(ask(proxy, "SELECT sex, vip, COUNT(*) AS n FROM people GROUP BY sex, vip"))
    assert ask(proxy, OF_P1).rows == before.rows  # the same question keeps its answer
    best = proxy.explain(Request(with_memory(OF_P1, "best"), "ana"))
    better = ask(proxy, with_memory(OF_P1, "best"))
    assert (best.charge.amount, charged(better)) == (0, 0)
    assert better.rows != before.rows
    assert charged(ask(proxy, with_memory(BY_SEX, "wide"), "pat")) == whole
    assert charged(ask(proxy, with_memory(BY_SEX.replace("sex", "vip"), "slice"), "pat")) == whole


@pytest.mark.full("measures neighbours or further data sets")
def test_numbers_within_found_bounds_are_never_from_memory(proxy: Proxy) -> None:
    """What memory holds of them would depend on what was found, and so would the price."""
    proxy.refresh()
    by_sex = "SELECT sex, SUM(spent) AS s FROM people WHERE plan = 'p1' GROUP BY sex"
    whole = 0
    for sql in (by_sex, by_sex.replace("p1", "p2")):
        explained = proxy.explain(Request(sql, "ana"))
        answer = ask(proxy, sql)
        assert explained.charge.amount == pytest.approx(charged(answer), rel=0.001)
        assert answer.receipt is not None
        assert answer.receipt.recalled == 0
        whole = whole or charged(answer)
    assert charged(answer) == whole


@pytest.mark.full("opens a proxy for each item")
def test_a_wider_scan_is_refused_where_it_does_much_more(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.refresh()
    monkeypatch.setattr(workload, "LITTLE", 0)
    monkeypatch.setattr(workload, "MOST_TIMES", 1)
    whole = charged(ask(proxy, OF_P1))
    assert charged(ask(proxy, OF_P1.replace("p1", "p2"))) == whole
    monkeypatch.setattr(workload, "MOST_TIMES", 1000)
    assert charged(ask(proxy, OF_P1.replace("p1", "p0"))) == whole
    assert charged(ask(proxy, BY_BOTH)) == 0


def test_no_more_groups_are_measured_than_the_policy_says(proxy: Proxy) -> None:
    policy = proxy.policy
    for most, wide in ((7, False), (8, True)):  # two by three and all others
        proxy.adopt(replace(policy, limits=replace(policy.limits, max_public_groups=most)))
        query = proxy.compiler.read(Request(OF_P1, "ana"), Stop())
        assert (proxy.compiler.prepared(query).wide is not None) is wide
    proxy.adopt(policy)


# --- failures ---


@pytest.mark.full("opens a proxy")
def test_what_fails_behind_a_charge_says_that_it_was_charged(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.refresh()

    def failing(*_args: Any, **_more: Any) -> Any:
        raise EngineFailed

    with monkeypatch.context() as patch:
        patch.setattr("dpsql.vault.answer_cache.finish", failing)
        with pytest.raises(Failed) as failed:
            ask(proxy, BY_BOTH)
        assert failed.value.charged
        with pytest.raises(Failed) as failed:
            ask(proxy, OF_P1)
        assert not failed.value.charged
    assert charged(ask(proxy, BY_BOTH)) == 0


@pytest.mark.full("opens a proxy for each item")
def test_what_is_made_of_several_derived_groups_errs_as_it_may(proxy: Proxy) -> None:
    proxy.refresh()
    for sql in (BY_BOTH, ALL, BY_SEX):
        ask(proxy, sql)
    summed = ask(proxy, f"SELECT SUM(n) AS n FROM ({BY_SEX}) AS t")
    query = proxy.compiler.read(Request(with_memory(BY_SEX, "best"), "ana"), Stop())
    memory = recollection(proxy.compiler, proxy.vault, query)
    assert memory is not None
    rows = ask(proxy, with_memory(BY_SEX, "best"))
    (each,), (single,) = (
        map(standard_deviation, memory.derived.noises),
        map(standard_deviation, memory.derived.singles),
    )
    assert single < 0.9 * each  # the total is known better than the groups
    assert rows.errors[0][-1] == pytest.approx(single)
    assert summed.errors[0][0] == pytest.approx(each * 2**0.5)


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_known_of_columns_is_recorded() -> None:
    law = Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(25, 2), Fraction(1, 1000))
    measured = MeasuredColumns(("k1", "k2"), ("p",), (law,))
    for origin in (None, measured):
        table = (Noisy((("a", None), ("b", True)), ((1,), (-(2**70),)), origin),)
        assert decode_answer(encode_answer(table)) == table
