"""Columns that people randomised: estimates, their errors, and what is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial, reduce
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pytest

from dpsql.compiler.resolve.report_weights import variance_weights, weights
from dpsql.interfaces.plan_text import plan_text
from dpsql.mechanisms.randomized_response import exp_down, randomized, report, two_coins
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.local_reports import LocalMechanism, Randomized
from dpsql.model.vocabulary import Answer
from dpsql.preparation.explanation import Explanation
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request

STATUS, SCORE = ("open", "paid", "returned"), (1, 2, 5)
GRR = randomized(LocalMechanism.GRR, 3, Decimal(1))
OUE = randomized(LocalMechanism.OUE, 3, Decimal(1))
COINS = two_coins(2)
POLICY = """
[database]
engine = "duckdb"
path = "survey.duckdb"
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
expected_rows = 1500
[tables.people.columns]
id = {}
age = { bounds = [0, 100] }
town = { values = ["a", "b"] }
device = {}
status = { values = ["open", "paid", "returned"], randomized = { mechanism = "grr", epsilon = 1 } }
bits = { values = ["open", "paid", "returned"], randomized = { mechanism = "oue", epsilon = 1.0 } }
score = { values = [1, 2, 5], randomized = { mechanism = "grr", epsilon = 1.0 } }
[tables.survey]
access = "public"
[tables.survey.columns]
said = { values = ["yes", "no"], randomized = { mechanism = "two-coins" } }
status = { values = ["open", "paid", "returned"], randomized = { mechanism = "grr", epsilon = 1 } }
bits = { values = ["open", "paid", "returned"], randomized = { mechanism = "oue", epsilon = 1.0 } }
score = { values = [1, 2, 5], randomized = { mechanism = "grr", epsilon = 1.0 } }
[budgets.default]
epsilon = 100000.0
delta = 1e-6
query_epsilon = 1.0
max_query_epsilon = 1000.0
[analysts.ana]
budget = "default"
"""
PEOPLE = 1500


@cache
def rows(seed: int) -> list[tuple[Any, ...]]:
    """People with what they reported, drawn by the encoder of reports from a seeded generator."""
    take = np.random.default_rng(seed).bytes
    people = []
    for n in range(PEOPLE):
        status, score = n * 7 % 10 // 4, n % 5 // 2
        told = report(GRR, status, take), report(OUE, status, take), report(GRR, score, take)
        said = ("yes", "no")[int(report(COINS, int(n % 3 > 0), take))]
        people.append(
            (
                n,
                n % 90,
                "ab"[n % 4 == 0],
                "x",
                STATUS[int(told[0])],
                told[1],
                SCORE[int(told[2])],
                said,
            )
        )
    return people


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("survey")
    with duckdb.connect(str(folder / "survey.duckdb")) as connection:
        kinds = "id INTEGER PRIMARY KEY, age INTEGER, town VARCHAR, device VARCHAR, status VARCHAR,"
        kinds += " bits VARCHAR, score INTEGER, said VARCHAR"
        connection.execute(f"CREATE TABLE people ({kinds})")
        listed = ", ".join(map(repr, rows(1)))
        connection.execute(f"INSERT INTO people VALUES {listed}")
        connection.execute(
            "CREATE TABLE survey AS SELECT said, town, status, bits, score FROM people"
        )
    (folder / "dpsql.toml").write_text(POLICY, encoding="utf-8")
    with Proxy.open(str(folder / "dpsql.toml")) as opened:
        yield opened


def ask(proxy: Proxy, sql: str, epsilon: str | None = "900") -> Answer:
    return proxy.ask(request(sql, epsilon))


# --- what is estimated ---------------------------------------------------------------------------


def channel(law: Randomized) -> np.ndarray:
    """The probability of each report (column) of each truth (row), of a law that reports values."""
    square = np.full((law.values, law.values), float(law.q))
    np.fill_diagonal(square, float(law.p))
    return square


def oracle(laws: list[Randomized], counts: np.ndarray, amounts: np.ndarray) -> tuple[float, float]:
    """The estimate of Σ a(truth) and its variance, by the whole matrices: the textbook's way."""
    matrix = reduce(np.kron, map(channel, laws))
    truths = np.linalg.solve(matrix.T, counts)
    weight = np.linalg.solve(matrix, amounts)
    variance = truths @ (matrix @ weight**2 - amounts**2)
    return float(amounts @ truths), float(variance)


