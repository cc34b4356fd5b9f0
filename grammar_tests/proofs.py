"""What the compiler says is proved, counted on the engine's data.

It is listened to while it compiles: the rows, keys, row numbers and columns that each private
relation claims of a unit, the keys and frequencies of public relations, the groups of blocks.
`disproved` counts every claim; one that a count contradicts was a wrong proof, whatever noise would
have hidden of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from dpsql.compiler.calibrate.calibrate import calibrate
from dpsql.compiler.calibrate.contributions import contributions_of
from dpsql.compiler.infer.infer import infer
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Bounded, BoundedBlock, PrivatePlan
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.joins import join_public
from dpsql.compiler.track.per_unit import BY_ORDER, BY_POSITION
from dpsql.compiler.track.track import _Tracker
from dpsql.compiler.track.uniqueness import Key, Keys
from dpsql.compiler.track.units import Before, Copied, Private, attach_unit
from dpsql.dialects.duckdb.relation_sql import statement
from dpsql.model.algebra import Aggregate, Filter, Join, Relation, Scan, Window
from dpsql.model.errors import Refused
from dpsql.model.tree import AggregateCall, Expression, Ref, Star, WindowCall, identifier
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import relations
from dpsql.preparation.prepare import prepare
from grammar_tests.laws import BUDGET, PlainEngine, exact_blocks, parsed

BEYOND = 15_000
"""Where the ids of columns begin that only the count needs."""

COLUMN = re.compile(r"\b([ct])(\d+)\b")
"""Names of columns and tables in what we print: equal claims differ in their numbers alone."""


@dataclass(frozen=True, slots=True)
class Frequency:
    """That at most `most` rows of a public relation agree on these columns."""

    relation: Relation
    columns: tuple[Ref, ...]
    most: int


@dataclass(slots=True)
class Claims:
    """What the compiler has claimed of the rows of one statement."""

    privates: list[Private] = field(default_factory=list)
    keys: list[tuple[Relation, Key]] = field(default_factory=list)
    frequencies: list[Frequency] = field(default_factory=list)
    blocks: list[BoundedBlock] = field(default_factory=list)
    prepared: Prepared | None = None


@contextmanager
def recorded() -> Iterator[Claims]:
    """The claims of what is compiled meanwhile."""
    claims = Claims()
    tracked = _Tracker.track

    def tracking(tracker: Any, relation: Relation) -> Any:
        found = tracked(tracker, relation)
        if isinstance(found, Private):
            claims.privates.append(found)
        return found

    def joining(
        join: Join,
        private: Private,
        public: Relation,
        keys: Keys,
        frequency: Callable[[tuple[Ref, ...]], int],
    ) -> Private:
        def measured(columns: tuple[Ref, ...]) -> int:
            claims.frequencies.append(Frequency(public, columns, frequency(columns)))
            return claims.frequencies[-1].most

        claims.keys += [(public, key) for key in keys]
        return join_public(join, private, public, keys, measured)

    def inferring(*arguments: Any) -> Bounded:
        bounded = infer(*arguments)
        claims.blocks += bounded.blocks
        return bounded

    with (
        patch.object(_Tracker, "track", tracking),
        patch("dpsql.compiler.track.track.join_public", joining),
        patch("dpsql.preparation.prepare.infer", inferring),
    ):
        yield claims


class _EnoughError(Exception):
    """Everything that can be counted has been claimed."""


def claims_of(sql: str, policy: Policy, engine: PlainEngine, dialect: str = "duckdb") -> Claims:
    """The claims about a query; its calibration is left out where nothing runs before the count."""

    def enough(bounded: Bounded, *rest: Any) -> PrivatePlan:
        if not bounded.stages:
            raise _EnoughError
        return calibrate(bounded, *rest)

    public = engine.public
    asked = parsed(sql, dialect), policy, BUDGET, Fraction(1), public, public.evaluate
    with (
        recorded() as claims,
        patch("dpsql.preparation.prepare.calibrate", enough),
        suppress(_EnoughError),
    ):
        claims.prepared = prepare(*asked)
    return claims


class _Beyond(Identities):
    """Ids that no statement has."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(BEYOND)


