"""Private bounds of what a person contributes: polls, the clips by what they find, the price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from math import isqrt
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dpsql import mechanisms
from dpsql.compiler.plan.measurement_kinds import MeanVote, RangeVote, RatioVote, ScaledTotal, Vote
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm
from dpsql.model.notices import Scaled
from dpsql.model.vocabulary import Answer, Neighbours, Norm, Policy
from dpsql.preparation.contribution_bounds import centre, placeholder
from dpsql.preparation.prepare import KnownSteps, prepare
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit, world
from grammar_tests.bound import over
from grammar_tests.draws import ENTROPY
from grammar_tests.laws import (
    BUDGET,
    PlainEngine,
    compiled,
    found,
    integers,
    noiseless,
    parsed,
    violation,
    without_unit,
)

BY_MONTH = "SELECT EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM logins GROUP BY m"
SIGNED = (
    "SELECT EXTRACT(month FROM day) AS m, SUM(EXTRACT(day FROM day) - 15) AS s"
    " FROM logins GROUP BY m"
)
TOTAL = "SELECT COUNT(*) AS n FROM logins"
AVERAGE = "SELECT AVG(EXTRACT(day FROM day)) AS a FROM logins"
VALUES = (
    "SELECT EXTRACT(month FROM day) AS m, COUNT(DISTINCT login_id + 0) AS n FROM logins GROUP BY m"
)
SUMS = (
    "SELECT m, SUM(n) AS s FROM (SELECT customer_id, EXTRACT(month FROM day) AS m, COUNT(*) AS n"
    " FROM logins GROUP BY customer_id, m) AS t GROUP BY m"
)
BY_DAY = "SELECT day, COUNT(*) AS n FROM logins WHERE day < DATE '2024-02-20' GROUP BY day"
"""Fifty groups: units vote on both norms."""
MEDIAN = "SELECT MEDIAN(EXTRACT(day FROM day)) AS q FROM logins"


RATIO = "SELECT SUM(EXTRACT(day FROM day)) / COUNT(*) AS a FROM logins"
EACH = "(SELECT customer_id, COUNT(*) AS n FROM logins GROUP BY customer_id) AS each"
"""One number of each person, which nothing limits."""


def crowd(units: int, seed: int = 1, most: int = 40) -> world.Tables:
    """People who come more or less often, on days of a year of their own."""
    random = Random(seed)  # noqa: S311
    logins: list[tuple[Any, ...]] = []
    for unit in range(1, units + 1):
        for _ in range(1 + int(random.expovariate(1) * most / 4)):
            day = date(2024, 1, 1) + timedelta(days=random.randrange(366))
            logins.append((len(logins) + 1, unit, day))
    customers = [world.customer(n) for n in range(1, units + 1)]
    return {**world.empty(), "customers": customers, "logins": logins}


def shop(tables: world.Tables) -> tuple[Policy, PlainEngine]:
    policy, _ = over(tables, constraints=True)
    return policy, PlainEngine(world.build(tables, constraints=False))


@cache
def eight() -> tuple[Policy, PlainEngine]:
    """A shop of eight people; what a test changes of it is rolled back."""
    return shop(crowd(8))


def charged(answer: Answer) -> int:
    assert answer.receipt is not None
    return answer.receipt.charged.amount


def opened(folder: Path, *changes: tuple[str, str]) -> Proxy:
    """People enough to be seen, and a proxy over them whose noise is the same in every run."""
    proxy = Proxy.open(str(proxy_kit.shop(folder, *changes, tables=crowd(400, most=8))))
    proxy.vault.sampler = partial(mechanisms.sample, entropy=ENTROPY)
    return proxy


# --- clips hold, whatever was found --------------------------------------------------------------


def vectors(sql: str, norm: Fraction, accountant: str) -> Iterator[tuple[Prepared, list[int]]]:
    """What each person alone contributes to all groups, where norms were found to be this."""
    policy, engine = eight()
    plan = compiled(sql, policy, engine, budget=replace(BUDGET, accountant=accountant), norm=norm)
    for unit in range(1, 9):
        with without_unit(engine.connection, world.deletions(unit, others=True)):
            (counted,) = integers(plan, engine)
        yield plan, [parts[0] for parts in counted.values()]


def size(norm: Norm, vector: list[int]) -> int:
    """The norm of a vector, rounded up."""
    squares = sum(x * x for x in vector)
    return sum(map(abs, vector)) if norm is Norm.L1 else isqrt(max(0, squares - 1)) + bool(squares)


MORE = pytest.mark.full("further norms and accountants")


@pytest.mark.parametrize("accountant", ["zcdp", "pure", pytest.param("approximate", marks=MORE)])
@pytest.mark.parametrize("sql", [BY_MONTH, SIGNED, SUMS])
@pytest.mark.parametrize(
    "norm", [Fraction(1, 3), pytest.param(Fraction(5, 2), marks=MORE), Fraction(9), Fraction(10**4)]
)
def test_no_person_contributes_more_than_the_norm(
    sql: str, norm: Fraction, accountant: str
) -> None:
    cut, loose = 0, 0
    for prepared, vector in vectors(sql, norm, accountant):
        (release,) = prepared.blocks[0].releases
        part = release.query
        assert isinstance(part, ScaledTotal)
        reached = size(part.norm, vector)
        assert reached <= part.bound == release.sensitivity.linf
        assert release.sensitivity.norm is part.norm
        cut += reached > 0.98 * part.bound
        loose += reached <= 0.98 * part.bound
    # The bound is reached where it cuts, and nothing is cut where it does not.
    assert (cut == 0) == (norm == 10**4)
    assert cut + loose == 8


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate"])
@pytest.mark.parametrize("instead", [False, True])
@pytest.mark.parametrize("notion", list(Neighbours))
def test_over_many_groups_either_norm_may_be_taken(
    accountant: str,
    instead: bool,  # noqa: FBT001
    notion: Neighbours,
) -> None:
    """Whatever the votes were said to find: nobody moves more than the sensitivity of the norm."""
    policy, engine = eight()
    policy = replace(policy, unit=replace(policy.unit, neighbours=notion))
    budget = replace(BUDGET, accountant=accountant, delta=Decimal("0.5"))
    public = engine.public
    asked = parsed(BY_DAY, "duckdb"), policy, budget, Fraction(1), public, public.evaluate
    polls = prepare(*asked).polls
    votes = [poll.block.vote for poll in polls]
    assert all(isinstance(vote, Vote) and vote.parts == 1 for vote in votes)
    assert [vote.norm for vote in votes if isinstance(vote, Vote)] == (
        [Norm.L1] if accountant == "pure" else [Norm.L2, Norm.L1]
    )
    sizes = polls[-1].key
    assert [poll.beside for poll in polls] == [sizes, None][-len(polls) :]
    known = {
        p.key: replace(found(p, Fraction(1, 2)), instead=instead and p.key == sizes) for p in polls
    }
    plan = prepare(*asked, KnownSteps(known))
    (release,) = plan.blocks[0].releases
    part = release.query
    assert isinstance(part, ScaledTotal)
    assert part.norm is (Norm.L1 if instead or accountant == "pure" else Norm.L2)
    here, cut = integers(plan, engine), 0
    for unit in range(1, 9):
        with without_unit(engine.connection, world.deletions(unit)):
            there = integers(plan, engine)
        assert violation(plan, here, there) is None
        moved = [p[0] - there[0].get(k, (0,))[0] for k, p in here[0].items()]
        assert size(part.norm, moved) <= part.bound
        cut += size(part.norm, moved) > 0.98 * part.bound
    assert cut


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("accountant", ["zcdp", "approximate"])
def test_of_both_norms_the_one_that_errs_less_is_taken(accountant: str, tmp_path: Path) -> None:
    """Of about three days each a person has few: Laplace noise for them errs less by far."""
    changes = [
        ('accountant = "zcdp"', f'accountant = "{accountant}"'),
        ("delta = 1e-3", "delta = 0.5"),
    ]
    with opened(tmp_path, *changes) as proxy:
        answer = proxy.ask(proxy_kit.request(BY_DAY, "4"))
        plan = proxy.explain(proxy_kit.request(BY_DAY, "4"))
    assert answer.receipt is not None
    (release,) = plan.blocks[0].releases
    assert f"{'L2' if accountant == 'zcdp' else 'L1'} norm of each unit" in str(release)


@pytest.mark.parametrize("damage", [False, True])
def test_no_person_adds_more_than_the_bound_of_its_one_row(damage: bool) -> None:  # noqa: FBT001
    policy, engine = eight()
    plan = compiled(f"SELECT SUM(n) AS s FROM {EACH}", policy, engine, norm=Fraction(3))
    assert plan.blocks[0].releases[0].sensitivity.linf == 3
    if damage:
        plan = damaged(plan, lambda sql: sql.replace("> 3 THEN 3", "> 300 THEN 300"))
    here, beyond = integers(plan, engine), 0
    for unit in range(1, 9):
        with without_unit(engine.connection, world.deletions(unit)):
            beyond += violation(plan, here, integers(plan, engine)) is not None
    assert bool(beyond) is damage


PAIRS = (
    "SELECT EXTRACT(month FROM day) AS m, COUNT(DISTINCT login_id // 2) AS n FROM logins GROUP BY m"
)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("most", [1, 2, 10**4])
def test_no_person_adds_more_different_values_than_count(most: int) -> None:
    """In all groups together, and as many where nothing is cut."""
    for prepared, vector in vectors(PAIRS, Fraction(most), "pure"):
        (release,) = prepared.blocks[0].releases
        assert (release.sensitivity.norm, release.sensitivity.l1) == (Norm.L1, most)
        assert sum(vector) <= most
        assert (sum(vector) == most) == (most < 10**4)


PRIVATE_PAIRS = "SELECT login_id % 5000 AS g, COUNT(DISTINCT day) AS n FROM logins GROUP BY g"


@pytest.mark.parametrize(("sql", "accountant"), [(PAIRS, "pure"), (PRIVATE_PAIRS, "zcdp")])
@pytest.mark.parametrize("damage", [False, True])
def test_values_that_count_in_every_group_are_seen(
    sql: str,
    accountant: str,
    damage: bool,  # noqa: FBT001
) -> None:
    policy, engine = eight()
    budget = replace(BUDGET, accountant=accountant)
    plan = compiled(sql, policy, engine, budget=budget, norm=Fraction(3))
    if damage:
        plan = damaged(
            plan, lambda sql: sql.replace("OVER (PARTITION BY u ", "OVER (PARTITION BY u, k0 ")
        )
    here, beyond = integers(plan, engine), 0
    for unit in range(1, 9):
        with without_unit(engine.connection, world.deletions(unit)):
            beyond += violation(plan, here, integers(plan, engine)) is not None
    assert bool(beyond) is damage


def test_what_is_within_the_norm_stays_as_it_is() -> None:
    policy, engine = eight()
    (counted,) = integers(compiled(BY_MONTH, policy, engine, norm=Fraction(10**4)), engine)
    plain = engine.rows("SELECT EXTRACT(month FROM day), COUNT(*) FROM logins GROUP BY 1")
    assert {key: parts[0] for key, parts in counted.items()} == {
        (month,): 10**4 * n for month, n in plain
    }


def damaged(plan: Prepared, change: Callable[[str], str]) -> Prepared:
    (block,) = plan.rewritten.blocks
    assert change(block.sql) != block.sql
    other = replace(block, sql=change(block.sql))
    return replace(plan, rewritten=replace(plan.rewritten, blocks=(other,)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("::HUGEINT + 1)", "::HUGEINT - 2000)"),  # a norm that is rounded down
        (" GROUP BY u) AS norms USING (u)", " GROUP BY u, k0) AS norms USING (u)"),
        ("abs((p0 * 10000))::HUGEINT *", "2 * abs((p0 * 10000))::HUGEINT *"),
    ],
)
def test_a_wrong_scale_is_seen(old: str, new: str) -> None:
    policy, engine = eight()
    plan = damaged(
        compiled(BY_MONTH, policy, engine, norm=Fraction(5, 2)), lambda sql: sql.replace(old, new)
    )
    beyond = 0
    for unit in range(1, 9):
        with without_unit(engine.connection, world.deletions(unit, others=True)):
            (counted,) = integers(plan, engine)
        beyond += size(Norm.L2, [parts[0] for parts in counted.values()]) > 25_000
    assert beyond


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("most", [1, 10**3, 2**31, 2**53, 2**62 - 1])
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_no_value_makes_a_statement_fail(most: int, accountant: str) -> None:
    """Rows at both ends of the widest bounds, polled and scaled."""
    tables = {**world.empty(), "customers": [world.customer(1)]}
    tables["events"] = [(n, 1, "phone", (-1) ** n * most) for n in range(1, 65)]
    policy, engine = shop(tables)
    unlimited = [
        replace(
            table,
            max_rows_per_group=None,
            max_groups_per_unit=None,
            columns=tuple(
                replace(c, bounds=(-most, most)) if c.name == "duration" else c
                for c in table.columns
            ),
        )
        if table.name == "events"
        else table
        for table in policy.tables
    ]
    policy = replace(policy, tables=tuple(unlimited))
    budget = replace(BUDGET, accountant=accountant)
    sql = "SELECT event_id % 8 AS g, SUM(duration) AS s FROM events GROUP BY g"
    for norm in (Fraction(1, 7), Fraction(most), None):
        plan = compiled(sql, policy, engine, budget=budget, norm=norm)
        assert integers(plan, engine)
    polls = compiled(sql, policy, engine, budget=budget).polls
    (counted,) = integers(poll_of(sql, policy, engine, accountant), engine)
    assert [poll.block.vote is not None for poll in polls] == [True]
    assert sum(parts[0] for parts in counted.values()) == 1


# --- one vote each -------------------------------------------------------------------------------


def poll_of(
    sql: str, policy: Policy, engine: PlainEngine, accountant: str = "zcdp", *, second: bool = False
) -> Prepared:
    """The poll that a query asks for first, or the one behind a centre that was found."""
    budget = replace(BUDGET, accountant=accountant)
    public = engine.public
    asked = parsed(sql, "duckdb"), policy, budget, Fraction(1), public, public.evaluate
    norms: dict[str, FoundNorm] = {}
    polls = prepare(*asked).polls
    if second:
        norms = {poll.key: placeholder(poll) for poll in polls}
        polls = prepare(*asked, KnownSteps(norms)).polls
    return prepare(*asked, KnownSteps(norms, tuple(poll.key for poll in polls)))


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("sql", [TOTAL, BY_MONTH, SIGNED, VALUES, MEDIAN, AVERAGE, RATIO])
@pytest.mark.parametrize("second", [False, True])
def test_a_person_has_one_vote(sql: str, second: bool) -> None:  # noqa: FBT001
    if second and sql not in (AVERAGE, RATIO):
        pytest.skip("it has one stage")
    policy, engine = shop(crowd(6))
    plan = poll_of(sql, policy, engine, second=second)
    assert len(plan.blocks) == (2 if second else 1)
    here = integers(plan, engine)
    assert all(sum(parts[0] for parts in block.values()) == 6 for block in here)
    for release in (release for block in plan.blocks for release in block.releases):
        assert (release.sensitivity.l0, release.sensitivity.linf) == (1, 1)
    for unit in range(1, 7):
        with without_unit(engine.connection, world.deletions(unit)):
            there = integers(plan, engine)
        for mine, others in zip(here, there, strict=True):
            moved = [mine.get(key, (0,))[0] - others.get(key, (0,))[0] for key in mine | others]
            assert max(moved) == sum(map(abs, moved)) == 1


@pytest.mark.parametrize(
    ("shown", "over"),
    [
        ("SUM(v) / COUNT(*)", True),
        ("SUM(v) / NULLIF(COUNT(v), 0)", True),
        ("1.0 * SUM(v) / COUNT(*), COUNT(*)", True),
        ("CAST(SUM(v) AS DOUBLE) / SUM(w)", True),
        ("COUNT(*) FILTER (WHERE v < 9) * 100 / COUNT(*)", True),
        ("SUM(v) / COUNT(*), SUM(v)", False),
        ("SUM(v) / COUNT(*), SUM(v) / SUM(w)", False),
        ("SUM(v) / (COUNT(*) + 1)", False),
        ("SUM(v) / SUM(w - 9)", False),
        ("SUM(v) / COUNT(DISTINCT w)", False),
        ("SUM(v) / COUNT(DISTINCT customer_id)", False),
        ("(SUM(v) + 1) / COUNT(*)", False),
    ],
)
def test_what_is_read_only_over_another_sum_is_measured_from_their_ratio(
    shown: str,
    over: bool,  # noqa: FBT001
) -> None:
    policy, engine = shop(crowd(2))
    rows = "SELECT customer_id, EXTRACT(day FROM day) AS v, EXTRACT(month FROM day) AS w"
    plan = compiled(f"SELECT {shown} FROM ({rows} FROM logins) AS r", policy, engine)
    assert any(isinstance(poll.block.vote, RatioVote) for poll in plan.polls) is over


@pytest.mark.full("measures neighbours or further data sets")
def test_who_has_nothing_of_the_sum_above_votes_for_a_ratio_of_nothing() -> None:
    """A sum over no rows is NULL, and no comparison with it is true."""
    policy, engine = shop(crowd(6))
    sql = RATIO.replace(") /", ") FILTER (WHERE login_id % 7 = 8) /")
    plan = poll_of(sql, policy, engine)
    vote = plan.blocks[0].block.vote
    assert isinstance(vote, RatioVote)
    assert vote.edges[0] > 0
    assert integers(plan, engine)[0] == {(0,): (6,)}


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", [RATIO, f"{RATIO} HAVING {RATIO[7:44]} > 1"])
def test_an_answer_about_a_ratio_is_the_plain_one(sql: str) -> None:
    """Wherever the ratio was found to be; another one than rows are measured from is seen."""
    policy, engine = eight()
    found = compiled(sql, policy, engine, norm=Fraction(10**6))
    ((plain,),) = engine.rows(sql)
    ((ours,),), _ = noiseless(found, engine)
    assert ours == pytest.approx(plain, rel=1e-6)
    other = compiled(sql, policy, engine).rewritten.blocks
    ((wrong,),), _ = noiseless(
        replace(found, rewritten=replace(found.rewritten, blocks=other)), engine
    )
    assert wrong != pytest.approx(plain, rel=1e-2)


@pytest.mark.full("draws random questions or values")
def test_a_person_votes_once_for_its_largest_row() -> None:
    policy, engine = shop(crowd(6))
    by_month = EACH.replace("AS n FROM", "AS n, EXTRACT(month FROM day) AS m FROM").replace(
        "GROUP BY customer_id", "GROUP BY customer_id, m"
    )
    sql = f"SELECT QUANTILE_DISC(n, 0.9) AS q FROM {by_month}"
    plan = poll_of(sql, policy, engine)
    (place,) = (n for n, b in enumerate(plan.blocks) if isinstance(b.block.vote, RangeVote))
    here = integers(plan, engine)[place]
    plain = engine.rows(
        f"SELECT greatest(0, ceil(log2(MAX(n)))) FROM {by_month} GROUP BY customer_id"
    )
    assert {key: parts[0] for key, parts in here.items()} == Counter(
        (int(octave),) for (octave,) in plain
    )
    for unit in range(1, 7):
        with without_unit(engine.connection, world.deletions(unit)):
            there = integers(plan, engine)[place]
        assert sum(abs(here[key][0] - there.get(key, (0,))[0]) for key in here) == 1


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
@pytest.mark.parametrize(
    "sql", [f"SELECT AVG(n) AS a FROM {EACH}", f"SELECT MEDIAN(n) AS a FROM {EACH}"]
)
def test_what_nothing_limits_is_found(sql: str, accountant: str, tmp_path: Path) -> None:
    of_pure = 'delta = 0\naccountant = "pure"'
    pure = [('delta = 1e-3\naccountant = "zcdp"', of_pure), ("query_delta = 1e-6\n", "")]
    with opened(tmp_path, *(pure if accountant == "pure" else [])) as proxy:
        answer = proxy.ask(proxy_kit.request(sql, "4"))
    ((value,),) = answer.rows
    counts = sorted(Counter(row[1] for row in crowd(400, most=8)["logins"]).values())
    truth = sum(counts) / 400 if "AVG" in sql else counts[200]
    assert abs(value - truth) < truth  # the widest bound errs by thousands


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_promised_is_charged_whatever_bounds_are_found(tmp_path: Path) -> None:
    """Noise of another bound is rounded otherwise, and what it loses by some billionths."""
    with opened(tmp_path) as proxy:
        for sql in ("SELECT COUNT(*) FROM logins", RATIO, f"SELECT AVG(n) AS a FROM {EACH}"):
            request = proxy_kit.request(sql, "0.77")
            promised = proxy.explain(request).charge
            assert charged(proxy.ask(request)) == promised.amount


@pytest.mark.full("takes half a second and more")
def test_keys_are_found_beside_polls_that_have_no_delta(tmp_path: Path) -> None:
    changes = ('accountant = "zcdp"', 'accountant = "approximate"')
    by_city = "SELECT city, COUNT(*) AS n FROM logins JOIN customers USING (customer_id) GROUP BY 1"
    with opened(tmp_path, changes) as proxy:
        price = proxy.explain(proxy_kit.request(by_city, "4")).charge
        answer = proxy.ask(proxy_kit.request(by_city, "4"))
        assert {city for city, _ in answer.rows} == {*world.CITIES}
        assert answer.receipt is not None
        assert answer.receipt.charged == price
        assert price.delta == 10**12  # 1e-6, once


def test_one_place_that_seems_to_hold_somebody_moves_no_centre() -> None:
    """The mean of all places is the wrong twin: it is far beyond anything that anybody has."""
    places = [(900, (8, 12)), (60, (2**29, 2**30))]
    assert 8 <= centre(places) <= 16
    assert sum(n * (low + high) // 2 for n, (low, high) in places) // 960 > 2**24


VISITS = (
    "(SELECT customer_id, login_id // 3 AS visit, COUNT(*) AS n FROM logins"
    " GROUP BY customer_id, visit) AS v"
)


@pytest.mark.parametrize(
    ("sql", "of_sums"), [(MEDIAN, False), (f"SELECT MEDIAN(n) AS q FROM {VISITS}", True)]
)
def test_ranks_of_sums_weigh_more_of_what_is_cut(sql: str, of_sums: bool) -> None:  # noqa: FBT001
    """Where the rows that choices keep are asked for: a unit's sums depend on how many it has."""
    policy, engine = shop(crowd(6))
    polls = compiled(sql, policy, engine).polls
    assert [p.of_sums for p in polls if isinstance(p.block.vote, Vote)] == [of_sums]


