"""The server: connections, their limits and their end. Contains no SQL."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from threading import Barrier
from time import monotonic

from dpsql.engines.parking import Parking
from dpsql.engines.process import fallen
from dpsql.interfaces.pgwire import backend, entrance, frontend
from dpsql.interfaces.pgwire.admission import Failures, Strangers, share
from dpsql.interfaces.pgwire.answers import Answers
from dpsql.interfaces.pgwire.bearer_tokens import TokenLogin
from dpsql.interfaces.pgwire.databases import Databases
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.frontend import ProtocolError
from dpsql.interfaces.pgwire.kept_bytes import ServerBytes
from dpsql.interfaces.pgwire.login_desk import LoginDesk
from dpsql.interfaces.pgwire.login_file import Users
from dpsql.interfaces.pgwire.outcomes import Outcome
from dpsql.interfaces.pgwire.pacing import Pacer
from dpsql.interfaces.pgwire.portals import keep_portals, keep_statements
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.session import CHUNK_BYTES, Part, Session
from dpsql.interfaces.pgwire.settings import SessionSettings, milliseconds
from dpsql.interfaces.pgwire.statement_runner import Runner
from dpsql.interfaces.pgwire.stream import MessageStream
from dpsql.interfaces.pgwire.telemetry import Gauge, Telemetry
from dpsql.interfaces.pgwire.transactions import Transaction
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import DpsqlError
from dpsql.policy.draft import ServerSettings as Limits

MAX_THREADS = 32
"""Maximum number of threads that answer. Requests that wait for a worker hold no thread."""
_ENDS = frontend.Query, frontend.Sync, frontend.Flush, frontend.FunctionCall
MAX_BATCH = 1000
"""Maximum number of messages before their Sync."""
GRACE_SECONDS = 10.0
WATCH_SECONDS = 1.0
"""Interval at which the server checks for changes by the owner."""


class Bell:
    """Signal for a request without a thread. Any thread may ring it."""

    def __init__(self) -> None:
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()

    def ring(self) -> None:
        """Wake the waiting request."""
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._event.set)

    async def rung(self, seconds: float | None) -> None:
        """Wait for a ring since the last return, or for at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


@dataclass(slots=True, eq=False)
class _Visit:
    """One admitted connection."""

    number: int
    analyst: str
    secret: bytes
    session: Session
    settings: SessionSettings
    present: Present
    task: asyncio.Task[None]
    bell: Bell
    login: TokenLogin | None = None
    busy: bool = False

    def patience(self, limits: Limits) -> float:
        """Return the seconds for which its client may be silent now."""
        if not self.session.in_transaction:
            return limits.idle_seconds
        own = milliseconds(self.settings["idle_in_transaction_session_timeout"]) / 1000
        return min(limits.idle_in_transaction_seconds, own or limits.idle_seconds)


