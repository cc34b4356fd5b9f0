"""Side systems at work for one proxy: statements, calls, tables and answers of their own.

They are listed in `dpsql.model.system_table`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Protocol, TypeVar

from dpsql.dialects.statements.creations import Drop, SystemStatement
from dpsql.engines import Stop
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import MissingExtra, Reason, Refused
from dpsql.model.system_table import KINDS, SYSTEMS, load
from dpsql.model.vocabulary import Answer, Column, Request, TablePolicy
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.explanation import Explanation
from dpsql.preparation.question import Question
from dpsql.vault.vault import Vault

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a proxy that a side system works with, and the stop of the statement."""

    compiler: Compiler
    vault: Vault
    systems: SideSystems
    stop: Stop

    def with_chain(self, request: Request) -> Request:
        """Return a request with the delegations of its analyst as they are now.

        Raises `Refused` if one of them has ended.
        """
        is_analyst = self.compiler.policy.budget_of(request.analyst) is not None
        return replace(
            request, chain=() if is_analyst else self.vault.ledger.chain(request.analyst)
        )


class ProgramStatement(Protocol[T_co]):
    """A statement of a program: see `Proxy.run`."""

    def run(self, parts: Parts) -> T_co:
        """Return the result. Raises as `Proxy.ask` does."""


OTHER = "other statements"
"""The interface of statements of side systems, in counts of refusals."""


class InPeriods:
    """A statement of a program that is charged to the periods of people that it reads."""

    __slots__ = ()

    @property
    def door(self) -> str:
        """The interface of the statement, in counts of refusals."""
        return OTHER


class OtherAnswers(Protocol):
    """Answers to a question that the parser or the policy refused."""

    def answer(self, parts: Parts, request: Request) -> Answer:
        """Answer as `Proxy.ask` does."""

    def explain(self, parts: Parts, request: Request) -> Explanation:
        """Explain as `Proxy.explain` does."""

    def inside(self, parts: Parts, request: Request) -> tuple[Parts, Request]:
        """Return the request that a compiler can describe, and the parts with this compiler."""


class PaidSource(Protocol):
    """A free answer to a question, from releases that are paid for."""

    def answer(self, compiler: Compiler, vault: Vault) -> Answer:
        """Return the answer."""

    def explanation(self, compiler: Compiler, vault: Vault) -> Explanation:
        """Return the plan, which costs nothing."""


class OpenSystem(ABC):
    """A side system at work for one proxy. A system overrides what it adds.

    `in_periods` is true if its statements charge the periods of people that they read.
    """

    in_periods = False

    @property
    def changes(self) -> int:
        """Counter of the changes of its names."""
        return 0

    @abstractmethod
    def ask(self, parts: Parts, request: Request, statement: Any) -> Answer:
        """Run a statement of the system. Raises as `Proxy.ask` does."""

    @abstractmethod
    def explain(self, parts: Parts, request: Request, statement: Any) -> Explanation:
        """Return the plan and the price of a statement. Raises as `Proxy.explain` does."""

    @abstractmethod
    def columns(self, statement: Any) -> tuple[Column, ...]:
        """Return the columns of the answer to a statement."""

    def instead(self, parts: Parts, request: Request, refused: Refused) -> OtherAnswers | None:
        """Return the answers to a request with an unknown table, or with a call of the system."""
        del parts, request, refused
        return None

    def source(self, parts: Parts, query: Question) -> PaidSource | None:
        """Return a free answer to a question with one of the system's `answers`."""
        del parts, query
        return None

    def tables(self, parts: Parts, analyst: str) -> tuple[TablePolicy, ...]:
        """Return the tables of this system that an analyst made, or that were published to them."""
        del parts, analyst
        return ()


class SideSystems:
    """The side systems of one proxy, each opened when it is first needed: thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[str, OpenSystem] = {}

    @property
    def changes(self) -> int:
        """Counter of the changes of names in side systems."""
        return sum(each.changes for each in tuple(self._open.values()))

    def of_statement(self, said: SystemStatement) -> tuple[OpenSystem, Any]:
        """Return the system of a statement, and the statement as the system reads it.

        Raises `Refused`, also if the folder of the system is missing.
        """
        system = KINDS[said.kind]
        try:
            reads: Callable[[SystemStatement], Any] = load(system.reads)
        except MissingExtra as missing:
            verb = "DROP" if isinstance(said, Drop) else "CREATE"
            facts = {"construct": f"{verb} {said.kind.upper()}", "fix": str(missing)}
            raise Refused(Reason.UNSUPPORTED_STATEMENT, **facts) from None
        statement = reads(said)
        return self.open(system.name), statement

    def open(self, name: str) -> Any:
        """Return the `OpenSystem` with a name. Raises `MissingExtra` if its folder is missing."""
        with self._lock:
            if name not in self._open:
                system = next(each for each in SYSTEMS if each.name == name)
                self._open[name] = load(system.opens)()
            return self._open[name]

    def instead(self, parts: Parts, request: Request, refused: Refused) -> OtherAnswers:
        """Return the answers to a refused request. Raises the refusal if no system has any."""
        table, call = Reason.UNKNOWN_TABLE, Reason.UNKNOWN_FUNCTION
        if refused.reason not in (table, call):
            raise refused
        for system in SYSTEMS:
            called = refused.reason is call and refused.facts.get("name") in system.calls
            if not called and not (refused.reason is table and system.tables):
                continue
            try:
                opened: OpenSystem = self.open(system.name)
            except MissingExtra as missing:
                if called:
                    facts = refused.facts | {"fix": str(missing)}
                    raise Refused(call, refused.span, **facts) from None
                continue
            other = opened.instead(parts, request, refused)
            if other is not None:
                return other
        raise refused

    def source(self, parts: Parts, query: Question) -> PaidSource | None:
        """Return a free answer to a question, from releases of a system, if there is one."""
        for system in SYSTEMS:
            if not query.calls.isdisjoint(system.answers):
                with suppress(MissingExtra):
                    opened: OpenSystem = self.open(system.name)
                    return opened.source(parts, query)
        return None

    def tables(self, parts: Parts, analyst: str) -> tuple[TablePolicy, ...]:
        """Return the tables of all side systems that an analyst made, or that were published."""
        listed = list[TablePolicy]()
        for system in SYSTEMS:
            if system.tables:
                with suppress(MissingExtra):
                    listed += self.open(system.name).tables(parts, analyst)
        return tuple(listed)


class NoSystems(SideSystems):
    """Absence of side systems, for queries over the tables of one of them."""

    def instead(self, parts: Parts, request: Request, refused: Refused) -> OtherAnswers:
        """Raise the refusal."""
        del parts, request
        raise refused

    def source(self, parts: Parts, query: Question) -> PaidSource | None:
        """Return None."""
        del parts, query
        return None
