"""Private bounds of what a person contributes, as analysts meet them: prices, notices, answers."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import CutSide, Scaled
from dpsql.model.vocabulary import Policy
from dpsql.proxy import Proxy
from dpsql.systems.watch.monitor import ExplainWatch, Watch
from grammar_tests import proxy_kit, world
from grammar_tests.laws import PlainEngine, compiled, integers, violation, without_unit
from grammar_tests.test_contribution_bounds import (
    AVERAGE,
    BY_MONTH,
    MEDIAN,
    TOTAL,
    VALUES,
    charged,
    crowd,
    opened,
    shop,
)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
@pytest.mark.parametrize("sql", [TOTAL, BY_MONTH, AVERAGE, VALUES, MEDIAN])
def test_all_steps_cost_what_one_question_may(sql: str, accountant: str, tmp_path: Path) -> None:
    of_pure = 'delta = 0\naccountant = "pure"'
    pure = [('delta = 1e-3\naccountant = "zcdp"', of_pure), ("query_delta = 1e-6\n", "")]
    with opened(tmp_path, *(pure if accountant == "pure" else [])) as proxy:
        promised = proxy.explain(proxy_kit.request(sql))
        answer = proxy.ask(proxy_kit.request(sql))
        whole = proxy.explain(
            proxy_kit.request("SELECT COUNT(DISTINCT customer_id) AS n FROM logins")
        )
        assert promised.charge.amount <= whole.charge.amount
        assert 0.98 * whole.charge.amount < charged(answer) <= whole.charge.amount
        assert proxy.budgets()[0][1].amount == charged(answer)
        assert any(isinstance(notice, Scaled) for notice in answer.notices)
        again = proxy.ask(proxy_kit.request(sql))
        assert (again.rows, charged(again)) == (answer.rows, 0)


@pytest.mark.full("measures neighbours or further data sets")
def test_what_was_found_is_used_again_for_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as proxy:
        first = proxy.ask(proxy_kit.request(BY_MONTH))
        before = len(proxy.ledger.history(limit=99))
        other = proxy.ask(proxy_kit.request(f"{BY_MONTH} HAVING COUNT(*) > 3 ORDER BY n", "0.05"))
        assert len(proxy.ledger.history(limit=99)) == before + 1
        (one,), (two,) = (
            [notice for notice in answer.notices if isinstance(notice, Scaled)]
            for answer in (first, other)
        )
        assert one.visible
        assert one.side is CutSide.ABOVE
        # With more noise less is worth keeping.
        assert two.most <= one.most
        bob = proxy.ask(proxy_kit.request(BY_MONTH, None, "bob"))
        # Noise is rounded up for each clip, and his is found anew.
        assert charged(bob) == pytest.approx(charged(first), rel=1e-3)


@pytest.mark.full("opens a proxy for each item")
def test_an_answer_is_close_to_the_truth(tmp_path: Path) -> None:
    """With nothing declared: the widest possible bound would err by millions."""
    with opened(tmp_path) as proxy:
        answer = proxy.ask(proxy_kit.request(TOTAL, "2"))
        ((n,),) = answer.rows
        ((margin,),) = answer.margins
        truth = len(crowd(400, most=8)["logins"])
        assert margin is not None
        assert abs(n - truth) < truth / 5
        assert margin < truth / 5


@pytest.mark.full("opens a proxy for each item")
def test_what_cannot_be_paid_to_the_end_is_refused_before_the_first_step(tmp_path: Path) -> None:
    """A poll alone would fit into the budget."""
    path = proxy_kit.shop(
        tmp_path,
        ('accountant = "zcdp"', 'accountant = "pure"'),
        ("delta = 1e-3", "delta = 0"),
        ("query_delta = 1e-6\n", ""),
        ("\nepsilon = 1000.0", "\nepsilon = 1.0"),
        ("max_query_epsilon = 10.0", "max_query_epsilon = 1.0"),
        tables=crowd(50, most=8),
    )
    proxy, engine = proxy_kit.watched(path, Proxy)
    with proxy:
        proxy.ask(proxy_kit.request("SELECT COUNT(*) AS n FROM customers", "0.5"))
        ran = len(engine.private())
        with pytest.raises(Refused) as refused:
            proxy.ask(proxy_kit.request(TOTAL, "1"))
        assert refused.value.reason is Reason.BUDGET_EXHAUSTED
        assert len(engine.private()) == ran


@pytest.mark.parametrize(
    ("order", "groups"), [("n DESC LIMIT 3", 9), ("n LIMIT 3", 31), ("d LIMIT 3", 31), ("n", 31)]
)
def test_what_is_cut_of_the_largest_groups_counts_where_only_they_are_shown(
    order: str, groups: int
) -> None:
    policy, engine = shop(crowd(2))
    sql = BY_MONTH.replace("month", "day").replace(" m,", " d,").replace("BY m", "BY d")
    (poll,) = compiled(f"{sql} ORDER BY {order}", policy, engine).polls
    assert poll.groups == groups


@pytest.mark.full("opens a proxy for each item")
def test_a_monitor_needs_a_limit(tmp_path: Path) -> None:
    with opened(tmp_path) as proxy:
        wish = Watch("ana", Decimal(5), 1)
        with pytest.raises(Refused) as refused:
            proxy.run(ExplainWatch(wish, [proxy_kit.request(TOTAL)]))
        assert refused.value.reason is Reason.UNBOUNDED_CONTRIBUTION


def limited(tables: world.Tables, groups: int) -> tuple[Policy, PlainEngine]:
    """The shop where somebody counts in so many groups of logins."""
    policy, engine = shop(tables)
    listed = (
        replace(t, max_groups_per_unit=groups) if t.name == "logins" else t for t in policy.tables
    )
    return replace(policy, tables=tuple(listed)), engine


@pytest.mark.full("measures neighbours or further data sets")
def test_a_limit_of_groups_leaves_no_public_group_out() -> None:
    policy, engine = limited(crowd(8), 2)
    (block,) = compiled(BY_MONTH, policy, engine).blocks
    assert (block.l0, block.enforce_l0) == (12, False)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("norm", [Fraction(5, 2), Fraction(10**4)])
def test_private_groups_are_sampled_and_then_scaled(norm: Fraction) -> None:
    sql = "SELECT login_id // 20 AS g, COUNT(*) AS n, COUNT(DISTINCT customer_id) AS c"
    policy, engine = limited(crowd(8), 2)
    plan = compiled(f"{sql} FROM logins GROUP BY g", policy, engine, norm=norm)
    (block,) = plan.blocks
    assert (block.l0, block.enforce_l0) == (2, True)
    here, moved = integers(plan, engine), 0
    for unit in range(1, 9):
        with without_unit(engine.connection, world.deletions(unit)):
            there = integers(plan, engine)
        assert violation(plan, here, there) is None
        moved += here != there
    assert moved == 8
