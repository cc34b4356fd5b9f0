"""check: does the data fit the policy? For the owner only: findings count private rows.

Proofs rely on the facts that it records: PRIVACY.md R5. Owners of rows follow from the same rules
as in `compiler.track.units`: PRIVACY.md R2, R93.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from enum import StrEnum
from typing import Any, assert_never

from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.schema import LONGEST_READ
from dpsql.model.tree import BOOLEAN, DOUBLE, INTEGER, VARCHAR, Call, Literal, Ref, identifier
from dpsql.model.vocabulary import (
    ColumnPolicy,
    Fact,
    FactKind,
    GroupingLimit,
    Link,
    Policy,
    TablePolicy,
    Voucher,
)
from dpsql.owner.findings import Finding, Reviewed, Severity, reviewed
from dpsql.owner.look_alikes import all_among_units, look_alikes
from dpsql.owner.public_findings import public_findings
from dpsql.owner.public_views import bound_for_check
from dpsql.owner.reminders import nothing_withheld, policy_reminders
from dpsql.owner.role_findings import what_roles_grant
from dpsql.owner.text_findings import text_findings
from dpsql.owner.whose_rows import (
    BESIDE_THE_LINK,
    RowsOfSeveral,
    beside_the_link,
    same_key,
    unit_rows,
    units_of_keys,
)
from dpsql.policy.bind import vouched_for
from dpsql.policy.limit_values import ROWS_PER_KEY
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from dpsql.preparation.bound_policy import of_stored_rows
from dpsql.preparation.engine_kinds import counts_of_texts, dialects, opened
from dpsql.preparation.table_rows import rows_of

AS_LINK = 'Add it to links, with other_people = "unprotected" if they need no protection.'


Rows = Callable[[str], Sequence[tuple[Any, ...]]]

Seen = Callable[[str, float], object]
"""Receiver of progress: the name of a table, and the share of all work that is done."""


def _unseen(_table: str, _done: float) -> None:
    pass


FIRST_VERSION = 1
"""Data version without a ledger."""


class _Counted(StrEnum):
    """Kinds of objects that a finding counts."""

    ROWS = "rows"
    UNITS = "units"
    VALUES = "values"


_WARNINGS = {
    _Counted.ROWS: (
        "null nan infinite bounds length long values shared unlinked dangling nobodys lost"
        " ownerless".split()
    ),
    _Counted.UNITS: "rows groups-by rows-by total".split(),
}
_ERRORS = {
    _Counted.ROWS: ["key", "elsewhere"],
    _Counted.UNITS: ["uncut"],
    _Counted.VALUES: ["determines", "keys"],
}
_KINDS = {
    kind: (severity, counted)
    for severity, kinds in ((Severity.WARNING, _WARNINGS), (Severity.ERROR, _ERRORS))
    for counted, names in kinds.items()
    for kind in names
}
"""Severity of each kind of finding, and the objects that it counts."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A count that should be zero: the condition of a bad row, and the words for it."""

    kind: str
    condition: str
    column: str | None
    place: tuple[str, ...]
    what: str
    fix: str


def check(
    policy: Policy, lines: Lines, rows: Rows, seen: Seen = _unseen
) -> tuple[tuple[Finding, ...], frozenset[Fact]]:
    """Return the findings, and the facts that the data confirms.

    Runs one scan per table for its rows, and one query per key, link and row limit. Calls `seen`
    before each step.
    """
    findings: list[Finding] = []
    facts: set[Fact] = set()
    for number, table in enumerate(policy.tables):
        of = _Table(policy, table, lines, rows)
        steps = (of.values, of.shared, of.own_key, of.other_people, of.beyond_limits)
        for step, find in enumerate(steps):
            seen(table.name, (number + step / (len(steps) + 1)) / len(policy.tables))
            findings += find()
        seen(table.name, (number + len(steps) / (len(steps) + 1)) / len(policy.tables))
        for kind, finding in of.structure():
            if finding is None:
                facts.add(Fact(kind, table.name, Voucher.CHECK))
            else:
                findings.append(finding)
        for kind, columns, against in of.agreements():
            wrong = [finding for finding in against if finding is not None]
            findings += wrong
            if not wrong:
                facts.add(Fact(kind, table.agreeing(columns), Voucher.CHECK))
    return tuple(sorted(findings, key=lambda f: f.line)), frozenset(facts)


