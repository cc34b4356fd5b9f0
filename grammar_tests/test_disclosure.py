"""`dpsql risk`: its figures against a count by hand, and what of them may reach the policy."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from dpsql.interfaces.cli import main
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import BOOLEAN, DATE, INTEGER, VARCHAR
from dpsql.model.vocabulary import ColumnPolicy, Link, Policy, TablePolicy
from dpsql.systems.risk import disclosure as owners
from dpsql.systems.risk.disclosure import (
    Crowd,
    Disclosure,
    Inspection,
    Remedy,
    Rows,
    disclosure,
    words_of,
)
from dpsql.systems.risk.disclosures import as_json, proposal_text, reasons, text
from dpsql.systems.risk.generalising import Period, PrefixLength, StepWidth, levels
from grammar_tests.bound import over, shop
from grammar_tests.proxy_kit import shop as shop_folder
from grammar_tests.test_layers import SOURCES, imports
from grammar_tests.world import well_behaved

HOUSE = Path(__file__).parent.parent / "dpsql"
ZIPS = ("10115", "10117", "20095", "20097", "80331", None)
ILLS = ("flu", "asthma", "none")


def people(count: int = 90) -> list[tuple[Any, ...]]:
    """Key, age, postcode, birth date, illness: with NULL, twins, and somebody without a key."""
    rows = [
        (
            None if n == 7 else n,
            None if n % 11 == 0 else 20 + (n * 7) % 23,
            ZIPS[(n * n) % 6],
            f"19{40 + n % 50}-0{1 + n % 9}-11",
            ILLS[(n // 3) % 3 if n % 4 else 0],
        )
        for n in range(count)
    ]
    return [*rows, *((1000 + n, *rows[0][1:]) for n in range(4))]


COLUMNS = (
    ColumnPolicy("id", INTEGER),
    ColumnPolicy("age", INTEGER, bounds=(0, 120), nullable=True),
    ColumnPolicy("zip", VARCHAR, nullable=True),
    ColumnPolicy("born", DATE),
    ColumnPolicy("illness", VARCHAR),
)
VISITS = (
    ColumnPolicy("visit", INTEGER),
    ColumnPolicy("id", INTEGER),
    ColumnPolicy("ward", INTEGER),
)


def policy(*columns: ColumnPolicy) -> Policy:
    """People, their visits, and a public register."""
    link = Link("id", "people", "id")
    whole = TablePolicy("people", private=True, columns=columns or COLUMNS, key=("id",))
    visits = TablePolicy("visits", private=True, columns=VISITS, key=("visit",), link=link)
    register = TablePolicy("register", private=False, columns=COLUMNS[1:4])
    base, _ = shop()
    unit = replace(base.unit, table="people", key="id")
    return replace(base, unit=unit, tables=(whole, visits, register))


@cache
def database(rows: tuple[tuple[Any, ...], ...]) -> Rows:
    """These people, of whom each third has two visits to wards, and a register of the first."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people (id INTEGER, age INTEGER, zip VARCHAR, born DATE, illness VARCHAR)"
    )
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
    connection.execute(
        "CREATE TABLE visits AS SELECT CAST(2 * id + n AS INTEGER) AS visit, id,"
        " CAST((id * (n + 1)) % 7 AS INTEGER) AS ward FROM people, range(2) AS r(n)"
        " WHERE id % 3 = 0"
    )
    connection.execute("CREATE TABLE register AS SELECT age, zip, born FROM people LIMIT 40")
    return lambda sql: connection.execute(sql).fetchall()


@cache
def measured(inspection: Inspection, rows: tuple[tuple[Any, ...], ...] | None = None) -> Disclosure:
    return disclosure(policy(), inspection, database(tuple(people()) if rows is None else rows))


def crowd(pairs: Sequence[tuple[Any, Any]]) -> Crowd:
    """By hand: of (person, combination) the smallest class of each person."""
    classes: dict[Any, set[Any]] = defaultdict(set)
    for person, combination in pairs:
        classes[combination].add(person)
    least: dict[Any, int] = {}
    for members in classes.values():
        for person in members:
            least[person] = min(least.get(person, len(members)), len(members))
    return Crowd(tuple(sorted(Counter(least.values()).items())))


# --- figures -------------------------------------------------------------------------------------


def test_crowds_are_counted_as_by_hand() -> None:
    there = [row for row in people() if row[0] is not None]
    risk = measured(Inspection("people"))
    assert risk.rows == len(there)
    assert risk.everything.columns == ("age", "zip", "born", "illness")
    places = {"age": 1, "zip": 2, "born": 3, "illness": 4}
    for each in (*risk.sets, risk.everything):
        pairs = [(row[0], tuple(row[places[name]] for name in each.columns)) for row in there]
        assert each.crowd == crowd(pairs), each.columns
    assert len(risk.sets) == 4 + 6 + 4
    assert 0 < risk.everything.crowd.alone < 1


