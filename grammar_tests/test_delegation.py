"""Agents of analysts: caps under caps, rights that are intersected at each query, and their end.

A ledger is tried by random charges of a chain against sums over a list; the proxy by roles that
change; every interface by a delegation that is revoked while it runs.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.interfaces.pgwire.login_file import User, Users, verifier_of
from dpsql.ledgers import Ceiling, Stopped, book, chain
from dpsql.ledgers.sqlite import SqliteLedger, StoredLedger
from dpsql.model.delegation import Chain, Delegation
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.rights import Role
from dpsql.model.vocabulary import Loss, Policy
from dpsql.policy import restrict
from dpsql.preparation import question
from dpsql.proxy import Proxy
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import charge
from grammar_tests.proxy_kit import request, shop
from grammar_tests.test_ledgers import ledger as ledger  # noqa: PLC0414 - a fixture
from grammar_tests.test_ledgers import path as path  # noqa: PLC0414 - a fixture
from grammar_tests.test_ledgers import server as server  # noqa: PLC0414 - a fixture
from grammar_tests.web_kit import beside
from grammar_tests.wire_kit import PASSWORD, opened

LATER = datetime(2100, 1, 1, tzinfo=UTC)
CHAIN = ("ana", "agent", "sub")
ANA = Ceiling("analyst ana", Loss(40, 10**9), "default", frozenset({"ana"}))


def to(agent: str, delegator: str, until: datetime = LATER, **terms: Any) -> Delegation:
    given = {"budget": "default", "epsilon": Decimal("0.5"), "delta": Decimal("1e-6"), **terms}
    return Delegation(agent=agent, delegator=delegator, until=until, **given)


def caps_of(analyst: str) -> tuple[Ceiling, ...]:
    """The limits that a charge of one of the chain names, its delegators' too."""
    return (ANA, *_AGENTS[: CHAIN.index(analyst)])


_AGENTS = (
    Ceiling("delegation to agent", Loss(20, 10**9), "default", frozenset({"agent"})),
    Ceiling("delegation to sub", Loss(9, 10**9), "default", frozenset({"sub"})),
)


def delegate(ledger: StoredLedger) -> None:
    ledger.delegate(to("agent", "ana"), _AGENTS[0].most, "why")
    ledger.delegate(to("sub", "agent"), _AGENTS[1].most, "why")


# --- charges ---


def wrong_sums(ledger: StoredLedger, seed: int) -> int:
    """How many sums are not those of all below a name, and how many limits are overspent."""
    dice, paid = Random(seed), dict.fromkeys(CHAIN, 0)  # noqa: S311
    delegate(ledger)
    for number in range(30):
        who, loss = dice.choice(CHAIN), dice.randint(1, 5)
        with suppress(Refused):
            asked = charge(f"q{number}", analyst=who, caps=caps_of(who), loss=Loss(loss))
            ledger.charge(asked)
            paid[who] += loss
    wrong = 0
    for place, name in enumerate(CHAIN):
        below = sum(paid[other] for other in CHAIN[place:])
        wrong += ledger.spent("default", frozenset({name})) != Loss(below)
        wrong += below > (40, 20, 9)[place]
    return wrong + (ledger.spent("default").amount != sum(paid.values()))


def test_each_charge_counts_for_all_above_or_for_none(ledger: StoredLedger) -> None:
    with closing(ledger):
        assert wrong_sums(ledger, 1) == 0
        ledger.verify()


def test_wrong_twin_a_charge_that_skips_the_delegator_is_found(
    ledger: StoredLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "names_below", lambda _delegations, analysts: frozenset(analysts))
    with closing(ledger):
        assert wrong_sums(ledger, 1) > 0


def test_a_charge_names_every_limit_above_it(ledger: StoredLedger) -> None:
    with closing(ledger):
        delegate(ledger)
        kit.ask(ledger, "q1", analyst="ana", caps=caps_of("ana"), loss=Loss(1))
        for missing in caps_of("sub"):
            caps = tuple(cap for cap in caps_of("sub") if cap != missing)
            with pytest.raises(Refused) as refused:
                ledger.charge(charge("q2", analyst="sub", caps=caps, loss=Loss(1)))
            assert refused.value.reason is Reason.LIMIT_CHANGED
        ledger.stop(Stopped(None, "ana"), "why")
        with pytest.raises(Refused) as refused:
            ledger.charge(charge("q2", analyst="sub", caps=caps_of("sub"), loss=Loss(1)))
        assert refused.value.reason is Reason.STOPPED_BY_OWNER


