"""The SQLAlchemy dialect `dpsql:///dpsql.toml?analyst=ana`; needs the extra `sqlalchemy`."""

from dpsql.interfaces.sqlalchemy.dpsql_dialect import DpsqlDialect

__all__ = ["DpsqlDialect"]
