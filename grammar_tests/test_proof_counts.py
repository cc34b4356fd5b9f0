"""`dpsql check --proofs` counts what the kernel proves, and finds each planted false claim."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dpsql.compiler.kernel.kernel import Kernel
from dpsql.interfaces.cli import main
from dpsql.model.algebra import Filter
from dpsql.model.tree import BOOLEAN, INTEGER, Call, Literal
from dpsql.model.vocabulary import Fact, FactKind
from dpsql.owner.proof_counts import CountedClaim, ProofCounter, ProvedRows, suggested_statements
from dpsql.owner.row_owners import Owned, OwnerTracer
from dpsql.policy import demo
from grammar_tests import casefile, world
from grammar_tests.bound import over, shop
from grammar_tests.kernel_worlds import SEEDS, UNITS, counted, policy
from grammar_tests.link_worlds import crossing
from grammar_tests.test_kernel import ALL, TWINS, proof_of

Claims = tuple[CountedClaim | str, ...]


def of_people(sql: str, facts: frozenset[Fact]) -> Iterator[Claims]:
    """Yield what is proved of the rows of people, counted in each of the kernel's databases."""
    relation, proof = proof_of(sql, facts)
    unit = relation.fields[0].ref
    each = tuple(unit.eq(Literal(n, INTEGER)) for n in UNITS)
    people = Filter(relation, Call("or", each, BOOLEAN))
    for seed in range(SEEDS):
        rows = partial(counted, facts=facts, seed=seed)
        counter = ProofCounter(policy(facts), shop()[1].public, rows)
        yield tuple(ProvedRows(counter, people, unit, (), proof).claims())


def violated(sql: str, facts: frozenset[Fact]) -> set[str]:
    return {
        claim.claim
        for claims in of_people(sql, facts)
        for claim in claims
        if isinstance(claim, CountedClaim) and not claim.holds
    }


@pytest.mark.full("the kernel's own tests count the same relations")
@pytest.mark.parametrize("name", ALL)
def test_what_is_proved_of_the_kernels_relations_holds(name: str) -> None:
    assert not violated(*ALL[name][:2])


@pytest.mark.parametrize("twin", TWINS)
def test_a_planted_false_claim_is_found(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twins of the kernel: each rule that is broken shows in a count."""
    where, name, broken, case = TWINS[twin]
    assert not violated(*ALL[case][:2])
    monkeypatch.setattr(where, name, broken)
    assert violated(*ALL[case][:2])


def test_without_owners_most_false_claims_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin: owners are not followed."""
    where, name, broken, case = TWINS["members are of one unit"]
    monkeypatch.setattr(where, name, broken)
    assert violated(*ALL[case][:2]) == {"rows made of rows of two units"}
    monkeypatch.setattr(OwnerTracer, "trace", lambda _self, relation: Owned(relation))
    assert not violated(*ALL[case][:2])


CASES = [case for case in casefile.all_cases() if case.accepted]
PARTS = 24
"""Tests among which the cases are divided."""


@pytest.mark.full("a slice of a campaign")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.campaign) for part in range(1, PARTS))]
)
def test_what_is_proved_of_the_cases_holds(part: int) -> None:
    """On the rows of the catalogue; nearly all of their blocks are counted."""
    holds, left_out = 0, 0
    for made, constraints in ((world.flood(), True), (world.adversarial(), False)):
        of, engine = over(made, constraints=constraints)
        counter = ProofCounter(of, engine.public, engine.rows)
        for case in CASES[part::PARTS]:
            if case.setting("dialect", "duckdb") == "duckdb":
                statement = counter.count(case.sql)
                assert [claim for claim in statement.claims if not claim.holds] == [], case.sql
                holds += len(statement.claims)
                left_out += len(statement.skipped)
    assert holds > 10 * left_out