def test_what_an_agent_receives_its_delegator_has(ledger: StoredLedger) -> None:
    with closing(ledger):
        delegate(ledger)
        kit.ask(ledger, "q1", analyst="agent", caps=caps_of("agent"), loss=Loss(3))
        assert kit.recall(ledger) is not None
        assert kit.recall(ledger, analyst="sub") is None
        before = ledger.spent("default", frozenset({"ana"})), ledger.spent("default")
        asked = charge("", analyst="ana", caps=caps_of("ana"), loss=Loss(0))
        assert ledger.share(["q1"], asked) == Loss(0)
        assert (ledger.spent("default", frozenset({"ana"})), ledger.spent("default")) == before


def test_what_the_delegator_has_costs_the_agent_alone(ledger: StoredLedger) -> None:
    with closing(ledger):
        delegate(ledger)
        kit.ask(ledger, "q1", analyst="ana", caps=caps_of("ana"), loss=Loss(3))
        asked = charge("", analyst="sub", caps=caps_of("sub"), loss=Loss(0))
        assert ledger.share(["q1"], asked) == Loss(3)
        each = {name: ledger.spent("default", frozenset({name})).amount for name in CHAIN}
        assert each == {"ana": 3, "agent": 3, "sub": 3}
        assert ledger.spent("default") == Loss(3)
        assert ledger.share(["q1"], replace(asked, analyst="agent", caps=caps_of("agent"))) == (
            Loss(0)
        )
        (share,) = ledger.shares("sub")
        assert (share.analyst, share.before) == ("sub", ("ana",))


# --- chains and their end ---


def test_chains_are_short_and_have_no_cycle(ledger: StoredLedger) -> None:
    kit.ask(ledger, "q1", analyst="bob", loss=Loss(1))
    with closing(ledger):
        delegate(ledger)
        wrong = {
            ("deep", "sub"): "longest chain",
            ("ana", "sub"): "no cycle",
            ("agent", "agent"): "no cycle",
            ("agent", "eve"): "another name",
            ("bob", "ana"): "was charged before",
        }
        for (agent, delegator), why in wrong.items():
            with pytest.raises(LedgerError, match=why):
                ledger.delegate(to(agent, delegator), Loss(1), "")
        ledger.delegate(to("b", "a"), Loss(1), "")
        ledger.delegate(to("c", "b"), Loss(1), "")
        with pytest.raises(LedgerError, match="longest chain"):
            ledger.delegate(to("a", "z"), Loss(1), "")
        assert [each.delegator for each in ledger.chain("sub")] == ["agent", "ana"]


def test_revoking_ends_all_below_and_undoes_nothing(ledger: StoredLedger) -> None:
    with closing(ledger):
        delegate(ledger)
        kit.ask(ledger, "q1", analyst="sub", caps=caps_of("sub"), loss=Loss(3))
        ledger.revoke("agent", "done")
        for who in ("agent", "sub"):
            with pytest.raises(Refused) as refused:
                ledger.chain(who)
            assert refused.value.facts["agent"] == "agent"
            with pytest.raises(Refused) as refused:
                ledger.charge(charge("q2", analyst=who, caps=caps_of(who), loss=Loss(1)))
            assert refused.value.reason is Reason.DELEGATION_ENDED
        assert ledger.spent("default", frozenset({"ana"})) == Loss(3)
        assert [act.what for act in ledger.acts(3)][:1] == ["revoke"]
        ledger.delegate(to("agent", "ana"), _AGENTS[0].most, "again")
        kit.ask(ledger, "q3", analyst="sub", caps=caps_of("sub"), loss=Loss(3))


def test_ledger_time_ends_a_delegation_and_does_not_go_back(path: Path) -> None:
    noon = datetime(2026, 11, 29, 12, tzinfo=UTC)
    now = [noon]
    with closing(SqliteLedger.open(str(path), clock=lambda: now[0])) as ledger:
        ledger.delegate(to("agent", "ana", noon + timedelta(hours=1)), _AGENTS[0].most, "")
        assert ledger.chain("agent")
        now[0] = noon + timedelta(hours=1)
        kit.ask(ledger, "q1", analyst="bob", loss=Loss(1))
        now[0] = noon  # a clock that is set back revives nothing
        with pytest.raises(Refused):
            ledger.chain("agent")
    with closing(SqliteLedger.open(str(path), clock=lambda: now[0])) as ledger, \
            pytest.raises(Refused):  # fmt: skip
        ledger.chain("agent")


def test_a_checkpoint_states_delegations(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 4)
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert wrong_sums(ledger, 2) == 0
    with closing(SqliteLedger.open(str(path))) as ledger:
        assert len(ledger.chain("sub")) == 2
        ledger.verify()


