"""Answers for programs: JSON, JSON lines, CSV and Parquet.

Every numeric column `n` is followed by `n_margin`, the half width of its 95 % interval. It is
absent (null, empty) for exact values, and NaN for noisy values of unknown error. `n_low` and
`n_high` are the ends of the interval, absent where there is none. The columns depend only on the
query's text. Decimals and large integers keep every digit; dates are ISO 8601. In JSON, a column
with notices is followed by `n_notice`, in words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from io import BufferedIOBase, BytesIO, RawIOBase
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from dpsql.interfaces.amounts import significant_places
from dpsql.interfaces.data_frames import arrow_type, plain, unique
from dpsql.interfaces.sentences import sentence
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import MissingExtra
from dpsql.model.interval_ends import Half, Halves, ends
from dpsql.model.table import Repeated
from dpsql.model.tree import DOUBLE, INTERVAL, SqlType
from dpsql.model.value_texts import exact_text
from dpsql.model.vocabulary import Answer, Column

if TYPE_CHECKING:
    from dpsql.model.stored import Flow, Stored
    from dpsql.model.table import Table

_MARGIN, _LOW, _HIGH = "_margin", "_low", "_high"
_NOTICE = "_notice"
_BETWEEN = ",\n "
"""Separator of two objects in a JSON array."""
Write: TypeAlias = Callable[[str | bytes], None]


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """A column of the output: its unique name, its type, and the source of its cells.

    It has the numbers themselves, or what stands `beside` them.
    """

    name: str
    type: SqlType
    source: int
    beside: str = ""

    def cell(self, value: Any, margin: float | None, half: Half) -> Any:
        """The cell for a number; an end that is not known is None."""
        match self.beside:
            case "":
                return value
            case "_margin":
                return margin
            case _:
                low, high = ends(value, margin, half) or (None, None)
                end = low if self.beside == _LOW else high
                return end if end is None or isinstance(end, timedelta) or isfinite(end) else None


def record_columns(answer: Answer, *, margins: bool = True) -> tuple[RecordColumn, ...]:
    """Return the output columns of an answer. A repeated name gets a number."""
    taken: set[str] = set()
    columns = []
    for i, column in enumerate(answer.columns):
        columns.append(RecordColumn(unique(column.name, taken), column.type, i))
        if margins and column.type.is_measured:
            name, kind = columns[-1].name, column.type if column.type == INTERVAL else DOUBLE
            for beside in (_MARGIN, _LOW, _HIGH):
                own = DOUBLE if beside == _MARGIN else kind
                columns.append(RecordColumn(unique(name + beside, taken), own, i, beside))
    return tuple(columns)


ENDS = {"columns": ("*_low", "*_high"), "superset": ("*__yhat_lower", "*__yhat_upper")}
"""Names of the two ends of the interval of a number `*`, by the style that is asked for.

Superset draws a band between columns of its two names.
"""
_LONGEST_PATTERN = 63


def end_patterns(style: str) -> tuple[str, str]:
    """Return the two names of a style, or a pattern of two names. Raises ValueError.

    >>> end_patterns("columns"), end_patterns("lo_*, hi_*")
    (('*_low', '*_high'), ('lo_*', 'hi_*'))
    """
    low, comma, high = (part.strip() for part in style.partition(","))
    if style in ENDS:
        return ENDS[style]
    are_names = all(p.count("*") == 1 and p.isprintable() and p != "*" for p in (low, high))
    if not (comma and are_names and low != high) or max(map(len, (low, high))) > _LONGEST_PATTERN:
        raise ValueError(style)
    return low, high


def with_rounded_fractions(answer: Answer) -> Answer:
    """Return the answer with noisy fractions rounded to two digits of their half-widths.

    12.3456 ± 0.5 becomes 12.35. The intervals stay where they are, so that a rounded number is not
    always in the middle. One that ends at its number ends at the rounded one.
    """
    if answer.flow is not None:
        return answer
    exact: Halves = (None,) * len(answer.columns)
    given = answer.halves or Repeated(exact, len(answer.rows))
    cells = zip(answer.rows, answer.margins, given, strict=True)
    rounded = [list(map(_rounded, row, margins, halves or exact)) for row, margins, halves in cells]
    return replace(
        answer,
        rows=tuple(tuple(value for value, _, _ in row) for row in rounded),
        margins=tuple(tuple(margin for _, margin, _ in row) for row in rounded),
        halves=tuple(tuple(half for _, _, half in row) for row in rounded),
    )


def _rounded(value: Any, margin: float | None, half: Half) -> tuple[Any, float | None, Half]:
    """Return a number with its margin and half, rounded if it is a noisy fraction."""
    if margin is None or not isfinite(margin) or margin <= 0:
        return value, margin, half
    if not isinstance(value, float | Decimal) or not isfinite(value):
        return value, margin, half
    shown = round(value, significant_places(margin))
    below, above = half or (margin, margin)
    moved = float(shown - value)  # type: ignore[operator]
    halves = max(below + moved, 0.0), max(above - moved, 0.0)
    return shown, max(halves), halves


def end_columns(columns: Sequence[Column], style: str = "columns") -> tuple[Column, ...]:
    """Return two columns, low and high, for every numeric column. Depends only on the query's text.

    >>> from dpsql.model.tree import INTEGER, VARCHAR
    >>> [c.name for c in end_columns([Column("city", VARCHAR), Column("n", INTEGER)])]
    ['n_low', 'n_high']
    """
    taken = {column.name for column in columns}
    return tuple(
        Column(unique(end.replace("*", c.name), taken), c.type if c.type == INTERVAL else DOUBLE)
        for c in columns
        if c.type.is_measured
        for end in end_patterns(style)
    )


def with_end_columns(answer: Answer, style: str = "columns") -> Answer:
    """Return the answer with `end_columns` after all others: NULL for exact, NaN for unknown."""
    more = end_columns(answer.columns, style)
    places = [n for n, column in enumerate(answer.columns) if column.type.is_measured]
    nothing = (None,) * len(more)
    return replace(
        answer,
        columns=(*answer.columns, *more),
        rows=tuple(
            (*row, *(end for n in places for end in pairs[n] or (None, None)))
            for row, pairs in zip(answer.rows, answer.intervals, strict=True)
        ),
        errors=tuple((*errors, *nothing) for errors in answer.errors),
        margins=tuple((*margins, *nothing) for margins in answer.margins),
        halves=tuple(halves and (*halves, *nothing) for halves in answer.halves),
    )


def record_rows(answer: Answer, columns: tuple[RecordColumn, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an answer, with the cells of its output columns."""
    exact: Halves = (None,) * len(answer.columns)
    rows = answer.halves or Repeated(exact, len(answer.rows))
    for row, margins, halves in zip(answer.rows, answer.margins, rows, strict=True):
        ends = halves or exact
        yield tuple(c.cell(row[c.source], margins[c.source], ends[c.source]) for c in columns)


