"""Collection of local reports for a table of a policy: validation, and Parquet files.

Error messages never repeat an invalid report: SECURITY.md S26.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpsql.ledgers.mark import sync_folder
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import MissingExtra, PolicyError
from dpsql.policy.draft import Draft
from dpsql.systems.local.questions import LocalQuestion, asked_in

Row = tuple[str | None, ...]
"""A report or None for each question, in the order of the policy."""

MOST_ROWS = 100
"""Maximum number of rows of one post."""

_ARROW = {bool: "bool", int: "int64", Decimal: "double", date: "date32", str: "string"}


class NoReports(ValueError):
    """Raised if a post does not hold valid reports. The message never repeats its content."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A table of reports, and the folder of its Parquet files."""

    table: str
    questions: tuple[LocalQuestion, ...]
    folder: Path
    values: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, draft: Draft, name: str) -> Collection:
        """Return the collection of a policy's table. Raises `PolicyError` if the table cannot have
        one.
        """

        def refuse(message: str, fix: str) -> PolicyError:
            return PolicyError(draft.path, draft.lines.of(("tables", name)), message, fix)

        questions, table = asked_in(draft, name), draft.table(name)
        assert table is not None
        if table.private:
            why = f"{name} is private: its rows would have to say whose they are."
            raise refuse(why, 'Write access = "public": reports are drawn before they are sent.')
        if others := [c.name for c in table.columns if c.name not in {q.name for q in questions}]:
            why = f"{name}.{others[0]} is not randomised, and nobody sends it."
            raise refuse(why, "Leave it out, or say how it is randomised.")
        for column in table.columns:
            if _arrow_type(column.values or ()) is None:
                why = f"The values of {name}.{column.name} are of several types, or are times."
                raise refuse(why, "Write all of them as texts.")
        pattern = Path(dict(draft.database.files).get(table.name, ""))
        if pattern.name != "*.parquet" or set("*?[") & set(str(pattern.parent)):
            why = f"{name} is no folder of Parquet files, which is what reports become."
            raise refuse(why, f'Write files = {{ {name} = "{name}/*.parquet" }} in [database].')
        values = tuple(column.values or () for column in table.columns)
        return cls(table.name, questions, pattern.parent, values)

    @property
    def laws(self) -> str:
        """Hash of the questions and their randomisation laws. Reports under other laws are kept
        apart.
        """
        laws = [{k: v for k, v in q.as_json().items() if k != "days"} for q in self.questions]
        return sha256(json.dumps(laws).encode()).hexdigest()

    @property
    def longest_post(self) -> int:
        """Maximum size in bytes of a post of `MOST_ROWS` rows."""
        row = {q.name: "0" * q.longest for q in self.questions}
        return MOST_ROWS * 2 * len(json.dumps(row))

    def rows_of(self, body: bytes) -> tuple[Row, ...]:
        """Parse the rows of a post. Raises `NoReports` if a row cannot be a report.

        >>> from dpsql.mechanisms.randomized_response import two_coins
        >>> bribe = LocalQuestion("bribe", ("yes", "no"), two_coins(2))
        >>> survey = Collection("survey", (bribe,), Path("survey"), (("yes", "no"),))
        >>> survey.rows_of(b'[{"bribe": "no"}]')
        (('no',),)
        >>> survey.rows_of(b'[{"bribe": "maybe"}]')
        Traceback (most recent call last):
        dpsql.systems.local.collection.NoReports: Row 1 has another bribe than its law can report.
        """
        try:
            rows = json.loads(body)
        except (ValueError, RecursionError):
            rows = None
        if not isinstance(rows, list) or not all(isinstance(row, dict) and row for row in rows):
            raise NoReports('A post is a JSON list of reports: [{"question": "report"}].')
        if not 0 < len(rows) <= MOST_ROWS:
            raise NoReports(f"A post has 1 to {MOST_ROWS} rows.")
        return tuple(self._row(number, row) for number, row in enumerate(rows, 1))

    def _row(self, number: int, row: dict[str, object]) -> Row:
        if row.keys() - {question.name for question in self.questions}:
            raise NoReports(f"Row {number} answers what {self.table} does not ask.")
        for question in self.questions:
            if question.name in row and not question.can_report(row[question.name]):
                raise NoReports(
                    f"Row {number} has another {question.name} than its law can report."
                )
        return tuple(str(row[q.name]) if q.name in row else None for q in self.questions)

    def write(self, name: str, rows: Sequence[Row]) -> None:
        """Write rows to a Parquet file. The file appears complete and durable, or not at all.

        Raises `MissingExtra` or OSError.
        """
        pa, parquet = _pyarrow()
        columns = {}
        for number, (question, values) in enumerate(zip(self.questions, self.values, strict=True)):
            bits = question.law.of_bits
            typed = {} if bits else dict(zip(question.values, values, strict=True))
            reports = [row[number] for row in rows]
            kind = pa.type_for_alias("string" if bits else _arrow_type(values))
            cells = [r if bits or r is None else _plain(typed[r]) for r in reports]
            columns[question.name] = pa.array(cells, type=kind)
        unfinished = self.folder / f".{name}.partial"
        parquet.write_table(pa.table(columns), unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(self.folder / name)
        sync_folder(str(self.folder / name))


def require_files() -> None:
    """Raise `MissingExtra` unless Parquet files can be written."""
    _pyarrow()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        message = "Collecting reports needs the extra local: pip install 'dpsql[local]'."
        raise MissingExtra(message) from None
    return pa, pyarrow.parquet


def _arrow_type(values: Sequence[object]) -> str | None:
    kinds = {type(value) for value in values}
    kinds = {Decimal} if kinds == {int, Decimal} else kinds
    return _ARROW.get(kinds.pop()) if len(kinds) == 1 else None


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value
