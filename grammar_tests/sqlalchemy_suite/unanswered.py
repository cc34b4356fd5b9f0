"""Tests that SQLAlchemy gates by no requirement, and why they cannot pass; a pytest plugin."""

from __future__ import annotations

import os

import pytest

UNANSWERED = {
    "test_get_view_names": "there are no views",
    "test_string_length_reflection": "a policy knows no lengths of texts",
    "test_long_convention_name[ix": "there are no indexes",
}
"""Part of a test's name, and the reason."""


def class_of(item: pytest.Item) -> str:
    """The class of a test, without its parameters."""
    return item.nodeid.split("[")[0].rpartition("::")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips them, with their reason. One class in so many is run, where the environment says so."""
    every = int(os.environ.get("DPSQL_ONE_CLASS_IN", "1"))
    classes = {name: n for n, name in enumerate(dict.fromkeys(map(class_of, items)))}
    items[:] = [item for item in items if classes[class_of(item)] % every == 0]
    for item in items:
        for words, reason in UNANSWERED.items():
            if words in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))
