"""The shape of the house: imports go downwards, files and functions stay small."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "dpsql").rglob("*.py"))
LAYERS = (
    """tree errors intervals schema algebra wishes methods model walk explanation agreement
    comparisons effects link table today ticking flow resources notices versions""".split(),
    "grids plan aggregates functions mechanisms accountants dialects entropy".split(),
    "compiler engines ledgers release histograms policy canonical".split(),
    """kept public public_rows prepare describe settled finish signature running opening streams
    monitor tuning precision questions private_bounds compilation vault two_steps explaining
    workload""".split(),
    "proxy owner".split(),
    "interfaces".split(),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
STEPS = {"parse", "resolve", "track", "infer", "calibrate", "rewrite"}
MAX_LINES = 600
MAX_FUNCTION = 40


def imports(path: Path) -> set[str]:
    """Every module a file imports, lazily or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def upward(path: Path, modules: set[str]) -> list[str]:
    """The imports of a file that go against the layers."""
    own = path.relative_to(ROOT / "dpsql").parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return []
    here = RANK[own]
    parts = {m.split(".")[1] for m in modules if m.startswith("dpsql.")}
    return sorted(p for p in parts if RANK.get(p, -1) > here)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_downwards(path: Path) -> None:
    assert upward(path, imports(path)) == []


def test_an_upward_import_would_be_seen() -> None:
    assert upward(ROOT / "dpsql" / "tree.py", {"dpsql.proxy"}) == ["proxy"]
    assert upward(ROOT / "dpsql" / "compiler" / "track.py", {"dpsql.finish"}) == ["finish"]


def test_a_compiler_step_never_imports_another() -> None:
    for step in STEPS:
        others = {f"dpsql.compiler.{other}" for other in STEPS - {step}}
        assert not imports(ROOT / "dpsql" / "compiler" / f"{step}.py") & others


def test_sqlglot_is_imported_only_by_dialects() -> None:
    users = {p for p in SOURCES if any(m.split(".")[0] == "sqlglot" for m in imports(p))}
    assert users
    assert all(p.relative_to(ROOT / "dpsql").parts[0] == "dialects" for p in users)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= MAX_FUNCTION, f"{node.name} has {length} lines"


def test_randomness_comes_from_the_operating_system_only() -> None:
    banned = {"random", "numpy.random"}
    assert not [p for p in SOURCES if imports(p) & banned]
    assert not [p for p in SOURCES if "np.random" in p.read_text()]