def test_somebody_with_many_rows_is_one_person() -> None:
    ids = [row[0] for row in people() if row[0] is not None and row[0] % 3 == 0]
    risk = measured(Inspection("visits", by=("ward",)))
    assert risk.rows == 2 * len(ids)
    pairs = [(n, (n * (visit + 1)) % 7) for n in ids for visit in range(2)]
    assert risk.everything.crowd == crowd(pairs)
    assert risk.everything.crowd.people == len(ids)


def test_the_smallest_sets_identify_and_no_part_of_them_does() -> None:
    risk = measured(Inspection("people", share=0.2))
    by_set = {frozenset(s.columns): s.crowd.alone for s in (*risk.sets, risk.everything)}
    expected = {
        names
        for names, alone in by_set.items()
        if alone >= 0.2 and not any(part < names and by_set[part] >= 0.2 for part in by_set)
    }
    assert {frozenset(s.columns) for s in risk.identifying} == expected != set()


def test_generalisation_is_what_it_says() -> None:
    inspection = Inspection(
        "people",
        by=("age", "zip", "born"),
        generalise=(("age", "10"), ("zip", "2"), ("born", "decade")),
        clips=(("age", "25:40"),),
    )
    risk = measured(inspection)
    there = [row for row in people() if row[0] is not None]

    def coarse(row: tuple[Any, ...], shift: int = 0) -> tuple[Any, ...]:
        age = None if row[1] is None else (min(max(row[1], 25), 40) + shift) // 10
        return age, row[2] and row[2][:2], row[3][:3]

    assert risk.published.level.title == "and born by decade"
    assert risk.published.crowd == crowd([(row[0], coarse(row)) for row in there])
    assert risk.levels[0].crowd == crowd([(row[0], row[1:4]) for row in there])
    assert risk.levels[-1].crowd.k == risk.levels[-1].crowd.people == len(there)
    assert risk.together == crowd([(row[0], coarse(row) + coarse(row, 5)) for row in there])
    assert risk.together.alone > risk.published.crowd.alone
    rising = [each.crowd.median for each in risk.levels]
    assert rising[0] < rising[-1]


def test_diversity_and_closeness_are_counted_as_by_hand() -> None:
    risk = measured(
        Inspection("people", by=("zip",), sensitive=("illness",), generalise=(("zip", "1"),))
    )
    there = [row for row in people() if row[0] is not None]
    whole = Counter(row[4] for row in there)
    for each, length in zip(risk.sensitive, (5, 1), strict=True):
        classes: dict[Any, list[str]] = defaultdict(list)
        for row in there:
            classes[row[2] and row[2][:length]].append(row[4])
        values = [Counter(ills) for ills in classes.values()]
        distances = [
            sum(abs(c[ill] / c.total() - whole[ill] / len(there)) for ill in whole) / 2
            for c in values
        ]
        assert each.diversity == min(map(len, values))
        assert each.closeness == pytest.approx(max(distances))
        assert each.certain == sum(c.total() for c in values if len(c) == 1)


