"""The README and every page are true: commands and programs run, and print what stands below."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpsql.compiler.aggregates import _ROWS, _WINDOWS
from dpsql.functions import REGISTRY
from dpsql.model.errors import Reason
from dpsql.policy import demo
from dpsql.policy.policy_keys import DEFAULTS, KEYS, PolicyKey
from dpsql.preparation import engine_kinds
from grammar_tests.pages_kit import (
    LANGUAGES,
    ROOT,
    blocks,
    differences,
    holds,
    merge,
    run,
    unlike,
)

PAGES = {path.stem: path for path in sorted((ROOT / "dpsql" / "docs").glob("*.md"))}
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
NEEDS = {"jupysql_session.py": "sql"}
"""The module that an example needs and that the extra `test` does not install."""

SERVED = {"ibis_over_the_wire.py": "test_ibis.py runs it"}


def page(name: str) -> str:
    return PAGES[name].read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo.build(tmp_path_factory.mktemp("built")).parent


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A folder with the small shop of the pages in dpsql-demo/."""
    shutil.copytree(built, tmp_path / "dpsql-demo")
    return tmp_path


# --- what is written is run ---


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


@pytest.mark.full("starts processes")
def test_the_readme_does_and_prints_what_it_says(tmp_path: Path, *, update: bool) -> None:
    """Its first command shows the tour, which spends a part of the budget."""
    assert run([sys.executable, "-m", "dpsql", "demo"], tmp_path).returncode == 0
    holds(ROOT / "README.md", tmp_path, update=update)
    shown = re.search(r"^```text\n\$ dpsql (.*?)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert shown is not None
    command, says = shown.groups()
    asked = [sys.executable, "-m", "dpsql", *shlex.split(command)]
    printed = run(asked, tmp_path / "dpsql-demo").stdout
    bars = re.compile(r"[█├┼─┤]+ *(?=\d)")
    assert not [*unlike("its first query", bars.sub("█ ", says), bars.sub("█ ", printed))]
    assert [*unlike("its first query", bars.sub("█ ", says), printed.replace("business", "old"))]


@pytest.mark.full("a page is run as its reader would")
@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"deployment"}))
def test_a_page_does_and_prints_what_it_says(name: str, folder: Path, *, update: bool) -> None:
    """That on deployment is run beside its files: test_production.py."""
    holds(PAGES[name], folder / "dpsql-demo", update=update)


@pytest.mark.full("a page is run as its reader would")
def test_the_tutorials_do_and_print_what_they_say(tmp_path: Path, *, update: bool) -> None:
    """The analyst goes on where the owner has ended."""
    holds(ROOT / "examples" / "owner.md", tmp_path, update=update)
    holds(ROOT / "examples" / "analyst.md", tmp_path, update=update)


@pytest.mark.full("measures neighbours or further data sets")
def test_an_update_writes_what_was_printed(folder: Path) -> None:
    path, block = folder / "page.md", "```console\n$ echo 1\n{}$ echo \\\n> 2\n2\n```\n"
    path.write_text(block.format(""), encoding="utf-8")
    with pytest.raises(AssertionError, match="says"):
        holds(path, folder)
    holds(path, folder, update=True)
    assert path.read_text(encoding="utf-8") == block.format("1\n")
    path.write_text(block.format("…\n3\n"), encoding="utf-8")
    with pytest.raises(AssertionError, match="says"):
        holds(path, folder, update=True)


ASKED = 'dpsql query "SELECT name FROM customers"'
BELOW = "hidden-column at 1:8: Column name is hidden.\n…\n"


@pytest.mark.parametrize(
    "wrong",
    [
        f"```sh\n{ASKED}\n```",
        *(
            pytest.param(page, marks=pytest.mark.full("starts processes"))
            for page in (
                f"```sh\n{ASKED}   # exit 4\n```",
                f"```console\n$ {ASKED}   # exit 4\n{BELOW}```",
                f"```console\n$ {ASKED}   # exit 3\n{BELOW}and more\n```",
                f"```console\n$ {ASKED}   # exit 3\n```",
            )
        ),
        f"```console\n$ {ASKED}   # exit 3\n{BELOW.replace('1:8', '1:9')}```",
        "```python\nprint(1)\n```\n\n```text\n2\n```",
        "```python\n1 / 0\n```",
        "```sql\nSELECT COUNT(*) FROM customers;\nSELECT name FROM customers;\n```",
    ],
)
def test_wrong_twin_a_page_that_is_not_so_is_caught(wrong: str, folder: Path) -> None:
    assert [*differences(f"# Page\n\n{wrong}\n", folder / "dpsql-demo")] != []


