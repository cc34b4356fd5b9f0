"""An edit of what the guarantee protects holds once the owner confirmed it (SECURITY.md S16).

Law: for each such key, a start after the edit is refused while the ledger has charges, until
`dpsql budget confirm`. Other edits, new tables, and edits before the first charge need nothing.
"""

# ruff: noqa: E501  one edit, one row

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.model.errors import PolicyError
from dpsql.model.vocabulary import Loss
from dpsql.policy import guarantee_keys
from dpsql.policy.draft import Draft
from dpsql.policy.guarantee_keys import find_changes, guarantee_of
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request, shop

BASE = """\
[database]
engine = "duckdb"
path = "data.duckdb"
[privacy_unit]
table = "people"
key = "person"
[tables.people]
access = "private"
key = "person"
columns = { person = {}, other = {}, day = {} }
[tables.orders]
access = "private"
key = "item"
link = { column = "person", references = "people.person" }
columns = { item = {}, person = {}, payer = {}, day = {} }
[tables.items]
access = "private"
key = "line"
link = { column = "person", references = "people.person" }
columns = { line = {}, item = {}, person = {}, day = {} }
[tables.towns]
access = "public"
[budgets.b]
epsilon = 1.0
delta = 1e-6
accountant = "zcdp"
query_epsilon = 0.1
query_delta = 1e-9
[analysts.ana]
budget = "b"
[ledger]
path = "dpsql.ledger"
"""
ORDERS = '[tables.orders]\naccess = "private"\nkey = "item"\n'
LINKED = f'{ORDERS}link = {{ column = "person", references = "people.person" }}\n'
UNIT = 'table = "people"\nkey = "person"\n'
PEOPLE = BASE[BASE.index("[tables.people]") : BASE.index("[tables.orders]")]
COLUMNS = (
    (UNIT, 'columns = ["orders.person", "items.person"]\n'),
    (PEOPLE, ""),
    ('link = { column = "person", references = "people.person" }\n', ""),
)
"""The same policy without a table of people."""
PERIOD = 'period = { every = "month", from = "2024-01", of = { orders = "day", items = "day" } }\n'
BEFORE = {
    "[privacy_unit] column": COLUMNS,
    "[privacy_unit] period": COLUMNS,
    "[tables.orders] period.of": (*COLUMNS, ("[tables.orders]", f"{PERIOD}[tables.orders]")),
}
"""The edits that stand in the policy before: of keys that are not in the policy above."""
EDITS = {
    "[privacy_unit] key": [
        (UNIT, 'table = "people"\nkey = "other"\n'),
        ('[tables.people]\naccess = "private"\nkey = "person"', '[tables.people]\naccess = "private"\nkey = "other"'),
        ("people.person", "people.other"),
    ],
    "[privacy_unit] neighbours": [(UNIT, f'{UNIT}neighbours = "replace"\n')],
    "[privacy_unit] column": [("orders.person", "orders.payer")],
    "[privacy_unit] period": [("[tables.orders]", f"{PERIOD}[tables.orders]")],
    "[tables.orders] period.of": [('orders = "day"', 'orders = "other"'), ("payer = {}", "payer = {}, other = {}")],
    "[tables.orders] link": [('link = { column = "person", references = "people.person" }\ncolumns = { item', 'link = { column = "payer", references = "people.person" }\ncolumns = { item')],
    "[tables.orders] links": [
        (LINKED, f'{ORDERS}links = [{{ column = "person", references = "people.person" }}, {{ column = "payer", references = "people.person" }}]\n'),
    ],
    "[tables.orders] other_people": [
        (LINKED, f'{ORDERS}links = [{{ column = "person", references = "people.person" }}, {{ column = "payer", references = "people.person", other_people = "unprotected" }}]\n'),
    ],
    "[tables.items] same_unit": [
        ("columns = { line", 'same_unit = [{ column = "item", references = "orders.item" }]\ncolumns = { line'),
    ],
    "[tables.orders] access": [(LINKED, '[tables.orders]\naccess = "public"\n')],
    "[tables.towns] access": [
        ('[tables.towns]\naccess = "public"', '[tables.towns]\naccess = "private"\nkey = "person"\nlink = { column = "person", references = "people.person" }\ncolumns = { person = {} }'),
    ],
}  # fmt: skip
"""Edits that change what a key says, by the key that the refusal names."""
NO_EDITS = {
    "a column is hidden": [("payer = {}", "payer = { hidden = true }")],
    "a table is new": [("[tables.towns]", '[tables.lands]\naccess = "public"\n[tables.towns]')],
    "a table is gone": [('[tables.towns]\naccess = "public"\n', "")],
    "more may be spent": [("epsilon = 1.0", "epsilon = 2.0")],
}  # fmt: skip


