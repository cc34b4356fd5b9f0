"""What `dpsql check` finds: how grave, of how many, and what an owner may accept of it."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from dpsql.engines import EngineFailed
from dpsql.interfaces.cli import main
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import PolicyError
from dpsql.model.resources import LONGEST_TEXT
from dpsql.owner.check import _KINDS, check_policy
from dpsql.owner.findings import Finding, Severity, reviewed
from dpsql.policy import demo
from dpsql.policy.draft import AcceptedFinding
from dpsql.policy.load import load
from grammar_tests import proxy_kit, world

FOUND = Finding(
    line=7,
    table="orders",
    column="amount",
    message="orders: 3 of 9 rows have amount outside its bounds: they are clipped.",
    rows=3,
    fix="Widen the bounds, or accept.",
    kind="bounds",
    severity=Severity.WARNING,
    total=9,
)
SAID = AcceptedFinding("bounds:orders.amount", data_version=2, at_most=3, reason="known", line=9)


def test_what_is_accepted_fails_no_check() -> None:
    (review,) = reviewed([FOUND], [SAID], data_version=2)
    assert (review.accepted, review.fails, review.why) == (True, False, "known")


@pytest.mark.parametrize(
    ("finding", "said", "why"),
    [
        (FOUND, replace(SAID, at_most=2), "accepted up to 2"),
        (FOUND, replace(SAID, data_version=1), "accepted for data version 1, and this is 2"),
        (replace(FOUND, severity=Severity.ERROR), SAID, "what breaks a proof cannot be accepted"),
        (FOUND, replace(SAID, finding="bounds:orders.tax"), ""),
        (FOUND, replace(SAID, finding="nan:orders.amount"), ""),
    ],
)
def test_what_is_not_accepted_fails(finding: Finding, said: AcceptedFinding, why: str) -> None:
    review, *idle = reviewed([finding], [said], data_version=2)
    assert (review.accepted, review.fails, review.why) == (False, True, why)
    assert [each.finding.message for each in idle] == (
        [] if why else [f"{said.finding} is accepted and is not found."]
    )
    assert not any(each.fails for each in idle)


@pytest.mark.full("opens a proxy for each item")
def test_texts_that_are_not_read_whole_are_counted(tmp_path: Path) -> None:
    tables = world.well_behaved()
    first, *others = tables["orders"]
    long = (*first[:6], "é" * LONGEST_TEXT, *first[7:])
    path = proxy_kit.shop(tmp_path, tables=tables | {"orders": [long, *others]})
    found = [review.finding for review in check_policy(str(path)).reviews]
    assert [(f.column, f.rows) for f in found if f.kind == "long"] == [("status", 1)]
    (finding,) = (f for f in found if f.kind == "long")
    assert "rows have 65,536 characters or more in status" in finding.message


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.full("starts processes")
def test_a_check_says_how_far_it_is(tmp_path: Path) -> None:
    path, seen = proxy_kit.shop(tmp_path / "shop"), list[tuple[str, float]]()
    check_policy(str(path), seen=lambda *step: seen.append(step))
    assert {table for table, _ in seen} >= {"customers", "orders"}
    shares = [done for _, done in seen]
    assert shares == sorted(set(shares))
    assert (shares[0], len({*shares}) > len({table for table, _ in seen})) == (0, True)
    assert shares[-1] < 1


def test_facts_that_hold_and_are_not_recorded_are_advised(tmp_path: Path) -> None:
    """A database without constraints. Once they are recorded there is no advice."""
    path = str(proxy_kit.shop(tmp_path))
    told = "Recorded, they allow more joins"
    assert check_policy(path).unrecorded
    assert told in CliRunner().invoke(main, ["check", "--policy", path]).stderr
    assert told not in CliRunner().invoke(main, ["check", "--record", "--policy", path]).stderr
    assert not check_policy(path).unrecorded
    assert told not in CliRunner().invoke(main, ["check", "--policy", path]).stderr


def test_a_check_that_fails_for_want_of_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a fault of dpsql, which said nothing of memory. Another error stays a fault."""
    for error, said in ((EngineFailed(), "Raise memory in [limits]"), (KeyError("x"), "fault: ")):
        monkeypatch.setattr("dpsql.owner.check.check_policy", Mock(side_effect=error))
        done = CliRunner().invoke(main, ["check"])
        assert done.exit_code == ExitCode.UNREACHABLE
        assert said in done.stderr


