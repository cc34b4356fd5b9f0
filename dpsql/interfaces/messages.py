"""Error messages for people: headline, place, reason and fix.

All interfaces use `describe`. The texts come from `dpsql.interfaces.wordings`.

Texts in errors cannot control a terminal: SECURITY.md S21.
"""

from __future__ import annotations

import unicodedata
from decimal import Decimal
from string import Formatter

from dpsql.interfaces.amounts import loss_text, plain, share_text
from dpsql.interfaces.doors import Door
from dpsql.interfaces.wordings import WORDINGS, Alternatives, ExitCode
from dpsql.model import errors
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Refused
from dpsql.model.signs import BEFORE, BETWEEN
from dpsql.model.tree import NOWHERE, Span
from dpsql.model.vocabulary import Loss

_EXCERPT_WIDTH = 96
_LONGEST_FACT = 120


@dataclass(frozen=True, slots=True)
class Message:
    """Message of one error. `code` is the reason or the kind of failure.

    `line` and `column` count from 1. `excerpt` is the line of SQL with carets below. All three are
    None for an error without a place. `why` and `fix` may be empty. `offer` is a statement that
    would be accepted.
    """

    code: str
    headline: str
    why: str
    fix: str
    exit_code: ExitCode
    sqlstate: str
    line: int | None = None
    column: int | None = None
    excerpt: str | None = None
    offer: errors.Offer | None = None

    def __str__(self) -> str:
        where = "" if self.line is None else f" at {self.line}:{self.column}"
        lines = [f"{self.code}{where}: {self.headline}"]
        if self.excerpt is not None:
            lines += [f"  {line}" for line in self.excerpt.splitlines()]
        lines += [
            f"{label}: {text}" for label, text in (("why", self.why), ("fix", self.fix)) if text
        ]
        if self.offer is not None:
            lines += [f"try: {printable(str(self.offer))}"]
            lines += [f"  {printable(line)}" for line in self.offer.sql.strip().splitlines()]
        return "\n".join(lines)


