"""What is expected of an answer before it is asked, and of other forms: as it is when asked."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, log
from pathlib import Path

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import FoundNorm
from dpsql.interfaces.doors import COMMAND_LINE, DATABASE_API, WIRE
from dpsql.interfaces.plan_text import plan_text, proposal_text
from dpsql.model.errors import Refused
from dpsql.model.notices import Scaled
from dpsql.model.tree import PlanForm
from dpsql.model.vocabulary import Answer
from dpsql.owner.check import check_policy
from dpsql.preparation import outlook as outlooks
from dpsql.preparation.explanation import (
    CoarserPeriods,
    LargerEpsilon,
    OtherAccountant,
    Outlook,
    Proposal,
    RecordedFacts,
    UnitsCounted,
    WithoutKey,
)
from dpsql.preparation.other_forms import Form, recordable
from dpsql.proxy import Proxy
from grammar_tests import casefile, proxy_kit
from grammar_tests.proxy_kit import request
from grammar_tests.test_contribution_bounds import BY_MONTH, TOTAL, crowd

BY_DAY = "SELECT day, COUNT(*) AS n FROM logins GROUP BY day"
BY_STATUS = (
    "SELECT status, quantity, SUM(amount) AS s FROM orders WHERE quantity <= 3 GROUP BY 1, 2"
)


def expected(proxy: Proxy, sql: str, epsilon: str | None = None) -> float:
    """The one margin that is expected of a question."""
    (margin,) = (m for m in proxy.explain(request(sql, epsilon)).expected if m is not None)
    return margin


def below(answer: Answer, row: int) -> float:
    """How far the last number of a row may lie too high: what noise does, and clipping does not."""
    half = answer.halves[row] if answer.halves else None
    pair = None if half is None else half[-1]
    return (answer.margins[row][-1] or 0.0) if pair is None else pair[0]


def proposals(proxy: Proxy, sql: str, epsilon: str | None = None) -> dict[type, Proposal]:
    found = proxy.explain(request(sql, epsilon)).outlook.proposals
    return {type(proposal.change): proposal for proposal in found}


# --- bounds that may be found ---


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("sql", [TOTAL, BY_MONTH])
def test_errors_are_known_for_each_bound_that_may_be_found(sql: str, tmp_path: Path) -> None:
    """As the answer errs, once one is found: in proportion to it, and by no other one's error."""
    with Proxy.open(str(proxy_kit.shop(tmp_path, tables=crowd(400)))) as proxy:
        before = proxy.explain(request(sql, "5"))
        answer = proxy.ask(request(sql, "5"))
        after = proxy.explain(request(sql, "5")).outlook
    (found,) = (notice for notice in answer.notices if isinstance(notice, Scaled))
    margin = max(below(answer, n) for n in range(len(answer.rows)))
    assert len(before.outlook.bounds) == len(outlooks.ROWS)
    for bound in before.outlook.bounds[1:]:
        (most,) = bound.most
        # Noise has whole steps, which are coarse beside the small bound of one row.
        assert bound.margin * found.most / most == pytest.approx(margin, rel=0.02, abs=1)
        others = [other for other in before.outlook.bounds if other != bound]
        assert not any(b.margin * found.most / most == pytest.approx(margin, 0.5) for b in others)
    assert after.bounds == ()
    text = plan_text(before)
    assert any(before.forecasts)
    assert (
        "about: estimated from expected_rows" in text
    )  # a range stands in place of the table of bounds
    assert "octave" not in text