def flowed(answer: Answer, write: Write, style: str) -> Answer:
    """Return the answer. A stream is written first, in one of the styles of `FLOWING`."""
    if answer.flow is not None:
        FLOWING[style](answer, answer.flow, write)
    return answer


def _part(answer: Answer, rows: Sequence[tuple[Any, ...]]) -> Answer:
    """Return an answer with some rows of a stream, all of them exact."""
    return replace(answer, rows=rows, margins=Repeated((None,) * len(answer.columns), len(rows)))


def _flow_csv(answer: Answer, flow: Flow, write: Write) -> None:
    write(_csv_head(answer))
    flow.into(lambda table: write(_csv_body(_part(answer, table))))


def _flow_json_lines(answer: Answer, flow: Flow, write: Write) -> None:
    flow.into(lambda table: write(json_lines(_part(answer, table))))


def _flow_json_array(answer: Answer, flow: Flow, write: Write) -> None:
    before = "["

    def take(table: Table) -> None:
        nonlocal before
        write(before + _BETWEEN.join(_json_objects(_part(answer, table))))
        before = _BETWEEN

    flow.into(take)
    write("]\n")


def _flow_parquet(answer: Answer, flow: Flow, write: Write) -> None:
    """Write a stream as Parquet. Integer types depend on all rows, so they wait in a file."""
    rows = flow.stored()
    parts = (_part(answer, table) for table in rows.tables())
    _write_parquet(parts, _part(answer, _extremes(rows, len(answer.columns))), _Sink(write))


def json_lines(answer: Answer, *, margins: bool = True) -> str:
    """Return one JSON object per row and line."""
    return "".join(f"{record}\n" for record in _json_objects(answer, margins=margins))


def json_array(answer: Answer, *, margins: bool = True) -> str:
    """Return one JSON array of row objects."""
    return f"[{_BETWEEN.join(_json_objects(answer, margins=margins))}]\n"


def _json_objects(answer: Answer, *, margins: bool = True) -> Iterator[str]:
    columns = record_columns(answer, margins=margins)
    labels = [json.dumps(column.name) for column in columns]
    behind = _json_notices(answer, columns)
    for record in record_rows(answer, columns):
        pairs = zip(labels, record, behind, strict=True)
        texts = (f"{label}: {json_scalar(value)}{notice}" for label, value, notice in pairs)
        yield "{" + ", ".join(texts) + "}"


def _json_notices(answer: Answer, columns: tuple[RecordColumn, ...]) -> list[str]:
    """Return the JSON to append to each output column: its notices, if any."""
    taken, behind = {column.name for column in columns}, [""] * len(columns)
    for place, _ in enumerate(answer.columns):
        about = [n for n in answer.notices if place in n.places]
        if about:
            own = [n for n, column in enumerate(columns) if column.source == place]
            name = unique(f"{columns[own[0]].name}{_NOTICE}", taken)
            text = "; ".join(sentence(notice, answer.columns) for notice in about)
            behind[own[-1]] = f", {json.dumps(name)}: {json.dumps(text, ensure_ascii=False)}"
    return behind