def test_what_takes_facts_away_is_an_error() -> None:
    errors = {kind for kind, (severity, _) in _KINDS.items() if severity is Severity.ERROR}
    assert errors == {"key", "keys", "uncut", "determines", "elsewhere"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo.build(tmp_path_factory.mktemp("shop")).parent


def run(folder: Path, *args: str, code: int = 0) -> Result:
    with chdir(folder):
        done = CliRunner().invoke(main, args, env={"DPSQL_ANALYST": None})
    assert done.exit_code == code, done.output
    return done


def accepting(shop: Path, *entries: str) -> None:
    text = demo.POLICY.replace("age = { bounds = [0, 120]", "age = { bounds = [0, 80]")
    text = text.replace('key = "order_id"', 'key = "customer_id"')
    listed = "".join(f"  {{ {entry} }},\n" for entry in entries)
    (shop / "dpsql.toml").write_text(f"{text}\n[check]\naccept = [\n{listed}]\n", "utf-8")


AGES = 'finding = "bounds:customers.age", data_version = {}, at_most = 500, reason = "old people"'
KEYS = 'finding = "key:orders", data_version = 1, at_most = 99999, reason = "no matter"'


@pytest.mark.full("measures neighbours or further data sets")
def test_an_owner_accepts_what_is_clipped_and_no_broken_key(shop: Path) -> None:
    accepting(shop)
    found = run(shop, "check", code=1).stdout
    assert "warning: customers: " in found
    assert "id: bounds:customers.age" in found
    assert " of 1,899 rows have age" not in found
    assert " of 2,000 rows have age outside its bounds: they are clipped." in found
    assert "error: orders: 20,000 of 20,000 rows share their key" in found
    accepting(shop, AGES.format(1), KEYS)
    both = json.loads(run(shop, "check", "--format", "json", code=1).stdout)
    by_id = {each["id"]: each for each in both}
    assert by_id["bounds:customers.age"]["accepted"]
    assert by_id["key:orders"]["why"] == "what breaks a proof cannot be accepted"
    text = (shop / "dpsql.toml").read_text("utf-8")
    (shop / "dpsql.toml").write_text(text.replace('key = "customer_id"\nlink', "link"), "utf-8")
    whole = run(shop, "check", "--record")
    assert "accepted: customers: " in whole.stdout
    assert "why: old people" in whole.stdout
    assert "but for what is accepted" in whole.stderr


@pytest.mark.full("opens a proxy for each item")
def test_what_was_accepted_and_recorded_ends_with_the_data_version(shop: Path) -> None:
    accepting(shop, AGES.format(1))
    text = (shop / "dpsql.toml").read_text("utf-8")
    (shop / "dpsql.toml").write_text(text.replace('key = "customer_id"\nlink', "link"), "utf-8")
    run(shop, "check", "--record")
    assert "do not count" in run(shop, "refresh").stderr
    lapsed = run(shop, "check", code=1)
    assert "not accepted: accepted for data version 1, and this is 2" in lapsed.stdout
    assert "do not count for the data" in lapsed.stderr
    assert "do not count for the data" in run(shop, "history").stderr
    run(shop, "refresh", "--record")
    assert "do not count" not in run(shop, "budget").stderr


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('finding = "amount", data_version = 1, at_most = 1, reason = "x"', "is no finding"),
        ('finding = "nan:a.b", at_most = 1, reason = "x"', "data_version is missing"),
        ('finding = "nan:a.b", data_version = 1, reason = "x"', "at_most is missing"),
        ('finding = "nan:a.b", data_version = 1, at_most = 1', "reason is missing"),
        ('finding = "nan:a.b", data_version = 1, at_most = 1, until = 3', "Unknown key until"),
    ],
)
def test_what_is_accepted_says_all(wrong: str, message: str, shop: Path) -> None:
    accepting(shop, wrong)
    with pytest.raises(PolicyError, match=message):
        load(str(shop / "dpsql.toml"))