def test_late_answers_of_agents_are_their_persons(ledger: StoredLedger) -> None:
    with closing(ledger):
        delegate(ledger)
        ledger.record_late("sub", "q1")
        assert [ledger.late(name) for name in CHAIN] == [1, 1, 1]


# --- rights, and answers of the proxy ---

ROLES = """[roles.all]
analysts = ["ana", "bob"]
[roles.all.tables.customers]
columns = ["country", "segment"]
rows = "country <> 'SE'"
[roles.all.tables.orders]

[roles.north]
analysts = []
[roles.north.tables.customers]
columns = ["country"]
rows = "country <> 'DK'"

[ledger]"""
COUNTRIES = "SELECT country, COUNT(*) AS n FROM customers GROUP BY country ORDER BY 1"
COUNT = "SELECT COUNT(*) AS n FROM orders"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop(tmp_path_factory.mktemp("delegation") / "shop", ("[ledger]", ROLES))


def cli(policy: Path, *words: str, given: str = "") -> str:
    result = CliRunner().invoke(main, [*words, "--policy", str(policy)], input=given)
    assert result.exit_code == 0, result.output
    return result.output


def run_delegate(policy: Path, who: str, agent: str, *more: str, epsilon: str = "0.5") -> str:
    terms = "--to", agent, "--epsilon", epsilon, "--until", "2100-01-01", *more
    return cli(policy, "user", "delegate", who, *terms)


def names_shown(proxy: Proxy, analyst: str) -> dict[str, list[str]]:
    tables = proxy.policy_of(analyst).tables
    return {t.name: [c.name for c in t.columns] for t in tables}


def reach(proxy: Proxy, analyst: str, sql: str) -> bool:
    try:
        proxy.explain(request(sql, None, analyst))
    except Refused:
        return False
    return True


def rights_kept(proxy: Proxy, agent: str, person: str) -> list[str]:
    """Return what an agent still has after its person lost the orders."""
    assert reach(proxy, agent, COUNT)
    assert names_shown(proxy, agent) == names_shown(proxy, person)
    roles = list[Role]()
    for role in proxy.policy.roles:
        fewer = tuple(g for g in role.grants if g.table == "customers" or not role.analysts)
        roles.append(replace(role, grants=fewer))
    proxy.adopt(replace(proxy.policy, roles=tuple(roles)))
    assert not reach(proxy, person, COUNT)
    kept = names_shown(proxy, agent).keys() - names_shown(proxy, person).keys()
    return [*kept, *(sql for sql in (COUNT,) if reach(proxy, agent, sql))]


@pytest.mark.full("opens a proxy for each item")
def test_an_agent_has_at_most_the_rights_of_its_delegator_as_they_are(policy: Path) -> None:
    run_delegate(policy, "ana", "narrow", "--role", "north")
    run_delegate(policy, "ana", "whole")
    with Proxy.open(str(policy)) as proxy:
        assert names_shown(proxy, "narrow") == {"customers": ["country"]}
        (table,) = proxy.policy_of("narrow").tables
        (grant,) = table.grants
        assert grant.rows is not None
        assert grant.rows.text == "(country <> 'SE') AND (country <> 'DK')"
        assert reach(proxy, "narrow", COUNTRIES)
        assert not reach(proxy, "narrow", COUNT)
        assert rights_kept(proxy, "whole", "ana") == []


