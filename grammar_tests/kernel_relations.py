"""Relations of which `kernel_rules.txt` has what the kernel states, over tables of a ward."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Join,
    Limit,
    Measure,
    OneRow,
    Project,
    Relation,
    Released,
    Scan,
    Single,
    Staged,
    Union,
    Values,
)
from dpsql.model.tree import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    TIMESTAMPTZ,
    VARCHAR,
    AggregateCall,
    Call,
    JoinKind,
    Literal,
    SqlType,
    StoredAs,
)
from dpsql.model.vocabulary import (
    ColumnPolicy,
    Fact,
    FactKind,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
    Voucher,
)
from dpsql.model.walk import relations
from grammar_tests.bound import shop
from grammar_tests.laws import parsed

KINDS = {"city": VARCHAR, "zone": VARCHAR, "w": DOUBLE, "at": TIMESTAMPTZ}
COLUMNS = {
    "people": "pid city w at",
    "visits": "vid pid day hadm",
    "labs": "lid vid x w",
    "cards": "pid colour",
    "profiles": "pid n",
    "notes": "nid pid n",
    "stays": "hosp no pid n",
    "beds": "bed no hosp n",
    "transfers": "tid payer payee n",
    "odd": "w pid n",
    "strays": "city n",
    "lost": "k n",
    "areas": "city n",
    "zones": "city zone",
    "doses": "did pid vid n",
}
LINKS = {
    "visits": Link("pid", "people", "pid"),
    "labs": Link("vid", "visits", "vid"),
    "cards": Link("pid", "people", "pid"),
    "profiles": Link("pid", "people", "pid"),
    "notes": Link("pid", "profiles", "pid"),
    "stays": Link("pid", "people", "pid"),
    "beds": Link("no", "stays", "no", (("hosp", "hosp"),)),
    "odd": Link("pid", "people", "pid"),
    "strays": Link("city", "people", "city"),
    "doses": Link("pid", "people", "pid"),
}
BESIDE = {"doses": (Link("vid", "visits", "vid"),)}
KEYS = {
    "people": ("pid",),
    "visits": ("vid",),
    "labs": ("lid",),
    "profiles": ("pid",),
    "notes": ("nid",),
    "stays": ("hosp", "no"),
    "beds": ("bed",),
    "transfers": ("tid",),
    "odd": ("w",),
    "lost": ("k",),
    "areas": ("city",),
    "doses": ("did",),
}
MOST = {"visits": 2, "cards": 1, "transfers": 3, "notes": 1, "stays": 2}
SEVERAL = (Link("payer", "people", "pid"), Link("payee", "people", "pid"))
DETERMINING = {"visits": (("hadm",), ("hadm", "day")), "labs": (("x",),), "notes": (("n",),)}


def table(name: str) -> TablePolicy:
    return TablePolicy(
        name,
        private=name not in ("areas", "zones"),
        columns=tuple(ColumnPolicy(c, KINDS.get(c, INTEGER)) for c in COLUMNS[name].split()),
        key=KEYS.get(name, ()),
        link=LINKS.get(name),
        max_rows_per_unit=MOST.get(name),
        determining=DETERMINING.get(name, ()),
        several=SEVERAL if name == "transfers" else (),
        same_unit=BESIDE.get(name, ()),
    )


def about(kind: FactKind) -> list[str]:
    """What facts of a kind may be about."""
    if kind is FactKind.SAME_UNIT:
        return [table(t).agreeing(link.columns) for t, listed in BESIDE.items() for link in listed]
    if kind is not FactKind.ONE_UNIT:
        return list(COLUMNS)
    return [table(t).agreeing(columns) for t, listed in DETERMINING.items() for columns in listed]


ALL = frozenset(Fact(kind, t, Voucher.CHECK) for kind in FactKind for t in about(kind))


def policy(facts: frozenset[Fact] = ALL) -> Policy:
    tables, unit = tuple(map(table, COLUMNS)), PrivacyUnit("people", "pid")
    return replace(shop()[0], tables=tables, unit=unit, facts=facts, store=None)


def lacking(kind: FactKind, *tables: str) -> Policy:
    return policy(
        frozenset(f for f in ALL if f.kind is not kind or f.table not in (tables or [f.table]))
    )


def relation_of(sql: str, of: Policy) -> Relation:
    return resolve(parsed(sql, "duckdb"), of, Identities()).relation


def scan_of(name: str, of: Policy) -> Scan:
    relation = relation_of(f"SELECT * FROM {name}", of)
    (scan,) = (part for part in relations(relation) if isinstance(part, Scan))
    return scan


# --- relations of texts ---

NO_KEYS = lacking(FactKind.UNIQUE_KEY)
MAY_BE_NULL = lacking(FactKind.NOT_NULL_KEY)
TEXTS = {
    title: " ".join(lines.split()).removesuffix(";")
    for title, lines in re.findall(
        r"(?m)^-- (.*)\n((?:(?!--).+\n)+)",
        (Path(__file__).parent / "kernel_rules.sql").read_text(encoding="utf-8"),
    )
}


# --- relations that no text of an analyst makes ---


def fresh(old: Field, by: int) -> Field:
    return replace(old, id=old.id + by)


def grouped(
    relation: Relation, keys: Sequence[Field], ends: Sequence[Field], **of: Any
) -> Aggregate:
    """Groups with the least and greatest unit; `of` changes what is called."""
    names, number = of.pop("names", ("min", "max")), max(f.id for f in relation.fields)
    calls = (
        AggregateCall(n, (f.ref,), type=f.type, **of) for n, f in zip(names, ends, strict=True)
    )
    measures = tuple(
        Measure(Field(number + 900 + n, call.function, call.type), call)
        for n, call in enumerate(calls)
    )
    return Aggregate(relation, tuple(Item(fresh(f, number + 500), f.ref) for f in keys), measures)


def agreeing(relation: Aggregate) -> Filter:
    """The groups whose least and greatest unit are the same."""
    first, last = relation.fields[-2:]
    return Filter(relation, first.ref.eq(last.ref))


def scanned(name: str, by: int = 0) -> Scan:
    scan = scan_of(name, policy())
    return replace(scan, fields=tuple(fresh(f, by) for f in scan.fields))


def joined(scan: Scan, right: Relation, *pairs: tuple[int, int], **of: Any) -> Join:
    """The scan beside a relation, where the columns at these places are equal."""
    parts = [scan.fields[a].ref.eq(right.fields[b].ref) for a, b in pairs]
    condition = parts[0] if len(parts) == 1 else Call("and", tuple(parts), BOOLEAN)
    return Join(scan, right, of.get("kind", JoinKind.INNER), condition)


def of_stays(**of: Any) -> Aggregate:
    stays = scanned("stays")
    return grouped(stays, stays.fields[:2], (stays.fields[2],) * 2, **of)


def of_visits() -> Aggregate:
    visits = scanned("visits")
    return grouped(visits, visits.fields[:1], (visits.fields[1],) * 2)


def of_beds(
    *pairs: tuple[int, int], keys: int = 1, right: Relation | None = None, **of: Any
) -> Aggregate:
    beds = scanned("beds", 100)
    join = joined(beds, of_stays() if right is None else right, *pairs, **of)
    return grouped(join, beds.fields[:keys], join.fields[-2:])


def shared_keys() -> Iterator[tuple[str, Relation]]:
    """Tables whose keys several rows share, in whole and in part."""
    stays, labs = scanned("stays"), scanned("labs", 100)
    first, unit = stays.fields[:2], stays.fields[2]
    whole, (least, greatest) = of_stays(), of_stays().fields[-2:]
    yield "stays", agreeing(whole)
    yield "visits", agreeing(of_visits())
    yield "stays by half of the key", agreeing(grouped(stays, stays.fields[:1], (unit, unit)))
    yield "stays by the key in another order", agreeing(grouped(stays, first[::-1], (unit, unit)))
    yield "stays of other ends", agreeing(grouped(stays, first, (unit, stays.fields[3])))
    yield (
        "stays whose ends are other columns",
        agreeing(grouped(stays, first, (stays.fields[3],) * 2)),
    )
    yield (
        "stays, greatest first",
        agreeing(grouped(stays, first, (unit, unit), names=("max", "min"))),
    )
    yield "stays, counted", agreeing(grouped(stays, first, (unit, unit), names=("min", "count")))
    yield "stays, different ends", agreeing(of_stays(distinct=True))
    yield "stays whose ends differ", Filter(whole, Call("ne", (least.ref, greatest.ref), BOOLEAN))
    yield (
        "stays whose ends are compared with a key",
        Filter(whole, least.ref.eq(whole.fields[0].ref)),
    )
    yield "stays whose ends are turned", Filter(whole, greatest.ref.eq(least.ref))
    yield (
        "stays of some",
        agreeing(grouped(Filter(stays, unit.ref.eq(unit.ref)), first, (unit, unit))),
    )
    yield "one stay", Filter(stays, unit.ref.eq(unit.ref))
    yield (
        "computed keys",
        agreeing(
            replace(
                whole, keys=(whole.keys[0], replace(whole.keys[1], expression=Literal(1, INTEGER)))
            )
        ),
    )
    three = (*whole.measures, replace(whole.measures[0], field=fresh(least, 50)))
    yield "three measures", Filter(replace(whole, measures=three), least.ref.eq(greatest.ref))
    plus = AggregateCall("max", (unit.ref.eq(unit.ref),), type=INTEGER)
    computed = (whole.measures[0], replace(whole.measures[1], call=plus))
    yield (
        "an end of an expression",
        Filter(replace(whole, measures=computed), least.ref.eq(greatest.ref)),
    )
    yield "sets of stays", agreeing(replace(whole, sets=((0,), (1,))))
    yield (
        "people",
        agreeing(grouped(people := scanned("people"), people.fields[:1], people.fields[:1] * 2)),
    )
    yield "labs alone", agreeing(grouped(labs, labs.fields[:1], labs.fields[1:2] * 2))
    yield "odd", agreeing(grouped(odd := scanned("odd"), odd.fields[:1], odd.fields[1:2] * 2))
    yield "lost", agreeing(grouped(lost := scanned("lost"), lost.fields[:1], lost.fields[1:2] * 2))
    yield "a view of no policy", agreeing(replace(whole, input=replace(stays, table="gone")))
    key_alone = replace(stays, fields=(*first, replace(unit, name="other"), stays.fields[3]))
    yield "a scan without the link", agreeing(replace(whole, input=key_alone))
    yield from keys_below()


def keys_below() -> Iterator[tuple[str, Relation]]:
    """Tables below others whose keys several rows share."""
    visits, labs, whole = scanned("visits"), scanned("labs", 100), of_stays()
    yield "beds of stays", agreeing(of_beds((2, 0), (1, 1)))
    yield "beds of stays, columns turned", agreeing(of_beds((1, 1), (2, 0)))
    yield "beds of other stays", agreeing(of_beds((1, 0), (2, 1)))
    yield "beds of half a stay", agreeing(of_beds((1, 1)))
    yield "beds of stays and more", agreeing(of_beds((1, 1), (2, 0), (3, 2)))
    yield "beds and no stay", agreeing(of_beds((1, 1), (2, 0), kind=JoinKind.LEFT))
    owners = scanned("profiles")
    owner = grouped(owners, owners.fields[:1], owners.fields[:1] * 2)
    met = joined(labs, owner, (1, 0))
    yield "labs of profiles", agreeing(grouped(met, labs.fields[:1], met.fields[-2:]))
    some = joined(scanned("beds", 100), whole, (2, 0), (1, 1))
    more = Call("eq", (some.fields[3].ref, Literal(1, INTEGER)), BOOLEAN)
    assert some.condition is not None
    some = replace(some, condition=Call("and", (some.condition, more), BOOLEAN))
    yield "some beds of stays", agreeing(grouped(some, some.fields[:1], some.fields[-2:]))
    beds = replace(beds := scanned("beds", 100), fields=beds.fields[1:])
    rows = joined(beds, whole, (1, 0), (0, 1))
    yield "beds without their key", agreeing(grouped(rows, (), rows.fields[-2:]))
    beside = joined(scanned("beds", 100), of_stays(), (2, 0), (1, 1))
    yield "beds beside stays", Filter(beside, beside.fields[-2].ref.eq(beside.fields[-1].ref))
    yield "two keys of beds", agreeing(of_beds((1, 1), (2, 0), keys=2))
    yield "beds of visits", agreeing(of_beds((1, 0), right=of_visits()))
    yield "beds of rows of stays", agreeing(of_beds((1, 1), (2, 0), right=scanned("stays")))
    below = joined(labs, of_visits(), (1, 0))
    yield "labs of visits", agreeing(grouped(below, labs.fields[:1], below.fields[-2:]))
    yield (
        "labs of rows of visits",
        agreeing(
            grouped(rows := joined(labs, visits, (1, 0)), labs.fields[:1], (rows.fields[5],) * 2)
        ),
    )
    yield "all rows of labs and visits", Filter(rows, rows.fields[5].ref.eq(rows.fields[5].ref))
    yield (
        "labs of stays",
        agreeing(grouped(odds := joined(labs, whole, (1, 0)), labs.fields[:1], odds.fields[-2:])),
    )
    notes = scanned("notes", 100)
    profiles = grouped(p := scanned("profiles"), p.fields[:1], p.fields[:1] * 2)
    yield (
        "notes of profiles",
        agreeing(
            grouped(met := joined(notes, profiles, (1, 0)), notes.fields[:1], met.fields[-2:])
        ),
    )
    yield (
        "areas of visits",
        agreeing(
            grouped(
                town := joined(scanned("areas", 100), of_visits(), (1, 0)),
                town.fields[:1],
                town.fields[-2:],
            )
        ),
    )


def staged(of: Relation) -> Staged:
    return Staged(0, tuple(fresh(f, 700) for f in of.fields))


NUMBERED = "SELECT city, zone, ROW_NUMBER() OVER (PARTITION BY city ORDER BY zone) AS rn FROM zones"


def united(left: Relation, right: Relation) -> Union:
    fields = tuple(fresh(f, 800) for f in left.fields)
    return Union("UNION", all=True, left=left, right=right, fields=fields)


def with_unit(scan: Scan, kind: SqlType) -> Project:
    """The rows with their unit under another name, said to be of another type."""
    return Project(scan, (Item(Field(scan.fields[0].id + 600, "u", kind), scan.fields[0].ref),))


def unions() -> Iterator[tuple[str, Relation]]:
    """Cards of two kinds, whose unit has one type or another."""
    cards, more = scanned("cards"), scanned("cards", 100)
    for one, other in (INTEGER, INTEGER), (INTEGER, VARCHAR), (DOUBLE, DOUBLE):
        both = united(with_unit(cards, one), with_unit(more, other))
        yield f"units of {one.kind} and {other.kind}", both


def others() -> Iterator[tuple[str, Relation, dict[str, Any]]]:
    """What is released, staged, read otherwise, or unknown, with what the kernel is given."""
    people, areas, zones = scanned("people"), scanned("areas", 100), scanned("zones", 100)
    result = Released(0, tuple(fresh(f, 300) for f in zones.fields), (0,))
    unit = people.fields[0]
    for keys in ((), (1,), (2,), (0, 1)):
        yield f"released, of {keys} keys", result, {"keys": keys}
    yield "a later block", replace(result, block=1), {"keys": (1,)}
    yield "a person and released rows", joined(people, result, (1, 0)), {"keys": (1,)}
    yield "a person and rows of no key", joined(people, result, (1, 0)), {"keys": (2,)}
    for name, of in ("areas", areas), ("zones", zones), ("people", people):
        stage = staged(of)
        yield f"staged {name}", stage, {"stages": (of,)}
        yield f"a person and staged {name}", joined(people, stage, (1, 0)), {"stages": (of,)}
        sourced = replace(stage, source=of)
        yield f"a person and sourced {name}", joined(people, sourced, (1, 0)), {"stages": (of,)}
    for name, sql in (
        ("filtered", "SELECT city, n FROM areas WHERE n = 3 AND city IS NOT NULL"),
        ("grouped", "SELECT zone, COUNT(*) AS c FROM zones GROUP BY zone"),
        ("computed", "SELECT city, n + 1 AS m FROM areas"),
        ("a few", "SELECT city, n FROM areas LIMIT 5"),
        ("one", "SELECT city, n FROM areas LIMIT 1"),
        ("two of each", f"SELECT city, zone FROM ({NUMBERED}) WHERE rn <= 2"),
        ("values", "SELECT * FROM (VALUES ('a', 1), ('b', 1)) t(x, y)"),
    ):
        query = relation_of(sql, policy())
        yield f"staged and {name}", staged(query), {"stages": (query,)}
        yield f"sourced and {name}", replace(staged(query), source=query), {"stages": (areas,)}
    yield "an unknown stage", replace(staged(areas), stage=1), {"stages": (areas,)}
    read = replace(people, readings=(("PID", StoredAs("otherwise")),))
    yield "a key that is read otherwise", read, {}
    yield "another column that is", replace(people, readings=(("w", StoredAs("otherwise")),)), {}
    for name, column in (
        ("visits", "pid"),
        ("visits", "hadm"),
        ("beds", "no"),
        ("transfers", "payee"),
    ):
        scan = replace(scanned(name), readings=((column, StoredAs("otherwise")),))
        yield f"{column} of {name}, read otherwise", scan, {}
    yield "an unknown table", replace(people, table="gone"), {}
    some = replace(people, fields=people.fields[1:])
    yield "people without their key", some, {}
    named = replace(people, fields=(replace(unit, name="PID"), *people.fields[1:]))
    yield "people, in capitals", named, {}
    yield "visits without their link", replace(v := scanned("visits"), fields=v.fields[::2]), {}
    yield "visits without hadm", replace(v, fields=v.fields[:3]), {}
    yield "no more than one row", Limit(people, 1, 0), {}
    yield "one row of public ones", Limit(zones, 1, 0), {}
    yield "an offset", Limit(areas, None, 3), {}
    yield "no private row", Limit(people, None, 0), {}
    yield "one row", OneRow(), {}
    labs = scanned("labs")
    yield "groups by the column itself", Aggregate(labs, (labs.fields[1].item,), ()), {}
    yield "a row and another", Single(areas), {}
    town = replace(areas, fields=(replace(areas.fields[0], type=INTEGER), areas.fields[1]))
    optional = joined(people, town, (1, 0), kind=JoinKind.LEFT)
    yield "an optional side of another type", optional, {"frequency": lambda *_: 1}
    exact, wide = Field(901, "x", INTEGER), Field(902, "y", DOUBLE)
    for rows in ((), ((1, 1.0),), ((1, 1.0), (2, 1.0)), ((1, 1.0), (1, 2.0)), ((1, 1.0), (1, 1.0))):
        listed = tuple((Literal(a, INTEGER), Literal(b, DOUBLE)) for a, b in rows)
        yield f"constants {rows}", Values((exact, wide), listed), {}
    same = Values((exact,), ((Literal(1, INTEGER),), (Literal(2, INTEGER),)))
    twice = Join(same, same, JoinKind.CROSS, None)
    yield "a side that meets itself", Join(people, twice, JoinKind.CROSS, None), {}
    yield (
        "a person who meets themselves",
        Join(people, people, JoinKind.INNER, unit.ref.eq(unit.ref)),
        {},
    )


SEVERAL_TEXTS = {
    "transfers": "SELECT tid, n FROM transfers",
    "transfers of two": "SELECT a.tid, b.n FROM transfers a JOIN transfers b ON a.tid = b.tid",
    "transfers and areas": "SELECT tid FROM transfers t JOIN areas a ON a.n = t.n",
    "transfers and a payer": "SELECT tid FROM transfers t JOIN people p ON p.pid = t.payer",
    "nobody": "SELECT city FROM areas",
    "visits": "SELECT pid FROM visits",
}
