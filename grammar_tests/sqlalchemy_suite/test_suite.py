"""All that SQLAlchemy asks of a dialect."""

# ruff: noqa: F403

from sqlalchemy.testing.suite import *