@pytest.mark.full("draws random questions or values")
def test_of_two_norms_the_error_of_the_better_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are all in one group have either norm: Laplace noise errs less for as much."""
    changes = (
        ('accountant = "zcdp"', 'accountant = "approximate"'),
        ("delta = 1e-3", "delta = 0.5"),
    )
    plain, few = outlooks._of_rows, BY_DAY.replace("GROUP", "WHERE day < DATE '2024-02-20' GROUP")

    def of_l2(form: Form, prepared: Prepared, *, rows: int) -> tuple[FoundNorm, ...]:
        return tuple(replace(norm, instead=False) for norm in plain(form, prepared, rows=rows))

    with Proxy.open(str(proxy_kit.shop(tmp_path, *changes, tables=crowd(9)))) as proxy:
        last = proxy.explain(request(few, "4")).outlook.bounds[-1]
        monkeypatch.setattr(outlooks, "_of_rows", of_l2)
        twin = proxy.explain(request(few, "4")).outlook.bounds[-1]
    assert last.most == twin.most
    assert last.margin / last.most[0] == pytest.approx(log(20) / (4 * 0.8), rel=0.01)
    assert twin.margin > 1.5 * last.margin


@pytest.mark.full("draws random questions or values")
def test_of_an_average_no_error_is_known_before(tmp_path: Path) -> None:
    sql = "SELECT AVG(EXTRACT(day FROM day)) AS a FROM logins"
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        assert proxy.explain(request(sql)).outlook == Outlook()


# --- proposals, asked ---


BY_PERIOD = "SELECT DATE_TRUNC('{}', placed_at) AS d, COUNT(*) AS n FROM orders GROUP BY 1"
ROWS = "SELECT COUNT(*) AS n FROM orders"
FORMS: dict[type, tuple[str, str, str | None]] = {
    LargerEpsilon: (ROWS, ROWS, "10"),
    UnitsCounted: (ROWS, "SELECT COUNT(DISTINCT customer_id) AS n FROM orders", None),
    WithoutKey: (
        BY_STATUS,
        "SELECT status, SUM(amount) AS s FROM orders WHERE quantity <= 3 GROUP BY 1",
        None,
    ),
    CoarserPeriods: (BY_PERIOD.format("month"), BY_PERIOD.format("quarter"), None),
}


def require_true(proxy: Proxy, proposal: Proposal, sql: str, epsilon: str | None = None) -> None:
    """The form errs as was said: its plan, and its answer with noise."""
    assert expected(proxy, sql, epsilon) == pytest.approx(proposal.margin, rel=1e-9)
    answer = proxy.ask(request(sql, epsilon))
    assert len(answer.rows) == proposal.groups
    assert all(row[-1] == pytest.approx(proposal.margin, rel=1e-9) for row in answer.margins)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("change", FORMS, ids=lambda change: change.__name__)
def test_a_proposal_errs_as_it_says(change: type, tmp_path: Path) -> None:
    """Each form is written by hand here."""
    sql, other, epsilon = FORMS[change]
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        proposal = proposals(proxy, sql)[change]
        assert proposal.present_margin == expected(proxy, sql)
        assert not proposal.relative
        require_true(proxy, proposal, other, epsilon)
        with pytest.raises(AssertionError):
            require_true(proxy, replace(proposal, margin=0.5 * proposal.margin), other, epsilon)


@pytest.mark.full("draws random questions or values")
def test_another_accountant_errs_as_is_said(tmp_path: Path) -> None:
    of_pure = 'delta = 0\naccountant = "pure"'
    pure = ('delta = 1e-3\naccountant = "zcdp"', of_pure), ("query_delta = 1e-6\n", "")
    with Proxy.open(str(proxy_kit.shop(tmp_path / "zcdp"))) as proxy:
        proposal = proposals(proxy, ROWS)[OtherAccountant]
    assert proposal.change == OtherAccountant("pure")
    with Proxy.open(str(proxy_kit.shop(tmp_path / "pure", *pure))) as proxy:
        require_true(proxy, proposal, ROWS)
        assert OtherAccountant not in proposals(proxy, ROWS)


@pytest.mark.full("draws random questions or values")
def test_recorded_facts_are_worth_what_is_said(tmp_path: Path) -> None:
    """Without constraints nothing vouches for a key, until `check --record` has looked."""
    path = str(proxy_kit.shop(tmp_path, constraints=False))
    sql = "SELECT COUNT(DISTINCT city) AS n FROM orders JOIN customers USING (customer_id)"
    with Proxy.open(path) as proxy:
        proposal = proposals(proxy, sql)[RecordedFacts]
    check_policy(path, record=True)
    with Proxy.open(path) as proxy:
        require_true(proxy, proposal, sql)
        assert RecordedFacts not in proposals(proxy, sql)


@pytest.mark.full("draws random questions or values")
def test_what_check_can_record_is_taken_for_recorded(tmp_path: Path) -> None:
    path = str(proxy_kit.shop(tmp_path, constraints=False))
    check_policy(path, record=True)
    with Proxy.open(path) as proxy:
        policy = proxy.policy
    assert {(f.kind, f.table) for f in policy.facts} == {
        (f.kind, f.table) for f in recordable(replace(policy, facts=frozenset()))
    }


# --- what is not found yet ---


@pytest.mark.full("draws random questions or values")
def test_forms_are_compared_at_one_bound_or_the_largest_that_it_can_be(tmp_path: Path) -> None:
    """By months a norm over weeks grows by the root of the weeks of one month, no more."""
    weeks = "SELECT DATE_TRUNC('week', day) AS d, COUNT(*) AS n FROM logins GROUP BY 1"
    with Proxy.open(str(proxy_kit.shop(tmp_path, tables=crowd(1500, most=8)))) as proxy:
        before = proposals(proxy, weeks, "5")[CoarserPeriods]
        assert before.relative
        assert before.most
        present = below(proxy.ask(request(weeks, "5")), 0)
        after = proposals(proxy, weeks, "5")[CoarserPeriods]
        assert not after.relative
        assert after.present_margin == pytest.approx(present, abs=1)
        months = below(proxy.ask(request(weeks.replace("week", "month"), "5")), 0)
        counted = proposals(proxy, TOTAL)[UnitsCounted]
        assert counted.present_margin is None
        require_true(proxy, counted, "SELECT COUNT(DISTINCT customer_id) AS n FROM logins")
    assert months is not None
    assert months <= after.margin
    assert "at most" in proposal_text(after)


# --- at every door, of every case ---


@pytest.mark.full("draws random questions or values")
def test_a_form_is_told_in_the_words_of_its_door(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        plan = proxy.explain(request(ROWS))
    assert "  - ε = 10 (--epsilon 10): n ± 11 instead of 89\n" in plan_text(plan, door=COMMAND_LINE)
    assert "SET dpsql.epsilon = 10" in plan_text(plan, door=WIRE)
    assert "connect(…, epsilon='10')" in plan_text(plan, door=DATABASE_API)
    told = json.loads(plan_text(plan, PlanForm.JSON))
    assert told["bounds"] == []
    first = told["proposals"][0]
    assert (first["margin"], first["present_margin"]) == (11.0, 89.0)


@pytest.mark.full("a slice of a campaign")
@pytest.mark.parametrize(
    "first", [3, *(pytest.param(n, marks=pytest.mark.campaign) for n in (18, 33))]
)
def test_every_case_has_an_outlook(tmp_path: Path, first: int) -> None:
    """No form of it breaks anything, and each that is told has words."""
    accepted = [case for case in casefile.all_cases() if case.accepted][first::45]
    told = 0
    with Proxy.open(str(proxy_kit.shop(tmp_path, constraints=False))) as proxy:
        for case in accepted:
            try:
                found = proxy.explain(request(case.sql)).outlook
            except Refused:
                continue
            for proposal in found.proposals:
                assert 0 <= proposal.margin < inf, case.id
                assert "None" not in proposal_text(proposal), case.id
            told += len(found.proposals)
    assert told > len(accepted)
