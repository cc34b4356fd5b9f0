"""Notices on rows that are withheld, certainly absent or of another kind, or on another form."""

from __future__ import annotations

from enum import StrEnum
from statistics import NormalDist
from typing import TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.local_reports import Randomized
from dpsql.model.notices import Notice
from dpsql.model.tree import Value
from dpsql.model.value_texts import value_text

_NORMAL = NormalDist().inv_cdf(0.975)
_MOST_LISTED = 5
"""Maximum number of values of a list in a sentence."""


@dataclass(frozen=True, slots=True)
class Withheld(Notice):
    """Private rows were requested: the answer has their columns and no rows, for any data."""

    units: str

    template = "rows of {self.units} are never shown: that there are none here says nothing"


class AnswerForm(StrEnum):
    """A form that a query over many people's rows was answered in."""

    STAGED_AVERAGE = "staged average"
    STAGED_NUMBER = "staged number"
    LIMITED_JOIN = "limited join"
    STAGED_RANK = "staged rank"
    UNMATCHED_ROWS = "unmatched rows"


STAGED_FORMS = (AnswerForm.STAGED_AVERAGE, AnswerForm.STAGED_RANK)
"""Forms that say that rows are compared with released numbers."""


_FORMS = {
    AnswerForm.LIMITED_JOIN: (
        "each joined table keeps at most {most} rows of a privacy unit, chosen by a hash of their"
        " key: numbers can be too low"
    ),
    AnswerForm.STAGED_AVERAGE: (
        "rows are compared with a released average: no ± has the error of that average"
    ),
    AnswerForm.STAGED_NUMBER: (
        "rows are chosen by numbers that are released first: no ± has the error of these numbers"
    ),
    AnswerForm.STAGED_RANK: (
        "rows are compared with released quantiles: no ± has their error. Rows with equal values"
        " share a tile, so that tiles can differ in size"
    ),
    AnswerForm.UNMATCHED_ROWS: (
        "each row without a match counts once: where few match, noise makes the number too high"
    ),
}


@dataclass(frozen=True, slots=True)
class AnsweredAs(Notice):
    """The query was answered in another form, with an error that no ± has.

    `most` are the rows of one unit in each side of a limited join.
    """

    form: AnswerForm
    most: int | None = None

    def sentence(self, _names: str) -> str:
        return _FORMS[self.form].format(most=self.most)


@dataclass(frozen=True, slots=True)
class ByDeclaration(Notice):
    """The answer has no rows: the conditions exclude all `values` that the policy lists for a
    column.

    Nothing was measured, for any data. A constant of the conditions may mean the value `near`.
    """

    table: str
    column: str
    values: tuple[Value, ...]
    near: str | None = None

    def sentence(self, _names: str) -> str:
        listed = ", ".join(value_text(value) for value in self.values[:_MOST_LISTED])
        more = len(self.values) - _MOST_LISTED
        listed += f" and {more:,} more" if more > 0 else ""
        column = f"{self.table}.{self.column}"
        meant = "" if self.near is None else f"; did you mean '{self.near}'?"
        return (
            f"no rows, by declaration: the policy lists {listed} for {column}, of which the "
            f"conditions leave none; nothing was measured{meant}"
        )


class CertainFact(StrEnum):
    """Reasons why no row fulfils the conditions of a number, or why two counts are equal."""

    NEVER_NULL = "never NULL"
    AT_MOST = "at most"
    LINKED = "linked"
    FALSE = "false"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class ByFact(Notice):
    """A number follows from a `fact` about a column of a table: no row fulfils its conditions.

    At most `most` rows have one value of that column. Nothing was measured for it, for any data.
    """

    fact: CertainFact
    about: str
    most: int = 1

    def sentence(self, _names: str) -> str:
        why = {
            CertainFact.NEVER_NULL: f"{self.about} is never NULL",
            CertainFact.AT_MOST: f"at most {self.most:,} rows have one {self.about or 'key'}",
            CertainFact.LINKED: f"every {self.about} has its row",
            CertainFact.FALSE: "the conditions are never true",
            CertainFact.EQUAL: "both counts are of the same rows",
        }
        what = "no difference" if self.fact is CertainFact.EQUAL else "no rows"
        return f"{what}: {why[self.fact]}; this is certain, and was not measured"


NoRows: TypeAlias = ByDeclaration | ByFact
"""Reasons why an aggregate has no rows, so that it is answered without a measurement."""


@dataclass(frozen=True, slots=True)
class Synthetic(Notice):
    """All numbers are computed from rows of these synthetic tables, which belong to no privacy
    unit.
    """

    tables: tuple[str, ...]

    def sentence(self, _names: str) -> str:
        are = f"{' and '.join(self.tables)} {'is' if len(self.tables) == 1 else 'are'}"
        return f"{are} synthetic: how wrong these numbers are is not known"


@dataclass(frozen=True, slots=True)
class Published(Notice):
    """All numbers are computed from rows of these published tables, which are noisy."""

    tables: tuple[str, ...]

    def sentence(self, _names: str) -> str:
        listed = " and ".join(self.tables)
        return f"numbers of {listed} are noisy: columns such as n_low and n_high hold the error"


@dataclass(frozen=True, slots=True)
class Reported(Notice):
    """A `column` (with its table) holds reports drawn from `law`; results are estimates.

    About `rows` rows are expected (None: unknown). `noise` is the 95 % half-width of an estimated
    count by the measurement's noise (None: it is counted exactly).
    """

    column: str
    law: Randomized
    rows: int | None
    noise: float | None = None

    def sentence(self, _names: str) -> str:
        law, rows = self.law, self.rows
        how = f"{law.mechanism}, ε = {law.epsilon:.4g}"
        margin = _NORMAL * law.deviation(rows or 1)
        error = f"± {margin:,.3g}" if rows else f"± {margin:.3g}·√rows"
        of = f" of {rows:,} rows" if rows else ""
        noise = "" if self.noise is None else f", the noise beside them by ± {self.noise:,.3g}"
        return (
            f"{self.column} is what people reported ({how}): numbers of it are estimates, and their"
            f" reports alone make a count{of} err by {error}{noise}"
        )


@dataclass(frozen=True, slots=True)
class Modelled(Notice):
    """The answer uses predictions of these models, which are no measurements.

    Rows for the `limited` models were clipped or scaled by a limit per unit.
    """

    models: tuple[str, ...]
    limited: tuple[str, ...] = ()

    def sentence(self, _names: str) -> str:
        models, limited = " and ".join(self.models), " and ".join(self.limited)
        are = f"{models} {'is a model' if len(self.models) == 1 else 'are models'}"
        less = f"; what one unit adds to {limited} is limited" * bool(limited)
        return f"{are}: no ± says how wrong predictions are{less}"


@dataclass(frozen=True, slots=True)
class Relayed(Notice):
    """A notice of a server, in its words."""

    text: str

    template = "{self.text}"