@pytest.mark.parametrize(
    ("says", "prints", "alike"),
    [
        ("n\n490 ± 20", "n\n502 ± 20", True),
        ("n\n38 ± 43", "n\n22 (0 … 65)", True),
        ("n\n38 ± 43", "n\n900 (857 … 943)", False),
        ("n\n490 ± 20", "n\n690 ± 20", False),
        ("n\n490 ± 20", "n\n490 ± 50", False),
        ("n\n490", "n\n491", False),
        ("n\n490 ± ?", "n\n491 ± ?", True),
        ("n\n490 ± ?", "n\nx ± ?", False),
        ("a b\nc", "a\nb c", True),
        ("query 0123456789abcdef", "query fedcba9876543210", True),
        ("a\n…\nd", "a b c d", True),
        ("a\n…\nd", "a b c d e", False),
        ("a\n…\nc\n…\n", "a b c d e", True),
        ("a\n…\nx\n…\n", "a b c d e", False),
        ("a", "a b", False),
    ],
)
def test_numbers_may_differ_by_their_noise_and_nothing_else(
    says: str, prints: str, *, alike: bool
) -> None:
    assert (not [*unlike("", says, prints)]) == alike


def test_blocks_are_of_known_languages() -> None:
    texts = [README, EXAMPLES, *map(page, PAGES)]
    assert {b.language for text in texts for b in blocks(text)} <= LANGUAGES


@pytest.mark.full("a page is run as its reader would")
def test_one_question_functions_survive_the_first_answer(folder: Path) -> None:
    program = (
        "import dpsql\n"
        "sql, policy = 'SELECT COUNT(*) AS n FROM orders', 'dpsql-demo/dpsql.toml'\n"
        "assert '<table>' in dpsql.ask(sql, policy=policy)._repr_html_()\n"
        "assert dpsql.explain(sql, policy=policy).remembered\n"
    )
    done = run([sys.executable, "-W", "error", "-c", program], folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.full("a page is run as its reader would")
@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.py")))
def test_examples_run_and_have_a_line(example: str, folder: Path) -> None:
    assert f"`{example}`" in EXAMPLES
    if example in SERVED:
        pytest.skip(f"{example} needs a server: {SERVED[example]}")
    package = NEEDS.get(example, "dpsql")
    if find_spec(package) is None:
        pytest.skip(f"{example} needs {package}, which is not installed")
    script = str(ROOT / "examples" / example)
    done = run([sys.executable, "-W", "error", script, "dpsql-demo/dpsql.toml"], folder)
    assert done.returncode == 0, done.stdout + done.stderr


# --- nothing is left out ---


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    commands = dict(re.findall(r"<!-- command: (\w+) -->\n```\n(.+)\n```", README))
    assert commands.keys() == {"demo", "test"}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(f"command_of {name}" in ci for name in commands)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_readme_is_short_and_links_to_every_page() -> None:
    assert len(README.splitlines()) <= 200
    assert [name for name in PAGES if f"(dpsql/docs/{name}.md)" not in README] == []


def dead_links(path: Path, text: str) -> list[str]:
    """Relative links of a page that lead nowhere."""
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text)
    return [target for target in targets if not (path.parent / target).exists()]


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *(ROOT / "examples").glob("*.md"), *PAGES.values()]
)
def test_links_lead_somewhere(path: Path) -> None:
    assert dead_links(path, path.read_text(encoding="utf-8")) == []
    assert dead_links(path, "[nowhere](nowhere.md)") == ["nowhere.md"]


def rows_of_keys(*sections: str) -> str:
    """The table of the page on the policy, as the rows of its keys print it."""
    lines, names = ["| key | says |", "|---|---|"], list[str]()
    for section in sections:
        for key in KEYS[section]:
            names.append(f"`{key.name}`")
            if key.says:
                lines.append(f"| {', '.join(names)} | {sentence(section, key)} |")
                names.clear()
    assert names == [], "the last key of a table has a sentence"
    return "\n".join(lines) + "\n"


