"""SQLAlchemy's own pytest plugin, over the scratch dialect; run by test_sqlalchemy_suite.py."""

# ruff: noqa: E402, F403 - as SQLAlchemy's guide for dialects has it

import pytest
from sqlalchemy.dialects import registry

registry.register("dpsql", "dpsql.interfaces.sqlalchemy", "DpsqlDialect")
registry.register(
    "dpsql.scratch", "grammar_tests.sqlalchemy_suite.scratch_dialect", "ScratchDialect"
)
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *
