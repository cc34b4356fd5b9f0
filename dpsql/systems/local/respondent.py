"""A person who answers each question once, under an ε budget that sums over questions.

Proof (PRIVACY.md R81). A repeated report is not a new draw. Reports of different questions are
drawn independently, so their ε add up. No report is drawn beyond the budget.
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
    """Raised if a report would exceed the remaining budget. Nothing was drawn."""

    def __init__(self, question: str, epsilon: Decimal, left: Decimal) -> None:
        super().__init__(f"{question} loses ε = {epsilon}, and ε = {left} is left.")


def _today() -> date:
    return now().date()


@dataclass(slots=True)
class Respondent:
    """One person with a `budget` of ε and a memory of earlier reports.

    `memory` is JSON data: the ε spent, and the report and its day by `table`, question and law. It
    holds no true answers. The guarantee needs the same memory each time, since an empty memory
    counts as another person. Old reports in `answers`, stored by question alone, belong to the
    first table that asks.

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
        """Remaining ε of the budget."""
        return self.budget - Decimal(self.memory.get("spent", "0"))

    def answer(self, question: LocalQuestion, value: object) -> str:
        """Return the report: the remembered one, or a new one that is drawn and charged now.

        Raises `OverBudget`, or ValueError for a value that is not listed.
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
        """Return the key of a remembered report: table, question name and distribution."""
        record = question.as_json()
        return json.dumps(
            [self.table, *(record[k] for k in ("name", "mechanism", "values", "p", "q"))]
        )

    def _is_over(self, question: LocalQuestion, last: dict[str, Any]) -> bool:
        """Test whether the last report is too old to be repeated."""
        age = self.today() - date.fromisoformat(last["day"])
        return question.days is not None and age.days >= question.days


@contextmanager
def lock_memory(path: str) -> Iterator[None]:
    """Lock a memory file against other processes. Two concurrent readers could draw twice.

    Raises OSError if the system cannot lock files.
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
