"""Somebody who answers: each question once, by its law, within an ε that adds up over questions.

Proof (PRIVACY.md R81). A report that is told again is no new draw. Reports of different questions
are drawn independently, so that their ε add up; none is drawn that the budget does not hold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from secrets import token_bytes
from typing import Any

from dpsql.mechanisms.randomized_response import report
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import DpsqlError
from dpsql.model.public_times import now
from dpsql.systems.local.questions import LocalQuestion


class OverBudget(DpsqlError):
    """A report would lose more than is left; nothing was drawn."""

    def __init__(self, question: str, epsilon: Decimal, left: Decimal) -> None:
        super().__init__(f"{question} loses ε = {epsilon}, and ε = {left} is left.")


def _today() -> date:
    return now().date()


@dataclass(slots=True)
class Respondent:
    """One person with a `budget` of ε, and what they answered before.

    `memory` holds what JSON can: how much was spent, and by `table`, question and law the report
    and its day; no truths. Whoever keeps it keeps the promise: an empty one is another person.
    Reports that were kept by question alone, in `answers`, are of the table that asks first.

    >>> from dpsql.mechanisms.randomized_response import two_coins
    >>> bribe = LocalQuestion("bribe", ("yes", "no"), two_coins(2))
    >>> person = Respondent(Decimal("1.1"), take=lambda n: bytes(n))
    >>> person.answer(bribe, "no"), person.answer(bribe, "yes"), person.left
    ('no', 'no', Decimal('0.001387711'))
    """

    budget: Decimal
    memory: MutableMapping[str, Any] = field(default_factory=dict)
    take: Callable[[int], bytes] = token_bytes
    today: Callable[[], date] = _today
    table: str = ""

    @property
    def left(self) -> Decimal:
        """What is left of the budget."""
        return self.budget - Decimal(self.memory.get("spent", "0"))

    def answer(self, question: LocalQuestion, value: object) -> str:
        """The report: that of before, or one that is drawn and charged now.

        Raises `OverBudget`, or ValueError of a value that is not listed.
        """
        place, reports = question.place(value), self.memory.setdefault("reports", {})
        key, earlier = self._key(question), self.memory.get("answers", {})
        old = earlier.get(question.name)
        if key not in reports and old and self._key(LocalQuestion.of(old["question"])) == key:
            reports[key] = {"report": old["report"], "day": old["day"]}
            del earlier[question.name]
        last = reports.get(key)
        if last is not None and not self._is_over(question, last):
            return str(last["report"])
        if question.epsilon > self.left:
            raise OverBudget(question.name, question.epsilon, self.left)
        self.memory["spent"] = str(self.budget - self.left + question.epsilon)
        drawn = report(question.law, place, self.take)
        reported = drawn if isinstance(drawn, str) else question.values[drawn]
        day = self.today().isoformat()
        reports[key] = {"report": reported, "day": day}
        return reported

    def _key(self, question: LocalQuestion) -> str:
        """What a report is remembered by: the table, the question's name, and its distribution."""
        record = question.as_json()
        return json.dumps(
            [self.table, *(record[k] for k in ("name", "mechanism", "values", "p", "q"))]
        )

    def _is_over(self, question: LocalQuestion, last: dict[str, Any]) -> bool:
        """Whether the last report was drawn too long ago to be told again."""
        age = self.today() - date.fromisoformat(last["day"])
        return question.days is not None and age.days >= question.days


@contextmanager
def lock_memory(path: str) -> Iterator[None]:
    """Keep a file of memories from all other processes: of two that read it at once each would
    draw a report of the same question.

    Raises OSError where that cannot be promised.
    """
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        raise OSError("this system has no file locks") from None
    opened = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)
