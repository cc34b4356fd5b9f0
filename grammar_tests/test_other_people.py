"""Foreign keys that name a second person: refused, protected too, or left unprotected."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import psycopg
import pytest
from click.testing import CliRunner, Result

import dpsql
from dpsql.interfaces.cli import main
from dpsql.interfaces.messages import describe
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.vocabulary import FactKind, Policy, Voucher
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request
from grammar_tests.wire_kit import opened

PEOPLE = "pid INTEGER PRIMARY KEY, age INTEGER, parent_pid INTEGER"
TRANSFERS = (
    "t_id INTEGER PRIMARY KEY, payer INTEGER NOT NULL REFERENCES people (pid),"
    " payee INTEGER REFERENCES people (pid), witness_pid INTEGER, amount INTEGER"
)
PAYER = '{ column = "payer", references = "people.pid" }'
PAYEE = '{ column = "payee", references = "people.pid" }'
UNPROTECTED = PAYEE.replace(" }", ', other_people = "unprotected" }')
ONE = f"link = {PAYER}\nmax_groups_per_unit = 2\nmax_rows_per_group = 3"
BOTH = f"links = [{PAYER}, {PAYEE}]\nmax_rows_per_unit = 5"
LEFT_OUT = f"links = [\n  {PAYER},\n  {UNPROTECTED},\n]\n" + ONE.split("\n", maxsplit=1)[1]
POLICY = """
[database]
engine = "duckdb"
path = "people.duckdb"
[privacy_unit]
table = "people"
key = "pid"
[tables.people]
access = "private"
key = "pid"
[tables.people.columns]
pid = {{ bounds = [1, 20] }}
age = {{ bounds = [0, 120] }}
[tables.transfers]
access = "private"
key = "t_id"
{links}
[tables.transfers.columns]
t_id = {{}}
payer = {{ bounds = [1, 20] }}
payee = {{ bounds = [1, 20], nullable = true }}
witness_pid = {{ nullable = true }}
amount = {{ bounds = [0, 100] }}
[budgets.default]
epsilon = 100.0
delta = 1e-3
query_epsilon = 0.5
[analysts.ana]
budget = "default"
"""
TOLD = "people whom transfers.payee names are not protected from what this tells"


def built(folder: Path, links: str, transfers: str = TRANSFERS, people: str = PEOPLE) -> Path:
    """A policy over people who pay one another; nobody is in more than four transfers."""
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people ({people})")
        connection.execute(f"CREATE TABLE transfers ({transfers})")
        for pid in range(1, 11):
            connection.execute("INSERT INTO people VALUES (?, ?, NULL)", [pid, 30 + pid])
        for n in range(20):
            row = [n, n % 10 + 1, (n * 3) % 10 + 1, n % 7 + 1, n]
            connection.execute("INSERT INTO transfers VALUES (?, ?, ?, ?, ?)", row)
    file = folder / "dpsql.toml"
    file.write_text(POLICY.format(links=links))
    return file


def opened_policy(folder: Path, links: str, transfers: str = TRANSFERS) -> Policy:
    with Proxy.open(str(built(folder, links, transfers))) as proxy:
        return proxy.policy


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


# --- a second key without a declaration ---


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(amount) FROM transfers WHERE payee = 3",
        "SELECT payee, SUM(amount) FROM transfers GROUP BY payee",
        "SELECT SUM(payee) FROM transfers",
        "SELECT COUNT(*) FROM transfers t JOIN (VALUES (1)) v(n) ON t.payee = v.n",
        "SELECT COUNT(*) FROM (SELECT COUNT(payee) AS n FROM transfers GROUP BY payer) s",
    ],
)
def test_a_second_key_may_not_be_used_without_a_word(sql: str, tmp_path: Path) -> None:
    with Proxy.open(str(built(tmp_path, ONE))) as proxy:
        with pytest.raises(Refused) as caught:
            proxy.ask(request(sql))
        assert proxy.ask(request("SELECT SUM(amount) FROM transfers WHERE payer = 3"))
    assert caught.value.reason is Reason.HIDDEN_COLUMN
    assert sql[caught.value.span.start :].startswith(("payee", "t.payee"))
    told = describe(caught.value, sql)
    assert told.why.startswith("It names people, and transfers declares no link for it")
    assert told.fix == "Ask the owner to add it to the links of transfers."


@pytest.mark.full("opens a proxy for each item")
def test_a_person_may_not_name_another_without_a_word(tmp_path: Path) -> None:
    people = PEOPLE.replace("parent_pid INTEGER", "age2 INTEGER REFERENCES people (pid)")
    file = built(tmp_path, ONE, people=people)
    file.write_text(file.read_text().replace("age = {", "age2 = {}\nage = {"))
    with Proxy.open(str(file)) as proxy, pytest.raises(Refused, match="hidden-column"):
        proxy.ask(request("SELECT COUNT(*) FROM people WHERE age2 = 3"))


# --- both are protected ---


@pytest.mark.full("measures neighbours or further data sets")
def test_rows_of_both_need_a_recorded_bound(tmp_path: Path) -> None:
    file = built(tmp_path, BOTH)
    sql = "SELECT SUM(amount) AS total FROM transfers WHERE payee = 3"
    with Proxy.open(str(file)) as proxy, pytest.raises(Refused, match="unbounded-contribution"):
        proxy.ask(request(sql))
    assert run("check", "--record", "--policy", str(file)).exit_code == 1  # witness_pid
    with Proxy.open(str(file)) as proxy:
        plan = proxy.explain(request(sql))
    (block,) = plan.blocks
    assert [(line.name, line.value) for line in block.limits][1] == ("rows per unit", 5)
    assert "transfers: rows per unit (recorded check)" in block.facts
    assert block.releases[0].linf == 5 * 100


@pytest.mark.full("measures neighbours or further data sets")
def test_a_bound_that_data_break_is_not_recorded(tmp_path: Path) -> None:
    file = built(tmp_path, BOTH.replace("= 5", "= 3"))
    found = run("check", "--record", "--policy", str(file))
    assert "units have more than 3 rows, one has 4." in found.stdout
    assert "until then no query may use them" in found.stdout
    with Proxy.open(str(file)) as proxy, pytest.raises(Refused, match="unbounded-contribution"):
        proxy.ask(request("SELECT COUNT(*) FROM transfers"))


@pytest.mark.full("measures neighbours or further data sets")
def test_constraints_bound_pairs(tmp_path: Path) -> None:
    """Who is the payer of one row at most, and the payee of one, is in two."""
    pairs = (
        "t_id INTEGER, payer INTEGER NOT NULL UNIQUE REFERENCES people (pid),"
        " payee INTEGER UNIQUE REFERENCES people (pid), witness_pid INTEGER, amount INTEGER"
    )
    for most, known in (("= 2", True), ("= 1", False)):
        folder = tmp_path / most[-1]
        folder.mkdir()
        with duckdb.connect(str(folder / "people.duckdb")) as connection:
            connection.execute(f"CREATE TABLE people ({PEOPLE})")
            connection.execute(f"CREATE TABLE transfers ({pairs})")
        file = folder / "dpsql.toml"
        file.write_text(POLICY.format(links=BOTH.replace("= 5", most)))
        with Proxy.open(str(file)) as proxy:
            policy = proxy.policy
        fact = policy.fact(FactKind.MAX_ROWS, "transfers")
        assert (fact is not None and fact.voucher is Voucher.CONSTRAINT) == known
        assert policy.fact(FactKind.LINK_RESOLVES, "transfers") is not None


# --- one is left unprotected ---


@pytest.mark.full("measures neighbours or further data sets")
def test_who_is_left_unprotected_is_told_with_every_answer(tmp_path: Path) -> None:
    file = built(tmp_path, LEFT_OUT)
    sql = "SELECT SUM(amount) AS total FROM transfers WHERE payee = 3"
    text = run("query", "--policy", str(file), sql)
    assert text.exit_code == 0, text.output
    assert f"* {TOLD}" in text.stdout
    again = run("query", "--policy", str(file), "--format", "json", sql)
    assert json.loads(again.stdout)[0]["total_notice"].endswith(TOLD)
    assert TOLD in run("explain", "--policy", str(file), "SELECT COUNT(*) AS n FROM people").stdout
    with dpsql.connect(str(file), analyst="ana") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) AS n FROM people")
        assert TOLD in cursor.notices
    with opened(tmp_path, file) as door:
        notices: list[str] = []
        with psycopg.connect(**door.conninfo()) as client:
            client.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
            client.execute(sql)
    assert TOLD in notices


@pytest.mark.full("measures neighbours or further data sets")
def test_check_repeats_who_is_left_unprotected(tmp_path: Path) -> None:
    transfers = TRANSFERS.replace("witness_pid", "witness")
    file = built(tmp_path, LEFT_OUT, transfers)
    file.write_text(file.read_text().replace("witness_pid", "witness"))
    found = run("check", "--policy", str(file))
    assert found.exit_code == 0
    assert "transfers: payee names people who are not protected." in found.stdout


# --- what the owner is told ---


@pytest.mark.full("measures neighbours or further data sets")
def test_check_names_columns_that_are_no_link(tmp_path: Path) -> None:
    found = run("check", "--policy", str(built(tmp_path, ONE)))
    assert found.exit_code == 1
    assert "transfers: payee references people.pid and is no link." in found.stdout
    assert "transfers: witness_pid may name people.pid and is no link." in found.stdout
    assert 'other_people = "unprotected"' in found.stdout


@pytest.mark.full("measures neighbours or further data sets")
def test_check_is_silent_where_the_values_or_the_name_do_not_fit(tmp_path: Path) -> None:
    file = built(tmp_path, ONE)
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("UPDATE transfers SET witness_pid = 99 WHERE t_id = 3")
    assert "may name" not in run("check", "--policy", str(file)).stdout


def test_what_is_found_is_no_limit(tmp_path: Path) -> None:
    """As `init` writes it, also where rows of several people are not cut."""
    limits = 'max_groups_per_unit = "private"\nmax_rows_per_group = "private"'
    policy = opened_policy(tmp_path, f"{BOTH}\n{limits}")
    (table,) = (t for t in policy.tables if t.several)
    assert table.max_groups_per_unit is table.max_rows_per_group is None


@pytest.mark.full("measures neighbours or further data sets")
def test_init_makes_one_decision_of_all_further_links(tmp_path: Path) -> None:
    built(tmp_path, ONE)
    run("init", str(tmp_path / "people.duckdb"), "-o", str(tmp_path / "draft.toml"))
    draft = (tmp_path / "draft.toml").read_text()
    assert f"  {PAYER},\n" in draft
    assert "  " + UNPROTECTED.replace(', other_people = "unprotected"', "") + ",\n" in draft
    assert draft.count('other_people = "DECIDE"') == 1


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (f"links = [{PAYER}, {PAYER}]", "payer and payer are one name"),
        (f"link = {PAYER}\nlinks = [{PAYEE}]", "There is link, and links beside it"),
        (f"links = {PAYER}", "links is no list of tables"),
        (f"links = [{PAYER}, 3]", "links is no list of tables"),
        (f"links = [{UNPROTECTED}]", "has no link to the privacy unit"),
        (f"{BOTH}\nmax_groups_per_unit = 3", "are not cut to max_groups_per_unit"),
        (f"{BOTH}\nmax_rows_per_group = 3", "are not cut to max_rows_per_group"),
        (f"{BOTH}\nmax_rows_per_group = {{ amount = 3 }}", "are not cut to max_rows_per_group"),
        (BOTH.replace('payee"', 'payed"'), "transfers.payed is not listed"),
        (BOTH.replace("people.pid", "persons.pid"), "persons is not a private table"),
        (LEFT_OUT.replace("unprotected", "nobody"), "other_people is 'nobody'"),
        (LEFT_OUT.replace("unprotected", "DECIDE"), "1 decisions are open"),
    ],
)
def test_links_that_say_nothing_are_errors(links: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=message):
        opened_policy(tmp_path, links)


def test_totals_of_rows_of_several_people_have_no_limit(tmp_path: Path) -> None:
    path = built(tmp_path, BOTH)
    text = path.read_text().replace("amount = { ", "amount = { max_per_unit = 300, ")
    path.write_text(text)
    with pytest.raises(PolicyError, match="Totals of amount are not cut"), Proxy.open(str(path)):
        pass


@pytest.mark.full("measures neighbours or further data sets")
def test_a_policy_without_such_links_keeps_its_version(tmp_path: Path) -> None:
    """What a policy does not say is no part of what remembered answers depend on."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = TRANSFERS.replace("payee INTEGER REFERENCES people (pid)", "payee INTEGER")
    one = opened_policy(tmp_path / "a", ONE, plain)
    listed = opened_policy(
        tmp_path / "b", ONE.replace("link = ", "links = [").replace(" }\n", " }]\n"), plain
    )
    assert one.version == listed.version