def test_wrong_twin_rights_copied_at_delegation_are_found(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The delegation has a role of its own, with what the person's roles granted at that time."""
    run_delegate(policy, "ana", "copies")
    live = restrict.roles_of

    def copied(policy: Policy, analyst: str, chain: Chain = ()) -> restrict.Roles | None:
        return (("copy",),) if chain else live(policy, analyst, chain)

    with Proxy.open(str(policy)) as proxy:
        (role, *rest) = proxy.policy.roles
        copy = replace(role, name="copy", analysts=frozenset())
        proxy.adopt(replace(proxy.policy, roles=(role, copy, *rest)))
        for module in (restrict, question):
            monkeypatch.setattr(module, "roles_of", copied)
        assert rights_kept(proxy, "copies", "ana") == ["orders", COUNT]


@pytest.mark.full("opens a proxy for each item")
def test_an_agent_pays_below_its_cap_and_its_delegator_has_the_answer(policy: Path) -> None:
    run_delegate(policy, "ana", "payer", epsilon="0.3")
    run_delegate(policy, "payer", "below", epsilon="0.3")
    with Proxy.open(str(policy)) as proxy:
        own = proxy.ask(request(COUNT, "0.1", "below")).receipt
        assert own is not None
        assert own.charged.amount
        for who, free in (("below", True), ("payer", True), ("ana", True), ("bob", False)):
            receipt = proxy.ask(request(COUNT, "0.1", who)).receipt
            assert receipt is not None
            assert receipt.remembered == free
        ana = proxy.ask(request(COUNTRIES, "0.1", "ana"))
        pot = proxy.ledger.spent("default")
        lent = proxy.ask(request(COUNTRIES, "0.1", "below"))
        assert ana.receipt is not None
        assert lent.receipt is not None
        assert lent.receipt.charged == ana.receipt.charged
        assert lent.rows == ana.rows
        assert proxy.ledger.spent("default") == pot
        with pytest.raises(Refused) as refused:
            proxy.ask(request("SELECT COUNT(*) AS m FROM customers", "0.2", "below"))
        assert refused.value.reason is Reason.BUDGET_EXHAUSTED
        assert refused.value.facts["cap"] == "delegation to below"
        assert proxy.standing("below").cap == "delegation to below"
        with pytest.raises(Refused) as refused:
            proxy.ask(request("DROP MODEL business", None, "below"))
        assert refused.value.reason is Reason.UNSUPPORTED_STATEMENT
        assert {e.analyst for e in proxy.ledger.history("ana")} == {"ana", "below"}
    for words in (("budget",), ("history",)):
        assert "ana → payer → below" in cli(policy, *words)
    report = cli(policy, "report", "--from", "2026-01-01", "--to", "2100-01-01")
    assert "ana → payer → below" in report


def test_mistakes_of_an_owner_are_refused(policy: Path) -> None:
    runner = CliRunner()
    base = ["user", "delegate", "--policy", str(policy), "--epsilon", "1", "--until"]
    for words, why in {
        ("2020-01-01", "--to", "x", "ana"): "later than now",
        ("2100-01-01", "--to", "bob", "ana"): "analyst of the policy",
        ("2100-01-01", "--to", "cube x", "ana"): "name of an agent",
        ("2100-01-01", "--to", "x", "anna"): "ana",
        ("2100-01-01", "--to", "x", "--role", "nort", "ana"): "north",
    }.items():
        result = runner.invoke(main, [*base, *words])
        assert result.exit_code
        assert why in result.output


# --- every interface ---


@pytest.mark.full("opens servers or connects clients")
def test_revoking_acts_at_once_at_every_interface(policy: Path, tmp_path: Path) -> None:
    run_delegate(policy, "ana", "robot", epsilon="50")
    users = {name: User(verifier_of(PASSWORD)) for name in ("ana", "robot")}

    def read() -> Users:
        return users

    with opened(tmp_path, policy, read) as wire, beside(tmp_path, wire) as web:
        with psycopg.connect(**wire.conninfo(user="robot"), autocommit=True) as session:
            assert session.execute(COUNT).fetchone()
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            assert {("customers",), ("orders",)} <= set(session.execute(tables).fetchall())
            body = {"sql": COUNT}
            token = web.send("/v1/token", {}, user="robot").json["token"]
            bearer = {"user": None, "authorization": f"Bearer {token}"}
            for known in ({"user": "robot"}, bearer):
                assert web.send("/v1/query", body, **known).status == 200
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            accept = "application/json, text/event-stream"
            assert web.send("/mcp", call, user="robot", accept=accept).status == 200
            cli(policy, "user", "revoke", "robot")
            for sql in (COUNT, COUNTRIES, tables):
                with pytest.raises(psycopg.Error):
                    session.execute(sql)
            for known in ({"user": "robot"}, bearer):
                assert web.send("/v1/query", body, **known).status == 401
            assert web.send("/mcp", call, user="robot", accept=accept).status == 401
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**wire.conninfo(user="robot"))


def test_wrong_twin_a_revocation_seen_at_restart_only_is_found(
    policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_delegate(policy, "ana", "slow")
    with Proxy.open(str(policy)) as proxy:
        seen = {"slow": proxy.chain("slow")}
        live = StoredLedger.chain

        def remembered(own: StoredLedger, analyst: str) -> Chain:
            return seen[analyst] if analyst in seen else live(own, analyst)

        with pytest.raises(AssertionError, match="dpsql user remove"):
            cli(policy, "user", "revoke", "ana")
        cli(policy, "user", "revoke", "slow")
        assert not reach(proxy, "slow", COUNT)
        monkeypatch.setattr(StoredLedger, "chain", remembered)
        assert reach(proxy, "slow", COUNT)
        with pytest.raises(Refused) as refused:  # the ledger looks once more, in the charge
            proxy.ask(request(COUNT, "0.01", "slow"))
        assert refused.value.reason is Reason.DELEGATION_ENDED
