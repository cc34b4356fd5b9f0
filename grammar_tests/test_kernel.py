"""What the kernel proves: each rule with a near miss, counted on databases from the empty one on.

Relations are those of the text: the first column is said to be the unit. Whatever is proved of
them is counted on random databases with NULL links, links that lead nowhere, and rows of nobody,
and has to stay as it is for all other units when one is gone. A rule that is broken is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpsql.compiler.kernel import kernel as rules
from dpsql.compiler.kernel import known
from dpsql.compiler.kernel.kernel import Kernel
from dpsql.compiler.kernel.known import Proof, RowBound, Rows
from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.model.algebra import Aggregate, Relation, Scan
from dpsql.model.tree import Ref, StoredAs
from dpsql.model.vocabulary import (
    Fact,
    FactKind,
    Policy,
    TablePolicy,
)
from dpsql.model.walk import relations
from grammar_tests.kernel_worlds import (
    BOUNDS,
    FACTS,
    MAYBE_NULL,
    NO_KEYS,
    SEEDS,
    UNITS,
    WHOLE,
    counted,
    fact,
    policy,
)
from grammar_tests.laws import parsed

# --- what is proved ---


def relation_of(sql: str, of: Policy) -> Relation:
    return resolve(parsed(sql, "duckdb"), of, Identities()).relation


def proof_of(sql: str, facts: frozenset[Fact]) -> tuple[Relation, Proof]:
    of = policy(facts)
    relation = relation_of(sql, of)
    kernel = Kernel(of, frequency=measured)
    return relation, kernel.proof(relation, relation.fields[0].id)


def measured(relation: Relation, columns: tuple[Ref, ...]) -> int:
    """How many public rows agree on columns: they are the same in every database."""
    sql = DUCKDB.query(relation, columns)
    found = Counter(counted(sql, FACTS, 0))
    return max(found.values(), default=1) if columns else found.total()


def disproved(sql: str, facts: frozenset[Fact]) -> bool:
    """Whether what is proved of a relation is wrong in one of the databases."""
    relation, proof = proof_of(sql, facts)
    if not proof.is_local:
        return False
    most, (unit, *others) = proof.most_rows(), (f.ref for f in relation.fields)
    values = [proof.most_values({other.id}) for other in others]
    text = DUCKDB.query(relation, (unit, *others))
    for seed in range(SEEDS):
        rows = counted(text, facts, seed)
        for gone in UNITS:
            own = [row for row in rows if row[0] == gone]
            different = [len({row[n + 1] for row in own}) for n in range(len(others))]
            bounds = zip([len(own), *different], [most, *values], strict=True)
            if any(bound is not None and count > bound for count, bound in bounds):
                return True
            rest = counted(text, facts, seed, gone)
            if Counter(row for row in rows if row[0] != gone) != Counter(rest):
                return True
    return False


RANK = "ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day, vid)"
RANKED = f"SELECT pid, vid, day, {RANK} AS rn FROM visits"
VISITED = "visits v JOIN labs l ON l.vid = v.vid"
BESIDE = "people p JOIN visits v ON v.pid = p.pid"
FULL = FACTS
ALL: dict[str, tuple[str, frozenset[Fact], int | None]] = {
    "a key that is never NULL": ("SELECT pid AS u, n FROM people", FULL, 1),
    "a key that may be NULL": ("SELECT pid AS u, n FROM people", MAYBE_NULL, None),
    "a key that may be NULL but is not": (
        "SELECT pid AS u, n FROM people WHERE pid IS NOT NULL",
        MAYBE_NULL,
        1,
    ),
    "an OR says nothing": (
        "SELECT pid AS u, n FROM people WHERE pid IS NOT NULL OR n = 1",
        MAYBE_NULL,
        None,
    ),
    "no key": ("SELECT pid AS u, n FROM people", NO_KEYS, None),
    "rows of a fact": ("SELECT pid AS u, day FROM visits", FULL, 2),
    "one row of a fact": ("SELECT pid AS u, colour FROM cards", FULL, 1),
    "no fact": ("SELECT v.pid AS u, x FROM visits v JOIN labs l ON l.vid = v.vid", FULL, None),
    "a filter by a constant": ("SELECT pid AS u, day FROM visits WHERE vid = 1", FULL, 1),
    "a filter by a list": ("SELECT pid AS u, day FROM visits WHERE vid IN (1, 2)", FULL, 2),
    "a rank": (f"SELECT pid AS u, day FROM ({RANKED}) WHERE rn <= 1", NO_KEYS, None),
    "a rank without ties": (f"SELECT pid AS u, day FROM ({RANKED}) WHERE rn = 1", FULL, 1),
    "a rank below": (f"SELECT pid AS u, day FROM ({RANKED}) WHERE rn < 2", FULL, 1),
    "a rank that is no bound": (f"SELECT pid AS u, day FROM ({RANKED}) WHERE rn >= 1", FULL, 2),
    "a rank before rows are repeated": (
        f"SELECT r.pid AS u, zone FROM ({RANKED}) r CROSS JOIN zones WHERE rn = 1",
        FULL,
        3,
    ),
    "a rank of all visits": (
        (
            "SELECT pid AS u, x FROM (SELECT v.pid, x, ROW_NUMBER() OVER (PARTITION BY v.pid, v.vid"
            f" ORDER BY lid) AS rn FROM {VISITED}) WHERE rn = 1"
        ),
        FULL,
        2,
    ),
    "a rank by what the unit does not determine": (
        (
            "SELECT pid AS u, day FROM (SELECT pid, day, ROW_NUMBER() OVER (PARTITION BY pid, day"
            " ORDER BY vid) AS rn FROM visits) WHERE rn = 1"
        ),
        FULL - {BOUNDS[0]},
        None,
    ),
    "a rank over several people": (
        (
            "SELECT pid AS u, day FROM (SELECT pid, day, ROW_NUMBER() OVER (PARTITION BY day"
            " ORDER BY vid) AS rn FROM visits) WHERE rn = 1"
        ),
        FULL,
        None,
    ),
    "a join by the unit": (f"SELECT p.pid AS u, day, n FROM {BESIDE}", FULL, 2),
    "a join by something else": (
        "SELECT p.pid AS u, day FROM people p JOIN visits v ON v.day = p.n",
        FULL,
        None,
    ),
    "a join by the unit, said above": (
        "SELECT p.pid AS u, day FROM people p CROSS JOIN visits v WHERE v.pid = p.pid",
        FULL,
        2,
    ),
    "a join with each other": (
        "SELECT a.pid AS u, b.day FROM visits a JOIN visits b ON a.pid = b.pid",
        FULL,
        4,
    ),
    "a join of rows of nobody": (
        "SELECT a.pid AS u, b.day FROM visits a JOIN visits b ON a.hadm = b.hadm",
        FACTS | {fact(FactKind.ONE_UNIT, "visits.(hadm)")},
        None,
    ),
    "a join by what is of one unit": (
        "SELECT a.pid AS u, b.day FROM visits a JOIN visits b ON a.hadm = b.hadm",
        WHOLE,
        4,
    ),
    "two rows below one": (
        (
            "SELECT v.pid AS u, b.x FROM labs a JOIN labs b ON a.vid = b.vid JOIN visits v"
            " ON v.vid = a.vid"
        ),
        FULL,
        None,
    ),
    "two rows below one without a unit": (
        "SELECT a.vid AS u, b.x FROM labs a JOIN labs b ON a.vid = b.vid",
        FULL,
        None,
    ),
    "a row below a key that is shared": (f"SELECT v.pid AS u, x FROM {VISITED}", NO_KEYS, None),
    "a public key": (
        "SELECT p.pid AS u, area FROM people p JOIN areas a ON a.city = p.city",
        FULL,
        1,
    ),
    "public rows that repeat": (
        "SELECT p.pid AS u, zone FROM people p JOIN zones z ON z.city = p.city",
        FULL,
        2,
    ),
    "all public rows": ("SELECT p.pid AS u, zone FROM people p CROSS JOIN zones", FULL, 3),
    "a LEFT JOIN of one row": (
        "SELECT p.pid AS u, colour FROM people p LEFT JOIN cards c ON c.pid = p.pid",
        FULL,
        1,
    ),
    "a LEFT JOIN of several rows": (
        "SELECT p.pid AS u, day FROM people p LEFT JOIN visits v ON v.pid = p.pid",
        FULL,
        2,
    ),
    "a LEFT JOIN by something else": (
        "SELECT p.pid AS u, day FROM people p LEFT JOIN visits v ON v.day = p.n",
        FULL,
        None,
    ),
    "what an outer join equated, met again": (
        (
            "SELECT p.pid AS u, day FROM people p LEFT JOIN cards c ON c.pid = p.pid"
            " LEFT JOIN visits v ON v.pid = c.pid"
        ),
        FULL,
        2,
    ),
    "the unit of an outer side": (
        "SELECT c.pid AS u, n FROM people p LEFT JOIN cards c ON c.pid = p.pid",
        FULL,
        None,
    ),
    "a key of an outer side": (
        "SELECT v.pid AS u, l.lid FROM visits v LEFT JOIN labs l ON l.vid = v.vid",
        FULL,
        None,
    ),
    "one row for each key": ("SELECT pid AS u, COUNT(*) AS n FROM visits GROUP BY pid", FULL, 1),
    "one row for each key and day": (
        "SELECT pid AS u, day, COUNT(*) FROM visits GROUP BY pid, day",
        FULL,
        2,
    ),
    "a group of several people": (
        "SELECT MIN(pid) AS u, day, COUNT(*) FROM visits GROUP BY day",
        FULL,
        None,
    ),
    "a group of a key below": (
        (
            "SELECT v.pid AS u, n FROM (SELECT vid, COUNT(*) AS n FROM labs GROUP BY vid) g"
            " JOIN visits v ON v.vid = g.vid"
        ),
        FULL,
        2,
    ),
    "different rows": ("SELECT DISTINCT pid AS u, day FROM visits", FULL, 2),
    "rows that exist": (
        (
            "SELECT pid AS u, n FROM people p WHERE EXISTS (SELECT 1 FROM visits v"
            " WHERE v.pid = p.pid AND v.day = 1)"
        ),
        FULL,
        1,
    ),
    "rows of others that exist": (
        "SELECT pid AS u FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.pid < p.pid)",
        FULL,
        None,
    ),
    "a member of others' rows": (
        "SELECT pid AS u, n FROM people p WHERE n IN (SELECT day FROM visits v)",
        FULL,
        None,
    ),
    "a public member": (
        "SELECT pid AS u, n FROM people p WHERE city IN (SELECT city FROM zones)",
        FULL,
        1,
    ),
    "rows of both": (
        "SELECT pid AS u, day FROM visits UNION ALL SELECT pid, colour FROM cards",
        FULL,
        3,
    ),
    "rows of both, in other places": (
        "SELECT pid AS u, day FROM visits UNION ALL SELECT colour, pid FROM cards",
        FULL,
        None,
    ),
    "rows of one that the other has not": (
        "SELECT pid AS u, day FROM visits EXCEPT SELECT pid, colour FROM cards",
        FULL,
        None,
    ),
    "values that the other has not": (
        "SELECT u, day FROM (SELECT day AS u, pid AS day FROM visits)",
        FULL,
        None,
    ),
    "a window of the unit": (
        "SELECT pid AS u, day, COUNT(*) OVER (PARTITION BY pid) AS c FROM visits",
        FULL,
        2,
    ),
    "a window of all": (
        "SELECT pid AS u, day, COUNT(*) OVER () AS c FROM visits",
        FULL,
        None,
    ),
    "a window of a key": (
        "SELECT pid AS u, day, COUNT(*) OVER (PARTITION BY vid) AS c FROM visits",
        FULL,
        2,
    ),
    "a window of a key that may be NULL": (
        "SELECT pid AS u, day, COUNT(*) OVER (PARTITION BY vid) AS c FROM visits",
        MAYBE_NULL,
        None,
    ),
    "what is counted of several people": (
        (
            "SELECT v.pid AS u, c FROM (SELECT day, COUNT(*) AS c FROM visits GROUP BY day) g"
            " JOIN visits v ON v.day = g.day"
        ),
        FULL,
        None,
    ),
    "a LEFT JOIN keeps rows that meet no public row": (
        (
            "SELECT p.pid AS u, z.zone FROM people p"
            " LEFT JOIN (SELECT zone FROM zones WHERE city = 'c') z ON p.n = p.n"
        ),
        FULL,
        1,
    ),
    "one value of an expression": (
        "SELECT p.pid AS u, day, n + 1 AS m FROM people p JOIN visits v ON v.pid = p.pid",
        FULL,
        2,
    ),
}
"""What is proved of a unit's rows; None where nothing is."""


