"""The ledger in simulated processes over a simulated disk: a seed decides who acts, and what fails.

Everything above the store is the ledger as it is. The store is a disk in memory with a file's
transactions (one writer; no commit while others read; all or nothing), or with a server's (readers
delay nobody; a commit may have no known outcome; each process is a host with a mark of its own).
A mark is replaced at once. At every step that another process could see, the seed may run calls of
others, end the process, or lose the connection: before a commit nothing is there, behind it
everything is, and nobody was told.

An oracle adds up what is committed, without a line of the ledger's.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any

import pytest

from dpsql.ledgers import Ceiling, Charge, Stopped, altered, book, removed, store
from dpsql.ledgers.chain import EntryRow, State
from dpsql.ledgers.ledger_store import UnknownCommit
from dpsql.ledgers.mark import Mark
from dpsql.ledgers.sqlite import StoredLedger, accept_store
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.vocabulary import Event, Loss
from grammar_tests import ledger_kit as kit
from grammar_tests.ledger_kit import ANSWER

STEPS = 9
CRASH, FAULT, OTHERS = 0.02, 0.04, 0.16
"""How likely a step ends the process, loses the connection, lets others act: cumulative."""
REOPENED = 0.05
"""How likely a process takes up the policy as it then is, instead of what it would do."""
DEEPEST = 2
"""Calls under way at once, besides the first."""
EVERY = 6
"""Entries from one checkpoint to the next."""

ANALYSTS = {"ana": "left", "bob": "left", "eve": "right"}
SAME = 7
"""The random number of every ledger."""

Policy = tuple[Ceiling, ...]


def policy(left: int, *caps: Ceiling) -> Policy:
    """Two budgets, of which the left one has this limit, and caps."""
    pots = {"left": left, "right": 8}
    budgets = (Ceiling(f"budget {b}", Loss(most, 9), b) for b, most in pots.items())
    return (*budgets, *caps)


ANA = Ceiling("analyst ana", Loss(4, 9), "left", frozenset({"ana"}))
BOTH = Ceiling("group both", Loss(6, 9), None, frozenset({"ana", "eve"}))
ALL = Ceiling("all budgets", Loss(10, 9))
POLICIES = (
    policy(7, ANA, BOTH, ALL),
    policy(9, ANA, BOTH, ALL),
    policy(4, ANA, BOTH, ALL),
    policy(7, BOTH, ALL),
    policy(7, ANA, replace(BOTH, analysts=frozenset({"eve"})), ALL),
    policy(7, ANA, replace(BOTH, title="group two"), ALL),
)
PLAIN = kit.charge(event=Event(()))
YEARS = [datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=365 * n) for n in range(-9, 10)]


class Crashed(BaseException):
    """The process that was running is gone."""


def fault(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("simulated")
    error.sqlite_errorcode = code
    return error


# --- what is right ---------------------------------------------------------------------------


class Oracle:
    """What is committed adds up to, and what may be committed next."""

    def __init__(self) -> None:
        self.amounts, self.deltas = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        self.limits = dict[str, Ceiling]()
        self.stopped = set[Stopped]()
        self.after = dict[str, int]()
        self.entries = 0

    def spent(self, ceiling: Ceiling) -> tuple[int, int]:
        """What was spent below a ceiling."""
        below = [
            (budget, analyst)
            for budget, analyst in self.amounts
            if ceiling.budget in {None, budget}
            if ceiling.analysts is None or analyst in ceiling.analysts
        ]
        return sum(self.amounts[key] for key in below), sum(self.deltas[key] for key in below)

    def covering(self, asked: Charge) -> dict[str, Ceiling]:
        """The confirmed ceilings that a charge counts below."""
        return {
            title: c
            for title, c in self.limits.items()
            if c.budget in {None, asked.budget}
            if c.analysts is None or asked.analyst in c.analysts
        }

    def is_full(self, asked: Charge) -> bool:
        """Whether a charge passes a ceiling of the policy it is made under."""
        for ceiling in asked.ceilings:
            amount, delta = self.spent(ceiling)
            most = ceiling.most
            if amount + asked.loss.amount > most.amount or delta + asked.loss.delta > most.delta:
                return True
        return False

    def is_stopped(self, asked: Charge) -> bool:
        return bool({Stopped(asked.budget, None), Stopped(None, asked.analyst)} & self.stopped)

    def is_unconfirmed(self, asked: Charge) -> bool:
        """Whether the ceilings of a charge are not those that were confirmed for its payer."""
        now = {c.title: c for c in asked.ceilings}
        seen = {title: c for title, c in self.limits.items() if title in now}
        return seen != {t: now[t] for t in seen} or not self.covering(asked).keys() <= now.keys()

    def take(self, rows: Sequence[EntryRow], asked: dict[str, Charge], said: Policy) -> None:
        """Rows that become durable together, for these charges and by this word of the owner."""
        charges = [asked[str(row.query_id)] for row in rows if row.kind == "charge"]
        for row in rows:
            assert row.sequence == self.entries, "an entry is gone"
            self.entries += 1
            whom = Stopped(row.budget, row.analyst)
            match row.kind:
                case "limit" if row.amount is None:
                    del self.limits[str(row.budget)]
                case "limit":
                    self._limit(str(row.budget), charges, said)
                case "stopped":
                    self.stopped.add(whom)
                case "resumed":
                    self.stopped.discard(whom)
                case "charge":
                    self._charge(row, asked[str(row.query_id)])
                case "answer":
                    assert row.query_id in self.after, "an answer that nobody was charged for"

    def _limit(self, title: str, charges: Sequence[Charge], said: Policy) -> None:
        """By the owner's word, or with the first charge below it."""
        assert not charges or title not in self.limits, "a limit that nobody confirmed"
        named = [c for charge in charges for c in charge.ceilings] if charges else said
        self.limits[title] = next(c for c in named if c.title == title)

    def _charge(self, row: EntryRow, asked: Charge) -> None:
        assert not self.is_stopped(asked), "charged though it is stopped"
        assert not self.is_unconfirmed(asked), "charged under limits that nobody confirmed"
        assert not self.is_full(asked), "overspent"
        assert (row.amount, row.delta) == (asked.loss.amount, asked.loss.delta)
        payer = asked.budget, asked.analyst
        self.amounts[payer] += asked.loss.amount
        self.deltas[payer] += asked.loss.delta
        self.after[asked.query_id] = sum(n for (b, _), n in self.amounts.items() if b == payer[0])


