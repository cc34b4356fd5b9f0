"""Forked workers are like started ones; the tests of processes have started ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpsql.engines import Stop
from dpsql.engines import process as engine_process
from dpsql.engines.remote import RemoteObject
from grammar_tests import forked_workers
from grammar_tests.forked_workers import FORKING, STARTED, ForkedProcess, use_for

SECONDS = 60.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


class Witness:
    """An object in a worker, which says what its process has."""

    def tell(self, stop: Stop) -> dict[str, Any]:  # noqa: ARG002
        links = [path for path in Path("/proc/self/fd").iterdir() if path.exists()]
        return {
            "parent": os.getppid(),
            "session": os.getsid(0) == os.getpid(),
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "path": sys.path,
            "descriptors": sorted(str(each.readlink()).split(":")[0] for each in links),
        }


def told() -> dict[str, Any]:
    with RemoteObject(partial(Witness), "1GB", SECONDS) as worker:
        answer: dict[str, Any] = worker.ask(Stop(), "tell")
        return answer


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    use_for("test_forked_workers")


@pytest.mark.full("measures neighbours or further data sets")
def test_a_forked_worker_is_like_a_started_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    use_for("test_spill")
    started = told()
    use_for("test_cases")
    forked = told()
    assert forked == started
    assert forked["parent"] == os.getpid()
    assert forked["folder"] == str(tmp_path)


def test_an_environment_of_its_own_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_more(command: list[str], env: dict[str, str], **options: Any) -> ForkedProcess:
        return forked_workers._FORKERS.popen(command, env=env | {"MORE": "1"}, **options)

    use_for("test_spill")
    started = told()
    use_for("test_cases")
    monkeypatch.setattr(FORKING, "Popen", with_more)
    assert told()["environment"] == started["environment"] | {"MORE": "1"}


def test_the_end_of_a_forked_worker_is_seen() -> None:
    use_for("test_cases")
    with RemoteObject(partial(Witness), "1GB", SECONDS) as worker:
        worker.open()
        assert worker._worker is not None
        process: Any = worker._worker._process
        assert isinstance(process, ForkedProcess)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.001)
        assert process.poll() is None
        process.kill()
        assert process.wait(SECONDS) == process.poll() == -9
        assert worker.ask(Stop(), "tell")["parent"] == os.getpid()
        assert worker._worker._process.pid != process.pid


def test_tests_of_processes_start_them() -> None:
    folder = Path(__file__).parent
    assert [name for name in STARTED if not (folder / f"{name}.py").exists()] == []
    for name in STARTED:
        use_for(name)
        assert vars(engine_process)["subprocess"] is subprocess