def counted(column: str, among: list[tuple[Any, ...]], *more: str) -> np.ndarray:
    places = {"status": (4, STATUS), "score": (6, SCORE), "said": (7, ("yes", "no"))}
    chosen = [places[name] for name in (column, *more)]
    cells = list(product(*(values for _, values in chosen)))
    told = [tuple(row[place] for place, _ in chosen) for row in among]
    return np.array([float(told.count(cell)) for cell in cells])


def agree(told: tuple[Any, ...], *expected: Any) -> None:
    assert told == expected


def one_of(values: int, place: int) -> np.ndarray:
    row: np.ndarray = np.eye(values)[place]
    return row


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("table", ["survey", "people"])
def test_estimates_and_their_errors_are_those_of_the_inverted_law(proxy: Proxy, table: str) -> None:
    """Exact and free of a public table; of a private one beside noise that is next to nothing."""
    people = rows(1)
    close = partial(pytest.approx, rel=2e-3, abs=0.02)
    answer = ask(
        proxy, f"SELECT status, COUNT(*) AS n FROM {table} GROUP BY status ORDER BY status"
    )
    for place, ((_, number), (_, error)) in enumerate(zip(answer.rows, answer.errors, strict=True)):
        estimate, variance = oracle([GRR], counted("status", people), one_of(3, place))
        agree((number, error), pytest.approx(estimate, abs=0.6), close(sqrt(variance)))
    sql = f"SELECT SUM(score) AS s, AVG(score) AS a, COUNT(*) AS n FROM {table}"
    (total, mean, count), errors = (*ask(proxy, sql).rows, ask(proxy, sql).errors[0])
    estimate, variance = oracle([GRR], counted("score", people), np.array(SCORE))
    agree((total, errors[0]), pytest.approx(estimate, abs=1), close(sqrt(variance)))
    agree((mean, errors[1]), close(estimate / PEOPLE), close(sqrt(variance) / PEOPLE))
    agree((count, errors[2]), pytest.approx(PEOPLE, abs=1), pytest.approx(0, abs=0.1))
    here = [row for row in people if row[2] == "a"]
    sql = f"SELECT COUNT(*) FROM {table} WHERE town = 'a' AND status <> 'open' AND score > 1"
    answer = ask(proxy, sql)
    amounts = np.kron([0.0, 1, 1], [0.0, 1, 1])
    estimate, variance = oracle([GRR, GRR], counted("status", here, "score"), amounts)
    assert answer.rows[0][0] == pytest.approx(estimate, abs=0.6)
    assert answer.errors[0][0] == close(sqrt(variance))
    sql = f"SELECT score, status, COUNT(*) FROM {table} GROUP BY 1, 2 ORDER BY 1, 2"
    for place, (row, (*_, error)) in enumerate(
        zip(ask(proxy, sql).rows, ask(proxy, sql).errors, strict=True)
    ):
        estimate, variance = oracle(
            [GRR, GRR], counted("score", people, "status"), one_of(9, place)
        )
        agree((row[2], error), pytest.approx(estimate, abs=0.6), close(sqrt(variance)))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("table", ["survey", "people"])
def test_bits_are_debiased_each(proxy: Proxy, table: str) -> None:
    people, p, q = rows(1), float(OUE.p), float(OUE.q)
    answer = ask(proxy, f"SELECT bits, COUNT(*) AS n FROM {table} GROUP BY bits ORDER BY bits")
    for place, ((value, number), (_, error)) in enumerate(
        zip(answer.rows, answer.errors, strict=True)
    ):
        bits = sum(row[5][place] == "1" for row in people)
        estimate = (bits - PEOPLE * q) / (p - q)
        assert (value, number) == (STATUS[place], pytest.approx(estimate, abs=0.6))
        assert error == pytest.approx(OUE.deviation(PEOPLE, estimate), rel=1e-2)
    sql = f"SELECT AVG(CASE bits WHEN 'open' THEN 1 WHEN 'paid' THEN 2 ELSE 3 END) FROM {table}"
    (mean,), (error,) = ask(proxy, sql).rows[0], ask(proxy, sql).errors[0]
    spread = sqrt(1 + 4 + 9) * sqrt(p * (1 - p) / PEOPLE) / (p - q)
    assert mean == pytest.approx(1.9, abs=3 * spread)
    assert error == pytest.approx(spread, rel=0.1)


