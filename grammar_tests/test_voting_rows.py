"""Votes of units whose rows wait for a released number: for at least what they add."""

from __future__ import annotations

import pytest

from dpsql.compiler.plan import voting_rows
from dpsql.compiler.plan.measurement_kinds import Vote
from dpsql.model.errors import Refused
from grammar_tests.laws import integers
from grammar_tests.test_contribution_bounds import crowd, poll_of, shop

UNITS = 8
BY_UNIT = " GROUP BY customer_id"
AVERAGE = "(SELECT AVG(EXTRACT(day FROM day)) FROM logins)"
ROWS = "(SELECT customer_id, EXTRACT(day FROM day) - 16 AS v, EXTRACT(month FROM day) AS m"
ROWS += " FROM logins) AS r"
ABOVE = f"{ROWS} WHERE v + 16 > {AVERAGE}"
GROUPS = f"(SELECT m, AVG(v) AS a FROM {ROWS} GROUP BY m) AS g"
OF_GROUP = f"{ROWS} JOIN {GROUPS} ON r.m = g.m WHERE v > a"
OF_SEVERAL = f"{ROWS} JOIN {GROUPS} ON r.m >= g.m WHERE v > a - 30"
SEVERAL = f"SELECT {{}}COUNT(*) AS s FROM {OF_SEVERAL}"
SIGNED = f"SELECT {{}}SUM(v) AS s FROM {ABOVE}"
"""Of all rows of a unit, days before and after the 16th cancel; above the average none do."""


def is_bounded(sql: str) -> bool:
    """Test whether as many units vote beyond each bound as exceed it, by the plain engine."""
    policy, engine = shop(crowd(UNITS))
    plan = poll_of(sql.format(""), policy, engine, second=True)
    assert isinstance(plan.blocks[-1].block.vote, Vote)
    votes = {int(key[0]): parts[0] for key, parts in integers(plan, engine)[-1].items()}
    added = [abs(s or 0) for _, s in engine.rows(sql.format("customer_id, ") + BY_UNIT)]
    return all(
        sum(s > 2**octave for s in added) <= sum(n for o, n in votes.items() if o > octave)
        for octave in range(max(votes) + 8)
    )


@pytest.mark.full("further questions")
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {{}}COUNT(*) AS s FROM {ABOVE}",
        f"SELECT {{}}COUNT(*) FILTER (WHERE v + 16 > {AVERAGE}) AS s FROM {ROWS}",
        f"SELECT {{}}SUM(CASE WHEN v + 16 > {AVERAGE} THEN v ELSE 0 END) AS s FROM {ROWS}",
        f"SELECT {{}}COUNT(*) AS s FROM {OF_GROUP}",
        SIGNED,
    ],
)
def test_units_vote_for_at_least_what_they_add(sql: str) -> None:
    assert is_bounded(sql)


def test_wrong_twin_values_of_two_signs_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voting_rows, "_sum_of_sizes", lambda total: total)
    assert not is_bounded(SIGNED)


def test_wrong_twin_rows_that_meet_several_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused):
        is_bounded(SEVERAL)
    monkeypatch.setattr(voting_rows._Builder, "_is_single", lambda *_: True)
    assert not is_bounded(SEVERAL)
