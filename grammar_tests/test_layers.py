"""The shape of the house: imports go downwards, files and functions stay small."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from dpsql.accountants import ACCOUNTANTS

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "dpsql"
SOURCES = sorted(HOUSE.rglob("*.py"))
FLOORS = (
    "model".split(),
    "functions mechanisms engines consistency".split(),
    "accountants ledgers".split(),
    "compiler policy".split(),
    "dialects release".split(),
    "preparation".split(),
    "vault".split(),
    "answering owner".split(),
    "proxy".split(),
    "interfaces".split(),
    "systems".split(),
)
"""Rooms by floor: a room knows those of the floors below it, and no other."""

FLOORS_OF_THE_COMPILER = (
    "plan".split(),
    "aggregates kernel".split(),
    "resolve".split(),
    "infer".split(),
    "track".split(),
    "errors".split(),
    "calibrate rewrite".split(),
    "notices".split(),
)
STEPS = {"resolve", "track", "infer", "calibrate", "rewrite"}
READS_SQL = {"dpsql/dialects/reading", "dpsql/interfaces/pgwire/catalogue/translation"}
MAX_MODULES_IN_THE_ROOT = 12
MAX_LINES = 600
MAX_FUNCTION = 40

Floors = tuple[list[str], ...]


@pytest.fixture(scope="module", autouse=True)
def _trees_that_are_kept() -> Iterator[None]:
    yield
    nodes.cache_clear()


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Every node of a source: a dozen laws look through the same ones."""
    return tuple(ast.walk(ast.parse(text)))


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module a file imports, lazily or not."""
    found = set()
    for node in nodes(path.read_text()):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def upward(path: Path, modules: frozenset[str], floors: Floors, under: Path = HOUSE) -> list[str]:
    """The rooms `under` a folder that a file imports and that are not on a floor below its own."""
    rank = {name: rank for rank, names in enumerate(floors) for name in names}
    own = path.relative_to(under).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return []
    lead = ".".join(under.relative_to(ROOT).parts) + "."
    rooms = {m.removeprefix(lead).split(".")[0] for m in modules if m.startswith(lead)} - {own}
    return sorted(room for room in rooms if rank.get(room, -1) >= rank[own])


@pytest.mark.full("reads every file of the project")
def test_imports_go_downwards() -> None:
    found = {path: upward(path, imports(path), FLOORS) for path in SOURCES}
    assert {path: rooms for path, rooms in found.items() if rooms} == {}


def test_imports_of_the_compiler_go_downwards() -> None:
    house, floors = HOUSE / "compiler", FLOORS_OF_THE_COMPILER
    steps = [path for path in SOURCES if path.is_relative_to(house)]
    found = {path: upward(path, imports(path), floors, house) for path in steps}
    assert {path: rooms for path, rooms in found.items() if rooms} == {}


def test_an_upward_import_would_be_seen() -> None:
    track = HOUSE / "compiler" / "track" / "track.py"
    wrong = frozenset({"dpsql.release.finish", "dpsql.policy", "dpsql.compiler.errors.outputs"})
    assert upward(track, wrong, FLOORS) == ["policy", "release"]
    assert upward(track, wrong, FLOORS_OF_THE_COMPILER, HOUSE / "compiler") == ["errors"]


def test_a_compiler_step_never_imports_another() -> None:
    for step in STEPS:
        others = {f"dpsql.compiler.{other}.{other}" for other in STEPS - {step}}
        for path in (HOUSE / "compiler" / step).glob("*.py"):
            assert not imports(path) & others


@cache
def package(module: str) -> str | None:
    """The package of a module or of a name in one, None where it is none of ours."""
    names = module.split(".")
    for end in range(len(names), 0, -1):
        path = ROOT.joinpath(*names[:end])
        if path.is_dir():
            return ".".join(names[:end])
        if path.with_suffix(".py").is_file():
            return ".".join(names[: end - 1])
    return None


def in_order(uses: dict[str, set[str]]) -> bool:
    """Whether packages can stand in an order in which each uses only those before it."""
    try:
        list(TopologicalSorter(uses).static_order())
    except CycleError:
        return False
    return True


@pytest.mark.full("reads every file of the project")
def test_packages_do_not_use_each_other() -> None:
    uses: dict[str, set[str]] = {}
    for path in SOURCES:
        if path.parent != HOUSE:
            own = ".".join(path.parent.relative_to(ROOT).parts)
            used = {package(m) for m in imports(path) if m.startswith("dpsql.")}
            uses.setdefault(own, set()).update(p for p in used if p and p not in ("dpsql", own))
    assert in_order(uses)
    assert not in_order(uses | {"dpsql.model": {"dpsql.compiler.track"}})


def test_the_root_has_few_modules_and_rooms_say_what_they_are_for() -> None:
    assert len(list(HOUSE.glob("*.py"))) <= MAX_MODULES_IN_THE_ROOT
    for folder in {path.parent for path in SOURCES}:
        assert ast.get_docstring(module((folder / "__init__.py").read_text()))


def module(text: str) -> ast.Module:
    first = nodes(text)[0]
    assert isinstance(first, ast.Module)
    return first


def test_no_two_files_share_a_name() -> None:
    names = Counter(path.name for path in SOURCES if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1] == []


def test_no_two_public_classes_share_a_name() -> None:
    names = Counter(
        node.name
        for path in SOURCES
        for node in module(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1 and name[0] != "_"] == []


MOST_BY_PLACE = 5
"""Arguments of a constructor whose meaning is their place."""


def by_place(text: str) -> list[str]:
    """Calls of classes with more arguments by place than a reader can tell apart."""
    calls = [node for node in nodes(text) if isinstance(node, ast.Call)]
    return [
        ast.unparse(call.func)
        for call in calls
        if len(call.args) > MOST_BY_PLACE and re.search(r"(^|[._])[A-Z]", ast.unparse(call.func))
    ]


def test_a_constructor_names_what_it_is_given() -> None:
    """But for sqlglot's tokens, which are called as sqlglot calls them."""
    calls = {path.name: by_place(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: set(those) for name, those in calls.items() if {*those} - {"Token"}} == {}


def test_a_constructor_by_place_would_be_seen() -> None:
    assert by_place("Plan(1, 2, 3, 4, 5, 6)") == ["Plan"]
    assert by_place("plan.Plan(1, *two, *three, 4, 5, 6)") == ["plan.Plan"]
    assert by_place("Plan(1, 2, 3, 4, 5, noise=6)") == []


def test_sqlglot_is_imported_only_where_sql_is_read() -> None:
    users = {p for p in SOURCES if any(m.split(".")[0] == "sqlglot" for m in imports(p))}
    assert {p.parent.relative_to(ROOT).as_posix() for p in users} == READS_SQL


ACCOUNTANT_NAMES = frozenset(accountant.name for accountant in ACCOUNTANTS)
NAMES_AN_ACCOUNTANT = {
    ("model/vocabulary.py", "zcdp"),  # what a policy means that says nothing
    ("ledgers/codec.py", "approximate"),  # no accountant: a kind of event in a record
}


def accountants_named(text: str) -> list[str]:
    """The constants of a source that are an accountant's name: its facts are asked of it."""
    constants = [node.value for node in nodes(text) if isinstance(node, ast.Constant)]
    return [value for value in constants if value in ACCOUNTANT_NAMES]


def test_what_depends_on_the_accountant_is_asked_of_it() -> None:
    elsewhere = [path for path in SOURCES if path.parent.name != "accountants"]
    found = {
        (path.relative_to(HOUSE).as_posix(), name)
        for path in elsewhere
        for name in accountants_named(path.read_text())
    }
    assert found == NAMES_AN_ACCOUNTANT


def test_a_branch_on_an_accountant_would_be_seen() -> None:
    assert accountants_named('if budget.accountant == "zcdp": pass') == ["zcdp"]
    assert accountants_named('match accountant.name:\n case "pure": pass') == ["pure"]
    assert accountants_named('"""Under zcdp."""') == []


OWN_ENGINE = "duckdb"
IN_ITS_OWN_FOLDERS = ("engines/duckdb/", "dialects/duckdb/", "preparation/engine_kinds.py")
NAMES_AN_ENGINE = {
    "model/vocabulary.py",  # how analysts spell SQL, whatever the engine is
    "engines/versions.py",  # a package that has to be installed
    "engines/spark/spark_session.py",  # reads the statistics of files by it
    "policy/policy_keys.py",  # sentences of a page
    "policy/load.py",  # what a file is that is no policy
    "policy/demo.py",
    "policy/tour.py",  # writes a database of its own
}


def engine_named(text: str) -> list[str]:
    """What a source names of our own engine, in its code: docstrings and comments may explain."""
    prose = {id(node.value) for node in nodes(text) if isinstance(node, ast.Expr)}
    fields = ("id", "attr", "name", "module", "value")
    named = [getattr(n, field, None) for n in nodes(text) if id(n) not in prose for field in fields]
    return [name for name in named if isinstance(name, str) and OWN_ENGINE in name.lower()]


@pytest.mark.full("measures neighbours or further data sets")
def test_one_factory_knows_the_engine() -> None:
    elsewhere = {
        name: path
        for path in SOURCES
        if not (name := path.relative_to(HOUSE).as_posix()).startswith(IN_ITS_OWN_FOLDERS)
    }
    found = {name for name, path in elsewhere.items() if engine_named(path.read_text())}
    assert found == NAMES_AN_ENGINE


def test_another_who_knows_the_engine_would_be_seen() -> None:
    assert engine_named("from dpsql.engines.duckdb.files import name") == [
        "dpsql.engines.duckdb.files"
    ]
    assert engine_named("DuckDBEngine(database)") == ["DuckDBEngine"]
    assert engine_named("def f(dialect: str = 'duckdb'): pass") == ["duckdb"]
    assert engine_named("sql = f'SELECT * FROM duckdb_columns() {where}'")
    assert engine_named('"""As DuckDB does."""\nx = 1  # DuckDB raises') == []


def too_long(path: Path) -> list[str]:
    """The file, if it has too many lines, and its functions that have."""
    text = path.read_text()
    found = [path.name] if len(text.splitlines()) > MAX_LINES else []
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > MAX_FUNCTION:
                found.append(f"{path.name}: {node.name} has {length} lines")
    return found


def test_files_and_functions_stay_small() -> None:
    assert [what for path in SOURCES for what in too_long(path)] == []


def test_what_is_too_long_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text("def f():\n" + "    pass\n" * MAX_LINES)
    assert too_long(file) == ["long.py", f"long.py: f has {MAX_LINES + 1} lines"]


def test_randomness_comes_from_the_operating_system_only() -> None:
    banned = {"random", "numpy.random"}
    assert not [p for p in SOURCES if imports(p) & banned]
    assert not [p for p in SOURCES if "np.random" in p.read_text()]


ROLES = frozenset("asked found known made wanted told ways kin wishes kept held quoted".split())
"""What is no name of a value or a function: a name says which quantity it holds."""


def roles(text: str) -> list[str]:
    """The variables, parameters, attributes and functions that are named by a role."""
    found = []
    for node in nodes(text):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                found.append(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                found.append(name)
            case ast.FunctionDef(name=name) | ast.MatchAs(name=str(name)):
                found.append(name)
            case _:
                pass
    return [name for name in found if name.strip("_") in ROLES]


@pytest.mark.full("measures neighbours or further data sets")
def test_names_say_the_quantity() -> None:
    by_file = {path.name: roles(path.read_text()) for path in SOURCES}
    assert {file: names for file, names in by_file.items() if names} == {}


def test_a_name_of_a_role_would_be_seen() -> None:
    text = "def _told(asked: int) -> int:\n    found = self._known = asked\n    return found\n"
    assert sorted(roles(text)) == ["_known", "_told", "asked", "found"]