class RemoteError(Exception):
    """An error that a server reported, in our form."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.headline)
        self.message = message


def describe(error: errors.DpsqlError, sql: str = "", door: Door | None = None) -> Message:
    """Return the message of an error in the text `sql`. Never raises, and adds no facts.

    Fixes use the words of the interface `door`, if it is known.

    >>> from dpsql.model.errors import Reason
    >>> print(describe(Refused(Reason.UNKNOWN_COLUMN, Span(7, 10), column="agee"), "SELECT agee"))
    unknown-column at 1:8: There is no column agee.
      SELECT agee
             ^^^
    why: A private table has only the columns that the owner lists in the policy.
    fix: See the policy for what exists.
    """
    match error:
        case Refused():
            return _refusal(error, sql, door)
        case errors.PolicyError():
            where = error.path if error.line is None else f"{error.path}:{error.line}"
            headline = printable(f"{where}: {error.message}")
            return Message(
                code="policy",
                headline=headline,
                why="",
                fix=error.fix,
                exit_code=ExitCode.BAD_INPUT,
                sqlstate="F0000",
            )
        case errors.Failed():
            return _failure(error)
        case errors.Unreachable():
            return _plain_error("unreachable", error, ExitCode.UNREACHABLE, "08001")
        case errors.LedgerError():
            return _plain_error("ledger", error, ExitCode.UNREACHABLE, "58030")
        case errors.WrongVersion():
            return _plain_error("wrong-version", error, ExitCode.UNREACHABLE, "0A000")
        case errors.MissingExtra():
            return _plain_error("missing-extra", error, ExitCode.USAGE, "0A000")
        case _:
            return _plain_error("error", error, ExitCode.UNREACHABLE, "XX000")


def _refusal(error: Refused, sql: str, door: Door | None) -> Message:
    wording = WORDINGS[error.reason]
    texts = {name: _fact(value, error.facts) for name, value in error.facts.items()}
    facts = {name: text for name, text in texts.items() if text} | _share(error.facts)
    if "function" in facts:
        signs = {**BETWEEN, **BEFORE}
        facts["function"] = signs.get(facts["function"], facts["function"]).strip()
    facts |= {} if door is None else door.words(facts.get("fits", ""))
    fix = facts.get("fix") or _say(wording.fix, facts)
    line, column, excerpt = place(sql, error.span)
    return Message(
        code=error.reason.value,
        headline=_say(wording.headline, facts),
        why=_say(wording.why, facts),
        fix=fix,
        exit_code=wording.exit_code,
        sqlstate=wording.sqlstate,
        line=line,
        column=column,
        excerpt=excerpt,
        offer=error.offer,
    )


def _share(facts: dict[str, object]) -> dict[str, str]:
    """Return the remaining share of the budget, if both amounts are known."""
    match facts:
        case {"left": Loss() as left, "limit": Loss() as limit}:
            spent = limit.without(left)
            return {"share": f"{100 - Decimal(share_text(spent, limit).removesuffix(' %')):f} %"}
        case _:
            return {}


def _failure(error: errors.Failed) -> Message:
    if error.too_large:
        fix = "Ask for fewer rows: join what is released to fewer, or add LIMIT."
        return Message(
            code="failed",
            headline=str(error),
            why="",
            fix=fix,
            exit_code=ExitCode.BAD_INPUT,
            sqlstate="54001",
        )
    stopped = error.cancelled or error.timed_out
    return Message(
        code="cancelled" if error.cancelled else "timed-out" if error.timed_out else "failed",
        headline=str(error),
        why="A refund would tell something about the data." if error.charged else "",
        fix="" if stopped else "Ask the owner to look at the database; nothing more is said here.",
        exit_code=ExitCode.CANCELLED if error.cancelled else ExitCode.UNREACHABLE,
        sqlstate="57014" if stopped else "XX000",
    )


def _plain_error(
    code: str, error: errors.DpsqlError, exit_code: ExitCode, sqlstate: str
) -> Message:
    return Message(
        code=code,
        headline=printable(str(error)),
        why="",
        fix="",
        exit_code=exit_code,
        sqlstate=sqlstate,
    )


def _say(alternatives: Alternatives, facts: dict[str, str]) -> str:
    """Return the first alternative with known facts, formatted; empty if there is none."""
    for text in alternatives:
        names = {name for _, name, _, _ in Formatter().parse(text) if name}
        if names <= facts.keys():
            return text.format_map(facts)
    return ""


def _fact(value: object, facts: dict[str, object]) -> str:
    """Return a public fact as text: losses with their unit, lists with commas."""
    match value:
        case Loss():
            accountant = facts.get("accountant")
            return loss_text(value, str(accountant) if accountant else None, exact=True)
        case None:
            return ""
        case Decimal():
            return plain(value)
        case tuple() | list() | frozenset() | set():
            return ", ".join(_fact(member, facts) for member in value)
        case _:
            text = printable(str(value))
            return text if len(text) <= _LONGEST_FACT else text[: _LONGEST_FACT - 1] + "…"


def place(sql: str, span: Span) -> tuple[int | None, int | None, str | None]:
    r"""Return line and column of a span from 1, and an excerpt with carets.

    >>> print(place("SELECT a,\n  b FROM t", Span(12, 13))[2])
      b FROM t
      ^
    """
    if span == NOWHERE or not 0 <= span.start <= len(sql):
        return None, None, None
    start = sql.rfind("\n", 0, span.start) + 1
    end = sql.find("\n", span.start)
    end = len(sql) if end < 0 else end
    line, column = sql.count("\n", 0, span.start) + 1, span.start - start + 1
    # Very long lines are cut to a window that begins a little before the span.
    if end - start > _EXCERPT_WIDTH:
        start = max(start, span.start - _EXCERPT_WIDTH // 3)
        end = min(end, start + _EXCERPT_WIDTH)
    stop = min(max(span.stop, span.start), end)
    before, marked = printable(sql[start : span.start]), printable(sql[span.start : stop])
    after = printable(sql[stop:end])
    carets = " " * width(before) + "^" * max(1, width(marked))
    return line, column, f"{before}{marked}{after}\n{carets}"


def printable(text: str) -> str:
    r"""Return a text that cannot control a terminal: escapes for control characters.

    >>> printable("a\tb\x1b[2J\u202e")
    'a b\\x1b[2J\\u202e'
    """
    return "".join(
        c if c.isprintable() else " " if c == "\t" else c.encode("unicode_escape").decode()
        for c in text
    )


def width(text: str) -> int:
    """Return the number of terminal cells of a text. Wide characters take two, combining ones
    none.

    >>> width("ab"), width("日本"), width("e\u0301")
    (2, 4, 1)
    """
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
