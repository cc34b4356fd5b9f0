"""Options of the suite, what makes every run the same, and a proxy that a module's tests share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from dpsql.proxy import Proxy
from grammar_tests.draws import STREAM
from grammar_tests.proxy_kit import shop
from grammar_tests.session_kit import Client

collect_ignore = [
    "sqlalchemy_suite",  # with a pytest plugin of its own: test_sqlalchemy_suite.py
    "clients",  # programs that test_more_clients.py runs
]

settings.register_profile(
    "the same in every run",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # a loaded machine is no finding
)
settings.load_profile("the same in every run")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="refresh what cases pin and what pages print"
    )


def pytest_collection_finish() -> None:
    """Thousands of collected tests are not looked through at every garbage collection."""
    gc.freeze()


def pytest_unconfigure() -> None:
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
