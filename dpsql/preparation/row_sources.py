"""The rows of a SELECT that are summed by texts of ours: their columns and what is known of them.

Nothing is run: what is known follows from the text and the policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Stop
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts
from dpsql.model.notices import Clipped, Notice, Scaled
from dpsql.model.table_names import address
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Policy, Request, TablePolicy
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Account, Question


@dataclass(frozen=True, slots=True)
class RowUse:
    """What rows are summed for, in words; the name of their source; the most columns of them."""

    words: str
    alias: str
    most: int

    def source(self, rows: str) -> str:
        """The rows as a source; their text may end with a comment."""
        return f"FROM (\n{rows}\n) AS {self.alias}"

    def refusal(self, construct: str, **facts: str) -> Refused:
        """What is said of rows of which no one such sum is made."""
        return Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, construct=construct, **facts)

    @property
    def of_released(self) -> Refused:
        """What is said of rows that are no private ones any more."""
        return self.refusal(f"{self.words} of what aggregates release")


def clipping_of(counted: Prepared, column: int) -> tuple[Notice, ...]:
    """What is told of limits on rows that are counted, as of a column of another answer."""
    limits = (notice for notice in counted.notices if isinstance(notice, Clipped | Scaled))
    return tuple(replace(notice, columns=(column,)) for notice in limits)


def rows_of(policy: Policy, text: str) -> str:
    """The SELECT of a wish; of a table all columns that name neither rows nor people."""
    text = text.strip().rstrip(";").rstrip()
    table = policy.table(text)
    if table is None:
        return text
    named = _naming(table, policy)
    columns = [c.name for c in table.columns if not c.hidden and c.name.lower() not in named]
    return f"SELECT {', '.join(map(identifier, columns)) or '*'} FROM {address(table.name)}"


def column_facts(
    compiler: Compiler, request: Request, payer: Account, use: RowUse, stop: Stop
) -> Iterator[tuple[str, Facts]]:
    """The columns of a SELECT by name, with what is known of each before any data is read.

    Raises `Refused` for rows that are not private, and for too many columns or equal names.
    """
    columns = compiler.signature(request, (), (), stop).columns
    names = [column.name for column in columns]
    if len(names) > use.most:
        raise Refused(Reason.TOO_LARGE, what=f"columns for {use.words}", limit=use.most)
    for place, (name, kind) in enumerate((column.name, column.type) for column in columns):
        if name.lower() in {other.lower() for other in names[:place]}:
            raise Refused(Reason.AMBIGUOUS_COLUMN, column=name, fix=f"Name {name} otherwise.")
        text = f"SELECT COUNT({identifier(name)}) AS n {use.source(request.sql)}"
        facts = compiler.facts(Question(replace(request, sql=text), payer, stop))
        if not facts:
            raise use.refusal(
                f"{use.words} of public tables", fix="Read them: public tables cost nothing."
            )
        if [each.type for each in facts] != [kind]:
            raise use.of_released
        yield name, facts[0]


def _naming(table: TablePolicy, policy: Policy) -> frozenset[str]:
    """The columns that are keys and links."""
    links = [link for link in (table.link, *table.several, *table.unprotected) if link is not None]
    unit = policy.unit.key if table.name == policy.unit.table else ""
    columns = (*table.key, *table.second_keys, unit, *(c for link in links for c in link.columns))
    return frozenset(column.lower() for column in columns)