class _Table:
    def __init__(self, policy: Policy, table: TablePolicy, lines: Lines, rows: Rows) -> None:
        self.policy, self.table, self.lines, self.rows = policy, table, lines, rows
        self.name = rows_of(table.name, policy)

    def values(self) -> list[Finding]:
        """Find rows outside bounds and lists, undeclared NULLs, NaN and infinities."""
        if not self.table.private:
            return []
        dialect = dialects(self.policy.database).database
        questions = [
            question
            for column in self.table.columns
            for question in (
                *self._absent(column),
                *self._not_numbers(column, dialect),
                *_questions(column, self._read(column), dialect),
                *([self._long_texts(column, dialect)] if column.type == VARCHAR else []),
            )
        ]
        if not questions:
            return []
        counts = ", ".join(f"COUNT(*) FILTER (WHERE {q.condition})" for q in questions)
        row = self.rows(f"SELECT {counts} FROM {self.name} AS t0")[0]
        return [
            finding
            for q, count in zip(questions, row, strict=True)
            if (finding := self._finding(q.kind, count, q.place, q.what, q.fix, q.column))
        ]

    def _absent(self, column: ColumnPolicy) -> list[_Question]:
        """Return the question for undeclared NULLs; `structure` covers keys and links."""
        links = (self.table.link, *self.table.several)
        leading = {link.column.lower() for link in links if link is not None}
        leading |= {name.lower() for name in self.table.key}
        if column.nullable or column.not_null or column.name.lower() in leading:
            return []
        fix = "Declare nullable = true, so that NULL is a group of its own."
        what = f"have no {column.name}, which is not declared nullable."
        absent = f"{self._read(column)} IS NULL"
        return [_Question("null", absent, column.name, ("columns", column.name), what, fix=fix)]

    def _not_numbers(self, column: ColumnPolicy, dialect: Dialect) -> list[_Question]:
        """Return the question for NaN in a DOUBLE column, independent of the policy."""
        if column.type != DOUBLE or column.reading is not None:
            return []
        is_nan = Call("isnan", (Ref(0, DOUBLE),), BOOLEAN)
        condition = dialect.expression(is_nan, {0: f"t0.{identifier(column.name)}"})
        what = f"have NaN in {column.name}, which is read as NULL."
        fix = "Store NULL where a number is missing, or accept that."
        place = ("columns", column.name)
        return [_Question("nan", condition, column.name, place, what, fix=fix)]

    def _long_texts(self, column: ColumnPolicy, dialect: Dialect) -> _Question:
        """Return the question for texts that are cut, or NULL where keys are (PRIVACY.md R101)."""
        name, most = self._read(column), self.policy.limits.max_text_length
        length = dialect.expression(Call("length", (Ref(0, VARCHAR),), INTEGER), {0: name})
        long, place = f"{length} >= {most}", ("columns", column.name)
        what = f"have {most:,} characters or more in {column.name}: further ones are not read."
        if column.reading is None:
            strlen, stored = Call("strlen", (Ref(0, VARCHAR),), INTEGER), identifier(column.name)
            size = dialect.expression(strlen, {0: f"t0.{stored}"})
            long = f"({long} OR ({size} > {LONGEST_READ} AND {name} IS NULL))"
        return _Question("long", long, column.name, place, what, fix="Raise max_text_length.")

    def _read(self, column: ColumnPolicy) -> str:
        """Return a column of the table with alias t0."""
        field = Field(0, column.name, column.type)
        return dialects(self.policy.database).database.column("t0", field, column.reading)

    def structure(self) -> list[tuple[FactKind, Finding | None]]:
        """Test key, link and row limit: return each fact, with None or the finding against it."""
        result = []
        if self.table.key:
            unique = self._unique()
            result.append((FactKind.UNIQUE_KEY, unique))
            if unique is None:
                result.append((FactKind.NOT_NULL_KEY, None))
        if self.table.several:
            several = RowsOfSeveral(self.table, self.policy)
            result.append((FactKind.LINK_RESOLVES, self._of_somebody(several)))
            if self.table.max_rows_per_unit is not None:
                limit = self.table.max_rows_per_unit
                result.append((FactKind.MAX_ROWS, self._row_limit(limit, several.each())))
        elif self.table.private:
            result.append((FactKind.NOT_NULL_LINK, self._never_null()))
        if self.table.link is not None:
            result.append((FactKind.LINK_RESOLVES, self._resolves()))
            if self.table.max_rows_per_unit is not None:
                limit = self.table.max_rows_per_unit
                result.append((FactKind.MAX_ROWS, self._row_limit(limit, self._unit_rows())))
        return result

    def shared(self) -> list[Finding]:
        """Find rows under a key that several units share, which no unit owns."""
        link = self.table.link
        if link is None or link.table == self.policy.unit.table:
            return []
        count = self._count(
            f"SELECT COUNT(*) FROM {self.name} AS a JOIN ({units_of_keys(link.table, self.policy)})"
            f" AS b ON {same_key(link, 'a', self.policy)} WHERE b.lo <> b.hi"
        )
        what = "are below a key that several units share: they enter no answer."
        fix = "Make the keys above them unique, or accept that."
        finding = self._finding("shared", count, ("link",), what, fix, ", ".join(link.columns))
        return [] if finding is None else [finding]

    def own_key(self) -> list[Finding]:
        """Find a link by the table's own key that no foreign key confirms."""
        link, names = self.table.link, {name.lower() for name in self.table.key}
        fact = self.policy.fact(FactKind.LINK_RESOLVES, self.table.name)
        if link is None or fact is not None or {n.lower() for n in link.columns} != names:
            return []
        if self.table.rows is not None:  # a view has the base table's rows and key
            return []
        named = ", ".join(link.columns)
        there = f"{link.table} ({', '.join(link.keys)})"
        message = f"{self.table.name}: {named} is its own key, and no foreign key leads to {there}."
        fix = (
            f"Link it by another column, or declare FOREIGN KEY ({named}) REFERENCES {there}."
            " Of data files, which have none: leave out key."
        )
        return [
            Finding(
                line=self._line(("link",)),
                table=self.table.name,
                column=named,
                message=message,
                rows=0,
                fix=fix,
                kind="own-key",
                severity=Severity.ERROR,
            )
        ]

    def other_people(self) -> list[Finding]:
        """Find columns that name people without a link, and links to unprotected people."""
        findings = [
            self._named(
                name,
                "links",
                "names people who are not protected.",
                "If this is intended, do nothing.",
            )
            for link in self.table.unprotected
            for name in link.columns
        ]
        findings += [
            self._named(name, "columns", f"references {self._people()} and is no link.", AS_LINK)
            for name in self.table.second_keys
        ]
        return findings + [
            self._named(name, "columns", f"may name {self._people()} and is no link.", AS_LINK)
            for name in look_alikes(self.table, self.policy)
            if self._count(all_among_units(self.table, name, self.policy))
        ]

    def _people(self) -> str:
        return self.policy.unit_name

    def _named(self, column: str, place: str, what: str, fix: str) -> Finding:
        """Return a finding about a column; rows are not counted if the owner has decided."""
        name, decided = identifier(column), place == "links"
        condition = f"SELECT COUNT(*) FROM {self.name} WHERE {name} IS NOT NULL"
        return Finding(
            line=self._line((place,) if decided else (place, column)),
            table=self.table.name,
            column=column,
            message=f"{self.table.name}: {column} {what}",
            rows=0 if decided else self._count(condition),
            fix=fix,
            kind="unprotected" if decided else "person",
            severity=Severity.REMINDER if decided else Severity.ERROR,
        )

    def _unique(self) -> Finding | None:
        names = ", ".join(map(identifier, self.table.key))
        absent = " OR ".join(f"{identifier(name)} IS NULL" for name in self.table.key)
        count = self._count(
            f"SELECT COALESCE(SUM(n), 0) FROM (SELECT COUNT(*) AS n FROM {self.name}"
            f" GROUP BY {names} HAVING COUNT(*) > 1 OR {absent}) AS shared"
        )
        what = f"share their key {', '.join(self.table.key)} or have none."
        fix = "Make the key unique, or name another."
        return self._finding("key", count, ("key",), what, fix)

    def _never_null(self) -> Finding | None:
        link = self.table.link
        columns = link.columns if link else self.table.key[:1]
        absent = " OR ".join(f"{identifier(name)} IS NULL" for name in columns)
        count = self._count(f"SELECT COUNT(*) FROM {self.name} WHERE {absent}")
        column = ", ".join(columns)
        place = ("link",) if link else ("key",)
        what = f"have no {column}: they belong to nobody and enter no answer."
        fix = "Fill it in, or accept that."
        return self._finding("unlinked", count, place, what, fix, column)

    def _resolves(self) -> Finding | None:
        link = self.table.link
        assert link is not None
        if self.policy.table(link.table) is None:  # the values are the units
            return None
        there = " AND ".join(
            f"b.{identifier(key)} = a.{identifier(column)}"
            for column, key in zip(link.columns, link.keys, strict=True)
        )
        named = " AND ".join(f"a.{identifier(column)} IS NOT NULL" for column in link.columns)
        count = self._count(
            f"SELECT COUNT(*) FROM {self.name} AS a WHERE {named} AND NOT EXISTS"
            f" (SELECT 1 FROM {rows_of(link.table, self.policy)} AS b WHERE {there})"
        )
        what = f"link to no row of {link.table}: they enter no answer."
        fix = "Mend the links, or accept that."
        return self._finding("dangling", count, ("link",), what, fix, ", ".join(link.columns))

    def _of_somebody(self, several: RowsOfSeveral) -> Finding | None:
        count = self._count(f"SELECT COUNT(*) FROM ({several.nobodys()}) AS r")
        what = "link to nobody, or to a key that several share: they enter no answer."
        return self._finding("nobodys", count, ("links",), what, "Mend the links, or accept that.")

    def _row_limit(self, limit: int, rows: str) -> Finding | None:
        units = f"SELECT u, COUNT(*) AS n FROM ({rows}) AS r GROUP BY u HAVING COUNT(*) > {limit}"
        count, most = self.rows(f"SELECT COUNT(*), MAX(n) FROM ({units}) AS units")[0]
        what = f"have more than {limit} rows, one has {most}."
        fix, kind = "Raise max_rows_per_unit, or accept that they are clipped.", "rows"
        if self.table.several:
            fix, kind = "Raise max_rows_per_unit: until then no query may use them.", "uncut"
        return self._finding(kind, count, ("max_rows_per_unit",), what, fix)

    def beyond_limits(self) -> list[Finding]:
        """Find units beyond the limits by groupings and the limits of totals."""
        if self.table.link is None:
            return []
        findings = [
            *(self._beyond(g, "max_groups_per_unit", "groups") for g in self.table.groups_by),
            *(self._beyond(g, "max_rows_per_group", "rows in a group") for g in self.table.rows_by),
            *(self._total(column) for column in self.table.columns),
        ]
        return [finding for finding in findings if finding is not None]

    def _beyond(self, limit: GroupingLimit, name: str, what: str) -> Finding | None:
        """Return a finding that counts the units beyond a limit by a grouping, or None."""
        assert limit.key is not None
        columns = {n: self._read(c) for n, c in enumerate(self.table.columns)}
        key = dialects(self.policy.database).database.expression(limit.key, columns)
        groups = (
            f"SELECT u, COUNT(*) AS n FROM ({self._unit_rows(f'{key} AS k')}) AS r GROUP BY u, k"
        )
        most = "COUNT(*)" if name == "max_groups_per_unit" else "MAX(n)"
        units = f"SELECT u FROM ({groups}) AS g GROUP BY u HAVING {most} > {limit.most}"
        count = self._count(f"SELECT COUNT(*) FROM ({units}) AS units")
        said = f"have more than {limit.most} {what} by {limit.by}: they are clipped."
        fix, kind = "Raise it, or accept that.", what.split(maxsplit=1)[0] + "-by"
        return self._finding(kind, count, (name, limit.by), said, fix, limit.by)

    def _total(self, column: ColumnPolicy) -> Finding | None:
        """Return a finding that counts the units with a total beyond its limit, or None."""
        if column.max_per_unit is None:
            return None
        rows = self._unit_rows(f"{self._read(column)} AS x")
        # A sum of DOUBLE cannot overflow, and is exact enough to count by.
        sizes = f"SUM(abs(CAST(x AS DOUBLE))) > {column.max_per_unit}"
        units = f"SELECT u FROM ({rows}) AS r GROUP BY u HAVING {sizes}"
        count = self._count(f"SELECT COUNT(*) FROM ({units}) AS units")
        said = f"have more than {column.max_per_unit} {column.name} in all."
        place = ("columns", column.name, "max_per_unit")
        fix = "Raise it, or accept that they are clipped."
        return self._finding("total", count, place, said, fix, column.name)

    def _unit_rows(self, *columns: str) -> str:
        return unit_rows(self.table, self.policy, *columns)

    def agreements(self) -> Iterator[tuple[FactKind, tuple[str, ...], list[Finding | None]]]:
        """Yield each fact about rows that agree on columns, with the findings against it."""
        for columns in self.table.determining:
            yield FactKind.ONE_UNIT, columns, [self._of_one_unit(columns)]
        for link in self.table.same_unit:
            yield FactKind.SAME_UNIT, link.columns, self._same_unit(link)
        for column, most in self.table.max_rows_per_key:
            yield FactKind.ROWS_PER_KEY, (column,), [self._rows_per_key(column, most)]

    def _rows_per_key(self, column: str, most: int) -> Finding | None:
        """Find values of a column that more rows share than declared, of one unit or several."""
        name = identifier(column)
        rows = f"FROM {self.name} GROUP BY {name} HAVING COUNT({name}) > {most}"
        count = self._count(f"SELECT COUNT(*) FROM (SELECT {name} {rows}) AS shared")
        what, fix = (
            f"have more than {most:,} rows.",
            "Raise it: until it holds, nothing leans on it.",
        )
        return self._finding("keys", count, (ROWS_PER_KEY, column), what, fix, column)

    def _of_one_unit(self, columns: tuple[str, ...]) -> Finding | None:
        names = [f"t0.{identifier(column)} AS d{n}" for n, column in enumerate(columns)]
        keys = ", ".join(f"d{n}" for n in range(len(columns)))
        count = self._count(
            f"SELECT COUNT(*) FROM (SELECT {keys} FROM ({self._unit_rows(*names)}) AS r"
            f" GROUP BY {keys} HAVING MIN(u) <> MAX(u)) AS shared"
        )
        named = ", ".join(columns)
        what, fix = "are of several units.", "Remove it: until it holds, nothing leans on it."
        return self._finding("determines", count, ("determines_unit",), what, fix, named)

    def _same_unit(self, link: Link) -> list[Finding | None]:
        """Find rows where a `same_unit` column leads to another unit or to none."""
        rows, column = beside_the_link(self.table, link, self.policy), link.column
        return [
            self._finding(
                kind,
                self._count(f"SELECT COUNT(*) FROM ({rows}) AS r WHERE {condition}"),
                ("same_unit",),
                f"have values of {column} {what.format(table=link.table)}.",
                fix,
                column,
            )
            for kind, condition, what, fix in BESIDE_THE_LINK
        ]

    def _count(self, sql: str) -> int:
        return int(self.rows(sql)[0][0])

    def _finding(
        self,
        kind: str,
        count: int,
        place: tuple[str, ...],
        what: str,
        fix: str,
        column: str | None = None,
    ) -> Finding | None:
        """Return a finding with a count of rows, units or values; None if the count is zero."""
        if not count:
            return None
        severity, counted = _KINDS[kind]
        total = self._whole(counted)
        of = "" if total is None else f" of {total:,}"
        noun = f"values of {column}" if counted is _Counted.VALUES else counted.value
        return Finding(
            line=self._line(place),
            table=self.table.name,
            column=column,
            message=f"{self.table.name}: {count:,}{of} {noun} {what}",
            rows=count,
            fix=fix,
            kind=kind,
            severity=severity,
            total=total,
        )

    def _whole(self, counted: _Counted) -> int | None:
        """Return the number of the table's rows, or of units with rows in it; None for values."""
        match counted:
            case _Counted.ROWS:
                return self._count(f"SELECT COUNT(*) FROM {self.name}")
            case _Counted.UNITS:
                several = RowsOfSeveral(self.table, self.policy)
                rows = several.each() if self.table.several else self._unit_rows()
                return self._count(f"SELECT COUNT(DISTINCT u) FROM ({rows}) AS r")
            case _Counted.VALUES:
                return None
            case _:
                assert_never(counted)

    def _line(self, place: tuple[str, ...]) -> int:
        return self.lines.of(("tables", self.table.name, *place))