# --- the disk --------------------------------------------------------------------------------


class Opened:
    """A connection: what it wrote and did not commit yet."""

    def __init__(self) -> None:
        self.entries = list[tuple[EntryRow, bytes]]()
        self.answers = dict[str, bytes]()
        self.schema = list[str]()
        self.head = b""

    def execute(self, sql: str) -> None:
        """Only the schema is written as SQL."""
        self.schema.append(sql)


class Disk:
    """What survives every process."""

    def __init__(self) -> None:
        self.entries = list[tuple[EntryRow, bytes]]()
        self.answers = dict[str, bytes]()
        self.schema = list[str]()
        self.head = b""
        self.mark: Mark | None = None
        self.writer: Opened | None = None
        self.readers = 0

    def all(self, opened: Opened) -> list[tuple[EntryRow, bytes]]:
        return [*self.entries, *opened.entries]


class Process:
    """One proxy, or the owner's command line: its ledger, and what it does for each analyst."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.mark: Mark | None = None
        self.ledger: StoredLedger | None = None
        self.policy: Policy = POLICIES[0]
        self.programs = dict[str, Iterator[None]]()
        self.excused = False

    def opened(self) -> StoredLedger:
        """Its ledger, opened anew."""
        own = SimulatedStore(self)
        if self.world.server and self.mark is None and self.world.disk.schema:
            accept_store(own, self.world.clock)  # the owner lets a new host in
        self.excused |= self.mark is None  # another host may create it meanwhile
        return self.world.make.over(own, clock=self.world.clock)

    def crash(self) -> None:
        self.ledger = None
        self.programs.clear()


class World:
    """All of it for one seed; `seen` counts what happened."""

    def __init__(self, seed: int, make: type[StoredLedger], *, server: bool = False) -> None:
        self.dice = Random(seed)  # noqa: S311
        self.make, self.server = make, server
        self.disk, self.oracle, self.seen = Disk(), Oracle(), Counter[str]()
        self.asked, self.released = dict[str, Charge](), dict[str, Charge]()
        self.said: Policy = ()
        self.file = POLICIES[0]
        self.numbers = count()
        self.owner = Process(self)
        self.processes = [Process(self), Process(self), self.owner]
        self.running = list[Process]()

    def clock(self) -> datetime:
        """It steps by years, in both directions."""
        return self.dice.choice(YEARS)

    def run(self) -> None:
        """Everything that happens, and what must hold behind it."""
        for _ in range(STEPS):
            self.act(self.dice.choice(self.processes))
        self.running.clear()
        ledger = self.owner.opened()
        ledger.verify()
        with ledger._reading() as whole:
            state, oracle = whole.state, self.oracle
        assert state.limits == oracle.limits
        assert state.stopped == oracle.stopped
        spent = {payer: Loss(n, oracle.deltas[payer]) for payer, n in oracle.amounts.items()}
        assert state.losses == spent, "spending is forgotten"
        assert self.released.keys() <= self.oracle.after.keys(), "answered, and not charged"

    def compare(self, ledger: StoredLedger, ceiling: Ceiling) -> None:
        with ledger._reading() as whole:  # once it ends, others may charge
            loss = whole.state.spent(ceiling.budget, ceiling.analysts)
            assert (loss.amount, loss.delta) == self.oracle.spent(ceiling), "spending is forgotten"

    def act(self, process: Process) -> None:
        """One call in a process, unless it crashes, or its connection is lost."""
        self.running.append(process)
        process.excused = False
        try:
            self._act(process)
        except Crashed:
            self.seen["crash"] += 1
            process.crash()
        except LedgerError:
            assert process.excused, "refused without a reason"
        finally:
            self.running.pop()

    def _act(self, process: Process) -> None:
        if process.ledger is None or self.dice.random() < REOPENED:
            process.policy = self.file
            process.ledger = process.opened()
        elif process is self.owner:
            self.steer(process.ledger)
        else:
            analyst = self.dice.choice(list(ANALYSTS))
            program = process.programs.get(analyst) or self.ask(process, process.ledger, analyst)
            process.programs.pop(analyst, None)
            with suppress(StopIteration):
                next(program)
                process.programs[analyst] = program

    def ask(self, process: Process, ledger: StoredLedger, analyst: str) -> Iterator[None]:
        """What a proxy does for one question: recall, charge, answer, remember."""
        dice, query_id = self.dice, f"q{next(self.numbers)}"
        budget, question = ANALYSTS[analyst], dice.choice("xyz")
        old = ledger.recall(analyst, question, PLAIN.policy_version, PLAIN.epsilon)
        if old is not None:
            assert self.released[old.query_id].analyst == analyst
            assert old.answer == ANSWER
            self.seen["recalled"] += 1
            return
        covering = tuple(c for c in process.policy if c.covers(budget, analyst))
        limit, caps = covering[0].most, covering[1:]
        loss = Loss(dice.randint(1, 4), dice.randint(0, 2))
        asked = replace(
            PLAIN,
            query_id=query_id,
            analyst=analyst,
            budget=budget,
            loss=loss,
            limit=limit,
            question=question,
            caps=caps,
        )
        self.asked[query_id] = asked
        try:
            spent = ledger.charge(asked)
        except Refused as refused:
            self.refused(asked, refused)
            return
        assert spent.after.amount == self.oracle.after.get(query_id), "answered, and not charged"
        yield
        self.released[query_id] = asked
        self.compare(ledger, dice.choice(covering))
        yield
        ledger.remember(query_id, ANSWER)

    def refused(self, asked: Charge, refused: Refused) -> None:
        """Nothing is refused that may be charged."""
        oracle = self.oracle
        self.seen[refused.reason.value] += 1
        match refused.reason:
            case Reason.BUDGET_EXHAUSTED:
                assert oracle.is_full(asked), "refused what fits"
            case Reason.STOPPED_BY_OWNER:
                assert oracle.is_stopped(asked)
            case _:
                assert oracle.is_unconfirmed(asked)

    def steer(self, ledger: StoredLedger) -> None:
        """What the owner does: write other limits, confirm them, stop, resume, refresh."""
        dice = self.dice
        whom = dice.choice([Stopped("left", None), Stopped(None, "ana"), Stopped(None, "eve")])
        match dice.randrange(6):
            case 0:
                self.file = dice.choice(POLICIES)
            case 1 | 2:
                self.said = self.file
                confirmed = ledger.confirmed()
                for title in altered(confirmed, self.said):
                    ledger.confirm(next(c for c in self.said if c.title == title), "a reason")
                for title in removed(confirmed, self.said):
                    ledger.lift(title, "a reason")
            case 3:
                ledger.stop(whom, "a reason")
            case 4:
                for stopped in sorted(ledger.stopped(), key=repr):
                    ledger.resume(stopped)
            case _:
                ledger.refresh()

    def step(self, place: str) -> None:
        """Something that other processes can see: what the seed lets happen here."""
        if not self.running:
            return
        process, chance = self.running[-1], self.dice.random()
        if chance < CRASH:
            self.seen[f"crash {place}"] += 1
            raise Crashed
        if chance < FAULT:
            self.seen[f"fault {place}"] += 1
            process.excused = True
            if self.server and place.startswith("commit"):
                raise UnknownCommit("simulated")
            raise fault(sqlite3.SQLITE_IOERR)
        if chance < OTHERS and len(self.running) <= DEEPEST:
            others = [p for p in self.processes if p not in self.running]
            if others:
                self.seen[f"others {place}"] += 1
                self.act(self.dice.choice(others))

    def busy(self) -> sqlite3.OperationalError:
        self.seen["busy"] += 1
        self.running[-1].excused = True
        return fault(sqlite3.SQLITE_BUSY)

    @contextmanager
    def transaction(self, opened: Opened, *, write: bool) -> Iterator[list[str]]:
        """One writer; a file's commit waits for readers, and fails where they do not go."""
        disk = self.disk
        self.step("begin")
        if write and disk.writer is not None:
            raise self.busy()
        disk.writer = opened if write else disk.writer
        disk.readers += 1
        try:
            yield list(disk.schema)
            if write:
                self.step("commit")
                if disk.readers > 1 and not self.server:
                    raise self.busy()
                self.commit(opened)
        finally:
            disk.readers -= 1
            if write:
                disk.writer = None
                opened.__init__()  # type: ignore[misc]
        if write:
            self.step("committed")

    def commit(self, opened: Opened) -> None:
        disk = self.disk
        if self.running:
            self.oracle.take([row for row, _ in opened.entries], self.asked, self.said)
        if opened.entries:
            assert opened.head == opened.entries[-1][1], "the head is not the end"
            disk.head = opened.head
        disk.entries += opened.entries
        disk.answers |= opened.answers
        disk.schema += opened.schema

    def marked(self, process: Process) -> Disk | Process:
        """Who keeps the mark: the file's neighbour, or each host."""
        return process if self.server else self.disk

    def write_mark(self, process: Process, new: Mark) -> None:
        """In the place of the old one, at once."""
        self.step("mark")
        keeper = self.marked(process)
        old = keeper.mark
        assert old is None or new.sequence >= old.sequence, "the mark goes back"
        keeper.mark = new
        self.step("marked")


