"""The product's dialect over a database that the suite can write to."""

# ruff: noqa: ARG002, N802 - SQLAlchemy's names

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy.dialects.postgresql.base import PGTypeCompiler
from sqlalchemy.sql.compiler import DDLCompiler

from dpsql.interfaces.sqlalchemy import DpsqlDialect
from grammar_tests.scratch import Scratch


@cache
def scratch() -> Scratch:
    """The one database of the run."""
    return Scratch(Path(tempfile.mkdtemp()))


class ScratchTypes(PGTypeCompiler):
    """Types of columns as DuckDB has them and dpsql reads them."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE PRECISION"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE PRECISION"


class ScratchTables(DDLCompiler):
    """CREATE TABLE for DuckDB: keys that count, and no links between tables."""

    def get_column_specification(self, column: Any, **kwargs: Any) -> str:
        text = super().get_column_specification(column, **kwargs)
        if column is not column.table._autoincrement_column or "DEFAULT" in text:
            return text
        return f"{text} DEFAULT nextval('{column.table.name}_{column.name}')"

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> str:
        return "CHECK (true)"


class ScratchDialect(DpsqlDialect):
    """DpsqlDialect whose connections lead to the scratch database."""

    driver = "scratch"
    supports_statement_cache = True
    ddl_compiler = ScratchTables
    type_compiler_cls = ScratchTypes

    def connect(self, *_cargs: Any, **_cparams: Any) -> Any:
        """A connection that can write."""
        return scratch().connect(dialect="postgres")
