"""The page on production is true: its recipes run, its files are sound, its table is complete."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import sqlite3
import threading
import tomllib
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib import import_module
from itertools import count
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dpsql
from dpsql import accountants
from dpsql.interfaces.cli import main as command_line
from dpsql.interfaces.pgwire.telemetry import Telemetry
from dpsql.ledgers.sqlite import SqliteLedger, accept
from dpsql.ledgers.store import Patience
from dpsql.model.dataclass import replace
from dpsql.model.errors import LedgerError
from dpsql.model.resources import Limits
from dpsql.model.vocabulary import Budget, Cap, Loss
from dpsql.policy import demo
from dpsql.policy.draft import ServerSettings
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from examples.production.backup import back_up
from examples.production.lost import Missing, limits_without, lost, lower_limit, show
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import LOSS, charge, used
from grammar_tests.pages_kit import ROOT, holds, merge, run
from grammar_tests.test_readme import README

yaml: Any = import_module("yaml")
PAGE = Path(dpsql.__file__).parent / "docs" / "deployment.md"
TEXT = PAGE.read_text(encoding="utf-8")
FILES = ROOT / "examples" / "production"


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


# --- the page ---


def test_the_page_is_linked_and_names_every_file() -> None:
    assert "dpsql/docs/deployment.md" in README
    assert [f.name for f in FILES.iterdir() if f.is_file() and f.name not in TEXT] == []


@pytest.mark.full("opens servers or connects clients")
def test_its_commands_run(tmp_path: Path) -> None:
    demo.build(tmp_path)
    SqliteLedger.open(str(tmp_path / "dpsql.ledger")).refresh()
    for file in FILES.glob("*.py"):
        shutil.copy(file, tmp_path)
    holds(PAGE, tmp_path)
    assert len([*(tmp_path / "backups").glob("*/dpsql.ledger")]) == 2


def test_its_policy_is_one(tmp_path: Path) -> None:
    (fragment,) = fenced("toml")
    (tmp_path / "dpsql.toml").write_text(merge(demo.POLICY, fragment), encoding="utf-8")
    found = load(str(tmp_path / "dpsql.toml"))
    assert found.ledger.path == tomllib.loads(fragment)["ledger"]["path"]
    assert found.server.certificate == "/etc/dpsql/server.pem"


# --- systemd, logrotate, Prometheus ---


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(FILES / "dpsql.service", encoding="utf-8")
    return found


def test_the_unit_says_what_the_page_says() -> None:
    service = unit()["Service"]
    program, *arguments = service["ExecStart"].split()
    with command_line.make_context("dpsql", arguments[:2], resilient_parsing=True) as context:
        assert command_line.get_command(context, arguments[2]) is not None
    assert arguments[2:] == ["serve"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    for path in (program, arguments[1], service["ReadOnlyPaths"].split()[1], "/var/lib/dpsql"):
        assert any(
            path.startswith(where) for where in re.findall(r"^\| `(/\S+)`", TEXT, re.MULTILINE)
        )
    assert service["ProtectSystem"] == "strict"
    assert {"PrivateTmp", "NoNewPrivileges", "PrivateDevices"} <= {
        key for key, value in service.items() if value == "yes"
    }
    assert service["RestrictAddressFamilies"].split() == ["AF_INET", "AF_INET6", "AF_UNIX"]
    assert "MemoryMax" in service
    assert "StateDirectory" in service


def test_the_container_runs_what_the_unit_runs() -> None:
    """It is not built here, and says so."""
    text = (FILES / "Containerfile").read_text(encoding="utf-8")
    assert "Not built in the tests" in text
    program, *arguments = unit()["Service"]["ExecStart"].split()
    said = re.findall(r'"([^"]+)"', text.partition("ENTRYPOINT ")[2])
    assert said[: len(arguments) + 1] == [program, *arguments]
    with command_line.make_context("dpsql", said[1:3], resilient_parsing=True) as context:
        serve = command_line.get_command(context, said[3])
        assert serve is not None
        assert {*said[4::2]} <= {name for option in serve.params for name in option.opts}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (FILES / "dpsql.service").read_text(encoding="utf-8")
    path = tmp_path / "dpsql.service"
    path.write_text(text.replace("/opt/dpsql/bin/dpsql", "/bin/true"), encoding="utf-8")
    verified = run(["systemd-analyze", "verify", "--man=no", str(path)], tmp_path)
    assert (verified.returncode, verified.stderr) == (0, "")
    exposure = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(path)]
    rated = run(exposure, tmp_path)
    if "unrecognized option" not in rated.stderr:
        assert rated.returncode == 0, rated.stdout


@pytest.mark.skipif(not Path("/usr/sbin/logrotate").exists(), reason="logrotate is not installed")
def test_a_rotated_log_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "dpsql.log"
    text = (FILES / "dpsql.logrotate").read_text(encoding="utf-8")
    rules = tmp_path / "rules"
    rules.write_text(text.replace("/var/log/dpsql/dpsql.log", str(log)), encoding="utf-8")
    rules.chmod(0o600)
    tmp_path.chmod(0o700)
    with log.open("a", encoding="utf-8") as server:
        for line in ("before\n", "after\n"):
            server.write(line)
            server.flush()
            if line == "before\n":
                forced = ["/usr/sbin/logrotate", "-f", "-s", str(tmp_path / "state"), str(rules)]
                done = run(forced, tmp_path)
                assert done.returncode == 0, done.stderr
    assert log.read_text(encoding="utf-8") == "after\n"
    assert (tmp_path / "dpsql.log.1").read_text(encoding="utf-8") == "before\n"


def test_the_alerts_ask_for_metrics_that_the_page_explains() -> None:
    (group,) = yaml.safe_load((FILES / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    explained = set(re.findall(r"dpsql_\w+", TEXT))
    for rule in group["rules"]:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert set(re.findall(r"dpsql_\w+", rule["expr"])) <= explained
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["annotations"]["summary"]
    assert any(rule["expr"] == "dpsql_budget_used_ratio > 0.8" for rule in group["rules"])
    rises = re.findall(r"increase\((dpsql_\w+(?:{[^~}]+})?)\[", str(group["rules"]))
    alone = {"dpsql_refusals_total"}  # many of any reason, not the first one
    counters = Telemetry(str).exposition()
    assert {rise for rise in rises if f"\n{rise} 0\n" not in counters} == alone
    scraped = yaml.safe_load((FILES / "scrape.yml").read_text(encoding="utf-8"))
    (job,) = scraped["scrape_configs"]
    port = tomllib.loads(fenced("toml")[0])["server"]["metrics_port"]
    assert job["static_configs"] == [{"targets": [f"127.0.0.1:{port}"]}]
    assert f'up{{job="{job["job_name"]}"}}' in group["rules"][0]["expr"]


def test_the_memory_of_the_unit_is_the_sum_of_the_page() -> None:
    limits, server = Limits(), ServerSettings()
    own, each = (int(text.removesuffix("GB")) for text in (server.memory, limits.memory))
    most = own + 2 * server.workers * each + server.workers + 0.6
    assert f"{ceil(most)} GB" in TEXT
    assert unit()["Service"]["MemoryMax"] == f"{ceil(most)}G"


# --- backup and restore ---


def test_a_backup_of_a_ledger_in_use_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.ledger"
    ledger = SqliteLedger.open(str(path))
    ledger.charge(charge("first"))
    enough = threading.Event()

    def spend() -> None:
        for number in count():
            kit.ask(ledger, f"q{number}")
            if enough.is_set():
                return

    spender = threading.Thread(target=spend)
    spender.start()
    copies = [back_up(path, tmp_path / "backups") for _ in range(4)]
    enough.set()
    spender.join()
    ledger.verify()
    for copy in copies:
        with pytest.raises(LedgerError, match="mark"):  # and nothing worse than that
            SqliteLedger.open(str(copy))
        accept(str(copy))
        SqliteLedger.open(str(copy)).verify()


def test_a_restored_backup_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.ledger"
    ledger = SqliteLedger.open(str(path))
    kit.ask(ledger, "q1")
    copy = back_up(path, tmp_path / "backups")
    kit.ask(ledger, "q2")
    shutil.copyfile(copy, path)  # into the same file, its mark left
    with pytest.raises(LedgerError, match="ends at entry 3, but entry 5 was there"):
        SqliteLedger.open(str(path))
    log = [logged(query) for query in ("q1", "q2")]
    log.append(logged("q3", answer="failed"))
    log += [logged("q2", answer="remembered"), "Started dpsql.\n", '{"event": "state']
    missing = lost(path, log)
    assert missing.charges == {("default", "ana"): LOSS}
    assert (missing.failed, missing.unread) == ({"ana": 1}, 1)
    assert not missing.begins_late
    assert lost(path, [logged("q2", answer="remembered"), logged("q2")]).charges
    assert lost(path, [logged("q2", time="2100-01-01T00:00:00Z")]).begins_late
    assert lost(path, []).begins_late
    with pytest.raises(SystemExit, match="copy the newest backup there first"):
        lost(tmp_path / "elsewhere.ledger", [])
    accept(str(path))
    assert SqliteLedger.open(str(path)).spent("default") == LOSS


def logged(query: str, answer: str = "fresh", time: str = "2020-01-01T00:00:00.000+00:00") -> str:
    """A line of a server's log, for the charge of the kit."""
    paid = {"budget": "default", "charge": LOSS.amount / 1e9, "charge_delta": LOSS.delta / 1e18}
    event = {"time": time, "event": "statement", "analyst": "ana", "answer": answer, "query": query}
    return json.dumps(event | (paid if answer == "fresh" else {})) + "\n"


