"""Every error is told completely, in place, and without anything a terminal would obey."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsql
from dpsql.interfaces import doors
from dpsql.interfaces.doors import COMMAND_LINE, WIRE
from dpsql.interfaces.messages import describe, place, printable
from dpsql.interfaces.wordings import WORDINGS, ExitCode
from dpsql.model.errors import (
    DpsqlError,
    Failed,
    LedgerError,
    MissingExtra,
    PolicyError,
    Reason,
    Refused,
    Unreachable,
)
from dpsql.model.table_names import unknown_name
from dpsql.model.tree import Span
from dpsql.model.vocabulary import Loss
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import compiled

FACTS = {
    "column": "amount",
    "table": "orders",
    "function": "sum",
    "name": "SUM",
    "construct": "LIMIT over private rows",
    "option": "epsilon",
    "why": "it is not a number",
    "clause": "WHERE",
    "types": ("INTEGER", "DATE"),
    "known": ("a", "b"),
    "limit": 10,
    "what": "columns",
    "needed": Loss(5),
    "left": Loss(3),
    "budget": "default",
    "epsilon": "2",
    "expected": 2,
    "given": 1,
}


def test_every_reason_has_a_row() -> None:
    assert WORDINGS.keys() == set(Reason)


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("facts", [{}, FACTS], ids=["no facts", "all facts"])
def test_every_reason_is_told_with_and_without_facts(
    reason: Reason, facts: dict[str, object]
) -> None:
    message = describe(Refused(reason, Span(7, 10), **facts), "SELECT abc FROM t")
    assert message.code == reason.value
    assert message.headline
    assert message.why
    assert message.fix
    assert "{" not in str(message)
    assert (message.line, message.column) == (1, 8)
    assert message.excerpt == "SELECT abc FROM t\n       ^^^"
    assert message.exit_code in (ExitCode.BAD_INPUT, ExitCode.PRIVACY, ExitCode.BUDGET)
    assert re.fullmatch(r"[0-9A-Z]{5}", message.sqlstate)


def test_the_compilers_own_fix_wins() -> None:
    told = describe(Refused(Reason.UNEQUAL_UNITS, fix="Join ON orders.customer_id = c.id."))
    assert told.fix == "Join ON orders.customer_id = c.id."


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilom = 1) COUNT(*) FROM orders",
            ["no option epsilom", "mean epsilon?", "max_error", "mechanism"],
        ),
        ("SELECT COUNT(*) FROM customers WHERE age = 'abc'", ["'abc' cannot be read as INTEGER"]),
        ("SELECT COUNT(*) FROM customers WHERE age = city", ["= does not take (INTEGER, VARCHAR)"]),
        (
            "SELECT login_id % 5000 AS g, MODE(EXTRACT(day FROM day)) FROM logins GROUP BY g",
            ["declare max_groups_per_unit for logins"],
        ),
        (
            "SELECT DATE_TRUNC('fortnight', day) AS d, COUNT(*) FROM logins GROUP BY d",
            ["date_trunc('fortnight', …) may not be used", "Parts are "],
        ),
        ("SELECT COUNT(*) FROM orders, events", ["both rows have the same customer_id"]),
        (
            "SELECT COUNT(*) FROM items a JOIN items b ON a.units = b.units",
            ["both rows have the same order_id (as said, the question changes)"],
        ),
        (
            "SELECT COUNT(*) FROM orders a JOIN orders b ON a.status = b.status",
            ["both rows have the same customer_id (as said, the question changes)"],
        ),
        ("SELECT `city`, COUNT(*) FROM customers GROUP BY 1", ['Names are quoted "city".']),
        ("SELECT COUNT(*) AS ` FROM customers", ["Names stand in double quotes."]),
        ("SELECT TOP 5 city, COUNT(*) FROM customers GROUP BY 1", ["LIMIT 5 at the end"]),
        ("SELECT COUNT(*), FROM customers", ["Remove the comma before FROM."]),
        ("SELECT city, COUNT(*) AS n FROM customers GROUP BY 1 HAVING m > 5", ["Did you mean n?"]),
        ("SELECT city, COUNT(*) AS n FROM customers GROUP BY 1 ORDER BY ct", ["Did you mean n?"]),
        (
            "SELECT country, COUNT(*) FROM customers GROUP BY 1 ORDER BY count DESC",
            ["Order by its place, 2, or name it: COUNT(…) AS count."],
        ),
        (
            "SELECT COUNT(*) FROM orders WHERE placed_at > INTERVAL 7 DAY - placed_at",
            ["Subtract the interval from the time"],
        ),
        (
            "SELECT city, COUNT(*) AS people FROM customers GROUP BY 1 HAVING peopel > 5",
            ["Did you mean people?"],
        ),
        (
            "SELECT city, COUNT(*) AS n FROM customers GROUP BY 1 HAVING agee > 5",
            ["Did you mean age?"],
        ),
        (
            "SELECT COUNT(*) FROM orders WHERE placed_at > CURRENT_DATE - INTERVAL '3 dya'",
            ["'3 dya' cannot be read as INTERVAL", "Did you mean day?"],
        ),
        ("SELECT MIN(EXTRACT(yer FROM placed_at)) FROM orders", ["Did you mean 'year'?"]),
        ("SELECT MIN(DATE_DIFF('dys', placed_at, NOW())) FROM orders", ["Did you mean 'day'?"]),
        ("SELECT SUBSTR(age, 1, 2), COUNT(*) FROM customers GROUP BY 1", ["CAST(x AS VARCHAR)"]),
        ("SELECT SUBSTR(city, 'a'), COUNT(*) FROM customers GROUP BY 1", ["CAST argument 2"]),
        ("SELECT COUNT(*) FROM customers WHERE name = 'Zoe'", ["Use another column: DESCRIBE"]),
        (
            'SELECT COUNT(*) FROM customers WHERE city = "Oslo"',
            ["Double quotes name columns. Write a text in single quotes."],
        ),
        ('SELECT COUNT(*) FROM customers WHERE "citi" = 3', ["There is no column citi", "city"]),
        ("SELECT COUNT(*) FROM customers LIMIT -1", ["Write a whole number"]),
        ("SELECT COUNT(*) FROM read_csv('x')", ["a table that SHOW TABLES lists"]),
    ],
)
def test_a_refusal_says_what_was_wrong_in_the_words_of_the_text(sql: str, words: list[str]) -> None:
    policy, engine = over(world.well_behaved(), constraints=True)
    with pytest.raises(Refused) as caught:
        compiled(sql, policy, engine)
    message = str(describe(caught.value, sql, COMMAND_LINE))
    assert [word for word in words if word not in message] == []


def test_an_unknown_name_is_no_option() -> None:
    misspelled = str(describe(unknown_name("analyst", "anna", ("ana", "bob"))))
    assert "There is no analyst anna." in misspelled
    assert "Did you mean ana? There are: ana, bob." in misspelled
    assert "ption" not in misspelled
    unnamed = unknown_name("analyst", None, ("ana", "bob"))
    assert "say which analyst" in str(describe(unnamed))
    assert describe(unnamed, door=COMMAND_LINE).fix == "Choose by --analyst: ana, bob."
    assert describe(unnamed, door=WIRE).fix == "Write one of these: ana, bob."


def test_an_empty_fact_is_no_fact() -> None:
    assert (
        describe(Refused(Reason.UNKNOWN_TABLE, known=())).fix
        == describe(Refused(Reason.UNKNOWN_TABLE)).fix
    )


def test_an_exhausted_budget_says_what_is_left_and_what_is_needed_exactly() -> None:
    error = Refused(
        Reason.BUDGET_EXHAUSTED,
        budget="default",
        accountant="zcdp",
        needed=Loss(1_000_001),
        left=Loss(1_000_000),
        limit=Loss(185_071_234, 10**12),
    )
    told = describe(error)
    assert told.exit_code == ExitCode.BUDGET
    assert told.why == ("It needs ρ = 0.001000001; left is ρ = 0.001 of ρ = 0.185071234, δ = 1e-6.")


@pytest.mark.parametrize(
    ("error", "exit_code", "sqlstate", "words"),
    [
        (PolicyError("p.toml", 3, "Unknown key.", "Remove it."), 1, "F0000", "p.toml:3"),
        (Failed("6f3a"), 5, "XX000", "its charge stays"),
        (Failed("6f3a", timed_out=True), 5, "57014", "timed out"),
        (Failed("6f3a", cancelled=True), 130, "57014", "cancelled"),
        (Unreachable("shop.duckdb cannot be opened."), 5, "08001", "shop.duckdb"),
        (LedgerError("The ledger was rolled back."), 5, "58030", "rolled back"),
        (MissingExtra("Install dpsql[parquet]."), 2, "0A000", "parquet"),
        (DpsqlError("else"), 5, "XX000", "else"),
    ],
)
def test_every_other_error_is_told(
    error: DpsqlError, exit_code: int, sqlstate: str, words: str
) -> None:
    told = describe(error)
    assert (told.exit_code, told.sqlstate) == (exit_code, sqlstate)
    assert words in str(told)


def test_the_caret_stands_under_the_place_in_its_line() -> None:
    sql = "SELECT a,\n\tbcd\nFROM t"
    assert place(sql, Span(11, 14)) == (2, 2, " bcd\n ^^^")
    wide = "SELECT '日本', xyz"
    assert place(wide, Span(13, 16))[2] == "SELECT '日本', xyz\n" + " " * 15 + "^^^"


def test_a_long_line_shows_a_window_with_the_place() -> None:
    sql = "SELECT " + "a, " * 500 + "bad FROM t"
    line, column, excerpt = place(sql, Span(1507, 1510))
    assert (line, column) == (1, 1508)
    assert excerpt is not None
    text, carets = excerpt.split("\n")
    assert text[carets.index("^") : carets.rindex("^") + 1] == "bad"
    assert len(text) < 100


def escapes(text: str) -> bool:
    return any(not c.isprintable() and c != "\n" for c in text)


@pytest.mark.full("draws random texts")
@given(st.text(), st.integers(-5, 50), st.integers(-5, 50), st.text())
def test_no_text_moves_the_cursor_and_no_place_is_out_of_reach(
    sql: str, start: int, stop: int, name: str
) -> None:
    told = str(describe(Refused(Reason.UNKNOWN_COLUMN, Span(start, stop), column=name), sql))
    assert not escapes(told)


def test_wrong_twin_unescaped_text_is_caught() -> None:
    sql = "SELECT \x1b[2J"
    assert escapes(sql)
    assert not escapes(printable(sql))


def rows_of_the_page() -> dict[str, tuple[str, str]]:
    """Reason → (exit code, SQLSTATE), from the page on errors."""
    page = Path(__file__).parents[1] / "dpsql" / "docs" / "errors.md"
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \| ([0-9A-Z]{5}) \| .+ \|$", text, re.MULTILINE)
    return {reason: (exit_code, state) for reason, exit_code, state in rows}


def test_every_reason_has_its_line() -> None:
    expected = {r.value: (str(int(w.exit_code)), w.sqlstate) for r, w in WORDINGS.items()}
    assert rows_of_the_page() == expected


class Said(dict[str, str]):
    """Facts of which those that nobody knows are called by their names."""

    def __missing__(self, name: str) -> str:
        return name


# --- no door is told of another's ways ---

OPTION = re.compile(r"(^|[\s(])--[a-z]|\bconnect\(")
OPTION_SIGN = re.compile(r"--[a-z]|\bconnect\(")
"""Stands in every file with such a text: other files are not parsed."""
OF_A_DOOR = {"cli", "sqlalchemy"}
"""Folders under interfaces that only one door sees; so are files that begin with these."""
APART = ("dbapi", "watching", "doors", "curves", "tables", "__main__")
OWNERS = (
    "dpsql check --record",  # what the owner is to be asked for, by its name
    "--self-signed",  # told where the server is started
    *("--http-name", "(--http)"),  # told where the server is started, or for its owner
    "dpsql budget confirm --reason",  # told to the owner where a policy protects something else
    "--accept-ledger",  # told to the owner where a ledger fails closed
)


def texts(path: Path) -> Iterator[str]:
    """The constant texts of a file that are no documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def of_every_door() -> list[Path]:
    """The files whose texts may reach whoever asks, through whichever door."""
    folder = Path(dpsql.__file__).parent
    inside = (path.relative_to(folder) for path in sorted(folder.rglob("*.py")))
    return [
        folder / path
        for path in inside
        if not OF_A_DOOR & set(path.parts) and not path.name.startswith(APART)
        if "\nimport click\n" not in (folder / path).read_text(encoding="utf-8")  # a command
    ]