# --- the store -------------------------------------------------------------------------------


class SimulatedStore:
    """A `Store` of one process on the disk of its world."""

    name = "/simulated/ledger"

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, process.world
        self.has_hosts = self.world.server

    def failing_closed(self) -> AbstractContextManager[None]:
        return store.failing_closed(self.name)

    @contextmanager
    def connection(self) -> Iterator[Any]:
        yield Opened()

    def transaction(self, opened: Any, *, write: bool) -> AbstractContextManager[list[str]]:
        return self.world.transaction(opened, write=write)

    def create_place(self, ledger_id: str) -> None: ...

    def prepare_schema(
        self, opened: Any, create: Callable[[], None], *, ledger_id: str = ""
    ) -> None:
        del ledger_id
        with self.transaction(opened, write=False) as schema:
            if schema:
                return
        with self.transaction(opened, write=True) as schema:
            if not schema:
                opened.schema.append("simulated")
                create()

    def require_schema(self, schema: Sequence[str]) -> None:
        assert list(schema) == ["simulated"]

    def random(self) -> int:
        return SAME

    def check_head(self, _opened: Any, state: State) -> None:
        assert state.hash == self.world.disk.head, "the head is not the end"

    def write_head(self, opened: Any, state: State) -> None:
        opened.head = state.hash

    def retire(self, opened: Any, state: State, why: str) -> None: ...

    def reopen(self, opened: Any) -> None: ...

    def clock(self, _opened: object) -> None: ...

    def identity(self, _opened: object) -> str:
        return "simulated"

    @contextmanager
    def marking(self, opened: Any) -> Iterator[None]:
        """Under a file's lock; a process of one server is alone on its host."""
        if self.world.server:
            yield
            return
        with self.transaction(opened, write=True):
            yield

    def read_mark(self) -> Mark | None:
        return self.world.marked(self.process).mark

    def known_mark(self, _opened: Any) -> Mark | None:
        return self.read_mark()

    def write_mark(self, mark: Mark) -> None:
        self.world.write_mark(self.process, mark)

    @contextmanager
    def claimed(self, _text: str) -> Iterator[bool]:
        yield True

    @contextmanager
    def running(self, _analyst: str) -> Iterator[int]:
        yield 0

    def stamp(self) -> object: ...

    def close(self) -> None: ...

    def insert_row(self, opened: Any, row: EntryRow, recorded: bytes) -> None:
        opened.entries.append((row, recorded))

    def insert_answer(self, opened: Any, query_id: str, payload: bytes) -> None:
        opened.answers[query_id] = payload

    def rows(self, opened: Any, first: int) -> Iterator[tuple[EntryRow, bytes]]:
        return iter(self.world.disk.all(opened)[first:])

    def rows_where(
        self, opened: Any, condition: str, values: tuple[object, ...], limit: int
    ) -> list[EntryRow]:
        """Of conditions that are equalities alone."""
        given, wanted = iter(values), dict[str, object]()
        for term in condition.split(" AND "):
            name, value = term.split(" = ")
            wanted[name] = next(given) if value == "?" else value.strip("'")
        found = (
            row
            for row, _ in reversed(self.world.disk.all(opened))
            if all(getattr(row, name) == value for name, value in wanted.items())
        )
        return [row for row, _ in zip(found, range(limit), strict=False)]

    def last_checkpoint(self, opened: Any) -> tuple[EntryRow, bytes] | None:
        kept = reversed(self.world.disk.all(opened))
        return next((entry for entry in kept if entry[0].kind == "checkpoint"), None)

    def hash_at(self, opened: Any, sequence: int) -> bytes | None:
        kept = self.world.disk.all(opened)
        return kept[sequence][1] if 0 <= sequence < len(kept) else None

    def payload_of(self, _opened: Any, query_id: str) -> bytes | None:
        return self.world.disk.answers.get(query_id)

    def answered(self, _opened: Any) -> list[str]:
        return list(self.world.disk.answers)


def simulated(
    seeds: range,
    make: type[StoredLedger] = StoredLedger,
    twin: Callable[[pytest.MonkeyPatch], None] = lambda _patch: None,
    *,
    server: bool = False,
) -> Counter[str]:
    """What happened under these seeds. Raises AssertionError, with its seed, where it is wrong."""
    seen = Counter[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(book, "CHECKPOINT_EVERY", EVERY)
        twin(patch)
        for seed in seeds:
            world = World(seed, make, server=server)
            try:
                world.run()
            except AssertionError as wrong:
                wrong.add_note(f"seed {seed}")
                raise
            seen += world.seen
            seen["charged"] += len(world.oracle.after)
    return seen


def first_wrong(seeds: range, **twin: Any) -> int:
    """How many of these seeds it takes to see that something is wrong."""
    for done, seed in enumerate(seeds):
        try:
            simulated(range(seed, seed + 1), **twin)
        except AssertionError:
            return done + 1
    raise AssertionError(f"nothing is wrong in {len(seeds)} seeds")