POT = Budget("science", Decimal(3), Decimal("1e-6"))


@pytest.mark.parametrize("accountant", ["zcdp", "pure", "approximate", "tight"])
def test_a_lowered_limit_counts_what_was_lost(accountant: str) -> None:
    delta = Decimal(0) if accountant == "pure" else POT.delta
    pot = replace(POT, accountant=accountant, delta=delta)
    limit = accountants.get(accountant).limit
    for loss in (Loss(10**6), Loss(10**8), Loss(10**6, 10**10 if delta else 0)):
        lower = lower_limit(pot, loss)
        if accountant == "tight":  # the log lacks the coordinates of its other filters
            assert lower is None
            continue
        assert lower is not None
        assert (limit(lower) + loss).is_within(limit(pot))
        more = replace(lower, epsilon=lower.epsilon + pot.epsilon / 5000)
        assert not (limit(more) + loss).is_within(limit(pot))
    assert lower_limit(pot, limit(pot)) is None


def test_wrong_twin_an_epsilon_lowered_by_the_logged_amount_is_too_large() -> None:
    loss, limit = Loss(10**8), accountants.get("zcdp").limit
    naive = replace(POT, epsilon=POT.epsilon - Decimal("0.1"))
    assert not (limit(naive) + loss).is_within(limit(POT))