def draft(folder: Path, *edits: tuple[str, str]) -> Draft:
    text = BASE
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    file = folder / "dpsql.toml"
    file.write_text(text, encoding="utf-8")
    return load(str(file))


def unnoticed(folder: Path, of: Callable[[Draft], dict[str, str]] = guarantee_of) -> list[str]:
    """The keys whose edit is not found."""
    found = dict[str, list[str]]()
    for key, edits in EDITS.items():
        base = BEFORE.get(key, ())
        before, after = of(draft(folder, *base)), of(draft(folder, *base, *edits))
        found[key] = [change.key for change in find_changes(before, after)]
    return [key for key, keys in found.items() if key not in keys]


def test_each_key_of_the_guarantee_is_noticed(tmp_path: Path) -> None:
    assert unnoticed(tmp_path) == []


@pytest.mark.parametrize("key", EDITS)
def test_wrong_twin_a_key_that_is_forgotten_is_found(key: str, tmp_path: Path) -> None:
    def without(draft: Draft) -> dict[str, str]:
        return {each: text for each, text in guarantee_of(draft).items() if each != key}

    assert unnoticed(tmp_path, without) == [key]


@pytest.mark.parametrize("what", NO_EDITS)
def test_other_edits_need_nothing(what: str, tmp_path: Path) -> None:
    before = guarantee_of(draft(tmp_path))
    assert find_changes(before, guarantee_of(draft(tmp_path, *NO_EDITS[what]))) == ()


def test_people_without_a_table_are_another_unit(tmp_path: Path) -> None:
    table, columns = guarantee_of(draft(tmp_path)), guarantee_of(draft(tmp_path, *COLUMNS))
    assert find_changes(table, columns)[0].key == "[privacy_unit] table"
    assert find_changes(columns, table)[0].key == "[privacy_unit] column"


def test_a_table_that_was_away_is_compared_with_what_it_was(tmp_path: Path) -> None:
    """Removed and added again as a public one, it is the same table."""
    recorded = guarantee_of(draft(tmp_path))
    recorded |= guarantee_of(draft(tmp_path, *NO_EDITS["a table is gone"]))
    public = guarantee_of(draft(tmp_path, *EDITS["[tables.towns] access"]))
    assert next(change.key for change in find_changes(recorded, public)) == "[tables.towns] access"


# --- with a ledger ---------------------------------------------------------------------------

COUNT = "SELECT COUNT(*) AS n FROM orders"
PUBLIC = '[tables.events]\naccess = "public"\n'


def edit(file: Path) -> None:
    """Make a private table public."""
    text = file.read_text(encoding="utf-8")
    start = text.index("[tables.events]")
    end = text.index("\n[", text.index("[tables.events.columns]"))
    file.write_text(text[:start] + PUBLIC + text[end:], encoding="utf-8")


@pytest.mark.full("opens a proxy for each step")
def test_a_start_is_refused_until_the_owner_confirms(tmp_path: Path) -> None:
    file = shop(tmp_path / "shop")
    with Proxy.open(str(file)) as proxy:
        proxy.ask(request(COUNT, "1"))
        spent = proxy.budgets()[0][1]
        assert [act.what for act in proxy.ledger.acts(9)] == ["limit"]
    edit(file)
    for _ in range(2):
        with pytest.raises(
            PolicyError,
            match=r":\d+: \[tables.events\] access was private, and is now public.*budget confirm",
        ):
            Proxy.open(str(file))
    run = CliRunner().invoke(
        main, ["budget", "confirm", "--reason", "a register", "--policy", str(file)]
    )
    assert (run.exit_code, "private before, public now" in run.output) == (0, True), run.output
    with Proxy.open(str(file)) as proxy:
        assert proxy.budgets()[0][1] == spent
        act, *_ = proxy.ledger.acts(9)
        assert (act.what, act.reason) == ("guarantee", "a register")
        assert "[tables.events] access = public" in act.about
        proxy.ledger.verify()


@pytest.mark.full("opens a proxy for each step")
def test_before_the_first_charge_an_edit_needs_nothing(tmp_path: Path) -> None:
    file = shop(tmp_path / "shop")
    with Proxy.open(str(file)):
        pass
    edit(file)
    with Proxy.open(str(file)) as proxy:
        assert proxy.budgets()[0][1] == Loss(0)


@pytest.mark.full("opens a proxy for each step")
def test_wrong_twin_a_start_that_compares_nothing_opens_a_private_table(tmp_path: Path) -> None:
    file = shop(tmp_path / "shop")
    with Proxy.open(str(file)) as proxy:
        proxy.ask(request(COUNT, "1"))
    edit(file)
    with (
        patch.object(guarantee_keys, "find_changes", return_value=()),
        Proxy.open(str(file)) as proxy,
    ):
        assert proxy.ask(request("SELECT COUNT(*) AS n FROM events")).receipt is None