class Counting:
    """Counts claims on one database, equal ones once; `counted` says how many of each sort."""

    def __init__(self, policy: Policy, engine: PlainEngine) -> None:
        self.policy, self.engine = policy, engine
        self.counted: Counter[str] = Counter()
        self._known: dict[str, bool] = {}

    def disproved(self, claims: Claims) -> list[str]:
        """What the data contradicts, in words."""
        found: list[str] = []
        if claims.prepared is not None and claims.prepared.plan is not None:
            list(exact_blocks(claims.prepared, self.engine))  # its stages are there now
        for private in claims.privates:
            if private.several:
                found += self._of_several(private)
                continue
            attached = attach_unit(private, self.policy, _Beyond())
            found += self._of_units(attached)
            if not isinstance(private.relation, Filter):  # which takes rows away
                found += self._unique(private)
                found += self._whose(attached)
        for relation, key in claims.keys:
            listed = _refs(relation, key.columns)
            found += self._at_most("key", relation, listed, 1, nulls=False)
        for each in claims.frequencies:
            found += self._at_most("frequency", each.relation, each.columns, each.most)
        for bounded in claims.blocks:
            found += self._of_groups(bounded)
            for relation in relations(bounded.block.rows):
                found += self._settled(relation)
        return found

    # --- rows ---

    def _unique(self, rows: Private) -> Iterator[str]:
        for column in _refs(rows.relation, rows.unique):
            yield from self._at_most("unique", rows.relation, (column,), 1, nulls=False)

    def _of_units(self, rows: Private) -> Iterator[str]:
        """Rows per unit, numbers of rows, columns that the unit determines, and whose rows."""
        unit = rows.unit(self.policy)
        if rows.max_rows is not None:
            yield from self._at_most("rows", rows.relation, (unit,), rows.max_rows)
        for key in rows.apart:
            columns = _refs(rows.relation, key.columns)
            yield from self._at_most("apart", rows.relation, (unit, *columns), 1, nulls=key.nulls)
        for copied in rows.copied:
            yield from self._different("copied", rows.relation, unit, copied)
        for before in rows.before:
            yield from self._different("before", rows.relation, unit, before)
        for rank in _refs(rows.relation, rows.ranks):
            parts = rows.ranks[rank.id].rows
            if parts is not None:
                yield from self._at_most("rank", rows.relation, (unit, rank), parts)
        for each in rows.optional:
            pair = [c for n in (each.column, each.key) for c in _refs(rows.relation, {n})]
            if len(pair) == len((each.column, each.key)):
                sql = self._listed(rows.relation, tuple(pair), "*")
                yield from self._none("optional", f"FROM ({sql}) WHERE c0 <> c1")
        if columns := _refs(rows.relation, rows.determined):
            sql = self._listed(rows.relation, (unit, *columns), "DISTINCT *")
            yield from self._none("determined", f"FROM ({sql}) GROUP BY c0 HAVING COUNT(*) > 1")

    def _different(
        self, sort: str, relation: Relation, unit: Ref, before: Copied | Before
    ) -> Iterator[str]:
        """That a unit has no more different values in columns than it had rows."""
        if before.rows is not None:
            sql = self._listed(relation, (unit, *_refs(relation, before.free)), "*")
            many = f"GROUP BY c0 HAVING COUNT(*) > {before.rows}"
            yield from self._none(sort, f"FROM (SELECT DISTINCT * FROM ({sql})) {many}")

    def _whose(self, rows: Private) -> Iterator[str]:
        """The rows of a unit are those that the declared links connect to it, and to no other."""
        unit = rows.unit(self.policy)
        for anchor in sorted(rows.anchors):
            columns = _refs(rows.relation, {anchor.id})
            if not columns:
                continue
            sql = self._listed(rows.relation, (unit, *columns), "DISTINCT c0, c1")
            own = _of_scan(rows.relation, anchor.root) == anchor.table
            same = "IS NOT DISTINCT FROM" if own else "="
            owners = f"FROM ({self.owners(anchor.table)}) AS o WHERE o.k {same} c1 AND o.u"
            wrong = f"c0 IS NULL OR NOT EXISTS (SELECT 1 {owners} = c0)"
            if not own:  # several rows may have one key, but what is below it has one unit
                wrong += f" OR EXISTS (SELECT 1 {owners} <> c0)"
            yield from self._none("whose", f"FROM ({sql}) WHERE {wrong}")

    def _of_several(self, rows: Private) -> Iterator[str]:
        """Each row names somebody, by no key that several share; nobody is named by more rows."""
        scans = (part for part in relations(rows.relation) if isinstance(part, Scan))
        scan = next(s for s in scans if rows.several & {f.id for f in s.fields})
        table = self.policy.table(scan.table)
        assert table is not None
        by_name = {f.name.lower(): f.id for f in scan.fields}
        ids = [by_name[link.column.lower()] for link in table.several]
        columns = [column for n in ids for column in _refs(rows.relation, {n})]
        if len(columns) < len(ids):
            return  # a subquery that leaves out whom its rows name
        listed = self._listed(rows.relation, tuple(columns), "ROW_NUMBER() OVER () AS n, *")
        named = " UNION ALL ".join(
            f"SELECT n, {place} AS link, o.u FROM r JOIN ({self.owners(link.table)}) AS o"
            f" ON o.k = r.c{place}"
            for place, link in enumerate(table.several)
        )
        start = f"WITH r AS MATERIALIZED ({listed}), o AS ({named}) SELECT"
        nobody = f"{start} n FROM r WHERE n NOT IN (SELECT n FROM o)"
        shared = f"{start} n FROM o GROUP BY n, link HAVING COUNT(DISTINCT u) > 1"
        yield from self._none("whose", f"FROM ({nobody})")
        yield from self._none("whose", f"FROM ({shared})")
        if rows.max_rows is not None:
            many = f"{start} u FROM o GROUP BY u HAVING COUNT(DISTINCT n) > {rows.max_rows}"
            yield from self._none("named", f"FROM ({many})")

    def owners(self, name: str) -> str:
        """SELECT of the keys of a private table's rows and whose they are, by its links alone."""
        table = self.policy.table(name)
        if table is None:  # the units are values of columns
            held = (
                (identifier(t.link.column), t.name)
                for t in self.policy.tables
                if t.link is not None and t.link.table == name
            )
            return " UNION ".join(
                f"SELECT {c} AS k, {c} AS u FROM {identifier(t)}" for c, t in held
            )
        key = identifier(table.key[0])
        if name == self.policy.unit.table:
            return f"SELECT {key} AS k, {key} AS u FROM {identifier(name)}"
        assert table.link is not None
        above = self.owners(table.link.table)
        here = f"SELECT t.{key} AS k, o.u FROM {identifier(name)} AS t"
        return f"{here} JOIN ({above}) AS o ON o.k = t.{identifier(table.link.column)}"

    # --- groups and orders ---

    def _of_groups(self, bounded: BoundedBlock) -> Iterator[str]:
        """The groups of one unit that are not left out, where SQL does not enforce them."""
        block = bounded.block
        try:
            contributions = contributions_of(bounded)
        except Refused:
            return
        keys = tuple(key.expression for key in block.keys)
        if block.alone:
            sql = self._listed(block.rows, (block.unit, *keys), "*")
            places = ", ".join(f"c{n}" for n in range(1 + len(keys)))
            yield from self._none("alone", f"FROM ({sql}) GROUP BY {places} HAVING COUNT(*) > 1")
        if contributions.enforce or not keys:
            return
        self.counted["groups"] += 1
        sql = self._listed(block.rows, (block.unit, *keys), "DISTINCT *")
        known = None if bounded.domain is None else set(bounded.domain)
        touched = Counter(
            unit for unit, *key in self.engine.rows(sql) if known is None or tuple(key) in known
        )
        most = max(touched.values(), default=0)
        claimed = contributions.groups.value
        if claimed is not None and most > claimed:
            yield f"groups: a unit has {most}, {claimed} are claimed"

    def _settled(self, relation: Relation) -> Iterator[str]:
        """That rows which an order does not tell apart are the same in all that is read of them."""
        match relation:
            case Window(input=source, items=items):
                calls = [item.call for item in items if _by_position(item.call)]
                read = _refs(source, {f.id for f in source.fields})
                for call in calls:
                    yield from self._ties(source, call.partition_by, call, read)
            case Aggregate(input=source, keys=keys, measures=measures):
                groups = tuple(key.expression for key in keys)
                for measure in measures:
                    if measure.call.function in BY_ORDER:
                        yield from self._ties(source, groups, measure.call, measure.call.args)

    def _ties(
        self,
        source: Relation,
        groups: tuple[Expression, ...],
        call: WindowCall | AggregateCall,
        read: Iterable[Expression],
    ) -> Iterator[str]:
        order = tuple(key.expression for key in call.order_by)
        if isinstance(call, AggregateCall) and call.filter is not None:
            groups = (*groups, call.filter)
        outputs = (*groups, *order, *(e for e in read if not isinstance(e, Star)))
        told_apart = len(groups) + len(order)
        sql = self._listed(source, outputs, "DISTINCT *")
        places = ", ".join(f"c{n}" for n in range(told_apart)) or "()"
        yield from self._none("order", f"FROM ({sql}) GROUP BY {places} HAVING COUNT(*) > 1")

    # --- counts ---

    def _at_most(
        self,
        sort: str,
        relation: Relation,
        columns: tuple[Ref, ...],
        most: int,
        *,
        nulls: bool = True,
    ) -> Iterator[str]:
        """That at most so many rows agree on these columns; NULLs agree only if `nulls` says so."""
        sql = self._listed(relation, columns, "*")
        names = [f"c{n}" for n in range(len(columns))]
        where = "" if nulls else f" WHERE {' AND '.join(f'{n} IS NOT NULL' for n in names)}"
        if not names:
            yield from self._none(sort, f"FROM ({sql}) HAVING COUNT(*) > {most}")
            return
        group = f"GROUP BY {', '.join(names)} HAVING COUNT(*) > {most}"
        yield from self._none(sort, f"FROM ({sql}){where} {group}")

    @staticmethod
    def _listed(relation: Relation, outputs: tuple[Expression, ...], what: str) -> str:
        return f"SELECT {what} FROM ({statement(relation, outputs)})"

    def _none(self, sort: str, rows: str) -> Iterator[str]:
        """That these rows, written from FROM on, do not exist."""
        text, staged = f"SELECT 1 {rows} LIMIT 1", "stage_" in rows
        text = text if staged else _alike(text)
        if staged or text not in self._known:
            self.counted[sort] += 1
            self._known[text] = bool(self.engine.rows(text))
        if self._known[text]:
            yield f"{sort}: {text}"


def _of_scan(relation: Relation, root: int) -> str | None:
    """The table whose scan gave a column its identity."""
    scans = (part for part in relations(relation) if isinstance(part, Scan))
    return next((s.table for s in scans if any(f.id == root for f in s.fields)), None)


def _alike(sql: str) -> str:
    """The text with its columns and tables numbered as they come."""
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"{found[1]}{len(numbers)}")

    return COLUMN.sub(number, sql)


def _by_position(call: WindowCall) -> bool:
    by_rows = call.frame is not None and call.frame.unit == "ROWS"
    return call.function in BY_POSITION or by_rows


def _refs(relation: Relation, ids: Iterable[int]) -> tuple[Ref, ...]:
    """Those of these columns that the relation has."""
    wanted = set(ids)
    return tuple(Ref(f.id, f.type) for f in relation.fields if f.id in wanted)