def sentence(section: str, key: PolicyKey) -> str:
    """The sentence of a key with the defaults that it names."""

    def default(match: re.Match[str]) -> str:
        value = getattr(DEFAULTS[section], match[1])
        return f"{value}" if isinstance(value, str) else f"{value:{',' if value >= 1e4 else 'g'}}"

    return re.sub(r"<(\w+)>", default, key.says)


def with_rows_of_keys(text: str) -> str:
    """The page on the policy, with the tables that the rows of its keys print."""
    heads = {"tables.T.file": "### Text files", "roles.R.tables.T": "## [roles.R]"}
    by_head: dict[str, list[str]] = {}
    for section, keys in KEYS.items():
        if any(key.says for key in keys):
            by_head.setdefault(heads.get(section, f"## [{section}]"), []).append(section)
    for head, sections in by_head.items():
        begin = text.index("| key | says |\n", text.index(f"\n{head}\n"))
        end = (text + "\n").index("\n\n", begin) + 1
        text = text[:begin] + rows_of_keys(*sections) + text[end:]
    return text


def test_the_page_on_the_policy_prints_the_rows_of_all_keys(*, update: bool) -> None:
    text = page("policy")
    if update:
        PAGES["policy"].write_text(text := with_rows_of_keys(text), encoding="utf-8")
    assert text == with_rows_of_keys(text)
    wrong = text.replace("default 10,000", "default 1,000")
    assert wrong != with_rows_of_keys(wrong)
    engine = engine_kinds.get("duckdb")
    assert {key.name for key in KEYS["database"]} == {"engine", "public", *engine.keys}


def test_a_fragment_replaces_the_tables_that_it_names() -> None:
    assert merge("[a]\nx = 1\n[b]\ny = 2\n", "[a]\nx = 3\n") == "[b]\ny = 2\n\n[a]\nx = 3\n"


def rows_of_reasons(text: str) -> dict[str, tuple[str, ...]]:
    """What the page on errors says of each reason: exit, SQLSTATE, meaning, remedy."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", text, re.MULTILINE)
    return {reason: tuple(cells.split(" | ")) for reason, cells in rows}


def test_the_page_on_errors_has_every_reason_with_its_meaning_and_remedy() -> None:
    rows = rows_of_reasons(page("errors"))
    assert rows.keys() == {reason.value for reason in Reason}
    assert [reason for reason, cells in rows.items() if len(cells) != 4 or "" in cells] == []


OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "int_div": "//",
    "mod": "%",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_not": "~",
    "lt": "<",
    "le": "<=",
    "eq": "=",
    "ne": "<>",
    "gt": ">",
    "ge": ">=",
    "is_distinct": "IS DISTINCT FROM",
    "is_not_distinct": "IS NOT DISTINCT FROM",
    "is_null": "IS NULL",
    "timezone": "AT TIME ZONE",
}
"""How an operator is written, where it is not by its name."""

UNWRITTEN = {
    *("pg_div", "neg", "add_days", "json_text", "local_estimate"),
    *("age_part", "age_seconds", "age_us", "interval_of", "interval_us"),
}
"""Rows that stand for what is written otherwise: a division in Postgres' spelling, a sign, a date
plus a number, a part of a value in JSON, what is done with a length of time, what is
estimated of people's reports.
"""


def section(text: str, head: str) -> str:
    return text.partition(f"\n## {head}\n")[2].partition("\n## ")[0]


def test_the_page_on_sql_has_every_function_and_no_other() -> None:
    paragraphs = section(page("sql"), "Functions").split("\n\n")
    listed = " ".join(text for text in paragraphs if text.strip().startswith("**"))
    told = re.findall(r"`([^`]+)`", listed.replace("\n", " "))
    expected = [OPERATORS.get(name, name.upper()) for name in REGISTRY if name not in UNWRITTEN]
    assert sorted(told) == sorted(expected)


def unnamed(text: str) -> Iterator[str]:
    """Aggregates and window functions that a page does not name."""
    for name in [*_ROWS, *_WINDOWS]:
        written = "REGR_…" if name.startswith("regr_") else rf"\b{name.upper()}\b"
        if not re.search(written, text):
            yield name


def test_the_page_on_sql_has_every_aggregate_and_window_function() -> None:
    assert [*unnamed(page("sql"))] == []
    assert "median" in unnamed("COUNT(*)")
