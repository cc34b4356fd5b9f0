"""The suite of dbapi-compliance, unchanged, over the scratch driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dbapi20
import pytest

from dpsql.interfaces import dbapi
from grammar_tests.scratch import Scratch


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The driver module, whose `connect` leads to a scratch database."""
    names = {name: getattr(dbapi, name) for name in dbapi.__all__}
    scratch = Scratch(tmp_path_factory.mktemp("compliance"))
    return SimpleNamespace(**{**names, "connect": scratch.connect})


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    @pytest.fixture(autouse=True)
    def _driver(self, driver: Any) -> None:
        self.driver = driver

    def test_setoutputsize(self) -> None:
        """The suite leaves this to the driver: the size of large values has no effect."""
        cursor = self._connect().cursor()
        cursor.setoutputsize(1)
        assert cursor.execute("SELECT 'long' AS text").fetchone() == ("long",)

    def test_nextset(self) -> None:
        """The suite leaves this to the driver: there is one result at a time."""
        assert not hasattr(self._connect().cursor(), "nextset")
