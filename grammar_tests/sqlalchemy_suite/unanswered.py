"""Tests that SQLAlchemy gates by no requirement, and why they cannot pass; a pytest plugin."""

from __future__ import annotations

import pytest

UNANSWERED = {
    "test_get_view_names": "there are no views",
    "test_string_length_reflection": "a policy knows no lengths of texts",
    "test_long_convention_name[ix": "there are no indexes",
}
"""Part of a test's name, and the reason."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips them, with their reason."""
    for item in items:
        for words, reason in UNANSWERED.items():
            if words in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))