def chances(law: Randomized, truth: int) -> list[tuple[tuple[int, ...], float]]:
    """Every report: which counts it is in, of bits all rows first; and its probability."""
    p, q = float(law.p), float(law.q)
    if not law.of_bits:
        return [((r,), p if r == truth else q) for r in range(law.values)]
    each = [(p if place == truth else q) for place in range(law.values)]
    told = product((0, 1), repeat=law.values)
    return [
        (
            (0, *(n for n, bit in enumerate(bits, 1) if bit)),
            float(np.prod([c if bit else 1 - c for c, bit in zip(each, bits, strict=True)])),
        )
        for bits in told
    ]


BITS = [
    randomized(m, k, Decimal(1)) for m, k in ((LocalMechanism.OUE, 3), (LocalMechanism.UNARY, 2))
]


@pytest.mark.parametrize("laws", [[GRR, BITS[0]], [*BITS], [BITS[1], GRR, BITS[0]], [GRR, COINS]])
def test_of_every_truth_weights_are_unbiased_over_all_reports(laws: list[Randomized]) -> None:
    """The estimate is a(truth) on average, and the variance that it is told to have what it has."""
    dice, shape = np.random.default_rng(5), [law.values for law in laws]
    along = np.broadcast_to(dice.normal(size=(shape[0], *[1] * (len(shape) - 1))), shape)
    texts = [place for place, law in enumerate(laws) if law.of_bits]
    sizes = [law.values + 1 for law in laws if law.of_bits]
    for one, other in ((a := dice.normal(size=shape), a), (a, along), (along, along)):
        every = weights(laws, one), weights(laws, other), variance_weights(laws, one, other)
        for truth in product(*map(range, shape)):
            means = np.zeros(4)
            for told in product(*(chances(law, v) for law, v in zip(laws, truth, strict=True))):
                cell = [places[0] for n, (places, _) in enumerate(told) if n not in texts]
                of_values = [law.values for law in laws if not law.of_bits]
                place = int(np.ravel_multi_index(cell, of_values)) if cell else 0
                counts = list(product(*(told[n][0] for n in texts)))
                at = [int(np.ravel_multi_index(c, sizes)) if c else 0 for c in counts]
                w, v, variance = (sum(parts[n][place] for n in at) for parts in every)
                means += np.prod([chance for _, chance in told]) * np.array([w, v, w * v, variance])
            a, b = one[truth], other[truth]
            assert means[:3] == pytest.approx([a, b, means[2]], abs=1e-9)
            assert means[3] == pytest.approx(means[2] - a * b, abs=1e-9)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("table", ["survey", "people"])