def test_means_are_told_apart_twice_in_an_octave() -> None:
    policy, engine = shop(crowd(2))
    (poll,) = compiled(f"SELECT AVG(n) AS a FROM {EACH}", policy, engine).polls
    assert isinstance(poll.block.vote, MeanVote)
    above = [edge for edge in poll.block.vote.edges if 2 <= edge < 2**16]
    ratios = {Fraction(b, a) for a, b in pairwise(above)}
    assert ratios == {Fraction(3, 2), Fraction(4, 3)}


@pytest.mark.full("measures neighbours or further data sets")
def test_polls_that_are_held_together_have_votes_of_their_own() -> None:
    """Both count the same people: nothing makes their counts agree."""
    policy, engine = shop(crowd(40))
    both = BY_MONTH.replace(" AS n", " AS n, SUM(EXTRACT(day FROM day)) AS s")
    plan = poll_of(both, policy, engine)
    rows, _ = noiseless(plan, engine)
    votes = [{what: n for number, what, n in rows if number == place and n} for place in (0, 1)]
    alone, _ = noiseless(poll_of(BY_MONTH, policy, engine), engine)
    assert votes[0] == {what: n for _, what, n in alone if n}
    assert sum(votes[1].values()) == sum(votes[0].values()) == 40
    assert votes[0] != votes[1]