def _questions(column: ColumnPolicy, name: str, dialect: Dialect) -> list[_Question]:
    """Return conditions on a column with the text `name` that no row should meet."""
    place = ("columns", column.name)
    result = []
    if column.bounds is not None:
        lower, upper = (dialect.constant(Literal(end, column.type)) for end in column.bounds)
        what = f"have {column.name} outside its bounds: they are clipped."
        outside = f"{name} < {lower} OR {name} > {upper}"
        fix = "Widen the bounds, or accept."
        result.append(_Question("bounds", outside, column.name, place, what, fix=fix))
    elif column.type.is_temporal and not column.nullable and column.values is None:
        part = Call("extract", (Literal("year", VARCHAR), Ref(0, column.type)), INTEGER)
        infinite = f"{name} IS NOT NULL AND {dialect.expression(part, {0: name})} IS NULL"
        what = f"have an infinite {column.name}: they are in no group by a part of it."
        fix = "Store NULL, declare nullable = true, or accept."
        result.append(_Question("infinite", infinite, column.name, place, what, fix=fix))
    if column.max_length is not None:
        length = Call("length", (Ref(0, column.type),), INTEGER)
        longer = f"{dialect.expression(length, {0: name})} > {column.max_length}"
        what = f"have more than {column.max_length} characters in {column.name}: they are clipped."
        fix = "Raise max_length, or accept."
        result.append(_Question("length", longer, column.name, place, what, fix=fix))
    if column.values is not None:
        listed = ", ".join(dialect.constant(Literal(v, column.type)) for v in column.values)
        what = f"have values of {column.name} that are not listed: in no group."
        unlisted, fix = f"{name} NOT IN ({listed})", "List it, or accept."
        result.append(_Question("values", unlisted, column.name, place, what, fix=fix))
    return result


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check: findings with the owner's acceptances, whether recorded facts have lapsed,
    whether the policy's store is unusable, and the facts that hold and are not recorded.
    """

    reviews: tuple[Reviewed, ...]
    facts_lapsed: bool
    store_unused: bool
    unrecorded: frozenset[Fact]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return tuple(review.finding for review in self.reviews)


def check_policy(
    path: str, *, record: bool = False, refresh: bool = False, seen: Seen = _unseen
) -> Checked:
    """Check a policy against its database; with `record`, record the facts that hold.

    With `refresh` a new data version starts just before that. Recorded facts count for proofs until
    the database files change or a new data version starts. Raises `PolicyError`, `Unreachable` or
    `LedgerError`.
    """
    draft = load(path)
    with closing(opened(draft)) as engine:
        policy, schema, raising = bound_for_check(draft, engine)
        findings, facts = check(policy, draft.lines, engine.rows, seen)
        findings += raising + text_findings(draft, counts_of_texts(draft, engine.rows))
        findings += public_findings(draft, policy, schema, engine.rows)
        findings += what_roles_grant(draft, replace(policy, facts=policy.facts | facts), engine)
    findings = (
        *findings,
        *nothing_withheld(policy, schema, draft.lines),
        *policy_reminders(draft),
    )
    unused = draft.database.prepared is not None and policy.store is None
    confirmed, identity = of_stored_rows(facts, policy), vouched_for(policy)
    new = confirmed - policy.facts
    if not record and not draft.ledger.is_begun:
        reviews = reviewed(findings, draft.accepted, FIRST_VERSION)
        return Checked(reviews, facts_lapsed=False, store_unused=unused, unrecorded=new)
    with closing(open_ledger(draft.ledger)) as ledger:
        if refresh and record:
            ledger.refresh()
        if record:
            ledger.record_facts(confirmed, identity)
        reviews = reviewed(findings, draft.accepted, ledger.data_version())
        lapsed, recorded = ledger.facts_lapsed(identity), ledger.facts(identity)
        return Checked(reviews, lapsed, unused, new - recorded)