@pytest.mark.parametrize("name", ALL)
def test_what_is_proved_is_what_the_rules_say(name: str) -> None:
    sql, facts, most = ALL[name]
    assert proof_of(sql, facts)[1].most_rows() == most


@pytest.mark.parametrize("name", ALL)
def test_what_is_proved_holds_from_the_empty_database_on(name: str) -> None:
    sql, facts, _most = ALL[name]
    assert not disproved(sql, facts)


def test_a_column_has_one_value_where_the_unit_determines_it() -> None:
    sql = "SELECT p.pid AS u, n + 1 AS m, day FROM people p JOIN visits v ON v.pid = p.pid"
    relation, proof = proof_of(sql, FULL)
    found = [proof.most_values({f.id}) for f in relation.fields]
    assert found == [1, 1, 2]
    assert proof.most_rows({relation.fields[2].id}) == 2  # two visits of one day


def test_nothing_recorded_of_a_view_is_believed() -> None:
    of = policy(FULL)
    views = replace(of, tables=tuple(replace(t, view=True) for t in of.tables))
    relation = relation_of("SELECT pid AS u, n FROM people", views)
    assert Kernel(views).proof(relation, relation.fields[0].id).most_rows() is None


def test_facts_say_nothing_of_values_that_are_read_otherwise() -> None:
    relation = relation_of("SELECT pid AS u, n FROM people", policy(FULL))
    (scan,) = [part for part in relations(relation) if isinstance(part, Scan)]
    read = replace(scan, readings=(("pid", StoredAs("otherwise")),))
    assert Kernel(policy(FULL)).proof(scan, scan.fields[0].id).most_rows() == 1
    assert Kernel(policy(FULL)).proof(read, scan.fields[0].id).most_rows() is None


