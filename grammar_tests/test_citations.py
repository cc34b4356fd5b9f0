"""The argument and the code name one another, and every name exists.

`dpsql/PRIVACY.md` and `dpsql/SECURITY.md` hold rules with numbers. Code cites them, they name the
modules that they are about and the tests that would notice, and whoever claims a bound, a loss or
a rule for an operator has the heading "Proof" in the docstring of its module.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from math import comb, log2
from pathlib import Path

import pytest

from dpsql.interfaces.pgwire.pacing import OUTCOMES, later_steps
from dpsql.model.resources import Limits
from grammar_tests.test_layers import FLOORS

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "dpsql"
DOCUMENTS = {"PRIVACY.md": "R", "SECURITY.md": "S"}
SOURCES = sorted(HOUSE.rglob("*.py"))
READERS = sorted(
    path
    for folder in ("dpsql", "grammar_tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md", ".sql", ".toml") and path != Path(__file__)
)

_NUMBERS = r"[A-Z]\d+(?:(?:, | and | to )[A-Z]\d+)*"
_MENTION = re.compile(
    rf"(?i:(?P<document>privacy|security)\.md)(?:,? (?P<rules>{_NUMBERS}))?",
)
_PROOF = re.compile(r"(?m)^Proof \(PRIVACY\.md (?P<rules>[R\d, \n]+)\)")
_RULE = re.compile(r"(?ms)^### (?P<name>[RS]\d+)\. (?P<title>[^\n]+)\n(?P<body>.*?)(?=^#|\Z)")
_NAMED = re.compile(r"`([^`]+)`")

PROVED = [f"R{number}" for number in range(2, 63) if number != 6]
"""The rules whose proof has a heading in the docstring of a module: all but the first promises, and
what follows from released numbers alone."""

CLAIMS = frozenset(
    """Sensitivity NoiseEvent SelectionEvent BoundedRangeEvent ApproximateEvent Contribution
    Key""".split()
)
"""Who makes one of these claims something of private data."""

NO_CLAIM = {
    "mechanisms": "__init__ error laws shown_counts".split(),
    "aggregates": "__init__ candidates formulas".split(),
    "accountants": "__init__ base preference remaining reports".split(),
}
"""Modules of these packages that are no mechanism, aggregate or accountant."""

OTHERS = frozenset({"codec.py", "tuning.py"})
"""They read such claims from a record, or predict with them what a question would cost."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a document: its number, what is said, and the names in its last lines."""

    name: str
    body: str

    def line(self, word: str) -> list[str]:
        found = re.search(rf"(?m)^\*{word}:\* (.+)$", self.body)
        return _NAMED.findall(found[1]) if found else []

    @property
    def code(self) -> list[str]:
        return self.line("Code")

    @property
    def tests(self) -> list[str]:
        return self.line("Tests")


def read(text: str) -> list[Rule]:
    """The rules of a document, in their order."""
    return [Rule(found["name"], found["body"]) for found in _RULE.finditer(text)]


@cache
def rules() -> dict[str, Rule]:
    listed = [rule for name in DOCUMENTS for rule in read((HOUSE / name).read_text("utf-8"))]
    assert len({rule.name for rule in listed}) == len(listed)
    return {rule.name: rule for rule in listed}


def plain(text: str) -> str:
    """The text of a source file without what only divides its lines."""
    return re.sub(r"\s*\n[\s#*-]*", " ", text)


def cited(text: str) -> Iterator[str]:
    """The rules that a text cites; a document that it names without a rule, as that document."""
    for found in _MENTION.finditer(plain(text)):
        document = found[0][: len(found["document"]) + 3]
        numbers = re.findall(r"[A-Z]\d+", found["rules"] or "")
        fitting = document in DOCUMENTS and all(n[0] == DOCUMENTS[document] for n in numbers)
        yield from numbers if numbers and fitting else [found[0] if numbers else document]


