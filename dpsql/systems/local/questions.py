"""Questions to people: columns of reports in a policy, each with a randomisation law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from json import dumps
from math import floor
from typing import Any

from dpsql.mechanisms.randomized_response import checked
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import PolicyError
from dpsql.model.local_reports import LocalMechanism, Randomized
from dpsql.policy.draft import Draft, DraftTable

_NANO = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class LocalQuestion:
    """A question with this name. One of `values` is the truth; the report is drawn by `law`.

    An answer is remembered for `days` days (None: forever) and the same report is given until
    then.

    >>> from dpsql.mechanisms.randomized_response import two_coins
    >>> bribe = LocalQuestion("bribe", ("yes", "no"), two_coins(2))
    >>> bribe.epsilon, LocalQuestion.of(bribe.as_json()) == bribe
    (Decimal('1.098612289'), True)
    """

    name: str
    values: tuple[str, ...]
    law: Randomized
    days: int | None = None

    @property
    def epsilon(self) -> Decimal:
        """Privacy loss ε of one report, rounded up to nine digits."""
        odds = Decimal(self.law.odds.numerator) / Decimal(self.law.odds.denominator)
        return odds.ln().quantize(_NANO, ROUND_CEILING)

    def place(self, value: object) -> int:
        """Return the index of a value in the list. Raises ValueError for other values."""
        text = as_text(value)
        if text not in self.values:
            raise ValueError(f"{text!r} is none of the values of {self.name}")
        return self.values.index(text)

    def can_report(self, report: object) -> bool:
        """Test whether the law can produce a report: a listed value, or a string of bits."""
        if not isinstance(report, str):
            return False
        if self.law.of_bits:
            return len(report) == len(self.values) and set(report) <= {"0", "1"}
        return report in self.values

    @property
    def longest(self) -> int:
        """Maximum number of characters of a report as JSON."""
        return len(self.values) if self.law.of_bits else max(len(dumps(v)) for v in self.values)

    def bucket(self, number: float, ends: Sequence[float]) -> str:
        """Return the bucket of a count or a length. The values are buckets in ascending order.

        >>> from dpsql.mechanisms.randomized_response import two_coins
        >>> time = LocalQuestion("seconds", ("0-9", "10-59", "60-"), two_coins(3))
        >>> time.bucket(12, [10, 60])
        '10-59'
        """
        return self.values[sum(number >= end for end in ends)]

    def cell(self, x: float, y: float, box: tuple[float, float, float, float], columns: int) -> str:
        """Return the cell of a point. The values are cells of a grid, row by row from below.

        `box` is left, bottom, right and top. Points outside of it fall into the cells at the
        edge.

        >>> from dpsql.mechanisms.randomized_response import two_coins
        >>> place = LocalQuestion("place", tuple("abcd"), two_coins(4))
        >>> place.cell(9.0, 0.2, (0, 0, 1, 1), columns=2)
        'b'
        """
        left, bottom, right, top = box
        column = _step((x - left) / (right - left), columns)
        row = _step((y - bottom) / (top - bottom), len(self.values) // columns)
        return self.values[row * columns + column]

    def as_json(self) -> dict[str, Any]:
        """The question as JSON for other encoders. p and q are pairs of numerator and
        denominator.
        """
        p, q = ([part.numerator, part.denominator] for part in (self.law.p, self.law.q))
        mechanism, values = self.law.mechanism.value, list(self.values)
        days = {} if self.days is None else {"days": self.days}
        law = {"mechanism": mechanism, "values": values, "p": p, "q": q}
        return {"name": self.name, **law, "epsilon": str(self.epsilon), **days}

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> LocalQuestion:
        """Parse a question from its JSON form. Raises ValueError or KeyError for invalid forms."""
        values = tuple(map(str, written["values"]))
        p, q = (Fraction(*written[key]) for key in ("p", "q"))
        law = checked(Randomized(LocalMechanism(written["mechanism"]), len(values), p, q))
        return cls(str(written["name"]), values, law, written.get("days"))


def _step(share: float, count: int) -> int:
    return min(count - 1, max(0, floor(share * count)))


def as_text(value: object) -> str:
    """Return a value as answers and files hold it.

    >>> as_text(True), as_text(3), as_text("a")
    ('true', '3', 'a')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def questions_of(table: DraftTable) -> tuple[LocalQuestion, ...]:
    """Return the questions of a table: its columns with a randomisation law."""
    return tuple(
        LocalQuestion(c.name, tuple(map(as_text, c.values)), c.randomized, c.remember_days)
        for c in table.columns
        if c.randomized is not None and c.values is not None
    )


def asked_in(draft: Draft, name: str) -> tuple[LocalQuestion, ...]:
    """Return the questions of a policy's table. Raises `PolicyError` if it has none."""
    table = draft.table(name)
    questions = () if table is None else questions_of(table)
    if not questions:
        why, place = f"There is no table {name} of reports.", draft.lines.of(("tables", name))
        raise PolicyError(draft.path, place, why, "See dpsql help local.")
    return questions
