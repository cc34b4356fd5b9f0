"""A clock that is moved decides what CURRENT_DATE and NOW() are, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dpsql
from dpsql.interfaces.cli import main
from dpsql.interfaces.wordings import ExitCode
from dpsql.ledgers import Charge, Remembered, Spent, Stopped, ledger_transactions
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model import public_times
from dpsql.model.errors import Reason, Refused, Unreachable
from dpsql.model.vocabulary import Loss
from dpsql.policy.load import load
from dpsql.preparation.bound_policy import bound
from dpsql.preparation.engine_kinds import opened
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import BY_COUNTRY, request, shop

START = datetime(2025, 6, 7, 13, 14, 15, tzinfo=UTC)
YEARS = timedelta(days=3653)
CLOCKS: dict[str, Callable[[], Iterator[datetime]]] = {
    "stands still": lambda: repeat(START),
    "goes back": lambda: chain(repeat(START, 7), repeat(START - YEARS)),
    "goes forwards": lambda: chain(repeat(START, 7), repeat(START + YEARS)),
    "steps whenever it is read": lambda: cycle([START, START + YEARS, START - YEARS]),
}
READ_IT = {
    "model/public_times.py": "what NOW() is",
    "ledgers/ledger_transactions.py": "the time that stands in an entry",
    "interfaces/cli/budget_sheet.py": "how long the rest lasts at the present rate",
    "systems/web/idempotency.py": "until when a reply is kept for a retry",
    "interfaces/pgwire/telemetry.py": "the time that stands in a line of the log",
    "interfaces/pgwire/tls.py": "from when a certificate of our own is valid",
}


class Moments(type(datetime)):  # type: ignore[misc]
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, datetime)


def moved(clock: Iterator[datetime]) -> type[datetime]:
    """The class of moments, for a module that asks it what time it is."""

    class Moved(datetime, metaclass=Moments):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return next(clock).astimezone(tz)

    return Moved


# --- who reads the clock ---------------------------------------------------------------------


CLOCK_CALL = re.compile(
    r"\b(?:datetime|date)\.(?:now|utcnow|today)\(|\btime\.(?:time|time_ns|localtime|gmtime)\("
    r"|from time import [^\n]*\b(?:time|time_ns|localtime|gmtime)\b"
)
"""What says what time it is; `monotonic` says only how long something took."""


@pytest.mark.full("measures neighbours or further data sets")
def test_few_read_the_clock_and_each_says_what_for() -> None:
    root = Path(dpsql.__file__).parent
    texts = {p.relative_to(root).as_posix(): p.read_text("utf-8") for p in root.rglob("*.py")}
    assert {name for name, text in texts.items() if CLOCK_CALL.search(text)} == READ_IT.keys()
    assert CLOCK_CALL.search("x = time.time()")
    assert CLOCK_CALL.search("from time import monotonic, time")
    assert not CLOCK_CALL.search("x = time.monotonic()")


# --- what it decides -------------------------------------------------------------------------

SINCE = "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= CURRENT_DATE - 7"
POT = (
    ("epsilon = 1000.0", "epsilon = 1.7"),
    ('[analysts.bob]\nbudget = "default"', '[analysts.bob]\nbudget = "default"\nepsilon = 1.1'),
)


class Shops:
    """One engine and one policy, and a ledger for each that asks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.draft = load(str(shop(folder / "shop", *POT)))
        self.engine = opened(self.draft)
        with closing(SqliteLedger.open(str(folder / "first.ledger"))) as ledger:
            self.policy = bound(self.draft, self.engine, ledger)

    def proxy(self, name: str, make: type[SqliteLedger] = SqliteLedger) -> Proxy:
        return Proxy(self.policy, self.engine, make.open(str(self.folder / f"{name}.ledger")))


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    found = Shops(tmp_path_factory.mktemp("clocks"))
    with closing(found.engine):
        yield found


def told(proxy: Proxy, sql: str, analyst: str = "ana") -> tuple[object, ...]:
    """What was decided of one question."""
    try:
        receipt = proxy.ask(request(sql, None, analyst)).receipt
    except Refused as refused:
        return (refused.reason, refused.facts.get("cap"))
    assert receipt is not None
    return receipt.charged, receipt.spent, receipt.left, receipt.cap, receipt.remembered