def dangling(text: str) -> list[str]:
    """What a text cites that is no rule: an unknown number, or a document of another spelling."""
    return [name for name in cited(text) if name not in rules() and name not in DOCUMENTS]


_DOTTED = re.compile(r"`((?:[a-z_]+\.)+\w+)`")
_FILE = re.compile(r".*\.(csv|duckdb|mark|md|parquet|py|sql|toml)")


@cache
def modules() -> dict[str, Path]:
    """Every module and package of the house under its dotted name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCES
    }


def lost(text: str) -> list[str]:
    """The modules that a text names in dots, perhaps with what is in them, and that are nowhere."""
    names = [n for n in _DOTTED.findall(text) if not _FILE.fullmatch(n)]
    rooms = {part for name in modules() for part in name.split(".")}
    return [n for n in names if n.split(".")[0] in rooms and not _is_module(n)]


def _is_module(name: str) -> bool:
    known = [known for known in modules() if f".{known}".endswith(f".{name}")]
    holder, _, part = name.rpartition(".")
    inside = [path for known, path in modules().items() if f".{known}".endswith(f".{holder}")]
    return bool(known) or any(
        re.search(rf"(?m)^ *(class |def )?\"?{part}\b", path.read_text("utf-8")) for path in inside
    )


def docstring(path: Path) -> str:
    """That of the module, with which a file begins."""
    text = path.read_text("utf-8").removeprefix("r")
    return text.split('"""', 2)[1] if text.startswith('"""') else ""


def headed(text: str) -> set[str]:
    """The rules whose proof a docstring has."""
    return {n for found in _PROOF.finditer(text) for n in re.findall(r"R\d+", found["rules"])}


@cache
def known_tests() -> frozenset[str]:
    """Every test by file and name."""
    return frozenset(
        f"{path.name}::{name}"
        for path in (ROOT / "grammar_tests").glob("test_*.py")
        for name in re.findall(r"(?m)^(?:async )?def (test_\w+)", path.read_text("utf-8"))
    )


def called(name: str) -> list[Path]:
    """The modules of that name, wherever they stand."""
    return [path for path in SOURCES if f"/{path.relative_to(ROOT)}".endswith(f"/{name}")]


def wrong_names(rule: Rule) -> list[str]:
    """The names in a rule that nothing has, and the modules that do not cite it."""
    modules = [
        name
        for name in rule.code
        if not any(rule.name in cited(path.read_text("utf-8")) for path in called(name))
    ]
    return modules + [name for name in rule.tests if name not in known_tests()]


def claims(path: Path, text: str) -> bool:
    """Whether a module is a mechanism, an aggregate, an accountant, or a rule for an operator."""
    if path.name in OTHERS:
        return False
    package = path.relative_to(HOUSE).parts[-2] if path.parent != HOUSE else ""
    if package in NO_CLAIM:
        return path.stem not in NO_CLAIM[package]
    if not any(name in text for name in (*CLAIMS, "Private")):
        return False
    return any(map(_is_claim, ast.walk(ast.parse(text))))


def _is_claim(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in CLAIMS
        case ast.FunctionDef(returns=returned) if returned is not None:
            return any(isinstance(n, ast.Name) and n.id == "Private" for n in ast.walk(returned))
        case _:
            return False


RESERVED = {f"R{n}" for n in (95, 107)}
"""Numbers that were given to rules which are not written yet."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_rules_are_numbered_without_gaps(name: str) -> None:
    found = [rule.name for rule in read((HOUSE / name).read_text("utf-8"))]
    assert len(found) == len(set(found)) > 10
    most = max(int(rule.removeprefix(DOCUMENTS[name])) for rule in found)
    assert {f"{DOCUMENTS[name]}{n + 1}" for n in range(most)} - set(found) <= RESERVED


