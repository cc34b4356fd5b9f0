"""Rows of the owner's tables that a store contains, and rows that were added later.

Parquet files are identified by path, device, inode, size and time of the last write. Rows of a
DuckDB table are those below a `rowid`, identified by their number and by two sums of hashes of
rowid and values. Rows of views and of CSV files cannot be identified.

Proof (PRIVACY.md R87). The added rows are all other rows, and they are counted: earlier and added
rows together are all rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpsql.engines.duckdb.file_views import view_of
from dpsql.engines.duckdb.files import Signature, Sources, name, text
from dpsql.model.dataclass import dataclass
from dpsql.model.table_names import address, parts


@dataclass(frozen=True, slots=True)
class TakenRows:
    """The owner's tables: `rows` runs queries over them; `signature` identifies the opened
    files.
    """

    rows: Callable[[str], Sequence[tuple[Any, ...]]]
    sources: Sources
    signature: Signature
    connection: Any

    def mark(self, table: str) -> str:
        """Return a mark by which the present rows can be recognised later; "" if there is none."""
        if self.sources.path is None:
            files = self._files(table)
            return json.dumps({"files": list(files.values())}) if _all_parquet(files) else ""
        columns = self._columns(table)
        if not columns:
            return ""
        ((end,),) = self.rows(f"SELECT COALESCE(MAX(rowid) + 1, 0) FROM {address(table)}")
        sums = self._sums(table, columns, end)
        return json.dumps({"columns": columns, "end": end, "sums": sums})

    def since(self, table: str, rows: int, mark: str) -> str | None:
        """Return an item of FROM with the rows added since the table had `rows` rows and this
        mark.

        None if that is unknown, or if rows were deleted or changed.
        """
        evidence = json.loads(mark or "{}")
        of = self._of_files if self.sources.path is None else self._of_table
        source = of(table, evidence)
        if source is None:
            return None
        ((every,),) = self.rows(f"SELECT COUNT(*) FROM {address(table)}")
        ((came,),) = self.rows(f"SELECT COUNT(*) FROM {source}")
        return source if rows + came == every else None

    def _of_files(self, table: str, evidence: Mapping[str, Any]) -> str | None:
        files = self._files(table)
        before = {tuple(each) for each in evidence.get("files", ())}
        if not before or not _all_parquet(files) or not before <= set(files.values()):
            return None
        added = [path for path, stamped in files.items() if stamped not in before]
        view = view_of(self.connection, self._spelled(table), list(files), self.sources, added)
        return f"({view.select})"

    def _spelled(self, table: str) -> str:
        return next(each for each, _files in self.sources.files if each.lower() == table.lower())

    def _of_table(self, table: str, evidence: Mapping[str, Any]) -> str | None:
        columns = self._columns(table)
        if not columns or evidence.get("columns") != columns:
            return None
        if evidence["sums"] != self._sums(table, columns, evidence["end"]):
            return None
        return f"(SELECT * FROM {address(table)} WHERE rowid >= {int(evidence['end'])})"

    def _files(self, table: str) -> Mapping[str, tuple[Any, ...]]:
        """Return the files of a table, each with its stamp."""
        stamps = {path: (path, *stamped) for path, *stamped in self.signature}
        matches = {each.lower(): paths for each, paths in self.sources.matches().items()}
        return {path: stamps[path] for path in matches[table.lower()]}

    def _columns(self, table: str) -> list[list[str]]:
        """Return columns and types of a table of the database; empty for a view."""
        schema, own = parts(table) or (None, table)
        listed = self.rows(
            "SELECT c.column_name, c.data_type FROM duckdb_columns() AS c"
            " JOIN duckdb_tables() AS t USING (table_oid, database_oid)"
            f" WHERE t.database_name = current_database() AND lower(t.schema_name) ="
            f" lower({text(schema or 'main')}) AND lower(t.table_name) = lower({text(own)})"
            " ORDER BY c.column_index"
        )
        return [list(each) for each in listed]

    def _sums(self, table: str, columns: list[list[str]], end: int) -> list[str]:
        """Return the number of rows below a rowid, and sums of their hashes."""
        hashed = ", ".join(["rowid", *(name(column) for column, _kind in columns)])
        ((*sums,),) = self.rows(
            "SELECT COUNT(*)::VARCHAR, BIT_XOR(h)::VARCHAR, SUM(h)::VARCHAR"
            f" FROM (SELECT hash({hashed}) AS h FROM {address(table)} WHERE rowid < {int(end)})"
        )
        return [str(each) for each in sums]


def _all_parquet(files: Mapping[str, object]) -> bool:
    return all(path.lower().endswith(".parquet") for path in files)