def everything(proxy: Proxy) -> list[object]:
    """What accepts, charges, remembers, refuses and stops decide, one after the other."""
    sums = [f"SELECT SUM(quantity) AS q{n} FROM orders WHERE quantity > {n}" for n in range(4)]
    decided: list[object] = [told(proxy, BY_COUNTRY), told(proxy, BY_COUNTRY)]
    decided += [told(proxy, sql, "bob") for sql in sums]
    decided.append(told(proxy, sums[0], "bob"))
    ledger = proxy.ledger
    ledger.stop(Stopped(None, "ana"), "")
    decided += [told(proxy, sums[0]), told(proxy, BY_COUNTRY)]
    ledger.resume(Stopped(None, "ana"))
    decided += [told(proxy, sql) for sql in sums]
    plan = proxy.explain(request(sums[2]))
    decided += [plan.charge, plan.rest, plan.cap, plan.blocks]
    decided += [ledger.spent("default"), ledger.confirmed(), ledger.data_version()]
    decided.append([entry.loss for entry in ledger.history(None, 99)])
    ledger.verify()
    return decided


def under(
    patch: pytest.MonkeyPatch, clock: Iterator[datetime], run: Callable[[], list[object]]
) -> list[object]:
    with patch.context() as moving:
        for module in (public_times, ledger_transactions):
            moving.setattr(module, "datetime", moved(clock))
        return run()


def differ(
    shops: Shops, patch: pytest.MonkeyPatch, make: type[SqliteLedger], names: Sequence[str]
) -> list[str]:
    """The clocks under which something else is decided."""
    found = {}
    for name in ("stands still", *names):
        proxy = shops.proxy(f"{make.__name__} {name}", make)
        found[name] = under(patch, CLOCKS[name](), lambda: everything(proxy))  # noqa: B023
    return [name for name in names if found[name] != found["stands still"]]


@pytest.mark.full("opens a proxy for each item")
def test_it_decides_nothing_where_no_question_asks_for_it(
    shops: Shops, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert differ(shops, monkeypatch, SqliteLedger, list(CLOCKS)[1:]) == []
    with closing(SqliteLedger.open(str(shops.folder / "SqliteLedger goes back.ledger"))) as ledger:
        assert {entry.time for entry in ledger.history(limit=99)} == {START, START - YEARS}


class InOrder(SqliteLedger):
    """Wrong: believes that time goes forwards."""

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        latest = [entry.time for entry in self.history(limit=1)]
        if latest and self._clock() < latest[0]:
            raise Refused(Reason.STOPPED_BY_OWNER)
        return super().charge(charge, *more)


class LastYears(SqliteLedger):
    """Wrong: remembers for some years."""

    def recall(self, *of: Any) -> Remembered | None:
        answer, oldest = super().recall(*of), self._clock() - YEARS / 2
        times = {entry.query_id: entry.time for entry in self.history(limit=99)}
        return answer if answer and times[answer.query_id] > oldest else None


@pytest.mark.parametrize(
    ("make", "name"), [(InOrder, "steps whenever it is read"), (LastYears, "goes forwards")]
)
def test_a_ledger_that_believes_the_clock_is_found(
    shops: Shops, monkeypatch: pytest.MonkeyPatch, make: type[SqliteLedger], name: str
) -> None:
    assert differ(shops, monkeypatch, make, [name]) == [name]


@pytest.mark.full("starts processes")
def test_it_decides_what_the_date_is(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, charged = shops.proxy("dates"), []
    for day in (START, START, START - YEARS, START - YEARS, START):
        charged += under(monkeypatch, repeat(day), lambda: [told(proxy, SINCE)[0]])
    first = charged[0]
    assert charged == [first, Loss(0), first, Loss(0), Loss(0)]


@pytest.mark.full("starts processes")
def test_a_clock_after_2262_gives_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_late() -> float:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    monkeypatch.setattr(public_times, "read_clock", too_late)
    told = CliRunner().invoke(main, ["budget"])
    assert told.exit_code == ExitCode.UNREACHABLE
    assert "clock says a year after 2262" in told.stderr
    assert "fault" not in told.stderr
    with pytest.raises(Unreachable, match="Set the clock"):
        dpsql.connect("nowhere.toml")
