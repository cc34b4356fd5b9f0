"""What is known of truth values and of the branches of CASE, against three-valued logic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product

import pytest

from dpsql import functions
from dpsql.functions import REGISTRY
from dpsql.model.intervals import Facts
from dpsql.model.tree import BOOLEAN, INTEGER, Call, Literal, Ref

Truth = bool | None
TRUTHS: tuple[Truth, ...] = (True, False, None)
SETS = [frozenset(s) for n in range(1, 4) for s in combinations(TRUTHS, n)]


def logical_and(*args: Truth) -> Truth:
    return False if False in args else None if None in args else True


def logical_or(*args: Truth) -> Truth:
    return True if True in args else None if None in args else False


def facts_of(truths: frozenset[Truth]) -> Facts:
    return functions.facts_of_values(BOOLEAN, truths)


RULES: list[tuple[str, int, Callable[..., Truth]]] = [
    ("and", 2, logical_and),
    ("and", 3, logical_and),
    ("or", 2, logical_or),
    ("not", 1, lambda a: None if a is None else not a),
    ("is_null", 1, lambda a: a is None),
]


def wrong(name: str, count: int, rule: Callable[..., Truth]) -> list[tuple[frozenset[Truth], ...]]:
    """The sets of arguments for which a rule's image is not exactly the values it can have."""
    found = []
    for sets in product(SETS, repeat=count):
        call = Call(name, tuple(Ref(n, BOOLEAN) for n in range(count)), BOOLEAN)
        known = functions.facts(call, tuple(map(facts_of, sets)))
        values = {rule(*args) for args in product(*sets)}
        assert known.domain is not None
        if set(known.domain) != values - {None} or (None in values and not known.nullable):
            found.append(sets)
    return found


@pytest.mark.parametrize(("name", "count", "rule"), RULES)
def test_truth_values_are_exact(name: str, count: int, rule: Callable[..., Truth]) -> None:
    assert wrong(name, count, rule) == []


def test_a_wrong_rule_is_seen() -> None:
    assert wrong("and", 2, logical_or)
    assert wrong("not", 1, lambda a: a)


def case(*conditions: frozenset[Truth]) -> tuple[set[object], set[object]]:
    """Inferred and possible values of CASE WHEN ... THEN 0 WHEN ... THEN 1 ... ELSE 9."""
    otherwise = functions.literal_facts(Literal(9, INTEGER))
    args: list[Facts] = []
    for n, truths in enumerate(conditions):
        args += [facts_of(truths), functions.literal_facts(Literal(n, INTEGER))]
    call = Call("case", tuple(Ref(n, a.type) for n, a in enumerate([*args, otherwise])), INTEGER)
    known = functions.facts(call, (*args, otherwise))
    possible = {
        next((n for n, truth in enumerate(truths) if truth), 9) for truths in product(*conditions)
    }
    return set(known.domain or ()), set(possible)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_branches_that_no_row_reaches_are_left_out(count: int) -> None:
    for conditions in product(SETS, repeat=count):
        inferred, possible = case(*conditions)
        assert inferred == possible, conditions


def test_a_branch_left_out_wrongly_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that may be NULL is not always true."""
    always = frozenset[Truth]({True})
    monkeypatch.setitem(
        globals(), "facts_of", lambda _truths: functions.facts_of_values(BOOLEAN, always)
    )
    inferred, possible = case(frozenset({True, None}))
    assert inferred != possible


def test_a_value_that_is_never_null_is_never_absent() -> None:
    absent = REGISTRY["is_null"]
    for nullable, domain in ((False, (False,)), (True, (False, True))):
        arg = Facts(INTEGER, nullable=nullable)
        call = Call("is_null", (Ref(1, INTEGER),), BOOLEAN)
        assert functions.facts(call, (arg,)).domain == domain
    assert not absent.nulls((Facts(INTEGER),))