@pytest.mark.full("starts processes")
def test_all_suggested_statements_are_accepted_and_hold() -> None:
    of, engine = shop()
    counter = ProofCounter(of, engine.public, engine.rows)
    statements = [counter.count(sql) for sql in suggested_statements(of)]
    assert all(s.refused is None and s.claims and not s.skipped for s in statements)
    assert all(claim.holds for s in statements for claim in s.claims)
    tables = {table.name for table in of.tables if table.private}
    assert all(any(f'"{name}"' in s.sql for s in statements) for name in tables)


@pytest.mark.parametrize("number", [0, 1])
def test_rows_that_name_a_person_of_several_are_counted(number: int, tmp_path: Path) -> None:
    """The wrong twin: the recorded limit is said to be of one row."""
    odd = crossing(number)
    engine, of = odd.engine(), odd.policy(tmp_path, recorded=True, most=60)
    low = replace(
        of,
        tables=tuple(replace(t, max_rows_per_unit=1) if t.several else t for t in of.tables),
    )
    for those, holds in ((of, True), (low, False)):
        (claim,) = (
            ProofCounter(those, engine.public, engine.rows).count("SELECT COUNT(*) FROM t").claims
        )
        assert (claim.claim, claim.holds) == ("rows that name one unit", holds)


# --- the command ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo.build(tmp_path_factory.mktemp("shop")).parent


def run(folder: Path, *args: str, code: int = 0, text: str | None = None) -> Result:
    with chdir(folder):
        done = CliRunner().invoke(main, ["check", "--proofs", *args], input=text)
    assert done.exit_code == code, done.output
    return done


@pytest.mark.full("starts processes")
def test_the_command_prints_claim_bound_and_count(folder: Path) -> None:
    done = run(folder)
    assert "  ok: rows of one unit: at most 2 proved, 2 counted\n" in done.stdout
    assert "VIOLATED" not in done.stdout
    assert done.stderr.endswith(" proofs hold for the data.\n")


PAID = "SELECT COUNT(*) FROM orders WHERE status = 'paid'"
STATEMENTS = "SELECT COUNT(*) FROM orders; SELECT 1; SELECT nothing FROM orders"


@pytest.mark.full("measures neighbours or further data sets")
def test_the_command_counts_given_statements(folder: Path) -> None:
    done = run(folder, "-f", "-", text=STATEMENTS)
    assert (
        done.stdout
        == """\
SELECT COUNT(*) FROM orders
  ok: rows made of rows of two units: at most 0 proved, 0 counted
  ok: NULL in order_id: at most 0 proved, 0 counted
  ok: rows of one unit with one order_id: at most 1 proved, 1 counted
SELECT 1
  not counted: It reads no private rows.
SELECT nothing FROM orders
  refused: There is no column nothing.
"""
    )
    first, *others = json.loads(run(folder, "-f", "-", "--format", "json", text=STATEMENTS).stdout)
    counted = {"claim": "NULL in order_id", "bound": 0, "counted": 0, "ok": True}
    assert counted in first["claims"]
    assert [other["refused"] for other in others] == [None, "unknown-column"]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("kind", [FactKind.MAX_ROWS, FactKind.UNIQUE_KEY])
def test_the_command_fails_on_a_false_claim(
    kind: FactKind, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin: a kernel that takes a fact for recorded, of data that do not keep it."""
    has = Kernel._has
    policy = (folder / "dpsql.toml").read_text("utf-8")
    link = 'references = "customers.customer_id" }'
    limited = policy.replace(link, f"{link}\nmax_rows_per_unit = 1")
    wrong = limited.replace('key = "order_id"', 'key = "status"')
    (folder / "dpsql.toml").write_text(wrong, "utf-8")
    try:
        assert "VIOLATED" not in run(folder, "-f", "-", text=PAID).stdout
        monkeypatch.setattr(
            Kernel, "_has", lambda self, k, of, about="": k is kind or has(self, k, of, about)
        )
        done = run(folder, "-f", "-", text=PAID, code=1)
    finally:
        (folder / "dpsql.toml").write_text(policy, "utf-8")
    assert "  VIOLATED: rows of one unit" in done.stdout
    assert "Answer no query, and report this." in done.stderr
