"""Batches of messages that are asked again, word for word: the same bytes, at no cost.

That is sound for the reason in `dpsql.vault.vault`: a remembered answer is good as it is
while the stamp of the ledger is the same. The bytes depend on nothing else but the settings and the
prepared statements of the session, which are compared. Nothing is worked out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpsql.interfaces.pgwire.frontend import Bind, Describe, Execute, Message, Parse, Query, Sync
from dpsql.interfaces.pgwire.outcomes import Outcome
from dpsql.interfaces.pgwire.portals import PreparedStatement
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass

MOST_BYTES = 1 << 18
"""What one session keeps, texts of statements included."""

Statements = Mapping[str, PreparedStatement]


@dataclass(frozen=True, slots=True)
class Repeat:
    """What a batch was answered, and what must be as it was then.

    `used` are the statements that the batch names, `left` is the unnamed one that it leaves behind.
    `size` counts the texts and values of the batch too. `outcomes` are what the log says of it.
    """

    data: bytes
    size: int
    stamp: object
    used: tuple[tuple[str, PreparedStatement], ...]
    left: PreparedStatement | None
    outcomes: tuple[Outcome, ...] = ()


class Repeats:
    """The batches of one session that may be answered again.

    >>> Repeats().get((Query("SELECT 1"),), (), {}) is None
    True
    """

    def __init__(self) -> None:
        self._answers: BoundedCache[Repeat] = BoundedCache(MOST_BYTES, lambda repeat: repeat.size)

    def get(
        self, messages: tuple[Message, ...], settings: object, statements: Statements
    ) -> Repeat | None:
        """What this batch was answered, if its statements are the same; see to the stamp."""
        repeat = self._answers.get((messages, settings))
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
        """Keep the answer to a batch whose statements are now these."""
        parsed = any(isinstance(message, Parse) for message in messages)
        used = tuple((name, statements[name]) for name in sorted(_used(messages)))
        left = statements[""] if parsed else None
        size = len(data) + sum(map(_size, messages))
        self._answers.put(
            (messages, settings),
            Repeat(data=data, size=size, stamp=stamp, used=used, left=left, outcomes=outcomes),
        )


def is_repeatable(messages: Sequence[Message]) -> bool:
    """Whether a batch is one plain query or one execution to its end: nothing else lasts longer."""
    match messages:
        case [Query()]:
            return True
        case [*steps, Sync()]:
            return all(map(_leaves_nothing, steps))
        case _:
            return False


def _leaves_nothing(message: Message) -> bool:
    """Whether a message changes the unnamed statement and portal alone."""
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
    """The statements that a batch names before it makes them itself."""
    used: set[str] = set()
    parsed: set[str] = set()
    for message in messages:
        match message:
            case Parse(name=name):
                parsed.add(name)
            case Bind(statement=name) | Describe(portal=False, name=name) if name not in parsed:
                used.add(name)
    return used