def parts_of_head(text: str) -> dict[str, set[int]]:
    """Return the rules that the head of PRIVACY.md lists for each part."""
    rows = re.findall(r"(?m)^\| \[[^]]+\]\(#[a-z-]+\) \| (R[R\d–, ]+) \|$", text)
    spans = [re.findall(r"R(\d+)(?:–R(\d+))?", row) for row in rows]
    parts = re.findall(r"(?m)^\| \[([^]]+)\]\(#[a-z-]+\) \| R", text)
    numbers = [{n for a, b in row for n in range(int(a), int(b or a) + 1)} for row in spans]
    return dict(zip(parts, numbers, strict=True))


def parts_of_text(text: str) -> dict[str, set[int]]:
    """Return the rules of each part of PRIVACY.md, by its headings."""
    parts = re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", text)
    rules_of = {part: {int(n) for n in re.findall(r"(?m)^### R(\d+)", it)} for part, it in parts}
    return {part: numbers for part, numbers in rules_of.items() if numbers}


def test_the_head_lists_the_rules_of_each_part() -> None:
    assert parts_of_head(PRIVACY) == parts_of_text(PRIVACY)
    assert parts_of_head(PRIVACY.replace(", R115 |", " |")) != parts_of_text(PRIVACY)
    most = max(n for numbers in parts_of_text(PRIVACY).values() for n in numbers)
    assert f"`R1` to `R{most}`" in PRIVACY


def indexed(text: str) -> set[tuple[str, str]]:
    """Return the pairs of a file and a rule in the index of PRIVACY.md."""
    rows = re.findall(r"(?m)^\| `(\w+\.py)` \| (R[R\d, ]+) \|$", text)
    return {(file, rule) for file, listed in rows for rule in listed.split(", ")}


def code_lines() -> set[tuple[str, str]]:
    """Return the pairs of a file and a rule by the lines `Code` of the rules."""
    return {(file, rule.name) for rule in read(PRIVACY) for file in rule.code}


PRIVACY = (HOUSE / "PRIVACY.md").read_text("utf-8")


def test_the_index_by_file_is_true() -> None:
    """It may lack what was added since: a twentieth at most."""
    assert indexed(PRIVACY) - code_lines() == set()
    assert len(code_lines() - indexed(PRIVACY)) <= len(code_lines()) / 20


def test_wrong_twin_a_false_row_of_the_index_is_seen() -> None:
    assert indexed("| `units.py` | R2, R999 |") - code_lines() == {("units.py", "R999")}


@pytest.mark.parametrize("name", sorted(rules()))
def test_a_rule_says_what_holds_why_where_and_who_would_notice(name: str) -> None:
    rule = rules()[name]
    assert re.search(r"(?m)^\*Claim\.\* ", rule.body)
    assert name[0] == "S" or re.search(r"(?m)^\*(Proof|Source)\.\* ", rule.body)
    assert rule.code
    assert rule.tests
    assert wrong_names(rule) == []


def test_names_that_nothing_has_would_be_seen() -> None:
    body = "*Code:* `units.py`, `nowhere.py`, `ticking.py`\n*Tests:* `test_laws.py::test_nothing`\n"
    wrong = ["nowhere.py", "ticking.py", "test_laws.py::test_nothing"]
    assert wrong_names(Rule("R2", body)) == wrong


@pytest.mark.full("measures neighbours or further data sets")
def test_what_is_cited_exists() -> None:
    assert {path: wrong for path in READERS if (wrong := dangling(path.read_text("utf-8")))} == {}


@pytest.mark.full("measures neighbours or further data sets")
def test_code_says_which_rule() -> None:
    texts = {path: path.read_text("utf-8") for path in SOURCES}
    assert [p for p, text in texts.items() if DOCUMENTS.keys() & set(cited(text))] == []


@pytest.mark.full("draws random questions or values")
def test_modules_that_are_named_exist() -> None:
    readers = [*(path for path in READERS if path.suffix == ".py"), *GUIDES]
    assert {path: wrong for path in readers if (wrong := lost(path.read_text("utf-8")))} == {}
    assert lost("`mechanisms.draw`, `units.attach_unit`, `o.amount`") == []
    assert lost("`mechanisms.nowhere`, `units.nobody`") == ["mechanisms.nowhere", "units.nobody"]


