"""Rows of a SELECT that our own statements sum: their columns and the facts about them.

Nothing is run: facts follow from the text and the policy.
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
from dpsql.policy.restrict import restrict_to
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Account, Question


@dataclass(frozen=True, slots=True)
class RowUse:
    """Purpose of summing rows, in words; the alias of their source; and the most columns."""

    words: str
    alias: str
    most: int

    def source(self, rows: str) -> str:
        """Return the rows as an item of FROM; their text may end with a comment."""
        return f"FROM (\n{rows}\n) AS {self.alias}"

    def refusal(self, construct: str, **facts: str) -> Refused:
        """Return the refusal of rows that cannot be summed in this way."""
        return Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, construct=construct, **facts)

    @property
    def of_released(self) -> Refused:
        """Refusal of rows that are not private any more."""
        return self.refusal(f"{self.words} of what aggregates release")


def clipping_of(counted: Prepared, column: int) -> tuple[Notice, ...]:
    """Return the notices on contribution limits of counted rows, for a column of another answer."""
    limits = (notice for notice in counted.notices if isinstance(notice, Clipped | Scaled))
    return tuple(replace(notice, columns=(column,)) for notice in limits)


def rows_of(policy: Policy, request: Request) -> str:
    """Return the requested SELECT, or one of all columns of a table that the analyst may use, and
    that are neither keys nor links.
    """
    policy = restrict_to(policy, request.analyst, request.chain)
    text = request.sql.strip().rstrip(";").rstrip()
    table = policy.granted(text)
    if table is None:
        return text
    named = _naming(table, policy)
    columns = [c.name for c in table.columns if not c.hidden and c.name.lower() not in named]
    return f"SELECT {', '.join(map(identifier, columns)) or '*'} FROM {address(table.name)}"


def column_facts(
    compiler: Compiler, request: Request, payer: Account, use: RowUse, stop: Stop
) -> Iterator[tuple[str, Facts]]:
    """Yield the columns of a SELECT by name, with the facts about each before any data is read.

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
    """Return the columns that are keys and links."""
    beside = (*table.several, *table.unprotected, *table.same_unit)
    links = [link for link in (table.link, *beside) if link is not None]
    unit = policy.unit.key if table.name == policy.unit.table else ""
    columns = (*table.key, *table.second_keys, unit, *(c for link in links for c in link.columns))
    return frozenset(column.lower() for column in columns)