def test_bits_are_debiased_beside_another_column(proxy: Proxy, table: str) -> None:
    sql = f"SELECT bits, score, COUNT(*) AS n FROM {table} GROUP BY bits, score"
    answer = ask(proxy, sql)
    truths = Counter((n * 7 % 10 // 4, n % 5 // 2) for n in range(PEOPLE))
    assert len(answer.rows) == 9
    for (bits, score, number), (*_, error) in zip(answer.rows, answer.errors, strict=True):
        assert error is not None
        assert abs(number - truths[STATUS.index(bits), SCORE.index(score)]) < 4 * error
    sql = f"SELECT COUNT(*) FROM {table} WHERE bits <> 'open' AND score > 1"
    (number,), (error,) = ask(proxy, sql).rows[0], ask(proxy, sql).errors[0]
    assert error is not None
    true = sum(n * 7 % 10 // 4 > 0 and n % 5 // 2 > 0 for n in range(PEOPLE))
    assert abs(number - true) < 4 * error


@pytest.mark.full("measures neighbours or further data sets")
def test_noise_and_reports_add_up_to_the_error(proxy: Proxy) -> None:
    sql = "SELECT status, COUNT(*) FROM people WHERE age < 50 GROUP BY status"
    much, few = ask(proxy, sql, "0.1"), ask(proxy, sql, "900")
    plain = ask(proxy, "SELECT town, COUNT(*) FROM people WHERE age < 50 GROUP BY town", "0.1")
    central = plain.errors[0][1]
    assert central is not None
    weight = sqrt(sum(w**2 for w in oracle_weights(GRR, 0)))
    for here, there in zip(few.errors, much.errors, strict=True):
        assert here[1] is not None
        # The part of the reports is estimated from noisy counts: a little other each time.
        assert there[1] == pytest.approx(sqrt((central * weight) ** 2 + here[1] ** 2), rel=0.05)


def oracle_weights(law: Randomized, place: int) -> np.ndarray:
    return np.asarray(np.linalg.solve(channel(law), one_of(law.values, place)))


@pytest.mark.full("opens a proxy for each item")
def test_a_stated_error_is_the_error(proxy: Proxy) -> None:
    sql = "SELECT DP_STDDEV(COUNT(*)) AS e, COUNT(*) AS n FROM survey WHERE said = 'yes'"
    answer = ask(proxy, sql)
    assert answer.rows[0][0] == answer.errors[0][1]


def test_a_subquery_and_a_case_are_estimated_as_they_are_written(proxy: Proxy) -> None:
    one = "SELECT COUNT(*) AS n FROM survey WHERE score >= 2"
    other = "SELECT COUNT(*) FILTER (WHERE s) AS n FROM (SELECT score >= 2 AS s FROM survey) AS t"
    third = "SELECT SUM(CASE WHEN score >= 2 THEN 1 ELSE 0 END) AS n FROM survey"
    first, *others = (ask(proxy, sql) for sql in (one, other, third))
    assert all((a.rows, a.errors) == (first.rows, first.errors) for a in others)


MODEL = "OPTIONS (model_type = 'linear_reg', label = 'age', epsilon = 1)"
TWO = "(SELECT said FROM survey UNION ALL SELECT said FROM survey) AS t"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MIN(score) FROM people",
        "SELECT MAX(score) FROM survey",
        "SELECT MEDIAN(score) FROM people",
        "SELECT COUNT(DISTINCT status) FROM people",
        "SELECT STDDEV(score) FROM survey",
        "SELECT AVG(age) FROM people WHERE status = 'open'",
        "SELECT status, AVG(age) FROM people GROUP BY status",
        "SELECT COUNT(*) FROM people WHERE status = 'open' OR age > 3",
        "SELECT status, COUNT(*) FROM people GROUP BY ROLLUP (status)",
        "SELECT device, status, COUNT(*) FROM people GROUP BY 1, 2",
        "SELECT COUNT(*) FROM people JOIN survey ON people.status = survey.status",
        "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM survey WHERE said = 'yes')",
        "SELECT COUNT(*) FROM (SELECT * FROM survey WHERE said = 'yes' LIMIT 5) AS t",
        f"SELECT COUNT(*) FROM {TWO} WHERE said = 'yes'",
        f"CREATE MODEL m {MODEL} AS SELECT age, score FROM people",
        "CREATE SYNTHETIC TABLE s AS SELECT status, town FROM people OPTIONS (epsilon = 1)",
        "SELECT COUNT(*) FROM survey WHERE said = 'perhaps' GROUP BY said",
    ],
)
def test_what_has_no_rule_is_refused(proxy: Proxy, sql: str) -> None:
    before = proxy.vault.ledger.spent("default")
    with pytest.raises(Refused):
        ask(proxy, sql)
    assert proxy.vault.ledger.spent("default") == before


def test_other_columns_of_the_table_are_as_ever(proxy: Proxy) -> None:
    answer = ask(proxy, "SELECT town, COUNT(*) FROM survey GROUP BY town ORDER BY town")
    assert (list(answer.rows), answer.notices) == ([("a", 1125), ("b", 375)], ())
    assert ask(proxy, "SELECT said FROM survey LIMIT 1").rows[0][0] in ("yes", "no")


def test_where_nobody_reported_there_is_no_group(proxy: Proxy) -> None:
    sql = "SELECT town, said, COUNT(*) FROM survey WHERE town = 'c' GROUP BY town, said"
    assert ask(proxy, sql).rows == ()


def test_keys_alone_are_the_listed_values_that_are_left(proxy: Proxy) -> None:
    sql = "SELECT status FROM people WHERE status <> 'paid' GROUP BY status ORDER BY status"
    assert list(ask(proxy, sql, "1").rows) == [("open",), ("returned",)]
    listed = ask(proxy, "SELECT DISTINCT status FROM people ORDER BY status", "1")
    assert [value for (value,) in listed.rows] == list(STATUS)


def test_estimates_of_counts_may_be_below_zero_and_are_not_asked_otherwise(proxy: Proxy) -> None:
    sql = "SELECT status, COUNT(*) FROM people GROUP BY status"
    with pytest.raises(Refused, match="below zero"):
        ask(proxy, f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (nonnegative = TRUE) {sql[7:]}")


def test_explain_prints_both_errors(proxy: Proxy) -> None:
    sql = "SELECT status, COUNT(*) FROM people WHERE age < 60 GROUP BY status"
    answer = ask(proxy, f"EXPLAIN PRIVACY {sql}", "1")
    explanation = cast("Explanation", answer.explanation)
    text = plan_text(explanation, None)
    reports = f"± {1.959964 * GRR.deviation(PEOPLE):,.3g}"
    assert "people.status is what people reported (grr, ε = 1)" in text
    assert reports in " ".join(text.split())
    noise = explanation.blocks[0].releases[0].margin * sqrt(sum(oracle_weights(GRR, 0) ** 2))
    assert f"the noise beside them by ± {noise:,.3g}" in " ".join(text.split())


# --- simulation ----------------------------------------------------------------------------------


REPEATS, ROWS = 20_000, 4_000
LN3, LN9 = "1.0986122886681098", "2.1972245773362196"
LAWS = {
    "coins": COINS,
    "grr": randomized(LocalMechanism.GRR, 5, Decimal(LN9)),
    "oue": randomized(LocalMechanism.OUE, 5, Decimal(LN9)),
    "unary": randomized(LocalMechanism.UNARY, 5, Decimal(LN9)),
}


def drawn(law: Randomized, truths: np.ndarray, repeats: int) -> list[np.ndarray]:
    """Counts of reports in many surveys, in the order of the weights: a row for each survey."""
    random = np.random.default_rng(7)
    if not law.of_bits:
        told = [
            random.multinomial(n, law_of, repeats)
            for n, law_of in zip(truths, channel(law), strict=True)
        ]
        return [np.sum(told, axis=0)]
    rows_in_all = int(truths.sum())
    each = [
        random.binomial(n, float(law.p), repeats)
        + random.binomial(rows_in_all - n, float(law.q), repeats)
        for n in truths
    ]
    return [np.full((repeats, 1), rows_in_all), *(bits[:, None] for bits in each)]


def estimates(counts: list[np.ndarray], parts: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.asarray(sum(c @ w for c, w in zip(counts, parts, strict=True)))


@pytest.mark.parametrize("name", LAWS)
def test_variances_and_intervals_are_as_stated(name: str) -> None:
    """Of the count of a value, and of the sum of numbers: within 2 %, and 95 % covered."""
    law = LAWS[name]
    truths = np.array([ROWS // 2, *[ROWS // 2 // (law.values - 1)] * (law.values - 1)])
    counts = drawn(law, truths, REPEATS)
    for amounts in (one_of(law.values, 0), np.arange(law.values) + 1.0):
        found = estimates(counts, weights([law], amounts))
        stated = estimates(counts, variance_weights([law], amounts, amounts))
        assert found.mean() == pytest.approx(truths @ amounts, abs=4 * found.std() / sqrt(REPEATS))
        assert found.var() == pytest.approx(stated.mean(), rel=0.02 + 2 * sqrt(2 / REPEATS))
        if amounts.sum() == 1:
            assert found.var() == pytest.approx(law.deviation(ROWS, truths[0]) ** 2, rel=0.04)
        far = np.abs(found - truths @ amounts) > 1.959964 * np.sqrt(np.maximum(stated, 0))
        assert 0.94 <= 1 - far.mean() <= 0.96


def test_wrong_twins_are_found() -> None:
    """p and q swapped; an interval of the noise alone, without what reports err."""
    law = LAWS["grr"]
    truths = np.array([3000, 250, 250, 250, 250])
    counts = drawn(law, truths, 500)
    swapped = Randomized(law.mechanism, law.values, law.q, law.p)
    found = estimates(counts, weights([swapped], one_of(5, 0)))
    assert abs(found.mean() - 3000) > 100
    right = estimates(counts, weights([law], one_of(5, 0)))
    noise = np.random.default_rng(1).normal(0, 3, 500)
    covered = np.abs(right + noise - 3000) <= 1.959964 * 3
    assert covered.mean() < 0.5


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_audit_never_finds_more_than_epsilon(law: Randomized) -> None:
    """The greatest ratio of any report's probabilities, from the integers that are drawn below."""
    if law.of_bits:
        p, q = law.p, law.q
        ratio = max(p, 1 - q) / min(q, 1 - p) * min(p, 1 - q) / max(q, 1 - p)
        ratio = max(ratio, p * (1 - q) / (q * (1 - p)))
    else:
        ratio = law.p / law.q
    assert ratio == law.odds <= (3 if law is COINS else exp_down(Decimal(LN9)))
    assert float(law.odds) == pytest.approx(3 if law is COINS else 9, rel=1e-8)


def words(*numbers: int) -> Callable[[int], bytes]:
    stream = iter(numbers)
    return lambda n: next(stream).to_bytes(n, "big")


@pytest.mark.parametrize("truth", range(3))
def test_the_encoder_has_exactly_the_law(truth: int) -> None:
    """Every residue once: each report as often as its probability says."""
    law = Randomized(LocalMechanism.GRR, 3, Fraction(5, 9), Fraction(2, 9))
    told = [report(law, truth, words(n)) for n in range(9)]
    assert [Fraction(told.count(n), 9) for n in range(3)] == [
        law.p if n == truth else law.q for n in range(3)
    ]
    bits = Randomized(LocalMechanism.UNARY, 2, Fraction(3, 4), Fraction(1, 4))
    here = [report(bits, 0, words(a, b)) for a in range(4) for b in range(4)]
    assert [here.count(text) for text in ("10", "11", "00", "01")] == [9, 3, 3, 1]
    again = report(law, truth, words(2**32 - 1, 0))  # the last, incomplete run is drawn again
    assert again == truth


# --- the policy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "why"),
    [
        ('{ mechanism = "grr" }', "epsilon is missing"),
        ('{ mechanism = "coin", epsilon = 1.0 }', "mechanism is 'coin'"),
        ('{ mechanism = "grr", epsilon = 0 }', "ε is in"),
        ('{ mechanism = "grr", p = 0.5, q = 0.3 }', "p + 2 q is not 1"),
        ('{ mechanism = "unary", p = 0.2, q = 0.3 }', "0 < q < p < 1"),
        ('{ mechanism = "unary", p = 0.75, q = 0.25, epsilon = 1.0 }', "ε = 2.19722"),
        ('{ mechanism = "oue", epsilon = 1.0 }', "bits are a text"),
    ],
)
def test_a_law_that_is_none_is_no_policy(proxy: Proxy, tmp_path: Path, law: str, why: str) -> None:
    folder = Path(proxy.policy.path).parent
    old = 'score = { values = [1, 2, 5], randomized = { mechanism = "grr", epsilon = 1.0 } }'
    listed = '["1", "2", "5"]' if "bits" in why or "unary" in law else "[1, 2, 5]"
    text = POLICY.replace(old, f"score = {{ values = {listed}, randomized = {law} }}", 1)
    text = text.replace("survey.duckdb", str(folder / "survey.duckdb"))
    path = tmp_path / "dpsql.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError, match=re.escape(why)):
        Proxy.open(str(path))


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("columns", ['["id", "age"]', '["id", "age", "status"]'])
def test_a_role_has_no_rows_by_what_they_report(tmp_path: Path, columns: str) -> None:
    """Whether the role grants the reports or not: their rows are not those of the true answers."""
    role = f'[roles.r]\nanalysts = ["ana"]\n[roles.r.tables.people]\ncolumns = {columns}\nrows = '
    path = tmp_path / "dpsql.toml"
    with duckdb.connect(str(tmp_path / "survey.duckdb")) as connection:
        connection.execute("CREATE TABLE survey (said TEXT, status TEXT, bits TEXT, score INT)")
        more = "1 AS id, 5 AS age, 'a' AS town, 'x' AS device"
        connection.execute(f"CREATE TABLE people AS SELECT {more}, * EXCLUDE said FROM survey")
    path.write_text(f'{POLICY}{role}"age > 3"\n', "utf-8")
    Proxy.open(str(path)).close()
    path.write_text(f"{POLICY}{role}\"status = 'paid'\"\n", "utf-8")
    with pytest.raises(PolicyError, match="rows reads status, which people randomised"):
        Proxy.open(str(path))