# --- wrong twins ---

HAS, BESIDE_OTHERS, RANKED_ROWS = Kernel._has, Rows.beside, Rows.ranked
AGGREGATED, JOINED, WINDOWED = (
    Kernel._aggregate,
    Kernel._join,
    Kernel._window,
)


def _rank_of_one(rows: Rows, parts: Any) -> Rows:
    """A rank that counts rows as if none were repeated since."""
    found = RANKED_ROWS(rows, parts)
    new = [m for m in found.most if m not in rows.most]
    return replace(found, most=(*rows.most, *(RowBound(m.columns, 1) for m in new)))


def _believing(kind: FactKind) -> object:
    """Facts of a kind, recorded or not."""
    return lambda self, k, of, about="": k is kind or HAS(self, k, of, about)


def _one_unit(self: Kernel, columns: tuple[str, ...], of: TablePolicy) -> bool:
    return HAS(self, FactKind.ONE_UNIT, of, of.agreeing(columns))


def _public_groups(self: Kernel, relation: Aggregate) -> Rows:
    return replace(AGGREGATED(self, relation), owners=known.NONE, local=True)


def _local(method: Callable[..., Rows]) -> object:
    """A rule that takes whatever it reads to be of one unit."""

    def changed(self: Kernel, relation: Relation) -> Rows:
        rows = method(self, relation)
        units = tuple((a, min(rows.owners)) for a in sorted(rows.owners))
        return replace(rows, local=True, equal=(*rows.equal, *units))

    return changed