class Server:
    """Server of one proxy for many clients, until it is stopped.

    Every `WATCH_SECONDS` it disconnects users who may no longer log in. If there is a new data
    version, it uses the state that `renewed` returns. With `only_encrypted` clients must use TLS.
    `failures` are those of other databases at the same port, which `databases` has.
    """

    def __init__(
        self,
        present: Present,
        telemetry: Telemetry,
        renewed: Callable[[], Present] | None = None,
        *,
        only_encrypted: bool = False,
        failures: Failures | None = None,
    ) -> None:
        self.databases = Databases({"": self})
        self.present, self._telemetry, self._renewed = present, telemetry, renewed
        self._only_encrypted = only_encrypted
        self._renewing, self._seen = asyncio.Lock(), present.proxy.accepted
        limits = present.limits
        self._numbers = count(1)
        self._visits: dict[int, _Visit] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers, self._failures = (
            Strangers(limits.max_connections),
            failures or Failures(monotonic),
        )
        self.desk = LoginDesk(lambda: self.present, self._failures, telemetry)
        self._pacer = present.pacer(partial(telemetry.event, "ran"))
        self._bytes = ServerBytes(limits, len(present.proxy.policy.analysts))
        self._stopping = False
        self._admitted: frozenset[str] | None = None
        self._requests = Counter[str]()
        self._pool = _started(min(MAX_THREADS, limits.max_connections))

    async def start(self) -> asyncio.Server:
        """Listen. Raises OSError if the address is in use."""
        self._server = await asyncio.start_server(
            self._connected, self._limits.host, self._limits.port, backlog=1024
        )
        for server in self.databases.servers.values():
            server.attend()
        return self._server

    def attend(self) -> None:
        """Check for changes by the owner from now on."""
        with suppress(OSError, ValueError):  # the watch tells of it
            self._log_users(self.present.users())
        self._keeper = asyncio.create_task(self._watched())

    @property
    def _limits(self) -> Limits:
        return self.present.limits

    async def renew(self) -> None:
        """Load data, policy, users and certificate again, in one step.

        Running statements end with the old state, and connections stay. If loading fails, nothing
        changes and the log says why.
        """
        if self._renewed is None:
            return
        async with self._renewing:
            try:
                new, warnings = await asyncio.to_thread(_warned, self._renewed)
            except DpsqlError as error:
                self._telemetry.count("reloads_failed")
                self._telemetry.event("reload_failed", why=str(error))
                return
            old, self.present, self._seen = self.present, new, new.proxy.accepted
            self._pacer.follow(new.pacer(self._pacer.write))
            self._bytes.limits = new.limits
            self._bytes.shares = len(new.proxy.policy.analysts)
            self._telemetry.event("reloaded")
            for event, fields in warnings:
                self._telemetry.event(event, **fields)
            old.ended = True
            await self._closed(old)

    def gauges(self) -> list[Gauge]:
        """Return gauges of the present policy's budgets and engines. Raises `LedgerError`."""
        return self.present.gauges()

    async def _closed(self, present: Present) -> None:
        """Close a state that is no longer needed."""
        if present.over:
            await asyncio.to_thread(present.proxy.close)

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Accept no more clients, let statements end within `grace` seconds, then cancel them."""
        self._server.close()
        await asyncio.gather(*(each.end(grace) for each in self.databases.servers.values()))

    async def end(self, grace: float) -> None:
        """End the sessions of this database, as `stop` does."""
        self._stopping = True
        self._keeper.cancel()
        for visit in self._visits.values():
            if not visit.busy:
                visit.task.cancel()
        strangers = self._tasks - {visit.task for visit in self._visits.values()}
        for task in strangers:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        self._pacer.close()
        for visit in self._visits.values():
            visit.session.cancel()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.present.ended = True
        await self._closed(self.present)

    # --- one connection ---

    def cancel(self, request: frontend.Cancel) -> None:
        """Cancel the statement of a session, if the request has its key."""
        visit = self._visits.get(request.process)
        if visit is not None and hmac.compare_digest(visit.secret, request.secret):
            self._telemetry.event("cancel", connection=visit.number)
            visit.session.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.take_over(task)
        self._telemetry.count("accepted_connections")
        stream = MessageStream(reader, writer, self._limits.idle_seconds)
        crowded_out = self._strangers.came(task, stream.address)
        if crowded_out is not None:
            self._strangers.gone(crowded_out)
            self._telemetry.count("crowded_out")
            crowded_out.cancel("too many connections wait for their login")
        try:
            await self._served(stream, task)
        finally:
            self._strangers.gone(task)
            await stream.close()

    async def _served(self, stream: MessageStream, task: asyncio.Task[None]) -> None:
        """Admit a client and answer it. Every end of this is an ordinary one."""
        try:
            entered = await self._entered(stream, task)
            if entered is not None:
                server, visit = entered
                await server.answer_visit(stream, visit)
        except Fault as fault:
            self._telemetry.count("refused", f'sqlstate="{fault.sqlstate}"')
            self._telemetry.event("refused", sqlstate=fault.sqlstate, address=stream.address)
            await stream.refuse(fault)
        except ProtocolError as error:
            self._telemetry.count("protocol_errors")
            await stream.refuse(entrance.fatal("08P01", str(error)))
        except TimeoutError:
            await stream.refuse(
                entrance.fatal("57P05", "terminating connection due to idle time-out")
            )
        except (OSError, EOFError):
            self._telemetry.count("broken_connections")
        except asyncio.CancelledError as ended:
            why = ended.args[0] if ended.args else "the server is stopping"
            await stream.refuse(entrance.fatal("57P01", f"terminating connection: {why}"))
        except Exception as error:  # noqa: BLE001 - its text may hold anything
            self._telemetry.event("failed", sqlstate="XX000", kind=type(error).__name__)
            await stream.refuse(entrance.fatal("XX000", "the server failed"))

    async def _entered(
        self, stream: MessageStream, task: asyncio.Task[None]
    ) -> tuple[Server, _Visit] | None:
        """Return the visit of a client that logged in, and its server; None for a cancel
        request.
        """
        async with asyncio.timeout(self._limits.login_seconds):
            startup = await self._first(stream)
            if startup is None:
                return None
            visitor = entrance.guest(startup)
            await stream.send(visitor.negotiation)
            if self._only_encrypted and not stream.encrypted:
                raise entrance.fatal("28000", "connections without TLS are not taken")
            server = await self.databases.choose(stream, visitor)
            if server is not self:
                self._tasks.discard(task)
                server.take_over(task)
            by_token = self.databases.is_by_token(visitor)
            visitor, login = await server.desk.log_in(stream, visitor, by_token=by_token)
            self.databases.require_database(visitor)
            server.require_admission(visitor.user)
            self._strangers.gone(task)
            return server, await server.welcome(stream, visitor, task, login)

    def take_over(self, task: asyncio.Task[None]) -> None:
        """Keep the task of a connection until it ends."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def require_admission(self, analyst: str) -> None:
        """Raise `Fault` if the server is stopping, or if there are too many connections."""
        if self._stopping:
            raise entrance.fatal("57P03", "the server is stopping")
        self._require_room(analyst)

    def _require_room(self, analyst: str) -> None:
        """Raise `Fault` if there are too many connections, in all or of one analyst.

        Requests of other interfaces count as connections, and those of agents as their person's.
        """
        person_of = self.present.proxy.ledger.person_of
        person = person_of(analyst)
        own = sum(person_of(visit.analyst) == person for visit in self._visits.values())
        if len(self._visits) + self._requests.total() >= self._limits.max_connections:
            raise entrance.fatal("53300", "sorry, too many clients already")
        most = share(self._limits, len(self.present.proxy.policy.analysts))
        if own + self._requests[person] >= most:
            raise entrance.fatal("53300", f'too many connections for role "{analyst}"')

    # --- another interface beside this one ---

    @property
    def telemetry(self) -> Telemetry:
        """Log and counters of the server."""
        return self._telemetry

    @property
    def failures(self) -> Failures:
        """Recent failed logins at any interface."""
        return self._failures

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads that answer."""
        return self._pool

    @property
    def pacer(self) -> Pacer:
        """Time grid of all answers."""
        return self._pacer

    @asynccontextmanager
    async def admit_request(self, analyst: str) -> AsyncIterator[Present]:
        """Count a request of another interface, and keep the state that it uses until its end.

        Raises `Fault` if there are too many, or if the server is stopping.
        """
        self.require_admission(analyst)
        present = self.present
        person = present.proxy.ledger.person_of(analyst)
        self._requests[person] += 1
        present.running += 1
        try:
            yield present
        finally:
            self._requests[person] -= 1
            present.running -= 1
            await self._closed(present)

    async def _first(self, stream: MessageStream) -> frontend.Startup | None:
        while True:
            match await stream.startup():
                case frontend.Startup() as startup:
                    return startup
                case frontend.Cancel() as cancel:
                    for server in self.databases.servers.values():
                        server.cancel(cancel)
                    return None
                case frontend.Encrypt(gss=False) if self.present.context and not stream.encrypted:
                    await stream.encrypt(self.present.context, self.present.binding)
                case frontend.Encrypt():
                    await stream.send(b"N")

    async def _watched(self) -> None:
        """Check for changes by the owner, while the server runs."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for worker in fallen():
                self._telemetry.count("workers_lost")
                self._telemetry.event("worker_lost", process=worker.process, exit=worker.exit)
            try:
                proxy = self.present.proxy
                await asyncio.to_thread(proxy.write_refusals)
                recorded, roles = await asyncio.to_thread(proxy.recorded), proxy.roles
                other = roles is not None and await asyncio.to_thread(roles.have_changed)
                if recorded != self._seen or other:
                    self._seen = recorded
                    await self.renew()
                users = await asyncio.to_thread(self.present.users)
                self._log_users(users)
            except (OSError, ValueError) as error:
                self._telemetry.event("users_unreadable", kind=type(error).__name__)
                continue
            except DpsqlError as error:
                self._telemetry.event("ledger_unusable", why=str(error))
                continue
            for visit in tuple(self._visits.values()):
                if not await asyncio.to_thread(self._may_stay, visit, users):
                    if not visit.task.cancelling():
                        self._telemetry.event("session_ended", user=visit.analyst)
                    visit.task.cancel("the user may no longer log in")

    def _log_users(self, users: Users) -> None:
        """Log who may log in since the last look, and who no longer may."""
        admitted = frozenset(name for name, user in users.items() if not user.disabled)
        before, self._admitted = self._admitted, admitted
        for name in sorted(admitted ^ (admitted if before is None else before)):
            change = "user_admitted" if name in admitted else "user_removed"
            self._telemetry.event(change, user=name)

    def _may_stay(self, visit: _Visit, users: Users) -> bool:
        """Test whether the login of a visit still counts."""
        if visit.login is not None:
            return self.present.admits(users, visit.login)
        return self.present.credential(users, visit.analyst) is not None

    async def welcome(
        self,
        stream: MessageStream,
        visitor: entrance.Guest,
        task: asyncio.Task[None],
        login: TokenLogin | None,
    ) -> _Visit:
        """Begin the session of a client that logged in."""
        number, secret, present = next(self._numbers), visitor.secret, self.present
        settings = entrance.first_settings(
            visitor,
            number,
            present.limits,
            encrypted=self.databases.front.present.context is not None,
        )
        bell = Bell()
        session = self._session(present, visitor.user, stream.address, settings, number, bell)
        visit = _Visit(
            number=number,
            analyst=visitor.user,
            secret=secret,
            session=session,
            settings=settings,
            present=present,
            task=task,
            bell=bell,
            login=login,
        )
        statuses = [
            backend.parameter_status(name, value) for name, value in settings.reported().items()
        ]
        key = backend.backend_key(number, secret)
        self._visits[number] = visit
        try:
            await stream.send(b"".join([*statuses, key, backend.ready(b"I")]))
        except BaseException:
            del self._visits[number]
            raise
        return visit

    def _session(
        self,
        present: Present,
        analyst: str,
        address: str,
        settings: SessionSettings,
        number: int,
        bell: Bell,
    ) -> Session:
        def report(outcome: Outcome) -> None:
            who = {"analyst": analyst, "door": "postgres", "address": address}
            self._telemetry.statement(outcome, {"connection": number, **who})

        make = partial(present.catalogue, analyst, settings)
        answers = Answers(present.proxy, make, analyst)
        account, pace = self._bytes.of(answers.person), self._pacer.of(analyst)
        transaction = Transaction(settings, keep_portals(account))
        runner = Runner(answers, transaction, keep_statements(account))
        parking, texts = Parking(bell.ring), present.limits.log_statements
        return Session(runner, report, pace, parking, texts=texts)

    async def answer_visit(self, stream: MessageStream, visit: _Visit) -> None:
        """Answer messages until the client leaves."""
        self._telemetry.open_connections += 1
        who, tls = {"analyst": visit.analyst, "address": stream.address}, stream.encrypted
        self._telemetry.event("login", connection=visit.number, tls=tls, **who)
        try:
            while messages := await self._batch(stream, visit):
                visit.busy = True
                await self._answered(stream, visit, messages)
                visit.busy = False
                if self._stopping:
                    raise entrance.fatal("57P01", "terminating connection: the server is stopping")
        finally:
            visit.session.cancel()
            visit.session.end()
            del self._visits[visit.number]
            self._telemetry.open_connections -= 1
            self._telemetry.event("logout", connection=visit.number)

    async def _batch(self, stream: MessageStream, visit: _Visit) -> list[frontend.Message]:
        """Return the messages up to the next one that needs a reply; none if the client leaves."""
        most, messages = self._limits.max_message_bytes, list[frontend.Message]()
        gathered = 0
        try:
            async with asyncio.timeout(visit.patience(self._limits)):
                while len(messages) < MAX_BATCH and gathered < most:
                    message, size = await stream.message(most)
                    gathered += size
                    if isinstance(message, frontend.Terminate):
                        return []
                    messages.append(message)
                    if isinstance(message, _ENDS):
                        break
        except TimeoutError:
            if not visit.session.in_transaction:
                raise
            why = "terminating connection due to idle-in-transaction timeout"
            raise entrance.fatal("25P03", why) from None
        return messages

    async def _answered(
        self, stream: MessageStream, visit: _Visit, messages: list[frontend.Message]
    ) -> None:
        """Answer a repeated batch at once, and others in a thread.

        Chunks are sent as fast as the client reads.
        """
        self._telemetry.count("batches")
        present = self.present
        if visit.present is not present:
            visit.present = present
            make = partial(present.catalogue, visit.analyst, visit.settings)
            visit.session.take_up(present.proxy, make)
        present.running += 1
        try:
            await self._worked_out(stream, visit, messages)
        except MemoryError:  # ends this batch, and nothing else
            await stream.send(visit.session.without_memory(messages[-1]))
        finally:
            present.running -= 1
            await self._closed(present)

    async def _worked_out(
        self, stream: MessageStream, visit: _Visit, messages: list[frontend.Message]
    ) -> None:
        repeated = visit.session.again(tuple(messages))
        if repeated is not None:
            await stream.send(repeated)
            await asyncio.sleep(0)  # others have their turn, however much was sent ahead
            return
        loop, answers = asyncio.get_running_loop(), visit.session.handle(messages)
        seconds, timer = visit.session.statement_seconds, None
        if seconds:
            timer = loop.call_later(seconds, lambda: visit.session.cancel(late=True))
        try:
            done = False
            while not done:
                part, done = await loop.run_in_executor(self._pool, _next, answers)
                if isinstance(part, Parking):
                    await visit.bell.rung(part.seconds)
                else:
                    await stream.send(part)
        finally:
            if timer is not None:
                timer.cancel()
            with suppress(ValueError):  # a thread has it, which hears that it is cancelled
                answers.close()


def _started(count: int) -> ThreadPoolExecutor:
    """Return running threads. Later there may be no memory to start them."""
    pool, running = ThreadPoolExecutor(count, "dpsql-wire"), Barrier(count + 1)
    for _ in range(count):
        pool.submit(running.wait)
    running.wait()
    return pool


def _warned(
    make: Callable[[], Present],
) -> tuple[Present, tuple[tuple[str, dict[str, str]], ...]]:
    """Return a state and its warnings for the owner. Raises the errors of both."""
    present = make()
    try:
        return present, tuple(present.warnings())
    except BaseException:
        present.proxy.close()
        raise


def _next(chunks: Iterator[Part]) -> tuple[Part, bool]:
    """Return the next chunk or parking, and whether it was the last, as a short chunk is."""
    part = next(chunks, b"")
    return part, not isinstance(part, Parking) and len(part) < CHUNK_BYTES