def test_a_class_of_one_mind_is_certain_though_it_is_a_crowd() -> None:
    rows = tuple(
        (n, 30 + n // 6, "1", "1950-01-01", "flu" if n < 6 else f"i{n}") for n in range(13)
    )
    risk = measured(Inspection("people", by=("age",), sensitive=("illness",)), rows)
    (each,) = risk.sensitive
    assert (each.diversity, each.certain, each.in_crowd) == (1, 7, 6)
    assert any("of 6 people in classes of two and more the illness is certain" in line
               for line in reasons(risk))  # fmt: skip


def test_another_table_links_who_is_alone_in_both() -> None:
    risk = measured(Inspection("people", others=("register",)))
    (link,) = risk.linked
    assert link.columns == ("age", "zip", "born")
    looks = [tuple(row[1:4]) for row in people()]
    here = Counter(tuple(row[1:4]) for row in people() if row[0] is not None)
    there = Counter(looks[:40])
    expected = [key for key in there if None not in key and there[key] == here[key] == 1]
    assert link.people == len(expected) > 0


def test_columns_look_like_identifiers_by_name_or_by_values() -> None:
    assert words_of("homeZip_code2") >= {"zip", "zipcode"}
    risk = measured(Inspection("people", share=0.3))
    identifiers = {c.column: c for c in risk.identifiers}
    assert identifiers.keys() == {"zip", "born"}
    assert (identifiers["zip"].named, identifiers["zip"].direct) == (True, False)
    assert "username" in words_of("userName")


# --- what may reach the policy -------------------------------------------------------------------


def renamed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Other values, of which the same are equal."""
    key, age, postcode, born, illness = row
    year = 2000 + int(born[2:4])
    return (
        key and key + 3, age and 7 * age + 1, postcode and f"x{postcode[::-1]}",
        f"{year}{born[4:]}", f"<{illness}>",
    )  # fmt: skip


RENAMED = tuple(renamed(row) for row in people())
Proposed = Callable[[Disclosure, Rows], list[str]]


def told(risk: Disclosure, _rows: Rows) -> list[str]:
    return [*map(proposal_text, risk.proposals)]


def with_bounds(risk: Disclosure, rows: Rows) -> list[str]:
    """A wrong twin: proposals with what the data have."""
    ((low, high),) = rows("SELECT MIN(age), MAX(age) FROM people")
    return [*told(risk, rows), f"age = {{ bounds = [{low}, {high}] }}"]


def independent_of_values(proposed: Proposed) -> bool:
    """Whether proposals stay when every value is another one and the same stay equal."""
    here, there = (
        proposed(measured(Inspection("people"), rows), database(rows))
        for rows in (tuple(people()), RENAMED)
    )
    return here == there


@pytest.mark.full("measures neighbours or further data sets")
def test_proposals_have_no_value_of_the_data() -> None:
    assert independent_of_values(told)
    risk = measured(Inspection("people"))
    assert [(p.column, p.remedy) for p in risk.proposals] == [
        ("age", Remedy.COARSEN),
        ("zip", Remedy.COARSEN),
        ("born", Remedy.HIDE),
        ("illness", Remedy.COARSEN),
    ]
    assert not re.search(r"\d", "".join(map(proposal_text, risk.proposals)))


def test_wrong_twin_a_bound_read_from_data_is_caught() -> None:
    assert not independent_of_values(with_bounds)


def test_what_is_hidden_or_nothing_is_not_proposed() -> None:
    columns = tuple(replace(c, hidden=c.name == "born") for c in COLUMNS)
    risk = disclosure(policy(*columns), Inspection("people", share=1.0), database(tuple(people())))
    assert [p.column for p in risk.proposals] == ["zip"]
    assert [c.hidden for c in risk.identifiers if c.column == "born"] == [True]


def test_nothing_shows_a_value_of_the_data() -> None:
    inspection = Inspection("people", sensitive=("illness",), generalise=(("zip", "3"),))
    risk = measured(inspection)
    shown = text(risk) + as_json(risk) + repr(risk.everything.crowd)
    assert not any(value in shown for value in (*ZIPS[:-1], *ILLS[:2], "1940", "1962-0"))
    assert "people_by_k" not in repr(risk)


EXACT = frozenset(
    {"dpsql.systems.risk.disclosure", "dpsql.systems.risk.disclosures", "dpsql.systems.risk.risk"}
)
"""What computes exact figures, and what shows them."""
OWNERS = {"systems/risk/risk.py", "systems/risk/disclosures.py"}
"""The owner's command, and its output."""


def reaches(path: Path) -> bool:
    """Whether a file imports any of it; those that name no such thing are not taken apart."""
    text = path.read_text(encoding="utf-8")
    return ("disclosure" in text or "risk" in text) and bool(imports(path) & EXACT)


def test_only_the_owners_command_reaches_it() -> None:
    users = {p.relative_to(HOUSE).as_posix() for p in SOURCES if reaches(p)}
    assert users == OWNERS


def test_wrong_twin_a_door_that_leads_to_it_is_seen(tmp_path: Path) -> None:
    for n, way in enumerate(
        ("from dpsql.systems.risk import disclosure", "import dpsql.systems.risk.disclosure")
    ):
        door = tmp_path / f"door_{n}.py"
        door.write_text(f"def opened():\n    {way} as d\n    return d\n", encoding="utf-8")
        assert reaches(door)


# --- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        Inspection("register"),
        Inspection("people", generalise=(("age", "0"),)),
        Inspection("people", generalise=(("age", "NaN"),)),
        Inspection("people", generalise=(("zip", "two"),)),
        Inspection("people", generalise=(("born", "hour"),)),
        Inspection("people", clips=(("age", "9:3"),)),
        Inspection("people", clips=(("zip", "1:3"),)),
        Inspection("people", by=("zip",), generalise=(("age", "5"),)),
        Inspection("people", by=("zip",), clips=(("age", "20:60"),)),
        Inspection("people", by=("zip", "age"), sensitive=("age",)),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: Inspection) -> None:
    with pytest.raises(Refused) as refused:
        measured(wrong)
    assert refused.value.reason is Reason.BAD_OPTION


