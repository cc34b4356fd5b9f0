"""The closed list of reasons, and the exceptions.

An error carries a reason, a place and public facts; `dpsql.interfaces.messages` makes the
sentences. Private data is never an argument of an error.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import NOWHERE, Span


class Reason(StrEnum):
    """The reasons why a query is not answered. Each has a case and a line in docs/errors.md."""

    # The text is wrong: exit code 1.
    SYNTAX = "syntax-error"
    TOO_LARGE = "query-too-large"
    UNKNOWN_TABLE = "unknown-table"
    UNKNOWN_COLUMN = "unknown-column"
    AMBIGUOUS_COLUMN = "ambiguous-column"
    UNKNOWN_FUNCTION = "unknown-function"
    TYPE_MISMATCH = "type-mismatch"
    NOT_GROUPED = "not-grouped"
    MISPLACED_AGGREGATE = "misplaced-aggregate"
    BAD_PARAMETER = "bad-parameter"
    BAD_OPTION = "bad-option"
    UNKNOWN_NAME = "unknown-name"
    UNDECIDED_POLICY = "undecided-policy"

    # The text is right and cannot be answered privately: exit code 3.
    UNSUPPORTED_SYNTAX = "unsupported-syntax"
    UNSUPPORTED_STATEMENT = "unsupported-statement"
    RAW_ROWS = "raw-rows"
    HIDDEN_COLUMN = "hidden-column"
    UNBOUNDED_INPUT = "unbounded-input"
    UNBOUNDED_CONTRIBUTION = "unbounded-contribution"
    UNSUPPORTED_AGGREGATE = "unsupported-aggregate"
    UNSUPPORTED_FUNCTION = "unsupported-function"
    ENGINE_LACKS = "engine-lacks"
    UNEQUAL_UNITS = "unequal-units"
    UNSUPPORTED_PRIVATE_OPERATOR = "unsupported-private-operator"
    UNIT_KEY_EXPOSED = "unit-key-exposed"
    PRIVATE_KEYS_NEED_DELTA = "private-keys-need-delta"
    EPSILON_TOO_LARGE = "epsilon-too-large"
    NOT_USEFUL = "not-useful"

    # The budget cannot pay: exit code 4.
    BUDGET_EXHAUSTED = "budget-exhausted"
    ALARMS_USED = "alarms-used"

    # The owner has to act: exit code 4.
    ANALYST_STOPPED = "analyst-stopped"
    STOPPED_BY_OWNER = "stopped-by-owner"
    LIMIT_CHANGED = "limit-changed"
    DELEGATION_ENDED = "delegation-ended"


class DpsqlError(Exception):
    """Base class of all errors that dpsql raises on purpose. They keep their facts when pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[DpsqlError], args: tuple[Any, ...], facts: dict[str, Any]) -> DpsqlError:
    """Rebuild an error from its facts: its constructor takes other arguments than it passes on."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(facts)
    return error


@dataclass(frozen=True, slots=True)
class Offer:
    """A statement that would be accepted instead of a refused one, and its `changes` in words."""

    sql: str
    changes: tuple[str, ...]

    def __str__(self) -> str:
        return ", ".join(self.changes)


class Refused(DpsqlError):
    """The query is refused: a reason, a place in the text, and public facts for the message.

    Facts are names and numbers from the text, the policy or the ledger, never from data. `offer` is
    a statement that would be accepted, if one was found.
    """

    offer: Offer | None = None

    def __init__(self, reason: Reason, span: Span = NOWHERE, /, **facts: object) -> None:
        self.reason = reason
        self.span = span
        self.facts = facts
        super().__init__(f"{reason.value}: {facts}" if facts else reason.value)


class PolicyError(DpsqlError):
    """The owner's policy file is wrong: where, what, and how to fix it."""

    def __init__(self, path: str, line: int | None, message: str, fix: str) -> None:
        self.path, self.line, self.message, self.fix = path, line, message, fix
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {message} {fix}")


class Failed(DpsqlError):
    """A failure of dpsql or the engine: the query's id, the kind of failure, and whether it was
    charged.

    `detail` is for the owner only: it may hold a path.
    """

    def __init__(
        self,
        query_id: str,
        *,
        cancelled: bool = False,
        timed_out: bool = False,
        too_large: bool = False,
        charged: bool = True,
        detail: str = "",
    ) -> None:
        self.query_id, self.cancelled, self.timed_out = query_id, cancelled, timed_out
        self.too_large, self.charged, self.detail = too_large, charged, detail
        what = "was cancelled" if cancelled else "timed out" if timed_out else "failed"
        what = "has too many values in its answer" if too_large else what
        then = "its charge stays" if charged else "nothing was charged"
        super().__init__(f"Query {query_id} {what}; {then}.")


class Unreachable(DpsqlError):
    """The database cannot be opened; carries the owner's own path and no engine text."""


class DataChanged(Unreachable):
    """The data changed since the plan was made. Nothing was charged.

    The message is always the same. `detail` is for the owner only: it may hold a path.
    """

    def __init__(self, detail: str = "") -> None:
        self.detail = detail
        super().__init__(
            "The data has changed since it was opened. Nothing was charged."
            " Its owner must refresh it, or open the policy again."
        )


class WrongVersion(DpsqlError):
    """An installed engine or parser has a version that dpsql is not tested with."""


class LedgerError(DpsqlError):
    """The ledger cannot be trusted or used: edited, rolled back, cloned, locked or unwritable."""


class MissingExtra(DpsqlError):
    """An optional dependency is not installed; the message names the extra to install."""