def names_an_option(text: str) -> bool:
    for known in OWNERS:
        text = text.replace(known, "")
    return OPTION.search(text) is not None


@pytest.mark.full("measures neighbours or further data sets")
def test_no_text_names_what_only_one_door_has() -> None:
    named = [
        (path.stem, text)
        for path in of_every_door()
        if OPTION_SIGN.search(path.read_text(encoding="utf-8"))
        for text in texts(path)
        if names_an_option(text)
    ]
    assert named == []


def test_a_text_that_names_an_option_would_be_seen() -> None:
    assert names_an_option("Ask for less by --epsilon 0.2.")
    assert names_an_option("Open it by connect(…, epsilon='0.2').")
    assert any("connect(" in text for text in texts(Path(doors.__file__)))


ARTICLE = re.compile(r"(^|\W)(a|an)\s*$", re.IGNORECASE)
BEFORE = re.compile(r'\b[aA]n? ?["{]')
"""Stands in every file with such a text: other files are not parsed."""
OF_A_NAME = re.compile(r"column|table|name$|key")
"""The code of a value that is a name of the policy: nothing says how it is pronounced."""


def names_after_articles(source: str) -> list[str]:
    """The code of names in f-strings right after "a" or "an"."""
    return [
        ast.unparse(value.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.JoinedStr)
        for text, value in itertools.pairwise(node.values)
        if isinstance(text, ast.Constant) and ARTICLE.search(str(text.value))
        if isinstance(value, ast.FormattedValue) and OF_A_NAME.search(ast.unparse(value.value))
    ]


@pytest.mark.full("reads every file")
def test_no_article_stands_before_a_name() -> None:
    files = sorted(Path(dpsql.__file__).parent.rglob("*.py"))
    said = [(f.name, source) for f in files if BEFORE.search(source := f.read_text("utf-8"))]
    named = [(file, name) for file, source in said for name in names_after_articles(source)]
    assert sorted(set(named)) == [("calls.py", "name")]  # century and millennium


def test_a_name_after_an_article_would_be_seen() -> None:
    assert names_after_articles('f"{n} rows have " f"a {column.name} that is lost"')


@pytest.mark.parametrize("reason", list(Reason))
def test_what_the_wire_says_fits_the_wire(reason: Reason) -> None:
    wording = WORDINGS[reason]
    names = set(WIRE.words("0.2"))
    for text in (*wording.headline, *wording.why, *wording.fix):
        ways = {
            name for _, name, _, _ in Formatter().parse(text) if name and name.startswith("by_")
        }
        said = text.format_map(Said(WIRE.words("0.2"))) if ways <= names else ""
        assert not OPTION.search(said), said