def test_what_is_not_there_is_named_with_what_is_nearest() -> None:
    cases = (
        (Inspection("peple"), Reason.UNKNOWN_TABLE, "people"),
        (Inspection("people", by=("aeg",)), Reason.UNKNOWN_COLUMN, "age"),
        (Inspection("people", others=("registry",)), Reason.UNKNOWN_TABLE, "register"),
    )
    for wrong, reason, near in cases:
        with pytest.raises(Refused) as refused:
            measured(wrong)
        assert (refused.value.reason, refused.value.facts["near"]) == (reason, near)


def test_too_many_sets_are_refused_before_anything_runs() -> None:
    columns = [ColumnPolicy(f"c{n}", BOOLEAN) for n in range(30)]
    with pytest.raises(Refused, match="30 columns"):
        disclosure(policy(COLUMNS[0], *columns), Inspection("people"), lambda _: [])


def test_levels_get_coarser_until_nothing_is_left() -> None:
    ladder = levels(
        {"age": (Decimal(20), Decimal(60))},
        {"age": StepWidth(Decimal("2.5")), "zip": PrefixLength(3), "born": Period.DECADE},
    )
    assert [level.title for level in ladder] == [
        *("as it is", "age in 20 to 60", "and age in steps of 2.5", "and zip to 3 characters"),
        *("and born by decade", "2 times as coarse", "4 times as coarse", "8 times as coarse"),
        "without age, zip, born",
    ]
    assert [level.named for level in ladder].index(True) == 4
    assert [level.without for level in ladder[-3:]] == [
        frozenset({"zip", "born"}),
        frozenset({"zip", "born"}),
        frozenset({"age", "zip", "born"}),
    ]


def test_rows_along_several_links_are_of_their_person() -> None:
    bound, engine = over(well_behaved(), constraints=True)
    risk = disclosure(bound, Inspection("items", by=("units",)), engine.rows)
    owners = engine.rows(
        "SELECT DISTINCT o.customer_id, i.units FROM items i JOIN orders o USING (order_id)"
    )
    assert risk.everything.crowd == crowd(owners)


# --- the command ---------------------------------------------------------------------------------


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["risk", *args])


@pytest.mark.full("starts processes")
def test_the_command_prints_draws_and_leaves_no_ledger(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="the extra png is not installed")
    path, picture = str(shop_folder(tmp_path)), tmp_path / "k.png"
    named = ("--generalise", "age=10", "--clip", "age=20:60", "--sensitive", "vip")
    done = run("customers", *named, "--plot", str(picture), "--policy", path)
    assert done.exit_code == 0, done.stderr
    assert "customers: 12 people (customers.customer_id), 12 rows" in done.stdout
    assert "k against generalisation" in done.stdout
    assert "#" in done.stdout
    assert "name 3" not in done.stdout
    assert "Why this does not protect:" in done.stdout
    assert "for the owner only" in done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "shop.ledger").exists()


@pytest.mark.full("measures neighbours or further data sets")
def test_an_inspection_says_how_far_it_is(tmp_path: Path) -> None:
    by = ("age", "joined", "country")
    with owners.Inspecting(str(shop_folder(tmp_path)), Inspection("customers", by=by)) as each:
        assert each.progress() == 0
        assert each.disclosure().everything.columns == by
        assert each.progress() == 1


def test_the_command_writes_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "load", str)
    monkeypatch.setattr(owners, "opened", lambda _draft: SimpleNamespace(close=lambda: None))
    given = lambda inspecting: measured(inspecting._inspection)  # noqa: E731
    monkeypatch.setattr(owners.Inspecting, "disclosure", given)
    done = run("people", "--by", "zip,age", "--format", "json")
    whole = json.loads(done.stdout)
    assert (whole["exact"], whole["people"], whole["all"]["columns"]) == (True, 93, ["zip", "age"])
    assert whole["all"].keys() >= {"k", "alone", "few", "median"}


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--generalise", "age"), 2, "give COLUMN=HOW"),
        (("--plot", "k.txt"), 2, ".svg, .png"),
        (("--policy", "nowhere.toml"), 1, "nowhere.toml"),
    ],
)
def test_wrong_options_are_told(options: tuple[str, ...], code: int, says: str) -> None:
    done = run("customers", *options)
    assert (done.exit_code, says in done.stderr) == (code, True), done.stderr
