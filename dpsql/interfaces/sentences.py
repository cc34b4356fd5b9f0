"""Sentences of notices, with the names of the policy and of the result."""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.interfaces.doors import Door
from dpsql.interfaces.messages import printable
from dpsql.model.notices import Notice
from dpsql.model.vocabulary import Answer, Column


def sentences(
    notices: Sequence[Notice], columns: Sequence[Column], door: Door | None = None
) -> tuple[str, ...]:
    """Return a sentence for each notice on a result of these columns, in the words of `door`."""
    return tuple(sentence(notice, columns, door) for notice in notices)


def footnotes(answer: Answer) -> tuple[str, ...]:
    """Return the notices about columns. These columns are marked in tables."""
    return sentences([n for n in answer.notices if n.places], answer.columns)


def remarks(answer: Answer, door: Door) -> tuple[str, ...]:
    """Return the notices about no column."""
    return sentences([n for n in answer.notices if not n.places], answer.columns, door)


def sentence(notice: Notice, columns: Sequence[Column], door: Door | None = None) -> str:
    """Return the sentence of one notice, in the words of the interface `door`.

    >>> from dpsql.model.notices import Clipped, Hidden
    >>> from dpsql.model.tree import INTEGER
    >>> total = (Column("total", INTEGER),)
    >>> print(sentence(Clipped((0,), "customers", True, 20, ((0, 500),), (0, 10000)), total))
    customers add at most 10,000 each to total per group: 20 rows each, clipped to 0 … 500; how \
much that leaves out is unknown, and not in ±
    >>> print(sentence(Hidden((), "households", 164), ()))
    groups of fewer than about 164 households are not shown
    """
    names = ", ".join(columns[place].name for place in notice.named_columns)
    text = notice.sentence(names or "what this is computed from")
    return printable(f"{text}{notice.advice(door)}")
