"""Options of the suite, what makes every run the same, and a proxy that a module's tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from dpsql.mechanisms.entropy import Entropy
from dpsql.preparation import offers
from dpsql.proxy import Proxy
from grammar_tests import forked_workers, postgres_kit
from grammar_tests.draws import STREAM
from grammar_tests.proxy_kit import shop
from grammar_tests.session_kit import Client
from grammar_tests.skips import complaint

HERE = Path(__file__).resolve().parent
UNSELECTED = pytest.StashKey[int]()
REST = (
    "`pytest -m full` runs the slow ones, `pytest -m campaign` and `pytest -m tools` those by hand."
)

collect_ignore = [
    "sqlalchemy_suite",  # with a pytest plugin of its own: test_sqlalchemy_suite.py
    "clients",  # programs that test_more_clients.py runs
    *("mutants.py", "mutant_kit.py", "mutant_runs.py"),  # without examples, and slow to import
]

settings.register_profile(
    "the same in every run",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # a loaded machine is no finding
)
settings.load_profile("the same in every run")

offers.SECONDS = 60.0  # whether an offer is found depends on no load


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="refresh what cases pin and what pages print"
    )


def _skip_of(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """The reason of a skip; None for what was not skipped, or failed as expected."""
    if not report.skipped or hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return None
    return report.longrepr[2].removeprefix("Skipped: ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip for a reason that this machine should not have is a failure."""
    report = yield
    if (reason := _skip_of(report)) is not None and (wrong := complaint(reason, os.environ)):
        report.outcome, report.longrepr = "failed", f"skipped: {reason}: {wrong}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Files of tests and those without a prompt have no examples, and are not searched for any."""
    collectors = yield
    is_test = file_path.name.startswith("test_")
    if not is_test and (file_path.suffix != ".py" or b">>> " in file_path.read_bytes()):
        return collectors
    return [each for each in collectors if not isinstance(each, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A part of a campaign is no slow test of the full tier, even if its other parts are."""
    for item in items:
        if item.get_closest_marker("campaign"):
            item.own_markers = [mark for mark in item.own_markers if mark.name != "full"]
    items[:] = beside_one_another(items)


OF_CASES = "test_cases.py", "test_laws.py", "test_notices.py"
"""Files whose tests compile the same cases."""


def beside_one_another(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The items, those of one case side by side: one process compiles it once for them."""
    first: dict[str, int] = {}

    def place(numbered: tuple[int, pytest.Item]) -> int:
        number, item = numbered
        _, _, case = item.name.partition("[")
        return first.setdefault(case, number) if case and item.path.name in OF_CASES else number

    return [item for _, item in sorted(enumerate(items), key=place)]


def order_of(files: Sequence[str], worker: int, workers: int) -> list[str]:
    """The files in the order in which a worker imports them."""
    first = worker * len(files) // workers
    return [*files[first:], *files[:first]]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fork the workers of most tests: before the fixtures of a module."""
    forked_workers.use_for(item.path.stem)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if items:
        items[0].config.stash[UNSELECTED] += len(items)


def pytest_configure(config: pytest.Config) -> None:
    """Let every proxy of this process draw noise from the stream of the test."""
    config.stash[UNSELECTED] = 0
    Entropy.__init__.__defaults__ = (STREAM,)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """The last line says how many tests were not selected, and how to run them."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["unselected"] = session.config.stash[UNSELECTED]
    yield
    unselected = session.config.stash[UNSELECTED]
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if output is None and unselected and reporter is not None:
        reporter.write_line(f"{unselected:,} tests were not selected. {REST}")


def pytest_testnodedown(node: Any) -> None:
    """Every worker of pytest-xdist selects the same."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[UNSELECTED] = max(node.config.stash[UNSELECTED], output.get("unselected", 0))


def pytest_collection(session: pytest.Session) -> None:
    """Thousands of collected tests are not looked through at every garbage collection."""
    gc.disable()
    worker = getattr(session.config, "workerinput", None)
    if worker is not None and HERE in {Path(each).resolve() for each in session.config.args}:
        import_from(int(worker["workerid"].removeprefix("gw")), worker["workercount"])


def import_from(worker: int, workers: int) -> None:
    """Import the test files, each worker from another one on.

    On a fresh clone pytest rewrites and Python compiles all of them. Workers that began with the
    same file would do so all at once, and all in vain but one.
    """
    files = sorted(path.stem for path in HERE.glob("test_*.py"))
    for name in order_of(files, worker, workers):
        with suppress(Exception, pytest.skip.Exception):  # is raised again where it is reported
            import_module(f"{__package__}.{name}")


COLLECTED = 50_000, 20, 20
"""Thresholds of the garbage collector: trees have very many nodes, and no cycles."""


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    gc.enable()


def pytest_unconfigure() -> None:
    forked_workers.close()
    postgres_kit.close()
    gc.unfreeze()
    gc.collect()


@pytest.fixture(autouse=True)
def _same_draws(request: pytest.FixtureRequest) -> None:
    STREAM.restart(request.node.nodeid)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """The proxy of a shop."""
    with Proxy.open(str(shop(tmp_path_factory.mktemp("proxy") / "shop"))) as opened:
        yield opened


@pytest.fixture
def client(proxy: Proxy) -> Client:
    """A session of the wire over it."""
    return Client(proxy)