def test_a_citation_of_nothing_would_be_seen() -> None:
    assert dangling("See PRIVACY.md R12, R999 and (SECURITY.md S1).") == ["R999"]
    assert dangling("(privacy.md, section 3)") == ["privacy.md"]
    assert dangling("# as PRIVACY.md\n# R998 says") == ["R998"]
    assert dangling("SECURITY.md R2") == ["SECURITY.md R2"]
    assert list(cited("as PRIVACY.md says")) == ["PRIVACY.md"]


@pytest.mark.full("measures neighbours or further data sets")
def test_whoever_claims_has_a_proof() -> None:
    """The heading is "Proof (PRIVACY.md R…)." at the beginning of a line of the docstring."""
    claiming = [path for path in SOURCES if claims(path, path.read_text("utf-8"))]
    assert len(claiming) > 40
    assert [path for path in claiming if not headed(docstring(path))] == []


def test_a_claim_without_a_proof_would_be_seen() -> None:
    new = HOUSE / "compiler" / "new.py"
    assert claims(new, "x = Sensitivity(1, 0, 1)")
    assert claims(new, "def rule(a: Join) -> _Open | Private: ...")
    assert claims(HOUSE / "mechanisms" / "new.py", "")
    assert not claims(new, "def rule(a: Private) -> int: ...")
    assert not headed(
        "The proof (PRIVACY.md R2) is elsewhere. Proof (PRIVACY.md R3). Not a heading."
    )


def test_every_proof_has_its_heading_somewhere() -> None:
    found: set[str] = set[str]().union(*(headed(docstring(path)) for path in SOURCES))
    assert [name for name in PROVED if name not in found] == []
    assert sorted(found - rules().keys()) == []


def test_what_is_looked_for_is_there() -> None:
    """Names in this file that nothing has any more would make it look at nothing."""
    classes = set(_classes(SOURCES))
    assert classes >= CLAIMS | {"Private"}
    assert {path.name for path in SOURCES} >= OTHERS
    for package, stems in NO_CLAIM.items():
        assert {path.stem for path in SOURCES if path.parent.name == package} >= set(stems)


def _classes(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from re.findall(r"(?m)^class (\w+)", path.read_text("utf-8"))


GUIDES = sorted(
    [
        *HOUSE.glob("*.md"),
        *ROOT.glob(".github/*.md"),
        ROOT / "README.md",
        ROOT / "grammar_tests/README.md",
    ]
)
"""What is written for those who work on the house, and names its parts."""

_PATH = re.compile(r"[\w.][\w./-]*(?:\.(?:py|md|sql|toml|yml)|/)")
_LINK = re.compile(r"\]\((?!http)([^)#]+)")


def missing_paths(guide: Path, text: str) -> list[str]:
    """The files and folders that a guide names and that are nowhere."""
    named = [name for name in _NAMED.findall(text) if _PATH.fullmatch(name)] + _LINK.findall(text)
    return sorted({name for name in named if not _is_somewhere(guide, name)})


def _is_somewhere(guide: Path, name: str) -> bool:
    homes = (guide.parent, ROOT, HOUSE, ROOT / "grammar_tests")
    if any((home / name).exists() for home in homes):
        return True
    return any(f"/{path.relative_to(ROOT)}/".endswith(f"/{name.rstrip('/')}/") for path in _parts())


@cache
def _parts() -> tuple[Path, ...]:
    return tuple({*SOURCES, *(path.parent for path in SOURCES)})


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: str(path.relative_to(ROOT)))
def test_guides_name_what_there_is(guide: Path) -> None:
    text = guide.read_text("utf-8")
    tests = [name for name in _NAMED.findall(text) if "::" in name]
    assert missing_paths(guide, text) == []
    assert [name for name in tests if name not in known_tests()] == []