def _least_of_both(*sides: Any) -> tuple[RowBound, ...]:
    return (*sides[0], *sides[1])


TWINS: dict[str, tuple[object, str, object, str]] = {
    "rows that repeat count once": (
        Rows,
        "ranked",
        _rank_of_one,
        "a rank before rows are repeated",
    ),
    "keys are never NULL": (
        Kernel,
        "_has",
        _believing(FactKind.NOT_NULL_KEY),
        "a window of a key that may be NULL",
    ),
    "keys are unique": (
        Kernel,
        "_has",
        _believing(FactKind.UNIQUE_KEY),
        "a row below a key that is shared",
    ),
    "rows that agree have a unit": (
        Kernel,
        "_is_of_one_unit",
        _one_unit,
        "a join of rows of nobody",
    ),
    "groups are public": (
        Kernel,
        "_aggregate",
        _public_groups,
        "what is counted of several people",
    ),
    "windows are of one unit": (Kernel, "_window", _local(WINDOWED), "a window of all"),
    "rows that meet are of one unit": (Kernel, "_join", _local(JOINED), "a join by something else"),
    "members are of one unit": (
        Kernel,
        "_match",
        _local(Kernel._match),
        "rows of others that exist",
    ),
    "sides have their unit anywhere": (
        rules,
        "_units_at",
        lambda *_: frozenset({("people", (0,))}),
        "rows of both, in other places",
    ),
    "public rows do not repeat": (rules, "products", _least_of_both, "public rows that repeat"),
    "any outer row is there": (
        known.Closure,
        "is_present",
        lambda *_: True,
        "a window of a key that may be NULL",
    ),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_rule_is_found(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken, case = TWINS[twin]
    assert not disproved(*ALL[case][:2])
    monkeypatch.setattr(where, name, broken)
    assert disproved(*ALL[case][:2])