def test_votes_are_for_the_octave_of_the_norm() -> None:
    policy, engine = shop(crowd(40))
    public = engine.public
    asked = parsed(BY_MONTH, "duckdb"), policy, BUDGET, Fraction(1), public, public.evaluate
    (poll,) = prepare(*asked).polls
    vote = poll.block.vote
    assert isinstance(vote, Vote)
    assert vote.norm is Norm.L2
    (counted,) = integers(prepare(*asked, KnownSteps(polls=(poll.key,))), engine)
    plain = engine.rows(
        "SELECT SUM(n * n) FROM (SELECT customer_id, COUNT(*) AS n FROM logins"
        " GROUP BY customer_id, EXTRACT(month FROM day)) GROUP BY customer_id"
    )
    expected: dict[Any, int] = {}
    for (squares,) in plain:
        norm = isqrt(int(squares) * 10**8 - 1) + 1
        octave = (norm - 1).bit_length()
        expected[octave,] = expected.get((octave,), 0) + 1
    assert {key: parts[0] for key, parts in counted.items()} == expected


WHAT = {
    TOTAL: "rows",
    SIGNED: "values",
    VALUES: "different values",
    AVERAGE: "rows, differences from about the mean",
    AVERAGE.replace("AVG", "VAR_POP"): "rows, squares and products",
    RATIO: "rows, differences from about the ratio",
    MEDIAN: "rows",
}