def json_scalar(value: Any) -> str:
    """Return a value as JSON, with every digit of numbers. NaN and infinities become strings.

    >>> json_scalar(Decimal("1.50")), json_scalar(2**70), json_scalar(float("nan"))
    ('1.50', '1180591620717411303424', '"NaN"')
    """
    match value:
        case None | bool() | int() | str():
            return json.dumps(value)
        case Decimal():
            return format(value, "f")
        case float() if isfinite(value):
            return repr(value)
        case _:
            return json.dumps(_text(value))


def csv(answer: Answer, *, margins: bool = True) -> str:
    """Return CSV by RFC 4180 with line feeds. NULL is an empty field, an empty string is quoted."""
    return _csv_head(answer, margins=margins) + _csv_body(answer, margins=margins)


FORMULA = tuple("=+-@\t\r")
"""First characters of texts that a spreadsheet would evaluate."""


def csv_of_clients(answer: Answer) -> str:
    r"""Return CSV of texts by clients. A `'` is put before texts that look like formulas.

    >>> from dpsql.model.tree import VARCHAR
    >>> from dpsql.model.vocabulary import Column
    >>> row = ("=1+2", "SELECT 1")
    >>> columns = Column("client", VARCHAR), Column("text", VARCHAR)
    >>> csv_of_clients(Answer(columns, (row,), ((None, None),), ((None, None),)))
    "client,text\n'=1+2,SELECT 1\n"
    """
    rows = (
        tuple(f"'{x}" if isinstance(x, str) and x.startswith(FORMULA) else x for x in row)
        for row in answer.rows
    )
    return csv(replace(answer, rows=tuple(rows)))


def _csv_head(answer: Answer, *, margins: bool = True) -> str:
    names = (column.name for column in record_columns(answer, margins=margins))
    return ",".join(map(_csv_field, names)) + "\n"


def _csv_body(answer: Answer, *, margins: bool = True) -> str:
    records = record_rows(answer, record_columns(answer, margins=margins))
    return "".join(",".join(map(_csv_field, record)) + "\n" for record in records)


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    text = _text(value)
    in_quotes = not text or text != text.strip() or any(c in ',"\r\n' for c in text)
    return '"' + text.replace('"', '""') + '"' if in_quotes else text


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else exact_text(value)


def require_parquet() -> None:
    """Raise MissingExtra unless Parquet can be written. Called before anything is charged."""
    try:
        import pyarrow.parquet  # noqa: F401, PLC0415
    except ImportError:
        message = "Parquet needs the extra: pip install 'dpsql[parquet]'."
        raise MissingExtra(message) from None


def parquet(answer: Answer, *, margins: bool = True) -> bytes:
    """Return a Parquet file: INTEGER as INT64, DECIMAL(p, s) as DECIMAL(38, s), others by name.

    An INTEGER column with a value beyond 64 bits becomes DECIMAL(38, 0). Raises MissingExtra.
    """
    sink = BytesIO()
    _write_parquet([answer], answer, sink, margins=margins)
    return sink.getvalue()


def _write_parquet(
    parts: Iterable[Answer],
    extremes: Answer,
    sink: BufferedIOBase | RawIOBase,
    *,
    margins: bool = True,
) -> None:
    """Write the parts of an answer. `extremes` has rows with the least and greatest values."""
    require_parquet()
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = record_columns(extremes, margins=margins)
    fields = [
        pa.field(column.name, arrow_type(pa, column.type, values))
        for column, values in zip(columns, _cells(extremes, columns), strict=True)
    ]
    schema = pa.schema(fields)
    with pq.ParquetWriter(sink, schema) as writer:
        for part in parts:
            arrays = [
                pa.array(plain(column.type, values), type=field.type)
                for column, field, values in zip(
                    columns, schema, _cells(part, columns), strict=True
                )
            ]
            writer.write_table(pa.table(arrays, schema=schema))


def _cells(answer: Answer, columns: tuple[RecordColumn, ...]) -> list[list[Any]]:
    records = list(record_rows(answer, columns))
    return [[record[i] for record in records] for i in range(len(columns))]


def _extremes(rows: Stored, count: int) -> list[tuple[Any, ...]]:
    """Return two rows: the minimum and the maximum of integer columns, None for others."""
    from dpsql.model.table import listed  # noqa: PLC0415 - the command line starts without NumPy

    extremes: list[tuple[int, int] | None] = [None] * count
    for table in rows.tables():
        for place, column in enumerate(map(listed, table.columns)):
            whole = [value for value in column if type(value) is int]
            if whole:
                least, most = extremes[place] or (whole[0], whole[0])
                extremes[place] = min(least, *whole), max(most, *whole)
    return [tuple(None if pair is None else pair[end] for pair in extremes) for end in (0, 1)]


class _Sink(RawIOBase):
    """A write-only file without seeking."""

    def __init__(self, put: Write) -> None:
        self._put = put

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        data = bytes(content)
        self._put(data)
        return len(data)


FLOWING: dict[str, Callable[[Answer, Flow, Write], None]] = {
    "csv": _flow_csv,
    "jsonl": _flow_json_lines,
    "json": _flow_json_array,
    "parquet": _flow_parquet,
}
"""Writers of formats that can be streamed, however many rows there are."""
