"""What every participant is asked. Peers' environments import this: standard library only."""

from __future__ import annotations

from dataclasses import dataclass

EPSILON, DELTA = 1.0, 1e-6
"""What each question may spend in total, whoever answers it."""

BOUNDS = {"age": (0, 125), "hours_per_week": (0, 100), "education_num": (0, 16)}
"""Declared by the owner; every participant clips to them."""

EDUCATION = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school"),
    "Doctorate",
)
VALUES = {"education": EDUCATION, "sex": ("Female", "Male")}

Where = tuple[str, str, str | int]
"""Column, `=`, `>` or `>=`, and a constant."""


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate (count, sum, mean, variance, median) of a column of the rows that pass.

    Of kind quantile it is that at the fraction `at`.
    """

    kind: str
    column: str = ""
    where: Where | None = None
    at: float = 0.5

    @property
    def sql(self) -> str:
        """The aggregate in DuckDB's words, without its condition."""
        if self.kind == "quantile":
            return f"QUANTILE_DISC({self.column}, {self.at})"
        names = {"mean": "AVG", "variance": "VAR_POP", "median": "MEDIAN", "sum": "SUM"}
        return f"{names[self.kind]}({self.column})" if self.column else "COUNT(*)"


@dataclass(frozen=True, slots=True)
class Question:
    """Measures of each group, asked together, under one (ε, δ).

    `rows` names the rows of the table: one for each measure, or one for all of them. `public` says
    that the keys' values are known, so that every group is answered.
    """

    rows: tuple[str, ...]
    measures: tuple[Measure, ...]
    accountant: str = "pure"
    keys: tuple[str, ...] = ()
    public: bool = False
    promised: float = 1.0

    @property
    def name(self) -> str:
        return self.rows[0]


def _workload() -> tuple[Measure, ...]:
    """25 groups of people, four queries about each."""
    listed = {
        "sex": VALUES["sex"],
        "income": ("<=50K", ">50K"),
        "race": ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"),
        "marital_status": (
            *("Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent"),
            *("Never-married", "Separated", "Widowed"),
        ),
        "relationship": (
            *("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife"),
        ),
    }
    groups: list[Where] = [
        (name, "=", value) for name, values in listed.items() for value in values
    ]
    groups += [("age", ">=", 40), ("hours_per_week", ">", 40), ("education_num", ">", 10)]
    four = (("count", ""), ("sum", "hours_per_week"), ("mean", "hours_per_week"), ("mean", "age"))
    return tuple(Measure(kind, column, group) for group in groups for kind, column in four)


EIGHT = (
    *(Measure("count"), Measure("sum", "age"), Measure("mean", "age"), Measure("variance", "age")),
    *(Measure(kind, "hours_per_week") for kind in ("sum", "mean", "variance")),
    Measure("mean", "education_num"),
)

DECILES = tuple(Measure("quantile", "age", at=n / 10) for n in range(1, 10))

QUESTIONS = (
    Question(("COUNT(*) WHERE age >= 40",), (Measure("count", "", ("age", ">=", 40)),)),
    Question(("SUM(age)",), (Measure("sum", "age"),)),
    Question(("AVG(age)",), (Measure("mean", "age"),)),
    Question(("VAR_POP(age)",), (Measure("variance", "age"),)),
    Question(("MEDIAN(age)",), (Measure("median", "age"),)),
    Question(("nine deciles of age, % of range",), DECILES),
    Question(
        ("16 private keys: COUNT(*)", "the same query: AVG(age)"),
        (Measure("count"), Measure("mean", "age")),
        "approximate",
        ("education",),
    ),
    Question(
        ("education x sex, 32 public cells: COUNT(*)",),
        (Measure("count"),),
        keys=("education", "sex"),
        public=True,
    ),
    Question(("eight measures, % of range",), EIGHT, "zcdp", promised=0.5),
    Question(("workload of 100, % of range",), _workload(), "zcdp", promised=0.5),
)
