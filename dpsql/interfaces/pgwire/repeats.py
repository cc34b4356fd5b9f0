"""Cache of repeated message batches: the same bytes, free of charge.

This is sound for the reason in `dpsql.vault.vault`: a remembered answer is valid while the stamp of
the ledger is the same. Apart from that the bytes depend only on the settings and prepared
statements of the session, which are compared. Nothing is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.interfaces.pgwire.frontend import Bind, Describe, Execute, Message, Parse, Query, Sync
from dpsql.interfaces.pgwire.kept_bytes import FLAT
from dpsql.interfaces.pgwire.outcomes import Outcome
from dpsql.interfaces.pgwire.portals import PreparedStatement
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass

MOST_BYTES = 1 << 19
"""Maximum number of bytes of one session, including the statements that its replies need."""

Statements = Mapping[str, PreparedStatement]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The reply to a batch, and its conditions.

    `used` are the statements that the batch names. `left` is the unnamed statement that it leaves.
    `size` includes the texts and values of the batch, and these statements, which the reply keeps
    alive. `outcomes` are its log entries.
    """

    data: bytes
    size: int
    stamp: object
    used: tuple[tuple[str, PreparedStatement], ...]
    left: PreparedStatement | None
    outcomes: tuple[Outcome, ...] = ()


class Repeats:
    """The batches of one session that can be answered from the cache.

    All are under the same settings and views: a reply under others takes the place of all.
    SECURITY.md S18.

    >>> Repeats().get((Query("SELECT 1"),), (), {}) is None
    True
    """

    def __init__(self) -> None:
        self._settings: object = None
        self._answers = self._empty()

    @staticmethod
    def _empty() -> BoundedCache[Repeat]:
        return BoundedCache(MOST_BYTES, lambda repeat: repeat.size)

    def get(
        self, messages: tuple[Message, ...], settings: object, statements: Statements
    ) -> Repeat | None:
        """Return the cached reply to a batch with the same statements. The caller checks the
        stamp.
        """
        repeat = self._answers.get(messages) if settings == self._settings else None
        if repeat is None or any(statements.get(name) is not used for name, used in repeat.used):
            return None
        return repeat

    def put(
        self,
        messages: tuple[Message, ...],
        settings: object,
        statements: Statements,
        stamp: object,
        data: bytes,
        outcomes: tuple[Outcome, ...] = (),
    ) -> None:
        """Store the reply to a batch, with its present statements."""
        parsed = any(isinstance(message, Parse) for message in messages)
        used = tuple((name, statements[name]) for name in sorted(_used(messages)))
        left = statements[""] if parsed else None
        pieces = {
            id(each): each for each in (left, *(each for _, each in used)) if each is not None
        }
        size = FLAT * (1 + len(outcomes)) + len(data) + sum(map(_size, messages))
        size += sum(each.size for each in pieces.values())
        if settings != self._settings:
            self._settings, self._answers = settings, self._empty()
        self._answers.put(
            messages,
            Repeat(data=data, size=size, stamp=stamp, used=used, left=left, outcomes=outcomes),
        )


def is_repeatable(messages: Sequence[Message]) -> bool:
    """Test whether a batch is one simple query or one execution to its end, without later
    effects.
    """
    match messages:
        case [Query()]:
            return True
        case [*steps, Sync()]:
            return all(map(_leaves_nothing, steps))
        case _:
            return False


def _leaves_nothing(message: Message) -> bool:
    """Test whether a message changes only the unnamed statement and portal."""
    match message:
        case Parse(name="") | Bind(portal="") | Execute(portal="", limit=0) | Describe():
            return True
        case _:
            return False


def _size(message: Message) -> int:
    match message:
        case Query(sql=sql) | Parse(sql=sql):
            return len(sql)
        case Bind(values=values):
            return sum(len(value) for value in values if value is not None)
        case _:
            return 0


def _used(messages: Sequence[Message]) -> set[str]:
    """Return the statements that a batch names before it prepares them itself."""
    used: set[str] = set()
    parsed: set[str] = set()
    for message in messages:
        match message:
            case Parse(name=name):
                parsed.add(name)
            case Bind(statement=name) | Describe(portal=False, name=name) if name not in parsed:
                used.add(name)
    return used
