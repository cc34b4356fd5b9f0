"""Caps within and across budgets, stops, confirmed limits, checkpoints, and the history."""

from __future__ import annotations

import csv
import io
import json
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.ledgers import Ceiling, Charge, Inquiry, Stopped, book, removed, store
from dpsql.ledgers.chain import START, EntryKind
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import LedgerError, PolicyError, Reason, Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Loss
from dpsql.owner.reminders import nothing_withheld, promises_little
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.engine_kinds import dialects, opened
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import ceilings
from dpsql.proxy import Proxy
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import charge
from grammar_tests.proxy_kit import policy, request, shop

CEILINGS = (
    Ceiling("analyst ana", Loss(12, 10**6), "left", frozenset({"ana"})),
    Ceiling("group both", Loss(20, 10**6), None, frozenset({"ana", "bob"})),
    Ceiling("all budgets", Loss(30, 10**6)),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dpsql.ledger"


# --- caps ---


def capped(number: int, dice: Random) -> Charge:
    """A charge of anybody to one of two budgets, under the caps that cover it."""
    analyst, budget = dice.choice(["ana", "bob", "eve"]), dice.choice(["left", "right"])
    caps = tuple(
        c
        for c in CEILINGS
        if c.budget in {None, budget} and (c.analysts is None or analyst in c.analysts)
    )
    loss = Loss(dice.randint(1, 6))
    return charge(f"q{number}", analyst=analyst, budget=budget, loss=loss, caps=caps)


def overspent(ledger: SqliteLedger, seed: int) -> bool:
    """Whether any ceiling was passed by forty charges; what fits below all is never refused."""
    dice = Random(seed)  # noqa: S311
    for number in range(40):
        asked = capped(number, dice)
        spent = [ledger.spent(c.budget, c.analysts) for c in asked.ceilings]
        fits = all(
            (before + asked.loss).fits(c.most)
            for before, c in zip(spent, asked.ceilings, strict=True)
        )
        if fits:
            ledger.charge(asked)
        else:
            with suppress(Refused):
                ledger.charge(asked)
    return not all(ledger.spent(c.budget, c.analysts).fits(c.most) for c in CEILINGS)


@pytest.mark.parametrize("seed", range(4))
def test_no_cap_is_overspent_and_nothing_that_fits_is_refused(path: Path, seed: int) -> None:
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert not overspent(ledger, seed)


def test_a_ledger_that_compares_the_budget_alone_overspends(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: Any = vars(Charge)["ceilings"]
    monkeypatch.setattr(Charge, "ceilings", property(lambda self: whole.fget(self)[:1]))
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert overspent(ledger, 0)


def test_a_cap_says_that_it_is_one(path: Path) -> None:
    with closing(SqliteLedger.open(str(path))) as ledger, pytest.raises(Refused) as refused:
        ledger.charge(charge(budget="left", loss=Loss(13), caps=CEILINGS[:1]))
    assert refused.value.facts["cap"] == "analyst ana"
    assert refused.value.facts["left"] == Loss(12, 10**6)


def test_amounts_of_two_accountants_are_never_added(path: Path) -> None:
    with closing(SqliteLedger.open(str(path))) as ledger:
        ledger.charge(charge("q1", budget="old", accountant="pure"))
        ledger.charge(charge("q2", caps=CEILINGS[:1]))
        with pytest.raises(LedgerError, match="another accountant"):
            ledger.charge(charge("q3", caps=CEILINGS[2:]))


# --- the owner's acts ---


@pytest.mark.parametrize("new", [Loss(7, 10**6), Loss(700, 10**6), Loss(100, 10**5)])
def test_another_limit_holds_only_when_it_is_confirmed(path: Path, new: Loss) -> None:
    changed = charge("q2", limit=new)
    with closing(SqliteLedger.open(str(path))) as ledger:
        ledger.charge(charge("q1"))
        with pytest.raises(Refused) as refused:
            ledger.charge(changed)
        assert refused.value.reason is Reason.LIMIT_CHANGED
        ledger.confirm(changed.ceilings[0], "the board of May")
        ledger.charge(changed)
        with pytest.raises(Refused):
            ledger.charge(charge("q3"))
        first, last = sorted(ledger.acts(), key=lambda act: bool(act.reason))
        assert (first.what, first.about, first.limit) == ("limit", "budget default", kit.LIMIT)
        assert (last.reason, last.limit) == ("the board of May", new)


OTHERS = {
    "removed": CEILINGS[:1],
    "renamed": (CEILINGS[0], replace(CEILINGS[1], title="group two")),
    "without ana": (CEILINGS[0], replace(CEILINGS[1], analysts=frozenset({"bob"}))),
    "of one budget": (CEILINGS[0], replace(CEILINGS[1], budget="left")),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_cap_that_is_gone_or_covers_others_holds_until_that_is_confirmed(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 2)
    now = OTHERS[name]
    asked = charge("q2", budget="left", caps=tuple(c for c in now if c.covers("left", "ana")))
    with closing(SqliteLedger.open(str(path))) as ledger:
        ledger.charge(charge("q1", budget="left", caps=CEILINGS[:2]))
    with closing(SqliteLedger.open(str(path))) as ledger:
        with pytest.raises(Refused) as refused:
            ledger.charge(asked)
        assert refused.value.reason is Reason.LIMIT_CHANGED
        assert refused.value.facts["title"] == "group both"
        ledger.charge(charge("q3", analyst="eve", budget="left"))  # whom it never covered
        for ceiling in now[1:]:
            ledger.confirm(ceiling, "the board of May")
        for title in removed(ledger.confirmed(), now):
            ledger.lift(title, "the board of May")
        ledger.charge(asked)
        whats = {act.what for act in ledger.acts(2) if act.reason}
        assert ("lift" in whats) == (name in {"removed", "renamed"})
        ledger.verify()


@pytest.mark.parametrize("whom", [Stopped("default", None), Stopped(None, "ana")])
def test_what_is_stopped_is_charged_no_more_until_it_is_resumed(path: Path, whom: Stopped) -> None:
    with closing(SqliteLedger.open(str(path))) as ledger:
        kit.ask(ledger, "q1")
        ledger.stop(whom, "a reason")
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert ledger.stopped() == {whom}
        with pytest.raises(Refused) as refused:
            ledger.charge(charge("q2"))
        assert refused.value.reason is Reason.STOPPED_BY_OWNER
        assert kit.recall(ledger) is not None  # what was paid for stays free
        ledger.charge(charge("q3", analyst="bob", budget="other"))
        ledger.resume(whom, "another")
        ledger.charge(charge("q2"))
        assert [act.reason for act in ledger.acts() if act.reason] == ["another", "a reason"]


# --- checkpoints ---


def long(path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteLedger:
    """A ledger with several checkpoints and something of every kind."""
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 5)
    ledger = SqliteLedger.open(str(path))
    ledger.record_facts(frozenset(), "files")
    ledger.stop(Stopped("other", None), "")
    ledger.record_late("bob", "q0")
    for number in range(12):
        kit.ask(ledger, f"q{number}", analyst=f"a{number % 3}")
    return ledger


def checkpoints(path: Path) -> list[int]:
    with kit.raw(path) as opened:
        rows = opened.execute("SELECT sequence FROM entries WHERE kind = 'checkpoint'")
        return [sequence for (sequence,) in rows]


def test_a_checkpoint_says_what_all_entries_say(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long(path, monkeypatch)
    read = list[int]()
    rows = store.rows

    def noted(_store: object, opened: Any, first: int) -> Any:
        read.append(first)
        return rows(opened, first)

    monkeypatch.setattr(store.SqliteStore, "rows", noted)
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert ledger.spent("default") == Loss(12 * kit.LOSS.amount, 12 * kit.LOSS.delta)
        assert min(read) > checkpoints(path)[-1]
        assert ledger.late("bob") == 1
        assert ledger.stopped() == {Stopped("other", None)}
        state = ledger._state
        ledger.verify()
        assert min(read) == 0
        with ledger._reading() as whole:
            whole.catch_up(START)
            assert whole.state == state


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        ("detail = replace(detail, '\"bob\":1', '\"bob\":0') WHERE kind = 'checkpoint'", True),
        ("amount = 0 WHERE kind = 'charge'", True),
        ("amount = 0 WHERE sequence = 5", False),  # before the last checkpoint
    ],
)
def test_an_edit_is_noticed_at_once_behind_a_checkpoint_and_before_it_by_verifying(
    path: Path, monkeypatch: pytest.MonkeyPatch, change: str, *, noticed: bool
) -> None:
    long(path, monkeypatch)
    kit.edit(path, f"UPDATE entries SET {change}")
    if noticed:
        with pytest.raises(LedgerError):
            SqliteLedger.open(str(path))
        return
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert ledger.spent("default").amount == 12 * kit.LOSS.amount  # what was written, not that
        with pytest.raises(LedgerError, match="entry 5"):
            ledger.verify()


def test_a_checkpoint_that_was_written_wrong_is_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = long(path, monkeypatch)
    with ledger._writing() as opened:
        text = opened.state.text().replace('"late":{"bob":1}', '"late":{}')
        with pytest.raises(Exception, match="is not what was written"):
            opened._append(EntryKind.CHECKPOINT, {"detail": text})


# --- the policy ---

CAPS = (
    (
        '[analysts.bob]\nbudget = "default"',
        '[analysts.bob]\nbudget = "default"\nepsilon = 1.1\ndelta = 1e-6',
    ),
    (
        "[ledger]",
        '[groups.all]\nanalysts = ["ana", "bob"]\nbudget = "default"\nepsilon = 25\n\n[ledger]',
    ),
)


MIXED = """[groups.g]
analysts = ["ana", "cyd"]
epsilon = 1

[budgets.pure]
epsilon = 1
accountant = "pure"

[analysts.cyd]
budget = "pure"
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[groups.g]\nanalysts = ["eve"]\nepsilon = 1', "must list analysts"),
        ("[groups.g]\nanalysts = []\nepsilon = 1", "must list analysts"),
        ('[groups.g]\nanalysts = ["ana"]\nepsilon = 0', "above zero"),
        ('[groups.g]\nanalysts = ["ana"]\nbudget = "x"\nepsilon = 1', "no budget x"),
        ('[groups.g]\nanalysts = ["ana"]\nepsilon = 1\ndelta = 1', "in (0, 1)"),
        ('[groups.g]\nanalysts = ["ana"]\nepsilom = 1', "Unknown key"),
        (MIXED, "nobody adds up"),
    ],
)
def test_a_cap_that_says_nothing_is_refused_where_it_stands(
    tmp_path: Path, more: str, said: str
) -> None:
    path = policy(shop(tmp_path / "shop").parent, ("[ledger]", f"{more}\n\n[ledger]"))
    with pytest.raises(PolicyError, match=said.replace("(", r"\(").replace(")", r"\)")):
        load(str(path))


SUM = ('neighbours = "add_remove"\n', 'neighbours = "add_remove"\nepsilon = "sum"\n')
SECOND = "[budgets.second]\nepsilon = 2.5\ndelta = 1e-4\n\n[analysts.bob]"


def test_the_sum_of_all_budgets_is_a_cap_that_grows_with_them(tmp_path: Path) -> None:
    path = policy(shop(tmp_path / "shop").parent, SUM, ("[analysts.bob]", SECOND))
    (cap,) = load(str(path)).caps
    assert (cap.title, str(cap.epsilon), str(cap.delta)) == ("all budgets", "1002.5", "0.0011")


def test_a_sum_of_budgets_that_renew_is_refused(tmp_path: Path) -> None:
    renews = 'renews = "month"\nlifetime_epsilon = 2000\nlifetime_delta = 0.01\n\n[analysts.ana]'
    path = policy(shop(tmp_path / "shop").parent, SUM, ("[analysts.ana]", renews))
    with pytest.raises(PolicyError, match="budgets that renew") as refused:
        load(str(path))
    assert refused.value.line == next(
        n for n, line in enumerate(path.read_text().splitlines(), 1) if line == 'epsilon = "sum"'
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "lines"),
    [("10", "1e-6", [7]), ("10.5", "1e-6", [2, 7]), ("1", "0.002", [3]), ("99", "0.01", [2, 3])],
)
def test_the_owner_is_reminded_of_what_promises_little(
    tmp_path: Path, epsilon: str, delta: str, lines: list[int]
) -> None:
    pot = ("epsilon = 1000.0\ndelta = 1e-3", f"epsilon = {epsilon}\ndelta = {delta}")
    draft = load(str(policy(tmp_path, pot)))
    first = draft.lines.of(("budgets", "default"))
    assert [finding.line - first + 1 for finding in promises_little(draft)] == lines


@pytest.mark.parametrize(
    ("query_delta", "only_public", "said"),
    [
        ("1e-6", "", []),
        ("1e-4", "", ["Write query_delta = 1e-5 or less."]),
        ("1e-5", "", []),
        ("2e-5", "", ["Write query_delta = 1e-5 or less."]),
        ("1e-4", "\nonly_public_keys = true", []),
    ],
)
def test_the_owner_is_reminded_of_a_delta_that_ends_before_epsilon(
    tmp_path: Path, query_delta: str, only_public: str, said: list[str]
) -> None:
    path = policy(
        tmp_path,
        ("epsilon = 1000.0", "epsilon = 9"),
        ("query_delta = 1e-6", f"query_delta = {query_delta}{only_public}"),
    )
    draft = load(str(path))
    reminders = promises_little(draft)
    assert [finding.fix for finding in reminders] == said
    assert all(
        finding.line == draft.lines.of(("budgets", "default", "query_delta"))
        for finding in reminders
    )


@pytest.mark.full("opens a proxy for each item")
def test_the_owner_is_reminded_where_nothing_is_hidden(owned: Path) -> None:
    bare = owned.with_name("bare.toml")
    bare.write_text(owned.read_text().replace("name = { hidden = true }", "name = {}"))
    reminders = []
    for path in (owned, bare):
        draft = load(str(path))
        with closing(opened(draft)) as engine:
            schema = engine.schema()
            public = PublicTables(engine, dialects(draft.database).database)
            bound = bind(draft, schema, public.values)
        listed = {t.name: {c.name for c in t.columns} for t in bound.tables}
        present = Schema(
            tuple(
                replace(t, columns=tuple(c for c in t.columns if c.name in listed[t.name]))
                for t in schema.tables
            )
        )
        # What is there and not listed is withheld, too.
        reminders += [len(nothing_withheld(bound, s, draft.lines)) for s in (present, schema)]
    assert reminders == [0, 0, 1, 0]


# --- from the door to the ledger ---


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop with caps, in which both analysts have asked, and bob more than his cap allows."""
    folder = tmp_path_factory.mktemp("caps") / "shop"
    shop(folder)
    return policy(folder, *CAPS)


def said(path: Path, *arguments: str, code: int = 0) -> Any:
    told = CliRunner().invoke(main, [*arguments, "--policy", str(path)])
    assert told.exit_code == code, told.output
    return told


@pytest.mark.full("opens servers or connects clients")
def test_an_analyst_is_held_to_the_cap_and_told_so(owned: Path) -> None:
    with Proxy.open(str(owned)) as proxy:
        answer = proxy.ask(request("SELECT COUNT(*) AS n FROM orders", None, "bob"))
        assert answer.receipt is not None
        assert answer.receipt.cap == "analyst bob"
        plan = proxy.explain(request("SELECT SUM(amount) AS s FROM orders", None, "bob"))
        assert plan.cap == "analyst bob"
        assert plan.rest is not None
        assert plan.rest.questions == 0
        with pytest.raises(Refused) as refused:
            proxy.ask(request("SELECT COUNT(*) AS n FROM customers", None, "bob"))
        assert refused.value.facts["cap"] == "analyst bob"
        proxy.ask(request("SELECT COUNT(*) AS n FROM customers"))
        before = proxy.ledger.spent("default")
        assert before == proxy.ledger.spent(None, frozenset({"ana", "bob"}))
    assert "analyst bob" in said(owned, "budget").stdout
    read = json.loads(said(owned, "budget", "--format", "json").stdout)
    assert [pot["title"] for pot in read["budgets"]] == [
        "budget default",
        "analyst bob",
        "group all",
    ]
    pot, cap, _ = read["budgets"]
    spent, limit = pot["spent"]["amount"], pot["limit"]["amount"]
    assert spent == pytest.approx(before.amount / 1e9)
    assert pot["days_left"] == pytest.approx((limit - spent) / spent)  # all of it was of one day
    assert cap["days_left"] is None


HISTORY = (
    "time what who door client budget epsilon charge delta accountant mechanisms outcome query text"
    " requested"
)
"""No value of the data, and no duration."""


@pytest.mark.full("opens servers or connects clients")
def test_the_history_says_who_asked_what_and_what_the_owner_did(owned: Path) -> None:
    said(owned, "budget", "stop", "default", "--reason", "an audit")
    told = said(owned, "query", "SELECT AVG(age) FROM customers", "--analyst", "ana", code=4)
    assert "stopped" in told.stderr
    plan = said(owned, "explain", "SELECT AVG(age) FROM customers", "--analyst", "ana").stdout
    assert "Asking would be refused: the owner has stopped it." in plan
    said(owned, "budget", "resume", "default", "--reason", "it is over")
    rows = list(csv.DictReader(io.StringIO(said(owned, "history", "--format", "csv").stdout)))
    assert [row["text"] for row in rows[:2]] == ["it is over", "an audit"]
    as_json = json.loads(said(owned, "history", "--format", "json").stdout)
    assert [[row[name] or "" for name in ("who", "text")] for row in as_json] == [
        [row["who"], row["text"]] for row in rows
    ]
    beside = ("_margin", "_low", "_high")
    assert {n for n in rows[0] if not n.endswith(beside)} == {*HISTORY.split()}
    asked = [row for row in rows if row["what"] == "charge"]
    assert {row["who"] for row in asked} == {"ana", "bob"}
    assert all(row["mechanisms"] and row["outcome"] == "answered" for row in asked)
    ours = said(owned, "history", "--analyst", "bob", "--format", "csv").stdout
    assert [r["text"] for r in csv.DictReader(io.StringIO(ours))] == [
        "SELECT COUNT(*) AS n FROM orders"
    ]
    assert "no rows" in said(owned, "history", "--until", "2020-01-01").stdout


CLIENT = "psql\x1b[2J\n" + "x" * 20_000


def test_a_text_is_kept_as_it_came_and_long_ones_are_cut(path: Path) -> None:
    text = "SELECT 1 -- a remark\n, 2"
    with closing(SqliteLedger.open(str(path))) as ledger:
        ledger.charge(charge("q1", inquiry=Inquiry("postgres", "psql", text)))
        ledger.charge(charge("q2", inquiry=Inquiry("", CLIENT, "x" * 20_000)))
        long_one, first = ledger.history()
        assert first.inquiry == Inquiry("postgres", "psql", text)
        assert len(long_one.inquiry.sql) == 10_001
        assert long_one.inquiry.client == "psql?[2J?" + "x" * 91 + "…"
        late = datetime(2100, 1, 1, tzinfo=UTC)
        assert ledger.history(since=late) == () == ledger.history(budget="other")


@pytest.mark.full("opens a proxy for each item")
def test_a_running_proxy_learns_that_limits_were_confirmed(owned: Path) -> None:
    """A charge confirms no limit that was not there; an owner's confirmation is told."""
    with Proxy.open(str(owned)) as running:
        running.ask(request("SELECT COUNT(*) AS n FROM customers"))
        assert running.recorded() == running.accepted
        budget = next(c for c in ceilings(running.policy) if c.title == "budget default")
        raised = replace(budget, most=Loss(budget.most.amount + 1, budget.most.delta))
        running.ledger.confirm(raised, "more people")
        assert running.recorded() != running.accepted


@pytest.mark.full("opens servers or connects clients")
def test_a_limit_in_the_file_is_refused_until_the_owner_confirms_it(owned: Path) -> None:
    raised = policy(owned.parent, CAPS[0], ("epsilon = 1000.0", "epsilon = 2000.0"))
    told = said(raised, "query", "SELECT AVG(age) FROM customers", "--analyst", "ana", code=4)
    assert "limit-changed" in told.stderr
    notices = said(raised, "budget").stderr
    assert "another limit for budget default than was confirmed" in notices
    assert "no longer has the limit of group all that was confirmed" in notices
    assert json.loads(said(raised, "budget", "--format", "json").stdout)["removed"] == ["group all"]
    confirmed = said(raised, "budget", "confirm", "--reason", "more people").stderr
    assert "of ana, bob before, no limit now" in confirmed
    assert confirmed.count("before") == 2
    assert "group all" not in said(raised, "budget").stderr
    said(raised, "query", "SELECT AVG(age) FROM customers", "--analyst", "ana")