@pytest.mark.full("starts processes")
def test_every_limit_that_covers_a_lost_charge_is_lowered(tmp_path: Path) -> None:
    """Caps of analysts too; a charge of an agent counts for all of them."""
    draft = load(str(demo.build(tmp_path)))
    cap = Cap("analyst ana", Decimal(1), Decimal("1e-6"), "default", frozenset({"ana"}))
    draft = replace(draft, caps=(cap,))

    def titles(analyst: str) -> list[str]:
        missing = Missing({("default", analyst): Loss(10**6)})
        return [title for title, *_ in limits_without(draft, missing)]

    assert titles("ana") == titles("agent-7") == ["budget default", "analyst ana"]
    others = replace(draft, analysts=(*draft.analysts, ("bob", "default")))
    assert [t for t, *_ in limits_without(others, Missing({("default", "bob"): Loss(1)}))] == [
        "budget default"
    ]
    with pytest.raises(SystemExit, match="name them"):
        list(limits_without(draft, Missing({("old", "ana"): Loss(1)})))
    shown = "\n".join(show(draft, Missing({("default", "ana"): Loss(10**6)}, Counter(ana=2))))
    assert re.search(r"budget default: ρ = 0.001000000 is lost. Write epsilon = \d", shown)
    assert "ana: 2 failed queries" in shown
    assert "command line" in shown  # no log has its charges


@pytest.mark.full("opens engines")
def test_the_order_of_a_restore_never_spends_what_was_lost(tmp_path: Path) -> None:
    """The lowered limits refuse every charge from the acceptance to the confirmation."""
    policy = demo.build(tmp_path)
    ask = partial(_ask, policy)
    assert ask("SELECT COUNT(*) FROM orders") == 0
    copy = back_up(tmp_path / "dpsql.ledger", tmp_path / "backups")
    assert ask("SELECT COUNT(*) FROM customers") == 0
    with Proxy.open(str(policy)) as proxy:
        entry = proxy.ledger.history(None, 1)[0]
    shutil.copyfile(copy, tmp_path / "dpsql.ledger")
    assert ask("SELECT COUNT(*) FROM orders") == 5
    ((_, _, _, lower),) = limits_without(
        load(str(policy)), Missing({("default", entry.analyst): entry.loss})
    )
    assert lower is not None
    text = policy.read_text(encoding="utf-8")
    policy.write_text(text.replace("epsilon = 10.0", f"epsilon = {lower.epsilon}"), "utf-8")
    _command(policy, "budget", "--accept-ledger")
    assert ask("SELECT COUNT(*) FROM customers") == 4  # limit-changed
    assert ask("SELECT COUNT(*) FROM orders") == 0  # remembered
    _command(policy, "budget", "confirm", "--reason", "restored")
    assert ask("SELECT COUNT(*) FROM customers") == 0