def test_a_guide_to_nowhere_would_be_seen() -> None:
    guide = HOUSE / "README.md"
    text = "`units.py`, `compiler/`, `nowhere.py`, `attic/` and [a link](PRIVACY.md), [none](no.md)"
    assert missing_paths(guide, text) == ["attic/", "no.md", "nowhere.py"]


def test_the_guides_of_the_house_are_shipped() -> None:
    """The wheel holds the package as it is, and leaves nothing of it out."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        build = tomllib.load(file)["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    assert wheel["packages"] == ["dpsql"]
    assert set(build["targets"]) == {"wheel"}
    assert set(wheel) == {"packages", "shared-data"}
    assert all((ROOT / place).is_dir() for place in wheel["shared-data"])
    assert {path.name for path in GUIDES if path.parent == HOUSE} >= {"README.md", *DOCUMENTS}
    ignored = (ROOT / ".gitignore").read_text("utf-8").split()
    assert not {"*.md", "docs/"} & set(ignored)


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the one table below a heading, without its own."""
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]


def test_the_map_has_every_room_on_its_floor() -> None:
    rows = table((HOUSE / "README.md").read_text("utf-8"), "The rooms")
    rooms = {
        name.strip("`/"): int(floor) for floor, name, _ in ([c.strip() for c in r] for r in rows)
    }
    folders = {path.parent.relative_to(HOUSE).as_posix() for path in SOURCES} - {"."}
    assert {name for name in rooms if not name.endswith(".py")} == folders
    floors = {name: n for n, names in enumerate(FLOORS, start=1) for name in names}
    assert {name: floors[name.split("/")[0].removesuffix(".py")] for name in rooms} == rooms


def test_the_types_on_the_arrows_exist() -> None:
    picture = (HOUSE / "README.md").read_text("utf-8").partition("```")[2].partition("```")[0]
    types = set(re.findall(r"(?m)^ +│ (\w+)", picture))
    assert len(types) == 11
    assert sorted(types - set(_classes(SOURCES))) == []


def glossary(text: str) -> list[str]:
    """What the code calls the words of the last column of the glossary."""
    return [name for row in table(text, "Glossary") for name in _NAMED.findall(row[-1])]


_KNOWN = re.compile(r"(?m)^ *(?:(?:class|def) )?(\w+)")


def unknown_names(names: Iterable[str]) -> list[str]:
    """The names that are no class, function, field or constant of the house."""
    known = {name for path in SOURCES for name in _KNOWN.findall(path.read_text("utf-8"))}
    return [name for name in names if name not in known]


@pytest.mark.full("measures neighbours or further data sets")
def test_the_glossary_speaks_of_what_there_is() -> None:
    names = glossary((HOUSE / "README.md").read_text("utf-8"))
    assert len(names) > 40
    assert unknown_names(names) == []
    assert unknown_names(["PrivacyUnit", "PrivacyAtom"]) == ["PrivacyAtom"]


def test_the_workflow_calls_what_the_contributor_calls() -> None:
    workflow = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    assert "- run: .ci/run\n" in workflow
    assert "`.ci/run`" in (ROOT / ".github/CONTRIBUTING.md").read_text("utf-8")
    assert (ROOT / ".ci/run").stat().st_mode & 0o100


def bits(questions: int, late: int, steps: int) -> float:
    """What the times of so many questions tell, of which at most so many are late."""
    return log2(sum(comb(questions, n) * steps**n for n in range(late + 1)))


def test_the_bits_that_time_tells_are_as_said() -> None:
    said = " ".join(rules()["R70"].body.split())
    late = later_steps(Limits().statement_seconds) * OUTCOMES
    figures = [round(bits(questions, 20, late)) for questions in (100, 100_000)]
    assert "{} of 100 questions and {} of 100,000".format(*figures) in said
    assert f"`max_late` = 20, G = {late // OUTCOMES} and K = {OUTCOMES}" in said
