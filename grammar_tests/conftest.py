"""Options of the suite, and the catalogs every case is compiled over."""

from __future__ import annotations

import pytest

collect_ignore = [
    "sqlalchemy_suite",  # with a pytest plugin of its own: test_sqlalchemy_suite.py
    "clients",  # programs that test_more_clients.py runs
]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="refresh the pinned sections of the case files"
    )
