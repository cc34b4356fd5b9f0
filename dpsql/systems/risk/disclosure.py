"""Disclosure risk: how identifiable people are in a table without names. For the owner only.

All figures are exact numbers of private rows and cost nothing. No answer to an analyst uses them.
Proposals for the policy, which is public, hold names and kinds, and no values: SECURITY.md S24.

Measures count people (privacy units), who may have many rows. k is the number of people who share a
combination of values (Sweeney 2002). l is the number of values of a sensitive column in a class
(Machanavajjhala et al. 2007). t is the distance of their distribution from the whole table's (Li et
al. 2007). It is the total variation, which bounds all distances between ordered values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from itertools import combinations, pairwise
from math import comb
from typing import Any, Self

from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.engines import EngineFailed, TimedOut
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.table_names import nearest, parts
from dpsql.model.vocabulary import ColumnPolicy, Policy, TablePolicy
from dpsql.owner.whose_rows import unit_rows
from dpsql.policy.load import load
from dpsql.preparation.bound_policy import bound_to
from dpsql.preparation.engine_kinds import dialects, opened
from dpsql.preparation.table_rows import rows_of
from dpsql.systems.risk.generalising import (
    Coarsened,
    GeneralisationLevel,
    StepWidth,
    clipped,
    generalised,
    levels,
)

FEW = 5
"""Size below which a class is small. It is the minimum that statistical offices usually publish."""
MOST_SETS = 2_000
"""Maximum number of column sets, with one statement each."""

DIRECT = frozenset(
    """name firstname lastname surname fullname username login nick email mail phone telephone tel
    mobile fax ssn social passport licence license iban account card insurance iccid imei imsi mac
    ip cookie device url photo signature""".split()
)
"""Words in the names of columns that identify people directly."""
INDIRECT = frozenset(
    """birth born birthday birthdate dob zip zipcode postcode postal plz address street city town
    village location latitude longitude lat lon lng geo employer admission discharge
    death""".split()
)
"""Words in the names of columns that are known to outsiders."""

Rows = Callable[[str], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Inspection:
    """Options of an inspection; empty `by` and `others` stand for all columns and tables.

    A set of columns is identifying if at least a `share` of the people is unique by it.
    """

    table: str
    by: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    generalise: tuple[tuple[str, str], ...] = ()
    clips: tuple[tuple[str, str], ...] = ()
    others: tuple[str, ...] = ()
    size: int = 3
    share: float = 0.05


@dataclass(frozen=True, slots=True)
class Crowd:
    """Numbers of people by class size k. Each person counts with the smallest class of its rows.

    >>> crowd = Crowd(((1, 30), (4, 20), (100, 50)))
    >>> crowd.k, crowd.alone, crowd.few, crowd.median
    (1, 0.3, 0.5, 4)
    """

    people_by_k: tuple[tuple[int, int], ...] = field(repr=False)

    @property
    def people(self) -> int:
        return sum(people for _, people in self.people_by_k)

    @property
    def k(self) -> int:
        """Smallest k of any person; 0 without people."""
        return self.people_by_k[0][0] if self.people_by_k else 0

    @property
    def alone(self) -> float:
        return self.below(2)

    @property
    def few(self) -> float:
        return self.below(FEW)

    @property
    def median(self) -> int:
        """Median of k over people."""
        return next((k for k, _ in self.people_by_k if self.below(k + 1) >= 1 / 2), 0)

    def below(self, k: int) -> float:
        """Return the share of people in a class of fewer than k."""
        return sum(n for size, n in self.people_by_k if size < k) / max(1, self.people)


@dataclass(frozen=True, slots=True)
class ColumnSet:
    """The crowds of people by some columns."""

    columns: tuple[str, ...]
    crowd: Crowd


@dataclass(frozen=True, slots=True)
class LevelCrowd:
    """The crowds at one level of generalisation of all columns."""

    level: GeneralisationLevel
    crowd: Crowd


@dataclass(frozen=True, slots=True)
class SensitiveColumn:
    """Disclosure of a sensitive column by classes, at one level.

    The value of `certain` people is known to anybody who finds their class, since all members have
    it. `in_crowd` of them are in a class of at least two people.
    """

    column: str
    level: str
    diversity: int
    closeness: float
    certain: int
    in_crowd: int


@dataclass(frozen=True, slots=True)
class IdentifyingColumn:
    """A column that looks like an identifier by its name or by its unique values.

    `direct` marks names that identify people.
    """

    column: str
    alone: float
    hidden: bool
    named: bool
    direct: bool


@dataclass(frozen=True, slots=True)
class LinkedTable:
    """Columns of another table that identify `people` privacy units here."""

    table: str
    columns: tuple[str, ...]
    people: int


class Remedy(StrEnum):
    """Remedies for a column, in the policy or the tables."""

    HIDE = "hide"
    COARSEN = "coarsen"


@dataclass(frozen=True, slots=True)
class RemedyProposal:
    """A proposal for the policy, which is public: only names, and nothing read from data."""

    table: str
    column: str
    remedy: Remedy


@dataclass(frozen=True, slots=True)
class Disclosure:
    """All measurements of a table. `together` combines two releases with shifted steps."""

    table: str
    unit: str
    rows: int
    inspection: Inspection
    everything: ColumnSet
    sets: tuple[ColumnSet, ...]
    identifying: tuple[ColumnSet, ...]
    identifiers: tuple[IdentifyingColumn, ...]
    levels: tuple[LevelCrowd, ...]
    together: Crowd | None
    sensitive: tuple[SensitiveColumn, ...]
    linked: tuple[LinkedTable, ...]
    proposals: tuple[RemedyProposal, ...]

    @property
    def published(self) -> LevelCrowd:
        """The level that the options describe; without options, the table as it is."""
        return next((each for each in self.levels if each.level.named), self.levels[0])


class Inspecting:
    """An inspection that can be watched and cancelled; a context manager. Raises `PolicyError`.

    It reads the data, and charges and records nothing.
    """

    def __init__(self, path: str, inspection: Inspection) -> None:
        self._draft, self._inspection = load(path), inspection
        self._engine, self._statements, self._expected = opened(self._draft), 0, 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._engine.close()

    def disclosure(self) -> Disclosure:
        """Measure the disclosure risk of the table.

        Raises `Refused`, `PolicyError`, `Unreachable`; `Failed` if a statement fails or times
        out.
        """
        policy, _schema = bound_to(self._draft, self._engine)
        table = private_table(policy, self._inspection.table)
        self._expected = _sets(len(_chosen(table, policy, self._inspection)), self._inspection)
        try:
            return disclosure(policy, self._inspection, self._rows)
        except TimedOut:
            raise Failed("risk", timed_out=True, charged=False) from None
        except EngineFailed:
            raise Failed("risk", charged=False) from None

    def progress(self) -> float:
        """Return the share of column sets that are done, from 0 to 1."""
        return min(1.0, self._statements / self._expected)

    def cancel(self) -> None:
        """Stop the running statement. `disclosure` then raises `Interrupted`."""
        self._engine.cancel()

    def _rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        self._statements += 1
        return self._engine.rows(sql)


def disclosure(policy: Policy, inspection: Inspection, rows: Rows) -> Disclosure:
    """Measure the disclosure risk of a table. `rows` runs a statement."""
    table = private_table(policy, inspection.table)
    measured = _Measured(policy, table, rows)
    by = _chosen(table, policy, inspection)
    clips = {c.name: clipped(c, t) for c, t in _about(table, by, "clip", inspection.clips)}
    coarser = _about(table, by, "generalise", inspection.generalise)
    coarse = {column.name: generalised(column, text) for column, text in coarser}
    ladder = levels(clips, coarse)
    others = _others(policy, table, inspection.others)

    everything = ColumnSet(by, measured.crowd(by))
    sets = tuple(ColumnSet(names, measured.crowd(names)) for names in _subsets(by, inspection.size))
    identifying = smallest((*sets, everything), inspection.share)
    identifiers = tuple(_identifiers(measured, sets, inspection))
    crowds = tuple(LevelCrowd(level, measured.crowd(by, level)) for level in ladder)
    named = next((level for level in ladder if level.named), None)
    shown = [ladder[0]] if named is None else [ladder[0], named]
    shifts = [c for c in coarse.values() if isinstance(c, StepWidth)]
    return Disclosure(
        table=table.name,
        unit=policy.unit_name,
        rows=measured.count(),
        inspection=inspection,
        everything=everything,
        sets=sets,
        identifying=identifying,
        identifiers=identifiers,
        levels=crowds,
        together=measured.together(by, named) if named is not None and shifts else None,
        sensitive=tuple(
            measured.sensitive(by, _column(table, name).name, level)
            for name in inspection.sensitive
            for level in shown
        ),
        linked=tuple(link for other in others for link in measured.linked(by, other)),
        proposals=proposals(table, identifiers, identifying),
    )


def private_table(policy: Policy, name: str) -> TablePolicy:
    """Return the private table of a name. Raises `Refused`."""
    table = policy.named(tuple(part for part in parts(name) or (name,) if part is not None))
    if table is None or not table.private:
        private = tuple(t.name for t in policy.tables if t.private)
        if table is not None:
            why = f"{table.name} is public: nobody's rows are in it"
            raise Refused(Reason.BAD_OPTION, option="TABLE", why=why)
        raise Refused(Reason.UNKNOWN_TABLE, table=name, near=nearest(name, private), known=private)
    if table.several:
        why = f"rows of {table.name} belong to several people"
        raise Refused(Reason.BAD_OPTION, option="TABLE", why=why)
    return table


def _column(table: TablePolicy, name: str) -> ColumnPolicy:
    """Return a column of the policy, hidden or not: the owner may see it."""
    column = table.column(name)
    if column is None:
        listed = tuple(c.name for c in table.columns)
        near = nearest(name, listed)
        raise Refused(Reason.UNKNOWN_COLUMN, column=name, table=table.name, near=near, known=listed)
    return column


def _about(
    table: TablePolicy, by: Sequence[str], option: str, each: Sequence[tuple[str, str]]
) -> Iterator[tuple[ColumnPolicy, str]]:
    """Yield the columns of an option with its texts. Raises `Refused` for columns not in `by`."""
    for name, text in each:
        column = _column(table, name)
        if column.name not in by:
            why, fix = f"people are not known by {column.name}", "Name it with those that are."
            raise Refused(Reason.BAD_OPTION, option=option, why=why, fix=fix)
        yield column, text


def _leading(table: TablePolicy, policy: Policy) -> set[str]:
    """Return the columns that are keys or links, in lower case."""
    links = (table.link, *table.unprotected, *table.same_unit)
    names = [name for link in links if link is not None for name in link.columns]
    names += [*table.key, *table.second_keys]
    if table.name == policy.unit.table:
        names.append(policy.unit.key)
    return {name.lower() for name in names}


def _chosen(table: TablePolicy, policy: Policy, inspection: Inspection) -> tuple[str, ...]:
    """Return columns that outsiders may know: the named ones, or all visible except keys."""
    if inspection.by:
        by = tuple(dict.fromkeys(_column(table, name).name for name in inspection.by))
    else:
        apart = {_column(table, name).name for name in inspection.sensitive}
        leading = _leading(table, policy)
        by = tuple(
            column.name
            for column in table.columns
            if not column.hidden and column.name not in apart and column.name.lower() not in leading
        )
    both = [name for name in inspection.sensitive if _column(table, name).name in by]
    if both:
        why = f"who is known by {both[0]} has nothing more to learn of it"
        raise Refused(Reason.BAD_OPTION, option="sensitive", why=why)
    if not by:
        raise Refused(Reason.BAD_OPTION, option="by", why="there is no column to know people by")
    number = _sets(len(by), inspection)
    if number > MOST_SETS:
        why = f"{len(by)} columns have {number:,} sets of up to {inspection.size}"
        fix = f"Name fewer columns, or a smaller size of sets: at most {MOST_SETS:,} sets."
        raise Refused(Reason.BAD_OPTION, option="size", why=why, fix=fix)
    return by


def _sets(columns: int, inspection: Inspection) -> int:
    """Return the number of column sets up to the size of the inspection."""
    return sum(comb(columns, size) for size in range(1, inspection.size + 1))


def _subsets(by: tuple[str, ...], size: int) -> Iterator[tuple[str, ...]]:
    for n in range(1, min(size, len(by)) + 1):
        yield from combinations(by, n)


def _others(policy: Policy, table: TablePolicy, names: Sequence[str]) -> list[TablePolicy]:
    """Return the tables to link with: the named ones, or all others of the policy."""
    if not names:
        return [other for other in policy.tables if other.name != table.name]
    others = []
    for name in names:
        other = policy.named(tuple(part for part in parts(name) or (name,) if part is not None))
        if other is None:
            listed = tuple(t.name for t in policy.tables)
            near = nearest(name, listed)
            raise Refused(Reason.UNKNOWN_TABLE, table=name, near=near, known=listed)
        others.append(other)
    return others


def smallest(sets: Sequence[ColumnSet], share: float) -> tuple[ColumnSet, ...]:
    """Return minimal sets with at least this share of unique people, small sets first."""
    enough = [each for each in sets if each.crowd.alone >= share]
    minimal = dict[frozenset[str], ColumnSet]()
    for each in sorted(enough, key=lambda s: len(s.columns)):
        if not any(part <= frozenset(each.columns) for part in minimal):
            minimal[frozenset(each.columns)] = each
    return tuple(sorted(minimal.values(), key=lambda s: (len(s.columns), -s.crowd.alone)))


def _identifiers(
    measured: _Measured, sets: Sequence[ColumnSet], inspection: Inspection
) -> Iterator[IdentifyingColumn]:
    """Yield columns that look like identifiers, including hidden ones, without keys."""
    alone = {each.columns[0]: each.crowd.alone for each in sets if len(each.columns) == 1}
    leading = _leading(measured.table, measured.policy)
    for column in measured.table.columns:
        if column.name.lower() in leading:
            continue
        share = alone.get(column.name)
        share = measured.crowd((column.name,)).alone if share is None else share
        words = words_of(column.name)
        direct = not words.isdisjoint(DIRECT)
        named = direct or not words.isdisjoint(INDIRECT)
        if named or share >= inspection.share:
            yield IdentifyingColumn(column.name, share, column.hidden, named, direct)


def words_of(name: str) -> set[str]:
    """Return the words in a column's name, in lower case.

    >>> sorted(words_of("homeZip_code2"))
    ['code', 'home', 'zip', 'zipcode']
    """
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    pairs = (first + second for first, second in pairwise(words))
    return {*words, *(pair for pair in pairs if pair in DIRECT | INDIRECT)}


def proposals(
    table: TablePolicy,
    identifiers: Sequence[IdentifyingColumn],
    identifying: Sequence[ColumnSet],
) -> tuple[RemedyProposal, ...]:
    """Propose to hide direct identifiers and to coarsen identifying columns.

    A column that is identifying alone is hidden too, unless the policy has bounds or values of it.
    Such a column is meant for aggregates.
    """
    alone = {s.columns[0] for s in identifying if len(s.columns) == 1}
    measures = {c.name for c in table.columns if c.bounds is not None or c.values is not None}
    hide = {c.column for c in identifiers if c.direct} | (alone - measures)
    coarsen = {name for s in identifying for name in s.columns}
    coarsen |= {c.column for c in identifiers if c.named}
    return tuple(
        RemedyProposal(table.name, column.name, remedy)
        for column in table.columns
        if not column.hidden
        for remedy, names in ((Remedy.HIDE, hide), (Remedy.COARSEN, coarsen - hide))
        if column.name in names
    )


class _Measured:
    """The statements about one table, and their results."""

    def __init__(self, policy: Policy, table: TablePolicy, rows: Rows) -> None:
        self.policy, self.table, self.rows = policy, table, rows
        self.dialect = dialects(policy.database).database

    def count(self) -> int:
        """Return the number of rows that belong to a unit."""
        ((count,),) = self.rows(f"SELECT COUNT(*) FROM ({self._rows(())}) AS r")
        return int(count)

    def crowd(self, by: Sequence[str], level: GeneralisationLevel | None = None) -> Crowd:
        """Return the crowds by some columns, as published at a level."""
        return self._crowd(self._published(by, level))

    def together(self, by: Sequence[str], level: GeneralisationLevel) -> Crowd:
        """Return the crowds for a reader of two releases of a level, one with shifted steps."""
        shifted = self._published(by, level, shifted=True)
        return self._crowd([*self._published(by, level), *shifted])

    def sensitive(
        self, by: Sequence[str], column: str, level: GeneralisationLevel
    ) -> SensitiveColumn:
        """Return the disclosure of a sensitive column at a level. NULL counts as a value."""
        published = self._published([name for name in by if name != column], level)
        keys = _keys(published)
        pairs = self._pairs(published, column)
        coded = f"SELECT u{keys}, DENSE_RANK() OVER (ORDER BY s) AS s FROM ({pairs}) AS p"
        together = f"PARTITION BY {keys[2:]}" if keys else ""
        certain = (
            f"SELECT COUNT(DISTINCT u), COUNT(DISTINCT u) FILTER (WHERE k > 1) FROM"
            f" (SELECT u, MIN(s) OVER w AS lo, MAX(s) OVER w AS hi, COUNT(*) OVER w AS k"
            f" FROM ({coded}) AS c WINDOW w AS ({together})) AS w WHERE lo = hi"
        )
        ((alike, in_crowd),) = self.rows(certain)
        ((diversity, closeness),) = self.rows(_diversity(coded, keys))
        return SensitiveColumn(
            column=column,
            level=level.title,
            diversity=int(diversity or 0),
            closeness=float(closeness or 0),
            certain=int(alike),
            in_crowd=int(in_crowd),
        )

    def linked(self, by: Sequence[str], other: TablePolicy) -> Iterator[LinkedTable]:
        """Yield the number of people that the common columns of another table identify, if any."""
        leading = _leading(other, self.policy)
        common = [
            (name, column)
            for name in by
            if (column := other.column(name)) is not None
            and column.type == _column(self.table, name).type
            and name.lower() not in leading
        ]
        if not common:
            return
        names = tuple(name for name, _ in common)
        published = self._published(names, None)
        keys = _keys(published)[2:]
        here = (
            f"SELECT {keys}, MIN(u) AS u FROM ({self._pairs(published)}) AS p"
            f" GROUP BY {keys} HAVING COUNT(*) = 1"
        )
        columns = ", ".join(
            f"{_read(self.dialect, 't', column)} AS q{n}" for n, (_, column) in enumerate(common)
        )
        there = (
            f"SELECT {keys} FROM"
            f" (SELECT {columns} FROM {rows_of(other.name, self.policy)} AS t) AS o"
            f" GROUP BY {keys} HAVING COUNT(*) = 1"
        )
        same = " AND ".join(f"a.q{n} = b.q{n}" for n in range(len(common)))
        ((people,),) = self.rows(
            f"SELECT COUNT(DISTINCT a.u) FROM ({here}) AS a JOIN ({there}) AS b ON {same}"
        )
        yield LinkedTable(other.name, names, int(people))

    def _published(
        self, by: Sequence[str], level: GeneralisationLevel | None, *, shifted: bool = False
    ) -> list[str]:
        """Return the SQL expressions that a level publishes of these columns, over t0."""
        without = frozenset[str]() if level is None else level.without
        coarse = {} if level is None else {n.lower(): c for n, c in level.columns.items()}
        absent = {name.lower() for name in without}
        return [
            coarse.get(name.lower(), Coarsened()).sql(
                _read(self.dialect, "t0", _column(self.table, name)), shifted=shifted
            )
            for name in by
            if name.lower() not in absent
        ]

    def _rows(self, expressions: Sequence[str]) -> str:
        """Return SQL for rows that belong to a unit, with expressions over t0 as q0, q1, ..."""
        listed = [f"{expression} AS q{n}" for n, expression in enumerate(expressions)]
        rows = unit_rows(self.table, self.policy, *listed)
        return f"SELECT * FROM ({rows}) AS r WHERE u IS NOT NULL"

    def _pairs(self, published: Sequence[str], column: str | None = None) -> str:
        """Return SQL for distinct pairs of person and combination, and of value `s` if given."""
        if column is None:
            return f"SELECT DISTINCT u{_keys(published)} FROM ({self._rows(published)}) AS r"
        value = _read(self.dialect, "t0", _column(self.table, column))
        rows = self._rows([*published, value])
        return f"SELECT DISTINCT u{_keys(published)}, q{len(published)} AS s FROM ({rows}) AS r"

    def _crowd(self, published: Sequence[str]) -> Crowd:
        keys = _keys(published)
        together = f"PARTITION BY {keys[2:]}" if keys else ""
        classes = f"SELECT u, COUNT(*) OVER ({together}) AS k FROM ({self._pairs(published)}) AS p"
        each = f"SELECT u, MIN(k) AS k FROM ({classes}) AS c GROUP BY u"
        counts = self.rows(f"SELECT k, COUNT(*) FROM ({each}) AS e GROUP BY k ORDER BY k")
        return Crowd(tuple((int(k), int(people)) for k, people in counts))


def _read(dialect: Dialect, table: str, column: ColumnPolicy) -> str:
    return dialect.column(table, Field(0, column.name, column.type), column.reading)


def _keys(published: Sequence[str]) -> str:
    """Return the columns of a combination, each after a comma."""
    return "".join(f", q{n}" for n in range(len(published)))


def _diversity(coded: str, keys: str) -> str:
    """Return SQL for the smallest number of values in a class and the largest total variation."""
    together = f"PARTITION BY {keys[2:]}" if keys else ""
    grouped = f"GROUP BY {keys[2:]}" if keys else ""
    cells = f"SELECT s, COUNT(*) AS n{keys} FROM ({coded}) AS c GROUP BY s{keys}"
    shares = (
        f"SELECT CAST(n AS DOUBLE) / SUM(n) OVER ({together}) AS p{keys},"
        f" CAST(SUM(n) OVER (PARTITION BY s) AS DOUBLE) / SUM(n) OVER () AS whole"
        f" FROM ({cells}) AS x"
    )
    # Values that are missing in a class differ by their share in the whole table.
    classes = (
        f"SELECT COUNT(*) AS l, (SUM(ABS(p - whole)) + 1 - SUM(whole)) / 2 AS t"
        f" FROM ({shares}) AS y {grouped}"
    )
    return f"SELECT MIN(l), MAX(t) FROM ({classes}) AS z"
