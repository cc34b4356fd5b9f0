"""The README is true: its commands and programs run, and its examples are answered."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpsql.policy import demo

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

PREAMBLE = f"""
dpsql() {{ {shlex.quote(sys.executable)} -m dpsql "$@"; }}
expect() {{
  [ "$1" = "$2" ] || {{ echo "exit code $1 instead of $2: $3"; exit 99; }}
}}
"""

NEEDS = {"jupysql_session.py": "sql"}
"""The module that an example needs and that the extra `test` does not install."""


SERVED = {"ibis_over_the_wire.py": "test_ibis.py runs it"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def script(block: str) -> str:
    """A block of shell lines that checks the exit code of each: 0, or as `# exit N` says."""
    lines = [PREAMBLE]
    for line in block.splitlines():
        code = re.search(r"# exit (\d+)", line)
        lines += [line, f"expect $? {code[1] if code else 0} {shlex.quote(line)}"]
    return "\n".join(lines)


def run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLOOMBER_STATS_ENABLED": "false"}
    environment.pop("DPSQL_ANALYST", None)
    return subprocess.run(  # noqa: S603
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the demo in dpsql-demo/, as the first command leaves it."""
    where = tmp_path_factory.mktemp("readme")
    demo.build(where / "dpsql-demo")
    return where


@pytest.mark.parametrize("block", blocks("sh"))
def test_shell_examples_exit_as_they_say(block: str, directory: Path) -> None:
    done = run(["/bin/bash", "-c", script(block)], directory)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_twin_a_wrong_exit_code_is_caught(directory: Path) -> None:
    block = 'dpsql --policy dpsql-demo/dpsql.toml query "SELECT name FROM customers"\n'
    assert run(["/bin/bash", "-c", script(block)], directory).returncode == 99


@pytest.mark.parametrize("block", blocks("python"))
def test_python_examples_run(block: str, directory: Path) -> None:
    done = run([sys.executable, "-W", "error", "-c", block], directory)
    assert done.returncode == 0, done.stderr
    assert "±" in done.stdout


def test_one_question_functions_survive_the_first_answer(directory: Path) -> None:
    program = (
        "import dpsql\n"
        "sql, policy = 'SELECT COUNT(*) AS n FROM orders', 'dpsql-demo/dpsql.toml'\n"
        "dpsql.ask(sql, policy=policy)\n"
        "assert dpsql.explain(sql, policy=policy).remembered\n"
    )
    done = run([sys.executable, "-W", "error", "-c", program], directory)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "sql", [s.strip() for block in blocks("sql") for s in block.split(";") if s.strip()]
)
def test_sql_examples_are_answered(sql: str, directory: Path) -> None:
    command = [sys.executable, "-m", "dpsql", "--policy", "dpsql-demo/dpsql.toml", "query", sql]
    done = run(command, directory)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", sorted(p.name for p in (ROOT / "examples").glob("*.py")))
def test_examples_run_and_have_a_readme_line(example: str, directory: Path) -> None:
    assert f"`examples/{example}`" in README
    if example in SERVED:
        pytest.skip(f"{example} needs a server: {SERVED[example]}")
    package = NEEDS.get(example, "dpsql")
    if find_spec(package) is None:
        pytest.skip(f"{example} needs {package}, which is not installed")
    script_path = str(ROOT / "examples" / example)
    done = run([sys.executable, "-W", "error", script_path, "dpsql-demo/dpsql.toml"], directory)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    commands = dict(re.findall(r"<!-- command: (\w+) -->\n```\n(.+)\n```", README))
    assert commands.keys() == {"demo", "test"}
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(f"command_of {name}" in ci for name in commands)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