LINE = (
    "SELECT {} FROM (SELECT customer_id, EXTRACT(day FROM day) AS y, login_id % 9 AS x"
    " FROM logins) AS t"
)


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
@pytest.mark.parametrize("by", ["", " GROUP BY y % 3"])
def test_what_differences_add_follows_from_rows_and_squares(by: str, accountant: str) -> None:
    """By a bound that no unit exceeds, unless a mean is shown that errs as much as they do."""
    policy, engine = shop(crowd(4))
    budget = replace(BUDGET, accountant=accountant)
    votes = {"VAR_POP(y)": 2, "VAR_POP(y), AVG(y)": 3, "CORR(y, x)": 3, "COVAR_POP(y, x)": 4}
    for shown, number in votes.items():
        poll = poll_of(LINE.format(shown) + by, policy, engine, accountant, second=True)
        assert len(poll.blocks) == number
    asked = LINE.format("CORR(y, x)") + by, policy, engine
    wide, wider, narrow = (
        compiled(*asked, budget=budget, norm=Fraction(norm)) for norm in (10**6, 10**7, 9)
    )
    # What cuts nothing leads to what cuts nothing.
    assert integers(wide, engine) == integers(wider, engine)
    here = integers(narrow, engine)
    for unit in range(1, 5):
        with without_unit(engine.connection, world.deletions(unit)):
            assert violation(narrow, here, integers(narrow, engine)) is None


@pytest.mark.parametrize("sql", WHAT)
def test_a_bound_says_of_what_it_is(sql: str) -> None:
    policy, engine = eight()
    plan = compiled(sql, policy, engine, norm=Fraction(9))
    told = [notice for notice in plan.notices if isinstance(notice, Scaled)]
    assert {notice.what.value for notice in told} == set(WHAT[sql].split(", "))
    assert {notice.over_groups for notice in told} == {sql is SIGNED}
