"""What every participant is asked of the events. Peers import this: standard library only."""

from __future__ import annotations

from dataclasses import dataclass

EPSILON, DELTA = 1.0, 1e-6
"""What each question may spend, whoever answers it."""

ROWS, LARGEST, COUNTRIES = 10_000_000, 1000.0, 50
"""About how many events there are, the bound of an amount, and of the number of countries."""


EACH = ", COUNT(*) AS n, SUM(amount) AS s"


@dataclass(frozen=True, slots=True)
class Question:
    """A user counts in at most so many `groups`, with at most so many `rows` in each."""

    name: str
    sql: str
    rows: int
    key: str | None = None
    groups: int = 1
    people: bool = False

    @property
    def floor(self) -> str:
        """What each user has of each group, and the sums of that."""
        key = f"{self.key}, " if self.key else ""
        each, sums = ("", "COUNT(*)") if self.people else (EACH, "SUM(n), SUM(s)")
        units = f"SELECT {key}user_id{each} FROM events GROUP BY ALL"
        return f"SELECT {key}{sums} FROM ({units}) GROUP BY ALL"

    @property
    def most(self) -> int:
        """Rows of one user."""
        return self.groups * self.rows


COUNT, PEOPLE = "COUNT(*) AS n, SUM(amount) AS s", "COUNT(DISTINCT user_id) AS n"
BY_COUNTRY = "SELECT country, {} FROM events GROUP BY country"
QUESTIONS = (
    Question("COUNT, SUM by country", BY_COUNTRY.format(COUNT), 20, "country", 5),
    Question("COUNT, SUM", f"SELECT {COUNT} FROM events", 20),
    Question("people by country", BY_COUNTRY.format(PEOPLE), 1, "country", 5, people=True),
)