def _command(policy: Path, *arguments: str) -> int:
    result = CliRunner().invoke(command_line, ["--policy", str(policy), *arguments])
    return result.exit_code


def _ask(policy: Path, sql: str) -> int:
    return _command(policy, "query", sql)


def test_what_no_check_can_tell(tmp_path: Path) -> None:
    """Why the page says what never to put back: this is the limit of the mark."""
    path = tmp_path / "dpsql.ledger"
    running = used(path)
    ledger, mark = path.read_bytes(), kit.mark_file(path).read_bytes()
    running.charge(charge("q3"))
    path.write_bytes(ledger)
    kit.mark_file(path).write_bytes(mark)
    assert SqliteLedger.open(str(path)).spent("default") == LOSS + LOSS
    with pytest.raises(LedgerError):  # who saw what was spent knows better
        running.spent("default")


# --- when the ledger fails closed ---


def mixed_up(path: Path) -> None:
    other = path.with_name("other.ledger")
    SqliteLedger.open(str(other))
    shutil.copy(kit.mark_file(other), kit.mark_file(path))


def locked(path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    HOLDERS.append(holder)


HOLDERS: list[sqlite3.Connection] = []


def released(_path: Path) -> None:
    HOLDERS.pop().close()


def edited(path: Path) -> None:
    kit.edit(path, "UPDATE entries SET amount = 0 WHERE sequence = 2")


def answer_edited(path: Path) -> None:
    kit.edit(path, "UPDATE answers SET payload = x'01' WHERE query_id = 'q1'")


def other_accountant(path: Path) -> None:
    SqliteLedger.open(str(path)).charge(charge("q9", accountant="pure"))


def unwritable(path: Path) -> None:
    kit.mark_file(path).rename(path.with_suffix(".kept"))
    kit.mark_file(path).mkdir()


def writable(path: Path) -> None:
    kit.mark_file(path).rmdir()
    path.with_suffix(".kept").rename(kit.mark_file(path))


def restore(path: Path) -> None:
    """The page's way: the backup under the ledger's name, then the owner's word."""
    shutil.copy(path.with_suffix(".backup"), path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    accept(str(path))


Step = Callable[[Path], object]
INCIDENTS: dict[str, tuple[Step, Step]] = {
    "was rolled back": (kit.roll_back, restore),
    "is a copy, or a restored backup": (kit.restore, lambda path: accept(str(path))),
    "has lost its mark": (lambda path: kit.mark_file(path).unlink(), lambda p: accept(str(p))),
    "mark … was damaged": (
        lambda path: kit.overwrite(kit.mark_file(path), b"{}"), lambda path: accept(str(path)),
    ),
    "is another ledger than the one its mark belongs to": (
        mixed_up, lambda path: accept(str(path)),
    ),
    "was rewritten": (kit.rewrite_chain, restore),
    "was edited or rolled back": (edited, restore),
    "an answer of it is not what was recorded": (answer_edited, restore),
    "is gone or empty": (lambda path: path.unlink(), restore),
    "or its tables were changed": (kit.drop_trigger, restore),
    "is not a ledger": (lambda path: kit.overwrite(path, b"x" * 5000), restore),
    "is locked by another process": (locked, released),
    "or its mark failed": (unwritable, writable),
    "accountants are never mixed": (other_accountant, lambda _path: None),
}  # fmt: skip


def told() -> list[str]:
    """The messages of the page's table, as the keys of `INCIDENTS`."""
    rows = re.findall(r"^\| (`.*?) \|", TEXT.partition("## When the ledger")[2], re.MULTILINE)
    return [row.replace("`", "") for row in rows]


def test_the_table_has_every_incident() -> None:
    assert told() == list(INCIDENTS)


@pytest.mark.parametrize("message", INCIDENTS)
def test_each_message_has_its_cause_and_its_way_out(
    tmp_path: Path, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dpsql.ledger"
    used(path)
    happens, way_out = INCIDENTS[message]
    once = partial(Patience, attempts=1, wait=lambda _seconds: None)
    monkeypatch.setattr("dpsql.ledgers.sqlite.Patience", once)
    with pytest.raises(LedgerError, match=re.escape(message).replace(r"\ …\ ", ".*")):
        happen(path, happens)
    if message.startswith("was edited"):
        with pytest.raises(LedgerError):
            accept(str(path))
    way_out(path)
    use(path)


def happen(path: Path, happens: Step) -> None:
    happens(path)
    use(path)


def use(path: Path) -> None:
    """What a server does with its ledger."""
    ledger = SqliteLedger.open(str(path))
    kit.recall(ledger)
    ledger.charge(charge(f"later {len(ledger.history(None, 100))}"))
    ledger.verify()
