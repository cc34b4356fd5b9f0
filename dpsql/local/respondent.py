"""Somebody who answers: each question once, by its law, within an ε that adds up over questions.

Proof (PRIVACY.md R81). A report that is told again is no new draw. Reports of different questions
are drawn independently, so that their ε add up; none is drawn that the budget does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from datetime import date
from decimal import Decimal
from secrets import token_bytes
from typing import Any

from dpsql.local.questions import LocalQuestion
from dpsql.mechanisms.randomized_response import report
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import DpsqlError
from dpsql.model.public_times import now


class OverBudget(DpsqlError):
    """A report would lose more than is left; nothing was drawn."""

    def __init__(self, question: str, epsilon: Decimal, left: Decimal) -> None:
        super().__init__(f"{question} loses ε = {epsilon}, and ε = {left} is left.")


def _today() -> date:
    return now().date()


@dataclass(slots=True)
class Respondent:
    """One person with a `budget` of ε, and what they answered before.

    `memory` holds what JSON can: how much was spent, and by question the report, its law and the
    day; no truths. Whoever keeps it keeps the promise: an empty one is another person.

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

    @property
    def left(self) -> Decimal:
        """What is left of the budget."""
        return self.budget - Decimal(self.memory.get("spent", "0"))

    def answer(self, question: LocalQuestion, value: object) -> str:
        """The report: that of before, or one that is drawn and charged now.

        Raises `OverBudget`, or ValueError of a value that is not listed.
        """
        place, answers = question.place(value), self.memory.setdefault("answers", {})
        last, law = answers.get(question.name), question.as_json()
        if last is not None and last["question"] == law and not self._is_over(question, last):
            return str(last["report"])
        if question.epsilon > self.left:
            raise OverBudget(question.name, question.epsilon, self.left)
        self.memory["spent"] = str(self.budget - self.left + question.epsilon)
        drawn = report(question.law, place, self.take)
        reported = drawn if isinstance(drawn, str) else question.values[drawn]
        day = self.today().isoformat()
        answers[question.name] = {"report": reported, "question": law, "day": day}
        return reported

    def _is_over(self, question: LocalQuestion, last: dict[str, Any]) -> bool:
        """Whether the last report was drawn too long ago to be told again."""
        age = self.today() - date.fromisoformat(last["day"])
        return question.days is not None and age.days >= question.days
