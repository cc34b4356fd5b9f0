"""Forms in which a session shows intervals: as columns of their own, or in the text of a number.

They do not change the query: its noise is drawn before.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.interfaces import records
from dpsql.interfaces.tables import text_numbers, with_text_numbers
from dpsql.model.vocabulary import Answer, Column
from dpsql.policy.draft import ERRORS

PLAIN, TEXT = "none", "text"
"""Values of dpsql.errors that add no columns."""


def errors_setting(value: str) -> str:
    """Return a value of dpsql.errors as it is kept. Raises ValueError.

    >>> errors_setting("OFF"), errors_setting("lo_*,hi_*")
    ('none', 'lo_*, hi_*')
    """
    word = {"off": PLAIN}.get(value.lower(), value.lower())
    if word in ERRORS:
        return word
    return ", ".join(records.end_patterns(value))


def shown_columns(columns: Sequence[Column], errors: str) -> tuple[Column, ...]:
    """Return the columns of an answer under a value of dpsql.errors."""
    if errors == TEXT:
        return text_numbers(columns)
    return tuple(columns) if errors == PLAIN else (*columns, *records.end_columns(columns, errors))


def show_answer(answer: Answer, errors: str, digits: str = "all") -> Answer:
    """Return an answer under values of dpsql.errors and dpsql.digits."""
    if errors == TEXT:  # which rounds
        return with_text_numbers(answer)
    if digits == "interval":
        answer = records.with_rounded_fractions(answer)
    return answer if errors == PLAIN else records.with_end_columns(answer, errors)
