"""Transactions as state of settings, views and cursors, since nothing is written.

SECURITY.md S18.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import TypeAlias

from dpsql.interfaces.pgwire.catalogue.listed_views import Views
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.kept_bytes import FLAT, KeptItems, size_of_values
from dpsql.interfaces.pgwire.portals import Portal, Warned, keep_portals
from dpsql.interfaces.pgwire.settings import SessionSettings
from dpsql.model.dataclass import dataclass, field

IDLE, OPEN, BROKEN = b"I", b"T", b"E"
MOST_SAVEPOINTS = 200
_Saved: TypeAlias = tuple[tuple[dict[str, str], dict[str, str]], Views]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A savepoint: the settings with the views, and the number of portals opened so far."""

    name: str
    saved: _Saved
    portals: int


@dataclass(slots=True)
class Transaction:
    """Portals, settings and views of a session, and the status of its transaction."""

    settings: SessionSettings
    portals: KeptItems[Portal] = field(default_factory=keep_portals)
    views: Views = ()
    status: bytes = IDLE
    _start: _Saved | None = None
    _marks: list[_Mark] = field(default_factory=list)
    _opened: int = 0
    _counted: int = 0

    def open(self, portal: Portal) -> None:
        """Store a new portal under its name. Raises `Fault` if there is no room for it."""
        self._opened += 1
        portal.number = self._opened
        self.portals[portal.name] = portal

    def begin(self) -> Warned:
        """Open a transaction. Returns a warning if one is open."""
        if self.status != IDLE:
            return "25001", "there is already a transaction in progress"
        saved = self._saved()
        self._count(self.views, (saved,))
        self.status, self._start = OPEN, saved
        return None

    def finish(self, *, commit: bool) -> tuple[str, Warned]:
        """Close the transaction. Returns its tag, and a warning if none is open."""
        if self.status == IDLE:
            tag = "COMMIT" if commit else "ROLLBACK"
            return tag, ("25P01", "there is no transaction in progress")
        committed = commit and self.status == OPEN
        if not committed and self._start is not None:
            self._restore(self._start)
        self.status, self._start, self._marks = IDLE, None, []
        self._count(self.views, ())
        self.over()
        return "COMMIT" if committed else "ROLLBACK", None

    def over(self) -> None:
        """Drop the state of a transaction that has ended, implicit ones too."""
        self.settings.forget_local()
        self.portals.drop_unless(lambda _, portal: portal.hold)

    def broke(self) -> None:
        """Mark an open transaction as failed. It answers nothing until it is closed."""
        if self.status == OPEN:
            self.status = BROKEN

    def save(self, name: str) -> None:
        """Set a savepoint. Raises `Fault`."""
        self._require_open("SAVEPOINT")
        if len(self._marks) >= MOST_SAVEPOINTS:
            raise Fault("53400", f"A transaction has at most {MOST_SAVEPOINTS} savepoints.")
        saved = self._saved()
        self._count(self.views, (*self._saved_states(), saved))
        self._marks.append(_Mark(name, saved, self._opened))

    def release(self, name: str, *, rollback: bool) -> None:
        """Release a savepoint and later ones, or roll back to it. Raises `Fault`."""
        self._require_open("ROLLBACK TO SAVEPOINT" if rollback else "RELEASE SAVEPOINT")
        places = [n for n, mark in enumerate(self._marks) if mark.name == name]
        if not places:
            raise Fault("3B001", f'savepoint "{name}" does not exist')
        mark = self._marks[places[-1]]
        del self._marks[places[-1] + rollback :]
        if rollback:
            self.status = OPEN
            self._restore(mark.saved)
            self.portals.drop_unless(lambda _, p: p.hold or p.number <= mark.portals)
        self._count(self.views, self._saved_states())

    def change_views(self, views: Views) -> None:
        """Set the views. Raises `Fault` if there is no room for them."""
        self._count(views, self._saved_states())
        self.views = views

    def key(self) -> object:
        """Return a key that is equal as long as settings and views are."""
        return self.settings.key(), self.views

    def _saved_states(self) -> tuple[_Saved, ...]:
        """Return the states to which the transaction can go back."""
        start = () if self._start is None else (self._start,)
        return (*start, *(mark.saved for mark in self._marks))

    def _count(self, views: Views, states: Sequence[_Saved]) -> None:
        """Count the bytes of views and of these states. Raises `Fault` if there is no room."""
        every = {
            id(view): view for each in (views, *(saved[1] for saved in states)) for view in each
        }
        size = sum(FLAT * (1 + len(v.columns)) + getsizeof(v.text) for v in every.values())
        for settings, _ in states:
            size += FLAT + sum(getsizeof(d) + size_of_values(d.values()) for d in settings)
        self.portals.account.change(size - self._counted)
        self._counted = size

    def _saved(self) -> _Saved:
        return self.settings.saved(), self.views

    def _restore(self, saved: _Saved) -> None:
        settings, self.views = saved
        self.settings.restore(settings)

    def _require_open(self, what: str) -> None:
        if self.status == IDLE:
            raise Fault("25P01", f"{what} can only be used in transaction blocks")
