"""Every demonstration over Adult runs with made-up people, draws, and is in examples/README.md."""

from __future__ import annotations

import runpy
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHARED = {"people"}
NAMES = sorted(p.stem for p in (ROOT / "examples" / "adult").glob("*.py") if p.stem not in SHARED)
PNG = b"\x89PNG\r\n\x1a\n"


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", f"examples.adult.{name}", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)  # noqa: S603


@pytest.mark.parametrize("name", NAMES)
def test_demonstrations_have_a_line(name: str) -> None:
    assert f"`examples.adult.{name}`" in (ROOT / "examples" / "README.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.full("a page is run as its reader would")
@pytest.mark.skipif(find_spec("matplotlib") is None, reason="the extra plot is not installed")
@pytest.mark.parametrize("name", NAMES)
def test_demonstrations_run_and_draw(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, which has imported what each of them would import again."""
    picture = tmp_path / "picture.png"
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setattr(sys, "argv", [name, "-o", str(picture)])
    runpy.run_module(f"examples.adult.{name}", run_name="__main__")
    import_module("matplotlib.pyplot").close("all")
    printed = capsys.readouterr().out
    assert any(letter.isdigit() for letter in printed.replace(str(picture), ""))
    assert picture.read_bytes().startswith(PNG)


@pytest.mark.full("starts processes")
def test_a_demonstration_needs_no_plot() -> None:
    done = run("count", "--no-plot")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ε = 1: " in done.stdout
    assert "plot" not in done.stdout


@pytest.mark.full("starts processes")
def test_without_matplotlib_the_extra_is_named(tmp_path: Path) -> None:
    program = (
        "import runpy, sys\n"
        "sys.modules['matplotlib'] = None\n"
        f"sys.argv = ['count', '-o', {str(tmp_path / 'never.png')!r}]\n"
        "runpy.run_module('examples.adult.count', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)  # noqa: S603
    assert done.returncode == 1
    assert "pip install 'dpsql[plot]'" in done.stderr
    assert not (tmp_path / "never.png").exists()
